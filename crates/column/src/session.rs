//! A session: one transaction at a time, its begin and its end.
//!
//! A transaction takes a slot with its first statement. The slot of a committed transaction stays with the session
//! until its stamps are durable, which the session's next fence makes them: a session uses two slots in turn.

use std::sync::Arc;

use pm::{LINE_BYTES, LineSet, Memory, Range};

use crate::Result;
use crate::collect::DeadVersion;
use crate::epoch::EpochGuard;
use crate::error::ColumnError;
use crate::latch::Latch;
use crate::layout::MOST_NAME;
use crate::replay::Replay;
use crate::serial::{KeptReads, Reads};
use crate::slots::Statement;
use crate::stamps::parts;
use crate::store::{DetachedTransaction, InFlight, Shared, TxId};
use crate::sync::FEW;
use crate::unfenced::{SessionCommit, UnfencedCommit};
use crate::version::ReadView;
use crate::watch::{CommitStatements, CommitWatch};

/// An open transaction.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) snapshot: u64,
    pub(crate) guard: EpochGuard,
    pub(crate) name: Vec<u8>,
    /// Its slot, from the first statement on.
    pub(crate) slot: Option<u16>,
    /// Its mark; zero: it has no statement.
    pub(crate) mark: u64,
    pub(crate) statements: u64,
    /// Counts how often an opening found it in flight since its last statement.
    pub(crate) openings: u64,
    /// The statements that are not compared yet, while the transaction is replayed.
    pub(crate) replay: Option<Replay>,
    /// Everything that a serializable transaction has read.
    pub(crate) reads: Option<Latch<Reads>>,
}

/// A session of a store; see the module's comment. Dropping it aborts its transaction.
#[derive(Debug)]
pub struct Session<M: Memory> {
    pub(crate) shared: Arc<Shared<M>>,
    /// Its number, by which claims are its own.
    pub(crate) number: u64,
    pub(crate) open: Option<Open>,
    /// The last commit, until its stamps are durable.
    pub(crate) unfenced: SessionCommit,
    /// Lines that the next fence has to cover.
    pub(crate) lines: LineSet,
    /// Values in these lines: table, column, id.
    pub(crate) fresh: Vec<(usize, usize, u32)>,
}

/// The number of a commit, its statements for watchers, and the watcher that has validated it.
type NumberedCommit<'s> = (u64, Option<CommitStatements>, Option<CommitWatch<'s>>);

const NONE_OPEN: ColumnError = ColumnError::State { what: "the session has no transaction" };

