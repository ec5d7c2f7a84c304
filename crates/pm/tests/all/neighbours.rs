//! Pools are mapped and grown next to other memory of the process, which must not notice.
//!
//! A mapping at a fixed address that the kernel refuses half-way leaves a hole there, into which
//! another thread's memory may fall; asking for a synchronous mapping on a medium that has none
//! did that at every growth.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pm::{Domain, Dram, Memory, Off, Pool, PoolOptions};

const SMALL: u64 = 48 << 10;
const LIMIT: u64 = 1 << 20;

fn create_and_grow(path: &Path) {
    let options = PoolOptions {
        domain: Some(Domain::Process),
        initial_bytes: 64 << 10,
        limit_bytes: LIMIT,
        ..PoolOptions::default()
    };
    let pool = Pool::create(path, &options).unwrap();
    while pool.len() < LIMIT {
        pool.grow(pool.len() + SMALL).unwrap();
        pool.store(Off::new(pool.len() - 8), u64::MAX);
    }
    drop(pool);
    std::fs::remove_file(path).unwrap();
}

fn fill_and_check(turn: u64) {
    let neighbours: Vec<Dram> = (0..4)
        .map(|_| {
            let memory = Dram::new(SMALL).unwrap();
            memory.grow(SMALL).unwrap();
            memory.store(Off::new(0), turn);
            memory
        })
        .collect();
    for memory in &neighbours {
        assert_eq!(memory.read(Off::<u64>::new(0)), Ok(turn));
    }
}

#[test]
fn growing_pools_never_touch_the_memory_of_other_threads() {
    // Not the fastest place for files but the ordinary one: a disk, if the build lies on one.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let neighbours: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for turn in 1.. {
                        fill_and_check(turn);
                        if done.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                })
            })
            .collect();
        for round in 0..200 {
            if neighbours.iter().all(|neighbour| !neighbour.is_finished()) {
                create_and_grow(&directory.path().join(format!("pool-{round}")));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
