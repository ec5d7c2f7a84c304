//! Packed rows: no column takes more than its value and, for text and bytes, its length.
//!
//! ```text
//! | column 0 | column 1 | ... | bytes of the first column that has some | of the next one | ...
//! ```
//!
//! A number takes as many little-endian bytes as its type has. Text and bytes have their length
//! there, in the fewest of 1, 2 or 4 bytes that can hold the column's maximum; the bytes themselves
//! follow all columns, in their order. A UUID is sixteen bytes without a length, unless it can be
//! NULL.

use std::cell::Cell;

use pm::{Bad, Bytes};

use crate::error::StorageError;
use crate::rows::catalog::TableLayout;
use crate::rows::row::{Row, RowField};
use crate::rows::stored::{Part, StoredRow, damaged};
use crate::rows::value::{ColumnType, UUID_BYTES, Value};

/// The places of a table's columns in its packed rows.
#[derive(Clone, Debug)]
pub struct PackedLayout {
    columns: Vec<PackedColumn>,
    /// Bytes in front of those of text and bytes.
    fixed: usize,
}

#[derive(Clone, Copy, Debug)]
struct PackedColumn {
    kind: ColumnType,
    at: usize,
    /// Bytes of the number, or of the length.
    bytes: usize,
    holds: Holds,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holds {
    Number {
        signed: bool,
    },
    Length,
    /// All of the value.
    Value,
}

impl PackedLayout {
    /// The places of a table's columns.
    pub fn new(layout: &TableLayout) -> Self {
        let mut at = 0;
        let columns = layout.schema.columns().iter().map(|column| {
            let kind = column.kind;
            let (bytes, holds) = match (kind.number_bytes(), kind.max_bytes()) {
                (Some(bytes), _) => (bytes as usize, Holds::Number { signed: is_signed(kind) }),
                (None, _) if kind == ColumnType::Uuid && !column.nullable => {
                    (UUID_BYTES as usize, Holds::Value)
                }
                (None, max) => (length_bytes(max.unwrap_or(u32::MAX)), Holds::Length),
            };
            let place = PackedColumn { kind, at, bytes, holds };
            at += bytes;
            place
        });
        let columns = columns.collect();
        Self { columns, fixed: at }
    }

    /// Bytes of a row whose text and bytes are empty.
    pub fn least_bytes(&self) -> usize {
        self.fixed
    }

    /// Makes `row` have columns of the stored row whose bytes [`Row::stored_mut`] was given, all of
    /// them if none are named. Nothing is copied.
    ///
    /// # Errors
    /// Damage.
    pub fn show(&self, columns: Option<&[u16]>, row: &mut Row) -> Result<(), Bad> {
        let Row { fields, bytes, .. } = row;
        fields.clear();
        if bytes.len() < self.fixed {
            return Err(damaged());
        }
        let stored = Bytes::from(&*bytes);
        let mut reached = (0, self.fixed);
        let mut add = |column: usize| -> Result<(), Bad> {
            let place = &self.columns[column];
            let (word, len) = match place.holds {
                Holds::Number { signed } => (word_of(stored, place.at, place.bytes, signed), 0),
                Holds::Value => (place.at as u64, place.bytes as u32),
                Holds::Length => {
                    let start = self.start(stored, &mut reached, column);
                    let len = word_of(stored, place.at, place.bytes, false) as usize;
                    let part = bytes.get(start..start + len).ok_or_else(damaged)?;
                    let is_text = matches!(place.kind, ColumnType::Text { .. });
                    if is_text && std::str::from_utf8(part).is_err() {
                        return Err(damaged());
                    }
                    (start as u64, len as u32)
                }
            };
            fields.push(RowField { kind: Some(place.kind), word, len });
            Ok(())
        };
        match columns {
            None => (0..self.columns.len()).try_for_each(add),
            Some(columns) => columns.iter().try_for_each(|column| add(usize::from(*column))),
        }
    }

