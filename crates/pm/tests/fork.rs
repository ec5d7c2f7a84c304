//! A forked child shares its parent's mapping and open file, but the pool is the parent's: the
//! child's handle refuses, and dropping it takes nothing from the parent.

use pm::{Access, Bad, Memory, Pool, PoolError, PoolOptions};

#[test]
fn a_forked_child_cannot_use_the_pool_and_leaves_the_parent_its_lock() {
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
