//! The layout of what the store keeps in memory: `docs/format/column.md` draws it.

use pm::Bad;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Result;
use crate::error::ColumnError;
use crate::seed::Seed;

/// The first word of a store: a name, and two digits of the format's version.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PDCOLM02");
const MAGIC_NAME_BYTES: usize = 6;
/// The place in the master of the slot area's place, and of the tables' places.
pub(crate) const SLOTS_AT: u64 = 64;
pub(crate) const TABLES_AT: u64 = 72;
/// The most tables.
pub(crate) const MOST_TABLES: usize = 4096;
/// The most columns of a table.
pub(crate) const MOST_COLUMNS: usize = 2048;

/// The fixed part of the master, written once when the store is created.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug)]
#[repr(C)]
pub(crate) struct Constants {
    pub(crate) magic: u64,
    pub(crate) tables: u32,
    pub(crate) slots: u32,
    pub(crate) first_rows: u32,
    pub(crate) most_rows: u32,
    pub(crate) reserve: u32,
    pub(crate) checksum: u32,
    /// The seed of hashes and of heights.
    pub(crate) seed: u64,
    pub(crate) spare: [u64; 3],
}

impl Constants {
    /// The same, with the checksum of it.
    fn sealed(mut self) -> Self {
        self.checksum = 0;
        self.checksum = crc32c::crc32c(self.as_bytes());
        self
    }

    /// Checks that the store is one of this version of the format. All versions have the magic word and the checksum
    /// at the same places.
    ///
    /// # Errors
    /// [`ColumnError::Version`], of a sound master of another version.
    pub(crate) fn check_version(&self) -> Result<()> {
        let other = version(self.magic).filter(|_| self.magic != MAGIC);
        match (other, version(MAGIC)) {
            (Some(found), Some(supported)) if self.sealed().checksum == self.checksum => {
                Err(ColumnError::Version { found, supported })
            }
            _ => Ok(()),
        }
    }
}

/// The version in a magic word, if it is one of a column store.
fn version(magic: u64) -> Option<u32> {
    let (bytes, own) = (magic.to_le_bytes(), MAGIC.to_le_bytes());
    let (name, digits) = bytes.split_at(MAGIC_NAME_BYTES);
    let is_number = name == &own[..MAGIC_NAME_BYTES] && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

/// A table begins with the number of its columns and a byte for the kind of each. The array of its rows follows,
/// then for each column the array of its values and that of their bytes.
pub(crate) const KINDS_AT: u64 = 8;
/// Bytes of an array's header: how many elements are reserved, and the pages of its directory.
pub(crate) const ARRAY_BYTES: u64 = 192;
/// The pages of a directory: page `n` has `2^n` segments.
pub(crate) const LEVELS: usize = 16;
pub(crate) const LEVELS_AT: u64 = 8;

/// Levels of a skip list, and bytes of its head: the first node of each level.
pub(crate) const SKIP_LEVELS: usize = 16;
pub(crate) const HEAD_BYTES: u64 = SKIP_LEVELS as u64 * 8;
/// The head of a hash table: how many buckets and nodes there are, on a line, and the array of buckets.
pub(crate) const HASH_ARRAY_AT: u64 = 64;
pub(crate) const HASH_HEAD_BYTES: u64 = HASH_ARRAY_AT + ARRAY_BYTES;
/// A node of a skip list begins with its row; the length and the checksum of its key are next, then the next node
/// of each level.
pub(crate) const NODE_SIZE_AT: u64 = 8;
pub(crate) const NODE_NEXT_AT: u64 = 16;

/// Words of a chunk's header before the places of its columns: those of begin, end and prev.
pub(crate) const CHUNK_FIXED: u64 = 3;
/// The most objects of a chunk that columns lie in: one mini-transaction makes all of them. Where there
/// are more columns, several lie in one object.
pub(crate) const MOST_COLUMN_OBJECTS: usize = 64;

/// Columns of a table that lie in one object of a chunk.
pub(crate) const fn columns_together(columns: usize) -> usize {
    columns.div_ceil(MOST_COLUMN_OBJECTS)
}

/// Bytes of a slot: a line each of state and name, and the first entries.
pub(crate) const SLOT_BYTES: u64 = 1024;
pub(crate) const SEQUENCE_AT: u64 = 0;
pub(crate) const NUMBER_AT: u64 = 8;
pub(crate) const SNAPSHOT_AT: u64 = 16;
pub(crate) const OPENINGS_AT: u64 = 24;
pub(crate) const STATE_AT: u64 = 32;
pub(crate) const NAME_AT: u64 = 64;
/// The number of openings after which a transaction that has not gone on is over.
pub const MOST_OPENINGS: u64 = 16;
/// The most bytes of a transaction's name.
pub const MOST_NAME: usize = 48;
pub(crate) const NAME_CHECK_AT: u64 = NAME_AT + MOST_NAME as u64;
/// The first segment of further entries.
pub(crate) const CHAIN_AT: u64 = NAME_CHECK_AT + 8;
pub(crate) const ENTRIES_AT: u64 = 128;
pub(crate) const ENTRY_BYTES: u64 = 32;
pub(crate) const SLOT_ENTRIES: u64 = (SLOT_BYTES - ENTRIES_AT) / ENTRY_BYTES;
/// A segment of entries: the next one's place, then entries.
pub(crate) const SEGMENT_BYTES: u64 = 4096;
pub(crate) const SEGMENT_ENTRIES: u64 = SEGMENT_BYTES / ENTRY_BYTES - 1;

/// The first line of a slot.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Header {
    /// Counts the transactions of the slot.
    pub(crate) sequence: u64,
    /// The number of the slot's last commit; it stays when the next transaction begins.
    pub(crate) number: u64,
    /// The transaction sees commits with numbers up to this one.
    pub(crate) snapshot: u64,
    /// Counts the openings that found the transaction in flight since its last statement.
    pub(crate) openings: u64,
    /// The state in the low byte; in a committed one, the number of its statements above.
    pub(crate) state: u64,
    pub(crate) spare: [u64; 3],
}

