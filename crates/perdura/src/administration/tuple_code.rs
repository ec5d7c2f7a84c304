//! Tuples as bytes that depend on their schema and on nothing else, and sums over many of them.
//!
//! A number has eight bytes, little-endian; text and bytes have their length in four bytes before
//! them; null words come last. It is drawn in `docs/format/backup.md`.

use engines::below::{ColumnType, Row, TableSchema, Value};

/// Appends the values of a tuple of a table, and its null words: a column that is NULL is zero or
/// empty.
pub(crate) fn encode<'v>(
    table: &TableSchema,
    values: impl Iterator<Item = Value<'v>>,
    out: &mut Vec<u8>,
) {
    let (mut nullable, mut nulls) = (0, Vec::new());
    for (column, value) in table.columns().iter().zip(values) {
        match value {
            Value::U64(number) => out.extend(number.to_le_bytes()),
            Value::I64(number) => out.extend(number.to_le_bytes()),
            Value::F64(number) => out.extend(number.to_bits().to_le_bytes()),
            Value::Bool(truth) => out.extend(u64::from(truth).to_le_bytes()),
            Value::Text(text) => put_bytes(text.as_bytes(), out),
            Value::Bytes(bytes) => put_bytes(bytes, out),
            Value::Null if column.kind.max_bytes().is_some() => put_bytes(&[], out),
            Value::Null => out.extend([0; 8]),
        }
        if column.nullable {
            nulls.resize(nullable / 64 + 1, 0u64);
            nulls[nullable / 64] |= u64::from(value == Value::Null) << (nullable % 64);
            nullable += 1;
        }
    }
    nulls.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    // A value has 16 MiB at most.
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Takes the values of a tuple from the front of `bytes`, and them off it.
///
/// # Errors
/// The fault of the bytes.
pub(crate) fn decode<'b>(
    table: &TableSchema,
    bytes: &mut &'b [u8],
    values: &mut Vec<Value<'b>>,
) -> Result<(), &'static str> {
    values.clear();
    for column in table.columns() {
        values.push(match column.kind {
            ColumnType::Text { .. } => {
                let text = std::str::from_utf8(take_bytes(bytes)?);
                Value::Text(text.map_err(|_| "a text is not UTF-8")?)
            }
            kind if kind.max_bytes().is_some() => Value::Bytes(take_bytes(bytes)?),
            kind => {
                let number = kind.checked_number(take_word(bytes)?);
                number.ok_or("a value that its column cannot have")?
            }
        });
    }
    let nullable = table.columns().iter().zip(values).filter(|(column, _)| column.nullable);
    let (mut word, mut left) = (0, 0);
    for (_, value) in nullable {
        if left == 0 {
            (word, left) = (take_word(bytes)?, 64);
        }
        if word & 1 != 0 {
            if !is_nothing(value) {
                return Err("a column that is NULL has a value");
            }
            *value = Value::Null;
        }
        (word, left) = (word >> 1, left - 1);
    }
    if word == 0 { Ok(()) } else { Err("a null word has a bit that is no column's") }
}

/// Returns true if a value is what a column holds while it is NULL.
fn is_nothing(value: &Value<'_>) -> bool {
    match *value {
        Value::U64(number) => number == 0,
        Value::I64(number) => number == 0,
        Value::F64(number) => number.to_bits() == 0,
        Value::Bool(truth) => !truth,
        Value::Text(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Null => true,
    }
}

fn take<'b>(bytes: &mut &'b [u8], count: usize) -> Result<&'b [u8], &'static str> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or("a tuple is cut off")?;
    *bytes = rest;
    Ok(taken)
}

fn take_word(bytes: &mut &[u8]) -> Result<u64, &'static str> {
    let word = take(bytes, 8)?.try_into().map_err(|_| "a tuple is cut off")?;
    Ok(u64::from_le_bytes(word))
}

fn take_bytes<'b>(bytes: &mut &'b [u8]) -> Result<&'b [u8], &'static str> {
    let count = take(bytes, 4)?.try_into().map_err(|_| "a tuple is cut off")?;
    take(bytes, u32::from_le_bytes(count) as usize)
}

/// A number of tuples, and a sum over all of them that does not depend on their order: of the
/// CRC-32C of each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    pub(crate) tuples: u64,
    pub(crate) sum: u64,
}

impl Tally {
    /// Adds a tuple that has been encoded.
    pub(crate) fn add(&mut self, encoded: &[u8]) {
        self.tuples += 1;
        self.sum = self.sum.wrapping_add(u64::from(crc32c::crc32c(encoded)));
    }

    /// Takes a tuple off again.
    pub(crate) fn take(&mut self, encoded: &[u8]) {
        self.tuples = self.tuples.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(u64::from(crc32c::crc32c(encoded)));
    }

    /// Adds a row.
    pub(crate) fn add_row(&mut self, table: &TableSchema, row: &Row, buffer: &mut Vec<u8>) {
        buffer.clear();
        encode(table, row.values(), buffer);
        self.add(buffer);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table() -> TableSchema {
        TableSchema::new("t")
            .column("a", ColumnType::U16)
            .column("b", ColumnType::I64)
            .column("c", ColumnType::F64)
            .column("d", ColumnType::Text { max: 100 })
            .column("e", ColumnType::Bytes { max: 100 })
            .column("f", ColumnType::Uuid)
            .nullable()
            .column("g", ColumnType::Bool)
            .nullable()
            .key(&["a"])
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(
            a in any::<u16>(), b in any::<i64>(), c in any::<u64>(), d in "\\PC{0,20}",
            e in prop::collection::vec(any::<u8>(), 0..30), f in any::<Option<[u8; 16]>>(),
            g in any::<Option<bool>>(), cut in any::<prop::sample::Index>(),
        ) {
            let c = f64::from_bits(c);
            let values = [
                Value::U64(a.into()), Value::I64(b), Value::F64(c), Value::Text(&d),
                Value::Bytes(&e), f.as_ref().map_or(Value::Null, |f| Value::Bytes(f)),
                g.map_or(Value::Null, Value::Bool),
            ];
            let mut bytes = Vec::new();
            encode(&table(), values.iter().copied(), &mut bytes);
            let (mut rest, mut found) = (&bytes[..], Vec::new());
            decode(&table(), &mut rest, &mut found).unwrap();
            prop_assert!(rest.is_empty());
            let mut again = Vec::new();
            prop_assert_eq!(&found[5..], &values[5..]);
            encode(&table(), found.iter().copied(), &mut again);
            prop_assert_eq!(&again, &bytes);
            let mut short = &bytes[..cut.index(bytes.len())];
            prop_assert!(decode(&table(), &mut short, &mut found).is_err());
        }
    }

    #[test]
    fn impossible_null_words_are_refused() {
        let table = TableSchema::new("t")
            .column("a", ColumnType::U16)
            .column("b", ColumnType::U16)
            .nullable()
            .key(&["a"]);
        let decoded = |b: u64, nulls: u64| {
            let bytes = [1u64, b, nulls].map(u64::to_le_bytes).concat();
            let mut values = Vec::new();
            let done = decode(&table, &mut &bytes[..], &mut values);
            done.map(|()| values[1] == Value::Null)
        };
        assert_eq!((decoded(0, 0), decoded(7, 0), decoded(0, 1)), (Ok(false), Ok(false), Ok(true)));
        assert_eq!(decoded(7, 1), Err("a column that is NULL has a value"));
        assert_eq!(decoded(0, 2), Err("a null word has a bit that is no column's"));
    }
}
