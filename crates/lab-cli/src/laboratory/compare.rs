//! `perdura lab compare`.

use std::path::Path;

use command::args::lab::CompareArgs;
use command::failure::{Failure, say};
use command::output::{check_target, report, table};
use lab::compare::{Change, Compared, compare};
use lab::results::{Configured, Results, Selection, Wanted};
use lab::{Host, LabError};
use pm::Escaped;
use serde::Serialize;

use super::failed::failure;
use super::frame::Frame;

/// Rows of a table for people; JSON has all.
const SHOWN: usize = 40;

/// Compares two sides.
///
/// # Errors
/// Results that cannot be read, or [`Failure::Found`] with `--fail-over`.
pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    check_target(args.json.as_ref(), &[&args.results.results, args.a.as_ref(), args.b.as_ref()])?;
    let wanted = Wanted { scale: args.scale.as_deref(), seed: args.seed, ..Wanted::default() };
    let file = &args.results.results;
    let mut one = Side::of(&args.a, file, wanted, None)?;
    // Runs of different sizes say nothing about each other.
    let scale = one.selection.scale.clone();
    let wanted = Wanted { scale: Some(&scale), ..wanted };
    let other = Side::of(&args.b, file, wanted, Some(&one.selection))?;
    if one.selection.host != other.selection.host {
        // A may have been measured where B was, too, though not last.
        one = Side::of(&args.a, file, wanted, Some(&other.selection))?;
    }
    let (first, second) = (&one.selection, &other.selection);
    if first.host != second.host && one.by_commit && other.by_commit {
        return Err(Failure::Failed(format!(
            "{} was measured on {} and {} on {}: what differs may be the machines; measure one of them again, or name two machines to compare those",
            Escaped(&args.a),
            Escaped(&first.host),
            Escaped(&args.b),
            Escaped(&second.host)
        )));
    }
    if first.seed != second.seed {
        let (a, b) = (first.seed, second.seed);
        return Err(Failure::Failed(format!(
            "A was measured from seed {a} and B from seed {b}: keys and values differ, and so would counts; choose another with --seed, or measure one of them again"
        )));
    }
    let found = compare(&one.points, &other.points);
    if found.compared.is_empty() {
        let why = format!(
            "{} and {} have nothing in common that was measured with the same configuration",
            Escaped(&args.a),
            Escaped(&args.b)
        );
        return Err(Failure::Failed(why + "; `perdura lab status` says what there is"));
    }
    let line = |selection: &Selection| {
        Escaped(format!("{} on {} ({})", selection.commit, selection.host, selection.scale))
    };
    let mut text = format!("A: {}\nB: {}\n\n", line(first), line(second));
    let changed = |one: &&Compared| matches!(one.change, Change::Worse | Change::Better);
    let rows: Vec<Vec<String>> =
        found.compared.iter().filter(changed).take(SHOWN).map(row).collect();
    if rows.is_empty() {
        text += "Nothing has changed beyond noise.\n";
    } else {
        let head = ["experiment", "of", "metric", "A", "B", "unit", "B is"].map(str::to_owned);
        text += &table(&head, &rows, 3);
    }
    text += &format!(
        "\n{} worse, {} better, {} the same or within noise, {} taken once and not judged; {} of A and {} of B that the other lacks.\n",
        found.count(Change::Worse),
        found.count(Change::Better),
        found.count(Change::Same),
        found.count(Change::Unknown),
        found.only_a,
        found.only_b,
    );
    let comparison = Comparison {
        frame: Frame::new(&one.host, found.compared.as_slice()),
        a: ComparedSide::of(&one),
        b: ComparedSide::of(&other),
        only_one_side: found.only_a + found.only_b,
        only_a: found.only_a,
        only_b: found.only_b,
    };
    let printed = report(&text, &comparison, args.json.as_ref());
    Failure::or_verdict(printed, || {
        let Some(share) = args.fail_over else { return Ok(()) };
        judge(share, found.only_a, found.worse_than(share).len())
    })
}

