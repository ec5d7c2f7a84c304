//! Does a claim hold?

use super::select::{Place, Selected, View, select};
use super::{Claim, Field, Narrowing, Of, ROUNDING, TOLERANCE, Tested, Verdict};
use crate::point::{Point, X};
use crate::setting::Setting;

/// Tests a claim on our points, those of our setting or as if they were, and on the authors' if
/// there are any.
#[must_use]
pub fn evaluate(claim: &Claim, ours: &[Point], authors: Option<&[Point]>) -> Tested {
    let judged = judge(claim, ours, TOLERANCE);
    let authors = authors.and_then(|points| judge(claim, points, ROUNDING).ok());
    let mut spread = None;
    let (verdict, our_value, reason, emulated) = match judged {
        Err(missing) => (Verdict::NotTestable, "-".into(), missing, false),
        Ok(judged) => {
            let verdict = judged.verdict();
            spread = judged.spread.clone();
            let reason = judged.reason(claim, ours);
            (verdict, judged.value, reason, judged.emulated)
        }
    };
    let within_spread = spread.as_ref().is_some_and(|(_, decides)| *decides);
    Tested {
        claim: claim.id.clone(),
        setting: Setting::Ours,
        experiment: claim.experiment.clone(),
        section: claim.section.clone(),
        text: claim.text.clone(),
        paper_value: claim.paper_value(),
        authors_verdict: authors.as_ref().map(Judged::verdict),
        authors_value: authors.map(|judged| judged.value),
        our_value,
        spread: spread.map(|(text, _)| text),
        within_spread,
        verdict,
        reason,
        emulated,
    }
}

/// The points' answer to a claim.
struct Judged {
    value: String,
    /// True where it holds: in the middle, at the low and at the high end.
    holds: [bool; 3],
    /// Values that contradict it, in the middle or else at the ends.
    against: Vec<Selected>,
    for_it: Vec<Selected>,
    what: String,
    emulated: bool,
    /// The lowest and the highest value of several runs, and whether the verdict depends on which
    /// of them is taken.
    spread: Option<(String, bool)>,
}

impl Judged {
    fn verdict(&self) -> Verdict {
        if self.holds == [true; 3] { Verdict::Reproduced } else { Verdict::NotReproduced }
    }

