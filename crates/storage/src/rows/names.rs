//! The names of a row's columns.

use std::sync::Arc;

use crate::rows::catalog::TableLayout;

/// The names of a row's columns: those of a table, or some of them.
#[derive(Debug)]
pub struct RowNames {
    layout: Arc<TableLayout>,
    columns: Option<Box<[u16]>>,
}

impl RowNames {
    /// All columns of a table.
    pub fn all(layout: &Arc<TableLayout>) -> Self {
        Self { layout: layout.clone(), columns: None }
    }

    /// These columns of a table, which has them.
    pub fn of(layout: &Arc<TableLayout>, columns: &[u16]) -> Self {
        Self { layout: layout.clone(), columns: Some(columns.into()) }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let declared = self.layout.declared.columns();
        let count = self.columns.as_ref().map_or(declared.len(), |columns| columns.len());
        (0..count).map(|place| {
            let column = self.columns.as_ref().map_or(place, |columns| columns[place].into());
            declared[column].name.as_str()
        })
    }
}
