//! The side file: its header, and the two slots that commits are logged in by turns.
//!
//! A commit is there if its slot matches its checksum: frames, number and size become durable with one
//! fence, in whatever order their lines do.

use pm::{LineSet, Memory};

use crate::store::error::{Result, StoreError};
use crate::store::frames::Frames;
use crate::store::layout::{
    APPLIED_AT, BEGUN_AT, FRAMES_AT, HEADER_CHECK_AT, MAGIC, MAGIC_AT, MARK_AT, NUMBER_AT,
    SETTLED_AT, SIZE_AT, SIZES_AT, SLOT_BYTES_AT, SLOTS_AT, TAG_AT, VERSION, VERSION_AT,
};
use crate::store::region::Region;

/// Bits of the size of a database, in the word that has the higher bits of that of the frames, too.
const SIZE_BITS: u32 = 48;
/// The bits of the size of the frames that are in the mark.
const LOW_BITS: u64 = (1 << 31) - 1;

/// A commit that a slot has.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) frames: Vec<u8>,
}

/// The side file of one database.
#[derive(Debug)]
pub(crate) struct Side<M> {
    pub(crate) region: Region<M>,
    pub(crate) tag: u64,
    slot_bytes: u64,
}

fn check(words: &[u64], frames: &[u8]) -> u32 {
    let first =
        words.iter().fold(0, |check, word| crc32c::crc32c_append(check, &word.to_le_bytes()));
    crc32c::crc32c_append(first, frames)
}

