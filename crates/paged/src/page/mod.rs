//! A page: a header, slots that are sorted by key, and a heap that grows towards them.
//!
//! 1. A page that comes from a medium is checked whole, once: [`Page::check`]. Nothing of a page
//!    that failed is looked at, so no byte of a medium leads out of the page.
//! 2. Whatever changes a page is determined by the page and the change alone, to the byte: redo
//!    does what the running system did.
//! 3. A record keeps its room while its row is shorter, so that the longer row can come back
//!    without asking for space. See `Page::trim`.

mod check;
mod modify;
mod view;

use std::cmp::Ordering;
use std::fmt;

use pm::FrameBytes;

use crate::ids::{Lsn, PageNo, TreeNo};
use crate::layout::{
    FLAGS, GARBAGE, GHOST, HEADER_BYTES, HEAP, HIGH, KIND, LEVEL, LONG, LOW, NUMBER, RECORD_BYTES,
    ROOM, ROW_LEN, SLOT_BYTES, SLOTS, STAMP, entry_bytes,
};
use view::Slot;
pub(crate) use view::View;

/// The use that a page has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PageKind {
    /// It was never used: all its bytes are zero.
    Blank = 0,
    /// It has rows.
    Leaf = 1,
    /// It has children.
    Inner = 2,
    /// It has a part of a long row.
    Overflow = 3,
    /// It says which pages are in use.
    Map = 4,
    /// It was used, and is free.
    Free = 5,
    /// It is the first one of the file.
    Header = 6,
}

impl PageKind {
    #[inline]
    fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Blank,
            1 => Self::Leaf,
            2 => Self::Inner,
            3 => Self::Overflow,
            4 => Self::Map,
            5 => Self::Free,
            6 => Self::Header,
            _ => return None,
        })
    }
}

/// A page has no space for what was to be put into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// The things that an empty page begins with.
#[derive(Clone, Copy, Debug)]
pub struct Format<'a> {
    /// Its own number.
    pub number: PageNo,
    /// The stamp of its file.
    pub stamp: u64,
    /// Its use.
    pub kind: PageKind,
    /// Its level: 0 for leaves.
    pub level: u8,
    /// Its tree.
    pub tree: TreeNo,
    /// The page to its right.
    pub right: Option<PageNo>,
    /// The least key that it may have.
    pub low: &'a [u8],
    /// The first key that it may not have; without one its range has no end.
    pub high: Option<&'a [u8]>,
}

/// An entry of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its row, stub or child.
    pub row: &'a [u8],
    /// The bytes that are kept for its row.
    pub room: usize,
    /// [`GHOST`], [`LONG`].
    pub(crate) flags: u8,
}

impl Entry<'_> {
    /// Returns whether the row was deleted.
    #[inline]
    #[must_use]
    pub fn is_ghost(&self) -> bool {
        self.flags & GHOST != 0
    }

    /// Returns whether the row lies in a chain.
    #[inline]
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.flags & LONG != 0
    }

    /// Returns the child of an entry of an inner page.
    #[inline]
    #[must_use]
    pub fn child(&self) -> PageNo {
        PageNo(u64::from_le_bytes(self.row.try_into().expect("checked: eight bytes")))
    }
}

/// Compared as one number before the rest of two keys.
const HEAD_BYTES: usize = 8;

/// Compares keys as [`Ord`] does for slices, mostly by a comparison of two numbers.
#[inline]
pub(crate) fn compare(one: &[u8], other: &[u8]) -> Ordering {
    match (one.split_first_chunk::<HEAD_BYTES>(), other.split_first_chunk::<HEAD_BYTES>()) {
        (Some((head, rest)), Some((other_head, other_rest))) => {
            let heads = u64::from_be_bytes(*head).cmp(&u64::from_be_bytes(*other_head));
            heads.then_with(|| rest.cmp(other_rest))
        }
        _ => one.cmp(other),
    }
}

/// A page in memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Page {
    bytes: FrameBytes,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("number", &self.number())
            .field("kind", &self.kind())
            .field("lsn", &self.lsn())
            .field("slots", &self.slots())
            .finish_non_exhaustive()
    }
}

impl Page {
    /// Returns a page of zeros.
    #[must_use]
    pub fn blank(bytes: usize) -> Self {
        Self { bytes: FrameBytes::zeros(bytes) }
    }

    /// A page in this memory.
    pub(crate) fn over(bytes: FrameBytes) -> Self {
        Self { bytes }
    }

    /// All its bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }

    #[inline]
    fn u16_at(&self, at: usize) -> usize {
        self.bytes().u16_at(at)
    }

    #[inline]
    fn u64_at(&self, at: usize) -> u64 {
        self.bytes().u64_at(at)
    }

