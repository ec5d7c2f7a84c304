//! Reads of a transaction, a transaction that only reads, or a snapshot.

use std::ops::ControlFlow;
use std::sync::Arc;

use engines::Read as _;
use engines::below::{Environment, Row, RowNames, Value};

use crate::columns::{ColumnRef, check_columns};
use crate::declared;
use crate::error::Error;
use crate::rows::Rows;
use crate::scan::Scan;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::{ReadTx, Tx, own_table};

/// Reads a consistent view: a transaction, a transaction that only reads, or a snapshot. A function
/// over this runs on each.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// fn balance(from: &impl Read, account: &Table, id: u64) -> Result<Option<i64>, Error> {
///     match from.get_columns(account, &[Value::from(id)], &["balance"])? {
///         Some(row) => Ok(Some(row.try_get("balance")?)),
///         None => Ok(None),
///     }
/// }
/// assert_eq!(balance(&db.begin()?, &account, 1)?, Some(100));
/// assert_eq!(db.read(|tx| balance(tx, &account, 3))?, None);
/// # Ok::<(), Error>(())
/// ```
pub trait Read {
    /// Works as [`Tx::get`].
    ///
    /// # Errors
    /// As [`Tx::get`].
    fn get(&self, table: &Table, key: &[Value<'_>]) -> Result<Option<Row>, Error>;

    /// Works as [`Tx::get_into`].
    ///
    /// # Errors
    /// As [`Tx::get`].
    fn get_into(&self, table: &Table, key: &[Value<'_>], row: &mut Row) -> Result<bool, Error>;

    /// Works as [`Tx::get_columns`].
    ///
    /// # Errors
    /// As [`Tx::get_columns`].
    fn get_columns<C: ColumnRef>(
        &self,
        table: &Table,
        key: &[Value<'_>],
        columns: &[C],
    ) -> Result<Option<Row>, Error>
    where
        Self: Sized;

    /// Works as [`Tx::get_columns_into`].
    ///
    /// # Errors
    /// As [`Tx::get_columns`].
    fn get_columns_into(
        &self,
        table: &Table,
        key: &[Value<'_>],
        columns: &[u16],
        row: &mut Row,
    ) -> Result<bool, Error>;

    /// Works as [`Tx::get_bytes`].
    ///
    /// # Errors
    /// As [`Tx::get`].
    fn get_bytes(
        &self,
        table: &Table,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, Error>;

    /// Works as [`Tx::scan`].
    ///
    /// # Errors
    /// As [`Tx::scan`].
    fn scan(
        &self,
        table: &Table,
        what: &Scan<'_>,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), Error>;

    /// Works as [`Tx::rows`].
    fn rows<'a>(&'a self, table: &Table, what: Scan<'a>) -> Rows<'a, Self> {
        Rows::new(self, table, what)
    }
}

/// Allows every scan.
fn any_scan(_: &Scan<'_>) -> Result<(), Error> {
    Ok(())
}

/// Implements the reads of each of these, and [`Read`]. `$scans` says which scans it allows.
macro_rules! reads {
    ($reader:ty $(, $environment:ident)?; $this:ident => $engine:expr, $catalog:expr, $scans:expr) => {
        impl $(<$environment: Environment>)? $reader {
            /// Returns the tuple with this primary key, if there is one. Sees what this transaction
            /// has done.
            ///
            /// ```
            /// # use perdura::*;
            /// # fn balance(tx: &Tx<'_>, account: &Table) -> Result<i64, Error> {
            /// let Some(row) = tx.get(account, &[Value::from(1)])? else { return Ok(0) };
            /// Ok(row.try_get("balance")?)
            /// # }
            /// ```
            ///
            /// # Errors
            /// [`Error::Invalid`], [`Error::Damaged`].
            #[inline]
            pub fn get(&self, table: &Table, key: &[Value<'_>]) -> Result<Option<Row>, Error> {
                let mut row = Row::new();
                Ok(self.get_into(table, key, &mut row)?.then_some(row))
            }

            /// Copies the tuple with this primary key into `row`; returns whether there is one. As
            /// `get`, without an allocation if `row` has been filled before.
            ///
            /// # Errors
            /// [`Error::Invalid`], [`Error::Damaged`].
            #[inline]
            pub fn get_into(
                &self,
                table: &Table,
                key: &[Value<'_>],
                row: &mut Row,
            ) -> Result<bool, Error> {
                let $this = self;
                let number = own_table($catalog, table)?;
                let found = declared::get($engine, (number, &table.layout), key, None, row)?;
                row.set_names(&table.names);
                Ok(found)
            }

            /// Works as `get`, with some columns only, by number or name.
            ///
            /// # Errors
            /// As `get`; [`Error::NoColumn`].
            pub fn get_columns<C: ColumnRef>(
                &self,
                table: &Table,
                key: &[Value<'_>],
                columns: &[C],
            ) -> Result<Option<Row>, Error> {
                let (mut buffer, mut row) = (Vec::new(), Row::new());
                let columns = C::numbers(table, columns, &mut buffer)?;
                if !self.get_columns_into(table, key, columns, &mut row)? {
                    return Ok(None);
                }
                row.set_names(&Arc::new(RowNames::of(&table.layout, columns)));
                Ok(Some(row))
            }

            /// Works as `get_into`, with some columns only, by number. The row does not know their
            /// names.
            ///
            /// # Errors
            /// As `get`.
            #[inline]
            pub fn get_columns_into(
                &self,
                table: &Table,
                key: &[Value<'_>],
                columns: &[u16],
                row: &mut Row,
            ) -> Result<bool, Error> {
                let $this = self;
                let number = own_table($catalog, table)?;
                check_columns(table, columns)?;
                let columns = Some(columns);
                let found = declared::get($engine, (number, &table.layout), key, columns, row)?;
                row.forget_names();
                Ok(found)
            }

            /// Copies columns of the tuple with this primary key one after the other into `out`,
            /// numbers as eight little-endian bytes; what is NULL reads as zero or as empty.
            /// Returns the number of bytes, and copies nothing if `out` is shorter; `None` if there
            /// is no such tuple. This is the fastest way to read.
            ///
            /// # Errors
            /// As `get`.
            #[inline]
            pub fn get_bytes(
                &self,
                table: &Table,
                key: &[Value<'_>],
                columns: &[u16],
                out: &mut [u8],
            ) -> Result<Option<usize>, Error> {
                let $this = self;
                let number = own_table($catalog, table)?;
                check_columns(table, columns)?;
                Ok($engine.get_bytes(number, key, columns, out)?)
            }

            /// Calls `visit` with each tuple of a scan, in the order of the scan's key, until `visit`
            /// returns [`ControlFlow::Break`].
            ///
            /// # Errors
            /// [`Error::NoIndex`], [`Error::NoColumn`], [`Error::Invalid`], [`Error::Damaged`];
            /// [`Error::ReadsOnly`] for [`Scan::for_update`] where nothing can be changed.
            pub fn scan(
                &self,
                table: &Table,
                what: &Scan<'_>,
                mut visit: impl FnMut(&Row) -> ControlFlow<()>,
            ) -> Result<(), Error> {
                let $this = self;
                $scans(what)?;
                let place = (own_table($catalog, table)?, &*table.layout);
                what.run(table, &mut visit, |what, row, visit| {
                    declared::scan($engine, place, what, row, visit)
                })
            }

            /// Works as `scan`, with a function that may fail, which ends it. Its error type has to
            /// be named if it ends with `Ok`.
            ///
            /// ```
            /// # use std::ops::ControlFlow;
            /// # use perdura::*;
            /// # fn sum(tx: &Tx<'_>, account: &Table) -> Result<i64, Error> {
            /// let mut sum = 0;
            /// tx.try_scan(account, &Scan::all(), |row| -> Result<_, Error> {
            ///     sum += row.try_get::<i64>("balance")?;
            ///     Ok(ControlFlow::Continue(()))
            /// })?;
            /// # Ok(sum)
            /// # }
            /// ```
            ///
            /// # Errors
            /// As `scan`; or that of `visit`.
            pub fn try_scan<X: From<Error>>(
                &self,
                table: &Table,
                what: &Scan<'_>,
                mut visit: impl FnMut(&Row) -> Result<ControlFlow<()>, X>,
            ) -> Result<(), X> {
                let mut done = Ok(());
                self.scan(table, what, |row| match visit(row) {
                    Ok(next) => next,
                    Err(error) => {
                        done = Err(error);
                        ControlFlow::Break(())
                    }
                })?;
                done
            }

            /// The tuples of a scan as an iterator.
            ///
            /// They are copied, and fetched in batches of 8 to 256, each by a scan that begins
            /// after the last key. Compared with `scan` this costs an allocation or two for each
            /// row, and a descent of the index for each batch. While the iterator lives, this
            /// cannot change anything, so all rows are consistent with each other, as far as the
            /// isolation of a transaction goes.
            ///
            /// ```
            /// # use perdura::*;
            /// # fn sum(tx: &Tx<'_>, account: &Table) -> Result<i64, Error> {
            /// let mut sum = 0;
            /// for row in tx.rows(account, Scan::all()) {
            ///     sum += row?.try_get::<i64>("balance")?;
            /// }
            /// # Ok(sum)
            /// # }
            /// ```
            ///
            /// The first error, which may be that of the scan itself ([`Error::NoIndex`]), is the
            /// last item.
            pub fn rows<'a>(&'a self, table: &Table, what: Scan<'a>) -> Rows<'a, Self> {
                Rows::new(self, table, what)
            }
        }

        impl $(<$environment: Environment>)? Read for $reader {
            fn get(&self, table: &Table, key: &[Value<'_>]) -> Result<Option<Row>, Error> {
                <$reader>::get(self, table, key)
            }

            fn get_into(
                &self,
                table: &Table,
                key: &[Value<'_>],
                row: &mut Row,
            ) -> Result<bool, Error> {
                <$reader>::get_into(self, table, key, row)
            }

            fn get_columns<C: ColumnRef>(
                &self,
                table: &Table,
                key: &[Value<'_>],
                columns: &[C],
            ) -> Result<Option<Row>, Error> {
                <$reader>::get_columns(self, table, key, columns)
            }

            fn get_columns_into(
                &self,
                table: &Table,
                key: &[Value<'_>],
                columns: &[u16],
                row: &mut Row,
            ) -> Result<bool, Error> {
                <$reader>::get_columns_into(self, table, key, columns, row)
            }

            fn get_bytes(
                &self,
                table: &Table,
                key: &[Value<'_>],
                columns: &[u16],
                out: &mut [u8],
            ) -> Result<Option<usize>, Error> {
                <$reader>::get_bytes(self, table, key, columns, out)
            }

            fn scan(
                &self,
                table: &Table,
                what: &Scan<'_>,
                visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
            ) -> Result<(), Error> {
                <$reader>::scan(self, table, what, visit)
            }
        }
    };
}

reads!(Tx<'_, E>, E; this => &**this.engine, this.catalog, any_scan);
reads!(ReadTx<'_, E>, E; this => &this.engine, this.catalog, Scan::reads_only);
reads!(Snapshot; this => &*this.reader, &this.catalog, Scan::reads_only);
