//! Does the model of time hold on engines? A test that needs no slower memory than this machine's:
//! the same transactions on little data, which the inner caches hold, and on much, which they do
//! not. From the time on little data, the lines that the emulator counts on much, and what lines
//! cost here, the model says what the time on much data is; then it is measured.
//!
//! ```text
//! retest [KIBIBYTES OF THE INNER CACHE] [TUPLES]
//! ```

use std::error::Error;
use std::time::Instant;

use lab::emulation::{Host, LineCounts, Meter, MeterOptions, Nvm};
use perdura::{Database, Domain, EngineKind, Options};
use workloads::ycsb::{self, Mix, Skew, Spec, Workload};
use workloads::{PerduraStore, RunOptions, Store};

/// Tuples that the inner caches hold.
const FEW: u64 = 500;
const TRANSACTIONS: u64 = 200_000;
const EMULATED: u64 = 40_000;

fn workload(tuples: u64, transactions: u64) -> Result<Workload, Box<dyn Error>> {
    let spec =
        Spec { tuples, transactions, mix: Mix::ReadOnly, skew: Skew::Uniform, ..Spec::default() };
    Ok(Workload::generate(&spec)?)
}

fn run<S: Store>(store: &S, workload: &Workload) -> Result<f64, Box<dyn Error>> {
    let options = RunOptions { sample_every: 0, ..RunOptions::default() };
    let started = Instant::now();
    ycsb::run(store, workload, &options, &())?;
    Ok(started.elapsed().as_nanos() as f64 / workload.spec().transactions as f64)
}

/// Nanoseconds of a transaction: the least of five runs.
fn native(engine: EngineKind, tuples: u64) -> Result<f64, Box<dyn Error>> {
    let place = tempfile::tempdir_in("/dev/shm")?;
    let path = place.path().join("pool");
    let options = Options::new().engine(engine).domain(Domain::Process);
    let database = Database::create(&path, &PerduraStore::schema(), &options)?;
    let store = PerduraStore::new(database, engine.name(), &path, 1)?;
    let workload = workload(tuples, TRANSACTIONS)?;
    ycsb::load(&store, &workload, 1, &())?;
    (0..5).map(|_| run(&store, &workload)).try_fold(f64::INFINITY, |least, ns| Ok(least.min(ns?)))
}

fn counted(
    engine: EngineKind,
    tuples: u64,
    cache_bytes: u64,
) -> Result<LineCounts, Box<dyn Error>> {
    let meter = Meter::new(MeterOptions { cache_bytes, ..MeterOptions::default() });
    let nvm = Nvm::new(&meter, 64 << 30)?;
    let database = nvm.create(&PerduraStore::schema(), &Options::new().engine(engine))?;
    let store = PerduraStore::in_memory(database, engine.name(), 1)?;
    let workload = workload(tuples, EMULATED)?;
    ycsb::load(&store, &workload, 1, &())?;
    run(&store, &workload)?;
    meter.reset();
    run(&store, &workload)?;
    Ok(meter.counts())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let cache_bytes = words.next().transpose()?.unwrap_or(2048) << 10;
    let tuples = words.next().transpose()?.unwrap_or(400_000);
    let host = Host::calibrate((tuples * 1200).next_power_of_two())?;
    println!("{host:?}\n");
    println!(
        "| engine | dependent | near | sequential | independent | ns on little data | foretold on much | measured | |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for engine in [EngineKind::NvmInp, EngineKind::NvmCow, EngineKind::NvmLog, EngineKind::Inp] {
        let counts = counted(engine, tuples, cache_bytes)?;
        let each = |lines: u64| lines as f64 / EMULATED as f64;
        let lines =
            [counts.dependent, counts.near, counts.sequential, counts.independent].map(each);
        let costs = [host.dependent_ns, host.near_ns, host.sequential_ns, host.independent_ns];
        let (little, much) = (native(engine, FEW)?, native(engine, tuples)?);
        let foretold =
            little + lines.iter().zip(costs).map(|(line, cost)| line * cost).sum::<f64>();
        println!(
            "| {engine} | {:.2} | {:.2} | {:.2} | {:.2} | {little:.0} | {foretold:.0} | {much:.0} | {:+.0}% |",
            lines[0],
            lines[1],
            lines[2],
            lines[3],
            (foretold / much - 1.0) * 100.0
        );
    }
    Ok(())
}
