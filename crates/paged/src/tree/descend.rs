//! Descends to the page of a level that has a key in its range.

use std::cmp::Ordering;

use pm::Files;

use super::Tree;
use crate::ids::PageNo;
use crate::latch::Latching;
use crate::page::{Page, PageKind, View};
use crate::pool::{ReadPage, WritePage};
use crate::{PagedError, Result};

/// The page that is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'k> {
    /// The one with this key in its range.
    At(&'k [u8]),
    /// The one with the last keys before this one, which is not the first of all.
    Before(&'k [u8]),
    /// The rightmost one.
    Last,
}

/// The place of a page, in relation to the one that is looked for.
pub(super) enum Arrival {
    Here,
    Right(PageNo),
    Lost,
}

/// A page that its left neighbour led to, instead of its parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unposted {
    pub(super) page: PageNo,
    pub(super) level: u8,
}

/// The most times that a descent begins again: each time another thread has finished what was in
/// its way.
const MOST_RESTARTS: usize = 1_000;
/// The most pages that a descent comes to: more only in a circle of damaged links.
const MOST_STEPS: usize = 100_000;

impl Target<'_> {
    fn slot(self, page: &Page) -> usize {
        let (Self::At(key) | Self::Before(key)) = self else { return page.slots() - 1 };
        match (page.find(key), self) {
            (Ok(slot), Self::At(_)) => slot,
            (Ok(slot) | Err(slot), _) => slot.saturating_sub(1),
        }
    }
}

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    /// Returns whether a page is one of this tree, and of this level.
    #[inline]
    pub(super) fn is_ours<V: View + ?Sized>(&self, page: &V, level: Option<u8>) -> bool {
        matches!(page.kind(), Some(PageKind::Leaf | PageKind::Inner))
            && page.tree() == self.number
            && level.is_none_or(|level| level == page.level())
    }

    /// Says where a page lies that a descent has come to, latched or not.
    #[inline]
    pub(super) fn arrive<V: View + ?Sized>(
        &self,
        page: &V,
        level: Option<u8>,
        target: Target<'_>,
    ) -> Arrival {
        let is_ours = self.is_ours(page, level);
        let (is_left, is_right) = match target {
            _ if !is_ours => return Arrival::Lost,
            Target::At(key) => {
                (page.low_to(key).is_gt(), page.high_to(key).is_some_and(Ordering::is_le))
            }
            Target::Before(key) => {
                (page.low_to(key).is_ge(), page.high_to(key).is_some_and(Ordering::is_lt))
            }
            Target::Last => (false, page.high_to(&[]).is_some()),
        };
        match (is_left, is_right, page.right()) {
            (false, false, _) => Arrival::Here,
            (false, true, Some(right)) => Arrival::Right(right),
            _ => Arrival::Lost,
        }
    }

    /// Descends to the level above; returns the page there that leads to the target, or the root.
    fn locate(&self, target: Target<'_>, level: u8) -> Result<Option<PageNo>> {
        let (mut at, mut expected) = (self.root, None);
        for _ in 0..MOST_STEPS {
            let page = self.pool.read(at)?;
            match self.arrive(page.bytes(), expected, target) {
                Arrival::Lost => return Ok(None),
                Arrival::Right(right) => at = right,
                Arrival::Here if page.level() == level => return Ok(Some(at)),
                Arrival::Here if page.level() < level => return Ok(None),
                Arrival::Here => {
                    let child = page.entry(target.slot(&page)).child();
                    if page.level() - 1 == level {
                        return Ok(Some(child));
                    }
                    (at, expected) = (child, Some(page.level() - 1));
                }
            }
        }
        Ok(None)
    }

    fn walk<P: std::ops::Deref<Target = Page>>(
        &self,
        target: Target<'_>,
        level: u8,
        unposted: &mut Option<Unposted>,
        latch: impl Fn(PageNo) -> Result<P>,
    ) -> Result<P> {
        for _ in 0..MOST_RESTARTS {
            let mut next = self.locate(target, level)?;
            for _ in 0..MOST_STEPS {
                let Some(at) = next else { break };
                let page = latch(at)?;
                match self.arrive(page.bytes(), Some(level), target) {
                    Arrival::Here => return Ok(page),
                    Arrival::Right(right) => {
                        *unposted = Some(Unposted { page: right, level });
                        next = Some(right);
                    }
                    Arrival::Lost => next = None,
                }
            }
            T::pause();
        }
        Err(PagedError::DamagedPage { page: self.root, what: "no path leads from it to a key" })
    }

    pub(super) fn read_page(&self, target: Target<'_>, level: u8) -> Result<ReadPage<'a, T>> {
        if level == 0
            && let Some(leaf) = self.noted_leaf(target)
        {
            return leaf;
        }
        let pool = self.pool;
        self.walk(target, level, &mut None, |at| pool.read(at))
    }

    /// Latches for changes. A page that its parent did not lead to is noted.
    pub(super) fn write_page(
        &self,
        target: Target<'_>,
        level: u8,
        unposted: &mut Option<Unposted>,
    ) -> Result<WritePage<'a, T>> {
        let pool = self.pool;
        self.walk(target, level, unposted, |at| pool.write(at))
    }

    /// Latches the leaf of a key for changes. If its parent did not lead to it, the parent learns
    /// of it first.
    pub(super) fn write_leaf(&self, key: &[u8]) -> Result<WritePage<'a, T>> {
        if let Some(near) = self.near
            && self.leaves.is_none()
            && let Ok(leaf) = self.pool.write(near)
            && matches!(self.arrive(leaf.bytes(), Some(0), Target::At(key)), Arrival::Here)
        {
            return Ok(leaf);
        }
        let mut unposted = None;
        let leaf = self.write_page(Target::At(key), 0, &mut unposted)?;
        let Some(unposted) = unposted else { return Ok(leaf) };
        drop(leaf);
        self.complete(unposted)?;
        self.write_page(Target::At(key), 0, &mut None)
    }
}
