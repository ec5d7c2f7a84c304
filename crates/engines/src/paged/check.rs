//! A look at the tables of a partition: every tuple, and its keys in every index.

use paged::store::{RowBound, RowRange, Session};
use pm::Files;
use storage::{Row, StoredRow};

use super::tables::{PagedTables, key_of, secondary};
use crate::error::EngineError;
use crate::shadow::dangling;

/// Checks that every tuple of a table can be read and has its keys in every index, and that the
/// indexes have no others. Returns the number of tuples.
pub(super) fn check_table<F: Files>(
    tables: &PagedTables,
    table: u16,
    session: &mut Session<F>,
) -> Result<u64, EngineError> {
    const ALL: RowRange<'_> = RowRange { low: RowBound::Unbounded, high: RowBound::Unbounded };
    let (layout, _) = tables.table(table);
    let (mut rows, mut row) = (Vec::new(), Row::new());
    let forward = paged::tree::Direction::Forward;
    session.scan(tables.tree(table, 0), &ALL, forward, &mut |key, stored| {
        rows.push((key.to_vec(), stored.to_vec()));
        Ok(true)
    })?;
    for (key, stored) in &rows {
        tables.row(table, stored)?.read(None, &mut row)?;
        layout.check_row(&row, 0)?;
        for index in 0..layout.index_count() {
            let own = key_of(tables, table, stored, index)?;
            let mut narrow = [0; 8];
            let own = own.bytes(&mut narrow);
            let found = match index {
                0 => own == key,
                _ => session.get(tables.tree(table, index), own)?.is_some(),
            };
            if !found {
                return Err(dangling());
            }
        }
    }
    for index in secondary(layout) {
        let mut entries = 0;
        session.scan(tables.tree(table, index), &ALL, forward, &mut |_, _| {
            entries += 1;
            Ok(true)
        })?;
        if entries != rows.len() {
            return Err(dangling());
        }
    }
    Ok(rows.len() as u64)
}
