//! Rounds: repetitions of one measurement, taken at different times.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use pm::Escaped;
use serde_json::Value;

use super::{Configured, ROUND};
use crate::point::{Point, median};

/// One of several rounds of a measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The configuration that all of them have.
    pub configuration: String,
    /// Its number, from 0.
    pub number: u64,
    /// The number of rounds, as the configuration says (`repeat`).
    pub of: u64,
}

impl Round {
    /// Reads it from the configuration of a measurement; `None` if that has no rounds.
    #[must_use]
    pub fn read(configuration: &str) -> Option<Self> {
        if !configuration.contains(ROUND) {
            return None;
        }
        let mut all: Value = serde_json::from_str(configuration).ok()?;
        let number = all.as_object_mut()?.remove(ROUND)?.as_u64()?;
        let of = all.get("repeat").and_then(Value::as_u64).unwrap_or(1);
        Some(Self { configuration: all.to_string(), number, of })
    }
}

/// The identity that rounds of the same point share: their configuration, and where the point lies.
type Place = (String, [String; 5]);

fn place(round: &Round, point: &Point) -> Place {
    let Point { experiment, panel, series, metric, .. } = point;
    let words = [experiment, panel, series, &point.x.to_string(), metric].map(Clone::clone);
    (round.configuration.clone(), words)
}

/// Takes the points of rounds together: measurements whose configurations differ by [`ROUND`] alone
/// are repetitions of one, and what was measured in each of them becomes one point with the median and
/// the extremes, in the place of the first. Where a round is missing nothing is there yet, as of any
/// measurement that has not come to its end.
pub(super) fn together(all: Vec<Configured>) -> Vec<Configured> {
    let mut merged: Vec<(Configured, Vec<Point>)> = Vec::new();
    let mut places: HashMap<Place, usize> = HashMap::new();
    let mut rounds: HashMap<String, (HashSet<u64>, u64)> = HashMap::new();
    for Configured { configuration, point } in all {
        let Some(round) = Round::read(&configuration) else {
            merged.push((Configured { configuration, point }, Vec::new()));
            continue;
        };
        let at = *places.entry(place(&round, &point)).or_insert(merged.len());
        let Round { configuration, number, of } = round;
        let known = rounds.entry(configuration.clone());
        known.or_insert_with(|| (HashSet::new(), of)).0.insert(number);
        match merged.get_mut(at) {
            Some((_, all)) => all.push(point),
            None => merged.push((Configured { configuration, point: point.clone() }, vec![point])),
        }
    }
    merged.retain(|(one, _)| {
        rounds.get(&one.configuration).is_none_or(|(known, of)| known.len() as u64 >= *of)
    });
    let whole = |(one, rounds): (Configured, Vec<Point>)| Configured {
        point: if rounds.is_empty() { one.point } else { of_rounds(one.point, &rounds) },
        ..one
    };
    merged.into_iter().map(whole).collect()
}

/// The point that stands for all rounds. Where it is exact they all say the same, and it is exact
/// only then.
fn of_rounds(first: Point, rounds: &[Point]) -> Point {
    if first.exact && rounds.iter().all(|one| one.exact && one.value == first.value) {
        return first;
    }
    let values: Vec<f64> = rounds.iter().map(|one| one.value).collect();
    Point {
        value: median(&values),
        low: rounds.iter().map(|one| one.low).fold(f64::INFINITY, f64::min),
        high: rounds.iter().map(|one| one.high).fold(f64::NEG_INFINITY, f64::max),
        n: rounds.iter().map(|one| one.n).sum(),
        exact: false,
        ..first
    }
}

/// A count that is not the same in each round, though the same seed has to give the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unequal {
    /// The experiment.
    pub experiment: String,
    /// The point and how it differs, in words.
    pub text: String,
}

/// Counts that two rounds do not agree on, each once.
pub(super) fn unequal(all: &[Configured]) -> Vec<Unequal> {
    let mut counts: HashMap<Place, Option<f64>> = HashMap::new();
    let mut unequal = Vec::new();
    for Configured { configuration, point } in all.iter().filter(|one| one.point.exact) {
        let Some(round) = Round::read(configuration) else { continue };
        match counts.entry(place(&round, point)) {
            Entry::Vacant(first) => {
                first.insert(Some(point.value));
            }
            Entry::Occupied(mut known) => match *known.get() {
                Some(value) if value != point.value => {
                    known.insert(None);
                    let Point { experiment, series, x, metric, panel, value: other, .. } = point;
                    let panel = if panel.is_empty() { "" } else { &format!(", {panel}") };
                    let text = format!(
                        "{experiment}{panel}: {metric} of {series} at {x} is {value} in one round and \
                         {other} in another"
                    );
                    let text = Escaped(text).to_string();
                    unequal.push(Unequal { experiment: experiment.clone(), text });
                }
                // The same, or reported already.
                _ => {}
            },
        }
    }
    unequal
}
