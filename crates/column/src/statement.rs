//! Statements that change a row. Each is durable before the next one starts (P4 4.2), with one fence. No other
//! transaction sees it before its own commits.
//!
//! 1. The stripe of the key is taken. The newest version must be the transaction's own, or have been committed
//!    before the transaction began, and no other transaction may have marked its end, or claimed it.
//! 2. Everything that can fail is done: room for the entry, ids of the values, room for keys in persistent memory,
//!    a row.
//! 3. All stores: the slot's line, if it is the first statement; the row, its begin last; new keys; the entry.
//! 4. All flushes, also of lines that the last statement or commit has left over; **fence**.
//! 5. The end of the old version is marked, and the indexes lead to the new one. Their lines are flushed before
//!    the next fence, except new keys in persistent memory, which a mini-transaction links. Recovery repeats this
//!    step.
//!
//! The entry may persist without the row: it has the row's checksum, and is void if that does not match.

use std::sync::Arc;

use pm::{Bad, LineSet, Memory};

use crate::Result;
use crate::error::ColumnError;
use crate::keys::{IndexKey, Key};
use crate::secondary::Room;
use crate::session::{Open, Session};
use crate::slots::{DELETE, INSERT, Statement, UPDATE};
use crate::stamps::mark;
use crate::store::Shared;
use crate::stripes::Stripes;
use crate::table::Table;
use crate::value::{Field, Value};
use crate::version::Newest;

/// The lines that failed statements leave unflushed: a fence flushes these and those of the statement that fences.
const MOST_UNFLUSHED: usize = 256;

/// A change of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    Insert(&'a [Value<'a>]),
    Update(&'a [(usize, Value<'a>)]),
    Delete,
}

impl Change<'_> {
    /// Checks that the table can have these values.
    fn check<M: Memory>(self, table: &Table<M>) -> Result<()> {
        match self {
            Self::Insert(values) => {
                if values.len() != table.columns.len() {
                    return Err(ColumnError::Unfit { what: "a row of so many values" });
                }
                let mut pairs = values.iter().zip(&table.columns);
                pairs.try_for_each(|(value, column)| value.fits(column.kind()))
            }
            Self::Update(changes) => changes.iter().try_for_each(|(column, value)| {
                if table.key_columns().contains(column) {
                    return Err(ColumnError::Unfit { what: "another key" });
                }
                value.fits(table.column(*column)?.kind())
            }),
            Self::Delete => Ok(()),
        }
    }

    /// Returns whether it changes a column of a secondary index.
    fn is_update_of_index<M: Memory>(self, table: &Table<M>) -> bool {
        let Self::Update(changes) = self else { return false };
        let mut indexes =
            (1..table.indexes.len()).map(|index| table.keys.columns(table.number, index));
        indexes.any(|columns| changes.iter().any(|(column, _)| columns.contains(column)))
    }

    /// The keys of the new version in secondary indexes that the old one may not have.
    fn new_keys<M: Memory>(self, table: &Table<M>, old: u64) -> Result<Vec<(usize, IndexKey)>> {
        let mut found = Vec::new();
        for index in 1..table.indexes.len() {
            let columns = table.keys.columns(table.number, index);
            let mut row = match self {
                Self::Delete => continue,
                Self::Insert(values) => {
                    let field =
                        |at| if columns.contains(&at) { values[at].into() } else { Field::Null };
                    (0..values.len()).map(field).collect()
                }
                Self::Update(changes) => {
                    if !changes.iter().any(|(column, _)| columns.contains(column)) {
                        continue;
                    }
                    table.fields(old, Some(columns))?
                }
            };
            if let Self::Update(changes) = self {
                for (column, value) in changes.iter().filter(|(column, _)| columns.contains(column))
                {
                    row[*column] = (*value).into();
                }
            }
            found.push((index, table.keys.key(table.number, index, &row)?));
        }
        Ok(found)
    }
}

