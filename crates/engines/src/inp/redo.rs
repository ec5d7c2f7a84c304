//! Redo of a logged transaction.

use index::Sorted;
use pm::{Flushed, Memory, fence_for};
use storage::operation::{Operation, Operations, value_bytes};
use storage::{Catalog, Image, Tables, Value};

use super::publish;
use super::room::Change;
use super::saving::tuple_bytes;
use crate::error::EngineError;

/// The position of the checkpoint relative to a transaction that is redone: it may hold a part of
/// the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    /// The checkpoint holds nothing of it: an operation that fails is damage.
    Before,
    /// The checkpoint was written while the transaction ran, or later ones. Each tuple in it is as
    /// new as the transaction's operations or newer; what the log goes on to say makes all of them
    /// agree. So an insert replaces, and an update or a delete of what is gone again does nothing.
    Among,
}

/// Does a logged transaction again. Returns how that changes a checkpoint, at most.
pub(super) fn redo<M: Memory>(
    tables: &mut Tables<M, Sorted>,
    catalog: &Catalog,
    payload: &[u8],
    base: Base,
) -> Result<Change, EngineError> {
    let mut change = Change::default();
    let found = |tables: &Tables<M, Sorted>, number, key: &[Value<'_>]| match base {
        Base::Before => tables.find_or_fail(number, key).map(Some),
        Base::Among => tables.find(number, key),
    };
    for operation in Operations::new(catalog, payload) {
        match operation? {
            (number, Operation::Insert { values }) => {
                if base == Base::Among {
                    let table = &catalog.tables[usize::from(number)];
                    let key: Vec<_> = table.key_columns().map(|column| values[column]).collect();
                    if let Some(newer) = tables.find(number, &key)? {
                        tables.unlink(number, newer)?;
                    }
                }
                let tuple = tables.write_tuple(number, &values)?;
                publish(tables, tuple)?;
                change = change.and(Change::inserted(tuple_bytes(values.into_iter())));
            }
            (number, Operation::Update { key, changes, before_bytes }) => {
                if let Some(tuple) = found(tables, number, &key)? {
                    let fields = tables.write_fields(number, tuple, &changes, Image::Before)?;
                    let fields = Flushed::lines(tables.lane.memory(), &mut tables.lines, fields);
                    tables.replace_fields(fence_for(tables.lane.memory(), fields), &changes)?;
                    let after = changes.iter().map(|(_, value)| value_bytes(value)).sum();
                    change = change.and(Change::replaced(before_bytes, after));
                }
            }
            (number, Operation::Delete { key, before }) => {
                if let Some(tuple) = found(tables, number, &key)? {
                    tables.unlink(number, tuple)?;
                    change = change.and(Change::deleted(tuple_bytes(before.into_iter())));
                }
            }
        }
        tables.lines.clear();
    }
    for slot in std::mem::take(&mut tables.superseded) {
        tables.lane.release(slot);
    }
    tables.tidy_indexes()?;
    // A checkpoint may hold other versions of tuples than the log.
    if base == Base::Among {
        change = Change { added: change.new, removed: 0, ..change };
    }
    Ok(change)
}
