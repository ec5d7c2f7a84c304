//! `perdura lab report`.

use std::fs;

use lab::claims::{Tested, Verdict};
use lab::report::{Report, csv};
use lab::results::Results;
use lab::{LabError, Point, X};
use serde::Serialize;

use super::check_writable;
use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::output::{check_target, report, table};

/// A point as programs read it; others rely on the keys to the letter.
#[derive(Serialize)]
struct Row<'a> {
    experiment: &'a str,
    panel: &'a str,
    series: &'a str,
    x: &'a X,
    metric: &'a str,
    unit: &'a str,
    value: f64,
    low: f64,
    high: f64,
    n: u32,
    exact: bool,
    emulated: Option<&'a str>,
}

/// Points as programs read them.
#[derive(Serialize)]
pub(super) struct Points<'a> {
    perdura: &'static str,
    lab: Vec<Row<'a>>,
}

impl<'a> Points<'a> {
    pub(super) fn new(points: &'a [Point]) -> Self {
        let row = |point: &'a Point| Row {
            experiment: &point.experiment,
            panel: &point.panel,
            series: &point.series,
            x: &point.x,
            metric: &point.metric,
            unit: &point.unit,
            value: point.value,
            low: point.low,
            high: point.high,
            n: point.n,
            exact: point.exact,
            emulated: point.emulated.as_deref(),
        };
        let lab = points.iter().map(row).collect();
        Self { perdura: env!("CARGO_PKG_VERSION"), lab }
    }
}

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    points: Points<'a>,
    host: &'a lab::Host,
    commit: &'a str,
    scale: &'a str,
    seed: u64,
    claims: &'a [Tested],
    targets: &'a [Tested],
}

/// Writes the report, and tests the claims.
///
/// # Errors
/// Results or the reference cannot be read, or the report cannot be written.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    check_target(args.json.as_ref())?;
    check_writable(&args.out)?;
    let results = Results::open(&args.results.results)?;
    let of = &args.selection;
    let selection =
        results.select(of.commit.as_deref(), of.host.as_deref(), of.scale.as_deref())?;
    let authors = args.reference.as_deref().map(lab::reference::read).transpose()?;
    let made = Report::new(&results, selection, authors)?;
    let write = |path: &std::path::Path, text: &str| {
        fs::write(path, text).map_err(|error| Failure::from(LabError::io(path, error)))
    };
    write(&args.out, &made.html()?)?;
    if let Some(path) = &args.csv {
        write(path, &csv(&made.points))?;
    }
    let whole = Whole {
        points: Points::new(&made.points),
        host: &made.host,
        commit: &made.selection.commit,
        scale: &made.selection.scale,
        seed: made.selection.seed,
        claims: &made.claims,
        targets: &made.targets,
    };
    let text = people(&made.claims) + &format!("\nThe report: {}\n", args.out.display());
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
    let counts: Vec<String> = Verdict::ALL
        .into_iter()
        .map(|verdict| {
            let count = claims.iter().filter(|claim| claim.verdict == verdict).count();
            format!("{count} {}", verdict.name())
        })
        .collect();
    format!("{}\n{}.\n", table(&head, &rows, 4), counts.join(", "))
}
