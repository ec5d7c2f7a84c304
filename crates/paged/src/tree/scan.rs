//! Rows in the order of their keys, or the other way, in batches that are copied under the latch.

use pm::Files;

use super::Tree;
use super::descend::Target;
use crate::ids::{Lsn, PageNo};
use crate::latch::Latching;
use crate::page::{Page, PageKind};
use crate::pool::ReadPage;
use crate::{PagedError, Result};

/// The most rows that are worth copying at once.
pub const BATCH_ROWS: usize = 64;

/// The way of a scan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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
    /// The next key after this one, in its direction.
    Excluded(&'k [u8]),
}

/// An entry that a scan comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met<'k> {
    /// A row with this key.
    Row(&'k [u8]),
    /// A ghost with this key.
    Ghost(&'k [u8]),
    /// The end of the tree.
    End,
}

impl<'k> Met<'k> {
    /// The key; `None` at the end.
    #[must_use]
    pub fn key(self) -> Option<&'k [u8]> {
        match self {
            Self::Row(key) | Self::Ghost(key) => Some(key),
            Self::End => None,
        }
    }
}

/// The answer to whether a scan may go on with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permitted {
    /// It is copied, unless it is a ghost.
    Yes,
    /// It is passed over.
    Skipped,
    /// The scan stops before it.
    No,
}

impl From<bool> for Permitted {
    fn from(is_permitted: bool) -> Self {
        if is_permitted { Self::Yes } else { Self::No }
    }
}

/// The question that a scan asks under a latch, of each entry and of the end of the tree. It must
/// not wait: see [`super::Permit`].
pub type ScanPermit<'a> = &'a mut dyn FnMut(Met<'_>) -> Permitted;

/// The rows of one batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// Keys and rows.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// The key that the permit was refused for, without bytes for the end of the tree; `None` if
    /// nothing was refused.
    pub refused: Option<Vec<u8>>,
}

/// The place of a scan between its batches: it holds no latch and no page.
#[derive(Debug)]
pub struct Scan {
    direction: Direction,
    next: Next,
    /// The page that was read ahead last.
    ahead: Option<PageNo>,
    /// Leaves that it may still rid of their ghosts.
    sweeps: usize,
    /// A ghost that it has met, and that is not needed.
    ghost: Option<Vec<u8>>,
    /// Pages that were changed from here on are refused.
    horizon: Lsn,
}

#[derive(Clone, Debug)]
enum Next {
    First,
    At(Vec<u8>),
    After(Vec<u8>),
    Done,
}

impl Scan {
    /// A scan from a place on.
    #[must_use]
    pub fn new(direction: Direction, from: Bound<'_>) -> Self {
        let next = match from {
            Bound::Unbounded => Next::First,
            Bound::Included(key) => Next::At(key.to_vec()),
            Bound::Excluded(key) => Next::After(key.to_vec()),
        };
        Self { direction, next, ahead: None, sweeps: 0, ghost: None, horizon: Lsn(u64::MAX) }
    }

    /// Lets it read what is below a horizon: see [`Tree::read_below`](super::Tree::read_below). It
    /// fails where a page was changed since.
    pub(crate) fn below(&mut self, horizon: Lsn) {
        self.horizon = horizon;
    }

    /// Lets it remove ghosts that it meets and that are not needed, from so many leaves at most.
    pub fn sweep(&mut self, leaves: usize) {
        self.sweeps = leaves;
    }

