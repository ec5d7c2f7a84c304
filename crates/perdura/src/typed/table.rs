//! Tables of typed rows.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use engines::below::{Catalog, Environment, Row, Schema, StorageError, Value};

use super::{TableRow, TypedRows};
use crate::changes::key_and_others;
use crate::database::Database;
use crate::error::Error;
use crate::read::Read;
use crate::scan::Scan;
use crate::table::Table;
use crate::transaction::Tx;

/// A table whose rows are values of type `T`. Cheap to clone; valid for the database that returned
/// it ([`Database::typed`]). A row is a copy: to change the table, hand the changed row in again.
///
/// ```
/// # use perdura::*;
/// #[derive(Table)]
/// struct Word {
///     #[table(key, max = 40)]
///     word: String,
///     count: u32,
/// }
///
/// fn count(tx: &mut Tx<'_>, words: &TypedTable<Word>, word: &str) -> Result<u32, Error> {
///     let seen = words.get_for_update(tx, word)?;
///     let count = seen.map_or(0, |seen| seen.count) + 1;
///     words.upsert(tx, &Word { word: word.into(), count })?;
///     Ok(count)
/// }
/// # fn main() -> Result<(), Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let schema = Schema::new().table(Word::schema());
/// # let db = Database::create(directory.path().join("words"), &schema, &Options::new())?;
/// let words = db.typed::<Word>()?;
/// assert_eq!(db.write(|tx| count(tx, &words, "perdura"))?, 1);
/// assert_eq!(db.write(|tx| count(tx, &words, "perdura"))?, 2);
/// # Ok(())
/// # }
/// ```
pub struct TypedTable<T> {
    table: Table,
    rows: PhantomData<fn() -> T>,
}

impl<T> Clone for TypedTable<T> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), rows: PhantomData }
    }
}

impl<T> fmt::Debug for TypedTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, row) = (self.table.name(), type_name::<T>());
        f.debug_struct("TypedTable").field("table", &table).field("row", &row).finish()
    }
}

impl<E: Environment> Database<E> {
    /// Returns the table whose rows are values of type `T`.
    ///
    /// # Errors
    /// [`Error::NoTable`]; [`Error::WrongRows`], with the differences, if the database declares the
    /// table differently from `T`.
    pub fn typed<T: TableRow>(&self) -> Result<TypedTable<T>, Error> {
        TypedTable::find(&self.catalog)
    }
}

impl<T: TableRow> TypedTable<T> {
    fn find(catalog: &Catalog) -> Result<Self, Error> {
        let wanted = Schema::new().table(T::schema()).normalized();
        let wanted = &wanted.tables()[0];
        let table = Table::find(catalog, wanted.name())?;
        if let Some(differs) = table.schema().difference(wanted) {
            return Err(Error::WrongRows { rows: type_name::<T>().into(), differs });
        }
        Ok(Self { table, rows: PhantomData })
    }

    /// The same table with rows that are not typed.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the row with this primary key, if there is one.
    ///
    /// # Errors
    /// As [`Tx::get`]; [`Error::Row`] if a value is none that its field can have.
    pub fn get<R: Read + ?Sized>(&self, from: &R, key: T::Key<'_>) -> Result<Option<T>, Error> {
        let row = from.get(&self.table, T::key_values(key).as_ref())?;
        self.typed(row.as_ref())
    }

    /// Works as [`TypedTable::get`], for a row that this transaction is going to change:
    /// [`Tx::get_for_update`].
    ///
    /// # Errors
    /// As [`TypedTable::get`] and [`Tx::get_for_update`].
    pub fn get_for_update<E: Environment>(
        &self,
        tx: &mut Tx<'_, E>,
        key: T::Key<'_>,
    ) -> Result<Option<T>, Error> {
        let row = tx.get_for_update(&self.table, T::key_values(key).as_ref())?;
        self.typed(row.as_ref())
    }

    /// Inserts a row.
    ///
    /// # Errors
    /// As [`Tx::insert`].
    pub fn insert<E: Environment>(&self, tx: &mut Tx<'_, E>, row: &T) -> Result<(), Error> {
        tx.insert(&self.table, row.values().as_ref())
    }

    /// Inserts a row, unless there is one with its primary key; returns whether it was inserted.
    ///
    /// # Errors
    /// As [`Tx::insert_if_absent`].
    pub fn insert_if_absent<E: Environment>(
        &self,
        tx: &mut Tx<'_, E>,
        row: &T,
    ) -> Result<bool, Error> {
        tx.insert_if_absent(&self.table, row.values().as_ref())
    }

