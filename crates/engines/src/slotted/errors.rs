//! The mapping of a store's errors to those of an engine.

use slotted::SlottedError;

use crate::error::EngineError;

impl From<SlottedError> for EngineError {
    fn from(error: SlottedError) -> Self {
        match error {
            SlottedError::Heap(error) => error.into(),
            SlottedError::Failed => Self::MustAbort,
            SlottedError::NoSavepoint => Self::NoSavepoint,
            other => Self::Slotted(other),
        }
    }
}
