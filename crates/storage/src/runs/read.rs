//! Look-ups: the newest entry of a key, and a tuple from its entries (P1 4.3: the MemTable, then
//! the runs from the newest to the oldest, each guarded by its Bloom filter).

use pm::{Bad, Memory};

use crate::error::StorageError;
use crate::lsm::change::{Change, Coalescing, ColumnSet};
use crate::rows::key::{TableKey, encode_key, narrow_key};
use crate::rows::row::Row;
use crate::rows::value::Value;
use crate::runs::Runs;
use crate::runs::entry::{Entry, Fields};
use crate::runs::keys::{RunKey, by_form, filter_hash};
use crate::table::slots::SlotLayout;
use crate::table::tuple::{read_tuple, read_tuple_bytes, read_word_bytes, read_words};

/// An entry of a key, and which run has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// 0 is the MemTable, the others are the frozen runs, newest first.
    pub(crate) source: usize,
    pub(crate) value: u64,
}

impl<M: Memory> Runs<M> {
    /// The newest entry of the tuple with this primary key, if there is such a tuple.
    ///
    /// # Errors
    /// Wrong number, type or length of values; damage.
    #[inline]
    pub fn find(&self, table: u16, key: &[Value<'_>]) -> Result<Option<Found>, StorageError> {
        let table = usize::from(table);
        let layout = self.layout(table);
        if layout.primary.narrow {
            let key = narrow_key(layout, key)?;
            return Ok(self.live(table, &key, 0)?);
        }
        let key = encode_key(&layout.schema, &layout.primary, key)?;
        Ok(by_form!(&key, key => self.live(table, key, 0))?)
    }

    /// Returns what is wrong if [`Self::find`] finds nothing where there must be something.
    #[cold]
    pub fn missing(&self, table: u16) -> StorageError {
        StorageError::MissingKey { table: self.layout(usize::from(table)).schema.name().into() }
    }

    /// The primary key with these values.
    pub(crate) fn encode(&self, table: usize, key: &[Value<'_>]) -> Result<TableKey, StorageError> {
        let layout = self.layout(table);
        encode_key(&layout.schema, &layout.primary, key)
    }

    /// The newest entry of a key among the sources from number `from` on.
    #[inline]
    pub(crate) fn newest<K: RunKey>(
        &self,
        table: usize,
        key: &K,
        from: usize,
    ) -> Result<Option<Found>, Bad> {
        let memory = self.memory();
        if from == 0 {
            let tree = K::tree(&self.tables.tables[table].indexes[0]);
            if tree.exists(memory)?
                && let Some(value) = tree.get(memory, key)?
            {
                return Ok(Some(Found { source: 0, value }));
            }
        }
        if self.runs.is_empty() {
            return Ok(None);
        }
        let hash = filter_hash(table, key);
        for (number, run) in self.runs.iter().enumerate().skip(from.max(1) - 1) {
            if let Some(value) = run.get(memory, table, key, hash)? {
                return Ok(Some(Found { source: number + 1, value }));
            }
        }
        Ok(None)
    }

    /// Acts as [`Self::newest`], if that finds such a tuple.
    #[inline]
    pub(crate) fn live<K: RunKey>(
        &self,
        table: usize,
        key: &K,
        from: usize,
    ) -> Result<Option<Found>, Bad> {
        let found = self.newest(table, key, from)?;
        Ok(match found {
            Some(Found { value, .. }) if Entry::decode(value)? == Entry::Tombstone => None,
            found => found,
        })
    }

    /// Copies columns of the tuple that [`Self::find`] found, all of them if none are named, into
    /// `row`.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub fn read(
        &self,
        table: u16,
        key: &[Value<'_>],
        found: Found,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), StorageError> {
        let layout = self.layout(usize::from(table));
        if let Entry::Whole(tuple) = Entry::decode(found.value)? {
            return Ok(read_tuple(self.memory(), layout, tuple, columns, row)?);
        }
        let key = self.encode(usize::from(table), key)?;
        Ok(
            by_form!(&key, key => self.read_collected(usize::from(table), key, found, columns, row))?,
        )
    }

    pub(crate) fn read_collected<K: RunKey>(
        &self,
        table: usize,
        key: &K,
        found: Found,
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<(), Bad> {
        let layout = self.layout(table);
        let mut words = std::mem::take(&mut row.words);
        let wanted = wanted(layout, columns);
        let done = self.collect(table, key, Some(found), &wanted, &mut words).and_then(|_| {
            read_words(self.memory(), layout, |column| words[column], columns, row, found.value)
        });
        row.words = words;
        done
    }

    /// Copies columns of the tuple that [`Self::find`] found into `out`, in sequence, as
    /// [`crate::Tables::read_bytes`] does.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub fn read_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        found: Found,
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<usize, StorageError> {
        let layout = self.layout(usize::from(table));
        if let Entry::Whole(tuple) = Entry::decode(found.value)? {
            return Ok(read_tuple_bytes(self.memory(), layout, tuple, columns, out)?);
        }
        let key = self.encode(usize::from(table), key)?;
        let wanted = wanted(layout, Some(columns));
        let mut words = Vec::new();
        by_form!(&key, key => {
            self.collect(usize::from(table), key, Some(found), &wanted, &mut words)
        })?;
        Ok(read_word_bytes(
            self.memory(),
            layout,
            |column| words[column],
            columns,
            out,
            found.value,
        )?)
    }

    /// Collects the words of the `wanted` columns of a tuple from its entries, the newest of which
    /// is `found`. Returns whether there is such a tuple; all other words are zero.
    pub(crate) fn collect<K: RunKey>(
        &self,
        table: usize,
        key: &K,
        mut found: Option<Found>,
        wanted: &ColumnSet,
        words: &mut Vec<u64>,
    ) -> Result<bool, Bad> {
        let layout = self.layout(table);
        words.clear();
        words.resize(layout.forms.len(), 0);
        let mut tuple = Coalescing::new(*wanted);
        let mut last = 0;
        while let Some(Found { source, value }) = found {
            last = value;
            take_words(self.memory(), layout, value, &mut tuple, words)?;
            if tuple.is_complete() {
                break;
            }
            found = self.newest(table, key, source + 1)?;
        }
        tuple.finish().map_err(|_| Bad::Damaged { what: "entries of a tuple", at: last })
    }
}

/// Takes the columns that a tuple still lacks from its next older entry.
pub(crate) fn take_words<M: Memory>(
    memory: &M,
    layout: &SlotLayout,
    value: u64,
    tuple: &mut Coalescing,
    words: &mut [u64],
) -> Result<Change, Bad> {
    let fields = Fields::of(memory, layout, Entry::decode(value)?)?;
    for column in tuple.add(fields.change()).iter() {
        if let Some(word) = fields.word(column) {
            words[usize::from(column)] = word;
        }
    }
    Ok(*fields.change())
}

/// The columns that are asked for.
pub(crate) fn wanted(layout: &SlotLayout, columns: Option<&[u16]>) -> ColumnSet {
    match columns {
        None => ColumnSet::first(layout.forms.len()),
        Some(columns) => columns.iter().copied().collect(),
    }
}
