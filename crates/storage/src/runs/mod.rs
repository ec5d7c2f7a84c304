//! Log-structured tables in non-volatile memory (P1 4.3): a mutable MemTable, and runs that never
//! change (but on a full memory, where what is hidden leaves them), every one a B+tree a table that
//! can be used at once after a crash.
//!
//! Invariants:
//! - The directory says which runs count, from the newest to the oldest, and which one is the
//!   MemTable. It changes only by mini-transactions (`heap`): between two stores of a crash there
//!   is one directory or the other.
//! - Only entries of the MemTable change, and only under an undo log entry, as in
//!   [`crate::Tables`]; its trees are the primary indexes of such tables. Secondary indexes are
//!   those of the whole database: their entries lead to primary keys, not to places, so that
//!   merging runs leaves them alone.
//! - An entry belongs to one run; a field to one entry. While runs are merged, the result names
//!   entries and fields of its inputs. Once it has replaced them in the directory, what it names is
//!   its own, and taking the inputs apart frees the rest.
//! - Work that is put off goes on where a crash has cut it off: what is built, and what is taken
//!   apart, is reachable from the directory and sound at any moment.
//!
//! | what | file |
//! |---|---|
//! | media formats | `layout.rs`, `entry.rs` |
//! | look-ups and scans | `read.rs`, `scan.rs` |
//! | changes in two halves, and undo | `change.rs`, `undo.rs` |
//! | freezing the MemTable | `freeze.rs` |
//! | what is put off, in steps: filters, merging, taking apart | `work.rs`, `filter.rs`, `merge.rs`, `dismantle.rs` |
//! | room on a full memory | `relief.rs` |
//! | check | `check.rs` |

mod change;
mod check;
mod dismantle;
mod entry;
mod filter;
mod freeze;
mod keys;
mod layout;
mod lost;
mod merge;
mod read;
mod relief;
mod run;
mod scan;
mod undo;
mod work;

use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use index::Append;
use pm::{Bad, LineSet, Memory, Off, Range};

use crate::error::StorageError;
use crate::lsm::levels::LevelPolicy;
use crate::rows::catalog::Catalog;
use crate::rows::key::TableKey;
use crate::table::Tables;
use crate::table::slots::SlotLayout;

pub use change::{Replacement, Update};
pub use layout::{DIRECTORY_BYTES, MAX_LEVEL0_RUNS, MAX_RUNS};
pub use read::Found;
pub use work::RunsStats;

use filter::Filling;
use layout::{
    BUILDING, DISMANTLING, FIRST_RUN, LEVEL_BITS, MAX_LEVEL, MEMTABLE, cell_at, run_bytes,
};
use merge::Merging;
use relief::Relief;
use run::Run;
use work::Pace;

/// The tables of a log-structured partition in one memory, with their allocator; see the module's
/// comment.
#[derive(Debug)]
pub struct Runs<M: Memory> {
    /// Secondary indexes, and as primary ones the trees of the MemTable.
    pub tables: Tables<M, Append>,
    policy: LevelPolicy,
    directory: u64,
    memtable: u64,
    /// Bytes and entries that the MemTable has taken.
    bytes: u64,
    keys: u64,
    /// Frozen runs, newest first.
    runs: Vec<Run>,

    /// The state of the operation in preparation, in this field and the next ones: slots that are
    /// allocated, slots that are superseded, where fields are stored, the primary key, the bytes
    /// and the entries that it adds.
    fresh: Vec<u64>,
    replaced: Vec<u64>,
    cells: Vec<Off<u64>>,
    key: TableKey,
    added: (u64, i64),
    entry_words: Vec<u64>,
    old_words: Vec<u64>,

    merging: Option<Merging>,
    /// Filters that have been begun: that of a frozen run, that of a merge's result.
    fillings: Vec<Filling>,
    /// True if there was no room for a filter: none is tried until the next MemTable is frozen.
    no_filters: bool,
    relief: Relief,
    pace: Pace,
    stats: RunsStats,
}

