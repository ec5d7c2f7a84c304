//! The initial population (clause 4.2): all balances are zero, and the history is empty.

use perdura::Value::{Bytes, I64, U64};
use perdura::{Database, Environment};

use super::schema::{ACCOUNT_FILLER, BRANCH_FILLER, TELLER_FILLER, Tables, fill};
use super::spec::Spec;
use crate::measure::{Observer, RunError};

/// Populates an empty database that was created with [`super::schema`]; durable when it returns.
/// The observer counts rows.
///
/// # Errors
/// The first error of any worker.
pub fn load<E: Environment, O: Observer>(
    database: &Database<E>,
    spec: &Spec,
    workers: usize,
    observer: &O,
) -> Result<(), RunError> {
    crate::loading::load(database, spec.partitions, workers, observer, |loader| {
        let tables = Tables::of(database)?;
        for b in spec.branches_of(loader.number) {
            let branch = U64(b);
            loader.insert(std::iter::once(b), |tx, id| {
                let row = [U64(id), I64(0), Bytes(&fill::<BRANCH_FILLER>(id))];
                tx.insert(&tables.branch, &row).map(|()| 1)
            })?;
            loader.insert(spec.tellers_of(b), |tx, id| {
                let row = [U64(id), branch, I64(0), Bytes(&fill::<TELLER_FILLER>(id))];
                tx.insert(&tables.teller, &row).map(|()| 1)
            })?;
            loader.insert(spec.accounts_of(b), |tx, id| {
                let row = [U64(id), branch, I64(0), Bytes(&fill::<ACCOUNT_FILLER>(id))];
                tx.insert(&tables.account, &row).map(|()| 1)
            })?;
        }
        Ok(())
    })
}
