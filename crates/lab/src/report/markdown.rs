//! The report in a small form: text with tables, to be read next to the code.

use std::fmt::Write as _;

use super::{Data, Report, Shown};
use crate::claims::{self, Pair, Tested, Verdict};
use crate::emulation::FileCosts;
use crate::point::{Point, X};

/// Numbers of one metric in one panel of an experiment, as rows of series and columns of x.
struct Grid<'a> {
    metric: &'a str,
    panel: &'a str,
    unit: &'a str,
    computed: bool,
    columns: Vec<&'a X>,
    rows: Vec<(&'a str, Vec<Option<&'a Point>>)>,
}

impl Report {
    /// The text of the page, but for its plots: their numbers are in tables.
    #[must_use]
    pub fn markdown(&self) -> String {
        let data = self.data();
        let mut text = head(&data);
        compared(&mut text, &data, "PEERS", "Against what one would take instead");
        tested(
            &mut text,
            "What Perdura wants to reach",
            &format!("As ratios within this run.{}", untested(&self.targets)),
            "wanted",
            self.targets.iter().filter(|target| target.verdict != Verdict::NotTestable),
            |verdict| if verdict == Verdict::Reproduced { "reached" } else { "not reached" },
        );
        claimed(&mut text, &self.claims, &self.papers, &self.follows);
        compared(&mut text, &data, "P1", "The paper's figures");
        compared(&mut text, &data, "P3", "The figures of P3");
        compared(&mut text, &data, "P4", "The figures of P4");
        text
    }
}

/// Appends the outcomes of the paper's claims in both settings; one line if the run says nothing of
/// any.
fn claimed(text: &mut String, ours: &[Tested], papers: &[Tested], follows: &str) {
    let title = "What the paper claims, and whether it is so here";
    let mut all = ours.iter().chain(papers);
    if all.all(|claim| claim.verdict == Verdict::NotTestable) {
        let _ = write!(text, "## {title}\n\nNot tested by what was measured in this run.\n\n");
        return;
    }
    let _ = write!(
        text,
        "## {title}\n\nIn our setting {}; in the paper's {}. The claims, how each is tested and the \
         paper's setting were written down before the first run.\n\n{}\n\n",
        claims::counts(ours),
        claims::counts(papers),
        follows
    );
    let authors = ours.iter().any(|claim| claim.authors_value.is_some());
    let mut head = vec!["", "claim", "paper"];
    head.extend(authors.then_some("authors' points"));
    head.extend(["here", "verdict", "in the paper's setting", "verdict", "why"]);
    head.push("why in the paper's setting");
    line(text, head.iter().map(|&word| word.to_owned()));
    line(text, head.iter().map(|_| "---".to_owned()));
    for Pair { ours, papers } in claims::pairs(ours, papers) {
        let mut cells = vec![cell(&ours.claim), cell(&ours.text), cell(&ours.paper_value)];
        cells.extend(authors.then(|| authors_value(ours)));
        let outcomes = [Some(ours), papers];
        for one in outcomes {
            cells.push(one.map_or("–".into(), value));
            cells.push(one.map_or("–", |one| one.verdict.name()).to_owned());
        }
        cells.extend(outcomes.map(|one| one.map_or("–".into(), |one| cell(&one.reason))));
        line(text, cells.into_iter());
    }
    text.push('\n');
}

/// Our value, with its spread.
fn value(claim: &Tested) -> String {
    let spread = claim.spread.as_ref().map(|spread| format!(" (runs: {})", cell(spread)));
    cell(&claim.our_value) + &spread.unwrap_or_default()
}

/// The value in the authors' points.
fn authors_value(claim: &Tested) -> String {
    let outside = match claim.authors_verdict {
        Some(Verdict::NotReproduced) => ", outside their claim",
        _ => "",
    };
    cell(&format!("{}{outside}", claim.authors_value.as_deref().unwrap_or("–")))
}

/// The targets of which this run says nothing.
fn untested(targets: &[Tested]) -> String {
    let of = targets.iter().filter(|target| target.verdict == Verdict::NotTestable);
    let names: Vec<&str> = of.map(|target| target.claim.as_str()).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" Not measured in this run: {}.", names.join(", ")),
    }
}

