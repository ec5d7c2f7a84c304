//! `perdura bench ycsb --readers --writers`: threads that read and threads that write in the same
//! partition, through [`Database::read`](perdura::Database::read) and
//! [`Database::write`](perdura::Database::write), so that no thread owns it.
//!
//! Each engine is created and loaded, then goes through phases of the same length. The phases take
//! turns of an eighth each, so that a disk that is slow for a second slows all of them.
//!
//! 1. all readers, alone;
//! 2. one writer, alone;
//! 3. all writers, alone, if there are several;
//! 4. all readers together with one writer.
//!
//! A read fetches a whole tuple. A write updates one and returns when it is durable. A rate is the
//! sum over all threads of its kind.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use command::failure::Failure;
use command::figures::{fine, whole};
use command::host::Host;
use command::output::{Report, check_target, report, table};
use command::progress::Bar;
use command::scratch::Scratch;
use command::settings::{background_name, commit_name, database_options};
use command::system::create_store;
use command::units::grouped;
use perdura::{Database, EngineKind, Error, Table, Value};
use serde::Serialize;
use workloads::Commit;
use workloads::ycsb::{self, COLUMN_BYTES, COLUMNS, ROW_BYTES, Workload};

use super::growth;
use crate::args::YcsbArgs;
use crate::plan::Plan;

/// Keys that the threads go over, again and again.
const KEYS: u64 = 100_000;

/// Turns in which the phases run.
const TURNS: u32 = 8;

/// A run as programs read it; others rely on the keys to the letter. What was not asked for is null.
#[derive(Debug, Clone, Serialize)]
struct Run {
    engine: &'static str,
    workload: &'static str,
    skew: &'static str,
    tuples: u64,
    readers: u32,
    writers: u32,
    domain: &'static str,
    modelled: bool,
    commit: &'static str,
    background: &'static str,
    seed: u64,
    /// The length of each phase.
    seconds: f64,
    /// Reads per second of all readers, alone and with one writer; the second divided by the first.
    reads_s_alone: Option<f64>,
    reads_s_beside: Option<f64>,
    reads_ratio: Option<f64>,
    /// Writes per second of one writer alone, of all writers, and of one writer with the readers.
    writes_s_one: f64,
    writes_s_all: f64,
    writes_s_beside: Option<f64>,
    /// All writers, divided by one.
    writes_ratio: f64,
}

/// Runs the benchmark.
///
/// # Errors
/// Options that contradict each other, or a store that failed.
pub(super) fn run(args: &YcsbArgs) -> Result<(), Failure> {
    let plan = Plan::new(&args.common, &args.peers.peer.0)?;
    let engines: Vec<EngineKind> =
        args.common.engine.0.iter().copied().filter(|_| args.peers.peer.0.is_empty()).collect();
    let usage = |why: &str| Err(Failure::Usage(why.into()));
    if engines.is_empty() {
        return usage("--readers and --writers run on engines, not on peers");
    }
    if args.common.partitions > 1 || args.common.workers.is_some() {
        return usage("--readers and --writers share one partition; they replace --workers");
    }
    let [tuples] = args.tuples[..] else {
        return usage("--readers and --writers need one size of --tuples");
    };
    if plan.run.commit != Commit::Durable {
        return usage("--readers and --writers need durable commits");
    }
    if args.fifths || args.statements || args.inline {
        return usage("--readers and --writers go with none of --fifths, --statements, --inline");
    }
    check_target(args.common.json.as_ref(), &[])?;
    let scratch = Scratch::new(args.common.path.as_deref(), args.common.keep)?;
    let host = Host::new(scratch.medium());
    growth::require(&plan.systems, tuples, &scratch)?;
    let bar = Bar::new();
    let mut runs = Vec::new();
    for &engine in &engines {
        for &skew in &args.skew.0 {
            let name = format!("{engine}.{}", skew.name());
            let directory = scratch.directory(&name)?;
            let spec = plan.ycsb(ycsb::Mix::WriteHeavy, skew, (tuples, KEYS), 1)?;
            runs.push(measure(args, &plan, engine, &spec, &directory)?);
            scratch.discard(&directory);
        }
    }
    drop(bar);
    let text = host.line() + &human_text(args, &runs);
    report(&text, &Report::new(&host, &runs), args.common.json.as_ref())
}

fn measure(
    args: &YcsbArgs,
    plan: &Plan,
    engine: EngineKind,
    spec: &ycsb::Spec,
    directory: &Path,
) -> Result<Run, Failure> {
    let options = database_options(plan.run.commit, plan.background);
    let store = create_store(engine, directory, 1, &options, plan.domain, false)?;
    let workload = Arc::new(Workload::generate(spec)?);
    ycsb::load(&store, &workload, 1, &())?;
    let db = store.database();
    db.checkpoint()?;
    let header = db.pool_info().header;
    let phase =
        Phase { db, table: db.table("usertable")?, workload: &workload, length: args.phase() };
    let readers = args.readers.unwrap_or(0);
    let writers = args.writers.unwrap_or(1);
    let asked = |rate: f64| (readers > 0).then_some(rate);
    let everybody = if writers > 1 { (0, writers) } else { (0, 0) };
    let together = if readers > 0 { (readers, 1) } else { (0, 0) };
    let [(alone, _), (_, one), (_, all), (beside, writes_beside)] =
        phase.in_turns([(readers, 0), (0, 1), everybody, together])?;
    let all = if writers > 1 { all } else { one };
    Ok(Run {
        engine: engine.name(),
        workload: "ycsb",
        skew: spec.skew.name(),
        tuples: spec.tuples,
        readers,
        writers,
        domain: header.domain.name(),
        modelled: header.modelled,
        commit: commit_name(plan.run.commit),
        background: background_name(plan.background),
        seed: spec.seed,
        seconds: phase.length.as_secs_f64(),
        reads_s_alone: asked(alone),
        reads_s_beside: asked(beside),
        reads_ratio: asked(beside / alone.max(1e-9)),
        writes_s_one: one,
        writes_s_all: all,
        writes_s_beside: asked(writes_beside),
        writes_ratio: all / one.max(1e-9),
    })
}

