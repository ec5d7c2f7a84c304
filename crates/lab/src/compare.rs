//! Has anything changed between two versions, or between two machines?
//!
//! - Counts are exact: any difference is a change.
//! - Times are compared by the ranges of their repetitions. A difference counts only if the ranges
//!   of both sides lie further apart than either is wide. A time that was taken once is not judged
//!   at all. Ranges that merely do not touch would be common: with three repetitions and three more
//!   of the same thing, one in twenty is worse by chance, and a run has hundreds; ranges so far
//!   apart are one in 280. A machine that is slower today shows in no range: both sides have to be
//!   measured on one that is in the same state.
//! - Emulated times are left out: they follow from the native times and the counts, which are
//!   compared.
//! - Figures that describe a run, and are neither better nor worse when they grow, are not judged.
//! - Measurements with different configurations (on a machine with other memory, or by a version
//!   with other sizes) are not compared at all.

use serde::Serialize;

use crate::point::{Point, X};
use crate::results::Configured;

/// The change of a number between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Worse, beyond noise.
    Worse,
    /// Better, beyond noise.
    Better,
    /// The same, or within noise.
    Same,
    /// Measured once: the spread is unknown.
    Unknown,
}

/// A number on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The experiment.
    pub experiment: String,
    /// The plot.
    pub panel: String,
    /// The engine.
    pub series: String,
    /// The place on the horizontal axis.
    pub x: X,
    /// The metric.
    pub metric: String,
    /// The unit.
    pub unit: String,
    /// The value on one side.
    pub a: f64,
    /// The value on the other.
    pub b: f64,
    /// The share of the first by which the second is worse: negative if it is better. Infinite,
    /// `null` in JSON, if the first is nothing.
    pub worse_by: f64,
    /// True if it was counted.
    pub exact: bool,
    /// The change.
    pub change: Change,
}

/// All numbers that both sides have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The numbers, the worst change first.
    pub compared: Vec<Compared>,
    /// Numbers of A that B lacks.
    pub only_a: usize,
    /// Numbers of B that A lacks.
    pub only_b: usize,
}

impl Comparison {
    /// The numbers that are worse, beyond noise, by more than this share.
    #[must_use]
    pub fn worse_than(&self, share: f64) -> Vec<&Compared> {
        let worse = |one: &&Compared| one.change == Change::Worse && one.worse_by > share;
        self.compared.iter().filter(worse).collect()
    }

    /// Returns how many numbers changed so.
    #[must_use]
    pub fn count(&self, change: Change) -> usize {
        self.compared.iter().filter(|one| one.change == change).count()
    }
}

/// Returns true if more of a metric is better.
fn more_is_better(metric: &str) -> bool {
    metric.contains("throughput") || matches!(metric, "bandwidth" | "scaling")
}

/// Returns true if a metric says how a run was, and not how well it did. The kinds of lines fetched
/// are parts of `nvm loads`, which is judged: one that becomes another kind is no loss.
fn describes(metric: &str) -> bool {
    let described = [
        "redone and undone",
        "user data",
        "levels of the index",
        "dependent lines",
        "near lines",
        "sequential lines",
        "independent lines",
        "lines stored to",
    ];
    metric.contains("model") || described.contains(&metric)
}

/// Compares what both sides have.
#[must_use]
pub fn compare(a: &[Configured], b: &[Configured]) -> Comparison {
    let judged = |one: &&Configured| one.point.emulated.is_none() && !describes(&one.point.metric);
    let same = |first: &Configured, second: &Configured| {
        let (one, other) = (&first.point, &second.point);
        first.configuration == second.configuration
            && one.experiment == other.experiment
            && one.panel == other.panel
            && one.series == other.series
            && one.x == other.x
            && one.metric == other.metric
    };
    let (ours, theirs): (Vec<_>, Vec<_>) =
        (a.iter().filter(judged).collect(), b.iter().filter(judged).collect());
    let mut compared: Vec<Compared> = ours
        .iter()
        .filter_map(|one| {
            let other = theirs.iter().find(|other| same(one, other))?;
            Some(one_by_one(&one.point, &other.point))
        })
        .collect();
    compared.sort_by(|one, other| {
        one.change.cmp(&other.change).then(other.worse_by.total_cmp(&one.worse_by))
    });
    let (only_a, only_b) = (ours.len() - compared.len(), theirs.len() - compared.len());
    Comparison { compared, only_a, only_b }
}

/// Returns true if the ranges of two times lie further apart than either of them is wide.
fn far_apart(a: &Point, b: &Point) -> bool {
    let between = (b.low - a.high).max(a.low - b.high);
    between > (a.high - a.low).max(b.high - b.low)
}

