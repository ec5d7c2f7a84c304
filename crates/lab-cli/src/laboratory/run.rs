//! `perdura lab run`.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use command::args::lab::RunArgs;
use command::failure::{Failure, say};
use command::output::{check_target, report};
use command::scratch::Scratch;
use lab::LabError;
use lab::bench::Bench;
use lab::calibrations::Calibrations;
use lab::experiments::{Experiment, named};
use lab::results::{Results, Selection};
use lab::run::Plan;
use peers::PeerKind;

use super::failed::failure;
use super::frame::Points;
use super::launcher::Kills;
use super::progress::{LabProgress, SILENCE, duration};
use super::{identity, sizes};

/// Does what is missing.
///
/// # Errors
/// An unknown experiment, results that cannot be written, or a measurement that failed.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let experiments = named(&args.ids).map_err(failure)?;
    check_target(args.json.as_ref(), &[&args.results.results])?;
    let mut results = Results::open_or_create(&args.results.results).map_err(failure)?;
    let scratch = Scratch::new(args.path.as_deref(), false)?;
    let identity = identity(&scratch, args.seed);
    let host = identity.host.clone();
    let selection = Selection {
        commit: identity.commit.clone(),
        host: host.key(),
        scale: sizes(&args.scale).name(),
        seed: args.seed,
    };
    let plan = Plan::new(&results, &experiments, sizes(&args.scale), identity).map_err(failure)?;
    plan.check_room(&scratch.room()?).map_err(failure)?;
    let started = Instant::now();
    if experiments.iter().any(|experiment| experiment.id.starts_with("PEERS-")) {
        for why in PeerKind::ALL.into_iter().filter_map(PeerKind::unavailable) {
            say(format_args!("left out: {why}"));
        }
    }
    tell_beginning(&plan);
    let ran = {
        let progress = LabProgress::new();
        let directory = scratch.directory("lab")?;
        let bench = Bench {
            directory: &directory,
            seed: args.seed,
            launcher: &Kills,
            watch: &progress,
            room: &|| scratch.room().ok(),
            calibrations: Calibrations::default(),
        };
        plan.run(&mut results, &bench, &progress)
    };
    let wanted = |id: &str| experiments.iter().any(|experiment: &&Experiment| experiment.id == id);
    let differing = || differing(&results, &selection, wanted);
    if let Err(error) = ran {
        // A file that cannot be written may still be read, and its differences reported.
        if let Ok(Some(differing)) = differing() {
            say(format_args!("perdura: {differing}"));
        }
        return Err(failure(error));
    }
    let points = results.configured(&selection).map_err(failure)?;
    let points: Vec<_> = points.into_iter().filter(|one| wanted(&one.point.experiment)).collect();
    let text = format!(
        "{} of {} measurements were missing and are done now, in {}; results are in {}.\n`perdura lab report` draws them and tests the claims.\n",
        plan.missing(),
        plan.all(),
        duration(started.elapsed()),
        pm::Escaped(args.results.results.display()),
    );
    let printed = report(&text, &Points::new(&host, &selection, &points), args.json.as_ref());
    Failure::or_verdict(printed, || match differing().map_err(failure)? {
        None => Ok(()),
        Some(differing) => Err(Failure::Failed(differing)),
    })
}

/// Returns what is said of the counts of experiments that differ between rounds, if any do.
fn differing(
    results: &Results,
    selection: &Selection,
    wanted: impl Fn(&str) -> bool,
) -> Result<Option<String>, LabError> {
    let unequal = results.unequal(selection)?;
    let unequal = unequal.iter().filter(|one| wanted(&one.experiment));
    let texts: Vec<&str> = unequal.map(|one| one.text.as_str()).collect();
    if texts.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "counts differ that the same seed has to give again, a bug of Perdura: please report it with {}; to measure them again, name another file with --results\n{}",
        pm::Escaped(results.path().display()),
        texts.join("\n")
    )))
}

fn tell_beginning(plan: &Plan) {
    let about = Duration::from_secs_f64(plan.seconds());
    if plan.missing() > 0 && (std::io::stderr().is_terminal() || about >= SILENCE) {
        let about = duration(about);
        let (missing, all) = (plan.missing(), plan.all());
        say(format_args!("{missing} of {all} measurements are missing: about {about}"));
    }
}
