//! The contract of a log manager (P2 2.1 and 4.2): records go in, get an LSN, become durable in the
//! order of their LSNs, and are read again after a crash.
//!
//! 1. A record is appended while its page is latched exclusively; the page then carries its LSN. So
//!    the records of a page have rising LSNs.
//! 2. A page goes to its medium only when [`LogManager::durable`] has reached its LSN.
//! 3. A transaction is acknowledged when its commit record is durable. Its locks may go as soon as
//!    that record has an LSN.
//! 4. Appending never waits for a checkpoint, since the checkpoint may need the latched page: a log
//!    that is full says [`PagedError::LogFull`](crate::PagedError::LogFull). The caller lets its
//!    latches go, waits until room is given back ([`LogManager::await_room`]), and begins again.
//! 5. Undoing a transaction finds room: it is set aside with each change.
//! 6. What is durable is a prefix of the order of LSNs; a manager that leaves holes says in its
//!    file why what is missing was never seen.

pub mod archive;
mod archived;
pub mod central;
pub mod nv;
pub mod record;
mod wait;

use std::fmt::Debug;
use std::sync::Arc;

use crate::Result;
use crate::ids::{Lsn, PageNo, TxNo};
use crate::threads::Waiter;

pub use archived::{Archived, Clock, TIME_RESOLUTION, wall_clock};
pub use wait::RoomWait;

/// The kind of a log record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A change of a page, redone from its payload; undone, too, if it is of a transaction.
    Change = 1,
    /// A compensation: a change that undoes another one, and is never undone itself. `undo_next`
    /// says which record of the transaction is undone next.
    Compensation = 2,
    /// The transaction is committed.
    Commit = 3,
    /// The transaction is being undone.
    Abort = 4,
    /// The transaction is undone, and over. One that is committed needs none.
    End = 5,
    /// The begin of a checkpoint.
    CheckpointBegin = 6,
    /// The end of a checkpoint, with what it found: see `recovery::checkpoint`.
    CheckpointEnd = 7,
    /// The time of day when it was appended: microseconds since 1970, as eight bytes of payload.
    Time = 8,
}

/// A record to be appended. The caller alone interprets payloads.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its kind.
    pub kind: Kind,
    /// The page that it changes; 0 if it changes none.
    pub page: PageNo,
    /// The LSN that the page had before: the chain of the page's records.
    pub page_before: Lsn,
    /// For a compensation, the record of its transaction that is undone next.
    pub undo_next: Lsn,
    /// Everything else.
    pub payload: &'a [u8],
}

/// A record as it is read again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Logged {
    /// Its place.
    pub lsn: Lsn,
    /// Its transaction.
    pub tx: TxNo,
    /// The record of the same transaction before it.
    pub prev: Lsn,
    /// Its kind.
    pub kind: Kind,
    /// As in [`Record`].
    pub page: PageNo,
    /// As in [`Record`].
    pub page_before: Lsn,
    /// As in [`Record`].
    pub undo_next: Lsn,
    /// As in [`Record`].
    pub payload: Vec<u8>,
}

/// The records of one transaction, or of one system transaction: from the newest to the oldest each
/// names the one before.
#[derive(Debug, Default)]
pub struct Chain {
    /// The transaction.
    pub tx: TxNo,
    /// Its first record, where undoing it ends.
    pub first: Lsn,
    /// Its newest record.
    pub last: Lsn,
    /// The bytes of its records.
    pub used: u64,
    /// The number of its records.
    pub records: u64,
    /// The bytes set aside for undoing it.
    pub aside: u64,
    /// The number of records set aside for undoing it, where the manager counts them.
    pub aside_records: u64,
    /// The bytes set aside by [`LogManager::reserve`] for what it appends next.
    pub ahead: u64,
    /// The number of records set aside with them, where the manager counts them.
    pub ahead_records: u64,
}

