//! A transaction of a session: its number, how it begins, and what a crash has left of it.

use std::fmt;
use std::time::Duration;

use crate::traits::Isolation;

/// The number of a transaction: in a partition, no two that are open have the same one, and an
/// engine that continues transactions keeps it through a crash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TxId(pub u64);

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A transaction that waits to be continued: a crash has cut it off, or it was detached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InFlight {
    /// Its number.
    pub id: TxId,
    /// Its name.
    pub name: Vec<u8>,
    /// The number of its statements that have been done, durably.
    pub statements: u64,
    /// The number of openings that have found it since its last statement.
    pub openings: u64,
}

/// The way in which a transaction begins in a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin {
    /// The least isolation that it gets.
    pub isolation: Isolation,
    /// The moment at which it began for the first time, in an order of its partition: a rerun keeps
    /// it, so that the oldest can win in the end. No two transactions that are open have the same
    /// one.
    pub age: u64,
    /// The longest time that each of its operations waits for locks, in all, before it ends in a
    /// conflict ([`crate::ConflictReason::Timeout`]); as long as the engine lets it if `None`.
    pub wait: Option<Duration>,
    /// The transaction changes nothing, so it does none of the work that was put off and that
    /// writers wait for.
    pub reads_only: bool,
}
