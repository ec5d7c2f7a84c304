//! The state that sessions of a partition share, and work that is put off: building indexes after
//! opening, and freeing rows of versions that no snapshot sees.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use column::{Collected, ColumnError, Form, Store, StructureState};
use pm::{Environment, Memory};
use storage::WorkDone;

use super::SofortStats;
use super::tables::ColumnTables;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::stats::{EngineStats, StructureStats};

/// Rows and values that a step puts into an index, in addition to the backlog of searches.
const STEP_ROWS: u64 = 512;
/// About the bytes of a row in an index.
const INDEXED_BYTES: u64 = 32;
/// Versions that are garbage before some are collected, so that their fences are shared.
const GARBAGE: usize = 64;
/// Versions that one step collects.
const TOGETHER: usize = 2 * GARBAGE;
/// Statements after which the uses of structures are noted: what a crash forgets of them is less
/// than that.
const NOTED_STATEMENTS: u64 = 4096;
/// Bytes of the entry of a statement.
const ENTRY_BYTES: u64 = 32;

/// Counts of work that was put off.
#[derive(Default, Debug)]
struct Steps {
    steps: AtomicU64,
    /// Rows and values that were looked at or freed.
    rows: AtomicU64,
}

impl Steps {
    fn add(&self, rows: u64) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    fn done(&self) -> WorkDone {
        WorkDone {
            steps: self.steps.load(Ordering::Relaxed),
            bytes: self.rows.load(Ordering::Relaxed) * INDEXED_BYTES,
        }
    }
}

/// The part of a partition that its sessions share.
#[derive(Debug)]
pub(super) struct Shared<E: Environment> {
    pub(super) store: Store<E::Durable>,
    pub(super) memory: E::Durable,
    pub(super) tables: Arc<ColumnTables>,
    pub(super) user_bytes: AtomicU64,
    pub(super) statements: AtomicU64,
    pub(super) commits: AtomicU64,
    in_flight: u64,
    /// Indexes are not built yet, or rows that are not in use are not found yet.
    unbuilt: AtomicBool,
    /// The number of versions that are, or will be, garbage at which some are collected; it rises
    /// while none of them can be.
    collect_at: AtomicUsize,
    /// An error of the collection after a commit or an abort, for the next transaction that begins.
    failed: Mutex<Option<ColumnError>>,
    freed: AtomicU64,
    /// Steps of building and collecting that transactions have done, and those of
    /// [`Shared::background`].
    inline: Steps,
    background: Steps,
    /// Statements at which the uses of structures are noted again.
    note_at: AtomicU64,
    stopped: OnceLock<String>,
}

impl<E: Environment> Shared<E> {
    pub(super) fn new(
        store: Store<E::Durable>,
        memory: E::Durable,
        tables: Arc<ColumnTables>,
        in_flight: u64,
    ) -> Self {
        Self {
            store,
            memory,
            tables,
            user_bytes: AtomicU64::new(0),
            statements: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            in_flight,
            unbuilt: AtomicBool::new(true),
            collect_at: AtomicUsize::new(GARBAGE),
            failed: Mutex::new(None),
            freed: AtomicU64::new(0),
            inline: Steps::default(),
            background: Steps::default(),
            note_at: AtomicU64::new(NOTED_STATEMENTS),
            stopped: OnceLock::new(),
        }
    }

    pub(super) fn usable(&self) -> Result<(), EngineError> {
        match self.stopped.get() {
            Some(why) => Err(EngineError::Stopped { why: why.clone() }),
            None => Ok(self.memory.healthy()?),
        }
    }

    /// Puts some rows or values into an index, if there are any that were there at opening, or
    /// looks for free rows; returns whether there may be more.
    fn build(&self, done: &Steps) -> Result<bool, EngineError> {
        if !self.unbuilt.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let more = self.store.rebuild(STEP_ROWS)?;
        if more {
            done.add(STEP_ROWS);
        }
        self.unbuilt.fetch_and(more, Ordering::Relaxed);
        Ok(more)
    }

    /// Builds the index entries that earlier searches missed.
    fn build_pending(&self) -> Result<(), EngineError> {
        if self.unbuilt.load(Ordering::Relaxed) {
            self.note_built(self.store.build_pending()?);
        }
        Ok(())
    }

    fn note_built(&self, indexed: u64) {
        if indexed > 0 {
            self.inline.add(indexed);
        }
    }

    /// Builds a part for a read, since there may be no writers: a step, and the backlog of earlier
    /// reads. Damage stops the building of its own structure only; reads of that structure, and
    /// transactions that begin, report it. If nothing else is left, this costs next to nothing.
    pub(super) fn build_for_read(&self) {
        if self.store.rebuild_sound(STEP_ROWS) {
            self.inline.add(STEP_ROWS);
        }
        self.note_built(self.store.build_pending_sound());
    }

