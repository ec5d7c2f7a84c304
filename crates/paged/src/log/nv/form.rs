//! The form of a log, and its head; `docs/format/nv-log.md` draws them.
//!
//! A log is one range of memory: the head, one line; the ring of entries; the segments. Its form
//! never changes and stands in the head, so that the place where the log begins is enough to open
//! it.

use std::sync::atomic::Ordering;

use pm::{Bad, LINE_BYTES, Memory, Off, Range};

use crate::ids::Lsn;
use crate::{PagedError, Result};

const MAGIC: u64 = u64::from_le_bytes(*b"PERDNVLG");
const VERSION: u64 = 4;

/// Bits of a number in the head; those above it are its check. The rounds of entries come again
/// after as many.
const NUMBER_BITS: u32 = 48;

/// The place of a word of the head, in words.
#[derive(Clone, Copy)]
enum Word {
    Magic,
    Named,
    Restart,
    Again,
    Start,
    Keep,
    Shape,
    Sum,
}

/// Segments of a log at least, so that every lane has one and some are left.
const LEAST_SEGMENTS: u64 = 8;
/// Records that a segment has room for at least.
const RECORDS_A_SEGMENT: u64 = 4;
const LEAST_ENTRIES: u64 = 64;
/// Bytes of a log for each entry at least: objects take two lines and more.
const BYTES_AN_ENTRY: u64 = 512;
const MOST_SEGMENT_BYTES: u64 = 1 << 20;

/// The moment at which an object becomes durable (P2 4.3). It belongs to the log's form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persist {
    /// When it is inserted: flush-on-insert.
    OnInsert,
    /// When a commit needs it, or when the persister comes by: flush-on-commit.
    OnCommit,
}

/// The form of a log, which never changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NvForm {
    /// Entries of the ring, a power of two.
    pub entries: u64,
    /// Number of segments.
    pub segments: u64,
    /// Bytes of a segment, a multiple of a line.
    pub segment_bytes: u64,
    /// Bytes of the largest record, a multiple of a line.
    pub record_bytes: u64,
}

impl NvForm {
    /// Bytes of the head, with which a log begins.
    pub const HEAD_BYTES: u64 = LINE_BYTES;

    /// The form of a log that takes about so many bytes, with at most so many entries, for records
    /// of at most so many bytes. Where that is not enough for any log, it takes more.
    pub fn of_bytes(bytes: u64, entries: u64, record_bytes: u64) -> Self {
        let power = |number: u64| 1_u64 << number.max(1).ilog2();
        let entries = power(entries.min(bytes / BYTES_AN_ENTRY)).max(LEAST_ENTRIES);
        let record_bytes = record_bytes.next_multiple_of(LINE_BYTES);
        let least = RECORDS_A_SEGMENT * record_bytes;
        let segment_bytes = power(bytes / 256).min(MOST_SEGMENT_BYTES).max(least);
        let left = bytes.saturating_sub(LINE_BYTES + entries * 8);
        let segments = (left / segment_bytes).max(LEAST_SEGMENTS);
        Self { entries, segments, segment_bytes, record_bytes }
    }

    /// Bytes of the log.
    pub fn bytes(&self) -> u64 {
        LINE_BYTES + self.entries * 8 + self.segments * self.segment_bytes
    }

    /// Lanes of a log at most.
    pub(super) fn most_lanes(&self) -> u64 {
        self.segments - 5
    }

    pub(super) fn ring(&self, at: u64) -> Range {
        Range::new(at + LINE_BYTES, self.entries * 8)
    }

    pub(super) fn segments(&self, at: u64) -> Vec<Range> {
        let first = self.ring(at).end();
        let segment = |number| Range::new(first + number * self.segment_bytes, self.segment_bytes);
        (0..self.segments).map(segment).collect()
    }

    fn is_sound(&self) -> bool {
        let in_lines = |bytes: u64| bytes.is_multiple_of(LINE_BYTES);
        self.entries.is_power_of_two()
            && self.entries >= LEAST_ENTRIES
            && in_lines(self.segment_bytes)
            && in_lines(self.record_bytes)
            && self.record_bytes > 0
            && self.segment_bytes >= RECORDS_A_SEGMENT * self.record_bytes
            && self.segments >= LEAST_SEGMENTS
    }

    /// ```text
    /// bit  63        62        48 47         29 28      5 4        0
    ///      +---------+-----------+-------------+---------+----------+
    ///      | on      | lines of  | lines of a  | segments| logarithm|
    ///      | commit  | a record  | segment     |         | entries  |
    ///      +---------+-----------+-------------+---------+----------+
    /// ```
    fn shape(&self, persist: Persist) -> u64 {
        let (segment, record) = (self.segment_bytes / LINE_BYTES, self.record_bytes / LINE_BYTES);
        assert!(self.is_sound(), "the parts of a log's form fit together: {self:?}");
        assert!(
            self.segments < 1 << 24 && segment < 1 << 19 && record < 1 << 15,
            "a log's form has room in a word: {self:?}"
        );
        u64::from(self.entries.ilog2())
            | self.segments << 5
            | segment << 29
            | record << 48
            | (persist as u64) << 63
    }

