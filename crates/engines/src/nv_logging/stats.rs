//! The counters of NV-Logging.

use crate::counts::{BufferStats, EngineCounts, engine_stats};

engine_stats! {
    /// The counters of NV-Logging with flush-on-insert that engines without a buffer pool do not
    /// have.
    NvLoggingFoiStats {
        /// Pages, and locks of rows.
        buffer: BufferStats;
        /// Log objects that were inserted, and durable then.
        objects: u64;
    }
}

engine_stats! {
    /// The counters of NV-Logging with flush-on-commit that engines without a buffer pool do not
    /// have.
    NvLoggingFocStats {
        /// Pages, and locks of rows.
        buffer: BufferStats;
        /// Log objects that were inserted.
        objects: u64;
        /// Log objects that the persister has made durable.
        by_persister: u64;
        /// Log objects that commits, and other operations that needed them, have made durable.
        by_commits: u64;
    }
}

impl EngineCounts for NvLoggingFoiStats {
    fn written_bytes(&self) -> u64 {
        self.buffer.page_bytes
    }

    fn buffer(&self) -> Option<&BufferStats> {
        Some(&self.buffer)
    }
}

impl EngineCounts for NvLoggingFocStats {
    fn written_bytes(&self) -> u64 {
        self.buffer.page_bytes
    }

    fn buffer(&self) -> Option<&BufferStats> {
        Some(&self.buffer)
    }
}
