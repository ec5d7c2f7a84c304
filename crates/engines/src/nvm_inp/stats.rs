//! The counters of NVM-InP.

use crate::counts::{EngineCounts, engine_stats};

engine_stats! {
    /// The counters of NVM-InP that others do not have: nothing, for it writes tuples in place and
    /// puts nothing off.
    NvmInpStats {}
}

impl EngineCounts for NvmInpStats {
    fn written_bytes(&self) -> u64 {
        0
    }
}
