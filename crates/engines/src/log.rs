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
mod stats;

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use heap::{Heap, HeapOptions, Lane, Purpose};
use pm::{Component, Environment, Files, Memory, Range, observe};
use storage::lsm::LsmError;
use storage::lsm::levels::LevelPolicy;
use storage::lsm::sstable::SsOptions;
use storage::lsm::tree::{LsmOptions, LsmTree, TREE_LANES, volatile_bytes};
use storage::lsm::trees::Trees;
use storage::operation::{self, Operation, Operations};
use storage::wal::{LogStart, Wal};
use storage::{Catalog, Row, Value, WorkDone, user_bytes};

use crate::contract::{
    Early, Engine, Footprint, Method, Read, RecoveryReport, Resources, Scan, Syncer, Write,
};
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::redo_log::{RedoLog, wal_options, wal_prefix};
use crate::state::State;
use crate::stats::EngineStats;
use crate::traits::{DurableIn, EngineTraits};

pub use options::LogOptions;
pub use stats::LogStats;

/// A partition of Log; see the module's comment.
#[derive(Debug)]
pub struct Log<E: Environment> {
    tree: LsmTree<E::Files, E::Volatile>,
    log: RedoLog<E::Files, E::Volatile>,
    heap: Heap<E::Volatile>,
    /// Keeps the log's buffer.
    _buffer: Lane<E::Volatile>,
    /// The pool, which holds only the description: asked whether it, and with it this process, is
    /// still good.
    pool: E::Durable,
    /// The load of the MemTable before which freezing it is not tried again.
    patience: u64,
    /// Times that the log could not go on in a new segment, or be trimmed; the tree counts its own.
    failures: u64,
    user_bytes: u64,
    background: WorkDone,
    before: Row,
    columns: Vec<u16>,
    state: State,
}

thread_local! {
    /// The row in which `get_bytes` puts a tuple together.
    static TUPLE: RefCell<Row> = RefCell::new(Row::new());
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

    fn assemble(
        self,
        resources: &Resources<E>,
        tree: LsmTree<E::Files, E::Volatile>,
        wal: Wal<E::Files, E::Volatile>,
    ) -> Log<E> {
        Log {
            tree,
            log: RedoLog::new(wal),
            heap: self.heap,
            _buffer: self.buffer,
            pool: resources.durable.memory().clone(),
            patience: 0,
            failures: 0,
            user_bytes: 0,
            background: WorkDone::default(),
            before: Row::new(),
            columns: Vec::new(),
            state: State::default(),
        }
    }
}

impl<E: Environment> Log<E> {
    /// Does an operation in the MemTable and logs what the log has encoded. The log counts when
    /// the transaction commits, so the order of the two is free; this way a full memory does not
    /// leave an entry in the log that nothing belongs to.
    fn change(
        &mut self,
        change: impl FnOnce(&mut LsmTree<E::Files, E::Volatile>) -> Result<(), LsmError>,
    ) -> Result<(), EngineError> {
        let mark = self.tree.memtable().mark();
        change(&mut self.tree)?;
        self.tree.logged(self.log.operation.len() as u64);
        let logged = self.log.put(&mut self.state);
        if logged.is_err()
            && let Err(error) = self.tree.memtable().undo_to(mark)
        {
            return self.state.stop(error);
        }
        logged
    }

    /// Sets the MemTable aside and goes on in a new one and in a new segment of the log.
    fn freeze(&mut self) -> Result<(), EngineError> {
        self.tree.make_way()?;
        let log = self.log.wal.rotate().inspect_err(|_| self.failures += 1)?;
        self.tree.freeze(log);
        self.patience = 0;
        Ok(())
    }

    /// Removes the log that a flush has made superfluous.
    fn trim_log(&mut self) -> Result<(), EngineError> {
        let first = self.tree.log_start().sequence;
        if self.log.wal.first_sequence() < first {
            self.log.wal.remove_before(first).inspect_err(|_| self.failures += 1)?;
        }
        Ok(())
    }

    /// Freezes a full MemTable after a commit, and does a step of what was put off. The transaction
    /// is committed whatever becomes of it. What fails is tried again later, unless the partition
    /// has to stop.
    fn house_keeping(&mut self) {
        let mut done = Ok(());
        if self.tree.is_full() && self.tree.load() >= self.patience {
            done = self.freeze();
            if done.is_err() {
                self.patience = self.tree.load() / 8 * 9;
            }
        }
        observe!(E::Durable: self.pool.hold(Some(Component::Storage)));
        let paced = self.tree.pace();
        observe!(E::Durable: self.pool.hold(None));
        let paced = paced.map_err(EngineError::from).and_then(|()| self.trim_log());
        if self.tree.is_poisoned() || self.log.wal.is_poisoned() {
            let error = done.and(paced).err().unwrap_or(LsmError::Poisoned.into());
            self.state.stop_after(&error);
        }
    }
}

