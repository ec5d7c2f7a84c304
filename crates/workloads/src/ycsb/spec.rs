//! The specification of a YCSB run, and the names by which the command line calls its parts.

use std::fmt;
use std::str::FromStr;

use pm::Escaped;
use serde::{Deserialize, Serialize};

use super::COLUMNS;
use crate::crew::share;

/// Keys leave four bits for a column and fit the 48 bits of a value's stamp.
pub(super) const KEY_BITS: u32 = 44;

/// The share of the transactions that are updates (P1 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mix {
    /// 100% reads.
    ReadOnly,
    /// 90% reads, 10% updates.
    ReadHeavy,
    /// 50% reads, 50% updates.
    Balanced,
    /// 10% reads, 90% updates.
    WriteHeavy,
}

impl Mix {
    /// All mixtures, in the order of the paper's figures.
    pub const ALL: [Self; 4] = [Self::ReadOnly, Self::ReadHeavy, Self::Balanced, Self::WriteHeavy];

    /// Updates among a hundred transactions.
    #[must_use]
    pub const fn update_percent(self) -> u64 {
        match self {
            Self::ReadOnly => 0,
            Self::ReadHeavy => 10,
            Self::Balanced => 50,
            Self::WriteHeavy => 90,
        }
    }

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::ReadHeavy => "read-heavy",
            Self::Balanced => "balanced",
            Self::WriteHeavy => "write-heavy",
        }
    }
}

/// The choice of tuples inside a partition (P1 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Skew {
    /// 50% of the transactions access 20% of the tuples.
    Low,
    /// 90% of the transactions access 10% of the tuples.
    High,
    /// All tuples alike.
    Uniform,
}

impl Skew {
    /// All levels.
    pub const ALL: [Self; 3] = [Self::Low, Self::High, Self::Uniform];

    /// Percent of the transactions that go to the hot spot, and percent of the tuples in it.
    #[must_use]
    pub const fn hot_spot_percent(self) -> Option<(u64, u64)> {
        match self {
            Self::Low => Some((50, 20)),
            Self::High => Some((90, 10)),
            Self::Uniform => None,
        }
    }

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::High => "high",
            Self::Uniform => "uniform",
        }
    }
}

/// A name that is none of those known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} '{given}': use one of {known}", given = Escaped(.given))]
pub struct ParseNameError {
    what: &'static str,
    given: String,
    known: String,
}

macro_rules! named {
    ($type:ty, $what:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = ParseNameError;

            fn from_str(given: &str) -> Result<Self, ParseNameError> {
                Self::ALL.into_iter().find(|one| one.name() == given).ok_or_else(|| {
                    ParseNameError {
                        what: $what,
                        given: given.to_owned(),
                        known: Self::ALL.map(Self::name).join(", "),
                    }
                })
            }
        }
    };
}

named!(Mix, "mix");
named!(Skew, "skew");

/// Everything that determines a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Tuples in all partitions together; their keys are `0..tuples`.
    pub tuples: u64,
    /// Transactions in all partitions together.
    pub transactions: u64,
    /// Share of updates.
    pub mix: Mix,
    /// Hot spot.
    pub skew: Skew,
    /// Columns that an update replaces, 1 to 10.
    pub update_columns: usize,
    /// Partitions, at least 1 and at most one a tuple.
    pub partitions: usize,
    /// Seed of keys, kinds, columns and values.
    pub seed: u64,
}

impl Default for Spec {
    /// A tenth of P1's size: 200,000 tuples and 800,000 transactions, balanced, low skew, updates
    /// of one column, one partition.
    fn default() -> Self {
        Self {
            tuples: 200_000,
            transactions: 800_000,
            mix: Mix::Balanced,
            skew: Skew::Low,
            update_columns: 1,
            partitions: 1,
            seed: 1,
        }
    }
}

