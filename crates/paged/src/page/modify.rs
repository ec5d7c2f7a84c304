//! The changes of a page. Each is determined by the page and the change alone, to the byte.

use std::io;

use pm::{File, FrameBytes};

use super::view::{Slot, View, head_of};
use super::{Entry, Format, Full, Page, PageKind};
use crate::ids::{Lsn, PageNo};
use crate::layout::{
    CHECKSUM, FLAGS, GARBAGE, HEADER_BYTES, HEAP, HIGH, KEY_LEN, KIND, LOW, LSN, NUMBER, PREFIX,
    RECORD_BYTES, RIGHT, ROOM, ROW_LEN, SLOT_BYTES, SLOTS, STAMP, TREE,
};

impl Page {
    /// Its memory, to be opened, closed and filled.
    pub(crate) fn memory(&mut self) -> &mut FrameBytes {
        &mut self.bytes
    }

    /// Stores bytes from a place on.
    pub(crate) fn set(&mut self, at: usize, bytes: &[u8]) {
        self.bytes.set(at, bytes);
    }

    /// Makes all its bytes zero.
    pub(crate) fn clear(&mut self) {
        let end = self.bytes().len();
        self.bytes.clear(0, end);
    }

    /// Reads it from a file; what the file does not have is zero. [`Self::check`] comes before
    /// anything else. Returns how many bytes there were.
    pub(crate) fn read_from<R: File>(&mut self, file: &R, number: PageNo) -> io::Result<usize> {
        let at = number.0 * self.bytes().len() as u64;
        file.read_frame(at, &mut self.bytes)
    }

    #[inline]
    fn set_u16(&mut self, at: usize, value: usize) {
        let value = u16::try_from(value).expect("a place in a page");
        self.bytes.set(at, &value.to_le_bytes());
    }

    #[inline]
    fn set_u64(&mut self, at: usize, value: u64) {
        self.bytes.set(at, &value.to_le_bytes());
    }

    #[inline]
    pub(crate) fn set_lsn(&mut self, lsn: Lsn) {
        self.set_u64(LSN, lsn.0);
    }

    pub(crate) fn set_stamp(&mut self, stamp: u64) {
        self.set_u64(STAMP, stamp);
    }

    pub(crate) fn set_right(&mut self, right: Option<PageNo>) {
        self.set_u64(RIGHT, right.map_or(0, |right| right.0));
    }

    /// Empties a page and gives it a new use. Its LSN stays.
    pub(crate) fn format(&mut self, format: &Format<'_>) {
        let (lsn, end) = (self.lsn(), self.bytes().len());
        self.clear();
        self.set_lsn(lsn);
        self.bytes.set(KIND, &[format.kind as u8, format.level]);
        self.set_u64(NUMBER, format.number.0);
        self.set_u64(STAMP, format.stamp);
        self.bytes.set(TREE, &format.tree.0.to_le_bytes());
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
        self.bytes.set(at, key);
        self.set_u16(which, at);
        self.set_u16(which + 2, key.len());
        Ok(())
    }

    fn waste(&mut self, bytes: usize) {
        self.set_u16(GARBAGE, self.u16_at(GARBAGE) + bytes);
    }

