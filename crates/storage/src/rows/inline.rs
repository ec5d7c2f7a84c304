//! Rows: tuples with all fields inlined (P1 3.2), as they stand in a leaf of a tree.
//!
//! A row begins with a word for each column. A number stands in its word; of text and bytes the
//! word says where in the row they lie, `start | length << 32`.

use pm::{Bad, Bytes};

use crate::error::StorageError;
use crate::rows::catalog::TableLayout;
use crate::rows::stored::{Part, StoredRow, damaged};
use crate::rows::value::Value;

/// A stored row of a table.
#[derive(Clone, Copy, Debug)]
pub struct InlineRow<'a> {
    layout: &'a TableLayout,
    bytes: Bytes<'a>,
}

impl<'a> InlineRow<'a> {
    /// The row that these bytes are.
    ///
    /// # Errors
    /// They are none of this table.
    #[inline]
    pub fn new(layout: &'a TableLayout, bytes: Bytes<'a>) -> Result<Self, Bad> {
        if bytes.len() < layout.schema.columns().len() * 8 {
            Err(damaged())
        } else {
            Ok(Self { layout, bytes })
        }
    }

    /// Puts the row with other values of some columns into `out`; of several values for a column
    /// the last one counts.
    ///
    /// # Errors
    /// Damage.
    pub fn with_changes(&self, changes: &[(u16, Value<'_>)], out: &mut Vec<u8>) -> Result<(), Bad> {
        put(self.layout.schema.columns().len(), out, |column| self.part_with(column, changes))
    }
}

impl<'a> StoredRow<'a> for InlineRow<'a> {
    #[inline]
    fn layout(&self) -> &'a TableLayout {
        self.layout
    }

    #[inline]
    fn word(&self, column: usize) -> u64 {
        u64::from_le_bytes(self.bytes.array(column * 8))
    }

    #[inline]
    fn part(&self, column: usize) -> Result<Bytes<'a>, Bad> {
        let word = self.word(column);
        let (start, len) = ((word & 0xffff_ffff) as usize, (word >> 32) as usize);
        self.bytes.get(start, len).ok_or_else(damaged)
    }
}

fn put<'a>(
    columns: usize,
    out: &mut Vec<u8>,
    mut part: impl FnMut(usize) -> Result<Part<'a>, Bad>,
) -> Result<(), Bad> {
    out.clear();
    out.resize(columns * 8, 0);
    for column in 0..columns {
        let word = match part(column)? {
            Part::Word(word) => word,
            Part::Bytes(bytes) => {
                let start = out.len() as u64;
                bytes.append_to(out);
                start | (bytes.len() as u64) << 32
            }
        };
        out[column * 8..column * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
    Ok(())
}

/// Puts the row with these values into `out`.
///
/// # Errors
/// Wrong number, type or length of values.
pub fn encode_row(
    layout: &TableLayout,
    values: &[Value<'_>],
    out: &mut Vec<u8>,
) -> Result<(), StorageError> {
    layout.check_tuple(values)?;
    Ok(put(values.len(), out, |column| Ok(Part::of(&values[column])))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::catalog::Catalog;
    use crate::rows::row::Row;
    use crate::rows::schema::{Schema, TableSchema};
    use crate::rows::value::ColumnType;

    #[test]
    fn rows_come_back_and_change_column_by_column() {
        let table = TableSchema::new("t")
            .column("id", ColumnType::I64)
            .column("name", ColumnType::Text { max: 20 })
            .column("flag", ColumnType::Bytes { max: 5 })
            .column("score", ColumnType::F64)
            .key(&["id"])
            .index("by_name", &["name"]);
        let catalog = Catalog::new(&Schema::new().table(table)).unwrap();
        let layout = &catalog.tables[0];
        let values = [Value::I64(-3), Value::Text("Ada"), Value::Bytes(b""), Value::F64(0.5)];
        let (mut bytes, mut changed, mut row) = (Vec::new(), Vec::new(), Row::new());
        encode_row(layout, &values, &mut bytes).unwrap();
        let stored = InlineRow::new(layout, Bytes::from(&bytes)).unwrap();
        stored.read(None, &mut row).unwrap();
        assert!(row.values().eq(values));
        stored.read(Some(&[3, 1]), &mut row).unwrap();
        assert!(row.values().eq([values[3], values[1]]));
        let mut out = [0; 64];
        assert_eq!(stored.read_bytes(&[1, 0], &mut out).unwrap(), 11);
        assert_eq!(&out[..3], b"Ada");
        assert_eq!(stored.read_bytes(&[1, 0], &mut []).unwrap(), 11);
        let changes = [(1, Value::Text("no")), (2, Value::Bytes(b"ab")), (1, Value::Text("Grace"))];
        stored.with_changes(&changes, &mut changed).unwrap();
        let other = InlineRow::new(layout, Bytes::from(&changed)).unwrap();
        other.read(None, &mut row).unwrap();
        assert_eq!(
            (row.i64(0), row.text(1), row.bytes(2), row.f64(3)),
            (-3, "Grace", &b"ab"[..], 0.5)
        );
        assert_eq!(stored.key(0).unwrap(), layout.primary_key(&[values[0]]).unwrap());
        let (mut narrow, mut primary) = ([0; 8], crate::PrimaryBytes::default());
        let by_name = stored.key(1).unwrap();
        let by_name = by_name.bytes(&mut narrow);
        assert_eq!(by_name.len(), layout.key_bytes(1));
        let found = layout.primary_of(1, Bytes::from(by_name), &mut primary).to_vec();
        assert_eq!(found, stored.key(0).unwrap().bytes(&mut narrow));
        for cut in 0..bytes.len() {
            let Ok(short) = InlineRow::new(layout, Bytes::from(&bytes[..cut])) else { continue };
            assert!(short.read(None, &mut row).is_err(), "{cut}");
        }
    }
}
