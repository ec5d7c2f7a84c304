//! Undoing an insert whose bytes never arrived.
//!
//! A medium that failed under the mapping may have lost the page of a tuple, of which only zeros
//! are left, while later stores arrived: the persisted bit, and index entries that lead to the
//! tuple. (Pools of older builds may have this; in this one no store follows a lost one.) The
//! transaction was never acknowledged, so undoing it loses nothing. Its index entries are found by
//! the tuple they lead to, since their keys are gone with the tuple. That search goes over the
//! whole index; nothing else does.
//!
//! If the tuple had fields in slots of their own, their places are unknown. The check reports them
//! as leaked.

use std::ops::{Bound, ControlFlow};

use index::{BTree, Direction, Key, LeafLayout};
use pm::{Bad, Memory, Off, Range};

use crate::error::StorageError;
use crate::rows::catalog::KeyLayout;
use crate::rows::key::TableKey;
use crate::table::slots::SlotLayout;
use crate::table::words::FieldForm;
use crate::table::words::slot_range;
use crate::table::{TableIndex, Tables};

/// Bytes that are compared with zero at once.
const PIECE: usize = 512;

/// Returns whether all bytes of a range are zero; of an empty one they are.
pub(crate) fn is_zero<M: Memory>(memory: &M, range: Range) -> Result<bool, Bad> {
    let mut bytes = [0; PIECE];
    let (mut at, end) = (range.start, range.end());
    while at < end {
        let part = &mut bytes[..(end - at).min(PIECE as u64) as usize];
        memory.read_into(Off::new(at), part)?;
        if part.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += part.len() as u64;
    }
    Ok(true)
}

/// Returns whether a column of a key has bytes outside of its word, and none but zeros are left of
/// them.
pub(crate) fn is_key_lost<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    key: &KeyLayout,
    word: impl Fn(u16) -> Result<Option<u64>, Bad>,
) -> Result<bool, Bad> {
    for (column, kind) in key.columns.iter().zip(&key.kinds) {
        if !matches!(layout.forms[usize::from(*column)], FieldForm::Slot | FieldForm::Inline) {
            continue;
        }
        let Some(word) = word(*column)? else { continue };
        let range = slot_range(word);
        let fits = kind.max_bytes().is_some_and(|max| range.len <= u64::from(max));
        if fits && range.len > 0 && is_zero(memory, range)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The keys of an index that lead to `value`, whatever they are.
pub(crate) fn keys_that_lead_to<M: Memory, L: LeafLayout>(
    memory: &M,
    index: &TableIndex<L>,
    value: u64,
) -> Result<Vec<TableKey>, Bad> {
    fn find<K: Key, M: Memory, L: LeafLayout>(
        tree: &BTree<K, L>,
        memory: &M,
        wanted: u64,
        found: &mut Vec<TableKey>,
        key_of: impl Fn(K) -> TableKey,
    ) -> Result<(), Bad> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let done = tree.scan(memory, all, Direction::Forward, |key, value| {
            if value == wanted {
                found.push(key_of(key.clone()));
            }
            ControlFlow::<()>::Continue(())
        });
        done.map(drop)
    }
    let mut found = Vec::new();
    match index {
        TableIndex::Narrow(tree) => find(tree, memory, value, &mut found, TableKey::Narrow)?,
        TableIndex::Wide(tree) => find(tree, memory, value, &mut found, TableKey::Wide)?,
        TableIndex::Long(tree) => find(tree, memory, value, &mut found, TableKey::Long)?,
    }
    Ok(found)
}

impl<M: Memory, L: LeafLayout> Tables<M, L> {
    /// Returns whether the key of a tuple in an index has not arrived.
    #[cold]
    pub(crate) fn key_is_lost(&self, table: u16, index: usize, tuple: u64) -> Result<bool, Bad> {
        let layout = self.layout(table);
        let key = layout.key_layout(index);
        let word = |column| self.field(tuple, column).map(Some);
        Ok(is_key_lost(self.memory(), layout, key, word)?
            && self.lane.heap().is_persisted(tuple)?)
    }

    /// Takes a tuple out of an index, by whatever key it has there.
    #[cold]
    #[track_caller]
    pub(crate) fn remove_entries_of(
        &mut self,
        table: u16,
        index: usize,
        tuple: u64,
    ) -> Result<(), Bad> {
        let tree = &self.tables[usize::from(table)].indexes[index];
        for key in keys_that_lead_to(self.lane.memory(), tree, tuple)? {
            self.remove_entry(table, index as u16, &key, tuple)?;
        }
        Ok(())
    }

    /// Undoes the insert of a tuple of whose words nothing can be used.
    #[cold]
    #[track_caller]
    pub(crate) fn undo_lost_insert(
        &mut self,
        (table, tuple): (u16, u64),
        freed: &mut Vec<u64>,
    ) -> Result<(), StorageError> {
        for index in 0..=self.layout(table).secondary.len() {
            self.remove_entries_of(table, index, tuple)?;
        }
        self.lane.clear_persisted(tuple, &mut self.lines)?;
        freed.push(tuple);
        Ok(())
    }
}