    /// Takes bytes of the heap, and leaves so many bytes for slots.
    fn allocate(&mut self, bytes: usize, for_slots: usize) -> std::result::Result<usize, Full> {
        if self.gap() < bytes + for_slots {
            if self.free_bytes() < bytes + for_slots {
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
        let old = self.bytes().to_vec();
        let mut heap = old.len();
        for which in [LOW, HIGH] {
            let (at, len) = (self.u16_at(which), self.u16_at(which + 2));
            if at != 0 {
                heap -= len;
                self.bytes.set(heap, &old[at..at + len]);
                self.set_u16(which, heap);
            }
        }
        for place in 0..self.slots() {
            let slot = old.slot(place);
            let len = RECORD_BYTES + slot.key_len + old.u16_at(slot.at + ROOM);
            heap -= len;
            self.bytes.set(heap, &old[slot.at..slot.at + len]);
            self.set_slot(place, Slot { at: heap, ..slot });
        }
        self.set_u16(HEAP, heap);
        self.set_u16(GARBAGE, 0);
    }

    fn set_slot(&mut self, place: usize, slot: Slot) {
        self.set_u64(HEADER_BYTES + SLOT_BYTES * place, slot.word());
    }

    /// Puts an entry into a slot; those after it move on.
    ///
    /// # Errors
    /// There is no space; nothing is changed.
    pub(crate) fn insert_at(
        &mut self,
        place: usize,
        entry: &Entry<'_>,
    ) -> std::result::Result<(), Full> {
        let (room, slots) = (entry.room.max(entry.row.len()), self.slots());
        let at = self.allocate(RECORD_BYTES + entry.key.len() + room, SLOT_BYTES)?;
        self.put_record(at, entry, room);
        let from = HEADER_BYTES + SLOT_BYTES * place;
        self.bytes.move_words(from, from + SLOT_BYTES, slots - place);
        self.set_slot(place, Slot { head: 0, at, key_len: entry.key.len() });
        self.set_u16(SLOTS, slots + 1);
        self.set_head(place);
        Ok(())
    }

    /// Sets the head of a key that has come, and those of all keys if it does not begin with what
    /// they have in common.
    fn set_head(&mut self, place: usize) {
        let first = self.bytes().first_keyed();
        if place < first {
            return;
        }
        let (prefix, key) = (self.u16_at(PREFIX), self.key(place));
        let common = if self.slots() == first + 1 {
            key.len()
        } else {
            let other = self.key(if place == first { first + 1 } else { first });
            common_bytes(key, &other[..prefix])
        };
        if common == prefix {
            let slot = self.bytes().slot(place);
            let head = head_of(&key[prefix..]);
            self.set_slot(place, Slot { head, ..slot });
        } else {
            self.set_heads(common);
        }
    }

    fn set_heads(&mut self, prefix: usize) {
        self.set_u16(PREFIX, prefix);
        for place in self.bytes().first_keyed()..self.slots() {
            let slot = self.bytes().slot(place);
            let head = head_of(&self.key(place)[prefix..]);
            self.set_slot(place, Slot { head, ..slot });
        }
    }

    /// Sets the heads of all keys anew, after all that they have in common.
    pub(crate) fn renew_heads(&mut self) {
        let (first, slots) = (self.bytes().first_keyed(), self.slots());
        if first < slots {
            self.set_heads(common_bytes(self.key(first), self.key(slots - 1)));
        }
    }

    fn put_record(&mut self, at: usize, entry: &Entry<'_>, room: usize) {
        self.set_u16(at + KEY_LEN, entry.key.len());
        self.set_u16(at + ROW_LEN, entry.row.len());
        self.set_u16(at + ROOM, room);
        self.bytes.set(at + FLAGS, &[entry.flags, 0]);
        let middle = at + RECORD_BYTES + entry.key.len();
        self.bytes.set(at + RECORD_BYTES, entry.key);
        self.bytes.set(middle, entry.row);
        self.bytes.clear(middle + entry.row.len(), middle + room);
    }

    /// Removes an entry.
    pub(crate) fn remove_at(&mut self, place: usize) {
        let (entry, slots) = (self.entry(place), self.slots());
        let bytes = RECORD_BYTES + entry.key.len() + entry.room;
        self.waste(bytes);
        let to = HEADER_BYTES + SLOT_BYTES * place;
        self.bytes.move_words(to + SLOT_BYTES, to, slots - place - 1);
        self.set_u16(SLOTS, slots - 1);
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
            self.set_flags(slot, flags);
            self.bytes.set(middle, row);
            self.bytes.clear(middle + row.len(), middle + room);
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
        self.bytes.set(from, bytes);
        Ok(())
    }

    pub(crate) fn set_flags(&mut self, slot: usize, flags: u8) {
        let at = self.record(slot) + FLAGS;
        self.bytes.set(at, &[flags]);
    }

    /// Gives up the room of an entry that its row does not need. For rows whose last change has
    /// committed.
    pub(crate) fn trim(&mut self, slot: usize) {
        let (at, entry) = (self.record(slot), self.entry(slot));
        let (row, unused) = (entry.row.len(), entry.room - entry.row.len());
        self.set_u16(at + ROOM, row);
        self.waste(unused);
    }

    /// Overwrites from a place of its part on; the part becomes `len` bytes long.
    pub(crate) fn set_part(&mut self, at: usize, bytes: &[u8], len: usize) {
        self.bytes.set(HEADER_BYTES + at, bytes);
        self.set_u16(SLOTS, len);
        let end = self.bytes().len();
        self.bytes.clear(HEADER_BYTES + len, end);
    }

    pub(crate) fn set_bit(&mut self, bit: usize, on: bool) {
        let at = HEADER_BYTES + bit / 8;
        let (byte, bit) = (self.bytes()[at], 1 << (bit % 8));
        self.bytes.set(at, &[if on { byte | bit } else { byte & !bit }]);
    }

    /// Writes the checksum.
    pub(crate) fn seal(&mut self) {
        let sum = Self::checksum(self.bytes());
        self.bytes.set(CHECKSUM, &sum);
    }

    /// Writes the checksum of a page's bytes.
    pub(crate) fn seal_bytes(bytes: &mut [u8]) {
        let sum = Self::checksum(bytes);
        bytes[CHECKSUM..KIND].copy_from_slice(&sum);
    }

    pub(super) fn checksum(bytes: &[u8]) -> [u8; KIND - CHECKSUM] {
        crc32c::crc32c(&bytes[KIND..]).to_le_bytes()
    }
}

/// The number of bytes that two keys have in common.
fn common_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
