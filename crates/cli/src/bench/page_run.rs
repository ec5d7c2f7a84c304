//! The parts that `perdura bench slotted` and `perdura bench sqlite` share: the figures of a run, rounds in
//! turns, and the comparison with a baseline.

use std::fmt::Display;

use command::failure::Failure;
use command::figures::{LatencyUs, PerTxn, Spread};
use command::footprint::FootprintBytes;
use command::output::table;
use command::system::Promise;
use serde::Serialize;

/// A run as programs read it; others rely on the keys to the letter.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Run<F> {
    /// The scheme, or the mode of SQLite.
    pub(super) engine: &'static str,
    pub(super) workload: &'static str,
    pub(super) mix: &'static str,
    pub(super) skew: &'static str,
    pub(super) keys: &'static str,
    pub(super) record_bytes: u32,
    pub(super) page_bytes: u32,
    pub(super) operations_per_txn: u32,
    pub(super) tuples: u64,
    pub(super) txns: u64,
    pub(super) partitions: usize,
    pub(super) domain: Option<&'static str>,
    pub(super) modelled: bool,
    pub(super) commit: &'static str,
    pub(super) group: Option<u32>,
    pub(super) seed: u64,
    pub(super) emulated: Option<()>,
    pub(super) seconds: f64,
    pub(super) throughput_txn_s: f64,
    pub(super) throughput_spread: Spread,
    pub(super) latency_us: LatencyUs,
    pub(super) per_txn: PerTxn,
    pub(super) footprint_bytes: FootprintBytes,
    pub(super) user_bytes: u64,
    pub(super) aborted: u64,
    /// The figures that one of the two benchmarks has alone.
    #[serde(flatten)]
    pub(super) own: F,
    /// The run of the same cell that the throughput is divided by, and the ratio.
    pub(super) baseline: &'static str,
    pub(super) throughput_over_baseline: f64,
    /// A number of the contents: runs that did the same have the same.
    pub(super) digest: String,
    #[serde(skip)]
    pub(super) promise: Promise,
}

/// Returns the baseline: the `named` one, else the `usual` one if it runs, else the first.
///
/// # Errors
/// The named one does not run; `option` is where it has to be named, too.
pub(super) fn baseline<T: Copy + PartialEq + Display>(
    named: Option<T>,
    all: &[T],
    usual: T,
    option: &str,
) -> Result<T, Failure> {
    match named {
        Some(named) if !all.contains(&named) => {
            let why = format!("--baseline {named}: it does not run; name it with {option}, too");
            Err(Failure::Usage(why))
        }
        Some(named) => Ok(named),
        None if all.contains(&usual) => Ok(usual),
        None => Ok(all[0]),
    }
}

/// Runs each of `all` so many times, in turns; returns the results of each.
///
/// # Errors
/// The first one of `once`.
pub(super) fn in_turns<T: Copy, R>(
    all: &[T],
    times: u32,
    mut once: impl FnMut(T) -> Result<R, Failure>,
) -> Result<Vec<Vec<R>>, Failure> {
    let mut rounds: Vec<Vec<R>> = all.iter().map(|_| Vec::new()).collect();
    for _ in 0..times {
        for (one, rounds) in all.iter().zip(&mut rounds) {
            rounds.push(once(*one)?);
        }
    }
    Ok(rounds)
}

/// Divides the throughputs of the runs of a cell by that of its baseline.
///
/// # Errors
/// Two runs end with different contents, which `what` names.
pub(super) fn compare<F>(runs: &mut [Run<F>], what: &str) -> Result<(), Failure> {
    let baseline = runs.iter().find(|run| run.engine == run.baseline);
    let rate = baseline.map_or(1.0, |run| run.throughput_txn_s.max(1e-9));
    for run in &mut *runs {
        run.throughput_over_baseline = run.throughput_txn_s / rate;
    }
    match runs.iter().find(|run| run.digest != runs[0].digest) {
        None => Ok(()),
        Some(other) => Err(Failure::Failed(format!(
            "{} and {} end with different {what}: a bug of Perdura, please report it",
            runs[0].engine, other.engine
        ))),
    }
}

/// The table of runs. Each has a `row` of so many words and numbers and, last, the ratio to its baseline.
pub(super) fn runs_table<F>(
    runs: &[Run<F>],
    words: &[&str],
    numbers: &[&str],
    row: impl Fn(&Run<F>) -> Vec<String>,
) -> String {
    let over = format!("x {}", runs[0].baseline);
    let head = words.iter().chain(numbers).map(ToString::to_string).chain([over]);
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    let mut text = table(&head.collect::<Vec<_>>(), &rows, words.len());
    text.push('\n');
    if runs.iter().any(|run| run.promise.modelled) {
        text += "(modelled): flushes and fences are really executed, but this medium does not keep what they promise.\n";
    }
    text
}
