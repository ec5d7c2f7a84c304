//! The skeleton of the engines that undo, NVM-InP and NVM-Log (P1 4.1, 4.3).
//!
//! A transaction's changes are durable before it commits, under entries of a log in the pool that
//! only undoes. The engines differ in their tables, [`UndoTables`]: how an operation changes them,
//! and what undoes that. The rest is [`UndoEngine`]:
//!
//! | operation | steps |
//! |---|---|
//! | COMMIT | fence; store the log's state word; fence |
//! | ABORT | undo the log's entries, the newest first, durably; store the state word; fence |
//! | ROLLBACK | undo the entries after the savepoint, and take each out of the log |
//! | open | read what the log has left to do; finish what has committed, undo what was open |
//!
//! Invariants:
//! - What an operation changes in place is in a durable log entry before.
//! - What a transaction supersedes is cleared by the first operation after its commit and given out
//!   again after the next commit ([`Superseded`]).

mod engine;
mod select;

use std::fmt::Debug;
use std::sync::Arc;

use heap::Lane;
use index::Append;
use pm::{Bad, Environment, Memory, Off};
use storage::{
    Catalog, FIELDS_PER_ENTRY, MAX_COLUMNS, Superseded, Tables, UNDO_HEAD_BYTES, UndoEntry,
    UndoLog, UndoWork, Value,
};

use crate::contract::RecoveryReport;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::{OwnOptions, Setup};
use crate::state::State;
use crate::stats::EngineStats;

pub(crate) use engine::UndoEngine;
pub(crate) use select::Rows;

/// The log of a partition and what goes with it.
#[derive(Debug)]
pub struct Undo<M> {
    pub(crate) memory: M,
    pub(crate) log: UndoLog,
    pub(crate) superseded: Superseded,
    pub(crate) state: State,
    /// The place of the log's head; the roots of the tables follow it.
    root: u64,
}

impl<M: Memory> Undo<M> {
    fn new(memory: M, log: UndoLog, root: u64) -> Self {
        Self { memory, log, superseded: Superseded::default(), state: State::default(), root }
    }

    /// Fails unless the partition can be used.
    #[inline]
    pub(crate) fn usable(&self) -> Result<(), EngineError> {
        self.state.usable(&self.memory)
    }

    /// Ends the half of an operation that changes what is in place: if that has failed, a part may
    /// be done, and the partition stops.
    #[inline]
    pub(crate) fn in_place(&mut self, done: Result<(), Bad>) -> Result<(), EngineError> {
        done.or_else(|bad| self.state.stop(bad))
    }

    /// Makes ready for an operation of so many log entries.
    #[inline]
    #[track_caller]
    pub(crate) fn prepare(
        &mut self,
        lane: &mut Lane<M>,
        entries: usize,
    ) -> Result<(), EngineError> {
        self.superseded.clear(lane)?;
        Ok(self.log.reserve(lane, entries)?)
    }

    /// [`Self::prepare`] for an update. One of too many columns is refused before it is logged.
    #[inline]
    #[track_caller]
    pub(crate) fn prepare_update(
        &mut self,
        lane: &mut Lane<M>,
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.prepare(lane, changes.len().min(MAX_COLUMNS).div_ceil(FIELDS_PER_ENTRY))
    }

    /// Logs the new fields that stand ready for a tuple.
    #[inline]
    #[track_caller]
    pub(crate) fn append_fields(&mut self, table: u16, tuple: u64, tables: &mut Tables<M, Append>) {
        for (index, part) in tables.fields.chunks(FIELDS_PER_ENTRY).enumerate() {
            let entry = UndoEntry::update(table, tuple, part, index > 0);
            self.log.append(&self.memory, entry, &mut tables.lines);
        }
    }

    /// Clears slots that committed transactions have left, for a recovery; durable with the next
    /// fence.
    #[track_caller]
    pub(crate) fn clear(&mut self, lane: &mut Lane<M>, slots: &[u64]) -> Result<(), EngineError> {
        for slot in slots {
            lane.clear_persisted(*slot, &mut self.superseded.lines)?;
        }
        self.superseded.lines.flush(&self.memory);
        Ok(())
    }

    /// Ends a recovery whose work is durable: slots are given out again from now on.
    #[track_caller]
    pub(crate) fn recovered(&mut self, lane: &mut Lane<M>, freed: Vec<u64>) {
        self.log.finish_recovery(&self.memory);
        self.memory.fence();
        freed.into_iter().for_each(|slot| lane.release(slot));
    }
}

/// The things of which the tables of a partition are made.
#[derive(Debug)]
pub struct TableParts<'a, E: Environment> {
    /// The partition's allocator.
    pub lane: Lane<E::Durable>,
    /// The schema.
    pub catalog: &'a Arc<Catalog>,
    /// The options that every engine has.
    pub setup: &'a Setup,
    /// The place for the tables' roots.
    pub roots: Off<u64>,
}

/// A log that is to be read.
#[derive(Debug)]
pub struct LogHead<'a, M> {
    memory: &'a M,
    root: u64,
    salvage: bool,
}

