//! Room for what an operation of NVM-CoW will change: nodes, slots for tuples, entries of the
//! batch's list. It is there before anything changes, so that an operation is done whole or not at
//! all.

use heap::{HeapError, Lane};
use index::cow::{Records, TreeShape};
use pm::Environment;
use storage::shadow::{Needs, TreePlace};
use storage::{SlotLayout, StorageError, TupleCopies};

use super::{Dirty, InPool};
use crate::error::EngineError;
use crate::shadow::{ShadowStore, TreeMap};

/// The trees' shapes, and the sizes of pages among them: a node has room for seven keys at least.
pub(super) fn places(
    map: &TreeMap<SlotLayout>,
    node_bytes: u32,
) -> Result<(Vec<TreePlace>, Vec<u32>), EngineError> {
    let mut sizes = Vec::new();
    let places: Result<Vec<_>, EngineError> = map
        .trees()
        .map(|(layout, table, index)| {
            let key_bytes = layout.key_bytes(index) as u16;
            let value_bytes = if index == 0 { 8 } else { 0 };
            let wanted = (16 + 7 * (u32::from(key_bytes) + 8)).next_power_of_two();
            let bytes = wanted.max(node_bytes);
            let records = Records::Packed { key_bytes, value_bytes };
            let shape = TreeShape::new(bytes, records, u32::from(key_bytes))?;
            let store = sizes.iter().position(|size| *size == bytes).unwrap_or_else(|| {
                sizes.push(bytes);
                sizes.len() - 1
            });
            Ok(TreePlace { shape, store, table })
        })
        .collect();
    Ok((places?, sizes))
}

impl<E: Environment> InPool<E> {
    /// Makes room for a change: pages, and entries in the batch's list.
    #[inline]
    pub(super) fn reserve(
        &mut self,
        dirty: &mut Dirty<E>,
        needs: &Needs,
        entries: u64,
        spare: bool,
    ) -> Result<(), EngineError> {
        if let Err(error) = self.try_reserve(dirty, needs, entries, spare) {
            self.make_room(dirty, error)?;
            self.try_reserve(dirty, needs, entries, spare)?;
        }
        Ok(())
    }

    #[inline]
    fn try_reserve(
        &mut self,
        dirty: &mut Dirty<E>,
        needs: &Needs,
        entries: u64,
        spare: bool,
    ) -> Result<(), EngineError> {
        dirty.shadow.reserve(needs, spare, &mut self.lane)?;
        let left = if spare { self.spare_entries } else { 0 };
        Ok(self.master.reserve(&mut self.lane, self.batch.entries() + entries + left)?)
    }

    /// Frees what only waits for a batch to end, for snapshots that have gone to be noticed, or for
    /// the collection, if the pool or the batch's list is full.
    #[cold]
    fn make_room(&mut self, dirty: &mut Dirty<E>, error: EngineError) -> Result<(), EngineError> {
        let full = matches!(error, EngineError::Storage(StorageError::Heap(HeapError::Full(_))));
        let too_long =
            matches!(error, EngineError::Storage(StorageError::TransactionTooLarge { .. }));
        if !full && !too_long {
            return Err(error);
        }
        dirty.shadow.release_unpinned();
        // Space that a batch has superseded can be used when the master record has moved once more.
        for _ in 0..2 {
            dirty.end_batch(self)?;
        }
        while full && !dirty.shadow.collect(u64::MAX)? {}
        self.forget_snapshots(dirty);
        Ok(())
    }

    /// Reserves what a change may take and writes a tuple, or a copy of one, for it.
    #[inline]
    pub(super) fn write(
        &mut self,
        dirty: &mut Dirty<E>,
        needs: &Needs,
        entries: u64,
        mut act: impl FnMut(&mut TupleCopies, &mut Lane<E::Durable>) -> Result<u64, StorageError>,
    ) -> Result<u64, EngineError> {
        self.reserve(dirty, needs, entries, true)?;
        let tuple = match act(&mut self.copies, &mut self.lane) {
            Ok(tuple) => tuple,
            Err(error) => {
                self.make_room(dirty, error.into())?;
                self.reserve(dirty, needs, entries, true)?;
                act(&mut self.copies, &mut self.lane)?
            }
        };
        self.batch.made(&self.copies.made, dirty.shadow.open());
        self.copies.replaced.iter().for_each(|slot| self.batch.replaced(*slot));
        Ok(tuple)
    }
}
