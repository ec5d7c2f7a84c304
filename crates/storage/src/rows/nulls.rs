//! NULL: how a tuple with columns that may be missing becomes one in which none is.
//!
//! Engines know no NULL. A table with columns that may be NULL is stored with one more *null word*
//! for every 64 of them, a column of type `u64` after its own. The bit of a column that is NULL is
//! set, and the column itself is zero or empty. So a change of a column to NULL or back is a change
//! of two columns, which every engine logs, undoes, merges and copies as any other. A table without
//! such columns has no null words. `docs/format/tuple.md` draws it.
//!
//! | what the user sees | what is stored |
//! |---|---|
//! | a tuple to insert | [`TableLayout::stored_tuple`] |
//! | the changes of an update | [`TableLayout::stored_changes`] |
//! | a row that is read | [`TableLayout::read_declared`], [`TableLayout::declare_row`] |
//!
//! A key holds by itself which of its columns are NULL: see [`super::key`].

use pm::Bad;
use smallvec::SmallVec;

use crate::error::StorageError;
use crate::rows::catalog::{KeyLayout, TableLayout};
use crate::rows::fits::{check_value, null_refused, wrong_uuid};
use crate::rows::null_words::NullBit;
use crate::rows::row::Row;
use crate::rows::value::{ColumnType, Value};

/// Room for the numbers of the columns that an engine is asked for.
pub type StoredColumns = SmallVec<[u16; 32]>;

/// Returns the value that a column of this type stores while it is NULL.
pub(crate) fn nothing(kind: ColumnType) -> Value<'static> {
    match kind {
        ColumnType::Text { .. } => Value::Text(""),
        ColumnType::Bytes { .. } | ColumnType::Uuid => Value::Bytes(&[]),
        number => number.number(0).unwrap_or(Value::U64(0)),
    }
}

impl TableLayout {
    /// Returns whether the table has columns that may be NULL.
    #[inline]
    pub fn has_nulls(&self) -> bool {
        !self.nulls.is_empty()
    }

    /// Returns whether engines store the table as it is declared, and nothing has to be looked at
    /// before a change of it.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// The unique indexes, with their numbers and their columns.
    pub fn unique_indexes(&self) -> impl Iterator<Item = (usize, &[u16])> {
        let indexes = self.schema.indexes.iter().zip(&self.secondary).enumerate();
        let unique = indexes.filter(|(_, (index, _))| index.unique);
        unique.map(|(number, (_, key))| (number, &key.columns[..key.own_columns]))
    }

    pub(crate) fn null_bit(&self, column: u16) -> Option<NullBit> {
        self.nulls.get(usize::from(column)).copied().flatten()
    }

    /// Returns how many null words a tuple has.
    fn null_words(&self) -> usize {
        self.schema.columns.len() - self.declared.columns.len()
    }

