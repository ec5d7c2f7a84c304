//! The benchmarks, and what their reports share.

mod bank;
mod beside;
mod fifths;
pub(crate) mod figures;
mod growth;
pub(crate) mod outage;
pub(crate) mod recovery;
pub(crate) mod slotted;
mod slotted_run;
pub(crate) mod sqlite;
mod sqlite_run;
pub(crate) mod tatp;
pub(crate) mod terminals;
mod terminals_run;
pub(crate) mod tpcb;
pub(crate) mod tpcc;
pub(crate) mod ycsb;
mod ycsb_run;

use serde::Serialize;

use self::growth::LeftOut;
use crate::host::Host;

/// A report as programs read it.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a, R> {
    perdura: &'static str,
    host: &'a Host,
    runs: &'a [R],
    #[serde(skip_serializing_if = "<[LeftOut]>::is_empty")]
    left_out: &'a [LeftOut],
}

impl<'a, R: Serialize> Report<'a, R> {
    /// Runs of this build on a host.
    pub(crate) fn new(host: &'a Host, runs: &'a [R]) -> Self {
        Self { perdura: env!("CARGO_PKG_VERSION"), host, runs, left_out: &[] }
    }

    /// Adds what did not fit.
    pub(crate) fn leaving_out(self, left_out: &'a [LeftOut]) -> Self {
        Self { left_out, ..self }
    }
}

/// The index of the median of `values`; of an even number the lower of the two in the middle, so
/// that a figure reported is always one that was measured.
pub(crate) fn median_index(values: &[f64]) -> usize {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &two| values[one].total_cmp(&values[two]));
    order[(values.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::median_index;

    #[test]
    fn the_median_is_a_measured_value() {
        assert_eq!(median_index(&[5.0]), 0);
        assert_eq!(median_index(&[5.0, 1.0, 3.0]), 2);
        assert_eq!(median_index(&[5.0, 1.0, 3.0, 4.0]), 2);
    }
}
