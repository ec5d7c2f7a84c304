//! The words between the page's process and the process of an engine.
//!
//! 1. The task is on the command line, in JSON.
//! 2. Counts are in a mapped file that outlives the engine's process: [`Counter`]. They are stored
//!    when what they count has been acknowledged, so that a kill takes none of them back.
//! 3. Events are lines of JSON on standard output: [`Event`].
//! 4. Changes of users and latency are lines on standard input: [`Settings`].

use std::path::PathBuf;

use command::args::demo::MOST_USERS;
use serde::{Deserialize, Serialize};

/// Long transactions at a time.
pub(crate) const LONG: usize = 3;
/// Counters in the file.
pub(super) const COUNTERS: usize = 3 * MOST_USERS as usize + LONG;

/// The task of an engine's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Task {
    /// The engine's name.
    pub(super) engine: String,
    /// A directory for the database; one that has a database is gone on with.
    pub(super) directory: PathBuf,
    /// The file of counters.
    pub(super) counters: PathBuf,
    /// Subscribers in each partition.
    pub(super) subscribers: u32,
    /// Statements of a long transaction.
    pub(super) statements: u32,
    /// Milliseconds between two of them.
    pub(super) pace_ms: u32,
    /// Users and latency when it starts.
    pub(super) settings: Settings,
}

/// The settings that change while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings {
    /// Users at work.
    pub(super) users: u32,
    /// Emulated: nanoseconds that each fence takes longer.
    pub(super) latency_ns: u64,
}

/// A counter in the file, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counter {
    /// Acknowledged receipts of a user: transactions that add one to a row of the user's own.
    Receipts(usize),
    /// Acknowledged transactions of a user, receipts among them.
    Transactions(usize),
    /// Nanoseconds in which they were answered.
    Nanoseconds(usize),
    /// The [`Position`] of a long transaction.
    Long(usize),
}

impl Counter {
    /// Its place among [`COUNTERS`].
    pub(super) const fn place(self) -> usize {
        const USERS: usize = MOST_USERS as usize;
        match self {
            Self::Receipts(user) => user,
            Self::Transactions(user) => USERS + user,
            Self::Nanoseconds(user) => 2 * USERS + user,
            Self::Long(number) => 3 * USERS + number,
        }
    }
}

/// The place that a long transaction has come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// Runs that are committed.
    pub(super) runs: u64,
    /// Statements of the next one that are done.
    pub(super) statements: u64,
}

/// Bits for the statements.
const STATEMENT_BITS: u32 = 16;

impl Position {
    /// As one number, so that it is stored at once.
    pub(super) const fn packed(self) -> u64 {
        self.runs << STATEMENT_BITS | self.statements
    }

    /// The position of a number.
    pub(super) const fn of(packed: u64) -> Self {
        let statements = packed & ((1 << STATEMENT_BITS) - 1);
        Self { runs: packed >> STATEMENT_BITS, statements }
    }

    /// Statements of all runs of so many each.
    pub(super) const fn total(self, statements: u64) -> u64 {
        self.runs * statements + self.statements
    }
}

/// The contents that a process found, before it changed any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// The receipts of each user.
    pub(super) receipts: Vec<u64>,
    /// The long transactions.
    pub(super) long: Vec<HeldLong>,
}

/// A long transaction, as a process found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeldLong {
    /// Committed runs, and statements of the one that waits to be continued.
    pub(super) position: Position,
    /// The statements that the rows show, of committed runs alone.
    pub(super) shown: u64,
}

/// An event of an engine's process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    /// The database is new, and has its subscribers.
    Loaded,
    /// The database was there, and is open.
    Opened {
        /// Milliseconds of the open call.
        open_ms: f64,
        /// The contents.
        held: Held,
    },
    /// A first transaction that writes is durable.
    Committed,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_counter_has_a_place_of_its_own() {
        let users = (0..MOST_USERS as usize).flat_map(|u| {
            [Counter::Receipts(u), Counter::Transactions(u), Counter::Nanoseconds(u)]
        });
        let all = users.chain((0..LONG).map(Counter::Long)).map(Counter::place);
        assert_eq!(all.collect::<BTreeSet<_>>(), (0..COUNTERS).collect());
    }

    #[test]
    fn a_position_is_one_number_and_back() {
        for position in [(0, 0), (7, 199), (1 << 40, 10_000)] {
            let position = Position { runs: position.0, statements: position.1 };
            assert_eq!(Position::of(position.packed()), position);
        }
        assert_eq!(Position { runs: 2, statements: 3 }.total(200), 403);
    }
}
