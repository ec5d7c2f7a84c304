//! Keys in memcomparable encoding: comparing the bytes compares the values, column by column.
//!
//! | column | bytes |
//! |---|---|
//! | u64 | big-endian |
//! | i64 | big-endian with the sign bit flipped |
//! | f64 | big-endian, sign bit flipped, or all bits if it was set: the order of `total_cmp` |
//! | text, bytes | the bytes, zeros up to the column's maximum, the length in two bytes |
//!
//! The length behind the padding keeps `"a"` before `"a\0"`.

use std::ops::Bound;

use index::WideKey;
use pm::Bad;

use crate::error::StorageError;
use crate::schema::{KeyLayout, TableLayout, TableSchema, encoded_bytes};
use crate::value::{ColumnType, Value};

/// A key of a table's index.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation; the hot path of narrow keys moves none of these"
)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableKey {
    /// A single number.
    Narrow(u64),
    /// Anything else.
    Wide(WideKey),
}

/// Builds a key column by column.
pub(crate) struct KeyBuilder {
    key: WideKey,
    len: usize,
}

impl KeyBuilder {
    pub(crate) fn new(layout: &KeyLayout) -> Self {
        Self { key: WideKey::zeros(layout.width), len: 0 }
    }

    pub(crate) fn number(&mut self, kind: ColumnType, word: u64) {
        let ordered = ordered_word(kind, word);
        self.put(&ordered.to_be_bytes());
    }

