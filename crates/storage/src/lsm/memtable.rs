//! The MemTable: the newest run, in volatile memory, in a form made for memory (P1 3.3). It takes
//! every change of a transaction, answers point and range queries through B+trees, and is written
//! to an SSTable when it has grown.
//!
//! An entry lies in a slot of one word for its kind, a bit for each column, and a word for each
//! column as in a table's tuple: longer values have slots of their own, so that changing a field
//! copies that field only. Tombstones and entries of secondary indexes need no slot: the tree's
//! value says it all.
//!
//! Every change of the open transaction can be undone: old words and old values of the trees are
//! kept until it ends, and nothing that it supersedes is freed before.

mod read;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use index::{Direction, Sorted};
use pm::{Bad, Flushed, LineSet, Memory, Off, fence_for};
use zerocopy::IntoBytes;

use super::change::ColumnSet;
use super::error::LsmError;
use super::trees::Trees;
use crate::rows::key::TableKey;
use crate::rows::value::Value;
use crate::table::slots::SlotLayout;
use crate::table::words::FieldForm;
use crate::table::words::{owned_slot, slot_range};
use crate::table::{TableIndex, long, narrow, publish_entry, wide, write_value};

pub use self::read::{MemCursor, MemEntry};

const WHOLE: u64 = 1;
const PARTIAL: u64 = 2;
/// Values of the trees that are no slots.
const TOMBSTONE: u64 = 1;
const PRESENT: u64 = 2;

/// Words of an entry that say which columns it has.
fn set_words(layout: &SlotLayout) -> u64 {
    layout.forms.len().div_ceil(64) as u64
}

/// A record of how the open transaction's changes are undone, newest first.
#[derive(Debug)]
enum Undo {
    /// A word had this value.
    Word { at: u64, old: u64 },
    /// A tree had this value for the last key of the keys, or none.
    Value { tree: u16, old: Option<u64> },
}

/// A moment of the open transaction, to go back to.
#[derive(Clone, Copy, Default, Debug)]
pub struct Mark {
    undo: usize,
    fresh: usize,
    superseded: usize,
    bytes: u64,
    entries: u64,
}

/// The memory of a MemTable's entries and values, and what the open transaction did to it.
#[derive(Debug)]
struct Slots<M: Memory> {
    lane: Lane<M>,
    lines: LineSet,
    bytes: u64,
    undo: Vec<Undo>,
    /// Slots that the open transaction has taken, and those that it no longer needs.
    fresh: Vec<u64>,
    superseded: Vec<(u64, u64)>,
    words: Vec<u64>,
}

impl<M: Memory> Slots<M> {
    /// Writes what of a value does not fit into its word; returns the word.
    #[inline]
    fn write(&mut self, form: FieldForm, value: &Value<'_>) -> Result<u64, LsmError> {
        let word = write_value(&mut self.lane, &mut self.lines, form, value)?;
        self.lines.clear();
        if let Some(slot) = owned_slot(form, word) {
            self.fresh.push(slot);
            self.bytes += slot_range(word).len;
        }
        Ok(word)
    }

    /// The slot of a value will not be needed when the transaction has committed.
    fn supersede(&mut self, form: FieldForm, word: u64) {
        if let Some(slot) = owned_slot(form, word) {
            self.superseded.push((slot, slot_range(word).len));
        }
    }

    /// Acts as [`Self::supersede`], for all slots of the entry that a tree's value leads to.
    fn supersede_entry(&mut self, layout: &SlotLayout, value: u64) -> Result<(), LsmError> {
        if value <= PRESENT {
            return Ok(());
        }
        let first = 1 + set_words(layout);
        for (column, form) in layout.forms.iter().enumerate() {
            let at = Off::new(value + (first + column as u64) * 8);
            let word = self.lane.memory().load(at, Acquire)?;
            self.supersede(*form, word);
        }
        let bytes = (first + layout.forms.len() as u64) * 8;
        self.superseded.push((value, bytes));
        Ok(())
    }

    /// Writes an entry with these columns into a slot.
    fn write_entry<'v>(
        &mut self,
        layout: &SlotLayout,
        kind: u64,
        set: &ColumnSet,
        values: impl Iterator<Item = (u16, Value<'v>)>,
    ) -> Result<u64, LsmError> {
        let set_words = set_words(layout) as usize;
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        words.resize(1 + set_words + layout.forms.len(), 0);
        words[0] = kind;
        words[1..=set_words].copy_from_slice(set.words(layout.forms.len()));
        for (column, value) in values {
            let form = layout.forms[usize::from(column)];
            let word = self.write(form, &value)?;
            // The same column twice: the later value counts.
            let earlier = std::mem::replace(&mut words[1 + set_words + usize::from(column)], word);
            self.supersede(form, earlier);
        }
        let bytes = words.len() as u64 * 8;
        let at = self.lane.allocate(bytes, Purpose::Table)?;
        self.fresh.push(at);
        self.bytes += bytes;
        self.lane.memory().copy(Off::new(at), words.as_bytes());
        self.words = words;
        Ok(at)
    }

