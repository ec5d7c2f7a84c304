//! The room of Log: writing MemTables out, and trimming the log, so that a full medium takes deletions.
//!
//! Invariants:
//! - Where a tuple has been inserted or changed, there is space for a run of all that the MemTables have,
//!   and of what deletions can add that find no room but what the log has set aside.
//!   There is also space for a tombstone of each entry, and for merging: `lsm/relief.rs`.
//! - When half of what the log has set aside is used, the MemTable is written out, which frees the log.

use pm::Environment;
use storage::lsm::LsmError;

use super::InLevels;
use crate::error::EngineError;
use crate::redo::LogOf;

impl<E: Environment> InLevels<E> {
    /// Sees to it that the MemTables can be written out with so many bytes of log more, and what
    /// deletions can add that find no other room.
    pub(super) fn make_room(&mut self, wal: &LogOf<E>, bytes: u64) -> Result<(), LsmError> {
        self.tree.make_room(bytes + wal.aside_bytes())
    }

    /// The same after space has been freed, as far as there is, and no more. Returns whether the MemTables
    /// can be written out. Where this fails, the next operation tries it.
    fn replenish(&mut self, wal: &LogOf<E>) -> bool {
        self.tree.replenish(wal.aside_bytes()).unwrap_or(false)
    }

    /// The partition has been opened. If there is no room for the run of what deletions can add, the
    /// MemTable is written out: for its run there is room, since what the log has was promised that. A
    /// crash may have used what was set aside for more.
    ///
    /// # Errors
    /// It failed so that the partition has to stop.
    pub(super) fn opened(&mut self, wal: &mut LogOf<E>) -> Result<(), EngineError> {
        let has_room = self.replenish(wal);
        self.tight = self.tree.is_tight(wal.aside_bytes());
        if has_room || self.tree.memtable().is_empty() {
            return Ok(());
        }
        match self.write_out(wal) {
            Err(error) if self.tree.is_poisoned() || wal.is_poisoned() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns whether the medium is full and there is something that writing the MemTable out would free:
    /// what is set aside in the log is half used, an operation was refused and something has been logged,
    /// or the MemTable is full.
    pub(super) fn is_urgent(&self, wal: &LogOf<E>) -> bool {
        let used = wal.used_bytes();
        let worth = self.wanted && used >= wal.aside_bytes() / 4;
        let full = self.tight && self.tree.is_full();
        used >= self.log_patience && (wal.lacks_room() || worth || full)
    }

    /// Writes the MemTable out, after which the log is empty. If the medium was full, deleted tuples go
    /// then.
    pub(super) fn write_out(&mut self, wal: &mut LogOf<E>) -> Result<(), EngineError> {
        self.freeze(wal)?;
        self.tree.make_way()?;
        self.trim_log(wal)?;
        if !self.tight {
            return Ok(());
        }
        match self.tree.relieve() {
            // What is left of the tuples takes more than there is.
            Err(error) if error.is_full() => {}
            done => done?,
        }
        self.replenish(wal);
        Ok(())
    }

    /// Sets the MemTable aside and goes on in a new one and in a new segment of the log.
    pub(super) fn freeze(&mut self, wal: &mut LogOf<E>) -> Result<(), EngineError> {
        self.tree.make_way()?;
        let log = wal.rotate().inspect_err(|_| self.failures += 1)?;
        self.tree.freeze(log);
        (self.patience, self.log_patience, self.wanted) = (0, 0, false);
        Ok(())
    }

    /// Removes the log that a flush has made superfluous.
    pub(super) fn trim_log(&mut self, wal: &mut LogOf<E>) -> Result<(), EngineError> {
        let first = self.tree.log_start().sequence;
        if wal.first_sequence() < first {
            wal.remove_before(first).inspect_err(|_| self.failures += 1)?;
            self.replenish(wal);
        }
        Ok(())
    }
}
