//! A table: its rows, a dictionary for each column, and its indexes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use heap::Lane;
use pm::{Bad, LineSet, Memory, Off, Range};
use zerocopy::IntoBytes;

use crate::Result;
use crate::array::{Array, Shape};
use crate::chunk::{self, Chunk, Place};
use crate::dictionary::Dictionary;
use crate::dictionary_index::Nodes;
use crate::error::ColumnError;
use crate::hash_table::HashTable;
use crate::ids::Ids;
use crate::keys::{IndexKey, Key, Keys};
use crate::latch::{Latch, Waiting};
use crate::layout::{
    Form, KINDS_AT, Kind, MOST_COLUMNS, Options, flags_at, heads, placement_at, rows_at, uses_at,
    values_at,
};
use crate::placement::Uses;
use crate::secondary::{KeyIndex, Room};
use crate::seed::Seed;
use crate::skip_list::SkipList;
use crate::value::{Field, Value};

/// Nodes that one mini-transaction links: each has a word or two a level, and there is room for 316.
const LINKED_TOGETHER: usize = 8;

/// Ids of a row that are read before their values, so that the processor waits for memory once for several.
const FETCHED_TOGETHER: usize = 16;

/// A table of a store.
#[derive(Debug)]
pub(crate) struct Table<M> {
    pub(crate) number: usize,
    pub(crate) at: u64,
    memory: M,
    pub(crate) rows: Array<Chunk>,
    pub(crate) ids: Ids,
    /// Free rows.
    pub(crate) free: Latch<Vec<u64>>,
    pub(crate) columns: Vec<Dictionary<M>>,
    /// The index of the primary key, and the secondary ones.
    pub(crate) indexes: Vec<Latch<KeyIndex<M>>>,
    /// The rows from 1 to below this one are not yet checked for use.
    pub(crate) unswept: Latch<u64>,
    pub(crate) keys: Arc<dyn Keys>,
}

impl<M: Memory> Table<M> {
    /// The table of this number at `at`. Reads its header and those of its arrays.
    pub(crate) fn open(
        memory: &M,
        (number, at): (usize, u64),
        (options, seed): (&Options, Seed),
        keys: &Arc<dyn Keys>,
        waiting: &Waiting,
    ) -> Result<Self> {
        let many = memory.load(Off::new(at), Acquire)?;
        if many == 0 || many > MOST_COLUMNS as u64 {
            return Err(Bad::Damaged { what: "table of columns", at }.into());
        }
        let shape = Shape::of(options);
        let rows = Array::new(at + rows_at(many), shape);
        let ids = Ids::open(memory, rows.reserved_at(), 1, options.reserve, waiting)?;
        let indexes_of = keys.count(number);
        let places = load_placement(memory, at, many, indexes_of + many as usize)?;
        let mut columns = Vec::with_capacity(many as usize);
        for column in 0..many {
            let kind = Kind::of(memory.read(Off::new(at + KINDS_AT + column))?, at)?;
            let (form, head, uses) = places[indexes_of + column as usize];
            let nodes = match form {
                Form::Ordinary => None,
                Form::SkipList => Some(Nodes::List(SkipList::new(memory, at + head, seed))),
                Form::HashTable => {
                    Some(Nodes::Table(HashTable::new(memory, at + head, shape, seed).into()))
                }
            };
            let place = (at + values_at(many, column), nodes, Uses::opened(uses));
            let parameters = (shape, options.reserve, seed);
            columns.push(Dictionary::open(memory, place, kind, parameters, waiting)?);
        }
        let index = |(form, head, uses): &(Form, u64, u64)| {
            let uses = Uses::opened(*uses);
            match form {
                Form::Ordinary => Ok(KeyIndex::ordinary(ids.opened, uses)),
                Form::SkipList => {
                    Ok(KeyIndex::durable(SkipList::new(memory, at + head, seed), uses))
                }
                Form::HashTable => Err(Bad::Damaged { what: "form of an index of keys", at }),
            }
        };
        let indexes = places[..indexes_of].iter().map(index);
        let indexes = indexes.collect::<std::result::Result<Vec<_>, Bad>>()?;
        // Where the first index has to be built, that looks at all rows.
        let unswept = if indexes[0].is_durable() { ids.opened.max(1) } else { 1 };
        let indexes = indexes.into_iter().map(|index| Latch::new(index, waiting)).collect();
        let unswept = Latch::new(unswept, waiting);
        let free = Latch::new(Vec::new(), waiting);
        let (keys, memory) = (Arc::clone(keys), memory.clone());
        Ok(Self { number, at, memory, rows, ids, free, columns, indexes, unswept, keys })
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// Returns whether an index lies in persistent memory.
    pub(crate) fn has_durable_index(&self) -> bool {
        self.indexes.iter().any(|index| index.read().is_durable())
    }

    /// The places of a row.
    pub(crate) fn place(&self, row: u64) -> Result<Place<'_>> {
        let shape = self.rows.shape;
        let segment = shape.segment(row);
        let (columns, rows) = (self.columns.len(), shape.elements(segment));
        let chunk = self
            .rows
            .segment(&self.memory, segment, |at| Chunk::load(&self.memory, at, columns, rows))?;
        Ok(Place::new(chunk, row - shape.start(segment)))
    }

