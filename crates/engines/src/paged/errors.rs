//! Errors of the storage manager as those of an engine.

use paged::{Conflict, PagedError};
use pm::Bad;

use crate::error::{ConflictReason, EngineError};

impl From<PagedError> for EngineError {
    fn from(error: PagedError) -> Self {
        let conflict = |reason| Self::Conflict { reason };
        match error {
            PagedError::Conflict(Conflict::Deadlock) => conflict(ConflictReason::Deadlock),
            PagedError::Conflict(Conflict::Timeout | Conflict::Room) => {
                conflict(ConflictReason::Timeout)
            }
            // Another transaction has changed what was to be read without locks.
            PagedError::TooOld => conflict(ConflictReason::Validation),
            PagedError::Stopped { why } => Self::Stopped { why },
            other => Self::Paged(other),
        }
    }
}

/// Pages are marked as used, and nothing leads to them.
pub(super) fn lost_pages(pages: u64) -> EngineError {
    Bad::Damaged { what: "map of pages: some are lost", at: pages }.into()
}
