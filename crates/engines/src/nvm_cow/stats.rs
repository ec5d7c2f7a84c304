//! The counters of NVM-CoW.

use crate::counts::{EngineCounts, PageStats, engine_stats};

engine_stats! {
    /// The counters of NVM-CoW that engines without pages do not have.
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
