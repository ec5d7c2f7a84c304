//! The specification of a TPC-C run.

use serde::{Deserialize, Serialize};

use crate::crew::share;

/// Districts of a warehouse (clause 1.2.1).
pub const DISTRICTS: u64 = 10;
/// Customers of a district in the specification.
pub const CUSTOMERS: u32 = 3000;
/// Items in the specification.
pub const ITEMS: u32 = 100_000;

/// Everything that determines a population and what is run on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Warehouses, numbered from 1; warehouse `w` lies in partition `(w - 1) % partitions`.
    pub warehouses: u32,
    /// Items, and stock of each warehouse; 100,000 in the specification.
    pub items: u32,
    /// Customers of a district, and orders that it has had; 3,000 in the specification.
    pub customers: u32,
    /// Transactions in all partitions together.
    pub transactions: u64,
    /// Partitions, at most one a warehouse.
    pub partitions: usize,
    /// True if 1% of the order lines and 15% of the payments concern another warehouse.
    pub remote: bool,
    /// Seed of the population and of all inputs.
    pub seed: u64,
}

impl Default for Spec {
    /// One warehouse of full size and 100,000 transactions at home.
    fn default() -> Self {
        Self {
            warehouses: 1,
            items: ITEMS,
            customers: CUSTOMERS,
            transactions: 100_000,
            partitions: 1,
            remote: false,
            seed: 1,
        }
    }
}

/// A specification that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// None, or more than inputs can name.
    #[error("{0} warehouses: 1 to 65535 are possible")]
    Warehouses(u32),
    /// None, or more than the specification has.
    #[error("{0} items: 1 to {ITEMS} are possible")]
    Items(u32),
    /// Too few to have delivered and new orders, or more than the specification has.
    #[error("{0} customers in a district: 10 to {CUSTOMERS} are possible")]
    Customers(u32),
    /// None, or some would be without a warehouse.
    #[error(
        "{partitions} partitions for {warehouses} warehouses: 1 to one a warehouse are possible"
    )]
    Partitions {
        /// The number that was asked for.
        partitions: usize,
        /// The number of warehouses that it was created for.
        warehouses: u32,
    },
    /// Remote warehouses in other partitions.
    #[error(
        "remote warehouses with {0} partitions: a transaction covers one partition, and a remote \
         warehouse may lie in another; use one partition (--partitions 1), or leave --remote out"
    )]
    RemotePartitions(usize),
    /// No other warehouse that could be remote.
    #[error("remote warehouses need at least 2 warehouses; ask for more with --warehouses")]
    RemoteAlone,
    /// Too many to be numbered.
    #[error("{0} transactions in a partition: fewer than 2^28 are possible")]
    Transactions(u64),
}

impl Spec {
    /// # Errors
    /// If the specification cannot be run.
    pub fn validate(&self) -> Result<(), SpecError> {
        if !(1..=u32::from(u16::MAX)).contains(&self.warehouses) {
            return Err(SpecError::Warehouses(self.warehouses));
        }
        if !(1..=ITEMS).contains(&self.items) {
            return Err(SpecError::Items(self.items));
        }
        if !(10..=CUSTOMERS).contains(&self.customers) {
            return Err(SpecError::Customers(self.customers));
        }
        if self.partitions == 0 || self.partitions > self.warehouses as usize {
            let Self { partitions, warehouses, .. } = *self;
            return Err(SpecError::Partitions { partitions, warehouses });
        }
        if self.remote && self.partitions > 1 {
            return Err(SpecError::RemotePartitions(self.partitions));
        }
        if self.remote && self.warehouses == 1 {
            return Err(SpecError::RemoteAlone);
        }
        if self.transactions_of(0) >= 1 << 28 {
            return Err(SpecError::Transactions(self.transactions_of(0)));
        }
        Ok(())
    }

    /// The partition of a warehouse.
    #[must_use]
    pub fn partition_of(&self, warehouse: u64) -> usize {
        (warehouse as usize - 1) % self.partitions
    }

    /// The warehouses of a partition.
    pub fn warehouses_of(&self, partition: usize) -> impl Iterator<Item = u64> + use<> {
        (partition as u64 + 1..=u64::from(self.warehouses)).step_by(self.partitions)
    }

    /// Transactions of a partition: an even share, the first partitions get the remainder.
    #[must_use]
    pub fn transactions_of(&self, partition: usize) -> u64 {
        share(self.transactions, self.partitions, partition)
    }

    /// Orders of a district that were delivered before the run: 2,100 of 3,000 (clause 4.3.3.1).
    #[must_use]
    pub fn delivered_orders(&self) -> u64 {
        u64::from(self.customers) * 7 / 10
    }

    /// Tuples of a population in all partitions together: order lines, whose number is random, at
    /// their mean of ten an order.
    #[must_use]
    pub fn tuples(&self) -> u64 {
        let customers = u64::from(self.customers);
        // Customers, their history, orders, order lines, new orders.
        let district = 1 + 3 * customers + 10 * customers + (customers - self.delivered_orders());
        let warehouse = 1 + u64::from(self.items) + DISTRICTS * district;
        u64::from(self.items) * self.partitions as u64 + u64::from(self.warehouses) * warehouse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warehouses_lie_in_turn_in_the_partitions() {
        let spec = Spec { warehouses: 5, partitions: 2, ..Spec::default() };
        assert_eq!(spec.warehouses_of(0).collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(spec.warehouses_of(1).collect::<Vec<_>>(), [2, 4]);
        assert!((1..=5).all(|w| spec.warehouses_of(spec.partition_of(w)).any(|other| other == w)));
    }

    #[test]
    fn specifications_that_cannot_be_run_are_refused() {
        let good = Spec::default();
        assert_eq!(good.validate(), Ok(()));
        assert_eq!(good.delivered_orders(), 2100);
        for bad in [
            Spec { warehouses: 0, ..good.clone() },
            Spec { warehouses: 1 << 16, ..good.clone() },
            Spec { items: 0, ..good.clone() },
            Spec { items: ITEMS + 1, ..good.clone() },
            Spec { customers: 9, ..good.clone() },
            Spec { customers: CUSTOMERS + 1, ..good.clone() },
            Spec { partitions: 0, ..good.clone() },
            Spec { partitions: 2, ..good.clone() },
            Spec { remote: true, ..good.clone() },
            Spec { transactions: 1 << 28, ..good.clone() },
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
        let remote = Spec { warehouses: 2, remote: true, ..good };
        assert_eq!(remote.validate(), Ok(()));
        let error = Spec { partitions: 2, ..remote }.validate().unwrap_err().to_string();
        assert!(error.contains("--partitions 1"), "{error}");
    }
}