/// Fails if so many figures of A have no counterpart, or so many are worse in B by more than
/// `share`.
fn judge(share: f64, only_a: usize, worse: usize) -> Result<(), Failure> {
    if only_a > 0 {
        // What fails or is set otherwise now would pass unseen.
        say(format_args!(
            "perdura: {only_a} figures of A are not there in B, or were measured with another configuration"
        ));
        return Err(Failure::Found);
    }
    if worse == 0 {
        return Ok(());
    }
    let figures = if worse == 1 { "1 figure is".into() } else { format!("{worse} figures are") };
    // Shares are binary fractions: 15% is not quite 0.15.
    let percent = (share * 1e6).round() / 1e4;
    say(format_args!("perdura: {figures} worse by more than {percent}%"));
    Err(Failure::Found)
}

/// A side of the comparison, which a word means: a file of results, a commit, or a host: points and
/// where they come from.
struct Side {
    points: Vec<Configured>,
    selection: Selection,
    host: Host,
    /// The word was a commit.
    by_commit: bool,
}

impl Side {
    /// Finds the run that is most like the other side's, of several that the word may mean.
    fn of(
        word: &str,
        results: &Path,
        wanted: Wanted<'_>,
        other: Option<&Selection>,
    ) -> Result<Self, Failure> {
        let like = Wanted {
            host: other.map(|other| other.host.as_str()),
            seed: other.map(|other| other.seed),
            ..Wanted::default()
        };
        let path = Path::new(word);
        if path.is_file() {
            let results = Results::open(path).map_err(failure)?;
            let selection = results.select_like(wanted, like).map_err(failure)?;
            return Self::read(&results, selection, false);
        }
        let results = Results::open(results).map_err(failure)?;
        let of_commit = Wanted { commit: Some(word), ..wanted };
        let mut by_commit = true;
        let selection = match results.select_like(of_commit, like) {
            Err(LabError::Nothing { what: "commit", known: commits, .. }) => {
                by_commit = false;
                let of_host = Wanted { host: Some(word), ..wanted };
                let like = Wanted { commit: other.map(|other| other.commit.as_str()), ..like };
                results.select_like(of_host, like).map_err(|error| match error {
                    LabError::Nothing { what: "host", given, known } => Failure::Failed(format!(
                        "'{}' is no file of results, no commit ({}) and no host ({})",
                        Escaped(given),
                        Escaped(&commits),
                        Escaped(known)
                    )),
                    other => failure(other),
                })?
            }
            other => other.map_err(failure)?,
        };
        Self::read(&results, selection, by_commit)
    }

    fn read(results: &Results, selection: Selection, by_commit: bool) -> Result<Self, Failure> {
        let points = results.configured(&selection).map_err(failure)?;
        let host = results.host(&selection.host).map_err(failure)?;
        Ok(Self { points, selection, host, by_commit })
    }
}

/// A comparison as programs read it: the runs are the numbers that both sides have, and the machine
/// is that of A.
#[derive(Serialize)]
struct Comparison<'a> {
    #[serde(flatten)]
    frame: Frame<'a, &'a [Compared]>,
    a: ComparedSide<'a>,
    b: ComparedSide<'a>,
    only_one_side: usize,
    only_a: usize,
    only_b: usize,
}

/// The origin of a side's numbers.
#[derive(Serialize)]
struct ComparedSide<'a> {
    commit: &'a str,
    host: &'a Host,
    scale: &'a str,
    seed: u64,
}

impl<'a> ComparedSide<'a> {
    fn of(side: &'a Side) -> Self {
        let Selection { commit, scale, seed, .. } = &side.selection;
        Self { commit, host: &side.host, scale, seed: *seed }
    }
}

fn row(one: &Compared) -> Vec<String> {
    let of = [one.series.clone(), one.panel.clone(), one.x.to_string()];
    let of: Vec<String> = of.into_iter().filter(|part| !part.is_empty()).collect();
    let direction = if one.worse_by > 0.0 { "worse" } else { "better" };
    let by = match one.worse_by.is_finite() {
        true => format!("{:.1}% {direction}", one.worse_by.abs() * 100.0),
        // No share of nothing.
        false => direction.to_owned(),
    };
    vec![
        one.experiment.clone(),
        of.join(" "),
        one.metric.clone(),
        figure(one.a),
        figure(one.b),
        one.unit.clone(),
        by,
    ]
}

fn figure(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
