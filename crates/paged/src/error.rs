//! Errors of the storage manager.

use pm::Escaped;
use std::io;

use crate::ids::{Lsn, PageNo, TreeNo};

/// An error of the storage manager.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagedError {
    /// There is a row with this key.
    #[error("there is a row with this key already")]
    Duplicate,
    /// There is no row with this key.
    #[error("there is no row with this key")]
    Missing,
    /// A key or a row has more bytes than fit.
    #[error("{what} of {bytes} bytes; at most {most} are possible")]
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The largest possible.
        most: usize,
    },
    /// The transaction waited for a lock in a circle, or too long, or for room in the log: it can only be
    /// aborted.
    #[error("{0}")]
    Conflict(Conflict),
    /// A page was changed since the state that is read, of which it has nothing left.
    #[error("the state that is read is too old: others have changed what was to be read")]
    TooOld,
    /// A transaction has more log than the log manager can hold for it.
    #[error(
        "the transaction has {bytes} bytes of log; at most {most} are possible: commit it in parts"
    )]
    TransactionTooLarge {
        /// The bytes of its log.
        bytes: u64,
        /// The most that it may have.
        most: u64,
    },
    /// The log has no room until a checkpoint frees some.
    #[error("{}", log_full(*.bytes, *.free, *.most, *.medium))]
    LogFull {
        /// The bytes that are needed.
        bytes: u64,
        /// The bytes that are free.
        free: u64,
        /// The bytes that it may have.
        most: u64,
        /// The medium has no room for more of it.
        medium: bool,
    },
    /// Too many locks are held at once.
    #[error(
        "the open transactions have locked {most} rows, the most that are possible: commit after fewer rows, or let fewer transactions be open at once"
    )]
    TooManyLocks {
        /// The limit.
        most: usize,
    },
    /// All frames of the buffer pool are pinned.
    #[error(
        "all {bytes} bytes of the buffer pool are in use at this moment: let fewer transactions run at once, or make it larger"
    )]
    NoFrame {
        /// The number of frames.
        frames: usize,
        /// The bytes of their pages.
        bytes: usize,
    },
    /// There is no tree of this number.
    #[error("there is no {tree}")]
    NoTree {
        /// The number.
        tree: TreeNo,
    },
    /// A page is not what it should be.
    #[error("{page} is damaged: {what}")]
    DamagedPage {
        /// The page.
        page: PageNo,
        /// The part that is wrong.
        what: &'static str,
    },
    /// The log is not what it should be.
    #[error("the log is damaged at {at}: {what}", what = Escaped(.what))]
    DamagedLog {
        /// The place in the log.
        at: Lsn,
        /// The part that is wrong.
        what: String,
    },
    /// The files of pages are not those of this database.
    #[error("the file of pages {name}: {what}", name = Escaped(.name), what = Escaped(.what))]
    WrongPages {
        /// The file.
        name: String,
        /// The thing that is wrong with it.
        what: String,
    },
    /// The files of the log are not those of this log.
    #[error("the log's file {name}: {what}", name = Escaped(.name), what = Escaped(.what))]
    WrongLog {
        /// The file.
        name: String,
        /// The thing that is wrong with it.
        what: String,
    },
    /// The archive of the log is not what it should be.
    #[error("the archive of the log: {what}", what = Escaped(.what))]
    Archive {
        /// The segment or the range of LSNs, what is wrong with it, and what to do.
        what: String,
    },
    /// The log cannot be copied to its archive.
    #[error(
        "the archive of the log takes nothing ({why}): the log keeps what is not there, and writers wait when it is full. Nothing is lost, and they go on when the archive takes something", why = Escaped(.why))]
    ArchiveFails {
        /// The error of the last attempt.
        why: String,
    },
    /// The log in persistent memory is full, since records that an open transaction may need cannot
    /// be moved to the cold file.
    #[error(
        "the log is full of what an open transaction may need, and that cannot be put by in a file ({why}); nothing is lost: let the disk have room or end the transaction, and writers go on", why = Escaped(.why))]
    NoSpaceForCold {
        /// The error of the last attempt.
        why: String,
    },
    /// The medium refuses or has failed.
    #[error("{doing}: {source}", source = Escaped(.source))]
    Io {
        /// The thing that was being done.
        doing: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// An earlier error left unknown what is durable: nothing more is done.
    #[error("stopped: {why}", why = Escaped(.why))]
    Stopped {
        /// The earlier error.
        why: String,
    },
}

impl PagedError {
    /// Returns whether the error says nothing about the store: the same may succeed when others have
    /// let go of frames, or have ended.
    pub fn is_of_the_moment(&self) -> bool {
        matches!(self, Self::NoFrame { .. } | Self::LogFull { .. })
    }
}

/// Says why a transaction cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Conflict {
    /// It waited in a circle, and was the youngest.
    #[error("a deadlock, of which this transaction is the victim")]
    Deadlock,
    /// It waited longer for a lock than it may.
    #[error("it waited too long for a lock")]
    Timeout,
    /// It waited too long for room in the log, of which it and others hold some.
    #[error("it waited too long for room in the log")]
    Room,
}

fn log_full(bytes: u64, free: u64, most: u64, medium: bool) -> String {
    if medium {
        return format!(
            "the log is full, since its medium is: {bytes} bytes are needed. Nothing is lost: delete something, or let the medium have room; transactions that are open for long keep the log, too"
        );
    }
    format!(
        "the log is full: {bytes} bytes are needed, and {free} of its {most} are free. Nothing is lost: a checkpoint frees what no open transaction needs, so end those that are open for long; a log is made larger when the database is created"
    )
}
