//! SQLite's calls of a mapped database file.

use std::sync::Arc;

use pm::Domain;

use crate::database::contract::{
    Failure, IndexLock, Level, LogOpener, MainFile, SuperJournalNotice,
};
use crate::database::mapped::Mapped;
use crate::database::parameters::{Share, is_no, no_mode};
use crate::database::placeholder_journal::{decide, decide_durably};
use crate::database::waiting::forget_busy;
use crate::database::wal::{Database, WalOpener};
use crate::store::mode::Mode;
use crate::store::verdict::Verdict;

impl Mapped {
    /// Returns whether a transaction has begun to write.
    fn has_begun_writing(&self) -> bool {
        // In exclusive mode the lock outlasts the transaction.
        self.store.has_changes() || [Level::Reserved, Level::Pending].contains(&self.level())
    }
}

impl MainFile for Mapped {
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure> {
        if let Some(database) = self.in_wal()? {
            let there = database.read(at, out)?;
            self.store.count_copy();
            return Ok(there);
        }
        if self.own_lock.level() == Level::None {
            self.refresh_unlocked()?;
        }
        self.store.count_copy();
        Ok(self.store.read(at, out)?)
    }

    fn fetch(&mut self, at: u64, len: u64) -> Result<Option<*const u8>, Failure> {
        if let Some(database) = self.in_wal()? {
            let found = database.fetch(at, len)?;
            if found.is_some() {
                self.fetched_in_wal += 1;
                self.fetched_total += 1;
            }
            return Ok(found);
        }
        if self.own_lock.level() == Level::None {
            return Ok(None);
        }
        Ok(self.store.fetch(at, len, |place| self.data.address(place))?)
    }

