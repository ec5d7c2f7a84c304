//! The dictionary of a column: a value for each id. Ids are in the order in which values were added (P4 3).
//!
//! - Id 0 is the number zero, or empty bytes; it has no element. [`NULL`] is the id of NULL.
//! - An element is a word, or, for bytes, their place and length, with a checksum. Zero is no value yet. So an
//!   element shows whether it is whole.
//! - The value of an id is made durable before, or together with, a row that has the id. A thread that finds an id
//!   which is not known to be durable flushes its value once more.

use std::sync::atomic::Ordering::Acquire;

use heap::Lane;
use pm::{Bad, LineSet, Memory, Off, Range, View};

use crate::Result;
use crate::array::{Array, Shape};
use crate::bytes::{Bytes, add_sized};
use crate::dictionary_index::{DictionaryIndex, Nodes};
use crate::error::ColumnError;
use crate::ids::Ids;
use crate::latch::{Latch, Waiting};
use crate::layout::{ARRAY_BYTES, Kind};
use crate::placement::Uses;
use crate::seed::Seed;
use crate::value::{Field, Value};

/// The id of no value.
pub(crate) const NULL: u32 = u32::MAX;
/// The low bit of the first word of an element: the value is there.
const THERE: u64 = 1;

/// The dictionary of a column.
#[derive(Debug)]
pub(crate) struct Dictionary<M> {
    memory: M,
    kind: Kind,
    seed: Seed,
    pub(crate) values: Array<u64>,
    pub(crate) ids: Ids,
    pub(crate) bytes: Bytes,
    pub(crate) index: Latch<DictionaryIndex<M>>,
}

/// An id that a row may have once the lines in `lines` are durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) id: u32,
    /// The value is not known to be durable.
    pub(crate) fresh: bool,
}

