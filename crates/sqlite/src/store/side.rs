//! The side file: its header, and the table of the pages' frames. `slot.rs` has the log.

use pm::{LineSet, Memory};

use crate::store::error::{Result, StoreError};
use crate::store::layout::{
    APPLIED_AT, BEGUN_AT, CHECKPOINTED_AT, CLEARED_AT, EMPTIED_AT, HEADER_CHECK_AT, LOG_BYTES_AT,
    LOGGED_AT, MAGIC, MAGIC_AT, NAME_AT, NAME_MAX, PREPARED_AT, SIZE_AT, SLOT_BYTES_AT, SLOTS_AT,
    TABLE_AT, TAG_AT, VERSION, VERSION_AT, WORDS_MAX,
};
use crate::store::moves::{ENTRY_BYTES, Move};
use crate::store::placement::permutation::Permutation;
use crate::store::region::Region;
use crate::store::room;
use crate::store::sealed::{seal, unseal};
use crate::store::shape::Shape;

const ENTRY: u64 = ENTRY_BYTES as u64;

/// The most entries of a table: more than SQLite has pages.
const ENTRIES_MAX: u64 = 1 << u32::BITS;

/// The most memory for an entry in a permutation.
const PERMUTED_BYTES: usize = 32;
/// Bytes of the table that are zeroed at a time.
const CLEARED_BYTES: usize = 4096;

/// The size of the table, and the page size. Both are powers of two, or 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    /// Pages with an entry, from 1. All others are in their own frames.
    pub(crate) entries: u64,
    /// 0 if commits are not page-wise.
    pub(crate) page_bytes: u32,
}

impl Table {
    /// Both binary logarithms, a byte each.
    fn value(self) -> u64 {
        let exponent = |number: u64| u64::from(number.checked_ilog2().unwrap_or(0));
        exponent(self.entries) << 8 | exponent(self.page_bytes.into())
    }

    /// The table with a value, if SQLite has such pages.
    fn of(value: u64) -> Option<Self> {
        let power = |exponent: u64| match exponent & 0xff {
            0 => Some(0),
            exponent => 1u64.checked_shl(exponent as u32),
        };
        let (entries, page_bytes) = (power(value >> 8)?, power(value)?);
        let is_size = Shape::new(page_bytes as usize, 0, false).is_some();
        let fits = value >> 16 == 0 && entries <= ENTRIES_MAX;
        let found = Self { entries, page_bytes: page_bytes as u32 };
        (fits && (is_size || found == Self::default())).then_some(found)
    }

    /// Bytes of the table, in whole lines.
    fn bytes(self) -> u64 {
        (self.entries * ENTRY).next_multiple_of(pm::LINE_BYTES)
    }
}

/// The side file of one database.
#[derive(Debug)]
pub(crate) struct Side<M> {
    pub(crate) region: Region<M>,
    pub(crate) tag: u64,
    pub(crate) slot_bytes: u64,
    pub(crate) table: Table,
}

/// The checksum of words and bytes.
pub(crate) fn check(words: &[u64], bytes: &[u8]) -> u32 {
    let first =
        words.iter().fold(0, |check, word| crc32c::crc32c_append(check, &word.to_le_bytes()));
    crc32c::crc32c_append(first, bytes)
}

/// Checks that a file which is about to become a side file is not another program's.
///
/// # Errors
/// The file has contents, and begins neither as a side file does nor with a word of zeros, which a kill leaves while
/// one is created.
pub(crate) fn check_not_foreign<M: Memory>(region: &Region<M>) -> Result<()> {
    let bytes = region.len();
    if bytes > 0 && (bytes < 8 || ![0, MAGIC].contains(&region.load(MAGIC_AT)?)) {
        return Err(StoreError::SideForeign);
    }
    Ok(())
}

