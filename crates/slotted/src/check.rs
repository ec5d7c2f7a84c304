//! The check of a store: walks over all pages and verifies the invariants of the crate.

use std::collections::BTreeSet;

use pm::{Bad, Memory};

use crate::Result;
use crate::layout::{MOST_LEVELS, SEGMENT_HEADER};
use crate::page::committed;
use crate::scheme::Scheme;
use crate::store::Store;

/// The pages and records of a store.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Census {
    /// Leaves.
    pub leaves: u64,
    /// Inner pages.
    pub inner: u64,
    /// Pages of long values.
    pub overflow: u64,
    /// Pages on the free stack.
    pub free: u64,
    /// Segments that the heap has given.
    pub segments: u64,
    /// Objects of the heap that the log is.
    pub log_objects: u64,
    /// Records of leaves.
    pub records: u64,
    /// The most levels of a tree.
    pub levels: u64,
    /// Bytes of leaves that are neither header nor record.
    pub free_bytes: u64,
}

/// The walk: what has been counted and met.
#[derive(Default)]
struct Walk {
    census: Census,
    pages: BTreeSet<u64>,
    /// The level of the leaves of the tree.
    leaf_level: Option<usize>,
}

fn damaged(what: &'static str, at: u64) -> Bad {
    Bad::Damaged { what, at }
}

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    /// Checks all pages. What is not committed is dropped before.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&mut self) -> Result<Census> {
        self.abort();
        self.census()
    }

    /// The same, with no transaction open.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn census(&self) -> Result<Census> {
        let mut walk = Walk::default();
        walk.census.log_objects = self.scheme.log_places()?.len() as u64;
        for root in self.master.roots.clone() {
            walk.leaf_level = None;
            self.walk(&mut walk, root, 1, (None, None))?;
        }
        let mut free = self.master.free;
        while free != 0 {
            if !walk.pages.insert(free) {
                return Err(damaged("page that is in use and free", free).into());
            }
            walk.census.free += 1;
            free = self.below(free)?;
        }
        self.check_segments(&mut walk)?;
        Ok(walk.census)
    }

    /// Calls `visit` with the place of each object of the heap that the store is made of.
    ///
    /// # Errors
    /// The log or the chain of segments is damaged.
    pub fn objects(&self, visit: &mut dyn FnMut(u64)) -> Result<()> {
        visit(self.at);
        self.scheme.log_places()?.into_iter().for_each(&mut *visit);
        let (mut segment, mut met) = (self.newest, BTreeSet::new());
        while segment != 0 {
            if !met.insert(segment) {
                return Err(damaged("chain of segments", segment).into());
            }
            visit(segment);
            segment = self.memory.read(pm::Off::<u64>::new(segment))?;
        }
        Ok(())
    }

    /// Checks that every page below the high-water mark has been met, and no other.
    fn check_segments(&self, walk: &mut Walk) -> Result<()> {
        let page = u64::from(self.options.page_bytes);
        let (mut segment, mut used) = (self.newest, false);
        loop {
            walk.census.segments += 1;
            if walk.census.segments > self.memory.len() / self.options.segment_bytes + 1 {
                return Err(damaged("chain of segments", segment).into());
            }
            self.lane.heap().has_room(segment, self.options.segment_bytes)?;
            if M::DURABLE && !self.lane.heap().is_persisted(segment)? {
                return Err(damaged("segment that is not persisted", segment).into());
            }
            let mut end = if used { self.end_of(segment) } else { segment };
            if segment == self.master.segment {
                used = true;
                end = self.master.high;
            }
            for at in (segment + SEGMENT_HEADER..end).step_by(page as usize) {
                if !walk.pages.remove(&at) {
                    return Err(damaged("page that nothing leads to", at).into());
                }
            }
            match self.memory.read(pm::Off::<u64>::new(segment))? {
                0 => break,
                before => segment = before,
            }
        }
        match walk.pages.first() {
            Some(page) => Err(damaged("page outside of the segments", *page).into()),
            None if !used => Err(damaged("high-water mark", self.master.high).into()),
            None => Ok(()),
        }
    }

    /// Checks a page and what is below it; its keys are greater than the first bound, and at most
    /// the second.
    fn walk(
        &self,
        walk: &mut Walk,
        page: u64,
        level: usize,
        (low, high): (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<()> {
        if level > MOST_LEVELS || !walk.pages.insert(page) {
            return Err(damaged("page that two lead to", page).into());
        }
        self.check_space(page)?;
        let node = self.node(page)?;
        let mut last = low.map(<[u8]>::to_vec);
        if node.kind.is_leaf() {
            walk.census.leaves += 1;
            walk.census.records += node.count as u64;
            walk.census.levels = walk.census.levels.max(level as u64);
            if node.kind != S::LEAF || *walk.leaf_level.get_or_insert(level) != level {
                return Err(damaged("leaf", page).into());
            }
            for index in 0..node.count {
                let leaf = node.leaf(index)?;
                let key = leaf.key.to_vec();
                let above = last.is_none_or(|last| last < key);
                if !above || high.is_some_and(|high| key.as_slice() > high) {
                    return Err(damaged("order of keys", page).into());
                }
                if let Some(value) = leaf.value.whole::<16>().filter(|_| leaf.overflow) {
                    self.walk_overflow(walk, value)?;
                }
                last = Some(key);
            }
            return Ok(());
        }
        walk.census.inner += 1;
        for index in 0..node.count {
            let inner = node.inner(index)?;
            let key = inner.key.map(|key| key.to_vec());
            let is_last = index + 1 == node.count;
            let above = key.as_ref().is_none_or(|key| last.as_ref().is_none_or(|last| last < key));
            // The last child has what is left of the page's keys.
            if !above || (is_last && key.as_deref() != high) || (!is_last && key.is_none()) {
                return Err(damaged("order of children", page).into());
            }
            self.walk(walk, inner.child, level + 1, (last.as_deref(), key.as_deref()))?;
            last = key;
        }
        if node.count == 0 {
            Err(damaged("inner page without a child", page).into())
        } else {
            Ok(())
        }
    }

    fn walk_overflow(&self, walk: &mut Walk, value: [u8; 16]) -> Result<()> {
        self.each_overflow(value, |page, _, _| {
            walk.census.overflow += 1;
            if walk.pages.insert(page) {
                Ok(())
            } else {
                Err(damaged("overflow page that two lead to", page).into())
            }
        })
    }

    /// Checks the header of a page against its records: they are disjoint and follow it, and its
    /// sums are right.
    fn check_space(&self, page: u64) -> Result<()> {
        let view = self.view(page)?;
        let (header, _) = committed(&view, self.here(page))?;
        let node = self.node(page)?;
        let mut records = Vec::with_capacity(node.count);
        for index in 0..node.count {
            records.push((usize::from(node.slot(index)), node.record_bytes(index)?));
        }
        records.sort_unstable();
        let start = header.kind.header_bytes(node.count);
        let (mut end, mut bytes) = (start, start);
        for (at, len) in &records {
            if *at < end {
                return Err(damaged("records that overlap", page).into());
            }
            end = at + len;
            bytes += len;
        }
        let content = records.first().map_or(self.page_bytes(), |(at, _)| *at);
        if usize::from(header.content) != content
            || usize::from(header.free) + bytes != self.page_bytes()
        {
            return Err(damaged("sums of a page", page).into());
        }
        Ok(())
    }
}
