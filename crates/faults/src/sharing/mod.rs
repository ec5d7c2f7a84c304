//! Random transactions of several threads in one table, recorded for the oracle
//! ([`crate::history`]).
//!
//! A [`Mix`] says what they are; [`Reads`] and [`Writes`] say where they run: in a database
//! ([`Sharer`]), or in whatever else a test gives them.

mod database;

use std::ops::Bound;

use rand::Rng;
use rand::rngs::SmallRng;

use crate::history::{By, Cell, Key, Pending, Range, Recorder};

pub use database::{CELL, Sharer, schema};

/// Tags are below this.
pub const TAGS: u64 = 4;

/// The number of rows that a scan shows at most before it is broken off, if it is.
const FEW: usize = 2;

/// The bytes of a row, which follow from its value, so that a row that is put together from two
/// shows.
pub fn body(value: u64) -> Vec<u8> {
    (0..value % 50).map(|at| (value * 31 + at) as u8).collect()
}

/// The cell of a row. A cell put together from several was never written.
pub fn cell_of(value: u64, tag: u64, found: &[u8]) -> Cell {
    let value = if found == body(value) { value } else { u64::MAX };
    Cell { value, tag }
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
    /// Looks at a key to change it ([`Writes::get_for_update`]), and changes or deletes it.
    pub locked: u32,
    /// Marks a savepoint, or goes back to one.
    pub savepoint: u32,
    /// Scans have bounds of every kind, not only included ones.
    pub bounds: bool,
    /// Operations of a transaction, at most.
    pub longest: usize,
}

impl Mix {
    /// Nothing.
    pub const NONE: Self = Self {
        get: 0,
        scan: 0,
        change: 0,
        blind: 0,
        insert: 0,
        delete: 0,
        locked: 0,
        savepoint: 0,
        bounds: false,
        longest: 5,
    };

    /// Some of what every engine can do.
    pub const ALL: Self =
        Self { get: 3, scan: 3, change: 3, blind: 1, insert: 2, delete: 1, ..Self::NONE };

    /// Some of what an engine with locks and savepoints can do.
    pub const LOCKS: Self = Self {
        get: 4,
        scan: 4,
        change: 2,
        insert: 3,
        delete: 1,
        locked: 4,
        savepoint: 2,
        bounds: true,
        longest: 6,
        ..Self::NONE
    };

    fn most(&self) -> u32 {
        let before = self.get + self.scan + self.change + self.blind + self.insert + self.delete;
        before + self.locked + self.savepoint
    }
}

/// A range that is scanned.
#[derive(Clone, Copy, Debug)]
pub struct Scanned {
    /// The order, and what the bounds are of.
    pub by: By,
    /// The lower bound: of keys or of tags.
    pub low: Bound<u64>,
    /// The upper bound.
    pub high: Bound<u64>,
    /// The highest come first.
    pub backward: bool,
}

impl Scanned {
    /// Everything, by the order of the keys.
    pub const ALL: Self =
        Self { by: By::Key, low: Bound::Unbounded, high: Bound::Unbounded, backward: false };

    /// The places that it covers.
    fn covers(&self) -> Range {
        let low = match self.low {
            Bound::Unbounded => 0,
            Bound::Included(low) => low,
            Bound::Excluded(low) => low + 1,
        };
        let high = match self.high {
            Bound::Unbounded => u64::MAX,
            Bound::Included(high) => high,
            Bound::Excluded(high) => high - 1,
        };
        match self.by {
            By::Key => Range::keys(low, high),
            By::Tag => Range::tags(low, high),
        }
    }
}

/// Shown the rows of a scan; it returns whether it wants the next one.
pub type Shown<'v> = &'v mut dyn FnMut(Key, Cell) -> bool;

/// A transaction that reads.
pub trait Reads {
    /// The error of its operations.
    type Error;

    /// The row of a key.
    ///
    /// # Errors
    /// A conflict, among others.
    fn get(&mut self, key: Key) -> Result<Option<Cell>, Self::Error>;

