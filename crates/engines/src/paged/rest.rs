//! Reads everything that can be read of a partition with damaged pages.

use std::ops::Bound;

use paged::PagedError;
use paged::store::RowBound;
use pm::Environment;
use storage::{Row, StoredRow, Value};

use super::scan::bound;
use super::{Paged, Shared};
use crate::error::EngineError;

impl<E: Environment, L> Shared<E, L> {
    /// The same error, with the file that a damaged page is in.
    pub(super) fn named(&self, error: EngineError) -> EngineError {
        match error {
            EngineError::Paged(error @ PagedError::DamagedPage { .. }) => {
                let (name, what) = (format!("{}pages", self.prefix), error.to_string());
                EngineError::Paged(PagedError::WrongPages { name, what })
            }
            other => other,
        }
    }
}

impl<E: Environment, L> Paged<E, L> {
    /// Finds all leaves that can be read; returns the errors of pages that cannot.
    pub(super) fn look_for_rest(&mut self) -> Vec<EngineError> {
        let damaged = self.shared.store.find_leaves();
        self.knows_rest = true;
        damaged.into_iter().map(|error| self.shared.named(error.into())).collect()
    }

    /// Reads the first row after a primary key that can be read, after [`Self::look_for_rest`].
    pub(super) fn row_behind(
        &self,
        table: u16,
        after: Option<&[Value<'_>]>,
        row: &mut Row,
    ) -> Option<bool> {
        if !self.knows_rest {
            return None;
        }
        let tables = &self.shared.tables;
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (after, _) = tables.layout(table).key_range(0, after, Bound::Unbounded).ok()?;
        let mut narrow = [0; 8];
        let after = match bound(&after, &mut narrow) {
            RowBound::Unbounded => None,
            RowBound::Included(key) | RowBound::Excluded(key) => Some(key),
        };
        let tree = tables.tree(table, 0);
        let Some((_, found)) = self.shared.store.next_readable(tree, after) else {
            return Some(false);
        };
        tables.row(table, &found).ok()?.read(None, row).ok()?;
        Some(true)
    }
}
