//! A page: a header, slots that are sorted by key, and a heap that grows towards them.
//!
//! 1. A page that comes from a medium is checked whole, once: [`Page::check`]. Nothing of a page
//!    that failed is looked at, so no byte of a medium leads out of the page.
//! 2. Whatever changes a page is determined by the page and the change alone, to the byte: redo
//!    does what the running system did.
//! 3. A record keeps its room while its row is shorter, so that the longer row can come back
//!    without asking for space. See `Page::trim`.

use std::cmp::Ordering;
use std::fmt;

use crate::ids::{Lsn, PageNo, TreeNo};
use crate::layout::{
    CHECKSUM, CHILD_BYTES, FLAGS, GARBAGE, GHOST, HEADER_BYTES, HEAP, HIGH, KEY_LEN, KIND, LEVEL,
    LONG, LOW, LSN, NUMBER, RECORD_BYTES, RIGHT, ROOM, ROW_LEN, SLOT_BYTES, SLOTS, STAMP,
    STUB_BYTES, TREE, entry_bytes,
};
use crate::{PagedError, Result};

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
    bytes: Box<[u8]>,
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
        Self { bytes: vec![0; bytes].into_boxed_slice() }
    }

    /// All its bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All its bytes, to be read into. [`Self::check`] comes before anything else.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    #[inline]
    fn u16_at(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    #[inline]
    fn u64_at(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(bytes)
    }

    fn set_u16(&mut self, at: usize, value: usize) {
        let value = u16::try_from(value).expect("a place in a page");
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn set_u64(&mut self, at: usize, value: u64) {
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Its use.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> PageKind {
        PageKind::of(self.bytes[KIND]).expect("checked when it was read")
    }

    /// Its level: 0 for leaves.
    #[inline]
    #[must_use]
    pub fn level(&self) -> u8 {
        self.bytes[LEVEL]
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
        Self::lsn_of(&self.bytes)
    }

    /// The LSN of a page's bytes.
    #[inline]
    pub(crate) fn lsn_of(bytes: &[u8]) -> Lsn {
        let mut lsn = [0; 8];
        lsn.copy_from_slice(&bytes[LSN..LSN + 8]);
        Lsn(u64::from_le_bytes(lsn))
    }

    pub(crate) fn set_lsn(&mut self, lsn: Lsn) {
        self.set_u64(LSN, lsn.0);
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

    pub(crate) fn set_stamp(&mut self, stamp: u64) {
        self.set_u64(STAMP, stamp);
    }

    /// Its tree.
    #[inline]
    #[must_use]
    pub fn tree(&self) -> TreeNo {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.bytes[TREE..TREE + 4]);
        TreeNo(u32::from_le_bytes(bytes))
    }

    /// The page to its right, or the next one of its chain.
    #[inline]
    #[must_use]
    pub fn right(&self) -> Option<PageNo> {
        Some(PageNo(self.u64_at(RIGHT))).filter(|right| right.0 != 0)
    }

    pub(crate) fn set_right(&mut self, right: Option<PageNo>) {
        self.set_u64(RIGHT, right.map_or(0, |right| right.0));
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
        &self.bytes[at..at + len]
    }

    #[inline]
    fn heap(&self) -> usize {
        self.u16_at(HEAP)
    }

    #[inline]
    fn record(&self, slot: usize) -> usize {
        self.u16_at(HEADER_BYTES + SLOT_BYTES * slot)
    }

    /// An entry's key.
    #[inline]
    #[must_use]
    pub fn key(&self, slot: usize) -> &[u8] {
        let at = self.record(slot);
        let from = at + RECORD_BYTES;
        &self.bytes[from..from + self.u16_at(at + KEY_LEN)]
    }

    /// An entry.
    #[inline]
    #[must_use]
    pub fn entry(&self, slot: usize) -> Entry<'_> {
        let at = self.record(slot);
        let from = at + RECORD_BYTES;
        let middle = from + self.u16_at(at + KEY_LEN);
        Entry {
            key: &self.bytes[from..middle],
            row: &self.bytes[middle..middle + self.u16_at(at + ROW_LEN)],
            room: self.u16_at(at + ROOM),
            flags: self.bytes[at + FLAGS],
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
        let (mut from, mut to) = (0, self.slots());
        while from < to {
            let middle = usize::midpoint(from, to);
            match compare(self.key(middle), key) {
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(from)
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
        self.bytes.len() - HEADER_BYTES - self.free_bytes()
    }

    #[inline]
    fn gap(&self) -> usize {
        self.heap() - HEADER_BYTES - SLOT_BYTES * self.slots()
    }

    /// Empties a page and gives it a new use. Its LSN stays.
    pub(crate) fn format(&mut self, format: &Format<'_>) {
        let (lsn, end) = (self.lsn(), self.bytes.len());
        self.bytes.fill(0);
        self.set_lsn(lsn);
        self.bytes[KIND] = format.kind as u8;
        self.bytes[LEVEL] = format.level;
        self.set_u64(NUMBER, format.number.0);
        self.set_u64(STAMP, format.stamp);
        self.bytes[TREE..TREE + 4].copy_from_slice(&format.tree.0.to_le_bytes());
        self.set_right(format.right);
        self.set_u16(HEAP, end);
        if matches!(format.kind, PageKind::Leaf | PageKind::Inner) {
            self.put_fence(LOW, format.low).expect("fences fit into an empty page");
            if let Some(high) = format.high {
                self.put_fence(HIGH, high).expect("fences fit into an empty page");
            }
        }
    }

    /// Sets the first key that it may not have.
    ///
    /// # Errors
    /// There is no space.
    pub(crate) fn set_high(&mut self, high: Option<&[u8]>) -> std::result::Result<(), Full> {
        if self.u16_at(HIGH) != 0 {
            let old = self.u16_at(HIGH + 2);
            self.waste(old);
            self.set_u16(HIGH, 0);
            self.set_u16(HIGH + 2, 0);
        }
        match high {
            Some(high) => self.put_fence(HIGH, high),
            None => Ok(()),
        }
    }

    fn put_fence(&mut self, which: usize, key: &[u8]) -> std::result::Result<(), Full> {
        let at = self.allocate(key.len(), 0)?;
        self.bytes[at..at + key.len()].copy_from_slice(key);
        self.set_u16(which, at);
        self.set_u16(which + 2, key.len());
        Ok(())
    }

    fn waste(&mut self, bytes: usize) {
        self.set_u16(GARBAGE, self.u16_at(GARBAGE) + bytes);
    }

    /// Takes bytes of the heap, and leaves `beside` bytes for slots.
    fn allocate(&mut self, bytes: usize, beside: usize) -> std::result::Result<usize, Full> {
        if self.gap() < bytes + beside {
            if self.free_bytes() < bytes + beside {
                return Err(Full);
            }
            self.compact();
        }
        let at = self.heap() - bytes;
        self.set_u16(HEAP, at);
        Ok(at)
    }

    /// Moves what the heap has to its end: fences first, then the records in the order of slots.
    fn compact(&mut self) {
        let old = self.bytes.clone();
        let mut heap = self.bytes.len();
        for which in [LOW, HIGH] {
            let (at, len) = (self.u16_at(which), self.u16_at(which + 2));
            if at != 0 {
                heap -= len;
                self.bytes[heap..heap + len].copy_from_slice(&old[at..at + len]);
                self.set_u16(which, heap);
            }
        }
        for slot in 0..self.slots() {
            let at = self.record(slot);
            let of = |place: usize| {
                usize::from(u16::from_le_bytes([old[at + place], old[at + place + 1]]))
            };
            let len = RECORD_BYTES + of(KEY_LEN) + of(ROOM);
            heap -= len;
            self.bytes[heap..heap + len].copy_from_slice(&old[at..at + len]);
            self.set_u16(HEADER_BYTES + SLOT_BYTES * slot, heap);
        }
        self.set_u16(HEAP, heap);
        self.set_u16(GARBAGE, 0);
    }

    /// Puts an entry into a slot; those after it move on.
    ///
    /// # Errors
    /// There is no space; nothing is changed.
    pub(crate) fn insert_at(
        &mut self,
        slot: usize,
        entry: &Entry<'_>,
    ) -> std::result::Result<(), Full> {
        let (room, slots) = (entry.room.max(entry.row.len()), self.slots());
        let at = self.allocate(RECORD_BYTES + entry.key.len() + room, SLOT_BYTES)?;
        self.put_record(at, entry, room);
        let from = HEADER_BYTES + SLOT_BYTES * slot;
        let to = HEADER_BYTES + SLOT_BYTES * slots;
        self.bytes.copy_within(from..to, from + SLOT_BYTES);
        self.set_u16(from, at);
        self.set_u16(SLOTS, slots + 1);
        Ok(())
    }

    fn put_record(&mut self, at: usize, entry: &Entry<'_>, room: usize) {
        self.set_u16(at + KEY_LEN, entry.key.len());
        self.set_u16(at + ROW_LEN, entry.row.len());
        self.set_u16(at + ROOM, room);
        self.bytes[at + FLAGS] = entry.flags;
        self.bytes[at + FLAGS + 1] = 0;
        let middle = at + RECORD_BYTES + entry.key.len();
        self.bytes[at + RECORD_BYTES..middle].copy_from_slice(entry.key);
        self.bytes[middle..middle + entry.row.len()].copy_from_slice(entry.row);
        self.bytes[middle + entry.row.len()..middle + room].fill(0);
    }

    /// Removes an entry.
    pub(crate) fn remove_at(&mut self, slot: usize) {
        let (entry, slots) = (self.entry(slot), self.slots());
        let bytes = RECORD_BYTES + entry.key.len() + entry.room;
        self.waste(bytes);
        let from = HEADER_BYTES + SLOT_BYTES * slot;
        let to = HEADER_BYTES + SLOT_BYTES * slots;
        self.bytes.copy_within(from + SLOT_BYTES..to, from);
        self.set_u16(SLOTS, slots - 1);
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

    /// Gives an entry another row; its room does not become less.
    ///
    /// # Errors
    /// There is no space; nothing is changed.
    pub(crate) fn set_row(
        &mut self,
        slot: usize,
        row: &[u8],
        flags: u8,
    ) -> std::result::Result<(), Full> {
        let old = self.entry(slot);
        if row.len() <= old.room {
            let (at, key, room) = (self.record(slot), old.key.len(), old.room);
            let middle = at + RECORD_BYTES + key;
            self.set_u16(at + ROW_LEN, row.len());
            self.bytes[at + FLAGS] = flags;
            self.bytes[middle..middle + row.len()].copy_from_slice(row);
            self.bytes[middle + row.len()..middle + room].fill(0);
            return Ok(());
        }
        if !self.has_room(slot, row.len()) {
            return Err(Full);
        }
        let key = old.key.to_vec();
        self.remove_at(slot);
        self.insert_at(slot, &Entry { key: &key, row, room: row.len(), flags })
    }

    /// Overwrites a part of a row.
    ///
    /// # Errors
    /// The row is not so long; nothing is changed.
    pub(crate) fn patch(
        &mut self,
        slot: usize,
        at: usize,
        bytes: &[u8],
    ) -> std::result::Result<(), Full> {
        let entry = self.entry(slot);
        if at + bytes.len() > entry.row.len() {
            return Err(Full);
        }
        let from = self.record(slot) + RECORD_BYTES + entry.key.len() + at;
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn set_flags(&mut self, slot: usize, flags: u8) {
        let at = self.record(slot) + FLAGS;
        self.bytes[at] = flags;
    }

    /// Gives up the room of an entry that its row does not need. For rows whose last change has
    /// committed.
    pub(crate) fn trim(&mut self, slot: usize) {
        let (at, entry) = (self.record(slot), self.entry(slot));
        let (row, unused) = (entry.row.len(), entry.room - entry.row.len());
        self.set_u16(at + ROOM, row);
        self.waste(unused);
    }

    /// The part of a long row that it has.
    #[must_use]
    pub fn part(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..HEADER_BYTES + self.u16_at(SLOTS)]
    }

    /// Overwrites from a place of its part on; the part becomes `len` bytes long.
    pub(crate) fn set_part(&mut self, at: usize, bytes: &[u8], len: usize) {
        let from = HEADER_BYTES + at;
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        self.set_u16(SLOTS, len);
        self.bytes[HEADER_BYTES + len..].fill(0);
    }

    /// The contents of a map after its header: a bit for each page.
    #[must_use]
    pub fn bits(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    pub(crate) fn set_bit(&mut self, bit: usize, on: bool) {
        let byte = &mut self.bytes[HEADER_BYTES + bit / 8];
        if on { *byte |= 1 << (bit % 8) } else { *byte &= !(1 << (bit % 8)) }
    }

    /// Writes the checksum.
    pub(crate) fn seal(bytes: &mut [u8]) {
        let sum = crc32c::crc32c(&bytes[KIND..]);
        bytes[CHECKSUM..KIND].copy_from_slice(&sum.to_le_bytes());
    }

    /// Checks a page that was read: its checksum, whose it is, and every place in it.
    ///
    /// # Errors
    /// [`PagedError::DamagedPage`] with what is wrong.
    pub fn check(&self, number: PageNo, stamp: u64) -> Result<()> {
        let damaged = |what| Err(PagedError::DamagedPage { page: number, what });
        if self.bytes[KIND] == 0 {
            let blank = self.bytes.iter().all(|byte| *byte == 0);
            return if blank { Ok(()) } else { damaged("it has no kind") };
        }
        if crc32c::crc32c(&self.bytes[KIND..]).to_le_bytes() != self.bytes[CHECKSUM..KIND] {
            return damaged("its checksum is wrong");
        }
        let Some(kind) = PageKind::of(self.bytes[KIND]) else {
            return damaged("it has an unknown kind");
        };
        if self.number() != number {
            return damaged("it has the number of another page");
        }
        if self.stamp() != stamp {
            return damaged("it is of another file");
        }
        match kind {
            PageKind::Leaf | PageKind::Inner => self.check_entries(kind).or_else(damaged),
            PageKind::Overflow if self.slots() > self.bytes.len() - HEADER_BYTES => {
                damaged("its part is too long")
            }
            _ => Ok(()),
        }
    }

    fn check_entries(&self, kind: PageKind) -> std::result::Result<(), &'static str> {
        let (end, heap, inner) = (self.bytes.len(), self.heap(), kind == PageKind::Inner);
        if inner == (self.level() == 0) {
            return Err("its level is not of its kind");
        }
        if heap > end || HEADER_BYTES + SLOT_BYTES * self.slots() > heap {
            return Err("its slots reach into its heap");
        }
        let mut used = 0;
        for which in [LOW, HIGH] {
            let (at, len) = (self.u16_at(which), self.u16_at(which + 2));
            if at == 0 && which == HIGH && len == 0 {
                continue;
            }
            if at < heap || at + len > end {
                return Err("a fence is not in its heap");
            }
            used += len;
        }
        let (low, high) = (self.low(), self.high());
        if high.is_some_and(|high| low >= high) {
            return Err("its range is empty");
        }
        if self.right() == Some(self.number()) {
            return Err("it is its own neighbour");
        }
        let mut before: Option<&[u8]> = None;
        for slot in 0..self.slots() {
            let at = self.record(slot);
            if at < heap || at + RECORD_BYTES > end {
                return Err("a record is not in its heap");
            }
            let room = self.u16_at(at + ROOM);
            let bytes = RECORD_BYTES + self.u16_at(at + KEY_LEN) + room;
            if at + bytes > end || self.u16_at(at + ROW_LEN) > room {
                return Err("a record is not in its heap");
            }
            used += bytes;
            let entry = self.entry(slot);
            if before.is_some_and(|before| before >= entry.key) {
                return Err("its keys are not sorted");
            }
            let first = inner && slot == 0;
            let within = entry.key >= low && high.is_none_or(|high| entry.key < high);
            if if first { !entry.key.is_empty() } else { !within } {
                return Err("a key is not within its fences");
            }
            if inner && entry.row.len() != CHILD_BYTES {
                return Err("a child is not eight bytes");
            }
            if entry.is_long() && entry.row.len() != STUB_BYTES {
                return Err("the stub of a long row is not sixteen bytes");
            }
            if entry.is_long() && entry.row[STUB_BYTES - 8..] == self.number().0.to_le_bytes() {
                return Err("a long row begins in its leaf");
            }
            before = Some(entry.key);
        }
        if used + self.u16_at(GARBAGE) != end - heap {
            return Err("its heap is not the sum of its records");
        }
        if inner && self.slots() == 0 {
            return Err("it has no children");
        }
        Ok(())
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
