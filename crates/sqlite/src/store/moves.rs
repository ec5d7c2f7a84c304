//! Pages that move to other frames, and their entries in the table of the side file.

use crate::store::record::Part;

/// The length of a page's entry in the table.
pub const ENTRY_BYTES: usize = 4;

/// A page that moves to another frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// The page's number, from 1.
    pub page: u32,
    /// The new frame.
    pub frame: u32,
}

impl Move {
    /// The offset of the page's entry in the table.
    pub const fn at(self) -> u64 {
        (self.page as u64 - 1) * ENTRY_BYTES as u64
    }

    /// The entry: the frame's number, little-endian, or 0 if the page is in its own frame.
    pub const fn entry(self) -> [u8; ENTRY_BYTES] {
        if self.page == self.frame { [0; ENTRY_BYTES] } else { self.frame.to_le_bytes() }
    }
}

/// The pages that move.
pub(crate) fn moves(parts: &[Part]) -> impl Iterator<Item = Move> + '_ {
    let step = |part: &Part| part.moved.map(|page| Move { page, frame: part.frame });
    parts.iter().filter_map(step)
}
