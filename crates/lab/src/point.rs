//! A figure: a number with its place, its interval, and where it comes from.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The place of a point on the horizontal axis of its plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum X {
    /// A quantity: bytes, nanoseconds, tuples, transactions.
    Number(f64),
    /// A name, as of a mixture.
    Name(String),
}

impl X {
    /// Numbers by size, then names by their letters.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(two)) => one.total_cmp(two),
            (Self::Name(one), Self::Name(two)) => one.cmp(two),
            (Self::Number(_), Self::Name(_)) => Ordering::Less,
            (Self::Name(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

impl fmt::Display for X {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl From<&str> for X {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<u64> for X {
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

/// A measured, counted or emulated number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The figure or table of the paper that it belongs to, such as `P1-F5`.
    pub experiment: String,
    /// The plot, if that figure has several: a skew, a workload; else empty.
    pub panel: String,
    /// The line or bar of the plot: an engine, an interface.
    pub series: String,
    /// The place on the horizontal axis.
    pub x: X,
    /// The metric.
    pub metric: String,
    /// The unit.
    pub unit: String,
    /// The number: of repeated measurements the median.
    pub value: f64,
    /// The lowest that it may be: of the repetitions, or of the model's interval.
    pub low: f64,
    /// The highest that it may be.
    pub high: f64,
    /// The number of measurements that it comes from.
    pub n: u32,
    /// True if the same seed has to give the same number again, bit for bit.
    pub exact: bool,
    /// The model, if the number was computed from an emulation; `low` and `high` are then the
    /// model's interval.
    pub emulated: Option<String>,
}

impl Point {
    /// A point of an experiment, still without a number.
    #[must_use]
    pub fn of(experiment: &str, series: &str, x: impl Into<X>) -> PointBuilder {
        PointBuilder {
            experiment: experiment.to_owned(),
            panel: String::new(),
            series: series.to_owned(),
            x: x.into(),
        }
    }
}

/// The place of a point, which the numbers of several metrics share.
#[derive(Debug, Clone)]
pub struct PointBuilder {
    experiment: String,
    panel: String,
    series: String,
    x: X,
}

impl PointBuilder {
    /// Puts it into one of several plots.
    #[must_use]
    pub fn panel(mut self, panel: &str) -> Self {
        panel.clone_into(&mut self.panel);
        self
    }

    /// A number that the same seed gives again.
    #[must_use]
    pub fn counted(&self, metric: &str, unit: &str, value: f64) -> Point {
        self.once(metric, unit, value, true)
    }

    /// A number that was taken once, and that the same seed gives again if it is `exact`.
    #[must_use]
    pub fn once(&self, metric: &str, unit: &str, value: f64, exact: bool) -> Point {
        self.point(metric, unit, (value, value, value), 1, exact, None)
    }

    /// The median of what was measured, with the extremes.
    #[must_use]
    pub fn measured(&self, metric: &str, unit: &str, all: &[f64]) -> Point {
        let middle = median(all);
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.point(metric, unit, (middle, low, high), all.len() as u32, false, None)
    }

    /// A number of a model, with its interval.
    #[must_use]
    pub fn modelled(
        &self,
        metric: &str,
        unit: &str,
        (value, low, high): (f64, f64, f64),
        model: &str,
    ) -> Point {
        self.point(metric, unit, (value, low, high), 1, false, Some(model.to_owned()))
    }

    fn point(
        &self,
        metric: &str,
        unit: &str,
        (value, low, high): (f64, f64, f64),
        n: u32,
        exact: bool,
        emulated: Option<String>,
    ) -> Point {
        Point {
            experiment: self.experiment.clone(),
            panel: self.panel.clone(),
            series: self.series.clone(),
            x: self.x.clone(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value,
            low,
            high,
            n,
            exact,
            emulated,
        }
    }
}

/// The median; of an even number the lower of the two in the middle, so that it is a value that was
/// measured. Zero of nothing.
#[must_use]
pub fn median(all: &[f64]) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() { 0.0 } else { sorted[(sorted.len() - 1) / 2] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_repetitions_the_median_counts_and_the_extremes_are_kept() {
        let point = Point::of("P1-F5", "inp", "balanced").panel("low");
        let point = point.measured("throughput", "txn/s", &[30.0, 10.0, 20.0, 40.0]);
        assert_eq!((point.value, point.low, point.high, point.n), (20.0, 10.0, 40.0, 4));
        assert!(!point.exact);
    }

    #[test]
    fn an_axis_of_numbers_is_ordered_by_size() {
        let mut axis: Vec<X> = vec![16_u64.into(), 2_u64.into(), "a".into(), 100_u64.into()];
        axis.sort_by(X::order);
        let text: Vec<String> = axis.iter().map(X::to_string).collect();
        assert_eq!(text, ["2", "16", "100", "a"]);
    }

    #[test]
    fn numbers_stay_numbers_in_json() {
        assert_eq!(serde_json::to_string(&X::from(64)).expect("encodes"), "64.0");
        let read: X = serde_json::from_str("\"balanced\"").expect("decodes");
        assert_eq!(read, "balanced".into());
    }
}
