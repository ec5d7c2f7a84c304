//! `perdura bench slotted`: P3's workloads on slotted pages, without tables above them.
//!
//! 1. For every mixture, size of records and of transactions the rounds go around the schemes, so that a
//!    drift of the machine hits all of them alike, and a ratio compares neighbours in time. Each round
//!    has a pool of its own, which is loaded off the clock.
//! 2. Then each scheme runs once more and counts lines and fences, and with `--steps` once more with a
//!    clock that says which phase of an operation takes how long. What the clock takes itself is taken off.
//! 3. What a run leaves is checked, and has to be the same for all schemes.

use std::collections::BTreeMap;

use command::failure::Failure;
use command::figures::{Counted, LatencyUs, PerTxn, Spread, fine, whole};
use command::footprint::FootprintBytes;
use command::host::Host;
use command::output::{Report, check_target, report, table};
use command::progress::Bar;
use command::scratch::Scratch;
use command::system::{Promise, pool_path};
use command::units::grouped;
use perdura::Footprint;
use pm::{Counters, Pool, PoolOptions};
use serde::Serialize;
use sim::Timed;
use workloads::Progress;
use workloads::slotted::{self as workload, Moment, OUTSIDE, Ran, SchemeKind, Spec, Workload};

use super::page_run::{self, baseline, compare, in_turns, runs_table};
use crate::args::{MixName, SlottedArgs};

/// A run on slotted pages.
type Run = page_run::Run<SlottedFigures>;

/// The figures that a run on slotted pages has alone.
#[derive(Debug, Clone, Serialize)]
struct SlottedFigures {
    /// Percent of reads, with mixed.
    reads_percent: Option<u8>,
    /// Percent of the transactions with changes that committed in place.
    in_place_percent: f64,
    splits: u64,
    defragmentations: u64,
    /// Microseconds of a transaction, by phase; `None` without `--steps`.
    phases_us: Option<BTreeMap<&'static str, f64>>,
}

/// One in so many transactions has its latency taken.
const SAMPLE_EVERY: u64 = 16;
/// Bytes on the medium for a byte of records, keys included: pages half full, and those of a log.
const SPACE: u64 = 6;
/// The same for a pool with nothing in it.
const POOL_BYTES: u64 = 16 << 20;

/// Runs the benchmark.
///
/// # Errors
/// Options that contradict each other, a store that failed, or schemes that end with different contents.
pub(crate) fn run(args: &SlottedArgs) -> Result<(), Failure> {
    let schemes = &args.engine.0;
    let baseline = baseline(args.baseline, schemes, SchemeKind::Nvwal, "--engine")?;
    check_target(args.measure.json.as_ref(), &[])?;
    let mut cells = Vec::new();
    for &mix in &args.mix.0 {
        for &record_bytes in &args.record {
            for &per_txn in &args.per_txn {
                let spec = Spec {
                    mix: mix.mix(args.reads),
                    keys: args.keys.into(),
                    loaded: args.tuples,
                    transactions: args.txns,
                    per_txn,
                    record_bytes,
                    page_bytes: args.page,
                    seed: args.measure.seed,
                };
                let workload = Workload::generate(&spec);
                cells.push((mix, workload.map_err(|why| Failure::Usage(why.to_string()))?));
            }
        }
    }
    let scratch = Scratch::new(args.measure.path.as_deref(), args.measure.keep)?;
    let most = cells.iter().map(|(_, workload)| needs(workload.spec())).max().unwrap_or(0);
    scratch.require(most, Some("fewer --tuples or --txns"))?;
    let host = Host::new(scratch.medium());
    let mut bench = Bench { args, baseline, scratch: &scratch, bar: Bar::new(), pools: 0 };
    let mut runs = Vec::new();
    for (mix, workload) in &cells {
        runs.extend(bench.cell(*mix, workload)?);
    }
    drop(bench.bar);
    let text = host.line() + &human_text(args, &runs);
    report(&text, &Report::new(&host, &runs), args.measure.json.as_ref())
}

/// Bytes that a pool takes at most.
fn needs(spec: &Spec) -> u64 {
    let records = spec.transactions.saturating_mul(spec.per_txn.into()).saturating_add(spec.loaded);
    records.saturating_mul(SPACE * (u64::from(spec.record_bytes) + 16)).saturating_add(POOL_BYTES)
}

/// The settings that all runs share.
struct Bench<'a> {
    args: &'a SlottedArgs,
    baseline: SchemeKind,
    scratch: &'a Scratch,
    bar: Bar,
    /// The number of the next pool.
    pools: u64,
}

/// The results of a run of a scheme.
struct Found {
    ran: Ran,
    counters: Counters,
    phases: Option<BTreeMap<&'static str, f64>>,
    stored_bytes: u64,
    promise: Promise,
}

