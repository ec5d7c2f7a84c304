//! Columns by number or by name.

use engines::below::{StorageError, Value};

use crate::error::Error;
use crate::table::Table;

/// A column of a table: its number ([`Table::column`]), as `u16`, or its name, as `&str`. Where
/// numbers are given, nothing is looked up.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// fn set<C: ColumnRef>(tx: &mut Tx<'_>, account: &Table, column: C) -> Result<(), Error> {
///     tx.update(account, &[Value::from(1)], &[(column, Value::from(70))])
/// }
/// let mut tx = db.begin()?;
/// set(&mut tx, &account, "balance")?;
/// set(&mut tx, &account, 2)?;
/// let row = tx.get_columns(&account, &[Value::from(1)], &["owner", "balance"])?;
/// assert_eq!(row.unwrap().i64(1), 70);
/// # Ok::<(), Error>(())
/// ```
///
/// It has one integer type so that a literal needs no suffix.
pub trait ColumnRef: Copy + sealed::Sealed {
    /// The columns of these changes by number: as they are, or in `buffer`.
    #[doc(hidden)]
    fn changes<'c, 'v>(
        table: &Table,
        changes: &'c [(Self, Value<'v>)],
        buffer: &'c mut Vec<(u16, Value<'v>)>,
    ) -> Result<&'c [(u16, Value<'v>)], Error>;

    /// Returns these columns by number: the slice itself, or `buffer` with the numbers. The table
    /// has all of them.
    #[doc(hidden)]
    fn numbers<'c>(
        table: &Table,
        columns: &'c [Self],
        buffer: &'c mut Vec<u16>,
    ) -> Result<&'c [u16], Error>;

    /// Returns a list of these columns, to be looked up later.
    #[doc(hidden)]
    fn list<'c>(columns: &'c [Self]) -> ColumnList<'c>
    where
        Self: 'c;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u16 {}
    impl Sealed for &str {}
}

/// Columns that are not looked up yet.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum ColumnList<'c> {
    Numbers(&'c [u16]),
    Names(&'c [&'c str]),
}

impl ColumnList<'_> {
    pub(crate) fn numbers<'c>(
        &'c self,
        table: &Table,
        buffer: &'c mut Vec<u16>,
    ) -> Result<&'c [u16], Error> {
        match self {
            Self::Numbers(columns) => u16::numbers(table, columns, buffer),
            Self::Names(columns) => <&str>::numbers(table, columns, buffer),
        }
    }
}

/// Checks that a table has these columns.
#[inline]
pub(crate) fn check_columns(table: &Table, columns: &[u16]) -> Result<(), Error> {
    let count = table.schema().columns().len();
    match columns.iter().find(|column| usize::from(**column) >= count) {
        None => Ok(()),
        Some(column) => Err(Error::Invalid(StorageError::NoColumn {
            table: table.name().into(),
            column: usize::from(*column),
        })),
    }
}

impl ColumnRef for u16 {
    #[inline]
    fn changes<'c, 'v>(
        _: &Table,
        changes: &'c [(Self, Value<'v>)],
        _: &'c mut Vec<(u16, Value<'v>)>,
    ) -> Result<&'c [(u16, Value<'v>)], Error> {
        // The numbers are checked where the changes are made.
        Ok(changes)
    }

    #[inline]
    fn numbers<'c>(
        table: &Table,
        columns: &'c [Self],
        _: &'c mut Vec<u16>,
    ) -> Result<&'c [u16], Error> {
        check_columns(table, columns)?;
        Ok(columns)
    }

    fn list<'c>(columns: &'c [Self]) -> ColumnList<'c>
    where
        Self: 'c,
    {
        ColumnList::Numbers(columns)
    }
}

impl ColumnRef for &str {
    fn changes<'c, 'v>(
        table: &Table,
        changes: &'c [(Self, Value<'v>)],
        buffer: &'c mut Vec<(u16, Value<'v>)>,
    ) -> Result<&'c [(u16, Value<'v>)], Error> {
        for (name, value) in changes {
            buffer.push((table.number_of(name)?, *value));
        }
        Ok(buffer)
    }

    fn numbers<'c>(
        table: &Table,
        columns: &'c [Self],
        buffer: &'c mut Vec<u16>,
    ) -> Result<&'c [u16], Error> {
        for name in columns {
            buffer.push(table.number_of(name)?);
        }
        Ok(buffer)
    }

    fn list<'c>(columns: &'c [Self]) -> ColumnList<'c>
    where
        Self: 'c,
    {
        ColumnList::Names(columns)
    }
}
