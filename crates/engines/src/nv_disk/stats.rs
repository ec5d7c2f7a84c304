//! The counters of NV-Disk.

use crate::counts::{EngineCounts, PageStats, engine_stats};

engine_stats! {
    /// The counters of NV-Disk that engines without a buffer pool do not have.
    NvDiskStats {
        /// Pages that it wrote.
        pages: PageStats;
        /// Pages that were found in the buffer pool.
        hits: u64;
        /// Pages that were read from the medium.
        reads: u64;
        /// Pages that made way for others.
        evictions: u64;
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
        self.pages.page_bytes
    }

    fn pages(&self) -> Option<&PageStats> {
        Some(&self.pages)
    }
}
