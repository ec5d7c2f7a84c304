//! The counts of an emulated run.

use serde::{Deserialize, Serialize};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Totals of an emulated run since [`crate::Meter::reset`]. A line is 64 bytes.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub struct LineCounts { $($(#[$doc])* pub $name: u64,)* }

        impl LineCounts {
            /// Returns what was counted between `earlier` and `self`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name - earlier.$name,)* }
            }
        }

        impl std::ops::AddAssign for LineCounts {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counts! {
    /// Lines fetched for a load that waited for them alone.
    dependent,
    /// Lines fetched for a load within 512 bytes of one of the last four fetched: the next step of
    /// a search in a node, of which the processor guesses a part ahead.
    near,
    /// Further lines of one read of many bytes.
    sequential,
    /// Lines fetched by reads whose places were all known: further parts of a gather, and what was
    /// prefetched and not waited for.
    independent,
    /// Lines fetched because they were stored to.
    store_misses,
    /// Modified lines that were written back because the cache had no room.
    evicted_lines,
    /// Modified lines that were written back by a flush.
    flushed_lines,
    /// Lines that flushes named, modified or not.
    flush_requests,
    /// Fences.
    fences,
    /// Accesses to a line, hits and misses.
    accesses,
    /// Bytes that were read.
    loaded_bytes,
    /// Bytes that were stored.
    stored_bytes,
    /// Calls of reads and writes of files.
    file_calls,
    /// Bytes that these read and wrote.
    file_bytes,
    /// Syncs of files and of their directory.
    syncs,
}

impl LineCounts {
    /// Lines fetched for loads.
    #[must_use]
    pub fn load_misses(&self) -> u64 {
        self.dependent + self.near + self.sequential + self.independent
    }

    /// Lines that the memory delivered: P1's NVM loads (F9 to F11).
    #[must_use]
    pub fn nvm_loads(&self) -> u64 {
        self.load_misses() + self.store_misses
    }

    /// Lines that the memory took: P1's NVM stores (F9 to F11).
    #[must_use]
    pub fn nvm_stores(&self) -> u64 {
        self.evicted_lines + self.flushed_lines
    }
}
