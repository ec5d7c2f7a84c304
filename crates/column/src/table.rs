//! A table: its rows, and a dictionary for each column. The first column is the primary key.

use std::sync::atomic::Ordering::Acquire;

use heap::Lane;
use pm::{Bad, LineSet, Memory, Off, Range};
use zerocopy::IntoBytes;

use crate::Result;
use crate::array::{Array, Shape};
use crate::chunk::{self, Chunk, Place};
use crate::dictionary::Dictionary;
use crate::error::ColumnError;
use crate::ids::Ids;
use crate::latch::{Latch, Waiting};
use crate::layout::{KINDS_AT, Kind, MOST_COLUMNS, Options, rows_at, values_at};
use crate::secondary::KeyIndex;
use crate::value::Field;

/// A table of a store.
#[derive(Debug)]
pub(crate) struct Table<M> {
    pub(crate) at: u64,
    memory: M,
    pub(crate) rows: Array<Chunk>,
    pub(crate) ids: Ids,
    pub(crate) columns: Vec<Dictionary<M>>,
    pub(crate) keys: Latch<KeyIndex>,
}

impl<M: Memory> Table<M> {
    /// The table at `at`. Reads its header and those of its arrays.
    pub(crate) fn open(memory: &M, at: u64, options: &Options, waiting: &Waiting) -> Result<Self> {
        let many = memory.load(Off::new(at), Acquire)?;
        if many == 0 || many > MOST_COLUMNS as u64 {
            return Err(Bad::Damaged { what: "table of columns", at }.into());
        }
        let shape = Shape::of(options);
        let rows = Array::new(at + rows_at(many), shape);
        let ids = Ids::open(memory, rows.reserved_at(), 1, options.reserve, waiting)?;
        let mut columns = Vec::with_capacity(many as usize);
        for column in 0..many {
            let kind = Kind::of(memory.read(Off::new(at + KINDS_AT + column))?, at)?;
            let place = at + values_at(many, column);
            columns.push(Dictionary::open(memory, place, kind, shape, options.reserve, waiting)?);
        }
        let keys = Latch::new(KeyIndex::new(ids.opened), waiting);
        Ok(Self { at, memory: memory.clone(), rows, ids, columns, keys })
    }

    /// The places of a row.
    pub(crate) fn place(&self, row: u64) -> Result<Place<'_>> {
        let shape = self.rows.shape;
        let segment = shape.segment(row);
        let (columns, rows) = (self.columns.len(), shape.elements(segment));
        let chunk = self
            .rows
            .segment(&self.memory, segment, |at| Chunk::load(&self.memory, at, columns, rows))?;
        Ok(Place::new(chunk, row - shape.start(segment)))
    }

    /// A row that nobody has had, with a chunk for it.
    pub(crate) fn take_row(&self, lane: &Latch<Lane<M>>) -> Result<u64> {
        let columns = self.columns.len();
        self.ids.take(&self.memory, self.rows.shape, 1, |segment| {
            chunk::add(&mut lane.write(), &self.rows, segment, columns)
        })
    }

    pub(crate) fn id(&self, row: u64, column: usize) -> Result<u32> {
        Ok(self.memory.read(self.place(row)?.id(column))?)
    }

    pub(crate) fn field(&self, row: u64, column: usize) -> Result<Field> {
        self.columns[column].value(self.id(row, column)?)
    }

    /// The values of a row.
    pub(crate) fn fields(&self, row: u64) -> Result<Vec<Field>> {
        (0..self.columns.len()).map(|column| self.field(row, column)).collect()
    }

    /// The key of a row.
    pub(crate) fn key(&self, row: u64) -> Result<Vec<u8>> {
        self.field(row, 0)?.value().key(self.columns[0].kind())
    }

    /// The version that a row replaces.
    pub(crate) fn prev(&self, row: u64) -> Result<u64> {
        let at = self.place(row)?.prev();
        let prev = self.memory.load(at, Acquire)?;
        if prev >= row {
            return Err(Bad::Damaged { what: "earlier version of a row", at: at.get() }.into());
        }
        Ok(prev)
    }

    /// A checksum of what a row has, but for its stamps.
    pub(crate) fn sum(prev: u64, ids: &[u32]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(prev.as_bytes()), ids.as_bytes())
    }

    pub(crate) fn ids_of(&self, row: u64) -> Result<Vec<u32>> {
        (0..self.columns.len()).map(|column| self.id(row, column)).collect()
    }

    /// Stores a row, its stamp last.
    #[track_caller]
    pub(crate) fn store_row(
        &self,
        row: u64,
        prev: u64,
        ids: &[u32],
        begin: u64,
        lines: &mut LineSet,
    ) -> Result<()> {
        let place = self.place(row)?;
        for (column, id) in ids.iter().enumerate() {
            self.memory.copy(place.id(column).plus(0), id.as_bytes());
            lines.add(place.id(column).range());
        }
        self.memory.store(place.prev(), prev);
        self.memory.store(place.begin(), begin);
        lines.add(place.prev().range());
        lines.add(place.begin().range());
        Ok(())
    }

    /// Returns whether a row is there as its checksum says, its values included.
    pub(crate) fn is_whole(&self, row: u64, sum: u32) -> Result<bool> {
        if row == 0 || row >= self.ids.next() {
            return Ok(false);
        }
        let prev = self.memory.load(self.place(row)?.prev(), Acquire)?;
        let ids = self.ids_of(row)?;
        if Self::sum(prev, &ids) != sum {
            return Ok(false);
        }
        for (column, id) in self.columns.iter().zip(ids) {
            if !column.is_whole(id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the lines of a row and of its values.
    pub(crate) fn add_lines(&self, row: u64, lines: &mut LineSet) -> Result<()> {
        let place = self.place(row)?;
        for (number, column) in self.columns.iter().enumerate() {
            lines.add(place.id(number).range());
            column.add_lines(self.id(row, number)?, lines)?;
        }
        lines.add(place.prev().range());
        lines.add(place.begin().range());
        Ok(())
    }

    pub(crate) fn raise(&self, key: Vec<u8>, row: u64) {
        self.keys.write().raise(key, row);
    }

    /// Returns whether a row has this key column's id.
    pub(crate) fn has_key_id(&self, row: u64, id: u32) -> Result<bool> {
        Ok(self.id(row, 0)? == id)
    }

    /// The number of a column.
    pub(crate) fn column(&self, number: usize) -> Result<&Dictionary<M>> {
        self.columns.get(number).ok_or(ColumnError::Unfit { what: "a column of this number" })
    }
}

/// Writes the header of a table of these columns, whose object is zero; nothing leads to it yet.
pub(crate) fn store_header<M: Memory>(memory: &M, at: u64, kinds: &[Kind]) {
    let numbers: Vec<u8> = kinds.iter().map(|kind| *kind as u8).collect();
    memory.copy(Off::new(at + KINDS_AT), &numbers);
    memory.store(Off::new(at), kinds.len() as u64);
    memory.flush(Range::new(at, KINDS_AT + kinds.len() as u64));
}
