//! The options of the column store.

use crate::options::engine_options;

engine_options! {
    /// The options of SOFORT (P4).
    SofortOptions {
        /// Rows of the first chunk of a table and of its dictionaries, a power of two; each further
        /// one has twice as many.
        first_rows: u32 = 64, 64 to 32768, "rows", fixed;
        /// Rows of the largest chunks, a power of two.
        most_rows: u32 = 32768, 64 to 32768, "rows", fixed;
        /// Ids of rows and of values that are reserved with one fence; a crash loses those that are
        /// not used.
        reserve: u32 = 1024, 1 to 32768, "ids", fixed;
        /// Transactions that have changed something and are open at the same time, and those whose
        /// commit is not stamped yet.
        slots: u32 = 256, 2 to 256, "transactions", fixed;
        /// Share of the indexes, of keys and of dictionaries, by their number, that lie in
        /// persistent memory: they are there after a crash. The others lie in ordinary memory, and
        /// are built while transactions go on.
        placement: u32 = 0, 0 to 100, "%", fixed;
        /// 1: indexes of dictionaries that lie in persistent memory are hash tables, else skip
        /// lists. Those of keys are skip lists in any case, since scans need keys in their order.
        hashed: u32 = 0, 0 to 1, "(0 or 1)", fixed;
        /// The seed of hashes and of heights in skip lists. 0 takes a random one, so that values
        /// cannot be chosen to make searches slow; another one is for tests that have to be
        /// deterministic.
        seed: u64 = 0, 0 to u64::MAX, "number", fixed;
    }
}
