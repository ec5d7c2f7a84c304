//! The log: the two slots of a side file, used in turns.
//!
//! A commit exists if its slot matches its checksum, and its direct stores match another one. All of this becomes
//! durable with one fence, in any order of lines.
//!
//! An *ordered* commit (P3 3.3) exists if its mark does, which becomes durable after all the rest. The next commit
//! begins when it is durable in place.
//!
//! A commit logs [pages](Body::Pages), as a record of changes to frames, or [bytes](Body::Bytes) of the database. If
//! two slots count they are of the same kind.

use pm::{LineSet, Memory};
use smallvec::SmallVec;

use crate::store::error::{Result, StoreError};
use crate::store::frames::Frames;
use crate::store::layout::{LOGGED_AT, MARK_AT, NUMBER_AT, SLOTS_AT, WORDS_MAX};
use crate::store::record::{Part, decode};
use crate::store::room;
use crate::store::side::{Side, check};

/// The slot is in use.
const OCCUPIED: u32 = 1;
/// A word has the database's new size.
const SIZED: u32 = 2;
/// A word has the length of what is logged, which is stored after the table.
const OVERFLOW: u32 = 4;
/// The log is a record of pages.
const PAGES: u32 = 8;
/// The mark became durable after all the rest; its checksum covers only the words before what is logged.
const ORDERED: u32 = 16;
/// The bits of the flags. Above them is the number of bytes in the slot.
const FLAG_BITS: u32 = 5;

/// The most memory that reading a commit takes for a byte of its record, of which the longest ones have longer runs.
const RECOVERED_BYTES: [usize; 2] = [16, 48];

/// The words that flags name.
type Words = SmallVec<[u64; WORDS_MAX as usize]>;

/// A commit to log.
#[derive(Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) number: u64,
    /// The database's size, if it changes.
    pub(crate) size: Option<u64>,
    /// The log is a record of pages.
    pub(crate) pages: bool,
    pub(crate) bytes: &'e [u8],
    /// The checksum of the direct stores; of an ordered commit, that of what is logged.
    pub(crate) direct: u32,
    /// The mark becomes durable after all the rest.
    pub(crate) ordered: bool,
}

/// The content of a slot.
#[derive(Debug)]
pub(crate) enum Body {
    /// Changes to frames.
    Pages(Vec<Part>),
    /// Runs of bytes of the database.
    Bytes(Vec<u8>),
}

/// A commit in a slot.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) number: u64,
    /// The database's size, if it changes.
    pub(crate) size: Option<u64>,
    pub(crate) body: Body,
    /// The checksum of the direct stores; of an ordered commit, that of what is logged.
    pub(crate) direct: u32,
    /// The mark became durable after all the rest.
    pub(crate) ordered: bool,
    /// The commit is ordered, and what it logged is missing.
    pub(crate) torn: bool,
    /// Bytes of the slot in use.
    used: u64,
    /// Bytes logged after the table.
    overflow: u64,
}

impl<M: Memory> Side<M> {
    fn slot(&self, number: u64) -> u64 {
        SLOTS_AT + number % 2 * self.slot_bytes()
    }

