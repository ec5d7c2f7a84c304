//! `perdura bench recovery`.
//!
//! For every number of tuples and of transactions the rounds go around the systems; each round
//! is a whole kill (see [`command::kill`]), because opening changes what a crash left. InP takes a
//! checkpoint after loading and none later, so that its log holds what ran since.
//!
//! Of several rounds, times and what recovery did are those of the kill with the median time from
//! the open call to the first durable commit; acknowledged, lost and surplus are sums.

use std::collections::BTreeMap;

use command::child::{Opening, Reads};
use command::failure::{Failure, say};
use command::figures::median_index;
use command::host::Host;
use command::job::Job;
use command::kill::{Kill, Outcome};
use command::output::{Report, check_target, report, table};
use command::progress::Bar;
use command::scratch::Scratch;
use command::settings::{background_name, commit_group, commit_name, commit_text};
use command::system::{Promise, System};
use command::units::grouped;
use serde::Serialize;
use workloads::tpcb;
use workloads::ycsb::{Mix, Skew};

use crate::args::{RecoveryArgs, WorkloadName};
use crate::plan::Plan;

/// A run as programs read it; others rely on the keys to the letter.
#[derive(Debug, Clone, Serialize)]
struct Run {
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'static str>,
    workload: &'static str,
    /// `None` in TPC-B and TPC-C, which have their own.
    mix: Option<&'static str>,
    skew: Option<&'static str>,
    partitions: usize,
    domain: Option<&'static str>,
    modelled: bool,
    commit: &'static str,
    group: Option<u32>,
    seed: u64,
    background: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warehouses: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branches: Option<u32>,
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
    /// Mean microseconds of the reads after it, of YCSB.
    reads_us: Option<Reads>,
    /// Percent of the indexes that were built at the first commit; `None` of an engine that opens with
    /// all of them, and where it was not looked at.
    built_percent: Option<f64>,
    /// The conditions in all kills.
    #[serde(skip_serializing_if = "Option::is_none")]
    consistency: Option<BTreeMap<String, bool>>,
    #[serde(skip)]
    wrong: Vec<String>,
    #[serde(skip)]
    in_flight: u64,
    #[serde(skip)]
    spread_ms: (f64, f64),
    #[serde(skip)]
    promise: Promise,
}

/// Runs the benchmark.
///
/// # Errors
/// Options that contradict each other, a store that failed, or [`Failure::Found`] if anything was
/// lost.
pub(crate) fn run(args: &RecoveryArgs) -> Result<(), Failure> {
    let plan = Plan::new(&args.common, &args.peers.peer.0)?.with_placement(args.placement)?;
    if let Some(map) = args.peers.peer.0.iter().find(|peer| !peer.is_durable()) {
        let why = format!("peer {map} keeps nothing in files: there is nothing to reopen");
        return Err(Failure::Usage(why));
    }
    check_target(args.common.json.as_ref(), &[])?;
    let jobs = jobs(&plan, args)?;
    jobs.iter().try_for_each(|job| check_group(&plan, job))?;
    let scratch = Scratch::new(args.common.path.as_deref(), args.common.keep)?;
    let host = Host::new(scratch.medium());
    let mut bar = Bar::new();
    let mut runs = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        runs.extend(cell(&plan, job, number, &scratch, &mut bar)?);
    }
    drop(bar);
    let text = host.line() + &human_text(&plan, &runs);
    let printed = report(&text, &Report::new(&host, &runs), args.common.json.as_ref());
    Failure::or_verdict(printed, || judge(&runs))
}

/// Fails if anything was found that should not be.
fn judge(runs: &[Run]) -> Result<(), Failure> {
    for run in runs {
        let name = run.engine.or(run.peer).unwrap_or_default();
        run.wrong.iter().for_each(|wrong| say(format_args!("perdura: {name}: {wrong}")));
    }
    let broken = |run: &Run| run.lost > 0 || run.surplus > 0;
    if runs.iter().any(broken) {
        say("perdura: acknowledged transactions were lost, or there is more than was written");
    }
    let found = runs.iter().any(|run| broken(run) || !run.wrong.is_empty());
    if found { Err(Failure::Found) } else { Ok(()) }
}

