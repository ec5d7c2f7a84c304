//! The specification of a TATP run.

use serde::{Deserialize, Serialize};

use crate::crew::share;
use crate::form::Form;

/// Subscribers of one unit of scale, as other implementations count it.
pub const SUBSCRIBERS_OF_SCALE: u32 = 10_000;

/// Everything that determines a population and what is run on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Subscribers, numbered from 1; subscriber `s` lies in partition `(s - 1) % partitions`.
    pub subscribers: u32,
    /// Transactions in all partitions together.
    pub transactions: u64,
    /// Partitions, at most one a subscriber.
    pub partitions: usize,
    /// The form: as specified, some subscribers are drawn more often.
    pub form: Form,
    /// Seed of the population and of all inputs.
    pub seed: u64,
}

impl Default for Spec {
    /// 100,000 subscribers and as many transactions.
    fn default() -> Self {
        Self {
            subscribers: 100_000,
            transactions: 100_000,
            partitions: 1,
            form: Form::Specification,
            seed: 1,
        }
    }
}

/// A specification that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// None.
    #[error("{0} subscribers: at least 1 is needed")]
    Subscribers(u32),
    /// None, or some would be without a subscriber.
    #[error(
        "{partitions} partitions for {subscribers} subscribers: 1 to one a subscriber are possible"
    )]
    Partitions {
        /// The number that was asked for.
        partitions: usize,
        /// For so many subscribers.
        subscribers: u32,
    },
    /// Too many to be numbered.
    #[error("{0} transactions in a partition: fewer than 2^32 are possible")]
    Transactions(u64),
}

impl Spec {
    /// # Errors
    /// If the specification cannot be run.
    pub fn validate(&self) -> Result<(), SpecError> {
        if self.subscribers == 0 {
            return Err(SpecError::Subscribers(self.subscribers));
        }
        if self.partitions == 0 || self.partitions > self.subscribers as usize {
            let Self { partitions, subscribers, .. } = *self;
            return Err(SpecError::Partitions { partitions, subscribers });
        }
        if self.transactions_of(0) >= 1 << 32 {
            return Err(SpecError::Transactions(self.transactions_of(0)));
        }
        Ok(())
    }

    /// The subscribers of a partition.
    pub fn subscribers_of(&self, partition: usize) -> impl Iterator<Item = u64> + use<> {
        (partition as u64 + 1..=u64::from(self.subscribers)).step_by(self.partitions)
    }

    /// Returns whether a partition has a subscriber of this number.
    pub(super) fn has_subscriber(&self, partition: usize, id: u64) -> bool {
        (1..=u64::from(self.subscribers)).contains(&id)
            && (id - 1) % self.partitions as u64 == partition as u64
    }

    /// Transactions of a partition: an even share, the first partitions get the remainder.
    #[must_use]
    pub fn transactions_of(&self, partition: usize) -> u64 {
        share(self.transactions, self.partitions, partition)
    }

    /// Tuples of a population in all partitions together, at their mean: 2.5 kinds of access, as
    /// many facilities, and 1.5 times of forwarding for each of those.
    #[must_use]
    pub fn tuples(&self) -> u64 {
        u64::from(self.subscribers) * 975 / 100
    }

    /// The `A` of the distribution of subscribers.
    #[must_use]
    pub(super) fn a(&self) -> u64 {
        match self.subscribers {
            ..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_that_cannot_be_run_are_refused() {
        let good = Spec { subscribers: 3, partitions: 2, ..Spec::default() };
        assert_eq!(good.validate(), Ok(()));
        assert!(good.subscribers_of(0).eq([1, 3]) && good.subscribers_of(1).eq([2]));
        for partition in 0..2 {
            let has = (0..9).filter(|id| good.has_subscriber(partition, *id));
            assert!(has.eq(good.subscribers_of(partition)), "partition {partition}");
        }
        for bad in [
            Spec { subscribers: 0, ..good.clone() },
            Spec { partitions: 0, ..good.clone() },
            Spec { partitions: 4, ..good.clone() },
            Spec { transactions: 1 << 33, ..good.clone() },
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_distribution_has_a_constant_for_each_size() {
        let a = |subscribers| Spec { subscribers, ..Spec::default() }.a();
        assert_eq!([a(1), a(1_000_000)], [65_535; 2]);
        assert_eq!([a(1_000_001), a(10_000_000)], [1_048_575; 2]);
        assert_eq!(a(10_000_001), 2_097_151);
    }
}
