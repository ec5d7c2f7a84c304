//! Keys of the tests' tables: the first column is the primary key, and every table has an index of its
//! second column.

use std::borrow::Cow;

use column::{ColumnError, Field, FirstColumn, IndexKey, Keys};

/// See the module's comment. `unique`: no two rows may have the same value in the second column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed {
    pub(crate) unique: bool,
}

/// A value, so that none is the start of another one, in their order.
fn put(field: &Field, out: &mut Vec<u8>) {
    match field {
        Field::Null => out.push(0),
        Field::Word(word) => {
            out.push(1);
            out.extend(word.to_be_bytes());
        }
        Field::Bytes(bytes) => {
            out.push(2);
            for byte in bytes {
                out.extend(if *byte == 0 { &[0, 1][..] } else { std::slice::from_ref(byte) });
            }
            out.extend([0, 0]);
        }
    }
}

/// The length of a value at the start of a key, which may be damaged.
fn length(key: &[u8]) -> usize {
    let end = || key[1..].windows(2).position(|pair| pair == [0, 0]);
    let length = match key.first() {
        None => 0,
        Some(0) => 1,
        Some(1) => 9,
        Some(_) => 3 + end().unwrap_or(key.len()),
    };
    length.min(key.len())
}

impl Keys for Keyed {
    fn count(&self, _: usize) -> usize {
        2
    }

    fn columns(&self, _: usize, index: usize) -> &[usize] {
        if index == 0 { &[0] } else { &[0, 1] }
    }

    fn key(&self, table: usize, index: usize, row: &[Field]) -> Result<IndexKey, ColumnError> {
        let primary = FirstColumn.key(table, 0, row)?;
        if index == 0 {
            return Ok(primary);
        }
        let mut bytes = Vec::new();
        put(&row[1], &mut bytes);
        let unique = (self.unique && row[1] != Field::Null).then_some(bytes.len());
        bytes.extend(primary.bytes);
        Ok(IndexKey { bytes, unique })
    }

    fn primary<'k>(&self, _: usize, _: usize, key: &'k [u8]) -> Cow<'k, [u8]> {
        key[length(key)..].into()
    }

    fn is_exact(&self, table: usize) -> bool {
        // Both ways of looking for a key are used.
        table == 0
    }
}
