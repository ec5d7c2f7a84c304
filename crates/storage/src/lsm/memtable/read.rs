//! Reads of a MemTable: an entry, and a range entry by entry.

use std::ops::Bound;
use std::sync::atomic::Ordering::Acquire;

use index::Direction;
use pm::{Bad, Component, Memory, Off, View, observe};

use super::{MemTable, PRESENT, TOMBSTONE, WHOLE, set_words};
use crate::lsm::change::{Change, ColumnSet};
use crate::lsm::error::LsmError;
use crate::lsm::record::{Encoder, KEY_ONLY};
use crate::lsm::sstable::Cursor;
use crate::lsm::trees::TreeKey;
use crate::rows::key::TableKey;
use crate::table::slots::SlotLayout;
use crate::table::words::FieldForm;
use crate::table::words::{short_bytes, slot_range};

/// An entry of a MemTable.
#[derive(Debug)]
pub struct MemEntry<'a, M: Memory> {
    pub(super) memory: &'a M,
    pub(super) layout: &'a SlotLayout,
    pub(super) value: u64,
}

impl<M: Memory> MemEntry<'_, M> {
    /// Returns whether it is a tombstone.
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        self.value == TOMBSTONE
    }

    /// Returns whether it has all columns.
    #[inline]
    pub fn is_whole(&self) -> Result<bool, Bad> {
        Ok(match self.value {
            TOMBSTONE => false,
            PRESENT => true,
            at => self.memory.load(Off::new(at), Acquire)? == WHOLE,
        })
    }

    /// Returns what it says of its tuple.
    pub fn change(&self) -> Result<Change, Bad> {
        observe!(M: self.memory.enter(Component::Storage));
        if self.is_tombstone() {
            return Ok(Change::Tombstone);
        }
        if self.is_whole()? {
            return Ok(Change::Whole);
        }
        let mut words = [0u64; crate::limits::MAX_COLUMNS / 64];
        let many = set_words(self.layout) as usize;
        for (index, word) in words.iter_mut().enumerate().take(many) {
            *word = self.memory.load(Off::new(self.value + 8 + index as u64 * 8), Acquire)?;
        }
        Ok(Change::Partial(ColumnSet::from_words(&words)))
    }

    #[inline]
    fn word(&self, column: u16) -> Result<u64, Bad> {
        let first = 1 + set_words(self.layout);
        self.memory.load(Off::new(self.value + (first + u64::from(column)) * 8), Acquire)
    }

    /// Appends the value of a column that it has.
    #[inline]
    pub fn append(&self, column: u16, out: &mut Vec<u8>) -> Result<(), Bad> {
        observe!(M: self.memory.enter(Component::Storage));
        let word = self.word(column)?;
        match self.layout.forms[usize::from(column)] {
            FieldForm::Word => out.extend_from_slice(&word.to_le_bytes()),
            FieldForm::Short => {
                let (bytes, len) = short_bytes(word);
                out.extend_from_slice(&bytes[..len]);
            }
            FieldForm::Slot | FieldForm::Inline => {
                let range = slot_range(word);
                let view = self.memory.view(range)?;
                view.bytes(0, range.len as usize).append_to(out);
            }
        }
        Ok(())
    }

    fn value_bytes(&self, column: u16) -> Result<usize, Bad> {
        let word = self.word(column)?;
        Ok(match self.layout.forms[usize::from(column)] {
            FieldForm::Word => 8,
            FieldForm::Short => short_bytes(word).1,
            FieldForm::Slot | FieldForm::Inline => slot_range(word).len as usize,
        })
    }

    /// Writes the entry in the form of [`crate::lsm::record`]; returns its kind.
    fn encode(&self, out: &mut Encoder) -> Result<u8, Bad> {
        if self.value == PRESENT {
            out.start(&Change::Whole, 0, 0);
            return Ok(KEY_ONLY);
        }
        let change = self.change()?;
        let columns = self.layout.forms.len();
        let set = match &change {
            Change::Whole => ColumnSet::first(columns),
            Change::Partial(set) => *set,
            Change::Tombstone => ColumnSet::EMPTY,
        };
        let mut data_bytes = 0;
        for column in set.iter() {
            data_bytes += self.value_bytes(column)?;
        }
        let kind = out.start(&change, columns as u16, data_bytes);
        for column in set.iter() {
            out.field_with(|body| self.append(column, body))?;
        }
        Ok(kind)
    }
}

/// Entries that a cursor looks up at once.
const BATCH: usize = 32;

/// A range of a tree of a MemTable, entry by entry.
#[derive(Debug)]
pub struct MemCursor<'a, M: Memory> {
    table: &'a MemTable<M>,
    tree: u16,
    low: Bound<TableKey>,
    high: Bound<TableKey>,
    direction: Direction,
    batch: Vec<(TableKey, u64)>,
    index: usize,
    key: TreeKey,
    kind: u8,
    body: Encoder,
}

impl<'a, M: Memory> MemCursor<'a, M> {
    /// Returns a cursor at the first entry of a range.
    ///
    /// # Errors
    /// Damaged memory.
    pub fn new(
        table: &'a MemTable<M>,
        tree: u16,
        (low, high): (Bound<TableKey>, Bound<TableKey>),
        direction: Direction,
    ) -> Result<Self, LsmError> {
        let mut cursor = Self {
            table,
            tree,
            low,
            high,
            direction,
            batch: Vec::with_capacity(BATCH),
            index: 0,
            key: TreeKey::before(tree),
            kind: 0,
            body: Encoder::default(),
        };
        cursor.refill()?;
        cursor.load()?;
        Ok(cursor)
    }

    fn refill(&mut self) -> Result<(), LsmError> {
        let range = (self.low.clone(), self.high.clone());
        self.table.batch(self.tree, range, self.direction, &mut self.batch)?;
        self.index = 0;
        if let Some((last, _)) = self.batch.last() {
            match self.direction {
                Direction::Forward => self.low = Bound::Excluded(last.clone()),
                Direction::Backward => self.high = Bound::Excluded(last.clone()),
            }
        }
        Ok(())
    }

    fn load(&mut self) -> Result<(), LsmError> {
        if let Some((key, value)) = self.batch.get(self.index) {
            self.key.set(key);
            self.kind = self.table.entry(self.tree, *value).encode(&mut self.body)?;
        }
        Ok(())
    }

    /// The key at hand in the form of its table.
    pub fn table_key(&self) -> Option<TableKey> {
        self.batch.get(self.index).map(|(key, _)| key.clone())
    }
}

impl<M: Memory> Cursor for MemCursor<'_, M> {
    fn key(&self) -> Option<&[u8]> {
        self.batch.get(self.index).map(|_| self.key.as_bytes())
    }

    fn entry(&self) -> (u8, &[u8]) {
        (self.kind, self.body.body())
    }

    fn advance(&mut self) -> Result<(), LsmError> {
        if self.index < self.batch.len() {
            self.index += 1;
            // A batch that was not full was the last one.
            if self.index == self.batch.len() && self.index == self.batch.capacity() {
                self.refill()?;
            }
        }
        self.load()
    }
}
