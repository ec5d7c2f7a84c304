//! The slot header of a page (P3 3.1): its first word, and record offsets in the order of keys.

use crate::layout::{
    CHECK_AT, CHECKED_SLOTS, EPOCH_AT_LINE, LINE, OVERFLOW_HEADER, SLOT, TWIN_BYTES, TWIN_SLOTS,
    WORD,
};

/// The kind of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A page on the free stack; the rest of the word is the next one.
    Free = 1,
    /// A leaf whose header is as long as it has records.
    Leaf = 2,
    /// An inner page.
    Inner = 3,
    /// Part of a long value.
    Overflow = 4,
    /// A leaf whose header is two lines, of which the newer one counts.
    Twin = 5,
    /// The same, with a checksum in each line.
    Checked = 6,
    /// A leaf whose header is one line, which is stored whole.
    Line = 7,
}

impl Kind {
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        use Kind::{Checked, Free, Inner, Leaf, Line, Overflow, Twin};
        [Free, Leaf, Inner, Overflow, Twin, Checked, Line]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }

    /// Returns whether records of the kind are those of leaves.
    pub fn is_leaf(self) -> bool {
        matches!(self, Self::Leaf | Self::Twin | Self::Checked | Self::Line)
    }

    /// Returns whether headers of the kind are two lines, of which the newer one counts.
    pub fn has_two_lines(self) -> bool {
        matches!(self, Self::Twin | Self::Checked)
    }

    /// Returns whether headers of the kind have the same size however many records there are.
    pub fn has_fixed_header(self) -> bool {
        self.has_two_lines() || self == Self::Line
    }

    /// Bytes of the header of a page with so many records.
    pub fn header_bytes(self, count: usize) -> usize {
        match self {
            Self::Twin | Self::Checked => TWIN_BYTES,
            Self::Line => LINE,
            Self::Overflow => OVERFLOW_HEADER,
            Self::Free | Self::Leaf | Self::Inner => WORD + SLOT * count,
        }
    }

    /// The most records that a header of the kind has offsets for.
    pub fn most_slots(self, page_bytes: usize) -> usize {
        match self {
            Self::Twin | Self::Line => TWIN_SLOTS,
            Self::Checked => CHECKED_SLOTS,
            _ => (page_bytes - WORD) / SLOT,
        }
    }

    /// Returns the bytes that records of these lengths take without gaps, with their header.
    pub fn packed_bytes(self, records: &[Vec<u8>]) -> usize {
        let bytes = records.iter().map(|record| record.len().next_multiple_of(self.align()));
        self.header_bytes(records.len()) + bytes.sum::<usize>()
    }

    /// The number that record offsets are multiples of: a child is one aligned word.
    pub fn align(self) -> usize {
        if self == Self::Inner { WORD } else { 1 }
    }
}

/// The first word of a header. One 8-byte store changes all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The kind of the page.
    pub kind: Kind,
    /// The sequence number, which says which of two lines is newer; it wraps around.
    pub seq: u8,
    /// The start of the record content area; in an overflow page the bytes that it has.
    pub content: u16,
    /// Bytes that are neither header nor records.
    pub free: u16,
    /// The number of records.
    pub count: u16,
}

/// The byte of a first word that says, in a line with a checksum, which record that covers; counts
/// are below it there.
const NEWEST_AT: usize = 7;
/// The checksum covers no record.
const NO_RECORD: u8 = u8::MAX;

/// The part of a line of a [`Kind::Checked`] header that says whether it is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Check {
    /// The index of the record that the line was the first to lead to.
    pub newest: Option<usize>,
    /// The opening of the store that has stored the line in place; 0: the log has, and there is
    /// nothing to check.
    pub epoch: u16,
}

impl Check {
    /// The check of a line.
    pub fn of(line: &[u8; LINE]) -> Self {
        let epoch = u16::from_le_bytes([line[EPOCH_AT_LINE], line[EPOCH_AT_LINE + 1]]);
        let newest = Some(line[NEWEST_AT]).filter(|newest| *newest != NO_RECORD).map(usize::from);
        Self { newest, epoch }
    }

    /// Returns whether the line and its newest record, if it has one, match the checksum.
    pub fn matches(line: &[u8; LINE], record: &[u8]) -> bool {
        line[CHECK_AT..] == checksum(line, record).to_le_bytes()
    }
}

