//! The frame map: a table in the side file that says which frame each page is in.

use pm::{LineSet, Memory};

use crate::store::error::Result;
use crate::store::moves::{ENTRY_BYTES, Move};
use crate::store::region::Region;
use crate::store::shape::Shape;

const ENTRY: u64 = ENTRY_BYTES as u64;

/// The most entries of a table: more than SQLite has pages.
const ENTRIES_MAX: u64 = 1 << u32::BITS;

/// Bytes of the table that are zeroed at a time.
const CLEARED_BYTES: usize = 4096;

/// The size of the table, and the page size. Both are powers of two, or 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Table {
    /// Pages with an entry, from 1. All others are in their own frames.
    pub(super) entries: u64,
    /// 0 if commits are not page-wise.
    pub(super) page_bytes: u32,
}

impl Table {
    /// Both binary logarithms, a byte each.
    pub(super) fn value(self) -> u64 {
        let exponent = |number: u64| u64::from(number.checked_ilog2().unwrap_or(0));
        exponent(self.entries) << 8 | exponent(self.page_bytes.into())
    }

    /// The table with a value, if SQLite has such pages.
    pub(super) fn of(value: u64) -> Option<Self> {
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

/// The map of one side file, whose memory its callers have.
#[derive(Debug)]
pub(super) struct FrameMap {
    /// The table's offset in the file.
    at: u64,
    table: Table,
}

impl FrameMap {
    /// A map without entries at this offset.
    pub(super) fn new(at: u64) -> Self {
        Self { at, table: Table::default() }
    }

    /// The size of the table, and the page size.
    #[inline]
    pub(super) fn table(&self) -> Table {
        self.table
    }

    /// Notes another size.
    pub(super) fn set_table(&mut self, table: Table) {
        self.table = table;
    }

    /// The offset after the table.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.at + self.table.bytes()
    }

    /// The bytes of all entries.
    ///
    /// # Errors
    /// The medium fails.
    pub(super) fn read<M: Memory>(&self, side: &Region<M>) -> Result<Vec<u8>> {
        let mut entries = vec![0; self.table.entries as usize * ENTRY_BYTES];
        side.read_into(self.at, &mut entries)?;
        Ok(entries)
    }

    /// The frame of a page.
    ///
    /// # Errors
    /// The medium fails.
    #[inline]
    pub(super) fn frame<M: Memory>(&self, side: &Region<M>, page: u32) -> Result<u32> {
        if page == 0 || u64::from(page) > self.table.entries {
            return Ok(page);
        }
        let mut entry = [0; ENTRY_BYTES];
        side.read_into(self.at + (u64::from(page) - 1) * ENTRY, &mut entry)?;
        Ok(match u32::from_le_bytes(entry) {
            0 => page,
            frame => frame,
        })
    }

    /// Stores a page's entry.
    #[track_caller]
    pub(super) fn put<M: Memory>(&self, side: &Region<M>, step: Move, lines: &mut LineSet) {
        side.copy(self.at + step.at(), &step.entry());
        self.note(side, step, lines);
    }

    /// Adds the line of a page's entry to `lines`.
    pub(super) fn note<M: Memory>(&self, side: &Region<M>, step: Move, lines: &mut LineSet) {
        side.note(lines, self.at + step.at(), ENTRY);
    }

    /// Zeroes the additional entries of a larger table; nothing else is there.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn clear<M: Memory>(
        &self,
        side: &Region<M>,
        table: Table,
        lines: &mut LineSet,
    ) -> Result<()> {
        let (at, bytes) = (self.end(), table.bytes() - self.table.bytes());
        side.grow(at + bytes)?;
        let zeros = [0; CLEARED_BYTES];
        for done in (0..bytes).step_by(CLEARED_BYTES) {
            side.copy(at + done, &zeros[..(bytes - done).min(CLEARED_BYTES as u64) as usize]);
        }
        side.note(lines, at, bytes);
        Ok(())
    }
}