fn head(data: &Data<'_>) -> String {
    let host = data.host;
    let mut text = format!(
        "# Laboratory report\n\n{}, {} cores, {:.0} GiB of memory, pools on {}, lines written back \
         with {}, kernel {}. Commit {}, scale {}, seed {}, measured {} in {:.0} minutes.\n\n\
         Throughput and times are medians, without their spread, which the page and the CSV have; \
         counts (lines, fences, bytes) are the same for the same seed on every machine. Tables \
         marked *computed* come from a model of the memory, out of native runs and counts; in \
         brackets the interval from all misses overlapping to none of them.\n\n",
        host.cpu,
        host.cores,
        host.memory_bytes as f64 / f64::from(1 << 30),
        host.medium,
        host.flush,
        host.kernel,
        data.commit,
        data.scale,
        data.seed,
        data.date,
        data.seconds / 60.0
    );
    for line in data.calibrations {
        let _ = write!(
            text,
            "A line from {} MiB of this machine's memory: {} ns where it is waited for alone, {} near \
             another one, {} in sequence, {} among several that are known.\n\n",
            figure(line.arena_bytes as f64 / f64::from(1 << 20)),
            figure(line.dependent_ns),
            figure(line.near_ns),
            figure(line.sequential_ns),
            figure(line.independent_ns)
        );
    }
    if let Some(FileCosts { call_ns, sync_ns }) = data.file_costs {
        let _ = write!(
            text,
            "A call for a file takes {} ns on this machine, and a sync {} ns more: what the paper's \
             setting takes off.\n\n",
            figure(call_ns),
            figure(sync_ns)
        );
    }
    for missing in &data.missing {
        let _ = write!(text, "**Incomplete.** {missing}.\n\n");
    }
    for unequal in &data.unequal {
        let _ = write!(text, "**A bug of Perdura.** {unequal}; it should be the same.\n\n");
    }
    text
}

/// The experiments of a group, with their numbers.
fn compared(text: &mut String, data: &Data<'_>, group: &str, title: &str) {
    let mut written = false;
    for entry in data.experiments.iter().filter(|entry| entry.id.starts_with(group)) {
        let of = |points: &'_ [Point]| -> Vec<Point> {
            points.iter().filter(|point| point.experiment == entry.id).cloned().collect()
        };
        let points = [of(data.points), of(data.paper_points)];
        if points.iter().all(Vec::is_empty) {
            continue;
        }
        if !written {
            let _ = write!(text, "## {title}\n\n");
            written = true;
        }
        experiment(text, entry, &points);
    }
}

/// One experiment with its numbers, those of our setting before those of the paper's.
fn experiment(text: &mut String, entry: &Shown<'_>, [ours, papers]: &[Vec<Point>; 2]) {
    let _ = write!(text, "### {}: {}\n\n{}\n\n", entry.id, entry.title, entry.about);
    if !entry.scaled.is_empty() {
        let _ = write!(text, "Smaller than wanted: {}.\n\n", entry.scaled);
    }
    tables(text, ours);
    if !papers.is_empty() {
        let _ = write!(text, "In the paper's setting:\n\n");
        tables(text, papers);
    }
}

fn tables(text: &mut String, points: &[Point]) {
    for grid in grids(&points.iter().collect::<Vec<_>>()) {
        let panel = if grid.panel.is_empty() { String::new() } else { format!(", {}", grid.panel) };
        let mark = if grid.computed { ", *computed*" } else { "" };
        let _ = write!(text, "{}{panel} ({}{mark})\n\n", grid.metric, grid.unit);
        let head = grid.columns.iter().map(|x| cell(&x.to_string()));
        line(text, std::iter::once(String::new()).chain(head));
        line(
            text,
            std::iter::once("---".to_owned()).chain(grid.columns.iter().map(|_| "---:".into())),
        );
        for (series, values) in &grid.rows {
            let values = values.iter().map(|point| point.map_or("–".into(), shown));
            line(text, std::iter::once(cell(series)).chain(values));
        }
        text.push('\n');
    }
}

/// Points by metric and panel, both in the order in which they come.
fn grids<'a>(points: &[&'a Point]) -> Vec<Grid<'a>> {
    let mut grids: Vec<Grid<'a>> = Vec::new();
    for point in points {
        let alike = |metric: &str, panel: &str| metric == point.metric && panel == point.panel;
        if !grids.iter().any(|grid| alike(grid.metric, grid.panel)) {
            let of = points.iter().filter(|other| alike(&other.metric, &other.panel));
            grids.push(grid(&of.copied().collect::<Vec<_>>()));
        }
    }
    grids
}

/// The grid of points that have their metric and panel in common; there is one at least.
fn grid<'a>(points: &[&'a Point]) -> Grid<'a> {
    let mut columns: Vec<&X> = Vec::new();
    let mut series: Vec<&str> = Vec::new();
    for point in points {
        if !columns.contains(&&point.x) {
            columns.push(&point.x);
        }
        if !series.contains(&point.series.as_str()) {
            series.push(&point.series);
        }
    }
    // Names keep their order, which is that of the study.
    if columns.iter().all(|x| matches!(x, X::Number(_))) {
        columns.sort_by(|one, two| one.order(two));
    }
    let value = |name: &str, x: &X| {
        points.iter().find(|point| point.series == name && point.x == *x).copied()
    };
    let rows = series
        .iter()
        .map(|name| (*name, columns.iter().map(|x| value(name, x)).collect()))
        .collect();
    let computed = points.iter().any(|point| point.emulated.is_some());
    let first = points[0];
    Grid { metric: &first.metric, panel: &first.panel, unit: &first.unit, computed, columns, rows }
}

