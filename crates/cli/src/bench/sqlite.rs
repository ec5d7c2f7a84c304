//! `perdura bench sqlite`: Mobibench's part of P3 through the real SQLite, with the VFS and without.
//!
//! 1. For every operation, order of keys, size of rows and of transactions the rounds go around the modes, so
//!    that a drift of the machine hits all of them alike, and a ratio compares neighbours in time. Each round
//!    has a database of its own, which is loaded off the clock.
//! 2. The VFS counts while it is timed: it does so at every commit of every program.
//! 3. SQLite without the VFS checks what a run leaves, which has to be the same for all modes.
//!
//! With `--readers` a run has several connections: `bench::sqlite_readers`.

use std::path::PathBuf;

use command::failure::Failure;
use command::figures::{LatencyUs, PerTxn, Spread, fine, whole};
use command::host::Host;
use command::output::{Report, check_target, report};
use command::progress::Bar;
use command::scratch::Scratch;
use command::system::Promise;
use command::units::grouped;
use peers::extension::{Keys, Operation, Ran, Spec, SqliteMode, Workload, run as run_sqlite};
use perdura::{Domain, Footprint};
use serde::Serialize;
use workloads::Progress;

use super::page_run::{self, baseline, compare, in_turns, runs_table};
use crate::args::SqliteBenchArgs;

/// A run of SQLite.
type Run = page_run::Run<SqliteFigures>;

/// The figures that a run of SQLite has alone.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SqliteFigures {
    /// The version of SQLite, the same in all modes.
    pub(super) sqlite: &'static str,
    pub(super) prepared: bool,
    exclusive: bool,
    /// Commits that the VFS has counted; `None` without it.
    vfs_commits: Option<u64>,
}

impl SqliteFigures {
    pub(super) fn of(mode: SqliteMode, spec: &Spec, ran: &Ran) -> Self {
        Self {
            sqlite: rusqlite::version(),
            prepared: spec.prepared,
            exclusive: spec.exclusive,
            vfs_commits: ran.stats.filter(|_| mode.is_ours()).map(|stats| stats.commits),
        }
    }
}

/// Bytes on the medium for a byte of rows: pages half full, those of a log, and the database again in it.
const SPACE: u64 = 6;
/// The same for a database with nothing in it.
const DATABASE_BYTES: u64 = 16 << 20;

/// Runs the benchmark.
///
/// # Errors
/// Options that contradict each other, a mode that failed, or modes that end with different contents.
pub(crate) fn run(args: &SqliteBenchArgs) -> Result<(), Failure> {
    measure(args, &specs(args, &args.mix.0), cell, human_text)
}

