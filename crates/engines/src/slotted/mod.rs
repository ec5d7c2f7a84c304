//! A partition of the engines on slotted pages in persistent memory (P3): tables and indexes as
//! trees of a [`slotted::Store`]. An engine says with which scheme a transaction commits.
//!
//! | operation | steps (P3 3.2, 4.1) |
//! |---|---|
//! | INSERT | put the row into the free space of its leaf, its offset into the draft of the header; the same in each secondary index |
//! | UPDATE | put the new row into free space, swap its offset for the old one; in each index that has a changed column, drop the old key and put the new one |
//! | DELETE | drop the row's offset from the draft; the same in each secondary index |
//! | COMMIT | flush the records; make the headers count, as the scheme does |
//! | ABORT | forget the drafts |
//!
//! Recovery is that of the scheme's log (P3 4.4), and does not grow with the data.
//!
//! Invariants: those of [`slotted`]. An operation on several trees has a savepoint before it: if it
//! fails, nothing of it is left.

mod check;
mod errors;
mod method;

use std::ops::{Bound, ControlFlow};

use index::Direction;
use pm::{Bytes, Environment};
use slotted::Direction as Way;
use slotted::{Commits, Savepoint, SlottedError, Store};
use storage::{PrimaryBytes, Row, StoredRow, TableKey, Value, pack_row, user_bytes};

use crate::contract::{Engine, Footprint, Read, Scan, Write};
use crate::error::{EngineError, sound};
use crate::packed_tables::{PackedTables, key_of, secondary};
use crate::savepoints::Savepoints;
use crate::shadow::dangling;
use crate::state::State;
use crate::stats::EngineStats;

pub(crate) use method::SlottedScheme;

/// A partition; see the module's comment.
#[derive(Debug)]
pub struct Slotted<E: Environment, S: SlottedScheme<E>> {
    store: Store<E::Durable, S>,
    memory: E::Durable,
    tables: PackedTables,
    state: State,
    savepoints: Savepoints<Savepoint>,
    /// The number of the last committed transaction.
    number: u64,
    user_bytes: u64,
    /// The commits of creation.
    before: Commits,
    buffers: Buffers,
}

/// Rows before and after a change.
#[derive(Default, Debug)]
struct Buffers {
    old: Vec<u8>,
    new: Vec<u8>,
}

impl<E: Environment, S: SlottedScheme<E>> Slotted<E, S> {
    fn over(store: Store<E::Durable, S>, memory: E::Durable, tables: PackedTables) -> Self {
        Self {
            before: store.commits(),
            store,
            memory,
            tables,
            state: State::default(),
            savepoints: Savepoints::default(),
            number: 0,
            user_bytes: 0,
            buffers: Buffers::default(),
        }
    }

    fn usable(&self) -> Result<(), EngineError> {
        self.state.usable(&self.memory)
    }

    /// Copies the stored row with this key into `out`; returns whether there is one.
    fn stored(
        &self,
        table: u16,
        key: &[Value<'_>],
        out: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        let key = self.tables.layout(table).primary_key(key)?;
        let tree = self.tables.tree(table, 0);
        Ok(self.store.get_into(tree, key.bytes(&mut [0; 8]), out)?)
    }

    /// Does a change of several trees, or of one. If it fails, nothing of it is left.
    fn change<R>(
        &mut self,
        several: bool,
        act: impl FnOnce(
            &PackedTables,
            &mut Store<E::Durable, S>,
            &mut Buffers,
        ) -> Result<R, EngineError>,
    ) -> Result<R, EngineError> {
        self.usable()?;
        let Self { store, tables, buffers, .. } = self;
        if !several {
            return act(tables, store, buffers);
        }
        let before = store.savepoint()?;
        let done = act(tables, store, buffers);
        let settled = match &done {
            Ok(_) => store.release(before),
            Err(_) => store.rollback_to(before).and_then(|()| store.release(before)),
        };
        if let Err(error) = settled {
            self.state.must_abort();
            return Err(error.into());
        }
        done
    }
}

impl<E: Environment, S: SlottedScheme<E>> Read for Slotted<E, S> {
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.usable()?;
        sound(&self.memory, || {
            let mut stored = Vec::new();
            if !self.stored(table, key, &mut stored)? {
                return Ok(false);
            }
            self.tables.row(table, &stored)?.read(columns, row)?;
            Ok(true)
        })
    }

    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        self.usable()?;
        sound(&self.memory, || {
            let mut stored = Vec::new();
            if !self.stored(table, key, &mut stored)? {
                return Ok(None);
            }
            Ok(Some(self.tables.row(table, &stored)?.read_bytes(columns, out)?))
        })
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.usable()?;
        sound(&self.memory, || {
            let mut show = |stored: &[u8]| {
                self.tables.row(table, stored)?.read(scan.columns, row)?;
                Ok(visit(row))
            };
            self.scan_rows(table, scan, &mut show)
        })
    }
}

