//! The counters of CoW.

use crate::counts::{EngineCounts, PageStats, engine_stats};

engine_stats! {
    /// The counters of CoW that engines without pages do not have.
    CowStats {
        /// Its pages.
        pages: PageStats;
    }
}

impl EngineCounts for CowStats {
    fn written_bytes(&self) -> u64 {
        self.pages.page_bytes
    }

    fn pages(&self) -> Option<&PageStats> {
        Some(&self.pages)
    }
}