    fn of_shape(shape: u64) -> Option<(Self, Persist)> {
        let bits = |from: u32, count: u32| shape >> from & ((1 << count) - 1);
        let form = Self {
            entries: 1 << bits(0, 5),
            segments: bits(5, 24),
            segment_bytes: bits(29, 19) * LINE_BYTES,
            record_bytes: bits(48, 15) * LINE_BYTES,
        };
        let persist = if shape >> 63 == 0 { Persist::OnInsert } else { Persist::OnCommit };
        form.is_sound().then_some((form, persist))
    }
}

/// A head as it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    /// The number of the restart that wrote it last.
    pub(super) restart: u32,
    /// From here on objects of that restart alone count.
    pub(super) again: u64,
    /// The place where analysis begins.
    pub(super) start: u64,
    /// The oldest LSN that is kept.
    pub(super) keep: u64,
    pub(super) form: NvForm,
}

fn named(stamp: u32) -> u64 {
    VERSION | u64::from(stamp) << 32
}

/// The sum of the words that never change.
fn sum(named: u64, shape: u64) -> u64 {
    let words = [MAGIC, named, shape].map(u64::to_le_bytes);
    u64::from(crc32c::crc32c(words.as_flattened()))
}

fn wrong(what: impl Into<String>) -> PagedError {
    PagedError::WrongLog { name: "in persistent memory".into(), what: what.into() }
}

fn bad(error: Bad) -> PagedError {
    PagedError::DamagedLog { at: Lsn::NONE, what: error.to_string() }
}

fn word(at: u64, word: Word) -> Off<u64> {
    Off::new(at + word as u64 * 8)
}

/// The check of a number: 16 bits of a checksum of it and of its place.
fn check(place: Word, number: u64) -> u64 {
    let sum = crc32c::crc32c(&(number << 8 | place as u64).to_le_bytes());
    u64::from((sum ^ sum >> 16) as u16)
}

/// A number that changes, with its check: one word, so that no crash parts them.
fn checked(place: Word, number: u64) -> u64 {
    assert!(number < 1 << NUMBER_BITS, "the head's numbers have 48 bits");
    number | check(place, number) << NUMBER_BITS
}

/// The number of a word, if it is as it was written.
fn number_of(place: Word, stored: u64) -> Option<u64> {
    let number = stored & ((1 << NUMBER_BITS) - 1);
    (checked(place, number) == stored).then_some(number)
}

/// The restart of a new log: logs of different databases have different ones, so that what an
/// earlier log has left in the same memory does not count.
fn first_restart(stamp: u32) -> u32 {
    crc32c::crc32c(&stamp.to_le_bytes())
}

impl Head {
    /// Writes the head of an empty log. The caller fences.
    pub(super) fn create<M: Memory>(
        memory: &M,
        at: u64,
        form: NvForm,
        persist: Persist,
        stamp: u32,
    ) -> Self {
        let head = Self { restart: first_restart(stamp), again: 1, start: 1, keep: 1, form };
        let (named, shape) = (named(stamp), form.shape(persist));
        let restart = u64::from(head.restart);
        let words = [
            (Word::Magic, MAGIC),
            (Word::Named, named),
            (Word::Restart, checked(Word::Restart, restart)),
            (Word::Again, checked(Word::Again, head.again)),
            (Word::Start, checked(Word::Start, head.start)),
            (Word::Keep, checked(Word::Keep, head.keep)),
            (Word::Shape, shape),
            (Word::Sum, sum(named, shape)),
        ];
        for (number, value) in words {
            memory.store(word(at, number), value);
        }
        memory.flush(Range::new(at, LINE_BYTES));
        head
    }

    /// Reads the head of a log that was made with this stamp and policy.
    ///
    /// # Errors
    /// It is none, or that of another database or form.
    pub(super) fn read<M: Memory>(
        memory: &M,
        at: u64,
        persist: Persist,
        stamp: u32,
    ) -> Result<Self> {
        let (head, found, policy) = Self::look(memory, at)?;
        if found != named(stamp) || policy != persist {
            return Err(wrong("it belongs to another database, or has another form"));
        }
        Ok(head)
    }