fn tested<'a>(
    text: &mut String,
    title: &str,
    about: &str,
    wanted: &str,
    claims: impl Iterator<Item = &'a Tested>,
    word: impl Fn(Verdict) -> &'static str,
) {
    let claims: Vec<_> = claims.collect();
    if claims.is_empty() {
        return;
    }
    let _ = write!(text, "## {title}\n\n{about}\n\n");
    let head = ["", "claim", wanted, "here", "verdict", "why"];
    line(text, head.iter().map(|&word| word.to_owned()));
    line(text, head.iter().map(|_| "---".to_owned()));
    for claim in claims {
        let cells = [
            cell(&claim.claim),
            cell(&claim.text),
            cell(&claim.paper_value),
            value(claim),
            word(claim.verdict).to_owned(),
            cell(&claim.reason),
        ];
        line(text, cells.into_iter());
    }
    text.push('\n');
}

fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    for cell in cells {
        let _ = write!(text, "| {cell} ");
    }
    text.push_str("|\n");
}

/// Escapes a text for a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// A number; one that was computed with its interval.
fn shown(point: &Point) -> String {
    let value = figure(point.value);
    match point.emulated.is_some() && point.low < point.high {
        true => format!("{value} [{} .. {}]", figure(point.low), figure(point.high)),
        false => value,
    }
}

/// Three digits or more, and none that say nothing.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        _ => 4,
    };
    let plain = format!("{:.digits$}", value.abs());
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{}{grouped}{rest}", if value < 0.0 { "-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Setting;

    #[test]
    fn numbers_are_short_and_grouped() {
        let all = [0.0, 0.01234, 0.5, 12.34, 123.4, 1234.0, 1_234_567.8, -1500.0];
        let words = ["0", "0.0123", "0.50", "12.3", "123", "1,234", "1,234,568", "-1,500"];
        assert_eq!(all.map(figure), words);
    }

    #[test]
    fn claims_of_which_nothing_was_measured_take_one_line() {
        let all = claims::claims().expect("read");
        let tell = |points: &[Point]| {
            let tested = |points, setting| claims::test(&all, points, &[], None, setting);
            let (claims, papers) = (tested(points, Setting::Ours), tested(&[][..], Setting::Paper));
            let mut text = String::new();
            claimed(&mut text, &claims, &papers, "What follows.");
            text
        };
        let nothing = tell(&[]);
        assert!(nothing.ends_with("Not tested by what was measured in this run.\n\n"), "{nothing}");
        assert!(!nothing.contains('|'), "{nothing}");

        // Inserts write what the model says: one claim can be tested, and all are in the table.
        let engines = ["inp", "cow", "log", "nvm-inp", "nvm-cow", "nvm-log"];
        let written = |engine: &str| {
            Point::of("P1-T3", engine, "insert").measured("measured over model", "x", &[1.0])
        };
        let some = tell(&engines.map(written));
        let papers = ["| P1-", "| P3-", "| P4-"];
        let of_papers = |line: &&str| papers.iter().any(|paper| line.starts_with(paper));
        assert_eq!(some.lines().filter(of_papers).count(), all.len());
        let counts = "In our setting 1 reproduced, 0 not reproduced, ";
        assert!(some.contains(counts) && some.contains("\n\nWhat follows.\n\n"), "{some}");
        // Each row has both verdicts, the same number of columns, and two reasons.
        let insert = some.lines().find(|line| line.starts_with("| P1-T3-insert")).expect("there");
        let cells: Vec<&str> = insert.split(" | ").collect();
        assert_eq!((cells.len(), cells[4], cells[6]), (9, "reproduced", "not testable here"));
        assert!(cells[8].starts_with("there are no results of P1-T3"), "{insert}");
    }

    #[test]
    fn points_are_laid_out_by_series_and_x() {
        let of = |series: &str, x: u64, panel: &str| Point::of("P1-F5", series, x).panel(panel);
        let points = [
            of("inp", 320, "low").measured("throughput", "txn/s", &[2000.0]),
            of("inp", 160, "low").measured("throughput", "txn/s", &[3000.0]),
            of("c|w", 160, "low").measured("throughput", "txn/s", &[1.5]),
            of("inp", 160, "high").modelled("throughput", "txn/s", (4000.0, 3.5e3, 4.5e3), "m"),
        ];
        let entry = Shown {
            id: "P1-F5",
            title: "Read-only",
            about: "About.",
            paper: "",
            scaled: "fewer tuples".into(),
        };
        let mut text = String::new();
        let papers = vec![of("inp", 160, "low").measured("throughput", "txn/s", &[7.0])];
        experiment(&mut text, &entry, &[points.to_vec(), papers]);
        assert_eq!(
            text,
            "### P1-F5: Read-only\n\nAbout.\n\nSmaller than wanted: fewer tuples.\n\n\
             throughput, low (txn/s)\n\n\
             |  | 160 | 320 |\n| --- | ---: | ---: |\n\
             | inp | 3,000 | 2,000 |\n| c\\|w | 1.50 | – |\n\n\
             throughput, high (txn/s, *computed*)\n\n\
             |  | 160 |\n| --- | ---: |\n| inp | 4,000 [3,500 .. 4,500] |\n\n\
             In the paper's setting:\n\n\
             throughput, low (txn/s)\n\n|  | 160 |\n| --- | ---: |\n| inp | 7.00 |\n\n"
        );
    }
}
