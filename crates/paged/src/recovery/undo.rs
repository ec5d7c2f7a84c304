//! Taking back what a transaction did: all of it or back to a savepoint, with or without a crash.
//!
//! From the newest record on: a change is taken back and a compensation logged, whose `undo_next`
//! leads to the record before the change; a compensation leads there without being undone itself.

use std::collections::BinaryHeap;

use super::{Target, Transaction, Transactions, Undoing};
use crate::ids::Lsn;
use crate::log::{Chain, Kind, LogManager, Record};
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

/// Takes back everything behind a savepoint, which [`Transaction::last`] gave. The transaction goes
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
