//! A row as it is stored, whatever its form: columns are read, keys made and changes put in from
//! the word or the bytes of each column.

use pm::{Bad, Bytes};

use crate::rows::catalog::TableLayout;
use crate::rows::key::{TableKey, key_of_fields};
use crate::rows::row::{Row, RowField};
use crate::rows::value::{ColumnType, Value};

pub(crate) fn damaged() -> Bad {
    Bad::Damaged { what: "row of a table", at: 0 }
}

/// A stored row of a table.
pub trait StoredRow<'a> {
    /// Its table.
    fn layout(&self) -> &'a TableLayout;

    /// The word of a column of numbers.
    fn word(&self, column: usize) -> u64;

    /// The bytes of a column of text or bytes.
    ///
    /// # Errors
    /// Damage.
    fn part(&self, column: usize) -> Result<Bytes<'a>, Bad>;

    /// The type of a column.
    #[inline]
    fn kind(&self, column: usize) -> ColumnType {
        self.layout().schema.columns()[column].kind
    }

    /// Copies columns, all of them if none are named, into `row`.
    ///
    /// # Errors
    /// Damage.
    fn read(&self, columns: Option<&[u16]>, row: &mut Row) -> Result<(), Bad> {
        row.fields.clear();
        row.bytes.clear();
        let mut add = |column: usize| -> Result<(), Bad> {
            let kind = self.kind(column);
            let field = if kind.max_bytes().is_some() {
                let part = self.part(column)?;
                let start = row.bytes.len();
                part.append_to(&mut row.bytes);
                // The copy is looked at, which stays as it is.
                let text = matches!(kind, ColumnType::Text { .. });
                if text && std::str::from_utf8(&row.bytes[start..]).is_err() {
                    return Err(damaged());
                }
                RowField { kind: Some(kind), word: start as u64, len: part.len() as u32 }
            } else {
                RowField { kind: Some(kind), word: self.word(column), len: 0 }
            };
            row.fields.push(field);
            Ok(())
        };
        match columns {
            None => (0..self.layout().schema.columns().len()).try_for_each(add),
            Some(columns) => columns.iter().try_for_each(|column| add(usize::from(*column))),
        }
    }

    /// Copies columns in sequence into `out`, numbers as eight little-endian bytes. Returns how
    /// many bytes they have; copies nothing if `out` is shorter.
    ///
    /// # Errors
    /// Damage.
    fn read_bytes(&self, columns: &[u16], out: &mut [u8]) -> Result<usize, Bad> {
        let is_number = |column: u16| self.kind(usize::from(column)).max_bytes().is_none();
        let mut total = 0;
        for column in columns {
            let number = is_number(*column);
            total += if number { 8 } else { self.part(usize::from(*column))?.len() };
        }
        let Some(mut rest) = out.get_mut(..total) else { return Ok(total) };
        for column in columns {
            let at = usize::from(*column);
            if is_number(*column) {
                let (now, later) = rest.split_at_mut(8);
                now.copy_from_slice(&self.word(at).to_le_bytes());
                rest = later;
            } else {
                let part = self.part(at)?;
                let (now, later) = rest.split_at_mut(part.len());
                part.copy_to(now);
                rest = later;
            }
        }
        Ok(total)
    }

    /// The row's key in an index; 0 is the primary one.
    ///
    /// # Errors
    /// Damage.
    fn key(&self, index: usize) -> Result<TableKey, Bad> {
        key_of_fields(
            self.layout().key_layout(index),
            |column| Ok(self.word(usize::from(column))),
            |column, _, builder, max| {
                let part = self.part(usize::from(column))?;
                if part.len() > max as usize {
                    return Err(damaged());
                }
                builder.bytes(max, part);
                Ok(())
            },
        )
    }

    /// Returns what a column has after these changes, of which the last one counts.
    ///
    /// # Errors
    /// Damage.
    #[doc(hidden)]
    fn part_with<'b>(&self, column: usize, changes: &[(u16, Value<'b>)]) -> Result<Part<'b>, Bad>
    where
        'a: 'b,
    {
        let change = changes.iter().rev().find(|(changed, _)| usize::from(*changed) == column);
        match change {
            Some((_, value)) => Ok(Part::of(value)),
            None if self.kind(column).max_bytes().is_some() => Ok(Part::Bytes(self.part(column)?)),
            None => Ok(Part::Word(self.word(column))),
        }
    }
}

/// The value of a column, on its way into a row.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// A number.
    Word(u64),
    /// Text or bytes.
    Bytes(Bytes<'a>),
}

impl<'a> Part<'a> {
    pub(crate) fn of(value: &Value<'a>) -> Self {
        match value.as_word() {
            Some(word) => Self::Word(word),
            None => value.as_bytes().map_or(Self::Word(0), |bytes| Self::Bytes(bytes.into())),
        }
    }
}
