//! `perdura bench sqlite --readers`: one connection writes, and the others read, in threads or in processes.
//!
//! 1. As without readers, the rounds of a cell go around the modes, each with a database of its own.
//! 2. The writer's transactions are counted out, so that all modes end with the same rows. The readers read until the
//!    writer has ended: both rates are of the same span.
//! 3. The median over the rounds, and the ratio to the baseline, are each side's own.
//!
//! A process is this program, started with [`SIDE`] and its task.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use command::failure::Failure;
use command::figures::{LatencyUs, Spread, fine, whole};
use command::process::{ChildProcess, about_task, end_with_standard_input, run_task};
use command::progress::LOOK_EVERY;
use command::units::grouped;
use peers::extension::{
    ConcurrentRan, Operation, Setup, Side, SideRan, Signals, Spec, SqliteMode, Workload, combine,
    load_concurrent, run_side, run_threads,
};
use perdura::Domain;
use serde::{Deserialize, Serialize};
use workloads::Progress;

use super::page_run::{self, compare, in_turns, runs_table};
use super::sqlite::{Bench, SqliteFigures, measure, specs};
use crate::args::SqliteBenchArgs;

/// First argument of a process that is one side of a run.
pub(crate) const SIDE: &str = "__sqlite-side";

/// A run of SQLite with readers: throughput and latencies of the writer, and the readers' own.
type Run = page_run::Run<ReaderFigures>;

/// The figures that such a run has alone.
#[derive(Debug, Clone, Serialize)]
struct ReaderFigures {
    #[serde(flatten)]
    sqlite: SqliteFigures,
    readers: u32,
    processes: bool,
    /// The rate that the writer keeps to on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    writes_per_second: Option<u64>,
    /// Reading transactions a second, of all readers together.
    reads_txn_s: f64,
    reads_spread: Spread,
    read_latency_us: LatencyUs,
    /// The rate divided by that of the baseline's readers; `None` if those have read nothing.
    reads_over_baseline: Option<f64>,
}

/// Runs the benchmark.
///
/// # Errors
/// Options that contradict each other, a mode that failed, or modes that end with different contents.
pub(crate) fn run(args: &SqliteBenchArgs, readers: u32) -> Result<(), Failure> {
    let specs = specs(args, &operations(args)?);
    for spec in &specs {
        let setup = setup(SqliteMode::Wal, args, spec, readers, Path::new(""));
        setup.check().map_err(|why| Failure::Usage(why.to_string()))?;
    }
    let cell = |bench: &mut Bench<'_>, spec: &Spec| cell(bench, spec, readers);
    measure(args, &specs, cell, human_text)
}

/// The operations of writers: of all those that a writer next to readers can run.
fn operations(args: &SqliteBenchArgs) -> Result<Vec<Operation>, Failure> {
    let (named, possible) = (&args.mix.0, [Operation::Insert, Operation::Update]);
    if named[..] == Operation::ALL {
        return Ok(possible.to_vec());
    }
    match named.iter().find(|operation| !possible.contains(operation)) {
        None => Ok(named.clone()),
        Some(other) => Err(Failure::Usage(format!(
            "--mix {}: with --readers the writer inserts or updates: name --mix insert,update",
            other.name()
        ))),
    }
}

fn setup(
    mode: SqliteMode,
    args: &SqliteBenchArgs,
    spec: &Spec,
    readers: u32,
    directory: &Path,
) -> Setup {
    let domain = args.measure.domain.0.map(|domain| Domain::name(domain).to_owned());
    let signals = directory.join("signals");
    let directory = directory.join("data");
    let writes_per_second = args.writes_per_second;
    let spec = spec.clone();
    Setup { mode, spec, domain, readers, writes_per_second, directory, signals }
}

/// Runs all modes on one workload.
fn cell(bench: &mut Bench<'_>, spec: &Spec, readers: u32) -> Result<Vec<Run>, Failure> {
    let (modes, repeat) = (&bench.args.modes(), bench.args.measure.repeat);
    let workload = Workload::generate(spec).map_err(|why| Failure::Usage(why.to_string()))?;
    let rounds = in_turns(modes, repeat, |mode| once(bench, mode, &workload, readers))?;
    let mut runs = Vec::new();
    for (mode, rounds) in modes.iter().zip(rounds) {
        let rates: Vec<f64> = rounds.iter().map(|ran| ran.reads.throughput_txn_s()).collect();
        let (reads_txn_s, reads_spread, _) = Spread::of(&rates);
        let own = |ran: &peers::extension::Ran| ReaderFigures {
            sqlite: SqliteFigures::of(*mode, spec, ran),
            readers,
            processes: bench.args.processes,
            writes_per_second: bench.args.writes_per_second,
            reads_txn_s,
            reads_spread,
            read_latency_us: LatencyUs::of(rounds.iter().map(|ran| &ran.reads.latency_ns)),
            reads_over_baseline: None,
        };
        let writers: Vec<_> = rounds.iter().map(|ran| &ran.writer).collect();
        runs.push(bench.summary(*mode, spec, &writers, own)?);
    }
    compare(&mut runs, "rows")?;
    let baseline = runs.iter().find(|run| run.engine == run.baseline);
    let rate = baseline.map_or(0.0, |run| run.own.reads_txn_s);
    for run in &mut runs {
        run.own.reads_over_baseline = (rate > 0.0).then_some(run.own.reads_txn_s / rate);
    }
    Ok(runs)
}

