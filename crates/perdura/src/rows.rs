//! Scans as iterators.

use std::fmt;
use std::sync::Arc;
use std::vec;

use engines::below::{OwnedValue, Row, RowNames};

use crate::error::Error;
use crate::scan::Scan;
use crate::table::Table;

/// The number of tuples that are fetched first; each later fetch takes twice as many, up to the
/// most.
const FIRST: usize = 8;

/// The rows of a scan, each owned: see [`crate::Tx::rows`].
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let sum = db.read(|tx| {
///     let mut rows: Rows<'_, _> = tx.rows(&account, Scan::all());
///     rows.try_fold(0, |sum, row| Ok(sum + row?.try_get::<i64>("balance")?))
/// })?;
/// assert_eq!(sum, 150);
/// # Ok::<(), Error>(())
/// ```
pub struct Rows<'a, R: ?Sized> {
    pub(crate) reader: &'a R,
    pub(crate) table: Table,
    pub(crate) scan: Scan<'a>,
    /// None before the first batch.
    pub(crate) plan: Option<Plan>,
    pub(crate) fetched: vec::IntoIter<Row>,
    /// The key of the last tuple that was fetched.
    pub(crate) last: Option<Vec<OwnedValue<'static>>>,
    pub(crate) batch: usize,
    pub(crate) left: usize,
    pub(crate) done: bool,
}

/// The columns that are fetched.
pub(crate) struct Plan {
    /// All if `None`; key columns that were not asked for come last.
    pub(crate) columns: Option<Vec<u16>>,
    /// The number of them that are shown, and their names.
    pub(crate) shown: usize,
    pub(crate) names: Arc<RowNames>,
    /// The places of the key's columns among those that are fetched.
    pub(crate) key: Vec<usize>,
}

impl Plan {
    pub(crate) fn of(table: &Table, scan: &Scan<'_>) -> Result<Self, Error> {
        let key = scan.key_columns(table)?;
        let Some(mut columns) = scan.chosen(table)? else {
            let (shown, names) = (table.schema().columns().len(), table.names.clone());
            let key = key.into_iter().map(usize::from).collect();
            return Ok(Self { columns: None, shown, names, key });
        };
        let (shown, names) = (columns.len(), Arc::new(RowNames::of(&table.layout, &columns)));
        let key = key.into_iter().map(|column| {
            let place = columns.iter().position(|fetched| *fetched == column);
            place.unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            })
        });
        let key = key.collect();
        Ok(Self { columns: Some(columns), shown, names, key })
    }
}

impl<'a, R: ?Sized> Rows<'a, R> {
    pub(crate) fn new(reader: &'a R, table: &Table, scan: Scan<'a>) -> Self {
        let left = scan.most().unwrap_or(usize::MAX);
        let (fetched, batch, done) = (Vec::new().into_iter(), FIRST, false);
        Self {
            reader,
            table: table.clone(),
            scan,
            plan: None,
            fetched,
            last: None,
            batch,
            left,
            done,
        }
    }
}

impl<R: ?Sized> fmt::Debug for Rows<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, scan, done, .. } = self;
        let table = table.name();
        f.debug_struct("Rows")
            .field("table", &table)
            .field("scan", scan)
            .field("done", done)
            .finish()
    }
}
