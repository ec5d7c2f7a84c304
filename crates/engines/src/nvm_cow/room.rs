//! Room for what an operation of NVM-CoW will change: nodes, slots for tuples, entries of the batch's
//! list. It is there before anything changes, so that an operation is done whole or not at all.

use heap::{HeapError, Lane};
use index::cow::{Records, TreeShape};
use pm::Environment;
use storage::shadow::{Needs, TreePlace};
use storage::{SlotLayout, StorageError, TupleCopies};

use super::Core;
use crate::error::EngineError;
use crate::shadow_tables::TreeMap;

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

impl<E: Environment> Core<E> {
    /// Makes room for a change: pages, and entries in the batch's list.
    #[inline]
    pub(super) fn reserve(
        &mut self,
        needs: &Needs,
        entries: u64,
        spare: bool,
    ) -> Result<(), EngineError> {
        if let Err(error) = self.try_reserve(needs, entries, spare) {
            self.make_room(error)?;
            self.try_reserve(needs, entries, spare)?;
        }
        Ok(())
    }

    #[inline]
    fn try_reserve(&mut self, needs: &Needs, entries: u64, spare: bool) -> Result<(), EngineError> {
        self.shadow.reserve(needs, spare, &mut self.lane)?;
        let left = if spare { self.spare_entries } else { 0 };
        Ok(self.master.reserve(&mut self.lane, self.batch.entries() + entries + left)?)
    }

    /// Frees what only waits for a batch to end, for somebody to notice that snapshots have gone,
    /// or for the collection, if the pool or the batch's list is full.
    #[cold]
    fn make_room(&mut self, error: EngineError) -> Result<(), EngineError> {
        let full = matches!(error, EngineError::Storage(StorageError::Heap(HeapError::Full(_))));
        let too_long =
            matches!(error, EngineError::Storage(StorageError::TransactionTooLarge { .. }));
        if !full && !too_long {
            return Err(error);
        }
        self.shadow.release_unpinned();
        // What a batch has superseded can be used when the master record has moved once more.
        for _ in 0..2 {
            self.end_batch()?;
        }
        while full && !self.shadow.collect(u64::MAX)? {}
        self.forget_snapshots();
        Ok(())
    }

    pub(super) fn forget_snapshots(&mut self) {
        if self.shadow.snapshots_gone() {
            self.batch.unpin(&mut self.lane, self.shadow.pins());
        }
    }

    /// Returns what a change of these trees may take.
    #[inline]
    pub(super) fn needs(&self, trees: impl Iterator<Item = usize>) -> Needs {
        let mut needs = Needs::default();
        trees.for_each(|tree| self.shadow.need(&mut needs, tree, 0));
        needs
    }

    /// Reserves what a change may take and writes a tuple, or a copy of one, for it.
    #[inline]
    pub(super) fn write(
        &mut self,
        needs: &Needs,
        entries: u64,
        mut act: impl FnMut(&mut TupleCopies, &mut Lane<E::Durable>) -> Result<u64, StorageError>,
    ) -> Result<u64, EngineError> {
        self.reserve(needs, entries, true)?;
        let tuple = match act(&mut self.copies, &mut self.lane) {
            Ok(tuple) => tuple,
            Err(error) => {
                self.make_room(error.into())?;
                self.reserve(needs, entries, true)?;
                act(&mut self.copies, &mut self.lane)?
            }
        };
        self.batch.made(&self.copies.made, self.shadow.open());
        self.copies.replaced.iter().for_each(|slot| self.batch.replaced(*slot));
        Ok(tuple)
    }

    /// Runs the part of an operation that changes trees. If it fails, half of it may be done.
    #[inline]
    pub(super) fn change<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let done = act(self);
        if done.is_err() {
            self.state.must_abort();
        }
        done
    }
}
