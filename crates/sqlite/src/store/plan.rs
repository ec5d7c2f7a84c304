//! The changes of a commit.

use crate::store::frames::Frames;
use crate::store::permutation::Move;
use crate::store::record::Part;

/// The bytes at [`crate::store::layout::COUNTERS`].
pub(crate) type Counters = [Vec<u8>; 2];

/// All changes of a commit that goes by pages.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) parts: Vec<Part>,
    /// The frames' bytes behind the commit, in the order of the parts, as far as it stores any.
    pub(crate) images: Vec<Vec<u8>>,
    /// Page 1's, which are not among the changes.
    pub(crate) counters: Option<Counters>,
    /// Pages that were laid out for their frames.
    pub(crate) placed: u64,
    /// Pages that are logged as SQLite wrote them.
    pub(crate) exact: u64,
    /// The one page's header can be stored in place.
    pub(crate) in_place: Option<Form>,
}

/// The form in which a header is stored in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Its first word is all that changes.
    Word,
    /// Its first line is, and the processor stores that whole.
    Line,
}

/// The outcome of a transaction's changes.
#[derive(Debug)]
pub(crate) enum Work {
    /// Nothing, or page 1's counters alone.
    Counters(Option<Counters>),
    Pages(Plan),
    Bytes(Frames, Option<Counters>),
}

/// A commit of this connection that is prepared.
#[derive(Debug)]
pub(crate) struct PreparedCommit {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) work: Work,
    pub(crate) name: Vec<u8>,
    /// Something was written since.
    pub(crate) touched: bool,
}

impl Plan {
    /// The pages that take another frame.
    pub(crate) fn moves(&self) -> impl Iterator<Item = Move> + '_ {
        moves(&self.parts)
    }

    /// Bytes of the record, without what is carried on.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.record_bytes() as u64).sum()
    }
}

/// The pages that take another frame.
pub(crate) fn moves(parts: &[Part]) -> impl Iterator<Item = Move> + '_ {
    let step = |part: &Part| part.moved.map(|page| Move { page, frame: part.frame });
    parts.iter().filter_map(step)
}

/// The place of a frame in the database's file.
pub(crate) fn place_of(frame: u32, page_bytes: u64) -> u64 {
    (u64::from(frame) - 1) * page_bytes
}