    /// Returns where the bytes of a column with a length begin. `reached` is a column, and where
    /// bytes of columns with a length begin that are not before it: columns are mostly asked for
    /// one after the other, and each start follows from the one before.
    #[inline]
    fn start(&self, stored: Bytes<'_>, reached: &mut (usize, usize), column: usize) -> usize {
        let (from, before) = if reached.0 <= column { *reached } else { (0, self.fixed) };
        let between = self.columns[from..column].iter();
        let lengths = between.filter(|place| place.holds == Holds::Length);
        let length = |place: &PackedColumn| word_of(stored, place.at, place.bytes, false) as usize;
        let start = before + lengths.map(length).sum::<usize>();
        *reached = (column, start);
        start
    }
}

fn is_signed(kind: ColumnType) -> bool {
    kind.integer_range().is_some_and(|(least, _)| least < 0)
}

fn length_bytes(max: u32) -> usize {
    match max {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

/// The number in some little-endian bytes, which are there, with its sign in all bits of the word.
#[inline]
fn word_of(bytes: Bytes<'_>, at: usize, len: usize, signed: bool) -> u64 {
    let word = match len {
        1 => u64::from(bytes.byte(at)),
        2 => u64::from(u16::from_le_bytes(bytes.array(at))),
        4 => u64::from(u32::from_le_bytes(bytes.array(at))),
        _ => u64::from_le_bytes(bytes.array(at)),
    };
    let free = 64 - 8 * len as u32;
    if signed { ((word << free).cast_signed() >> free).cast_unsigned() } else { word }
}

/// A packed row of a table.
#[derive(Clone, Debug)]
pub struct PackedRow<'a> {
    layout: &'a TableLayout,
    packed: &'a PackedLayout,
    bytes: Bytes<'a>,
    /// See [`PackedLayout::start`].
    reached: Cell<(usize, usize)>,
}

impl<'a> PackedRow<'a> {
    /// The row that these bytes are.
    ///
    /// # Errors
    /// They are none of this table.
    #[inline]
    pub fn new(
        layout: &'a TableLayout,
        packed: &'a PackedLayout,
        bytes: Bytes<'a>,
    ) -> Result<Self, Bad> {
        let row = Self { layout, packed, bytes, reached: Cell::new((0, packed.fixed)) };
        if bytes.len() < packed.fixed { Err(damaged()) } else { Ok(row) }
    }

    /// Puts the row with other values of some columns into `out`; of several values for a column
    /// the last one counts.
    ///
    /// # Errors
    /// Damage.
    pub fn with_changes(&self, changes: &[(u16, Value<'_>)], out: &mut Vec<u8>) -> Result<(), Bad> {
        if self.start(self.packed.columns.len()) != self.bytes.len() {
            return Err(damaged());
        }
        out.clear();
        self.bytes.append_to(out);
        for (column, value) in changes {
            let column = usize::from(*column);
            let place = &self.packed.columns[column];
            match (Part::of(value), place.holds) {
                (Part::Word(word), Holds::Number { .. }) => {
                    let word = &word.to_le_bytes()[..place.bytes];
                    out[place.at..place.at + place.bytes].copy_from_slice(word);
                }
                (Part::Bytes(bytes), Holds::Value) => {
                    bytes.copy_to(&mut out[place.at..place.at + place.bytes]);
                }
                (Part::Bytes(bytes), _) if bytes.len() == self.part(column)?.len() => {
                    let start = self.start(column);
                    bytes.copy_to(&mut out[start..start + bytes.len()]);
                }
                // Bytes move.
                _ => return put(self.packed, out, |column| self.part_with(column, changes)),
            }
        }
        Ok(())
    }

    /// Returns where the bytes of a column with a length begin.
    #[inline]
    fn start(&self, column: usize) -> usize {
        let mut reached = self.reached.get();
        let start = self.packed.start(self.bytes, &mut reached, column);
        self.reached.set(reached);
        start
    }

    /// The length of a column's bytes.
    #[inline]
    fn length(&self, place: &PackedColumn) -> usize {
        word_of(self.bytes, place.at, place.bytes, false) as usize
    }
}

impl<'a> StoredRow<'a> for PackedRow<'a> {
    #[inline]
    fn layout(&self) -> &'a TableLayout {
        self.layout
    }

    #[inline]
    fn word(&self, column: usize) -> u64 {
        let place = &self.packed.columns[column];
        match place.holds {
            Holds::Number { signed } => word_of(self.bytes, place.at, place.bytes, signed),
            Holds::Length | Holds::Value => 0,
        }
    }

    fn read_bytes(&self, columns: &[u16], out: &mut [u8]) -> Result<usize, Bad> {
        let bytes_of = |column: &u16| {
            let place = &self.packed.columns[usize::from(*column)];
            match place.holds {
                Holds::Number { .. } => 8,
                Holds::Value => place.bytes,
                Holds::Length => self.length(place),
            }
        };
        let total = columns.iter().map(bytes_of).sum();
        if out.len() < total {
            // Lengths that are too large are damage, and no reason for a longer buffer.
            for column in columns.iter().map(|column| usize::from(*column)) {
                if self.packed.columns[column].holds == Holds::Length {
                    self.part(column)?;
                }
            }
            return Ok(total);
        }
        let mut rest = &mut out[..total];
        for column in columns {
            let (at, len) = (usize::from(*column), bytes_of(column));
            let (now, later) = rest.split_at_mut(len);
            match self.packed.columns[at].holds {
                Holds::Number { .. } => now.copy_from_slice(&self.word(at).to_le_bytes()),
                Holds::Length | Holds::Value => self.part(at)?.copy_to(now),
            }
            rest = later;
        }
        Ok(total)
    }

    #[inline]
    fn part(&self, column: usize) -> Result<Bytes<'a>, Bad> {
        let place = &self.packed.columns[column];
        if place.holds == Holds::Value {
            return self.bytes.get(place.at, place.bytes).ok_or_else(damaged);
        }
        let start = self.start(column);
        self.bytes.get(start, self.length(place)).ok_or_else(damaged)
    }
}

fn put<'a>(
    packed: &PackedLayout,
    out: &mut Vec<u8>,
    mut part: impl FnMut(usize) -> Result<Part<'a>, Bad>,
) -> Result<(), Bad> {
    out.clear();
    out.resize(packed.fixed, 0);
    for (column, place) in packed.columns.iter().enumerate() {
        let word = match part(column)? {
            Part::Word(word) => word,
            Part::Bytes(bytes) if place.holds == Holds::Value => {
                bytes.copy_to(&mut out[place.at..place.at + place.bytes]);
                continue;
            }
            Part::Bytes(bytes) => {
                bytes.append_to(out);
                bytes.len() as u64
            }
        };
        let word = &word.to_le_bytes()[..place.bytes];
        out[place.at..place.at + place.bytes].copy_from_slice(word);
    }
    Ok(())
}