/// Runs a mode once in a database of its own.
fn once(
    bench: &mut Bench<'_>,
    mode: SqliteMode,
    workload: &Workload,
    readers: u32,
) -> Result<ConcurrentRan, Failure> {
    let failed = |error| Failure::about(mode, error);
    let (spec, directory) = (workload.spec(), bench.next_directory(mode)?);
    let setup = setup(mode, bench.args, spec, readers, &directory);
    std::fs::create_dir(&setup.directory)
        .map_err(|error| Failure::about(setup.directory.display(), error))?;
    let what = format!("{mode}: {}, {}", spec.operation.name(), spec.keys.name());
    bench.bar.phase(format!("{what}, loading"), spec.records);
    let progress = Progress::new(1);
    let load = || load_concurrent(&setup, workload, &progress);
    bench.bar.watch(|| progress.total(), load).map_err(failed)?;
    let signals = Signals::create(&setup).map_err(failed)?;
    bench.bar.phase(format!("{what}, {readers} readers"), spec.transactions);
    let processes = bench.args.processes;
    let work = || match processes {
        false => run_threads(&setup, workload, &signals).map_err(failed),
        true => run_processes(&setup, &signals),
    };
    let ran = bench.bar.watch(|| signals.written(), work)?;
    bench.scratch.discard(&directory);
    Ok(ran)
}

/// The task of a process.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    setup: Setup,
    side: Side,
    /// The file for its result, which may be larger than a pipe takes.
    result: PathBuf,
}

/// Runs all sides in processes.
fn run_processes(setup: &Setup, signals: &Signals) -> Result<ConcurrentRan, Failure> {
    let result = |number: usize| setup.signals.with_extension(number.to_string());
    let mut running = Vec::new();
    for (number, side) in Side::all(setup.readers).enumerate() {
        let task = Task { setup: setup.clone(), side, result: result(number) };
        running.push(ChildProcess::start(SIDE, &task)?);
    }
    let mut failure = None;
    let mut sides = vec![None; running.len()];
    while failure.is_none() && sides.iter().any(Option::is_none) {
        thread::sleep(LOOK_EVERY / 50);
        for (number, child) in running.iter_mut().enumerate() {
            if sides[number].is_some() || !child.has_ended()? {
                continue;
            }
            match read_result(&result(number)) {
                Some(side) => sides[number] = Some(side),
                // It has said why, or was killed. The others wait for it no longer.
                None if failure.is_none() => {
                    signals.fail();
                    failure = Some(child.failure(setup.mode));
                }
                None => {}
            }
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None => {
            let sides: Vec<SideRan> = sides.into_iter().flatten().collect();
            combine(setup, &sides).map_err(|error| Failure::about(setup.mode, error))
        }
    }
}

/// The result of a process that has ended; `None` if it has failed.
fn read_result(path: &Path) -> Option<SideRan> {
    serde_json::from_reader(BufReader::new(File::open(path).ok()?)).ok()
}

/// The process that is one side of a run.
pub(crate) fn side(arguments: &[OsString]) -> ExitCode {
    end_with_standard_input();
    run_task(arguments, |task: Task| {
        let Task { setup, side, result } = task;
        let workload = setup.check().map_err(about_task)?;
        let signals = Signals::open(&setup)?;
        let ran = run_side(&setup, side, &workload, &signals)?;
        let file = File::create(&result).map_err(about_task)?;
        serde_json::to_writer(BufWriter::new(file), &ran).map_err(about_task)
    })
}

/// The table, and what has to be known to read it.
fn human_text(args: &SqliteBenchArgs, runs: &[Run]) -> String {
    let first = &runs[0];
    let words = ["mode", "operation", "keys", "domain"];
    let numbers = [
        "record",
        "per txn",
        "writes/s",
        "min - max",
        "p99 us",
        "reads/s",
        "min - max",
        "p99 us",
        "reads x",
    ];
    let mut text = format!(
        "SQLite {}, pages of {} bytes: {} rows, one writer of {} transactions{} and {} readers as {}, {}, commits durable, median of {}\n\n",
        first.own.sqlite.sqlite,
        first.page_bytes,
        grouped(first.tuples),
        grouped(first.txns),
        first
            .own
            .writes_per_second
            .map_or_else(String::new, |rate| format!(", at most {} a second,", grouped(rate))),
        first.own.readers,
        if first.own.processes { "processes" } else { "threads" },
        if first.own.sqlite.prepared {
            "prepared statements"
        } else {
            "each a text that is parsed"
        },
        args.measure.repeat,
    );
    text += &runs_table(runs, &words, &numbers, row);
    text += &format!(
        "Both rates are of the same span, which ends with the writer's last commit; reads/s are of all readers together. x {}: writes/s divided by that mode's in the same cell of this run, and reads x the same of reads/s. All modes end with the same rows, which SQLite without the VFS has checked.\n",
        first.baseline
    );
    text
}

fn row(run: &Run) -> Vec<String> {
    let mut cells = [run.engine, run.mix, run.keys].map(str::to_owned).to_vec();
    cells.push(run.promise.text());
    cells.extend([run.record_bytes, run.operations_per_txn].map(|number| number.to_string()));
    cells.extend([
        whole(run.throughput_txn_s),
        run.throughput_spread.text(),
        fine(Some(run.latency_us.p99)),
        whole(run.own.reads_txn_s),
        run.own.reads_spread.text(),
        fine(Some(run.own.read_latency_us.p99)),
        fine(run.own.reads_over_baseline),
        fine(Some(run.throughput_over_baseline)),
    ]);
    cells
}
