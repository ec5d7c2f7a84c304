//! `perdura lab status`.

use std::time::Duration;

use lab::experiments::EXPERIMENTS;
use lab::results::{Measurement, Results};
use lab::run::Plan;
use serde::Serialize;

use super::progress::duration;
use super::{COMMIT, identity, sizes};
use crate::args::StatusArgs;
use crate::failure::Failure;
use crate::output::{report, table};
use crate::scratch::Scratch;

#[derive(Serialize)]
struct Status {
    commit: &'static str,
    host: String,
    scale: &'static str,
    studies: Vec<Study>,
    others: Vec<Other>,
}

#[derive(Serialize)]
struct Study {
    study: &'static str,
    experiments: Vec<&'static str>,
    done: usize,
    all: usize,
    left_seconds: f64,
}

/// Results of another commit, machine or scale in the same file.
#[derive(Serialize)]
struct Other {
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
    let results = Results::open(&args.results.results)?;
    let scratch = Scratch::new(args.path.as_deref(), false)?;
    let identity = identity(&scratch, args.seed);
    let sizes = sizes(&args.scale);
    let (host, scale) = (identity.host.key(), sizes.scale.name());
    let all: Vec<_> = EXPERIMENTS.iter().collect();
    let plan = Plan::new(&results, &all, sizes, identity)?;
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
    let status = Status { commit: COMMIT, host, scale, studies, others: others(&results)? };
    report(&people(&status), &status, args.json.as_ref())
}

fn others(results: &Results) -> Result<Vec<Other>, Failure> {
    let mut others: Vec<Other> = Vec::new();
    for Measurement { key, .. } in results.measurements()? {
        let same = |other: &&mut Other| {
            other.commit == key.commit
                && other.host == key.host
                && other.scale == key.scale
                && other.seed == key.seed
        };
        match others.iter_mut().find(same) {
            Some(other) => other.measurements += 1,
            None => others.push(Other {
                commit: key.commit,
                host: key.host,
                scale: key.scale,
                seed: key.seed,
                measurements: 1,
            }),
        }
    }
    Ok(others)
}

fn people(status: &Status) -> String {
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
        status.host,
        status.scale,
        table(&head, &rows, 2)
    );
    text += "\nAll that is in the file\n\n";
    let head = ["commit", "host", "scale", "seed", "measurements"].map(str::to_owned);
    let rows: Vec<Vec<String>> = status
        .others
        .iter()
        .map(|other| {
            vec![
                other.commit.clone(),
                other.host.clone(),
                other.scale.clone(),
                other.seed.to_string(),
                other.measurements.to_string(),
            ]
        })
        .collect();
    text + &table(&head, &rows, 3)
}
