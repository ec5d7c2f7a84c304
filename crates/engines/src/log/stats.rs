//! The counters of Log.

use storage::lsm::tree::LsmStats;

use crate::counts::{EngineCounts, RunStats, engine_stats};

engine_stats! {
    /// The counters of Log that others do not have.
    LogStats {
        /// MemTables that were flushed.
        flushes: u64;
        /// Bytes written by flushing them.
        flushed_bytes: u64;
        /// Counts how often a writer had to wait for a flush or a merge to end.
        stalls: u64;
        /// Its SSTables.
        levels: RunStats;
    }
}

impl EngineCounts for LogStats {
    fn written_bytes(&self) -> u64 {
        self.flushed_bytes + self.levels.all_merged_bytes()
    }

    fn runs(&self) -> Option<&RunStats> {
        Some(&self.levels)
    }
}

impl From<&LsmStats> for LogStats {
    fn from(stats: &LsmStats) -> Self {
        Self {
            flushes: stats.flushes,
            flushed_bytes: stats.flushed_bytes,
            stalls: stats.stalls,
            levels: RunStats {
                merges: stats.merges,
                merged_bytes: stats.merged_bytes,
                runs: stats.runs,
                run_bytes: stats.run_bytes,
            },
        }
    }
}
