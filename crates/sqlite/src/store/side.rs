//! The side file: its header, with the words that change. `slot.rs` has the log in it, `frame_map.rs` the table of the
//! pages' frames.

use pm::{LineSet, Memory};

use crate::store::error::{Result, StoreError};
use crate::store::frame_map::{FrameMap, Table};
use crate::store::layout::{
    APPLIED_AT, BEGUN_AT, CHECKPOINTED_AT, CLEARED_AT, EMPTIED_AT, HEADER_CHECK_AT, LOG_BYTES_AT,
    LOGGED_AT, MAGIC, MAGIC_AT, NAME_AT, NAME_MAX, PREPARED_AT, SIZE_AT, SLOT_BYTES_AT, SLOTS_AT,
    TABLE_AT, TAG_AT, VERSION, VERSION_AT, WORDS_MAX,
};
use crate::store::moves::Move;
use crate::store::region::Region;
use crate::store::sealed::{seal, unseal};

/// The side file of one database.
#[derive(Debug)]
pub(super) struct Side<M> {
    region: Region<M>,
    /// A random number, which is also in page 1 while the marker is set.
    tag: u64,
    /// Bytes of each of the two slots.
    slot_bytes: u64,
    map: FrameMap,
}

/// The checksum of words and bytes.
pub(super) fn check(words: &[u64], bytes: &[u8]) -> u32 {
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
    pub(super) fn format(region: Region<M>, tag: u64, slot_bytes: u64) -> Result<Self> {
        region.grow(SLOTS_AT + 2 * slot_bytes)?;
        let map = FrameMap::new(SLOTS_AT + 2 * slot_bytes);
        let side = Self { region, tag, slot_bytes, map };
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

    /// The memory of the file.
    #[inline]
    pub(super) fn memory(&self) -> &M {
        self.region.memory()
    }

    /// The bytes of the file.
    #[inline]
    pub(super) fn region(&self) -> &Region<M> {
        &self.region
    }

    /// The file's tag.
    #[inline]
    pub(super) fn tag(&self) -> u64 {
        self.tag
    }

    /// Bytes of each of the two slots.
    #[inline]
    pub(super) fn slot_bytes(&self) -> u64 {
        self.slot_bytes
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
    pub(super) fn note_header(&self, lines: &mut LineSet) {
        self.region.note(lines, 0, EMPTIED_AT + 8);
    }

    /// Reads the header.
    ///
    /// # Errors
    /// It is not a side file's header, or damaged.
    pub(super) fn open(region: Region<M>) -> Result<Self> {
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
        let map = FrameMap::new(SLOTS_AT + 2 * slot_bytes);
        let mut side = Self { region, tag, slot_bytes, map };
        side.read_table_size()?;
        Ok(side)
    }

    /// Reads the size of the table.
    ///
    /// # Errors
    /// The medium fails, the word is damaged, or SQLite has no such pages.
    pub(super) fn read_table_size(&mut self) -> Result<()> {
        let table = Table::of(self.get(TABLE_AT)?);
        self.map.set_table(table.ok_or(StoreError::SideDamaged("its table is of no pages"))?);
        Ok(())
    }

    /// Returns an error if the table is incomplete. The file must be mapped to its full length.
    ///
    /// # Errors
    /// As it says.
    pub(super) fn check_table(&self) -> Result<()> {
        if self.table_end() > self.region.len() {
            return Err(StoreError::SideDamaged("its table is not all there"));
        }
        Ok(())
    }

    /// The size of the table, and the page size.
    #[inline]
    pub(super) fn table(&self) -> Table {
        self.map.table()
    }

    /// The offset after the table, for a commit too large for a slot.
    #[inline]
    pub(super) fn table_end(&self) -> u64 {
        self.map.end()
    }

    /// The bytes of the table.
    ///
    /// # Errors
    /// The medium fails.
    pub(super) fn read_table(&self) -> Result<Vec<u8>> {
        self.map.read(&self.region)
    }

    /// The frame of a page.
    ///
    /// # Errors
    /// The medium fails.
    #[inline]
    pub(super) fn frame(&self, page: u32) -> Result<u32> {
        self.map.frame(&self.region, page)
    }

    /// Stores a page's entry.
    #[track_caller]
    pub(super) fn put_page(&self, step: Move, lines: &mut LineSet) {
        self.map.put(&self.region, step, lines);
    }

    /// Adds the line of a page's entry to `lines`.
    pub(super) fn note_page(&self, step: Move, lines: &mut LineSet) {
        self.map.note(&self.region, step, lines);
    }

    /// Zeroes the additional entries of a larger table; nothing else is there.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn clear_table(&self, table: Table, lines: &mut LineSet) -> Result<()> {
        self.map.clear(&self.region, table, lines)
    }

    /// Stores the size of the table, and the page size.
    #[track_caller]
    pub(super) fn set_table(&mut self, table: Table, lines: &mut LineSet) {
        self.put(TABLE_AT, table.value());
        self.region.note(lines, TABLE_AT, 8);
        self.map.set_table(table);
    }

    /// Stores the size of the database.
    #[track_caller]
    pub(super) fn set_size(&self, size: u64, lines: &mut LineSet) {
        self.put(SIZE_AT, size);
        self.region.note(lines, SIZE_AT, 8);
    }

    /// The size of the database.
    ///
    /// # Errors
    /// The medium fails, or the word is damaged.
    pub(super) fn size(&self) -> Result<u64> {
        self.get(SIZE_AT)
    }

    /// The numbers of the last commits that have begun and have been applied. They are not durable: recovery finds
    /// them from the slots.
    ///
    /// # Errors
    /// The medium fails, or a word is damaged.
    pub(super) fn progress(&self) -> Result<(u64, u64)> {
        Ok((self.get(BEGUN_AT)?, self.get(APPLIED_AT)?))
    }

    /// Stores the number of the last commit that is durable in place: one store empties both slots.
    #[track_caller]
    pub(super) fn set_checkpointed(&self, number: u64, lines: &mut LineSet) {
        self.put(CHECKPOINTED_AT, number);
        self.region.note(lines, CHECKPOINTED_AT, 8);
    }

    /// The word that is raised before the marker is cleared, and before the file is truncated. Only a change has a meaning.
    ///
    /// # Errors
    /// The medium fails.
    pub(super) fn cleared(&self) -> Result<u64> {
        Ok(self.region.load(CLEARED_AT)?)
    }

    /// Announces to live connections that the marker is about to be cleared, or the file to be truncated.
    #[track_caller]
    pub(super) fn set_cleared(&self, cleared: u64) {
        self.region.store(CLEARED_AT, cleared);
    }

    /// The number of the last commit that is durable in place.
    ///
    /// # Errors
    /// The medium fails, or the word is damaged.
    pub(super) fn checkpointed(&self) -> Result<u64> {
        self.get(CHECKPOINTED_AT)
    }

    /// Returns an error if a name is too long, or empty.
    ///
    /// # Errors
    /// As it says.
    pub(super) fn check_name(&self, name: &[u8]) -> Result<()> {
        let fits = (1..=NAME_MAX).contains(&(name.len() as u64));
        if fits { Ok(()) } else { Err(StoreError::LongName(name.len())) }
    }

    /// Stores the number of a commit that will be prepared, before it is logged, and the name of its super-journal.
    #[track_caller]
    pub(super) fn set_prepared(&self, number: u64, name: &[u8], lines: &mut LineSet) {
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
    pub(super) fn clear_prepared(&self, lines: &mut LineSet) {
        self.put(PREPARED_AT, 0);
        self.region.note(lines, PREPARED_AT, 8);
    }

    /// The number of the last prepared commit, checkpointed or not; 0 if there is none.
    ///
    /// # Errors
    /// The medium fails, or the word is damaged.
    pub(super) fn prepared(&self) -> Result<u64> {
        self.get(PREPARED_AT)
    }

    /// The name of the super-journal of the prepared commit with a number.
    ///
    /// # Errors
    /// The medium fails, or the name is damaged.
    pub(super) fn prepared_for(&self, number: u64) -> Result<Vec<u8>> {
        let word = self.region.load(NAME_AT)?;
        let mut name = vec![0; (word & 0xffff_ffff).min(NAME_MAX) as usize];
        self.region.read_into(NAME_AT + 8, &mut name)?;
        if self.name_word(number, &name) != word {
            return Err(StoreError::SideDamaged("the name of a super-journal is damaged"));
        }
        Ok(name)
    }

    /// Adds the lines of the super-journal's name to `lines`.
    pub(super) fn note_name(&self, lines: &mut LineSet) -> Result<()> {
        let bytes = (self.region.load(NAME_AT)? & 0xffff_ffff).min(NAME_MAX);
        self.region.note(lines, NAME_AT, 8 + bytes);
        Ok(())
    }

    /// Stores the number of the last commit that has begun.
    #[track_caller]
    pub(super) fn set_begun(&self, number: u64) {
        self.put(BEGUN_AT, number);
    }

    /// Stores the number of the last commit that has been applied.
    #[track_caller]
    pub(super) fn set_applied(&self, number: u64) {
        self.put(APPLIED_AT, number);
    }
}
