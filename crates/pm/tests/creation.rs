//! Two that make a pool of one name: none removes what is the other one's, and neither of them what is
//! nobody's.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::Path;

use pm::{
    AroundPath, Domain, HostFiles, NewFile, NewPool, Pairing, Place, Pool, PoolError, PoolOptions,
};

const PROCESS: (Domain, bool) = (Domain::Process, false);

fn options() -> PoolOptions {
    PoolOptions { domain: Some(Domain::Process), ..PoolOptions::default() }
}

/// The place of a pool and that of its files.
fn places(directory: &Path) -> (Place, Place) {
    let place = Place::of(&directory.join("db")).expect("there is such a directory");
    let files = place.with_suffix(".files");
    (place, files)
}

fn begin((place, files): &(Place, Place)) -> Result<(NewPool, Pool), PoolError> {
    NewPool::begin(place, std::slice::from_ref(files), &options())
}

/// Makes the files of a new pool, as a database does.
fn add_files(new: &NewPool, pool: &Pool, (_, place): &(Place, Place)) -> HostFiles {
    let files = new.add_directory(pool, place.clone(), PROCESS).expect("made");
    Pairing::create(&files, pool.info().header.uuid).expect("it is empty");
    files
}

fn is_locked(path: &Path) -> bool {
    let file = File::open(path).expect("it is there");
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

#[test]
fn new_pool_is_locked_between_two_openings() {
    let directory = tempfile::tempdir().expect("a directory");
    let (places, own) = (places(directory.path()), directory.path().join("db.perdura-new"));
    let (mut new, pool) = begin(&places).expect("nothing is there");
    let uuid = pool.info().header.uuid;
    let files = add_files(&new, &pool, &places);
    assert!(matches!(new.open(&options()), Err(PoolError::InUse { .. })), "it is open");
    pool.close().expect("closed");
    drop((files, pool));
    assert!(is_locked(&own));
    assert!(matches!(begin(&places), Err(PoolError::InUse { .. })));
    let left = NewPool::sweep(&places.0, std::slice::from_ref(&places.1));
    assert!(left.is_err(), "it is none that was cut off");
    let pool = new.open(&options()).expect("it is as it was closed");
    assert_eq!(pool.info().header.uuid, uuid);
    pool.close().expect("closed");
    drop(pool);
    assert!(is_locked(&own));
    new.finish(None).expect("its name is free");
    assert!(!own.exists() && directory.path().join("db.files/identity").exists());
    let open = Pool::open(&directory.path().join("db"), &options(), pm::Access::ReadWrite);
    assert_eq!(open.expect("it is not locked any more").info().header.uuid, uuid);
}

/// A creation that fails has dropped its pool before it removes what it has made.
#[test]
fn failed_creation_removes_nothing_of_the_next() {
    let directory = tempfile::tempdir().expect("a directory");
    let places = places(directory.path());
    let (new, pool) = begin(&places).expect("nothing is there");
    drop(add_files(&new, &pool, &places));
    drop(pool);
    let made = begin(&places).map(|(next, pool)| {
        let files = add_files(&next, &pool, &places);
        (next, pool, files)
    });
    let was_refused = matches!(&made, Err(PoolError::InUse { .. }));
    drop(new);
    if let Ok((next, pool, _)) = made {
        assert!(directory.path().join("db.files/identity").exists(), "it is another one's");
        next.finish(Some(&pool)).expect("nothing has its name");
    }
    assert!(was_refused);
    assert_eq!(fs::read_dir(directory.path()).expect("read").count(), 0);
    let (next, pool) = begin(&places).expect("all of it is gone");
    add_files(&next, &pool, &places);
    next.finish(Some(&pool)).expect("nothing has its name");
}

/// It may be a disk's image, or a table.
#[test]
fn foreign_file_of_zeros_stays_and_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let (places, own) = (places(directory.path()), directory.path().join("db.perdura-new"));
    let of_zeros = [&[0; 8192][..], b"data of another program"].concat();
    for foreign in [&of_zeros[..], &of_zeros[..8192], &of_zeros[..33], b"notes"] {
        fs::write(&own, foreign).expect("written");
        let error = begin(&places).map(drop).expect_err("it is in the way");
        assert!(matches!(&error, PoolError::InTheWay { path } if *path == own), "{error}");
        let (files, name) = AroundPath::of(places.0.path()).expect("a name");
        let refused = NewFile::create(&files, &name, b"a backup").map(drop);
        let error = refused.expect_err("it is in the way");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("db.perdura-new` is in the way"), "{error}");
        assert_eq!(fs::read(&own).expect("it is there"), foreign);
        fs::remove_file(&own).expect("removed");
    }
}

/// Killed before its mark was written, or cut off while that was written.
#[test]
fn what_was_cut_off_before_its_mark_is_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (places, own) = (places(directory.path()), directory.path().join("db.perdura-new"));
    for bytes in [0, 16, 32, 2048 + 32] {
        fs::write(&own, vec![0; bytes]).expect("written");
        begin(&places).map(drop).expect("it has no contents");
        fs::write(&own, vec![0; bytes]).expect("written");
        let (files, name) = AroundPath::of(places.0.path()).expect("a name");
        let mut file = NewFile::create(&files, &name, b"a backup").expect("it has no contents");
        file.write_all(b"a backup, whole").expect("written");
        drop(file);
        assert_eq!(fs::read_dir(directory.path()).expect("read").count(), 0);
    }
}
