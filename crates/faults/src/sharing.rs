//! Random transactions of several threads in one partition, recorded for the oracle
//! ([`crate::history`]).

use std::ops::{Bound, ControlFlow};

use perdura::{
    ColumnType, Database, Environment, Error, ReadTx, Row, Scan, Schema, Snapshot, Table,
    TableSchema, Tx, Value,
};
use rand::Rng;
use rand::rngs::SmallRng;

use crate::history::{By, Cell, Key, Pending, Range, Recorder};

/// The only table.
pub const CELL: &str = "cell";

/// The index of the tags.
const BY_TAG: &str = "by_tag";

/// Tags are below this.
const TAGS: u64 = 4;

/// The number of rows that a scan shows at most before it is broken off, if it is.
const FEW: usize = 2;

/// A table of cells: a key, a tag with an index, a value that is written once, and bytes that follow
/// from it, so that a row that is put together from two shows.
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

fn body(value: u64) -> Vec<u8> {
    (0..value % 50).map(|at| (value * 31 + at) as u8).collect()
}

/// The cell of a row of all columns. One that was put together is one that nobody wrote.
fn cell_of(row: &Row) -> (Key, Cell) {
    let (value, tag) = (row.u64(2), row.u64(1));
    let value = if row.bytes(3) == body(value) { value } else { u64::MAX };
    (row.u64(0), Cell { value, tag })
}

/// The shares of what a transaction does.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Looks at a key.
    pub get: u32,
    /// Looks at a range of keys or of tags.
    pub scan: u32,
    /// Looks at a key and changes it.
    pub change: u32,
    /// Changes a key without a look at it.
    pub blind: u32,
    /// Inserts a key.
    pub insert: u32,
    /// Deletes a key.
    pub delete: u32,
    /// Operations of a transaction, at most.
    pub longest: usize,
}

impl Mix {
    /// Some of all.
    pub const ALL: Self =
        Self { get: 3, scan: 3, change: 3, blind: 1, insert: 2, delete: 1, longest: 5 };

    fn most(&self) -> u32 {
        self.get + self.scan + self.change + self.blind + self.insert + self.delete
    }
}

