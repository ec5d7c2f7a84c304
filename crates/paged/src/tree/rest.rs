//! Descents and rows of a tree of which pages are damaged, for whoever saves what can be read: see
//! [`Pool::find_leaves`](crate::pool::Pool::find_leaves).
//!
//! 1. A descent to a leaf asks the notes of that, and reads neither inner pages nor the catalog.
//! 2. Keys between the fences of no leaf lie in one that cannot be read.

use pm::Files;

use super::Tree;
use super::descend::Target;
use crate::ids::TreeNo;
use crate::latch::Latching;
use crate::pool::ReadPage;
use crate::{PagedError, Result};

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    /// Latches the leaf of a target that the notes know of; `None` if there are no notes.
    pub(super) fn noted_leaf(&self, target: Target<'_>) -> Option<Result<ReadPage<'a, T>>> {
        let leaves = &self.pool.leaves.get()?.0;
        let (first, of_next) = ((self.number, Vec::new()), (TreeNo(self.number.0 + 1), Vec::new()));
        let before = match target {
            Target::At(key) => leaves.range(first..=(self.number, key.to_vec())),
            Target::Before(key) => leaves.range(first..(self.number, key.to_vec())),
            Target::Last => leaves.range(first..of_next),
        };
        let Some((_, number)) = before.last() else { return Some(Err(self.unread())) };
        Some(self.pool.read(*number).and_then(|page| {
            let has = match (target, page.high()) {
                (_, None) => true,
                (Target::At(key), Some(high)) => key < high,
                (Target::Before(key), Some(high)) => key <= high,
                (Target::Last, Some(_)) => false,
            };
            match page.right() {
                Some(right) if !has => {
                    drop(page);
                    // Its own error says more.
                    Err(self.pool.read(right).err().unwrap_or_else(|| self.unread()))
                }
                _ => Ok(page),
            }
        }))
    }

    fn unread(&self) -> PagedError {
        let what = "a leaf of its tree cannot be read, and nothing says which page that was";
        PagedError::DamagedPage { page: self.root, what }
    }

    /// Returns the first row behind a key, or of all, that can be read, past rows and leaves that cannot;
    /// `None` if there is none, or nobody has looked for the leaves.
    #[must_use]
    pub fn next_readable(&self, after: Option<&[u8]>) -> Option<(Vec<u8>, Vec<u8>)> {
        let leaves = &self.pool.leaves.get()?.0;
        let (first, of_next) = ((self.number, Vec::new()), (TreeNo(self.number.0 + 1), Vec::new()));
        // Its own leaf may have more.
        let own = after.and_then(|key| leaves.range(&first..=&(self.number, key.to_vec())).last());
        let from = own.map_or(first, |(own, _)| own.clone());
        leaves.range(from..of_next).find_map(|(_, number)| {
            let leaf = self.pool.read(*number).ok()?;
            let behind = |key: &[u8]| after.is_none_or(|after| after < key);
            let mut rows = leaf.entries().filter(|entry| !entry.is_ghost() && behind(entry.key));
            rows.find_map(|entry| Some((entry.key.to_vec(), self.copy_row(&entry).ok()?)))
        })
    }
}
