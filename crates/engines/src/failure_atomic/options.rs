//! The options of the engines on slotted pages.

use crate::options::engine_options;

macro_rules! slotted_options {
    (
        $(
            #[doc = $about:literal]
            $name:ident { $($more:tt)* }
        )+
    ) => {$(
        engine_options! {
            #[doc = $about]
            $name {
                /// Size of a page, a power of two (P3 5: 1 KB); larger where the widest key
                /// needs it, and twice as large where only then rows lie in it that have no page of
                /// their own.
                page_bytes: u32 = 4096, 512 to 32768, "bytes", fixed;
                $($more)*
            }
        }
    )+};
}

slotted_options! {
    /// The options of FAST (P3 4.2).
    FastOptions {
        /// 1: a commit in place of one record has one fence, and checksums say whether it is whole
        /// (a form that P3 does not have); 0: two, as in P3.
        checksummed: u32 = 0, 0 to 1, "on or off", fixed;
    }

    /// The options of FASH (P3 4.1).
    FashOptions {
        /// 1: a commit has one fence, and the log's checksum covers the records (a form that P3
        /// does not have); 0: three, as in P3.
        checksummed: u32 = 0, 0 to 1, "on or off", fixed;
    }

    /// The options of NVWAL (P3 2.2).
    NvwalOptions {
        /// A commit that brings the log to so many frames is followed by a checkpoint (SQLite:
        /// 1,000).
        checkpoint_frames: u32 = 1000, 1 to 1_000_000, "frames";
    }

    /// The options of the rollback journal (P3 2.1).
    JournalOptions {}

    /// The options of the write-ahead log of pages (P3 2.1).
    WalOptions {
        /// A commit that brings the log to so many frames is followed by a checkpoint (SQLite:
        /// 1,000).
        checkpoint_frames: u32 = 1000, 1 to 1_000_000, "frames";
    }
}
