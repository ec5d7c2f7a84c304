//! An engine's properties in one value, so that code above the engines does not ask for an engine
//! by name.
//!
//! Each engine declares its own ([`crate::Method::TRAITS`]): a new one does not compile without it.

use std::fmt;

/// The place of what an engine makes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DurableIn {
    /// Data lies in the pool: the engine needs no files.
    Pool,
    /// Data lies in files: the pool holds the description of the database and no more.
    Files,
    /// Data lies in the pool and in files.
    Both,
}

/// The number of transactions that a partition runs at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Concurrency {
    /// A single one: a writer has the partition to itself.
    Serial,
    /// Many transactions: each runs in a session of its own ([`crate::Sessions`]), and may end in
    /// [`crate::EngineError::Conflict`].
    Shared,
}

/// The isolation of transactions from each other. Each level gives all that the ones before it
/// give.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Isolation {
    /// A transaction sees nothing that is not committed.
    ReadCommitted,
    /// A transaction sees one version of the data from beginning to end; of two that change the
    /// same tuple one ends in a conflict. Write skew is possible.
    Snapshot,
    /// Transactions see what some serial order of them would have shown.
    Serializable,
}

impl Isolation {
    /// The level's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::Snapshot => "snapshot",
            Self::Serializable => "serializable",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The fate of a transaction that a crash has cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfinished {
    /// The transaction has never been.
    Undone,
    /// The transaction goes on where it was, if it was given a name: [`crate::Sessions::in_flight`]
    /// has it, [`crate::Sessions::resume`] gives it back. Without a name it could not be found.
    Continued,
}

/// The properties of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineTraits {
    /// The place of what it makes durable.
    pub durable_in: DurableIn,
    /// The number of transactions that a partition runs at the same time.
    pub concurrency: Concurrency,
    /// The strongest isolation that it gives; it gives at least what is asked for, and refuses
    /// what is stronger than this.
    pub isolation: Isolation,
    /// The isolation of a transaction that asks for none.
    pub usual_isolation: Isolation,
    /// True if it has [`crate::Engine::snapshot_source`].
    pub snapshots: bool,
    /// The fate of a transaction that a crash has cut off.
    pub unfinished: Unfinished,
    /// True if the data may outgrow the volatile memory: what an engine needs of that does not grow
    /// with them.
    pub larger_than_memory: bool,
}

impl EngineTraits {
    /// Returns the traits of an engine of P1: serial, and what is unfinished is undone.
    pub(crate) const fn serial(
        durable_in: DurableIn,
        snapshots: bool,
        larger_than_memory: bool,
    ) -> Self {
        Self {
            durable_in,
            concurrency: Concurrency::Serial,
            isolation: Isolation::Serializable,
            usual_isolation: Isolation::Serializable,
            snapshots,
            unfinished: Unfinished::Undone,
            larger_than_memory,
        }
    }

    /// Returns whether the engine needs a directory of files.
    pub const fn needs_files(&self) -> bool {
        match self.durable_in {
            DurableIn::Pool => false,
            DurableIn::Files | DurableIn::Both => true,
        }
    }
}
