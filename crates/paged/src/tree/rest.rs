//! Descents and rows of a tree of which pages are damaged, for saving what can be read, while
//! nothing changes.
//!
//! 1. A look at every page finds all [`Leaves`], so that a damaged inner page hides none of them.
//! 2. A descent to a leaf asks them, and reads neither inner pages nor the catalog.
//! 3. Keys between the fences of no leaf lie in one that cannot be read.

use std::collections::BTreeMap;

use pm::Files;

use super::Tree;
use super::descend::Target;
use crate::file::CATALOG_ROOT;
use crate::ids::{PageNo, TreeNo};
use crate::latch::Latching;
use crate::maps::FIRST_MAP;
use crate::page::PageKind;
use crate::pool::{Pool, ReadPage};
use crate::{PagedError, Result};

/// The leaves of a file that can be read, by their trees and low fences.
#[derive(Debug, Default)]
pub(crate) struct Leaves(BTreeMap<(TreeNo, Vec<u8>), PageNo>);

impl Leaves {
    /// Looks at every page. Returns the leaves, and the errors of pages that cannot be read and may
    /// be in use.
    pub(crate) fn find<F: Files, T: Latching>(pool: &Pool<F, T>) -> (Self, Vec<PagedError>) {
        let (mut leaves, mut damaged) = (Self::default(), Vec::new());
        for number in (FIRST_MAP.0..pool.page_count()).map(PageNo) {
            match pool.read(number) {
                Ok(page) if page.kind() == PageKind::Leaf => {
                    leaves.0.insert((page.tree(), page.low().to_vec()), number);
                }
                Ok(_) => {}
                Err(error) if pool.is_used(number).unwrap_or(true) => damaged.push(error),
                Err(_) => {}
            }
        }
        (leaves, damaged)
    }

    /// A tree of these leaves. It needs no root, and the catalog may be what is damaged.
    pub(crate) fn tree<'a, F: Files, T: Latching>(
        &'a self,
        pool: &'a Pool<F, T>,
        number: TreeNo,
    ) -> Tree<'a, F, T> {
        Tree { leaves: Some(self), ..Tree::new(pool, number, CATALOG_ROOT) }
    }
}

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    /// Latches the leaf of a target that is known; `None` where the leaves were not looked for.
    pub(super) fn noted_leaf(&self, target: Target<'_>) -> Option<Result<ReadPage<'a, T>>> {
        let leaves = &self.leaves?.0;
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

    /// Returns the first row after a key, or of all, that can be read, past rows and leaves that
    /// cannot; `None` if there is none, or the leaves were not looked for.
    pub(crate) fn next_readable(&self, after: Option<&[u8]>) -> Option<(Vec<u8>, Vec<u8>)> {
        let leaves = &self.leaves?.0;
        let (first, of_next) = ((self.number, Vec::new()), (TreeNo(self.number.0 + 1), Vec::new()));
        // Its own leaf may have more.
        let own = after.and_then(|key| leaves.range(&first..=&(self.number, key.to_vec())).last());
        let from = own.map_or(first, |(own, _)| own.clone());
        leaves.range(from..of_next).find_map(|(_, number)| {
            let leaf = self.pool.read(*number).ok()?;
            let is_after = |key: &[u8]| after.is_none_or(|after| after < key);
            let mut rows = leaf.entries().filter(|entry| !entry.is_ghost() && is_after(entry.key));
            rows.find_map(|entry| {
                let mut row = Vec::new();
                self.copy_row(&entry, &mut row).ok()?;
                Some((entry.key.to_vec(), row))
            })
        })
    }
}
