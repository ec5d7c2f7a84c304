//! `perdura bench recovery`.
//!
//! For every number of tuples and of transactions the rounds go around the contestants; each round
//! is a whole kill (see [`crate::kill`]), because opening changes what a crash left. InP takes a
//! checkpoint after loading and none later, so that its log holds what ran since.
//!
//! Of several rounds, times and what recovery did are those of the kill with the median time from
//! the open call to the first durable commit; acknowledged, lost and surplus are sums.

use serde::Serialize;
use workloads::ycsb::Spec;

use super::{Report, median_index};
use crate::args::{RecoveryArgs, WorkloadName};
use crate::child::{Opening, Reads};
use crate::contestant::Contestant;
use crate::failure::Failure;
use crate::host::Host;
use crate::kill::{Kill, Outcome};
use crate::output::{check_target, report, table};
use crate::plan::Plan;
use crate::progress::Bar;
use crate::scratch::Scratch;
use crate::units::grouped;

/// A run as programs read it; others rely on the keys to the letter.
#[derive(Debug, Clone, Serialize)]
struct Run {
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'static str>,
    workload: &'static str,
    tuples: u64,
    txns: u64,
    user_bytes: u64,
    open_ms: f64,
    first_read_ms: f64,
    first_commit_ms: f64,
    undone: Option<u64>,
    redone: Option<u64>,
    reclaimed: Option<u64>,
    acknowledged: u64,
    lost: u64,
    surplus: u64,
    /// Microseconds of the parts of the open call.
    opening_us: Option<Opening>,
    /// Mean microseconds of the reads after it.
    reads_us: Reads,
    #[serde(skip)]
    in_flight: u64,
    #[serde(skip)]
    spread_ms: (f64, f64),
}

/// Runs the benchmark.
///
/// # Errors
/// Options that contradict each other, a store that failed, or [`Failure::Found`] if anything was
/// lost.
pub(crate) fn run(args: &RecoveryArgs) -> Result<(), Failure> {
    if args.workload == WorkloadName::Tpcc {
        let why = "--workload tpcc comes with TPC-C, in a later version; this one has ycsb";
        return Err(Failure::Failed(why.into()));
    }
    let plan = Plan::new(&args.common)?;
    if let Some(map) = args.common.peer.0.iter().find(|peer| !peer.is_durable()) {
        let why = format!("peer {map} keeps nothing in files: there is nothing to reopen");
        return Err(Failure::Usage(why));
    }
    check_target(args.common.json.as_ref())?;
    let mut specs = Vec::new();
    for &tuples in &args.tuples {
        for &txns in &args.txns {
            specs.push(plan.spec(args.mix, args.skew, tuples, txns)?);
        }
    }
    let scratch = Scratch::new(args.common.path.as_deref(), args.common.keep)?;
    let host = Host::new(scratch.medium());
    let mut bar = Bar::new();
    let mut runs = Vec::new();
    for (number, spec) in specs.iter().enumerate() {
        runs.extend(cell(&plan, spec, number, &scratch, &mut bar)?);
    }
    drop(bar);
    let text = host.line() + &people(&plan, &runs) + &scratch.kept().unwrap_or_default();
    report(&text, &Report::new(&host, &runs), args.common.json.as_ref())?;
    if runs.iter().any(|run| run.lost > 0 || run.surplus > 0) {
        eprintln!(
            "perdura: acknowledged transactions were lost, or there is more than was written"
        );
        return Err(Failure::Found);
    }
    Ok(())
}

/// All kills of one size.
fn cell(
    plan: &Plan,
    spec: &Spec,
    number: usize,
    scratch: &Scratch,
    bar: &mut Bar,
) -> Result<Vec<Run>, Failure> {
    let mut outcomes: Vec<Vec<Outcome>> = plan.contestants.iter().map(|_| Vec::new()).collect();
    for round in 0..plan.repeat {
        for (&contestant, outcomes) in plan.contestants.iter().zip(&mut outcomes) {
            let directory = scratch.directory(&format!("{contestant}.{number}.{round}"))?;
            let (domain, run) = (plan.domain, plan.run.clone());
            let kill = Kill { contestant, domain, run, spec, directory: &directory };
            outcomes.push(kill.run(bar)?);
            scratch.discard(&directory);
        }
    }
    let both = plan.contestants.iter().zip(&outcomes);
    Ok(both.map(|(&contestant, outcomes)| summary(contestant, spec, outcomes)).collect())
}

