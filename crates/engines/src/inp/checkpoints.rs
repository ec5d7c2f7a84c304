//! The checkpoints of InP: when one is due, and how it goes on between transactions.

use index::Sorted;
use pm::{Component, Environment, Files, Memory, observe};
use storage::checkpoint::{self, CheckpointReader, CheckpointWriter};
use storage::{Catalog, Tables, WorkDone};

use super::room::{Change, Room};
use super::saving::Saving;
use super::{InpOptions, InpStats};
use crate::contract::Resources;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::Setup;
use crate::redo::{LogOf, Redo};
use crate::stats::EngineStats;

/// The least of a checkpoint that is worth a step.
const SAVING_STEP: u64 = 32 << 10;

/// The things that a checkpoint saves.
type Saved<'a, E> = (&'a Tables<<E as Environment>::Volatile, Sorted>, &'a Catalog);

/// Checkpoints in a row that kills may cut off before one is taken at once.
const MOST_CUT_OFF: u64 = 4;

/// The checkpoints of a partition.
#[derive(Debug)]
pub(super) struct Checkpoints<E: Environment> {
    files: E::Files,
    /// The beginning of their names.
    prefix: String,
    /// The least log that makes a checkpoint due.
    least_bytes: u64,
    /// Bytes of log that make the next one due.
    due_bytes: u64,
    /// [`crate::Engine::background`] is called.
    helped: bool,
    last_file_bytes: u64,
    /// Bytes of the last checkpoint's state, uncompressed.
    state_bytes: u64,
    /// The checkpoint that is being written, and what was logged since it began.
    saving: Option<Saving<E::Files>>,
    logged_since: u64,
    /// The space of the next one.
    room: Room<E::Files>,
    /// An operation found no room since the last one.
    wanted: bool,
    /// Bytes of log before which none is tried again for want of room.
    patience: u64,
    failures: u64,
    inline: WorkDone,
    background: WorkDone,
    stats: InpStats,
}

impl<E: Environment> Checkpoints<E> {
    /// The checkpoints of a partition that has none yet.
    pub(super) fn new(
        resources: &Resources<E>,
        (setup, options): (&Setup, &InpOptions),
    ) -> Result<Self, EngineError> {
        let files = resources.own_files()?;
        let prefix = format!("checkpoint-{}-", resources.partition);
        Ok(Self {
            room: Room::open(files.clone(), &prefix, options.wal_reserve_bytes)?,
            wanted: false,
            patience: 0,
            files,
            prefix,
            least_bytes: options.checkpoint_bytes,
            due_bytes: options.checkpoint_bytes,
            helped: setup.helped,
            last_file_bytes: 0,
            state_bytes: 0,
            saving: None,
            logged_since: 0,
            failures: 0,
            inline: WorkDone::default(),
            background: WorkDone::default(),
            stats: InpStats::default(),
        })
    }

    /// Opens the last one, if there is any.
    pub(super) fn open_latest(
        &self,
    ) -> Result<Option<CheckpointReader<<E::Files as Files>::File>>, EngineError> {
        Ok(checkpoint::open_latest(&self.files, &self.prefix)?)
    }

    /// The log grows by so many bytes.
    pub(super) fn logged(&mut self, bytes: u64) {
        self.logged_since += bytes;
    }

    /// The open transaction changes the state so.
    ///
    /// # Errors
    /// There is no space for a checkpoint of it; nothing has changed.
    pub(super) fn change(&mut self, change: Change) -> Result<(), EngineError> {
        Ok(self.room.change(change)?)
    }

    /// The open transaction has committed.
    pub(super) fn committed(&mut self) {
        self.room.committed();
    }

    /// A logged transaction has been done again, which changes the state so.
    pub(super) fn redone(&mut self, change: Change) {
        self.room.redone(change);
    }

    /// The partition has been opened, with the checkpoint of this number if there is one; its name is
    /// durable. Those before it, which a crash has left, go; the space of one is kept if the file with
    /// space for the next is missing. Where that fails, the next opening tries it.
    pub(super) fn opened(&mut self, sequence: u64) {
        let spare = self.room.spare();
        let missing = spare.file().is_none().then_some(spare.name());
        let _ = checkpoint::supersede(&self.files, &self.prefix, sequence, missing);
        self.room.opened();
    }

