//! Handles to tables.

use std::sync::Arc;

use engines::below::{Catalog, RowNames, TableLayout, did_you_mean};

use crate::error::Error;

/// A table of an open database. Cheap to clone; good for the database that gave it.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, _) = accounts(&Options::new());
/// let account: Table = db.table("account")?;
/// let balance = account.column("balance").expect("it has this column");
/// // By its number: nothing is looked up.
/// db.update(&account, &[Value::from(1)], &[(balance, Value::from(70))])?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) number: u16,
    pub(crate) layout: Arc<TableLayout>,
    pub(crate) names: Arc<RowNames>,
}

impl Table {
    pub(crate) fn find(catalog: &Catalog, name: &str) -> Result<Self, Error> {
        let Some(number) = catalog.table(name) else {
            let names = catalog.tables.iter().map(|table| table.schema.name());
            return Err(Error::NoTable { name: name.into(), known: known(name, names) });
        };
        let layout = catalog.tables[number].clone();
        let names = Arc::new(RowNames::all(&layout));
        Ok(Self { number: number as u16, layout, names })
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        self.layout.schema.name()
    }

    /// The number of a column, for [`crate::Tx::update`] and wherever a [`crate::ColumnRef`] is
    /// taken.
    pub fn column(&self, name: &str) -> Option<u16> {
        self.layout.column(name)
    }

    /// The columns' names and types are in here.
    #[expect(clippy::misnamed_getters, reason = "the layout's schema has null words, too")]
    pub fn schema(&self) -> &engines::below::TableSchema {
        &self.layout.declared
    }

    /// The number of a column.
    pub(crate) fn number_of(&self, name: &str) -> Result<u16, Error> {
        self.column(name).ok_or_else(|| {
            let names = self.schema().columns().iter().map(|column| column.name.as_str());
            let known = known(name, names);
            Error::NoColumn { table: self.name().into(), name: name.into(), known }
        })
    }

    pub(crate) fn index(&self, name: &str) -> Result<usize, Error> {
        self.layout.index(name).ok_or_else(|| {
            let names = self.schema().indexes().iter().map(|index| index.name.as_str());
            let known = known(name, names);
            Error::NoIndex { table: self.name().into(), name: name.into(), known }
        })
    }
}

/// Names that an error shows.
const NAMES_SHOWN: usize = 16;

/// The names that there are, for an error about one that there is not: the first few, and the one
/// that was probably meant.
fn known<'a>(wrong: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let meant = did_you_mean(wrong, names.clone());
    let mut shown: Vec<_> =
        names.clone().take(NAMES_SHOWN).map(|name| format!("`{name}`")).collect();
    match names.count().saturating_sub(NAMES_SHOWN) {
        0 if shown.is_empty() => shown.push("none".into()),
        0 => {}
        more => shown.push(format!("and {more} more")),
    }
    shown.join(", ") + &meant
}
