//! A program of its own: it forks, and no other test may hold a lock then.
//!
//! A forked child shares its parent's mapping and open file, but the pool is the parent's: the
//! child's handle refuses, and dropping it takes nothing from the parent.

use pm::{Access, Bad, Domain, File, Files, HostFiles, Memory, Pool, PoolError, PoolOptions};

#[test]
fn a_forked_child_cannot_use_the_pool_or_drop_its_lock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    // SAFETY: the child only looks at the pool and leaves by `_exit`, without running anything of
    // the parent's other threads.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let refused = pool.healthy() == Err(Bad::Forked);
        drop(pool);
        let locked = matches!(
            Pool::open(&path, &PoolOptions::default(), Access::ReadWrite),
            Err(PoolError::InUse { .. })
        );
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!(refused && locked))) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
    assert_eq!(pool.healthy(), Ok(()), "the parent goes on");
    pool.close().unwrap();
}

#[test]
fn a_forked_child_changes_no_file_of_the_parent() {
    let directory = tempfile::tempdir().unwrap();
    let files = HostFiles::create(&directory.path().join("f"), Domain::Process, false).unwrap();
    let file = files.create("a").unwrap();
    file.write_at(0, b"parent").unwrap();
    // SAFETY: the child makes system calls alone, and leaves by `_exit`, without running anything of
    // the parent's other threads.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let refused = [
            file.write_at(0, b"child").is_err(),
            file.set_len(0).is_err(),
            file.reserve(4096).is_err(),
            file.sync().is_err(),
            files.create("b").is_err(),
            files.rename("a", "b").is_err(),
            files.rename_new("a", "b").is_err(),
            files.remove("a").is_err(),
            files.sync_directory().is_err(),
        ];
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(refused.contains(&false))) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
    assert_eq!(std::fs::read(directory.path().join("f").join("a")).unwrap(), b"parent");
    file.write_at(6, b" goes on").unwrap();
    files.remove("a").unwrap();
}
