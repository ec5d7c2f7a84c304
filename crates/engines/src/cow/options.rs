//! The options of CoW.

use crate::options::engine_options;

engine_options! {
    /// The options of CoW (P1 3.2).
    CowOptions {
        /// Size of a page of the file, a multiple of 64 (P1 3.2: 4 KB).
        page_bytes: u32 = 4096, 128 to 32768, "bytes", fixed;
        /// Volatile memory for the cache of pages of a partition.
        cache_bytes: u64 = 256 << 20, 0 to u64::MAX, "bytes";
    }
}