    /// Stores a word of an entry; returns the one that was there.
    #[inline]
    fn store(&mut self, at: u64, word: u64) -> Result<u64, LsmError> {
        let memory = self.lane.memory();
        let old = memory.load(Off::new(at), Acquire)?;
        self.undo.push(Undo::Word { at, old });
        memory.store(Off::new(at), word);
        Ok(old)
    }
}

/// A MemTable; see the module's comment.
#[derive(Debug)]
pub struct MemTable<M: Memory> {
    layouts: Arc<Trees>,
    trees: Vec<TableIndex<Sorted>>,
    slots: Slots<M>,
    entries: u64,
    /// The moment at which the open transaction began.
    begin: Mark,
    /// The keys of [`Undo::Value`].
    keys: Vec<TableKey>,
}

impl<M: Memory> MemTable<M> {
    /// An empty MemTable, which has the lane to itself.
    ///
    /// # Errors
    /// The memory is full.
    pub fn new(lane: Lane<M>, layouts: Arc<Trees>) -> Result<Self, LsmError> {
        let slots = Slots {
            lane,
            lines: LineSet::new(),
            bytes: 0,
            undo: Vec::new(),
            fresh: Vec::new(),
            superseded: Vec::new(),
            words: Vec::new(),
        };
        let mut table = Self {
            layouts,
            trees: Vec::new(),
            slots,
            entries: 0,
            begin: Mark::default(),
            keys: Vec::new(),
        };
        table.plant()?;
        Ok(table)
    }

    fn plant(&mut self) -> Result<(), LsmError> {
        self.trees.clear();
        let cells = self.slots.lane.allocate(self.layouts.len() as u64 * 8, Purpose::Index)?;
        for tree in 0..self.layouts.len() {
            let cell = Off::new(cells + tree as u64 * 8);
            let (key, shape) = (self.layouts.keys(tree as u16), self.layouts.shape(tree as u16));
            self.trees.push(TableIndex::create(&mut self.slots.lane, cell, key, shape)?);
        }
        Ok(())
    }

    /// Empties the MemTable, whose entries are durable elsewhere.
    ///
    /// # Errors
    /// The memory is full.
    pub fn clear(&mut self) -> Result<(), LsmError> {
        self.commit();
        self.slots.lane.clear();
        (self.slots.bytes, self.entries) = (0, 0);
        self.begin = self.mark();
        self.plant()
    }

    /// Bytes of keys, entries and values.
    pub fn bytes(&self) -> u64 {
        self.slots.bytes
    }

    /// Returns how many entries there are.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The trees.
    pub fn layouts(&self) -> &Arc<Trees> {
        &self.layouts
    }

    #[inline(always)]
    fn value(&self, tree: u16, key: &TableKey) -> Result<Option<u64>, Bad> {
        let memory = self.slots.lane.memory();
        match (&self.trees[usize::from(tree)], key) {
            (TableIndex::Narrow(tree), TableKey::Narrow(key)) => tree.get(memory, key),
            (TableIndex::Wide(tree), TableKey::Wide(key)) => tree.get(memory, key),
            (TableIndex::Long(_), _) | (_, TableKey::Long(_)) => self.long_value(tree, key),
            _ => unreachable!("a key has the form of its index"),
        }
    }

    /// Acts as [`Self::value`], for a long key.
    #[cold]
    #[inline(never)]
    fn long_value(&self, tree: u16, key: &TableKey) -> Result<Option<u64>, Bad> {
        match (&self.trees[usize::from(tree)], key) {
            (TableIndex::Long(tree), TableKey::Long(key)) => {
                tree.get(self.slots.lane.memory(), key)
            }
            _ => unreachable!("a key has the form of its index"),
        }
    }

