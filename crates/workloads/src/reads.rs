//! The reads that both kinds of transaction have, so that a query is written once.

use std::ops::ControlFlow;

use perdura::{Environment, Error, ReadTx, Row, Scan, Table, Tx, Value};

/// A tuple that every consistent database has is not there.
#[derive(Debug, thiserror::Error)]
#[error("table `{table}` lacks the tuple {key}, which the workload needs; was it loaded?")]
struct Missing {
    table: String,
    key: String,
}

/// The error about a tuple that has to be there.
#[cold]
pub(crate) fn missing(table: &Table, key: &[Value<'_>]) -> Error {
    Error::user(Missing { table: table.name().to_owned(), key: format!("{key:?}") })
}

/// A transaction that can at least read.
pub(crate) trait Reads {
    /// Copies columns of a tuple into `row`; returns whether there is one.
    fn find(
        &self,
        table: &Table,
        key: &[Value<'_>],
        columns: &[u16],
        row: &mut Row,
    ) -> Result<bool, Error>;

    /// Visits the tuples of a range until `visit` breaks.
    fn scan(
        &self,
        table: &Table,
        what: &Scan<'_>,
        visit: impl FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), Error>;

    /// Copies columns of a tuple that has to be there.
    #[inline]
    fn need(
        &self,
        table: &Table,
        key: &[Value<'_>],
        columns: &[u16],
        row: &mut Row,
    ) -> Result<(), Error> {
        if self.find(table, key, columns, row)? { Ok(()) } else { Err(missing(table, key)) }
    }

    /// Visits all tuples of a range.
    fn each(
        &self,
        table: &Table,
        what: &Scan<'_>,
        mut visit: impl FnMut(&Row),
    ) -> Result<(), Error> {
        self.scan(table, what, |row| {
            visit(row);
            ControlFlow::Continue(())
        })
    }
}

macro_rules! reads {
    ($transaction:ident) => {
        impl<E: Environment> Reads for $transaction<'_, E> {
            #[inline]
            fn find(
                &self,
                table: &Table,
                key: &[Value<'_>],
                columns: &[u16],
                row: &mut Row,
            ) -> Result<bool, Error> {
                self.get_columns_into(table, key, columns, row)
            }

            #[inline]
            fn scan(
                &self,
                table: &Table,
                what: &Scan<'_>,
                visit: impl FnMut(&Row) -> ControlFlow<()>,
            ) -> Result<(), Error> {
                $transaction::scan(self, table, what, visit)
            }
        }
    };
}

reads!(Tx);
reads!(ReadTx);