    /// Returns whether so many bytes fit into a slot.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        bytes <= self.slot_bytes() - LOGGED_AT - 8 * WORDS_MAX
            && bytes < 1 << (u32::BITS - FLAG_BITS)
    }

    /// Makes room for a commit too large for a slot.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn grow(&self, bytes: u64) -> Result<()> {
        Ok(self.region().grow(self.table_end() + bytes)?)
    }

    /// Appends to the record of a commit too large for a slot, of which so many bytes are there.
    ///
    /// # Errors
    /// There is no room.
    #[track_caller]
    pub(super) fn append(&self, there: u64, bytes: &[u8], lines: &mut LineSet) -> Result<()> {
        let len = bytes.len() as u64;
        self.grow(there + len)?;
        self.region().copy(self.table_end() + there, bytes);
        self.region().note(lines, self.table_end() + there, len);
        Ok(())
    }

    /// Reads a part of such a record.
    ///
    /// # Errors
    /// The medium fails.
    pub(super) fn read_appended(&self, from: u64, out: &mut [u8]) -> Result<()> {
        Ok(self.region().read_into(self.table_end() + from, out)?)
    }

    /// Says that a part of such a record is not needed for a while.
    pub(super) fn release_appended(&self, from: u64, len: u64) {
        self.region().release(self.table_end() + from, len);
    }

    /// Empties the slot of a number.
    #[track_caller]
    pub(crate) fn empty(&self, number: u64, lines: &mut LineSet) {
        let at = self.slot(number) + MARK_AT;
        self.region().store(at, 0);
        self.region().note(lines, at, 8);
    }

    /// Writes a commit into its slot.
    pub(crate) fn log(&self, entry: &Entry, lines: &mut LineSet) {
        let mark = self.write(entry, lines);
        self.set_mark(entry.number, mark, lines);
    }

    /// Stores the mark of a written commit.
    #[track_caller]
    pub(crate) fn set_mark(&self, number: u64, mark: u64, lines: &mut LineSet) {
        let at = self.slot(number) + MARK_AT;
        self.region().store(at, mark);
        self.region().note(lines, at, 8);
    }

    /// Writes a commit into its slot, except for the mark, which is returned.
    #[track_caller]
    pub(crate) fn write(&self, entry: &Entry, lines: &mut LineSet) -> u64 {
        let (slot, bytes) = (self.slot(entry.number), entry.bytes.len() as u64);
        let overflow = !self.fits(bytes);
        let mut words = Words::new();
        let mut flags = OCCUPIED;
        if let Some(size) = entry.size {
            flags |= SIZED;
            words.push(size);
        }
        if entry.pages {
            flags |= PAGES;
        }
        if entry.ordered {
            flags |= ORDERED;
        }
        if overflow {
            flags |= OVERFLOW;
            words.push(bytes);
            self.region().copy(self.table_end(), entry.bytes);
            self.region().note(lines, self.table_end(), bytes);
        } else {
            flags |= (bytes as u32) << FLAG_BITS;
        }
        let mut at = slot + LOGGED_AT;
        for word in &words {
            self.region().store(at, *word);
            at += 8;
        }
        if !overflow {
            self.region().copy(at, entry.bytes);
            at += bytes;
        }
        self.region().store(slot + NUMBER_AT, number_word(entry.number, entry.direct));
        self.region().note(lines, slot, at - slot);
        self.mark(flags, entry.number, entry.direct, &words, entry.bytes)
    }

    /// Stores the slot of a commit whose record, of so many bytes and with this checksum, has been written after the
    /// table.
    #[track_caller]
    pub(crate) fn log_written(
        &self,
        entry: &Entry,
        bytes: u64,
        record_check: u32,
        lines: &mut LineSet,
    ) {
        let slot = self.slot(entry.number);
        let mut flags = OCCUPIED | PAGES | OVERFLOW;
        let mut words = Words::new();
        if let Some(size) = entry.size {
            flags |= SIZED;
            words.push(size);
        }
        words.push(bytes);
        let mut at = slot + LOGGED_AT;
        for word in &words {
            self.region().store(at, *word);
            at += 8;
        }
        self.region().store(slot + NUMBER_AT, number_word(entry.number, entry.direct));
        self.region().note(lines, slot, at - slot);
        let first = self.check_words(flags, entry.number, entry.direct, &words);
        let all = crc32c::crc32c_combine(first, record_check, bytes as usize);
        self.set_mark(entry.number, u64::from(all) << 32 | u64::from(flags), lines);
    }

    fn check_words(&self, flags: u32, number: u64, direct: u32, words: &[u64]) -> u32 {
        let check = check(&[self.tag(), number, u64::from(direct), u64::from(flags)], &[]);
        words.iter().fold(check, |check, word| crc32c::crc32c_append(check, &word.to_le_bytes()))
    }

    fn mark(&self, flags: u32, number: u64, direct: u32, words: &[u64], bytes: &[u8]) -> u64 {
        let words = self.check_words(flags, number, direct, words);
        let bytes = if flags & ORDERED == 0 { bytes } else { &[] };
        u64::from(crc32c::crc32c_append(words, bytes)) << 32 | u64::from(flags)
    }

    /// Adds the lines of a logged commit to `lines`.
    pub(crate) fn note(&self, logged: &Logged, lines: &mut LineSet) {
        self.region().note(lines, self.slot(logged.number), logged.used);
        self.region().note(lines, self.table_end(), logged.overflow);
    }

    /// The commit in the slot of a number, if it matches its checksum and is not checkpointed. Its direct stores
    /// are not checked.
    ///
    /// # Errors
    /// The medium fails, or the slot is of another page size than the table.
    pub(crate) fn read(&self, number: u64) -> Result<Option<Logged>> {
        let slot = self.slot(number);
        let (mark, word) =
            (self.region().load(slot + MARK_AT)?, self.region().load(slot + NUMBER_AT)?);
        let (flags, direct) = (mark as u32, (word >> 32) as u32);
        let checkpointed = self.checkpointed()?;
        // A slot that counts is one of the last two, which are not far from the last checkpoint.
        let ahead = (word as u32).wrapping_sub(checkpointed as u32).cast_signed();
        if flags & OCCUPIED == 0 || ahead <= 0 {
            return Ok(None);
        }
        let found = checkpointed + u64::from(ahead.cast_unsigned());
        let mut words = Words::new();
        for _ in 0..(flags & (SIZED | OVERFLOW)).count_ones() {
            words.push(self.region().load(slot + LOGGED_AT + 8 * words.len() as u64)?);
        }
        let words_end = LOGGED_AT + 8 * words.len() as u64;
        let overflow =
            if flags & OVERFLOW == 0 { 0 } else { *words.last().expect("it has that word") };
        let in_slot = u64::from(flags >> FLAG_BITS);
        let (at, bytes, room) = match flags & OVERFLOW {
            0 => (slot + words_end, in_slot, self.slot_bytes() - words_end),
            _ => (self.table_end(), overflow, self.region().len().saturating_sub(self.table_end())),
        };
        if found % 2 != number % 2 || bytes > room {
            return Ok(None);
        }
        // The record, and the parts made of it.
        let in_slot = bytes.min(self.slot_bytes());
        room::ensure(RECOVERED_BYTES[0] * bytes as usize + RECOVERED_BYTES[1] * in_slot as usize)?;
        let mut logged = vec![0; bytes as usize];
        self.region().read_into(at, &mut logged)?;
        if self.mark(flags, found, direct, &words, &logged) != mark {
            return Ok(None);
        }
        let ordered = flags & ORDERED != 0;
        let torn = ordered && crc32c::crc32c(&logged) != direct;
        if torn {
            logged.clear();
        }
        let size = if flags & SIZED == 0 { None } else { Some(words[0]) };
        let pages = flags & PAGES != 0;
        // The checksum matches what was logged, so the page size is wrong.
        let damaged = StoreError::SideDamaged("its table is of pages that a slot does not have");
        let body = self.body(pages, logged).ok_or(damaged)?;
        let used = words_end + if flags & OVERFLOW == 0 { bytes } else { 0 };
        Ok(Some(Logged { number: found, size, body, direct, ordered, torn, used, overflow }))
    }

    fn body(&self, pages: bool, logged: Vec<u8>) -> Option<Body> {
        if pages {
            return decode(&logged, self.table().page_bytes as usize).map(Body::Pages);
        }
        Frames::each(&logged, |_, _| {}).then_some(Body::Bytes(logged))
    }
}

fn number_word(number: u64, direct: u32) -> u64 {
    u64::from(direct) << 32 | u64::from(number as u32)
}
