//! Tuples that are never changed in place, in slots of a heap (P1 4.2): an update makes a copy of
//! the tuple's words with the changed fields new; the slots of the other fields belong to both.

use heap::{Heap, Lane, Purpose};
use pm::{Bad, Component, LineSet, Memory, Off, Range, observe};
use zerocopy::IntoBytes;

use crate::error::StorageError;
use crate::rows::key::TableKey;
use crate::rows::row::Row;
use crate::rows::value::Value;
use crate::table::slots::SlotLayout;
use crate::table::tuple::{read_tuple, read_tuple_bytes};
use crate::table::words::FieldForm;
use crate::table::words::{owned_slot, slot_range};
use crate::table::{key_of_words, write_value};

/// Writes tuples into slots that a lane allocates. Everything written is in `lines` until it is
/// flushed.
#[derive(Default, Debug)]
pub struct TupleCopies {
    words: Vec<u64>,
    /// Lines that were written and must be flushed before the tuples count.
    pub lines: LineSet,
    /// Slots that the last call has allocated: the tuple's and those of fields.
    pub made: Vec<u64>,
    /// Slots that the last call has replaced.
    pub replaced: Vec<u64>,
}

impl TupleCopies {
    /// Writes a tuple; returns where it lies.
    ///
    /// # Errors
    /// No room; nothing has changed.
    #[track_caller]
    pub fn write<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        layout: &SlotLayout,
        values: &[Value<'_>],
    ) -> Result<u64, StorageError> {
        observe!(M: lane.memory().enter(Component::Storage));
        self.begin();
        self.words.resize(values.len(), 0);
        for (column, value) in values.iter().enumerate() {
            self.set(lane, layout, column, value)?;
        }
        self.place(lane, layout)
    }

    /// Writes a copy of the tuple at `tuple` with other values of some columns; of several values
    /// for a column the last one counts. Returns where the copy lies.
    ///
    /// # Errors
    /// No room, or damage; nothing has changed.
    #[track_caller]
    pub fn copy<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        layout: &SlotLayout,
        tuple: u64,
        changes: &[(u16, Value<'_>)],
    ) -> Result<u64, StorageError> {
        observe!(M: lane.memory().enter(Component::Storage));
        self.begin();
        self.words.resize(layout.forms.len(), 0);
        lane.memory().read_into(Off::new(tuple), self.words.as_mut_bytes())?;
        for (at, (column, value)) in changes.iter().enumerate() {
            if changes[at + 1..].iter().any(|(later, _)| later == column) {
                continue;
            }
            let column = usize::from(*column);
            let old = self.words[column];
            self.set(lane, layout, column, value)?;
            self.replaced.extend(owned_slot(layout.forms[column], old));
        }
        self.replaced.push(tuple);
        self.place(lane, layout)
    }

    fn begin(&mut self) {
        self.words.clear();
        self.made.clear();
        self.replaced.clear();
    }

    #[track_caller]
    fn set<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        layout: &SlotLayout,
        column: usize,
        value: &Value<'_>,
    ) -> Result<(), StorageError> {
        let form = layout.forms[column];
        match write_value(lane, &mut self.lines, form, value) {
            Ok(word) => {
                self.words[column] = word;
                self.made.extend(owned_slot(form, word));
                Ok(())
            }
            Err(error) => Err(self.give_back(lane, error)),
        }
    }

    #[track_caller]
    fn place<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        layout: &SlotLayout,
    ) -> Result<u64, StorageError> {
        let offset = match lane.allocate(layout.tuple_bytes(), Purpose::Table) {
            Ok(offset) => offset,
            Err(error) => return Err(self.give_back(lane, error.into())),
        };
        self.made.push(offset);
        let bytes = self.words.as_bytes();
        lane.memory().copy(Off::new(offset), bytes);
        self.lines.add(Range::new(offset, bytes.len() as u64));
        Ok(offset)
    }

    fn give_back<M: Memory>(&mut self, lane: &mut Lane<M>, error: StorageError) -> StorageError {
        self.made.drain(..).for_each(|slot| lane.release(slot));
        self.replaced.clear();
        error
    }
}

/// A tuple in slots of a memory.
#[derive(Clone, Copy, Debug)]
pub struct SlotTuple<'a, M> {
    /// The memory.
    pub memory: &'a M,
    /// The table.
    pub layout: &'a SlotLayout,
    /// The place where the tuple's words lie.
    pub offset: u64,
}

impl<M: Memory> SlotTuple<'_, M> {
    /// Copies columns, all of them if none are named, into `row`.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub fn read(&self, columns: Option<&[u16]>, row: &mut Row) -> Result<(), Bad> {
        read_tuple(self.memory, self.layout, self.offset, columns, row)
    }

    /// Copies columns in sequence into `out`; see [`crate::StoredRow::read_bytes`].
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub fn read_bytes(&self, columns: &[u16], out: &mut [u8]) -> Result<usize, Bad> {
        read_tuple_bytes(self.memory, self.layout, self.offset, columns, out)
    }

    fn word(&self, column: u16) -> Result<u64, Bad> {
        let at = self.offset.saturating_add(u64::from(column) * 8);
        self.memory.load(Off::new(at), std::sync::atomic::Ordering::Acquire)
    }

    /// The tuple's key in an index; 0 is the primary one.
    ///
    /// # Errors
    /// Damage.
    pub fn key(&self, index: usize) -> Result<TableKey, Bad> {
        let layout = self.layout.key_layout(index);
        key_of_words(self.memory, self.layout, layout, |column| self.word(column))
    }

    /// Checks that the slots of the tuple and of its fields in `heap` have room for what they hold.
    ///
    /// # Errors
    /// Damage.
    pub fn check_room(&self, heap: &Heap<M>) -> Result<(), Bad> {
        heap.has_room(self.offset, self.layout.tuple_bytes())?;
        for (column, form) in self.layout.forms.iter().enumerate() {
            let word = self.word(column as u16)?;
            if owned_slot(*form, word).is_some() {
                let value = slot_range(word);
                heap.has_room(value.start, value.len)?;
            }
        }
        Ok(())
    }

    /// Calls `visit` with the slot of the tuple and those of its fields.
    ///
    /// # Errors
    /// Damage.
    pub fn slots(&self, mut visit: impl FnMut(u64)) -> Result<(), Bad> {
        for (column, form) in self.layout.forms.iter().enumerate() {
            if *form == FieldForm::Slot {
                owned_slot(*form, self.word(column as u16)?).into_iter().for_each(&mut visit);
            }
        }
        visit(self.offset);
        Ok(())
    }
}
