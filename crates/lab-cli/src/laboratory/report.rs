//! `perdura lab report`.

use pm::Escaped;
use std::path::Path;

use command::args::lab::ReportArgs;
use command::failure::Failure;
use command::output::{check_replaceable, check_target, report, table, write_whole};
use lab::LabError;
use lab::claims::{Pair, Tested, Verdict, counts, pairs};
use lab::emulation::{FileCosts, Host as Line};
use lab::report::{Report, csv};
use lab::results::{Measurement, Results, Round, Unequal, Wanted};
use serde::Serialize;

use super::check_writable;
use super::failed::failure;
use super::frame::Points;

#[derive(Serialize)]
struct FullReport<'a> {
    #[serde(flatten)]
    points: Points<'a>,
    measurements: Vec<Cell<'a>>,
    calibrations: &'a [Line],
    /// The cost of files on this machine, if that was measured.
    file_costs: Option<FileCosts>,
    /// Counts that differ between rounds: none unless there is a bug of ours.
    unequal: Vec<&'a str>,
    /// Each claim in our setting, and then each in the paper's.
    claims: Vec<&'a Tested>,
    /// The paragraph on both settings.
    follows: &'a str,
    targets: &'a [Tested],
}

/// One cell of a study: the points of its configuration were measured together.
#[derive(Serialize)]
struct Cell<'a> {
    study: &'a str,
    /// The configuration as its points have it: without the round.
    configuration: String,
    /// The number of its round, if several are read as repetitions.
    round: Option<u64>,
    /// The sizes that are smaller than wanted, and how; empty if nothing is.
    scaled: &'a str,
    /// The time when it was done, since 1970.
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
    let results = Results::open(&args.results.results).map_err(failure)?;
    let of = &args.selection;
    let selection = results
        .select(Wanted {
            commit: of.commit.as_deref(),
            host: of.host.as_deref(),
            scale: of.scale.as_deref(),
            seed: of.seed,
        })
        .map_err(failure)?;
    let authors =
        args.reference.as_deref().map(lab::reference::read).transpose().map_err(failure)?;
    let made = Report::new(&results, selection, authors).map_err(failure)?;
    let write = |path: &Path, text: &str| {
        let written = write_whole(path, text.as_bytes());
        written.map_err(|error| failure(LabError::io(path, error)))
    };
    write(&args.out, &made.html().map_err(failure)?)?;
    if let Some(path) = &args.csv {
        write(path, &csv(&made.selection, &made.configured))?;
    }
    if let Some(path) = &args.markdown {
        write(path, &made.markdown())?;
    }
    let whole = FullReport {
        points: Points::new(&made.host, &made.selection, &made.configured),
        measurements: made.measurements.iter().map(Cell::from).collect(),
        calibrations: &made.calibrations,
        file_costs: made.file_costs,
        unequal: made.unequal.iter().map(|one| one.text.as_str()).collect(),
        claims: made.claims.iter().chain(&made.papers).collect(),
        follows: &made.follows,
        targets: &made.targets,
    };
    let mut text = human_text(&made);
    for Unequal { text: unequal, .. } in &made.unequal {
        text += &format!("\nA bug of Perdura: {unequal}; it should be the same.\n");
    }
    text += &format!("\nThe report: {}\n", Escaped(args.out.display()));
    report(&text, &whole, args.json.as_ref())
}

fn human_text(made: &Report) -> String {
    let head =
        ["claim", "paper", "here", "verdict", "in its setting", "verdict"].map(str::to_owned);
    let row = |Pair { ours, papers }: Pair<'_>| {
        let there = papers.map_or(("-", Verdict::NotTestable), |one| (&one.our_value, one.verdict));
        let (value, verdict) = there;
        [
            &ours.claim,
            &ours.paper_value,
            &ours.our_value,
            ours.verdict.name(),
            value,
            verdict.name(),
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let rows: Vec<Vec<String>> = pairs(&made.claims, &made.papers).into_iter().map(row).collect();
    format!(
        "{}\nHere {}; in the paper's setting {}.\n\n{}\n",
        table(&head, &rows, 6),
        counts(&made.claims),
        counts(&made.papers),
        made.follows
    )
}
