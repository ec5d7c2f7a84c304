//! Counts of the flushes and fences of memory, and of the syncs of files.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Totals since a handle began to count. Subtract two of them to get those of a span.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// Returns what was counted between `earlier` and `self`.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name - earlier.$name,)* }
            }
            /// Each counter with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
        impl std::ops::Add for Counters {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name,)* }
            }
        }

        #[derive(Default, Debug)]
        pub(crate) struct Tally { $(pub(crate) $name: AtomicU64,)* }
        impl Tally {
            pub(crate) fn snapshot(&self) -> Counters {
                Counters { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Cache lines written back by flushes.
    flushed_lines,
    /// Fences that had to wait for flushes or order stores.
    fences,
    /// Bytes of the flushed lines plus bytes of synced file data.
    bytes_persisted,
    /// Bytes written to files.
    file_bytes,
    /// Syncs of files or of pages of a pool on a disk.
    syncs,
}

pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}