fn summary(contestant: Contestant, spec: &Spec, outcomes: &[Outcome]) -> Run {
    let times: Vec<f64> = outcomes.iter().map(|outcome| outcome.found.first_commit_ms).collect();
    let found = &outcomes[median_index(&times)].found;
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum();
    Run {
        engine: contestant.engine(),
        peer: contestant.peer(),
        workload: "ycsb",
        tuples: spec.tuples,
        txns: spec.transactions,
        user_bytes: spec.user_bytes(),
        open_ms: found.open_ms,
        first_read_ms: found.first_read_ms,
        first_commit_ms: found.first_commit_ms,
        undone: found.recovered.map(|recovered| recovered.undone),
        redone: found.recovered.map(|recovered| recovered.redone),
        reclaimed: found.recovered.map(|recovered| recovered.reclaimed),
        acknowledged: sum(|outcome| outcome.acknowledged),
        lost: sum(|outcome| outcome.found.lost),
        surplus: sum(|outcome| outcome.found.surplus),
        opening_us: found.opening,
        reads_us: found.reads,
        in_flight: sum(|outcome| outcome.found.in_flight),
        spread_ms: (
            times.iter().copied().fold(f64::INFINITY, f64::min),
            times.iter().copied().fold(0.0, f64::max),
        ),
    }
}

fn people(plan: &Plan, runs: &[Run]) -> String {
    let head = [
        "store",
        "tuples",
        "txns",
        "open ms",
        "first read ms",
        "first commit ms",
        "min - max",
        "undone",
        "redone",
        "reclaimed",
        "acknowledged",
        "in flight",
        "lost",
        "surplus",
    ];
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    let mut text = format!("Recovery of YCSB after SIGKILL, median of {} kills\n\n", plan.repeat);
    text += &table(&head.map(str::to_owned), &rows, 1);
    if plan.repeat > 1 {
        text += "\nTimes and what recovery did are those of the median kill; acknowledged, in flight, lost and surplus are sums over all kills.";
    }
    text += &format!("\nWhere the time goes, in microseconds\n\n{}", parts(runs));
    text += "\nTimes are taken in a fresh process, from the start of its open call. In flight: whole transactions that were under way at the kill, which may be there or not.\nProcess evidence: the kernel keeps the pages of a killed process, so a kill says nothing about flushes or power loss.\n";
    text
}

/// The parts of opening, and the reads after it.
fn parts(runs: &[Run]) -> String {
    let head = [
        "store",
        "tuples",
        "txns",
        "map",
        "describe",
        "mark",
        "recovery",
        "all of open",
        "first read",
        "first commit",
        "reads 2-10",
        "11-100",
        "101-1,000",
        "again",
    ];
    let us = |value: f64| format!("{value:.1}");
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let part =
                |of: fn(&Opening) -> f64| run.opening_us.map_or("-".into(), |all| us(of(&all)));
            let reads = run.reads_us;
            vec![
                run.engine.or(run.peer).unwrap_or_default().to_owned(),
                grouped(run.tuples),
                grouped(run.txns),
                part(|all| all.map),
                part(|all| all.describe),
                part(|all| all.mark),
                part(|all| all.recovery),
                us(run.open_ms * 1e3),
                us((run.first_read_ms - run.open_ms) * 1e3),
                us((run.first_commit_ms - run.first_read_ms) * 1e3),
                us(reads.ten),
                us(reads.hundred),
                us(reads.thousand),
                us(reads.again),
            ]
        })
        .collect();
    let note = "\nMap: file, lock, header, mapping. Describe: the allocator's unfinished changes, description and schema. Mark: that the pool is open. Reads: the mean of one, of tuples chosen at random, by how many came before it; again: the same thousand once more.\n";
    table(&head.map(str::to_owned), &rows, 1) + note
}

fn row(run: &Run) -> Vec<String> {
    let ms = |value: f64| format!("{value:.3}");
    let told = |value: Option<u64>| value.map_or("-".into(), grouped);
    let (min, max) = run.spread_ms;
    vec![
        run.engine.or(run.peer).unwrap_or_default().to_owned(),
        grouped(run.tuples),
        grouped(run.txns),
        ms(run.open_ms),
        ms(run.first_read_ms),
        ms(run.first_commit_ms),
        format!("{} - {}", ms(min), ms(max)),
        told(run.undone),
        told(run.redone),
        told(run.reclaimed),
        grouped(run.acknowledged),
        grouped(run.in_flight),
        grouped(run.lost),
        grouped(run.surplus),
    ]
}
