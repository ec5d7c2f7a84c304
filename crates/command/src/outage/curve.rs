//! The course of a run across a kill, and what follows from it as P4 5 defines it.
//!
//! - The throughput before the kill is the mean from the first third of the time before it on: what
//!   comes earlier warms up.
//! - **Recovery delta**: from the kill to the first of five samples that together reach 95% of that.
//! - **Recovery area**: the transactions that would have been committed in that time at the throughput
//!   before the kill, less those that were.
//! - **Recovery response time**: the mean of the transactions that returned in that time.
//!
//! P4 takes "the maximum number of transactions that could have been executed"; a maximum over samples
//! would be the machine's luck, so that the mean stands for it.

use serde::Serialize;

use super::page::{Responses, sum};
use crate::figures::LatencyUs;

/// Samples that together have to reach the throughput from before.
const TOGETHER: usize = 5;
/// The share of it that counts as reached.
const REACHED: f64 = 0.95;

/// One sample.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// Seconds from the start of the run to its end.
    pub end_s: f64,
    /// Its length.
    pub seconds: f64,
    /// Transactions that succeeded in it.
    pub commits: u64,
    /// Transactions that returned in it.
    pub responses: Responses,
    /// The share of indexes that is built at its end, in percent; `None` if the engine builds none.
    pub built_percent: Option<f64>,
    /// It is after the kill.
    pub is_after: bool,
}

impl Sample {
    /// Successes in a second.
    pub fn throughput_txn_s(&self) -> f64 {
        self.commits as f64 / self.seconds.max(1e-9)
    }
}

/// The course of a run.
#[derive(Debug, Clone, Default)]
pub struct Curve {
    /// The samples, in order of time.
    pub samples: Vec<Sample>,
    /// Seconds from the start to the kill.
    pub killed_s: f64,
}

/// The recovery, as P4 measures it.
#[derive(Debug, Clone, Serialize)]
pub struct Recovery {
    /// Recovery delta in seconds, exact to a sample; `None` if the run ended before.
    pub delta_s: Option<f64>,
    /// Recovery area in transactions; up to the end of the run if that came before.
    pub area_txns: f64,
    /// Mean response time meanwhile; `None` if nothing returned.
    pub response_mean_us: Option<f64>,
    /// The longest mean of a sample meanwhile.
    pub response_peak_us: Option<f64>,
    /// The response time meanwhile that one transaction in a hundred exceeds.
    pub response_p99_us: Option<f64>,
    /// From the kill until all indexes were built, exact to a sample; `None` if the run ended before,
    /// or the engine builds none.
    pub built_s: Option<f64>,
}

impl Curve {
    /// The samples before the kill whose throughput counts.
    pub fn steady(&self) -> Vec<&Sample> {
        let before = || self.samples.iter().filter(|sample| !sample.is_after);
        // Not the kill: it may come later than it should.
        let end_s = before().next_back().map_or(0.0, |last| last.end_s);
        before().filter(|sample| sample.end_s - sample.seconds / 2.0 > end_s / 3.0).collect()
    }

    /// The throughput before the kill.
    pub fn throughput_txn_s(&self) -> f64 {
        rate(&self.steady())
    }

    /// Returns the samples after the kill.
    fn after(&self) -> Vec<&Sample> {
        self.samples.iter().filter(|sample| sample.is_after).collect()
    }

    /// The recovery.
    pub fn recovery(&self) -> Recovery {
        let (before, after) = (self.throughput_txn_s(), self.after());
        let reached = after.windows(TOGETHER).position(|some| rate(some) >= REACHED * before);
        let until = &after[..reached.unwrap_or(after.len())];
        let lacks = |sample: &&Sample| before * sample.seconds - sample.commits as f64;
        let means = until.iter().filter_map(|sample| sample.responses.mean_us());
        let responses = sum(until.iter().map(|sample| &sample.responses));
        let since = |sample: &Sample| sample.end_s - self.killed_s;
        let built = after.iter().find(|sample| sample.built_percent == Some(100.0));
        Recovery {
            delta_s: reached.map(|_| until.last().map_or(0.0, |last| since(last))),
            area_txns: until.iter().map(lacks).sum::<f64>().max(0.0),
            response_mean_us: responses.mean_us(),
            response_peak_us: means.reduce(f64::max),
            response_p99_us: responses.quantile_us(0.99),
            built_s: built.map(|sample| since(sample)),
        }
    }