/// A visitor of stored rows.
type Show<'a> = &'a mut dyn FnMut(&[u8]) -> Result<ControlFlow<()>, EngineError>;

impl<E: Environment, S: SlottedScheme<E>> Slotted<E, S> {
    /// Calls `show` with the stored rows of a range, in order, until it breaks.
    fn scan_rows(&self, table: u16, scan: &Scan<'_>, show: Show<'_>) -> Result<(), EngineError> {
        let (store, layout) = (&self.store, self.tables.layout(table));
        let index = scan.index.map_or(0, |index| index + 1);
        let (low, high) = layout.key_range(index, scan.low, scan.high)?;
        let (mut low_bytes, mut high_bytes) = ([0; 8], [0; 8]);
        let (low, high) = (bytes(&low, &mut low_bytes), bytes(&high, &mut high_bytes));
        let (from, to, way) = match scan.direction {
            Direction::Forward => (low, high, Way::Forward),
            Direction::Backward => (high, low, Way::Backward),
        };
        let (mut row, mut primary_bytes) = (Vec::new(), PrimaryBytes::default());
        let mut failed = Ok(());
        store.scan_from(self.tables.tree(table, index), from, way, |key, value| {
            if is_beyond(key, to, way) {
                return ControlFlow::Break(());
            }
            let mut next = || {
                if index == 0 {
                    return show(value);
                }
                let primary = layout.primary_of(index, Bytes::from(key), &mut primary_bytes);
                if !store.get_into(self.tables.tree(table, 0), primary, &mut row)? {
                    return Err(dangling());
                }
                show(&row)
            };
            next().unwrap_or_else(|error| {
                failed = Err(error);
                ControlFlow::Break(())
            })
        })?;
        failed
    }
}

/// Returns whether a scan has come past its end.
fn is_beyond(key: &[u8], end: Bound<&[u8]>, way: Way) -> bool {
    let (end, last) = match end {
        Bound::Unbounded => return false,
        Bound::Included(end) => (end, true),
        Bound::Excluded(end) => (end, false),
    };
    let order = if way == Way::Forward { key.cmp(end) } else { end.cmp(key) };
    order.is_gt() || (order.is_eq() && !last)
}

fn bytes<'k>(bound: &'k Bound<TableKey>, narrow: &'k mut [u8; 8]) -> Bound<&'k [u8]> {
    bound.as_ref().map(|key| key.bytes(narrow))
}