impl<E: Environment> Method<E> for Log<E> {
    const KIND: EngineKind = EngineKind::Log;
    const TRAITS: EngineTraits = EngineTraits::serial(DurableIn::Files, false, true);
    const GROUPS_COMMITS: bool = true;
    type Options = LogOptions;

    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &LogOptions,
    ) -> Result<Self, EngineError> {
        let parts = Parts::new(&resources, catalog, (setup, options))?;
        let start = LogStart { sequence: 0, txn: 1 };
        let tree = LsmTree::create(
            parts.files.clone(),
            resources.partition,
            &parts.heap,
            parts.trees.clone(),
            lsm_options(options),
            start,
        )?;
        let wal = Wal::create(
            parts.files.clone(),
            &wal_prefix(resources.partition),
            start,
            resources.volatile.clone(),
            parts.range,
            wal_options(setup, resources.partition, options.wal_reserve_bytes),
        )?;
        Ok(parts.assemble(&resources, tree, wal))
    }

    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &LogOptions,
    ) -> Result<(Self, RecoveryReport), EngineError> {
        let parts = Parts::new(&resources, catalog, (setup, options))?;
        let mut tree = LsmTree::open(
            parts.files.clone(),
            resources.partition,
            &parts.heap,
            parts.trees.clone(),
            lsm_options(options),
        )?;
        let mut before = Row::new();
        let (wal, report) = Wal::recover(
            parts.files.clone(),
            &wal_prefix(resources.partition),
            tree.log_start(),
            resources.volatile.clone(),
            parts.range,
            wal_options(setup, resources.partition, options.wal_reserve_bytes),
            |_, payload: &[u8]| redo(&mut tree, catalog, payload, &mut before),
        )?;
        // Only now: what is missing was found, and nothing has been removed yet.
        tree.finish_open()?;
        tree.logged(report.bytes);
        let log = parts.assemble(&resources, tree, wal);
        Ok((log, RecoveryReport { redone: report.records, ..RecoveryReport::default() }))
    }
}

impl<E: Environment> Write for Log<E> {
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        let key = self.tree.check_insert(table, values)?;
        operation::insert(&mut self.log.operation, table, values);
        self.change(|tree| tree.insert(table, &key, values))?;
        self.user_bytes += user_bytes(values.iter());
        Ok(())
    }

    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        let tuple = self.tree.key(table, key)?;
        let primary = self.tree.trees().tree(table, 0);
        self.columns.clear();
        let wrong = self.tree.check_changes(table, changes);
        let mut indexed = false;
        if wrong.is_ok() {
            indexed = self.tree.changes_index(table, changes);
            self.columns.extend(changes.iter().map(|(column, _)| *column));
        }
        // Where an index changes, its old keys need other columns too.
        let columns = (!indexed).then_some(&self.columns[..]);
        if !self.tree.read(primary, &tuple, columns, &mut self.before)? {
            return Err(self.tree.missing(table).into());
        }
        wrong?;
        if changes.is_empty() {
            return Ok(());
        }
        let before = std::mem::take(&mut self.before);
        let old = changes.iter().enumerate().map(|(index, (column, value))| {
            let at = if indexed { usize::from(*column) } else { index };
            (*column, before.get(at), *value)
        });
        operation::update(&mut self.log.operation, table, key, old);
        let done =
            self.change(|tree| tree.update(table, &tuple, changes, indexed.then_some(&before)));
        self.before = before;
        done?;
        self.user_bytes += user_bytes(changes.iter().map(|(_, value)| value));
        Ok(())
    }

    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        let tuple = self.tree.key(table, key)?;
        let primary = self.tree.trees().tree(table, 0);
        if !self.tree.read(primary, &tuple, None, &mut self.before)? {
            return Err(self.tree.missing(table).into());
        }
        let before = std::mem::take(&mut self.before);
        operation::delete(&mut self.log.operation, table, key, before.values());
        let value = |column: u16| before.get(usize::from(column));
        let done = self.change(|tree| tree.delete(table, &tuple, value));
        self.before = before;
        done
    }
}

impl<E: Environment> Read for Log<E> {
    #[inline]
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.state.usable(&self.pool)?;
        let key = self.tree.key(table, key)?;
        Ok(self.tree.read(self.tree.trees().tree(table, 0), &key, columns, row)?)
    }

    #[inline]
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        TUPLE.with_borrow_mut(|row| {
            if !self.get(table, key, Some(columns), row)? {
                return Ok(None);
            }
            let bytes: u64 = row.values().map(|value| value.user_bytes()).sum();
            let bytes = bytes as usize;
            if bytes <= out.len() {
                row.copy_bytes(out);
            }
            Ok(Some(bytes))
        })
    }

    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        let Scan { index, low, high, direction, columns } = *scan;
        Ok(self.tree.scan(table, index, low, high, direction, columns, row, visit)?)
    }
}

