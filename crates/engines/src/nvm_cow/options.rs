//! The options of NVM-CoW.

use crate::options::engine_options;

engine_options! {
    /// The options of NVM-CoW (P1 4.2).
    NvmCowOptions {
        /// Size of a node of the copy-on-write trees, a multiple of 64; trees with wide keys have
        /// larger ones. Four have to fit into an eighth of a chunk: beyond 7 KiB, choose larger
        /// chunks.
        tree_node_bytes: u32 = 256, 128 to 32768, "bytes", fixed;
    }
}
