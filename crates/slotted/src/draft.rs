//! The header that a page will have when the transaction commits, in ordinary memory (P3 4.1: "in
//! the CPU cache").

use crate::header::{Header, Kind};
use crate::layout::{LINE, SLOT, WORD};
use crate::part::Part;
use crate::space;

/// A header being edited.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The kind of the page.
    pub kind: Kind,
    /// The record offsets in the order of keys.
    pub slots: Vec<u16>,
    /// True if the page was allocated in this transaction: nothing committed leads to it.
    pub fresh: bool,
    /// The committed record offsets.
    committed: Vec<u16>,
    /// The record offsets that the draft had at savepoints, and the most of one of them.
    kept: Vec<u16>,
    most_kept: usize,
    /// The number of the committed header, and where it stands in the page.
    seq: u8,
    stands_at: usize,
    /// Bytes that are neither header nor records of the draft.
    free: usize,
    page_bytes: usize,
    /// New children of committed records, by record offset.
    children: Vec<(u16, u64)>,
}

impl Draft {
    /// A draft of a committed page.
    pub fn of(header: Header, stands_at: usize, committed: Vec<u16>, page_bytes: usize) -> Self {
        Self {
            kind: header.kind,
            slots: committed.clone(),
            fresh: false,
            committed,
            kept: Vec::new(),
            most_kept: 0,
            seq: header.seq,
            stands_at,
            free: usize::from(header.free),
            page_bytes,
            children: Vec::new(),
        }
    }

    /// A draft of a page that was just allocated.
    pub fn fresh(kind: Kind, page_bytes: usize) -> Self {
        Self {
            kind,
            slots: Vec::new(),
            fresh: true,
            committed: Vec::new(),
            kept: Vec::new(),
            most_kept: 0,
            seq: 0,
            stands_at: LINE,
            free: page_bytes - kind.header_bytes(0),
            page_bytes,
            children: Vec::new(),
        }
    }

    /// Bytes that are neither header nor records.
    pub fn free(&self) -> usize {
        self.free
    }

    /// The number of records that are not committed.
    pub(crate) fn new_records(&self) -> u64 {
        let mut committed = self.committed.clone();
        committed.sort_unstable();
        let new = self.slots.iter().filter(|slot| committed.binary_search(slot).is_err());
        new.count() as u64
    }

    /// The changes of the page, as far as a log may have them. A fresh page's header is written as
    /// records are, but for its first word.
    pub(crate) fn part(&self) -> Part {
        let header = match self.kind.has_two_lines() {
            true => LINE,
            false => self.kind.header_bytes(self.slots.len()),
        } as u64;
        let part = Part {
            page_bytes: self.page_bytes as u64,
            words: self.children.len() as u64,
            ..Part::default()
        };
        if self.fresh {
            let (words, run_bytes) = (part.words + 1, header + WORD as u64);
            return Part { words, runs: 2, run_bytes, ..part };
        }
        if self.changes_slots() { Part { header, ..part } } else { part }
    }

    /// Bytes of records.
    pub fn record_bytes(&self) -> usize {
        let header = self.kind.header_bytes(self.slots.len());
        self.page_bytes.saturating_sub(header + self.free)
    }

    /// Keeps the records that the draft has now, whatever is dropped: a savepoint leads to them.
    pub(crate) fn keep(&mut self) {
        self.most_kept = self.most_kept.max(self.slots.len());
        self.kept.extend(&self.slots);
        self.kept.sort_unstable();
        self.kept.dedup();
    }

    /// Keeps only what is committed and what the draft has.
    pub(crate) fn keep_nothing(&mut self) {
        self.kept.clear();
        self.most_kept = 0;
    }

    /// Gives up what is committed; for [`Flaw::PlacedOverCommitted`](crate::flaw::Flaw).
    pub(crate) fn keep_nothing_committed(&mut self) {
        self.committed.clear();
    }

