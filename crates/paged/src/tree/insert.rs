//! Inserts a row.

use std::convert::Infallible;

use pm::Files;

use super::descend::Target;
use super::{Permit, Tree};
use crate::change::Change;
use crate::ids::PageNo;
use crate::latch::Latching;
use crate::page::Page;
use crate::pool::{Appender, How, ReadPage, WritePage};
use crate::{PagedError, Result};

/// The end of an insert that asks for a permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted<W> {
    /// The row is there.
    Done,
    /// The permit was refused because of this; nothing is changed.
    Refused(W),
    /// A page was given up on the way; nothing is changed, and a new call may succeed.
    Again,
}

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    /// Inserts a row.
    ///
    /// # Errors
    /// There is one with this key, key or row are too large, the log has no room for it, or the
    /// medium refuses.
    pub fn insert(&self, chain: &mut dyn Appender, key: &[u8], row: &[u8]) -> Result<()> {
        loop {
            match self.insert_if(chain, key, row, &mut |_| Ok(None::<Infallible>))? {
                Inserted::Done => return Ok(()),
                Inserted::Again => T::pause(),
                Inserted::Refused(never) => match never {},
            }
        }
    }

    /// Inserts a row, if the gap that it goes into may be changed: `permit` is asked with the next
    /// key, a ghost's or not, under the latch.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_if<W>(
        &self,
        chain: &mut dyn Appender,
        key: &[u8],
        row: &[u8],
        permit: Permit<'_, W>,
    ) -> Result<Inserted<W>> {
        self.check_key(key)?;
        if !self.is_long(key, row) {
            return self.insert_entry(chain, key, row, false, permit);
        }
        self.check_row(row)?;
        let leaf = self.read_page(Target::At(key), 0)?;
        let there = leaf.find(key).ok().map(|slot| leaf.entry(slot));
        match there.map(|entry| (entry.is_ghost(), entry.is_long())) {
            Some((false, _)) => return Err(PagedError::Duplicate),
            Some((true, true)) if !self.pool.is_settled(self.number, key) => {
                drop(leaf);
                return self.revive(chain, key, row);
            }
            _ => drop(leaf),
        }
        let before = chain.last();
        let stub = self.write_chain(chain, key, row)?;
        let inserted = self.insert_entry(chain, key, &stub, true, permit);
        if !matches!(inserted, Ok(Inserted::Done)) {
            self.pool.undo_to(chain, before)?;
        }
        inserted
    }

    /// Makes a ghost a row again whose pages are needed if its delete is undone: they get the new
    /// row.
    fn revive<W>(&self, chain: &mut dyn Appender, key: &[u8], row: &[u8]) -> Result<Inserted<W>> {
        let mut leaf = self.write_leaf(key)?;
        let Ok(slot) = leaf.find(key) else { return Ok(Inserted::Again) };
        if !(leaf.entry(slot).is_ghost() && leaf.entry(slot).is_long()) {
            return Ok(Inserted::Again);
        }
        let (stub, before) = (leaf.entry(slot).row.to_vec(), chain.last());
        let body = self.body(Change::Unghost { key, row: &stub, long: true });
        self.pool.perform(chain, How::Do, &body, &mut leaf, None, None)?;
        drop(leaf);
        if let Err(error) = self.update(chain, key, row) {
            self.pool.undo_to(chain, before)?;
            return Err(error);
        }
        Ok(Inserted::Done)
    }

    /// Puts an entry into its leaf; `row` may be the stub of a long one.
    fn insert_entry<W>(
        &self,
        chain: &mut dyn Appender,
        key: &[u8],
        row: &[u8],
        long: bool,
        permit: Permit<'_, W>,
    ) -> Result<Inserted<W>> {
        loop {
            let mut leaf = self.write_leaf(key)?;
            let found = leaf.find(key);
            if let Ok(slot) = found {
                let entry = leaf.entry(slot);
                if !entry.is_ghost() {
                    return Err(PagedError::Duplicate);
                }
                if entry.is_long() {
                    if self.pool.is_settled(self.number, key) {
                        self.reclaim_in(&mut leaf, key)?;
                        continue;
                    }
                    drop(leaf);
                    return match long {
                        true => Ok(Inserted::Again),
                        false => self.revive(chain, key, row),
                    };
                }
            }
            let (slot, fits) = match found {
                Ok(slot) => (slot, leaf.has_room(slot, row.len())),
                Err(slot) => (slot, leaf.has_space(key.len(), row.len())),
            };
            if !fits {
                self.make_room(leaf, slot, key)?;
                continue;
            }
            if found.is_err()
                && let Some(wanted) = self.ask(&leaf, slot, permit)?
            {
                return Ok(Inserted::Refused(wanted));
            }
            let body = self.body(Change::Insert { key, row, long });
            self.pool.perform(chain, How::Do, &body, &mut leaf, None, None)?;
            return Ok(Inserted::Done);
        }
    }

    /// Asks for the permit with the key of a slot, or the first one of the pages to the right.
    fn ask<W>(
        &self,
        leaf: &WritePage<'a, T>,
        slot: usize,
        permit: Permit<'_, W>,
    ) -> Result<Option<W>> {
        if slot < leaf.slots() {
            return permit(Some(leaf.key(slot)));
        }
        let Some(right) = leaf.right() else { return permit(None) };
        let mut page = self.neighbour(right, leaf)?;
        while page.slots() == 0 {
            let Some(right) = page.right() else { return permit(None) };
            page = self.neighbour(right, &page)?;
        }
        permit(Some(page.key(0)))
    }

    /// Latches the leaf on the right of a latched one.
    pub(super) fn neighbour(&self, right: PageNo, left: &Page) -> Result<ReadPage<'a, T>> {
        let page = self.pool.read(right)?;
        if !self.has_leaf(&page, left.high().unwrap_or_default()) {
            let what = "it is not the neighbour of a leaf that leads to it";
            return Err(PagedError::DamagedPage { page: right, what });
        }
        Ok(page)
    }

    /// Makes space in a leaf: by what is not needed any more, or by a split. The caller descends
    /// again.
    pub(super) fn make_room(
        &self,
        mut leaf: WritePage<'a, T>,
        slot: usize,
        key: &[u8],
    ) -> Result<()> {
        if self.sweep(&mut leaf, Some(key))? > 0 {
            return Ok(());
        }
        self.split(leaf, slot, key)
    }
}