    /// Checks a value that may be NULL, and returns what is stored in its column.
    fn stored_value<'v>(
        &self,
        column: usize,
        value: &Value<'v>,
    ) -> Result<(Value<'v>, Option<NullBit>), StorageError> {
        let declared = &self.declared.columns[column];
        let bit = self.null_bit(column as u16);
        match (value, bit) {
            (Value::Null, Some(_)) => Ok((nothing(declared.kind), bit)),
            (Value::Null, None) => Err(null_refused(&self.declared, column as u16)),
            (Value::Bytes([]), _) if declared.kind == ColumnType::Uuid => {
                Err(wrong_uuid(declared, 0))
            }
            _ => {
                check_value(&self.declared, column as u16, value)?;
                Ok((*value, bit))
            }
        }
    }

    /// Puts the tuple with these values, as it is stored, into `out`.
    ///
    /// # Errors
    /// Wrong number, type or length of values, or one that is NULL and may not be.
    pub fn stored_tuple<'v>(
        &self,
        values: &[Value<'v>],
        out: &mut Vec<Value<'v>>,
    ) -> Result<(), StorageError> {
        let columns = self.declared.columns.len();
        if values.len() != columns {
            return Err(StorageError::WrongCount {
                what: format!("table `{}`", self.declared.name()),
                wanted: columns,
                found: values.len(),
            });
        }
        out.clear();
        for (column, value) in values.iter().enumerate() {
            out.push(self.stored_value(column, value)?.0);
        }
        out.resize(self.schema.columns.len(), Value::U64(0));
        for (column, value) in values.iter().enumerate() {
            if let (Value::Null, Some(bit)) = (value, self.null_bit(column as u16))
                && let Value::U64(word) = &mut out[usize::from(bit.word)]
            {
                *word |= bit.mask;
            }
        }
        Ok(())
    }

    /// Puts these changes into `out` as they are stored, with the changes of null words that they
    /// require. `words` reads the null words with these numbers from the tuple that changes. If
    /// there is no such tuple, the null words are not distinguished.
    ///
    /// # Errors
    /// No such column, wrong type or length of values, a NULL for a column that may not be NULL; or
    /// an error of `words`.
    pub fn stored_changes<'v, E: From<StorageError>>(
        &self,
        changes: &[(u16, Value<'v>)],
        out: &mut Vec<(u16, Value<'v>)>,
        words: impl FnOnce(&[u16], &mut Row) -> Result<bool, E>,
    ) -> Result<(), E> {
        out.clear();
        let mut touched: Vec<u16> = Vec::new();
        for (column, value) in changes {
            if usize::from(*column) >= self.declared.columns.len() {
                let (table, column) = (self.declared.name().into(), usize::from(*column));
                return Err(StorageError::NoColumn { table, column }.into());
            }
            let (value, bit) = self.stored_value(usize::from(*column), value)?;
            out.push((*column, value));
            touched.extend(bit.map(|bit| bit.word));
        }
        touched.sort_unstable();
        touched.dedup();
        let mut row = Row::new();
        if touched.is_empty() || !words(&touched, &mut row)? {
            return Ok(());
        }
        for (place, number) in touched.iter().enumerate() {
            let before = row.u64(place);
            let mut word = before;
            // The last of several values for a column counts.
            for (column, value) in changes {
                if let Some(bit) = self.null_bit(*column).filter(|bit| bit.word == *number) {
                    word = if *value == Value::Null { word | bit.mask } else { word & !bit.mask };
                }
            }
            if word != before {
                out.push((*number, Value::U64(word)));
            }
        }
        Ok(())
    }

    /// Reads columns of a tuple, all that are declared if none are named, into `row`: `read` is
    /// asked for those that are stored, and says whether there is such a tuple.
    ///
    /// # Errors
    /// The errors of `read`.
    pub fn read_declared<E>(
        &self,
        columns: Option<&[u16]>,
        row: &mut Row,
        read: impl FnOnce(Option<&[u16]>, &mut Row) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut stored = StoredColumns::new();
        let found = read(self.stored_columns(columns, &mut stored), row)?;
        if found {
            self.declare_row(columns, row);
        }
        Ok(found)
    }

    /// Returns the stored columns to read for the columns asked for: these and their null words.
    pub fn stored_columns<'c>(
        &self,
        columns: Option<&[u16]>,
        out: &'c mut StoredColumns,
    ) -> Option<&'c [u16]> {
        let columns = columns?;
        out.clear();
        out.extend_from_slice(columns);
        let first = self.declared.columns.len() as u16;
        out.extend((0..self.null_words() as u16).map(|word| first + word));
        Some(out)
    }

    /// Turns a row with the columns of [`Self::stored_columns`] into what was asked for: NULLs are
    /// marked as such, and the null words are gone.
    pub fn declare_row(&self, columns: Option<&[u16]>, row: &mut Row) {
        let shown = columns.map_or(self.declared.columns.len(), <[u16]>::len);
        let first = self.declared.columns.len();
        for place in 0..shown.min(row.fields.len()) {
            let column = columns.map_or(place as u16, |columns| columns[place]);
            let Some(bit) = self.null_bit(column) else { continue };
            let word = row.fields.get(shown + usize::from(bit.word) - first);
            if word.is_some_and(|word| word.word & bit.mask != 0) {
                row.fields[place].kind = None;
            }
        }
        row.fields.truncate(shown);
    }

    /// Makes `shown` what [`Self::declare_row`] makes of `row`.
    pub fn declare_copy(&self, columns: Option<&[u16]>, row: &Row, shown: &mut Row) {
        shown.copy_from(row);
        self.declare_row(columns, shown);
    }

    /// Checks the null words of a stored tuple, of which `row` has all columns: none has a bit that
    /// is no column's, and a column that is NULL holds nothing.
    pub(crate) fn check_nulls(&self, row: &Row, at: u64) -> Result<(), Bad> {
        let damaged = Err(Bad::Damaged { what: "null word of a tuple", at });
        let mut free = vec![!0u64; self.null_words()];
        let first = self.declared.columns.len();
        for (column, field) in row.fields.iter().enumerate() {
            let Some(bit) = self.null_bit(column as u16) else { continue };
            free[usize::from(bit.word) - first] &= !bit.mask;
            let null = row.fields[usize::from(bit.word)].word & bit.mask != 0;
            let long = field.kind.is_some_and(|kind| kind.max_bytes().is_some());
            let empty = if long { field.len == 0 } else { field.word == 0 };
            let fixed = field.kind == Some(ColumnType::Uuid);
            if null && !empty || !null && fixed && empty {
                return damaged;
            }
        }
        let words = row.fields[first..].iter();
        if words.zip(free).any(|(word, free)| word.word & free != 0) { damaged } else { Ok(()) }
    }
}

impl KeyLayout {
    /// Returns whether any of its columns may be NULL.
    #[inline]
    pub(crate) fn is_nullable(&self) -> bool {
        !self.nulls.is_empty()
    }

