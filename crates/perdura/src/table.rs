//! Handles to tables.

use std::sync::Arc;

use engines::below::{Catalog, TableLayout};

use crate::error::Error;

/// A table of an open database. Cheap to clone; good for the database that gave it.
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) number: u16,
    pub(crate) layout: Arc<TableLayout>,
}

impl Table {
    pub(crate) fn find(catalog: &Catalog, name: &str) -> Result<Self, Error> {
        let Some(number) = catalog.table(name) else {
            let names: Vec<_> =
                catalog.tables.iter().map(|table| format!("`{}`", table.schema.name())).collect();
            return Err(Error::NoTable { name: name.into(), known: names.join(", ") });
        };
        Ok(Self { number: number as u16, layout: catalog.tables[number].clone() })
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        self.layout.schema.name()
    }

    /// The number of a column, for [`crate::Tx::update`] and the columns of a row.
    pub fn column(&self, name: &str) -> Option<u16> {
        self.layout.column(name)
    }

    /// The columns' names and types are in here.
    pub fn schema(&self) -> &engines::below::TableSchema {
        &self.layout.schema
    }

    pub(crate) fn index(&self, name: &str) -> Result<usize, Error> {
        self.layout
            .index(name)
            .ok_or_else(|| Error::NoIndex { table: self.name().into(), name: name.into() })
    }
}
