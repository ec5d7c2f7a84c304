//! Reading, whatever from.

use std::ops::ControlFlow;

use engines::below::{Environment, Row, Value};

use crate::error::Error;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::{ReadTx, Scan, Tx};

/// Reads a consistent view: a transaction, a transaction that only reads, or a snapshot. A function
/// over this runs on each.
///
/// ```
/// # use perdura::*;
/// fn balance(from: &impl Read, account: &Table, id: u64) -> Result<Option<i64>, Error> {
///     let mut row = Row::new();
///     let found = from.get_columns(account, &[Value::U64(id)], &[2], &mut row)?;
///     Ok(found.then(|| row.i64(0)))
/// }
/// ```
pub trait Read {
    /// As [`Tx::get`].
    ///
    /// # Errors
    /// As [`Tx::get`].
    fn get(&self, table: &Table, key: &[Value<'_>], row: &mut Row) -> Result<bool, Error>;

    /// As [`Tx::get_columns`].
    ///
    /// # Errors
    /// As [`Tx::get`].
    fn get_columns(
        &self,
        table: &Table,
        key: &[Value<'_>],
        columns: &[u16],
        row: &mut Row,
    ) -> Result<bool, Error>;

    /// As [`Tx::get_bytes`].
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

    /// As [`Tx::scan`].
    ///
    /// # Errors
    /// As [`Tx::scan`].
    fn scan(
        &self,
        table: &Table,
        what: &Scan<'_>,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), Error>;
}

macro_rules! reads {
    ($reader:ty $(, $environment:ident)?) => {
        impl $(<$environment: Environment>)? Read for $reader {
            fn get(&self, table: &Table, key: &[Value<'_>], row: &mut Row) -> Result<bool, Error> {
                <$reader>::get(self, table, key, row)
            }

            fn get_columns(
                &self,
                table: &Table,
                key: &[Value<'_>],
                columns: &[u16],
                row: &mut Row,
            ) -> Result<bool, Error> {
                <$reader>::get_columns(self, table, key, columns, row)
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

reads!(Tx<'_, E>, E);
reads!(ReadTx<'_, E>, E);
reads!(Snapshot);
