//! The number of transactions that each partition has acknowledged, in a file that outlives the
//! process.
//!
//! A child that will be killed counts here after each durable transaction; the parent reads the
//! counts afterwards and verifies. A counter never says more than was acknowledged, and at most one
//! transaction less than is durable.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::Ordering;

use workloads::{Observer, StoreError};

use crate::mapping::Mapping;

/// Bytes from one counter to the next: no two on neighbouring lines.
const STRIDE: usize = 128;

/// One counter for each partition, in a mapped file; an [`Observer`] of every transaction.
pub struct AcknowledgedFile {
    mapping: Mapping,
    partitions: usize,
}

impl AcknowledgedFile {
    /// Creates or truncates the file; all counters are zero.
    ///
    /// # Errors
    /// If it cannot be created or mapped.
    pub fn create(path: &Path, partitions: usize) -> Result<Self, StoreError> {
        Self::map(path, partitions, true)
    }

    /// Opens the file of another process, which may still be counting.
    ///
    /// # Errors
    /// If it does not exist, is too short or cannot be mapped.
    pub fn open(path: &Path, partitions: usize) -> Result<Self, StoreError> {
        Self::map(path, partitions, false)
    }

    fn map(path: &Path, partitions: usize, create: bool) -> Result<Self, StoreError> {
        let io = |error| StoreError::io(path, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create).truncate(create);
        let file = options.open(path).map_err(io)?;
        let bytes = partitions.max(1) * STRIDE;
        if create {
            file.set_len(bytes as u64).map_err(io)?;
        } else if file.metadata().map_err(io)?.len() < bytes as u64 {
            let what = format!("too short for {partitions} partitions");
            return Err(StoreError::Damaged { path: path.to_owned(), what });
        }
        Ok(Self { mapping: Mapping::new(&file, path, bytes)?, partitions })
    }

    /// Transactions acknowledged, for each partition.
    #[must_use]
    pub fn counts(&self) -> Vec<u64> {
        (0..self.partitions)
            .map(|partition| self.mapping.counter(partition * STRIDE).load(Ordering::Acquire))
            .collect()
    }
}

impl Observer for AcknowledgedFile {
    const EVERY: u64 = 1;

    #[inline]
    fn completed(&self, partition: usize, transactions: u64) {
        assert!(partition < self.partitions, "no such partition");
        self.mapping.counter(partition * STRIDE).store(transactions, Ordering::Release);
    }
}
