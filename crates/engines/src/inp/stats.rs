//! What InP counts.

use crate::stats::{EngineCounts, engine_stats};

engine_stats! {
    /// What InP counts and others do not.
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