    /// Its use.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> PageKind {
        PageKind::of(self.bytes()[KIND]).expect("checked when it was read")
    }

    /// Its level: 0 for leaves.
    #[inline]
    #[must_use]
    pub fn level(&self) -> u8 {
        self.bytes()[LEVEL]
    }

    /// The number of its entries.
    #[inline]
    #[must_use]
    pub fn slots(&self) -> usize {
        self.u16_at(SLOTS)
    }

    /// The LSN of its newest change.
    #[inline]
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.bytes().lsn()
    }

    /// The LSN of a page's bytes.
    #[inline]
    pub(crate) fn lsn_of(bytes: &[u8]) -> Lsn {
        bytes.lsn()
    }

    /// Its own number.
    #[inline]
    #[must_use]
    pub fn number(&self) -> PageNo {
        PageNo(self.u64_at(NUMBER))
    }

    /// The stamp of its file.
    #[inline]
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.u64_at(STAMP)
    }

    /// Its tree.
    #[inline]
    #[must_use]
    pub fn tree(&self) -> TreeNo {
        self.bytes().tree()
    }

    /// The page to its right, or the next one of its chain.
    #[inline]
    #[must_use]
    pub fn right(&self) -> Option<PageNo> {
        self.bytes().right()
    }

    /// The least key that it may have.
    #[inline]
    #[must_use]
    pub fn low(&self) -> &[u8] {
        self.fence(LOW)
    }

    /// The first key that it may not have.
    #[inline]
    #[must_use]
    pub fn high(&self) -> Option<&[u8]> {
        (self.u16_at(HIGH) != 0).then(|| self.fence(HIGH))
    }

    #[inline]
    fn fence(&self, which: usize) -> &[u8] {
        let (at, len) = (self.u16_at(which), self.u16_at(which + 2));
        &self.bytes()[at..at + len]
    }

    #[inline]
    fn heap(&self) -> usize {
        self.u16_at(HEAP)
    }

    #[inline]
    fn record(&self, slot: usize) -> usize {
        self.bytes().slot(slot).at
    }

    /// An entry's key.
    #[inline]
    #[must_use]
    pub fn key(&self, slot: usize) -> &[u8] {
        let Slot { at, key_len, .. } = self.bytes().slot(slot);
        let from = at + RECORD_BYTES;
        &self.bytes()[from..from + key_len]
    }

    /// An entry.
    #[inline]
    #[must_use]
    pub fn entry(&self, slot: usize) -> Entry<'_> {
        let bytes = self.bytes();
        let Slot { at, key_len, .. } = bytes.slot(slot);
        let from = at + RECORD_BYTES;
        let middle = from + key_len;
        Entry {
            key: &bytes[from..middle],
            row: &bytes[middle..middle + bytes.u16_at(at + ROW_LEN)],
            room: bytes.u16_at(at + ROOM),
            flags: bytes[at + FLAGS],
        }
    }

    /// Its entries in the order of their keys.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = Entry<'_>> {
        (0..self.slots()).map(|slot| self.entry(slot))
    }

    /// Returns the entry with this key, or the slot where it would be.
    ///
    /// # Errors
    /// There is no entry with this key.
    #[inline]
    pub fn find(&self, key: &[u8]) -> std::result::Result<usize, usize> {
        self.bytes().search(key)
    }

    /// Bytes that are free, in one piece or not.
    #[inline]
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.gap() + self.u16_at(GARBAGE)
    }

    /// Bytes of its entries and fences.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.bytes().len() - HEADER_BYTES - self.free_bytes()
    }

    #[inline]
    fn gap(&self) -> usize {
        self.heap() - HEADER_BYTES - SLOT_BYTES * self.slots()
    }

    /// Returns whether `Self::set_row` would find the space for a row of so many bytes.
    #[inline]
    #[must_use]
    pub fn has_room(&self, slot: usize, row: usize) -> bool {
        let entry = self.entry(slot);
        row <= entry.room || row - entry.room <= self.free_bytes()
    }

    /// Returns whether `Self::insert_at` would find the space for an entry.
    #[must_use]
    pub fn has_space(&self, key: usize, room: usize) -> bool {
        entry_bytes(key, room) <= self.free_bytes()
    }

    /// The part of a long row that it has.
    #[must_use]
    pub fn part(&self) -> &[u8] {
        &self.bytes()[HEADER_BYTES..HEADER_BYTES + self.u16_at(SLOTS)]
    }

    /// The contents of a map after its header: a bit for each page.
    #[must_use]
    pub fn bits(&self) -> &[u8] {
        &self.bytes()[HEADER_BYTES..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_compared_as_slices_are() {
        let pieces: [&[u8]; 8] = [
            b"",
            b"\0",
            b"\xff",
            b"abcdefg",
            b"abcdefgh",
            b"abcdefgh\0",
            b"abcdefgi",
            b"abcdefghij",
        ];
        for one in pieces {
            for other in pieces {
                assert_eq!(compare(one, other), one.cmp(other), "{one:?} and {other:?}");
            }
        }
    }
}