impl<M: Memory> Runs<M> {
    /// Bytes of the directory and of root pointers that the tables of `catalog` need.
    pub fn root_bytes(catalog: &Catalog) -> u64 {
        let secondary: usize = catalog.tables.iter().map(|table| table.secondary.len()).sum();
        DIRECTORY_BYTES + secondary as u64 * 8
    }

    /// Creates empty tables, whose directory will live at `directory`, on a line, followed by the
    /// root pointers. Nothing leads to them yet.
    ///
    /// # Errors
    /// The memory is full, or no node can have so many bytes.
    pub fn create(
        mut lane: Lane<M>,
        catalog: &Catalog,
        node_bytes: u32,
        policy: LevelPolicy,
        directory: u64,
    ) -> Result<Self, StorageError> {
        let memory = lane.memory().clone();
        let tables = catalog.tables.len();
        let bytes = Self::root_bytes(catalog);
        memory.copy(Off::new(directory), &vec![0; bytes as usize]);
        memory.flush(Range::new(directory, bytes));
        let memtable = Self::write_run(&mut lane, tables, &mut LineSet::new(), None)?;
        let word = word_at(directory, MEMTABLE);
        lane.mini_store(word, memtable);
        lane.mini_persist(memtable)?;
        let mut lines = LineSet::new();
        lines.add(Range::new(memtable, run_bytes(tables)));
        lane.mini_commit(&mut lines);
        memory.fence();
        let mut runs = Self::assemble(lane, (catalog, node_bytes), policy, directory, memtable)?;
        for table in 0..tables {
            for index in 1..catalog.tables[table].index_count() {
                runs.tables.create_index(table as u16, index)?;
            }
        }
        Ok(runs)
    }

    /// The tables whose directory lives at `directory`. `bytes` and `keys` is what is known of the
    /// MemTable's size. Reads what stands in the directory, and nothing that grows with the data.
    ///
    /// # Errors
    /// Damage, or no node can have so many bytes.
    pub fn open(
        lane: Lane<M>,
        catalog: &Catalog,
        node_bytes: u32,
        policy: LevelPolicy,
        directory: u64,
        (bytes, keys): (u64, u64),
    ) -> Result<Self, StorageError> {
        let memory = lane.memory().clone();
        let memtable = memory.load(word_at(directory, MEMTABLE), Acquire)?;
        layout::read_header(&memory, memtable, catalog.tables.len())?;
        run::check_size(&memory, memtable, bytes, keys)?;
        let mut runs = Self::assemble(lane, (catalog, node_bytes), policy, directory, memtable)?;
        (runs.bytes, runs.keys) = (bytes, keys);
        for number in 0..MAX_RUNS as u64 {
            let word = memory.load(word_at(directory, FIRST_RUN + number), Acquire)?;
            if word == 0 {
                break;
            }
            let (at, level) = (word & !LEVEL_BITS, (word & LEVEL_BITS) as usize);
            let newer = runs.runs.last().map_or(0, |newer: &Run| newer.level);
            if newer > level || level > MAX_LEVEL {
                return Err(Bad::Damaged { what: "directory of runs", at: directory }.into());
            }
            let run = Run::open(&memory, &runs.tables.tables, at, level)?;
            runs.runs.push(run);
        }
        runs.pace.wake();
        if !runs.is_crowded() {
            runs.pace.rest();
        }
        Ok(runs)
    }

    fn assemble(
        lane: Lane<M>,
        (catalog, node_bytes): (&Catalog, u32),
        policy: LevelPolicy,
        directory: u64,
        memtable: u64,
    ) -> Result<Self, StorageError> {
        let mut secondary = directory + DIRECTORY_BYTES;
        let tables =
            Tables::open_at(lane, SlotLayout::all(catalog), node_bytes, |table, index| {
                if index == 0 {
                    return cell_at(memtable, table);
                }
                secondary += 8;
                Off::new(secondary - 8)
            })?;
        let level0_runs = policy.level0_runs.min(MAX_LEVEL0_RUNS);
        Ok(Self {
            tables,
            policy: LevelPolicy { level0_runs, ..policy },
            directory,
            memtable,
            bytes: 0,
            keys: 0,
            runs: Vec::new(),
            fresh: Vec::new(),
            replaced: Vec::new(),
            cells: Vec::new(),
            key: TableKey::Narrow(0),
            added: (0, 0),
            entry_words: Vec::new(),
            old_words: Vec::new(),
            merging: None,
            fillings: Vec::new(),
            no_filters: false,
            relief: Relief::default(),
            pace: Pace::default(),
            stats: RunsStats::default(),
        })
    }

