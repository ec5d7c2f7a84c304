//! The counters of NV-Disk.

use crate::counts::{BufferStats, EngineCounts, engine_stats};

engine_stats! {
    /// The counters of NV-Disk that engines without a buffer pool do not have.
    NvDiskStats {
        /// Pages, and locks of rows.
        buffer: BufferStats;
        /// Groups of log records that were written, with one sync each.
        log_groups: u64;
    }
}

impl EngineCounts for NvDiskStats {
    fn written_bytes(&self) -> u64 {
        self.buffer.page_bytes
    }

    fn buffer(&self) -> Option<&BufferStats> {
        Some(&self.buffer)
    }
}
