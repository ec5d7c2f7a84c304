//! The job of a process that is to be killed.

use serde::{Deserialize, Serialize};
use workloads::{Lanes, tpcb, tpcc, ycsb};

use crate::failure::Failure;

/// A workload with its specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// YCSB.
    Ycsb(ycsb::Spec),
    /// TPC-C.
    Tpcc(tpcc::Spec),
    /// TPC-B.
    Tpcb(tpcb::Spec),
}

impl Job {
    /// Transactions in all partitions together.
    pub fn transactions(&self) -> u64 {
        match self {
            Self::Ycsb(spec) => spec.transactions,
            Self::Tpcc(spec) => spec.transactions,
            Self::Tpcb(spec) => spec.transactions,
        }
    }

    /// Partitions.
    pub fn partitions(&self) -> usize {
        match self {
            Self::Ycsb(spec) => spec.partitions,
            Self::Tpcc(spec) => spec.partitions,
            Self::Tpcb(spec) => spec.partitions,
        }
    }

    /// Counters of acknowledged transactions with so many workers: one for each partition, or for each
    /// worker where they share partitions.
    pub fn counters(&self, workers: usize) -> usize {
        match self {
            Self::Ycsb(_) | Self::Tpcc(_) => self.partitions(),
            Self::Tpcb(spec) => Lanes::new(workers, spec.partitions).count(),
        }
    }

    /// The same with more transactions: seconds of work.
    ///
    /// # Errors
    /// That cannot be run.
    pub fn with_more(&self) -> Result<Self, Failure> {
        Ok(match self {
            Self::Ycsb(spec) => {
                let transactions = spec.transactions + 3_000_000;
                let spec = ycsb::Spec { transactions, ..spec.clone() };
                spec.validate()?;
                Self::Ycsb(spec)
            }
            Self::Tpcc(spec) => {
                let transactions = spec.transactions + 500_000;
                let spec = tpcc::Spec { transactions, ..spec.clone() };
                spec.validate()?;
                Self::Tpcc(spec)
            }
            Self::Tpcb(spec) => {
                let transactions = spec.transactions + 3_000_000;
                let spec = tpcb::Spec { transactions, ..spec.clone() };
                spec.validate()?;
                Self::Tpcb(spec)
            }
        })
    }
}
