//! A mapped database file in SQLite's WAL mode.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::database::contract::{Failure, IndexLock, Level};
use crate::database::mapped::Mapped;
use crate::database::parameters::Wal;
use crate::database::waiting::note_busy;
use crate::database::wal::Database;
use crate::store::page1;
use crate::store::stats::Stats;
use crate::store::wal_index::REGION_BYTES;
use crate::store::write_queue::WRITE_LOCK;

impl Mapped {
    /// Enters WAL mode if the database or another connection is in it, so that no dead connection's locks are taken for
    /// this one's. Returns false if stock SQLite uses the log. The caller holds the open-close lock.
    pub(super) fn join_wal_mode(&mut self) -> Result<bool, Failure> {
        let joins = self.wal.is_allowed()
            && (page1::is_in_wal_mode(&self.header()?) || self.wal.others_are_in_wal_mode()?);
        if joins { self.wal.join(true) } else { Ok(true) }
    }

    /// The database in WAL mode, if the log is open. After its end the store sees what checkpoints wrote.
    #[inline]
    pub(super) fn in_wal(&mut self) -> Result<Option<&mut Database>, Failure> {
        if !self.wal.is_log_open() {
            if self.in_wal.take().is_some() {
                self.looked = None;
                self.refresh_view()?;
            }
        } else if self.in_wal.is_none() {
            self.in_wal = Database::of(&self.wal, &self.path)?;
        }
        Ok(self.in_wal.as_mut())
    }

    /// Returns whether a commit has entered WAL mode, and the file is not plain yet.
    pub(super) fn enters_wal_mode(&self) -> Result<bool, Failure> {
        Ok(self.store.is_marked() && self.store.is_in_wal_mode()?)
    }

    /// The value of `perdura_wal`, as far as other connections leave the choice.
    pub(super) fn wal_in_use(&self) -> Wal {
        match self.wal_choice {
            _ if !self.wal.is_allowed() => Wal::Off,
            _ if self.wal.commits().is_some() => Wal::Diff,
            choice => choice,
        }
    }

    /// Tries again to make the file plain after a commit that has entered WAL mode, in a connection that keeps the
    /// exclusive lock: no end of a read or a write does it there. SQLite reads its cached page 1 and opens the log at each
    /// statement, and makes no other call.
    pub(super) fn retry_entering_wal_mode(&mut self) -> Result<(), Failure> {
        if self.plain_retry.due
            && self.held() == Level::Exclusive
            && !self.store.has_changes()
            && self.enters_wal_mode()?
        {
            self.readmit_stock();
        }
        Ok(())
    }

    /// Raises the shared lock to the exclusive one while the log is open. SQLite does not lower the lock of a refused
    /// connection then, so that one keeps no newcomer out.
    pub(super) fn lock_exclusive_in_wal_mode(&mut self) -> Result<(), Failure> {
        self.own_lock.lock_exclusive_or_stay()?;
        // If the side file has just failed, others do not see the lock.
        let mut locked = self.store.healthy().map_err(Failure::from);
        if locked.is_ok() && self.stock_lock.level() > Level::None {
            locked = self.stock_lock.lock(Level::Exclusive);
        }
        if let Err(failure) = locked {
            let lowered = self.stock_lock.unlock(Level::Shared);
            self.own_lock.unlock(Level::Shared);
            return lowered.and(Err(failure));
        }
        self.wal.set_exclusive(true);
        Ok(())
    }

    /// The counters of the connection.
    pub(super) fn stats(&self) -> Stats {
        let (mut stats, wal) = (self.store.stats(), &self.wal.counters);
        stats.commits += wal.commits.load(Ordering::Relaxed);
        stats.bytes += wal.bytes.load(Ordering::Relaxed);
        stats.lines += wal.lines.load(Ordering::Relaxed);
        stats.fences += wal.fences.load(Ordering::Relaxed);
        stats.wal_frames = wal.frames.load(Ordering::Relaxed);
        stats.fetched += self.fetched_total;
        stats
    }

    /// The address of a region of the index.
    pub(super) fn map_log_index(
        &mut self,
        region: u64,
        bytes: u64,
        create: bool,
    ) -> Result<Option<*const u8>, Failure> {
        self.store.healthy()?;
        if bytes != REGION_BYTES {
            return Err(Failure::Io(format!("an index in regions of {bytes} bytes")));
        }
        // A log that a VFS on top of this one opened is another one's.
        let Some(index) = self.wal.index().filter(|_| self.wal.is_log_open()) else {
            return Err(Failure::CannotOpen("the index of a log that is not open".into()));
        };
        if self.index_locks.is_none() {
            self.index_locks = self.wal.take_locks();
        }
        index.region(region, create)
    }

    /// Takes or gives up locks of the log. They are given up even if the medium of the index or of the side file has
    /// failed: others would wait for this connection as long as it lives. A connection that has given up its slot counts as
    /// dead, and its locks may be another one's.
    pub(super) fn lock_log_index(&mut self, asked: IndexLock) -> Result<(), Failure> {
        let IndexLock { first, count, shared, take } = asked;
        let is_write_lock = !shared && first == WRITE_LOCK;
        if is_write_lock && !take {
            if let Some(commits) = self.wal.commits() {
                // SQLite gives up the lock in any case. The next connection that writes logs what this one did not.
                let _ = commits.end_writing();
            }
            self.wal.set_writes(false);
        }
        if take || !self.own_lock.has_slot() {
            self.index_is_healthy()?;
        }
        let Some(locks) = &mut self.index_locks else {
            return Err(Failure::Io("locks of a log that is not open".into()));
        };
        let taken = match (shared, take) {
            (true, true) => locks.lock_shared(first),
            (false, true) => locks.lock_exclusive(first, count),
            (true, false) => {
                locks.unlock_shared(first);
                true
            }
            (false, false) => {
                locks.unlock_exclusive(first, count);
                true
            }
        };
        if !taken {
            if is_write_lock && let Some(wish) = locks.wish() {
                let lock = Arc::downgrade(&self.wal);
                note_busy(lock, locks.place(), wish);
            }
            return Err(Failure::Busy);
        }
        if is_write_lock && take {
            self.wal.set_writes(true);
        }
        if take && let Err(failure) = self.index_is_healthy() {
            // The word was stored in vain.
            let _ = self.lock_log_index(IndexLock { take: false, ..asked });
            return Err(failure);
        }
        Ok(())
    }

    /// Returns an error if others do not see the locks of the log.
    fn index_is_healthy(&self) -> Result<(), Failure> {
        match &self.in_wal {
            Some(database) => database.healthy(),
            None => Ok(self.store.healthy()?),
        }
    }

    /// Ends the use of the index, and leaves WAL mode.
    pub(super) fn unmap_log_index(&mut self, remove: bool) -> Result<(), Failure> {
        let Some(mut locks) = self.index_locks.take() else { return Ok(()) };
        self.store.healthy()?;
        locks.unlock_all();
        self.wal.leave(remove)
    }

    /// Leaves WAL mode at the close of a connection whose log was never opened.
    pub(super) fn leave_unused_wal_mode(&mut self) -> Result<(), Failure> {
        if self.wal.index().is_none() {
            return Ok(());
        }
        // The index file is removed only while stock SQLite cannot just have opened it.
        let alone = self.stock_lock.lock(Level::Exclusive).is_ok();
        if !alone {
            // The rest waits for others that open and close the file, and must keep no newcomer out meanwhile.
            self.stock_lock.unlock(Level::None)?;
        }
        self.wal.leave(alone)
    }
}