    /// Inserts a row, or replaces the one with its primary key; returns whether it was inserted.
    ///
    /// # Errors
    /// As [`Tx::upsert`].
    pub fn upsert<E: Environment>(&self, tx: &mut Tx<'_, E>, row: &T) -> Result<bool, Error> {
        tx.upsert(&self.table, row.values().as_ref())
    }

    /// Replaces the row that has this one's primary key. Where few columns change,
    /// [`TypedTable::modify`] writes those alone.
    ///
    /// # Errors
    /// As [`Tx::update`].
    pub fn update<E: Environment>(&self, tx: &mut Tx<'_, E>, row: &T) -> Result<(), Error> {
        let values = row.values();
        let (key, others) = key_and_others(&self.table, values.as_ref())?;
        tx.update(&self.table, &key, &others)
    }

    /// Reads the row with this primary key, as [`TypedTable::get_for_update`], passes it to
    /// `change`, and updates the columns that have changed. Returns the row as it is now.
    ///
    /// # Errors
    /// As [`TypedTable::get_for_update`] and [`Tx::update`]; [`Error::Invalid`] if `change` changes
    /// the primary key.
    pub fn modify<E: Environment>(
        &self,
        tx: &mut Tx<'_, E>,
        key: T::Key<'_>,
        change: impl FnOnce(&mut T),
    ) -> Result<T, Error> {
        let key = T::key_values(key);
        let key = key.as_ref();
        let Some(before) = tx.get_for_update(&self.table, key)? else {
            let missing = StorageError::MissingKey { table: self.table.name().into() };
            return Err(Error::about_key(missing.into(), &self.table, key));
        };
        let mut row = T::from_row(&before)?;
        change(&mut row);
        {
            let values = row.values();
            let changes = changes(&before, values.as_ref());
            if !changes.is_empty() {
                tx.update(&self.table, key, &changes)?;
            }
        }
        Ok(row)
    }

    /// Deletes the row with this primary key.
    ///
    /// # Errors
    /// As [`Tx::delete`].
    pub fn delete<E: Environment>(&self, tx: &mut Tx<'_, E>, key: T::Key<'_>) -> Result<(), Error> {
        tx.delete(&self.table, T::key_values(key).as_ref())
    }

    /// Returns the rows of a scan as an iterator, as [`Tx::rows`]. A scan that names columns is
    /// refused, since a typed row has them all.
    pub fn rows<'a, R: Read + ?Sized>(&self, from: &'a R, what: Scan<'a>) -> TypedRows<'a, R, T>
    where
        T: 'a,
    {
        TypedRows::new(all_columns(&what).map(|()| from.rows(&self.table, what)))
    }

    /// Calls `visit` with the rows of a scan, in order, until it breaks, as [`Tx::scan`].
    ///
    /// # Errors
    /// As [`Tx::scan`] and [`TypedTable::get`]; [`Error::Options`] if the scan names columns.
    pub fn scan<R: Read + ?Sized>(
        &self,
        from: &R,
        what: &Scan<'_>,
        mut visit: impl FnMut(T) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        all_columns(what)?;
        let mut done = Ok(());
        from.scan(&self.table, what, &mut |row| match T::from_row(row) {
            Ok(row) => visit(row),
            Err(error) => {
                done = Err(error.into());
                ControlFlow::Break(())
            }
        })?;
        done
    }

    fn typed(&self, row: Option<&Row>) -> Result<Option<T>, Error> {
        Ok(row.map(T::from_row).transpose()?)
    }
}

/// Refuses a scan that names columns.
fn all_columns(what: &Scan<'_>) -> Result<(), Error> {
    if what.names_columns() {
        let why = "a scan of typed rows names no columns: a row has them all";
        return Err(Error::Options(why.into()));
    }
    Ok(())
}

/// The values that are others than before, with their columns.
fn changes<'v>(before: &Row, values: &[Value<'v>]) -> Vec<(u16, Value<'v>)> {
    let same = |one: &Value<'_>, other: &Value<'_>| match (one, other) {
        // Bit by bit: a zero may have changed its sign.
        (Value::F64(one), Value::F64(other)) => one.to_bits() == other.to_bits(),
        (one, other) => one == other,
    };
    let pairs = (0..).zip(before.values().zip(values));
    let changed = pairs.filter(|(_, (before, value))| !same(before, value));
    changed.map(|(column, (_, value))| (column, *value)).collect()
}