/// The observers of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Observed {
    Time,
    Counts,
    Phases,
}

impl Bench<'_> {
    /// Runs all schemes on one workload.
    fn cell(&mut self, mix: MixName, workload: &Workload) -> Result<Vec<Run>, Failure> {
        let schemes = &self.args.engine.0;
        let repeat = self.args.measure.repeat;
        let rounds = in_turns(schemes, repeat, |one| self.once(one, workload, Observed::Time))?;
        let mut runs = Vec::new();
        for (scheme, rounds) in schemes.iter().zip(rounds) {
            let counted = self.once(*scheme, workload, Observed::Counts)?;
            let phases = match self.args.steps {
                true => self.once(*scheme, workload, Observed::Phases)?.phases,
                false => None,
            };
            runs.push(self.summary(*scheme, mix, workload, &rounds, &counted, phases));
        }
        compare(&mut runs, "contents")?;
        Ok(runs)
    }

    /// Runs a scheme once in a pool of its own.
    fn once(
        &mut self,
        scheme: SchemeKind,
        workload: &Workload,
        observed: Observed,
    ) -> Result<Found, Failure> {
        let spec = workload.spec();
        let directory = self.scratch.directory(&format!("{scheme}.{}", self.pools))?;
        self.pools += 1;
        let options = PoolOptions {
            domain: self.args.measure.domain.0,
            model: true,
            ..PoolOptions::default()
        };
        let pool = Pool::create(&pool_path(&directory), &options)
            .map_err(|error| Failure::about(scheme, error))?;
        let what = match observed {
            Observed::Time => format!("{scheme}: {}, {} B", spec.mix.name(), spec.record_bytes),
            Observed::Counts => format!("{scheme}: counting"),
            Observed::Phases => format!("{scheme}: taking the time of its steps"),
        };
        self.bar.phase(what, spec.loaded + spec.transactions);
        let progress = Progress::new(1);
        let (mut counters, mut phases) = (Counters::default(), None);
        let work = || {
            peers::pin_to_core(0);
            if observed == Observed::Phases {
                let memory = Timed::new(pool.clone());
                let clock = memory.clone();
                let cost_ns = clock.cost_ns();
                let mut around = |moment| match moment {
                    Moment::Begins => clock.reset(),
                    Moment::Ended => phases = Some(per_txn(&clock, cost_ns, spec.transactions)),
                };
                return workload::run(scheme, memory, workload, 0, &progress, &mut around);
            }
            let counts = observed == Observed::Counts;
            let mut around = |moment| match moment {
                Moment::Begins => {
                    pool.count(counts);
                    counters = pool.counters();
                }
                Moment::Ended => counters = pool.counters().since(&counters),
            };
            let sample_every = if counts { 0 } else { SAMPLE_EVERY };
            workload::run(scheme, pool.clone(), workload, sample_every, &progress, &mut around)
        };
        let ran = self.bar.watch(|| progress.total(), work);
        let ran = ran.map_err(|error| Failure::Failed(error.to_string()))?;
        let header = pool.info().header;
        let promise = Promise { domain: Some(header.domain), modelled: header.modelled };
        let stored_bytes = pool.stored_bytes().map_err(|error| Failure::about(scheme, error))?;
        pool.close().map_err(|error| Failure::about(scheme, error))?;
        drop(pool);
        self.scratch.discard(&directory);
        Ok(Found { ran, counters, phases, stored_bytes, promise })
    }

    fn summary(
        &self,
        scheme: SchemeKind,
        mix: MixName,
        workload: &Workload,
        rounds: &[Found],
        counted: &Found,
        phases_us: Option<BTreeMap<&'static str, f64>>,
    ) -> Run {
        let spec = workload.spec();
        let all: Vec<f64> =
            rounds.iter().map(|found| found.ran.measured.throughput_txn_s()).collect();
        let (throughput_txn_s, throughput_spread, median) = Spread::of(&all);
        let Found { ran, promise, .. } = &rounds[median];
        let counts = Counted::new(counted.counters, counted.ran.commits.logged_bytes);
        let writers = workload.writers().max(1) as f64;
        let own = SlottedFigures {
            reads_percent: (mix == MixName::Mixed).then_some(self.args.reads),
            in_place_percent: 100.0 * ran.commits.in_place as f64 / writers,
            splits: ran.moves.splits,
            defragmentations: ran.moves.defragmentations,
            phases_us,
        };
        Run {
            engine: scheme.name(),
            workload: "slotted",
            mix: mix.name(),
            skew: "uniform",
            keys: spec.keys.name(),
            record_bytes: spec.record_bytes,
            page_bytes: spec.page_bytes,
            operations_per_txn: spec.per_txn,
            tuples: spec.loaded,
            txns: spec.transactions,
            partitions: 1,
            domain: promise.domain.map(perdura::Domain::name),
            modelled: promise.modelled,
            commit: "durable",
            group: None,
            seed: spec.seed,
            emulated: None,
            seconds: ran.measured.seconds,
            throughput_txn_s,
            throughput_spread,
            latency_us: LatencyUs::of(rounds.iter().map(|found| &found.ran.measured.latency_ns)),
            per_txn: PerTxn::new(Some(&counts), spec.transactions),
            footprint_bytes: footprint(&counted.ran, spec, counted.stored_bytes),
            user_bytes: ran.user_bytes,
            aborted: 0,
            own,
            baseline: self.baseline.name(),
            throughput_over_baseline: 1.0,
            digest: format!("{:016x}", ran.digest),
            promise: *promise,
        }
    }
}

