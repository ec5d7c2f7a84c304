//! The counters of NVM-Log.

use storage::runs::RunsStats;

use crate::counts::{EngineCounts, RunStats, engine_stats};

engine_stats! {
    /// The counters of NVM-Log that others do not have.
    NvmLogStats {
        /// MemTables that were frozen where they are, which writes nothing.
        freezes: u64;
        /// Its frozen MemTables and what they were merged into.
        levels: RunStats;
    }
}

impl EngineCounts for NvmLogStats {
    fn written_bytes(&self) -> u64 {
        self.levels.all_merged_bytes()
    }

    fn runs(&self) -> Option<&RunStats> {
        Some(&self.levels)
    }
}

impl From<&RunsStats> for NvmLogStats {
    fn from(stats: &RunsStats) -> Self {
        Self {
            freezes: stats.freezes,
            levels: RunStats {
                merges: stats.merges,
                merged_bytes: stats.merged_bytes,
                runs: stats.runs,
                run_bytes: stats.run_bytes,
            },
        }
    }
}
