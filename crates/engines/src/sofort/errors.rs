//! Errors of the column store as those of an engine.

use column::ColumnError;

use super::tables::ColumnTables;
use crate::error::{ConflictReason, EngineError};

impl From<ColumnError> for EngineError {
    fn from(error: ColumnError) -> Self {
        match error {
            ColumnError::Outdated => Self::Conflict { reason: ConflictReason::Validation },
            ColumnError::Conflict => Self::Conflict { reason: ConflictReason::WriteWrite },
            // Others will end.
            ColumnError::Busy { .. } => Self::Conflict { reason: ConflictReason::Timeout },
            ColumnError::NameTaken => Self::NameTaken,
            ColumnError::Diverged => Self::Diverged,
            ColumnError::Heap(error) => error.into(),
            other => Self::Column(other),
        }
    }
}

impl ColumnTables {
    /// An error about a key of a table.
    pub(super) fn about_key(&self, table: u16, error: ColumnError) -> EngineError {
        match error {
            ColumnError::DuplicateKey => self.map.duplicate(table),
            ColumnError::MissingKey => self.map.missing(table),
            other => other.into(),
        }
    }
}