    /// Returns where the key's column number `place` says whether it is NULL, if it can be.
    #[inline]
    pub(crate) fn null_bit(&self, place: usize) -> Option<NullBit> {
        self.nulls.get(place).copied().flatten()
    }

    /// The null words of its columns.
    pub(crate) fn null_words(&self) -> impl Iterator<Item = u16> {
        self.nulls.iter().flatten().map(|bit| bit.word)
    }

    /// Returns whether the key may change with this column.
    #[inline]
    pub(crate) fn has(&self, column: u16) -> bool {
        self.columns.contains(&column) || self.null_words().any(|word| word == column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::catalog::Catalog;
    use crate::rows::schema::{Schema, TableSchema};

    /// 70 columns that may be NULL after the key, so that there are two null words.
    fn layout() -> std::sync::Arc<TableLayout> {
        let mut table = TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]);
        for number in 0..70 {
            let kind = [ColumnType::I32, ColumnType::Text { max: 9 }, ColumnType::Uuid][number % 3];
            table = table.column(format!("c{number}"), kind).nullable();
        }
        Catalog::new(&Schema::new().table(table)).unwrap().tables[0].clone()
    }

    #[test]
    fn tuples_have_a_bit_for_every_column_that_is_null() {
        let layout = layout();
        let mut values = vec![Value::Null; 71];
        values[0] = Value::U64(7);
        (values[1], values[65]) = (Value::I64(-1), Value::Text("x"));
        let mut stored = Vec::new();
        layout.stored_tuple(&values, &mut stored).unwrap();
        assert_eq!(stored.len(), 73);
        assert_eq!(stored[..4], [values[0], values[1], Value::Text(""), Value::Bytes(&[])]);
        assert_eq!(stored[71..], [Value::U64(!1), Value::U64(0x3e)]);
        let error = layout.stored_tuple(&[Value::Null; 71], &mut stored).unwrap_err();
        assert_eq!(error.to_string(), "column `id` of table `t` cannot be NULL");
        let error = layout.stored_tuple(&values[..70], &mut stored).unwrap_err().to_string();
        assert!(error.contains("takes 71 values, not 70"), "{error}");
        values[3] = Value::Bytes(&[]);
        let error = layout.stored_tuple(&values, &mut stored).unwrap_err().to_string();
        assert!(error.contains("column `c2` holds a uuid of 16 bytes, not 0"), "{error}");
    }

    #[test]
    fn changes_touch_the_null_words_that_change_and_no_other() {
        let layout = layout();
        let changed = |changes: &[(u16, Value<'static>)], words: [u64; 2]| {
            let mut out = Vec::new();
            let mut asked = Vec::new();
            let done = layout.stored_changes(changes, &mut out, |numbers, row| {
                asked = numbers.to_vec();
                let layout =
                    crate::rows::row::RowField { kind: Some(ColumnType::U64), word: 0, len: 0 };
                let field = |number: &u16| {
                    let word = words[usize::from(*number) - 71];
                    crate::rows::row::RowField { word, ..layout }
                };
                row.fields.extend(numbers.iter().map(field));
                Ok::<_, StorageError>(true)
            });
            (done.map_err(|error| error.to_string()), asked, out)
        };
        let to_null = [(1, Value::Null), (66, Value::Null)];
        let (done, asked, out) = changed(&to_null, [0, 2]);
        assert_eq!((done, asked), (Ok(()), vec![71, 72]));
        let nothing = [(1, Value::I64(0)), (66, Value::Bytes(&[]))];
        assert_eq!(out, [&nothing[..], &[(71, Value::U64(1))]].concat());
        // A column that is NULL no more; its last value counts.
        let twice = [(1, Value::Null), (1, Value::I64(5))];
        let (_, asked, out) = changed(&twice, [5, 0]);
        assert_eq!(asked, [71]);
        assert_eq!(out, [(1, Value::I64(0)), (1, Value::I64(5)), (71, Value::U64(4))]);
        // A null word is no column of the user's.
        let (done, _, _) = changed(&[(71, Value::U64(1))], [0, 0]);
        assert_eq!(done, Err("table `t` has no column 71".into()));
        assert_eq!(layout.column(""), None);
    }

    #[test]
    fn a_table_without_such_columns_is_stored_as_it_is_declared() {
        let table = TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]);
        let catalog = Catalog::new(&Schema::new().table(table.clone())).unwrap();
        let layout = &catalog.tables[0];
        assert_eq!((&layout.schema, &layout.declared), (&table, &table));
        assert!(!layout.has_nulls() && crate::SlotLayout::new(layout).tuple_bytes() == 8);
        let nullable = TableSchema::new("t").column("id", ColumnType::U64).nullable().key(&["id"]);
        let error = Catalog::new(&Schema::new().table(nullable)).unwrap_err().to_string();
        assert!(
            error.contains("`id` belongs to the primary key and cannot be nullable"),
            "{error}"
        );
    }
}
