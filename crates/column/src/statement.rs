//! Statements that change a row. Each is durable before the next one starts (P4 4.2), with one fence,
//! and nobody else sees it before its transaction commits.
//!
//! 1. The stripe of the key is taken; the newest version must be the transaction's own, or have been
//!    committed before it began, and nobody else may have marked its end.
//! 2. Everything that can fail: ids of the values, room for the entry, a row.
//! 3. All stores: the slot's line, if it is the first statement; the row, begin last; the entry.
//! 4. All flushes, with what the last statement or commit has left over; **fence**.
//! 5. The end of the old version is marked, the index raised. Their lines ride on the next fence:
//!    recovery does this step again.
//!
//! The entry may persist without the row: it has the row's checksum, and does not count then.

use std::sync::Arc;

use pm::{Bad, LineSet, Memory};

use crate::Result;
use crate::error::ColumnError;
use crate::session::{Open, Session};
use crate::slots::{DELETE, INSERT, Statement, UPDATE};
use crate::stamps::mark;
use crate::store::Shared;
use crate::table::Table;
use crate::value::Value;
use crate::version::Newest;

/// A change of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    Insert(&'a [Value<'a>]),
    Update(Value<'a>, &'a [(usize, Value<'a>)]),
    Delete(Value<'a>),
}

impl<'a> Change<'a> {
    pub(crate) fn key(self) -> Result<Value<'a>> {
        match self {
            Self::Insert(values) => {
                values.first().copied().ok_or(ColumnError::Unfit { what: "a row of no values" })
            }
            Self::Update(key, _) | Self::Delete(key) => Ok(key),
        }
    }

    /// Checks that the table can have such values.
    fn check<M: Memory>(self, table: &Table<M>) -> Result<()> {
        match self {
            Self::Insert(values) => {
                if values.len() != table.columns.len() {
                    return Err(ColumnError::Unfit { what: "a row of so many values" });
                }
                let mut pairs = values.iter().zip(&table.columns);
                pairs.try_for_each(|(value, column)| value.fits(column.kind()))
            }
            Self::Update(_, changes) => changes.iter().try_for_each(|(column, value)| {
                if *column == 0 {
                    return Err(ColumnError::Unfit { what: "another key" });
                }
                value.fits(table.column(*column)?.kind())
            }),
            Self::Delete(_) => Ok(()),
        }
    }
}

impl<M: Memory> Shared<M> {
    /// A statement that a transaction has.
    pub(crate) fn statement(&self, mark: u64, index: u64) -> Result<Statement> {
        let damaged = Bad::Damaged { what: "statement of a transaction", at: self.at };
        self.slots.statement(mark, index)?.ok_or_else(|| damaged.into())
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
    /// Inserts a row; its first value is the key.
    ///
    /// # Errors
    /// The key is there; [`ColumnError::Conflict`]; a value does not fit; no room.
    pub fn insert(&mut self, table: usize, row: &[Value<'_>]) -> Result<()> {
        self.statement(table, Change::Insert(row), false)
    }

    /// Gives columns of a row new values, by their numbers.
    ///
    /// # Errors
    /// There is no such row; [`ColumnError::Conflict`]; a value does not fit; no room.
    pub fn update(
        &mut self,
        table: usize,
        key: Value<'_>,
        changes: &[(usize, Value<'_>)],
    ) -> Result<()> {
        self.statement(table, Change::Update(key, changes), false)
    }

    /// The same as the last statement of the transaction, which commits with it: one fence.
    ///
    /// # Errors
    /// As [`Self::update`]; the transaction is open then. The medium is not sound.
    pub fn update_and_commit(
        &mut self,
        table: usize,
        key: Value<'_>,
        changes: &[(usize, Value<'_>)],
    ) -> Result<()> {
        self.statement(table, Change::Update(key, changes), true)
    }

    /// Deletes a row.
    ///
    /// # Errors
    /// There is no such row; [`ColumnError::Conflict`].
    pub fn delete(&mut self, table: usize, key: Value<'_>) -> Result<()> {
        self.statement(table, Change::Delete(key), false)
    }

    #[track_caller]
    fn statement(&mut self, number: usize, change: Change<'_>, commits: bool) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let table = shared.table(number)?;
        self.open()?;
        let value = change.key()?;
        let key = value.key(table.columns[0].kind())?;
        change.check(table)?;
        if self.is_replaying() {
            return self.replay(number, change, commits);
        }
        let stripe = shared.stripes.take(number, &key);
        let newest = shared.newest(table, &key, value)?;
        let newest = shared.to_replace(table, newest, &self.sight())?;
        let (kind, old, prev) = match (change, newest) {
            (Change::Insert(_), Newest::Absent(prev)) => (INSERT, 0, prev),
            (Change::Update(..), Newest::Live(old)) => (UPDATE, old, old),
            (Change::Delete(_), Newest::Live(old)) => (DELETE, old, 0),
            (Change::Insert(_), Newest::Live(_)) => return Err(ColumnError::DuplicateKey),
            (_, Newest::Absent(_)) => return Err(ColumnError::MissingKey),
        };
        let ids = self.ids(number, change, old)?;
        let slot = self.slot_with_room()?;
        let new = if kind == DELETE { 0 } else { table.take_row(&shared.lane)? };
        // From here on nothing fails.
        let first = self.begin_in(slot);
        let open = self.open()?;
        let (own, statements) = (open.mark, open.statements);
        if new != 0 {
            table.store_row(new, prev, &ids, own, &mut self.lines)?;
        }
        let sum = if new == 0 { 0 } else { Table::<M>::sum(prev, &ids) };
        let statement = Statement { kind, table: number as u16, old, new, sum };
        let entry = shared.slots.store_entry(own, statements, statement);
        self.lines.add(entry);
        let committed = commits.then(|| shared.clock.take());
        if let Some(commit) = committed {
            shared.slots.store_commit(slot, commit, statements + 1);
        }
        let gone_on = std::mem::take(&mut self.open.as_mut().expect("it is open").openings) > 0;
        if gone_on {
            shared.slots.store_gone_on(slot);
        }
        if first || commits || gone_on {
            self.lines.add(shared.slots.line(slot));
        }
        self.fence();
        self.publish(table, &statement, own, key)?;
        drop(stripe);
        self.open.as_mut().expect("it is open").statements += 1;
        match committed {
            Some(commit) => self.end_committed(commit),
            None => Ok(()),
        }
    }

    /// Compares a statement of a transaction that is replayed.
    fn replay(&mut self, number: usize, change: Change<'_>, commits: bool) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let table = shared.table(number)?;
        let value = change.key()?;
        let newest = shared.newest(table, &value.key(table.columns[0].kind())?, value)?;
        let there = shared.seen(table, newest, &self.sight())?;
        let open = self.open.as_mut().expect("it is open");
        let replay = open.replay.as_mut().expect("it is replayed");
        replay.compare((number, table), change, there)?;
        if replay.is_over() {
            open.replay = None;
        }
        if commits { self.commit().map(drop) } else { Ok(()) }
    }

    /// Step 5, once the statement is durable.
    #[track_caller]
    fn publish(
        &mut self,
        table: &Table<M>,
        statement: &Statement,
        own: u64,
        key: Vec<u8>,
    ) -> Result<()> {
        if statement.old != 0 {
            let end = table.place(statement.old)?.end();
            self.shared.memory.store(end, own);
            self.lines.add(end.range());
        }
        if statement.new != 0 {
            table.raise(key, statement.new);
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
            Change::Update(_, changes) => {
                let mut ids = table.ids_of(old)?;
                for (column, value) in changes {
                    ids[*column] = id_of(*column, *value)?;
                }
                Ok(ids)
            }
            Change::Delete(_) => Ok(Vec::new()),
        }
    }

    /// The transaction's slot, with room for one more entry.
    #[track_caller]
    fn slot_with_room(&mut self) -> Result<u16> {
        let shared = Arc::clone(&self.shared);
        let slot = match self.open()?.slot {
            Some(slot) => slot,
            None => {
                let taken = match shared.slots.take() {
                    // Its last transaction's may be the last one.
                    Err(_) if self.lagging.is_some() => {
                        self.fence();
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

    /// Stores the line of the transaction, and its name, with its first statement. Returns whether this
    /// is the first one.
    #[track_caller]
    fn begin_in(&mut self, slot: u16) -> bool {
        let shared = Arc::clone(&self.shared);
        let Open { mark: own, snapshot, name, .. } = self.open.as_mut().expect("it is open");
        if *own != 0 {
            return false;
        }
        let sequence = shared.slots.sequence(slot) + 1;
        shared.slots.set_open(slot, sequence);
        *own = mark(slot, sequence);
        shared.slots.store_begin(slot, sequence, *snapshot, name);
        if !name.is_empty() {
            self.lines.add(shared.slots.name_line(slot));
        }
        true
    }
}
