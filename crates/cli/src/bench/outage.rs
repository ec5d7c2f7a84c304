//! `perdura bench tatp --kill-at`: one engine after the other, the series, the summary.

use std::collections::BTreeMap;
use std::path::Path;

use command::failure::{Failure, say};
use command::figures::{LatencyUs, PerTxn, Spread, fine, whole};
use command::footprint::FootprintBytes;
use command::host::Host;
use command::outage::{CSV_HEAD, Ended, Outage, Rebuild, Recovery, SAMPLE};
use command::output::{JsonTarget, Report, check_target, report, table, write_whole};
use command::progress::Bar;
use command::scratch::Scratch;
use command::settings::background_name;
use command::units::grouped;
use perdura::{Background, EngineKind};
use serde::Serialize;
use workloads::{Commit, tatp};

use crate::args::TatpArgs;
use crate::bench::terminals::{self, Workload};
use crate::bench::terminals_run::{Success, said};
use crate::plan::Plan;

/// A run as programs read it; others rely on the keys to the letter.
#[derive(Debug, Serialize)]
struct Run {
    engine: &'static str,
    workload: &'static str,
    mix: Option<()>,
    skew: Option<()>,
    #[serde(flatten)]
    sizes: BTreeMap<&'static str, u64>,
    #[serde(rename = "as")]
    form: &'static str,
    /// Transactions that returned, before and after the kill.
    txns: u64,
    partitions: usize,
    workers: usize,
    domain: Option<String>,
    modelled: bool,
    commit: &'static str,
    background: &'static str,
    group: Option<u32>,
    seed: u64,
    emulated: Option<()>,
    /// From the start of the users to the last sample.
    seconds: f64,
    /// Before the kill, as the spread and latencies.
    throughput_txn_s: f64,
    throughput_spread: Spread,
    latency_us: LatencyUs,
    success: BTreeMap<&'static str, Success>,
    /// Nothing is counted across a kill.
    per_txn: PerTxn,
    footprint_bytes: FootprintBytes,
    user_bytes: u64,
    tuples: u64,
    aborted: u64,
    conflicts: u64,
    retries: u64,
    consistency: BTreeMap<String, bool>,
    /// Contents depend on the moment of the kill.
    digest: Option<()>,
    /// `None` where opening builds no index.
    rebuild: Option<&'static str>,
    /// Per cent of the indexes in persistent memory, if they were chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<u32>,
    kill_at_s: f64,
    recovery: Recovery,
    /// From the kill to the first answer, with the start of the next process.
    answered_ms: Option<f64>,
    /// From here on in the next process, from the start of its open call.
    open_ms: f64,
    first_answer_ms: Option<f64>,
    first_commit_ms: Option<f64>,
    acknowledged: u64,
    lost: u64,
    surplus: u64,
    #[serde(skip)]
    violations: Vec<String>,
}

/// Runs the benchmark across a kill.
///
/// # Errors
/// Options that contradict each other, an engine that failed, or [`Failure::Found`] if anything is
/// lost or a check does not hold.
pub(crate) fn run(args: &TatpArgs, spec: &tatp::Spec, plan: &Plan) -> Result<(), Failure> {
    let (before, after) = samples(args)?;
    refuse(args, plan)?;
    let json = match &args.common.json {
        Some(JsonTarget::File(path)) => Some(path.as_path()),
        _ => None,
    };
    check_target(args.common.json.as_ref(), &[])?;
    let series = args.kill.series.as_deref();
    if let Some(path) = series {
        let others: Vec<&Path> = json.into_iter().collect();
        check_target(Some(&JsonTarget::File(path.to_owned())), &others)?;
    }
    let scratch = Scratch::new(args.common.path.as_deref(), args.common.keep)?;
    let host = Host::new(scratch.medium());
    scratch.require(terminals::needed_bytes(plan, spec), Some(tatp::Spec::SMALLER))?;
    let mut bar = Bar::new();
    let (mut runs, mut text) = (Vec::new(), CSV_HEAD.to_owned());
    for kind in plan.systems.iter().filter_map(|one| one.kind()) {
        let directory = scratch.directory(kind.name())?;
        let rebuild = args.kill.rebuild.unwrap_or(Rebuild::Background);
        let outage = Outage {
            kind,
            domain: plan.domain,
            spec,
            users: plan.run.workers,
            placement: plan.placement.filter(|_| rebuilds(kind)),
            rebuild,
            background: background(kind, plan),
            before,
            after,
            directory: &directory,
        };
        let ended = outage.run(&mut bar)?;
        text += &ended.curve.csv(kind.name());
        runs.push(summary(&outage, plan, ended));
        scratch.discard(&directory);
    }
    drop(bar);
    if let Some(path) = series {
        write_whole(path, text.as_bytes())
            .map_err(|error| Failure::about(path.display(), error))?;
    }
    let text = host.line() + &human_text(&runs);
    let printed = report(&text, &Report::new(&host, &runs), args.common.json.as_ref());
    Failure::or_verdict(printed, || judge(&runs))
}