/// Puts the packed row with these values into `out`.
///
/// # Errors
/// Wrong number, type or length of values.
pub fn pack_row(
    layout: &TableLayout,
    packed: &PackedLayout,
    values: &[Value<'_>],
    out: &mut Vec<u8>,
) -> Result<(), StorageError> {
    layout.check_tuple(values)?;
    Ok(put(packed, out, |column| Ok(Part::of(&values[column])))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::catalog::Catalog;
    use crate::rows::schema::{Schema, TableSchema};
    use proptest::prelude::*;

    fn catalog() -> Catalog {
        let table = TableSchema::new("t")
            .column("id", ColumnType::U32)
            .column("small", ColumnType::I8)
            .column("name", ColumnType::Text { max: 20 })
            .column("short", ColumnType::I16)
            .column("long", ColumnType::Bytes { max: 70_000 })
            .column("who", ColumnType::Uuid)
            .column("score", ColumnType::F64)
            .column("middle", ColumnType::Bytes { max: 300 })
            .column("wide", ColumnType::I64)
            .column("flag", ColumnType::Bool)
            .key(&["id", "name"])
            .index("by_who", &["who", "small"]);
        Catalog::new(&Schema::new().table(table)).unwrap()
    }

    #[test]
    fn a_row_takes_its_values_and_a_few_bytes() {
        let table = TableSchema::new("r")
            .column("k", ColumnType::U64)
            .column("v", ColumnType::Bytes { max: 255 })
            .key(&["k"]);
        let catalog = Catalog::new(&Schema::new().table(table)).unwrap();
        let layout = &catalog.tables[0];
        let packed = PackedLayout::new(layout);
        let mut out = Vec::new();
        pack_row(layout, &packed, &[Value::U64(1), Value::Bytes(&[7; 56])], &mut out).unwrap();
        assert_eq!(out.len(), 65);
    }

    proptest! {
        #[test]
        fn rows_come_back_and_change_column_by_column(
            id in any::<u32>(), small in any::<i8>(), name in "[a-z]{0,20}", short in any::<i16>(),
            long in proptest::collection::vec(any::<u8>(), 0..600), who in any::<[u8; 16]>(),
            score in any::<i32>(), middle in proptest::collection::vec(any::<u8>(), 0..300),
            wide in any::<i64>(), flag in any::<bool>(),
        ) {
            let catalog = catalog();
            let layout = &catalog.tables[0];
            let packed = PackedLayout::new(layout);
            let values = [
                Value::U64(u64::from(id)), Value::I64(i64::from(small)), Value::Text(&name),
                Value::I64(i64::from(short)), Value::Bytes(&long), Value::Bytes(&who),
                Value::F64(f64::from(score)), Value::Bytes(&middle), Value::I64(wide),
                Value::Bool(flag),
            ];
            let (mut bytes, mut changed, mut row) = (Vec::new(), Vec::new(), Row::new());
            pack_row(layout, &packed, &values, &mut bytes).unwrap();
            let sizes = name.len() + long.len() + middle.len();
            prop_assert_eq!(bytes.len(), packed.least_bytes() + sizes);
            let stored = PackedRow::new(layout, &packed, Bytes::from(&bytes)).unwrap();
            stored.read(None, &mut row).unwrap();
            prop_assert!(row.values().eq(values));
            stored.read(Some(&[7, 3, 2]), &mut row).unwrap();
            prop_assert!(row.values().eq([values[7], values[3], values[2]]));
            let mut shown = Row::new();
            shown.stored_mut().extend_from_slice(&bytes);
            packed.show(None, &mut shown).unwrap();
            prop_assert!(shown.values().eq(values));
            packed.show(Some(&[7, 3, 2, 5]), &mut shown).unwrap();
            prop_assert!(shown.values().eq([values[7], values[3], values[2], values[5]]));
            let key = stored.key(0).unwrap();
            prop_assert_eq!(key, layout.primary_key(&[values[0], values[2]]).unwrap());

            let mut inline = Vec::new();
            crate::rows::inline::encode_row(layout, &values, &mut inline).unwrap();
            let inline = crate::rows::inline::InlineRow::new(layout, Bytes::from(&inline)).unwrap();
            prop_assert_eq!(stored.key(1).unwrap(), inline.key(1).unwrap());
            let (mut one, mut other) = (vec![0; 2000], vec![0; 2000]);
            let columns: Vec<u16> = (0..10).collect();
            let many = stored.read_bytes(&columns, &mut one).unwrap();
            prop_assert_eq!(many, inline.read_bytes(&columns, &mut other).unwrap());
            prop_assert_eq!(one, other);

            let changes = [(2, Value::Text("x")), (8, Value::I64(-1)), (2, Value::Text("yes"))];
            stored.with_changes(&changes, &mut changed).unwrap();
            let other = PackedRow::new(layout, &packed, Bytes::from(&changed)).unwrap();
            other.read(None, &mut row).unwrap();
            let mut wanted = values;
            (wanted[2], wanted[8]) = (Value::Text("yes"), Value::I64(-1));
            prop_assert!(row.values().eq(wanted));
            let (upper, turned) = (name.to_uppercase(), middle.iter().map(|byte| !byte));
            let turned: Vec<u8> = turned.collect();
            let same_lengths = [
                (8, Value::I64(1)), (5, Value::Bytes(&[9; 16])), (2, Value::Text(&upper)),
                (7, Value::Bytes(&turned)), (1, Value::I64(-2)), (8, Value::I64(-3)),
            ];
            stored.with_changes(&same_lengths, &mut changed).unwrap();
            let mut wanted = values;
            for (column, value) in same_lengths {
                wanted[usize::from(column)] = value;
            }
            let other = PackedRow::new(layout, &packed, Bytes::from(&changed)).unwrap();
            other.read(None, &mut row).unwrap();
            prop_assert!(row.values().eq(wanted));
            for cut in 0..bytes.len() {
                let short = PackedRow::new(layout, &packed, Bytes::from(&bytes[..cut]));
                let read = short.clone().and_then(|short| short.read(None, &mut row));
                prop_assert!(read.is_err());
                let change = |short: PackedRow<'_>| {
                    short.with_changes(&[(8, Value::I64(1))], &mut changed)
                };
                prop_assert!(short.and_then(change).is_err());
                shown.stored_mut().extend_from_slice(&bytes[..cut]);
                prop_assert!(packed.show(None, &mut shown).is_err());
            }
        }
    }
}
