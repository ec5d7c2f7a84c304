//! What NVM-InP counts.

use crate::stats::{EngineCounts, engine_stats};

engine_stats! {
    /// What NVM-InP counts and others do not: nothing, for it writes tuples in place and puts
    /// nothing off.
    NvmInpStats {}
}

impl EngineCounts for NvmInpStats {
    fn written_bytes(&self) -> u64 {
        0
    }
}
