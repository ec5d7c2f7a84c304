//! Populating a database, so many rows in a transaction.

use perdura::{Database, Environment, Error, Exclusive, Tx};

use crate::crew::crew;
use crate::measure::{Observer, RunError};
use crate::terminals::{check_partitions, failed};

/// Numbers whose rows one transaction inserts.
const BATCH: usize = 64;

/// Loads each partition of an empty database with `each`, in so many threads; durable when it
/// returns. The observer counts rows.
///
/// # Errors
/// The first error of any worker.
pub(crate) fn load<E: Environment, O: Observer>(
    database: &Database<E>,
    partitions: usize,
    workers: usize,
    observer: &O,
    each: impl Fn(&mut Loader<'_, E, O>) -> Result<(), Error> + Sync,
) -> Result<(), RunError> {
    let partitions = check_partitions(database, partitions, workers)?;
    let workers = workers.min(partitions);
    crew(workers, |worker, _| {
        (worker..partitions).step_by(workers).try_for_each(|number| {
            let partition = database.partition(number).exclusive();
            let partition = partition.map_err(|error| failed(database, number, 0, error))?;
            let mut loader = Loader { partition, number, observer, rows: 0 };
            each(&mut loader)
                .and_then(|()| loader.partition.sync())
                .map_err(|error| failed(database, number, loader.rows, error))
        })
    })?;
    Ok(())
}

/// Loads one partition.
pub(crate) struct Loader<'a, E: Environment, O> {
    partition: Exclusive<'a, E>,
    /// The partition's number.
    pub(crate) number: usize,
    observer: &'a O,
    rows: u64,
}

impl<E: Environment, O: Observer> Loader<'_, E, O> {
    /// Inserts what belongs to each of these numbers; `insert` returns how many rows it was.
    ///
    /// # Errors
    /// The database's own.
    pub(crate) fn insert(
        &mut self,
        mut numbers: impl Iterator<Item = u64>,
        mut insert: impl FnMut(&mut Tx<'_, E>, u64) -> Result<u64, Error>,
    ) -> Result<(), Error> {
        loop {
            let batch: Vec<u64> = numbers.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.rows += self.partition.write(|tx| {
                let mut rows = 0;
                for &number in &batch {
                    rows += insert(tx, number)?;
                }
                Ok(rows)
            })?;
            self.observer.completed(self.number, self.rows);
        }
    }
}