    /// Returns the reason, in numbers.
    fn reason(&self, claim: &Claim, points: &[Point]) -> String {
        let mut parts = Vec::new();
        // A value that is computed from several has no place of its own.
        let name = |one: &Selected| match claim.of {
            Of::Mean if claim.greater => "the ratio of the means".to_owned(),
            Of::Mean => "the mean of all".to_owned(),
            _ if claim.best.is_empty() => one.text(),
            _ => format!("{} {}, the mean over the plots", one.place.series, one.place.x),
        };
        let described = |all: &[Selected]| {
            let described = |one: &Selected| format!("{} = {}", name(one), number(one.value));
            let more = all.len().saturating_sub(4);
            let mut text: Vec<String> = all.iter().take(4).map(described).collect();
            if more > 0 {
                text.push(format!("and {more} more"));
            }
            text.join("; ")
        };
        if self.holds == [true; 3] {
            parts.push(format!(
                "{}{}",
                self.what,
                if self.emulated { ", at both ends of the interval" } else { "" }
            ));
        } else if !self.holds[0] {
            let of_means = claim.greater && claim.of == Of::Mean;
            let against = if of_means { self.what.clone() } else { described(&self.against) };
            parts.push(format!("not so: {against}"));
            if !self.for_it.is_empty() && !self.against.is_empty() {
                let (good, all) = (self.for_it.len(), self.for_it.len() + self.against.len());
                parts.push(format!("{good} of {all} values agree"));
            }
        } else {
            let end = if self.holds[1] { "high" } else { "low" };
            let at = described(&self.against);
            parts.push(format!(
                "holds in the middle, but not at the {end} end of the interval: {at}"
            ));
        }
        if let Some((spread, true)) = &self.spread {
            parts.push(format!(
                "Within the spread of the runs ({spread}): at its other end the verdict is another"
            ));
        }
        parts.extend(claim.note.clone());
        let about = self.explained();
        parts.extend(evidence(claim, &about, points));
        let mut places: Vec<&Place> = Vec::new();
        for place in about.iter().flat_map(|one| std::iter::once(&one.place).chain(&one.over)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        parts.extend(places.into_iter().filter_map(|place| measured_with(claim, place, points)));
        parts.join(". ")
    }

    /// The values that are explained: of those that contradict the first of each engine, a few of
    /// them; if none does, the first that agrees.
    fn explained(&self) -> Vec<&Selected> {
        let mut all: Vec<&Selected> = Vec::new();
        for one in &self.against {
            let same_series = |known: &&Selected| known.place.series == one.place.series;
            if all.len() < MOST_EXPLAINED && !all.iter().any(same_series) {
                all.push(one);
            }
        }
        if all.is_empty() { self.for_it.first().into_iter().collect() } else { all }
    }
}

fn judge(claim: &Claim, points: &[Point], tolerance: f64) -> Result<Judged, String> {
    let all = |view| select(claim, &Narrowing::default(), points, view);
    let mut holds = [true; 3];
    let mut against = Vec::new();
    let mut for_it = Vec::new();
    let mut what = String::new();
    for (at, view) in View::ALL.into_iter().enumerate() {
        let selected = all(view)?;
        let (agree, contradict, said) = split(claim, selected, points, view, tolerance)?;
        holds[at] = contradict.is_empty();
        if at == 0 {
            for_it = agree;
            what = said;
            against = contradict;
        } else if against.is_empty() {
            against = contradict;
        }
    }
    let middle = all(View::Middle)?;
    let emulated = middle.iter().any(|one| one.emulated);
    let value = match emulated {
        false => value_of(claim, &middle),
        true => {
            let ends = [value_of(claim, &all(View::Low)?), value_of(claim, &all(View::High)?)];
            let middle = value_of(claim, &middle);
            match ends.iter().all(|end| *end == middle) {
                true => middle,
                false => format!("{middle} [{} .. {}]", ends[0], ends[1]),
            }
        }
    };
    let spread = if emulated { None } else { spread(claim, points, holds[0], tolerance)? };
    Ok(Judged { value, holds, against, for_it, what, emulated, spread })
}

/// Returns the bounds of a claim's value if each of its points is the lowest or the highest of
/// several runs, and whether that decides; `None` if nothing was timed several times.
fn spread(
    claim: &Claim,
    points: &[Point],
    holds: bool,
    tolerance: f64,
) -> Result<Option<(String, bool)>, String> {
    // The largest of an axis has no ends.
    if !claim.best.is_empty() {
        return Ok(None);
    }
    let mut ends = Vec::new();
    let mut decides = false;
    for view in [View::Least, View::Most] {
        let selected = select(claim, &Narrowing::default(), points, view)?;
        let of_all = counted(claim, selected.clone()).into_iter().map(|one| one.value);
        ends.push(match view {
            View::Least => of_all.fold(f64::INFINITY, f64::min),
            _ => of_all.fold(f64::NEG_INFINITY, f64::max),
        });
        let (_, contradict, _) = split(claim, selected, points, view, tolerance)?;
        decides |= contradict.is_empty() != holds;
    }
    let unit = if claim.pairs.is_empty() { "" } else { "x" };
    let (low, high) = (number(ends[0]), number(ends[1]));
    let middle = select(claim, &Narrowing::default(), points, View::Middle)?;
    let described = format!("{low}-{high}{unit}");
    Ok((low != high && described != value_of(claim, &middle)).then_some((described, decides)))
}

type Split = (Vec<Selected>, Vec<Selected>, String);

/// The values that agree with the claim, those that do not, and what was asked of them.
fn split(
    claim: &Claim,
    selected: Vec<Selected>,
    points: &[Point],
    view: View,
    tolerance: f64,
) -> Result<Split, String> {
    if claim.greater {
        return greater(claim, selected, points, view);
    }
    if !claim.best.is_empty() {
        return Ok(best(claim, &selected));
    }
    let counted = counted(claim, selected);
    let (test, what): (Box<dyn Fn(f64) -> bool>, String) =
        if let (Some(range), Some((low, high))) = (claim.accepted(tolerance), claim.paper) {
            let what = format!("within {} to {}", number(*range.start()), number(*range.end()));
            let ratio = !claim.pairs.is_empty();
            let side = move |value: f64| {
                !ratio || !((low > 1.0 && value <= 1.0) || (high < 1.0 && value >= 1.0))
            };
            (Box::new(move |value| range.contains(&value) && side(value)), what)
        } else if let Some(range) = claim.accepted_loss(tolerance) {
            let what = format!("within {} to {}", number(*range.start()), number(*range.end()));
            (Box::new(move |value| range.contains(&value)), what)
        } else if let Some(bound) = claim.below {
            (Box::new(move |value| value < bound), format!("below {bound}"))
        } else if let Some(bound) = claim.at_least {
            (Box::new(move |value| value >= bound), format!("at least {bound}"))
        } else if let Some(bound) = claim.at_most {
            (Box::new(move |value| value <= bound), format!("at most {bound}"))
        } else if claim.zero {
            (Box::new(|value| value == 0.0), "all are 0".into())
        } else {
            (Box::new(|value| value > 1.0), "ahead of all others".into())
        };
    let (agree, contradict) = counted.into_iter().partition(|one| test(one.value));
    Ok((agree, contradict, what))
}

/// The values that count.
fn counted(claim: &Claim, mut selected: Vec<Selected>) -> Vec<Selected> {
    match claim.of {
        Of::Each => selected,
        Of::Mean => {
            let value = mean(&selected);
            let mut one = selected.swap_remove(0);
            one.value = value;
            vec![one]
        }
        Of::Largest | Of::Smallest => {
            let order = |one: &Selected, two: &Selected| one.value.total_cmp(&two.value);
            let found = match claim.of {
                Of::Largest => selected.into_iter().max_by(order),
                _ => selected.into_iter().min_by(order),
            };
            found.into_iter().collect()
        }
    }
}

fn mean(selected: &[Selected]) -> f64 {
    let sum: f64 = selected.iter().map(|one| one.value.ln()).sum();
    (sum / selected.len().max(1) as f64).exp()
}

/// Each value against those that it has to exceed.
fn greater(
    claim: &Claim,
    selected: Vec<Selected>,
    points: &[Point],
    view: View,
) -> Result<Split, String> {
    let than = claim.than.clone().unwrap_or_default();
    let others = select(claim, &than, points, view.other())?;
    let what = "each is greater".to_owned();
    if claim.of == Of::Mean {
        let (here, there) = (mean(&selected), mean(&others));
        let mut one = selected.into_iter().next().ok_or("nothing is selected")?;
        one.value = here / there;
        let what = format!("{} against {}", number(here), number(there));
        return Ok(if here > there {
            (vec![one], vec![], what)
        } else {
            (vec![], vec![one], what)
        });
    }
    let same = |one: &Selected, other: &Selected| match claim.matched {
        Some(Field::Series) => one.place.series == other.place.series,
        Some(Field::Panel) => one.place.panel == other.place.panel,
        None => true,
    };
    let exceeds = |one: &Selected| {
        others.iter().filter(|other| same(one, other)).all(|other| one.value > other.value)
    };
    let (agree, contradict) = selected.into_iter().partition(exceeds);
    Ok((agree, contradict, what))
}

/// Finds for each series the x at which the mean over the panels is largest.
fn best(claim: &Claim, selected: &[Selected]) -> Split {
    let (mut agree, mut contradict) = (Vec::new(), Vec::new());
    for one in best_of(selected) {
        if claim.best.contains(&one.place.x) { agree.push(one) } else { contradict.push(one) }
    }
    (agree, contradict, "the best lies there".into())
}

fn best_of(selected: &[Selected]) -> Vec<Selected> {
    let mut found: Vec<Selected> = Vec::new();
    for one in selected {
        let same = |other: &&Selected| {
            other.place.series == one.place.series && other.place.x == one.place.x
        };
        let all: Vec<Selected> = selected.iter().filter(same).cloned().collect();
        let candidate = Selected { value: mean(&all), ..one.clone() };
        match found.iter_mut().find(|best| best.place.series == one.place.series) {
            None => found.push(candidate),
            Some(best) if best.value < candidate.value => *best = candidate,
            Some(_) => {}
        }
    }
    found
}

/// Our value, as people read it.
fn value_of(claim: &Claim, selected: &[Selected]) -> String {
    let unit = if claim.pairs.is_empty() { "" } else { "x" };
    if !claim.best.is_empty() {
        let described = |one: &Selected| format!("{} {}", one.place.series, one.place.x);
        return best_of(selected).iter().map(described).collect::<Vec<_>>().join(", ");
    }
    if claim.of == Of::Mean {
        return format!("{}{unit}", number(mean(selected)));
    }
    let values = counted(claim, selected.to_vec());
    let low = values.iter().map(|one| one.value).fold(f64::INFINITY, f64::min);
    let high = values.iter().map(|one| one.value).fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = (number(low), number(high));
    if low == high { format!("{low}{unit}") } else { format!("{low}-{high}{unit}") }
}

/// Three digits, or whole numbers.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Returns what was measured together with a value: the parts of a whole, or what else is known of
/// its place.
fn measured_with(claim: &Claim, place: &Place, points: &[Point]) -> Option<String> {
    let same = |point: &&Point| {
        point.experiment == place.experiment
            && point.series == place.series
            && point.panel == place.panel
    };
    let of = points.iter().filter(same);
    let described: Vec<String> = match place.experiment.as_str() {
        // Parts of a whole are neighbours on the axis.
        "P1-F13" | "P1-F14" => of
            .filter(|point| point.metric == claim.metric && point.x != X::from("total"))
            .map(|point| format!("{} {}", point.x, number(point.value)))
            .collect(),
        "P1-F12" | "P1-T3" | "PEERS-GROWTH" => of
            .filter(|point| point.x == place.x && point.metric != claim.metric)
            .filter(|point| {
                let part = ["redone", ", ", "levels", "lines fetched", "time of a transaction"];
                part.iter().any(|part| point.metric.contains(part))
            })
            .map(|point| format!("{} {}", number(point.value), point.metric))
            .collect(),
        _ => return None,
    };
    let what = place.text();
    (!described.is_empty()).then(|| format!("{what}: {}", described.join(", ")))
}

/// The counts per transaction.
const COUNTS: [&str; 6] =
    ["nvm loads", "nvm stores", "flushed lines", "fences", "syncs", "file bytes"];

/// Values of one claim that are explained at most.
const MOST_EXPLAINED: usize = 3;

/// Counts that go with values: what the engines did for a transaction, at each of the places that
/// they are made of and, where the best of an axis is asked for, where the paper has it.
fn evidence(claim: &Claim, values: &[&Selected], points: &[Point]) -> Option<String> {
    let mut places: Vec<Place> = Vec::new();
    for one in values {
        places.extend(std::iter::once(&one.place).chain(&one.over).cloned());
        if let Some(papers) = claim.best.get(claim.best.len() / 2) {
            places.push(Place { x: papers.clone(), ..one.place.clone() });
        }
    }
    // Two places may be of one run: memory of another latency changes no count.
    let mut runs: Vec<Run> = Vec::new();
    for run in places.iter().filter_map(|place| Run::of(place, !claim.best.is_empty())) {
        if !runs.contains(&run) {
            runs.push(run);
        }
    }
    let described: Vec<(String, Option<String>)> =
        runs.iter().map(|run| (run.name(&runs), run.counts(points))).collect();
    if described.iter().all(|(_, counts)| counts.is_none()) {
        return None;
    }
    let described = described.into_iter().map(|(name, counts)| match counts {
        Some(counts) => format!("{name}: {counts}"),
        None => format!("{name}: none"),
    });
    Some(format!("Counted for a transaction: {}", described.collect::<Vec<_>>().join("; ")))
}

/// The emulated run that a value comes from: where its counts stand.
#[derive(Debug, Clone, PartialEq)]
struct Run {
    experiments: &'static [&'static str],
    series: String,
    /// `None`: the mean over all plots.
    panel: Option<String>,
    x: X,
}

