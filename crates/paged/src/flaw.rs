//! Wrong policies, which a test puts in the place of right ones to see that it notices them.
//!
//! They go through the seam of threads, which only tests replace: for the host's threads the
//! compiler knows that no policy is wrong.

/// A policy that is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Flaw {
    /// Redo applies a record to a page that has it.
    RedoneTwice,
    /// A page that may lack changes is used as it lies in the file.
    ServedUnredone,
    /// A page is written before the log is durable up to its LSN.
    PageBeforeLog,
    /// A checkpoint says that no page is dirty.
    DirtyPagesForgotten,
    /// A commit is acknowledged when its record has an LSN.
    AcknowledgedEarly,
    /// A reader is acknowledged though what it has read is not durable.
    ReaderIndependent,
    /// A session uses a lock that was taken from it.
    KeptThoughTaken,
    /// A row that is read is not locked.
    ReadNotLocked,
    /// The lock of a row is let go when the row has been read.
    ReadLockLetGo,
    /// A row that is written is not locked.
    WriteNotLocked,
    /// A row that is read to be written is locked as one that is only read.
    UpdateAsShared,
    /// The edges of a circle of waits are not looked at again.
    EdgeNotRechecked,
    /// A scan does not depend on a delete whose ghost has gone.
    GoneGhostForgotten,
    /// A scan does not lock the gaps before keys.
    GapNotLocked,
    /// A key that is inserted into a locked gap does not inherit the lock.
    SplitGapNotLocked,
    /// A ghost is reclaimed though its transaction is open.
    GhostReclaimedEarly,
    /// A transaction that was refused a lock commits.
    DoomedCommits,
    /// Changes that came after a savepoint stay.
    SavepointIgnored,
    /// A row is undone on the page where it was changed.
    UndoneByPage,
    /// A separator is posted though the parent has it.
    PostedTwice,
    /// A page is evicted while it is in use.
    PinnedEvicted,
    /// A look at a page counts though the page was changed meanwhile.
    LookNotChecked,
    /// A read without locks takes a page whatever its LSN is.
    PageLsnIgnored,
    /// A reader without locks sees what is not committed.
    HorizonPastOpen,
    /// A reader without locks sees what is committed and not durable.
    HorizonPastDurable,
    /// The checksum of an object in the log is not looked at.
    ChecksumIgnored,
    /// The round of an entry in the ring is not looked at.
    RoundIgnored,
    /// Segments of the log are used again before the head has passed them.
    SegmentsFreedEarly,
    /// A commit makes its own record durable alone.
    OwnRecordAlone,
    /// The durable prefix is taken to reach as far as the newest durable record.
    PrefixJumps,
    /// Compensations are not flushed.
    CompensationUnflushed,
    /// Objects of an earlier restart count after the end that it has left.
    OlderRestartCounts,
}
