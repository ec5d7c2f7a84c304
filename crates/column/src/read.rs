//! Reads of a transaction: one row by its key, and rows in the order of their keys. Readers wait for
//! nobody.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use pm::Memory;

use crate::Result;
use crate::session::Session;
use crate::store::Shared;
use crate::table::Table;
use crate::value::{Field, Value};

/// Keys that are taken from an index at a time.
const BATCH: usize = 64;

impl<M: Memory> Shared<M> {
    /// The newest versions of keys from `start` on among the rows that are not in the index yet.
    fn rest(&self, table: &Table<M>, start: &[u8]) -> Result<BTreeMap<Vec<u8>, u64>> {
        let unbuilt = table.keys.read().unbuilt;
        let mut found = BTreeMap::new();
        for row in 1..unbuilt {
            if self.counts(table, row)? {
                let key = table.key(row)?;
                if *key >= *start {
                    found.insert(key, row);
                }
            }
        }
        Ok(found)
    }

    /// Calls `visit` with the newest version of each key from `start` on, in their order.
    fn for_each_key(
        &self,
        table: &Table<M>,
        start: &[u8],
        mut visit: impl FnMut(&[u8], u64) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        // Before the index: what comes into it meanwhile is in both.
        let mut rest = self.rest(table, start)?;
        let mut from = Bound::Included(start.to_vec());
        loop {
            let batch = table.keys.read().some_from(from.as_ref().map(Vec::as_slice), BATCH);
            let last = batch.last().map(|(key, _)| key.clone());
            let mut all: BTreeMap<Vec<u8>, u64> = match &last {
                Some(last) if batch.len() == BATCH => {
                    let behind = rest.split_off(last);
                    std::mem::replace(&mut rest, behind)
                }
                _ => std::mem::take(&mut rest),
            };
            for (key, row) in batch.iter().cloned() {
                rest.remove(&key);
                let newest = all.entry(key).or_insert(row);
                *newest = row.max(*newest);
            }
            for (key, row) in &all {
                if visit(key, *row)?.is_break() {
                    return Ok(());
                }
            }
            match last.filter(|_| batch.len() == BATCH) {
                Some(last) => from = Bound::Excluded(last),
                None => return Ok(()),
            }
        }
    }
}

impl<M: Memory> Session<M> {
    /// The row with this key.
    ///
    /// # Errors
    /// The key is of another kind; damage.
    pub fn get(&self, table: usize, key: Value<'_>) -> Result<Option<Vec<Field>>> {
        let table = self.shared.table(table)?;
        let bytes = key.key(table.columns[0].kind())?;
        let newest = self.shared.newest(table, &bytes, key)?;
        let seen = self.shared.seen(table, newest, &self.sight())?;
        seen.map(|row| table.fields(row)).transpose()
    }

    /// Calls `visit` with each row from the key `start` on, or from the first one, in the order of keys.
    ///
    /// # Errors
    /// The key is of another kind; damage.
    pub fn scan(
        &self,
        table: usize,
        start: Option<Value<'_>>,
        mut visit: impl FnMut(Vec<Field>) -> ControlFlow<()>,
    ) -> Result<()> {
        let table = self.shared.table(table)?;
        let start = start.map(|start| start.key(table.columns[0].kind())).transpose()?;
        let sight = self.sight();
        self.shared.for_each_key(table, &start.unwrap_or_default(), |_, newest| {
            Ok(match self.shared.seen(table, newest, &sight)? {
                Some(row) => visit(table.fields(row)?),
                None => ControlFlow::Continue(()),
            })
        })
    }
}