/// Gives a line that is stored in place by this opening its checksum, over a record that is new,
/// too.
pub fn sign(line: &mut [u8; LINE], epoch: u16, newest: Option<usize>, record: &[u8]) {
    line[NEWEST_AT] = newest.map_or(NO_RECORD, |newest| newest as u8);
    line[EPOCH_AT_LINE..CHECK_AT].copy_from_slice(&epoch.to_le_bytes());
    let checksum = checksum(line, record);
    line[CHECK_AT..].copy_from_slice(&checksum.to_le_bytes());
}

fn checksum(line: &[u8; LINE], record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&line[..CHECK_AT]), record)
}

impl Header {
    /// The word.
    pub fn encode(self) -> u64 {
        u64::from(self.kind as u8)
            | u64::from(self.seq) << 8
            | u64::from(self.content) << 16
            | u64::from(self.free) << 32
            | u64::from(self.count) << 48
    }

    /// The header in a word, if it is one.
    pub fn decode(word: u64) -> Option<Self> {
        let kind = Kind::from_number(word as u8).filter(|kind| *kind != Kind::Free)?;
        let count = (word >> 48) as u16;
        Some(Self {
            kind,
            seq: (word >> 8) as u8,
            content: (word >> 16) as u16,
            free: (word >> 32) as u16,
            count: if kind == Kind::Checked { count & 0xFF } else { count },
        })
    }

    /// The header that counts of a page that begins with these words, the first of each line, and
    /// where its line begins. A page whose header is one line has it at the start.
    pub fn choose(first: u64, second: u64) -> Option<(Self, usize)> {
        match (Self::decode(first), Self::decode(second)) {
            (Some(one), Some(other)) if one.kind.has_two_lines() && one.kind == other.kind => {
                Some(if other.is_newer(one) { (other, LINE) } else { (one, 0) })
            }
            // The first line of a page whose newer line was wrong: the second one is left.
            (None, Some(other)) if other.kind == Kind::Checked && first == 0 => Some((other, LINE)),
            (Some(one), _) => Some((one, 0)),
            (None, _) => None,
        }
    }

    /// Returns whether a line is newer than another one: they differ by one, and numbers wrap.
    pub(crate) fn is_newer(self, other: Self) -> bool {
        self.seq.wrapping_sub(other.seq) as i8 > 0
    }
}

/// The word of a page on the free stack.
pub(crate) fn free_word(next: u64) -> u64 {
    Kind::Free as u64 | next << 8
}

/// The next page on the free stack, if the word is that of one.
pub(crate) fn next_free(word: u64) -> Option<u64> {
    (word as u8 == Kind::Free as u8).then_some(word >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_comes_back_as_it_was() {
        let header = Header { kind: Kind::Twin, seq: 255, content: 32768, free: 7, count: 28 };
        assert_eq!(Header::decode(header.encode()), Some(header));
        assert_eq!(header.encode().to_le_bytes(), [5, 255, 0, 128, 7, 0, 28, 0]);
        assert_eq!(Header::decode(free_word(4096)), None);
        assert_eq!((next_free(free_word(4096)), next_free(header.encode())), (Some(4096), None));
    }

    #[test]
    fn the_newer_line_counts_though_numbers_go_round() {
        let twin = |seq| Header { kind: Kind::Twin, seq, content: 0, free: 0, count: 0 };
        let chosen = |one, other| Header::choose(one, other).map(|(header, at)| (header.seq, at));
        assert_eq!(chosen(twin(3).encode(), twin(4).encode()), Some((4, 64)));
        assert_eq!(chosen(twin(5).encode(), twin(4).encode()), Some((5, 0)));
        assert_eq!(chosen(twin(255).encode(), twin(0).encode()), Some((0, 64)));
        assert_eq!(chosen(twin(0).encode(), twin(255).encode()), Some((0, 0)));
        assert_eq!(chosen(twin(9).encode(), 0), Some((9, 0)));
        // The second line of a page of another kind is whatever its records are.
        let leaf = Header { kind: Kind::Leaf, ..twin(1) };
        assert_eq!(chosen(leaf.encode(), twin(2).encode()), Some((1, 0)));
        assert_eq!(chosen(free_word(64), twin(2).encode()), None);
    }
}
