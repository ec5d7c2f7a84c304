//! The list of all engines.
//!
//! From a line below come the `EngineKind` with its name (`kind.rs`), the `EngineOptions` and how a
//! partition is created and opened under it (`kinds.rs`), and the `OwnStats` (`own.rs`). Everything
//! else about an engine is in its own files: see `Method`.

/// Gives the list to another macro: of each engine what it is, its type, its name, its options, its
/// statistics.
macro_rules! with_engines {
    ($then:ident) => {
        $then! {
            /// In-place updates with a file write-ahead log and checkpoints (P1 3.1).
            Inp, "inp", InpOptions, InpStats;
            /// Copy-on-write updates in a file of pages (P1 3.2).
            Cow, "cow", CowOptions, CowStats;
            /// Log-structured updates with a file write-ahead log and SSTables (P1 3.3).
            Log, "log", LogOptions, LogStats;
            /// NVM-aware in-place updates (P1 4.1).
            NvmInp, "nvm-inp", NvmInpOptions, NvmInpStats;
            /// NVM-aware copy-on-write updates (P1 4.2).
            NvmCow, "nvm-cow", NvmCowOptions, NvmCowStats;
            /// NVM-aware log-structured updates (P1 4.3).
            NvmLog, "nvm-log", NvmLogOptions, NvmLogStats;
            /// Pages in a buffer pool, row locks, and ARIES over a central log (P2 3.1).
            NvDisk, "nv-disk", NvDiskOptions, NvDiskStats;
            /// The same over a log in persistent memory, durable record by record (P2 4.3).
            NvLoggingFoi, "nv-logging-foi", NvLoggingFoiOptions, NvLoggingFoiStats;
            /// The same, durable when a transaction commits (P2 4.3).
            NvLoggingFoc, "nv-logging-foc", NvLoggingFocOptions, NvLoggingFocStats;
            /// Slotted pages in persistent memory, committed in place by one header (P3 4.2).
            Fast, "fast", FastOptions, FastStats;
            /// The same pages, whose headers are logged (P3 4.1).
            Fash, "fash", FashOptions, FashStats;
            /// The same pages in volatile memory, of which what differs is logged (P3 2.2).
            Nvwal, "nvwal", NvwalOptions, NvwalStats;
            /// The same, of which whole pages are saved before a change (P3 2.1, Figure 1a).
            Journal, "journal", JournalOptions, JournalStats;
            /// The same, of which whole pages are logged (P3 2.1, Figure 1b).
            Wal, "wal", WalOptions, WalStats;
            /// Columns and versions in persistent memory, without a log (P4).
            Sofort, "sofort", SofortOptions, SofortStats;
        }
    };
}
pub(crate) use with_engines;
