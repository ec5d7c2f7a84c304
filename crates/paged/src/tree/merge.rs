//! Merges two neighbours into one page, and frees the other.

use pm::Files;

use super::Tree;
use super::descend::Target;
use crate::change::{Change, push_entry};
use crate::latch::Latching;
use crate::layout::entry_bytes;
use crate::log::Chain;
use crate::page::{Entry, Page, PageKind};
use crate::pool::{How, WritePage};
use crate::{PagedError, Result};

/// The entries of the right page, as the left one gets them, and the bytes that it needs for them
/// and its new fence.
fn moved(left: &Page, right: &Page) -> (Vec<u8>, usize) {
    let (mut entries, mut bytes) = (Vec::with_capacity(right.used_bytes()), 0);
    for (slot, entry) in right.entries().enumerate() {
        let is_first_child = slot == 0 && right.kind() == PageKind::Inner;
        let entry = if is_first_child { Entry { key: right.low(), ..entry } } else { entry };
        bytes += entry_bytes(entry.key.len(), entry.room);
        push_entry(&mut entries, &entry);
    }
    let fence = |page: &Page| page.high().map_or(0, <[u8]>::len);
    (entries, (bytes + fence(right)).saturating_sub(fence(left)))
}

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    /// Merges the leaf of a key with a neighbour of the same parent if both fit into one page, and
    /// then their parents if they have become sparse.
    pub(super) fn merge(&self, key: &[u8]) -> Result<()> {
        let mut level = 0;
        while self.merge_at(key, level)? {
            level += 1;
        }
        Ok(())
    }

    /// Merges the page of a level; returns whether its parent has become sparse.
    fn merge_at(&self, key: &[u8], level: u8) -> Result<bool> {
        if self.pool.read(self.root)?.level() <= level {
            return Ok(false);
        }
        let mut parent = self.write_page(Target::At(key), level + 1, &mut None)?;
        let (slot, slots) = (parent.find(key).unwrap_or_else(|slot| slot - 1), parent.slots());
        for first in [slot.checked_sub(1), Some(slot)].into_iter().flatten() {
            if first + 1 < slots && self.merge_pair(&mut parent, first)? {
                return Ok(parent.used_bytes() < parent.bytes().len() / 4);
            }
        }
        Ok(false)
    }

    /// Merges a child and the next one, if both fit into one page; returns whether they did.
    fn merge_pair(&self, parent: &mut WritePage<'a, T>, first: usize) -> Result<bool> {
        let between = parent.key(first + 1).to_vec();
        let mut left = self.pool.write(parent.entry(first).child())?;
        let number = parent.entry(first + 1).child();
        if left.right() != Some(number) {
            return Ok(false);
        }
        let mut right = self.pool.write(number)?;
        let is_ours =
            |page: &Page| page.tree() == self.number && page.level() + 1 == parent.level();
        if !is_ours(&left) || !is_ours(&right) || right.low() != between {
            let what = "it is not the child of a page that leads to it";
            return Err(PagedError::DamagedPage { page: number, what });
        }
        let (entries, bytes) = moved(&left, &right);
        // Some space stays, so that the next insert does not split what was merged.
        let is_one_empty = left.slots() == 0 || right.slots() == 0;
        let spare = if is_one_empty { 0 } else { left.bytes().len() / 4 };
        if bytes + spare > left.free_bytes() {
            return Ok(false);
        }
        let mut map = self.pool.map(number)?;
        // One chain: the second record names the first.
        let (unpost, mut chain) = (self.body(Change::Unpost { key: &between }), Chain::default());
        self.pool.perform(&mut chain, How::Do, &unpost, parent, None, None)?;
        let (high, next) = (right.high().map(<[u8]>::to_vec), right.right());
        let change =
            Change::Merge { right: number, high: high.as_deref(), next, entries: &entries };
        let (body, second, map) = (self.body(change), Some(&mut right), Some(&mut map));
        self.pool.perform(&mut chain, How::Do, &body, &mut left, second, map)?;
        self.pool.freed(number);
        Ok(true)
    }
}
