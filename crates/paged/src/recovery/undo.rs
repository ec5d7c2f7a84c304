//! Undo of a transaction: all of it or back to a savepoint, after a crash or without one.
//!
//! From the newest record on: a change is taken back and a compensation logged, whose `undo_next`
//! leads to the record before the change; a compensation leads there without being undone itself.

use std::collections::BinaryHeap;

use super::{Target, Transaction, Transactions, Undoing};
use crate::ids::Lsn;
use crate::log::{Chain, Kind, LogManager, Logged, Record};
use crate::{PagedError, Result};

/// Deals with one record of a transaction: returns the next one, and whether a change was undone.
fn step(
    log: &dyn LogManager,
    transaction: &mut Transaction,
    target: &dyn Target,
    at: Lsn,
) -> Result<(Lsn, bool)> {
    let record = log.read(at)?;
    let damaged = |what: &str| Err(PagedError::DamagedLog { at, what: what.into() });
    if record.tx != transaction.tx() {
        return damaged("the record is of another transaction than its successor");
    }
    match record.kind {
        Kind::Change => {
            let before = transaction.last();
            let mut undoing = Undoing { log, transaction, next: record.prev };
            target.undo(&record, &mut undoing)?;
            assert_ne!(transaction.last(), before, "a change is undone by a compensation");
            Ok((record.prev, true))
        }
        Kind::Compensation => Ok((record.undo_next, false)),
        Kind::Abort => Ok((record.prev, false)),
        _ => damaged("a transaction that is undone has a record that is no change"),
    }
}

/// Takes back everything after a savepoint, which [`Transaction::last`] gave. The transaction goes
/// on.
///
/// # Errors
/// A page or a record could not be read, or the log has stopped: the transaction is still open.
pub fn rollback_to(
    log: &dyn LogManager,
    transaction: &mut Transaction,
    target: &dyn Target,
    savepoint: Lsn,
) -> Result<u64> {
    let (mut next, mut undone) = (transaction.last(), 0);
    while next > savepoint {
        let (before, changed) = step(log, transaction, target, next)?;
        (next, undone) = (before, undone + u64::from(changed));
    }
    Ok(undone)
}

/// Takes back everything that a transaction did. Then it is over.
///
/// # Errors
/// As [`rollback_to`].
pub fn abort(
    log: &dyn LogManager,
    transaction: &mut Transaction,
    target: &dyn Target,
) -> Result<u64> {
    if transaction.last() == Lsn::NONE {
        transaction.unreserve(log);
        return Ok(0);
    }
    transaction.append(log, &Record::bare(Kind::Abort))?;
    let undone = rollback_to(log, transaction, target, Lsn::NONE)?;
    transaction.append(log, &Record::bare(Kind::End))?;
    Ok(undone)
}

/// Takes back what unfinished transactions did before a crash: over all of them the newest record
/// first. Returns the number of changes that were taken back.
///
/// # Errors
/// As [`rollback_to`].
pub fn undo_losers(
    log: &dyn LogManager,
    transactions: &Transactions,
    target: &dyn Target,
    losers: Vec<Chain>,
) -> Result<u64> {
    let mut losers: Vec<Option<Transaction>> =
        losers.into_iter().map(|chain| Some(transactions.adopt(chain))).collect();
    let mut next: BinaryHeap<(Lsn, usize)> =
        losers.iter().flatten().map(Transaction::last).zip(0..).collect();
    let mut undone = 0;
    while let Some((at, number)) = next.pop() {
        let transaction = losers[number].as_mut().expect("it is not over");
        if at == Lsn::NONE {
            transaction.append(log, &Record::bare(Kind::End))?;
            transactions.end(losers[number].take().expect("it was not over"));
            continue;
        }
        let (before, changed) = step(log, transaction, target, at)?;
        undone += u64::from(changed);
        next.push((before, number));
    }
    Ok(undone)
}

/// A transaction that a crash has left unfinished, while it is undone a part at a time.
#[derive(Debug)]
pub struct Loser {
    transaction: Transaction,
    next: Lsn,
    /// Changes that were taken back.
    undone: u64,
}

impl Loser {
    /// Takes over an unfinished transaction: it is in the table of open ones from now on.
    pub fn adopt(transactions: &Transactions, chain: Chain) -> Self {
        let transaction = transactions.adopt(chain);
        Self { next: transaction.last(), transaction, undone: 0 }
    }

    /// Calls `visit` with the changes that are still to be taken back, the newest first.
    ///
    /// # Errors
    /// A record could not be read, or `visit` failed.
    pub fn changes(
        &self,
        log: &dyn LogManager,
        visit: &mut dyn FnMut(&Logged) -> Result<()>,
    ) -> Result<()> {
        let mut at = self.next;
        while at != Lsn::NONE {
            let record = log.read(at)?;
            at = match record.kind {
                Kind::Change => {
                    visit(&record)?;
                    record.prev
                }
                Kind::Compensation => record.undo_next,
                _ => record.prev,
            };
        }
        Ok(())
    }

    /// Takes back up to so many changes. Returns whether the transaction is over, which ends with
    /// [`Transactions::end`]. After an error it can be called again.
    ///
    /// # Errors
    /// As [`rollback_to`].
    pub fn undo(&mut self, log: &dyn LogManager, target: &dyn Target, most: u64) -> Result<bool> {
        let enough = self.undone.saturating_add(most);
        while self.next != Lsn::NONE {
            if self.undone == enough {
                return Ok(false);
            }
            let (before, changed) = step(log, &mut self.transaction, target, self.next)?;
            (self.next, self.undone) = (before, self.undone + u64::from(changed));
        }
        self.transaction.append(log, &Record::bare(Kind::End))?;
        Ok(true)
    }

    /// The transaction, which is over.
    pub fn into_transaction(self) -> Transaction {
        self.transaction
    }
}