impl<E: Environment, S: SlottedScheme<E>> Write for Slotted<E, S> {
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        let several = self.tables.layout(table).index_count() > 1;
        self.change(several, |tables, store, Buffers { new, .. }| {
            let (layout, packed) = tables.table(table);
            pack_row(layout, packed, values, new)?;
            let key = layout.primary_key_of(values)?;
            if !store.insert(tables.tree(table, 0), key.bytes(&mut [0; 8]), new)? {
                return Err(tables.duplicate(table));
            }
            for index in secondary(layout) {
                let key = key_of(tables, table, new, index)?;
                store.put(tables.tree(table, index), key.bytes(&mut [0; 8]), &[])?;
            }
            Ok(())
        })?;
        self.user_bytes += user_bytes(values.iter());
        Ok(())
    }

    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        let layout = self.tables.layout(table);
        let several = secondary(layout).any(|index| layout.index_has(index, changes));
        self.change(several, |tables, store, Buffers { old, new }| {
            let (layout, _) = tables.table(table);
            let (key, tree) = (layout.primary_key(key)?, tables.tree(table, 0));
            let mut narrow = [0; 8];
            let key = key.bytes(&mut narrow);
            if !store.get_into(tree, key, old)? {
                return Err(tables.missing(table));
            }
            if changes.is_empty() {
                return Ok(());
            }
            layout.check_changes(changes)?;
            tables.row(table, old)?.with_changes(changes, new)?;
            store.put(tree, key, new)?;
            for index in secondary(layout).filter(|index| layout.index_has(*index, changes)) {
                let before = key_of(tables, table, old, index)?;
                let after = key_of(tables, table, new, index)?;
                if before != after {
                    let tree = tables.tree(table, index);
                    if !store.delete(tree, before.bytes(&mut [0; 8]))? {
                        return Err(dangling());
                    }
                    store.put(tree, after.bytes(&mut [0; 8]), &[])?;
                }
            }
            Ok(())
        })?;
        self.user_bytes += user_bytes(changes.iter().map(|(_, value)| value));
        Ok(())
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        let several = self.tables.layout(table).index_count() > 1;
        self.change(several, |tables, store, Buffers { old, .. }| {
            let (layout, _) = tables.table(table);
            let (key, tree) = (layout.primary_key(key)?, tables.tree(table, 0));
            let mut narrow = [0; 8];
            let key = key.bytes(&mut narrow);
            if !store.get_into(tree, key, old)? {
                return Err(tables.missing(table));
            }
            store.delete(tree, key)?;
            for index in secondary(layout) {
                let key = key_of(tables, table, old, index)?;
                if !store.delete(tables.tree(table, index), key.bytes(&mut [0; 8]))? {
                    return Err(dangling());
                }
            }
            Ok(())
        })
    }
}

impl<E: Environment, S: SlottedScheme<E>> Engine for Slotted<E, S> {
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.usable()?;
        self.savepoints.forget();
        if !self.store.is_changed() {
            self.store.abort();
            return Ok((self.number, true));
        }
        match self.store.commit() {
            Ok(()) => {}
            Err(SlottedError::Failed) => return Err(EngineError::MustAbort),
            // Operations have taken the room that it needs: there is always some.
            Err(error) => return self.state.stop(error),
        }
        self.number += 1;
        Ok((self.number, true))
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.state.abort();
        self.usable()?;
        self.savepoints.forget();
        self.store.abort();
        Ok(())
    }

    fn savepoint(&mut self) -> Result<u64, EngineError> {
        self.usable()?;
        let place = self.store.savepoint()?;
        Ok(self.savepoints.mark(self.number, place))
    }

    fn rollback_to(&mut self, savepoint: u64) -> Result<(), EngineError> {
        self.usable()?;
        let place = self.savepoints.back_to(self.number, savepoint)?;
        Ok(self.store.rollback_to(place)?)
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.usable()
    }

    fn durable(&self) -> u64 {
        self.number
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.usable()?;
        Ok(self.store.settle()?)
    }

    fn puts_off_work(&self) -> bool {
        false
    }

    fn is_stopped(&self) -> bool {
        self.state.is_stopped()
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        self.checkpoint()
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        // Everything lies in the heap, whose chunks say what they are for.
        Ok(Footprint::default())
    }

    fn stats(&self) -> EngineStats {
        let commits = self.store.commits().since(&self.before);
        let own = S::own_stats(&commits);
        EngineStats {
            user_bytes: self.user_bytes,
            logged_bytes: commits.logged_bytes,
            own,
            ..EngineStats::from(own.kind())
        }
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        self.usable()?;
        self.store.census()?;
        self.store.objects(reachable)?;
        (0..self.tables.count()).map(|table| self.check_table(table)).sum()
    }
}