/// A specification that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The number is not 1 to 10.
    #[error("an update replaces 1 to {COLUMNS} columns, not {0}")]
    UpdateColumns(usize),
    /// None, or more than there are tuples.
    #[error("{partitions} partitions for {tuples} tuples: 1 to one a tuple are possible")]
    Partitions {
        /// The number that was asked for.
        partitions: usize,
        /// The number of tuples that it was created for.
        tuples: u64,
    },
    /// Too many for the stamps in the values.
    #[error("{0} tuples: at most 2^{KEY_BITS} are possible")]
    Tuples(u64),
    /// Too many for the verifier's 32-bit versions.
    #[error("{0} transactions in a partition: at most 2^32 - 2 are possible")]
    Transactions(u64),
}

impl Spec {
    /// # Errors
    /// If the specification cannot be run.
    pub fn validate(&self) -> Result<(), SpecError> {
        if !(1..=COLUMNS).contains(&self.update_columns) {
            return Err(SpecError::UpdateColumns(self.update_columns));
        }
        if self.partitions == 0 || self.partitions as u64 > self.tuples {
            return Err(SpecError::Partitions { partitions: self.partitions, tuples: self.tuples });
        }
        if self.tuples > 1 << KEY_BITS {
            return Err(SpecError::Tuples(self.tuples));
        }
        if self.transactions_of(0) >= u64::from(u32::MAX) {
            return Err(SpecError::Transactions(self.transactions_of(0)));
        }
        Ok(())
    }

    /// Tuples of a partition: keys `partition`, `partition + partitions`, and so on.
    #[must_use]
    pub fn tuples_of(&self, partition: usize) -> u64 {
        share(self.tuples, self.partitions, partition)
    }

    /// Transactions of a partition: an even share, the first partitions get the remainder.
    #[must_use]
    pub fn transactions_of(&self, partition: usize) -> u64 {
        share(self.transactions, self.partitions, partition)
    }

    /// The keys of a partition in the order in which they are loaded.
    pub fn keys_of(&self, partition: usize) -> impl Iterator<Item = u64> + use<> {
        (partition as u64..self.tuples).step_by(self.partitions)
    }

    /// Bytes of user data: keys and columns of all tuples.
    #[must_use]
    pub fn user_bytes(&self) -> u64 {
        self.tuples * super::TUPLE_USER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for mix in Mix::ALL {
            assert_eq!(mix.to_string().parse::<Mix>(), Ok(mix));
        }
        for skew in Skew::ALL {
            assert_eq!(skew.to_string().parse::<Skew>(), Ok(skew));
        }
        let error = "medium".parse::<Skew>().unwrap_err();
        assert_eq!(error.to_string(), "unknown skew 'medium': use one of low, high, uniform");
    }

    #[test]
    fn partitions_share_tuples_and_transactions_without_loss() {
        let spec = Spec { tuples: 103, transactions: 1001, partitions: 8, ..Spec::default() };
        assert_eq!((0..8).map(|p| spec.tuples_of(p)).sum::<u64>(), 103);
        assert_eq!((0..8).map(|p| spec.transactions_of(p)).sum::<u64>(), 1001);
        for p in 0..8 {
            let keys: Vec<u64> = spec.keys_of(p).collect();
            assert_eq!(keys.len() as u64, spec.tuples_of(p));
            assert!(keys.iter().all(|key| key % 8 == p as u64));
        }
    }

    #[test]
    fn specifications_that_cannot_be_run_are_refused() {
        let good = Spec::default();
        assert_eq!(good.validate(), Ok(()));
        for bad in [
            Spec { update_columns: 0, ..good.clone() },
            Spec { update_columns: 11, ..good.clone() },
            Spec { partitions: 0, ..good.clone() },
            Spec { tuples: 3, partitions: 4, ..good.clone() },
            Spec { tuples: 0, ..good.clone() },
            Spec { tuples: (1 << 44) + 1, ..good.clone() },
            Spec { transactions: u64::from(u32::MAX), ..good },
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
    }
}
