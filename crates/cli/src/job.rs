//! The job of a process that is to be killed.

use serde::{Deserialize, Serialize};
use workloads::{tpcc, ycsb};

use crate::failure::Failure;

/// A workload with its specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Job {
    /// YCSB.
    Ycsb(ycsb::Spec),
    /// TPC-C.
    Tpcc(tpcc::Spec),
}

impl Job {
    /// Transactions in all partitions together.
    pub(crate) fn transactions(&self) -> u64 {
        match self {
            Self::Ycsb(spec) => spec.transactions,
            Self::Tpcc(spec) => spec.transactions,
        }
    }

    /// Partitions.
    pub(crate) fn partitions(&self) -> usize {
        match self {
            Self::Ycsb(spec) => spec.partitions,
            Self::Tpcc(spec) => spec.partitions,
        }
    }

    /// The same with more transactions: seconds of work.
    ///
    /// # Errors
    /// That cannot be run.
    pub(crate) fn with_more(&self) -> Result<Self, Failure> {
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
        })
    }
}
