//! Rows in the order of their keys, or the other way, in batches that are copied under the latch.

use pm::Files;

use super::descend::Target;
use super::{Permit, Tree};
use crate::Result;
use crate::ids::PageNo;
use crate::latch::Latching;
use crate::page::{Page, PageKind};
use crate::pool::ReadPage;

/// The most rows of a batch.
pub const BATCH_ROWS: usize = 64;

/// The way of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Keys rise.
    Forward,
    /// Keys fall.
    Backward,
}

/// The place where a scan begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound<'k> {
    /// The first row in its direction.
    Unbounded,
    /// This key, or the next one in its direction.
    Included(&'k [u8]),
    /// The next key behind this one, in its direction.
    Excluded(&'k [u8]),
}

/// The rows of one batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// Keys and rows.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// The key that the permit was refused for; without one, nothing was refused.
    pub refused: Option<Vec<u8>>,
}

/// A scan, between its batches: it holds no latch and no page.
#[derive(Debug)]
pub struct Scan<'a, F: Files, T: Latching> {
    tree: Tree<'a, F, T>,
    direction: Direction,
    next: Next,
    /// The page where the next batch begins, if it is still that.
    hint: Option<PageNo>,
}

#[derive(Clone, Debug)]
enum Next {
    First,
    At(Vec<u8>),
    Behind(Vec<u8>),
    Done,
}

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    /// Begins a scan.
    #[must_use]
    pub fn scan(&self, direction: Direction, from: Bound<'_>) -> Scan<'a, F, T> {
        let next = match from {
            Bound::Unbounded => Next::First,
            Bound::Included(key) => Next::At(key.to_vec()),
            Bound::Excluded(key) => Next::Behind(key.to_vec()),
        };
        Scan { tree: *self, direction, next, hint: None }
    }
}

impl<'a, F: Files, T: Latching> Scan<'a, F, T> {
    /// Fills a batch with the next rows: 64 at most, and none only at the end, or if the first one was
    /// refused. `permit` is asked with each key, a ghost's or not, and at the end with none.
    ///
    /// # Errors
    /// A page is damaged, the medium refuses, or all frames are in use.
    pub fn next(&mut self, batch: &mut Batch, permit: Permit<'_>) -> Result<()> {
        batch.rows.clear();
        batch.refused = None;
        while batch.rows.is_empty() && batch.refused.is_none() && !matches!(self.next, Next::Done) {
            let hint = self.hint.take();
            if let Some(hint) = hint {
                self.tree.pool.read_ahead(hint)?;
            }
            match self.direction {
                Direction::Forward => self.forward(hint, batch, permit)?,
                Direction::Backward => self.backward(batch, permit)?,
            }
        }
        Ok(())
    }

    fn forward(
        &mut self,
        hint: Option<PageNo>,
        batch: &mut Batch,
        permit: Permit<'_>,
    ) -> Result<()> {
        let leaf = self.leaf(hint)?;
        let first = match &self.next {
            Next::First => 0,
            Next::At(key) => leaf.find(key).unwrap_or_else(|slot| slot),
            Next::Behind(key) => leaf.find(key).map_or_else(|slot| slot, |slot| slot + 1),
            Next::Done => return Ok(()),
        };
        if !self.copy(&leaf, first..leaf.slots(), batch, permit)? {
            return Ok(());
        }
        match leaf.high() {
            Some(high) => {
                self.next = Next::At(high.to_vec());
                self.hint = leaf.right();
            }
            None if permit(None) => self.next = Next::Done,
            None => {
                let behind = leaf.slots().checked_sub(1).map(|last| leaf.key(last));
                let behind = behind.unwrap_or(leaf.low()).to_vec();
                self.next = if leaf.slots() > 0 { Next::Behind(behind) } else { Next::At(behind) };
                batch.refused = Some(Vec::new());
            }
        }
        Ok(())
    }

    /// The leaf of the next key: the hint, if it still has that key in its range.
    fn leaf(&self, hint: Option<PageNo>) -> Result<ReadPage<'a, T>> {
        let key: &[u8] = match &self.next {
            Next::At(key) | Next::Behind(key) => key,
            Next::First | Next::Done => &[],
        };
        if let Some(page) = hint {
            let page = self.tree.pool.read(page)?;
            if self.tree.has_leaf(&page, key) {
                return Ok(page);
            }
        }
        self.tree.read_page(Target::At(key), 0)
    }

    fn backward(&mut self, batch: &mut Batch, permit: Permit<'_>) -> Result<()> {
        let target = match &self.next {
            Next::First => Target::Last,
            Next::At(key) => Target::At(key),
            Next::Behind(key) if key.is_empty() => {
                self.next = Next::Done;
                return Ok(());
            }
            Next::Behind(key) => Target::Before(key),
            Next::Done => return Ok(()),
        };
        let leaf = self.tree.read_page(target, 0)?;
        let end = match &self.next {
            Next::At(key) => leaf.find(key).map_or_else(|slot| slot, |slot| slot + 1),
            Next::Behind(key) => leaf.find(key).unwrap_or_else(|slot| slot),
            Next::First | Next::Done => leaf.slots(),
        };
        if self.copy(&leaf, (0..end).rev(), batch, permit)? {
            let low = leaf.low();
            self.next = if low.is_empty() { Next::Done } else { Next::Behind(low.to_vec()) };
        }
        Ok(())
    }

    /// Copies rows of a page; returns whether it came to its end.
    fn copy(
        &mut self,
        leaf: &Page,
        slots: impl Iterator<Item = usize>,
        batch: &mut Batch,
        permit: Permit<'_>,
    ) -> Result<bool> {
        for slot in slots {
            let entry = leaf.entry(slot);
            if batch.rows.len() == BATCH_ROWS {
                return Ok(false);
            }
            if !permit(Some(entry.key)) {
                self.next = Next::At(entry.key.to_vec());
                batch.refused = Some(entry.key.to_vec());
                return Ok(false);
            }
            if !entry.is_ghost() {
                batch.rows.push((entry.key.to_vec(), self.tree.copy_row(&entry)?));
            }
            if batch.rows.len() == BATCH_ROWS {
                self.next = Next::Behind(entry.key.to_vec());
            }
        }
        // A full batch whose last row was the page's last one goes on behind it.
        Ok(batch.rows.len() < BATCH_ROWS)
    }
}

impl<F: Files, T: Latching> Tree<'_, F, T> {
    /// Returns whether a page is the leaf of a key.
    pub(super) fn has_leaf(&self, page: &Page, key: &[u8]) -> bool {
        page.kind() == PageKind::Leaf
            && page.tree() == self.number
            && page.low() <= key
            && page.high().is_none_or(|high| key < high)
    }
}
