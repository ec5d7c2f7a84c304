//! The options of NV-Logging.

use paged::log::nv::{NvForm, NvOptions, Persist};
use paged::store::Restart;

use crate::options::engine_options;

engine_options! {
    /// The options of NV-Logging with flush-on-insert (P2 4).
    NvLoggingFoiOptions {
        /// Size of a page, a power of two (P2 6.1: 8 KB).
        page_bytes: u32 = 8192, 512 to 32768, "bytes", fixed;
        /// Memory for the buffer pool of a partition.
        buffer_bytes: u64 = 256 << 20, 8192 to u64::MAX, "bytes";
        /// Persistent memory for the log of a partition (P2 6.1: 80 MB), taken when it is created;
        /// a quarter of the pool at most, for all partitions together.
        log_bytes: u64 = 80 << 20, 65536 to 1 << 30, "bytes", fixed;
        /// Entries of the log's ring, a power of two; one for each 512 bytes of the log at most.
        log_entries: u64 = 1 << 17, 64 to 1 << 21, "entries", fixed;
        /// Entries of the log after which a checkpoint is due (P2 6.1: 80 K), or five eighths of
        /// the ring.
        checkpoint_entries: u64 = 80_000, 16 to u64::MAX, "entries";
        /// The part of a restart before the database is open: 1 redoes and undoes everything (P2
        /// 4.6), 0 redoes a page when it is first used, and the rest while transactions run.
        full_restart: u32 = 0, 0 to 1, "(0 or 1)";
    }
}

engine_options! {
    /// The options of NV-Logging with flush-on-commit (P2 4).
    NvLoggingFocOptions {
        /// Size of a page, a power of two (P2 6.1: 8 KB).
        page_bytes: u32 = 8192, 512 to 32768, "bytes", fixed;
        /// Memory for the buffer pool of a partition.
        buffer_bytes: u64 = 256 << 20, 8192 to u64::MAX, "bytes";
        /// Persistent memory for the log of a partition (P2 6.1: 80 MB), taken when it is created;
        /// a quarter of the pool at most, for all partitions together.
        log_bytes: u64 = 80 << 20, 65536 to 1 << 30, "bytes", fixed;
        /// Entries of the log's ring, a power of two; one for each 512 bytes of the log at most.
        log_entries: u64 = 1 << 17, 64 to 1 << 21, "entries", fixed;
        /// Entries of the log after which a checkpoint is due (P2 6.1: 80 K), or five eighths of
        /// the ring.
        checkpoint_entries: u64 = 80_000, 16 to u64::MAX, "entries";
        /// The part of a restart before the database is open: 1 redoes and undoes everything (P2
        /// 4.6), 0 redoes a page when it is first used, and the rest while transactions run.
        full_restart: u32 = 0, 0 to 1, "(0 or 1)";
        /// With 1 a thread of the partition makes log objects durable in the background. With 0,
        /// and in recordings and emulated memory, commits do so alone.
        persister: u32 = 1, 0 to 1, "threads";
    }
}

/// The sizes among the options, and from where on a checkpoint is due.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub(super) page_bytes: u32,
    pub(super) buffer_bytes: u64,
    log_bytes: u64,
    log_entries: u64,
    checkpoint_entries: u64,
    full_restart: u32,
}

const LEAST_RECORD_BYTES: u64 = 1024;

impl Sizes {
    /// The form of a log that takes at most `most` bytes, if any log fits them, with pages of this
    /// size.
    pub(super) fn form(&self, most: u64, page_bytes: usize) -> NvForm {
        // The bytes of a page before and after the change, and the rest of the record.
        let record_bytes = (page_bytes as u64 * 5 / 2).max(LEAST_RECORD_BYTES);
        NvForm::of_bytes(self.log_bytes.min(most), self.log_entries, record_bytes)
    }

    pub(super) fn restart(&self) -> Restart {
        if self.full_restart == 0 { Restart::OnDemand } else { Restart::Full }
    }

    pub(super) fn log_options(&self, persist: Persist) -> NvOptions {
        NvOptions { persist, checkpoint_records: self.checkpoint_entries, ..NvOptions::default() }
    }
}

macro_rules! sizes_of {
    ($options:ident) => {
        impl From<&$options> for Sizes {
            fn from(options: &$options) -> Self {
                let $options {
                    page_bytes,
                    buffer_bytes,
                    log_bytes,
                    log_entries,
                    checkpoint_entries,
                    full_restart,
                    ..
                } = *options;
                Self {
                    page_bytes,
                    buffer_bytes,
                    log_bytes,
                    log_entries,
                    checkpoint_entries,
                    full_restart,
                }
            }
        }
    };
}

sizes_of!(NvLoggingFoiOptions);
sizes_of!(NvLoggingFocOptions);
