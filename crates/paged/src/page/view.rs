//! The parts of a page by which a key is found, for threads that have latched it and for those that
//! have not.
//!
//! A slot is one word: the *head* of its key, four bytes that are compared as a number; the place of
//! its record; and the length of the key. The head begins after the *prefix*, which all keys have in
//! common but for the first one of an inner page, which is empty. So a search reads slots alone, and
//! keys only where two heads are the same.

use std::cmp::Ordering;

use pm::Peek;

use super::compare;
use crate::ids::{Lsn, PageNo, TreeNo};
use crate::layout::{
    HEADER_BYTES, HIGH, KEY_LEN, KIND, LEVEL, LOW, LSN, PREFIX, RECORD_BYTES, RIGHT, ROW_LEN,
    SLOT_BYTES, SLOTS, TREE,
};
use crate::page::PageKind;

/// Bytes of a key's head.
const HEAD_BYTES: usize = 4;

/// The head of a key, of which the prefix was taken away. A shorter one is filled up with zeros.
#[inline]
pub(super) fn head_of(rest: &[u8]) -> u32 {
    let mut head = [0; HEAD_BYTES];
    match rest.first_chunk::<HEAD_BYTES>() {
        Some(first) => head = *first,
        None => head[..rest.len()].copy_from_slice(rest),
    }
    u32::from_be_bytes(head)
}

/// A slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(super) head: u32,
    /// The place of the record.
    pub(super) at: usize,
    pub(super) key_len: usize,
}

impl Slot {
    #[inline]
    pub(super) fn of(word: u64) -> Self {
        let half = |bits: u32| usize::from((word >> bits) as u16);
        Self { head: word as u32, at: half(32), key_len: half(48) }
    }

    pub(super) fn word(self) -> u64 {
        u64::from(self.head) | (self.at as u64) << 32 | (self.key_len as u64) << 48
    }
}

/// The bytes of a page, latched or not. Without the latch nothing is sure before the look holds.
pub(crate) trait View {
    /// Two bytes as a number.
    fn u16_at(&self, at: usize) -> usize;
    /// Eight bytes as a number.
    fn u64_at(&self, at: usize) -> u64;
    /// Compares bytes of the page with a key.
    fn compare(&self, at: usize, len: usize, key: &[u8]) -> Ordering;

    /// The kind of the page, if it is one that there is.
    #[inline]
    fn kind(&self) -> Option<PageKind> {
        PageKind::of(self.u16_at(KIND) as u8)
    }

    #[inline]
    fn level(&self) -> u8 {
        (self.u16_at(LEVEL - 1) >> 8) as u8
    }

    #[inline]
    fn slots(&self) -> usize {
        self.u16_at(SLOTS)
    }

    #[inline]
    fn lsn(&self) -> Lsn {
        Lsn(self.u64_at(LSN))
    }

    #[inline]
    fn tree(&self) -> TreeNo {
        TreeNo(self.u64_at(TREE) as u32)
    }

    #[inline]
    fn right(&self) -> Option<PageNo> {
        Some(PageNo(self.u64_at(RIGHT))).filter(|right| right.0 != 0)
    }

    /// Compares the least key that the page may have with a key.
    #[inline]
    fn low_to(&self, key: &[u8]) -> Ordering {
        self.compare(self.u16_at(LOW), self.u16_at(LOW + 2), key)
    }

    /// Compares the first key that it may not have with a key; `None` if its range has no end.
    #[inline]
    fn high_to(&self, key: &[u8]) -> Option<Ordering> {
        let at = self.u16_at(HIGH);
        (at != 0).then(|| self.compare(at, self.u16_at(HIGH + 2), key))
    }

    #[inline]
    fn slot(&self, slot: usize) -> Slot {
        Slot::of(self.u64_at(HEADER_BYTES + SLOT_BYTES * slot))
    }

    /// The first slot whose key has the prefix.
    #[inline]
    fn first_keyed(&self) -> usize {
        usize::from(self.kind() == Some(PageKind::Inner))
    }

    /// Returns the slot with this key, if there is one. It looks at no record but those whose heads
    /// are the same, and so at one mostly.
    #[inline]
    fn find(&self, key: &[u8]) -> Option<usize> {
        let (mut from, mut to) = (self.first_keyed(), self.slots());
        let prefix = self.u16_at(PREFIX);
        let head = head_of(key.get(prefix..)?);
        while from < to {
            let middle = usize::midpoint(from, to);
            let slot = self.slot(middle);
            // A key that begins otherwise is the same as none.
            let order = slot
                .head
                .cmp(&head)
                .then_with(|| self.compare(slot.at + RECORD_BYTES, slot.key_len, key));
            match order {
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
                Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// Returns the slot with this key, or the one where it would be.
    #[inline]
    fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (first, slots) = (self.first_keyed(), self.slots());
        if first >= slots || (first > 0 && key.is_empty()) {
            return if slots > 0 && key.is_empty() { Ok(0) } else { Err(slots) };
        }
        let prefix = self.u16_at(PREFIX);
        if prefix > 0 {
            let same = prefix.min(key.len());
            let at = self.slot(first).at + RECORD_BYTES;
            match self.compare(at, prefix, &key[..same]) {
                Ordering::Equal => {}
                // A key that is shorter than the prefix comes before it.
                Ordering::Greater => return Err(first),
                Ordering::Less => return Err(slots),
            }
        }
        let rest = &key[prefix..];
        let head = head_of(rest);
        let (mut from, mut to) = (first, slots);
        while from < to {
            let middle = usize::midpoint(from, to);
            let slot = self.slot(middle);
            let order = slot.head.cmp(&head).then_with(|| {
                let at = slot.at + RECORD_BYTES + prefix;
                self.compare(at, slot.key_len.saturating_sub(prefix), rest)
            });
            match order {
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(from)
    }

    /// The place and the length of an entry's row, and its flags.
    #[inline]
    fn row(&self, slot: usize) -> (usize, usize, u8) {
        let Slot { at, key_len, .. } = self.slot(slot);
        let flags = self.u16_at(at + crate::layout::FLAGS) as u8;
        (at + RECORD_BYTES + key_len, self.u16_at(at + ROW_LEN), flags)
    }
}

const _: () = assert!(KEY_LEN == 0 && KIND.is_multiple_of(2) && LEVEL == KIND + 1);

impl View for [u8] {
    #[inline]
    fn u16_at(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self[at], self[at + 1]]))
    }

    #[inline]
    fn u64_at(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self[at..at + 8]);
        u64::from_le_bytes(bytes)
    }

    #[inline]
    fn compare(&self, at: usize, len: usize, key: &[u8]) -> Ordering {
        compare(&self[at..at + len], key)
    }
}

impl View for Peek<'_> {
    #[inline]
    fn u16_at(&self, at: usize) -> usize {
        usize::from(Self::u16_at(self, at))
    }

    #[inline]
    fn u64_at(&self, at: usize) -> u64 {
        Self::u64_at(self, at)
    }

    #[inline]
    fn compare(&self, at: usize, len: usize, key: &[u8]) -> Ordering {
        Self::compare(self, at, len, key)
    }
}
