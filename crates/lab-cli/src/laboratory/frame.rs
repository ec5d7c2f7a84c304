//! The parts that all JSON of the laboratory has: version, machine and runs, as that of benchmarks.

use lab::results::{Configured, Selection};
use lab::setting::Setting;
use lab::{Host, X};
use serde::Serialize;

/// The head, and what it is about.
#[derive(Serialize)]
pub(super) struct Frame<'a, T: Serialize> {
    perdura: &'static str,
    /// The machine on which the figures were taken.
    host: &'a Host,
    runs: T,
}

impl<'a, T: Serialize> Frame<'a, T> {
    pub(super) fn new(host: &'a Host, runs: T) -> Self {
        Self { perdura: env!("CARGO_PKG_VERSION"), host, runs }
    }
}

/// A point as programs read it; others rely on the keys to the letter.
#[derive(Clone, Serialize)]
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
    /// Ours or the paper's.
    setting: Setting,
    /// The configuration of its measurement: canonical JSON, by which `compare` finds its like.
    configuration: &'a str,
}

impl<'a> From<&'a Configured> for Row<'a> {
    fn from(one: &'a Configured) -> Self {
        let Configured { configuration, point } = one;
        Self {
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
            setting: one.setting(),
            configuration,
        }
    }
}

/// Points as programs read them.
#[derive(Serialize)]
pub(super) struct Points<'a> {
    #[serde(flatten)]
    frame: Frame<'a, Vec<Row<'a>>>,
    /// The same as `runs`, for those who look for the points by the name of the command.
    lab: Vec<Row<'a>>,
    commit: &'a str,
    scale: &'a str,
    seed: u64,
}

impl<'a> Points<'a> {
    /// Creates it for one selection.
    pub(super) fn new(host: &'a Host, selection: &'a Selection, points: &'a [Configured]) -> Self {
        let rows: Vec<Row<'a>> = points.iter().map(Row::from).collect();
        Self {
            lab: rows.clone(),
            frame: Frame::new(host, rows),
            commit: &selection.commit,
            scale: &selection.scale,
            seed: selection.seed,
        }
    }
}