/// Reads and writes of a phase, and how long they took.
#[derive(Clone, Copy, Default)]
struct Done {
    reads: u64,
    writes: u64,
    seconds: f64,
}

/// A phase: so many threads for so long.
struct Phase<'a> {
    db: &'a Database,
    table: Table,
    workload: &'a Workload,
    length: Duration,
}

impl Phase<'_> {
    /// Runs phases of so many readers and writers in turns; returns reads and writes a second of each.
    fn in_turns<const N: usize>(
        &self,
        phases: [(u32, u32); N],
    ) -> Result<[(f64, f64); N], Failure> {
        let mut done = [Done::default(); N];
        for turn in 0..TURNS {
            for ((readers, writers), done) in phases.into_iter().zip(&mut done) {
                if readers + writers > 0 {
                    self.run(readers, writers, turn, done)?;
                }
            }
        }
        Ok(done.map(|done| {
            let seconds = done.seconds.max(1e-9);
            (done.reads as f64 / seconds, done.writes as f64 / seconds)
        }))
    }

    /// Runs a turn of a phase, and adds what was done in it.
    fn run(&self, readers: u32, writers: u32, turn: u32, done: &mut Done) -> Result<(), Failure> {
        let (stop, start) =
            (AtomicBool::new(false), Barrier::new((readers + writers + 1) as usize));
        thread::scope(|scope| {
            let spawn = |number: u32, act: fn(&Self, u64, u64) -> Result<(), Error>| {
                let (stop, start) = (&stop, &start);
                scope.spawn(move || {
                    start.wait();
                    let mut count = 0;
                    while !stop.load(Ordering::Relaxed) {
                        act(self, u64::from(turn << 8 | number), count)?;
                        count += 1;
                    }
                    Ok::<u64, Error>(count)
                })
            };
            let reading: Vec<_> = (0..readers).map(|number| spawn(number, Self::read)).collect();
            let writing: Vec<_> =
                (0..writers).map(|number| spawn(readers + number, Self::write)).collect();
            start.wait();
            let begun = Instant::now();
            thread::sleep(self.length / TURNS);
            stop.store(true, Ordering::Relaxed);
            for (count, threads) in [(&mut done.reads, reading), (&mut done.writes, writing)] {
                for thread in threads {
                    *count += thread.join().expect("a thread does not panic")?;
                }
            }
            done.seconds += begun.elapsed().as_secs_f64();
            Ok(())
        })
    }

    /// The tuple that a thread comes to after so many others.
    fn operation(&self, thread: u64, count: u64) -> ycsb::Operation {
        let all = self.workload.operations(0);
        all[((thread * 7919 + count) % all.len() as u64) as usize]
    }

    fn read(&self, thread: u64, count: u64) -> Result<(), Error> {
        const ALL: [u16; COLUMNS] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        let (key, mut out) = (self.operation(thread, count).key(), [0; ROW_BYTES]);
        let found =
            self.db.read(|tx| tx.get_bytes(&self.table, &[Value::U64(key)], &ALL, &mut out))?;
        assert_eq!(found, Some(ROW_BYTES), "a tuple that was loaded");
        Ok(())
    }

    fn write(&self, thread: u64, count: u64) -> Result<(), Error> {
        let operation = self.operation(thread, count);
        let mut contents = [0; COLUMN_BYTES];
        let column = operation.first_column();
        self.workload.values().fill(operation.key(), column, count % 999 + 1, &mut contents);
        let change = [((column + 1) as u16, Value::Bytes(&contents))];
        self.db.write(|tx| tx.update(&self.table, &[Value::U64(operation.key())], &change))
    }
}

fn human_text(args: &YcsbArgs, runs: &[Run]) -> String {
    let head = [
        "engine",
        "skew",
        "domain",
        "reads/s alone",
        "beside a writer",
        "ratio",
        "writes/s of one",
        "of all",
        "ratio",
        "beside readers",
    ];
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".into(), whole);
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let modelled = if run.modelled { " (modelled)" } else { "" };
            vec![
                run.engine.into(),
                run.skew.into(),
                format!("{}{modelled}", run.domain),
                rate(run.reads_s_alone),
                rate(run.reads_s_beside),
                fine(run.reads_ratio),
                whole(run.writes_s_one),
                whole(run.writes_s_all),
                fine(Some(run.writes_ratio)),
                rate(run.writes_s_beside),
            ]
        })
        .collect();
    let text = format!(
        "YCSB in one partition: {} tuples, readers: {}, writers: {}, {} s a phase\n\n",
        grouped(runs[0].tuples),
        runs[0].readers,
        runs[0].writers,
        args.phase().as_secs_f64(),
    );
    text + &table(&head.map(String::from), &rows, 3) + "\n"
}
