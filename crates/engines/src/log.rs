//! Log: log-structured updates (P1 3.3), modelled on LevelDB.
//!
//! All changes go to a MemTable in volatile memory, whose full state is written to an SSTable now
//! and then; runs are merged in levels, each `k` times as large as the one above. A tuple is put
//! together from the entries that the runs have of it: whole, in part, or a tombstone. What the
//! MemTable holds is in a write-ahead log. Our Table 2 for it (`docs/paper/table2.md`):
//!
//! | operation | steps |
//! |---|---|
//! | INSERT | look in all runs that the key is free; put tuple and index entries into the MemTable; log the tuple |
//! | UPDATE | read the fields; put the changed ones into the MemTable, index entries where they change; log before and after images |
//! | DELETE | read the tuple; put tombstones into the MemTable; log the before image |
//! | SELECT | find the tuple's entries, newest run first; put the tuple together |
//! | COMMIT | end the log record; sync with the group; do a bounded step of flush and merges |
//!
//! Recovery replays the log into the MemTable; a transaction has one record, which is whole or
//! does not count, so there is nothing to remove.
//!
//! Invariants:
//! - What the log holds from the manifest's log start on is in the MemTables, all else in runs: the
//!   same edit adds a run and moves the start.
//! - Segments of the log are removed when that edit is durable.
//! - A run has only what the log had made durable.
//! - The log is bounded: a MemTable is written out when it is full or its log is four times as long.

mod options;
mod redo;
mod room;
mod stats;

use std::sync::Arc;

use heap::{Heap, HeapOptions, Lane, Purpose};
use pm::{Component, Environment, Memory, Range, observe};
use storage::lsm::LsmError;
use storage::lsm::levels::LevelPolicy;
use storage::lsm::sstable::SsOptions;
use storage::lsm::tree::{LsmOptions, LsmTree, TREE_LANES, volatile_bytes};
use storage::lsm::trees::Trees;
use storage::operation;
use storage::wal::{LogStart, Need};
use storage::{Catalog, Row, Value, WorkDone};

use crate::contract::{Footprint, RecoveryReport, Resources};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::redo::{LogOf, LogParts, Redo, RedoEngine, RedoTables};
use crate::stats::EngineStats;

pub use options::LogOptions;
use redo::redo;
pub use stats::LogStats;

/// A partition of Log; see the module's comment.
pub type Log<E> = RedoEngine<E, InLevels<E>>;

/// Tables in MemTables and levels of runs.
#[derive(Debug)]
pub struct InLevels<E: Environment> {
    tree: LsmTree<E::Files, E::Volatile>,
    heap: Heap<E::Volatile>,
    /// Keeps the log's buffer.
    _buffer: Lane<E::Volatile>,
    /// The load of the MemTable before which freezing it is not tried again.
    patience: u64,
    /// Times that the log could not go on in a new segment, or be trimmed; the tree counts its own.
    failures: u64,
    /// An operation found no room since the MemTable was set aside.
    wanted: bool,
    /// The medium was full, and nothing has been inserted or changed since.
    tight: bool,
    /// Bytes of log before which writing out is not tried again for want of room.
    log_patience: u64,
    background: WorkDone,
}

/// Bits of the Bloom filter for each key: one false positive in a hundred.
const BITS_PER_KEY: u32 = 10;

fn lsm_options(options: &LogOptions) -> LsmOptions {
    LsmOptions {
        policy: LevelPolicy {
            memtable_bytes: options.memtable_bytes.max(1 << 10),
            growth: options.growth.max(2),
            level0_runs: options.level0_runs.max(1),
        },
        runs: SsOptions {
            block_bytes: options.block_bytes.clamp(256, 1 << 20),
            bits_per_key: BITS_PER_KEY,
        },
        cache_bytes: options.cache_bytes,
    }
}

/// The parts that both ways to a partition need.
struct Parts<E: Environment> {
    files: E::Files,
    trees: Arc<Trees>,
    heap: Heap<E::Volatile>,
    buffer: Lane<E::Volatile>,
    range: Range,
}

impl<E: Environment> Parts<E> {
    fn new(
        resources: &Resources<E>,
        catalog: &Catalog,
        (setup, options): (&Setup, &LogOptions),
    ) -> Result<Self, EngineError> {
        let files = resources.own_files()?;
        let heap_options = HeapOptions { chunk_bytes: 1 << 20, lanes: TREE_LANES + 1 };
        let heap = Heap::format(resources.volatile.clone(), heap_options)?;
        let mut buffer = heap.lane(TREE_LANES);
        let range = Range::new(
            buffer.allocate(options.wal_buffer_bytes, Purpose::Log)?,
            options.wal_buffer_bytes,
        );
        let trees = Arc::new(Trees::new(catalog, setup.node_bytes)?);
        Ok(Self { files, trees, heap, buffer, range })
    }

