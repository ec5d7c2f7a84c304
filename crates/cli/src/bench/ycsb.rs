//! `perdura bench ycsb`.
//!
//! 1. Every system gets a directory of its own, is created and loaded once. Loading depends on
//!    tuples, partitions and seed alone, so the same loaded store serves every mix and skew, one
//!    after the other: reloading for each would take longer than measuring. What this means: a
//!    later cell finds a store that earlier cells have updated, as after any uptime. InP takes a
//!    checkpoint after loading; later ones fall where they fall and are part of what is measured.
//! 2. For every mix and skew the rounds go around the systems, so that a drift of the machine
//!    hits all of them alike, and a ratio compares neighbours in time.
//!    With `--fifths` a run is long, and with several sizes stores may be large: each system is
//!    alone, and its store gone before the next one is created (see [`super::fifths`] and
//!    [`super::growth`]).
//! 3. After the timed rounds of a cell the engines run it once more, off the clock, and count.

use std::sync::Arc;

use command::failure::Failure;
use command::figures::{LatencyUs, PerTxn, Spread, fine, whole};
use command::footprint::FootprintBytes;
use command::host::Host;
use command::output::{Report, check_target, report, table};
use command::progress::Bar;
use command::scratch::Scratch;
use command::settings::{background_name, commit_group, commit_name, commit_text};
use command::system::System;
use command::units::grouped;
use serde::Serialize;
use workloads::Measurement;
use workloads::ycsb::{Spec, Workload};

use super::fifths::{self, Fifth};
use super::growth::{self, Growth, LeftOut};
use super::ycsb_run::Run;
use crate::args::YcsbArgs;
use crate::bench_thread::{BenchThread, Setup};
use crate::plan::Plan;

/// Transactions of a counted pass at most: counts of a transaction settle long before.
const COUNTED_TXNS: u64 = 200_000;

/// A timed run, with its fifths if they were asked for.
type Round = (Measurement, Option<Vec<Fifth>>);

/// The report as programs read it.
#[derive(Serialize)]
struct Found<'a> {
    #[serde(flatten)]
    report: Report<'a, Run>,
    #[serde(skip_serializing_if = "<[LeftOut]>::is_empty")]
    left_out: &'a [LeftOut],
}

/// Runs the benchmark.
///
/// # Errors
/// Options that contradict each other, or a store that failed.
pub(crate) fn run(args: &YcsbArgs) -> Result<(), Failure> {
    if args.is_shared() {
        return super::readers_writers::run(args);
    }
    let mut plan = Plan::new(&args.common, &args.peers.peer.0)?;
    (plan.statements, plan.inline) = (args.statements, args.inline);
    if args.fifths && args.tuples.len() > 1 {
        return Err(Failure::Usage("--fifths needs one size of --tuples".into()));
    }
    if args.phase_ms.is_some() {
        return Err(Failure::Usage("--phase-ms needs --readers or --writers".into()));
    }
    if args.fifths && args.txns < 5 {
        return Err(Failure::Usage("--fifths needs at least 5 --txns".into()));
    }
    check_target(args.common.json.as_ref(), &[])?;
    let mut sizes = Vec::new();
    for &tuples in &args.tuples {
        if !sizes.contains(&tuples) {
            sizes.push(tuples);
        }
    }
    let mut cells = Vec::new();
    for &tuples in &sizes {
        cells.push(specs(&plan, args, tuples)?);
    }
    let scratch = Scratch::new(args.common.path.as_deref(), args.common.keep)?;
    let host = Host::new(scratch.medium());
    let mut bar = Bar::new();
    let mut left_out = Vec::new();
    let runs = match cells.as_slice() {
        [cells] if !args.fifths => {
            growth::require(&plan.systems, sizes[0], &scratch)?;
            let threads = start(&plan, &plan.systems, &scratch, "", &cells[0], &mut bar)?;
            let mut runs = Vec::new();
            for spec in cells {
                runs.extend(cell(&plan, spec, &threads, false, &mut bar)?);
            }
            runs
        }
        sizes => one_by_one(&plan, sizes, args.fifths, &scratch, &mut left_out, &mut bar)?,
    };
    drop(bar);
    if runs.is_empty() {
        let all = growth::left_out_text(&left_out);
        return Err(Failure::Failed(format!("nothing fits; begin with fewer --tuples\n{all}")));
    }
    let mut text = host.line() + &human_text(&plan, &runs);
    if sizes.len() > 1 {
        text += &growth::human_text(&sizes, &runs, &left_out);
    }
    let found = Found { report: Report::new(&host, &runs), left_out: &left_out };
    report(&text, &found, args.common.json.as_ref())
}

