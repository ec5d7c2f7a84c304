//! Entries of all sources, and the assembly of tuples from them.

use pm::{Bad, Memory};

use super::cache::Found;
use super::change::{Change, Coalescing, ColumnSet};
use super::error::LsmError;
use super::memtable::MemEntry;
use super::record::{MALFORMED, Record};
use crate::rows::catalog::TableLayout;
use crate::rows::row::{Row, RowField};
use crate::rows::value::ColumnType;

/// An entry of a run.
#[derive(Debug)]
pub enum Entry<'a, M: Memory> {
    /// The entry is in a MemTable.
    Memory(MemEntry<'a, M>),
    /// The entry is in an SSTable.
    Stored(Record<Found<'a, M>>),
}

impl<M: Memory> Entry<'_, M> {
    /// Returns whether it is a tombstone.
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        match self {
            Self::Memory(entry) => entry.is_tombstone(),
            Self::Stored(record) => record.is_tombstone(),
        }
    }

    fn is_whole(&self) -> Result<bool, Bad> {
        match self {
            Self::Memory(entry) => entry.is_whole(),
            Self::Stored(record) => Ok(record.is_whole()),
        }
    }

    fn change(&self) -> Result<Change, Bad> {
        match self {
            Self::Memory(entry) => entry.change(),
            Self::Stored(record) => Ok(record.change()),
        }
    }

    /// Appends a column's value to the row's bytes.
    #[inline]
    fn take(&self, layout: &TableLayout, column: u16, row: &mut Row) -> Result<RowField, LsmError> {
        let start = row.bytes.len();
        match self {
            Self::Memory(entry) => entry.append(column, &mut row.bytes)?,
            Self::Stored(record) => {
                let malformed = || LsmError::damaged("a run", 0, MALFORMED);
                record.column(column).ok_or_else(malformed)?.append_to(&mut row.bytes);
            }
        }
        let kind = layout.schema.columns()[usize::from(column)].kind;
        let value = &row.bytes[start..];
        let damaged = || LsmError::from(Bad::Damaged { what: "value of a column", at: 0 });
        match kind.max_bytes() {
            None => {
                let word = u64::from_le_bytes(value.try_into().map_err(|_| damaged())?);
                row.bytes.truncate(start);
                Ok(RowField { kind: Some(kind), word, len: 0 })
            }
            Some(max) => {
                let text = matches!(kind, ColumnType::Text { .. });
                if value.len() > max as usize || text && std::str::from_utf8(value).is_err() {
                    return Err(damaged());
                }
                Ok(RowField { kind: Some(kind), word: start as u64, len: value.len() as u32 })
            }
        }
    }
}

/// A tuple that is put together in a row from its entries, newest first.
#[derive(Debug)]
pub struct Assembly<'a> {
    layout: &'a TableLayout,
    columns: Option<&'a [u16]>,
    row: &'a mut Row,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No entry yet.
    New,
    /// All there is to say has been said.
    Done(bool),
    Parts(Box<Coalescing>),
}

impl<'a> Assembly<'a> {
    /// Columns of a tuple, all if none are named, into a row.
    #[inline]
    pub fn new(layout: &'a TableLayout, columns: Option<&'a [u16]>, row: &'a mut Row) -> Self {
        row.fields.clear();
        row.bytes.clear();
        Self { layout, columns, row, state: State::New }
    }

    /// Adds the next older entry. Returns whether no older one is needed.
    ///
    /// # Errors
    /// The entry does not fit the table.
    #[inline]
    pub fn add<M: Memory>(&mut self, entry: &Entry<'_, M>) -> Result<bool, LsmError> {
        if matches!(self.state, State::New) {
            if entry.is_tombstone() {
                self.state = State::Done(false);
                return Ok(true);
            }
            if entry.is_whole()? {
                // The columns asked for, in one pass.
                let Self { layout, columns, row, .. } = self;
                let mut take = |column: u16| {
                    let field = entry.take(layout, column, row)?;
                    row.fields.push(field);
                    Ok::<_, LsmError>(())
                };
                let all = layout.schema.columns().len() as u16;
                if let Entry::Stored(record) = entry {
                    match *columns {
                        None => record.read_together(0, all.saturating_sub(1)),
                        Some(some) => {
                            // Consecutive columns, the usual request.
                            if let [first, .., last] = *some
                                && usize::from(last.wrapping_sub(first)) == some.len() - 1
                            {
                                record.read_together(first, last);
                            }
                        }
                    }
                }
                match columns {
                    None => (0..all).try_for_each(take)?,
                    Some(columns) => columns.iter().try_for_each(|column| take(*column))?,
                }
                self.state = State::Done(true);
                return Ok(true);
            }
        }
        self.add_part(entry)
    }

    #[cold]
    fn add_part<M: Memory>(&mut self, entry: &Entry<'_, M>) -> Result<bool, LsmError> {
        let all = self.layout.schema.columns().len();
        if matches!(self.state, State::New) {
            let wanted = match self.columns {
                None => ColumnSet::first(all),
                Some(columns) => columns.iter().copied().collect(),
            };
            self.state = State::Parts(Box::new(Coalescing::new(wanted)));
            // Where each column is, until they are put in the order asked for.
            let nothing = RowField { kind: None, word: 0, len: 0 };
            self.row.by_column.clear();
            self.row.by_column.resize(all, nothing);
        }
        let State::Parts(coalescing) = &mut self.state else { return Ok(true) };
        let taken = coalescing.add(&entry.change()?);
        let settled = coalescing.is_complete();
        for column in taken.iter() {
            let field = entry.take(self.layout, column, self.row)?;
            self.row.by_column[usize::from(column)] = field;
        }
        Ok(settled)
    }

    /// Returns whether there is such a tuple; if so, the row has it.
    ///
    /// # Errors
    /// Columns are missing.
    #[inline]
    pub fn finish(self) -> Result<bool, LsmError> {
        match self.state {
            State::New => Ok(false),
            State::Done(found) => Ok(found),
            State::Parts(coalescing) => {
                let found = coalescing.finish()?;
                let Row { fields, by_column, .. } = self.row;
                match self.columns {
                    None => fields.extend_from_slice(by_column),
                    Some(columns) => {
                        let place = |column: &u16| by_column[usize::from(*column)];
                        fields.extend(columns.iter().map(place));
                    }
                }
                Ok(found)
            }
        }
    }
}
