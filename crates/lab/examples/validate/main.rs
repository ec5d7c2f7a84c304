//! Checks the emulator against a trace of the same run: `scripts/validate-emulator` runs all of it.
//!
//! ```text
//! validate model ENGINE                    counts of the emulator, as JSON
//! validate run ENGINE DIRECTORY            the same run on native memory, to be traced
//! validate simulate DIRECTORY < TRACE      counts of another simulator, from lackey's trace
//! ```
//!
//! `keep` as the last argument lets a flush keep the line in the cache (CLWB); without it a flush
//! evicts (CLFLUSH).

mod simulator;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use lab::emulation::{Meter, MeterOptions, Nvm};
use perdura::{Database, Domain, EngineKind, Engines, Environment, Media, Options};
use pm::{Dram, Memory, Pool, PoolOptions, Range};
use sim::{Arena, MemoryFiles, Traced, TracedRegion, Tracing};
use workloads::ycsb::{self, Mix, Spec, Workload};
use workloads::{PerduraStore, RunOptions};

/// The cache of both simulators: small, since a tracer is slow and the data must not fit.
const CACHE_BYTES: u64 = 1 << 20;
const WAYS: u32 = 16;
const PARTITIONS: u32 = 2;
/// Bytes that each memory can grow to.
const LIMIT: u64 = 1 << 30;
/// Bytes that a pool and a directory of files start with, as they do elsewhere.
const INITIAL: u64 = 64 << 10;

fn spec() -> Spec {
    Spec {
        tuples: 4_000,
        transactions: 8_000,
        mix: Mix::Balanced,
        partitions: PARTITIONS as usize,
        ..Spec::default()
    }
}

fn options(engine: EngineKind) -> Options {
    Options::new()
        .engine(engine)
        .partitions(PARTITIONS)
        .tune("memtable_bytes", 512 << 10)
        // None in the run: compressing one takes hours under the tracer.
        .tune("checkpoint_bytes", 1 << 30)
        .tune("wal_reserve_bytes", 256 << 10)
        .tune("cache_bytes", 2 << 20)
}

/// Loads the database, calls `between`, and runs the workload.
fn drive<E: Environment>(
    database: Database<E>,
    between: impl FnOnce(),
) -> Result<(), Box<dyn Error>> {
    let workload = Workload::generate(&spec())?;
    let store = PerduraStore::in_memory(database, "validated", PARTITIONS as usize)?;
    ycsb::load(&store, &workload, 1, &())?;
    between();
    let options = RunOptions { sample_every: 0, ..RunOptions::default() };
    ycsb::run(&store, &workload, &options, &())?;
    store.into_database().abandon();
    Ok(())
}

/// Returns the emulator's counts. The emulator is set to what holds under the tracer: prefetches do
/// nothing, and searches halve the range, since the tracer's processor has no AVX-512.
fn model(engine: EngineKind, keep: bool) -> Result<(), Box<dyn Error>> {
    let meter = Meter::new(MeterOptions {
        cache_bytes: CACHE_BYTES,
        ways: WAYS,
        flush_evicts: !keep,
        prefetches: false,
        wide_search: false,
        ..MeterOptions::default()
    });
    let nvm = Nvm::new(&meter, LIMIT)?;
    let database = nvm.create(&PerduraStore::schema(), &options(engine))?;
    drive(database, || meter.reset())?;
    let counts = meter.counts();
    simulator::print(
        counts.load_misses(),
        counts.store_misses,
        counts.evicted_lines,
        counts.flushed_lines,
    );
    Ok(())
}

/// The same on native memory. What the tracer's reader has to know is written to `regions` before
/// anything is stored.
fn run(engine: EngineKind, directory: &Path) -> Result<(), Box<dyn Error>> {
    let pool = PoolOptions {
        domain: Some(Domain::Adr),
        model: true,
        initial_bytes: INITIAL,
        limit_bytes: LIMIT,
        catch_media_errors: false,
        ..PoolOptions::default()
    };
    let durable = Traced::pool(Pool::create(&directory.join("pool"), &pool)?)?;
    let files = Traced::arena(Arena::new(INITIAL, LIMIT)?)?;
    let control = Traced::arena(Arena::new(INITIAL, INITIAL)?)?;
    let volatile =
        (0..PARTITIONS).map(|_| Traced::dram(Dram::new(LIMIT)?)).collect::<Result<Vec<_>, _>>()?;
    let mut text = format!("control {}\n", control.region().shadow);
    for region in volatile.iter().map(Traced::region).chain([durable.region(), files.region()]) {
        let TracedRegion { base, bytes, shadow, .. } = region;
        text += &format!("memory {base} {bytes} {shadow}\n");
    }
    fs::write(directory.join("regions.new"), text)?;
    fs::rename(directory.join("regions.new"), directory.join("regions"))?;
    let volatile = Mutex::new(volatile);
    let media = Media::<Tracing> {
        durable,
        files: Some(MemoryFiles::traced(files, MeterOptions::default().lines_per_sync)),
        volatile: Box::new(move |_, _| {
            let mut volatile = volatile.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(volatile.remove(0))
        }),
        name: "traced memory".into(),
        engines: Engines::compiled_here(),
    };
    let database = Database::create_on(media, &PerduraStore::schema(), &options(engine))?;
    // A flush of the control's first line is the sign to count from here on.
    drive(database, || control.flush(Range::new(0, 8)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (words, keep) = match words.split_last() {
        Some((&"keep", rest)) => (rest, true),
        _ => (&words[..], false),
    };
    match words {
        ["model", engine] => model(engine.parse()?, keep),
        ["run", engine, directory] => run(engine.parse()?, Path::new(directory)),
        ["simulate", directory] => {
            let regions = Path::new(directory).join("regions");
            Ok(simulator::simulate(&regions, CACHE_BYTES, WAYS, keep)?)
        }
        _ => {
            Err("validate (model ENGINE | run ENGINE DIRECTORY | simulate DIRECTORY) [keep]".into())
        }
    }
}
