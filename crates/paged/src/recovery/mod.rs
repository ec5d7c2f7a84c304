//! ARIES: analysis, redo and undo after a crash, undo without one, and fuzzy checkpoints.
//!
//! Invariants, which code that changes pages keeps:
//! - A page is in the table of dirty pages, with an LSN that [`LogManager::end`] gave, before a
//!   record of it is appended; it leaves the table when it is durable on its medium.
//! - A page goes to its medium when its log is durable up to its LSN.
//! - A transaction appends through its [`Transaction`] alone, so that a checkpoint that runs at the
//!   same time misses none of its records.
//! - A change is undone by one compensation, whose `undo_next` is the record before the change. So
//!   undoing goes on where it was when a crash ends it, however often.
//!
//! After a crash, [`restart`]:
//! 1. [`analysis`]: from the last checkpoint, which transactions are unfinished, and which pages
//!    may lack a change.
//! 2. [`redo`]: repeats history, on pages whose LSN is less than a record's.
//! 3. [`undo`]: takes back what unfinished transactions did, the newest record first.
//!
//! Or, on demand, [`restart_on_demand`]: after analysis the locks of unfinished transactions are
//! taken again, and others begin. A page is redone when it is first used, the rest afterwards;
//! unfinished transactions are undone meanwhile, those first whose locks are waited for. A crash on
//! the way finds the same log with more compensations.

pub mod analysis;
pub mod checkpoint;
pub(crate) mod horizon;
pub mod redo;
mod transactions;
pub mod undo;

use crate::Result;
use crate::ids::{Lsn, PageNo, TxNo};
use crate::log::{Kind, LogManager, Logged, Record};

pub use self::analysis::Places;
pub use self::horizon::Horizon;
pub use self::transactions::{Slot, Transaction, Transactions};
pub use self::undo::Loser;

/// The pages that records change.
pub trait Target {
    /// Calls `visit` with every page that a record changes.
    ///
    /// # Errors
    /// The record is malformed.
    fn pages(&self, record: &Logged, visit: &mut dyn FnMut(PageNo)) -> Result<()> {
        visit(record.page);
        Ok(())
    }

    /// Repeats a change or a compensation on those of its pages whose LSN is less; returns whether
    /// there was one.
    ///
    /// # Errors
    /// A page could not be read or is damaged.
    fn redo(&self, record: &Logged) -> Result<bool>;

    /// Takes a change back, wherever what it changed is now, and logs that under the latch of the
    /// page: once, with [`Undoing::compensate`], or with [`Undoing::compensate_with`] where it
    /// takes several records.
    ///
    /// # Errors
    /// A page could not be read or is damaged, or the log has stopped.
    fn undo(&self, record: &Logged, undoing: &mut Undoing<'_>) -> Result<()>;
}

/// The transaction on whose behalf a change is taken back.
#[derive(Debug)]
pub struct Undoing<'a> {
    /// The log, for system transactions that undo needs on its way.
    pub log: &'a dyn LogManager,
    transaction: &'a mut Transaction,
    next: Lsn,
}

impl Undoing<'_> {
    /// The newest record of the transaction.
    pub fn last(&self) -> Lsn {
        self.transaction.last()
    }

    /// Logs one of the compensations of a change that takes several; only the last one leads past
    /// it.
    ///
    /// # Errors
    /// The log has stopped.
    pub fn compensate_with(&mut self, log: &dyn LogManager, record: &Record<'_>) -> Result<Lsn> {
        self.transaction.append(log, record)
    }

    /// Logs that the change is taken back by a change of `page`, which is latched and had the LSN
    /// `page_before`. The payload is not longer than that of the change, for which there is room.
    ///
    /// # Errors
    /// The log has stopped.
    pub fn compensate(&mut self, page: PageNo, page_before: Lsn, payload: &[u8]) -> Result<Lsn> {
        let kind = Kind::Compensation;
        let record = Record { kind, page, page_before, undo_next: self.next, payload };
        self.transaction.append(self.log, &record)
    }
}

/// Reports what a restart did.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Restarted {
    /// Records that analysis read.
    pub analysed: u64,
    /// Records that were repeated on a page.
    pub redone: u64,
    /// Transactions that were unfinished.
    pub losers: u64,
    /// Changes that were taken back.
    pub undone: u64,
    /// The greatest number of a transaction that analysis met.
    pub greatest: TxNo,
}

/// Makes the pages hold what finished transactions did, and nothing else.
///
/// # Errors
/// A page or a record could not be read. A restart can be begun anew.
pub fn restart(
    log: &dyn LogManager,
    transactions: &Transactions,
    target: &dyn Target,
) -> Result<Restarted> {
    let found = analysis::analyse(log, target, None)?;
    let redone = redo::redo(log, target, &found)?;
    let losers = found.losers.len() as u64;
    let undone = undo::undo_losers(log, transactions, target, found.losers)?;
    Ok(Restarted { analysed: found.records, redone, losers, undone, greatest: found.greatest })
}

/// The work that a restart on demand leaves for later: see [`restart_on_demand`].
#[derive(Debug)]
pub struct Unfinished {
    /// The records that pages may lack. No page is used before it has them.
    pub places: Places,
    /// The transactions to be undone. What they have changed may not be used before they are.
    pub losers: Vec<Loser>,
}

/// Finds out what a crash has left, and leaves redo and undo for later. The report counts what they
/// will do: records that pages may lack, and changes to be taken back.
///
/// # Errors
/// The log could not be read. A restart can be begun anew.
pub fn restart_on_demand(
    log: &dyn LogManager,
    transactions: &Transactions,
    target: &dyn Target,
) -> Result<(Restarted, Unfinished)> {
    let mut places = Places::new();
    let found = analysis::analyse(log, target, Some(&mut places))?;
    let losers = found.losers.into_iter().map(|chain| Loser::adopt(transactions, chain)).collect();
    let unfinished = Unfinished { places, losers };
    let restarted = Restarted {
        analysed: found.records,
        redone: unfinished.places.values().map(|places| places.len() as u64).sum(),
        losers: unfinished.losers.len() as u64,
        undone: 0,
        greatest: found.greatest,
    };
    Ok((restarted, unfinished))
}

/// Works as [`restart`], past all that is damaged: what cannot be repeated or taken back stays as
/// the pages have it.
pub fn restart_past_damage(
    log: &dyn LogManager,
    transactions: &Transactions,
    target: &dyn Target,
) -> Restarted {
    let Ok(found) = analysis::analyse(log, target, None) else { return Restarted::default() };
    let redone = redo::redo_past_damage(log, target, &found);
    let losers = found.losers.len() as u64;
    let undone = undo::undo_losers(log, transactions, target, found.losers).unwrap_or(0);
    Restarted { analysed: found.records, redone, losers, undone, greatest: found.greatest }
}