/// The stripes of a statement: that of the key, and those of the unique parts of other keys.
fn stripes_of(table: usize, key: &Key<'_>, keys: &[(usize, IndexKey)]) -> Vec<usize> {
    let unique = keys.iter().filter_map(|(index, key)| {
        key.unique.map(|unique| Stripes::of(table, *index, &key.bytes[..unique]))
    });
    std::iter::once(Stripes::of(table, 0, &key.bytes)).chain(unique).collect()
}

impl<M: Memory> Shared<M> {
    /// A statement of a transaction.
    pub(crate) fn statement(&self, mark: u64, index: u64) -> Result<Statement> {
        let damaged = Bad::Damaged { what: "statement of a transaction", at: self.at };
        self.slots.statement(mark, index)?.ok_or_else(|| damaged.into())
    }

    /// The statements of a transaction; `None` for each one that cannot be read.
    pub(crate) fn statements(
        &self,
        mark: u64,
        count: u64,
    ) -> impl Iterator<Item = Option<Statement>> {
        (0..count).map(move |index| self.statement(mark, index).ok())
    }

    /// Stamps the versions of a statement of a transaction with this number.
    #[track_caller]
    pub(crate) fn stamp(
        &self,
        statement: &Statement,
        number: u64,
        lines: &mut LineSet,
    ) -> Result<()> {
        let table = self.table(usize::from(statement.table))?;
        if statement.new != 0 {
            let begin = table.place(statement.new)?.begin();
            self.memory.store(begin, number);
            lines.add(begin.range());
        }
        if statement.old != 0 {
            let end = table.place(statement.old)?.end();
            self.memory.store(end, number);
            lines.add(end.range());
        }
        Ok(())
    }
}