/// A source of reads.
trait Source {
    fn get(&self, table: &Table, key: &[Value<'_>], row: &mut Row) -> Result<bool, Error>;
    fn scan(
        &self,
        table: &Table,
        what: &Scan<'_>,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), Error>;
}

macro_rules! source {
    ([$($generic:tt)*] $name:ty) => {
        impl<$($generic)*> Source for $name {
            fn get(&self, table: &Table, key: &[Value<'_>], row: &mut Row) -> Result<bool, Error> {
                self.get_into(table, key, row)
            }

            fn scan(
                &self,
                table: &Table,
                what: &Scan<'_>,
                visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
            ) -> Result<(), Error> {
                self.scan(table, what, visit)
            }
        }
    };
}

source!([E: Environment] Tx<'_, E>);
source!([E: Environment] ReadTx<'_, E>);
source!([] Snapshot);

/// One transaction, while it runs.
struct Doing<'a> {
    table: &'a Table,
    keys: u64,
    random: &'a mut SmallRng,
    pending: &'a mut Pending,
}

impl Doing<'_> {
    fn key(&mut self) -> Key {
        self.random.random_range(0..self.keys)
    }

    fn look(&mut self, from: &impl Source, key: Key) -> Result<bool, Error> {
        let mut row = Row::new();
        let found = from.get(self.table, &[Value::U64(key)], &mut row)?;
        self.pending.read(key, found.then(|| cell_of(&row).1));
        Ok(found)
    }

    /// Scans a range in one of the orders, in one of the directions, and perhaps not to its end.
    fn scan(&mut self, from: &impl Source) -> Result<(), Error> {
        let by = if self.random.random() { By::Key } else { By::Tag };
        let end = if by == By::Key { self.keys } else { TAGS };
        let low = self.random.random_range(0..end);
        let high = self.random.random_range(low..end);
        let (first, last) = ([Value::U64(low)], [Value::U64(high)]);
        let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        let mut scan = Scan::range(range);
        if by == By::Tag {
            scan = scan.by(BY_TAG);
        }
        let backward = self.random.random();
        if backward {
            scan = scan.backward();
        }
        let most = if self.random.random_ratio(1, 3) { FEW } else { usize::MAX };
        let mut saw: Vec<(Key, Cell)> = Vec::new();
        let mut broken = false;
        from.scan(self.table, &scan, &mut |row| {
            saw.push(cell_of(row));
            broken = saw.len() == most;
            if broken { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let mut covered = match by {
            By::Key => Range::keys(low, high),
            By::Tag => Range::tags(low, high),
        };
        if let Some((key, cell)) = saw.last().filter(|_| broken) {
            let place = Range::place(by, *key, *cell);
            *(if backward { &mut covered.low } else { &mut covered.high }) = place;
        }
        self.pending.scan(covered, saw);
        Ok(())
    }

    fn new_cell(&mut self, recorder: &Recorder) -> Cell {
        Cell { value: recorder.unique(), tag: self.random.random_range(0..TAGS) }
    }

    fn update<E: Environment>(
        &mut self,
        tx: &mut Tx<'_, E>,
        key: Key,
        recorder: &Recorder,
    ) -> Result<(), Error> {
        let cell = self.new_cell(recorder);
        let body = body(cell.value);
        let changes =
            [(1, Value::U64(cell.tag)), (2, Value::U64(cell.value)), (3, Value::Bytes(&body))];
        let done = tx.update(self.table, &[Value::U64(key)], &changes);
        self.written(key, Some(cell), done)
    }

    fn insert<E: Environment>(
        &mut self,
        tx: &mut Tx<'_, E>,
        key: Key,
        recorder: &Recorder,
    ) -> Result<(), Error> {
        let cell = self.new_cell(recorder);
        let body = body(cell.value);
        let done = tx.insert(self.table, &row(key, cell, &body));
        match done {
            Err(Error::DuplicateKey { .. }) => {
                self.pending.found(key, true);
                return Ok(());
            }
            done => done?,
        }
        self.pending.found(key, false);
        self.pending.write(key, Some(cell));
        Ok(())
    }

    /// A change of a key that has to be there.
    fn written(
        &mut self,
        key: Key,
        cell: Option<Cell>,
        done: Result<(), Error>,
    ) -> Result<(), Error> {
        let there = !matches!(done, Err(Error::MissingKey { .. }));
        if there {
            done?;
        }
        self.pending.found(key, there);
        if there {
            self.pending.write(key, cell);
        }
        Ok(())
    }
}

fn row(key: Key, cell: Cell, body: &[u8]) -> [Value<'_>; 4] {
    [Value::U64(key), Value::U64(cell.tag), Value::U64(cell.value), Value::Bytes(body)]
}

/// Random transactions on the keys below a number.
#[derive(Clone, Debug)]
pub struct Sharer {
    /// The table of [`schema`].
    pub table: Table,
    /// The number of keys.
    pub keys: u64,
    /// The mix of operations.
    pub mix: Mix,
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
        let table = db.table(CELL)?;
        let there: Vec<_> = (0..keys)
            .step_by(2)
            .map(|key| (key, Cell { value: key + 1, tag: key % TAGS }))
            .collect();
        let mut tx = db.begin()?;
        for (key, cell) in &there {
            let body = body(cell.value);
            tx.insert(&table, &row(*key, *cell, &body))?;
        }
        let _ticket = tx.commit()?;
        Ok((Self { table, keys, mix }, there))
    }

    /// Does what a transaction that changes things does, but its end.
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
        let (table, keys) = (&self.table, self.keys);
        let operations = random.random_range(1..=self.mix.longest);
        let mut doing = Doing { table, keys, random, pending };
        for _ in 0..operations {
            let Mix { get, scan, change, blind, insert, .. } = self.mix;
            let key = doing.key();
            let mut drawn = doing.random.random_range(0..self.mix.most());
            let mut is = |weight: u32| {
                let is = drawn < weight;
                drawn = drawn.wrapping_sub(weight);
                is
            };
            if is(get) {
                doing.look(tx, key)?;
            } else if is(scan) {
                doing.scan(tx)?;
            } else if is(change) {
                if doing.look(tx, key)? {
                    doing.update(tx, key, recorder)?;
                }
            } else if is(blind) {
                doing.update(tx, key, recorder)?;
            } else if is(insert) {
                doing.insert(tx, key, recorder)?;
            } else {
                let done = tx.delete(table, &[Value::U64(key)]);
                doing.written(key, None, done)?;
            }
        }
        Ok(())
    }

    fn read(
        &self,
        from: &impl Source,
        random: &mut SmallRng,
        pending: &mut Pending,
    ) -> Result<(), Error> {
        let (table, keys) = (&self.table, self.keys);
        let operations = random.random_range(1..=self.mix.longest);
        let mut doing = Doing { table, keys, random, pending };
        for _ in 0..operations {
            if doing.random.random() {
                let key = doing.key();
                doing.look(from, key)?;
            } else {
                doing.scan(from)?;
            }
        }
        Ok(())
    }

    /// Does what one that only reads does.
    ///
    /// # Errors
    /// As the operations.
    pub fn look<E: Environment>(
        &self,
        tx: &ReadTx<'_, E>,
        random: &mut SmallRng,
        pending: &mut Pending,
    ) -> Result<(), Error> {
        self.read(tx, random, pending)
    }

    /// The same on a snapshot.
    ///
    /// # Errors
    /// As the operations.
    pub fn look_at(
        &self,
        snapshot: &Snapshot,
        random: &mut SmallRng,
        pending: &mut Pending,
    ) -> Result<(), Error> {
        self.read(snapshot, random, pending)
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
                rows.push(cell_of(row));
                ControlFlow::Continue(())
            })?;
            tx.scan(&self.table, &Scan::all().by(BY_TAG), |row| {
                by_tag.push(cell_of(row));
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
