//! `perdura bench tpcc`.
//!
//! The engines run one after the other, each in a directory of its own that is gone before the next
//! one comes: databases of warehouses are large, and six at once may be more than a machine holds.
//!
//! 1. The engine is created and populated, and takes a checkpoint if it has such a thing.
//! 2. Round `n` runs the `n`th piece of one sequence of inputs, the same for each engine.
//! 3. One more piece runs off the clock and is counted.
//! 4. What the engine then holds is read as a whole: the digests of all engines must agree, unless
//!    workers shared partitions and the order in which they met is open. With
//!    `--check` the consistency conditions are checked, too.

use std::collections::BTreeMap;
use std::path::Path;

use command::failure::{Failure, say};
use command::figures::{Counted, LatencyUs, PerTxn, Spread, fine, whole};
use command::footprint::FootprintBytes;
use command::host::Host;
use command::output::{Report, check_target, report, table};
use command::progress::Bar;
use command::scratch::Scratch;
use command::settings::{
    background_name, commit_group, commit_name, commit_text, database_options,
};
use command::system::{Promise, System, create, pool_path};
use command::units::grouped;
use perdura::Database;
use serde::Serialize;
use workloads::tpcc::{self, Condition, Kind, Measured, Spec, Workload};
use workloads::{Contents, Lanes, Progress, contents};

use crate::args::TpccArgs;
use crate::plan::Plan;

/// Transactions of a counted pass at most.
const COUNTED_TXNS: u64 = 20_000;

/// A run as programs read it; others rely on the keys to the letter.
#[derive(Debug, Clone, Serialize)]
struct Run {
    engine: &'static str,
    workload: &'static str,
    mix: Option<()>,
    skew: Option<()>,
    warehouses: u32,
    items: u32,
    remote: bool,
    txns: u64,
    partitions: usize,
    workers: usize,
    domain: Option<&'static str>,
    modelled: bool,
    commit: &'static str,
    background: &'static str,
    group: Option<u32>,
    seed: u64,
    emulated: Option<()>,
    seconds: f64,
    throughput_txn_s: f64,
    throughput_spread: Spread,
    new_orders_per_minute: f64,
    latency_us: LatencyUs,
    latency_us_by_transaction: BTreeMap<&'static str, LatencyUs>,
    per_txn: PerTxn,
    footprint_bytes: FootprintBytes,
    user_bytes: u64,
    tuples: u64,
    aborted: u64,
    conflicts: u64,
    retries: u64,
    /// `None` without `--check`.
    consistency: Option<BTreeMap<u8, bool>>,
    /// The digest of all that the database holds.
    digest: String,
    #[serde(skip)]
    violations: Vec<String>,
    #[serde(skip)]
    promise: Promise,
}

/// Bytes that a tuple takes at most in a freshly populated database, with its share of indexes,
/// logs and space that a store keeps ahead: half as much again as the engine that takes most.
const TUPLE_BYTES: u64 = 600;
/// Bytes that a transaction adds at most: the order lines of a new order, and logs.
const TRANSACTION_BYTES: u64 = 2500;

/// An open, populated database and what was measured on it.
struct Loaded {
    system: System,
    database: Database,
    rounds: Vec<Measured>,
    counted: Counted,
}

/// The pieces of the sequence of inputs: one for each round, and one that is counted.
struct Pieces {
    rounds: Vec<Workload>,
    counted: Workload,
}

impl Pieces {
    fn new(plan: &Plan, spec: &Spec) -> Result<Self, Failure> {
        let mut rounds = vec![Workload::generate(spec)?];
        let last = |rounds: &[Workload], transactions| match rounds.last() {
            Some(last) => last.after(transactions),
            None => Workload::generate(spec),
        };
        for _ in 1..plan.repeat {
            rounds.push(last(&rounds, spec.transactions)?);
        }
        let counted = last(&rounds, spec.transactions.min(COUNTED_TXNS))?;
        Ok(Self { rounds, counted })
    }
}

/// Runs the benchmark.
///
/// # Errors
/// Options that contradict each other, an engine that failed, or [`Failure::Found`] if a condition
/// does not hold or the engines do not agree.
pub(crate) fn run(args: &TpccArgs) -> Result<(), Failure> {
    let plan = Plan::new(&args.common, &[])?;
    let spec = plan.tpcc(&args.scale, args.warehouses, args.txns)?;
    check_target(args.common.json.as_ref(), &[])?;
    let scratch = Scratch::new(args.common.path.as_deref(), args.common.keep)?;
    let host = Host::new(scratch.medium());
    let kept = if args.common.keep { plan.systems.len() as u64 } else { 1 };
    scratch.require(kept * needed_bytes(&plan, &spec), Some("fewer --warehouses or --txns"))?;
    let mut bar = Bar::new();
    let pieces = Pieces::new(&plan, &spec)?;
    let mut runs = Vec::new();
    for &system in &plan.systems {
        let directory = scratch.directory(system.name())?;
        let mut loaded = open(&plan, &spec, system, &directory, &mut bar)?;
        measure(&plan, &mut loaded, &pieces, &mut bar)?;
        runs.push(summary(&plan, &spec, &loaded, args.check, &mut bar)?);
        drop(loaded);
        scratch.discard(&directory);
    }
    drop(bar);
    let text = host.line() + &human_text(&plan, &runs);
    let printed = report(&text, &Report::new(&host, &runs), args.common.json.as_ref());
    Failure::or_verdict(printed, || judge(&plan, &runs))
}

