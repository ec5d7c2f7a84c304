//! `perdura crash`: the states that a crash can leave, and whether an engine recovers from each.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use command::args::crash::{CrashArgs, ScenarioWorkload};
use command::failure::Failure;
use command::host::Host;
use command::output::{self, check_target, report, table};
use command::process::this_program;
use command::progress::Bar;
use command::scratch::Scratch;
use command::units::grouped;
use faults::catalogue::{Fault, faults, find};
use faults::examine::{Report, Settings, examine};
use faults::plot::Workload;
use faults::soak::{Soak, Soaked, soak, victim};
use perdura::{Domain, EngineKind, Medium};
use serde::Serialize;

/// First argument of a process that is killed over and over.
pub(crate) const SOAKED: &str = "__soaked";

/// The JSON of `--list-faults`.
#[derive(Debug, Serialize)]
struct Listed {
    faults: Vec<ListedFault>,
}

#[derive(Debug, Serialize)]
struct ListedFault {
    name: &'static str,
    engine: &'static str,
    what: &'static str,
}

/// Runs the explorer.
///
/// # Errors
/// An engine or a fault that does not exist; [`Failure::Found`] if a state is wrong.
pub(crate) fn run(args: &CrashArgs) -> Result<(), Failure> {
    check_target(args.json.as_ref(), &[])?;
    if args.list_faults {
        return list(args);
    }
    if let Some(kills) = args.kills {
        return soak_all(args, kills);
    }
    let all = settings(args)?;
    let mut bar = Bar::new();
    let mut runs = Vec::new();
    for settings in &all {
        let done = AtomicU64::new(0);
        let what = match settings.inject {
            None => settings.engine.name().to_owned(),
            Some(fault) => fault.name.to_owned(),
        };
        bar.phase(what, settings.states + settings.nested);
        runs.push(bar.watch(|| done.load(Ordering::Relaxed), || examine(settings, &done)));
    }
    drop(bar);
    let text = human_text(&runs, &all);
    let medium = Medium::of_no_file("recording media");
    let host = Host::new(&medium);
    let printed = report(&text, &output::Report::new(&host, &runs), args.json.as_ref());
    Failure::or_verdict(printed, || judge(&runs))
}

/// Fails if a state was wrong, or a fault was not noticed.
fn judge(runs: &[Report]) -> Result<(), Failure> {
    let unnoticed: Vec<_> = runs
        .iter()
        .filter(|run| run.violations == 0)
        .filter_map(|run| {
            let why = if run.injected == 0 { " (it shows nowhere in the scenarios)" } else { "" };
            run.inject.map(|name| format!("{name}{why}"))
        })
        .collect();
    if !unnoticed.is_empty() {
        return Err(Failure::Failed(format!("not noticed: {}", unnoticed.join(", "))));
    }
    if runs.iter().any(|run| run.violations > 0) { Err(Failure::Found) } else { Ok(()) }
}

fn settings(args: &CrashArgs) -> Result<Vec<Settings>, Failure> {
    let one = |engine, inject| Settings {
        workload: workload(args.workload),
        engine,
        seed: args.seed,
        states: args.states,
        nested: args.nested,
        inject,
        bound: args.bound,
        replay: args.replay,
        transactions: args.transactions.map(|transactions| transactions as usize),
        placement: args.placement,
    };
    let Some(name) = &args.inject else {
        let engines = args.engine.as_ref().map_or(&EngineKind::ALL[..], |list| &list.0);
        if args.placement.is_some() && engines != [EngineKind::Sofort] {
            return Err(Failure::Usage("--placement is for --engine sofort".into()));
        }
        return Ok(engines.iter().map(|engine| one(*engine, None)).collect());
    };
    let wanted =
        |fault: &&Fault| args.engine.as_ref().is_none_or(|list| list.0.contains(&fault.engine));
    let faults: Vec<&Fault> = match name.as_str() {
        "all" => faults().filter(wanted).collect(),
        name => find(name).into_iter().filter(wanted).collect(),
    };
    if faults.is_empty() {
        return Err(Failure::Usage(format!(
            "there is no fault `{}` of these engines; `perdura crash --list-faults` names them",
            pm::Escaped(name)
        )));
    }
    Ok(faults.into_iter().map(|fault| one(fault.engine, Some(fault))).collect())
}

const fn workload(named: ScenarioWorkload) -> Workload {
    match named {
        ScenarioWorkload::Scenario => Workload::Scenario,
        ScenarioWorkload::Ycsb => Workload::Ycsb,
        ScenarioWorkload::Tpcc => Workload::Tpcc,
    }
}

fn list(args: &CrashArgs) -> Result<(), Failure> {
    let wanted =
        |fault: &&Fault| args.engine.as_ref().is_none_or(|list| list.0.contains(&fault.engine));
    let faults: Vec<_> = faults()
        .filter(wanted)
        .map(|fault| ListedFault {
            name: fault.name,
            engine: fault.engine.name(),
            what: fault.what,
        })
        .collect();
    let head = ["fault", "engine", "what"].map(str::to_owned);
    let rows: Vec<_> = faults
        .iter()
        .map(|fault| vec![fault.name.into(), fault.engine.into(), fault.what.into()])
        .collect();
    report(&table(&head, &rows, 3), &Listed { faults }, args.json.as_ref())
}

