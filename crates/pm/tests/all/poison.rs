//! A medium that fails under the mapping: the access ends, the pool is poisoned, the process lives.
//!
//! The failure is a file that is cut off under its mapping, which gives SIGBUS as a media error
//! does.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

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

fn word_in(path: &Path, at: u64) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    u64::from_le_bytes(bytes[at as usize..at as usize + 8].try_into().unwrap())
}

fn cut_off(path: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

#[test]
fn after_a_lost_store_none_reaches_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let options = PoolOptions { initial_bytes: 1 << 20, ..PoolOptions::default() };
    let pool = Pool::create(&path, &options).unwrap();
    let [early, late, lost, again] =
        [16 << 10, 32 << 10, 512 << 10, 768 << 10].map(Off::<u64>::new);
    cut_off(&path, 64 << 10);
    pool.store(early, 1);
    pool.store(lost, 2);
    pool.store(late, 3);
    pool.store(again, 4);
    pool.store(early, 5);
    // For this process it is as if nothing had happened, but for the mark.
    for (at, value) in [(early, 5), (lost, 2), (late, 3), (again, 4)] {
        assert_eq!(pool.read(at), Ok(value));
    }
    assert_eq!(pool.healthy(), Err(Bad::Poisoned));
    assert!(pool.grow(2 << 20).is_err(), "nor does the file grow");
    drop(pool);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 64 << 10);
    assert_eq!((word_in(&path, early.get()), word_in(&path, late.get())), (1, 0));
}

/// Each thread stores into pages of its own; what it stores after having heard of the loss is
/// marked. Several lose a store at the same time.
#[test]
fn nor_does_a_store_of_another_thread_that_knows_of_it() {
    const MARK: u64 = 1 << 63;
    const THREADS: u64 = 4;
    let directory = tempfile::tempdir().unwrap();
    for round in 0..40 {
        let path = directory.path().join(format!("pool-{round}"));
        let options = PoolOptions { initial_bytes: 1 << 20, ..PoolOptions::default() };
        let pool = Pool::create(&path, &options).unwrap();
        cut_off(&path, 256 << 10);
        let known = AtomicBool::new(false);
        let place = |thread: u64, turn: u64| (8 + thread * 8 + turn % 8) * 4096;
        std::thread::scope(|scope| {
            let (pool, known) = (&pool, &known);
            for thread in 0..THREADS {
                scope.spawn(move || {
                    let mut after = 0;
                    for turn in 1.. {
                        let heard = known.load(Ordering::Acquire);
                        let value = if heard { MARK | turn } else { turn };
                        pool.store(Off::new(place(thread, turn)), value);
                        after += u64::from(heard);
                        if thread < 2 && turn == 100 * (round + 1) {
                            // Lost, of the same page or of two.
                            pool.store(Off::new((512 << 10) + thread * 2048 * (round % 4)), 7);
                            known.store(true, Ordering::Release);
                        }
                        if after == 200 {
                            break;
                        }
                    }
                });
            }
        });
        assert_eq!(pool.healthy(), Err(Bad::Poisoned));
        drop(pool);
        let stored = |thread, turn| word_in(&path, place(thread, turn));
        let all: Vec<u64> = (0..THREADS)
            .flat_map(|thread| (0..8).map(move |turn| (thread, turn)))
            .map(|(thread, turn)| stored(thread, turn))
            .collect();
        assert!(all.iter().all(|value| value & MARK == 0), "round {round}: {all:x?}");
        assert!(all.iter().any(|value| *value != 0), "round {round}: something came before");
        std::fs::remove_file(&path).unwrap();
    }
}
