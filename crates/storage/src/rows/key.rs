//! Keys in memcomparable encoding: comparing the bytes compares the values, column by column.
//!
//! | column | bytes |
//! |---|---|
//! | u8 to u64 | big-endian, as many bytes as the type has |
//! | i8 to i64 | the same with the sign bit flipped |
//! | timestamp | as i64 |
//! | bool | one byte, 0 or 1 |
//! | f64 | big-endian, sign bit flipped, or all bits if it was set; `-0.0` as `0.0`, every NaN as 7ff8000000000000 |
//! | uuid | its 16 bytes |
//! | text, bytes | the bytes, zeros up to the column's maximum, the length in two bytes |
//!
//! A column that can be NULL, which only secondary indexes have, begins with one byte more: 0 if it
//! is NULL, and zeros follow, else 1. So NULL comes before every value.
//!
//! The length after the padding keeps `"a"` before `"a\0"`. Zeros fill a key up to a multiple of
//! eight bytes. A key of numbers that has eight bytes then is packed into one word, whose order is
//! that of the bytes.

use std::ops::Bound;

use index::{LongKey, WideKey};
use pm::{Bad, Bytes};

use crate::error::StorageError;
use crate::rows::catalog::{KeyLayout, TableLayout, encoded_bytes};
use crate::rows::fits::{check_number, check_value, number_bytes};
use crate::rows::schema::TableSchema;
use crate::rows::value::{ColumnType, Value};

/// A key of a table's index.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation; the hot path of narrow keys moves none of these"
)]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TableKey {
    /// Numbers that fit into eight bytes, packed.
    Narrow(u64),
    /// Anything else of at most [`index::WIDE_KEY_BYTES`].
    Wide(WideKey),
    /// Anything wider.
    Long(LongKey),
}

impl TableKey {
    /// The key of an index with these memcomparable bytes, the padding at their end perhaps left
    /// out.
    pub(crate) fn from_encoded(layout: &KeyLayout, bytes: &[u8]) -> Self {
        if layout.narrow {
            Self::Narrow(packed_bytes(bytes))
        } else if layout.is_long() {
            Self::Long(LongKey::new(bytes, layout.width))
        } else {
            Self::Wide(WideKey::new(bytes, layout.width))
        }
    }
}

/// Builds a key column by column.
pub(crate) struct KeyBuilder {
    key: TableKey,
    len: usize,
    /// All values of the current column have the same length, so no length follows them.
    fixed: bool,
}

impl KeyBuilder {
    pub(crate) fn new(layout: &KeyLayout) -> Self {
        let key = if layout.is_long() {
            TableKey::Long(LongKey::zeros(layout.width))
        } else {
            TableKey::Wide(WideKey::zeros(layout.width))
        };
        Self { key, len: 0, fixed: false }
    }

    pub(crate) fn number(&mut self, kind: ColumnType, word: u64) {
        let bytes = number_bytes(kind);
        self.put(Bytes::from(&ordered_word(kind, word).to_be_bytes()[8 - bytes..]));
    }

    /// Says whether a column that can be NULL is, before its value; what comes in its place if it
    /// is are zeros.
    fn null(&mut self, kind: ColumnType, null: bool) {
        self.put(Bytes::from(&[u8::from(!null)][..]));
        if null {
            self.len += encoded_bytes(kind);
        }
    }

    /// The caller has checked the value against its type.
    fn value(&mut self, kind: ColumnType, value: &Value<'_>) {
        if let Some(word) = value.as_word() {
            return self.number(kind, word);
        }
        if let (Some(max), Some(bytes)) = (kind.max_bytes(), value.as_bytes()) {
            self.fixed = kind == ColumnType::Uuid;
            self.bytes(max, bytes.into());
        }
    }

    /// The caller has checked that there are at most `max` bytes.
    pub(crate) fn bytes(&mut self, max: u32, bytes: Bytes<'_>) {
        let max = max as usize;
        assert!(bytes.len() <= max, "the value fits its column");
        self.put(bytes);
        self.len += max - bytes.len();
        if !self.fixed {
            self.put(Bytes::from(&(bytes.len() as u16).to_be_bytes()[..]));
        }
    }