    /// Takes a free row, and makes a chunk if there is none.
    pub(crate) fn take_row(&self, lane: &Latch<Lane<M>>) -> Result<u64> {
        if let Some(row) = self.free.write().pop() {
            return Ok(row);
        }
        let columns = self.columns.len();
        self.ids.take(&self.memory, self.rows.shape, 1, |segment| {
            chunk::add(&mut lane.write(), &self.rows, segment, columns)
        })
    }

    pub(crate) fn id(&self, row: u64, column: usize) -> Result<u32> {
        Ok(self.memory.read(self.place(row)?.id(column))?)
    }

    pub(crate) fn field(&self, row: u64, column: usize) -> Result<Field> {
        self.columns[column].value(self.id(row, column)?)
    }

    /// The values of a row: of all columns, or of some, and the others NULL.
    pub(crate) fn fields(&self, row: u64, columns: Option<&[usize]>) -> Result<Vec<Field>> {
        let place = self.place(row)?;
        let mut fields = vec![Field::Null; self.columns.len()];
        let many = columns.map_or(self.columns.len(), <[usize]>::len);
        let number = |nth: usize| columns.map_or(nth, |columns| columns[nth]);
        for first in (0..many).step_by(FETCHED_TOGETHER) {
            let group = first..many.min(first + FETCHED_TOGETHER);
            let mut ids = [0; FETCHED_TOGETHER];
            for (id, nth) in ids.iter_mut().zip(group.clone()) {
                self.column(number(nth))?;
                *id = self.memory.read(place.id(number(nth)))?;
            }
            for (id, nth) in ids.iter().zip(group) {
                fields[number(nth)] = self.columns[number(nth)].value(*id)?;
            }
        }
        Ok(fields)
    }

    /// The key of a row in an index.
    pub(crate) fn key(&self, row: u64, index: usize) -> Result<IndexKey> {
        let columns = self.keys.columns(self.number, index);
        self.keys.key(self.number, index, &self.fields(row, Some(columns))?)
    }

    /// The columns of the primary key.
    pub(crate) fn key_columns(&self) -> &[usize] {
        self.keys.columns(self.number, 0)
    }

