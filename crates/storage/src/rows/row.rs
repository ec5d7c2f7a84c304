//! A row that is read: a copy of a tuple, or of some of its columns.

use std::sync::Arc;

use crate::rows::names::RowNames;
use crate::rows::value::{ColumnType, UUID_BYTES, Value};

/// A column of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowField {
    /// `None`: it is NULL.
    pub(crate) kind: Option<ColumnType>,
    /// The number, or where the bytes start in the row's buffer.
    pub(crate) word: u64,
    pub(crate) len: u32,
}

/// A tuple, or some of its columns, copied out of the database. Meant to be used again and again:
/// filling a row that has been filled before allocates nothing.
#[derive(Default)]
pub struct Row {
    pub(crate) fields: Vec<RowField>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) parts: Vec<pm::Range>,
    /// The place of each column, while a tuple is put together from several entries.
    pub(crate) by_column: Vec<RowField>,
    /// The words of a tuple that comes together from several entries.
    pub(crate) words: Vec<u64>,
    /// None if the names were not given.
    pub(crate) names: Option<Arc<RowNames>>,
}

/// Rows are moved in every update of some engines; what is longer is copied by a call.
const _: () = assert!(size_of::<Row>() <= 128);

impl Row {
    /// An empty row.
    pub fn new() -> Self {
        Self::default()
    }

    /// The buffer, empty, that a stored row is copied into, whose columns
    /// [`PackedLayout::show`](crate::PackedLayout::show) makes the row's. Until then it has none.
    #[doc(hidden)]
    pub fn stored_mut(&mut self) -> &mut Vec<u8> {
        self.fields.clear();
        self.bytes.clear();
        &mut self.bytes
    }

    /// Returns how many columns the row has.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns whether the row has no columns.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The value of a column, by its position among the columns that were asked for.
    ///
    /// # Panics
    /// The row has no such column.
    pub fn get(&self, column: usize) -> Value<'_> {
        let field = &self.fields[column];
        match field.kind {
            None => Value::Null,
            // Text was found to be UTF-8 when the row was filled.
            Some(ColumnType::Text { .. }) => {
                Value::Text(std::str::from_utf8(self.field_bytes(field)).unwrap_or_default())
            }
            Some(ColumnType::Bytes { .. } | ColumnType::Uuid) => {
                Value::Bytes(self.field_bytes(field))
            }
            Some(kind) => kind.number(field.word).unwrap_or(Value::Null),
        }
    }

    /// Returns whether a column is NULL. The methods that are named after types panic if it is.
    ///
    /// # Panics
    /// The row has no such column.
    pub fn is_null(&self, column: usize) -> bool {
        self.fields[column].kind.is_none()
    }

    fn field_bytes(&self, field: &RowField) -> &[u8] {
        &self.bytes[field.word as usize..][..field.len as usize]
    }

    /// The value of a column of an unsigned integer type.
    ///
    /// # Panics
    /// The row has no such column, or it has another type.
    pub fn u64(&self, column: usize) -> u64 {
        match self.get(column) {
            Value::U64(number) => number,
            other => wrong_type(column, "u64", other),
        }
    }

    /// The value of a column of a signed integer type.
    ///
    /// # Panics
    /// As [`Row::u64`].
    pub fn i64(&self, column: usize) -> i64 {
        match self.get(column) {
            Value::I64(number) => number,
            other => wrong_type(column, "i64", other),
        }
    }

    /// The value of an `f64` column.
    ///
    /// # Panics
    /// As [`Row::u64`].
    pub fn f64(&self, column: usize) -> f64 {
        match self.get(column) {
            Value::F64(number) => number,
            other => wrong_type(column, "f64", other),
        }
    }

    /// The value of a text column.
    ///
    /// # Panics
    /// As [`Row::u64`].
    pub fn text(&self, column: usize) -> &str {
        match self.get(column) {
            Value::Text(text) => text,
            other => wrong_type(column, "text", other),
        }
    }

    /// The value of a bytes column.
    ///
    /// # Panics
    /// As [`Row::u64`].
    pub fn bytes(&self, column: usize) -> &[u8] {
        let field = &self.fields[column];
        match field.kind {
            Some(ColumnType::Bytes { .. } | ColumnType::Uuid) => self.field_bytes(field),
            _ => wrong_type(column, "bytes", self.get(column)),
        }
    }

    /// The value of a `bool` column.
    ///
    /// # Panics
    /// As [`Row::u64`].
    pub fn bool(&self, column: usize) -> bool {
        match self.get(column) {
            Value::Bool(truth) => truth,
            other => wrong_type(column, "bool", other),
        }
    }

    /// The value of a `uuid` column.
    ///
    /// # Panics
    /// As [`Row::u64`].
    pub fn uuid(&self, column: usize) -> [u8; UUID_BYTES as usize] {
        match self.get(column) {
            Value::Bytes(bytes) if bytes.len() == UUID_BYTES as usize => {
                let mut uuid = [0; UUID_BYTES as usize];
                uuid.copy_from_slice(bytes);
                uuid
            }
            other => wrong_type(column, "uuid", other),
        }
    }

    /// Copies the values in sequence to the start of `out`, numbers as eight little-endian bytes;
    /// NULL has none.
    ///
    /// # Panics
    /// `out` is too short.
    pub fn copy_bytes(&self, mut out: &mut [u8]) {
        for field in &self.fields {
            let number;
            let bytes = match field.kind {
                None => &[][..],
                Some(kind) if kind.max_bytes().is_some() => self.field_bytes(field),
                Some(_) => {
                    number = field.word.to_le_bytes();
                    &number[..]
                }
            };
            let (here, rest) = out.split_at_mut(bytes.len());
            here.copy_from_slice(bytes);
            out = rest;
        }
    }

    /// Makes it the same as another one.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.fields.clone_from(&other.fields);
        self.bytes.clone_from(&other.bytes);
    }

    /// All values in order.
    pub fn values(&self) -> impl Iterator<Item = Value<'_>> {
        (0..self.len()).map(|column| self.get(column))
    }
}

#[cold]
fn wrong_type(column: usize, wanted: &str, found: Value<'_>) -> ! {
    panic!("column {column} of the row is {}, not {wanted}", found.type_name());
}
