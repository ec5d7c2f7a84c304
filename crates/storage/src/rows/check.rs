//! Checks tuples and changes against the table that they are for.

use pm::Bad;

use crate::error::StorageError;
use crate::limits::MAX_COLUMNS;
use crate::rows::catalog::TableLayout;
use crate::rows::fits::check_value;
use crate::rows::row::{Row, RowField};
use crate::rows::value::Value;

impl TableLayout {
    /// Checks a tuple: the number of its values, their types and lengths.
    ///
    /// # Errors
    /// A value does not fit the declaration; the error says how.
    pub fn check_tuple(&self, values: &[Value<'_>]) -> Result<(), StorageError> {
        let columns = self.schema.columns();
        if values.len() != columns.len() {
            return Err(StorageError::WrongCount {
                what: format!("table `{}`", self.schema.name()),
                wanted: columns.len(),
                found: values.len(),
            });
        }
        for (column, value) in values.iter().enumerate() {
            check_value(&self.schema, column as u16, value)?;
        }
        Ok(())
    }

    /// Checks that a stored tuple, of which `row` has all columns with the null words, could have
    /// been inserted. It lies `at` some place, for the error.
    ///
    /// # Errors
    /// A value that its column cannot have: damage.
    pub fn check_row(&self, row: &Row, at: u64) -> Result<(), Bad> {
        let mut columns = (0..).zip(row.fields.iter().zip(row.values()));
        let sound = |(column, (field, value)): (u16, (&RowField, Value<'_>))| {
            let possible = field.kind.is_some_and(|kind| {
                kind.max_bytes().is_some() || kind.checked_number(field.word).is_some()
            });
            possible && check_value(&self.schema, column, &value).is_ok()
        };
        if !columns.all(sound) {
            return Err(Bad::Damaged { what: "value of a column", at });
        }
        if self.has_nulls() { self.check_nulls(row, at) } else { Ok(()) }
    }

    /// Checks new values of columns; a column of the primary key cannot have one.
    ///
    /// # Errors
    /// A value does not fit the declaration; the error says how.
    pub fn check_changes(&self, changes: &[(u16, Value<'_>)]) -> Result<(), StorageError> {
        if changes.len() > MAX_COLUMNS {
            let table = self.schema.name().into();
            return Err(StorageError::TooManyChanges { table, found: changes.len() });
        }
        changes.iter().try_for_each(|(column, value)| check_change(self, *column, value))?;
        // Most often one, or in the order of the columns.
        if changes.len() < 2 || changes.is_sorted_by(|(one, _), (other, _)| one < other) {
            return Ok(());
        }
        check_named_once(self, changes)
    }

    /// Checks the value of a column.
    ///
    /// # Errors
    /// The value does not fit the declaration; the error says how.
    pub fn check_value(&self, column: u16, value: &Value<'_>) -> Result<(), StorageError> {
        check_value(&self.schema, column, value)
    }
}

/// Checks that no column has two new values: it would be unclear which one is meant.
#[cold]
fn check_named_once(
    layout: &TableLayout,
    changes: &[(u16, Value<'_>)],
) -> Result<(), StorageError> {
    let mut named = [false; MAX_COLUMNS];
    let twice = changes
        .iter()
        .find(|(column, _)| std::mem::replace(&mut named[usize::from(*column)], true));
    twice.map_or(Ok(()), |(column, _)| {
        let column = layout.schema.columns()[usize::from(*column)].name.clone();
        Err(StorageError::ColumnTwice { table: layout.schema.name().into(), column })
    })
}

fn check_change(layout: &TableLayout, column: u16, value: &Value<'_>) -> Result<(), StorageError> {
    let Some(declared) = layout.schema.columns().get(usize::from(column)) else {
        return Err(StorageError::NoColumn {
            table: layout.schema.name().into(),
            column: usize::from(column),
        });
    };
    if layout.in_key[usize::from(column)] {
        return Err(StorageError::KeyColumn { column: declared.name.clone() });
    }
    check_value(&layout.schema, column, value)
}