impl<M: Memory> Session<M> {
    /// Inserts a row.
    ///
    /// # Errors
    /// There is a row with the key; [`ColumnError::Conflict`]; a value does not fit; no room.
    pub fn insert(&mut self, table: usize, row: &[Value<'_>]) -> Result<()> {
        let (shared, change) = (Arc::clone(&self.shared), Change::Insert(row));
        change.check(shared.table(table)?)?;
        let key = shared.table(table)?.key_of(row)?;
        self.statement(table, &key, change, false)
    }

    /// Updates columns of a row, by their numbers.
    ///
    /// # Errors
    /// There is no such row; [`ColumnError::Conflict`]; a value does not fit; no room.
    pub fn update<'k>(
        &mut self,
        table: usize,
        key: impl Into<Key<'k>>,
        changes: &[(usize, Value<'_>)],
    ) -> Result<()> {
        self.statement(table, &key.into(), Change::Update(changes), false)
    }

    /// Updates columns of a row and commits, with one fence.
    ///
    /// # Errors
    /// As [`Self::update`], and then the transaction stays open. The medium is not sound.
    pub fn update_and_commit<'k>(
        &mut self,
        table: usize,
        key: impl Into<Key<'k>>,
        changes: &[(usize, Value<'_>)],
    ) -> Result<()> {
        if self.open()?.reads.is_some() {
            // Its reads are validated first.
            self.statement(table, &key.into(), Change::Update(changes), false)?;
            return self.commit().map(drop);
        }
        self.statement(table, &key.into(), Change::Update(changes), true)
    }

    /// Deletes a row.
    ///
    /// # Errors
    /// There is no such row; [`ColumnError::Conflict`].
    pub fn delete<'k>(&mut self, table: usize, key: impl Into<Key<'k>>) -> Result<()> {
        self.statement(table, &key.into(), Change::Delete, false)
    }

    #[track_caller]
    fn statement(
        &mut self,
        number: usize,
        key: &Key<'_>,
        change: Change<'_>,
        commits: bool,
    ) -> Result<()> {
        let fresh = self.fresh.len();
        let done = self.run(number, key, change, commits);
        if done.is_err() {
            self.release_slot();
            // Statements may fail any number of times before the next fence. A value of theirs is flushed again
            // when a row gets it.
            self.fresh.truncate(fresh);
            if self.lines.lines().len() > MOST_UNFLUSHED {
                self.lines.flush(&self.shared.memory);
            }
        }
        done
    }

    /// Releases the slot of a transaction that has no statement: the collection waits for every slot that is
    /// taken.
    fn release_slot(&mut self) {
        let open = self.open.as_mut().filter(|open| open.mark == 0);
        if let Some(slot) = open.and_then(|open| open.slot.take()) {
            self.shared.slots.release(slot, false);
        }
    }

    #[track_caller]
    fn run(
        &mut self,
        number: usize,
        key: &Key<'_>,
        change: Change<'_>,
        commits: bool,
    ) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let table = shared.table(number)?;
        self.open()?;
        change.check(table)?;
        table.check_key(&key.values)?;
        if self.is_replaying() {
            return self.replay(number, key, change, commits);
        }
        let mut keys = self.new_keys(table, key, change)?;
        let stripes = shared.stripes.take(stripes_of(number, key, &keys));
        let newest = shared.newest(table, key)?;
        let newest = shared.to_replace(table, newest, &self.view())?;
        let (kind, old, prev) = match (change, newest) {
            (Change::Insert(_), Newest::Absent(prev)) => (INSERT, 0, prev),
            (Change::Update(_), Newest::Live(old)) => (UPDATE, old, old),
            (Change::Delete, Newest::Live(old)) => (DELETE, old, 0),
            // The caller learns from the error that the key is there: that is a read.
            (Change::Insert(_), Newest::Live(_)) => {
                self.has_read(number, key);
                return Err(ColumnError::DuplicateKey);
            }
            (_, Newest::Absent(_)) => {
                self.has_read(number, key);
                return Err(ColumnError::MissingKey);
            }
        };
        if kind != INSERT && shared.claims.are_others(self.number, number, &key.bytes) {
            return Err(ColumnError::Conflict);
        }
        for (index, key) in &keys {
            shared.check_unique(table, (*index, key), &self.view())?;
        }
        keys.push((0, IndexKey { bytes: key.bytes.to_vec(), unique: None }));
        if kind == DELETE {
            keys.clear();
        }
        let slot = self.slot_with_room()?;
        let ids = self.ids(number, change, old)?;
        let rooms = table.prepare(&keys, &shared.lane, &mut self.lines)?;
        let new = match kind {
            DELETE => Ok(0),
            _ => table.take_row(&shared.lane),
        };
        let new = new.inspect_err(|_| Table::release_rooms(&rooms, &shared.lane))?;
        // From here on nothing fails.
        let first = self.begin_in(slot);
        let open = self.open()?;
        let (own, statements) = (open.mark, open.statements);
        if new != 0 {
            table.store_row(new, prev, &ids, own, &mut self.lines)?;
            table.fill(&keys, &rooms, new, &mut self.lines);
        }
        let sum = if new == 0 { 0 } else { Table::<M>::sum(prev, &ids) };
        let statement = Statement { kind, table: number as u16, old, new, sum };
        let entry = shared.slots.store_entry(own, statements, statement);
        self.lines.add(entry);
        let committed = commits.then(|| {
            // Before it has a number, for which other commits wait.
            let for_watchers = self
                .open
                .as_ref()
                .and_then(|open| Self::for_watchers(&shared, open, Some(statement)));
            (shared.clock.take(), for_watchers)
        });
        if let Some((commit, _)) = committed {
            shared.slots.store_commit(slot, commit, statements + 1);
        }
        let resumed_here =
            std::mem::take(&mut self.open.as_mut().expect("it is open").openings) > 0;
        if resumed_here {
            shared.slots.store_resumed(slot);
        }
        if first || commits || resumed_here {
            self.lines.add(shared.slots.line(slot));
        }
        self.fence();
        if first {
            shared.slots.set_begun(slot);
        }
        let published = self.publish(table, &statement, own, (keys, &rooms));
        drop(stripes);
        // Also after an error: the statement is durable, and other commits wait for the number.
        self.open.as_mut().expect("it is open").statements += 1;
        if let Some((commit, for_watchers)) = committed {
            self.end_committed(commit, for_watchers)?;
        }
        published
    }

    /// The keys of the new version in secondary indexes that the old one may not have. They are right
    /// without its stripe: the version that a transaction sees is the only one that it can replace.
    fn new_keys(
        &self,
        table: &Table<M>,
        key: &Key<'_>,
        change: Change<'_>,
    ) -> Result<Vec<(usize, IndexKey)>> {
        let mut old = 0;
        if change.is_update_of_index(table) {
            let newest = self.shared.newest(table, key)?;
            match self.shared.seen(table, newest, &self.view())? {
                Some(row) => old = row,
                None => return Ok(Vec::new()),
            }
        }
        change.new_keys(table, old)
    }

    /// Compares a statement of a replayed transaction.
    fn replay(
        &mut self,
        number: usize,
        key: &Key<'_>,
        change: Change<'_>,
        commits: bool,
    ) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let table = shared.table(number)?;
        let newest = shared.newest(table, key)?;
        let there = shared.seen(table, newest, &self.view())?;
        let open = self.open.as_mut().expect("it is open");
        let replay = open.replay.as_mut().expect("it is replayed");
        let compared = replay.compare((number, table), change, there);
        if replay.is_over() {
            open.replay = None;
        }
        if let Err(ColumnError::DuplicateKey | ColumnError::MissingKey) = compared {
            self.has_read(number, key);
        }
        compared?;
        if commits { self.commit().map(drop) } else { Ok(()) }
    }