/// The lanes of a run.
fn lanes(plan: &Plan) -> Lanes {
    Lanes::new(plan.run.workers, plan.partitions())
}

/// About how many bytes one engine takes on its medium by the end of its run.
fn needed_bytes(plan: &Plan, spec: &Spec) -> u64 {
    let transactions = spec.transactions.saturating_mul(u64::from(plan.repeat) + 1);
    let grown = transactions.saturating_mul(TRANSACTION_BYTES);
    spec.tuples().saturating_mul(TUPLE_BYTES).saturating_add(grown)
}

/// Creates and populates a database.
fn open(
    plan: &Plan,
    spec: &Spec,
    system: System,
    directory: &Path,
    bar: &mut Bar,
) -> Result<Loaded, Failure> {
    let options = database_options(plan.run.commit, plan.background);
    let database = create(
        system,
        &pool_path(directory),
        &tpcc::schema(),
        spec.partitions,
        &options,
        plan.domain,
    )?;
    bar.phase(format!("{system}: loading"), spec.tuples());
    let progress = Progress::new(spec.partitions);
    let load = || tpcc::load(&database, spec, plan.run.workers, &progress);
    bar.watch(|| progress.total(), load)?;
    // What an engine logged meanwhile must not bring a checkpoint into the first run on the clock.
    database.checkpoint()?;
    Ok(Loaded { system, database, rounds: Vec::new(), counted: Counted::default() })
}

/// Runs all rounds, and counts.
fn measure(
    plan: &Plan,
    loaded: &mut Loaded,
    pieces: &Pieces,
    bar: &mut Bar,
) -> Result<(), Failure> {
    for piece in &pieces.rounds {
        let measured = run_once(plan, loaded, piece, "running", bar)?;
        loaded.rounds.push(measured);
    }
    loaded.database.count(true);
    let before = Counted::of(&loaded.database);
    run_once(plan, loaded, &pieces.counted, "counting", bar)?;
    loaded.counted = Counted::of(&loaded.database).since(&before);
    loaded.database.count(false);
    Ok(())
}

fn run_once(
    plan: &Plan,
    loaded: &Loaded,
    workload: &Workload,
    what: &str,
    bar: &mut Bar,
) -> Result<Measured, Failure> {
    bar.phase(format!("{}: {what}", loaded.system), workload.spec().transactions);
    let progress = Progress::new(lanes(plan).count());
    let work = || tpcc::run(&loaded.database, workload, &plan.run, &progress);
    Ok(bar.watch(|| progress.total(), work)?)
}

fn summary(
    plan: &Plan,
    spec: &Spec,
    loaded: &Loaded,
    check: bool,
    bar: &mut Bar,
) -> Result<Run, Failure> {
    let Loaded { system, database, rounds, counted } = loaded;
    let footprint_bytes = FootprintBytes::of_database(database)?;
    bar.phase(format!("{system}: reading it all"), 1);
    let held: Contents = bar.watch(|| 0, || contents(database))?;
    let conditions = match check {
        true => {
            bar.phase(format!("{system}: checking"), 1);
            Some(bar.watch(|| 0, || tpcc::check(database, spec))?)
        }
        false => None,
    };
    let throughputs: Vec<f64> = rounds.iter().map(Measured::throughput_txn_s).collect();
    let (throughput_txn_s, throughput_spread, median) = Spread::of(&throughputs);
    let of = |kind: Kind| rounds.iter().map(move |round| &round.latency_ns[kind as usize]);
    let promise = Promise::of_database(database);
    Ok(Run {
        engine: system.name(),
        workload: "tpcc",
        mix: None,
        skew: None,
        warehouses: spec.warehouses,
        items: spec.items,
        remote: spec.remote,
        txns: spec.transactions,
        partitions: spec.partitions,
        workers: plan.run.workers.min(lanes(plan).count()),
        domain: promise.domain.map(perdura::Domain::name),
        modelled: promise.modelled,
        commit: commit_name(plan.run.commit),
        background: background_name(plan.background),
        group: commit_group(plan.run.commit),
        seed: spec.seed,
        emulated: None,
        seconds: rounds[median].seconds,
        throughput_txn_s,
        throughput_spread,
        new_orders_per_minute: rounds[median].new_orders_per_minute(),
        latency_us: LatencyUs::of(Kind::ALL.into_iter().flat_map(of)),
        latency_us_by_transaction: Kind::ALL
            .into_iter()
            .map(|kind| (kind.name(), LatencyUs::of(of(kind))))
            .collect(),
        per_txn: PerTxn::new(Some(counted), spec.transactions.min(COUNTED_TXNS)),
        footprint_bytes,
        user_bytes: held.user_bytes(),
        tuples: held.tuples(),
        aborted: rounds[median].aborted,
        conflicts: rounds[median].conflicts,
        retries: rounds[median].retries,
        violations: conditions.iter().flatten().filter_map(Condition::contradiction).collect(),
        consistency: conditions
            .as_ref()
            .map(|all| all.iter().map(|one| (one.number, one.holds())).collect()),
        digest: format!("{:016x}", held.digest()),
        promise,
    })
}

