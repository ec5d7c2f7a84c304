//! Recording what transactions do, by a logical clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::model::{Cell, History, Key, Operation, Outcome, Range, Seen, Transaction};

/// Records a history from any thread. Its clock goes on with each beginning and each end, so that
/// of two that do not overlap the record says which came first.
#[derive(Debug)]
pub struct Recorder {
    clock: AtomicU64,
    values: AtomicU64,
    initial: Vec<(Key, Cell)>,
    ended: Mutex<Vec<Transaction>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Recorder {
    /// A recorder of what happens to these rows.
    pub fn new(initial: Vec<(Key, Cell)>) -> Self {
        let highest = initial.iter().map(|(_, cell)| cell.value).max().unwrap_or(0);
        Self {
            clock: AtomicU64::new(0),
            values: AtomicU64::new(highest + 1),
            initial,
            ended: Mutex::new(Vec::new()),
        }
    }

    /// A value that is unique in the history.
    pub fn unique(&self) -> u64 {
        self.values.fetch_add(1, Ordering::SeqCst)
    }

    /// The time now: of what has happened so far the times are below it.
    pub fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// A transaction of a thread begins. Called before the engine hears of it.
    pub fn begin(&self, session: usize) -> Pending {
        let begin = self.tick();
        let (end, durable, order, outcome) = (None, None, None, Outcome::InFlight);
        let operations = Vec::new();
        let transaction = Transaction { session, begin, end, durable, outcome, order, operations };
        Pending { transaction, undone: Vec::new() }
    }

    /// Records that it has committed, is durable, and has this number. Called after the engine has
    /// said so.
    pub fn committed(&self, pending: Pending, order: Option<u64>) {
        let now = Some(self.tick());
        self.end(pending, |transaction| Transaction {
            end: now,
            durable: now,
            outcome: Outcome::Committed,
            order,
            ..transaction
        });
    }

    /// Records that it has committed and may be lost in a crash.
    pub fn committed_but_volatile(&self, pending: Pending, order: Option<u64>) {
        let (end, outcome) = (Some(self.tick()), Outcome::Committed);
        self.end(pending, |transaction| Transaction { end, outcome, order, ..transaction });
    }

    /// Records that it was undone, by its thread or by the engine.
    pub fn aborted(&self, pending: Pending) {
        let (end, outcome) = (Some(self.tick()), Outcome::Aborted);
        self.end(pending, |transaction| Transaction { end, outcome, ..transaction });
    }

    /// Records that its end is not known.
    pub fn lost(&self, pending: Pending) {
        self.end(pending, |transaction| transaction);
    }

    /// Returns the record so far.
    pub fn history(&self) -> History {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        History { initial: self.initial.clone(), transactions: ended.clone() }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Ends a transaction. Nothing may ever be seen of changes that it has undone itself, as of one
    /// that aborted.
    fn end(&self, pending: Pending, ends: impl FnOnce(Transaction) -> Transaction) {
        let Pending { transaction, undone } = pending;
        let transaction = ends(transaction);
        let aborted = (!undone.is_empty()).then(|| Transaction {
            durable: None,
            outcome: Outcome::Aborted,
            order: None,
            operations: undone,
            ..transaction.clone()
        });
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push(transaction);
        ended.extend(aborted);
    }
}

/// A transaction that has not ended.
#[derive(Debug)]
pub struct Pending {
    transaction: Transaction,
    /// The writes that were undone.
    undone: Vec<Operation>,
}

impl Pending {
    /// Records a look at a key.
    pub fn read(&mut self, key: Key, saw: Option<Cell>) {
        let saw = saw.map_or(Seen::Absent, Seen::Cell);
        self.transaction.operations.push(Operation::Read { key, saw });
    }

    /// Records that it learnt whether a key is there.
    pub fn found(&mut self, key: Key, there: bool) {
        let saw = if there { Seen::Present } else { Seen::Absent };
        self.transaction.operations.push(Operation::Read { key, saw });
    }

    /// Records a scan.
    pub fn scan(&mut self, range: Range, saw: Vec<(Key, Cell)>) {
        self.transaction.operations.push(Operation::Scan { range, saw });
    }

    /// Records that it wrote a key, or deleted it.
    pub fn write(&mut self, key: Key, cell: Option<Cell>) {
        self.transaction.operations.push(Operation::Write { key, cell });
    }

    /// The number of operations so far: a savepoint for [`Self::roll_back_to`].
    pub fn operations(&self) -> usize {
        self.transaction.operations.len()
    }

    /// Records that all writes were undone that came after so many operations. What was read before
    /// the first one of them counts; what was read after it may be one of them.
    pub fn roll_back_to(&mut self, since: usize) {
        let operations = &mut self.transaction.operations;
        let is_write = |one: &Operation| matches!(one, Operation::Write { .. });
        let Some(first) = operations[since..].iter().position(is_write) else { return };
        let dropped = operations.drain(since + first..);
        self.undone.extend(dropped.filter(is_write));
    }
}
