//! Fetching the rows of a scan in batches, for [`Rows`].

use std::iter::FusedIterator;
use std::ops::ControlFlow;

use engines::below::{OwnedValue, Row};

use crate::error::Error;
use crate::read::Read;
use crate::rows::{Plan, Rows};

/// The most tuples that are fetched at once.
const MOST: usize = 256;

impl<R: Read + ?Sized> Rows<'_, R> {
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