/// Every mix and skew of one size.
fn specs(plan: &Plan, args: &YcsbArgs, tuples: u64) -> Result<Vec<Spec>, Failure> {
    let mut specs = Vec::new();
    for &mix in &args.mix.0 {
        for &skew in &args.skew.0 {
            specs.push(plan.ycsb(mix, skew, (tuples, args.txns), args.update_columns)?);
        }
    }
    Ok(specs)
}

/// Measures each system alone, at each size; its store is gone before the next one is created.
/// The runs come out in the order of sizes, then of mixes and skews.
fn one_by_one(
    plan: &Plan,
    sizes: &[Vec<Spec>],
    in_fifths: bool,
    scratch: &Scratch,
    left_out: &mut Vec<LeftOut>,
    bar: &mut Bar,
) -> Result<Vec<Run>, Failure> {
    let mut runs: Vec<Vec<Vec<Run>>> =
        sizes.iter().map(|specs| vec![Vec::new(); specs.len()]).collect();
    for system in &plan.systems {
        let mut growth = Growth::new(*system);
        for (number, (specs, runs)) in sizes.iter().zip(&mut runs).enumerate() {
            let tuples = specs[0].tuples;
            if sizes.len() == 1 {
                growth::require(std::slice::from_ref(system), tuples, scratch)?;
            } else if let Some(out) = growth.fits(tuples, scratch)? {
                left_out.push(out);
                continue;
            }
            let suffix = if sizes.len() > 1 { format!(".{number}") } else { String::new() };
            let threads =
                start(plan, std::slice::from_ref(system), scratch, &suffix, &specs[0], bar)?;
            for (spec, runs) in specs.iter().zip(runs) {
                runs.extend(cell(plan, spec, &threads, in_fifths, bar)?);
            }
            let directories: Vec<_> =
                threads.iter().map(|one| one.directory().to_owned()).collect();
            for directory in &directories {
                growth.measured(tuples, directory)?;
            }
            drop(threads);
            directories.iter().for_each(|directory| scratch.discard(directory));
        }
    }
    Ok(runs.into_iter().flatten().flatten().collect())
}

/// Creates and loads some systems, in directories of their names and a suffix.
fn start(
    plan: &Plan,
    systems: &[System],
    scratch: &Scratch,
    suffix: &str,
    spec: &Spec,
    bar: &mut Bar,
) -> Result<Vec<BenchThread>, Failure> {
    let workload = Arc::new(Workload::generate(&Spec { transactions: 0, ..spec.clone() })?);
    let start = |&system: &System| {
        let setup = Setup {
            system,
            directory: scratch.directory(&format!("{system}{suffix}"))?,
            medium: scratch.medium().clone(),
            domain: plan.domain,
            run: plan.run.clone(),
            background: plan.background,
            statements: plan.statements,
            inline: plan.inline,
            workload: workload.clone(),
        };
        BenchThread::start(setup, bar)
    };
    systems.iter().map(start).collect()
}

/// Measures some systems on one mix and skew.
fn cell(
    plan: &Plan,
    spec: &Spec,
    threads: &[BenchThread],
    in_fifths: bool,
    bar: &mut Bar,
) -> Result<Vec<Run>, Failure> {
    let workload = match in_fifths {
        true => None,
        false => Some(Arc::new(Workload::generate(spec)?)),
    };
    let mut rounds: Vec<Vec<Round>> = threads.iter().map(|_| Vec::new()).collect();
    for _ in 0..plan.repeat {
        for (thread, rounds) in threads.iter().zip(&mut rounds) {
            rounds.push(match &workload {
                Some(workload) => (thread.run(workload, bar)?, None),
                None => {
                    let (measured, fifths) = fifths::run(thread, spec, thread.directory(), bar)?;
                    (measured, Some(fifths))
                }
            });
        }
    }
    drop(workload);
    let counted_txns = spec.transactions.min(COUNTED_TXNS);
    let counted =
        Arc::new(Workload::generate(&Spec { transactions: counted_txns, ..spec.clone() })?);
    let finish = |(thread, rounds): (&BenchThread, Vec<Round>)| {
        let counters = thread.count(&counted, bar)?;
        let per_txn = PerTxn::new(counters.as_ref(), counted_txns);
        let footprint = thread.footprint(bar)?;
        Ok(summary(plan, spec, thread, rounds, per_txn, footprint))
    };
    threads.iter().zip(rounds).map(finish).collect()
}

