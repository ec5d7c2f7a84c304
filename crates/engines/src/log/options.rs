//! The options of Log.

use crate::options::engine_options;

engine_options! {
    /// The options of Log (P1 3.3).
    LogOptions {
        /// Size of a node of a MemTable's trees, a power of two (P1 5). Nodes of wide keys are
        /// larger.
        node_bytes: u32 = 512, 64 to 16384, "bytes", fixed;
        /// Size of a MemTable, after which it is written out (P1 3.3).
        memtable_bytes: u64 = 32 << 20, 1024 to u64::MAX, "bytes";
        /// The factor by which a level of runs is larger than the one above it (P1 3.3: `k`).
        growth: u32 = 10, 2 to 1_000_000, "times";
        /// Runs in the uppermost level that call for a merge (P1 3.3).
        level0_runs: u32 = 4, 1 to 1_000_000, "runs";
        /// Size of a block of an SSTable.
        block_bytes: u32 = 4 << 10, 256 to 1 << 20, "bytes";
        /// Volatile memory for the cache of blocks of a partition.
        cache_bytes: u64 = 256 << 20, 0 to u64::MAX, "bytes";
        /// Steps in which space for the log is reserved ahead. By default, with more than 16
        /// partitions, each has its share of 64 MiB.
        wal_reserve_bytes: u64 = 4 << 20, 1 to u64::MAX, "bytes";
        /// Size of the log's buffer in volatile memory.
        wal_buffer_bytes: u64 = 256 << 10, 4096 to 16 << 20, "bytes";
    }
}
