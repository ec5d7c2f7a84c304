//! A history: its transactions, what they saw and wrote, and the rule that it has to keep.

use perdura::{EngineKind, Isolation};

/// Numbers a row. The recording code chooses how a table and a key make one number.
pub type Key = u64;

/// The contents of a row, as far as the oracle looks at them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cell {
    /// Written once in a history.
    pub value: u64,
    /// The key of a secondary index.
    pub tag: u64,
}

/// The outcome of a look at one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The key has no row.
    Absent,
    /// The key has a row.
    Present,
    /// The key has this row.
    Cell(Cell),
}

/// The order of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The order is that of the primary key.
    Key,
    /// The order is that of the tag, and of the key where tags are equal.
    Tag,
}

/// The places that a scan has covered: from `low` to `high`, both included. One that was broken off
/// has covered the places up to where it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The order.
    pub by: By,
    /// The lowest place.
    pub low: (u64, u64),
    /// The highest place.
    pub high: (u64, u64),
}

impl Range {
    /// All keys.
    pub const ALL: Self = Self { by: By::Key, low: (0, 0), high: (u64::MAX, u64::MAX) };

    /// The keys from `low` to `high`, both included.
    pub fn keys(low: Key, high: Key) -> Self {
        Self { by: By::Key, low: (low, 0), high: (high, u64::MAX) }
    }

    /// The rows with tags from `low` to `high`, both included.
    pub fn tags(low: u64, high: u64) -> Self {
        Self { by: By::Tag, low: (low, 0), high: (high, u64::MAX) }
    }

    /// Returns the place of a row in the order of the scan.
    pub fn place(by: By, key: Key, cell: Cell) -> (u64, u64) {
        match by {
            By::Key => (key, 0),
            By::Tag => (cell.tag, key),
        }
    }

    /// Returns true if the scan has to show this row.
    pub fn has(&self, key: Key, cell: Cell) -> bool {
        (self.low..=self.high).contains(&Self::place(self.by, key, cell))
    }
}

/// An operation of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A look at one key.
    Read {
        /// The key.
        key: Key,
        /// The outcome.
        saw: Seen,
    },
    /// A look at all keys of a range.
    Scan {
        /// The places that it covered.
        range: Range,
        /// All that there was.
        saw: Vec<(Key, Cell)>,
    },
    /// A change of a key.
    Write {
        /// The key.
        key: Key,
        /// The new cell; `None` if it was deleted.
        cell: Option<Cell>,
    },
}

/// The end of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The transaction was acknowledged.
    Committed,
    /// Nothing of it may ever be seen.
    Aborted,
    /// The end is not known: the transaction was committing, or had not come to it.
    InFlight,
}

/// One transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// The thread, for people.
    pub session: usize,
    /// The time when it began.
    pub begin: u64,
    /// The time when its end was known to the thread that ran it.
    pub end: Option<u64>,
    /// The time when it was promised to be durable.
    pub durable: Option<u64>,
    /// Its end.
    pub outcome: Outcome,
    /// The number of the commit: the engine's own, or the place among writers. It is a hint alone:
    /// a wrong one hides nothing.
    pub order: Option<u64>,
    /// Its operations, in order.
    pub operations: Vec<Operation>,
}

/// The rule by which histories are right; [`crate::history`] has a table of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Strict serializability.
    Serializable,
    /// Snapshot isolation, of which every transaction sees what was acknowledged before it began.
    Snapshot,
}

/// A record of what transactions have done.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct History {
    /// The rows that were there before. All other keys were absent.
    pub initial: Vec<(Key, Cell)>,
    /// The transactions, in any order.
    pub transactions: Vec<Transaction>,
}

impl Rule {
    /// The rule of an engine.
    ///
    /// # Panics
    /// It gives less than snapshots.
    pub fn of(engine: EngineKind) -> Self {
        match engine.traits().usual_isolation {
            Isolation::Serializable => Self::Serializable,
            Isolation::Snapshot => Self::Snapshot,
            Isolation::ReadCommitted => panic!("{engine} has no rule"),
        }
    }
}
