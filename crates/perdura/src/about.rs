//! Errors about tuples, with the names of the table and the key.

use engines::EngineError;
use engines::below::{Value, shown_key};

use crate::error::Error;
use crate::table::Table;

impl Error {
    /// Returns the error of an operation on the tuple of a table with this primary key.
    #[cold]
    #[inline(never)]
    pub(crate) fn about_key(error: EngineError, table: &Table, values: &[Value<'_>]) -> Self {
        let mut error = Self::from(error);
        if let Self::DuplicateKey { key, index: None, .. } | Self::MissingKey { key, .. } =
            &mut error
        {
            let columns = table.schema().key_columns().iter().map(String::as_str);
            *key = shown_key(columns.zip(values.iter().copied()));
        }
        error
    }

    /// Returns the error of inserting this tuple.
    #[cold]
    #[inline(never)]
    pub(crate) fn about_tuple(error: EngineError, table: &Table, values: &[Value<'_>]) -> Self {
        // A tuple of too few values has no key, and another error.
        let key = table.layout.key_columns().map_while(|column| values.get(column).copied());
        Self::about_key(error, table, &key.collect::<Vec<_>>())
    }
}
