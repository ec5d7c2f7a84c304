//! Replaces a row.

use pm::Files;

use super::Tree;
use crate::change::Change;
use crate::latch::Latching;
use crate::layout::STUB_BYTES;
use crate::pool::{Appender, How};
use crate::{PagedError, Result};

impl<F: Files, T: Latching> Tree<'_, F, T> {
    /// Replaces a row. A row of the same length is logged by the bytes that differ.
    ///
    /// # Errors
    /// There is no row with this key, the row is too large, the log has no room for it, or the
    /// medium refuses. The row is what it was.
    pub fn update(&self, chain: &mut dyn Appender, key: &[u8], row: &[u8]) -> Result<()> {
        self.check_row(row)?;
        let before = chain.last();
        self.update_row(chain, key, row).or_else(|error| {
            // A part of a long row may have been written over.
            self.pool.undo_to(chain, before)?;
            Err(error)
        })
    }

    fn update_row(&self, chain: &mut dyn Appender, key: &[u8], row: &[u8]) -> Result<()> {
        loop {
            let mut leaf = self.write_leaf(key)?;
            let slot = leaf.find(key).map_err(|_| PagedError::Missing)?;
            let entry = leaf.entry(slot);
            if entry.is_ghost() {
                return Err(PagedError::Missing);
            }
            let before = entry.row.to_vec();
            let was_long = entry.is_long();
            let long = was_long || self.is_long(key, row);
            let bytes = if long { STUB_BYTES } else { row.len() };
            if !leaf.has_room(slot, bytes) {
                self.make_room(leaf, slot, key)?;
                continue;
            }
            let stub;
            let after = match (was_long, long) {
                (true, _) => {
                    stub = self.rewrite_chain(chain, key, &before, row)?;
                    &stub[..]
                }
                (false, true) => {
                    stub = self.write_chain(chain, key, row)?;
                    &stub[..]
                }
                (false, false) => row,
            };
            let change = if was_long == long && before.len() == after.len() {
                let Some((from, to)) = difference(&before, after) else { return Ok(()) };
                let at = u16::try_from(from).expect("a place in a page");
                Change::Patch { key, at, before: &before[from..to], after: &after[from..to] }
            } else {
                Change::Update { key, before: &before, was_long, after, long }
            };
            self.pool.perform(chain, How::Do, &self.body(change), &mut leaf, None, None)?;
            return Ok(());
        }
    }
}

/// The first byte that differs, and the one after the last.
fn difference(before: &[u8], after: &[u8]) -> Option<(usize, usize)> {
    let from = before.iter().zip(after).position(|(before, after)| before != after)?;
    let last = before.iter().zip(after).rposition(|(before, after)| before != after)?;
    Some((from, last + 1))
}
