//! The options of InP.

use crate::options::engine_options;

engine_options! {
    /// The options of InP (P1 3.1).
    InpOptions {
        /// Size of a node of an index, a power of two (P1 5). Nodes of wide keys are larger.
        node_bytes: u32 = 512, 64 to 16384, "bytes", fixed;
        /// Log after which a checkpoint is taken, or the size of the last checkpoint if that is
        /// more; what is reserved ahead does not count (P1 3.1).
        checkpoint_bytes: u64 = 256 << 20, 1 to u64::MAX, "bytes";
        /// Steps in which space for the log is reserved ahead. By default, with more than 16
        /// partitions, each has its share of 64 MiB.
        wal_reserve_bytes: u64 = 4 << 20, 1 to u64::MAX, "bytes";
        /// Size of the log's buffer in volatile memory.
        wal_buffer_bytes: u64 = 256 << 10, 4096 to 16 << 20, "bytes";
    }
}
