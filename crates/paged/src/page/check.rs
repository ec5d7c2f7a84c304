//! The check of a page that comes from a medium.

use super::view::{Slot, View, head_of};
use super::{Page, PageKind};
use crate::ids::PageNo;
use crate::layout::{
    CHECKSUM, CHILD_BYTES, GARBAGE, HEADER_BYTES, HIGH, KEY_LEN, KIND, LOW, PREFIX, RECORD_BYTES,
    ROOM, ROW_LEN, SLOT_BYTES, STUB_BYTES,
};
use crate::{PagedError, Result};

impl Page {
    /// Checks a page that was read: its checksum, whose it is, and every place in it.
    ///
    /// # Errors
    /// [`PagedError::DamagedPage`] with what is wrong.
    pub fn check(&self, number: PageNo, stamp: u64) -> Result<()> {
        let damaged = |what| Err(PagedError::DamagedPage { page: number, what });
        if self.bytes()[KIND] == 0 {
            let blank = self.bytes().iter().all(|byte| *byte == 0);
            return if blank { Ok(()) } else { damaged("it has no kind") };
        }
        if Self::checksum(self.bytes()) != self.bytes()[CHECKSUM..KIND] {
            return damaged("its checksum is wrong");
        }
        let Some(kind) = PageKind::of(self.bytes()[KIND]) else {
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
            PageKind::Overflow if self.slots() > self.bytes().len() - HEADER_BYTES => {
                damaged("its part is too long")
            }
            _ => Ok(()),
        }
    }

    fn check_entries(&self, kind: PageKind) -> std::result::Result<(), &'static str> {
        let (end, heap, inner) = (self.bytes().len(), self.heap(), kind == PageKind::Inner);
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
        let (prefix, first_keyed) = (self.u16_at(PREFIX), self.bytes().first_keyed());
        let mut before: Option<&[u8]> = None;
        for slot in 0..self.slots() {
            let Slot { at, key_len, head } = self.bytes().slot(slot);
            if at < heap || at + RECORD_BYTES > end {
                return Err("a record is not in its heap");
            }
            if self.u16_at(at + KEY_LEN) != key_len {
                return Err("a slot has another length than its key");
            }
            let room = self.u16_at(at + ROOM);
            let bytes = RECORD_BYTES + key_len + room;
            if at + bytes > end || self.u16_at(at + ROW_LEN) > room {
                return Err("a record is not in its heap");
            }
            used += bytes;
            let entry = self.entry(slot);
            if before.is_some_and(|before| before >= entry.key) {
                return Err("its keys are not sorted");
            }
            if slot >= first_keyed {
                let own = self.key(first_keyed).get(..prefix);
                let rest = own.and_then(|own| entry.key.strip_prefix(own));
                if rest.map(head_of) != Some(head) {
                    return Err("a slot has another head than its key");
                }
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
