//! The random transactions in a database.

use std::ops::{Bound, ControlFlow};

use perdura::{
    ColumnType, Database, Environment, Error, ReadTx, Row, Savepoint, Scan, Schema, Snapshot,
    Table, TableSchema, Tx, Value,
};
use rand::rngs::SmallRng;

use super::{Mix, Reads, Scanned, Shown, Work, Writes, body, cell_of};
use crate::history::{By, Cell, Key, Pending, Recorder};

/// The only table.
pub const CELL: &str = "cell";

/// The index of the tags.
const BY_TAG: &str = "by_tag";

/// A table of cells: a key, a tag with an index, a value that is written once, and bytes that
/// follow from it.
pub fn schema() -> Schema {
    Schema::new().table(
        TableSchema::new(CELL)
            .column("id", ColumnType::U64)
            .column("tag", ColumnType::U64)
            .column("value", ColumnType::U64)
            .column("body", ColumnType::Bytes { max: 60 })
            .key(&["id"])
            .index(BY_TAG, &["tag"]),
    )
}

/// Key and cell of a row of all columns.
fn seen(row: &Row) -> (Key, Cell) {
    (row.u64(0), cell_of(row.u64(2), row.u64(1), row.bytes(3)))
}

fn row(key: Key, cell: Cell, body: &[u8]) -> [Value<'_>; 4] {
    [Value::U64(key), Value::U64(cell.tag), Value::U64(cell.value), Value::Bytes(body)]
}

