//! The consistency check: whether rows, versions, dictionaries, indexes and the allocator agree.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, Memory};

use crate::Result;
use crate::dictionary::Dictionary;
use crate::error::ColumnError;
use crate::secondary::KeyRange;
use crate::slots::Outcome;
use crate::stamps::{is_mark, parts};
use crate::store::{Shared, Store};
use crate::table::Table;
use crate::version::ReadView;

/// The counts of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// Versions that were committed.
    pub versions: u64,
    /// Versions without an end.
    pub rows: u64,
    /// Rows that versions have, or have had: those that are used again count once.
    pub taken: u64,
    /// Objects of the heap that the store leads to.
    pub objects: u64,
}

fn damaged<T>(what: &'static str, at: u64) -> Result<T> {
    Err(Bad::Damaged { what, at }.into())
}

impl<M: Memory> Shared<M> {
    /// The objects that the store leads to.
    fn objects(&self) -> Result<BTreeSet<u64>> {
        let memory = &self.memory;
        let mut objects = BTreeSet::from([self.at, self.slots.line(0).start]);
        for slot in 0..self.slots.count as u16 {
            objects.extend(self.slots.segments(slot)?);
        }
        for table in &self.tables {
            objects.insert(table.at);
            objects.extend(table.rows.pages(memory)?);
            let shape = table.rows.shape;
            for (segment, at) in (0..).zip(table.rows.segments(memory)?) {
                let place = table.place(shape.start(segment))?;
                objects.extend(place.objects(at));
            }
            for index in &table.indexes {
                if let Some(list) = index.read().list() {
                    list.check(|node| {
                        objects.insert(node);
                    })?;
                }
            }
            for column in &table.columns {
                if let Some(nodes) = column.index.read().nodes() {
                    nodes.check(|object| {
                        objects.insert(object);
                    })?;
                }
                for array in [&column.values, &column.bytes.words] {
                    objects.extend(array.pages(memory)?);
                    objects.extend(array.segments(memory)?);
                }
                objects.extend(column.long_values()?);
            }
        }
        Ok(objects)
    }

    /// The end of a version: a commit's number, if it has one.
    fn stamp_of(&self, stamp: u64) -> Option<u64> {
        if !is_mark(stamp) {
            return (stamp != 0).then_some(stamp);
        }
        match self.slots.outcome(stamp) {
            Outcome::Committed(number) => Some(number),
            Outcome::Open | Outcome::Over => None,
        }
    }

    fn check_table(&self, table: &Table<M>, census: &mut Census) -> Result<()> {
        let now = self.clock.now();
        let mut live: BTreeSet<Vec<u8>> = BTreeSet::new();
        for row in 1..table.ids.next() {
            let place = table.place(row)?;
            let begin = self.memory.load(place.begin(), Acquire)?;
            let end = self.memory.load(place.end(), Acquire)?;
            // A crash may have left the mark of a transaction that has gone on since.
            if is_mark(begin) && row < table.ids.opened && !self.counts(table, row)? {
                continue;
            }
            let Some(begin) = self.stamp_of(begin) else { continue };
            let at = place.begin().get();
            if begin > now || self.stamp_of(end).is_some_and(|end| end > now || end < begin) {
                return damaged("stamp of a version", at);
            }
            if !self.is_sound(table, row)? {
                return damaged("values of a version", at);
            }
            let key = table.key(row, 0)?.bytes;
            census.versions += 1;
            if self.stamp_of(end).is_none() {
                census.rows += 1;
                if !live.insert(key.clone()) {
                    return damaged("second version of a row", at);
                }
                self.check_primary(table, row, &key)?;
                Self::check_secondary(table, row)?;
            }
        }
        Self::check_keys(table)
    }