    /// The primary key of a row of these values.
    pub(crate) fn key_of<'a>(&self, row: &[Value<'a>]) -> Result<Key<'a>> {
        let mut fields = vec![Field::Null; row.len()];
        let mut values = Vec::new();
        for column in self.key_columns() {
            fields[*column] = row[*column].into();
            values.push(row[*column]);
        }
        let bytes = self.keys.key(self.number, 0, &fields)?.bytes;
        Ok(Key { bytes: bytes.into(), values: values.into() })
    }

    /// Checks that a row may have this primary key.
    pub(crate) fn check_key(&self, values: &[Value<'_>]) -> Result<()> {
        let columns = self.key_columns();
        if columns.len() != values.len() {
            return Err(ColumnError::Unfit { what: "a key of so many values" });
        }
        let mut pairs = columns.iter().zip(values);
        pairs.try_for_each(|(column, value)| value.fits_key(self.columns[*column].kind()))
    }

    /// Returns the version that a row replaces. `passed` counts the versions that the caller has come by: if there
    /// are more than rows, they form a cycle.
    pub(crate) fn prev(&self, row: u64, passed: &mut u64) -> Result<u64> {
        let at = self.place(row)?.prev();
        let prev = self.memory.load(at, Acquire)?;
        *passed += 1;
        if prev >= self.ids.next() || prev == row || *passed >= self.ids.next() {
            return Err(Bad::Damaged { what: "earlier version of a row", at: at.get() }.into());
        }
        Ok(prev)
    }

    /// A checksum of what a row has, but for its stamps.
    pub(crate) fn sum(prev: u64, ids: &[u32]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(prev.as_bytes()), ids.as_bytes())
    }

    pub(crate) fn ids_of(&self, row: u64) -> Result<Vec<u32>> {
        let place = self.place(row)?;
        let id = |column| Ok(self.memory.read(place.id(column))?);
        (0..self.columns.len()).map(id).collect()
    }

    /// Stores a row, its stamp last.
    #[track_caller]
    pub(crate) fn store_row(
        &self,
        row: u64,
        prev: u64,
        ids: &[u32],
        begin: u64,
        lines: &mut LineSet,
    ) -> Result<()> {
        let place = self.place(row)?;
        for (column, id) in ids.iter().enumerate() {
            self.memory.copy(place.id(column).plus(0), id.as_bytes());
            lines.add(place.id(column).range());
        }
        self.memory.store(place.prev(), prev);
        self.memory.store(place.begin(), begin);
        lines.add(place.prev().range());
        lines.add(place.begin().range());
        Ok(())
    }

    /// Returns whether a row is there as its checksum says, its values included.
    pub(crate) fn is_whole(&self, row: u64, sum: u32) -> Result<bool> {
        if row == 0 || row >= self.ids.next() {
            return Ok(false);
        }
        let prev = self.memory.load(self.place(row)?.prev(), Acquire)?;
        let ids = self.ids_of(row)?;
        if Self::sum(prev, &ids) != sum {
            return Ok(false);
        }
        for (column, id) in self.columns.iter().zip(ids) {
            if !column.is_whole(id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the lines of a row and of its values.
    pub(crate) fn add_lines(&self, row: u64, lines: &mut LineSet) -> Result<()> {
        let place = self.place(row)?;
        for (number, column) in self.columns.iter().enumerate() {
            lines.add(place.id(number).range());
            column.add_lines(self.id(row, number)?, lines)?;
        }
        lines.add(place.prev().range());
        lines.add(place.begin().range());
        Ok(())
    }

    /// Prepares room for keys in their indexes. The lines that have to be durable before [`Self::publish`] are
    /// added to `lines`.
    #[track_caller]
    pub(crate) fn prepare(
        &self,
        keys: &[(usize, IndexKey)],
        lane: &Latch<Lane<M>>,
        lines: &mut LineSet,
    ) -> Result<Vec<Room>> {
        let mut rooms = Vec::with_capacity(keys.len());
        for (index, key) in keys {
            match self.indexes[*index].read().prepare(&key.bytes, lane, lines) {
                Ok(room) => rooms.push(room),
                Err(error) => {
                    Self::release_rooms(&rooms, lane);
                    return Err(error);
                }
            }
        }
        Ok(rooms)
    }

    /// Releases room that is not used.
    pub(crate) fn release_rooms(rooms: &[Room], lane: &Latch<Lane<M>>) {
        for room in rooms {
            if let Room::New(node) = room {
                lane.write().release(*node);
            }
        }
    }

    /// Stores the row of keys that have new nodes, as [`Self::prepare`].
    #[track_caller]
    pub(crate) fn fill(
        &self,
        keys: &[(usize, IndexKey)],
        rooms: &[Room],
        row: u64,
        lines: &mut LineSet,
    ) {
        for ((index, _), room) in keys.iter().zip(rooms) {
            self.indexes[*index].read().fill(*room, row, lines);
        }
    }

    /// Makes a row the newest of its keys in some indexes, with the room that was prepared: of new nodes durably;
    /// other changed lines are added to `lines`. Indexes are in the order of their numbers, the first one last.
    #[track_caller]
    pub(crate) fn publish(
        &self,
        (keys, rooms): (Vec<(usize, IndexKey)>, &[Room]),
        row: u64,
        lane: &Latch<Lane<M>>,
        lines: &mut LineSet,
    ) -> Result<()> {
        let mut linked = Vec::new();
        for ((index, key), room) in keys.into_iter().zip(rooms) {
            let mut rows = self.indexes[index].write();
            match room {
                Room::New(node) => linked.push((rows, *node)),
                room => rows.set(&key.bytes, *room, row, lines),
            }
        }
        for together in linked.chunks(LINKED_TOGETHER) {
            let mut lane = lane.write();
            for (rows, node) in together {
                let list = rows.list().expect("a node is in persistent memory");
                if let Err(error) = list.link(*node, &mut lane) {
                    lane.mini_cancel();
                    return Err(error);
                }
            }
            lane.mini_commit(&mut LineSet::new());
            lane.fence_flushed();
        }
        Ok(())
    }

    /// Makes a row the newest of its keys in indexes in ordinary memory.
    pub(crate) fn publish_ordinary(&self, row: u64) -> Result<()> {
        for (index, key) in self.all_keys(row)? {
            let mut rows = self.indexes[index].write();
            if !rows.is_durable() {
                rows.set(&key.bytes, Room::Ordinary, row, &mut LineSet::new());
            }
        }
        Ok(())
    }

    /// Returns whether a row that may be torn has its keys: other rows are in no index.
    pub(crate) fn has_keys(&self, row: u64) -> Result<bool> {
        for index in 0..self.indexes.len() {
            for column in self.keys.columns(self.number, index) {
                if !self.columns[*column].is_whole(self.id(row, *column)?)? {
                    return Ok(false);
                }
            }
            // A row that was stored as a whole has one.
            if self.key(row, index).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The keys of a row in all indexes, in the order of [`Self::publish`].
    pub(crate) fn all_keys(&self, row: u64) -> Result<Vec<(usize, IndexKey)>> {
        let order = (1..self.indexes.len()).chain([0]);
        order.map(|index| Ok((index, self.key(row, index)?))).collect()
    }

    /// Returns whether a row has these ids in the columns of the primary key.
    pub(crate) fn has_key_ids(&self, row: u64, ids: &[u32]) -> Result<bool> {
        for (column, id) in self.key_columns().iter().zip(ids) {
            if self.id(row, *column)? != *id {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number of a column.
    pub(crate) fn column(&self, number: usize) -> Result<&Dictionary<M>> {
        self.columns.get(number).ok_or(ColumnError::Unfit { what: "a column of this number" })
    }
}

/// For each of the `many` structures of the table at `at`, those of keys and then those of the columns'
/// dictionaries: its form, the place of its head in the table, or zero, and how often it is used.
fn load_placement<M: Memory>(
    memory: &M,
    at: u64,
    columns: u64,
    many: usize,
) -> Result<Vec<(Form, u64, u64)>> {
    if memory.load(Off::new(at + placement_at(columns)), Acquire)? != many as u64 {
        return Err(Bad::Damaged { what: "placement of a table's indexes", at }.into());
    }
    let mut numbers = vec![0; many];
    memory.read_into(Off::new(at + flags_at(columns, many as u64)), &mut numbers)?;
    let forms = numbers.into_iter().map(|number| Form::of(number, at));
    let forms = forms.collect::<Result<Vec<_>>>()?;
    let mut places = Vec::with_capacity(many);
    for (number, (head, form)) in (0..).zip(heads(&forms, columns).into_iter().zip(&forms)) {
        places.push((*form, head, memory.load(Off::new(at + uses_at(columns, number)), Acquire)?));
    }
    Ok(places)
}

/// Writes where the structures of a table lie: as [`store_header`].
pub(crate) fn store_placement<M: Memory>(memory: &M, at: u64, columns: u64, forms: &[Form]) {
    let bytes: Vec<u8> = forms.iter().map(|form| *form as u8).collect();
    let many = bytes.len() as u64;
    memory.store(Off::new(at + placement_at(columns)), many);
    memory.copy(Off::new(at + flags_at(columns, many)), &bytes);
    let end = flags_at(columns, many) + many;
    memory.flush(Range::new(at + placement_at(columns), end - placement_at(columns)));
}

/// Writes the header of a table of these columns, whose object is zero; nothing leads to it yet.
pub(crate) fn store_header<M: Memory>(memory: &M, at: u64, kinds: &[Kind]) {
    let numbers: Vec<u8> = kinds.iter().map(|kind| *kind as u8).collect();
    memory.copy(Off::new(at + KINDS_AT), &numbers);
    memory.store(Off::new(at), kinds.len() as u64);
    memory.flush(Range::new(at, KINDS_AT + kinds.len() as u64));
}
