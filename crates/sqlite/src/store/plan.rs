//! The changes of a commit.

use crate::store::frames::Frames;
use crate::store::moves::{Move, moves};
pub(crate) use crate::store::page1::Counters;
use crate::store::placed::Placed;
use crate::store::record::Part;

/// The changes of a page-wise commit.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) parts: Vec<Part>,
    /// For each part the frame's bytes after the commit, if the part stores any.
    pub(crate) images: Vec<Vec<u8>>,
    /// Page 1's counters, which are not among the parts.
    pub(crate) counters: Option<Counters>,
    /// Pages laid out for their frames.
    pub(crate) placed: u64,
    /// Pages logged as SQLite wrote them.
    pub(crate) exact: u64,
    /// How the only page's header can be stored in place.
    pub(crate) in_place: Option<Form>,
}

/// The form of an in-place header store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Only its first word changes.
    Word,
    /// Only its first line changes, which the processor stores whole.
    Line,
}

/// What a commit has to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// Nothing, or page 1's counters only.
    Counters(Option<Counters>),
    Pages(Plan),
    /// The connection's lean record ([`crate::store::lean`]).
    Lean(Option<Counters>),
    Bytes(Frames, Option<Counters>),
    /// It has been logged, except for the mark.
    Stream(Streamed),
}

/// A commit whose record is written, and whose mark is not.
#[derive(Debug)]
pub(crate) struct Streamed {
    /// Bytes of the record, and its checksum.
    pub(crate) bytes: u64,
    pub(crate) check: u32,
    /// The checksum of the direct stores.
    pub(crate) direct: u32,
    pub(crate) counters: Option<Counters>,
    /// Room for a part of the record.
    pub(crate) window: Vec<u8>,
}

/// A prepared commit of this connection.
#[derive(Debug)]
pub(crate) struct PreparedCommit {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) work: Work,
    pub(crate) name: Vec<u8>,
    /// Something was written afterwards.
    pub(crate) touched: bool,
}

impl Plan {
    /// Adds the changes to a frame, and the page that moves into it, if there are any.
    pub(crate) fn add(&mut self, frame: u32, moved: Option<u32>, placed: Placed) {
        if moved.is_none() && placed.stores_nothing() {
            return;
        }
        let Placed { image, direct, logged, erased } = placed;
        let bytes = logged.iter().flat_map(|run| run.of(&image)).copied().collect();
        self.parts.push(Part { frame, moved, direct, logged, erased, bytes });
        self.images.push(image);
    }

    /// The pages that move.
    pub(crate) fn moves(&self) -> impl Iterator<Item = Move> + '_ {
        moves(&self.parts)
    }

    /// Bytes of the record, without relogged runs.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.record_bytes() as u64).sum()
    }
}

/// A frame's offset in the database file.
pub(crate) fn place_of(frame: u32, page_bytes: u64) -> u64 {
    (u64::from(frame) - 1) * page_bytes
}