/// Returns the numbers of samples before and after the kill.
fn samples(args: &TatpArgs) -> Result<(u32, u32), Failure> {
    let kill = &args.kill;
    let at = kill.kill_at.unwrap_or_default();
    let until = kill.until.unwrap_or(at * 2);
    let count = |time: std::time::Duration| (time.as_millis() / SAMPLE.as_millis()) as u32;
    let (before, all) = (count(at), count(until));
    if all <= before {
        let (at, until) = (at.as_secs_f64(), until.as_secs_f64());
        let why = format!("--until {until} is not after --kill-at {at}; both count from the start");
        return Err(Failure::Usage(why));
    }
    Ok((before, all - before))
}

/// Refuses what makes no sense across a kill.
fn refuse(args: &TatpArgs, plan: &Plan) -> Result<(), Failure> {
    let usage = |why: String| Err(Failure::Usage(why));
    if plan.run.commit != Commit::Durable {
        return usage("--kill-at needs --commit durable: users count what is durable".into());
    }
    if plan.repeat > 1 {
        return usage("--kill-at makes one run; leave out --repeat".into());
    }
    if args.kill.rebuild.is_none() {
        return Ok(());
    }
    match plan.systems.iter().filter_map(|one| one.kind()).find(|kind| !rebuilds(*kind)) {
        None => Ok(()),
        Some(kind) => usage(format!(
            "--rebuild is an option of sofort, whose indexes come back beside transactions; {kind} is as soon as it is open what it was before: leave the option out, or name --engine sofort"
        )),
    }
}

/// Returns true for an engine whose indexes may still be missing when it is open.
fn rebuilds(kind: EngineKind) -> bool {
    kind == EngineKind::Sofort
}

/// The threads that do the work which an engine puts off. Indexes are built by a thread, that users do
/// not have to.
fn background(kind: EngineKind, plan: &Plan) -> Background {
    if rebuilds(kind) { Background::Thread } else { plan.background }
}

