//! What NVM-CoW counts.

use crate::stats::{EngineCounts, PageStats, engine_stats};

engine_stats! {
    /// What NVM-CoW counts and engines without pages do not.
    NvmCowStats {
        /// Its pages.
        pages: PageStats;
    }
}

impl EngineCounts for NvmCowStats {
    fn written_bytes(&self) -> u64 {
        self.pages.page_bytes
    }

    fn pages(&self) -> Option<&PageStats> {
        Some(&self.pages)
    }
}