    /// The open transaction has been undone.
    pub(super) fn aborted(&mut self) {
        self.room.aborted();
    }

    /// The changes of the open transaction.
    pub(super) fn open_change(&self) -> Change {
        self.room.open_change()
    }

    /// An operation found no room: a checkpoint may make some. The open transaction has these changes,
    /// as before.
    pub(super) fn refused(&mut self, before: Change) {
        self.room.refused(before);
        self.wanted = true;
    }

    /// There is a checkpoint. The log may grow to the size of it: replaying it then takes about as
    /// long as loading that.
    pub(super) fn last(&mut self, file_bytes: u64, state_bytes: u64) {
        self.last_file_bytes = file_bytes;
        self.state_bytes = state_bytes;
        self.due_bytes = self.least_bytes.max(file_bytes);
        self.room.last(file_bytes, state_bytes);
        (self.wanted, self.patience) = (false, 0);
    }

    /// Begins a checkpoint; one that is under way is given up for it.
    fn begin(&mut self, wal: &mut LogOf<E>) -> Result<(), EngineError> {
        self.give_up();
        // With less space than it may need it may do, too.
        let reserved = self.room.provide();
        if self.room.spare().file().is_none() {
            reserved?;
        }
        let start = wal.rotate()?;
        let spare = self.room.spare();
        let writer = CheckpointWriter::create_in(&self.files, &self.prefix, start, spare);
        self.saving = Some(Saving::new(writer.inspect_err(|_| self.room.given_up())?));
        self.room.begin();
        self.logged_since = 0;
        Ok(())
    }

    /// Writes about `budget` bytes more of the checkpoint that is under way, and ends it with the
    /// last. Where that fails the checkpoint is given up. Returns what was done.
    fn save_some(
        &mut self,
        wal: &mut LogOf<E>,
        (tables, catalog): Saved<'_, E>,
        budget: u64,
    ) -> Result<WorkDone, EngineError> {
        let mut done = WorkDone::default();
        let Some(mut saving) = self.saving.take() else { return Ok(done) };
        let before = saving.writer.plain_bytes();
        let ended = saving.step(tables, catalog, budget);
        let ended = ended.inspect_err(|_| self.room.given_up())?;
        done.step(saving.writer.plain_bytes() - before);
        if !ended {
            self.saving = Some(saving);
            return Ok(done);
        }
        let (start, state_bytes) = (saving.writer.log_start(), saving.writer.plain_bytes());
        let finished = Self::finish(wal, saving).inspect_err(|_| self.room.given_up());
        let file_bytes = finished?;
        self.last(file_bytes, state_bytes);
        self.stats.checkpoints += 1;
        self.stats.checkpoint_bytes += file_bytes;
        wal.remove_before(start.sequence)?;
        self.room.replenish();
        Ok(done)
    }

    /// Lets a checkpoint that holds all count. Returns the bytes of its file.
    fn finish(wal: &mut LogOf<E>, saving: Saving<E::Files>) -> Result<u64, EngineError> {
        wal.flush()?;
        Ok(saving.writer.finish(wal.next_txn())?)
    }

    /// Begins a checkpoint that is due, and goes on with one that is under way. If the background
    /// helps, only where that is too slow.
    pub(super) fn keep_pace(
        &mut self,
        redo: &mut Redo<E>,
        saved: Saved<'_, E>,
    ) -> Result<(), EngineError> {
        let wal = &mut redo.log.wal;
        if self.is_urgent(wal) {
            observe!(E::Durable: redo.pool.hold(Some(Component::Recovery)));
            // One that is under way would leave the log since it began.
            let done = self.take(wal, saved);
            observe!(E::Durable: redo.pool.hold(None));
            return done;
        }
        let due = self.due_bytes.max(1);
        let Some(saving) = &self.saving else {
            let lead = if self.helped { due / 8 } else { 0 };
            if wal.used_bytes() < due.saturating_add(lead) {
                return Ok(());
            }
            // Each that a kill has cut off has left a segment of the log.
            let cut_off = wal.sequence() - wal.first_sequence();
            return if cut_off < MOST_CUT_OFF { self.begin(wal) } else { self.take(wal, saved) };
        };
        // All of the state in half of the log that makes a checkpoint due. Without an earlier
        // checkpoint the log says how much state there can be.
        let state = self.state_bytes.max(self.least_bytes);
        let wanted = u128::from(state) * u128::from(self.logged_since) * 2 / u128::from(due);
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let missing = wanted.saturating_sub(saving.writer.plain_bytes());
        let lead = if self.helped { state / 4 } else { SAVING_STEP.min(due / 16) };
        if missing >= lead {
            observe!(E::Durable: redo.pool.hold(Some(Component::Recovery)));
            let done = self.save_some(wal, saved, missing);
            observe!(E::Durable: redo.pool.hold(None));
            let done = done?;
            self.inline += done;
        }
        Ok(())
    }

