//! Work that NVM-Log puts off, and room on a full pool.

use pm::{Component, Environment, Memory, observe};
use storage::Value;

use super::InRuns;
use crate::error::EngineError;
use crate::undo::Undo;

impl<E: Environment> InRuns<E> {
    /// Freezes a MemTable that is large enough, after a commit, and does the work that the
    /// transaction pays for.
    #[inline]
    pub(super) fn put_off_work(&mut self, undo: &mut Undo<E::Durable>) -> Result<(), EngineError> {
        self.runs.tables.tidy_indexes()?;
        let grown = self.runs.memtable_use().0.saturating_sub(self.committed_use.0);
        if self.runs.is_full() && grown > 0 {
            undo.superseded.clear_all(&mut self.runs.tables.lane, &undo.memory)?;
            if self.runs.freeze(&undo.log.end([0, 0]))? {
                undo.log.ended();
                undo.superseded.release(&mut self.runs.tables.lane);
            }
        }
        self.committed_use = self.runs.memtable_use();
        if self.runs.is_tight() {
            return self.relieve();
        }
        // The background does the work, unless it is too slow.
        if self.helped && !self.runs.is_behind() {
            return Ok(());
        }
        observe!(E::Durable: undo.memory.hold(Some(Component::Storage)));
        let worked = self.runs.work_for(grown);
        observe!(E::Durable: undo.memory.hold(None));
        Ok(worked?)
    }

    /// Takes away what a transaction has deleted on a full pool, once it is over.
    #[cold]
    pub(super) fn relieve(&mut self) -> Result<(), EngineError> {
        let relieved = self.runs.relieve_after_commit();
        self.committed_use = self.runs.memtable_use();
        Ok(relieved?)
    }

    /// An operation has found no room. Before the first of a transaction some is made, and it is
    /// tried once more.
    #[cold]
    pub(super) fn try_again(
        &mut self,
        undo: &mut Undo<E::Durable>,
        full: EngineError,
        act: impl FnOnce(&mut Self, &mut Undo<E::Durable>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        self.runs.tighten();
        if !undo.log.is_empty() {
            return Err(full);
        }
        if let Err(error) = self.runs.relieve_now() {
            return undo.state.stop(error);
        }
        self.committed_use = self.runs.memtable_use();
        undo.usable()?;
        act(self, undo)
    }

    /// A delete has found no room: nodes are kept back for it.
    #[cold]
    pub(super) fn delete_with_kept(
        &mut self,
        undo: &mut Undo<E::Durable>,
        full: EngineError,
        table: u16,
        key: &[Value<'_>],
    ) -> Result<(), EngineError> {
        let without = |this: &mut Self, undo: &mut Undo<E::Durable>| {
            this.runs.tables.lane.use_kept(true);
            let done = this.try_delete(undo, table, key);
            this.runs.tables.lane.use_kept(false);
            done
        };
        if !undo.log.is_empty() {
            self.runs.tighten();
            return without(self, undo);
        }
        self.try_again(undo, full, without)
    }
}