    /// Every value of a column has one id, to which an index in persistent memory leads.
    fn check_values(column: &Dictionary<M>) -> Result<()> {
        let mut values = HashSet::new();
        let is_durable = column.index.read().nodes().is_some();
        for id in 0..column.ids.next() as u32 {
            if !column.is_whole(id)? {
                continue;
            }
            let value = column.value(id)?;
            if is_durable && column.find(value.value())? != Some(id) {
                return damaged("index of a dictionary", u64::from(id));
            }
            if !values.insert(value) {
                return damaged("second id of a value", u64::from(id));
            }
        }
        Ok(())
    }

    fn is_sound(&self, table: &Table<M>, row: u64) -> Result<bool> {
        for (column, id) in table.columns.iter().zip(table.ids_of(row)?) {
            if !column.is_whole(id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The primary index leads to a row that is there, if it is built so far.
    fn check_primary(&self, table: &Table<M>, row: u64, key: &[u8]) -> Result<()> {
        let (found, unbuilt) = {
            let keys = table.indexes[0].read();
            (keys.peek(key)?.unwrap_or(0), keys.unbuilt)
        };
        let view = ReadView { mark: 0, snapshot: self.clock.now(), replay: None };
        if row >= unbuilt && self.seen(table, found, &view)? != Some(row) {
            return damaged("index of keys", table.at);
        }
        Ok(())
    }

    /// Every version in an index has the key under which it stands.
    fn check_keys(table: &Table<M>) -> Result<()> {
        for (index, keys) in table.indexes.iter().enumerate() {
            for (key, row) in keys.read().peek_some(&KeyRange::ALL, usize::MAX)? {
                if table.key(row, index)?.bytes != key {
                    return damaged("index of keys", table.at);
                }
            }
        }
        Ok(())
    }

    /// A row that is there has its key in every secondary index that is built. Before that it may be
    /// found by an older version, which has the same key.
    fn check_secondary(table: &Table<M>, row: u64) -> Result<()> {
        for index in 1..table.indexes.len() {
            let keys = table.indexes[index].read();
            if keys.unbuilt <= 1 && keys.peek(&table.key(row, index)?.bytes)?.is_none() {
                return damaged("secondary index", table.at);
            }
        }
        Ok(())
    }
}

impl<M: Memory> Shared<M> {
    /// Every version that a transaction in flight has made or replaced has its mark.
    fn check_marks(&self) -> Result<()> {
        for left in self.in_flight.read().values() {
            let (mark, statements) = (left.open.id.0, left.open.statements);
            for index in 0..statements {
                let at = self.slots.entry_at(parts(mark).0, index).get();
                let statement = self.statement(mark, index)?;
                let table = self.table(usize::from(statement.table))?;
                let marked =
                    |stamp| Ok::<bool, ColumnError>(self.memory.load(stamp, Acquire)? == mark);
                if statement.new != 0 && !marked(table.place(statement.new)?.begin())?
                    || statement.old != 0 && !marked(table.place(statement.old)?.end())?
                {
                    return damaged("mark of a transaction in flight", at);
                }
            }
        }
        Ok(())
    }
}

impl<M: Memory> Store<M> {
    /// Calls `visit` with each object of the heap that the store leads to.
    ///
    /// # Errors
    /// Damage.
    pub fn for_each_object(&self, visit: &mut dyn FnMut(u64)) -> Result<()> {
        self.0.objects()?.into_iter().for_each(visit);
        Ok(())
    }

    /// Checks everything. No other thread changes anything meanwhile.
    ///
    /// # Errors
    /// Something does not agree.
    pub fn check(&self) -> Result<Census> {
        let shared = &self.0;
        let mut census = Census::default();
        for table in &shared.tables {
            shared.check_table(table, &mut census)?;
            census.taken += table.ids.next() - 1;
            table.columns.iter().try_for_each(Shared::check_values)?;
        }
        shared.check_marks()?;
        let objects = shared.objects()?;
        census.objects = objects.len() as u64;
        let lane = shared.lane.write();
        for object in &objects {
            if M::DURABLE && !lane.heap().is_persisted(*object)? {
                return damaged("object that the heap takes for free", *object);
            }
        }
        Ok(census)
    }
}
