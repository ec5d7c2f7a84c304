//! NV-Disk (P2 3.1): a database on a disk, or on a disk made of NVM, with a buffer pool, row locks
//! and ARIES over the central log (P2 2.1). Operations: see [`crate::paged`].
//!
//! Pages and log lie in files; the pool holds the description of the database. The log has one
//! buffer, which a lock guards, and eight partitions. Transactions that commit at the same time
//! share a write and a sync.
//!
//! Invariants: those of [`paged::store`] and of [`paged::log::central`].

mod options;
mod stats;

use std::sync::Arc;
use std::time::Duration;

use paged::lock::LockOptions;
use paged::log::LogManager;
use paged::log::central::{Central, CentralOptions};
use paged::store::{Restart, StoreOptions};
use paged::threads::Host;
use pm::{Environment, Files};

use crate::contract::Resources;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::own::OwnStats;
use crate::paged::{Paged, PagedCounts, PagedLog, base_options, prefix};
use crate::traits::DurableIn;

pub use options::NvDiskOptions;
pub use stats::NvDiskStats;

/// A partition of NV-Disk; see the module's comment.
pub type NvDisk<E> = Paged<E, CentralLog<E>>;

/// The central log.
#[derive(Debug)]
pub struct CentralLog<E: Environment>(Arc<Central<E::Files, Host>>);

/// Number of partitions of the log (P2 6.1).
const PARTITIONS: u32 = 8;

/// Bytes of the largest record at least.
const LEAST_RECORD_BYTES: usize = 1024;

/// Bytes of the largest partition: an offset in it has 32 bits, and records begin at multiples of
/// 8.
const MOST_PARTITION_BYTES: u64 = (1 << 32) - 8;

/// The options of the log under pages of this size: the largest record has the bytes of a page
/// before and afterwards, and a partition has room for four of it.
fn log_options(options: &NvDiskOptions, page_bytes: usize) -> CentralOptions {
    let largest = (page_bytes * 5 / 2).max(LEAST_RECORD_BYTES).next_multiple_of(8);
    let partition_bytes = (options.log_bytes / u64::from(PARTITIONS)).max(4 * largest as u64);
    let partition_bytes = partition_bytes.next_multiple_of(8).min(MOST_PARTITION_BYTES);
    let buffer_bytes = options.log_buffer_bytes as usize;
    let default = CentralOptions::default();
    let record_bytes = default.record_bytes.max(largest).min(partition_bytes as usize / 4 / 8 * 8);
    CentralOptions {
        partitions: PARTITIONS,
        partition_bytes,
        buffer_bytes,
        group_bytes: default.group_bytes.min(buffer_bytes),
        record_bytes,
        reserve_bytes: default.reserve_bytes.min(partition_bytes),
        checkpoint_bytes: options.checkpoint_bytes,
        group_wait: Duration::from_micros(options.group_wait_us),
    }
}

impl<E: Environment> PagedLog<E> for CentralLog<E> {
    const KIND: EngineKind = EngineKind::NvDisk;
    const DURABLE_IN: DurableIn = DurableIn::Files;
    const GROUPS_COMMITS: bool = true;
    type Options = NvDiskOptions;

    fn store_options(options: &NvDiskOptions, least_page_bytes: usize) -> StoreOptions {
        StoreOptions {
            restart: if options.full_restart == 0 { Restart::OnDemand } else { Restart::Full },
            locks: LockOptions {
                inherit_after: (options.inherit_after > 0).then_some(options.inherit_after),
                ..LockOptions::default()
            },
            early_release: options.early_release > 0,
            ..base_options(options.page_bytes, options.buffer_bytes, least_page_bytes)
        }
    }

    fn create(
        resources: &Resources<E>,
        options: &NvDiskOptions,
        page_bytes: usize,
    ) -> Result<Self, EngineError> {
        let files = resources.own_files()?;
        let name = format!("{}log-", prefix(resources.partition));
        let of = log_options(options, page_bytes);
        let log = Central::create(&files, &name, of, Arc::default())?;
        Ok(Self(Arc::new(log)))
    }

    fn open(
        resources: &Resources<E>,
        options: &NvDiskOptions,
        page_bytes: usize,
    ) -> Result<Self, EngineError> {
        let files = resources.own_files()?;
        let name = format!("{}log-", prefix(resources.partition));
        let of = log_options(options, page_bytes);
        let log = Central::open(&files, &name, of, Arc::default())?;
        Ok(Self(Arc::new(log)))
    }

    fn replace(
        resources: &Resources<E>,
        options: &NvDiskOptions,
        page_bytes: usize,
    ) -> Result<Self, EngineError> {
        let files = resources.own_files()?;
        let name = format!("{}log-", prefix(resources.partition));
        let of = log_options(options, page_bytes);
        if let Ok(log) = Central::open_up_to_damage(&files, &name, of, Arc::default()) {
            return Ok(Self(Arc::new(log)));
        }
        for file in files.list()?.iter().filter(|file| file.starts_with(&name)) {
            files.remove(file)?;
        }
        let log = Central::create_behind_all(&files, &name, of, Arc::default())?;
        Ok(Self(Arc::new(log)))
    }

    fn manager(&self) -> Arc<dyn LogManager> {
        Arc::clone(&self.0) as Arc<dyn LogManager>
    }

    fn close(&self) -> Result<(), EngineError> {
        Ok(self.0.close()?)
    }

    fn stats(&self, counts: &PagedCounts) -> OwnStats {
        NvDiskStats { buffer: counts.into(), log_groups: counts.log.groups }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_log_has_partitions_whose_offsets_fit() {
        let options = NvDiskOptions { log_bytes: 32 << 30, ..NvDiskOptions::default() };
        assert_eq!(log_options(&options, 8192).partition_bytes, MOST_PARTITION_BYTES);
    }
}
