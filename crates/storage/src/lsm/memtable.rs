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

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use index::{BTree, Direction, Sorted, WideKey};
use pm::{Bad, Flushed, LineSet, Memory, Off, View, fence_for};

use super::change::{Change, ColumnSet};
use super::entry::{TreeKey, Trees};
use super::error::LsmError;
use super::record::{Encoder, KEY_ONLY};
use super::sstable::Cursor;
use crate::key::TableKey;
use crate::schema::{FieldForm, TableLayout};
use crate::table::{TableIndex, write_value};
use crate::tuple::{owned_slot, short_bytes, slot_range};
use crate::value::Value;

const WHOLE: u64 = 1;
const PARTIAL: u64 = 2;
/// Values of the trees that are no slots.
const TOMBSTONE: u64 = 1;
const PRESENT: u64 = 2;

/// Words of an entry that say which columns it has.
fn set_words(layout: &TableLayout) -> u64 {
    layout.forms.len().div_ceil(64) as u64
}

/// How the open transaction's changes are undone, newest first.
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

/// A MemTable; see the module's comment.
#[derive(Debug)]
pub struct MemTable<M: Memory> {
    lane: Lane<M>,
    layouts: Arc<Trees>,
    trees: Vec<TableIndex<Sorted>>,
    bytes: u64,
    entries: u64,
    lines: LineSet,
    undo: Vec<Undo>,
    keys: Vec<TableKey>,
    /// Slots that the open transaction has taken, and those that it no longer needs.
    fresh: Vec<u64>,
    superseded: Vec<(u64, u64)>,
    words: Vec<u64>,
    /// Where the open transaction began.
    begin: Mark,
}

impl<M: Memory> MemTable<M> {
    /// An empty MemTable, which has the lane to itself.
    ///
    /// # Errors
    /// The memory is full.
    pub fn new(lane: Lane<M>, layouts: Arc<Trees>) -> Result<Self, LsmError> {
        let mut table = Self {
            lane,
            layouts,
            trees: Vec::new(),
            bytes: 0,
            entries: 0,
            lines: LineSet::new(),
            undo: Vec::new(),
            keys: Vec::new(),
            fresh: Vec::new(),
            superseded: Vec::new(),
            words: Vec::new(),
            begin: Mark::default(),
        };
        table.plant()?;
        Ok(table)
    }

    fn plant(&mut self) -> Result<(), LsmError> {
        self.trees.clear();
        let cells = self.lane.allocate(self.layouts.len() as u64 * 8, Purpose::Index)?;
        for tree in 0..self.layouts.len() {
            let cell = Off::new(cells + tree as u64 * 8);
            let key = self.layouts.keys(tree as u16);
            self.trees.push(if key.narrow {
                TableIndex::Narrow(BTree::create(&mut self.lane, cell, key.shape)?)
            } else {
                TableIndex::Wide(BTree::create(&mut self.lane, cell, key.shape)?)
            });
        }
        Ok(())
    }

    /// Empties the MemTable, whose entries are durable elsewhere.
    ///
    /// # Errors
    /// The memory is full.
    pub fn clear(&mut self) -> Result<(), LsmError> {
        self.commit();
        self.lane.clear();
        (self.bytes, self.entries) = (0, 0);
        self.begin = self.mark();
        self.plant()
    }

    /// Bytes of keys, entries and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many entries there are.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The trees.
    pub fn layouts(&self) -> &Arc<Trees> {
        &self.layouts
    }

    fn value(&self, tree: u16, key: &TableKey) -> Result<Option<u64>, Bad> {
        let memory = self.lane.memory();
        match (&self.trees[usize::from(tree)], key) {
            (TableIndex::Narrow(tree), TableKey::Narrow(key)) => tree.get(memory, key),
            (TableIndex::Wide(tree), TableKey::Wide(key)) => tree.get(memory, key),
            _ => unreachable!("a key has the form of its index"),
        }
    }