impl Chain {
    /// The chain of a transaction that has logged nothing.
    pub fn new(tx: TxNo) -> Self {
        Self { tx, ..Self::default() }
    }
}

/// A visitor of records.
pub type Visit<'v> = &'v mut dyn FnMut(Logged) -> Result<()>;

/// The first and the newest record of an open transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenRecords {
    /// The first one.
    pub first: Lsn,
    /// The newest one that is known.
    pub last: Lsn,
}

/// The things that a log manager has counted since it was opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LogCounts {
    /// Bytes of records that were appended.
    pub appended: u64,
    /// Groups of records that were made durable with one write and one sync.
    pub groups: u64,
    /// Attempts to free space of the log that have failed. It stays in use, and they are made again.
    pub failures: u64,
}

/// A log manager; see the module's comment. One serves all threads of a partition.
pub trait LogManager: Send + Sync + Debug {
    /// Sets room aside for records of so many bytes together, headers included, and undoing them,
    /// which the chain appends next, together with what is left of what was set aside so before. It
    /// does not wait. Called with nothing latched.
    ///
    /// # Errors
    /// The transaction has more log than fits; the log is full; or the manager has stopped.
    fn reserve(&self, chain: &mut Chain, bytes: u64) -> Result<()>;

    /// Ends `wait` when room is given back next, or the manager stops, and asks for a checkpoint. A
    /// caller that found the log full tries again once it has called this: what was given back
    /// before ends no wait.
    fn await_room(&self, wait: &Arc<RoomWait>);

    /// Forgets a wait that may not have ended.
    fn forget_wait(&self, wait: &Arc<RoomWait>);

    /// Gives back what [`Self::reserve`] has set aside and the chain has not used. Its Commit and its End
    /// do so, too: this is for a chain that ends without a record.
    fn unreserve(&self, chain: &mut Chain);

    /// Sets room aside for a checkpoint with records of these payloads, which the chain appends next:
    /// one that has begun also ends. It is given back by [`Self::unreserve`]. `keep` is the oldest
    /// place that is needed afterwards, or `None` if nothing before the checkpoint is. A checkpoint
    /// that frees nothing gets no room that the next one needs. Managers whose log is never full
    /// set none aside.
    ///
    /// # Errors
    /// The log has no room for it, and nothing was appended; or the manager has stopped.
    fn reserve_checkpoint(
        &self,
        _chain: &mut Chain,
        _payloads: &[usize],
        _keep: Option<Lsn>,
    ) -> Result<()> {
        Ok(())
    }

