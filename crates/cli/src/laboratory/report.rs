//! `perdura lab report`.

use std::path::Path;

use lab::LabError;
use lab::claims::{Tested, counts};
use lab::emulation::Host as Line;
use lab::report::{Report, csv};
use lab::results::{Measurement, Results, Round, Unequal, Wanted};
use serde::Serialize;

use super::check_writable;
use super::frame::Points;
use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::output::{check_replaceable, check_target, report, table, write_whole};

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    points: Points<'a>,
    measurements: Vec<Cell<'a>>,
    calibrations: &'a [Line],
    /// Counts that differ between rounds: none unless there is a bug of ours.
    unequal: Vec<&'a str>,
    claims: &'a [Tested],
    targets: &'a [Tested],
}

/// One cell of a study: the points of its configuration were measured together.
#[derive(Serialize)]
struct Cell<'a> {
    study: &'a str,
    /// As its points have it: without the round.
    configuration: String,
    /// Which of several rounds that are read as repetitions.
    round: Option<u64>,
    /// What is smaller than wanted, and how; empty if nothing is.
    scaled: &'a str,
    /// When it was done, since 1970.
    finished_s: i64,
    seconds: f64,
}

impl<'a> From<&'a Measurement> for Cell<'a> {
    fn from(measurement: &'a Measurement) -> Self {
        let Measurement { key, scaled, finished_s, seconds } = measurement;
        let round = Round::read(&key.configuration);
        let (configuration, round) = match round {
            Some(Round { configuration, number, .. }) => (configuration, Some(number)),
            None => (key.configuration.clone(), None),
        };
        Self {
            study: &key.study,
            configuration,
            round,
            scaled,
            finished_s: *finished_s,
            seconds: *seconds,
        }
    }
}

/// Writes the report, and tests the claims.
///
/// # Errors
/// Results or the reference cannot be read, or the report cannot be written.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let mut others: Vec<&Path> = vec![&args.results.results];
    others.extend(args.reference.as_deref());
    for path in [Some(&args.out), args.csv.as_ref(), args.markdown.as_ref()].into_iter().flatten() {
        check_writable(path)?;
        check_replaceable(path, &others)?;
        others.push(path);
    }
    check_target(args.json.as_ref(), &others)?;
    let results = Results::open(&args.results.results)?;
    let of = &args.selection;
    let selection = results.select(Wanted {
        commit: of.commit.as_deref(),
        host: of.host.as_deref(),
        scale: of.scale.as_deref(),
        seed: of.seed,
    })?;
    let authors = args.reference.as_deref().map(lab::reference::read).transpose()?;
    let made = Report::new(&results, selection, authors)?;
    let write = |path: &Path, text: &str| {
        let written = write_whole(path, text.as_bytes());
        written.map_err(|error| Failure::from(LabError::io(path, error)))
    };
    write(&args.out, &made.html()?)?;
    if let Some(path) = &args.csv {
        write(path, &csv(&made.selection, &made.configured))?;
    }
    if let Some(path) = &args.markdown {
        write(path, &made.markdown())?;
    }
    let whole = Whole {
        points: Points::new(&made.host, &made.selection, &made.configured),
        measurements: made.measurements.iter().map(Cell::from).collect(),
        calibrations: &made.calibrations,
        unequal: made.unequal.iter().map(|one| one.text.as_str()).collect(),
        claims: &made.claims,
        targets: &made.targets,
    };
    let mut text = people(&made.claims);
    for Unequal { text: unequal, .. } in &made.unequal {
        text += &format!("\nA bug of Perdura: {unequal}; it should be the same.\n");
    }
    text += &format!("\nThe report: {}\n", args.out.display());
    report(&text, &whole, args.json.as_ref())
}

fn people(claims: &[Tested]) -> String {
    let head = ["claim", "paper", "here", "verdict"].map(str::to_owned);
    let rows: Vec<Vec<String>> = claims
        .iter()
        .map(|claim| {
            let verdict = claim.verdict.name().to_owned();
            vec![claim.claim.clone(), claim.paper_value.clone(), claim.our_value.clone(), verdict]
        })
        .collect();
    format!("{}\n{}.\n", table(&head, &rows, 4), counts(claims))
}