    /// Shows the rows of a range, in order.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn scan(&mut self, what: &Scanned, shown: Shown<'_>) -> Result<(), Self::Error>;
}

/// A transaction that changes things.
pub trait Writes: Reads {
    /// A place in it.
    type Savepoint: Copy;

    /// The row of a key that is going to be changed.
    ///
    /// # Errors
    /// As [`Reads::get`].
    fn get_for_update(&mut self, key: Key) -> Result<Option<Cell>, Self::Error>;

    /// Inserts a row; returns false if there is one with this key.
    ///
    /// # Errors
    /// As [`Reads::get`].
    fn insert(&mut self, key: Key, cell: Cell) -> Result<bool, Self::Error>;

    /// Replaces a row; returns false if there is none.
    ///
    /// # Errors
    /// As [`Reads::get`].
    fn update(&mut self, key: Key, cell: Cell) -> Result<bool, Self::Error>;

    /// Deletes a row; returns false if there is none.
    ///
    /// # Errors
    /// As [`Reads::get`].
    fn delete(&mut self, key: Key) -> Result<bool, Self::Error>;

    /// Marks this place.
    ///
    /// # Errors
    /// As [`Reads::get`].
    fn savepoint(&mut self) -> Result<Self::Savepoint, Self::Error>;

    /// Undoes what came after a savepoint, which stays valid.
    ///
    /// # Errors
    /// As [`Reads::get`].
    fn rollback_to(&mut self, savepoint: Self::Savepoint) -> Result<(), Self::Error>;
}

/// Random transactions on the keys below a number.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The number of keys.
    pub keys: u64,
    /// The mix of operations.
    pub mix: Mix,
}

impl Work {
    /// The rows at the beginning: every other key.
    pub fn initial(&self) -> Vec<(Key, Cell)> {
        let there = (0..self.keys).step_by(2);
        there.map(|key| (key, Cell { value: key + 1, tag: key % TAGS })).collect()
    }

    /// Runs the operations of a transaction that changes rows, without its end.
    ///
    /// # Errors
    /// As the operations.
    pub fn change<C: Writes>(
        &self,
        on: &mut C,
        random: &mut SmallRng,
        recorder: &Recorder,
        pending: &mut Pending,
    ) -> Result<(), C::Error> {
        let operations = random.random_range(1..=self.mix.longest);
        let mut doing = Doing { work: self, random, pending };
        let mut savepoints = Vec::new();
        for _ in 0..operations {
            let Mix { get, scan, change, blind, insert, delete, locked, .. } = self.mix;
            let key = doing.random.random_range(0..self.keys);
            let mut drawn = doing.random.random_range(0..self.mix.most());
            let mut is = |weight: u32| {
                let is = drawn < weight;
                drawn = drawn.wrapping_sub(weight);
                is
            };
            if is(get) {
                doing.read(on, key)?;
            } else if is(scan) {
                doing.scan(on)?;
            } else if is(change) {
                if doing.read(on, key)?.is_some() {
                    doing.update(on, key, recorder)?;
                }
            } else if is(blind) {
                doing.update(on, key, recorder)?;
            } else if is(insert) {
                doing.insert(on, key, recorder)?;
            } else if is(delete) {
                let there = on.delete(key)?;
                doing.changed(key, None, there);
            } else if is(locked) {
                doing.change_locked(on, key, recorder)?;
            } else {
                doing.mark(on, &mut savepoints)?;
            }
        }
        Ok(())
    }

    /// Runs the operations of a transaction that only reads.
    ///
    /// # Errors
    /// As the operations.
    pub fn read<L: Reads>(
        &self,
        on: &mut L,
        random: &mut SmallRng,
        pending: &mut Pending,
    ) -> Result<(), L::Error> {
        let operations = random.random_range(1..=self.mix.longest);
        let mut doing = Doing { work: self, random, pending };
        for _ in 0..operations {
            if doing.random.random() {
                let key = doing.random.random_range(0..self.keys);
                doing.read(on, key)?;
            } else {
                doing.scan(on)?;
            }
        }
        Ok(())
    }
}

