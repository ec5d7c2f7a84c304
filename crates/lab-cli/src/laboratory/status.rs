//! `perdura lab status`.

use std::time::Duration;

use command::args::lab::StatusArgs;
use command::failure::Failure;
use command::output::{check_target, report, table};
use command::scratch::Scratch;
use lab::experiments::EXPERIMENTS;
use lab::results::{Measurement, Results};
use lab::run::Plan;
use serde::Serialize;

use super::failed::failure;
use super::frame::Frame;
use super::progress::duration;
use super::{COMMIT, identity, sizes};

/// The runs are what is in the file, of whichever commit, machine, scale and seed.
#[derive(Serialize)]
struct Status<'a> {
    #[serde(flatten)]
    frame: Frame<'a, &'a [Run]>,
    commit: &'static str,
    /// The name that the runs have for this machine.
    host_key: &'a str,
    scale: &'a str,
    seed: u64,
    studies: Vec<Study>,
}

#[derive(Serialize)]
struct Study {
    study: &'static str,
    experiments: Vec<&'static str>,
    done: usize,
    all: usize,
    left_seconds: f64,
}

/// Measurements that belong together.
#[derive(Serialize)]
struct Run {
    commit: String,
    host: String,
    scale: String,
    seed: u64,
    measurements: usize,
}

/// Says what is there.
///
/// # Errors
/// The results cannot be read.
pub(crate) fn run(args: &StatusArgs) -> Result<(), Failure> {
    check_target(args.json.as_ref(), &[&args.results.results])?;
    let results = Results::open(&args.results.results).map_err(failure)?;
    let scratch = Scratch::new(args.path.as_deref(), false)?;
    let identity = identity(&scratch, args.seed);
    let sizes = sizes(&args.scale);
    let (host, scale) = (identity.host.clone(), sizes.name());
    let key = host.key();
    let all: Vec<_> = EXPERIMENTS.iter().collect();
    let plan = Plan::new(&results, &all, sizes, identity).map_err(failure)?;
    let studies: Vec<Study> = plan
        .status()
        .into_iter()
        .map(|status| Study {
            study: status.study.name(),
            experiments: EXPERIMENTS
                .iter()
                .filter(|experiment| experiment.study == status.study)
                .map(|experiment| experiment.id)
                .collect(),
            done: status.done,
            all: status.all,
            left_seconds: status.left_s,
        })
        .collect();
    let runs = runs(&results)?;
    let frame = Frame::new(&host, runs.as_slice());
    let seed = args.seed;
    let status = Status { frame, commit: COMMIT, host_key: &key, scale: &scale, seed, studies };
    report(&human_text(&status, &runs), &status, args.json.as_ref())
}

fn runs(results: &Results) -> Result<Vec<Run>, Failure> {
    let mut runs: Vec<Run> = Vec::new();
    for Measurement { key, .. } in results.measurements().map_err(failure)? {
        let same = |run: &&mut Run| {
            run.commit == key.commit
                && run.host == key.host
                && run.scale == key.scale
                && run.seed == key.seed
        };
        match runs.iter_mut().find(same) {
            Some(run) => run.measurements += 1,
            None => runs.push(Run {
                commit: key.commit,
                host: key.host,
                scale: key.scale,
                seed: key.seed,
                measurements: 1,
            }),
        }
    }
    Ok(runs)
}

fn human_text(status: &Status<'_>, runs: &[Run]) -> String {
    let head = ["measured by", "for", "done", "of", "left"].map(str::to_owned);
    let rows: Vec<Vec<String>> = status
        .studies
        .iter()
        .map(|study| {
            let left = match study.left_seconds {
                0.0 => "-".into(),
                seconds => duration(Duration::from_secs_f64(seconds)),
            };
            vec![
                study.study.to_owned(),
                study.experiments.join(" "),
                study.done.to_string(),
                study.all.to_string(),
                left,
            ]
        })
        .collect();
    let mut text = format!(
        "Commit {}, host {}, {}\n\n{}",
        status.commit,
        pm::Escaped(status.host_key),
        status.scale,
        table(&head, &rows, 2)
    );
    text += "\nAll that is in the file\n\n";
    let head = ["commit", "host", "scale", "seed", "measurements"].map(str::to_owned);
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            vec![
                run.commit.clone(),
                run.host.clone(),
                run.scale.clone(),
                run.seed.to_string(),
                run.measurements.to_string(),
            ]
        })
        .collect();
    text + &table(&head, &rows, 3)
}
