//! The errors of a log.

use pm::Escaped;
use std::io;

use pm::Bad;

use super::layout::MAX_PAYLOAD_BYTES;

/// The log failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalError {
    /// The kernel refused. [`Wal::is_poisoned`](super::Wal::is_poisoned) says whether the log can
    /// go on.
    #[error("cannot {doing} the log segment {name}: {source}", name = Escaped(.name), source = Escaped(.source))]
    Io {
        /// The thing that was tried.
        doing: &'static str,
        /// The segment's file.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// An earlier write or sync failed.
    #[error("the log failed earlier; what is durable is unknown, and nothing more is acknowledged")]
    Poisoned,
    /// The segment's bytes are not what they must be.
    #[error("log segment {name} is damaged at byte {at}: {what}", name = Escaped(.name))]
    Damaged {
        /// The segment's file.
        name: String,
        /// The place, in bytes.
        at: u64,
        /// The fault.
        what: &'static str,
    },
    /// The log ends before what a checkpoint needs of it: the rest was lost, and of some
    /// transactions the checkpoint has a part.
    #[error(
        "log segment {name} ends at byte {at}, after transaction {last}, but the checkpoint needs \
         the log up to transaction {needed}: what followed is damaged", name = Escaped(.name))]
    Short {
        /// The segment's file.
        name: String,
        /// The place where it ends, in bytes.
        at: u64,
        /// The last transaction in it.
        last: u64,
        /// The last transaction of which the checkpoint may have a part.
        needed: u64,
    },
    /// The log ends elsewhere than it has to: it is of another moment.
    #[error(
        "log segment {name} ends with transaction {last}, and the partition's last one was \
         {needed}: it is of another moment, or what followed is missing", name = Escaped(.name))]
    OtherEnd {
        /// The newest segment's file.
        name: String,
        /// The last transaction in it.
        last: u64,
        /// The last transaction of the partition.
        needed: u64,
    },
    /// A segment that must be there is not.
    #[error("log segment {name} is missing", name = Escaped(.name))]
    Missing {
        /// The segment's file.
        name: String,
    },
    /// The segment is of another version of the format.
    #[error("log segment {name} has format version {found}; this build reads version {supported}", name = Escaped(.name))]
    Version {
        /// The segment's file.
        name: String,
        /// Its version.
        found: u32,
        /// The version that this build reads.
        supported: u32,
    },
    /// The record is longer than a frame can say. Discard it.
    #[error(
        "the transaction changes too much: it can have {MAX_PAYLOAD_BYTES} bytes of log; commit it in parts"
    )]
    TooLong,
    /// A part of the record could not be put; it must be discarded.
    #[error("a part of this log record is missing; it cannot be committed")]
    Incomplete,
    /// The buffer's memory failed.
    #[error("the log's buffer: {0}")]
    Buffer(#[from] Bad),
}

pub(super) fn io_error(doing: &'static str, name: &str) -> impl FnOnce(io::Error) -> WalError {
    move |source| WalError::Io { doing, name: name.into(), source }
}