    /// Their mean before the kill.
    pub fn steady_mean_us(&self) -> Option<f64> {
        sum(self.steady().iter().map(|sample| &sample.responses)).mean_us()
    }

    /// The response times before the kill.
    pub fn latency_us(&self) -> LatencyUs {
        let responses = sum(self.steady().iter().map(|sample| &sample.responses));
        let at = |share| responses.quantile_us(share).unwrap_or(0.0);
        LatencyUs { p50: at(0.50), p95: at(0.95), p99: at(0.99), max: at(1.0) }
    }

    /// The series as text: a line for each sample.
    pub fn csv(&self, name: &str) -> String {
        let text = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
        let line = |sample: &Sample| {
            let Sample { end_s, commits, responses, built_percent, is_after, .. } = sample;
            format!(
                "{name},{end_s:.3},{},{commits},{},{:.0},{},{},{},{}\n",
                u8::from(*is_after),
                responses.len(),
                sample.throughput_txn_s(),
                text(*built_percent),
                text(responses.mean_us()),
                text(responses.quantile_us(0.5)),
                text(responses.quantile_us(0.99)),
            )
        };
        self.samples.iter().map(line).collect()
    }
}

/// The head of the series.
pub const CSV_HEAD: &str = "engine,time_s,process,commits,answers,throughput_txn_s,built_percent,response_mean_us,response_p50_us,response_p99_us\n";

/// Successes in a second, over some samples.
fn rate(samples: &[&Sample]) -> f64 {
    let commits: u64 = samples.iter().map(|sample| sample.commits).sum();
    commits as f64 / samples.iter().map(|sample| sample.seconds).sum::<f64>().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of a tenth of a second; those from `killed` on are after the kill.
    fn curve(commits: &[u64], killed: usize) -> Curve {
        let sample = |(number, &commits): (usize, &u64)| Sample {
            end_s: (number + 1) as f64 / 10.0,
            seconds: 0.1,
            commits,
            is_after: number >= killed,
            built_percent: Some(if number >= killed + 2 { 100.0 } else { 50.0 }),
            ..Sample::default()
        };
        let samples = commits.iter().enumerate().map(sample).collect();
        Curve { samples, killed_s: killed as f64 / 10.0 }
    }

    fn near(found: Option<f64>, wanted: f64) {
        assert!(found.is_some_and(|found| (found - wanted).abs() < 1e-9), "{found:?}: {wanted}");
    }

    #[test]
    fn area_and_delta_are_those_of_the_dent() {
        // The first third warms up; 10 a sample before; then 0, 0, 5, and up again.
        let commits = [1, 1, 10, 10, 10, 10, 0, 0, 5, 9, 10, 10, 10, 10, 10];
        let dented = curve(&commits, 6);
        near(Some(dented.throughput_txn_s()), 100.0);
        let recovery = dented.recovery();
        // From the fourth sample after the kill on five have 49 of 50.
        near(recovery.delta_s, 0.3);
        near(Some(recovery.area_txns), 25.0);
        near(recovery.built_s, 0.3);
        assert_eq!(recovery.response_mean_us, None);
    }

    #[test]
    fn delta_is_absent_without_a_return_to_the_old_rate() {
        let unhurt = curve(&[10; 12], 6).recovery();
        near(unhurt.delta_s, 0.0);
        near(Some(unhurt.area_txns), 0.0);
        let gone = curve(&[10, 10, 10, 10, 10, 10, 0, 0, 0, 0, 0, 9], 6).recovery();
        assert_eq!(gone.delta_s, None);
        near(Some(gone.area_txns), 51.0);
        // Fewer samples than it takes.
        assert_eq!(curve(&[10; 9], 6).recovery().delta_s, None);
    }

    #[test]
    fn series_has_a_line_for_each_sample() {
        let csv = curve(&[10, 10, 0], 2).csv("sofort");
        assert_eq!(csv.lines().last(), Some("sofort,0.300,1,0,0,0,50.00,,,"));
        assert_eq!(csv.lines().count(), 3);
        let columns = |line: &str| line.split(',').count();
        assert!(csv.lines().all(|line| columns(line) == columns(CSV_HEAD)));
    }
}
