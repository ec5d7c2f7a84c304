//! Wrong policies, which a test puts in the place of right ones to see that it notices them: the
//! native faults of failure-atomic slotted pages.
//!
//! A flaw holds for one thread, and only in a memory that has an observer ([`Memory::OBSERVED`]),
//! such as a recording: for all other memories the compiler removes the question.

use std::cell::Cell;

use pm::Memory;

macro_rules! flaws {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A policy that is wrong.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Flaw { $($(#[$doc])* $name,)* }

        impl Flaw {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

flaws! {
    /// A record that was written into a committed page is not flushed.
    RecordUnflushed,
    /// A missing fence between a record and the header in place that leads to it.
    RecordUnfenced,
    /// A header in place is stored before its record is flushed.
    HeaderBeforeFence,
    /// The first word of a line is stored before the others.
    FirstWordFirst,
    /// A header in place is not flushed.
    HeaderUnflushed,
    /// A header goes over the line that counts.
    ActiveLineOverwritten,
    /// The words of a line are stored in no order.
    LineTorn,
    /// A commit in place is acknowledged before its last fence.
    AcknowledgedEarly,
    /// Frames are not flushed.
    FrameUnflushed,
    /// A missing fence between the frames and the mark.
    MarkUnfenced,
    /// The checksum of a mark is not looked at.
    MarkUnchecked,
    /// The checksum of records is not looked at.
    RecordUnchecked,
    /// The log is emptied before the checkpoint is fenced.
    EmptiedEarly,
    /// A checkpoint is not flushed.
    CheckpointUnflushed,
    /// A page that a split or a merge has filled is not flushed.
    SiblingUnflushed,
    /// The log lacks the headers of inner pages.
    ParentUnlogged,
    /// The log lacks the roots.
    RootUnlogged,
    /// A page that is given up is used again in the same transaction.
    PageReusedEarly,
    /// A record goes where a committed one is.
    PlacedOverCommitted,
    /// The log lacks the top of the free stack.
    FreeStackUnlogged,
    /// Pages of a long value are not flushed.
    OverflowUnflushed,
    /// Recovery does not make the mark that it goes by durable.
    MarkTrusted,
    /// Recovery empties the log before the checkpoint is fenced.
    RecoveryEmptiesEarly,
    /// NVWAL's tail is durable before its frames.
    TailBeforeFrames,
    /// NVWAL's blocks are used again before the checkpoint is durable.
    BlocksReusedEarly,
    /// A checkpoint of NVWAL has the runs of a transaction that is not committed.
    UncommittedIndexed,
    /// A journal is not durable before pages are overwritten.
    JournalUnsynced,
}

thread_local!(static FLAW: Cell<Option<Flaw>> = const { Cell::new(None) });

/// Makes a policy wrong, or none, for stores that this thread uses from now on.
pub fn set(flaw: Option<Flaw>) {
    FLAW.set(flaw);
}

/// The policy that is wrong.
pub fn get() -> Option<Flaw> {
    FLAW.get()
}

/// Returns whether a policy is wrong, in a test.
#[inline]
pub(crate) fn has<M: Memory>(flaw: Flaw) -> bool {
    M::OBSERVED && FLAW.get() == Some(flaw)
}