fn bound<'a>(kind: Bound<u64>, value: &'a [Value<'a>; 1]) -> Bound<&'a [Value<'a>]> {
    match kind {
        Bound::Included(_) => Bound::Included(value),
        Bound::Excluded(_) => Bound::Excluded(value),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// Calls `scan` with what is scanned, as a database has it.
fn scan_as<R>(what: &Scanned, scan: impl FnOnce(&Scan<'_>) -> R) -> R {
    let value = |bound: Bound<u64>| match bound {
        Bound::Included(value) | Bound::Excluded(value) => [Value::U64(value)],
        Bound::Unbounded => [Value::U64(0)],
    };
    let (low, high) = (value(what.low), value(what.high));
    let mut all = Scan::range((bound(what.low, &low), bound(what.high, &high)));
    if what.by == By::Tag {
        all = all.by(BY_TAG);
    }
    if what.backward {
        all = all.backward();
    }
    scan(&all)
}

/// A transaction, a reader or a snapshot, and the table.
struct At<'a, T> {
    at: T,
    table: &'a Table,
}

macro_rules! looks {
    ([$($generic:tt)*] $name:ty) => {
        impl<$($generic)*> Reads for At<'_, $name> {
            type Error = Error;

            fn get(&mut self, key: Key) -> Result<Option<Cell>, Error> {
                let mut row = Row::new();
                let found = self.at.get_into(self.table, &[Value::U64(key)], &mut row)?;
                Ok(found.then(|| seen(&row).1))
            }

            fn scan(&mut self, what: &Scanned, shown: Shown<'_>) -> Result<(), Error> {
                scan_as(what, |scan| {
                    self.at.scan(self.table, scan, |row| {
                        let (key, cell) = seen(row);
                        match shown(key, cell) {
                            true => ControlFlow::Continue(()),
                            false => ControlFlow::Break(()),
                        }
                    })
                })
            }
        }
    };
}

looks!(['t, E: Environment] &mut Tx<'t, E>);
looks!(['t, E: Environment] &ReadTx<'t, E>);
looks!([] & Snapshot);

/// Returns whether a key was there, as the error of a change says it.
fn there(done: Result<(), Error>) -> Result<bool, Error> {
    match done {
        Ok(()) => Ok(true),
        Err(Error::MissingKey { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

impl<'t, E: Environment> Writes for At<'_, &mut Tx<'t, E>> {
    type Savepoint = Savepoint;

    fn get_for_update(&mut self, key: Key) -> Result<Option<Cell>, Error> {
        let found = self.at.get_for_update(self.table, &[Value::U64(key)])?;
        Ok(found.map(|row| seen(&row).1))
    }

    fn insert(&mut self, key: Key, cell: Cell) -> Result<bool, Error> {
        match self.at.insert(self.table, &row(key, cell, &body(cell.value))) {
            Ok(()) => Ok(true),
            Err(Error::DuplicateKey { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn update(&mut self, key: Key, cell: Cell) -> Result<bool, Error> {
        let body = body(cell.value);
        let changes =
            [(1, Value::U64(cell.tag)), (2, Value::U64(cell.value)), (3, Value::Bytes(&body))];
        there(self.at.update(self.table, &[Value::U64(key)], &changes))
    }

    fn delete(&mut self, key: Key) -> Result<bool, Error> {
        there(self.at.delete(self.table, &[Value::U64(key)]))
    }

    fn savepoint(&mut self) -> Result<Savepoint, Error> {
        self.at.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        self.at.rollback_to(savepoint)
    }
}

/// Random transactions in a database.
#[derive(Clone, Debug)]
pub struct Sharer {
    /// The table of [`schema`].
    pub table: Table,
    /// The work that they do.
    pub work: Work,
}

impl Sharer {
    /// Fills every other key of a new database; returns what is there.
    ///
    /// # Errors
    /// As the operations.
    pub fn fill<E: Environment>(
        db: &Database<E>,
        keys: u64,
        mix: Mix,
    ) -> Result<(Self, Vec<(Key, Cell)>), Error> {
        let (table, work) = (db.table(CELL)?, Work { keys, mix });
        let initial = work.initial();
        let mut tx = db.begin()?;
        for (key, cell) in &initial {
            tx.insert(&table, &row(*key, *cell, &body(cell.value)))?;
        }
        let _ticket = tx.commit()?;
        Ok((Self { table, work }, initial))
    }

    /// Runs the operations of a transaction that changes rows, without its end.
    ///
    /// # Errors
    /// As the operations, also [`Error::Conflict`].
    pub fn change<E: Environment>(
        &self,
        tx: &mut Tx<'_, E>,
        random: &mut SmallRng,
        recorder: &Recorder,
        pending: &mut Pending,
    ) -> Result<(), Error> {
        self.work.change(&mut At { at: tx, table: &self.table }, random, recorder, pending)
    }

    /// Runs the operations of a transaction that only reads.
    ///
    /// # Errors
    /// As the operations.
    pub fn read<E: Environment>(
        &self,
        tx: &ReadTx<'_, E>,
        random: &mut SmallRng,
        pending: &mut Pending,
    ) -> Result<(), Error> {
        self.work.read(&mut At { at: tx, table: &self.table }, random, pending)
    }

    /// The same on a snapshot.
    ///
    /// # Errors
    /// As the operations.
    pub fn read_snapshot(
        &self,
        snapshot: &Snapshot,
        random: &mut SmallRng,
        pending: &mut Pending,
    ) -> Result<(), Error> {
        self.work.read(&mut At { at: snapshot, table: &self.table }, random, pending)
    }

    /// Everything that is there, by the order of the keys, and as the tags have it.
    ///
    /// # Errors
    /// It cannot be read, or the two are not alike.
    pub fn contents<E: Environment>(&self, db: &Database<E>) -> Result<Vec<(Key, Cell)>, Error> {
        let (mut rows, mut by_tag) = (Vec::new(), Vec::new());
        db.read(|tx| {
            rows.clear();
            by_tag.clear();
            tx.scan(&self.table, &Scan::all(), |row| {
                rows.push(seen(row));
                ControlFlow::Continue(())
            })?;
            tx.scan(&self.table, &Scan::all().by(BY_TAG), |row| {
                by_tag.push(seen(row));
                ControlFlow::Continue(())
            })
        })?;
        let is_sorted = by_tag.is_sorted_by_key(|(key, cell)| (cell.tag, *key));
        by_tag.sort_by_key(|(key, _)| *key);
        if is_sorted && by_tag == rows {
            return Ok(rows);
        }
        Err(Error::user(format!("the keys have {rows:?}, the tags {by_tag:?}")))
    }
}
