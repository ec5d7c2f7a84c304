//! The breakdown of a run by purpose (P1 5.5, F13).

use pm::Component;
use serde::{Deserialize, Serialize};
use sim::{LineCounts, Meter};

/// Counts by what the work was for; their sum is that of the whole run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Breakdown {
    /// Tuples and fields.
    pub storage: LineCounts,
    /// Logs, checkpoints, master records, and what makes them durable.
    pub recovery: LineCounts,
    /// Indexes and directories.
    pub index: LineCounts,
    /// All else.
    pub other: LineCounts,
}

impl Breakdown {
    /// The breakdown of what was counted since the meter was reset.
    #[must_use]
    pub fn of(meter: &Meter) -> Self {
        let mut breakdown = Self::default();
        for (component, counts) in meter.components() {
            *match component {
                Component::Storage => &mut breakdown.storage,
                Component::Recovery => &mut breakdown.recovery,
                Component::Index => &mut breakdown.index,
                Component::Other => &mut breakdown.other,
            } += counts;
        }
        breakdown
    }
}
