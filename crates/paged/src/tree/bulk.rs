//! Loads many rows in the order of their keys, with a record for each page, not for each row.

use std::collections::VecDeque;

use pm::Files;

use super::Tree;
use crate::change::{Change, push_entry};
use crate::latch::Latching;
use crate::layout::entry_bytes;
use crate::page::Entry;
use crate::pool::{Appender, How};
use crate::{PagedError, Result};

impl<F: Files, T: Latching> Tree<'_, F, T> {
    /// Inserts rows whose keys rise and are not there yet. Returns how many. In an empty tree, or
    /// after its last key, pages become full. It needs the memory of one page besides.
    ///
    /// # Errors
    /// As [`Self::insert`]; some of the rows may be there, to be undone with the transaction.
    pub fn load<K: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        chain: &mut dyn Appender,
        rows: impl IntoIterator<Item = (K, R)>,
    ) -> Result<u64> {
        let mut rows = rows.into_iter();
        let (mut waiting, mut bytes, mut loaded) = (VecDeque::new(), 0, 0);
        loop {
            // The caller's iterator runs while nothing is latched.
            while bytes < self.pool.page_bytes()
                && let Some((key, row)) = rows.next()
            {
                self.check_key(key.as_ref())?;
                bytes += entry_bytes(key.as_ref().len(), row.as_ref().len());
                waiting.push_back((key, row));
            }
            let Some((key, row)) = waiting.front() else { return Ok(loaded) };
            let taken = if self.is_long(key.as_ref(), row.as_ref()) {
                self.insert(chain, key.as_ref(), row.as_ref())?;
                1
            } else {
                self.load_some(chain, &waiting)?
            };
            for (key, row) in waiting.drain(..taken) {
                bytes -= entry_bytes(key.as_ref().len(), row.as_ref().len());
            }
            loaded += taken as u64;
        }
    }

    /// Inserts the first of the rows, as many as one page takes. Returns how many.
    fn load_some<K: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        chain: &mut dyn Appender,
        rows: &VecDeque<(K, R)>,
    ) -> Result<usize> {
        let first = rows[0].0.as_ref();
        loop {
            let mut leaf = self.write_leaf(first)?;
            let Err(slot) = leaf.find(first) else {
                drop(leaf);
                self.insert(chain, first, rows[0].1.as_ref())?;
                return Ok(1);
            };
            let end = if slot < leaf.slots() { Some(leaf.key(slot)) } else { leaf.high() };
            let (mut left, mut entries, mut taken) = (leaf.free_bytes(), Vec::new(), 0);
            let mut before: Option<&[u8]> = None;
            for (key, row) in rows {
                let (key, row) = (key.as_ref(), row.as_ref());
                let bytes = entry_bytes(key.len(), row.len());
                let is_behind = end.is_some_and(|end| key >= end);
                if is_behind || bytes > left || self.is_long(key, row) {
                    break;
                }
                if before.is_some_and(|before| before >= key) {
                    return Err(PagedError::Duplicate);
                }
                push_entry(&mut entries, &Entry { key, row, room: row.len(), flags: 0 });
                (left, taken, before) = (left - bytes, taken + 1, Some(key));
            }
            if taken == 0 {
                self.make_room(leaf, slot, first)?;
                continue;
            }
            let body = self.body(Change::InsertMany { entries: &entries });
            self.pool.perform(chain, How::Do, &body, &mut leaf, None, None)?;
            return Ok(taken);
        }
    }
}