/// A statement of a transaction.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Entry {
    /// The kind of the statement (8 bits), its table (16), 8 bits that are zero, its number (32).
    pub(crate) what: u64,
    /// The version that it replaces or deletes; zero: none.
    pub(crate) old: u64,
    /// The version that it makes; zero: none.
    pub(crate) new: u64,
    /// A checksum of the words above and the transaction (32), and of the new version (32).
    pub(crate) check: u64,
}

const _: () = assert!(size_of::<Constants>() == 64);
const _: () = assert!(size_of::<Header>() == 64);
const _: () = assert!(size_of::<Entry>() == ENTRY_BYTES as usize);
const _: () = assert!(CHAIN_AT == 120 && SLOT_ENTRIES == 28 && SEGMENT_ENTRIES == 127);
const _: () = assert!((1 + LEVELS as u64) * 8 <= ARRAY_BYTES);

/// The kind of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Words, ordered as unsigned numbers.
    Word = 1,
    /// Bytes of any length, ordered as bytes.
    Bytes = 2,
}

impl Kind {
    pub(crate) fn of(number: u8, at: u64) -> Result<Self> {
        match number {
            1 => Ok(Self::Word),
            2 => Ok(Self::Bytes),
            _ => Err(Bad::Damaged { what: "kind of a column", at }.into()),
        }
    }
}

/// The place of a table's first array, after the kinds.
pub(crate) const fn rows_at(columns: u64) -> u64 {
    (KINDS_AT + columns).next_multiple_of(64)
}

/// The place in a table of the array of a column's values; the array of their bytes follows.
pub(crate) const fn values_at(columns: u64, column: u64) -> u64 {
    rows_at(columns) + ARRAY_BYTES * (1 + 2 * column)
}

/// The place in a table of its placement, after the arrays: the number of structures that follow from its rows;
/// for each one its uses and, a byte, its form; and, on lines, the heads of those in persistent memory.
pub(crate) const fn placement_at(columns: u64) -> u64 {
    values_at(columns, columns)
}

/// The place in a table of the uses of a structure.
pub(crate) const fn uses_at(columns: u64, structure: u64) -> u64 {
    placement_at(columns) + 8 + 8 * structure
}

/// The place in a table with so many structures of their forms.
pub(crate) const fn flags_at(columns: u64, structures: u64) -> u64 {
    uses_at(columns, structures)
}

/// The form of a structure that follows from the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Form {
    /// A tree or a hash table in ordinary memory.
    Ordinary = 0,
    /// A skip list in persistent memory.
    SkipList = 1,
    /// A hash table in persistent memory, of dictionaries alone: keys are needed in their order.
    HashTable = 2,
}

impl Form {
    pub(crate) fn of(number: u8, at: u64) -> Result<Self> {
        match number {
            0 => Ok(Self::Ordinary),
            1 => Ok(Self::SkipList),
            2 => Ok(Self::HashTable),
            _ => Err(Bad::Damaged { what: "placement of a table's indexes", at }.into()),
        }
    }

    const fn head_bytes(self) -> u64 {
        match self {
            Self::Ordinary => 0,
            Self::SkipList => HEAD_BYTES,
            Self::HashTable => HASH_HEAD_BYTES,
        }
    }
}

/// The place of the head of each structure in persistent memory, or zero.
pub(crate) fn heads(forms: &[Form], columns: u64) -> Vec<u64> {
    let many = forms.len() as u64;
    let mut next = (flags_at(columns, many) + many).next_multiple_of(64);
    let mut place = |form: &Form| {
        let at = if *form == Form::Ordinary { 0 } else { next };
        next += form.head_bytes();
        at
    };
    forms.iter().map(&mut place).collect()
}

/// Bytes of a table with structures of these forms.
pub(crate) fn table_bytes(forms: &[Form], columns: u64) -> u64 {
    let many = forms.len() as u64;
    let ends =
        heads(forms, columns).into_iter().zip(forms).map(|(at, form)| at + form.head_bytes());
    ends.max().unwrap_or(0).max(flags_at(columns, many) + many)
}