    fn put(&mut self, bytes: Bytes<'_>) {
        let (from, to) = (self.len, self.len + bytes.len());
        bytes.copy_to(&mut self.bytes_mut()[from..to]);
        self.len = to;
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.key {
            TableKey::Wide(key) => key.bytes_mut(),
            TableKey::Long(key) => key.bytes_mut(),
            TableKey::Narrow(_) => &mut [],
        }
    }

    pub(crate) fn finish(mut self, fill: u8) -> TableKey {
        let len = self.len;
        self.bytes_mut()[len..].fill(fill);
        self.key
    }
}

/// A number whose order as an unsigned integer of the type's size is that of the values.
#[inline]
fn ordered_word(kind: ColumnType, word: u64) -> u64 {
    const SIGN: u64 = 1 << 63;
    match kind {
        ColumnType::U8 => word & 0xff,
        ColumnType::U16 => word & 0xffff,
        ColumnType::U32 => word & 0xffff_ffff,
        ColumnType::I8 => (word ^ 0x80) & 0xff,
        ColumnType::I16 => (word ^ 0x8000) & 0xffff,
        ColumnType::I32 => (word ^ 0x8000_0000) & 0xffff_ffff,
        ColumnType::I64 | ColumnType::Timestamp => word ^ SIGN,
        ColumnType::F64 => ordered_float(f64::from_bits(word)),
        ColumnType::Bool => word & 1,
        _ => word,
    }
}

/// Returns a number whose order is that of floating-point numbers in keys: one for both zeros, and
/// one for all NaNs, above all others.
fn ordered_float(number: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    // Adding zero makes a positive zero of the negative one, and nothing else of anything else.
    let word = if number.is_nan() { f64::NAN.to_bits() & !SIGN } else { (number + 0.0).to_bits() };
    if word & SIGN == 0 { word ^ SIGN } else { !word }
}

/// Compares floating-point numbers as keys do.
pub fn compare_floats(one: f64, two: f64) -> std::cmp::Ordering {
    ordered_float(one).cmp(&ordered_float(two))
}

/// Packs numbers into one word, most significant first.
struct Packed {
    word: u64,
    /// Bits that are free still.
    left: u32,
}

impl Packed {
    fn new() -> Self {
        Self { word: 0, left: 64 }
    }

    #[inline]
    fn put(&mut self, kind: ColumnType, word: u64) {
        self.left = self.left.saturating_sub(8 * number_bytes(kind) as u32);
        self.word |= ordered_word(kind, word) << self.left;
    }

    /// The word, whose free bits are those of `fill`.
    fn finish(self, fill: u8) -> u64 {
        if fill == 0 { self.word } else { self.word | !(!0u64).unbounded_shl(self.left) }
    }
}

/// The packed key with these memcomparable bytes.
pub(crate) fn packed_bytes(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(word)
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
    encode_prefix(table, layout, values, 0)
}

