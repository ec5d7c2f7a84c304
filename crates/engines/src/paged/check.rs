//! A look at the tables of a partition: every tuple, and its keys in every index.

use paged::ids::TreeNo;
use paged::store::{RowBound, RowRange, Session};
use paged::tree::Direction;
use pm::Files;
use storage::{Row, StoredRow};

use super::tables::PagedTables;
use crate::error::EngineError;
use crate::packed_tables::{key_of, secondary};
use crate::shadow::dangling;

/// Rows that are looked at in one transaction.
const ROWS: usize = 256;

/// A function that does some reads in a transaction.
pub(super) type InTransaction<'a, F> = &'a dyn Fn(
    &mut dyn FnMut(&mut Session<F>) -> Result<(), EngineError>,
) -> Result<(), EngineError>;

/// A key and its row.
type Pair = (Vec<u8>, Vec<u8>);

/// A visitor of keys and rows, with the session that reads them.
type Visit<'a, F> = &'a mut dyn FnMut(&mut Session<F>, &[u8], &[u8]) -> Result<(), EngineError>;

/// The next keys and rows after `last` of a tree.
fn next_rows<F: Files>(
    session: &mut Session<F>,
    tree: TreeNo,
    last: Option<&[u8]>,
) -> Result<Vec<Pair>, EngineError> {
    let low = last.map_or(RowBound::Unbounded, RowBound::Excluded);
    let (range, mut rows) = (RowRange { low, high: RowBound::Unbounded }, Vec::new());
    session.scan(tree, &range, Direction::Forward, &mut |key, stored| {
        rows.push((key.to_vec(), stored.to_vec()));
        Ok(rows.len() < ROWS)
    })?;
    Ok(rows)
}

/// Visits all keys and rows of a tree, some in each transaction: locks and memory do not grow with
/// it. Returns how many there are.
fn visit_rows<F: Files>(
    tree: TreeNo,
    read: InTransaction<'_, F>,
    visit: Visit<'_, F>,
) -> Result<u64, EngineError> {
    let (mut last, mut count): (Option<Vec<u8>>, _) = (None, 0);
    loop {
        let mut rows = Vec::new();
        read(&mut |session| {
            rows = next_rows(session, tree, last.as_deref())?;
            rows.iter().try_for_each(|(key, stored)| visit(session, key, stored))
        })?;
        count += rows.len() as u64;
        match rows.pop() {
            Some((key, _)) => last = Some(key),
            None => return Ok(count),
        }
    }
}

/// Checks that every tuple of a table can be read and has its keys in every index, and that the
/// indexes have no others. Returns the number of tuples.
pub(super) fn check_table<F: Files>(
    tables: &PagedTables,
    table: u16,
    read: InTransaction<'_, F>,
) -> Result<u64, EngineError> {
    let (layout, _) = tables.table(table);
    let mut row = Row::new();
    let tuples = visit_rows(tables.tree(table, 0), read, &mut |session, key, stored| {
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
        Ok(())
    })?;
    for index in secondary(layout) {
        let tree = tables.tree(table, index);
        if visit_rows(tree, read, &mut |_, _, _| Ok(()))? != tuples {
            return Err(dangling());
        }
    }
    Ok(tuples)
}
