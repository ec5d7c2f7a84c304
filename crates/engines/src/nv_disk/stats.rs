//! The counters of NV-Disk.

use crate::counts::{EngineCounts, engine_stats};

engine_stats! {
    /// The counters of NV-Disk that engines without a buffer pool do not have.
    NvDiskStats {
        /// Pages that were found in the buffer pool.
        hits: u64;
        /// Pages that were read from the medium.
        reads: u64;
        /// Pages that were read from the medium before they were asked for.
        read_ahead: u64;
        /// Pages that made way for others.
        evictions: u64;
        /// Batches of pages that were written, with two syncs each.
        page_batches: u64;
        /// Bytes of these pages.
        page_bytes: u64;
        /// Groups of log records that were written, with one sync each.
        log_groups: u64;
        /// Requests that came to the lock table.
        lock_requests: u64;
        /// Requests that had to wait.
        lock_waits: u64;
        /// Transactions that were victims of a deadlock.
        deadlocks: u64;
    }
}

impl EngineCounts for NvDiskStats {
    fn written_bytes(&self) -> u64 {
        self.page_bytes
    }
}
