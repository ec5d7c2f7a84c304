//! The skeleton of the engines that redo from a log in files, InP and Log (P1 3.1, 3.3).
//!
//! Tables, or the newest part of them, live in volatile memory. A transaction that changes
//! something has one record in a log on files; a group of them becomes durable by one sync. The
//! engines differ in their [`RedoTables`]: what the tables are, and what bounds the log. The rest
//! is [`RedoEngine`]:
//!
//! | operation | steps |
//! |---|---|
//! | COMMIT | end the log record; sync with the group; do a bounded step of what was put off |
//! | ABORT | undo in the tables; drop the log record |
//! | open | redo the logged transactions: a record is whole or does not count |

mod engine;
mod log;
mod select;

use std::sync::Arc;

use pm::Environment;
use storage::wal::{Need, Wal};
use storage::{Catalog, Row, Value};

use crate::contract::{Footprint, Read, RecoveryReport, Resources};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::{OwnOptions, Setup};
use crate::state::State;
use crate::stats::EngineStats;

pub(crate) use engine::RedoEngine;
pub(crate) use log::{LogParts, RedoLog};

/// The log of a partition and what goes with it.
#[derive(Debug)]
pub struct Redo<E: Environment> {
    pub(crate) log: RedoLog<E::Files, E::Volatile>,
    /// The pool, which holds only the description: asked whether it, and with it this process, is
    /// still good.
    pub(crate) pool: E::Durable,
    pub(crate) state: State,
    /// A tuple before the operation, and the columns of it that are asked for.
    pub(crate) before: Row,
    pub(crate) columns: Vec<u16>,
}

impl<E: Environment> Redo<E> {
    fn new(log: LogOf<E>, pool: E::Durable) -> Self {
        let (before, columns) = (Row::new(), Vec::new());
        Self { log: RedoLog::new(log), pool, state: State::default(), before, columns }
    }

    /// Fails unless the partition can be used.
    #[inline]
    pub(crate) fn usable(&self) -> Result<(), EngineError> {
        self.state.usable(&self.pool)
    }

    /// Logs the operation that the log has encoded: see [`RedoLog::put`].
    pub(crate) fn put(&mut self, need: Need) -> Result<(), EngineError> {
        self.log.put(&mut self.state, need)
    }
}

/// The file log of a partition.
pub(crate) type LogOf<E> = Wal<<E as Environment>::Files, <E as Environment>::Volatile>;

/// The tables of an engine that does its log again: what is particular about it.
pub trait RedoTables<E: Environment>: Send + Sync + Sized + 'static {
    /// The kind of the engine.
    const KIND: EngineKind;
    /// True if the data may outgrow the volatile memory.
    const LARGER_THAN_MEMORY: bool;
    /// Its options.
    type Options: OwnOptions;
    /// The tables as they are read.
    type Rows: Read;

    /// Creates empty tables and an empty log.
    fn create(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        options: (&Setup, &Self::Options),
    ) -> Result<(Self, LogOf<E>), EngineError>;

    /// Opens tables and does in them what the log has.
    fn open(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        options: (&Setup, &Self::Options),
    ) -> Result<(Self, LogOf<E>, RecoveryReport), EngineError>;

    /// The tables, for SELECT.
    fn rows(&self) -> &Self::Rows;

    /// Inserts a tuple.
    fn insert(
        &mut self,
        redo: &mut Redo<E>,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<(), EngineError>;

    /// Updates columns of the tuple of a table with a key.
    fn update(
        &mut self,
        redo: &mut Redo<E>,
        at: (u16, &[Value<'_>]),
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError>;

    /// Deletes the tuple of a table with a key.
    fn delete(&mut self, redo: &mut Redo<E>, at: (u16, &[Value<'_>])) -> Result<(), EngineError>;

    /// Keeps house after a commit, and does a bounded step of what was put off. The transaction is
    /// committed whatever becomes of that.
    fn committed(&mut self, redo: &mut Redo<E>) -> Result<(), EngineError>;

    /// Undoes the open transaction.
    fn undo(&mut self) -> Result<(), EngineError>;

    /// See [`crate::Engine::checkpoint`]; there is no open transaction.
    fn checkpoint(&mut self, redo: &mut Redo<E>) -> Result<(), EngineError>;

    /// See [`crate::Engine::background`].
    fn background(&mut self, redo: &mut Redo<E>, budget: u64) -> Result<u64, EngineError>;

    /// Returns whether there is work that was put off.
    fn has_work(&self, redo: &Redo<E>) -> bool;

    /// Returns whether the log is longer than it ever is without crashes.
    fn is_overdue(&self, redo: &Redo<E>) -> bool;

    /// Gives up the work that has been begun, whose files the next opening would remove.
    fn give_up_work(&mut self) -> Result<(), EngineError>;

    /// See [`crate::Engine::footprint`]; of what is not the log.
    fn footprint(&self) -> Result<Footprint, EngineError>;

    /// Returns what the engine has done and put off, but for what every engine with such a log
    /// counts.
    fn stats(&self, redo: &Redo<E>) -> EngineStats;

    /// Checks the tables; returns the number of tuples.
    fn check(&self) -> Result<u64, EngineError>;
}