/// Refuses a run in which no group of updates gets full: it would acknowledge nothing before its
/// end, so that there is no moment for the kill.
fn check_group(plan: &Plan, job: &Job) -> Result<(), Failure> {
    let Some(group) = commit_group(plan.run.commit) else { return Ok(()) };
    let (percent, smaller) = match job {
        Job::Ycsb(spec) => (spec.mix.update_percent(), "a --mix with more updates, "),
        // All but order status and stock level.
        Job::Tpcc(_) => (92, ""),
        Job::Tpcb(_) => (100, ""),
    };
    let counters = job.counters(plan.run.workers) as u64;
    let updates = job.with_more()?.transactions() / counters * percent / 100;
    if updates >= u64::from(group) {
        return Ok(());
    }
    let (group, updates) = (grouped(u64::from(group)), grouped(updates));
    Err(Failure::Usage(format!(
        "--commit grouped acknowledges {group} updates together, and the process that is killed makes about {updates} in a partition: nothing would be acknowledged before the kill; choose a smaller --group, {smaller}or --commit durable"
    )))
}

/// Everything that is to be killed: for each size, each number of transactions.
fn jobs(plan: &Plan, args: &RecoveryArgs) -> Result<Vec<Job>, Failure> {
    let refuse = |given: bool, option: &str, of: &str, instead: &str| match given {
        true => Err(Failure::Usage(format!("{option} is an option of {of}; {instead}"))),
        false => Ok(()),
    };
    let refuse_ycsb = |instead: &str| {
        refuse(args.tuples.is_some(), "--tuples", "YCSB", instead)?;
        refuse(args.mix.is_some(), "--mix", "YCSB", instead)?;
        refuse(args.skew.is_some(), "--skew", "YCSB", instead)?;
        refuse(args.update_columns.is_some(), "--update-columns", "YCSB", instead)
    };
    let refuse_tpcb = |args: &RecoveryArgs| {
        let instead = "add --workload tpcb, or leave it out";
        refuse(args.branches.is_some(), "--branches", "TPC-B", instead)?;
        refuse(args.accounts.is_some(), "--accounts", "TPC-B", instead)?;
        refuse(args.form.is_some(), "--as", "TPC-B", instead)
    };
    let mut jobs = Vec::new();
    match args.workload {
        WorkloadName::Ycsb => {
            let instead = "add --workload tpcc, or leave it out";
            refuse(args.warehouses.is_some(), "--warehouses", "TPC-C", instead)?;
            refuse(args.scale.remote, "--remote", "TPC-C", instead)?;
            refuse_tpcb(args)?;
            let (mix, skew) = (args.mix.unwrap_or(Mix::Balanced), args.skew.unwrap_or(Skew::Low));
            let update_columns = args.update_columns.unwrap_or(1);
            for &tuples in args.tuples.as_deref().unwrap_or(&[200_000]) {
                for &txns in &args.txns {
                    let spec = plan.ycsb(mix, skew, (tuples, txns), update_columns)?;
                    jobs.push(Job::Ycsb(spec));
                }
            }
        }
        WorkloadName::Tpcc => {
            refuse_ycsb("with --workload tpcc give --warehouses and --items")?;
            refuse_tpcb(args)?;
            for &warehouses in args.warehouses.as_deref().unwrap_or(&[1]) {
                for &txns in &args.txns {
                    jobs.push(Job::Tpcc(plan.tpcc(&args.scale, warehouses, txns)?));
                }
            }
        }
        WorkloadName::Tpcb => {
            refuse_ycsb("with --workload tpcb give --branches")?;
            refuse(args.warehouses.is_some(), "--warehouses", "TPC-C", "give --branches")?;
            refuse(args.scale.remote, "--remote", "TPC-C", "leave it out")?;
            let accounts = args.accounts.unwrap_or(tpcb::ACCOUNTS);
            let form = args.form.unwrap_or_default();
            for &branches in args.branches.as_deref().unwrap_or(&[1]) {
                for &txns in &args.txns {
                    plan.refuse_peers("TPC-B")?;
                    jobs.push(Job::Tpcb(plan.tpcb(branches, accounts, form, txns)?));
                }
            }
        }
    }
    Ok(jobs)
}