fn one_by_one(a: &Point, b: &Point) -> Compared {
    let difference = match a.value {
        0.0 if b.value == 0.0 => 0.0,
        0.0 => f64::INFINITY,
        value => (b.value - value) / value,
    };
    let worse_by = if more_is_better(&a.metric) { -difference } else { difference };
    let exact = a.exact && b.exact;
    let change = if difference == 0.0 {
        Change::Same
    } else if !exact && (a.n < 2 || b.n < 2) {
        Change::Unknown
    } else if !exact && !far_apart(a, b) {
        Change::Same
    } else if worse_by > 0.0 {
        Change::Worse
    } else {
        Change::Better
    };
    Compared {
        experiment: a.experiment.clone(),
        panel: a.panel.clone(),
        series: a.series.clone(),
        x: a.x.clone(),
        metric: a.metric.clone(),
        unit: a.unit.clone(),
        a: a.value,
        b: b.value,
        worse_by,
        exact,
        change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(configuration: &str, point: Point) -> Configured {
        Configured { configuration: configuration.into(), point }
    }

    fn time(series: &str, all: &[f64]) -> Configured {
        let place = Point::of("P1-F5", series, "balanced");
        with("{}", place.measured("native throughput", "txn/s", all))
    }

    #[test]
    fn times_differ_only_if_their_ranges_are_far_apart() {
        let a = [
            time("noisy", &[90.0, 100.0, 110.0]),
            time("near", &[98.0, 100.0, 102.0]),
            time("slower", &[99.0, 100.0, 101.0]),
        ];
        let b = [
            time("noisy", &[80.0, 92.0, 95.0]),
            time("near", &[92.0, 93.0, 94.5]),
            time("slower", &[89.0, 90.0, 91.0]),
        ];
        let found = compare(&a, &b);
        assert_eq!((found.count(Change::Worse), found.count(Change::Same)), (1, 2));
        assert_eq!(found.compared[0].series, "slower");
        assert!((found.compared[0].worse_by - 0.1).abs() < 1e-9);
        assert_eq!(found.worse_than(0.05).len(), 1);
        assert!(found.worse_than(0.15).is_empty());
    }

    #[test]
    fn chance_alone_hardly_ever_counts() {
        let mut state = 1u64;
        let mut random = || {
            // The sum of twelve uniform numbers has a variance of one.
            let next = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as f64 / f64::from(1u32 << 31)
            };
            (0..12).map(next).sum::<f64>() - 6.0
        };
        let mut three = || [0; 3].map(|_| 100.0 + 3.0 * random());
        let mut worse = 0;
        for _ in 0..10_000 {
            let found = compare(&[time("same", &three())], &[time("same", &three())]);
            worse += found.count(Change::Worse);
        }
        // 36 are to be expected; with ranges that merely do not touch, 500.
        assert!((1..100).contains(&worse), "{worse}");
    }

    #[test]
    fn what_was_timed_once_is_not_judged() {
        let found = compare(&[time("a", &[100.0])], &[time("a", &[50.0])]);
        assert_eq!(found.count(Change::Unknown), 1);
        assert!(found.worse_than(0.0).is_empty());
    }

    #[test]
    fn counts_are_exact_and_less_of_them_is_better() {
        let place = Point::of("P1-F10", "a", "b");
        let count = |value| with("{}", place.counted("nvm stores", "per txn", value));
        assert_eq!(compare(&[count(2.0)], &[count(2.0)]).count(Change::Same), 1);
        assert_eq!(compare(&[count(2.0)], &[count(2.001)]).count(Change::Worse), 1);
        assert_eq!(compare(&[count(2.0)], &[count(1.999)]).count(Change::Better), 1);
    }

    #[test]
    fn more_is_better_where_it_is_and_a_description_is_not_judged() {
        let of = |metric: &str, value: f64| {
            let values = [value - 0.1, value, value + 0.1];
            with("{}", Point::of("E", "a", "b").measured(metric, "", &values))
        };
        let of = |value| {
            let metrics = ["bandwidth", "scaling", "native throughput", "redone and undone"];
            metrics.map(|metric| of(metric, value)).to_vec()
        };
        let found = compare(&of(2.0), &of(1.0));
        assert_eq!((found.compared.len(), found.count(Change::Worse)), (3, 3));
        let found = compare(&of(1.0), &of(2.0));
        assert_eq!((found.compared.len(), found.count(Change::Better)), (3, 3));
    }

    #[test]
    fn what_was_configured_otherwise_is_not_compared() {
        let count = |value| Point::of("P1-F10", "a", "b").counted("nvm stores", "per txn", value);
        let found = compare(&[with("{1}", count(2.0))], &[with("{2}", count(3.0))]);
        assert_eq!((found.compared.len(), found.only_a, found.only_b), (0, 1, 1));
    }

    #[test]
    fn missing_points_are_counted_and_emulated_times_skipped() {
        let place = Point::of("P1-F5", "a", "balanced");
        let emulated = place.modelled("throughput", "txn/s", (1.0, 1.0, 1.0), "160 ns");
        let emulated = with("{}", emulated);
        let found = compare(&[emulated, time("a", &[1.0, 2.0])], &[]);
        assert_eq!((found.compared.len(), found.only_a, found.only_b), (0, 1, 0));
    }
}