/// Microseconds of a transaction, by phase, without what the clock takes.
fn per_txn(clock: &Timed<Pool>, cost_ns: f64, txns: u64) -> BTreeMap<&'static str, f64> {
    let phases = clock.phases().into_iter().filter(|one| one.phase != OUTSIDE);
    let of = |one: sim::PhaseTime| {
        let nanoseconds = (one.nanoseconds as f64 - one.times as f64 * cost_ns).max(0.0);
        (one.phase.0, nanoseconds / 1000.0 / txns.max(1) as f64)
    };
    phases.map(of).collect()
}

/// Bytes on the medium by component.
fn footprint(ran: &Ran, spec: &Spec, stored_bytes: u64) -> FootprintBytes {
    let pages = |pages: u64| pages * u64::from(spec.page_bytes);
    let (table, index) = (pages(ran.census.leaves + ran.census.overflow), pages(ran.census.inner));
    let log = ran.log_bytes;
    let other = stored_bytes.saturating_sub(table + index + log);
    Footprint { table, index, log, checkpoint: 0, other }.into()
}

/// The table, and what has to be known to read it.
fn human_text(args: &SlottedArgs, runs: &[Run]) -> String {
    let first = &runs[0];
    let words = ["scheme", "mix", "domain"];
    let numbers = [
        "record",
        "per txn",
        "txn/s",
        "min - max",
        "us/txn",
        "p99 us",
        "lines/txn",
        "fences/txn",
        "in place",
    ];
    let mut text = format!(
        "Slotted pages of {} bytes: {} records, {} transactions, {} keys, commits durable, median of {}\n\n",
        first.page_bytes,
        grouped(first.tuples),
        grouped(first.txns),
        first.keys,
        args.measure.repeat,
    );
    text += &runs_table(runs, &words, &numbers, row);
    text += &format!(
        "x {}: throughput divided by that scheme's in the same cell of this run. All schemes end with the same contents.\n",
        first.baseline
    );
    if args.steps {
        text += &format!("\n{}", phases(runs));
    }
    text
}

fn row(run: &Run) -> Vec<String> {
    let mix = match run.own.reads_percent {
        Some(reads) => format!("{} ({reads}% reads)", run.mix),
        None => run.mix.to_owned(),
    };
    vec![
        run.engine.to_owned(),
        mix,
        run.promise.text(),
        run.record_bytes.to_string(),
        run.operations_per_txn.to_string(),
        whole(run.throughput_txn_s),
        run.throughput_spread.text(),
        format!("{:.2}", 1e6 / run.throughput_txn_s.max(1e-9)),
        format!("{:.2}", run.latency_us.p99),
        fine(run.per_txn.flushed_lines),
        fine(run.per_txn.fences),
        format!("{:.1}%", run.own.in_place_percent),
        fine(Some(run.throughput_over_baseline)),
    ]
}

/// Microseconds of a transaction by phase.
fn phases(runs: &[Run]) -> String {
    let names = slotted::phases::ALL.map(|phase| phase.0);
    let head = ["scheme", "mix", "record", "per txn"].into_iter().chain(names).chain(["sum"]);
    let head: Vec<String> = head.map(str::to_owned).collect();
    let row = |run: &Run| {
        let none = BTreeMap::new();
        let of = run.own.phases_us.as_ref().unwrap_or(&none);
        let mut cells = vec![
            run.engine.to_owned(),
            run.mix.to_owned(),
            run.record_bytes.to_string(),
            run.operations_per_txn.to_string(),
        ];
        cells.extend(names.map(|name| fine(of.get(name).copied())));
        cells.push(fine(Some(of.values().sum())));
        cells
    };
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    "Microseconds of a transaction, by step:\n\n".to_owned() + &table(&head, &rows, 2)
}