/// The parameters of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Transaction slots: 2 to 256. An open transaction has one, and one that has just committed keeps its own
    /// until the next statement of its session.
    pub slots: u32,
    /// Rows of the first chunk; each has twice those of the last one, up to `most_rows`. Both are powers
    /// of two from 64 to 32,768.
    pub first_rows: u32,
    /// Rows of a large chunk.
    pub most_rows: u32,
    /// The number of ids that are reserved at once, at most what is left of a chunk: from 1 to
    /// `most_rows`.
    pub reserve: u32,
    /// The share of indexes, by their number, that lie in persistent memory, in per cent: the first ones, in the
    /// order of tables, and of each table those of keys before those of dictionaries. The others lie in ordinary
    /// memory, and are rebuilt after opening.
    pub durable_percent: u32,
    /// Indexes of dictionaries that lie in persistent memory are hash tables, else skip lists.
    pub hashed: bool,
    /// The seed of hashes and of heights in skip lists. `None` takes a random one, so that values cannot be chosen
    /// to make searches slow; a number is for tests that have to be deterministic.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slots: 256,
            first_rows: 1024,
            most_rows: 32 << 10,
            reserve: 1024,
            durable_percent: 0,
            hashed: false,
            seed: None,
        }
    }
}

impl Options {
    pub(crate) fn validate(&self) -> Result<()> {
        let bad = |what: String| Err(ColumnError::Options { what });
        if !(2..=256).contains(&self.slots) {
            return bad(format!("{} slots", self.slots));
        }
        for rows in [self.first_rows, self.most_rows] {
            if !rows.is_power_of_two() || !(64..=32 << 10).contains(&rows) {
                return bad(format!("chunks of {rows} rows"));
            }
        }
        if self.first_rows > self.most_rows {
            return bad("first chunks that are larger than the last".into());
        }
        if self.durable_percent > 100 {
            return bad(format!("{} % of its indexes in persistent memory", self.durable_percent));
        }
        if self.reserve == 0 || self.reserve > self.most_rows {
            return bad(format!("a reserve of {} ids", self.reserve));
        }
        Ok(())
    }

    /// The same, with a seed.
    pub(crate) fn seeded(self) -> Self {
        Self { seed: self.seed.or_else(|| Some(Seed::random().0)), ..self }
    }

    /// The fixed part of the master, of a store that has a seed.
    pub(crate) fn constants(self, tables: u32) -> Constants {
        let Self { slots, first_rows, most_rows, reserve, durable_percent: _, hashed: _, seed } =
            self;
        let constants = Constants {
            magic: MAGIC,
            tables,
            slots,
            first_rows,
            most_rows,
            reserve,
            checksum: 0,
            seed: seed.unwrap_or_default(),
            spare: [0; 3],
        };
        constants.sealed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers once more, as literals: `docs/format/column.md` has them.
    #[test]
    fn the_format_is_as_documented() {
        assert_eq!(MAGIC.to_le_bytes(), *b"PDCOLM02");
        assert_eq!((SLOTS_AT, TABLES_AT, KINDS_AT), (64, 72, 8));
        assert_eq!((ARRAY_BYTES, LEVELS_AT, LEVELS), (192, 8, 16));
        assert_eq!((rows_at(3), values_at(3, 0), values_at(3, 1)), (64, 256, 640));
        assert_eq!((SLOT_BYTES, NAME_AT, NAME_CHECK_AT, CHAIN_AT), (1024, 64, 112, 120));
        assert_eq!((SKIP_LEVELS, HEAD_BYTES, NODE_SIZE_AT, NODE_NEXT_AT), (16, 128, 8, 16));
        assert_eq!((HASH_ARRAY_AT, HASH_HEAD_BYTES), (64, 256));
        assert_eq!([Form::Ordinary as u8, Form::SkipList as u8, Form::HashTable as u8], [0, 1, 2]);
        assert_eq!((ENTRIES_AT, ENTRY_BYTES, SEGMENT_BYTES), (128, 32, 4096));
        let header = [SEQUENCE_AT, NUMBER_AT, SNAPSHOT_AT, OPENINGS_AT, STATE_AT];
        assert_eq!(header, [0, 8, 16, 24, 32]);
    }

    #[test]
    fn impossible_options_are_refused() {
        let sound = Options::default();
        assert!(sound.validate().is_ok());
        for wrong in [
            Options { slots: 1, ..sound },
            Options { slots: 257, ..sound },
            Options { first_rows: 100, ..sound },
            Options { most_rows: 512, ..sound },
            Options { most_rows: 64 << 10, ..sound },
            Options { reserve: 0, ..sound },
            Options { reserve: 64 << 10, ..sound },
            Options { durable_percent: 101, ..sound },
        ] {
            assert!(matches!(wrong.validate(), Err(ColumnError::Options { .. })), "{wrong:?}");
        }
    }
}
