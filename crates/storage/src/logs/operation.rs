//! The operations of a transaction as the file log of the traditional engines holds them (P1 3.1,
//! 3.3): table, tuple, images before and after.
//!
//! A record is the sequence of a transaction's operations. Each is one byte for the kind, two for
//! the table's number, then values. A tuple is named by its primary key. Numbers have eight bytes;
//! text and bytes follow their length in four.

use pm::Bad;

use crate::limits::MAX_COLUMNS;
use crate::rows::catalog::{Catalog, TableLayout};
use crate::rows::value::{ColumnType, Value};

const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;

fn begin(out: &mut Vec<u8>, kind: u8, table: u16) {
    out.clear();
    out.push(kind);
    out.extend_from_slice(&table.to_le_bytes());
}

/// Writes an insertion.
pub fn insert(out: &mut Vec<u8>, table: u16, values: &[Value<'_>]) {
    begin(out, INSERT, table);
    values.iter().for_each(|value| encode(out, value));
}

/// Writes an update: of each column the value before and after.
///
/// # Panics
/// There are more changes than an update can have.
pub fn update<'v>(
    out: &mut Vec<u8>,
    table: u16,
    key: &[Value<'_>],
    changes: impl ExactSizeIterator<Item = (u16, Value<'v>, Value<'v>)>,
) {
    assert!(changes.len() <= MAX_COLUMNS, "the changes of an update have been checked");
    begin(out, UPDATE, table);
    key.iter().for_each(|value| encode(out, value));
    out.extend_from_slice(&(changes.len() as u16).to_le_bytes());
    for (column, before, after) in changes {
        out.extend_from_slice(&column.to_le_bytes());
        encode(out, &before);
        encode(out, &after);
    }
}

/// Writes a deletion, with the tuple as it was.
pub fn delete<'v>(
    out: &mut Vec<u8>,
    table: u16,
    key: &[Value<'_>],
    before: impl Iterator<Item = Value<'v>>,
) {
    begin(out, DELETE, table);
    key.iter().for_each(|value| encode(out, value));
    before.for_each(|value| encode(out, &value));
}

/// Appends a value: a number in eight bytes; text and bytes after their length in four.
pub fn encode(out: &mut Vec<u8>, value: &Value<'_>) {
    let bytes = match value {
        // It has been stored as what its column holds meanwhile.
        Value::Null => unreachable!("what is stored is never NULL"),
        Value::U64(number) => return out.extend_from_slice(&number.to_le_bytes()),
        Value::I64(number) => return out.extend_from_slice(&number.to_le_bytes()),
        Value::F64(number) => return out.extend_from_slice(&number.to_le_bytes()),
        Value::Bool(truth) => return out.extend_from_slice(&u64::from(*truth).to_le_bytes()),
        Value::Text(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
    };
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Bytes of a value, encoded.
pub fn value_bytes(value: &Value<'_>) -> u64 {
    match value {
        Value::Text(text) => 4 + text.len() as u64,
        Value::Bytes(bytes) => 4 + bytes.len() as u64,
        _ => 8,
    }
}

/// Bytes that a deletion has at most, of a tuple of any table.
pub fn longest_deletion(catalog: &Catalog) -> u64 {
    let most = |kind: ColumnType| kind.max_bytes().map_or(8, |bytes| 4 + u64::from(bytes));
    let of_table = |table: &TableLayout| {
        let tuple: u64 = table.schema.columns().iter().map(|column| most(column.kind)).sum();
        3 + tuple + key_kinds(table).map(most).sum::<u64>()
    };
    catalog.tables.iter().map(|table| of_table(table)).max().unwrap_or(0)
}

fn malformed() -> Bad {
    Bad::Damaged { what: "logged operation", at: 0 }
}

/// A logged operation.
#[derive(Clone, PartialEq, Debug)]
pub enum Operation<'a> {
    /// A tuple with these values was inserted.
    Insert {
        /// The values, one for each column.
        values: Vec<Value<'a>>,
    },
    /// Columns of the tuple with this primary key were changed.
    Update {
        /// The primary key.
        key: Vec<Value<'a>>,
        /// The columns with their new values.
        changes: Vec<(u16, Value<'a>)>,
        /// Bytes of the values that these columns had, encoded.
        before_bytes: u64,
    },
    /// The tuple with this primary key was deleted.
    Delete {
        /// The primary key.
        key: Vec<Value<'a>>,
        /// The values that it had.
        before: Vec<Value<'a>>,
    },
}

/// Reads the operations of a record, each with the number of its table.
#[derive(Clone, Copy, Debug)]
pub struct Operations<'a> {
    catalog: &'a Catalog,
    rest: Decoder<'a>,
}

impl<'a> Operations<'a> {
    /// The operations of a record.
    pub fn new(catalog: &'a Catalog, record: &'a [u8]) -> Self {
        Self { catalog, rest: Decoder::new(record) }
    }

    fn read(&mut self) -> Result<(u16, Operation<'a>), Bad> {
        let decoder = &mut self.rest;
        let [kind] = decoder.array()?;
        let number = decoder.u16()?;
        let table = table_of(self.catalog, number)?;
        let operation = match kind {
            INSERT => Operation::Insert { values: decoder.values(kinds(table))? },
            UPDATE => {
                let key = decoder.values(key_kinds(table))?;
                let (mut changes, mut before_bytes) = (Vec::new(), 0);
                for _ in 0..decoder.u16()? {
                    let column = decoder.u16()?;
                    let declared = table.schema.columns().get(usize::from(column));
                    let kind = declared.ok_or_else(malformed)?.kind;
                    before_bytes += value_bytes(&decoder.value(kind)?);
                    changes.push((column, decoder.value(kind)?));
                }
                Operation::Update { key, changes, before_bytes }
            }
            DELETE => {
                let key = decoder.values(key_kinds(table))?;
                Operation::Delete { key, before: decoder.values(kinds(table))? }
            }
            _ => return Err(malformed()),
        };
        Ok((number, operation))
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Result<(u16, Operation<'a>), Bad>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.0.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = Decoder::new(&[]);
        }
        Some(read)
    }
}

/// The layout of a table whose number was read.
///
/// # Errors
/// There is no such table.
pub fn table_of(catalog: &Catalog, number: u16) -> Result<&TableLayout, Bad> {
    Ok(catalog.tables.get(usize::from(number)).ok_or_else(malformed)?)
}

/// The types of a table's columns.
pub fn kinds(table: &TableLayout) -> impl Iterator<Item = ColumnType> {
    table.schema.columns().iter().map(|column| column.kind)
}

/// The types of the primary key's columns.
pub fn key_kinds(table: &TableLayout) -> impl Iterator<Item = ColumnType> {
    table.key_columns().map(|column| table.schema.columns()[column].kind)
}

/// Reads what [`encode`] wrote.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    /// Returns a decoder of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Bad> {
        let (head, rest) = self.0.split_at_checked(bytes).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        self.take(N)?.try_into().map_err(|_| malformed())
    }

    /// Two little-endian bytes.
    ///
    /// # Errors
    /// There are not so many.
    pub fn u16(&mut self) -> Result<u16, Bad> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn value(&mut self, kind: ColumnType) -> Result<Value<'a>, Bad> {
        let Some(max) = kind.max_bytes() else {
            let word = u64::from_le_bytes(self.array()?);
            return kind.checked_number(word).ok_or_else(malformed);
        };
        let len = u32::from_le_bytes(self.array()?);
        if len > max {
            return Err(malformed());
        }
        let bytes = self.take(len as usize)?;
        Ok(match kind {
            ColumnType::Text { .. } => {
                Value::Text(std::str::from_utf8(bytes).map_err(|_| malformed())?)
            }
            _ => Value::Bytes(bytes),
        })
    }

    /// Values of these types.
    ///
    /// # Errors
    /// The bytes are others.
    pub fn values(
        &mut self,
        kinds: impl Iterator<Item = ColumnType>,
    ) -> Result<Vec<Value<'a>>, Bad> {
        kinds.map(|kind| self.value(kind)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::schema::{Schema, TableSchema};

    #[test]
    fn operations_come_back_and_damaged_ones_are_refused() {
        let table = TableSchema::new("t")
            .column("a", ColumnType::U64)
            .column("b", ColumnType::Text { max: 5 })
            .column("c", ColumnType::F64)
            .key(&["b", "a"]);
        let catalog = Catalog::new(&Schema::new().table(table)).unwrap();
        let values = [Value::U64(1), Value::Text("two"), Value::F64(3.0)];
        let key = [Value::Text("two"), Value::U64(1)];
        let (mut record, mut one) = (Vec::new(), Vec::new());
        insert(&mut one, 0, &values);
        record.extend_from_slice(&one);
        update(&mut one, 0, &key, [(2, Value::F64(3.0), Value::F64(4.0))].into_iter());
        record.extend_from_slice(&one);
        delete(&mut one, 0, &key, values.iter().copied());
        assert!(one.len() as u64 <= longest_deletion(&catalog));
        assert_eq!(longest_deletion(&catalog), 3 + (8 + 9 + 8) + (9 + 8));
        record.extend_from_slice(&one);
        let read: Vec<_> = Operations::new(&catalog, &record).map(Result::unwrap).collect();
        let (key, change) = (key.to_vec(), vec![(2, Value::F64(4.0))]);
        assert_eq!(
            read,
            [
                (0, Operation::Insert { values: values.to_vec() }),
                (0, Operation::Update { key: key.clone(), changes: change, before_bytes: 8 }),
                (0, Operation::Delete { key, before: values.to_vec() }),
            ]
        );
        for len in 0..record.len() {
            // Never a panic; an end between two operations is none of an operation's business.
            let _ = Operations::new(&catalog, &record[..len]).count();
        }
        assert!(
            Operations::new(&catalog, &[INSERT, 1, 0]).next().unwrap().is_err(),
            "no such table"
        );
    }
}
