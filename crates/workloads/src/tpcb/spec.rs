//! The specification of a TPC-B run.

use serde::{Deserialize, Serialize};

use crate::crew::share;
use crate::form::Form;

/// Tellers of a branch (clause 4.2).
pub const TELLERS: u64 = 10;
/// Accounts of a branch in the specification.
pub const ACCOUNTS: u32 = 100_000;

/// Branches at most: their tellers' numbers fit into four bytes.
const MOST_BRANCHES: u32 = 100_000_000;

/// Everything that determines a population and what is run on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Branches, numbered from 1; branch `b` lies in partition `(b - 1) % partitions`.
    pub branches: u32,
    /// Accounts of a branch; 100,000 in the specification.
    pub accounts: u32,
    /// Transactions in all partitions together.
    pub transactions: u64,
    /// Partitions, at most one a branch.
    pub partitions: usize,
    /// The form: as specified, 15% of the accounts are of another branch than the teller.
    pub form: Form,
    /// Seed of all inputs.
    pub seed: u64,
}

impl Default for Spec {
    /// One branch of full size and 100,000 transactions.
    fn default() -> Self {
        Self {
            branches: 1,
            accounts: ACCOUNTS,
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
    /// None, or more than can be numbered.
    #[error("{0} branches: 1 to {MOST_BRANCHES} are possible")]
    Branches(u32),
    /// None, or more than the specification has.
    #[error("{0} accounts of a branch: 1 to {ACCOUNTS} are possible")]
    Accounts(u32),
    /// None, or some would be without a branch.
    #[error("{partitions} partitions for {branches} branches: 1 to one a branch are possible")]
    Partitions {
        /// The number that was asked for.
        partitions: usize,
        /// For so many branches.
        branches: u32,
    },
    /// Accounts in other partitions.
    #[error(
        "TPC-B with {0} partitions: 15% of the accounts are of another branch, which may lie in \
         another partition, and a transaction covers one; use one partition (--partitions 1), or \
         accounts of the teller's branch alone (--as shore-kits)"
    )]
    RemotePartitions(usize),
    /// Too many to be numbered.
    #[error("{0} transactions in a partition: fewer than 2^32 are possible")]
    Transactions(u64),
}

impl Spec {
    /// # Errors
    /// If the specification cannot be run.
    pub fn validate(&self) -> Result<(), SpecError> {
        if !(1..=MOST_BRANCHES).contains(&self.branches) {
            return Err(SpecError::Branches(self.branches));
        }
        if !(1..=ACCOUNTS).contains(&self.accounts) {
            return Err(SpecError::Accounts(self.accounts));
        }
        if self.partitions == 0 || self.partitions > self.branches as usize {
            let Self { partitions, branches, .. } = *self;
            return Err(SpecError::Partitions { partitions, branches });
        }
        if self.form == Form::Specification && self.partitions > 1 {
            return Err(SpecError::RemotePartitions(self.partitions));
        }
        if self.transactions_of(0) >= 1 << 32 {
            return Err(SpecError::Transactions(self.transactions_of(0)));
        }
        Ok(())
    }

    /// The branches of a partition.
    pub fn branches_of(&self, partition: usize) -> impl Iterator<Item = u64> + use<> {
        (partition as u64 + 1..=u64::from(self.branches)).step_by(self.partitions)
    }

    /// The tellers of a branch.
    pub fn tellers_of(&self, branch: u64) -> impl Iterator<Item = u64> + use<> {
        (branch - 1) * TELLERS + 1..=branch * TELLERS
    }

    /// The accounts of a branch.
    pub fn accounts_of(&self, branch: u64) -> impl Iterator<Item = u64> + use<> {
        let accounts = u64::from(self.accounts);
        (branch - 1) * accounts + 1..=branch * accounts
    }

    /// Transactions of a partition: an even share, the first partitions get the remainder.
    #[must_use]
    pub fn transactions_of(&self, partition: usize) -> u64 {
        share(self.transactions, self.partitions, partition)
    }

    /// Tuples of a population in all partitions together.
    #[must_use]
    pub fn tuples(&self) -> u64 {
        u64::from(self.branches) * (1 + TELLERS + u64::from(self.accounts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_lie_in_turn_in_the_partitions() {
        let spec = Spec { branches: 5, accounts: 7, partitions: 2, ..Spec::default() };
        assert!(spec.branches_of(0).eq([1, 3, 5]) && spec.branches_of(1).eq([2, 4]));
        assert!(spec.tellers_of(2).eq(11..=20) && spec.accounts_of(2).eq(8..=14));
        assert_eq!(spec.tuples(), 5 * 18);
    }

    #[test]
    fn specifications_that_cannot_be_run_are_refused() {
        let good = Spec::default();
        assert_eq!(good.validate(), Ok(()));
        for bad in [
            Spec { branches: 0, ..good.clone() },
            Spec { branches: MOST_BRANCHES + 1, ..good.clone() },
            Spec { accounts: 0, ..good.clone() },
            Spec { accounts: ACCOUNTS + 1, ..good.clone() },
            Spec { partitions: 0, ..good.clone() },
            Spec { partitions: 2, form: Form::ShoreKits, ..good.clone() },
            Spec { transactions: 1 << 32, ..good.clone() },
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
        let two = Spec { branches: 2, partitions: 2, ..good };
        let error = two.validate().unwrap_err().to_string();
        assert!(error.contains("--partitions 1") && error.contains("--as shore-kits"), "{error}");
        assert_eq!(Spec { form: Form::ShoreKits, ..two }.validate(), Ok(()));
    }
}
