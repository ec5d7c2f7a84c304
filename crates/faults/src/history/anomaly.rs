//! The names of what can be wrong, and what is said of it.

use std::fmt;

/// A fault of a history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Anomaly {
    /// Writes of two transactions lie in one order here and in the other there (G0).
    DirtyWrite,
    /// A write of a transaction that aborted was read (G1a).
    AbortedRead,
    /// A write was read that its transaction itself replaced (G1b).
    IntermediateRead,
    /// Transactions have read from one another, or what lies in a circle of writes and reads (G1c).
    CircularRead,
    /// A row, or an absence, that no transaction has made.
    Fabricated,
    /// A transaction did not see what it had written itself.
    OwnWriteUnseen,
    /// A transaction saw two states of one key.
    NonRepeatableRead,
    /// A row appeared in, or vanished from, a range that a transaction relied on.
    Phantom,
    /// A version was written that does not build on the one before it, which its writer had read an
    /// older one of.
    LostUpdate,
    /// A part of a transaction was read, and another part was not (G-single).
    ReadSkew,
    /// Two transactions have each read what the other one replaced (G2-item).
    WriteSkew,
    /// Two readers saw two writers in opposite orders.
    LongFork,
    /// A serial order exists, but none that respects real time: a transaction that ended before
    /// another one began does not always come first.
    RealTime,
    /// A transaction was durable by promise, and is gone after a crash.
    DirtyAcknowledgement,
    /// A crash has left a part of a transaction.
    Torn,
    /// A crash has left a transaction without one that comes before it.
    NotAPrefix,
    /// A value was written twice: the history says nothing.
    SameValueTwice,
    /// No order was found, nor a reason why there is none.
    Undecided,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DirtyWrite => "dirty write (G0)",
            Self::AbortedRead => "dirty read (G1a: aborted read)",
            Self::IntermediateRead => "dirty read (G1b: intermediate read)",
            Self::CircularRead => "dirty read (G1c: circular information flow)",
            Self::Fabricated => "something that no transaction has written",
            Self::OwnWriteUnseen => "own write not seen",
            Self::NonRepeatableRead => "non-repeatable read",
            Self::Phantom => "phantom",
            Self::LostUpdate => "lost update",
            Self::ReadSkew => "read skew (G-single)",
            Self::WriteSkew => "write skew (G2)",
            Self::LongFork => "long fork",
            Self::RealTime => "real-time violation (not strict)",
            Self::DirtyAcknowledgement => "dirty acknowledgement",
            Self::Torn => "torn transaction",
            Self::NotAPrefix => "not a prefix",
            Self::SameValueTwice => "a value that was written twice",
            Self::Undecided => "undecided",
        })
    }
}

/// An anomaly and how it comes about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Its name.
    pub anomaly: Anomaly,
    /// The steps of the shortest cycle, or of the one read that is wrong.
    pub steps: Vec<String>,
    /// The number of transactions in the cycle; 0 if there is none.
    pub length: usize,
    /// Other orders were tried before, some of them as guesses.
    pub guessed: bool,
}

impl Violation {
    pub(super) fn of_one(anomaly: Anomaly, step: String) -> Box<Self> {
        Box::new(Self { anomaly, steps: vec![step], length: 0, guessed: false })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.anomaly, self.steps.join("; "))?;
        if self.guessed {
            f.write_str(" (orders of versions were guessed)")?;
        }
        Ok(())
    }
}

impl std::error::Error for Violation {}
