//! Savepoints, and reads of tuples that the transaction is going to change.

use engines::below::{Environment, Row, Value};

use crate::declared;
use crate::error::Error;
use crate::table::Table;
use crate::transaction::{Tx, own_table};

/// A place in an open transaction: see [`Tx::savepoint`].
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new().engine(EngineKind::NvmInp));
/// db.write(|tx| {
///     let before: Savepoint = tx.savepoint()?;
///     tx.delete(&account, &[Value::from(1)])?;
///     tx.rollback_to(before)
/// })?;
/// assert!(db.get(&account, &[Value::from(1)])?.is_some());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint {
    number: u64,
    partition: usize,
}

impl<E: Environment> Tx<'_, E> {
    /// Works as [`Tx::get`], for a tuple that this transaction is going to change. An engine that
    /// runs many transactions at the same time keeps others from doing the same, where it can, so
    /// that the change causes no conflict. In the other engines it is [`Tx::get`].
    /// [`Scan::for_update`](crate::Scan::for_update) does the same for a scan.
    ///
    /// # Errors
    /// As [`Tx::get`]; [`Error::Conflict`].
    pub fn get_for_update(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
    ) -> Result<Option<Row>, Error> {
        let mut row = Row::new();
        Ok(self.get_for_update_into(table, key, &mut row)?.then_some(row))
    }

    /// Works as [`Tx::get_for_update`], into `row`, as [`Tx::get_into`] does.
    ///
    /// # Errors
    /// As [`Tx::get_for_update`].
    #[inline]
    pub fn get_for_update_into(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        row: &mut Row,
    ) -> Result<bool, Error> {
        let number = own_table(self.catalog, table)?;
        let place = (number, &*table.layout);
        let found = declared::get_for_update(&mut **self.engine, place, key, row)?;
        row.set_names(&table.names);
        Ok(found)
    }

    /// Marks this place, so that [`Tx::rollback_to`] can undo what comes after it. The engines that
    /// can do so are `nvm-inp`, `nvm-log`, the paged ones (`nv-disk`, `nv-logging-foi`,
    /// `nv-logging-foc`), and those on slotted pages (`fast`, `fash`, `nvwal`, `journal`, `wal`).
    /// Marking costs nothing.
    ///
    /// # Errors
    /// [`Error::Unsupported`] in the other engines. `inp` and `log` would have to take the end of
    /// the transaction's redo record back out of their log, which can only drop it whole; `cow` and
    /// `nvm-cow` change in place what the transaction has copied before, and keep no state between;
    /// every statement of `sofort` is durable when it returns.
    pub fn savepoint(&mut self) -> Result<Savepoint, Error> {
        Ok(Savepoint { number: self.engine.savepoint()?, partition: self.partition })
    }

    /// Undoes what the transaction has done since the savepoint, which stays valid; later
    /// savepoints are void. [`Tx::statements_done`] goes on counting.
    ///
    /// # Errors
    /// [`Error::NoSavepoint`] for one that is void or of another transaction, and nothing is
    /// undone; [`Error::Unsupported`]. Or the medium failed, and the partition has stopped.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        if savepoint.partition != self.partition {
            return Err(Error::NoSavepoint);
        }
        Ok(self.engine.rollback_to(savepoint.number)?)
    }
}
