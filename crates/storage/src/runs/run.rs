//! A run: a frozen MemTable, or what several of them were merged into. A tree for each table, its
//! root pointer in the run's descriptor, and a Bloom filter once it has been built. It never
//! changes.

use std::sync::atomic::Ordering::Acquire;

use index::{Append, Bloom};
use pm::{Bad, Memory, Off};

use crate::runs::keys::{RunKey, filter_hash};
use crate::runs::layout::{cell_at, read_header};
use crate::table::{Table, TableIndex};

/// Bits of a filter for each key: one false positive in a hundred.
pub(crate) const FILTER_BITS: u32 = 10;
/// Pieces of a filter at most: so many words change together when it comes and goes. A run that is
/// larger has fewer bits for each key.
pub(crate) const MAX_PIECES: usize = 128;

/// Approximate bytes that an entry takes in a tree in addition to its key.
pub(crate) const TREE_ENTRY_BYTES: u64 = 16;
/// Bytes that an entry has at least in its tree.
const LEAST_ENTRY: u64 = 16;
/// The logarithm of the bytes that a run stays below.
const MOST_BYTES_LOG: u32 = 48;

/// Checks that the run at `at` can have so many bytes and keys: sizes of steps and of filters
/// follow from them.
pub(crate) fn check_size<M: Memory>(memory: &M, at: u64, bytes: u64, keys: u64) -> Result<(), Bad> {
    if keys > memory.len() / LEAST_ENTRY || bytes >> MOST_BYTES_LOG != 0 {
        return Err(Bad::Damaged { what: "size of a run", at });
    }
    Ok(())
}

/// A filter that lies in pieces, since no object is larger than a chunk.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) list: u64,
    pub(crate) pieces: Vec<u64>,
    pub(crate) piece_bytes: u64,
    pub(crate) bloom: Bloom,
}

impl Filter {
    #[inline]
    pub(crate) fn may_contain<M: Memory>(&self, memory: &M, hash: u64) -> Result<bool, Bad> {
        let bytes = self.pieces.len() as u64 * self.piece_bytes;
        self.bloom.may_contain_in(bytes, hash, |at| {
            let piece = self.pieces[(at / self.piece_bytes) as usize];
            memory.load(Off::new(piece + at % self.piece_bytes), Acquire)
        })
    }
}

/// A run, as much of it as every look-up needs.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) at: u64,
    pub(crate) level: usize,
    /// True if a merge made it: `bytes` are then those of the slots that its entries own. A frozen
    /// MemTable has in `bytes` all that was ever added to it, and its keys in the tree.
    pub(crate) merged: bool,
    pub(crate) bytes: u64,
    pub(crate) keys: u64,
    pub(crate) filter: Option<Filter>,
    /// The tree of its entries for each table; the tree may not exist.
    pub(crate) trees: Vec<TableIndex<Append>>,
}

/// The trees of the run at `at`: as those of the MemTable, which `tables` have.
pub(crate) fn trees_of(tables: &[Table<Append>], at: u64) -> Vec<TableIndex<Append>> {
    let memtable = tables.iter().map(|table| &table.indexes[0]);
    memtable.enumerate().map(|(table, tree)| tree.open_like(cell_at(at, table))).collect()
}

impl Run {
    /// The run at `at`.
    pub(crate) fn open<M: Memory>(
        memory: &M,
        tables: &[Table<Append>],
        at: u64,
        level: usize,
    ) -> Result<Self, Bad> {
        let header = read_header(memory, at, tables.len())?;
        check_size(memory, at, header.bytes, header.keys)?;
        let mut filter = None;
        if header.filter != 0 {
            let damaged = Bad::Damaged { what: "filter of a run", at };
            let sound = (1..=MAX_PIECES as u64).contains(&header.pieces)
                && header.piece_bytes.is_power_of_two()
                && (64..=1 << 20).contains(&header.piece_bytes)
                && (1..=64).contains(&header.filter_bits);
            if !sound {
                return Err(damaged);
            }
            let mut pieces = Vec::with_capacity(header.pieces as usize);
            for piece in 0..header.pieces {
                pieces.push(memory.load(Off::new(header.filter + piece * 8), Acquire)?);
            }
            filter = Some(Filter {
                list: header.filter,
                pieces,
                piece_bytes: header.piece_bytes,
                bloom: Bloom::new(header.filter_bits as u32),
            });
        }
        let trees = trees_of(tables, at);
        let merged = header.plan != 0;
        Ok(Self { at, level, merged, bytes: header.bytes, keys: header.keys, filter, trees })
    }

    /// Returns about how many bytes it takes, by which levels are merged.
    pub(crate) fn size(&self) -> u64 {
        let tree = if self.merged { self.keys.saturating_mul(TREE_ENTRY_BYTES) } else { 0 };
        self.bytes.saturating_add(tree)
    }

    /// The entry of a key, if the run has one.
    #[inline]
    pub(crate) fn get<K: RunKey, M: Memory>(
        &self,
        memory: &M,
        table: usize,
        key: &K,
        hash: u64,
    ) -> Result<Option<u64>, Bad> {
        if let Some(filter) = &self.filter
            && !filter.may_contain(memory, hash)?
        {
            return Ok(None);
        }
        self.get_unfiltered(memory, table, key)
    }

    /// Acts as [`Self::get`], without asking the filter.
    pub(crate) fn get_unfiltered<K: RunKey, M: Memory>(
        &self,
        memory: &M,
        table: usize,
        key: &K,
    ) -> Result<Option<u64>, Bad> {
        let tree = K::tree(&self.trees[table]);
        if !tree.exists(memory)? {
            return Ok(None);
        }
        tree.get(memory, key)
    }

    /// Returns whether the filter lets the key through.
    pub(crate) fn passes<K: RunKey, M: Memory>(
        &self,
        memory: &M,
        table: usize,
        key: &K,
    ) -> Result<bool, Bad> {
        let filter = self.filter.as_ref();
        filter.map_or(Ok(true), |filter| filter.may_contain(memory, filter_hash(table, key)))
    }
}