    /// Returns whether the medium is full and the log has something that a checkpoint would free: what is
    /// set aside is half used, or an operation was refused and much has been logged.
    fn is_urgent(&self, wal: &LogOf<E>) -> bool {
        let used = wal.used_bytes();
        let worth = || used >= wal.aside_bytes() / 4 && used >= self.last_file_bytes / 8;
        used >= self.patience && (wal.lacks_room() || self.wanted && worth())
    }

    /// Takes one now. One that is under way would be of an earlier moment.
    pub(super) fn take(
        &mut self,
        wal: &mut LogOf<E>,
        saved: Saved<'_, E>,
    ) -> Result<(), EngineError> {
        self.begin(wal)?;
        let done = self.save_some(wal, saved, u64::MAX)?;
        self.inline += done;
        Ok(())
    }

    /// A step of a checkpoint, or the beginning of one that is due.
    pub(super) fn help(
        &mut self,
        wal: &mut LogOf<E>,
        saved: Saved<'_, E>,
        budget: u64,
    ) -> Result<(), EngineError> {
        if self.saving.is_none() && self.has_work(wal) {
            self.begin(wal)?;
        }
        let done = self.save_some(wal, saved, budget)?;
        self.background += done;
        Ok(())
    }

    /// A checkpoint failed: the log grows on, and it is tried again later.
    pub(super) fn put_off(&mut self, wal: &LogOf<E>) {
        self.failures += 1;
        self.due_bytes = wal.used_bytes() + self.due_bytes / 4;
        self.patience = wal.used_bytes() + wal.aside_bytes() / 8;
    }

    /// Gives up the one that is under way.
    pub(super) fn give_up(&mut self) {
        if self.saving.take().is_some() {
            self.room.given_up();
        }
    }

    /// Returns whether one is under way, or due.
    pub(super) fn has_work(&self, wal: &LogOf<E>) -> bool {
        self.saving.is_some() || wal.used_bytes() >= self.due_bytes.max(1)
    }

    /// Returns whether the log is far longer than what makes one due.
    pub(super) fn is_overdue(&self, wal: &LogOf<E>) -> bool {
        wal.used_bytes() > self.due_bytes.saturating_mul(2)
    }

    /// Bytes of state that a checkpoint has still to write, about.
    pub(super) fn waiting_bytes(&self, wal: &LogOf<E>) -> u64 {
        if !self.has_work(wal) {
            return 0;
        }
        let done = self.saving.as_ref().map_or(0, |saving| saving.writer.plain_bytes());
        // Before the first one the log says how much state there can be.
        let state = if self.state_bytes > 0 { self.state_bytes } else { wal.used_bytes() };
        state.saturating_sub(done).max(1)
    }

    /// Returns the bytes of the last checkpoint's file. The next checkpoint is another file until
    /// it counts.
    pub(super) fn file_bytes(&self) -> u64 {
        let next = self.saving.as_ref().map_or(0, |saving| saving.writer.file_bytes());
        self.last_file_bytes + next
    }

    /// Bytes that are set aside for the next one, and not used yet.
    pub(super) fn spare_bytes(&self) -> u64 {
        let next = self.saving.as_ref().map_or(0, |saving| saving.writer.file_bytes());
        self.room.bytes().saturating_sub(next)
    }

    /// Returns what has been done and put off.
    pub(super) fn stats(&self, wal: &LogOf<E>) -> EngineStats {
        EngineStats {
            failures: self.failures,
            waiting_bytes: self.waiting_bytes(wal),
            inline: self.inline,
            background: self.background,
            own: self.stats.into(),
            ..EngineKind::Inp.into()
        }
    }
}