impl<M: Memory> Side<M> {
    /// Creates an empty side file, not durably. Earlier contents of slots do not match the new tag.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn format(region: Region<M>, tag: u64, slot_bytes: u64) -> Result<Self> {
        region.grow(SLOTS_AT + 2 * slot_bytes)?;
        let side = Self { region, tag, slot_bytes, table: Table::default() };
        let header = [MAGIC, VERSION, tag, slot_bytes];
        for (at, word) in [MAGIC_AT, VERSION_AT, TAG_AT, SLOT_BYTES_AT].into_iter().zip(header) {
            side.region.store(at, word);
        }
        side.region.store(HEADER_CHECK_AT, check(&header, &[]).into());
        side.put(BEGUN_AT, 0);
        side.put(APPLIED_AT, 0);
        side.put(CHECKPOINTED_AT, 0);
        side.put(TABLE_AT, 0);
        side.put(PREPARED_AT, 0);
        side.put(LOG_BYTES_AT, 0);
        side.put(EMPTIED_AT, 0);
        Ok(side)
    }

    /// Stores a changing word.
    #[track_caller]
    pub(super) fn put(&self, at: u64, value: u64) {
        self.region.store(at, seal(self.tag, at, value));
    }

    /// The value of a changing word.
    ///
    /// # Errors
    /// The medium fails, or the word is damaged.
    pub(super) fn get(&self, at: u64) -> Result<u64> {
        let value = unseal(self.tag, at, self.region.load(at)?);
        value.ok_or(StoreError::SideDamaged("a word does not match its checksum"))
    }

    /// Adds the lines of the header to `lines`.
    pub(crate) fn note_header(&self, lines: &mut LineSet) {
        self.region.note(lines, 0, EMPTIED_AT + 8);
    }

    /// Reads the header.
    ///
    /// # Errors
    /// It is not a side file's header, or damaged.
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
        let fits = needed.is_some_and(|needed| needed <= region.len());
        let least = LOGGED_AT + 8 * WORDS_MAX;
        if !fits || !slot_bytes.is_multiple_of(pm::LINE_BYTES) || slot_bytes < least {
            return Err(damaged("its slots do not fit"));
        }
        let mut side = Self { region, tag, slot_bytes, table: Table::default() };
        side.read_table_size()?;
        Ok(side)
    }

    /// Reads the size of the table.
    ///
    /// # Errors
    /// The medium fails, the word is damaged, or SQLite has no such pages.
    pub(crate) fn read_table_size(&mut self) -> Result<()> {
        let table = Table::of(self.get(TABLE_AT)?);
        self.table = table.ok_or(StoreError::SideDamaged("its table is of no pages"))?;
        Ok(())
    }

    /// Returns an error if the table is incomplete. The file must be mapped to its full length.
    ///
    /// # Errors
    /// As it says.
    pub(crate) fn check_table(&self) -> Result<()> {
        if self.table_end() > self.region.len() {
            return Err(StoreError::SideDamaged("its table is not all there"));
        }
        Ok(())
    }

    /// The offset of the table, after both slots.
    fn table_at(&self) -> u64 {
        SLOTS_AT + 2 * self.slot_bytes
    }

    /// The offset after the table, for a commit too large for a slot.
    pub(crate) fn table_end(&self) -> u64 {
        self.table_at() + self.table.bytes()
    }

    /// The frame of a page.
    ///
    /// # Errors
    /// The medium fails.
    pub(crate) fn frame(&self, page: u32) -> Result<u32> {
        if page == 0 || u64::from(page) > self.table.entries {
            return Ok(page);
        }
        let mut entry = [0; ENTRY_BYTES];
        self.region.read_into(self.table_at() + (u64::from(page) - 1) * ENTRY, &mut entry)?;
        Ok(match u32::from_le_bytes(entry) {
            0 => page,
            frame => frame,
        })
    }

    /// The pages that are not in their own frames.
    ///
    /// # Errors
    /// The medium fails, or two pages are in one frame.
    pub(crate) fn permutation(&self) -> Result<Permutation> {
        self.check_table()?;
        // And two maps of the pages that are not in their own frames.
        room::ensure(self.table.entries as usize * PERMUTED_BYTES)?;
        let mut table = vec![0; self.table.entries as usize * ENTRY_BYTES];
        self.region.read_into(self.table_at(), &mut table)?;
        Permutation::read(&table)
            .map_err(|_| StoreError::SideDamaged("its table has two pages in one frame"))
    }

    /// Stores a page's entry.
    #[track_caller]
    pub(crate) fn put_page(&self, step: Move, lines: &mut LineSet) {
        let at = self.table_at() + step.at();
        self.region.copy(at, &step.entry());
        self.region.note(lines, at, ENTRY);
    }

    /// Adds the line of a page's entry to `lines`.
    pub(crate) fn note_page(&self, step: Move, lines: &mut LineSet) {
        self.region.note(lines, self.table_at() + step.at(), ENTRY);
    }

    /// Zeroes the additional entries of a larger table; nothing else is there.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn clear_table(&self, table: Table, lines: &mut LineSet) -> Result<()> {
        let (at, bytes) = (self.table_end(), table.bytes() - self.table.bytes());
        self.region.grow(at + bytes)?;
        let zeros = [0; CLEARED_BYTES];
        for done in (0..bytes).step_by(CLEARED_BYTES) {
            self.region
                .copy(at + done, &zeros[..(bytes - done).min(CLEARED_BYTES as u64) as usize]);
        }
        self.region.note(lines, at, bytes);
        Ok(())
    }

    /// Stores the size of the table, and the page size.
    #[track_caller]
    pub(crate) fn set_table(&mut self, table: Table, lines: &mut LineSet) {
        self.put(TABLE_AT, table.value());
        self.region.note(lines, TABLE_AT, 8);
        self.table = table;
    }

    /// Stores the size of the database.
    #[track_caller]
    pub(crate) fn set_size(&self, size: u64, lines: &mut LineSet) {
        self.put(SIZE_AT, size);
        self.region.note(lines, SIZE_AT, 8);
    }

    /// The size of the database.
    ///
    /// # Errors
    /// The medium fails, or the word is damaged.
    pub(crate) fn size(&self) -> Result<u64> {
        self.get(SIZE_AT)
    }

    /// The numbers of the last commits that have begun and have been applied. They are not durable: recovery finds
    /// them from the slots.
    ///
    /// # Errors
    /// The medium fails, or a word is damaged.
    pub(crate) fn progress(&self) -> Result<(u64, u64)> {
        Ok((self.get(BEGUN_AT)?, self.get(APPLIED_AT)?))
    }

    /// Stores the number of the last commit that is durable in place: one store empties both slots.
    #[track_caller]
    pub(crate) fn set_checkpointed(&self, number: u64, lines: &mut LineSet) {
        self.put(CHECKPOINTED_AT, number);
        self.region.note(lines, CHECKPOINTED_AT, 8);
    }

    /// The word that is raised before the marker is cleared, and before the file is truncated. Only a change has a meaning.
    ///
    /// # Errors
    /// The medium fails.
    pub(crate) fn cleared(&self) -> Result<u64> {
        Ok(self.region.load(CLEARED_AT)?)
    }

    /// Announces to live connections that the marker is about to be cleared, or the file to be truncated.
    #[track_caller]
    pub(crate) fn set_cleared(&self, cleared: u64) {
        self.region.store(CLEARED_AT, cleared);
    }

    /// The number of the last commit that is durable in place.
    ///
    /// # Errors
    /// The medium fails, or the word is damaged.
    pub(crate) fn checkpointed(&self) -> Result<u64> {
        self.get(CHECKPOINTED_AT)
    }

    /// Returns an error if a name is too long, or empty.
    ///
    /// # Errors
    /// As it says.
    pub(crate) fn check_name(&self, name: &[u8]) -> Result<()> {
        let fits = (1..=NAME_MAX).contains(&(name.len() as u64));
        if fits { Ok(()) } else { Err(StoreError::LongName(name.len())) }
    }

    /// Stores the number of a commit that will be prepared, before it is logged, and the name of its super-journal.
    #[track_caller]
    pub(crate) fn set_prepared(&self, number: u64, name: &[u8], lines: &mut LineSet) {
        self.region.store(NAME_AT, self.name_word(number, name));
        self.region.copy(NAME_AT + 8, name);
        self.region.note(lines, NAME_AT, 8 + name.len() as u64);
        self.put(PREPARED_AT, number);
        self.region.note(lines, PREPARED_AT, 8);
    }

    fn name_word(&self, number: u64, name: &[u8]) -> u64 {
        u64::from(check(&[self.tag, number, name.len() as u64], name)) << 32 | name.len() as u64
    }

    /// Stores that no commit is prepared.
    #[track_caller]
    pub(crate) fn clear_prepared(&self, lines: &mut LineSet) {
        self.put(PREPARED_AT, 0);
        self.region.note(lines, PREPARED_AT, 8);
    }

    /// The number of the last prepared commit, checkpointed or not; 0 if there is none.
    ///
    /// # Errors
    /// The medium fails, or the word is damaged.
    pub(crate) fn prepared(&self) -> Result<u64> {
        self.get(PREPARED_AT)
    }

    /// The name of the super-journal of the prepared commit with a number.
    ///
    /// # Errors
    /// The medium fails, or the name is damaged.
    pub(crate) fn prepared_for(&self, number: u64) -> Result<Vec<u8>> {
        let word = self.region.load(NAME_AT)?;
        let mut name = vec![0; (word & 0xffff_ffff).min(NAME_MAX) as usize];
        self.region.read_into(NAME_AT + 8, &mut name)?;
        if self.name_word(number, &name) != word {
            return Err(StoreError::SideDamaged("the name of a super-journal is damaged"));
        }
        Ok(name)
    }

    /// Adds the lines of the super-journal's name to `lines`.
    pub(crate) fn note_name(&self, lines: &mut LineSet) -> Result<()> {
        let bytes = (self.region.load(NAME_AT)? & 0xffff_ffff).min(NAME_MAX);
        self.region.note(lines, NAME_AT, 8 + bytes);
        Ok(())
    }

    /// Stores the number of the last commit that has begun.
    #[track_caller]
    pub(crate) fn set_begun(&self, number: u64) {
        self.put(BEGUN_AT, number);
    }

    /// Stores the number of the last commit that has been applied.
    #[track_caller]
    pub(crate) fn set_applied(&self, number: u64) {
        self.put(APPLIED_AT, number);
    }
}
