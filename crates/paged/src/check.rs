//! A look at every page that is in use: whether trees, chains of long rows and maps agree.

use std::collections::HashSet;

use pm::Files;

use crate::ids::{PageNo, TreeNo};
use crate::latch::Latching;
use crate::layout::HEADER_BYTES;
use crate::maps::{FIRST_MAP, map_of};
use crate::overflow::read_stub;
use crate::page::{Page, PageKind};
use crate::pool::Pool;
use crate::tree::{BATCH_ROWS, Bound, Direction, Permitted, Scan, Tree};
use crate::{PagedError, Result};

/// The things that were counted on the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// Trees, with the catalog's.
    pub trees: u64,
    /// Pages of trees.
    pub pages: u64,
    /// Pages of long rows.
    pub overflow_pages: u64,
    /// Rows.
    pub rows: u64,
    /// Ghosts.
    pub ghosts: u64,
    /// Pages that are found from their left neighbour only.
    pub unposted: u64,
    /// Pages that are marked as used, and nothing leads to them.
    pub lost: u64,
}

fn damaged<V>(page: PageNo, what: &'static str) -> Result<V> {
    Err(PagedError::DamagedPage { page, what })
}

impl<F: Files, T: Latching> Pool<F, T> {
    /// Checks all trees, while nothing changes them. It needs about twenty bytes a page, and the
    /// first keys of the pages of one level.
    ///
    /// # Errors
    /// The first page that is not what it should be.
    pub fn check(&self) -> Result<Checked> {
        let (mut checked, mut seen) = (Checked::default(), HashSet::new());
        self.catalog().check(&mut checked, &mut seen)?;
        let mut trees = Vec::new();
        let mut scan = Scan::new(Direction::Forward, Bound::Unbounded);
        let mut batch = crate::tree::Batch::default();
        loop {
            self.catalog().next(&mut scan, &mut batch, BATCH_ROWS, &mut |_| Permitted::Yes)?;
            if batch.rows.is_empty() {
                break;
            }
            for (key, _) in &batch.rows {
                let number = key.as_slice().try_into().map(u32::from_be_bytes);
                trees.push(TreeNo(number.or_else(|_| {
                    damaged(self.catalog().root, "the catalog has a key that is no tree's number")
                })?));
            }
        }
        for tree in trees {
            if let Some(tree) = self.tree(tree)? {
                tree.check(&mut checked, &mut seen)?;
            }
        }
        for page in &seen {
            if !self.is_used(*page)? {
                return damaged(*page, "it is used, and its map says that it is free");
            }
        }
        checked.lost = self.used_pages()? - 1 - self.maps()? - seen.len() as u64;
        Ok(checked)
    }

    fn maps(&self) -> Result<u64> {
        let (mut maps, mut at) = (0, FIRST_MAP);
        while self.read(at)?.kind() == PageKind::Map {
            maps += 1;
            let span = (self.page_bytes() - HEADER_BYTES) * 8;
            at = map_of(PageNo(at.0 + span as u64), self.page_bytes());
        }
        Ok(maps)
    }
}

impl<F: Files, T: Latching> Tree<'_, F, T> {
    fn check(&self, checked: &mut Checked, seen: &mut HashSet<PageNo>) -> Result<()> {
        checked.trees += 1;
        let (mut first, mut children) = (self.root, Vec::new());
        let mut level = self.pool.read(self.root)?.level();
        loop {
            let below = self.check_level(first, level, &children, checked, seen)?;
            match below.first() {
                Some((_, child)) => first = *child,
                None => return Ok(()),
            }
            children = below;
            level -= 1;
        }
    }

    /// Checks the pages of a level from left to right; returns what they say about the level below.
    fn check_level(
        &self,
        first: PageNo,
        level: u8,
        posted: &[(Vec<u8>, PageNo)],
        checked: &mut Checked,
        seen: &mut HashSet<PageNo>,
    ) -> Result<Vec<(Vec<u8>, PageNo)>> {
        let (mut below, mut posted) = (Vec::new(), posted.iter().peekable());
        let (mut next, mut low) = (Some(first), Vec::new());
        while let Some(at) = next {
            let page = self.pool.read(at)?;
            let is_ours = matches!(page.kind(), PageKind::Leaf | PageKind::Inner)
                && page.tree() == self.number
                && page.level() == level;
            if !is_ours {
                return damaged(at, "it is not the page of a tree that leads to it");
            }
            if !seen.insert(at) {
                return damaged(at, "two ways lead to it");
            }
            if page.low() != low {
                return damaged(at, "its range does not begin where its left neighbour's ends");
            }
            if page.right().is_some() != page.high().is_some() {
                return damaged(at, "its range has an end without a neighbour, or the other way");
            }
            match posted.next_if(|(_, child)| *child == at) {
                Some((key, _)) if *key != page.low() => {
                    return damaged(at, "its range does not begin where its parent says");
                }
                Some(_) => {}
                None => checked.unposted += u64::from(at != self.root),
            }
            checked.pages += 1;
            self.check_entries(&page, checked, seen, &mut below)?;
            low = page.high().unwrap_or_default().to_vec();
            next = page.right();
        }
        match posted.next() {
            Some((_, child)) => damaged(*child, "its parent leads to it, and no neighbour"),
            None => Ok(below),
        }
    }

    fn check_entries(
        &self,
        page: &Page,
        checked: &mut Checked,
        seen: &mut HashSet<PageNo>,
        below: &mut Vec<(Vec<u8>, PageNo)>,
    ) -> Result<()> {
        for (slot, entry) in page.entries().enumerate() {
            if page.kind() == PageKind::Inner {
                let key = if slot == 0 { page.low() } else { entry.key };
                below.push((key.to_vec(), entry.child()));
                continue;
            }
            checked.rows += u64::from(!entry.is_ghost());
            checked.ghosts += u64::from(entry.is_ghost());
            if !entry.is_long() {
                continue;
            }
            let (bytes, mut next) = read_stub(entry.row);
            let mut found = 0;
            while let Some(at) = next {
                let part = self.pool.read(at)?;
                if part.kind() != PageKind::Overflow || part.tree() != self.number {
                    return damaged(at, "it is not the part of a long row that it should be");
                }
                if !seen.insert(at) {
                    return damaged(at, "two ways lead to it");
                }
                checked.overflow_pages += 1;
                found += part.part().len() as u64;
                next = part.right();
            }
            if found < bytes && !entry.is_ghost() {
                return damaged(page.number(), "a long row of it ends too early");
            }
        }
        Ok(())
    }
}
