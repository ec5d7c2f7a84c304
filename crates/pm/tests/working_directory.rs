//! A program of its own: a working directory belongs to the process.
//!
//! A relative path counts from where the process was when it opened the pool.

use std::path::Path;
use std::{env, fs};

use pm::{Access, Domain, Files, HostFiles, Place, Pool, PoolError, PoolOptions};

#[test]
fn a_relative_path_is_walked_once() {
    let scratch = tempfile::tempdir().unwrap();
    let scratch = scratch.path().canonicalize().unwrap();
    for name in ["one", "two"] {
        fs::create_dir(scratch.join(name)).unwrap();
    }
    let options = PoolOptions { domain: Some(Domain::Process), ..PoolOptions::default() };
    let make = |place: &Path| {
        env::set_current_dir(place).unwrap();
        let pool = Pool::create(Path::new("pool"), &options).unwrap();
        let files = HostFiles::create(Path::new("pool.files"), Domain::Process, false).unwrap();
        files.create("file").unwrap();
        (pool, files)
    };
    let (one, files) = make(&scratch.join("one"));
    let (two, others) = make(&scratch.join("two"));
    // Names are still those of the first directory.
    files.rename("file", "renamed").unwrap();
    files.create("another").unwrap();
    assert_eq!(files.list().unwrap(), ["another", "renamed"]);
    assert_eq!(others.list().unwrap(), ["file"]);
    files.sync_all().unwrap();
    one.close().unwrap();
    one.check_path().unwrap();
    fs::rename("../one/pool", "../one/moved").unwrap();
    match one.check_path() {
        Err(PoolError::Elsewhere { now, .. }) => assert_eq!(now, Some(scratch.join("one/moved"))),
        other => panic!("{other:?}"),
    }
    one.discard().unwrap_err();
    fs::rename("../one/moved", "../one/pool").unwrap();
    one.discard().unwrap();
    files.discard().unwrap();
    assert_eq!(fs::read_dir("../one").unwrap().count(), 0);
    two.check_path().unwrap();
    drop((two, others));

    // Links are followed once, and everything that belongs to the pool is found next to it.
    env::set_current_dir(&scratch).unwrap();
    std::os::unix::fs::symlink("two/pool", "link").unwrap();
    let place = Place::find(Path::new("link")).unwrap();
    fs::create_dir("three").unwrap();
    fs::write("three/pool", "no pool").unwrap();
    fs::remove_file("link").unwrap();
    std::os::unix::fs::symlink("three/pool", "link").unwrap();
    let pool = Pool::open_at(&place, &PoolOptions::default(), Access::ReadWrite).unwrap();
    let files =
        HostFiles::open_at(pool.place().with_suffix(".files"), Domain::Process, false).unwrap();
    assert_eq!(files.list().unwrap(), ["file"]);
    match pool.check_path() {
        Err(PoolError::Elsewhere { now, .. }) => assert_eq!(now, Some(scratch.join("two/pool"))),
        other => panic!("{other:?}"),
    }
    fs::remove_file("two/pool").unwrap();
    assert!(matches!(pool.check_path(), Err(PoolError::Removed { .. })));
}
