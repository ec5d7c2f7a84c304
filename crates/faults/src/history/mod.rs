//! The oracle for transactions of several threads in one partition: is what they saw what some
//! serial order of them would have shown, and does a crash leave a prefix of it?
//!
//! A [`History`] says of each transaction what it read, what it wrote, when it began and when it was
//! acknowledged, by a logical clock. Every written value is unique, so that a value tells who wrote
//! it. [`History::check`] does what Elle does (Kingsbury, Alvaro: Elle, VLDB 2020):
//!
//! 1. Reads that are wrong by themselves: of an aborted write, of one that its writer replaced, of
//!    what nobody wrote, of other than what the transaction itself has written, of two versions.
//! 2. The versions of each key are put into an order: a transaction that has read a version and
//!    writes the key follows it, who was acknowledged before another one began precedes it, and
//!    where that leaves a choice the engine's own number of the commit, or the acknowledgement, is
//!    tried first.
//! 3. The graph of what has to precede what: who wrote the version before (`ww`), who wrote what was
//!    read (`wr`), who read what was replaced (`rw`), who was acknowledged before another one began
//!    (time).
//! 4. A cycle has a name, by its edges; the shortest one is shown. If it hangs on a choice, the other
//!    one is tried.
//! 5. No cycle: the transactions are run in an order of the graph, and each read has to see what it
//!    saw. What is accepted therefore has been shown to have such an order.
//!
//! | rule | a transaction is |
//! |---|---|
//! | [`Rule::Serializable`] | one point between its beginning and its acknowledgement |
//! | [`Rule::Snapshot`] | two points there, one where it reads and a later one where it writes, and no other one writes a key of its in between |
//!
//! A read that shows that a key is absent does not say who deleted it, and a scan that a key is not
//! in it: these have several candidates among the versions, and lie between the first and the last.
//!
//! [`History::recovered`] adds what a crash has left as a reader of everything, behind all that were
//! durable. Whoever was in flight belongs to the history if a value of its was seen.

mod anomaly;
mod cycle;
mod digest;
mod graph;
mod order;
mod record;
mod verdict;
mod versions;

use perdura::{EngineKind, Isolation};

pub use anomaly::{Anomaly, Violation};
pub use record::{Pending, Recorder};

/// Numbers a row. Whoever records chooses how a table and a key make one number.
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
    /// The time when its end was known to whoever ran it.
    pub end: Option<u64>,
    /// The time when it was promised to be durable.
    pub durable: Option<u64>,
    /// Its end.
    pub outcome: Outcome,
    /// The number of the commit: the engine's own, or the place among writers. It is a hint alone: a
    /// wrong one hides nothing.
    pub order: Option<u64>,
    /// Its operations, in order.
    pub operations: Vec<Operation>,
}

/// The rule by which histories are right; see the module's comment.
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

impl History {
    /// Looks for an order of the transactions that the rule allows; returns the numbers of those
    /// that count, as they wrote.
    ///
    /// # Errors
    /// The anomaly. Two writes of one value, too.
    pub fn check(&self, rule: Rule) -> Result<Vec<usize>, Box<Violation>> {
        verdict::of(self, rule, None)
    }

    /// The same for what a crash has left: `contents` is what was there afterwards, and of the
    /// history counts what was known before `at`. Whoever had not ended by then may be there or
    /// not, whoever was durable has to be, all of them whole and as a prefix of the order.
    ///
    /// # Errors
    /// The anomaly.
    pub fn recovered(
        &self,
        rule: Rule,
        at: u64,
        contents: &[(Key, Cell)],
    ) -> Result<Vec<usize>, Box<Violation>> {
        verdict::of(self, rule, Some((at, contents)))
    }
}