impl<M: Memory> Side<M> {
    /// Makes an empty side file, not durably yet. What a slot has from before does not match another tag.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn format(region: Region<M>, tag: u64, slot_bytes: u64) -> Result<Self> {
        region.grow(SLOTS_AT + 2 * slot_bytes)?;
        let side = Self { region, tag, slot_bytes };
        let header = [MAGIC, VERSION, tag, slot_bytes];
        for (at, word) in [MAGIC_AT, VERSION_AT, TAG_AT, SLOT_BYTES_AT].into_iter().zip(header) {
            side.region.store(at, word);
        }
        side.region.store(HEADER_CHECK_AT, check(&header, &[]).into());
        side.region.store(BEGUN_AT, 0);
        side.region.store(APPLIED_AT, 0);
        side.region.store(SETTLED_AT, 0);
        Ok(side)
    }

    /// Adds the lines of the header to `lines`.
    pub(crate) fn note_header(&self, lines: &mut LineSet) {
        self.region.note(lines, 0, SETTLED_AT + 8);
    }

    /// Reads the header.
    ///
    /// # Errors
    /// It is that of no side file, or damaged.
    pub(crate) fn open(region: Region<M>) -> Result<Self> {
        let damaged = StoreError::SideDamaged;
        if region.len() < SLOTS_AT {
            return Err(damaged("it is too short"));
        }
        let mut header = [0; 4];
        for (at, word) in [MAGIC_AT, VERSION_AT, TAG_AT, SLOT_BYTES_AT].into_iter().zip(&mut header)
        {
            *word = region.load(at)?;
        }
        let [magic, version, tag, slot_bytes] = header;
        if magic != MAGIC {
            return Err(damaged("it begins like no side file"));
        }
        if version != VERSION {
            return Err(StoreError::Version(version));
        }
        if u64::from(check(&header, &[])) != region.load(HEADER_CHECK_AT)? {
            return Err(damaged("its header does not match its checksum"));
        }
        let needed = slot_bytes.checked_mul(2).and_then(|slots| slots.checked_add(SLOTS_AT));
        if needed.is_none_or(|needed| needed > region.len()) || !slot_bytes.is_multiple_of(64) {
            return Err(damaged("its slots do not fit"));
        }
        Ok(Self { region, tag, slot_bytes })
    }

    fn slot(&self, number: u64) -> u64 {
        SLOTS_AT + number % 2 * self.slot_bytes
    }

    /// The place behind both slots.
    fn behind(&self) -> u64 {
        SLOTS_AT + 2 * self.slot_bytes
    }

    /// Returns whether so many bytes of frames fit into a slot.
    pub(crate) fn fits(&self, frames: u64) -> bool {
        frames <= self.slot_bytes - FRAMES_AT
    }

    /// Makes room for frames that do not fit into a slot.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn grow(&self, frames: u64) -> Result<()> {
        Ok(self.region.grow(self.behind() + frames)?)
    }

    /// Empties the slot of a number.
    #[track_caller]
    pub(crate) fn empty(&self, number: u64, lines: &mut LineSet) {
        let at = self.slot(number) + MARK_AT;
        self.region.store(at, 0);
        self.region.note(lines, at, 8);
    }

    fn mark(&self, number: u64, sizes: u64, frames: &[u8]) -> u64 {
        let check = check(&[self.tag, number, sizes], frames);
        u64::from(check) << 32 | (frames.len() as u64 & LOW_BITS) << 1 | 1
    }

    /// Writes a commit into its slot.
    pub(crate) fn log(&self, number: u64, size: u64, frames: &Frames, lines: &mut LineSet) {
        let (slot, frames) = (self.slot(number), &frames.bytes[..]);
        let bytes = frames.len() as u64;
        assert!(size < 1 << SIZE_BITS, "SQLite's databases are not so large");
        let sizes = (bytes / (LOW_BITS + 1)) << SIZE_BITS | size;
        let at = if self.fits(bytes) { slot + FRAMES_AT } else { self.behind() };
        self.region.copy(at, frames);
        self.region.store(slot + NUMBER_AT, number);
        self.region.store(slot + SIZES_AT, sizes);
        self.region.store(slot + MARK_AT, self.mark(number, sizes, frames));
        self.region.note(lines, slot, FRAMES_AT);
        self.region.note(lines, at, bytes);
    }

    /// Adds the lines of a commit that was logged to `lines`.
    pub(crate) fn note(&self, logged: &Logged, lines: &mut LineSet) {
        let (slot, bytes) = (self.slot(logged.number), logged.frames.len() as u64);
        let at = if self.fits(bytes) { slot + FRAMES_AT } else { self.behind() };
        self.region.note(lines, slot, FRAMES_AT);
        self.region.note(lines, at, bytes);
    }

    /// The commit in the slot of a number, if it matches its checksum and is needed.
    ///
    /// # Errors
    /// The medium fails.
    pub(crate) fn read(&self, number: u64) -> Result<Option<Logged>> {
        let slot = self.slot(number);
        let word = |at| self.region.load(slot + at);
        let (found, mark) = (word(NUMBER_AT)?, word(MARK_AT)?);
        let sizes = word(SIZES_AT)?;
        let size = sizes & ((1 << SIZE_BITS) - 1);
        let bytes = (sizes >> SIZE_BITS) * (LOW_BITS + 1) + (mark >> 1 & LOW_BITS);
        let (at, room) = match self.fits(bytes) {
            true => (slot + FRAMES_AT, self.slot_bytes - FRAMES_AT),
            false => (self.behind(), self.region.len() - self.behind()),
        };
        if mark & 1 == 0 || found % 2 != number % 2 || bytes > room || found <= self.settled()? {
            return Ok(None);
        }
        let mut frames = vec![0; bytes as usize];
        self.region.read_into(at, &mut frames)?;
        let within = |at: u64, bytes: &[u8]| {
            at.checked_add(bytes.len() as u64).is_some_and(|end| end <= size)
        };
        let mut inside = true;
        let whole = self.mark(found, sizes, &frames) == mark
            && Frames::each(&frames, |at, bytes| inside &= within(at, bytes));
        Ok((whole && inside).then_some(Logged { number: found, size, frames }))
    }

    /// Stores the size of the database.
    #[track_caller]
    pub(crate) fn set_size(&self, size: u64, lines: &mut LineSet) {
        self.region.store(SIZE_AT, size);
        self.region.note(lines, SIZE_AT, 8);
    }

    /// The size of the database.
    ///
    /// # Errors
    /// The medium fails.
    pub(crate) fn size(&self) -> Result<u64> {
        Ok(self.region.load(SIZE_AT)?)
    }

    /// The last commits that were begun, and that are in place. Not durable: a new boot finds them out
    /// from the slots.
    ///
    /// # Errors
    /// The medium fails.
    pub(crate) fn progress(&self) -> Result<(u64, u64)> {
        Ok((self.region.load(BEGUN_AT)?, self.region.load(APPLIED_AT)?))
    }

    /// Stores the number of the last commit that is durable where it belongs: one store empties both slots.
    #[track_caller]
    pub(crate) fn set_settled(&self, number: u64, lines: &mut LineSet) {
        self.region.store(SETTLED_AT, number);
        self.region.note(lines, SETTLED_AT, 8);
    }

    /// The number of the last commit that is durable where it belongs.
    ///
    /// # Errors
    /// The medium fails.
    pub(crate) fn settled(&self) -> Result<u64> {
        Ok(self.region.load(SETTLED_AT)?)
    }

    /// Says that a commit begins.
    #[track_caller]
    pub(crate) fn begin(&self, number: u64) {
        self.region.store(BEGUN_AT, number);
    }

    /// Says that a commit is in place.
    #[track_caller]
    pub(crate) fn applied(&self, number: u64) {
        self.region.store(APPLIED_AT, number);
    }
}