fn human_text(runs: &[Report], all: &[Settings]) -> String {
    let head = [
        "engine",
        "inject",
        "crash points",
        "states",
        "of kills",
        "nested",
        "in recovery",
        "violations",
        "seconds",
    ]
    .map(str::to_owned);
    let row = |run: &Report| {
        vec![
            run.engine.to_owned(),
            run.inject.unwrap_or("-").to_owned(),
            grouped(run.crash_points),
            grouped(run.states),
            grouped(run.kill_states),
            grouped(run.nested_states),
            grouped(run.in_recovery),
            grouped(run.violations),
            format!("{:.1}", run.seconds),
        ]
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let mut text = table(&head, &rows, 2);
    for (run, settings) in runs.iter().zip(all) {
        if let Some(violation) = run.violation(settings) {
            text += &format!("\n{violation}");
        }
    }
    text += "\nStates are distinct within a scenario. Nested: of crashes in recovery (those in recovery) and in the first transactions after it. Each is recovered from, and must hold every acknowledged transaction and nothing but those in flight beside them.\n";
    text
}

/// The JSON of a soak of one engine in one domain.
#[derive(Debug, Serialize)]
struct SoakRun {
    engine: &'static str,
    domain: &'static str,
    seed: u64,
    #[serde(flatten)]
    soaked: Soaked,
    seconds: f64,
}

fn soak_all(args: &CrashArgs, kills: u64) -> Result<(), Failure> {
    let program = this_program().map_err(|error| Failure::about("this program", error))?;
    let mut scratch = Scratch::new(args.path.as_deref(), false)?;
    let engines = args.engine.as_ref().map_or(&EngineKind::ALL[..], |list| &list.0);
    let (mut bar, mut runs) = (Bar::new(), Vec::new());
    for engine in engines {
        for domain in &args.domain.0 {
            let started = std::time::Instant::now();
            let directory = scratch.directory(&format!("{engine}-{domain}"))?;
            let path = directory.join("pool");
            let wanted = Soak {
                engine: *engine,
                domain: *domain,
                kills,
                life: Duration::from_millis(args.life_ms),
                seed: args.seed,
                path: &path,
            };
            let start = |seed: u64| {
                let mut command = Command::new(&program);
                command.arg(SOAKED).arg(&path).args([engine.name(), domain.name()]);
                command.arg(seed.to_string());
                command
            };
            bar.phase(format!("{engine}, {domain}: kills"), kills);
            let soaked = soak(&wanted, &start, &mut |kills| bar.at(kills))
                .map_err(|error| Failure::about(format!("{engine}, {domain}"), error))?;
            runs.push(SoakRun {
                engine: engine.name(),
                domain: domain.name(),
                seed: args.seed,
                soaked,
                seconds: started.elapsed().as_secs_f64(),
            });
            if runs.last().is_some_and(|run| run.soaked.wrong.is_some()) {
                scratch.preserve();
            } else {
                scratch.discard(&directory);
            }
        }
    }
    drop(bar);
    let host = Host::new(scratch.medium());
    let report_of = output::Report::new(&host, &runs);
    let printed = report(&soak_table(&runs), &report_of, args.json.as_ref());
    Failure::or_verdict(printed, || {
        let bad = |run: &SoakRun| run.soaked.wrong.is_some();
        if runs.iter().any(bad) { Err(Failure::Found) } else { Ok(()) }
    })
}

fn soak_table(runs: &[SoakRun]) -> String {
    let head = [
        "engine",
        "domain",
        "kills",
        "in recovery",
        "acknowledged",
        "in flight",
        "lost",
        "surplus",
        "seconds",
    ]
    .map(str::to_owned);
    let row = |run: &SoakRun| {
        let Soaked { kills, in_recovery, acknowledged, in_flight, lost, surplus, .. } = run.soaked;
        let mut row = vec![run.engine.to_owned(), run.domain.to_owned()];
        row.extend([kills, in_recovery, acknowledged, in_flight, lost, surplus].map(grouped));
        row.push(format!("{:.1}", run.seconds));
        row
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let wrong = |run: &SoakRun| {
        let wrong = run.soaked.wrong.as_ref()?;
        Some(format!("\n{}, {}: {}\n", run.engine, run.domain, pm::Escaped(wrong)))
    };
    let wrong: String = runs.iter().filter_map(wrong).collect();
    table(&head, &rows, 2)
        + &wrong
        + "\nKills with SIGKILL under load, each at a random time; the next process reads all that is there. In recovery: before the database was open. In flight: transactions that a kill hit and that are there.\nProcess evidence: the kernel keeps the pages of a killed process, so a kill says nothing about flushes or power loss.\n"
}

/// The process that is killed: path, engine, domain, seed.
pub(crate) fn soaked(arguments: &[OsString]) -> ExitCode {
    let parse = || -> Option<(EngineKind, Domain, u64)> {
        let text = |index: usize| arguments.get(index)?.to_str();
        Some((text(1)?.parse().ok()?, text(2)?.parse().ok()?, text(3)?.parse().ok()?))
    };
    let (Some(path), Some((engine, domain, seed))) = (arguments.first(), parse()) else {
        return ExitCode::from(2);
    };
    match victim(Path::new(path), engine, domain, seed, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => Failure::from(error).report(),
    }
}

#[cfg(test)]
mod tests {
    use command::args::crash::{BOUND, LIFE_MS, ScenarioWorkload};

    use super::*;

    #[test]
    fn defaults_of_the_command_are_those_of_the_explorer() {
        assert_eq!(BOUND, faults::examine::BOUND);
        assert_eq!(Duration::from_millis(LIFE_MS), faults::soak::LIFE);
    }

    #[test]
    fn every_workload_of_scenarios_has_its_name() {
        use clap::ValueEnum;

        let named = ScenarioWorkload::value_variants().iter().map(|&one| {
            let value = one.to_possible_value().expect("none is hidden");
            (value.get_name().to_owned(), workload(one).name().to_owned())
        });
        assert!(named.clone().all(|(option, name)| option == name));
        assert_eq!(named.count(), Workload::ALL.len());
    }
}