/// Checks all cells of the report, runs one after the other, and reports them.
///
/// # Errors
/// As [`run`].
pub(super) fn measure<F: Serialize>(
    args: &SqliteBenchArgs,
    specs: &[Spec],
    cell: impl Fn(&mut Bench<'_>, &Spec) -> Result<Vec<page_run::Run<F>>, Failure>,
    human_text: impl Fn(&SqliteBenchArgs, &[page_run::Run<F>]) -> String,
) -> Result<(), Failure> {
    let modes = &args.modes();
    let named = args.measure.domain.0;
    for mode in modes {
        if let (Some(own), Some(named)) = (mode.own_domain(), named.map(Domain::name))
            && own != named
        {
            return Err(Failure::Usage(format!("{mode} is for --domain {own}, not {named}")));
        }
    }
    let baseline = baseline(args.baseline, modes, SqliteMode::StockWal, "--mode")?;
    check_target(args.measure.json.as_ref(), &[])?;
    // All are looked at before the first one runs; the keys of all at once might be too many.
    for spec in specs {
        Workload::generate(spec).map_err(|why| Failure::Usage(why.to_string()))?;
    }
    let scratch = Scratch::new(args.measure.path.as_deref(), args.measure.keep)?;
    let most = specs.iter().map(needs).max().unwrap_or(0);
    scratch.require(most, Some("fewer --records or --txns"))?;
    let host = Host::new(scratch.medium());
    let mut bench = Bench { args, baseline, scratch: &scratch, bar: Bar::new(), databases: 0 };
    let mut runs = Vec::new();
    for spec in specs {
        runs.extend(cell(&mut bench, spec)?);
    }
    drop(bench.bar);
    let text = host.line() + &human_text(args, &runs);
    report(&text, &Report::new(&host, &runs), args.measure.json.as_ref())
}

/// The cells of the report.
pub(super) fn specs(args: &SqliteBenchArgs, operations: &[Operation]) -> Vec<Spec> {
    let spec = |operation: Operation, keys: Keys, record_bytes, per_txn| Spec {
        operation,
        keys,
        records: args.records,
        transactions: args.txns,
        per_txn,
        record_bytes,
        page_bytes: args.page,
        prepared: args.prepared,
        exclusive: args.exclusive,
        seed: args.measure.seed,
    };
    let mut specs = Vec::new();
    for &operation in operations {
        for &keys in &args.keys.0 {
            for &record_bytes in &args.record {
                specs.extend(args.per_txn.iter().map(|n| spec(operation, keys, record_bytes, *n)));
            }
        }
    }
    specs
}

/// Bytes that a database takes at most.
fn needs(spec: &Spec) -> u64 {
    let records = match spec.operation {
        Operation::Insert => spec.transactions.saturating_mul(spec.per_txn.into()),
        _ => 0,
    };
    let records = records.saturating_add(spec.records);
    records
        .saturating_mul(SPACE * (u64::from(spec.record_bytes) + 16))
        .saturating_add(DATABASE_BYTES)
}

/// The settings that all runs share.
pub(super) struct Bench<'a> {
    pub(super) args: &'a SqliteBenchArgs,
    baseline: SqliteMode,
    pub(super) scratch: &'a Scratch,
    pub(super) bar: Bar,
    /// The number of the next database.
    databases: u64,
}

/// Runs all modes on one workload.
fn cell(bench: &mut Bench<'_>, spec: &Spec) -> Result<Vec<Run>, Failure> {
    let workload = Workload::generate(spec).map_err(|why| Failure::Usage(why.to_string()))?;
    let (modes, repeat) = (&bench.args.modes(), bench.args.measure.repeat);
    let rounds = in_turns(modes, repeat, |mode| bench.once(mode, &workload))?;
    let mut runs = Vec::new();
    for (mode, rounds) in modes.iter().zip(rounds) {
        let own = |ran: &Ran| SqliteFigures::of(*mode, spec, ran);
        runs.push(bench.summary(*mode, spec, &rounds.iter().collect::<Vec<_>>(), own)?);
    }
    compare(&mut runs, "rows")?;
    Ok(runs)
}

