//! Storage by component.

use perdura::{Database, Footprint};

use crate::failure::Failure;

/// Bytes by component; what a store does not tell apart is in `other`, and what it cannot know is
/// `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FootprintBytes {
    table: Option<u64>,
    index: Option<u64>,
    log: Option<u64>,
    checkpoint: Option<u64>,
    other: u64,
}

impl FootprintBytes {
    /// All components together.
    pub fn sum(&self) -> u64 {
        let parts = [self.table, self.index, self.log, self.checkpoint];
        parts.iter().flatten().sum::<u64>() + self.other
    }

    /// Returns that of a peer, of which only the sum is known.
    pub fn of_peer(bytes: u64) -> Self {
        Self { table: None, index: None, log: None, checkpoint: None, other: bytes }
    }

    /// Returns that of a database.
    ///
    /// # Errors
    /// As [`Database::footprint`].
    pub fn of_database(database: &Database) -> Result<Self, Failure> {
        Ok(database.footprint()?.into())
    }
}

impl From<Footprint> for FootprintBytes {
    fn from(found: Footprint) -> Self {
        Self {
            table: Some(found.table),
            index: Some(found.index),
            log: Some(found.log),
            checkpoint: Some(found.checkpoint),
            other: found.other,
        }
    }
}