    /// The entry of a key, if there is one.
    ///
    /// # Errors
    /// Damaged memory.
    // The compiler takes it for too long, though every read of the engine begins with it.
    #[inline(always)]
    pub fn get(&self, tree: u16, key: &TableKey) -> Result<Option<MemEntry<'_, M>>, Bad> {
        Ok(self.value(tree, key)?.map(|value| self.entry(tree, value)))
    }

    fn entry(&self, tree: u16, value: u64) -> MemEntry<'_, M> {
        MemEntry { memory: self.slots.lane.memory(), layout: self.layouts.table(tree), value }
    }

    /// Puts a value into a tree, in place of the one that `there` says it has.
    fn set(
        &mut self,
        tree: u16,
        key: &TableKey,
        there: Option<u64>,
        value: u64,
    ) -> Result<(), LsmError> {
        let Self { slots: Slots { lane, lines, .. }, trees, .. } = self;
        let index = &mut trees[usize::from(tree)];
        if there.is_some() {
            match (index, key) {
                (TableIndex::Narrow(tree), TableKey::Narrow(key)) => {
                    tree.replace(lane.memory(), key, value, lines)?
                }
                (TableIndex::Wide(tree), TableKey::Wide(key)) => {
                    tree.replace(lane.memory(), key, value, lines)?
                }
                (TableIndex::Long(tree), TableKey::Long(key)) => {
                    tree.replace(lane.memory(), key, value, lines)?
                }
                _ => unreachable!("a key has the form of its index"),
            };
        } else {
            let prepared = match (&mut *index, key) {
                (TableIndex::Narrow(tree), TableKey::Narrow(key)) => {
                    tree.prepare(lane, *key, value, lines)?
                }
                (TableIndex::Wide(tree), TableKey::Wide(key)) => {
                    tree.prepare(lane, *key, value, lines)?
                }
                (TableIndex::Long(tree), TableKey::Long(key)) => {
                    tree.prepare(lane, key.clone(), value, lines)?
                }
                _ => unreachable!("a key has the form of its index"),
            };
            let prepared = fence_for(lane.memory(), Flushed::lines(lane.memory(), lines, prepared));
            publish_entry(index, lane.memory(), prepared, lines)?;
            self.entries += 1;
            self.slots.bytes += self.layouts.keys(tree).width as u64 + 8;
        }
        self.slots.lines.clear();
        self.slots.undo.push(Undo::Value { tree, old: there });
        self.keys.push(key.clone());
        Ok(())
    }

    /// Puts a tuple with all its values. An entry that there is takes the place of older ones.
    ///
    /// # Errors
    /// The memory is full; go back to the mark before.
    pub fn put_whole(
        &mut self,
        tree: u16,
        key: &TableKey,
        values: &[Value<'_>],
    ) -> Result<(), LsmError> {
        let there = self.value(tree, key)?;
        let values = (0..).zip(values.iter().copied());
        let layout = self.layouts.table(tree);
        let at = self.slots.write_entry(layout, WHOLE, &ColumnSet::EMPTY, values)?;
        self.set(tree, key, there, at)?;
        self.supersede(tree, there)
    }

    /// Puts new values of some columns of a tuple that there is.
    ///
    /// # Errors
    /// The memory is full; go back to the mark before.
    pub fn put_fields(
        &mut self,
        tree: u16,
        key: &TableKey,
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), LsmError> {
        let there = self.value(tree, key)?;
        let Self { layouts, slots, .. } = self;
        let layout = layouts.table(tree);
        let Some(at) = there.filter(|value| *value > PRESENT) else {
            let set = changes.iter().map(|(column, _)| *column).collect();
            let at = slots.write_entry(layout, PARTIAL, &set, changes.iter().copied())?;
            return self.set(tree, key, there, at);
        };
        let first = 1 + set_words(layout);
        let partial = slots.lane.memory().load(Off::new(at), Acquire)? == PARTIAL;
        for (column, value) in changes {
            let form = layout.forms[usize::from(*column)];
            let word = slots.write(form, value)?;
            let old = slots.store(at + (first + u64::from(*column)) * 8, word)?;
            slots.supersede(form, old);
            if partial {
                let bits = at + 8 + u64::from(*column / 64) * 8;
                let set = slots.lane.memory().load(Off::new(bits), Acquire)?;
                slots.store(bits, set | 1 << (column % 64))?;
            }
        }
        Ok(())
    }

    fn supersede(&mut self, tree: u16, there: Option<u64>) -> Result<(), LsmError> {
        let layout = self.layouts.table(tree);
        there.map_or(Ok(()), |there| self.slots.supersede_entry(layout, there))
    }

    /// Puts a tombstone.
    ///
    /// # Errors
    /// The memory is full; go back to the mark before.
    pub fn put_tombstone(&mut self, tree: u16, key: &TableKey) -> Result<(), LsmError> {
        let there = self.value(tree, key)?;
        self.set(tree, key, there, TOMBSTONE)?;
        self.supersede(tree, there)
    }

    /// Puts a key without values.
    ///
    /// # Errors
    /// The memory is full; go back to the mark before.
    pub fn put_key(&mut self, tree: u16, key: &TableKey) -> Result<(), LsmError> {
        let there = self.value(tree, key)?;
        self.set(tree, key, there, PRESENT)
    }

    /// The moment of now.
    pub fn mark(&self) -> Mark {
        Mark {
            undo: self.slots.undo.len(),
            fresh: self.slots.fresh.len(),
            superseded: self.slots.superseded.len(),
            bytes: self.slots.bytes,
            entries: self.entries,
        }
    }

    /// Undoes what was done since a moment of the open transaction.
    ///
    /// # Errors
    /// Damaged memory.
    pub fn undo_to(&mut self, mark: Mark) -> Result<(), LsmError> {
        while self.slots.undo.len() > mark.undo {
            match self.slots.undo.pop() {
                Some(Undo::Word { at, old }) => self.slots.lane.memory().store(Off::new(at), old),
                Some(Undo::Value { tree, old }) => {
                    let key = self.keys.pop().expect("each has its key");
                    self.restore(tree, &key, old)?;
                }
                None => {}
            }
        }
        let Slots { lane, fresh, .. } = &mut self.slots;
        fresh.drain(mark.fresh..).for_each(|slot| lane.release(slot));
        self.slots.superseded.truncate(mark.superseded);
        (self.slots.bytes, self.entries) = (mark.bytes, mark.entries);
        self.slots.lines.clear();
        Ok(())
    }

    fn restore(&mut self, tree: u16, key: &TableKey, old: Option<u64>) -> Result<(), LsmError> {
        let now = self.value(tree, key)?;
        let Self { slots: Slots { lane, lines, .. }, trees, .. } = self;
        let memory = lane.memory();
        match (&mut trees[usize::from(tree)], key, old, now) {
            (TableIndex::Narrow(tree), TableKey::Narrow(key), Some(old), _) => {
                tree.replace(memory, key, old, lines)?;
            }
            (TableIndex::Wide(tree), TableKey::Wide(key), Some(old), _) => {
                tree.replace(memory, key, old, lines)?;
            }
            (TableIndex::Long(tree), TableKey::Long(key), Some(old), _) => {
                tree.replace(memory, key, old, lines)?;
            }
            (TableIndex::Narrow(tree), TableKey::Narrow(key), None, Some(now)) => {
                tree.remove(memory, key, now, lines)?;
            }
            (TableIndex::Wide(tree), TableKey::Wide(key), None, Some(now)) => {
                tree.remove(memory, key, now, lines)?;
            }
            (TableIndex::Long(tree), TableKey::Long(key), None, Some(now)) => {
                tree.remove(memory, key, now, lines)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Undoes the open transaction.
    ///
    /// # Errors
    /// Damaged memory.
    pub fn abort(&mut self) -> Result<(), LsmError> {
        let begin = self.begin;
        self.undo_to(begin)
    }

    /// Ends the open transaction: what it supersedes is freed.
    pub fn commit(&mut self) {
        let Slots { lane, superseded, bytes, .. } = &mut self.slots;
        for (slot, its_bytes) in superseded.drain(..) {
            lane.release(slot);
            *bytes -= its_bytes;
        }
        self.slots.undo.clear();
        self.keys.clear();
        self.slots.fresh.clear();
        self.begin = self.mark();
    }

    /// Up to `out`'s capacity of entries of a range, in order, from its start.
    fn batch(
        &self,
        tree: u16,
        (low, high): (Bound<TableKey>, Bound<TableKey>),
        direction: Direction,
        out: &mut Vec<(TableKey, u64)>,
    ) -> Result<(), Bad> {
        let memory = self.slots.lane.memory();
        let many = out.capacity();
        out.clear();
        let mut add = |key: TableKey, value: u64| {
            out.push((key, value));
            if out.len() == many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let _ = match &self.trees[usize::from(tree)] {
            TableIndex::Narrow(tree) => {
                tree.scan(memory, (low.map(narrow), high.map(narrow)), direction, |key, value| {
                    add(TableKey::Narrow(*key), value)
                })?
            }
            TableIndex::Wide(tree) => {
                tree.scan(memory, (low.map(wide), high.map(wide)), direction, |key, value| {
                    add(TableKey::Wide(*key), value)
                })?
            }
            TableIndex::Long(tree) => {
                tree.scan(memory, (low.map(long), high.map(long)), direction, |key, value| {
                    add(TableKey::Long(key.clone()), value)
                })?
            }
        };
        Ok(())
    }
}