impl<M: Memory> LogHead<'_, M> {
    /// Reads the log; see [`UndoLog::open`]. One that is salvaged and damaged says nothing.
    pub(crate) fn open(
        &self,
        is_complete: impl FnOnce(&UndoEntry) -> Result<bool, Bad>,
    ) -> Result<(UndoLog, UndoWork), EngineError> {
        match UndoLog::open(self.memory, self.root, is_complete) {
            Err(_) if self.salvage => Ok((UndoLog::unreadable(self.root), UndoWork::default())),
            opened => Ok(opened?),
        }
    }

    /// [`Self::open`] for an engine that writes no statements: one is damage.
    pub(crate) fn open_without_statements(&self) -> Result<(UndoLog, UndoWork), EngineError> {
        self.open(|_| Err(Bad::Damaged { what: "undo log", at: self.root }))
    }

    /// A number that the engine has noted in the log; see [`UndoLog::noted`].
    pub(crate) fn noted(&self, log: &UndoLog, number: usize) -> Result<u64, EngineError> {
        Ok(log.noted(self.memory, number)?)
    }
}

/// The tables of an engine that undoes: what is particular about it.
///
/// An operation is in two halves, with the log between them: what it writes becomes durable under
/// one fence with its entry in the log, then it changes what is in place.
pub trait UndoTables<E: Environment>: Send + Sync + Sized + 'static {
    /// The kind of the engine.
    const KIND: EngineKind;
    /// The name of its partitions' roots in the pool.
    const ROOT: &'static str;
    /// True if it puts work off.
    const PUTS_OFF_WORK: bool;
    /// Its options.
    type Options: OwnOptions;
    /// The tables as they are read.
    type Rows: Rows<E::Durable>;
    /// A place in the open transaction, in addition to the number of its log entries.
    type Mark: Copy + Debug + Send + Sync;

    /// Bytes of the tables' roots.
    fn root_bytes(catalog: &Catalog) -> u64;

    /// Creates empty tables.
    fn create(parts: TableParts<'_, E>, options: &Self::Options) -> Result<Self, EngineError>;

    /// Opens tables and the log, which says what is left to do.
    fn open(
        parts: TableParts<'_, E>,
        log: &LogHead<'_, E::Durable>,
        options: &Self::Options,
    ) -> Result<(Self, UndoLog, UndoWork), EngineError>;

    /// The part that both engines have: the allocator, and what the open transaction has written.
    fn common(&mut self) -> &mut Tables<E::Durable, Append>;

    /// The tables, for SELECT.
    fn rows(&self) -> &Self::Rows;

    /// Inserts a tuple.
    fn insert(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<(), EngineError>;

    /// Updates columns of a tuple, one at least.
    fn update(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError>;

    /// Deletes a tuple.
    fn delete(
        &mut self,
        undo: &mut Undo<E::Durable>,
        table: u16,
        key: &[Value<'_>],
    ) -> Result<(), EngineError>;

    /// Returns whether an update can be a statement: a transaction whose log entry is its commit.
    fn can_be_statement(&self, _table: u16, _changes: &[(u16, Value<'_>)]) -> bool {
        false
    }

    /// [`Self::update`] as a statement.
    fn statement(
        &mut self,
        _undo: &mut Undo<E::Durable>,
        _table: u16,
        _key: &[Value<'_>],
        _changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        unreachable!("the engine has no statements")
    }

    /// Stores numbers of the engine's that become durable with the end of the transaction.
    fn note(&self, _undo: &Undo<E::Durable>) {}

    /// A transaction has ended, by a commit or by an abort.
    fn ended(&mut self) {}

    /// Keeps house after a commit.
    fn committed(&mut self, undo: &mut Undo<E::Durable>) -> Result<(), EngineError>;

    /// Undoes entries of the open transaction, which are given oldest first, and flushes that; with
    /// `kept` only those from that number on, which it takes out of the log. Adds the slots that
    /// this frees to `freed`; returns how many operations were undone.
    fn undo(
        &mut self,
        undo: &mut Undo<E::Durable>,
        entries: &[UndoEntry],
        kept: Option<usize>,
        freed: &mut Vec<u64>,
    ) -> Result<u64, EngineError>;

    /// Forgets what the open transaction has prepared and superseded, since it has changed nothing
    /// or is undone.
    fn forget(&mut self);

    /// Keeps house after an abort.
    fn aborted(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Marks this place in the open transaction.
    fn mark(&self) -> Self::Mark;

    /// Forgets what the open transaction has superseded since it was at `mark`.
    fn back_to(&mut self, mark: Self::Mark);

    /// The number of the last committed transaction.
    fn last(&self, log: &UndoLog) -> u64;

    /// Does about `budget` bytes of work that was put off. Returns how many wait.
    fn work(&mut self, _budget: u64) -> Result<u64, EngineError> {
        Ok(0)
    }

    /// Bytes of the work that waits.
    fn waiting_bytes(&self) -> u64 {
        0
    }

    /// Returns whether there is work that was put off.
    fn has_work(&self) -> bool {
        false
    }

    /// Records, at the end, that no work is left.
    fn close(&mut self, _undo: &mut Undo<E::Durable>) -> Result<(), EngineError> {
        Ok(())
    }

    /// Finishes the committed transactions and undoes the open one.
    fn recover(
        &mut self,
        undo: &mut Undo<E::Durable>,
        work: &UndoWork,
    ) -> Result<RecoveryReport, EngineError>;

    /// Acts as [`Self::recover`], past damage, for a memory of which only the tuples are wanted.
    /// Returns how many operations were undone.
    fn recover_what_can_be(&mut self, work: &UndoWork) -> u64;

    /// Returns what the engine has done and put off, but for what every engine that undoes counts.
    fn stats(&self) -> EngineStats;

    /// Checks the tables; see [`crate::Engine::check`].
    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError>;
}

fn roots(root: u64) -> Off<u64> {
    Off::new(root + UNDO_HEAD_BYTES)
}