fn summary(outage: &Outage<'_>, plan: &Plan, ended: Ended) -> Run {
    let Ended { curve, rates, found, .. } = ended;
    let steady: Vec<f64> = curve.steady().iter().map(|sample| sample.throughput_txn_s()).collect();
    let throughput_txn_s = curve.throughput_txn_s();
    let (_, throughput_spread, _) = Spread::of(&steady);
    let mut consistency: BTreeMap<String, bool> = found
        .checks
        .iter()
        .map(|(name, _, violation)| (name.clone(), violation.is_none()))
        .collect();
    let violation = |(name, what, violation): &(String, String, Option<String>)| {
        let found = violation.as_ref()?;
        Some(format!("check {name} ({what}) does not hold: {found}"))
    };
    let mut violations: Vec<String> = found.checks.iter().filter_map(violation).collect();
    let wrong = rates.iter().find(|rate| !rate.holds());
    consistency.insert("success_rates".into(), wrong.is_none());
    violations.extend(wrong.map(|rate| said(*rate)));
    let (retries, conflicts) = found.retries_and_conflicts;
    Run {
        engine: outage.kind.name(),
        workload: tatp::Spec::NAME,
        mix: None,
        skew: None,
        sizes: outage.spec.sizes(),
        form: outage.spec.form.name(),
        txns: ended.acknowledged,
        partitions: outage.spec.partitions,
        workers: outage.users,
        domain: found.domain,
        modelled: found.modelled,
        commit: "durable",
        background: background_name(outage.background),
        group: None,
        seed: plan.seed(),
        emulated: None,
        seconds: curve.samples.last().map_or(0.0, |last| last.end_s),
        throughput_txn_s,
        throughput_spread,
        latency_us: curve.latency_us(),
        success: rates.into_iter().map(|rate| (rate.kind.name(), Success::from(rate))).collect(),
        per_txn: PerTxn::default(),
        footprint_bytes: found.footprint_bytes,
        user_bytes: found.user_bytes,
        tuples: found.tuples,
        aborted: ended.aborted,
        conflicts,
        retries,
        consistency,
        digest: None,
        placement: outage.placement,
        rebuild: rebuilds(outage.kind).then(|| outage.rebuild.name()),
        kill_at_s: curve.killed_s,
        recovery: curve.recovery(),
        answered_ms: ended.answered_ms,
        open_ms: ended.open_ms,
        first_answer_ms: ended.first_answer_ms,
        first_commit_ms: ended.first_commit_ms,
        acknowledged: ended.acknowledged,
        lost: found.lost,
        surplus: found.surplus,
        violations,
    }
}

/// Fails if anything was found that should not be.
fn judge(runs: &[Run]) -> Result<(), Failure> {
    for run in runs {
        let name = run.engine;
        run.violations.iter().for_each(|found| say(format_args!("perdura: {name}: {found}")));
    }
    let broken = |run: &Run| !run.violations.is_empty() || run.lost + run.surplus > 0;
    if runs.iter().any(broken) { Err(Failure::Found) } else { Ok(()) }
}

fn human_text(runs: &[Run]) -> String {
    let first = &runs[0];
    let subscribers =
        first.sizes.values().map(|&size| grouped(size)).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "TATP across a kill: subscribers: {subscribers}, users: {}, killed at {:.1} s of {:.1} s\n\n",
        first.workers, first.kill_at_s, first.seconds,
    );
    let head = [
        "store",
        "rebuild",
        "txn/s before",
        "min - max",
        "p50 us",
        "delta s",
        "area txns",
        "response us",
        "peak us",
        "built s",
        "open ms",
        "answer ms",
        "lost",
        "surplus",
    ];
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    text += &table(&head.map(str::to_owned), &rows, 2);
    text += "\nDelta: from the kill to the first five samples that together reach 95% of the throughput before. Area: what would have been committed meanwhile, less what was. Response: the mean meanwhile; its peak is that of a sample of 100 ms. Answer: from the start of the open call.\n";
    for run in runs {
        let holds = run.consistency.values().filter(|holds| !**holds).count();
        let names: Vec<&str> = run.consistency.keys().map(String::as_str).collect();
        let holds = if holds == 0 { "hold".to_owned() } else { format!("{holds} do not hold") };
        text += &format!("Checks of {} ({}): {holds}.\n", run.engine, names.join(", "));
    }
    if runs.iter().any(|run| run.modelled) {
        text += "The medium does not keep what the domain promises: flushes and fences are really executed.\n";
    }
    text
}

fn row(run: &Run) -> Vec<String> {
    let text = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
    let Recovery { delta_s, area_txns, response_mean_us, response_peak_us, built_s, .. } =
        &run.recovery;
    vec![
        run.engine.to_owned(),
        run.rebuild.unwrap_or("-").to_owned(),
        whole(run.throughput_txn_s),
        run.throughput_spread.text(),
        fine(Some(run.latency_us.p50)),
        text(*delta_s),
        whole(*area_txns),
        fine(*response_mean_us),
        fine(*response_peak_us),
        text(*built_s),
        format!("{:.3}", run.open_ms),
        fine(run.first_answer_ms),
        grouped(run.lost),
        grouped(run.surplus),
    ]
}
