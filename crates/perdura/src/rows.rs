//! Scans as iterators.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::vec;

use engines::below::{OwnedValue, Row, RowNames};

use crate::error::Error;
use crate::read::Read;
use crate::scan::Scan;
use crate::table::Table;

/// The number of tuples that are fetched first; each later fetch takes twice as many, up to the
/// most.
const FIRST: usize = 8;
const MOST: usize = 256;

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
    reader: &'a R,
    table: Table,
    scan: Scan<'a>,
    /// None before the first batch.
    plan: Option<Plan>,
    fetched: vec::IntoIter<Row>,
    /// The key of the last tuple that was fetched.
    last: Option<Vec<OwnedValue<'static>>>,
    batch: usize,
    left: usize,
    done: bool,
}

/// The columns that are fetched.
struct Plan {
    /// All if `None`; those of the key that nobody asked for come last.
    columns: Option<Vec<u16>>,
    /// The number of them that are shown, and their names.
    shown: usize,
    names: Arc<RowNames>,
    /// The places of the key's columns among those that are fetched.
    key: Vec<usize>,
}

impl Plan {
    fn of(table: &Table, scan: &Scan<'_>) -> Result<Self, Error> {
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

impl<'a, R: Read + ?Sized> Rows<'a, R> {
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

    /// Fetches the next tuples.
    fn fetch(&mut self) -> Result<(), Error> {
        let plan = match self.plan.take() {
            Some(plan) => self.plan.insert(plan),
            None => self.plan.insert(Plan::of(&self.table, &self.scan)?),
        };
        let wanted = self.batch.min(self.left);
        let mut rows = Vec::with_capacity(wanted);
        {
            let last = self.last.as_ref();
            let last = last.map(|key| key.iter().map(OwnedValue::value).collect());
            let mut scan = self.scan.rest(last, wanted);
            if let Some(columns) = &plan.columns {
                scan = scan.with_columns(columns);
            }
            self.reader.scan(&self.table, &scan, &mut |row| {
                rows.push(row.clone());
                ControlFlow::Continue(())
            })?;
        }
        self.left -= rows.len();
        self.done = rows.len() < wanted || self.left == 0;
        self.batch = (2 * self.batch).min(MOST);
        if let Some(row) = rows.last() {
            let key = plan.key.iter().map(|place| OwnedValue::of(&row.get(*place)));
            self.last = Some(key.collect());
        }
        for row in &mut rows {
            row.truncate(plan.shown);
            row.set_names(&plan.names);
        }
        self.fetched = rows.into_iter();
        Ok(())
    }
}

impl<R: Read + ?Sized> Iterator for Rows<'_, R> {
    type Item = Result<Row, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(row) = self.fetched.next() {
            return Some(Ok(row));
        }
        if self.done {
            return None;
        }
        if let Err(error) = self.fetch() {
            self.done = true;
            return Some(Err(error));
        }
        self.fetched.next().map(Ok)
    }
}

impl<R: Read + ?Sized> FusedIterator for Rows<'_, R> {}

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
