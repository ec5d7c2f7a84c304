//! The initial population.

use perdura::{Database, Environment};

use super::population::rows_of;
use super::schema::Tables;
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
        let subscribers = spec.subscribers_of(loader.number);
        loader.insert(subscribers, |tx, id| {
            rows_of(spec.seed, id, |of, row| tx.insert(tables.table(of), row))
        })
    })
}