impl<M: Memory> Dictionary<M> {
    /// The dictionary whose arrays' headers are at `at`, with its index, if that lies in persistent memory.
    pub(crate) fn open(
        memory: &M,
        (at, nodes, uses): (u64, Option<Nodes<M>>, Uses),
        kind: Kind,
        (shape, reserve, seed): (Shape, u32, Seed),
        waiting: &Waiting,
    ) -> Result<Self> {
        let values = Array::new(at, shape);
        let words = Array::new(at + ARRAY_BYTES, shape);
        let ids = Ids::open(memory, values.reserved_at(), 1, reserve, waiting)?;
        let of_bytes = Ids::open(memory, words.reserved_at(), 0, reserve, waiting)?;
        let index = match nodes {
            None => DictionaryIndex::ordinary(ids.opened, uses),
            Some(nodes) => DictionaryIndex::durable(nodes, uses),
        };
        let index = Latch::new(index, waiting);
        let bytes = Bytes { words, ids: of_bytes };
        Ok(Self { memory: memory.clone(), kind, seed, values, ids, bytes, index })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    pub(crate) fn element_bytes(&self) -> u64 {
        match self.kind {
            Kind::Word => 8,
            Kind::Bytes => 16,
        }
    }

    pub(crate) fn element(&self, id: u32) -> Result<Off<u64>> {
        let shape = self.values.shape;
        let segment = shape.segment(u64::from(id));
        let place = *self.values.segment(&self.memory, segment, Ok)?;
        Ok(Off::new(place + (u64::from(id) - shape.start(segment)) * self.element_bytes()))
    }

    /// The words of an element: of bytes, their place, and their length and checksum.
    fn words(&self, id: u32) -> Result<(u64, u64)> {
        let at = self.element(id)?;
        let first = self.memory.load(at, Acquire)?;
        match self.kind {
            Kind::Word => Ok((first, 0)),
            Kind::Bytes => Ok((first, self.memory.load(at.plus(8), Acquire)?)),
        }
    }

    /// The bytes that an element leads to.
    fn range(first: u64, second: u64) -> Range {
        Range::new(first & !THERE, second >> 32)
    }

    /// The value of an id that a row has.
    pub(crate) fn value(&self, id: u32) -> Result<Field> {
        match (id, self.kind) {
            (NULL, _) => return Ok(Field::Null),
            (0, Kind::Word) => return Ok(Field::Word(0)),
            (0, Kind::Bytes) => return Ok(Field::Bytes(Vec::new())),
            _ => {}
        }
        let (first, second) = self.words(id)?;
        if first == 0 {
            return Err(Bad::Damaged { what: "value of a row", at: self.element(id)?.get() }.into());
        }
        if self.kind == Kind::Word {
            return Ok(Field::Word(first));
        }
        let range = Self::range(first, second);
        let mut bytes = vec![0; range.len as usize];
        self.memory.view(range)?.bytes(0, bytes.len()).copy_to(&mut bytes);
        Ok(Field::Bytes(bytes))
    }

    /// Returns whether the value of an id is there as a whole: a crash may have left a part.
    pub(crate) fn is_whole(&self, id: u32) -> Result<bool> {
        if id == NULL || id == 0 {
            return Ok(true);
        }
        if u64::from(id) >= self.ids.next() {
            return Ok(false);
        }
        let (first, second) = self.words(id)?;
        if first == 0 || self.kind == Kind::Word {
            return Ok(first != 0);
        }
        let range = Self::range(first, second);
        let Ok(view) = self.memory.view(range) else { return Ok(false) };
        let mut bytes = vec![0; range.len as usize];
        view.bytes(0, bytes.len()).copy_to(&mut bytes);
        Ok(crc32c::crc32c(&bytes) == second as u32)
    }

    /// Adds the lines of a value that is whole.
    pub(crate) fn add_lines(&self, id: u32, lines: &mut LineSet) -> Result<()> {
        if id == NULL || id == 0 {
            return Ok(());
        }
        lines.add(Range::new(self.element(id)?.get(), self.element_bytes()));
        if self.kind == Kind::Bytes {
            let (first, second) = self.words(id)?;
            let range = Self::range(first, second);
            pm::checked_range(range, self.memory.len())?;
            lines.add(range);
        }
        Ok(())
    }

    /// Returns the hash of a value; that of a word is unique.
    fn hash(&self, value: Value<'_>) -> u64 {
        match value {
            Value::Null => 0,
            Value::Word(word) => word,
            Value::Bytes(bytes) => self.seed.of_value(bytes),
        }
    }

    pub(crate) fn has(&self, id: u32, value: Value<'_>) -> Result<bool> {
        match value {
            Value::Word(word) => Ok(self.words(id)?.0 == word),
            Value::Bytes(bytes) => {
                let (first, second) = self.words(id)?;
                let range = Self::range(first, second);
                // Checked before the bytes: for most elements in a scan, nothing else is read.
                if first == 0 || second != second_word(bytes) {
                    return Ok(false);
                }
                let view = self.memory.view(range)?;
                Ok(view.bytes(0, bytes.len()).equal(bytes))
            }
            Value::Null => Ok(false),
        }
    }

    /// The id of a value, if it has one: what is indexed, and a scan of the rest (P4 4.4).
    pub(crate) fn find(&self, value: Value<'_>) -> Result<Option<u32>> {
        match value {
            Value::Null => return Ok(Some(NULL)),
            Value::Word(0) | Value::Bytes(&[]) => return Ok(Some(0)),
            _ => {}
        }
        let (hit, unbuilt) = {
            let index = self.index.read();
            let hit = index.find(self.hash(value), |id| self.has(id, value))?;
            (hit, index.unbuilt)
        };
        if hit.is_some() {
            return Ok(hit);
        }
        if unbuilt > 1 { self.find_unbuilt(value, unbuilt) } else { Ok(None) }
    }

    /// Returns the id of a value for a row, an existing one or a new one. The lines that have to become durable
    /// with the row are added to `lines`.
    #[track_caller]
    pub(crate) fn id_of(
        &self,
        value: Value<'_>,
        lane: &Latch<Lane<M>>,
        lines: &mut LineSet,
    ) -> Result<Found> {
        if let Some(id) = self.find(value)? {
            return self.found(id, lines);
        }
        let mut index = self.index.write();
        // Another thread may have added it meanwhile.
        if let Some(id) = index.find(self.hash(value), |id| self.has(id, value))? {
            drop(index);
            return self.found(id, lines);
        }
        let id = self.take(lane)?;
        index.announce(self.hash(value), id, lane, |other| self.is_whole(other))?;
        let found = self.store(id, value, lane, lines)?;
        index.add(self.hash(value), id);
        if !found.fresh {
            index.set_durable(found.id);
        }
        Ok(found)
    }

    fn found(&self, id: u32, lines: &mut LineSet) -> Result<Found> {
        let has_element = id != 0 && id != NULL;
        let fresh = has_element && !self.index.read().is_durable(id);
        if fresh {
            self.add_lines(id, lines)?;
        }
        Ok(Found { id, fresh })
    }

    /// Takes an unused id, with room for its element.
    #[track_caller]
    fn take(&self, lane: &Latch<Lane<M>>) -> Result<u32> {
        let bytes = self.element_bytes();
        let grow = |segment| add_sized(&mut lane.write(), &self.values, segment, bytes);
        if self.ids.next() >= u64::from(NULL) {
            return Err(ColumnError::Unfit {
                what: "a column with more than 4,294,967,295 different values",
            });
        }
        Ok(self.ids.take(&self.memory, self.values.shape, 1, grow)? as u32)
    }

    /// Stores the value of an id.
    #[track_caller]
    fn store(
        &self,
        id: u32,
        value: Value<'_>,
        lane: &Latch<Lane<M>>,
        lines: &mut LineSet,
    ) -> Result<Found> {
        let at = self.element(id)?;
        let fresh = match value {
            Value::Bytes(bytes) if self.bytes.is_short(bytes.len()) => {
                let place = self.bytes.put(lane, &self.memory, bytes, lines)?;
                self.memory.store(at.plus(8), second_word(bytes));
                self.memory.store(at, place | THERE);
                true
            }
            Value::Bytes(bytes) => {
                Bytes::put_long(&mut lane.write(), bytes, |place| {
                    [(at.plus(8), second_word(bytes)), (at, place | THERE)]
                })?;
                false
            }
            Value::Word(word) => {
                self.memory.store(at, word);
                true
            }
            Value::Null => unreachable!("NULL has its id"),
        };
        if fresh {
            lines.add(Range::new(at.get(), self.element_bytes()));
        }
        Ok(Found { id, fresh })
    }

    /// The objects of values that are too long for the array of bytes.
    pub(crate) fn long_values(&self) -> Result<Vec<u64>> {
        let mut long = Vec::new();
        for id in 1..self.ids.next() as u32 {
            if self.kind == Kind::Bytes && self.is_whole(id)? {
                let (first, second) = self.words(id)?;
                let range = Self::range(first, second);
                long.extend((!self.bytes.is_short(range.len as usize)).then_some(range.start));
            }
        }
        Ok(long)
    }

    /// Indexes up to `many` values that were there when the store was opened, newest first. None is there twice,
    /// since a new value is added only after a search of all of them. Returns whether there are more.
    pub(crate) fn build(&self, many: u64) -> Result<bool> {
        let end = self.index.read().unbuilt;
        let start = end.saturating_sub(many).max(1);
        // Readers do not wait for it.
        let mut found = Vec::new();
        for id in (start as u32..end as u32).rev() {
            if self.is_whole(id)? {
                found.push((self.hash(self.value(id)?.value()), id));
            }
        }
        let mut index = self.index.write();
        // Another thread may have built some of them.
        if index.unbuilt == end {
            for (hash, id) in found {
                index.add(hash, id);
            }
            index.unbuilt = start;
        }
        Ok(index.unbuilt > 1)
    }
}

/// The length and the checksum of bytes.
pub(crate) fn second_word(bytes: &[u8]) -> u64 {
    (bytes.len() as u64) << 32 | u64::from(crc32c::crc32c(bytes))
}
