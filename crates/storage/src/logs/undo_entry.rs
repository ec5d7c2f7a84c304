//! The entry of an undo log as it stands in memory: one line, which validates itself.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A field whose new value is written but not in place yet.
#[derive(Clone, Copy, Debug)]
pub struct NewField {
    /// The column's number.
    pub column: u16,
    /// The word that stands in the tuple. Of an inlined column, the word of the [`crate::Image`] of
    /// what was there before, if it is that one.
    pub old: u64,
    /// The word that will stand there. Of an inlined column the checksum of the image of what was
    /// there before, or the word of that of what will be there.
    pub new: u64,
}

/// The kind of change that an entry undoes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum UndoKind {
    /// A tuple was inserted.
    Insert = 1,
    /// Fields of a tuple were updated.
    Update = 2,
    /// A tuple was deleted.
    Delete = 3,
    /// An entry of a MemTable was added, replaced or taken away.
    Replace = 4,
}

/// An entry of the log as it stands in memory: one line.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct UndoEntry {
    pub(super) transaction: u64,
    checksum: u32,
    /// Its place in its transaction; of a statement, which has no other, the checksum of what the
    /// new words of its fields lead to.
    pub(super) sequence: u32,
    kind: u8,
    /// The number of the fields that count, whether the entry goes on with the operation of the one
    /// before it (the highest bit), and whether it is a transaction by itself (the one below).
    count: u8,
    table: u16,
    columns: [u16; 2],
    tuple: u64,
    fields: [[u64; 2]; 2],
}

const _: () = assert!(size_of::<UndoEntry>() == 64);
const CONTINUES: u8 = 0x80;
const STATEMENT: u8 = 0x40;

/// The number of fields that one entry holds.
pub const FIELDS_PER_ENTRY: usize = 2;

impl UndoEntry {
    fn new(kind: UndoKind, table: u16, tuple: u64) -> Self {
        Self {
            transaction: 0,
            checksum: 0,
            sequence: 0,
            kind: kind as u8,
            count: 0,
            table,
            columns: [0; 2],
            tuple,
            fields: [[0; 2]; 2],
        }
    }

    /// The entry for the insert of a tuple whose words have this checksum.
    pub fn insert(table: u16, tuple: u64, checksum: u32) -> Self {
        let mut entry = Self::new(UndoKind::Insert, table, tuple);
        entry.fields[0][0] = u64::from(checksum);
        entry
    }

    /// The entry for the delete of a tuple.
    pub fn delete(table: u16, tuple: u64) -> Self {
        Self::new(UndoKind::Delete, table, tuple)
    }

    /// The entry for the replacement of what a MemTable says of a key, which was `old` and will be
    /// `new`; zero is nothing. `witness` is an entry that has the key, `checksums` those of what
    /// the operation wrote.
    pub fn replace(table: u16, witness: u64, old: u64, new: u64, checksums: u64) -> Self {
        let mut entry = Self::new(UndoKind::Replace, table, witness);
        entry.fields = [[old, new], [checksums, 0]];
        entry
    }

    /// The entry for the update of at most [`FIELDS_PER_ENTRY`] fields. `continues` says that the
    /// entry before belongs to the same operation.
    pub fn update(table: u16, tuple: u64, fields: &[NewField], continues: bool) -> Self {
        let mut entry = Self::new(UndoKind::Update, table, tuple);
        entry.count = fields.len() as u8 | if continues { CONTINUES } else { 0 };
        for (index, field) in fields.iter().enumerate() {
            entry.columns[index] = field.column;
            entry.fields[index] = [field.old, field.new];
        }
        entry
    }

    /// The entry for the update of at most [`FIELDS_PER_ENTRY`] fields as a transaction of its own,
    /// for [`crate::UndoLog::append_statement`]. `checksum` is the checksum of what the new words
    /// lead to.
    pub fn statement(table: u16, tuple: u64, fields: &[NewField], checksum: u32) -> Self {
        let mut entry = Self::update(table, tuple, fields, false);
        entry.count |= STATEMENT;
        entry.sequence = checksum;
        entry
    }

    /// Returns what the entry undoes; `None` for damage.
    pub fn kind(&self) -> Option<UndoKind> {
        [UndoKind::Insert, UndoKind::Update, UndoKind::Delete, UndoKind::Replace]
            .into_iter()
            .find(|kind| *kind as u8 == self.kind)
    }

    /// The table's number.
    pub fn table(&self) -> u16 {
        self.table
    }

    /// Returns where the tuple lies.
    pub fn tuple(&self) -> u64 {
        self.tuple
    }

    /// The checksum of an inserted tuple's words.
    pub fn tuple_checksum(&self) -> u32 {
        self.fields[0][0] as u32
    }

    /// Returns what a replacement's MemTable said before, and what it will say.
    pub fn replaced(&self) -> (u64, u64) {
        (self.fields[0][0], self.fields[0][1])
    }

    /// The checksums of what a replacement wrote.
    pub fn replacement_checksums(&self) -> u64 {
        self.fields[1][0]
    }

    /// Returns whether the entry goes on with the operation of the one before it.
    pub fn continues(&self) -> bool {
        self.count & CONTINUES != 0
    }

    pub(super) fn is_statement(&self) -> bool {
        self.count & STATEMENT != 0
    }

    /// The checksum of what the new words of a statement lead to.
    pub fn statement_checksum(&self) -> u32 {
        self.sequence
    }

    /// The fields of an update.
    pub fn fields(&self) -> impl DoubleEndedIterator<Item = NewField> {
        let count = usize::from(self.count & !(CONTINUES | STATEMENT)).min(FIELDS_PER_ENTRY);
        (0..count).map(|index| NewField {
            column: self.columns[index],
            old: self.fields[index][0],
            new: self.fields[index][1],
        })
    }

    #[inline]
    pub(super) fn seal(&mut self, transaction: u64, sequence: u32) {
        self.transaction = transaction;
        self.sequence = sequence;
        self.checksum = 0;
        self.checksum = crc32c::crc32c(self.as_bytes());
    }

    pub(super) fn is_valid(&self, transaction: u64, sequence: u32) -> bool {
        self.transaction == transaction
            && self.sequence == sequence
            && !self.is_statement()
            && self.is_whole()
    }

    pub(super) fn is_whole(&self) -> bool {
        let mut copy = *self;
        copy.seal(self.transaction, self.sequence);
        copy == *self
    }
}
