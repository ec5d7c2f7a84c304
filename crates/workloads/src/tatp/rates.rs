//! The rates of success.
//!
//! They follow from the population and from what is drawn:
//!
//! | transaction | succeeds if | percent |
//! |---|---|---|
//! | get subscriber data, update location | always | 100 |
//! | get access data, update subscriber data | the subscriber has 2.5 of 4 kinds | 62.5 |
//! | insert call forwarding | there is the facility, and nothing at that hour yet | 31.25 |
//! | delete call forwarding | there is the facility, and something at that hour | 31.25 |
//! | get new destination | there is the facility, it is active, and calls are forwarded then | 14.8 to 15.8 |
//!
//! For the destination see the test: 14.79% in a fresh population, in which a facility has none to
//! three hours with the same probability; 15.82% when so much was inserted and deleted that each hour
//! is there or not by itself. A run begins with the one and drifts to the other.
//!
//! **Tolerance.** A run of `n` tries comes close to the rate `p`, with a standard deviation of
//! `sqrt(p (1 - p) / n)` if tries have nothing to do with each other. Two tries of one subscriber
//! have: so `1 / n` becomes the sum over the subscribers of `(tries of it / n)^2`, as if all tries of
//! one subscriber had the same end. A rate may be off by 4.5 such deviations: a run in 150,000 is, if
//! nothing is wrong.

use super::inputs::{Kind, Stream, Workload};
use super::spec::{Spec, SpecError};
use crate::terminals::Measured;

/// Deviations that a rate may be off by.
const DEVIATIONS: f64 = 4.5;
/// Percent that a rate of users may be off by in any case, but where all have to succeed.
const LEAST_PERCENT: f64 = 1.0;

/// The successes of one kind of transaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// The kind.
    pub kind: Kind,
    /// Transactions.
    pub tries: u64,
    /// The transactions that succeeded.
    pub succeeded: u64,
    /// The lowest and the highest rate to be expected, in percent.
    pub expected_percent: (f64, f64),
    /// The distance from it that the rate may have with so many tries, in percent.
    pub tolerance_percent: f64,
}

impl Rate {
    /// A rate, where tries go to subscribers as `crowding` says: the sum of the squares of their shares.
    fn new(kind: Kind, tries: u64, succeeded: u64, crowding: f64) -> Self {
        let expected_percent = expected_percent(kind);
        let p = (expected_percent.0 + expected_percent.1) / 200.0;
        let deviation = (p * (1.0 - p) * crowding).sqrt();
        let tolerance_percent = DEVIATIONS * deviation * 100.0;
        Self { kind, tries, succeeded, expected_percent, tolerance_percent }
    }

    /// The rate in percent; of no tries none.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        (self.tries > 0).then(|| self.succeeded as f64 * 100.0 / self.tries as f64)
    }

    /// Returns true if the rate is one that was to be expected.
    #[must_use]
    pub fn holds(&self) -> bool {
        let (low, high) = self.expected_percent;
        let fits = |percent| {
            (low - self.tolerance_percent..=high + self.tolerance_percent).contains(&percent)
        };
        self.percent().is_none_or(fits)
    }
}

/// The rates of success, in percent, that are to be expected of a kind of transaction.
const fn expected_percent(kind: Kind) -> (f64, f64) {
    match kind {
        Kind::GetSubscriberData | Kind::UpdateLocation => (100.0, 100.0),
        Kind::GetAccessData | Kind::UpdateSubscriberData => (62.5, 62.5),
        Kind::InsertCallForwarding | Kind::DeleteCallForwarding => (31.25, 31.25),
        Kind::GetNewDestination => (14.787_688, 15.817_600),
    }
}

/// The rates of success of some runs, in the order of [`Kind::ALL`].
#[must_use]
pub fn rates(runs: &[(&Workload, &Measured)]) -> Vec<Rate> {
    let rate = |kind: Kind| {
        let sum = |of: fn(&Measured, usize) -> u64| -> u64 {
            runs.iter().map(|(_, measured)| of(measured, kind as usize)).sum()
        };
        let succeeded = sum(Measured::committed);
        let tries = succeeded + sum(|measured, kind| measured.failed[kind]);
        Rate::new(kind, tries, succeeded, crowding(runs, kind))
    };
    Kind::ALL.map(rate).into()
}

