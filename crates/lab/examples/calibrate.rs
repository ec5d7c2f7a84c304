//! Measures the cost of a line on this host, by the size of the memory, and the speed of the cache
//! model.
//!
//! ```text
//! calibrate [MEBIBYTES...]
//! ```

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use lab::emulation::Host;
use sim::CacheModel;

fn main() -> Result<(), Box<dyn Error>> {
    let sizes: Vec<u64> =
        std::env::args().skip(1).map(|size| size.parse()).collect::<Result<_, _>>()?;
    let sizes = if sizes.is_empty() { vec![64, 256, 1024, 4096] } else { sizes };
    println!("| MiB | dependent | near | sequential | independent | near / dependent |");
    println!("|---:|---:|---:|---:|---:|---:|");
    for size in sizes {
        let host = Host::calibrate(size << 20)?;
        println!(
            "| {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} |",
            host.arena_bytes >> 20,
            host.dependent_ns,
            host.near_ns,
            host.sequential_ns,
            host.independent_ns,
            host.near_ns / host.dependent_ns,
        );
    }
    println!();
    for (name, lines) in [("all hit, of 2^18 lines", 1 << 18), ("most miss, of 2^24", 1 << 24)] {
        println!("{:.0} M accesses/s: {name}", rate(lines) / 1e6);
    }
    Ok(())
}

/// Accesses a second to lines at random, every fourth one a store.
fn rate(lines: u32) -> f64 {
    const ACCESSES: u32 = 20_000_000;
    let mut cache = CacheModel::new(20 << 20, 16);
    let mut state = 1_u64;
    let mut round = || {
        let started = Instant::now();
        for access in 0..ACCESSES {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            black_box(cache.touch((state >> 33) as u32 % lines, access % 4 == 0));
        }
        f64::from(ACCESSES) / started.elapsed().as_secs_f64()
    };
    round();
    (0..3).map(|_| round()).fold(0.0, f64::max)
}
