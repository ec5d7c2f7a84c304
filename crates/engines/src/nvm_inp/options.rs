//! The options of NVM-InP.

use crate::options::engine_options;

engine_options! {
    /// The options of NVM-InP (P1 4.1).
    NvmInpOptions {
        /// Size of a node of an index, a power of two (P1 5). Nodes of wide keys are larger.
        node_bytes: u32 = 512, 64 to 16384, "bytes", fixed;
    }
}