    /// Returns whether it has come to the end of the tree.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.next, Next::Done)
    }

    /// Returns whether it has passed a key, in its direction.
    #[must_use]
    pub fn has_passed(&self, key: &[u8]) -> bool {
        match (&self.next, self.direction) {
            (Next::After(last), Direction::Forward) => &last[..] > key,
            (Next::After(last), Direction::Backward) => &last[..] < key,
            (Next::Done, _) => true,
            (Next::First | Next::At(_), _) => false,
        }
    }
}

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    /// Fills a batch with the next rows of a scan: `most` at most, and none only at the end, or if
    /// the first one was refused. `permit` is asked with each entry. After a refusal the scan goes
    /// on after the last entry that was permitted or skipped: what came before the refused one
    /// meanwhile is asked for, too. Rows before an error come first.
    ///
    /// # Errors
    /// A page is damaged, the medium refuses, or all frames are in use.
    pub fn next(
        &self,
        scan: &mut Scan,
        batch: &mut Batch,
        most: usize,
        permit: ScanPermit<'_>,
    ) -> Result<()> {
        batch.rows.clear();
        batch.refused = None;
        while batch.rows.is_empty() && batch.refused.is_none() && !scan.is_done() {
            if let Some(ghost) = scan.ghost.take() {
                scan.sweeps -= 1;
                // Without room in the log, or a frame, they stay until another thread comes.
                if self.settle_leaf(&ghost).is_err() {
                    scan.sweeps = 0;
                }
            }
            let done = match scan.direction {
                Direction::Forward => self.forward(scan, batch, most, permit),
                Direction::Backward => self.backward(scan, batch, most, permit),
            };
            // The next batch begins with it.
            done.or_else(|error| if batch.rows.is_empty() { Err(error) } else { Ok(()) })?;
        }
        Ok(())
    }

    /// Checks that a leaf is as it was at the horizon of a scan, if that has one.
    fn check_below(&self, scan: &Scan, leaf: &Page) -> Result<()> {
        if scan.horizon == Lsn(u64::MAX) {
            return Ok(());
        }
        // A change that failed may have left half of it.
        self.pool.check_running()?;
        if Self::is_below(scan.horizon, leaf.lsn()) { Ok(()) } else { Err(PagedError::TooOld) }
    }

    /// Goes from leaf to leaf. The pages on the left stay latched until the next key is permitted,
    /// so that nothing comes between the last key and that one without being asked for.
    fn forward(
        &self,
        scan: &mut Scan,
        batch: &mut Batch,
        most: usize,
        permit: ScanPermit<'_>,
    ) -> Result<()> {
        let from: &[u8] = match &scan.next {
            Next::At(key) | Next::After(key) => key,
            Next::First | Next::Done => &[],
        };
        let mut leaf = self.read_page(Target::At(from), 0)?;
        self.check_below(scan, &leaf)?;
        let mut first = match (&scan.next, leaf.find(from)) {
            (Next::First, _) => 0,
            (Next::After(_), Ok(slot)) => slot + 1,
            (_, Ok(slot) | Err(slot)) => slot,
        };
        let mut left = Vec::new();
        while self.copy(scan, &leaf, first..leaf.slots(), (batch, most), permit, &mut left)? {
            let Some(right) = leaf.right() else {
                match permit(Met::End) {
                    Permitted::No => batch.refused = Some(Vec::new()),
                    Permitted::Yes | Permitted::Skipped => scan.next = Next::Done,
                }
                return Ok(());
            };
            if scan.ahead != Some(right) && !self.pool.is_resident(right) {
                scan.ahead = Some(right);
                drop((left, leaf));
                return self.pool.read_ahead(right);
            }
            let page = self.neighbour(right, &leaf)?;
            self.check_below(scan, &page)?;
            left.push(std::mem::replace(&mut leaf, page));
            first = 0;
        }
        Ok(())
    }

    fn backward(
        &self,
        scan: &mut Scan,
        batch: &mut Batch,
        most: usize,
        permit: ScanPermit<'_>,
    ) -> Result<()> {
        let target = match &scan.next {
            Next::First => Target::Last,
            Next::At(key) => Target::At(key),
            Next::After(key) if key.is_empty() => {
                scan.next = Next::Done;
                return Ok(());
            }
            Next::After(key) => Target::Before(key),
            Next::Done => return Ok(()),
        };
        let leaf = self.read_page(target, 0)?;
        self.check_below(scan, &leaf)?;
        let end = match &scan.next {
            Next::At(key) => leaf.find(key).map_or_else(|slot| slot, |slot| slot + 1),
            Next::After(key) => leaf.find(key).unwrap_or_else(|slot| slot),
            Next::First | Next::Done => leaf.slots(),
        };
        if self.copy(scan, &leaf, (0..end).rev(), (batch, most), permit, &mut Vec::new())? {
            let low = leaf.low();
            scan.next = if low.is_empty() { Next::Done } else { Next::After(low.to_vec()) };
        }
        Ok(())
    }

    /// Copies rows of a page until the batch is full, the permit refused, or a ghost is there that
    /// can go; returns whether it came to the end of the page. The scan goes on after the last
    /// entry that it has passed; the pages on the left are let go with the first one.
    fn copy(
        &self,
        scan: &mut Scan,
        leaf: &Page,
        slots: impl Iterator<Item = usize>,
        (batch, most): (&mut Batch, usize),
        permit: ScanPermit<'_>,
        left: &mut Vec<ReadPage<'a, T>>,
    ) -> Result<bool> {
        let (mut last, mut is_end, mut unread) = (None, true, None);
        for slot in slots {
            let entry = leaf.entry(slot);
            let is_full = batch.rows.len() >= most;
            if is_full || (entry.is_ghost() && self.can_go(scan, entry.key)) {
                is_end = false;
                break;
            }
            let met = if entry.is_ghost() { Met::Ghost(entry.key) } else { Met::Row(entry.key) };
            let permitted = permit(met);
            if permitted == Permitted::No {
                batch.refused = Some(entry.key.to_vec());
                is_end = false;
                break;
            }
            left.clear();
            if permitted == Permitted::Yes && !entry.is_ghost() {
                let mut row = Vec::new();
                if let Err(error) = self.copy_row_below(scan.horizon, &entry, &mut row) {
                    unread = Some(error);
                    break;
                }
                batch.rows.push((entry.key.to_vec(), row));
            }
            last = Some(slot);
        }
        if let Some(last) = last {
            scan.next = Next::After(leaf.key(last).to_vec());
        }
        unread.map_or(Ok(is_end), Err)
    }

    /// Notes a ghost that is not needed, if the scan may still remove some.
    fn can_go(&self, scan: &mut Scan, ghost: &[u8]) -> bool {
        let can_go = scan.sweeps > 0 && self.pool.is_settled(self.number, ghost);
        if can_go {
            scan.ghost = Some(ghost.to_vec());
        }
        can_go
    }

    /// The last key of a range as it is now, in a direction, or a key on the way there; `None` if
    /// there is none. Forward the range ends before `bound`, backward it begins there, or has no
    /// such end.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn last_key(&self, direction: Direction, bound: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let (target, found) = match (direction, bound) {
            (Direction::Forward, None) => (Target::Last, None),
            (Direction::Forward, Some([])) => return Ok(None),
            (Direction::Forward, Some(bound)) => (Target::Before(bound), Some(bound)),
            (Direction::Backward, bound) => {
                let bound = bound.unwrap_or_default();
                (Target::At(bound), Some(bound))
            }
        };
        let leaf = self.read_page(target, 0)?;
        let slot = found.map_or(leaf.slots(), |key| leaf.find(key).unwrap_or_else(|slot| slot));
        Ok(match direction {
            Direction::Forward if slot > 0 => Some(leaf.key(slot - 1).to_vec()),
            Direction::Forward => Some(leaf.low().to_vec()),
            Direction::Backward if slot < leaf.slots() => Some(leaf.key(slot).to_vec()),
            Direction::Backward => leaf.high().map(<[u8]>::to_vec),
        })
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
