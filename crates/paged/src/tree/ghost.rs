//! Deletes a row: it becomes a ghost, which keeps its space until no transaction can want it back.

use pm::Files;

use super::Tree;
use crate::change::Change;
use crate::latch::Latching;
use crate::log::Chain;
use crate::pool::{Appender, How, WritePage};
use crate::{PagedError, Result};

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    /// Deletes a row. Its ghost goes with [`Self::settle`], or when its page needs the space.
    ///
    /// # Errors
    /// There is none with this key, the log has no room for it, or the medium refuses.
    pub fn delete(&self, chain: &mut dyn Appender, key: &[u8]) -> Result<()> {
        let mut leaf = self.write_leaf(key)?;
        let slot = leaf.find(key).map_err(|_| PagedError::Missing)?;
        let entry = leaf.entry(slot);
        if entry.is_ghost() {
            return Err(PagedError::Missing);
        }
        let (row, long) = (entry.row.to_vec(), entry.is_long());
        let body = self.body(Change::Ghost { key, row: &row, long });
        self.pool.perform(chain, How::Do, &body, &mut leaf, None, None)?;
        Ok(())
    }

    /// Gives up the space that a row held back, if the pool's [`Settled`](crate::pool::Settled)
    /// says that it is not needed: a ghost goes, a row that became shorter gives its room. Returns
    /// whether nothing is held back any more. A ghost that is locked stays: the lock may be of the
    /// gap before it.
    ///
    /// # Errors
    /// The log has no room for it, or the medium refuses.
    pub fn settle(&self, key: &[u8]) -> Result<bool> {
        let mut leaf = self.write_leaf(key)?;
        let Ok(slot) = leaf.find(key) else { return Ok(true) };
        let entry = leaf.entry(slot);
        if !entry.is_ghost() && entry.room == entry.row.len() {
            return Ok(true);
        }
        if !self.pool.is_settled(self.number, key) {
            return Ok(false);
        }
        if entry.is_ghost() {
            self.reclaim_in(&mut leaf, key)?;
        } else {
            self.system(&mut leaf, Change::Trim { key })?;
        }
        self.merge_if_sparse(leaf, key)?;
        Ok(true)
    }

    /// Gives up all that the leaf of a key holds back and that is not needed.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub(super) fn settle_leaf(&self, key: &[u8]) -> Result<()> {
        let mut leaf = self.write_leaf(key)?;
        self.sweep(&mut leaf, None)?;
        self.merge_if_sparse(leaf, key)
    }

    fn merge_if_sparse(&self, leaf: WritePage<'a, T>, key: &[u8]) -> Result<()> {
        let is_sparse = leaf.used_bytes() < leaf.bytes().len() / 4;
        drop(leaf);
        if is_sparse { self.merge(key) } else { Ok(()) }
    }

    /// Removes a ghost, the pages of a long row first.
    pub(super) fn reclaim_in(&self, leaf: &mut WritePage<'a, T>, key: &[u8]) -> Result<()> {
        self.pool.ghost_goes(self.number, key);
        self.free_chain(leaf, key)?;
        self.system(leaf, Change::Reclaim { key })
    }

    /// Gives up what the rows of a leaf hold back though their transactions are over, but for the
    /// row of `except`. Returns how many gave something.
    pub(super) fn sweep(
        &self,
        leaf: &mut WritePage<'a, T>,
        except: Option<&[u8]>,
    ) -> Result<usize> {
        let held: Vec<Vec<u8>> = leaf
            .entries()
            .filter(|entry| entry.is_ghost() || entry.room > entry.row.len())
            .filter(|entry| Some(entry.key) != except)
            .filter(|entry| self.pool.is_settled(self.number, entry.key))
            .map(|entry| entry.key.to_vec())
            .collect();
        for key in &held {
            let slot = leaf.find(key).expect("it is there");
            if leaf.entry(slot).is_ghost() {
                self.reclaim_in(leaf, key)?;
            } else {
                self.system(leaf, Change::Trim { key })?;
            }
        }
        Ok(held.len())
    }

    /// Makes a change of one page that belongs to no transaction.
    fn system(&self, page: &mut WritePage<'a, T>, change: Change<'_>) -> Result<()> {
        let mut chain = Chain::default();
        self.pool.perform(&mut chain, How::Do, &self.body(change), page, None, None)?;
        Ok(())
    }
}