    /// The caller has checked that there are at most `max` bytes.
    pub(crate) fn bytes(&mut self, max: u32, bytes: &[u8]) {
        let max = max as usize;
        assert!(bytes.len() <= max, "the value fits its column");
        self.put(bytes);
        self.len += max - bytes.len();
        self.put(&(bytes.len() as u16).to_be_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        self.key.bytes_mut()[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    pub(crate) fn finish(mut self, fill: u8) -> TableKey {
        self.key.bytes_mut()[self.len..].fill(fill);
        TableKey::Wide(self.key)
    }
}

/// A number whose order as `u64` is that of the values.
pub(crate) fn ordered_word(kind: ColumnType, word: u64) -> u64 {
    const SIGN: u64 = 1 << 63;
    match kind {
        ColumnType::I64 => word ^ SIGN,
        ColumnType::F64 if word & SIGN != 0 => !word,
        ColumnType::F64 => word ^ SIGN,
        _ => word,
    }
}

/// Checks a value against its column.
#[inline]
pub(crate) fn check_value(
    table: &TableSchema,
    column: u16,
    value: &Value<'_>,
) -> Result<(), StorageError> {
    let declared = &table.columns()[usize::from(column)];
    let matches = matches!(
        (declared.kind, value),
        (ColumnType::U64, Value::U64(_))
            | (ColumnType::I64, Value::I64(_))
            | (ColumnType::F64, Value::F64(_))
            | (ColumnType::Text { .. }, Value::Text(_))
            | (ColumnType::Bytes { .. }, Value::Bytes(_))
    );
    let bytes = value.as_bytes().map_or(0, <[u8]>::len);
    match declared.kind.max_bytes() {
        _ if !matches => Err(StorageError::WrongType {
            column: declared.name.clone(),
            wanted: declared.kind.to_string(),
            found: value.type_name(),
        }),
        Some(max) if bytes > max as usize => {
            Err(StorageError::TooLarge { column: declared.name.clone(), bytes, max })
        }
        _ => Ok(()),
    }
}

/// The key with exactly these values.
#[inline]
pub(crate) fn encode_key(
    table: &TableSchema,
    layout: &KeyLayout,
    values: &[Value<'_>],
) -> Result<TableKey, StorageError> {
    if values.len() != layout.columns.len() {
        return Err(wrong_count(layout, layout.own_columns, values.len()));
    }
    if layout.narrow {
        check_value(table, layout.columns[0], &values[0])?;
        let kind = table.columns()[usize::from(layout.columns[0])].kind;
        return Ok(TableKey::Narrow(ordered_word(kind, values[0].as_word().unwrap_or(0))));
    }
    encode_prefix(table, layout, values, 0)
}

/// The key of a table whose primary key is a single number.
#[inline]
pub(crate) fn narrow_key(layout: &TableLayout, value: &Value<'_>) -> Result<u64, StorageError> {
    let column = layout.primary.columns[0];
    check_value(&layout.schema, column, value)?;
    let kind = layout.schema.columns()[usize::from(column)].kind;
    Ok(ordered_word(kind, value.as_word().unwrap_or(0)))
}

/// The key of an index on a single number, of a tuple with these words.
#[inline]
pub(crate) fn ordered_field(table: &TableSchema, layout: &KeyLayout, words: &[u64]) -> u64 {
    let column = usize::from(layout.columns[0]);
    ordered_word(table.columns()[column].kind, words[column])
}

/// The key that starts with these values; the rest is filled up with `fill`.
fn encode_prefix(
    table: &TableSchema,
    layout: &KeyLayout,
    values: &[Value<'_>],
    fill: u8,
) -> Result<TableKey, StorageError> {
    if values.len() > layout.columns.len() {
        return Err(wrong_count(layout, layout.columns.len(), values.len()));
    }
    let mut builder = KeyBuilder::new(layout);
    for (column, value) in layout.columns.iter().zip(values) {
        check_value(table, *column, value)?;
        let kind = table.columns()[usize::from(*column)].kind;
        match (kind.max_bytes(), value.as_bytes()) {
            (Some(max), Some(bytes)) => builder.bytes(max, bytes),
            _ => builder.number(kind, value.as_word().unwrap_or(0)),
        }
    }
    Ok(builder.finish(fill))
}

/// The bounds of a scan. A bound may give only the first columns of a key: then it speaks for all
/// keys that start with them.
pub(crate) fn encode_range(
    table: &TableSchema,
    layout: &KeyLayout,
    low: Bound<&[Value<'_>]>,
    high: Bound<&[Value<'_>]>,
) -> Result<(Bound<TableKey>, Bound<TableKey>), StorageError> {
    let encode = |values: &[Value<'_>], fill| {
        if layout.narrow {
            encode_key(table, layout, values)
        } else {
            encode_prefix(table, layout, values, fill)
        }
    };
    let low = match low {
        Bound::Included(values) if !values.is_empty() => Bound::Included(encode(values, 0)?),
        Bound::Excluded(values) if !values.is_empty() => Bound::Excluded(encode(values, !0)?),
        _ => Bound::Unbounded,
    };
    let high = match high {
        Bound::Included(values) if !values.is_empty() => Bound::Included(encode(values, !0)?),
        Bound::Excluded(values) if !values.is_empty() => Bound::Excluded(encode(values, 0)?),
        _ => Bound::Unbounded,
    };
    Ok((low, high))
}

fn wrong_count(layout: &KeyLayout, wanted: usize, found: usize) -> StorageError {
    StorageError::WrongCount { what: layout.what.clone(), wanted, found }
}

/// The key of a stored tuple, field by field: `field` gives the word of a column and, for text and
/// bytes, calls back with the bytes.
pub(crate) fn key_of_fields(
    table: &TableSchema,
    layout: &KeyLayout,
    mut word: impl FnMut(u16) -> Result<u64, Bad>,
    mut bytes: impl FnMut(u16, u64, &mut KeyBuilder, u32) -> Result<(), Bad>,
) -> Result<TableKey, Bad> {
    if layout.narrow {
        let column = layout.columns[0];
        let kind = table.columns()[usize::from(column)].kind;
        return Ok(TableKey::Narrow(ordered_word(kind, word(column)?)));
    }
    let mut builder = KeyBuilder::new(layout);
    for column in &layout.columns {
        let kind = table.columns()[usize::from(*column)].kind;
        let field = word(*column)?;
        match kind.max_bytes() {
            Some(max) => bytes(*column, field, &mut builder, max)?,
            None => builder.number(kind, field),
        }
    }
    debug_assert!(builder.len <= layout.width && encoded_bytes(ColumnType::U64) == 8);
    Ok(builder.finish(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Catalog, Schema};
    use proptest::prelude::*;

    fn catalog() -> Catalog {
        let table = TableSchema::new("t")
            .column("a", ColumnType::I64)
            .column("b", ColumnType::Text { max: 6 })
            .column("c", ColumnType::F64)
            .column("d", ColumnType::U64)
            .key(&["a", "b", "c", "d"]);
        Catalog::new(&Schema::new().table(table), 512).unwrap()
    }

    fn bytes_of(key: TableKey) -> Vec<u8> {
        match key {
            TableKey::Wide(key) => key.as_bytes().to_vec(),
            TableKey::Narrow(key) => key.to_be_bytes().to_vec(),
        }
    }

    proptest! {
        #[test]
        fn the_order_of_the_bytes_is_the_order_of_the_values(
            a in any::<(i64, i64)>(), same in any::<bool>(),
            b in ("[a-c\\x00]{0,6}", "[a-c\\x00]{0,6}"), c in any::<(f64, f64)>(),
            d in any::<(u64, u64)>(),
        ) {
            let catalog = catalog();
            let table = &catalog.tables[0];
            let second = if same { a.0 } else { a.1 };
            let encode = |a, b: &String, c, d| {
                let values = [Value::I64(a), Value::Text(b), Value::F64(c), Value::U64(d)];
                bytes_of(encode_key(&table.schema, &table.primary, &values).unwrap())
            };
            let order = a.0.cmp(&second)
                .then(b.0.as_bytes().cmp(b.1.as_bytes()))
                .then(c.0.total_cmp(&c.1))
                .then(d.0.cmp(&d.1));
            prop_assert_eq!(encode(a.0, &b.0, c.0, d.0).cmp(&encode(second, &b.1, c.1, d.1)), order);
        }
    }

    #[test]
    fn a_prefix_bounds_all_keys_that_start_with_it() {
        let catalog = catalog();
        let table = &catalog.tables[0];
        let prefix = [Value::I64(-3), Value::Text("ab")];
        let (low, high) = encode_range(
            &table.schema,
            &table.primary,
            Bound::Included(&prefix[..]),
            Bound::Included(&prefix[..]),
        )
        .unwrap();
        let (Bound::Included(low), Bound::Included(high)) = (low, high) else { panic!() };
        let key = |text| {
            let values = [Value::I64(-3), Value::Text(text), Value::F64(1.5), Value::U64(u64::MAX)];
            bytes_of(encode_key(&table.schema, &table.primary, &values).unwrap())
        };
        assert!(bytes_of(low) <= key("ab") && key("ab") <= bytes_of(high));
        assert!(key("aa") < bytes_of(low) && bytes_of(high) < key("ab\0"));
    }

    #[test]
    fn wrong_values_are_refused_with_the_column_s_name() {
        let catalog = catalog();
        let table = &catalog.tables[0];
        let encode = |values: &[Value<'_>]| {
            encode_key(&table.schema, &table.primary, values).unwrap_err().to_string()
        };
        assert!(encode(&[Value::I64(1)]).contains("takes 4 values, not 1"));
        let wrong = [Value::U64(1), Value::Text(""), Value::F64(0.0), Value::U64(0)];
        assert!(encode(&wrong).contains("column `a` holds i64, not u64"));
        let long = [Value::I64(1), Value::Text("seven b"), Value::F64(0.0), Value::U64(0)];
        assert!(encode(&long).contains("column `b` holds at most 6 bytes, not 7"));
    }
}
