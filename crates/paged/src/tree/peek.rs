//! Reads of rows without latches: of rows that a lock protects, and of those below a *horizon*, a
//! place in the log below which all is committed and durable.
//!
//! 1. A thread looks at a page after the other, from the root on, without a store. What it loads
//!    from a page counts if the page's version is the same afterwards.
//! 2. A page says by itself whether it is the one: its tree, its level and its range. No two pages
//!    of a level have a key in their ranges at the same time, but for the moment of a merge, in which
//!    both have the same rows. So it does not matter what the pages above have become meanwhile. A
//!    leaf that has the key has it in its range, so that is not looked at.
//! 3. A leaf whose LSN is below the horizon has all changes below it, and no others. One that was
//!    changed since is refused, whatever the change.
//! 4. A page that is not in a frame, or that is being changed each time, and a long row are read
//!    with the latch.

use pm::{Files, Peek};

use super::Tree;
use super::descend::{Arrival, Target};
use crate::PagedError;
use crate::flaw::Flaw;
use crate::ids::{Lsn, PageNo};
use crate::latch::Latching;
use crate::layout::{GHOST, LONG};
use crate::page::View;

/// A descent is begun again so often where pages change under it.
const MOST_TRIES: usize = 3;
/// The most pages that a descent looks at.
const MOST_STEPS: usize = 64;

/// The leaf of a key, as a look has found it.
struct Looked {
    leaf: PageNo,
    lsn: Lsn,
    /// There is a row, which was copied.
    is_there: bool,
}

/// The reason why a look has found nothing.
enum Failed {
    /// A page was changed meanwhile, or is not the one that was looked for any more.
    Changed,
    /// A page is not to be had without its latch, or the row is long.
    Latch,
}

impl<F: Files, T: Latching> Tree<'_, F, T> {
    /// Copies the row of a key, as it is below a horizon, into `row`, which has nothing else then.
    /// Returns whether there is one.
    ///
    /// # Errors
    /// [`PagedError::TooOld`]: its page was changed since. A page is damaged, the medium refuses, or
    /// all frames are in use.
    pub(crate) fn read_below(
        &self,
        horizon: Lsn,
        key: &[u8],
        row: &mut Vec<u8>,
    ) -> crate::Result<bool> {
        if let Some(looked) = self.try_to_look(key, row) {
            let is_below = Self::is_below(horizon, looked.lsn);
            return if is_below { Ok(looked.is_there) } else { Err(PagedError::TooOld) };
        }
        let leaf = self.read_page(Target::At(key), 0)?;
        // A change that failed may have left half of it.
        self.pool.check_running()?;
        if !Self::is_below(horizon, leaf.lsn()) {
            return Err(PagedError::TooOld);
        }
        match leaf.find(key) {
            Ok(slot) if !leaf.entry(slot).is_ghost() => {
                self.copy_row_below(horizon, &leaf.entry(slot), row)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Copies the row of a key that no other thread changes, into `row`, which has nothing else then.
    /// Returns whether there is one, and the leaf that has the key in its range. Without latches,
    /// where that can be.
    ///
    /// # Errors
    /// A page is damaged, the medium refuses, or all frames are in use.
    pub fn read(&self, key: &[u8], row: &mut Vec<u8>) -> crate::Result<(bool, PageNo)> {
        if let Some(looked) = self.try_to_look(key, row) {
            return Ok((looked.is_there, looked.leaf));
        }
        let leaf = self.read_page(Target::At(key), 0)?;
        let is_there = match leaf.find(key) {
            Ok(slot) if !leaf.entry(slot).is_ghost() => {
                self.copy_row(&leaf.entry(slot), row)?;
                true
            }
            _ => false,
        };
        Ok((is_there, leaf.place()))
    }

    fn try_to_look(&self, key: &[u8], row: &mut Vec<u8>) -> Option<Looked> {
        if self.leaves.is_some() {
            // Pages above may be damaged.
            return None;
        }
        for _ in 0..MOST_TRIES {
            match self.look(key, row) {
                Ok(looked) => return Some(looked),
                Err(Failed::Changed) => {}
                Err(Failed::Latch) => break,
            }
        }
        None
    }

    /// Returns whether a page of this LSN is as it was at a horizon.
    pub(super) fn is_below(horizon: Lsn, lsn: Lsn) -> bool {
        lsn < horizon || T::has(Flaw::PageLsnIgnored)
    }

    #[inline]
    fn holds(page: &Peek<'_>) -> bool {
        page.holds() || T::has(Flaw::LookNotChecked)
    }

    fn look(&self, key: &[u8], row: &mut Vec<u8>) -> Result<Looked, Failed> {
        let (mut at, mut level) = (self.root, None);
        for _ in 0..MOST_STEPS {
            let page = self.pool.peek(at).ok_or(Failed::Latch)?;
            T::point();
            let found = match level {
                // A leaf that has the key has it in its range.
                Some(0) if self.is_ours(&page, level) => page.find(key),
                _ => None,
            };
            let arrival = match found {
                Some(_) => Arrival::Here,
                None => self.arrive(&page, level, Target::At(key)),
            };
            // Once: it may be another one when it is loaded again.
            let own_level = page.level();
            match arrival {
                Arrival::Lost => return Err(Failed::Changed),
                Arrival::Right(right) => at = right,
                Arrival::Here if own_level > 0 => {
                    let slot = page.search(key).unwrap_or_else(|slot| slot.saturating_sub(1));
                    let (child, ..) = page.row(slot);
                    (at, level) = (PageNo(page.u64_at(child)), Some(own_level - 1));
                }
                Arrival::Here => {
                    let (lsn, found) = (page.lsn(), found.or_else(|| page.find(key)));
                    row.clear();
                    let is_there = match found.map(|slot| page.row(slot)) {
                        Some((_, _, flags)) if flags & GHOST != 0 => false,
                        Some((_, _, flags)) if flags & LONG != 0 => return Err(Failed::Latch),
                        Some((from, bytes, _)) => {
                            T::point();
                            page.copy_to(from, bytes, row);
                            true
                        }
                        None => false,
                    };
                    let looked = Looked { leaf: at, lsn, is_there };
                    return if Self::holds(&page) { Ok(looked) } else { Err(Failed::Changed) };
                }
            }
            T::point();
            if !Self::holds(&page) {
                return Err(Failed::Changed);
            }
        }
        Err(Failed::Changed)
    }
}
