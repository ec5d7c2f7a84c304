//! The paper's claims, as data, and whether they hold here.
//!
//! The claims are in `claims/*.toml`, whose head explains how one is written. Invariants:
//! - The data was committed before the first run; a test holds each claim against the registry of
//!   experiments.
//! - A claim is tested once in each setting, on the points of that setting alone.
//! - A verdict comes with our value and a reason that names measured numbers.
//! - What was emulated has to hold at both ends of its interval.
//! - What asks for the best, the most or all of an axis is tested where all of it was measured.

mod evaluate;
mod follows;
mod missing;
mod select;

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::point::{Point, X};
use crate::setting::Setting;

pub use evaluate::evaluate;
pub use follows::{Pair, follows, pairs};
pub use missing::Missing;

/// The claims of P1.
const P1: &str = include_str!("../../claims/p1.toml");

/// The claims of P2, whose studies are being built: until then no run tests them.
#[cfg(test)]
const P2: &str = include_str!("../../claims/p2.toml");

/// The claims of P3.
const P3: &str = include_str!("../../claims/p3.toml");

/// The claims of P4.
const P4: &str = include_str!("../../claims/p4.toml");

/// Perdura's own targets.
const TARGETS: &str = include_str!("../../claims/targets.toml");

/// The tolerance around the paper's range of a ratio: to 0.75 times its low and 1.25 times its high
/// end.
pub const TOLERANCE: f64 = 0.25;

/// The same for the authors' own points, which the paper rounds: 1.3 is said of 1.25 and of 1.35.
pub const ROUNDING: f64 = 0.05;

/// A selection of an experiment's points; an empty list is all there is.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Narrowing {
    /// Engines, interfaces.
    #[serde(default)]
    pub series: Vec<String>,
    /// Plots.
    #[serde(default)]
    pub panel: Vec<String>,
    /// Places on the axis.
    #[serde(default)]
    pub x: Vec<X>,
}

/// The parts of the selection that one side of a ratio replaces.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// Another experiment.
    pub experiment: Option<String>,
    /// An engine.
    pub series: Option<String>,
    /// A plot.
    pub panel: Option<String>,
    /// A place on the axis.
    pub x: Option<X>,
}

/// The selection among several values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Each by itself.
    #[default]
    Each,
    /// Their geometric mean.
    Mean,
    /// The largest.
    Largest,
    /// The smallest.
    Smallest,
}

/// One claim of the paper.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// The experiment that tests it.
    pub experiment: String,
    /// The section of the paper that says it.
    pub section: String,
    /// The claim, in our words.
    pub text: String,
    /// The metric of the points.
    pub metric: String,
    /// The origin of the points; claims of P2 say it.
    pub by: Option<By>,
    /// Engines, interfaces.
    #[serde(default)]
    pub series: Vec<String>,
    /// Plots.
    #[serde(default)]
    pub panel: Vec<String>,
    /// Places on the axis.
    #[serde(default)]
    pub x: Vec<X>,
    /// Ratios instead of values.
    #[serde(default)]
    pub pairs: Vec<(Side, Side)>,
    /// The values that count.
    #[serde(default)]
    pub of: Of,
    /// The paper's range.
    pub paper: Option<(f64, f64)>,
    /// The range of the share by which each ratio is below 1.
    pub loss: Option<(f64, f64)>,
    /// Each value is above 1.
    #[serde(default)]
    pub most: bool,
    /// The bound that every value stays below.
    pub below: Option<f64>,
    /// The least that every value reaches.
    pub at_least: Option<f64>,
    /// The most that any value has.
    pub at_most: Option<f64>,
    /// All values are 0.
    #[serde(default)]
    pub zero: bool,
    /// All values are above those of `than`.
    #[serde(default)]
    pub greater: bool,
    /// The other side of `greater`.
    pub than: Option<Narrowing>,
    /// The field in which both sides of `greater` have to agree, `series` or `panel`.
    pub matched: Option<Field>,
    /// The x of the largest value is one of these.
    #[serde(default)]
    pub best: Vec<X>,
    /// A note for readers on how it was tested here.
    pub note: Option<String>,
}

/// The origin of the points that a claim is tested on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// They were measured on this machine.
    Measured,
    /// They were projected to more cores.
    Projected,
}

/// A field in which two points may agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    /// The engine.
    Series,
    /// The plot.
    Panel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    claim: Vec<Claim>,
}

impl Claim {
    /// The paper's value, as people read it.
    #[must_use]
    pub fn paper_value(&self) -> String {
        if let Some((low, high)) = self.paper {
            let unit =
                if self.pairs.is_empty() && self.metric.contains("share") { "%" } else { "" };
            let unit = if self.pairs.is_empty() { unit } else { "x" };
            return if low == high {
                format!("{low}{unit}")
            } else {
                format!("{low}-{high}{unit}")
            };
        }
        if let Some((low, high)) = self.loss {
            let percent = |share: f64| (share * 1000.0).round() / 10.0;
            let (low, high) = (percent(low), percent(high));
            return match low == high {
                true => format!("-{low}%"),
                false => format!("-{low}% to -{high}%"),
            };
        }
        let unit = if self.pairs.is_empty() { "" } else { "x" };
        for (what, bound) in
            [("below", self.below), ("at least", self.at_least), ("at most", self.at_most)]
        {
            if let Some(bound) = bound {
                return format!("{what} {bound}{unit}");
            }
        }
        if !self.best.is_empty() {
            let all: Vec<String> = self.best.iter().map(X::to_string).collect();
            return format!("best at {}", all[all.len() / 2]);
        }
        if self.zero { "0".into() } else { "more".into() }
    }