/// One transaction, while it runs.
struct Doing<'a> {
    work: &'a Work,
    random: &'a mut SmallRng,
    pending: &'a mut Pending,
}

impl Doing<'_> {
    fn read<L: Reads>(&mut self, on: &mut L, key: Key) -> Result<Option<Cell>, L::Error> {
        let found = on.get(key)?;
        self.pending.read(key, found);
        Ok(found)
    }

    /// Scans a range in one of the orders, in one of the directions, and perhaps not to its end.
    fn scan<L: Reads>(&mut self, on: &mut L) -> Result<(), L::Error> {
        let by = if self.random.random() { By::Key } else { By::Tag };
        let end = if by == By::Key { self.work.keys } else { TAGS };
        let low = self.random.random_range(0..end);
        let high = self.random.random_range(low..end);
        let (mut first, mut last) = (Bound::Included(low), Bound::Included(high));
        if self.work.mix.bounds {
            let mut inside = high - low;
            let mut bound = |included, excluded| match self.random.random_range(0..6) {
                0 => Bound::Unbounded,
                1 | 2 if inside > 0 => {
                    inside -= 1;
                    excluded
                }
                _ => included,
            };
            first = bound(first, Bound::Excluded(low));
            last = bound(last, Bound::Excluded(high));
        }
        let backward = self.random.random();
        let what = Scanned { by, low: first, high: last, backward };
        let most = if self.random.random_ratio(1, 3) { FEW } else { usize::MAX };
        let mut saw: Vec<(Key, Cell)> = Vec::new();
        let mut broken = false;
        on.scan(&what, &mut |key, cell| {
            saw.push((key, cell));
            broken = saw.len() == most;
            !broken
        })?;
        let mut covered = what.covers();
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

    fn update<C: Writes>(
        &mut self,
        on: &mut C,
        key: Key,
        recorder: &Recorder,
    ) -> Result<(), C::Error> {
        let cell = self.new_cell(recorder);
        let there = on.update(key, cell)?;
        self.changed(key, Some(cell), there);
        Ok(())
    }

    fn insert<C: Writes>(
        &mut self,
        on: &mut C,
        key: Key,
        recorder: &Recorder,
    ) -> Result<(), C::Error> {
        let cell = self.new_cell(recorder);
        let inserted = on.insert(key, cell)?;
        self.pending.found(key, !inserted);
        if inserted {
            self.pending.write(key, Some(cell));
        }
        Ok(())
    }

    fn change_locked<C: Writes>(
        &mut self,
        on: &mut C,
        key: Key,
        recorder: &Recorder,
    ) -> Result<(), C::Error> {
        let found = on.get_for_update(key)?;
        self.pending.read(key, found);
        if found.is_none() {
            return self.insert(on, key, recorder);
        }
        if self.random.random_ratio(1, 4) {
            let there = on.delete(key)?;
            self.changed(key, None, there);
            return Ok(());
        }
        self.update(on, key, recorder)
    }

    /// A change of a key that has to be there.
    fn changed(&mut self, key: Key, cell: Option<Cell>, there: bool) {
        self.pending.found(key, there);
        if there {
            self.pending.write(key, cell);
        }
    }

    /// Marks a savepoint, or goes back to one.
    fn mark<C: Writes>(
        &mut self,
        on: &mut C,
        marks: &mut Vec<(C::Savepoint, usize)>,
    ) -> Result<(), C::Error> {
        if marks.is_empty() || self.random.random() {
            marks.push((on.savepoint()?, self.pending.operations()));
            return Ok(());
        }
        let place = self.random.random_range(0..marks.len());
        marks.truncate(place + 1);
        let (savepoint, operations) = marks[place];
        on.rollback_to(savepoint)?;
        self.pending.roll_back_to(operations);
        Ok(())
    }
}
