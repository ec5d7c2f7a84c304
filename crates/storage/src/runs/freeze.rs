//! Freezing: the MemTable becomes a run, and an empty one takes its place (P1 4.3: it is marked
//! immutable, and stays where it is).
//!
//! 1. Write the descriptor of the new MemTable.
//! 2. One mini-transaction: the directory's word of the MemTable, the words of the runs, which move
//!    up by one, the frozen run's size, the new descriptor's persisted bit, and the engine's words:
//!    what it has noted of the MemTable's size, and the end of its log's entries.
//!
//! So no entry of the log speaks of the frozen run any more: whatever becomes of the run later, no
//! recovery asks for it.

use heap::HeapError;
use index::Append;
use pm::{LineSet, Memory, Off};

use crate::error::StorageError;
use crate::runs::layout::{BYTES_AT, KEYS_AT, MAX_RUNS, MEMTABLE};
use crate::runs::run::{Run, trees_of};
use crate::runs::{Runs, word_at};
use crate::table::TableIndex;

/// Runs for which the directory keeps room: the result of a merge, and the next MemTable.
const SPARE: usize = 2;

impl<M: Memory> Runs<M> {
    /// Returns whether the MemTable is as large as it should become, and may be frozen.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes >= self.policy.memtable_bytes && self.runs.len() + SPARE < MAX_RUNS
    }

    /// Freezes the MemTable; see the module's comment. `engine` are its words that change
    /// with it. Returns whether it could: without room all stays as it is.
    ///
    /// # Errors
    /// Damage.
    pub fn freeze(&mut self, engine: &[(Off<u64>, u64)]) -> Result<bool, StorageError> {
        let mut lines = LineSet::new();
        let (tables, lane) = (self.tables.tables.len(), &mut self.tables.lane);
        let at = match Self::write_run(lane, tables, &mut lines, None) {
            Ok(at) => at,
            Err(StorageError::Heap(HeapError::Full(_))) => return Ok(false),
            Err(error) => return Err(error),
        };
        let frozen = self.memtable;
        lane.mini_store(word_at(self.directory, MEMTABLE), at);
        lane.mini_store(Off::new(frozen + BYTES_AT), self.bytes);
        lane.mini_store(Off::new(frozen + KEYS_AT), self.keys);
        lane.mini_persist(at)?;
        engine.iter().for_each(|(at, value)| lane.mini_store(*at, *value));
        let words: Vec<u64> = std::iter::once(frozen).chain(self.run_words()).collect();
        self.mini_directory(&words);
        // The next fence comes before the engine's words change: only they are changed by anything
        // but other mini-transactions.
        self.tables.lane.mini_commit(&mut lines);
        let fresh = trees_of(&self.tables.tables, at);
        let memtable = self.tables.tables.iter_mut().map(|table| &mut table.indexes[0]);
        let trees: Vec<TableIndex<Append>> =
            memtable.zip(fresh).map(|(old, new)| std::mem::replace(old, new)).collect();
        let (bytes, keys) = (self.bytes, self.keys);
        let (level, merged) = (0, false);
        self.runs.insert(0, Run { at: frozen, level, merged, bytes, keys, filter: None, trees });
        (self.memtable, self.bytes, self.keys) = (at, 0, 0);
        self.no_filters = false;
        self.loosen();
        self.stats.freezes += 1;
        self.pace.wake();
        self.keep_nodes_when_nearly_full(true)?;
        Ok(true)
    }
}
