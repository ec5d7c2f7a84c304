//! The options of NVM-Log.

use crate::options::engine_options;

engine_options! {
    /// The options of NVM-Log (P1 4.3).
    NvmLogOptions {
        /// Size of a node of the MemTable's and the runs' trees, a power of two (P1 5). Nodes of
        /// wide keys are larger.
        node_bytes: u32 = 512, 64 to 16384, "bytes", fixed;
        /// Size of a MemTable, after which it is frozen (P1 4.3).
        memtable_bytes: u64 = 32 << 20, 1 to u64::MAX, "bytes";
        /// The factor by which a level of runs is larger than the one above it (P1 3.3: `k`).
        growth: u32 = 10, 2 to 1_000_000, "times";
        /// Runs in the uppermost level that call for a merge (P1 3.3).
        level0_runs: u32 = 4, 1 to 12, "runs";
    }
}
