//! Errors of the shared parts of the engines.

use heap::HeapError;
use index::IndexError;
use pm::Bad;
use pm::Escaped;

use crate::limits::MAX_COLUMNS;

/// An operation failed; what it would have changed is as before, and the transaction can go on or
/// abort.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The table has a tuple with this primary key.
    #[error("table `{table}` has a tuple with this primary key already", table = Escaped(.table))]
    DuplicateKey {
        /// The table.
        table: String,
    },
    /// Another tuple of the table has the same values in a unique index.
    #[error("table `{table}` has a tuple with {key} in unique index `{index}` already", table = Escaped(.table), key = Escaped(.key), index = Escaped(.index))]
    NotUnique {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// Its columns and values, as people read them.
        key: String,
    },
    /// The table has no tuple with this primary key.
    #[error("table `{table}` has no tuple with this primary key", table = Escaped(.table))]
    MissingKey {
        /// The table.
        table: String,
    },
    /// A value is longer than its column allows.
    #[error("column `{column}` holds at most {max} bytes, not {bytes}", column = Escaped(.column))]
    TooLarge {
        /// The column.
        column: String,
        /// Bytes of the value.
        bytes: usize,
        /// Bytes that the column holds.
        max: u32,
    },
    /// A number is outside what its column's type holds.
    #[error("column `{column}` holds {wanted}, not {found}", column = Escaped(.column), wanted = Escaped(.wanted), found = Escaped(.found))]
    OutOfRange {
        /// The column.
        column: String,
        /// The column's type and range.
        wanted: String,
        /// The number.
        found: String,
    },
    /// A value is NULL, and its column cannot be.
    #[error("column `{column}` of table `{table}` cannot be NULL", column = Escaped(.column), table = Escaped(.table))]
    Null {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// An insert does not name a column that has no default and cannot be NULL.
    #[error("column `{column}` of table `{table}` has no value; name it, or declare a default", column = Escaped(.column), table = Escaped(.table))]
    NoValue {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A value has another type than its column.
    #[error("column `{column}` holds {wanted}, not {found}", column = Escaped(.column), wanted = Escaped(.wanted))]
    WrongType {
        /// The column.
        column: String,
        /// The column's type.
        wanted: String,
        /// The value's type.
        found: &'static str,
    },
    /// Too few or too many values.
    #[error("{what} takes {wanted} values, not {found}", what = Escaped(.what))]
    WrongCount {
        /// The table or key.
        what: String,
        /// Values that it takes.
        wanted: usize,
        /// Values that were given.
        found: usize,
    },
    /// The table has no such column.
    #[error("table `{table}` has no column {column}", table = Escaped(.table))]
    NoColumn {
        /// The table.
        table: String,
        /// The number that was given.
        column: usize,
    },
    /// An update names more columns than a table can have.
    #[error(
        "an update of table `{table}` changes {MAX_COLUMNS} columns at most, not {found}; give each column once", table = Escaped(.table))]
    TooManyChanges {
        /// The table.
        table: String,
        /// Columns that were given.
        found: usize,
    },
    /// An update has two new values for a column.
    #[error("table `{table}`: column `{column}` is named twice; give each column once", table = Escaped(.table), column = Escaped(.column))]
    ColumnTwice {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A column of the primary key cannot be updated.
    #[error(
        "column `{column}` belongs to the primary key and cannot be updated; delete the tuple and insert it anew", column = Escaped(.column))]
    KeyColumn {
        /// The column.
        column: String,
    },
    /// The transactions of a batch make and supersede more objects than its list can name, or a
    /// transaction has more changes than its undo log can.
    #[error(
        "the transaction changes too many rows: at most {max}, and fewer if it changes many columns of them; commit it in parts"
    )]
    TransactionTooLarge {
        /// Objects that the list can name, or entries that the log can have.
        max: u64,
    },
    /// The schema makes no sense.
    #[error("{text}", text = Escaped(.0))]
    Schema(String),
    /// The database's description is whole, but has something that this build does not know.
    #[error(
        "the description of the database has something that this build does not know ({why}); open it with the build that has written it, or a newer one", why = Escaped(.why))]
    UnknownDescription {
        /// The unknown thing.
        why: String,
    },
    /// The memory is full or damaged.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// The medium holds something impossible.
    #[error(transparent)]
    Bad(#[from] Bad),
}

impl From<IndexError> for StorageError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Heap(error) => Self::Heap(error),
            IndexError::Bad(error) => Self::Bad(error),
            // Engines turn a duplicate into an error with the table's name before this.
            other => Self::Schema(other.to_string()),
        }
    }
}
