//! The counters of the column store.

use crate::counts::{EngineCounts, engine_stats};

engine_stats! {
    /// The counters of SOFORT that engines without versions in columns do not have.
    SofortStats {
        /// Transactions that have committed with changes.
        commits: u64;
        /// Statements that have changed a row.
        statements: u64;
        /// Transactions that opening has found in flight.
        in_flight: u64;
        /// Keys and values in indexes in ordinary memory.
        built: u64;
        /// Rows and values that were there at opening and are not in an index yet.
        unbuilt: u64;
        /// Rows that were there at opening and are not yet checked for use, of tables whose first
        /// index lies in persistent memory.
        unswept: u64;
        /// Versions that a commit has replaced, or an abort has left, and whose rows are not free
        /// yet.
        garbage: u64;
        /// Rows that were freed, to be used again.
        freed: u64;
        /// Entries of indexes that scans have looked at.
        scanned: u64;
        /// Entries among them that led to no row which the scan sees.
        unseen: u64;
        /// Versions of rows that scans have looked at.
        versions: u64;
    }
}

impl EngineCounts for SofortStats {
    /// Nothing is written a second time.
    fn written_bytes(&self) -> u64 {
        0
    }
}
