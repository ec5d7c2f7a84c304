//! Reads without locks, of what is committed and durable: see [`paged::recovery::Horizon`].
//!
//! A read that meets a page with a later change is in a conflict. It is to be run anew in a session,
//! under locks.

use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use paged::ids::{Lsn, TreeNo};
use paged::store::{RowLock, RowRange, RowScan};
use pm::{Bytes, Environment};
use storage::{PrimaryBytes, Row, StoredRow, Value};

use super::scan::{bound, direction};
use super::{PagedLog, Shared};
use crate::contract::{Scan, VersionSource};
use crate::error::EngineError;
use crate::shadow::dangling;
use crate::version::Version;

/// Memory for a row that a thread keeps from one read to the next.
const KEPT_BYTES: usize = 64 << 10;

thread_local! {
    static ROW: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `act` with memory for a row, which a thread uses again and again.
pub(super) fn with_memory<R>(act: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    // A thread that ends has none any more.
    let mut row = ROW.try_with(Cell::take).unwrap_or_default();
    let done = act(&mut row);
    if row.capacity() <= KEPT_BYTES {
        let _ = ROW.try_with(|kept| kept.set(row));
    }
    done
}

/// The source of reads without locks.
pub(super) struct Unlocked<E: Environment, L> {
    shared: Arc<Shared<E, L>>,
}

impl<E: Environment, L> Unlocked<E, L> {
    pub(super) fn of(shared: &Arc<Shared<E, L>>) -> Self {
        Self { shared: Arc::clone(shared) }
    }

    #[inline]
    fn read(
        &self,
        version: &Version,
        tree: TreeNo,
        key: &[u8],
        row: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        let read = self.shared.store.read_below(Lsn(version.horizon()), tree, key, row);
        read.map_err(|error| self.shared.named(error.into()))
    }
}

impl<E: Environment, L> fmt::Debug for Unlocked<E, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unlocked").field("store", &self.shared.store).finish()
    }
}

impl<E: Environment, L: PagedLog<E>> VersionSource for Unlocked<E, L> {
    fn lend(&self) -> Result<Version, EngineError> {
        self.shared.usable()?;
        Ok(Version::below(self.shared.store.horizon().0))
    }

    fn take_back(&self, _: Version) {}

    fn get_in(
        &self,
        version: &Version,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        let tables = &self.shared.tables;
        let key = tables.layout(table).primary_key(key)?;
        let (tree, stored) = (tables.tree(table, 0), row.stored_mut());
        let found = self.read(version, tree, key.bytes(&mut [0; 8]), stored)?;
        if found {
            tables.show(table, columns, row)?;
        }
        Ok(found)
    }

    fn get_bytes_in(
        &self,
        version: &Version,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        let tables = &self.shared.tables;
        let key = tables.layout(table).primary_key(key)?;
        with_memory(|row| {
            if !self.read(version, tables.tree(table, 0), key.bytes(&mut [0; 8]), row)? {
                return Ok(None);
            }
            Ok(Some(tables.row(table, row)?.read_bytes(columns, out)?))
        })
    }

    fn scan_in(
        &self,
        version: &Version,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        let Shared { tables, store, .. } = &*self.shared;
        let (index, layout) = (scan.index.map_or(0, |index| index + 1), tables.layout(table));
        let (low, high) = layout.key_range(index, scan.low, scan.high)?;
        let (mut low_bytes, mut high_bytes) = ([0; 8], [0; 8]);
        let range =
            RowRange { low: bound(&low, &mut low_bytes), high: bound(&high, &mut high_bytes) };
        let (tree, way) = (tables.tree(table, index), direction(scan.direction));
        let mut keys = RowScan::new(tree, &range, way, RowLock::None);
        let (mut left, mut primary) = (scan.limit, PrimaryBytes::default());
        while left != Some(0) && !keys.is_done() {
            let found = store.next_rows_below(Lsn(version.horizon()), &mut keys, left);
            let found = found.map_err(|error| self.shared.named(error.into()))?;
            left = left.map(|left| left.saturating_sub(found.len()));
            for (key, stored) in &found {
                if index == 0 {
                    row.stored_mut().extend_from_slice(stored);
                } else {
                    let own = layout.primary_of(index, Bytes::from(key), &mut primary);
                    if !self.read(version, tables.tree(table, 0), own, row.stored_mut())? {
                        return Err(dangling());
                    }
                }
                tables.show(table, scan.columns, row)?;
                if visit(row).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
