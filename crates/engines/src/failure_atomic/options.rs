//! The options of the engines on slotted pages.

use crate::options::engine_options;

engine_options! {
    /// The options of FAST (P3 4.2).
    FastOptions {
        /// Size of a page, a power of two (P3 5: 1 KB); larger where the widest key
        /// needs it, and twice as large where only then rows lie in it that have no page of their own.
        page_bytes: u32 = 4096, 512 to 32768, "bytes", fixed;
    }
}

engine_options! {
    /// The options of FASH (P3 4.1).
    FashOptions {
        /// Size of a page, a power of two (P3 5: 1 KB); larger where the widest key
        /// needs it, and twice as large where only then rows lie in it that have no page of their own.
        page_bytes: u32 = 4096, 512 to 32768, "bytes", fixed;
    }
}

engine_options! {
    /// The options of NVWAL (P3 2.2).
    NvwalOptions {
        /// Size of a page, a power of two (P3 5: 1 KB); larger where the widest key
        /// needs it, and twice as large where only then rows lie in it that have no page of their own.
        page_bytes: u32 = 4096, 512 to 32768, "bytes", fixed;
    }
}