    /// Builds the backlog of a scan, at its end: the next read may be of another kind, and short.
    pub(super) fn build_after_scan(&self) {
        self.note_built(self.store.build_pending_sound());
    }

    /// Does a bounded part of the deferred work: builds indexes that searches missed, notes at intervals which structures
    /// are used, and collects dead versions. A transaction that may write calls it when it begins.
    ///
    /// # Errors
    /// An earlier part failed, or there is damage.
    pub(super) fn upkeep(&self) -> Result<(), EngineError> {
        self.build(&self.inline)?;
        self.build_pending()?;
        let statements = self.statements.load(Ordering::Relaxed);
        if statements >= self.note_at.load(Ordering::Relaxed) {
            self.note_at.store(statements + NOTED_STATEMENTS, Ordering::Relaxed);
            self.store.note_uses();
        }
        if let Some(error) = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(error.into());
        }
        if self.has_garbage() {
            self.note_collected(self.store.collect(TOGETHER)?, &self.inline);
        }
        Ok(())
    }

    /// Collects the versions that a transaction of so many statements has left: the next ones to
    /// begin collect fewer. The transaction is over, so the next one returns an error.
    pub(super) fn collect_after(&self, statements: u64) {
        for _ in 0..statements / GARBAGE as u64 {
            if self.store.garbage() < GARBAGE {
                return;
            }
            match self.store.collect_in_turn(TOGETHER) {
                Ok(collected) => {
                    self.note_collected(collected, &self.inline);
                    if collected.is_empty() {
                        return;
                    }
                }
                Err(error) => {
                    *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
            }
        }
    }

    fn has_garbage(&self) -> bool {
        self.store.garbage() >= self.collect_at.load(Ordering::Relaxed)
    }

    /// Counts a step of the collection.
    fn note_collected(&self, collected: Collected, done: &Steps) {
        if !collected.is_empty() {
            done.add(collected.freed);
        }
        self.freed.fetch_add(collected.freed, Ordering::Relaxed);
        // While none can be collected, versions are not looked at again before as many more have
        // come.
        let blocked = if collected.is_empty() { self.store.garbage() } else { 0 };
        self.collect_at.store(blocked + GARBAGE, Ordering::Relaxed);
    }

    /// Does about `budget` bytes of the work that is put off.
    pub(super) fn background(&self, budget: u64) -> Result<u64, EngineError> {
        for _ in 0..(budget / (STEP_ROWS * INDEXED_BYTES)).max(1) {
            if !self.build(&self.background)? {
                break;
            }
        }
        let mut garbage = 0;
        for _ in 0..(budget / (TOGETHER as u64 * INDEXED_BYTES)).max(1) {
            let collected = self.store.collect_in_turn(TOGETHER)?;
            self.note_collected(collected, &self.background);
            garbage = if collected.is_empty() { 0 } else { self.store.garbage() as u64 };
            if garbage == 0 {
                break;
            }
        }
        let built = self.store.built();
        Ok((built.waiting + built.unswept + garbage) * INDEXED_BYTES)
    }

    pub(super) fn has_backlog(&self) -> bool {
        self.unbuilt.load(Ordering::Relaxed) || self.has_garbage()
    }

    pub(super) fn structures(&self) -> Vec<StructureStats> {
        let name = |state: StructureState| {
            let StructureState { structure, form, waiting, built, uses } = state;
            let durable = form != Form::Ordinary;
            let name = self.tables.structure_name(structure);
            StructureStats { name, durable, waiting, built, uses }
        };
        self.store.structures().into_iter().map(name).collect()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    pub(super) fn stats(&self) -> EngineStats {
        let (built, statements) = (self.store.built(), self.statements.load(Ordering::Relaxed));
        let scanned = self.store.scanned();
        let own = SofortStats {
            commits: self.commits.load(Ordering::Relaxed),
            statements,
            in_flight: self.in_flight,
            built: built.built,
            unbuilt: built.waiting,
            unswept: built.unswept,
            garbage: self.store.garbage() as u64,
            freed: self.freed.load(Ordering::Relaxed),
            scanned: scanned.entries,
            unseen: scanned.unseen,
            versions: scanned.versions,
        };
        EngineStats {
            user_bytes: self.user_bytes.load(Ordering::Relaxed),
            logged_bytes: statements * ENTRY_BYTES,
            waiting_bytes: (built.waiting + built.unswept) * INDEXED_BYTES,
            inline: self.inline.done(),
            background: self.background.done(),
            own: own.into(),
            ..EngineStats::from(EngineKind::Sofort)
        }
    }

    /// Stops the partition after an error that leaves unknown what is durable.
    pub(super) fn stop(&self, error: impl Into<EngineError>) -> EngineError {
        let error = error.into();
        let _ = self.stopped.set(error.to_string());
        error
    }
}