    /// Appends a record. With a change of a transaction, room for a compensation of the same length
    /// is set aside. Called with the record's page latched, which is in the table of dirty pages with
    /// an LSN that [`Self::end`] gave before.
    ///
    /// # Errors
    /// The log is full, the transaction has more log than fits, or the manager has stopped. Nothing
    /// was appended.
    fn append(&self, chain: &mut Chain, record: &Record<'_>) -> Result<Lsn>;

    /// Appends the record that commits a transaction. It is not durable yet: see [`Self::force`].
    ///
    /// # Errors
    /// The manager has stopped; whether the transaction is committed shows after a restart.
    fn commit(&self, chain: &mut Chain) -> Result<Lsn>;

    /// Every record up to here, and this one, is durable.
    fn durable(&self) -> Lsn;

    /// The end of the log: the next record's LSN is not less.
    fn end(&self) -> Lsn;

    /// Makes every record up to `to` durable, or all there are if the newest is less. Threads that ask at the same time share a sync.
    ///
    /// # Errors
    /// The medium failed: nothing more is acknowledged, and the manager has stopped.
    fn force(&self, to: Lsn) -> Result<()>;

    /// As [`Self::force`], before a page with the LSN `to` is written: afterwards each record up to
    /// there is durable, whichever thread appends it, or there is none for ever.
    ///
    /// # Errors
    /// As there.
    fn force_all(&self, to: Lsn) -> Result<()> {
        self.force(to)
    }

    /// Reads one record of a transaction that is being undone.
    ///
    /// # Errors
    /// There is none at this place, or it is damaged.
    fn read(&self, at: Lsn) -> Result<Logged>;

    /// The amount of log that was used since the last checkpoint, in the unit of the manager's threshold.
    fn consumed(&self) -> u64;

    /// The things that were counted; zeros where the manager counts nothing.
    fn counts(&self) -> LogCounts {
        LogCounts::default()
    }

    /// The most bytes of payload that a record may have.
    fn largest(&self) -> usize;

    /// Wakes `checkpointer` from now on whenever a checkpoint is due: the threshold is reached, or
    /// a thread waits for room.
    fn attend(&self, checkpointer: Arc<Waiter>);

    /// Returns whether a checkpoint is due.
    fn is_due(&self) -> bool;

    /// The amount of log after which a checkpoint is due, in the unit of [`Self::consumed`].
    fn threshold(&self) -> u64 {
        u64::MAX
    }

    /// The place where analysis begins: that of the last [`Self::truncate`].
    fn start(&self) -> Lsn;

    /// Sets, durably, where analysis begins after a restart, and frees what lies before `keep`: no
    /// page needs a record before it to be redone, and no open transaction has one.
    ///
    /// # Errors
    /// The medium failed, and the manager has stopped.
    fn truncate(&self, start: Lsn, keep: Lsn) -> Result<()>;

    /// As [`Self::truncate`], where no page needs a record before `redo`, and these are the open
    /// transactions. A manager that has another place for records that only undo may need can free
    /// what lies before `redo` all the same.
    ///
    /// # Errors
    /// As [`Self::truncate`].
    fn truncate_with_open(&self, start: Lsn, redo: Lsn, open: &[OpenRecords]) -> Result<()> {
        let oldest = open.iter().map(|open| open.first).min();
        self.truncate(start, oldest.map_or(redo, |oldest| oldest.min(redo)))
    }

    /// Returns whether [`Self::truncate`] with this `keep` would free anything, if it is greater than the
    /// last one.
    fn would_free(&self, _keep: Lsn) -> bool {
        true
    }

    /// The oldest place that is kept.
    fn kept(&self) -> Lsn {
        self.start()
    }

    /// The reason why space of the log cannot be used again for now, if there is one. The error of
    /// a full log states it.
    fn hindrance(&self) -> Option<crate::PagedError> {
        None
    }

    /// Ends the pause before what failed for the moment is tried again.
    fn end_pause(&self) {}

    /// The end of the log's archive, if it has one.
    fn joint(&self) -> Option<archive::Joint> {
        None
    }

    /// Lets the log have no archive any more, durably.
    ///
    /// # Errors
    /// The medium failed.
    fn end_archive(&self) -> Result<()> {
        Ok(())
    }

    /// Sets room aside, after a restart, for undoing a transaction with `chain.used` bytes of log.
    fn adopt(&self, chain: &mut Chain);

    /// Calls `visit` with every durable record from `from` on, in order, after a restart and before
    /// anything is appended.
    ///
    /// # Errors
    /// The log is damaged before its end, or `visit` failed.
    fn scan(&self, from: Lsn, visit: Visit<'_>) -> Result<()>;

    /// As [`Self::scan`], of the records before `to` alone.
    ///
    /// # Errors
    /// As there.
    fn scan_to(&self, from: Lsn, to: Lsn, visit: Visit<'_>) -> Result<()> {
        self.scan(from, &mut |record| if record.lsn < to { visit(record) } else { Ok(()) })
    }

    /// Calls `visit` with the durable records at these places, which rise: those of a page that is
    /// redone while others append.
    ///
    /// # Errors
    /// As [`Self::read`], or `visit` failed.
    fn read_each(&self, places: &[Lsn], visit: Visit<'_>) -> Result<()> {
        places.iter().try_for_each(|at| visit(self.read(*at)?))
    }
}
