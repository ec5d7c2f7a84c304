//! Does a claim hold?

use super::select::{Place, Selected, View, select};
use super::{Claim, Field, Narrowing, Of, Tested, Verdict};
use crate::point::{Point, X};

/// Tests a claim on our points, and on the authors' if there are any.
#[must_use]
pub fn evaluate(claim: &Claim, ours: &[Point], authors: Option<&[Point]>) -> Tested {
    let judged = judge(claim, ours);
    let authors = authors.and_then(|points| judge(claim, points).ok());
    let (verdict, our_value, reason, emulated) = match judged {
        Err(missing) => (Verdict::NotTestable, "-".into(), missing, false),
        Ok(judged) => {
            let verdict = judged.verdict();
            let reason = judged.reason(claim, ours);
            (verdict, judged.value, reason, judged.emulated)
        }
    };
    Tested {
        claim: claim.id.clone(),
        experiment: claim.experiment.clone(),
        section: claim.section.clone(),
        text: claim.text.clone(),
        paper_value: claim.paper_value(),
        authors_verdict: authors.as_ref().map(Judged::verdict),
        authors_value: authors.map(|judged| judged.value),
        our_value,
        verdict,
        reason,
        emulated,
    }
}

/// What the points say.
struct Judged {
    value: String,
    /// Whether it holds in the middle, at the low and at the high end.
    holds: [bool; 3],
    /// Values that contradict it, in the middle or else at the ends.
    against: Vec<Selected>,
    for_it: Vec<Selected>,
    what: String,
    emulated: bool,
}

impl Judged {
    fn verdict(&self) -> Verdict {
        if self.holds == [true; 3] { Verdict::Reproduced } else { Verdict::NotReproduced }
    }

    /// Why, in numbers.
    fn reason(&self, claim: &Claim, points: &[Point]) -> String {
        let mut parts = Vec::new();
        let told = |all: &[Selected]| {
            let told = |one: &Selected| format!("{} = {}", one.text(), number(one.value));
            let more = all.len().saturating_sub(4);
            let mut text: Vec<String> = all.iter().take(4).map(told).collect();
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
            parts.push(format!("not so: {}", told(&self.against)));
            if !self.for_it.is_empty() && !self.against.is_empty() {
                let (good, all) = (self.for_it.len(), self.for_it.len() + self.against.len());
                parts.push(format!("{good} of {all} values agree"));
            }
        } else {
            let end = if self.holds[1] { "high" } else { "low" };
            let at = told(&self.against);
            parts.push(format!(
                "holds in the middle, but not at the {end} end of the interval: {at}"
            ));
        }
        let about = self.against.first().or(self.for_it.first());
        if let Some(one) = about {
            parts.extend(evidence(claim, one, points));
            let places = std::iter::once(&one.place).chain(&one.over);
            parts.extend(places.filter_map(|place| measured_with(claim, place, points)));
        }
        parts.join(". ")
    }
}

fn judge(claim: &Claim, points: &[Point]) -> Result<Judged, String> {
    let all = |view| select(claim, &Narrowing::default(), points, view);
    let mut holds = [true; 3];
    let mut against = Vec::new();
    let mut for_it = Vec::new();
    let mut what = String::new();
    for (at, view) in View::ALL.into_iter().enumerate() {
        let selected = all(view)?;
        let (agree, contradict, said) = split(claim, selected, points, view)?;
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
    Ok(Judged { value, holds, against, for_it, what, emulated })
}

type Split = (Vec<Selected>, Vec<Selected>, String);

/// The values that agree with the claim, those that do not, and what was asked of them.
fn split(
    claim: &Claim,
    selected: Vec<Selected>,
    points: &[Point],
    view: View,
) -> Result<Split, String> {
    if claim.greater {
        return greater(claim, selected, points, view);
    }
    if !claim.best.is_empty() {
        return Ok(best(claim, &selected));
    }
    let counted = counted(claim, selected);
    let (test, what): (Box<dyn Fn(f64) -> bool>, String) =
        if let (Some(range), Some((low, high))) = (claim.accepted(), claim.paper) {
            let what = format!("within {} to {}", number(*range.start()), number(*range.end()));
            let ratio = !claim.pairs.is_empty();
            let side = move |value: f64| {
                !ratio || !((low > 1.0 && value <= 1.0) || (high < 1.0 && value >= 1.0))
            };
            (Box::new(move |value| range.contains(&value) && side(value)), what)
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
    let others = select(claim, &than, points, view)?;
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

/// For each series: the x at which the mean over the panels is largest.
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
        let told = |one: &Selected| format!("{} {}", one.place.series, one.place.x);
        return best_of(selected).iter().map(told).collect::<Vec<_>>().join(", ");
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

/// What was measured beside a value: the parts of a whole, or what else is known of its place.
fn measured_with(claim: &Claim, place: &Place, points: &[Point]) -> Option<String> {
    let same = |point: &&Point| {
        point.experiment == place.experiment
            && point.series == place.series
            && point.panel == place.panel
    };
    let of = points.iter().filter(same);
    let told: Vec<String> = match place.experiment.as_str() {
        // Parts of a whole lie beside each other on the axis.
        "P1-F13" | "P1-F14" => of
            .filter(|point| point.metric == claim.metric && point.x != X::from("total"))
            .map(|point| format!("{} {}", point.x, number(point.value)))
            .collect(),
        "P1-F12" | "P1-T3" => of
            .filter(|point| point.x == place.x)
            .filter(|point| point.metric.contains("redone") || point.metric.contains(", "))
            .map(|point| format!("{} {}", number(point.value), point.metric))
            .collect(),
        _ => return None,
    };
    let what = place.text();
    (!told.is_empty()).then(|| format!("{what}: {}", told.join(", ")))
}

/// Counts that go with a value: what the engines of a ratio did for a transaction.
fn evidence(claim: &Claim, selected: &Selected, points: &[Point]) -> Option<String> {
    const COUNTS: [&str; 6] =
        ["nvm loads", "nvm stores", "flushed lines", "fences", "syncs", "file bytes"];
    if COUNTS.contains(&claim.metric.as_str()) || selected.over.is_none() {
        return None;
    }
    let over = selected.over.as_ref()?;
    if over.series == selected.place.series {
        return None;
    }
    let counts = |series: &str, panel: &str, x: &X| {
        let mut told = Vec::new();
        for metric in COUNTS {
            let found = points.iter().find(|point| {
                point.metric == metric
                    && point.series == series
                    && (point.panel == panel || point.panel.is_empty())
                    && (point.x == *x || matches!(x, X::Number(_)))
                    && point.unit.contains("txn")
            });
            if let Some(point) = found.filter(|point| point.value != 0.0) {
                told.push(format!("{} {metric}", number(point.value)));
            }
        }
        told
    };
    let (one, two) = (&selected.place, over);
    let (first, second) =
        (counts(&one.series, &one.panel, &one.x), counts(&two.series, &two.panel, &two.x));
    if first.is_empty() && second.is_empty() {
        return None;
    }
    let text = |all: Vec<String>| if all.is_empty() { "none".into() } else { all.join(", ") };
    Some(format!(
        "Counted for a transaction: {}: {}; {}: {}",
        one.series,
        text(first),
        two.series,
        text(second)
    ))
}