impl<M: Memory> Session<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>) -> Self {
        let (unfenced, number) = (shared.unfenced.of_session(), shared.claims.next_session());
        Self { shared, number, open: None, unfenced, lines: LineSet::new(), fresh: Vec::new() }
    }

    pub(crate) fn resumed(
        shared: Arc<Shared<M>>,
        left: DetachedTransaction,
        replay: Option<Replay>,
    ) -> Self {
        let mut session = Self::new(shared);
        let DetachedTransaction { open, snapshot, reads } = left;
        let InFlight { id: TxId(mark), name, statements, openings } = open;
        let slot = Some(parts(mark).0);
        let guard = EpochGuard::again(&session.shared.epochs, snapshot);
        // A replay reads everything again.
        let reads = match reads {
            KeptReads::None => None,
            KeptReads::Here(reads) if replay.is_none() => Some(reads),
            KeptReads::Here(_) | KeptReads::Forgotten => Some(Reads::default()),
        };
        let reads = reads.map(|reads| session.shared.names.like(reads));
        session.open =
            Some(Open { snapshot, guard, name, slot, mark, statements, openings, replay, reads });
        session
    }

    /// Begins a transaction. It sees the commits up to now.
    ///
    /// # Errors
    /// The session has one.
    pub fn begin(&mut self) -> Result<()> {
        self.begin_named(b"")
    }

    /// Begins a transaction with a name of up to 48 bytes, by which it is found after a crash. No other open
    /// transaction has the name.
    ///
    /// # Errors
    /// The session has a transaction; the name is taken, or too long.
    pub fn begin_named(&mut self, name: &[u8]) -> Result<()> {
        self.begin_as(name, false)
    }

    /// Begins a serializable transaction, with or without a name: it commits only if no other one has changed what
    /// it has read.
    ///
    /// # Errors
    /// As [`Self::begin_named`].
    pub fn begin_serializable(&mut self, name: &[u8]) -> Result<()> {
        self.begin_as(name, true)
    }

    fn begin_as(&mut self, name: &[u8], is_serial: bool) -> Result<()> {
        if self.open.is_some() {
            return Err(ColumnError::State { what: "the session has a transaction" });
        }
        if name.len() > MOST_NAME {
            return Err(ColumnError::Unfit { what: "a transaction's name" });
        }
        if !name.is_empty() && !self.shared.names.write().insert(name.to_vec()) {
            return Err(ColumnError::NameTaken);
        }
        let guard = EpochGuard::new(&self.shared.epochs, &self.shared.clock);
        let name = name.to_vec();
        self.open = Some(Open {
            snapshot: guard.entered.snapshot,
            guard,
            name,
            slot: None,
            mark: 0,
            statements: 0,
            openings: 0,
            replay: None,
            reads: is_serial.then(|| self.shared.names.like(Reads::default())),
        });
        Ok(())
    }

    /// The open transaction.
    pub(crate) fn open(&self) -> Result<&Open> {
        self.open.as_ref().ok_or(NONE_OPEN)
    }

    /// The view of the open transaction; without one, of the commits up to now.
    pub(crate) fn view(&self) -> ReadView<'_> {
        match &self.open {
            Some(open) => {
                ReadView { mark: open.mark, snapshot: open.snapshot, replay: open.replay.as_ref() }
            }
            None => ReadView { mark: 0, snapshot: self.shared.clock.now(), replay: None },
        }
    }

    /// Returns whether statements are compared with those that are done, instead of being run.
    pub fn is_replaying(&self) -> bool {
        let replay = self.open.as_ref().and_then(|open| open.replay.as_ref());
        replay.is_some_and(|replay| !replay.is_over())
    }

    /// The number of the open transaction and of its statements, if it has any.
    pub fn transaction(&self) -> Option<(TxId, u64)> {
        let open = self.open.as_ref().filter(|open| open.mark != 0)?;
        Some((TxId(open.mark), open.statements))
    }

    /// Flushes the lines that are left over, and fences: the last transaction's slot becomes free.
    #[track_caller]
    pub(crate) fn fence(&mut self) {
        // A thread that has taken it from here has fenced it, or is about to.
        let unfenced = self.unfenced.write().take();
        for line in unfenced.iter().flat_map(|unfenced| unfenced.lines.lines()) {
            self.lines.add(Range::new(line.start(), LINE_BYTES));
        }
        self.lines.flush(&self.shared.memory);
        self.shared.memory.fence();
        for (table, column, id) in self.fresh.drain(..) {
            self.shared.tables[table].columns[column].index.write().set_durable(id);
        }
        if let Some(unfenced) = unfenced {
            self.shared.slots.release(unfenced.slot, true);
            drop(unfenced.guard);
        }
    }

    /// The number up to which the transaction sees commits, if there is one.
    pub fn snapshot(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.snapshot)
    }

    /// Commits: transactions that begin from now on see all statements. Returns the commit's number, or zero if
    /// there was nothing to commit.
    ///
    /// # Errors
    /// There is no transaction; it is replayed and has not come to its last statement ([`ColumnError::Diverged`]);
    /// it is serializable, and what it has read has changed ([`ColumnError::Outdated`]); the medium is not sound.
    /// In all but the last case the transaction stays open.
    pub fn commit(&mut self) -> Result<u64> {
        if self.is_replaying() {
            return Err(ColumnError::Diverged);
        }
        let open = self.open.take().ok_or(NONE_OPEN)?;
        let mut done = 0;
        if let Some(slot) = open.slot.filter(|_| open.statements > 0) {
            let shared = Arc::clone(&self.shared);
            let (number, for_watchers, watch) = match Self::commit_number(&shared, &open) {
                Ok(taken) => taken,
                Err(error) => {
                    self.open = Some(open);
                    return Err(error);
                }
            };
            self.shared.slots.store_commit(slot, number, open.statements);
            self.lines.add(self.shared.slots.line(slot));
            self.fence();
            self.forget(&open.name);
            let finished = self.finish_commit(open, number, for_watchers);
            // Not before the number is published: there may be much to drop.
            drop(watch);
            finished?;
            done = number;
        } else {
            if let Some(slot) = open.slot {
                self.shared.slots.release(slot, false);
            }
            self.forget(&open.name);
        }
        self.shared.memory.healthy()?;
        Ok(done)
    }

    /// Takes a number for the commit, which has to be published, and reads the statements for watchers before
    /// that. A serializable transaction is validated first; its watcher is returned, to be dropped when the number
    /// is published.
    fn commit_number<'s>(shared: &'s Shared<M>, open: &Open) -> Result<NumberedCommit<'s>> {
        let Some(reads) = &open.reads else {
            let for_watchers = Self::for_watchers(shared, open, None);
            return Ok((shared.clock.take(), for_watchers, None));
        };
        let statements = || shared.statements(open.mark, open.statements).collect();
        let (number, for_watchers, watch) =
            shared.validate(&reads.read(), open.snapshot, statements)?;
        Ok((number, for_watchers, Some(watch)))
    }

    /// The statements of the transaction, and one that it is about to have, if the commit is watched.
    pub(crate) fn for_watchers(
        shared: &Shared<M>,
        open: &Open,
        last: Option<Statement>,
    ) -> Option<CommitStatements> {
        shared.watched.for_watchers(|| {
            let last = last.into_iter().map(Some);
            shared.statements(open.mark, open.statements).chain(last).collect()
        })
    }

    /// Publishes a durable commit, and stamps its versions. `for_watchers` was read before the number was taken.
    #[track_caller]
    pub(crate) fn finish_commit(
        &mut self,
        open: Open,
        number: u64,
        for_watchers: Option<CommitStatements>,
    ) -> Result<()> {
        let slot = parts(open.mark).0;
        let shared = Arc::clone(&self.shared);
        shared.slots.set_committed(slot, number);
        // Other commits wait for this. Without the statements of a large commit, a watcher checks everything that
        // it has read.
        let few = || match open.statements {
            ..=FEW => shared.statements(open.mark, open.statements).collect(),
            _ => None,
        };
        shared.watched.add(number, for_watchers, few);
        shared.clock.publish(number);
        let mut ended = Vec::new();
        for index in 0..open.statements {
            let statement = shared.statement(open.mark, index)?;
            shared.stamp(&statement, number, &mut self.lines)?;
            let (table, row) = (usize::from(statement.table), statement.old);
            ended.extend((row != 0).then_some(DeadVersion { table, row, until: number }));
        }
        let lines = std::mem::take(&mut self.lines);
        *self.unfenced.write() = Some(UnfencedCommit { slot, lines, guard: open.guard });
        shared.garbage.write().add(ended);
        Ok(())
    }

    /// Aborts. Nothing is undone: no transaction sees what was written (P4 4.2).
    ///
    /// # Errors
    /// There is no transaction; the medium is not sound.
    pub fn abort(&mut self) -> Result<()> {
        let open = self.open.take().ok_or(NONE_OPEN)?;
        if let Some(slot) = open.slot {
            if open.statements > 0 {
                self.shared.slots.store_abort(slot);
                self.lines.add(self.shared.slots.line(slot));
                self.fence();
                self.shared.slots.set_aborted(slot);
                self.queue_dead(&open)?;
            }
            self.shared.slots.release(slot, false);
        }
        self.forget(&open.name);
        Ok(self.shared.memory.healthy()?)
    }

    /// Queues the versions of an aborted transaction for the collection.
    fn queue_dead(&self, open: &Open) -> Result<()> {
        let mut dead = Vec::new();
        // Newest first: no version is free while a newer one leads to it.
        for index in (0..open.statements).rev() {
            let statement = self.shared.statement(open.mark, index)?;
            let (table, row) = (usize::from(statement.table), statement.new);
            dead.extend((row != 0).then_some(DeadVersion { table, row, until: 0 }));
        }
        self.shared.garbage.write().add(dead);
        Ok(())
    }

    /// Detaches the transaction, which stays open for [`crate::Store::resume`]; every statement of it is durable.
    ///
    /// # Errors
    /// There is no transaction, or it has no statement.
    pub fn detach(&mut self) -> Result<TxId> {
        let open = self.open.take().ok_or(NONE_OPEN)?;
        if open.statements == 0 {
            self.open = Some(open);
            return Err(ColumnError::State { what: "a transaction without a statement" });
        }
        let Open { snapshot, guard, name, mark, statements, openings, reads, replay, .. } = open;
        let reads = match reads {
            // A replay has repeated only a part of the reads.
            Some(_) if replay.is_some() => KeptReads::Forgotten,
            Some(reads) => KeptReads::Here(reads.into_inner()),
            None => KeptReads::None,
        };
        let open = InFlight { id: TxId(mark), name, statements, openings };
        // Another session, in another thread, goes on: what it relies on has to be durable.
        self.fence();
        self.shared.epochs.keep_snapshot(snapshot);
        drop(guard);
        self.shared.claims.end(self.number);
        self.shared.in_flight.write().insert(mark, DetachedTransaction { open, snapshot, reads });
        Ok(TxId(mark))
    }

    /// Ends the transaction, whose commit is durable.
    pub(crate) fn end_committed(
        &mut self,
        number: u64,
        for_watchers: Option<CommitStatements>,
    ) -> Result<()> {
        let open = self.open.take().ok_or(NONE_OPEN)?;
        self.forget(&open.name);
        self.finish_commit(open, number, for_watchers)?;
        Ok(self.shared.memory.healthy()?)
    }

    /// Makes the stamps of the last commit durable, and frees its slot.
    pub fn finish(&mut self) {
        if self.unfenced.read().is_some() || !self.lines.is_empty() {
            self.fence();
        }
    }

    /// The transaction is over: others may have its name, and what it has claimed.
    fn forget(&self, name: &[u8]) {
        self.shared.claims.end(self.number);
        if !name.is_empty() {
            self.shared.names.write().remove(name);
        }
    }
}

impl<M: Memory> Drop for Session<M> {
    fn drop(&mut self) {
        if self.open.is_some() {
            // The next use of the medium reports that it is not sound.
            let _ = self.abort();
        }
        self.finish();
    }
}
