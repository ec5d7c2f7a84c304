//! Changes that look first: insert or replace, insert if absent, read and change.

use engines::EngineError;
use engines::below::{Environment, Row, StorageError, Value};

use crate::columns::ColumnRef;
use crate::database::{Database, Exclusive, Partition};
use crate::declared;
use crate::error::Error;
use crate::table::Table;
use crate::transaction::{Tx, own_table};

impl<E: Environment> Tx<'_, E> {
    /// Inserts a tuple with a value for each column, unless there is one with its primary key;
    /// returns whether it was inserted.
    ///
    /// # Errors
    /// As [`Tx::insert`]; [`Error::DuplicateKey`] of a unique index alone.
    pub fn insert_if_absent(&mut self, table: &Table, values: &[Value<'_>]) -> Result<bool, Error> {
        let number = own_table(self.catalog, table)?;
        match declared::insert(&mut **self.engine, (number, &table.layout), values) {
            Ok(()) => self.statements += 1,
            Err(EngineError::Storage(StorageError::DuplicateKey { .. })) => return Ok(false),
            Err(error) => return Err(Error::about_tuple(error, table, values)),
        }
        Ok(true)
    }

    /// Inserts a tuple with a value for each column; if there is one with its primary key, gives
    /// that one all the other values. Returns whether it was inserted.
    ///
    /// ```
    /// # use perdura::*;
    /// # fn count(tx: &mut Tx<'_>, word: &Table) -> Result<(), Error> {
    /// let new = tx.upsert(word, &[Value::from("perdura"), Value::from(1)])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tx::insert_if_absent`] and [`Tx::update`].
    pub fn upsert(&mut self, table: &Table, values: &[Value<'_>]) -> Result<bool, Error> {
        if self.insert_if_absent(table, values)? {
            return Ok(true);
        }
        let (key, others) = key_and_others(table, values)?;
        self.update(table, &key, &others)?;
        Ok(false)
    }

    /// Reads the tuple with this primary key, as [`Tx::get_for_update`], and updates the columns
    /// that `change` makes of it.
    ///
    /// ```
    /// # use perdura::*;
    /// # fn draw(tx: &mut Tx<'_>, account: &Table) -> Result<(), Error> {
    /// tx.modify(account, &[Value::from(1)], |row| vec![("balance", Value::from(row.i64(2) - 5))])
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tx::get_for_update`] and [`Tx::update`].
    pub fn modify<C: ColumnRef>(
        &mut self,
        table: &Table,
        key: &[Value<'_>],
        change: impl for<'r> FnOnce(&'r Row) -> Vec<(C, Value<'r>)>,
    ) -> Result<(), Error> {
        let Some(row) = self.get_for_update(table, key)? else {
            let missing = StorageError::MissingKey { table: table.name().into() };
            return Err(Error::about_key(missing.into(), table, key));
        };
        self.update(table, key, &change(&row))
    }
}

/// A tuple's primary key, and the values of the other columns.
type KeyAndOthers<'v> = (Vec<Value<'v>>, Vec<(u16, Value<'v>)>);

/// The primary key among a value for each column, and the other values with their columns.
pub(crate) fn key_and_others<'v>(
    table: &Table,
    values: &[Value<'v>],
) -> Result<KeyAndOthers<'v>, Error> {
    let wanted = table.schema().columns().len();
    if values.len() != wanted {
        let (what, found) = (format!("table `{}`", table.name()), values.len());
        return Err(Error::Invalid(StorageError::WrongCount { what, wanted, found }));
    }
    let in_key: Vec<_> = table.layout.key_columns().collect();
    let key = in_key.iter().map(|column| values[*column]).collect();
    let others = values.iter().enumerate().filter(|(column, _)| !in_key.contains(column));
    Ok((key, others.map(|(column, value)| (column as u16, *value)).collect()))
}

/// Transactions of one statement.
macro_rules! one_call {
    ($owner:ty; $($mutable:tt)?) => {
        impl<E: Environment> $owner {
            /// Works as [`Tx::insert`], in a transaction of one statement; durable unless commits
            /// are grouped.
            ///
            /// # Errors
            /// As [`Tx::insert`] and [`Database::write`].
            pub fn insert(
                &$($mutable)? self,
                table: &Table,
                values: &[Value<'_>],
            ) -> Result<(), Error> {
                self.write(|tx| tx.insert(table, values))
            }

            /// Works as [`Tx::insert_if_absent`], in a transaction of one statement.
            ///
            /// # Errors
            /// As [`Tx::insert_if_absent`] and [`Database::write`].
            pub fn insert_if_absent(
                &$($mutable)? self,
                table: &Table,
                values: &[Value<'_>],
            ) -> Result<bool, Error> {
                self.write(|tx| tx.insert_if_absent(table, values))
            }

            /// Works as [`Tx::upsert`], in a transaction of its own.
            ///
            /// # Errors
            /// As [`Tx::upsert`] and [`Database::write`].
            pub fn upsert(
                &$($mutable)? self,
                table: &Table,
                values: &[Value<'_>],
            ) -> Result<bool, Error> {
                self.write(|tx| tx.upsert(table, values))
            }

            /// Works as [`Tx::modify`], in a transaction of its own. `change` is run each time that
            /// the transaction is.
            ///
            /// # Errors
            /// As [`Tx::modify`] and [`Database::write`].
            pub fn modify<C: ColumnRef>(
                &$($mutable)? self,
                table: &Table,
                key: &[Value<'_>],
                mut change: impl for<'r> FnMut(&'r Row) -> Vec<(C, Value<'r>)>,
            ) -> Result<(), Error> {
                self.write(|tx| tx.modify(table, key, &mut change))
            }

            /// Works as [`Tx::delete`], in a transaction of one statement.
            ///
            /// # Errors
            /// As [`Tx::delete`] and [`Database::write`].
            pub fn delete(
                &$($mutable)? self,
                table: &Table,
                key: &[Value<'_>],
            ) -> Result<(), Error> {
                self.write(|tx| tx.delete(table, key))
            }
        }
    };
}

one_call!(Database<E>;);
one_call!(Partition<'_, E>;);
one_call!(Exclusive<'_, E>; mut);