/// The rates of users who have entered so many transactions each, of which so many of each kind
/// succeeded. A rate may be off by a percent, or by more where so few tries allow it. A user who was
/// killed may have counted a success and not yet the transaction; so no kind has more of them.
///
/// # Errors
/// The specification cannot be run.
pub fn rates_of_users(
    spec: &Spec,
    users: impl IntoIterator<Item = (Stream, u64)>,
    succeeded: &[u64; Kind::ALL.len()],
) -> Result<Vec<Rate>, SpecError> {
    spec.validate()?;
    let subscribers = spec.subscribers as usize + 1;
    let mut tries = Kind::ALL.map(|_| vec![0_u32; subscribers]);
    for (stream, entered) in users {
        // Streams have no end, and inputs must fit in memory.
        for input in stream.take(usize::try_from(entered).unwrap_or(usize::MAX)) {
            tries[input.kind() as usize][input.subscriber() as usize] += 1;
        }
    }
    let rate = |kind: Kind| {
        let of = &tries[kind as usize];
        let all: u64 = of.iter().map(|&tries| u64::from(tries)).sum();
        let share = |&tries: &u32| (f64::from(tries) / all.max(1) as f64).powi(2);
        let succeeded = succeeded[kind as usize].min(all);
        let rate = Rate::new(kind, all, succeeded, of.iter().map(share).sum());
        let least = if rate.tolerance_percent == 0.0 { 0.0 } else { LEAST_PERCENT };
        Rate { tolerance_percent: rate.tolerance_percent.max(least), ..rate }
    };
    Ok(Kind::ALL.map(rate).into())
}

/// The sum over the subscribers of the square of their share of the tries.
fn crowding(runs: &[(&Workload, &Measured)], kind: Kind) -> f64 {
    let mut tries: Vec<u32> = runs
        .iter()
        .flat_map(|(workload, _)| (0..workload.spec().partitions).map(|p| workload.inputs(p)))
        .flatten()
        .filter(|input| input.kind == kind)
        .map(|input| input.subscriber)
        .collect();
    tries.sort_unstable();
    let n = tries.len().max(1) as f64;
    tries.chunk_by(|one, other| one == other).map(|of| (of.len() as f64 / n).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate of GET_NEW_DESTINATION from the rules of the population, given how probable each set
    /// of hours is.
    fn destination(of_set: impl Fn(u32) -> f64) -> f64 {
        let mut sum = 0.0;
        for asked_start in [0, 8, 16] {
            for asked_end in 1..=24 {
                // That an entry from `start` on, of 1 to 8 hours, is still there at the end.
                let lasts = |start: i32| {
                    (1..=8).filter(|hours| start + hours > asked_end).count() as f64 / 8.0
                };
                for set in 0_u32..8 {
                    let begun = [0, 8, 16]
                        .into_iter()
                        .enumerate()
                        .filter(|(place, start)| set & 1 << place != 0 && *start <= asked_start);
                    let none: f64 = begun.map(|(_, start)| 1.0 - lasts(start)).product();
                    sum += of_set(set) * (1.0 - none);
                }
            }
        }
        // There are 2.5 of 4 facilities, and 85% of them are active.
        sum / (3.0 * 24.0) * 0.625 * 0.85 * 100.0
    }

    #[test]
    fn the_rate_of_destinations_follows_from_the_population() {
        let sets_of_size = [1.0, 3.0, 3.0, 1.0];
        let fresh = destination(|set| 0.25 / sets_of_size[set.count_ones() as usize]);
        let settled = destination(|_| 1.0 / 8.0);
        let (low, high) = expected_percent(Kind::GetNewDestination);
        assert!((fresh - low).abs() < 1e-5, "{fresh}");
        assert!((settled - high).abs() < 1e-5, "{settled}");
    }

    #[test]
    fn what_users_have_tried_follows_from_their_streams() {
        let spec = Spec { subscribers: 5000, ..Spec::default() };
        let users = || (0..2).map(|user| (Stream::new(&spec, 0, user, 0).expect("valid"), 20_000));
        let mut tries = [0; 7];
        for (stream, entered) in users() {
            stream.take(entered as usize).for_each(|input| tries[input.kind() as usize] += 1);
        }
        let share = |kind: Kind| expected_percent(kind).0 / 100.0;
        let right = Kind::ALL.map(|kind| (tries[kind as usize] as f64 * share(kind)) as u64);
        let rates = rates_of_users(&spec, users(), &right).expect("valid");
        for (rate, kind) in rates.iter().zip(Kind::ALL) {
            assert_eq!((rate.kind, rate.tries), (kind, tries[kind as usize]));
            assert!(rate.holds(), "{rate:?}");
        }
        let tolerance = rates[Kind::GetAccessData as usize].tolerance_percent;
        assert!(tolerance < 10.0, "{tolerance}");
        // Reads that all find something are as wrong as writes that do not all succeed.
        let wrong = rates_of_users(&spec, users(), &tries).expect("valid");
        assert!(!wrong[Kind::GetAccessData as usize].holds());
        let one_less = right.map(|count| count - 1);
        let wrong = rates_of_users(&spec, users(), &one_less).expect("valid");
        assert!(!wrong[Kind::UpdateLocation as usize].holds());
    }

    fn rate(succeeded: u64) -> Rate {
        Rate {
            kind: Kind::GetAccessData,
            tries: 1000,
            succeeded,
            expected_percent: (62.5, 62.5),
            tolerance_percent: 2.0,
        }
    }

    #[test]
    fn a_rate_may_be_off_by_its_tolerance() {
        assert!(rate(605).holds() && rate(645).holds());
        assert!(!rate(604).holds() && !rate(646).holds());
        assert!(Rate { tries: 0, ..rate(0) }.holds());
    }
}
