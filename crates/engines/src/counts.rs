//! Counts that are added up over partitions, and those that two engines share.
//!
//! An engine declares a struct of its own with [`engine_stats!`], in a file of its own.
//! [`RunStats`] and [`PageStats`] are parts that two of those have.

use storage::shadow::ShadowStats;

/// Levels of runs that [`RunStats`] counts separately.
pub const STATS_LEVELS: usize = storage::lsm::tree::LEVELS;

/// Something that is counted for each partition and added up.
pub(crate) trait Count {
    /// Adds another partition's.
    fn add(&mut self, other: &Self);
}

impl Count for u64 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }
}

impl Count for u32 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }
}

impl<T: Count, const N: usize> Count for [T; N] {
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(count, other)| count.add(other));
    }
}

/// The counters of one engine; [`engine_stats!`] declares the struct.
pub(crate) trait EngineCounts: Count {
    /// Bytes flushed, merged and written in pages; see [`crate::EngineStats::write_amplification`].
    fn written_bytes(&self) -> u64;

    /// Its runs, if it has any.
    fn runs(&self) -> Option<&RunStats> {
        None
    }

    /// Its pages, if it has any.
    fn pages(&self) -> Option<&PageStats> {
        None
    }

    /// Its buffer pool and its locks, if it has them.
    fn buffer(&self) -> Option<&BufferStats> {
        None
    }
}

/// Declares a struct of counts that are added up field by field.
macro_rules! engine_stats {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ty;)*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)*
        }

        impl crate::counts::Count for $name {
            fn add(&mut self, other: &Self) {
                let Self { $($field),* } = other;
                $(crate::counts::Count::add(&mut self.$field, $field);)*
            }
        }
    };
}
pub(crate) use engine_stats;

engine_stats! {
    /// The counters of log-structured engines' runs.
    RunStats {
        /// Merges that were done.
        merges: u64;
        /// Bytes written by merges into each level.
        merged_bytes: [u64; STATS_LEVELS];
        /// Runs at each level now.
        runs: [u32; STATS_LEVELS];
        /// Their bytes.
        run_bytes: [u64; STATS_LEVELS];
    }
}

impl RunStats {
    /// Bytes written by merges into all levels.
    pub fn all_merged_bytes(&self) -> u64 {
        self.merged_bytes.iter().sum()
    }
}

engine_stats! {
    /// The counters of copy-on-write engines' pages.
    PageStats {
        /// Groups of transactions that a move of the master record made durable.
        batches: u64;
        /// Pages that changes of trees have made, copies of older ones for the most part.
        made_pages: u64;
        /// Bytes of pages written back.
        page_bytes: u64;
    }
}

engine_stats! {
    /// The counters of the buffer pool and the locks of a paged engine.
    BufferStats {
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
        /// Requests that came to the lock table.
        lock_requests: u64;
        /// Requests that had to wait.
        lock_waits: u64;
        /// Transactions that were victims of a deadlock.
        deadlocks: u64;
    }
}

impl From<&ShadowStats> for PageStats {
    fn from(stats: &ShadowStats) -> Self {
        Self {
            batches: stats.batches,
            made_pages: stats.made_pages,
            page_bytes: stats.written_bytes,
        }
    }
}
