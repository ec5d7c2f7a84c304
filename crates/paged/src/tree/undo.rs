//! Undo: logical, by key, wherever the key is by now. It never asks for space.

use pm::Files;

use super::Tree;
use super::descend::Target;
use crate::change::{Body, Change, entries_of, push_entry};
use crate::flaw::Flaw;
use crate::ids::{Lsn, PageNo};
use crate::latch::Latching;
use crate::log::{Kind, Logged};
use crate::page::Entry;
use crate::pool::{Appender, How, Pool, WritePage, body_of};
use crate::{PagedError, Result};

impl<F: Files, T: Latching> Pool<F, T> {
    /// Undoes what a transaction has done after the record `to`, the newest first: all of it, if
    /// that is [`Lsn::NONE`].
    ///
    /// # Errors
    /// A page or the log is damaged, or the medium refuses. It can be called again.
    pub fn undo_to(&self, chain: &mut dyn Appender, to: Lsn) -> Result<()> {
        let mut at = chain.last();
        while at > to {
            let logged = self.log().read(at)?;
            at = match logged.kind {
                Kind::Change => {
                    self.undo(chain, &logged)?;
                    logged.prev
                }
                Kind::Compensation => logged.undo_next,
                _ => logged.prev,
            };
        }
        Ok(())
    }

    /// Undoes one record of a transaction, and logs that as compensation.
    ///
    /// # Errors
    /// As [`Self::undo_to`].
    pub fn undo(&self, chain: &mut dyn Appender, logged: &Logged) -> Result<()> {
        let Body { tree, change } = body_of(logged)?;
        let how = How::Undo { next: logged.prev };
        match &change {
            Change::NewTree => {
                self.roots.forget(tree);
                self.free_page(chain, how, tree, logged, None)
            }
            Change::NewOverflow { prev, .. } => self.free_page(chain, how, tree, logged, *prev),
            Change::OverflowBytes { .. } => {
                let tree = self.tree_of(logged, tree)?;
                tree.undo_overflow(chain, how, logged, &change)
            }
            Change::InsertMany { entries } => {
                let tree = self.tree_of(logged, tree)?;
                let keys: Vec<&[u8]> =
                    entries_of(entries).filter_map(|entry| Some(entry.ok()?.key)).collect();
                tree.erase_all(chain, logged, &keys)
            }
            _ => {
                let tree = self.tree_of(logged, tree)?;
                match inverse(&change) {
                    Some((key, inverse)) => tree.compensate(chain, how, logged.page, key, &inverse),
                    None => Ok(()),
                }
            }
        }
    }

    fn tree_of(&self, logged: &Logged, tree: crate::ids::TreeNo) -> Result<Tree<'_, F, T>> {
        self.tree(tree)?.ok_or_else(|| PagedError::DamagedLog {
            at: logged.lsn,
            what: format!("its {tree} does not exist"),
        })
    }
}

/// The change of one leaf that undoes another one, and its key.
fn inverse<'c>(change: &Change<'c>) -> Option<(&'c [u8], Change<'c>)> {
    Some(match *change {
        Change::Insert { key, .. } => (key, Change::Erase { key }),
        Change::Ghost { key, row, long } => (key, Change::Unghost { key, row, long }),
        Change::Unghost { key, row, long } => (key, Change::Ghost { key, row, long }),
        Change::Update { key, before, was_long, after, long } => (
            key,
            Change::Update { key, before: after, was_long: long, after: before, long: was_long },
        ),
        Change::Patch { key, at, before, after } => {
            (key, Change::Patch { key, at, before: after, after: before })
        }
        _ => return None,
    })
}

impl<'a, F: Files, T: Latching> Tree<'a, F, T> {
    fn leaf_of(&self, key: &[u8]) -> Result<WritePage<'a, T>> {
        self.write_page(Target::At(key), 0, &mut None)
    }

    fn compensate(
        &self,
        chain: &mut dyn Appender,
        how: How,
        was_on: PageNo,
        key: &[u8],
        change: &Change<'_>,
    ) -> Result<()> {
        let mut leaf = match T::has(Flaw::UndoneByPage) {
            true => self.pool.write(was_on)?,
            false => self.leaf_of(key)?,
        };
        if leaf.find(key).is_err() {
            return Err(PagedError::DamagedPage {
                page: leaf.place(),
                what: "it has not the row that a transaction changed",
            });
        }
        let body = self.body(change.clone());
        self.pool.perform(chain, how, &body, &mut leaf, None, None).map(drop)
    }

    /// Erases rows that came with one record, the last ones first: a record for each leaf that has
    /// some. Only the first rows' record says that the next one of the transaction is to be undone;
    /// a crash before it begins with all of them again, and those that are erased are left out.
    fn erase_all(
        &self,
        chain: &mut dyn Appender,
        logged: &Logged,
        mut keys: &[&[u8]],
    ) -> Result<()> {
        while let Some(last) = keys.last() {
            let mut leaf = self.leaf_of(last)?;
            let first = keys.partition_point(|key| *key < leaf.low());
            let next = if first == 0 { logged.prev } else { logged.lsn };
            let mut entries = Vec::new();
            for key in &keys[first..] {
                let is_there = leaf.find(key).is_ok_and(|slot| !leaf.entry(slot).is_ghost());
                if is_there {
                    push_entry(&mut entries, &Entry { key, row: &[], room: 0, flags: 0 });
                }
            }
            if !entries.is_empty() || first == 0 {
                let body = self.body(Change::EraseMany { entries: &entries });
                self.pool.perform(chain, How::Undo { next }, &body, &mut leaf, None, None)?;
            }
            keys = &keys[..first];
        }
        Ok(())
    }
}