    /// Reads the head of a log, whose it is, and its policy.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn look<M: Memory>(memory: &M, at: u64) -> Result<(Self, u64, Persist)> {
        let load = |number| memory.load(word(at, number), Ordering::Acquire).map_err(bad);
        let (found, shape) = (load(Word::Named)?, load(Word::Shape)?);
        if load(Word::Magic)? != MAGIC || load(Word::Sum)? != sum(found, shape) {
            return Err(wrong("its head is damaged"));
        }
        if found & u64::from(u32::MAX) != VERSION {
            return Err(wrong(format!("it has format version {}", found as u32)));
        }
        let Some((form, persist)) = NvForm::of_shape(shape) else {
            return Err(wrong("its head is damaged"));
        };
        // Everything that it leads to has to be there.
        memory.view(Range::new(at, form.bytes())).map_err(bad)?;
        let number = |place| {
            let stored = load(place)?;
            number_of(place, stored).ok_or_else(|| wrong("its head is damaged"))
        };
        let (start, keep) = (number(Word::Start)?, number(Word::Keep)?);
        let restart = number(Word::Restart)? as u32;
        let head = Self { restart, again: number(Word::Again)?, start, keep, form };
        let end = keep.checked_add(form.entries);
        let is_sound =
            keep >= 1 && keep <= start && end.is_some_and(|end| start <= end && head.again <= end);
        if is_sound { Ok((head, found, persist)) } else { Err(wrong("its head is damaged")) }
    }

    /// Begins the next restart, durably: from `again` on objects of it alone count.
    pub(super) fn begin<M: Memory>(&mut self, memory: &M, at: u64, again: u64) {
        (self.restart, self.again) = (self.restart.wrapping_add(1), again);
        // One line: if the crash comes between the two, what is there counts as before.
        let restart = checked(Word::Restart, u64::from(self.restart));
        memory.store(word(at, Word::Again), checked(Word::Again, again));
        memory.store(word(at, Word::Restart), restart);
        memory.flush_word(word(at, Word::Restart));
        memory.fence();
    }

    /// Moves the head of a log, durably.
    pub(super) fn move_to<M: Memory>(memory: &M, at: u64, start: Lsn, keep: Lsn) {
        // One line: if the crash comes between the two, more is kept than is needed.
        memory.store(word(at, Word::Start), checked(Word::Start, start.0));
        memory.store(word(at, Word::Keep), checked(Word::Keep, keep.0));
        memory.flush_word(word(at, Word::Keep));
        memory.fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_it_was_written() {
        let small = NvForm { entries: 64, segments: 8, segment_bytes: 256, record_bytes: 64 };
        let large = NvForm {
            entries: 1 << 31,
            segments: (1 << 24) - 1,
            segment_bytes: (1 << 25) - 64,
            record_bytes: (1 << 21) - 64,
        };
        for form in [small, large, NvForm::of_bytes(80 << 20, 1 << 17, 16 << 10)] {
            for persist in [Persist::OnInsert, Persist::OnCommit] {
                assert_eq!(NvForm::of_shape(form.shape(persist)), Some((form, persist)));
            }
        }
        assert_eq!(NvForm::of_shape(0), None);
        let one_line = 1 << 29;
        let shape = small.shape(Persist::OnInsert) & !(((1 << 19) - 1) << 29) | one_line;
        assert_eq!(NvForm::of_shape(shape), None, "a record is larger than a segment");
    }

    /// One bit, or two, of any number of the head.
    #[test]
    fn a_changed_bit_of_a_number_is_noticed() {
        for place in [Word::Restart, Word::Again, Word::Start, Word::Keep] {
            for number in [0, 1, 1 << 20, 0x1234_5678_9abc, (1 << NUMBER_BITS) - 1] {
                let stored = checked(place, number);
                assert_eq!(number_of(place, stored), Some(number));
                for (one, other) in (0..64).flat_map(|one| (one..64).map(move |other| (one, other)))
                {
                    let changed = stored ^ (1 << one | 1 << other);
                    assert_eq!(number_of(place, changed), None, "{number:#x}, {one}, {other}");
                }
            }
        }
        assert_eq!(number_of(Word::Keep, checked(Word::Start, 7)), None, "another one's");
    }

    #[test]
    fn a_log_takes_about_the_bytes_that_it_is_given() {
        let form = NvForm::of_bytes(80 << 20, 1 << 17, 16 << 10);
        assert_eq!((form.entries, form.segment_bytes, form.segments), (1 << 17, 256 << 10, 315));
        for shift in 20..30 {
            for entries in [64, 1 << 12, 1 << 17, 1 << 20] {
                for record_bytes in [1 << 10, 16 << 10, 64 << 10] {
                    let form = NvForm::of_bytes(1 << shift, entries, record_bytes);
                    let _ = form.shape(Persist::OnInsert);
                    let least = 8 * 4 * record_bytes + 64 + form.entries * 8;
                    assert!(form.bytes() <= least.max(1 << shift), "{form:?}");
                    assert!(form.bytes() > (1 << shift) * 3 / 4, "{form:?}");
                    assert!(form.entries <= entries);
                }
            }
        }
    }
}