impl<E: Environment> Engine for Log<E> {
    fn commit(&mut self) -> Result<(u64, bool), EngineError> {
        self.state.usable(&self.pool)?;
        if !self.log.is_open() {
            return Ok(self.log.last());
        }
        self.log.commit(&mut self.state)?;
        self.tree.memtable().commit();
        self.house_keeping();
        Ok(self.log.last())
    }

    fn commit_early(&mut self) -> Result<Early, EngineError> {
        self.state.usable(&self.pool)?;
        if self.log.is_open() {
            self.log.commit_early(&mut self.state)?;
            self.tree.memtable().commit();
            self.house_keeping();
        }
        Ok(self.log.early())
    }

    fn syncer(&self) -> Option<Arc<dyn Syncer>> {
        Some(self.log.syncer())
    }

    fn abort(&mut self) -> Result<(), EngineError> {
        self.state.abort();
        self.state.usable(&self.pool)?;
        if let Err(error) = self.tree.memtable().abort() {
            return self.state.stop(error);
        }
        self.log.discard(&mut self.state)
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        self.log.sync(&mut self.state)
    }

    fn durable(&self) -> u64 {
        self.log.durable()
    }

    /// Writes the MemTable out, after which the log is empty.
    fn checkpoint(&mut self) -> Result<(), EngineError> {
        self.state.usable(&self.pool)?;
        assert!(!self.log.is_open(), "a checkpoint is taken between transactions");
        let done = self.freeze().and_then(|()| Ok(self.tree.make_way()?));
        let done = done.and_then(|()| self.trim_log());
        if self.tree.is_poisoned() || self.log.wal.is_poisoned() {
            return self.state.stop(done.err().unwrap_or(LsmError::Poisoned.into()));
        }
        done
    }

    fn background(&mut self, budget: u64) -> Result<u64, EngineError> {
        self.state.usable(&self.pool)?;
        let before = self.tree.stats().done;
        let waiting = self.tree.work(budget).map_err(EngineError::from);
        self.background += self.tree.stats().done - before;
        let done = waiting.and_then(|waiting| self.trim_log().map(|()| waiting));
        if self.tree.is_poisoned() {
            return self.state.stop(done.err().unwrap_or(LsmError::Poisoned.into()));
        }
        done
    }

    fn has_backlog(&self) -> bool {
        self.tree.has_work()
    }

    fn is_stopped(&self) -> bool {
        self.state.is_stopped()
    }

    /// Steps that a crash cuts off again and again would let the log grow without bound.
    fn catch_up(&mut self) -> Result<bool, EngineError> {
        if !self.tree.is_full() {
            return Ok(false);
        }
        match self.checkpoint() {
            Err(error) if self.state.is_stopped() => Err(error),
            // A commit tries again.
            _ => Ok(true),
        }
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.abort()?;
        self.sync()?;
        self.log.wal.close()?;
        Ok(self.tree.abandon_work()?)
    }

    fn footprint(&self) -> Result<Footprint, EngineError> {
        let (entries, trees, other) = volatile_bytes(&self.heap)?;
        let (data, index) = self.tree.run_bytes();
        Ok(Footprint {
            table: entries + data,
            index: trees + index,
            log: self.log.wal.bytes(),
            other: other + self.tree.manifest_bytes(),
            ..Footprint::default()
        })
    }

    fn stats(&self) -> EngineStats {
        let stats = self.tree.stats();
        EngineStats {
            user_bytes: self.user_bytes,
            logged_bytes: self.log.wal.logged_bytes(),
            failures: stats.failures + self.failures,
            waiting_bytes: stats.waiting_bytes,
            inline: stats.done - self.background,
            background: self.background,
            own: LogStats::from(&stats).into(),
        }
    }

    fn check(&self, _: &mut dyn FnMut(u64)) -> Result<u64, EngineError> {
        self.tree.check()?;
        Ok(self.tree.check_tables()?)
    }
}

/// Does a logged transaction again. The log is whole and holds committed work only, so nothing is
/// checked that was checked before it was logged.
fn redo<F: Files, M: Memory>(
    tree: &mut LsmTree<F, M>,
    catalog: &Catalog,
    payload: &[u8],
    before: &mut Row,
) -> Result<(), EngineError> {
    for operation in Operations::new(catalog, payload) {
        match operation? {
            (table, Operation::Insert { values }) => {
                let key = tree.key_of_tuple(table, &values);
                tree.insert(table, &key, &values)?;
            }
            (table, Operation::Update { key, changes }) => {
                let key = tree.key(table, &key)?;
                let indexed = tree.changes_index(table, &changes);
                let primary = tree.trees().tree(table, 0);
                if indexed && !tree.read(primary, &key, None, before)? {
                    return Err(tree.missing(table).into());
                }
                tree.update(table, &key, &changes, indexed.then_some(&*before))?;
            }
            (table, Operation::Delete { key, before }) => {
                let key = tree.key(table, &key)?;
                tree.delete(table, &key, |column| before[usize::from(column)])?;
            }
        }
    }
    tree.memtable().commit();
    Ok(())
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