/// All kills of one size.
fn cell(
    plan: &Plan,
    job: &Job,
    number: usize,
    scratch: &Scratch,
    bar: &mut Bar,
) -> Result<Vec<Run>, Failure> {
    let mut outcomes: Vec<Vec<Outcome>> = plan.systems.iter().map(|_| Vec::new()).collect();
    for round in 0..plan.repeat {
        for (&system, outcomes) in plan.systems.iter().zip(&mut outcomes) {
            let directory = scratch.directory(&format!("{system}.{number}.{round}"))?;
            let (domain, run, background) = (plan.domain, plan.run.clone(), plan.background);
            let kill = Kill {
                system,
                domain,
                run,
                tree_node_bytes: None,
                placement: plan.placement.filter(|_| is_sofort(system)),
                background,
                job,
                directory: &directory,
            };
            outcomes.push(kill.run(bar)?);
            scratch.discard(&directory);
        }
    }
    let both = plan.systems.iter().zip(&outcomes);
    let summary = |(&system, outcomes): (&System, &Vec<Outcome>)| {
        let promise = Promise::of(system, plan.domain, scratch.medium());
        summary(plan, system, promise, job, outcomes)
    };
    Ok(both.map(summary).collect())
}

/// Returns whether the placement of a system's indexes can be chosen.
fn is_sofort(system: System) -> bool {
    system.kind() == Some(perdura::EngineKind::Sofort)
}

fn summary(plan: &Plan, system: System, promise: Promise, job: &Job, outcomes: &[Outcome]) -> Run {
    let times: Vec<f64> = outcomes.iter().map(|outcome| outcome.found.first_commit_ms).collect();
    let found = &outcomes[median_index(&times)].found;
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum();
    let (mix, skew, seed) = match job {
        Job::Ycsb(spec) => (Some(spec.mix.name()), Some(spec.skew.name()), spec.seed),
        Job::Tpcc(spec) => (None, None, spec.seed),
        Job::Tpcb(spec) => (None, None, spec.seed),
    };
    let held = (found.tuples.unwrap_or_default(), found.user_bytes.unwrap_or_default());
    let (workload, (tuples, user_bytes)) = match job {
        Job::Ycsb(spec) => ("ycsb", (spec.tuples, spec.user_bytes())),
        Job::Tpcc(_) => ("tpcc", held),
        Job::Tpcb(_) => ("tpcb", held),
    };
    let (warehouses, branches) = match job {
        Job::Ycsb(_) => (None, None),
        Job::Tpcc(spec) => (Some(spec.warehouses), None),
        Job::Tpcb(spec) => (None, Some(spec.branches)),
    };
    Run {
        engine: system.engine(),
        peer: system.peer(),
        workload,
        mix,
        skew,
        partitions: job.partitions(),
        domain: promise.domain.map(perdura::Domain::name),
        modelled: promise.modelled,
        commit: commit_name(plan.run.commit),
        group: commit_group(plan.run.commit),
        seed,
        background: background_name(plan.background),
        placement: plan.placement.filter(|_| is_sofort(system)),
        warehouses,
        branches,
        tuples,
        txns: job.transactions(),
        user_bytes,
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
        built_percent: found.built_percent,
        consistency: consistency(outcomes),
        wrong: outcomes.iter().flat_map(|outcome| outcome.found.wrong.clone()).collect(),
        in_flight: sum(|outcome| outcome.found.in_flight),
        spread_ms: (
            times.iter().copied().fold(f64::INFINITY, f64::min),
            times.iter().copied().fold(0.0, f64::max),
        ),
        promise,
    }
}

