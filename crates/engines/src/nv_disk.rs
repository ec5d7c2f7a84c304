//! NV-Disk (P2 3.1): a database on a disk, or on a disk made of NVM, with a buffer pool, row locks and
//! ARIES over the central log (P2 2.1). Operations: see [`crate::paged`].
//!
//! Pages and log lie in files; the pool holds the description of the database. The log has one buffer
//! behind a lock, and eight partitions. Transactions that commit at the same time share a write and a
//! sync.
//!
//! Invariants: those of [`paged::store`] and of [`paged::log::central`].

mod options;
mod stats;

use std::sync::Arc;
use std::time::Duration;

use paged::lock::LockOptions;
use paged::log::LogManager;
use paged::log::central::{Central, CentralOptions};
use paged::store::{Restart, Store, StoreOptions};
use paged::threads::Host;
use pm::Environment;

use crate::contract::Resources;
use crate::counts::PageStats;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::own::OwnStats;
use crate::paged::{Paged, PagedLog, prefix};
use crate::traits::DurableIn;

pub use options::NvDiskOptions;
pub use stats::NvDiskStats;

/// A partition of NV-Disk; see the module's comment.
pub type NvDisk<E> = Paged<E, CentralLog>;

/// The central log.
#[derive(Debug)]
pub struct CentralLog;

/// Number of partitions of the log (P2 6.1).
const PARTITIONS: u32 = 8;

fn log_options(options: &NvDiskOptions) -> CentralOptions {
    let partition_bytes = (options.log_bytes / u64::from(PARTITIONS)).next_multiple_of(8);
    let buffer_bytes = options.log_buffer_bytes as usize;
    let default = CentralOptions::default();
    let record_bytes = default.record_bytes.min(partition_bytes as usize / 4 / 8 * 8);
    CentralOptions {
        partitions: PARTITIONS,
        partition_bytes,
        buffer_bytes,
        group_bytes: default.group_bytes.min(buffer_bytes),
        record_bytes,
        reserve_bytes: default.reserve_bytes.min(partition_bytes),
        checkpoint_bytes: options.checkpoint_bytes,
        room_wait: Duration::from_millis(100),
    }
}

impl<E: Environment> PagedLog<E> for CentralLog {
    const KIND: EngineKind = EngineKind::NvDisk;
    const DURABLE_IN: DurableIn = DurableIn::Files;
    type Options = NvDiskOptions;

    fn store_options(options: &NvDiskOptions, least_page_bytes: usize) -> StoreOptions {
        let page_bytes = options.page_bytes.next_power_of_two() as usize;
        let page_bytes = page_bytes.max(least_page_bytes);
        StoreOptions {
            page_bytes,
            frames: (options.buffer_bytes / page_bytes as u64).max(LEAST_FRAMES) as usize,
            restart: if options.full_restart == 0 { Restart::OnDemand } else { Restart::Full },
            locks: LockOptions {
                inherit_after: (options.inherit_after > 0).then_some(options.inherit_after),
                ..LockOptions::default()
            },
            early_release: options.early_release > 0,
            ..StoreOptions::default()
        }
    }

    fn create(
        resources: &Resources<E>,
        options: &NvDiskOptions,
    ) -> Result<Arc<dyn LogManager>, EngineError> {
        let files = resources.own_files()?;
        let name = format!("{}log-", prefix(resources.partition));
        let log: Central<_, Host> =
            Central::create(&files, &name, log_options(options), Arc::default())?;
        Ok(Arc::new(log))
    }

    fn open(
        resources: &Resources<E>,
        options: &NvDiskOptions,
    ) -> Result<Arc<dyn LogManager>, EngineError> {
        let files = resources.own_files()?;
        let name = format!("{}log-", prefix(resources.partition));
        let log: Central<_, Host> =
            Central::open(&files, &name, log_options(options), Arc::default())?;
        Ok(Arc::new(log))
    }

    fn stats(store: &Store<E::Files>) -> OwnStats {
        let (pool, locks) = (store.pool_stats(), store.lock_counts());
        let pages = PageStats {
            page_bytes: pool.writes * store.pool().page_bytes() as u64,
            ..PageStats::default()
        };
        NvDiskStats {
            pages,
            hits: pool.hits,
            reads: pool.reads,
            evictions: pool.evictions,
            lock_requests: locks.requests,
            lock_waits: locks.waits,
            deadlocks: locks.victims,
        }
        .into()
    }
}

/// Frames of a buffer pool at least.
const LEAST_FRAMES: u64 = 16;