fn summary(
    plan: &Plan,
    spec: &Spec,
    thread: &BenchThread,
    rounds: Vec<Round>,
    per_txn: PerTxn,
    footprint_bytes: FootprintBytes,
) -> Run {
    let (rounds, mut fifths): (Vec<Measurement>, Vec<_>) = rounds.into_iter().unzip();
    let (throughput_txn_s, throughput_spread, median) = throughput(&rounds);
    let promise = thread.promise();
    Run {
        engine: thread.system().engine(),
        peer: thread.system().peer(),
        workload: "ycsb",
        mix: spec.mix.name(),
        skew: spec.skew.name(),
        tuples: spec.tuples,
        txns: spec.transactions,
        partitions: spec.partitions,
        domain: promise.domain.map(perdura::Domain::name),
        modelled: promise.modelled,
        commit: commit_name(plan.run.commit),
        background: background_name(plan.background),
        statements: plan.statements && thread.system().engine().is_some(),
        inline: plan.inline && thread.system().engine().is_some(),
        group: commit_group(plan.run.commit),
        seed: spec.seed,
        emulated: None,
        seconds: rounds[median].seconds,
        throughput_txn_s,
        throughput_spread,
        latency_us: LatencyUs::of(rounds.iter().map(|round| &round.latency_ns)),
        per_txn,
        footprint_bytes,
        user_bytes: spec.user_bytes(),
        aborted: rounds[median].aborted,
        fifths: fifths.swap_remove(median),
        promise,
    }
}

/// The median, the spread, and which round is the median.
pub(crate) fn throughput(rounds: &[Measurement]) -> (f64, Spread, usize) {
    let all: Vec<f64> = rounds.iter().map(Measurement::throughput_txn_s).collect();
    Spread::of(&all)
}

/// The table, and what has to be known to read it.
fn human_text(plan: &Plan, runs: &[Run]) -> String {
    let peers: Vec<&str> = plan.systems.iter().filter_map(|one| one.peer()).collect();
    let sizes = runs.iter().any(|run| run.tuples != runs[0].tuples);
    let words = ["store", "mix", "skew", "domain"];
    let size = sizes.then_some("tuples");
    let numbers = ["txn/s", "min - max", "p50 us", "p99 us", "lines/txn", "fences/txn"];
    let head = words.iter().chain(size.iter()).chain(&numbers).map(ToString::to_string);
    let head: Vec<String> = head.chain(peers.iter().map(|peer| format!("x {peer}"))).collect();
    let rows: Vec<Vec<String>> = runs.iter().map(|run| row(run, runs, &peers, sizes)).collect();
    let tuples =
        if sizes { String::new() } else { format!("{} tuples, ", grouped(runs[0].tuples)) };
    let mut text = format!(
        "YCSB: {tuples}{} transactions{}, partitions: {}, workers: {}, commits {}, median of {}\n\n",
        grouped(runs[0].txns),
        match (plan.statements, plan.inline) {
            (false, false) => "",
            (true, false) => " (engines: updates as statements)",
            (false, true) => " (engines: columns within the tuple)",
            (true, true) => " (engines: updates as statements, columns within the tuple)",
        },
        runs[0].partitions,
        plan.run.workers.min(runs[0].partitions),
        commit_text(plan.run.commit),
        plan.repeat,
    );
    text += &table(&head, &rows, words.len());
    text.push('\n');
    if runs.iter().any(|run| run.promise.modelled) {
        text += "(modelled): flushes and fences are really executed, but this medium does not keep what they promise.\n";
    }
    if runs.iter().any(|run| run.fifths.is_some()) {
        let named = runs.iter().filter_map(|run| Some((run.name(), run.fifths.as_deref()?)));
        text += &format!("\n{}", fifths::human_text(named));
    }
    if !peers.is_empty() {
        text += "x PEER: throughput divided by that peer's on the same mix and skew in this run. Databases are at their durable setting; maps and floors are no databases.\n";
    }
    text
}

fn row(run: &Run, runs: &[Run], peers: &[&str], sizes: bool) -> Vec<String> {
    let [name, mix, skew] = run.name();
    let mut cells = vec![name.to_owned(), mix.to_owned(), skew.to_owned(), run.promise.text()];
    cells.extend(sizes.then(|| grouped(run.tuples)));
    cells.extend([
        whole(run.throughput_txn_s),
        run.throughput_spread.text(),
        format!("{:.2}", run.latency_us.p50),
        format!("{:.2}", run.latency_us.p99),
        fine(run.per_txn.flushed_lines),
        fine(run.per_txn.fences),
    ]);
    let of_cell = |run: &Run| (run.tuples, run.mix, run.skew);
    for peer in peers {
        let of =
            runs.iter().find(|other| other.peer == Some(*peer) && of_cell(other) == of_cell(run));
        let ratio = of.map(|of| run.throughput_txn_s / of.throughput_txn_s.max(1e-9));
        cells.push(fine(ratio));
    }
    cells
}