    /// The range in which a ratio counts as reproduced.
    fn accepted(&self, tolerance: f64) -> Option<RangeInclusive<f64>> {
        self.paper.map(|(low, high)| low * (1.0 - tolerance)..=high * (1.0 + tolerance))
    }

    /// The range in which a ratio counts as the loss that the paper names.
    fn accepted_loss(&self, tolerance: f64) -> Option<RangeInclusive<f64>> {
        self.loss.map(|(low, high)| 1.0 - high * (1.0 + tolerance)..=1.0 - low * (1.0 - tolerance))
    }

    /// Returns true if it is about all that there is of something, and not about what it names.
    fn is_open(&self) -> bool {
        let replaced = |has: fn(&Side) -> bool| {
            !self.pairs.is_empty() && self.pairs.iter().all(|(one, two)| has(one) && has(two))
        };
        (self.x.is_empty() && !replaced(|side| side.x.is_some()))
            || (self.series.is_empty() && !replaced(|side| side.series.is_some()))
            || (self.panel.is_empty() && !replaced(|side| side.panel.is_some()))
    }

    /// The engines, interfaces or stores that it names.
    fn names(&self) -> impl Iterator<Item = &str> {
        let sides = self.pairs.iter().flat_map(|(one, two)| [one, two]);
        let replaced = sides.filter_map(|side| side.series.as_deref());
        let than = self.than.iter().flat_map(|than| &than.series).map(String::as_str);
        self.series.iter().map(String::as_str).chain(replaced).chain(than)
    }
}

/// All claims of the papers.
///
/// # Errors
/// The data cannot be read: a bug of ours that a test finds.
pub fn claims() -> Result<Vec<Claim>, LabError> {
    Ok([read(P1)?, read(P3)?, read(P4)?].concat())
}

/// Perdura's own targets, written in the same way.
///
/// # Errors
/// As [`claims`].
pub fn targets() -> Result<Vec<Claim>, LabError> {
    read(TARGETS)
}

fn read(text: &str) -> Result<Vec<Claim>, LabError> {
    let file: File = toml::from_str(text).map_err(|error| LabError::Claims(error.to_string()))?;
    Ok(file.claim)
}

/// The outcome of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// The claim holds here.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// The claim does not hold here.
    #[serde(rename = "not reproduced")]
    NotReproduced,
    /// The claim cannot be tested on this machine or with these results.
    #[serde(rename = "not testable here")]
    NotTestable,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Reproduced, Self::NotReproduced, Self::NotTestable];

    /// Returns its name, as people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
            Self::NotTestable => "not testable here",
        }
    }
}

/// A claim that was tested.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tested {
    /// The claim's name.
    pub claim: String,
    /// The setting in which it was tested.
    pub setting: Setting,
    /// The experiment that tests it.
    pub experiment: String,
    /// The section of the paper that says it.
    pub section: String,
    /// The claim, in our words.
    pub text: String,
    /// The paper's value.
    pub paper_value: String,
    /// The value in the authors' own published points, if they were given.
    pub authors_value: Option<String>,
    /// The verdict by the authors' points.
    pub authors_verdict: Option<Verdict>,
    /// Ours.
    pub our_value: String,
    /// The values in the slowest and the fastest of several runs; `None` if nothing was timed
    /// several times.
    pub spread: Option<String>,
    /// The verdict is another at one end of the spread.
    pub within_spread: bool,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason.
    pub reason: String,
    /// True if emulated times are in it.
    pub emulated: bool,
}

/// Counts the claims of each verdict, in words: `17 reproduced, 26 not reproduced, ...`.
#[must_use]
pub fn counts(claims: &[Tested]) -> String {
    let counts = Verdict::ALL.map(|verdict| {
        let count = claims.iter().filter(|claim| claim.verdict == verdict).count();
        format!("{count} {}", verdict.name())
    });
    counts.join(", ")
}

/// Tests claims on our points of a setting, of which some are missing, and on the authors' if there
/// are any.
#[must_use]
pub fn test(
    claims: &[Claim],
    ours: &[Point],
    missing: &[Missing],
    authors: Option<&[Point]>,
    setting: Setting,
) -> Vec<Tested> {
    let missing = || missing.iter().filter(|one| one.setting == setting);
    let kept = |claim: &Claim| {
        let untested = setting.untested(&claim.experiment);
        untested.or_else(|| missing().find_map(|one| one.keeps_from(claim)))
    };
    let test = |claim: &Claim| match kept(claim) {
        None => Tested { setting, ..evaluate(claim, ours, authors) },
        // The points that are there may look complete.
        Some(why) => Tested {
            setting,
            verdict: Verdict::NotTestable,
            our_value: "-".into(),
            reason: why,
            spread: None,
            within_spread: false,
            emulated: false,
            ..evaluate(claim, ours, authors)
        },
    };
    claims.iter().map(test).collect()
}

#[cfg(test)]
mod tests;
