//! Undoing a replacement whose new entry never arrived: see [`crate::table::lost`]. The MemTable
//! may lead to it all the same. Secondary indexes may have its keys, of which only the end is
//! known: the primary key.

use std::ops::{Bound, ControlFlow};

use index::Direction;
use pm::{Bad, Memory, Range};

use crate::error::StorageError;
use crate::logs::undo_entry::UndoEntry;
use crate::rows::key::TableKey;
use crate::runs::Runs;
use crate::runs::change::tree_mut;
use crate::runs::entry::{Entry, Fields, SECONDARY, head_words, owned_apart};
use crate::runs::keys::{RunKey, by_form, by_layout};
use crate::table::lost::{is_key_lost, is_zero, keys_that_lead_to};

impl<M: Memory> Runs<M> {
    /// Returns whether the new entry of a replacement was put in place and nothing but zeros is
    /// left of it, or of a key in it.
    ///
    /// # Errors
    /// Something else is left, and it is not what the log entry is about (`is_other`): damage.
    #[cold]
    pub(crate) fn is_lost(&self, undo: &UndoEntry, is_other: bool) -> Result<bool, StorageError> {
        let (memory, layout) = (self.memory(), self.layout(usize::from(undo.table())));
        let (_, new) = undo.replaced();
        let entry = if new == 0 { Entry::Tombstone } else { Entry::decode(new)? };
        let Some(slot) = entry.slot() else { return Ok(false) };
        let persisted = || self.tables.lane.heap().is_persisted(slot);
        let key_is_lost = || {
            let fields = Fields::of(memory, layout, entry)?;
            for key in std::iter::once(&layout.primary).chain(&layout.secondary) {
                if is_key_lost(memory, layout, key, |column| Ok(fields.word(column)))? {
                    return persisted();
                }
            }
            Ok(false)
        };
        if !is_other {
            return Ok(key_is_lost()?);
        }
        if !persisted()? {
            return Ok(false);
        }
        let words = match entry {
            Entry::Whole(_) => layout.words_bytes(),
            _ => head_words(layout) as u64 * 8,
        };
        if is_zero(memory, Range::new(slot, words))? || key_is_lost()? {
            return Ok(true);
        }
        Err(Bad::Damaged { what: "inserted entry", at: slot }.into())
    }

    /// Undoes a replacement whose new entry is lost.
    #[cold]
    #[track_caller]
    pub(crate) fn undo_lost_replacement(
        &mut self,
        undo: &UndoEntry,
        freed: &mut Vec<u64>,
    ) -> Result<(), StorageError> {
        let table = usize::from(undo.table());
        let (old, new) = undo.replaced();
        let tree = &self.tables.tables[table].indexes[0];
        let exists = by_layout!(self.layout(table).primary, Form => {
            Form::tree(tree).exists(self.memory())
        })?;
        let keys = match exists {
            true => keys_that_lead_to(self.memory(), tree, new)?,
            false => Vec::new(),
        };
        for key in &keys {
            let before = by_form!(key, key => self.secondary_keys(table, key, old))?;
            for (index, before) in before.into_iter().enumerate() {
                for other in self.secondary_entries(table, index, key)? {
                    if before.as_ref() != Some(&other) {
                        self.tables.remove_entry(
                            undo.table(),
                            index as u16 + 1,
                            &other,
                            SECONDARY,
                        )?;
                    }
                }
                if let Some(before) = before {
                    self.tables.restore_entry(undo.table(), index + 1, &before, SECONDARY)?;
                }
            }
        }
        // Without what leads to them these slots would never be looked for again.
        self.tables.lines.flush(self.tables.lane.memory());
        self.tables.lane.memory().fence();
        for key in &keys {
            if old == 0 {
                self.tables.remove_entry(undo.table(), 0, key, new)?;
                continue;
            }
            let base = &mut self.tables;
            let tree = &mut base.tables[table].indexes[0];
            let (memory, lines) = (base.lane.memory(), &mut base.lines);
            by_form!(key, key => tree_mut(tree, key).replace_if(memory, key, new, old, lines))?;
        }
        let mut slots = Vec::new();
        if self.is_whole(table, new, undo.replacement_checksums() as u32)? {
            owned_apart(self.memory(), self.layout(table), new, old, |slot, _| slots.push(slot))?;
        } else {
            slots.extend(Entry::decode(new)?.slot());
        }
        for slot in &slots {
            self.tables.lane.clear_persisted(*slot, &mut self.tables.lines)?;
        }
        freed.append(&mut slots);
        Ok(())
    }

    /// Returns whether an entry's own words have this checksum.
    fn is_whole(&self, table: usize, word: u64, checksum: u32) -> Result<bool, Bad> {
        let layout = self.layout(table);
        let fields = Fields::of(self.memory(), layout, Entry::decode(word)?);
        Ok(fields.is_ok_and(|fields| fields.checksum(layout) == checksum))
    }

    /// The entries of a secondary index that lead to a primary key.
    fn secondary_entries(
        &self,
        table: usize,
        index: usize,
        primary: &TableKey,
    ) -> Result<Vec<TableKey>, Bad> {
        let layout = self.layout(table);
        let keys = &layout.secondary[index];
        let tree = &self.tables.tables[table].indexes[index + 1];
        let mut found = Vec::new();
        by_layout!(*keys, Form => {
            let all = (Bound::Unbounded, Bound::Unbounded);
            let done = Form::tree(tree).scan(self.memory(), all, Direction::Forward, |key, _| {
                let (key, mut narrow) = (key.table_key(), [0; 8]);
                if let Some(bytes) = keys.primary_part(key.bytes(&mut narrow))
                    && by_layout!(layout.primary, Primary => {
                        Primary::from_encoded(bytes, layout.primary.width).table_key() == *primary
                    })
                {
                    found.push(key);
                }
                ControlFlow::<()>::Continue(())
            });
            done.map(drop)
        })?;
        Ok(found)
    }
}
