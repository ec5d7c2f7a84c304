//! `perdura lab report`.

use std::path::Path;

use lab::LabError;
use lab::claims::{Tested, counts};
use lab::report::{Report, csv};
use lab::results::{Results, Wanted};
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
    claims: &'a [Tested],
    targets: &'a [Tested],
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
        write(path, &csv(&made.points))?;
    }
    if let Some(path) = &args.markdown {
        write(path, &made.markdown())?;
    }
    let whole = Whole {
        points: Points::new(&made.host, &made.selection, &made.points),
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
    format!("{}\n{}.\n", table(&head, &rows, 4), counts(claims))
}