    fn log<'a>(
        &self,
        resources: &'a Resources<E>,
        catalog: &'a Catalog,
        (setup, options): (&'a Setup, &LogOptions),
    ) -> LogParts<'a, E> {
        let reserve_bytes = options.wal_reserve_bytes;
        LogParts { resources, setup, catalog, reserve_bytes, buffer: self.range }
    }

    fn assemble(self, tree: LsmTree<E::Files, E::Volatile>) -> InLevels<E> {
        InLevels {
            tree,
            heap: self.heap,
            _buffer: self.buffer,
            patience: 0,
            failures: 0,
            wanted: false,
            tight: false,
            log_patience: 0,
            background: WorkDone::default(),
        }
    }
}

impl<E: Environment> InLevels<E> {
    /// Does an operation in the MemTable and logs what the log has encoded. The log counts when
    /// the transaction commits, so the order of the two is free; this way a full memory does not
    /// leave an entry in the log that nothing belongs to.
    fn change(
        &mut self,
        redo: &mut Redo<E>,
        need: Need,
        change: impl FnOnce(&mut LsmTree<E::Files, E::Volatile>) -> Result<(), LsmError>,
    ) -> Result<(), EngineError> {
        let logged_bytes = redo.log.operation.len() as u64;
        if need == Need::Ordinary {
            let room = self.make_room(&redo.log.wal, logged_bytes);
            room.inspect_err(|_| (self.wanted, self.tight) = (true, true))?;
        }
        let mark = self.tree.memtable().mark();
        change(&mut self.tree)?;
        self.tree.logged(logged_bytes);
        let logged = redo.put(need);
        self.tight &= need == Need::Freeing;
        if logged.is_err() {
            (self.wanted, self.tight) = (true, true);
            if let Err(error) = self.tree.memtable().undo_to(mark) {
                return redo.state.stop(error);
            }
        }
        logged
    }
}

impl<E: Environment> RedoTables<E> for InLevels<E> {
    const KIND: EngineKind = EngineKind::Log;
    const LARGER_THAN_MEMORY: bool = true;
    type Options = LogOptions;
    type Rows = LsmTree<E::Files, E::Volatile>;

    fn create(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        (setup, options): (&Setup, &LogOptions),
    ) -> Result<(Self, LogOf<E>), EngineError> {
        let parts = Parts::new(resources, catalog, (setup, options))?;
        let start = LogStart { sequence: 0, txn: 1 };
        let tree = LsmTree::create(
            parts.files.clone(),
            resources.partition,
            &parts.heap,
            parts.trees.clone(),
            lsm_options(options),
            start,
        )?;
        let wal = parts.log(resources, catalog, (setup, options)).create(start)?;
        Ok((parts.assemble(tree), wal))
    }

    fn open(
        resources: &Resources<E>,
        catalog: &Arc<Catalog>,
        (setup, options): (&Setup, &LogOptions),
    ) -> Result<(Self, LogOf<E>, RecoveryReport), EngineError> {
        let parts = Parts::new(resources, catalog, (setup, options))?;
        let mut tree = LsmTree::open(
            parts.files.clone(),
            resources.partition,
            &parts.heap,
            parts.trees.clone(),
            lsm_options(options),
        )?;
        let mut before = Row::new();
        let log = parts.log(resources, catalog, (setup, options));
        let (mut wal, report) = log.recover(tree.log_start(), 0, |_, payload| {
            redo(&mut tree, catalog, payload, &mut before)
        })?;
        // Only now: what is missing was found, and nothing has been removed yet.
        tree.finish_open()?;
        tree.logged(report.bytes);
        let redone = report.records;
        let mut tables = parts.assemble(tree);
        tables.opened(&mut wal)?;
        Ok((tables, wal, RecoveryReport { redone, ..RecoveryReport::default() }))
    }

    #[inline]
    fn rows(&self) -> &Self::Rows {
        &self.tree
    }