    fn unfetch(&mut self, _: u64, _: *const u8) {
        // No page stays fetched while the journal mode changes.
        match self.fetched_in_wal.checked_sub(1) {
            Some(left) => self.fetched_in_wal = left,
            None => self.store.unfetch(),
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.writable()?;
        if let Some(commits) = self.wal.commits() {
            commits.before_checkpoint()?;
        }
        if let Some(database) = self.in_wal()? {
            return database.write(at, bytes);
        }
        Ok(self.store.write(at, bytes)?)
    }

    fn truncate(&mut self, to: u64) -> Result<(), Failure> {
        self.writable()?;
        if let Some(database) = self.in_wal()? {
            return database.truncate(to);
        }
        Ok(self.store.truncate(to)?)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        if let Some(database) = self.in_wal()? {
            return database.size();
        }
        if self.own_lock.level() == Level::None {
            self.refresh_unlocked()?;
        }
        Ok(self.store.size())
    }

    fn commit(&mut self, super_journal: Option<&[u8]>) -> Result<(), Failure> {
        if let Some(name) = super_journal {
            self.super_journal = Some(name.to_vec());
            return self.prepare(name);
        }
        if !self.is_with_others() {
            // A placeholder whose removal failed at the end of its transaction; the last close tries again.
            self.remove_own_placeholder();
            return self.commit_here();
        }
        let touched = self.store.is_touched();
        // SQLite has not said that the super-journal's removal is durable.
        let applied = self.resolve(&decide_durably)? == Some(Verdict::Apply);
        // It was rolled back to the committed state.
        self.store.discard();
        // If SQLite finds no super-journal it does not roll back.
        if applied && touched {
            return Err(Failure::Io("a transaction over several databases has not ended".into()));
        }
        Ok(())
    }

    fn super_journal_notice(&self) -> Option<Arc<dyn SuperJournalNotice>> {
        Some(Arc::clone(&self.placeholder) as Arc<dyn SuperJournalNotice>)
    }

    fn sync(&mut self) -> Result<(), Failure> {
        if let Some(commits) = self.wal.commits() {
            // A VFS above this one may have kept pages back until here.
            commits.end_checkpoint();
        }
        if let Some(database) = self.in_wal()? {
            return database.sync();
        }
        let waits = !self.store.is_prepared() || self.store.is_touched();
        match self.super_journal.clone() {
            _ if !waits || !self.store.has_changes() => Ok(()),
            Some(name) => self.prepare(&name),
            None => self.commit_here(),
        }
    }

    fn end_transaction(&mut self) -> Result<(), Failure> {
        if self.in_wal()?.is_some() {
            // In exclusive mode the connection keeps the lock for writing.
            return self.wal.commits().map_or(Ok(()), |commits| commits.end_transaction());
        }
        if let Some(name) = self.store.prepared_for()
            && decide(name)? == Verdict::Discard
        {
            return Err(Failure::Io("the super-journal of the transaction is still there".into()));
        }
        if self.is_with_others() {
            self.resolve(&decide)?;
        }
        if self.store.has_size_only() && self.held() == Level::Exclusive {
            self.store.commit()?;
        }
        // In exclusive mode no lock is lowered after this.
        if self.held() == Level::Exclusive && self.enters_wal_mode()? {
            self.readmit_stock();
        }
        Ok(())
    }

    fn has_wal_mode(&self) -> bool {
        true
    }

    fn log_opener(&self) -> Option<Arc<dyn LogOpener>> {
        Some(Arc::new(WalOpener(Arc::clone(&self.wal))))
    }

    fn prepare_for_log(&mut self) -> Result<(), Failure> {
        self.retry_entering_wal_mode()
    }

    fn map_index(
        &mut self,
        region: u64,
        bytes: u64,
        create: bool,
    ) -> Result<Option<*const u8>, Failure> {
        self.map_log_index(region, bytes, create)
    }

    fn lock_index(&mut self, locks: IndexLock) -> Result<(), Failure> {
        self.lock_log_index(locks)
    }

    fn unmap_index(&mut self, remove: bool) -> Result<(), Failure> {
        self.unmap_log_index(remove)
    }

    fn end_checkpoint(&mut self) -> Result<(), Failure> {
        if let Some(commits) = self.wal.commits() {
            commits.end_checkpoint();
        }
        self.in_wal()?.map_or(Ok(()), Database::end_checkpoint)
    }

    fn is_sequential(&self) -> bool {
        !self.wal.is_log_open() || !matches!(self.data.domain(), Domain::Adr | Domain::Disk)
    }

    fn lock(&mut self, to: Level) -> Result<(), Failure> {
        self.store.healthy()?;
        self.in_wal()?;
        let before = self.held();
        if to <= before {
            return Ok(());
        }
        if before == Level::None {
            self.lock_shared()?;
            if let Err(failure) = self.refresh_after_lock() {
                forget_busy();
                self.own_lock.unlock(Level::None);
                self.stock_lock.unlock(Level::None)?;
                return Err(failure);
            }
        }
        // An undecided part must not be overwritten. The next connection that begins to read decides it.
        if before > Level::None && self.store.is_half_way()? {
            forget_busy();
            return Err(Failure::Busy);
        }
        if self.wal.is_log_open()
            && (before, self.own_lock.level(), to)
                == (Level::Shared, Level::Shared, Level::Exclusive)
        {
            return self.lock_exclusive_in_wal_mode();
        }
        if to > Level::Shared {
            // Only a connection that begins to read has to recover.
            let _ = self.own_lock.lock(to)?;
            if self.stock_lock.level() > Level::None
                && let Err(failure) = self.stock_lock.lock(to)
            {
                // The queue is not the one for stock SQLite's lock.
                forget_busy();
                if to == Level::Reserved {
                    self.own_lock.unlock(before.max(Level::Shared));
                }
                return Err(failure);
            }
            self.wal.set_exclusive(self.held() == Level::Exclusive);
        }
        Ok(())
    }

    fn unlock(&mut self, to: Level) -> Result<(), Failure> {
        self.in_wal()?;
        self.wal.set_exclusive(false);
        if to <= Level::Shared {
            let made = self.placeholder.is_made() && self.own_lock.level() >= Level::Reserved;
            if (self.is_with_others() || made) && self.resolve(&decide_durably).is_err() {
                // The next connection that locks the file decides.
                self.store.forget_prepared();
            }
            self.store.discard();
        }
        let alone =
            self.own_lock.level() == Level::Exclusive || to == Level::None && self.retries_plain();
        if alone {
            self.readmit_stock();
        }
        // Released in the reverse order of locking, so that no other connection is refused in between.
        let lowered =
            if self.stock_lock.level() > Level::None { self.stock_lock.unlock(to) } else { Ok(()) };
        self.own_lock.unlock(to);
        // A committed transaction must be reported as committed; the last unlock comes after this one.
        if to == Level::None { lowered } else { Ok(()) }
    }

    fn level(&self) -> Level {
        let pending = self.own_lock.level() == Level::Pending || self.stock_lock.is_pending();
        if pending { Level::Pending } else { self.held() }
    }

    fn is_reserved(&mut self) -> Result<bool, Failure> {
        Ok(self.own_lock.is_reserved()?
            || !self.store.is_marked() && self.stock_lock.is_reserved()?)
    }

    fn has_moved(&self) -> bool {
        !self.names.are_right() && !self.data.is_at(&self.path)
    }

    fn pragma(&mut self, name: &str, value: Option<&str>) -> Option<Result<String, String>> {
        let answer = match (name, value) {
            ("perdura_mode", None) => Ok(self.store.mode().name().into()),
            ("perdura_mode", Some(word)) => match Mode::of(word) {
                Some(_) if self.has_begun_writing() => {
                    Err("the mode cannot change within a transaction that writes".into())
                }
                Some(mode) => {
                    self.store.set_mode(mode);
                    Ok(mode.name().into())
                }
                None => Err(no_mode(word)),
            },
            ("perdura_domain", None) => Ok(self.data.domain().name().into()),
            ("perdura_domain", Some(_)) => {
                Err("the domain is chosen when the database is opened: ?perdura_domain=".into())
            }
            ("perdura_share", None) => Ok(self.share.name().into()),
            ("perdura_share", Some(_)) if self.wal.is_log_open() => {
                Err("perdura_share cannot change in WAL mode".into())
            }
            ("perdura_share", Some(_)) if self.has_begun_writing() => {
                Err("perdura_share cannot change within a transaction that writes".into())
            }
            ("perdura_share", Some(word)) => Share::of(word).map(|share| {
                self.set_share(share);
                share.name().into()
            }),
            ("perdura_wal", None) => Ok(self.wal_in_use().name().into()),
            ("perdura_wal", Some(_)) => {
                Err("the log is chosen when the database is opened: ?perdura_wal=".into())
            }
            ("perdura_stats", _) => Ok(self.stats().json()),
            // SQLite obeys it, and so does the store.
            ("secure_delete", Some(word)) => {
                self.store.set_erases(!is_no(word));
                return None;
            }
            // In exclusive mode SQLite does not ask whether the VFS has shared memory.
            ("journal_mode", Some(word))
                if word.eq_ignore_ascii_case("wal") && !self.wal.is_allowed() =>
            {
                Ok("delete".into())
            }
            _ => return None,
        };
        Some(answer)
    }

    fn close(mut self: Box<Self>) -> Result<(), Failure> {
        // A forked child has nothing to close: the locks are its parent's.
        self.store.healthy()?;
        if self.is_with_others() && self.resolve(&decide_durably).is_err() {
            self.store.forget_prepared();
        }
        self.store.discard();
        self.unmap_log_index(false)?;
        self.leave_unused_wal_mode()?;
        self.stock_lock.unlock(Level::None)?;
        self.own_lock.unlock(Level::None);
        self.own_lock.leave_queue();
        self.open_close.lock()?;
        let closed = self.close_behind_door();
        // A thread that sleeps for a lock may keep the side file open, and with it these locks.
        self.open_close.set_closed()?;
        self.open_close.unlock()?;
        closed
    }
}
