//! Counts of what scans look at. They depend on nothing but what was run, so tests bound the cost of a scan with them.

// Counts that synchronise no threads: tests of interleavings do not schedule them.
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// What scans have looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scanned {
    /// Entries of indexes.
    pub entries: u64,
    /// Entries among them that led to no row which the scan sees.
    pub unseen: u64,
    /// Versions of rows, several for an entry where older versions had to be found.
    pub versions: u64,
}

/// The sum of [`Scanned`] over all scans of a store.
#[derive(Debug, Default)]
pub(crate) struct ScanCounts {
    entries: AtomicU64,
    unseen: AtomicU64,
    versions: AtomicU64,
}

impl ScanCounts {
    /// Adds what one scan has looked at.
    pub(crate) fn add(&self, scanned: Scanned) {
        self.entries.fetch_add(scanned.entries, Relaxed);
        self.unseen.fetch_add(scanned.unseen, Relaxed);
        self.versions.fetch_add(scanned.versions, Relaxed);
    }

    pub(crate) fn get(&self) -> Scanned {
        Scanned {
            entries: self.entries.load(Relaxed),
            unseen: self.unseen.load(Relaxed),
            versions: self.versions.load(Relaxed),
        }
    }
}