    fn insert(
        &mut self,
        redo: &mut Redo<E>,
        table: u16,
        values: &[Value<'_>],
    ) -> Result<(), EngineError> {
        let key = self.tree.check_insert(table, values)?;
        operation::insert(&mut redo.log.operation, table, values);
        self.change(redo, Need::Ordinary, |tree| tree.insert(table, &key, values))
    }

    fn update(
        &mut self,
        redo: &mut Redo<E>,
        (table, key): (u16, &[Value<'_>]),
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        let tuple = self.tree.key(table, key)?;
        let primary = self.tree.trees().tree(table, 0);
        redo.columns.clear();
        let wrong = self.tree.check_changes(table, changes);
        let mut indexed = false;
        if wrong.is_ok() {
            indexed = self.tree.changes_index(table, changes);
            redo.columns.extend(changes.iter().map(|(column, _)| *column));
        }
        // Where an index changes, its old keys need other columns too.
        let columns = (!indexed).then_some(&redo.columns[..]);
        if !self.tree.read(primary, &tuple, columns, &mut redo.before)? {
            return Err(self.tree.missing(table).into());
        }
        wrong?;
        if changes.is_empty() {
            return Ok(());
        }
        let before = std::mem::take(&mut redo.before);
        let old = changes.iter().enumerate().map(|(index, (column, value))| {
            let at = if indexed { usize::from(*column) } else { index };
            (*column, before.get(at), *value)
        });
        operation::update(&mut redo.log.operation, table, key, old);
        let row = indexed.then_some(&before);
        let done =
            self.change(redo, Need::Ordinary, |tree| tree.update(table, &tuple, changes, row));
        redo.before = before;
        done
    }

    fn delete(
        &mut self,
        redo: &mut Redo<E>,
        (table, key): (u16, &[Value<'_>]),
    ) -> Result<(), EngineError> {
        let tuple = self.tree.key(table, key)?;
        let primary = self.tree.trees().tree(table, 0);
        if !self.tree.read(primary, &tuple, None, &mut redo.before)? {
            return Err(self.tree.missing(table).into());
        }
        let before = std::mem::take(&mut redo.before);
        operation::delete(&mut redo.log.operation, table, key, before.values());
        let value = |column: u16| before.get(usize::from(column));
        let done = self.change(redo, Need::Freeing, |tree| tree.delete(table, &tuple, value));
        redo.before = before;
        done
    }

    /// Freezes a full MemTable, and does a step of what was put off. What fails is tried again
    /// later, unless the partition has to stop.
    fn committed(&mut self, redo: &mut Redo<E>) -> Result<(), EngineError> {
        self.tree.memtable().commit();
        let wal = &mut redo.log.wal;
        let mut done = Ok(());
        if self.is_urgent(wal) {
            self.tight = true;
            done = self.write_out(wal);
            if done.is_err() {
                self.log_patience = wal.used_bytes() + wal.aside_bytes() / 8;
            }
        } else if self.tree.is_full() && self.tree.load() >= self.patience {
            done = self.freeze(wal);
            if done.is_err() {
                self.patience = self.tree.load() / 8 * 9;
            }
        }
        observe!(E::Durable: redo.pool.hold(Some(Component::Storage)));
        let paced = self.tree.pace();
        observe!(E::Durable: redo.pool.hold(None));
        let paced = paced.map_err(EngineError::from).and_then(|()| self.trim_log(wal));
        if self.tree.is_poisoned() || wal.is_poisoned() {
            let error = done.and(paced).err().unwrap_or(LsmError::Poisoned.into());
            redo.state.stop_after(&error);
        }
        Ok(())
    }

    fn undo(&mut self) -> Result<(), EngineError> {
        Ok(self.tree.memtable().abort()?)
    }

    /// Writes the MemTable out, after which the log is empty.
    fn checkpoint(&mut self, redo: &mut Redo<E>) -> Result<(), EngineError> {
        let wal = &mut redo.log.wal;
        let done = self.write_out(wal);
        if self.tree.is_poisoned() || wal.is_poisoned() {
            return redo.state.stop(done.err().unwrap_or(LsmError::Poisoned.into()));
        }
        done
    }

    fn background(&mut self, redo: &mut Redo<E>, budget: u64) -> Result<u64, EngineError> {
        let before = self.tree.stats().done;
        let waiting = self.tree.work(budget).map_err(EngineError::from);
        self.background += self.tree.stats().done - before;
        let wal = &mut redo.log.wal;
        let done = waiting.and_then(|waiting| self.trim_log(wal).map(|()| waiting));
        if self.tree.is_poisoned() {
            return redo.state.stop(done.err().unwrap_or(LsmError::Poisoned.into()));
        }
        done
    }

    fn has_work(&self, _: &Redo<E>) -> bool {
        self.tree.has_work()
    }

    fn is_overdue(&self, _: &Redo<E>) -> bool {
        self.tree.is_full()
    }

    fn give_up_work(&mut self) -> Result<(), EngineError> {
        Ok(self.tree.abandon_work()?)
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        let (entries, trees, other) = volatile_bytes(&self.heap)?;
        let (data, index) = self.tree.run_bytes();
        Ok(Footprint {
            table: entries + data,
            index: trees + index,
            other: other + self.tree.manifest_bytes() + self.tree.spare_bytes(),
            ..Footprint::default()
        })
    }

    fn stats(&self, _: &Redo<E>) -> EngineStats {
        let stats = self.tree.stats();
        EngineStats {
            failures: stats.failures + self.failures,
            waiting_bytes: stats.waiting_bytes,
            inline: stats.done - self.background,
            background: self.background,
            own: LogStats::from(&stats).into(),
            ..EngineKind::Log.into()
        }
    }

    fn check(&self) -> Result<u64, EngineError> {
        self.tree.check()?;
        Ok(self.tree.check_tables()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trees_options_are_those_of_the_engine() {
        let mut options = LogOptions {
            memtable_bytes: 5000,
            growth: 7,
            level0_runs: 9,
            block_bytes: 600,
            cache_bytes: 70_000,
            ..LogOptions::default()
        };
        let LsmOptions { policy, runs, cache_bytes } = lsm_options(&options);
        assert_eq!((policy.memtable_bytes, policy.growth, policy.level0_runs), (5000, 7, 9));
        assert_eq!((runs.block_bytes, cache_bytes), (600, 70_000));
        options.cache_bytes = 0;
        assert_eq!(lsm_options(&options).cache_bytes, 0);
    }
}
