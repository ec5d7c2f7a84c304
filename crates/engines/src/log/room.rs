//! The room of Log: writing MemTables out, and trimming the log, so that a full medium takes deletions.
//!
//! Invariants:
//! - Where a tuple has been inserted or changed, there is space for a run of all that the MemTables have,
//!   and of what deletions can add that find no room but what the log has set aside.
//! - When half of that is used, the MemTable is written out, which frees the log.

use pm::Environment;
use storage::lsm::LsmError;

use super::InLevels;
use crate::error::EngineError;
use crate::redo::LogOf;

impl<E: Environment> InLevels<E> {
    /// Sees to it that the MemTables can be written out with so many bytes of log more, and what
    /// deletions can add that find no other room.
    pub(super) fn make_room(&mut self, wal: &LogOf<E>, bytes: u64) -> Result<(), LsmError> {
        self.tree.make_room(bytes + wal.aside_bytes(), true)
    }

    /// The same after space has been freed, and no more. Where this fails, the next operation tries it.
    fn replenish(&mut self, wal: &LogOf<E>) -> Result<(), LsmError> {
        self.tree.make_room(wal.aside_bytes(), false)
    }

    /// The partition has been opened. If there is no room for the run of what deletions can add, the
    /// MemTable is written out: for its run there is room, since what the log has was promised that. A
    /// crash may have used what was set aside for more.
    ///
    /// # Errors
    /// It failed so that the partition has to stop.
    pub(super) fn opened(&mut self, wal: &mut LogOf<E>) -> Result<(), EngineError> {
        if self.replenish(wal).is_ok() || self.tree.memtable().is_empty() {
            return Ok(());
        }
        self.tight = true;
        match self.write_out(wal) {
            Err(error) if self.tree.is_poisoned() || wal.is_poisoned() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns whether the medium is full and the log has something that writing the MemTable out would
    /// free: what is set aside is half used, or an operation was refused and something has been logged.
    pub(super) fn is_urgent(&self, wal: &LogOf<E>) -> bool {
        let used = wal.used_bytes();
        let worth = self.wanted && used >= wal.aside_bytes() / 4;
        used >= self.log_patience && (wal.lacks_room() || worth)
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
            Ok(relieved) => self.tight = !relieved,
            // What is left of the tuples takes more than there is.
            Err(error) if error.is_full() => {}
            Err(error) => return Err(error.into()),
        }
        let _ = self.replenish(wal);
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
            let _ = self.replenish(wal);
        }
        Ok(())
    }
}