    /// The entry of a key, if there is one.
    ///
    /// # Errors
    /// Damaged memory.
    #[inline]
    pub fn get(&self, tree: u16, key: &TableKey) -> Result<Option<MemEntry<'_, M>>, Bad> {
        Ok(self.value(tree, key)?.map(|value| self.entry(tree, value)))
    }

    fn entry(&self, tree: u16, value: u64) -> MemEntry<'_, M> {
        MemEntry { memory: self.lane.memory(), layout: self.layouts.table(tree), value }
    }

    /// Puts a value into a tree, in place of the one that `there` says it has.
    fn set(
        &mut self,
        tree: u16,
        key: &TableKey,
        there: Option<u64>,
        value: u64,
    ) -> Result<(), LsmError> {
        let Self { lane, trees, lines, .. } = self;
        let index = &mut trees[usize::from(tree)];
        if there.is_some() {
            match (index, key) {
                (TableIndex::Narrow(tree), TableKey::Narrow(key)) => {
                    tree.replace(lane.memory(), key, value, lines)?
                }
                (TableIndex::Wide(tree), TableKey::Wide(key)) => {
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
                _ => unreachable!("a key has the form of its index"),
            };
            let prepared = fence_for(lane.memory(), Flushed::lines(lane.memory(), lines, prepared));
            match index {
                TableIndex::Narrow(tree) => tree.publish(lane.memory(), prepared, lines)?,
                TableIndex::Wide(tree) => tree.publish(lane.memory(), prepared, lines)?,
            }
            self.entries += 1;
            self.bytes += self.layouts.keys(tree).width as u64 + 8;
        }
        self.lines.clear();
        self.undo.push(Undo::Value { tree, old: there });
        self.keys.push(*key);
        Ok(())
    }

    /// Writes what of a value does not fit into its word; returns the word.
    fn write(&mut self, form: FieldForm, value: &Value<'_>) -> Result<u64, LsmError> {
        let word = write_value(&mut self.lane, &mut self.lines, form, value)?;
        self.lines.clear();
        if let Some(slot) = owned_slot(form, word) {
            self.fresh.push(slot);
            self.bytes += slot_range(word).len;
        }
        Ok(word)
    }

    fn supersede(&mut self, form: FieldForm, word: u64) {
        if let Some(slot) = owned_slot(form, word) {
            self.superseded.push((slot, slot_range(word).len));
        }
    }

    /// Supersedes all slots of the entry that a tree's value leads to.
    fn supersede_entry(&mut self, tree: u16, value: u64) -> Result<(), LsmError> {
        if value <= PRESENT {
            return Ok(());
        }
        let layout = self.layouts.table(tree).clone();
        let first = 1 + set_words(&layout);
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
        tree: u16,
        kind: u64,
        set: &ColumnSet,
        values: impl Iterator<Item = (u16, Value<'v>)>,
    ) -> Result<u64, LsmError> {
        let layout = self.layouts.table(tree).clone();
        let set_words = set_words(&layout) as usize;
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        words.resize(1 + set_words + layout.forms.len(), 0);
        words[0] = kind;
        words[1..=set_words].copy_from_slice(set.words(layout.forms.len()));
        for (column, value) in values {
            let form = layout.forms[usize::from(column)];
            let word = self.write(form, &value)?;
            let place = &mut words[1 + set_words + usize::from(column)];
            // The same column twice: the later value counts.
            let earlier = std::mem::replace(place, word);
            self.supersede(form, earlier);
        }
        let bytes = words.len() as u64 * 8;
        let at = self.lane.allocate(bytes, Purpose::Table)?;
        self.fresh.push(at);
        self.bytes += bytes;
        for (index, word) in words.iter().enumerate() {
            self.lane.memory().store(Off::new(at + index as u64 * 8), *word);
        }
        self.words = words;
        Ok(at)
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
        let at = self.write_entry(tree, WHOLE, &ColumnSet::EMPTY, values)?;
        self.set(tree, key, there, at)?;
        there.map_or(Ok(()), |there| self.supersede_entry(tree, there))
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
        let Some(at) = there.filter(|value| *value > PRESENT) else {
            let set = changes.iter().map(|(column, _)| *column).collect();
            let at = self.write_entry(tree, PARTIAL, &set, changes.iter().copied())?;
            return self.set(tree, key, there, at);
        };
        let layout = self.layouts.table(tree).clone();
        let first = 1 + set_words(&layout);
        let partial = self.lane.memory().load(Off::new(at), Acquire)? == PARTIAL;
        for (column, value) in changes {
            let form = layout.forms[usize::from(*column)];
            let word = self.write(form, value)?;
            let old = self.store(at + (first + u64::from(*column)) * 8, word)?;
            self.supersede(form, old);
            if partial {
                let bits = at + 8 + u64::from(*column / 64) * 8;
                let set = self.lane.memory().load(Off::new(bits), Acquire)?;
                self.store(bits, set | 1 << (column % 64))?;
            }
        }
        Ok(())
    }

    /// Stores a word of an entry; returns the one that was there.
    fn store(&mut self, at: u64, word: u64) -> Result<u64, LsmError> {
        let memory = self.lane.memory();
        let old = memory.load(Off::new(at), Acquire)?;
        self.undo.push(Undo::Word { at, old });
        memory.store(Off::new(at), word);
        Ok(old)
    }

    /// Puts a tombstone.
    ///
    /// # Errors
    /// The memory is full; go back to the mark before.
    pub fn put_tombstone(&mut self, tree: u16, key: &TableKey) -> Result<(), LsmError> {
        let there = self.value(tree, key)?;
        self.set(tree, key, there, TOMBSTONE)?;
        there.map_or(Ok(()), |there| self.supersede_entry(tree, there))
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
            undo: self.undo.len(),
            fresh: self.fresh.len(),
            superseded: self.superseded.len(),
            bytes: self.bytes,
            entries: self.entries,
        }
    }

    /// Undoes what was done since a moment of the open transaction.
    ///
    /// # Errors
    /// Damaged memory.
    pub fn undo_to(&mut self, mark: Mark) -> Result<(), LsmError> {
        while self.undo.len() > mark.undo {
            match self.undo.pop() {
                Some(Undo::Word { at, old }) => self.lane.memory().store(Off::new(at), old),
                Some(Undo::Value { tree, old }) => {
                    let key = self.keys.pop().expect("each has its key");
                    self.restore(tree, &key, old)?;
                }
                None => {}
            }
        }
        for slot in self.fresh.drain(mark.fresh..) {
            self.lane.release(slot);
        }
        self.superseded.truncate(mark.superseded);
        (self.bytes, self.entries) = (mark.bytes, mark.entries);
        self.lines.clear();
        Ok(())
    }

    fn restore(&mut self, tree: u16, key: &TableKey, old: Option<u64>) -> Result<(), LsmError> {
        let now = self.value(tree, key)?;
        let Self { lane, trees, lines, .. } = self;
        let memory = lane.memory();
        match (&mut trees[usize::from(tree)], key, old, now) {
            (TableIndex::Narrow(tree), TableKey::Narrow(key), Some(old), _) => {
                tree.replace(memory, key, old, lines)?;
            }
            (TableIndex::Wide(tree), TableKey::Wide(key), Some(old), _) => {
                tree.replace(memory, key, old, lines)?;
            }
            (TableIndex::Narrow(tree), TableKey::Narrow(key), None, Some(now)) => {
                tree.remove(memory, key, now, lines)?;
            }
            (TableIndex::Wide(tree), TableKey::Wide(key), None, Some(now)) => {
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
        for (slot, bytes) in self.superseded.drain(..) {
            self.lane.release(slot);
            self.bytes -= bytes;
        }
        self.undo.clear();
        self.keys.clear();
        self.fresh.clear();
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
        let memory = self.lane.memory();
        let many = out.capacity();
        out.clear();
        let mut add = |key: TableKey, value: u64| {
            out.push((key, value));
            if out.len() == many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let narrow = |key: TableKey| match key {
            TableKey::Narrow(key) => key,
            TableKey::Wide(_) => unreachable!("a key has the form of its index"),
        };
        let wide = |key: TableKey| -> WideKey {
            match key {
                TableKey::Wide(key) => key,
                TableKey::Narrow(_) => unreachable!("a key has the form of its index"),
            }
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
        };
        Ok(())
    }
}

/// An entry of a MemTable.
#[derive(Debug)]
pub struct MemEntry<'a, M: Memory> {
    memory: &'a M,
    layout: &'a TableLayout,
    value: u64,
}

impl<M: Memory> MemEntry<'_, M> {
    /// Whether it is a tombstone.
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        self.value == TOMBSTONE
    }

    /// Whether it has all columns.
    #[inline]
    pub fn is_whole(&self) -> Result<bool, Bad> {
        Ok(match self.value {
            TOMBSTONE => false,
            PRESENT => true,
            at => self.memory.load(Off::new(at), Acquire)? == WHOLE,
        })
    }

    /// What it says of its tuple.
    pub fn change(&self) -> Result<Change, Bad> {
        if self.is_tombstone() {
            return Ok(Change::Tombstone);
        }
        if self.is_whole()? {
            return Ok(Change::Whole);
        }
        let mut words = [0u64; crate::schema::MAX_COLUMNS / 64];
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
        let word = self.word(column)?;
        match self.layout.forms[usize::from(column)] {
            FieldForm::Word => out.extend_from_slice(&word.to_le_bytes()),
            FieldForm::Short => {
                let (bytes, len) = short_bytes(word);
                out.extend_from_slice(&bytes[..len]);
            }
            FieldForm::Slot => {
                let range = slot_range(word);
                let view = self.memory.view(range)?;
                out.extend_from_slice(view.bytes(0, range.len as usize));
            }
        }
        Ok(())
    }

    fn value_bytes(&self, column: u16) -> Result<usize, Bad> {
        let word = self.word(column)?;
        Ok(match self.layout.forms[usize::from(column)] {
            FieldForm::Word => 8,
            FieldForm::Short => short_bytes(word).1,
            FieldForm::Slot => slot_range(word).len as usize,
        })
    }

    /// Writes the entry in the form of [`super::record`]; returns its kind.
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
    /// At the first entry of a range.
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
        let range = (self.low, self.high);
        self.table.batch(self.tree, range, self.direction, &mut self.batch)?;
        self.index = 0;
        if let Some((last, _)) = self.batch.last() {
            match self.direction {
                Direction::Forward => self.low = Bound::Excluded(*last),
                Direction::Backward => self.high = Bound::Excluded(*last),
            }
        }
        Ok(())
    }

    fn load(&mut self) -> Result<(), LsmError> {
        if let Some((key, value)) = self.batch.get(self.index) {
            self.key = TreeKey::new(self.tree, key);
            self.kind = self.table.entry(self.tree, *value).encode(&mut self.body)?;
        }
        Ok(())
    }

    /// The key at hand in the form of its table.
    pub fn table_key(&self) -> Option<TableKey> {
        self.batch.get(self.index).map(|(key, _)| *key)
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