    /// The memory under the tables.
    #[inline]
    pub fn memory(&self) -> &M {
        self.tables.lane.memory()
    }

    /// Bytes and entries of the MemTable, about.
    pub fn memtable_use(&self) -> (u64, u64) {
        (self.bytes, self.keys)
    }

    /// Returns how many frozen runs there are, by level.
    pub fn runs_by_level(&self) -> Vec<usize> {
        let mut levels = vec![0; self.runs.last().map_or(0, |oldest| oldest.level + 1)];
        self.runs.iter().for_each(|run| levels[run.level] += 1);
        levels
    }

    #[inline]
    fn layout(&self, table: usize) -> &SlotLayout {
        &self.tables.tables[table].layout
    }

    fn directory_word(&self, number: u64) -> Result<u64, Bad> {
        self.memory().load(word_at(self.directory, number), Acquire)
    }

    /// The run whose merge is being built, or whose inputs are being taken apart, if any.
    fn building(&self) -> Result<Option<u64>, Bad> {
        Ok(Some(self.directory_word(BUILDING)?).filter(|run| *run != 0))
    }

    fn dismantling(&self) -> Result<Option<u64>, Bad> {
        let result = self.directory_word(DISMANTLING)?;
        if result != 0 && self.run_at(result).is_none() {
            return Err(Bad::Damaged { what: "directory of runs", at: self.directory });
        }
        Ok(Some(result).filter(|run| *run != 0))
    }

    fn run_at(&self, at: u64) -> Option<&Run> {
        self.runs.iter().find(|run| run.at == at)
    }

    /// Adds the words of a directory with these runs to the mini-transaction.
    fn mini_directory(&mut self, runs: &[u64]) {
        assert!(runs.len() <= MAX_RUNS, "the directory has room");
        for number in 0..MAX_RUNS {
            let word = runs.get(number).copied().unwrap_or(0);
            let at = word_at(self.directory, FIRST_RUN + number as u64);
            // Only what changes: a mini-transaction is short.
            if self.memory().load(at, Acquire) != Ok(word) {
                self.tables.lane.mini_store(at, word);
            }
        }
    }

    /// The words of the directory for the runs as they are.
    fn run_words(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().map(|run| run.at | run.level as u64)
    }

    /// Writes the descriptor of an empty run of so many tables; `inputs` are those of a merge, with
    /// its plan and their bytes.
    fn write_run(
        lane: &mut Lane<M>,
        tables: usize,
        lines: &mut LineSet,
        merge: Option<(u64, u64, &[u64])>,
    ) -> Result<u64, StorageError> {
        let bytes = run_bytes(tables);
        let at = lane.allocate(bytes, Purpose::Log)?;
        assert!(at.is_multiple_of(64), "a slot of whole lines starts on one");
        let mut image = vec![0u8; bytes as usize];
        image[..8].copy_from_slice(&layout::RUN_MAGIC.to_le_bytes());
        if let Some((plan, bytes, inputs)) = merge {
            let at = layout::BYTES_AT as usize;
            image[at..at + 8].copy_from_slice(&bytes.to_le_bytes());
            image[56..64].copy_from_slice(&plan.to_le_bytes());
            for (number, input) in inputs.iter().enumerate() {
                let place = layout::input_at(0, number).get() as usize;
                image[place..place + 8].copy_from_slice(&input.to_le_bytes());
            }
        }
        lane.memory().copy(Off::new(at), &image);
        lines.add(Range::new(at, bytes));
        Ok(at)
    }
}

/// A word of the directory.
fn word_at(directory: u64, number: u64) -> Off<u64> {
    Off::new(directory + number * 8)
}
