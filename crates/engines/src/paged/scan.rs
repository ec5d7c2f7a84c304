//! Rows that a scan copies a few at a time, so that nothing is held while they are shown.

use std::ops::Bound;

use index::Direction;
use paged::PagedError;
use paged::store::{RowBound, RowRange, Session};
use pm::{Bytes, Environment};
use storage::{PrimaryBytes, TableKey};

use super::Paged;
use crate::error::EngineError;
use crate::shadow::dangling;

/// Rows that a scan copies before it shows them.
const SCAN_ROWS: usize = 64;

/// A bound of a range of keys, as sessions take it.
pub(super) fn bound<'k>(bound: &'k Bound<TableKey>, narrow: &'k mut [u8; 8]) -> RowBound<'k> {
    match bound {
        Bound::Unbounded => RowBound::Unbounded,
        Bound::Included(key) => RowBound::Included(key.bytes(narrow)),
        Bound::Excluded(key) => RowBound::Excluded(key.bytes(narrow)),
    }
}

/// Rows that a scan has copied, and where it goes on.
#[derive(Default)]
pub(super) struct Copied {
    pub(super) rows: Vec<Vec<u8>>,
    /// The last key, if there may be more behind it.
    pub(super) last: Option<Vec<u8>>,
}

impl<E: Environment, L> Paged<E, L> {
    /// Copies the next rows of a scan.
    pub(super) fn copy(
        &self,
        session: &mut Session<E::Files>,
        table: u16,
        index: usize,
        range: &RowRange<'_>,
        direction: Direction,
    ) -> Result<Copied, EngineError> {
        let tables = &self.shared.tables;
        let mut copied = Copied::default();
        let mut keys = Vec::new();
        let direction = match direction {
            Direction::Forward => paged::tree::Direction::Forward,
            Direction::Backward => paged::tree::Direction::Backward,
        };
        let scanned = session.scan(tables.tree(table, index), range, direction, &mut |key, row| {
            if index == 0 {
                copied.rows.push(row.to_vec());
            }
            keys.push(key.to_vec());
            Ok(keys.len() < SCAN_ROWS)
        });
        let is_whole = scanned.is_ok() && keys.len() < SCAN_ROWS;
        match scanned {
            // What comes before is shown first: the next rows begin with the damage.
            Err(PagedError::DamagedPage { .. }) if !keys.is_empty() => {}
            other => other?,
        }
        if index > 0 {
            let mut primary = PrimaryBytes::default();
            for key in &keys {
                let key = tables.layout(table).primary_of(index, Bytes::from(key), &mut primary);
                let row = session.get(tables.tree(table, 0), key)?.ok_or_else(dangling)?;
                copied.rows.push(row);
            }
        }
        copied.last = if is_whole { None } else { keys.pop() };
        Ok(copied)
    }
}