impl Run {
    /// The run of the value at a place; `None` if nothing was counted for it.
    fn of(place: &Place, all_panels: bool) -> Option<Self> {
        const YCSB: &[&str] = &["P1-F9", "P1-F10"];
        let (experiments, panel, x): (&'static [&'static str], _, _) =
            match place.experiment.as_str() {
                "P1-F5" | "P1-F6" | "P1-F7" | "P1-F9" | "P1-F10" => {
                    (YCSB, place.panel.clone(), place.x.clone())
                }
                // Both are looked at with low skew, and have a plot for each mixture.
                "P1-F13" | "P1-F16" => (YCSB, "low".into(), X::from(place.panel.as_str())),
                "P1-F8" | "P1-F11" => (&["P1-F11"], String::new(), "tpcc".into()),
                "P1-F15" => (&["P1-F15"], place.panel.clone(), place.x.clone()),
                _ => return None,
            };
        let panel = (!all_panels).then_some(panel);
        Some(Self { experiments, series: place.series.clone(), panel, x })
    }

    /// A name that distinguishes it from the others.
    fn name(&self, all: &[Self]) -> String {
        let mut name = vec![self.series.clone()];
        if all.iter().any(|other| other.panel != self.panel) {
            name.extend(self.panel.clone());
        }
        if all.iter().any(|other| other.x != self.x) {
            name.push(self.x.to_string());
        }
        name.join(" ")
    }

    /// All that was counted and is not zero; `None` if nothing is.
    fn counts(&self, points: &[Point]) -> Option<String> {
        let described = COUNTS.iter().filter_map(|metric| {
            let found = points.iter().filter(|point| {
                self.experiments.contains(&point.experiment.as_str())
                    && point.metric == *metric
                    && point.series == self.series
                    && self.panel.as_ref().is_none_or(|panel| point.panel == *panel)
                    && point.x == self.x
            });
            let found: Vec<f64> = found.map(|point| point.value).collect();
            let mean = found.iter().sum::<f64>() / found.len().max(1) as f64;
            (mean != 0.0).then(|| format!("{} {metric}", number(mean)))
        });
        let described: Vec<String> = described.collect();
        (!described.is_empty()).then(|| described.join(", "))
    }
}
