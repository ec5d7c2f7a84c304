//! Splits a full page: its upper half goes to a new page, which is then entered in the parent.

use pm::Files;

use super::Tree;
use super::descend::{Target, Unposted};
use crate::Result;
use crate::change::{Change, push_entry};
use crate::flaw::Flaw;
use crate::ids::PageNo;
use crate::latch::Latching;
use crate::layout::entry_bytes;
use crate::log::Chain;
use crate::page::{Entry, Page, PageKind};
use crate::pool::{How, WritePage};

/// The shortest key that is greater than `left` and not greater than `right`.
pub(super) fn separator<'k>(left: &[u8], right: &'k [u8]) -> &'k [u8] {
    let common = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    &right[..right.len().min(common + 1)]
}

/// The first slot that goes to the right, so that both halves have about the same bytes.
fn middle(page: &Page) -> usize {
    let bytes = |entry: Entry<'_>| entry_bytes(entry.key.len(), entry.room);
    let half = page.entries().map(bytes).sum::<usize>() / 2;
    let mut left = 0;
    for (slot, entry) in page.entries().enumerate() {
        left += bytes(entry);
        if left >= half {
            return (slot + 1).min(page.slots() - 1);
        }
    }
    page.slots() - 1
}

/// The entries of a page from a slot on, encoded. The first child of an inner page has no key.
fn entries_from(page: &Page, from: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(page.used_bytes());
    for (slot, mut entry) in page.entries().enumerate().skip(from) {
        if page.kind() == PageKind::Inner && slot == from {
            entry.key = &[];
        }
        push_entry(&mut out, &entry);
    }
    out
}

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    /// Splits a page that has no space for a key, which would be in the slot `at`. The caller
    /// descends again.
    pub(super) fn split(&self, page: WritePage<'a, T>, at: usize, key: &[u8]) -> Result<()> {
        if page.place() == self.root {
            return self.grow(page);
        }
        let (slots, is_leaf) = (page.slots(), page.kind() == PageKind::Leaf);
        assert!(slots > 1, "a page with one entry has space for another");
        let is_last = at == slots && page.right().is_none();
        // Keys that come in order leave full pages.
        let appended = (is_leaf && is_last)
            .then(|| separator(page.key(slots - 1), key).to_vec())
            .filter(|between| between.len() <= page.free_bytes());
        let (from, between) = appended.map_or_else(
            || {
                let from = if is_last { slots - 1 } else { middle(&page) };
                let between = match is_leaf {
                    true => separator(page.key(from - 1), page.key(from)),
                    false => page.key(from),
                };
                (from, between.to_vec())
            },
            |between| (slots, between),
        );
        self.split_at(page, from, &between)
    }

    fn split_at(&self, mut page: WritePage<'a, T>, from: usize, between: &[u8]) -> Result<()> {
        let level = page.level();
        let (right, mut map) = self.pool.allocate()?;
        let mut new = self.pool.write_new(right)?;
        let entries = entries_from(&page, from);
        let (high, next) = (page.high().map(<[u8]>::to_vec), page.right());
        let change = Change::Split {
            right,
            level,
            key: between,
            high: high.as_deref(),
            next,
            entries: &entries,
        };
        let (body, mut chain) = (self.body(change), Chain::default());
        self.pool.perform(&mut chain, How::Do, &body, &mut page, Some(&mut new), Some(&mut map))?;
        drop((page, new, map));
        self.post(&mut chain, between, right, level + 1)
    }

    /// Puts all that the root has into a new page, its only child.
    fn grow(&self, mut root: WritePage<'a, T>) -> Result<()> {
        let (child, mut map) = self.pool.allocate()?;
        let mut new = self.pool.write_new(child)?;
        let entries = entries_from(&root, 0);
        let change = Change::Root { child, level: root.level(), entries: &entries };
        let (body, mut chain) = (self.body(change), Chain::default());
        self.pool.perform(&mut chain, How::Do, &body, &mut root, Some(&mut new), Some(&mut map))?;
        Ok(())
    }

    /// Adds to the parent, a page of `level`, a page whose range begins at `key`, if the parent
    /// does not know it and the page is there. The record comes after that of the split in its
    /// chain, if that was just made.
    fn post(&self, chain: &mut Chain, key: &[u8], page: PageNo, level: u8) -> Result<()> {
        loop {
            let mut parent = self.write_page(Target::At(key), level, &mut None)?;
            // The first child has its key in the parent's fence alone. And the page may have been
            // freed and have become the parent.
            if parent.low() == key || parent.place() == page {
                return Ok(());
            }
            let slot = match parent.find(key) {
                Err(slot) => slot,
                Ok(slot) if T::has(Flaw::PostedTwice) => slot,
                Ok(_) => return Ok(()),
            };
            let child = self.pool.read(page)?;
            let is_there = matches!(child.kind(), PageKind::Leaf | PageKind::Inner)
                && child.tree() == self.number
                && child.level() + 1 == level
                && child.low() == key;
            drop(child);
            if !is_there {
                return Ok(());
            }
            if parent.has_space(key.len(), 8) {
                let body = self.body(Change::Post { key, child: page });
                self.pool.perform(chain, How::Do, &body, &mut parent, None, None)?;
                return Ok(());
            }
            self.split(parent, slot, key)?;
        }
    }

    /// Adds to the parent a page that a descent came to from its left neighbour.
    pub(super) fn complete(&self, unposted: Unposted) -> Result<()> {
        let page = self.pool.read(unposted.page)?;
        let is_ours = matches!(page.kind(), PageKind::Leaf | PageKind::Inner)
            && page.tree() == self.number
            && page.level() == unposted.level
            && !page.low().is_empty();
        if !is_ours {
            return Ok(());
        }
        let low = page.low().to_vec();
        drop(page);
        self.post(&mut Chain::default(), &low, unposted.page, unposted.level + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sim::RecordingFiles;

    use super::{Unposted, separator};
    use crate::file::NewFile;
    use crate::ids::{PageNo, TreeNo, TxNo};
    use crate::log::Chain;
    use crate::log::central::{Central, CentralOptions};
    use crate::page::PageKind;
    use crate::pool::Pool;
    use crate::threads::Host;

    /// A descent that another thread's splits have overtaken does not add to the parent a page that
    /// the parent knows already, perhaps as its first child.
    #[test]
    fn a_parent_that_knows_a_page_is_told_of_it_for_nothing() {
        let (files, tree) = (RecordingFiles::new(), TreeNo(7));
        let options = CentralOptions { reserve_bytes: 4096, ..CentralOptions::default() };
        let log: Central<_, Host> =
            Central::create(&files, "log-", options, Arc::default()).unwrap();
        let new = NewFile { page_bytes: 512, stamp: 1 };
        let pool: Pool<_> = Pool::create(&files, "", &new, 64, Arc::new(log)).unwrap();
        let mut chain = Chain::new(TxNo(1));
        let tree = pool.create_tree(&mut chain, tree).unwrap();
        for number in 0..2000_u16 {
            let mut key = number.to_be_bytes().to_vec();
            key.resize(40, b'k');
            tree.insert(&mut chain, &key, b"row").unwrap();
        }
        let before = pool.check().unwrap();
        let mut first_children = 0;
        for number in 2..pool.used_pages().unwrap() {
            let page = pool.read(PageNo(number)).unwrap();
            let is_ours = matches!(page.kind(), PageKind::Leaf | PageKind::Inner);
            if !is_ours || page.tree() != tree.number || page.low().is_empty() {
                continue;
            }
            first_children += u64::from(page.level() > 0);
            let unposted = Unposted { page: PageNo(number), level: page.level() };
            drop(page);
            tree.complete(unposted).unwrap();
        }
        assert_eq!(pool.check().unwrap(), before);
        assert!(first_children > 1, "{first_children} inner pages have a first child with a key");
    }

    #[test]
    fn a_separator_is_greater_than_the_left_and_not_than_the_right() {
        for (left, right, between) in
            [("a", "b", "b"), ("abc", "abd", "abd"), ("ab", "abzz", "abz"), ("", "xyz", "x")]
        {
            assert_eq!(separator(left.as_bytes(), right.as_bytes()), between.as_bytes());
        }
    }
}