/// The key of a table whose primary key is packed.
#[inline]
pub(crate) fn narrow_key(layout: &TableLayout, values: &[Value<'_>]) -> Result<u64, StorageError> {
    let keys = &layout.primary;
    if values.len() != keys.columns.len() {
        return Err(wrong_count(keys, keys.own_columns, values.len()));
    }
    pack(&layout.schema, keys, values, 0)
}

#[inline]
fn pack(
    table: &TableSchema,
    layout: &KeyLayout,
    values: &[Value<'_>],
    fill: u8,
) -> Result<u64, StorageError> {
    let mut packed = Packed::new();
    for ((column, kind), value) in layout.columns.iter().zip(&layout.kinds).zip(values) {
        packed.put(*kind, check_number(table, *column, value)?);
    }
    Ok(packed.finish(fill))
}

/// The packed key of a tuple with these words.
#[inline]
pub(crate) fn packed_words(layout: &KeyLayout, words: &[u64]) -> u64 {
    let mut packed = Packed::new();
    for (column, kind) in layout.columns.iter().zip(&layout.kinds) {
        packed.put(*kind, words[usize::from(*column)]);
    }
    packed.finish(0)
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
    if layout.narrow {
        return Ok(TableKey::Narrow(pack(table, layout, values, fill)?));
    }
    let mut builder = KeyBuilder::new(layout);
    for (place, ((column, kind), value)) in
        layout.columns.iter().zip(&layout.kinds).zip(values).enumerate()
    {
        if layout.is_nullable() && layout.null_bit(place).is_some() {
            builder.null(*kind, *value == Value::Null);
            if *value == Value::Null {
                continue;
            }
        }
        check_value(table, *column, value)?;
        builder.value(*kind, value);
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
    let encode = |values: &[Value<'_>], fill| encode_prefix(table, layout, values, fill);
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

/// The key of a tuple whose values, as they are stored, `value` gives; they have been checked.
pub(crate) fn key_of_values<'v>(layout: &KeyLayout, value: impl Fn(u16) -> Value<'v>) -> TableKey {
    if layout.narrow {
        let mut packed = Packed::new();
        for (column, kind) in layout.columns.iter().zip(&layout.kinds) {
            packed.put(*kind, value(*column).as_word().unwrap_or(0));
        }
        return TableKey::Narrow(packed.finish(0));
    }
    let mut builder = KeyBuilder::new(layout);
    for (place, (column, kind)) in layout.columns.iter().zip(&layout.kinds).enumerate() {
        if layout.is_nullable()
            && let Some(bit) = layout.null_bit(place)
        {
            let null = value(bit.word).as_word().unwrap_or(0) & bit.mask != 0;
            builder.null(*kind, null);
            if null {
                continue;
            }
        }
        builder.value(*kind, &value(*column));
    }
    builder.finish(0)
}

/// Returns the key of the primary index from the bytes of a key of secondary index `index`, where
/// it follows the index's own columns.
pub(crate) fn primary_in_secondary(
    table: &TableLayout,
    index: usize,
    bytes: &[u8],
) -> Option<TableKey> {
    let key = table.secondary[index].primary_part(bytes)?;
    Some(TableKey::from_encoded(&table.primary, key))
}

/// The key of a stored tuple, field by field: `field` gives the word of a column and, for text and
/// bytes, calls back with the bytes.
pub(crate) fn key_of_fields(
    layout: &KeyLayout,
    mut word: impl FnMut(u16) -> Result<u64, Bad>,
    mut bytes: impl FnMut(u16, u64, &mut KeyBuilder, u32) -> Result<(), Bad>,
) -> Result<TableKey, Bad> {
    if layout.narrow {
        let mut packed = Packed::new();
        for (column, kind) in layout.columns.iter().zip(&layout.kinds) {
            packed.put(*kind, word(*column)?);
        }
        return Ok(TableKey::Narrow(packed.finish(0)));
    }
    let mut builder = KeyBuilder::new(layout);
    for (place, (column, kind)) in layout.columns.iter().zip(&layout.kinds).enumerate() {
        if layout.is_nullable()
            && let Some(bit) = layout.null_bit(place)
        {
            let null = word(bit.word)? & bit.mask != 0;
            builder.null(*kind, null);
            if null {
                continue;
            }
        }
        let field = word(*column)?;
        match kind.max_bytes() {
            Some(max) => {
                builder.fixed = *kind == ColumnType::Uuid;
                bytes(*column, field, &mut builder, max)?;
            }
            None => builder.number(*kind, field),
        }
    }
    debug_assert_eq!(builder.len, layout.bytes);
    Ok(builder.finish(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::catalog::Catalog;
    use crate::rows::schema::Schema;
    use proptest::prelude::*;

    fn catalog() -> Catalog {
        let table = TableSchema::new("t")
            .column("a", ColumnType::I64)
            .column("b", ColumnType::Text { max: 6 })
            .column("c", ColumnType::F64)
            .column("d", ColumnType::U64)
            .key(&["a", "b", "c", "d"]);
        Catalog::new(&Schema::new().table(table)).unwrap()
    }

    fn bytes_of(key: TableKey) -> Vec<u8> {
        match key {
            TableKey::Narrow(key) => key.to_be_bytes().to_vec(),
            TableKey::Wide(key) => key.as_bytes().to_vec(),
            TableKey::Long(key) => key.as_bytes().to_vec(),
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
                .then(compare_floats(c.0, c.1))
                .then(d.0.cmp(&d.1));
            prop_assert_eq!(encode(a.0, &b.0, c.0, d.0).cmp(&encode(second, &b.1, c.1, d.1)), order);
        }
    }

    #[test]
    fn floats_in_keys_have_one_zero_and_one_nan_at_the_end() {
        let nan = f64::from_bits(0xfff4_0000_0000_0abc);
        let tiny = f64::from_bits(1);
        let ascending = [f64::NEG_INFINITY, f64::MIN, -tiny, 0.0, tiny, 1.0, f64::INFINITY, nan];
        for pair in ascending.windows(2) {
            assert!(compare_floats(pair[0], pair[1]).is_lt(), "{pair:?}");
        }
        assert!(compare_floats(-0.0, 0.0).is_eq() && compare_floats(nan, f64::NAN).is_eq());
        assert!(compare_floats(-f64::NAN, f64::NAN).is_eq());
    }

    /// Small integers of both kinds, packed, and the same with a column that does not fit any more.
    fn small(more: bool) -> Catalog {
        let table = TableSchema::new("t")
            .column("a", ColumnType::I16)
            .column("b", ColumnType::U8)
            .column("c", ColumnType::I32)
            .column("d", ColumnType::U32);
        let key: &[&str] = if more { &["a", "b", "c", "d"] } else { &["a", "b", "c"] };
        Catalog::new(&Schema::new().table(table.key(key).index("by_b", &["b"]))).unwrap()
    }

    proptest! {
        #[test]
        fn packed_keys_are_in_the_order_of_their_values(
            a in any::<(i16, i16)>(), b in any::<(u8, u8)>(), c in any::<(i32, i32)>(),
            same in 0..3u32, more in any::<bool>(),
        ) {
            let catalog = small(more);
            let table = &catalog.tables[0];
            prop_assert_eq!(table.primary.narrow, !more);
            let second = (
                if same > 0 { a.0 } else { a.1 },
                if same > 1 { b.0 } else { b.1 },
                c.1,
            );
            let values = |(a, b, c): (i16, u8, i32)| {
                [Value::I64(a.into()), Value::U64(b.into()), Value::I64(c.into()), Value::U64(7)]
            };
            let key = |of| {
                let values = values(of);
                let key = &values[..if more { 4 } else { 3 }];
                encode_key(&table.schema, &table.primary, key).unwrap()
            };
            let (x, y) = ((a.0, b.0, c.0), second);
            prop_assert_eq!(bytes_of(key(x)).cmp(&bytes_of(key(y))), x.cmp(&y));
            // The other ways to make a key make the same one.
            let stored = values(x);
            prop_assert_eq!(
                key_of_values(&table.primary, |column| stored[usize::from(column)]),
                key(x)
            );
            let word = |column: u16| Ok(stored[usize::from(column)].as_word().unwrap());
            prop_assert_eq!(key_of_fields(&table.primary, word, |_, _, _, _| Ok(())).unwrap(), key(x));
            // A secondary key leads to its primary one.
            let secondary = &table.secondary[0];
            let entry = bytes_of(key_of_values(secondary, |column| stored[usize::from(column)]));
            prop_assert_eq!(primary_in_secondary(table, 0, &entry), Some(key(x)));
            // A prefix has in it just the keys that start with it.
            let prefix = [stored[0], stored[1]];
            let (low, high) = encode_range(
                &table.schema,
                &table.primary,
                Bound::Included(&prefix[..]),
                Bound::Included(&prefix[..]),
            )
            .unwrap();
            let (Bound::Included(low), Bound::Included(high)) = (low, high) else { panic!() };
            let other = bytes_of(key(y));
            prop_assert_eq!(
                bytes_of(low) <= other && other <= bytes_of(high),
                (x.0, x.1) == (y.0, y.1)
            );
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
        let (low, high) = (bytes_of(low), bytes_of(high));
        assert!(low <= key("ab") && key("ab") <= high);
        assert!(key("aa") < low && high < key("ab\0"));
    }

    #[test]
    fn wrong_values_are_refused_with_the_column_s_name() {
        let catalog = catalog();
        let table = &catalog.tables[0];
        let encode = |values: &[Value<'_>]| {
            encode_key(&table.schema, &table.primary, values).unwrap_err().to_string()
        };
        assert!(encode(&[Value::I64(1)]).contains("takes 4 values, not 1"));
        let wrong = [Value::Bool(true), Value::Text(""), Value::F64(0.0), Value::U64(0)];
        assert!(encode(&wrong).contains("column `a` holds i64, not bool"));
        let long = [Value::I64(1), Value::Text("seven b"), Value::F64(0.0), Value::U64(0)];
        assert!(encode(&long).contains("column `b` holds at most 6 bytes, not 7"));
    }
}