/// Fails if anything was found that should not be.
fn judge(plan: &Plan, runs: &[Run]) -> Result<(), Failure> {
    let mut found = false;
    for run in runs {
        for violation in &run.violations {
            say(format_args!("perdura: {}: {violation}", run.engine));
            found = true;
        }
        if !lanes(plan).are_shared() && run.digest != runs[0].digest {
            let (one, other) = (runs[0].engine, run.engine);
            let what = "did the same and hold different contents";
            say(format_args!("perdura: {one} and {other} {what}"));
            found = true;
        }
    }
    if found { Err(Failure::Found) } else { Ok(()) }
}

/// The tables, and what has to be known to read them.
fn human_text(plan: &Plan, runs: &[Run]) -> String {
    let first = &runs[0];
    let mut text = format!(
        "TPC-C: warehouses: {}, {} items, {} transactions{}, partitions: {}, workers: {}, commits {}, median of {}\n\n",
        first.warehouses,
        grouped(u64::from(first.items)),
        grouped(first.txns),
        if first.remote { " with remote warehouses" } else { "" },
        first.partitions,
        plan.run.workers.min(lanes(plan).count()),
        commit_text(plan.run.commit),
        plan.repeat,
    );
    let head = [
        "store",
        "domain",
        "txn/s",
        "min - max",
        "new orders/min",
        "p50 us",
        "p99 us",
        "lines/txn",
        "fences/txn",
        "aborted",
    ];
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    text += &table(&head.map(str::to_owned), &rows, 2);
    let head = ["store", "transaction", "p50 us", "p95 us", "p99 us", "max us"];
    let rows: Vec<Vec<String>> = runs.iter().flat_map(latency_rows).collect();
    text += "\n";
    text += &table(&head.map(str::to_owned), &rows, 2);
    text += "\nLatencies are to durability. Aborted: new orders that the specification has rolled back.\n";
    if runs.iter().any(|run| run.promise.modelled) {
        text += "(modelled): flushes and fences are really executed, but this medium does not keep what they promise.\n";
    }
    for run in runs.iter().filter(|run| run.consistency.is_some()) {
        let holds = match run.violations.len() {
            0 => "hold".to_owned(),
            many => format!("{many} of 12 do not hold"),
        };
        text += &format!("Consistency conditions 1 to 12, {}: {holds}.\n", run.engine);
    }
    if lanes(plan).are_shared() {
        text += "Workers share partitions; with an engine that runs one transaction of a partition at a time they queue for it.\nContents depend on the order in which workers met, and are not compared.\n";
    } else if runs.iter().all(|run| run.digest == first.digest) {
        let what = if runs.len() > 1 { "Contents are alike" } else { "Contents" };
        let tuples = grouped(first.tuples);
        text += &format!("{what}: {tuples} tuples, digest {}.\n", first.digest);
    }
    text
}

fn row(run: &Run) -> Vec<String> {
    vec![
        run.engine.to_owned(),
        run.promise.text(),
        whole(run.throughput_txn_s),
        run.throughput_spread.text(),
        whole(run.new_orders_per_minute),
        fine(Some(run.latency_us.p50)),
        fine(Some(run.latency_us.p99)),
        fine(run.per_txn.flushed_lines),
        fine(run.per_txn.fences),
        grouped(run.aborted),
    ]
}

fn latency_rows(run: &Run) -> Vec<Vec<String>> {
    let row = |kind: Kind| {
        let name = kind.name();
        let LatencyUs { p50, p95, p99, max } = run.latency_us_by_transaction[name];
        let figures = [p50, p95, p99, max].map(|value| fine(Some(value)));
        [run.engine.to_owned(), name.to_owned()].into_iter().chain(figures).collect()
    };
    Kind::ALL.into_iter().map(row).collect()
}
