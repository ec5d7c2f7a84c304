//! Scans of typed rows as iterators.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;

use super::TableRow;
use crate::error::Error;
use crate::read::Read;
use crate::rows::Rows;

/// The rows of a scan, as values of type `T`: see [`TypedTable::rows`](crate::TypedTable::rows).
/// The first error is the last item.
///
/// ```
/// # use perdura::*;
/// #[derive(Table)]
/// struct Word {
///     #[table(key, max = 40)]
///     word: String,
///     count: u32,
/// }
/// # fn main() -> Result<(), Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let schema = Schema::new().table(Word::schema());
/// # let db = Database::create(directory.path().join("words"), &schema, &Options::new())?;
/// # let words = db.typed::<Word>()?;
/// # db.write(|tx| {
/// #     words.insert(tx, &Word { word: "one".into(), count: 1 })?;
/// #     words.insert(tx, &Word { word: "two".into(), count: 2 })
/// # })?;
/// let counted = db.read(|tx| {
///     let rows: TypedRows<'_, _, Word> = words.rows(tx, Scan::all());
///     rows.map(|row| Ok(row?.count)).sum::<Result<u32, Error>>()
/// })?;
/// assert_eq!(counted, 3);
/// # Ok(())
/// # }
/// ```
pub struct TypedRows<'a, R: ?Sized, T> {
    /// `None` after the last row.
    rows: Option<Result<Rows<'a, R>, Error>>,
    typed: PhantomData<fn() -> T>,
}

impl<'a, R: Read + ?Sized, T: TableRow> TypedRows<'a, R, T> {
    pub(super) fn new(rows: Result<Rows<'a, R>, Error>) -> Self {
        Self { rows: Some(rows), typed: PhantomData }
    }
}

impl<R: Read + ?Sized, T: TableRow> Iterator for TypedRows<'_, R, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match self.rows.as_mut()? {
            Ok(rows) => rows.next().map(|row| Ok(T::from_row(&row?)?)),
            Err(_) => self.rows.take().and_then(Result::err).map(Err),
        };
        if !matches!(next, Some(Ok(_))) {
            self.rows = None;
        }
        next
    }
}

impl<R: Read + ?Sized, T: TableRow> FusedIterator for TypedRows<'_, R, T> {}

impl<R: ?Sized, T> fmt::Debug for TypedRows<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedRows").field(&self.rows).finish()
    }
}
