//! The counters of InP.

use crate::counts::{EngineCounts, engine_stats};

engine_stats! {
    /// The counters of InP that others do not have.
    InpStats {
        /// Checkpoints that were completed.
        checkpoints: u64;
        /// Bytes of their files.
        checkpoint_bytes: u64;
    }
}

impl EngineCounts for InpStats {
    /// None: checkpoints do not count.
    fn written_bytes(&self) -> u64 {
        0
    }
}
