//! The options of NV-Disk.

use crate::options::engine_options;

engine_options! {
    /// The options of NV-Disk (P2 3.1).
    NvDiskOptions {
        /// Size of a page, a power of two (P2 6.1: 8 KB).
        page_bytes: u32 = 8192, 512 to 32768, "bytes", fixed;
        /// Memory for the buffer pool of a partition. Its other memory is bounded, whatever its
        /// data.
        buffer_bytes: u64 = 256 << 20, 8192 to u64::MAX, "bytes";
        /// The most bytes of the log of a partition (P2 6.1: 3 GB). It takes what is needed.
        log_bytes: u64 = 3 << 30, 65536 to 32 << 30, "bytes", fixed;
        /// Memory for the log's buffer (P2 6.1: 80 MB).
        log_buffer_bytes: u64 = 80 << 20, 262144 to 1 << 32, "bytes";
        /// Bytes of log after which a checkpoint is due.
        checkpoint_bytes: u64 = 16 << 20, 4096 to u64::MAX, "bytes";
        /// The part of a restart before the database is open: 1 redoes and undoes everything (P2),
        /// 0 redoes a page when it is first used, and the rest while transactions run.
        full_restart: u32 = 0, 0 to 1, "(0 or 1)";
        /// Early lock release (P2 2.2): with 1 locks go when a commit has its place in the log,
        /// with 0 when it is durable.
        early_release: u32 = 1, 0 to 1, "on or off";
        /// The longest time that a group of commits waits for the threads of the last one. It also
        /// waits for half of a sync at most. With 0 none waits (P2).
        group_wait_us: u64 = 5000, 0 to 1_000_000, "microseconds";
        /// Speculative lock inheritance (P2 2.2): a session keeps the lock of a table for its next
        /// transaction when it has been granted so often; with 0 none is kept.
        inherit_after: u64 = 8, 0 to u64::MAX, "grants";
    }
}
