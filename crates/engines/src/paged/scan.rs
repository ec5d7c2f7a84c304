//! Rows that a scan copies a few at a time, so that nothing is held while they are shown.
//!
//! A scan of a secondary index locks the keys of the index, and then the rows that they lead to.
//! A scan that skips what others have locked locks the rows alone: a transaction that changes or
//! inserts a row has its lock before it changes a key of an index. Once the row is locked, the scan
//! checks whether it still has the key.

use std::collections::VecDeque;
use std::ops::Bound;

use index::Direction;
use paged::store::{RowBound, RowLock, RowRange, RowScan, Session};
use pm::{Bytes, Environment};
use storage::{PrimaryBytes, TableKey};

use super::Paged;
use crate::contract::ScanLocks;
use crate::error::EngineError;
use crate::packed_tables::key_of;
use crate::shadow::dangling;

/// A bound of a range of keys, as sessions take it.
pub(super) fn bound<'k>(bound: &'k Bound<TableKey>, narrow: &'k mut [u8; 8]) -> RowBound<'k> {
    match bound {
        Bound::Unbounded => RowBound::Unbounded,
        Bound::Included(key) => RowBound::Included(key.bytes(narrow)),
        Bound::Excluded(key) => RowBound::Excluded(key.bytes(narrow)),
    }
}

/// A direction, as sessions take it.
pub(super) fn direction(direction: Direction) -> paged::tree::Direction {
    match direction {
        Direction::Forward => paged::tree::Direction::Forward,
        Direction::Backward => paged::tree::Direction::Backward,
    }
}

/// A scan of a table, between its batches.
pub(super) struct TableScan {
    table: u16,
    index: usize,
    locks: ScanLocks,
    keys: RowScan,
    /// Keys of an index whose rows are not looked at yet: nothing of them is locked.
    ahead: VecDeque<Vec<u8>>,
}

impl TableScan {
    fn is_done(&self) -> bool {
        self.ahead.is_empty() && self.keys.is_done()
    }
}

impl<E: Environment, L> Paged<E, L> {
    /// A scan of a range of a table, in the order of an index.
    pub(super) fn table_scan(
        &self,
        (table, index): (u16, usize),
        range: &RowRange<'_>,
        direction: Direction,
        locks: ScanLocks,
    ) -> TableScan {
        let lock = match locks {
            ScanLocks::Read => RowLock::Shared,
            ScanLocks::Update => RowLock::Update,
            ScanLocks::UpdateOrSkip if index == 0 => RowLock::UpdateOrSkip,
            ScanLocks::UpdateOrSkip => RowLock::None,
        };
        let keys = RowScan::new(
            self.shared.tables.tree(table, index),
            range,
            self::direction(direction),
            lock,
        );
        TableScan { table, index, locks, keys, ahead: VecDeque::new() }
    }

    /// Copies the next rows of a scan, so many at most if that is known; `None` at its end.
    pub(super) fn copy(
        &self,
        session: &mut Session<E::Files>,
        scan: &mut TableScan,
        most: Option<usize>,
    ) -> Result<Option<Vec<Vec<u8>>>, EngineError> {
        if scan.is_done() {
            return Ok(None);
        }
        if scan.index > 0 && scan.locks == ScanLocks::UpdateOrSkip {
            return self.claim_some(session, scan, most.unwrap_or(1)).map(Some);
        }
        let found = session.next_rows(&mut scan.keys, most)?;
        if scan.index == 0 {
            return Ok(Some(found.into_iter().map(|(_, row)| row).collect()));
        }
        let (layout, tree) =
            (self.shared.tables.layout(scan.table), self.shared.tables.tree(scan.table, 0));
        let (mut primary, mut rows) = (PrimaryBytes::default(), Vec::with_capacity(found.len()));
        for (key, _) in &found {
            let own = layout.primary_of(scan.index, Bytes::from(key), &mut primary);
            let row = match scan.locks {
                ScanLocks::Read => session.get(tree, own)?,
                ScanLocks::Update | ScanLocks::UpdateOrSkip => session.get_for_update(tree, own)?,
            };
            rows.push(row.ok_or_else(dangling)?);
        }
        Ok(Some(rows))
    }

    /// Locks and copies up to so many rows of the next keys of an index.
    fn claim_some(
        &self,
        session: &mut Session<E::Files>,
        scan: &mut TableScan,
        most: usize,
    ) -> Result<Vec<Vec<u8>>, EngineError> {
        if scan.ahead.is_empty() {
            let found = session.next_rows(&mut scan.keys, None)?;
            scan.ahead.extend(found.into_iter().map(|(key, _)| key));
        }
        let mut rows = Vec::new();
        while rows.len() < most
            && let Some(key) = scan.ahead.pop_front()
        {
            rows.extend(self.claim(session, (scan.table, scan.index), &key)?);
        }
        Ok(rows)
    }

    /// Locks the row that a key of an index leads to, if no other transaction has it locked and it
    /// has that key.
    fn claim(
        &self,
        session: &mut Session<E::Files>,
        (table, index): (u16, usize),
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let (tables, mut primary) = (&self.shared.tables, PrimaryBytes::default());
        let primary = tables.layout(table).primary_of(index, Bytes::from(key), &mut primary);
        let Some(mut tried) = session.try_get_for_update(tables.tree(table, 0), primary)? else {
            return Ok(None);
        };
        if let Some(row) = tried.row.take()
            && key_of(tables, table, &row, index)?.bytes(&mut [0; 8]) == key
        {
            return Ok(Some(row));
        }
        session.let_go(&tried);
        Ok(None)
    }
}
