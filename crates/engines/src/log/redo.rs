//! Redo of a logged transaction.

use pm::{Files, Memory};
use storage::lsm::tree::LsmTree;
use storage::operation::{Operation, Operations};
use storage::{Catalog, Row};

use crate::error::EngineError;

/// Does a logged transaction again. The log is whole and holds committed work only, so nothing is
/// checked that was checked before it was logged.
pub(super) fn redo<F: Files, M: Memory>(
    tree: &mut LsmTree<F, M>,
    catalog: &Catalog,
    payload: &[u8],
    before: &mut Row,
) -> Result<(), EngineError> {
    for operation in Operations::new(catalog, payload) {
        match operation? {
            (table, Operation::Insert { values }) => {
                let key = tree.key_of_tuple(table, &values);
                tree.insert(table, &key, &values)?;
            }
            (table, Operation::Update { key, changes, .. }) => {
                let key = tree.key(table, &key)?;
                let indexed = tree.changes_index(table, &changes);
                let primary = tree.trees().tree(table, 0);
                if indexed && !tree.read(primary, &key, None, before)? {
                    return Err(tree.missing(table).into());
                }
                tree.update(table, &key, &changes, indexed.then_some(&*before))?;
            }
            (table, Operation::Delete { key, before }) => {
                let key = tree.key(table, &key)?;
                tree.delete(table, &key, |column| before[usize::from(column)])?;
            }
        }
    }
    tree.memtable().commit();
    Ok(())
}