    /// Does step 5, once the statement is durable.
    fn publish(
        &mut self,
        table: &Table<M>,
        statement: &Statement,
        own: u64,
        keys: (Vec<(usize, IndexKey)>, &[Room]),
    ) -> Result<()> {
        if statement.old != 0 {
            let end = table.place(statement.old)?.end();
            self.shared.memory.store(end, own);
            self.lines.add(end.range());
        }
        if statement.new != 0 {
            table.publish(keys, statement.new, &self.shared.lane, &mut self.lines)?;
        }
        Ok(())
    }

    /// The ids of a new version's values.
    #[track_caller]
    fn ids(&mut self, number: usize, change: Change<'_>, old: u64) -> Result<Vec<u32>> {
        let shared = Arc::clone(&self.shared);
        let table = shared.table(number)?;
        let mut id_of = |column: usize, value: Value<'_>| {
            let found = table.columns[column].id_of(value, &shared.lane, &mut self.lines)?;
            if found.fresh {
                self.fresh.push((number, column, found.id));
            }
            Ok(found.id)
        };
        match change {
            Change::Insert(values) => {
                values.iter().enumerate().map(|(column, value)| id_of(column, *value)).collect()
            }
            Change::Update(changes) => {
                let mut ids = table.ids_of(old)?;
                for (column, value) in changes {
                    ids[*column] = id_of(*column, *value)?;
                }
                Ok(ids)
            }
            Change::Delete => Ok(Vec::new()),
        }
    }

    /// Returns the transaction's slot, with room for one more entry.
    #[track_caller]
    fn slot_with_room(&mut self) -> Result<u16> {
        let shared = Arc::clone(&self.shared);
        let slot = match self.open()?.slot {
            Some(slot) => slot,
            None => {
                let taken = match shared.slots.take() {
                    // Idle sessions may hold slots of transactions that are over.
                    Err(_) => {
                        shared.fence_commits();
                        shared.slots.take()?
                    }
                    taken => taken?,
                };
                let open = self.open.as_mut().expect("it is open");
                *open.slot.insert(taken)
            }
        };
        let statements = self.open()?.statements;
        shared.slots.make_room(slot, statements, &shared.lane)?;
        Ok(slot)
    }

    /// Stores the line of the transaction, and its name, with its first statement. Returns whether this is the
    /// first one.
    #[track_caller]
    fn begin_in(&mut self, slot: u16) -> bool {
        let shared = Arc::clone(&self.shared);
        let open = self.open.as_mut().expect("it is open");
        let Open { mark: own, snapshot, name, reads, .. } = open;
        if *own != 0 {
            return false;
        }
        let sequence = shared.slots.sequence(slot) + 1;
        shared.slots.set_open(slot, sequence);
        *own = mark(slot, sequence);
        shared.slots.store_begin(slot, sequence, *snapshot, (name, reads.is_some()));
        if !name.is_empty() {
            self.lines.add(shared.slots.name_line(slot));
        }
        true
    }
}
