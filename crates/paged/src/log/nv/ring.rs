//! The ring of log entries: "one state bit and a 4-byte pointer" (P2 4.2), in a word that is stored
//! at once.
//!
//! ```text
//! bit  63      62      32 31                       0
//!      +------+----------+--------------------------+
//!      | state | round   | the object's line        |
//!      +------+----------+--------------------------+
//! ```
//!
//! A pointer of ones leads nowhere: a restart has found a hole there.
//!
//! The entry of an LSN follows from it: its round and its number in the ring. Neighbours lie in
//! different lines, so that threads that append at the same time do not share one.

use std::sync::atomic::Ordering;

use pm::{LINE_BYTES, Memory, Off, Range};

use crate::ids::Lsn;

const STATE: u64 = 1 << 63;
const ROUND_BITS: u32 = 31;
/// The pointer of a hole.
const NOWHERE: u64 = u32::MAX as u64 * LINE_BYTES;
const ENTRIES_A_LINE: u64 = LINE_BYTES / 8;

/// The ring in its memory.
#[derive(Debug)]
pub(super) struct Ring<M> {
    memory: M,
    start: u64,
    entries: u64,
}

fn word(round: u64, place: u64) -> u64 {
    STATE | ((round % (1 << ROUND_BITS)) << 32) | (place / LINE_BYTES)
}

impl<M: Memory> Ring<M> {
    pub(super) fn new(memory: M, range: Range) -> Self {
        Self { memory, start: range.start, entries: range.len / 8 }
    }

    pub(super) fn len(&self) -> u64 {
        self.entries
    }

    /// The entry of an LSN.
    fn entry(&self, lsn: Lsn) -> Off<u64> {
        let number = lsn.0 % self.entries;
        let lines = self.entries / ENTRIES_A_LINE;
        Off::new(self.start + number % lines * LINE_BYTES + number / lines * 8)
    }

    /// Lets the entry of an LSN lead to an object. It is durable after the thread's next fence.
    #[track_caller]
    pub(super) fn set(&self, lsn: Lsn, place: u64) {
        self.memory.store(self.entry(lsn), word(lsn.0 / self.entries, place));
        self.memory.flush_word(self.entry(lsn));
    }

    /// The place to which the entry of an LSN leads, if it is set.
    pub(super) fn place(&self, lsn: Lsn) -> Option<u64> {
        let found = self.memory.load(self.entry(lsn), Ordering::Acquire).ok()?;
        let place = (found & u64::from(u32::MAX)) * LINE_BYTES;
        (found == word(lsn.0 / self.entries, place)).then_some(place)
    }

    /// The same without a look at the round.
    pub(super) fn place_in_any_round(&self, lsn: Lsn) -> Option<u64> {
        let found = self.memory.load(self.entry(lsn), Ordering::Acquire).ok()?;
        (found & STATE != 0).then_some((found & u64::from(u32::MAX)) * LINE_BYTES)
    }

    /// Marks an LSN as a hole for ever. It is durable after the thread's next fence.
    #[track_caller]
    pub(super) fn mark_hole(&self, lsn: Lsn) {
        self.set(lsn, NOWHERE);
    }

    /// Returns whether an LSN is marked as a hole.
    pub(super) fn is_hole(&self, lsn: Lsn) -> bool {
        self.place(lsn) == Some(NOWHERE)
    }

    /// Flushes the entry of an LSN.
    #[track_caller]
    pub(super) fn flush(&self, lsn: Lsn) {
        self.memory.flush_word(self.entry(lsn));
    }

    /// Clears the entries from one LSN up to another, durably.
    pub(super) fn clear(&self, from: Lsn, to: Lsn) {
        for number in from.0..to.0 {
            self.memory.store(self.entry(Lsn(number)), 0);
        }
        // Each line once, though entries of many LSNs lie in it.
        let lines = self.entries / ENTRIES_A_LINE;
        for number in from.0..to.0.min(from.0 + lines) {
            self.memory.flush_word(self.entry(Lsn(number)));
        }
        if to > from {
            self.memory.fence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_bit_a_round_and_a_line() {
        assert_eq!(word(3, 128), 0x8000_0003_0000_0002);
        assert_eq!(word(1 << ROUND_BITS, 64), 0x8000_0000_0000_0001, "rounds come again");
    }

    #[test]
    fn every_lsn_of_a_round_has_an_entry_and_neighbours_share_no_line() {
        let memory = pm::Dram::new(8192).unwrap();
        memory.grow(8192).unwrap();
        let ring = Ring::new(memory, Range::new(64, 8 * 128));
        let mut places: Vec<u64> = (1..129).map(|lsn| ring.entry(Lsn(lsn)).get()).collect();
        for pair in places.windows(2) {
            assert_ne!(pair[0] / LINE_BYTES, pair[1] / LINE_BYTES);
        }
        places.sort_unstable();
        places.dedup();
        assert_eq!((places.len(), places[0], places[127]), (128, 64, 64 + 8 * 127));
        ring.set(Lsn(5), 640);
        assert_eq!((ring.place(Lsn(5)), ring.place(Lsn(5 + 128))), (Some(640), None));
        ring.set(Lsn(5 + 128), 1280);
        assert_eq!((ring.place(Lsn(5)), ring.place(Lsn(5 + 128))), (None, Some(1280)));
        ring.clear(Lsn(100), Lsn(200));
        assert_eq!(ring.place(Lsn(5 + 128)), None);
    }
}
