//! The allocator alone: what allocating and freeing costs, in time, flushed lines and fences.
//!
//! Each round allocates an object, writes it, makes it durable, marks it persisted, and frees the
//! object of a thousand rounds before: what a store that replaces objects does.
//!
//! ```text
//! cargo run --release -p perdura-heap --example allocate -- [directory, default /dev/shm]
//! ```

use std::path::PathBuf;
use std::time::Instant;

use heap::{Heap, HeapOptions, Lane, Purpose};
use pm::{Domain, LineSet, Memory, Off, Pool, PoolOptions, Range};

const ROUNDS: usize = 1_000_000;
const ALIVE: usize = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).map_or_else(|| PathBuf::from("/dev/shm"), Into::into);
    println!("{:>6}  {:>10}  {:>11}  {:>10}", "bytes", "ns/round", "lines/round", "fences/round");
    for bytes in [100u64, 1000] {
        let path = directory.join(format!("perdura-allocate-{}", std::process::id()));
        let options = PoolOptions { domain: Some(Domain::Adr), model: true, ..Default::default() };
        let pool = Pool::create(&path, &options)?;
        std::fs::remove_file(&path)?;
        let heap = Heap::format(pool.clone(), HeapOptions::default())?;
        let mut lane = heap.lane(0);
        let mut ring = Vec::new();
        rounds(&mut lane, &mut ring, bytes, ALIVE)?;
        let started = Instant::now();
        rounds(&mut lane, &mut ring, bytes, ROUNDS)?;
        let ns = started.elapsed().as_nanos() as f64 / ROUNDS as f64;
        pool.count(true);
        let before = pool.counters();
        rounds(&mut lane, &mut ring, bytes, ALIVE)?;
        let counted = pool.counters().since(&before);
        let per = |count: u64| count as f64 / ALIVE as f64;
        println!(
            "{bytes:>6}  {ns:>10.0}  {:>11.2}  {:>10.2}",
            per(counted.flushed_lines),
            per(counted.fences)
        );
    }
    Ok(())
}

fn rounds(
    lane: &mut Lane<Pool>,
    ring: &mut Vec<u64>,
    bytes: u64,
    rounds: usize,
) -> Result<(), heap::HeapError> {
    let contents = vec![7u8; bytes as usize];
    let mut lines = LineSet::new();
    for round in 0..rounds {
        let memory = lane.memory().clone();
        let object = lane.allocate(bytes, Purpose::Table)?;
        memory.copy(Off::new(object), &contents);
        lines.add(Range::new(object, bytes));
        lines.flush(&memory);
        memory.fence();
        lane.mark_persisted(object, &mut lines);
        let old = if ring.len() < ALIVE {
            ring.push(object);
            None
        } else {
            Some(std::mem::replace(&mut ring[round % ALIVE], object))
        };
        if let Some(old) = old {
            lane.clear_persisted(old, &mut lines)?;
        }
        lines.flush(&memory);
        memory.fence();
        if let Some(old) = old {
            lane.release(old);
        }
    }
    Ok(())
}
