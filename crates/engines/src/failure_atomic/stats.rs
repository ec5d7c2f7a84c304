//! The counters of the engines on slotted pages.

use crate::counts::{EngineCounts, engine_stats};

engine_stats! {
    /// The counters of FAST that engines without slotted pages do not have.
    FastStats {
        /// Commits in place, by one header.
        in_place: u64;
        /// Commits by slot-header logging.
        logged: u64;
    }
}

impl EngineCounts for FastStats {
    /// Pages are written in place: nothing is written a second time but what the log has.
    fn written_bytes(&self) -> u64 {
        0
    }
}

engine_stats! {
    /// The counters of FASH that engines without slotted pages do not have.
    FashStats {
        /// Commits by slot-header logging.
        logged: u64;
    }
}

impl EngineCounts for FashStats {
    /// Pages are written in place: nothing is written a second time but what the log has.
    fn written_bytes(&self) -> u64 {
        0
    }
}

/// The counters of an engine whose log is stored in place by checkpoints.
macro_rules! checkpointed_stats {
    ($(#[doc = $about:literal] $name:ident;)+) => {$(
        engine_stats! {
            #[doc = $about]
            $name {
                /// Commits by frames of the log.
                logged: u64;
                /// Checkpoints: what frames have was stored in the pages.
                checkpoints: u64;
                /// Bytes that checkpoints have stored.
                checkpoint_bytes: u64;
            }
        }

        impl EngineCounts for $name {
            fn written_bytes(&self) -> u64 {
                self.checkpoint_bytes
            }
        }
    )+};
}

checkpointed_stats! {
    /// The counters of NVWAL that engines without a cache of slotted pages do not have.
    NvwalStats;
    /// The write-ahead log's counters that engines without a cache of slotted pages do not have.
    WalStats;
}

engine_stats! {
    /// The counters of the rollback journal that engines without slotted pages do not have.
    JournalStats {
        /// Commits, each of which has saved the pages that it has changed.
        logged: u64;
        /// Bytes of these pages, as they were written.
        page_bytes: u64;
    }
}

impl EngineCounts for JournalStats {
    fn written_bytes(&self) -> u64 {
        self.page_bytes
    }
}
