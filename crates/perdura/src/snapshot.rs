//! Snapshots: a version of the data that stays as it is.

use std::ops::ControlFlow;
use std::sync::Arc;

use engines::Reader;
use engines::below::{Catalog, Row, Value};

use crate::declared;
use crate::error::Error;
use crate::table::Table;
use crate::transaction::{Scan, check_columns, own_table};

/// A partition as it was when the snapshot was taken: see [`crate::Database::snapshot`].
///
/// It can be sent to another thread, and read while transactions go on. It outlives the database;
/// the pool stays locked for as long as a snapshot of it lives. What it sees takes space until it
/// is dropped.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) reader: Box<dyn Reader>,
    pub(crate) catalog: Arc<Catalog>,
}

impl Snapshot {
    /// As [`crate::Tx::get`].
    ///
    /// # Errors
    /// As [`crate::Tx::get`].
    pub fn get(&self, table: &Table, key: &[Value<'_>], row: &mut Row) -> Result<bool, Error> {
        let number = own_table(&self.catalog, table)?;
        Ok(declared::get(&*self.reader, (number, &table.layout), key, None, row)?)
    }

    /// As [`crate::Tx::get_columns`].
    ///
    /// # Errors
    /// As [`crate::Tx::get`].
    pub fn get_columns(
        &self,
        table: &Table,
        key: &[Value<'_>],
        columns: &[u16],
        row: &mut Row,
    ) -> Result<bool, Error> {
        let number = own_table(&self.catalog, table)?;
        check_columns(table, columns)?;
        Ok(declared::get(&*self.reader, (number, &table.layout), key, Some(columns), row)?)
    }

    /// As [`crate::Tx::get_bytes`].
    ///
    /// # Errors
    /// As [`crate::Tx::get`].
    pub fn get_bytes(
        &self,
        table: &Table,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, Error> {
        let number = own_table(&self.catalog, table)?;
        check_columns(table, columns)?;
        Ok(self.reader.get_bytes(number, key, columns, out)?)
    }

    /// As [`crate::Tx::scan`].
    ///
    /// # Errors
    /// As [`crate::Tx::scan`].
    pub fn scan(
        &self,
        table: &Table,
        what: &Scan<'_>,
        mut visit: impl FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let number = own_table(&self.catalog, table)?;
        let (table, what) = ((number, &*table.layout), what.resolve(table)?);
        Ok(declared::scan(&*self.reader, table, &what, &mut Row::new(), &mut visit)?)
    }
}