    /// Every offset that may count, whether the transaction commits or not, and some twice.
    fn possible(&self) -> impl Iterator<Item = u16> + '_ {
        self.slots.iter().chain(&self.committed).chain(&self.kept).copied()
    }

    /// The start of the content area, whether the transaction commits or not.
    fn high(&self) -> usize {
        self.possible().min().map_or(self.page_bytes, usize::from)
    }

    /// The end of the header with `more` offsets, whether the transaction commits or not.
    fn low(&self, more: usize) -> usize {
        let most = self.committed.len().max(self.most_kept).max(self.slots.len() + more);
        self.kind.header_bytes(most)
    }

    /// Returns whether the header has room for one more offset.
    pub fn has_slot(&self) -> bool {
        self.slots.len() < self.kind.most_slots(self.page_bytes)
    }

    /// Bytes in the gap between header and content, with `more` offsets in the header.
    pub fn gap_bytes(&self, more: usize) -> usize {
        self.high().saturating_sub(self.low(more))
    }

    /// Returns where `len` bytes fit into the gap, with `more` offsets in the header. In a page of
    /// which the offsets, not the bytes, are the limit, the record straddles no line if it fits
    /// one.
    pub fn in_gap(&self, len: usize, more: usize) -> Option<usize> {
        let (low, high) = (self.low(more), self.high());
        let at = space::gap(low, high, len, self.kind.align())?;
        if !self.kind.has_fixed_header() {
            return Some(at);
        }
        let within = space::within_line(at, len, LINE);
        let most = self.kind.most_slots(self.page_bytes);
        let left = most.saturating_sub(self.slots.len() + 1);
        Some(if within >= low + left * len { within } else { at })
    }

    /// The same, whatever line it straddles.
    pub fn in_gap_plainly(&self, len: usize, more: usize) -> Option<usize> {
        space::gap(self.low(more), self.high(), len, self.kind.align())
    }

    /// Returns whether a hole may be there: whether the free bytes are more than those of the gap.
    pub fn may_have_hole(&self, len: usize, more: usize) -> bool {
        // A header that grows into the lowest record would make it wrong.
        self.low(more) <= self.high() && self.free >= len + SLOT * more
    }

    /// Every offset that is taken, whether the transaction commits or not, once.
    pub fn taken(&self) -> Vec<u16> {
        let mut taken: Vec<u16> = self.possible().collect();
        taken.sort_unstable();
        taken.dedup();
        taken
    }

    fn slot_bytes(&self) -> usize {
        if self.kind.has_fixed_header() { 0 } else { SLOT }
    }

    /// Keeps the sum within the page, though the header of a damaged page may have said anything.
    fn set_free(&mut self, before: usize, taken: usize) {
        self.free = before.saturating_sub(taken).min(self.page_bytes);
    }

    /// Adds the offset of a record of `len` bytes.
    pub fn add(&mut self, index: usize, at: u16, len: usize) {
        self.slots.insert(index, at);
        self.set_free(self.free, len + self.slot_bytes());
    }

    /// Drops the offset of a record of `len` bytes.
    pub fn drop_slot(&mut self, index: usize, len: usize) {
        let at = self.slots.remove(index);
        self.forget_child(at);
        self.set_free(self.free + len + self.slot_bytes(), 0);
    }

    /// Puts the offset of a record of `len` bytes in the place of that of one of `old_len` bytes.
    pub fn swap(&mut self, index: usize, at: u16, len: usize, old_len: usize) {
        let old = std::mem::replace(&mut self.slots[index], at);
        self.forget_child(old);
        self.set_free(self.free + old_len, len);
    }

    /// Gives the committed record at `at` another child.
    pub fn set_child(&mut self, at: u16, child: u64) {
        self.forget_child(at);
        self.children.push((at, child));
    }

    fn forget_child(&mut self, at: u16) {
        self.children.retain(|(other, _)| *other != at);
    }

    /// The new child of the record at `at`, if it has one.
    pub fn child(&self, at: u16) -> Option<u64> {
        self.children.iter().find(|(other, _)| *other == at).map(|(_, child)| *child)
    }

    /// The new children, by record offset.
    pub fn children(&self) -> &[(u16, u64)] {
        &self.children
    }

    /// Returns whether the offsets are not those of the committed header.
    pub fn changes_slots(&self) -> bool {
        self.fresh || self.slots != self.committed
    }

    /// Returns whether the offsets that are committed, or as many of them as there will be, stay
    /// where they are.
    pub fn offsets_stay(&self) -> bool {
        self.slots.iter().zip(&self.committed).all(|(new, old)| new == old)
    }

    /// The header's bytes when it is committed, and where they go: over the line that does not
    /// count, where there are two.
    pub fn header(&self) -> (usize, Vec<u8>) {
        let twin = self.kind.has_two_lines();
        let content = self.slots.iter().copied().min().map_or(self.page_bytes, usize::from);
        let header = Header {
            kind: self.kind,
            seq: if twin { self.seq.wrapping_add(1) } else { 0 },
            content: content as u16,
            free: self.free as u16,
            count: self.slots.len() as u16,
        };
        let mut bytes = header.encode().to_le_bytes().to_vec();
        bytes.extend(self.slots.iter().flat_map(|slot| slot.to_le_bytes()));
        if twin {
            // Whole words: each is one store.
            bytes.resize(bytes.len().next_multiple_of(WORD), 0);
        }
        if matches!(self.kind, Kind::Checked | Kind::Line) {
            // A line with a checksum has nothing to check until it is signed.
            bytes.resize(LINE, 0);
        }
        (if twin { LINE - self.stands_at } else { 0 }, bytes)
    }

    /// The words of the header that change, in runs: where each goes, and its bytes. Of a header
    /// that is a line or two, the whole line.
    pub fn changed_header(&self) -> Vec<(usize, Vec<u8>)> {
        let (at, bytes) = self.header();
        let same = self.slots.iter().zip(&self.committed).take_while(|(new, old)| new == old);
        let first = (WORD + SLOT * same.count()) / WORD * WORD;
        if self.kind.has_fixed_header() || first <= WORD {
            return vec![(at, bytes)];
        }
        let (head, tail) = (bytes[..WORD].to_vec(), bytes.get(first..).unwrap_or_default());
        let mut runs = vec![(at, head)];
        if !tail.is_empty() {
            runs.push((at + first, tail.to_vec()));
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_of_a_dropped_record_is_taken_until_the_commit() {
        let header = Header { kind: Kind::Leaf, seq: 0, content: 412, free: 400, count: 1 };
        let mut draft = Draft::of(header, 0, vec![412], 512);
        draft.drop_slot(0, 100);
        assert_eq!((draft.free(), draft.in_gap(100, 1)), (502, Some(312)));
        assert_eq!(draft.taken(), [412]);
        draft.add(0, 312, 100);
        assert_eq!(draft.taken(), [312, 412]);
        assert_eq!(draft.header().1[8..10], 312u16.to_le_bytes());
    }

    #[test]
    fn a_header_goes_over_the_line_that_does_not_count() {
        let header = Header { kind: Kind::Twin, seq: 255, content: 512, free: 384, count: 0 };
        assert_eq!(Draft::of(header, 0, vec![], 512).header().0, 64);
        let (at, bytes) = Draft::of(header, 64, vec![], 512).header();
        assert_eq!((at, bytes[1]), (0, 0));
        assert_eq!(Draft::fresh(Kind::Twin, 512).header().0, 0);
    }
}