/// A condition holds if it did after every kill; `None` if the workload has no conditions.
fn consistency(outcomes: &[Outcome]) -> Option<BTreeMap<String, bool>> {
    let mut all = outcomes.iter().filter_map(|outcome| outcome.found.consistency.as_ref());
    let first = all.next()?.clone();
    Some(all.fold(first, |mut both, one| {
        one.iter().for_each(|(number, holds)| *both.entry(number.clone()).or_insert(true) &= holds);
        both
    }))
}

fn human_text(plan: &Plan, runs: &[Run]) -> String {
    let head = [
        "store",
        "domain",
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
    let (workload, agreed) = match runs[0].workload {
        "tpcc" => (
            "TPC-C",
            "Consistency conditions 1 to 12 hold after every kill, and every tuple is what a second database of another engine came to.",
        ),
        "tpcb" => (
            "TPC-B",
            "After every kill the balances of branches, tellers and accounts agree with each other and with the history.",
        ),
        _ => ("YCSB", ""),
    };
    let mut text = format!(
        "Recovery of {workload} after SIGKILL, partitions: {}, commits {}, median of {} kills\n\n",
        runs[0].partitions,
        commit_text(plan.run.commit),
        plan.repeat
    );
    text += &table(&head.map(str::to_owned), &rows, 2);
    if runs.iter().any(|run| run.promise.modelled) {
        text += "\n(modelled): flushes and fences are really executed, but this medium does not keep what they promise.";
    }
    if plan.repeat > 1 {
        text += "\nTimes and what recovery did are those of the median kill; acknowledged, in flight, lost and surplus are sums over all kills.";
    }
    if runs.iter().all(|run| run.consistency.is_some())
        && runs.iter().all(|run| run.wrong.is_empty())
    {
        text += "\n";
        text += agreed;
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
        "built",
    ];
    let us = |value: f64| format!("{value:.1}");
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let part =
                |of: fn(&Opening) -> f64| run.opening_us.map_or("-".into(), |all| us(of(&all)));
            let reads = |of: fn(&Reads) -> f64| run.reads_us.map_or("-".into(), |all| us(of(&all)));
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
                reads(|all| all.ten),
                reads(|all| all.hundred),
                reads(|all| all.thousand),
                reads(|all| all.again),
                run.built_percent.map_or("-".into(), |percent| format!("{percent:.1}%")),
            ]
        })
        .collect();
    let note = "\nMap: file, lock, header, mapping. Describe: the allocator's unfinished changes, description and schema. Mark: that the pool is open. Reads: the mean of one, of tuples chosen at random, by how many came before it; again: the same thousand once more. Built: the share of the indexes at the first commit, of an engine that opens without them.\n";
    table(&head.map(str::to_owned), &rows, 1) + note
}

fn row(run: &Run) -> Vec<String> {
    let ms = |value: f64| format!("{value:.3}");
    let text = |value: Option<u64>| value.map_or("-".into(), grouped);
    let (min, max) = run.spread_ms;
    vec![
        run.engine.or(run.peer).unwrap_or_default().to_owned(),
        run.promise.text(),
        grouped(run.tuples),
        grouped(run.txns),
        ms(run.open_ms),
        ms(run.first_read_ms),
        ms(run.first_commit_ms),
        format!("{} - {}", ms(min), ms(max)),
        text(run.undone),
        text(run.redone),
        text(run.reclaimed),
        grouped(run.acknowledged),
        grouped(run.in_flight),
        grouped(run.lost),
        grouped(run.surplus),
    ]
}
