//! Rebuilding of the indexes in ordinary memory (P4 4.3, 4.4), beside transactions: step by step, the
//! newest rows first. What is not built yet is found by scans of the rest.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Acquire;

use pm::Memory;

use crate::Result;
use crate::collect::Dead;
use crate::epoch::Stay;
use crate::stamps::is_mark;
use crate::store::{Shared, Store};
use crate::table::Table;

/// The part of the indexes that is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Built {
    /// Rows and values that were there when the store was opened and are not in an index yet.
    pub waiting: u64,
    /// Keys and values in indexes.
    pub built: u64,
}

impl<M: Memory> Shared<M> {
    /// Builds an index of a table with up to `many` rows; returns whether there are more.
    fn build_keys(&self, table: &Table<M>, index: usize, many: u64) -> Result<bool> {
        let end = table.indexes[index].read().unbuilt;
        let start = end.saturating_sub(many).max(1);
        let (mut found, mut ended, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        let mut cut_off = Vec::new();
        for row in (start..end).rev() {
            if self.counts(table, row)? {
                found.push((table.key(row, index)?.bytes, row));
                // What has ended since then is known to whoever has ended it.
                if let Some(until) = self.ended(table, row)?.filter(|until| *until <= self.opened) {
                    ended.push(Dead { table: table.number, row, until });
                }
                continue;
            }
            gone.push(Dead { table: table.number, row, until: 0 });
            let begin = table.place(row)?.begin();
            let stamp = self.memory.load(begin, Acquire)?;
            if is_mark(stamp) && self.recovered.contains_key(&stamp) {
                cut_off.push(begin);
            }
        }
        let mut keys = table.indexes[index].write();
        // Somebody else may have built some of them.
        if keys.unbuilt == end {
            // A statement that a crash cut off has left them. Its transaction may go on, with the same mark:
            // nobody must take the rows for its own. They are not used again before everything is built.
            for begin in cut_off {
                self.memory.store(begin, 0);
            }
            for (key, row) in found {
                let newer = match keys.get(&key) {
                    Some(there) if there >= table.ids.opened => false,
                    Some(there) => self.is_newer(table, row, there)?,
                    None => true,
                };
                if newer {
                    keys.set(key, row);
                }
            }
            keys.unbuilt = start;
            if index == 0 {
                let mut pile = self.pile.write();
                pile.add(ended);
                pile.retire(self.epochs.next(), gone);
            }
        }
        Ok(keys.unbuilt > 1)
    }
}

impl<M: Memory> Store<M> {
    /// Indexes up to `many` rows or values that were there when the store was opened: of the tables of
    /// transactions in flight first. Returns whether there are more.
    ///
    /// # Errors
    /// Damage.
    pub fn rebuild(&self, many: u64) -> Result<bool> {
        // What is looked at is not used again meanwhile, though somebody else finishes.
        let _stay = Stay::new(&self.0.epochs, &self.0.clock);
        let wanted: Vec<u64> =
            self.0.recovered.values().flat_map(HashMap::keys).map(|(table, _)| *table).collect();
        let mut tables: Vec<&Table<M>> = self.0.tables.iter().collect();
        tables.sort_by_key(|table| !wanted.contains(&table.at));
        for table in tables {
            for column in &table.columns {
                if column.index.read().unbuilt > 1 {
                    column.build(many)?;
                    return Ok(true);
                }
            }
            for (index, keys) in table.indexes.iter().enumerate() {
                if keys.read().unbuilt > 1 {
                    self.0.build_keys(table, index, many)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns whether [`Self::rebuild`] has something to do.
    pub fn has_unbuilt(&self) -> bool {
        self.built().waiting > 0
    }

    /// Returns how much of the indexes is built.
    pub fn built(&self) -> Built {
        let mut all = Built::default();
        for table in &self.0.tables {
            for index in &table.indexes {
                let keys = index.read();
                all.waiting += keys.unbuilt - 1;
                all.built += keys.len() as u64;
            }
            for column in &table.columns {
                let index = column.index.read();
                all.waiting += index.unbuilt - 1;
                all.built += index.len() as u64;
            }
        }
        all
    }
}