impl Bench<'_> {
    /// Runs a mode once in a database of its own.
    fn once(&mut self, mode: SqliteMode, workload: &Workload) -> Result<Ran, Failure> {
        let spec = workload.spec();
        let directory = self.next_directory(mode)?;
        let (what, order) = (spec.operation.name(), spec.keys.name());
        self.bar.phase(format!("{mode}: {what}, {order}"), spec.records + spec.transactions);
        let progress = Progress::new(1);
        let domain = self.args.measure.domain.0.map(Domain::name);
        let work = || {
            peers::pin_to_core(0);
            run_sqlite(mode, &directory, domain, workload, &progress)
        };
        let ran = self.bar.watch(|| progress.total(), work);
        let ran = ran.map_err(|error| Failure::about(mode, error))?;
        self.scratch.discard(&directory);
        Ok(ran)
    }

    /// Returns an empty directory.
    pub(super) fn next_directory(&mut self, mode: SqliteMode) -> Result<PathBuf, Failure> {
        let directory = self.scratch.directory(&format!("{mode}.{}", self.databases))?;
        self.databases += 1;
        Ok(directory)
    }

    /// The median of a mode's rounds, with the figures of its `own`.
    pub(super) fn summary<F>(
        &self,
        mode: SqliteMode,
        spec: &Spec,
        rounds: &[&Ran],
        own: impl FnOnce(&Ran) -> F,
    ) -> Result<page_run::Run<F>, Failure> {
        let all: Vec<f64> = rounds.iter().map(|ran| ran.measured.throughput_txn_s()).collect();
        let (throughput_txn_s, throughput_spread, median) = Spread::of(&all);
        let ran = rounds[median];
        let promise = self.promise(mode, ran)?;
        let (table, log) = (ran.database_bytes, ran.log_bytes);
        let footprint = Footprint { table, index: 0, log, checkpoint: 0, other: 0 };
        let per_txn = ran.stats.map(|stats| PerTxn::of_vfs(&stats, spec.transactions));
        Ok(page_run::Run {
            engine: mode.name(),
            workload: "sqlite",
            mix: spec.operation.name(),
            skew: "uniform",
            keys: spec.keys.name(),
            record_bytes: spec.record_bytes,
            page_bytes: spec.page_bytes,
            operations_per_txn: spec.per_txn,
            tuples: spec.records,
            txns: spec.transactions,
            partitions: 1,
            domain: promise.domain.map(Domain::name),
            modelled: promise.modelled,
            commit: "durable",
            group: None,
            seed: spec.seed,
            emulated: None,
            seconds: ran.measured.seconds,
            throughput_txn_s,
            throughput_spread,
            latency_us: LatencyUs::of(rounds.iter().map(|ran| &ran.measured.latency_ns)),
            per_txn: per_txn.unwrap_or_default(),
            footprint_bytes: footprint.into(),
            user_bytes: ran.contents.user_bytes,
            aborted: ran.measured.aborted,
            own: own(ran),
            baseline: self.baseline.name(),
            throughput_over_baseline: 1.0,
            digest: format!("{:016x}", ran.contents.digest),
            promise,
        })
    }

    /// Returns what a commit survives: with the VFS in the domain that it names; without it what a sync gives
    /// on the medium, and what lines that are written back give in memory.
    fn promise(&self, mode: SqliteMode, ran: &Ran) -> Result<Promise, Failure> {
        let natural = self.scratch.medium().natural;
        if mode == SqliteMode::StockWalLines && natural != Domain::Disk {
            let modelled = !Domain::Adr.is_given_by(natural);
            return Ok(Promise { domain: Some(Domain::Adr), modelled });
        }
        let Some(named) = &ran.domain else {
            return Ok(Promise { domain: Some(natural), modelled: false });
        };
        let domain = named.parse::<Domain>().map_err(|error| Failure::about("the VFS", error))?;
        Ok(Promise { domain: Some(domain), modelled: !domain.is_given_by(natural) })
    }
}

/// The table, and what has to be known to read it.
fn human_text(args: &SqliteBenchArgs, runs: &[Run]) -> String {
    let first = &runs[0];
    let words = ["mode", "operation", "keys", "domain"];
    let numbers = [
        "record",
        "per txn",
        "txn/s",
        "min - max",
        "p50 us",
        "p95 us",
        "p99 us",
        "lines/txn",
        "fences/txn",
        "logged B/txn",
    ];
    let mut text = format!(
        "SQLite {}, pages of {} bytes: {} rows, {} transactions, {}, commits durable, median of {}\n\n",
        first.own.sqlite,
        first.page_bytes,
        grouped(first.tuples),
        grouped(first.txns),
        if first.own.prepared { "prepared statements" } else { "each a text that is parsed" },
        args.measure.repeat,
    );
    text += &runs_table(runs, &words, &numbers, row);
    text += &format!(
        "x {}: throughput divided by that mode's in the same cell of this run. Lines and fences are the VFS's, and those of the syncs of stock-wal-lines; those of the others are not counted. All modes end with the same rows, which SQLite without the VFS has checked.\n",
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
        fine(Some(run.latency_us.p50)),
        fine(Some(run.latency_us.p95)),
        fine(Some(run.latency_us.p99)),
        fine(run.per_txn.flushed_lines),
        fine(run.per_txn.fences),
        fine(run.per_txn.bytes_logged),
        fine(Some(run.throughput_over_baseline)),
    ]);
    cells
}
