//! Checkpoints in steps, between transactions.

use pm::{Component, Environment, Memory, observe};
use storage::WorkDone;
use storage::checkpoint::CheckpointWriter;

use super::saving::Saving;
use super::{Inp, checkpoint_prefix};
use crate::contract::Engine;
use crate::error::EngineError;

/// The least of a checkpoint that is worth a step.
const SAVING_STEP: u64 = 32 << 10;

impl<E: Environment> Inp<E> {
    /// Begins a checkpoint; one that is under way is given up for it.
    pub(super) fn begin_checkpoint(&mut self) -> Result<(), EngineError> {
        let start = self.log.wal.rotate()?;
        let prefix = checkpoint_prefix(self.partition);
        let writer = CheckpointWriter::create(&self.files, &prefix, start)?;
        self.saving = Some(Saving::new(writer));
        self.logged_since = 0;
        Ok(())
    }

    /// Writes about `budget` bytes more of the checkpoint that is under way, and ends it with the
    /// last. Where that fails the checkpoint is given up. Returns what was done.
    pub(super) fn save_some(&mut self, budget: u64) -> Result<WorkDone, EngineError> {
        let mut done = WorkDone::default();
        let Some(mut saving) = self.saving.take() else { return Ok(done) };
        let before = saving.writer.plain_bytes();
        let ended = saving.step(&self.tables, &self.catalog, budget)?;
        done.step(saving.writer.plain_bytes() - before);
        if !ended {
            self.saving = Some(saving);
            return Ok(done);
        }
        self.log.wal.flush()?;
        let (start, state_bytes) = (saving.writer.log_start(), saving.writer.plain_bytes());
        let file_bytes = saving.writer.finish(self.log.wal.next_txn())?;
        self.last_checkpoint(file_bytes, state_bytes);
        self.stats.checkpoints += 1;
        self.stats.checkpoint_bytes += file_bytes;
        self.log.wal.remove_before(start.sequence)?;
        Ok(done)
    }

    /// The log may grow to the size of a checkpoint: replaying it then takes about as long as
    /// loading that.
    pub(super) fn last_checkpoint(&mut self, file_bytes: u64, state_bytes: u64) {
        self.checkpoint_file_bytes = file_bytes;
        self.state_bytes = state_bytes;
        self.due_bytes = self.checkpoint_bytes.max(file_bytes);
    }

    /// Begins a checkpoint that is due, and goes on with one that is under way. With somebody who
    /// helps, only where that falls behind.
    pub(super) fn keep_pace(&mut self) -> Result<(), EngineError> {
        let due = self.due_bytes.max(1);
        let Some(saving) = &self.saving else {
            let lead = if self.helped { due / 8 } else { 0 };
            let wait = self.log.wal.used_bytes() < due.saturating_add(lead);
            return if wait { Ok(()) } else { self.begin_checkpoint() };
        };
        // All of the state in half of the log that makes a checkpoint due. Without an earlier
        // checkpoint the log says how much state there can be.
        let state = self.state_bytes.max(self.checkpoint_bytes);
        let wanted = u128::from(state) * u128::from(self.logged_since) * 2 / u128::from(due);
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let behind = wanted.saturating_sub(saving.writer.plain_bytes());
        let lead = if self.helped { state / 4 } else { SAVING_STEP.min(due / 16) };
        if behind >= lead {
            observe!(E::Durable: self.pool.hold(Some(Component::Recovery)));
            let done = self.save_some(behind);
            observe!(E::Durable: self.pool.hold(None));
            let done = done?;
            self.inline += done;
        }
        Ok(())
    }

    /// A checkpoint failed: the log grows on, and it is tried again later.
    pub(super) fn put_checkpoint_off(&mut self) {
        self.failures += 1;
        self.due_bytes = self.log.wal.used_bytes() + self.due_bytes / 4;
    }

    /// A step of a checkpoint, or the beginning of one that is due.
    pub(super) fn help(&mut self, budget: u64) -> Result<(), EngineError> {
        if self.saving.is_none() && self.has_backlog() {
            self.begin_checkpoint()?;
        }
        let done = self.save_some(budget)?;
        self.background += done;
        Ok(())
    }

    /// Bytes of state that a checkpoint has still to write, about.
    pub(super) fn waiting_bytes(&self) -> u64 {
        if !self.has_backlog() {
            return 0;
        }
        let done = self.saving.as_ref().map_or(0, |saving| saving.writer.plain_bytes());
        // Before the first one the log says how much state there can be.
        let state = if self.state_bytes > 0 { self.state_bytes } else { self.log.wal.used_bytes() };
        state.saturating_sub(done).max(1)
    }
}
