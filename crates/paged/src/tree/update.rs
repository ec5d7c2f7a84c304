//! Replaces a row.

use pm::Files;
use smallvec::SmallVec;

use super::Tree;
use crate::change::Change;
use crate::latch::Latching;
use crate::layout::STUB_BYTES;
use crate::pool::{Appender, How};
use crate::{PagedError, Result};

impl<F: Files, T: Latching> Tree<'_, F, T> {
    /// Replaces a row. A row of the same length is logged by the bytes that differ. Returns whether
    /// the row holds space back that [`Self::settle`] gives up.
    ///
    /// # Errors
    /// There is no row with this key, the row is too large, the log has no room for it, or the
    /// medium refuses. The row is what it was.
    pub fn update(&self, chain: &mut dyn Appender, key: &[u8], row: &[u8]) -> Result<bool> {
        self.check_row(row)?;
        let before = chain.last();
        self.update_row(chain, key, row).or_else(|error| {
            // A part of a long row may have been written over.
            self.pool.undo_to(chain, before)?;
            Err(error)
        })
    }

    fn update_row(&self, chain: &mut dyn Appender, key: &[u8], row: &[u8]) -> Result<bool> {
        loop {
            let mut leaf = self.write_leaf(key)?;
            let slot = leaf.find(key).map_err(|_| PagedError::Missing)?;
            let entry = leaf.entry(slot);
            if entry.is_ghost() {
                return Err(PagedError::Missing);
            }
            let was_long = entry.is_long();
            let long = was_long || self.is_long(key, row);
            let bytes = if long { STUB_BYTES } else { row.len() };
            if !leaf.has_room(slot, bytes) {
                self.make_room(leaf, slot, key)?;
                continue;
            }
            // Long rows alone are copied whole before and after.
            let (old, stub);
            let after = match (was_long, long) {
                (true, _) => {
                    old = Old::from_slice(entry.row);
                    stub = self.rewrite_chain(chain, key, &old, row)?;
                    &stub[..]
                }
                (false, true) => {
                    stub = self.write_chain(chain, key, row)?;
                    &stub[..]
                }
                (false, false) => row,
            };
            let entry = leaf.entry(slot);
            let before;
            let change = if was_long == long && entry.row.len() == after.len() {
                let Some((from, to)) = difference(entry.row, after) else {
                    return Ok(entry.room > entry.row.len());
                };
                let at = u16::try_from(from).expect("a place in a page");
                before = Old::from_slice(&entry.row[from..to]);
                Change::Patch { key, at, before: &before, after: &after[from..to] }
            } else {
                before = Old::from_slice(entry.row);
                Change::Update { key, before: &before, was_long, after, long }
            };
            self.pool.perform(chain, How::Do, &self.body(change), &mut leaf, None, None)?;
            let entry = leaf.entry(slot);
            return Ok(entry.room > entry.row.len());
        }
    }
}

/// The part of a row that is replaced: most are so short that they need no memory of their own.
type Old = SmallVec<[u8; 256]>;

/// Compared at once.
const WORD: usize = 8;

/// The first byte that differs, and the one after the last.
fn difference(before: &[u8], after: &[u8]) -> Option<(usize, usize)> {
    let (old, old_rest) = before.as_chunks::<WORD>();
    let (new, new_rest) = after.as_chunks::<WORD>();
    let same_words = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let from = same_words * WORD;
    let from =
        from + before[from..].iter().zip(&after[from..]).position(|(old, new)| old != new)?;
    if let Some(last) = old_rest.iter().zip(new_rest).rposition(|(old, new)| old != new) {
        return Some((from, old.len() * WORD + last + 1));
    }
    let last = old.iter().zip(new).rposition(|(old, new)| old != new)?;
    let within = old[last].iter().zip(&new[last]).rposition(|(old, new)| old != new)?;
    Some((from, last * WORD + within + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_from_the_first_to_the_last_byte_that_differs() {
        for len in 0..35 {
            let before = vec![7_u8; len];
            assert_eq!(difference(&before, &before), None);
            for first in 0..len {
                for last in first..len {
                    let mut after = before.clone();
                    (after[first], after[last]) = (8, 9);
                    assert_eq!(difference(&before, &after), Some((first, last + 1)), "{len}");
                }
            }
        }
    }
}
