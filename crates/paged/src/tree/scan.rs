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
    /// The key that the permit was refused for, without bytes for the end of the tree; `None` if nothing
    /// was refused.
    pub refused: Option<Vec<u8>>,
}

/// A scan, between its batches: it holds no latch and no page.
#[derive(Debug)]
pub struct Scan<'a, F: Files, T: Latching> {
    tree: Tree<'a, F, T>,
    direction: Direction,
    next: Next,
    /// The page that was read ahead last.
    ahead: Option<PageNo>,
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
        Scan { tree: *self, direction, next, ahead: None }
    }
}

impl<'a, F: Files, T: Latching> Scan<'a, F, T> {
    /// Fills a batch with the next rows: 64 at most, and none only at the end, or if the first one was
    /// refused. `permit` is asked with each key, a ghost's or not, and at the end with none. After a
    /// refusal the scan goes on behind the last key that was permitted: what came before the refused
    /// one meanwhile is asked for, too. Rows before an error come first.
    ///
    /// # Errors
    /// A page is damaged, the medium refuses, or all frames are in use.
    pub fn next(&mut self, batch: &mut Batch, permit: Permit<'_>) -> Result<()> {
        batch.rows.clear();
        batch.refused = None;
        while batch.rows.is_empty() && batch.refused.is_none() && !matches!(self.next, Next::Done) {
            let done = match self.direction {
                Direction::Forward => self.forward(batch, permit),
                Direction::Backward => self.backward(batch, permit),
            };
            // The next batch begins with it.
            done.or_else(|error| if batch.rows.is_empty() { Err(error) } else { Ok(()) })?;
        }
        Ok(())
    }

    /// Goes from leaf to leaf. The pages on the left stay latched until the next key is permitted, so
    /// that nothing comes between the last key and that one without being asked for.
    fn forward(&mut self, batch: &mut Batch, permit: Permit<'_>) -> Result<()> {
        let from: &[u8] = match &self.next {
            Next::At(key) | Next::Behind(key) => key,
            Next::First | Next::Done => &[],
        };
        let mut leaf = self.tree.read_page(Target::At(from), 0)?;
        let mut first = match (&self.next, leaf.find(from)) {
            (Next::First, _) => 0,
            (Next::Behind(_), Ok(slot)) => slot + 1,
            (_, Ok(slot) | Err(slot)) => slot,
        };
        let mut left = Vec::new();
        while self.copy(&leaf, first..leaf.slots(), batch, permit, &mut left)? {
            let Some(right) = leaf.right() else {
                if permit(None) {
                    self.next = Next::Done;
                } else {
                    batch.refused = Some(Vec::new());
                }
                return Ok(());
            };
            if self.ahead != Some(right) && !self.tree.pool.is_resident(right) {
                self.ahead = Some(right);
                drop((left, leaf));
                return self.tree.pool.read_ahead(right);
            }
            let page = self.tree.neighbour(right, &leaf)?;
            left.push(std::mem::replace(&mut leaf, page));
            first = 0;
        }
        Ok(())
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
        if self.copy(&leaf, (0..end).rev(), batch, permit, &mut Vec::new())? {
            let low = leaf.low();
            self.next = if low.is_empty() { Next::Done } else { Next::Behind(low.to_vec()) };
        }
        Ok(())
    }

    /// Copies rows of a page until the batch is full or the permit refused; returns whether it came to
    /// the end of the page. The scan goes on behind the last permitted key; the pages on the left are
    /// let go with the first one.
    fn copy(
        &mut self,
        leaf: &Page,
        slots: impl Iterator<Item = usize>,
        batch: &mut Batch,
        permit: Permit<'_>,
        left: &mut Vec<ReadPage<'a, T>>,
    ) -> Result<bool> {
        let (mut last, mut is_end, mut unread) = (None, true, None);
        for slot in slots {
            let entry = leaf.entry(slot);
            if batch.rows.len() == BATCH_ROWS {
                is_end = false;
                break;
            }
            if !permit(Some(entry.key)) {
                batch.refused = Some(entry.key.to_vec());
                is_end = false;
                break;
            }
            left.clear();
            if !entry.is_ghost() {
                match self.tree.copy_row(&entry) {
                    Ok(row) => batch.rows.push((entry.key.to_vec(), row)),
                    Err(error) => {
                        unread = Some(error);
                        break;
                    }
                }
            }
            last = Some(slot);
        }
        if let Some(last) = last {
            self.next = Next::Behind(leaf.key(last).to_vec());
        }
        unread.map_or(Ok(is_end), Err)
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
