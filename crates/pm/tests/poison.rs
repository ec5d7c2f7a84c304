//! A medium that fails under the mapping: the access ends, the pool is poisoned, the process lives.
//!
//! The failure is a file that is cut off under its mapping, which gives SIGBUS as a media error
//! does.

use std::fs::OpenOptions;

use pm::{Access, Bad, Memory, Off, POOL_DATA_START, Pool, PoolOptions};

#[test]
fn a_media_error_poisons_the_pool_and_not_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("pool"), directory.path().join("other"));
    let options = PoolOptions { initial_bytes: 1 << 20, ..PoolOptions::default() };
    let pool = Pool::create(&path, &options).unwrap();
    let sound = Pool::create(&other, &options).unwrap();
    let far = Off::<u64>::new(512 << 10);
    pool.store(far, 7);
    assert_eq!(pool.healthy(), Ok(()));
    OpenOptions::new().write(true).open(&path).unwrap().set_len(64 << 10).unwrap();

    std::hint::black_box(pool.read(far).unwrap());
    assert_eq!(pool.healthy(), Err(Bad::Poisoned));
    assert!(pool.close().is_err(), "a poisoned pool is never marked clean");
    assert_eq!(pool.read(Off::<u64>::new(POOL_DATA_START)), Ok(0), "what is still there is read");
    assert_eq!(sound.healthy(), Ok(()), "other pools are not concerned");
    drop(pool);
    let again = Pool::open(&path, &PoolOptions::default(), Access::ReadWrite);
    assert!(again.unwrap_err().to_string().contains("truncated"));
}

#[test]
fn a_store_into_a_lost_page_poisons_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let options = PoolOptions { initial_bytes: 1 << 20, ..PoolOptions::default() };
    let pool = Pool::create(&path, &options).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(64 << 10).unwrap();
    pool.store(Off::new(512 << 10), 7);
    assert_eq!(pool.healthy(), Err(Bad::Poisoned));
}
