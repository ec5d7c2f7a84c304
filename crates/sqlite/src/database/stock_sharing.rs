//! Sharing a database with stock SQLite: the marker, which keeps stock SQLite out, is set only during a commit.
//!
//! - While the marker is not set, each lock is also taken on the database file. Stock SQLite and this VFS then exclude
//!   each other as two connections of stock SQLite do (`database::stock_lock`).
//! - Before the exclusive lock is lowered, the file is made plain again, as at the last close: all committed data is
//!   durable in place, each page is in its own frame, and the file has the database's length, durably. Then the marker
//!   is cleared. Stock SQLite finds a change counter that it does not know.
//! - *A kill before that* leaves the marker. Stock SQLite is refused until a connection of this VFS recovers; one that
//!   shares with stock SQLite then clears the marker.
//! - The file cannot be made plain while stock SQLite reads page 1, while a statement uses fetched pages, or if the
//!   kernel refuses. Each sharing connection then retries when it ends a read and no other connection of this VFS
//!   reads, with growing intervals if the kernel keeps refusing.
//!
//! *A placeholder journal* is removed only while nothing can take its place: no other connection of this VFS has begun
//! to write, and stock SQLite cannot begin a journal.
//!
//! *A commit that enters SQLite's WAL mode* leaves a plain file in the same way, with the gate of that mode closed first.
//!
//! Each connection chooses whether it shares. One that does not leaves the marker after its commits, until one that
//! does ends a read or a write.

use pm::Memory as _;

use crate::database::contract::{Failure, Level, SuperJournalNotice as _};
use crate::database::mapped::Mapped;
use crate::database::parameters::{Share, Wal};
use crate::database::placeholder_journal::PlaceholderJournal;

impl Mapped {
    /// Chooses who else may use the database.
    pub(super) fn set_share(&mut self, share: Share) {
        self.share = share;
        self.store.set_keeps_layout(share == Share::Stock);
        let wal = self.wal_choice != Wal::Off && share == Share::Perdura;
        self.wal.allow(wal);
        self.store.set_allows_wal(wal);
        if !wal {
            // Entered at the open, and not used since.
            let _ = self.wal.leave(false);
        }
    }

    /// Returns whether the file is a plain one after each commit: stock SQLite shares it, it enters WAL mode, or its
    /// side file has lost its name.
    pub(super) fn has_to_be_plain(&self) -> Result<bool, Failure> {
        Ok(self.share == Share::Stock || self.names.last().side || self.store.is_in_wal_mode()?)
    }

    /// Refreshes the view without a lock, as SQLite reads the header when it opens the file.
    pub(super) fn refresh_unlocked(&mut self) -> Result<(), Failure> {
        let data = &self.data;
        self.store.refresh_unlocked(|| {
            data.see()?;
            Ok::<_, Failure>(data.len())
        })?;
        self.map_side_growth()
    }

    /// Maps the growth of the side file, which a reader may need with and without a lock.
    pub(super) fn map_side_growth(&self) -> Result<(), Failure> {
        if self.store.is_marked() && self.store.side_bytes()? > self.side.len() {
            self.side.see()?;
        }
        Ok(())
    }

    /// Readmits stock SQLite, if the connection shares the database. The caller has exclusive access among
    /// connections of this VFS, and no lock is lowered here. If the kernel refuses, all commits stand, and stock
    /// SQLite is kept out until the next try.
    pub(super) fn readmit_stock(&mut self) {
        match self.make_plain_for_stock() {
            Err(_) => self.plain_retry.refused(),
            Ok(()) => self.plain_retry.succeeded(),
        }
    }

    fn make_plain_for_stock(&mut self) -> Result<(), Failure> {
        let waits = self.store.is_marked() && self.has_to_be_plain()?;
        self.plain_retry.due = false;
        if self.share == Share::Stock && !waits && self.stock_lock.level() == Level::None {
            return self.empty_if_cut_off();
        }
        // An unfinished commit is left to the next connection that locks.
        if !waits || self.store.is_prepared() || !self.refresh_view()? {
            return Ok(());
        }
        if !self.store.can_restore_layout() {
            self.plain_retry.due = true;
            return Ok(());
        }
        let before = self.stock_lock.level();
        let excluded = self.stock_lock.lock(Level::Shared).is_ok()
            && self.stock_lock.lock(Level::Reserved).is_ok()
            && self.stock_lock.lock(Level::Exclusive).is_ok();
        self.plain_retry.due = !excluded;
        let plain = if excluded { self.make_plain_and_go_on() } else { Ok(()) };
        match before {
            // A connection that goes on reading does so next to stock SQLite.
            Level::None if excluded && plain.is_ok() && self.own_lock.level() > Level::None => {}
            Level::Exclusive => {}
            before => self.stock_lock.unlock(before)?,
        }
        plain
    }

    /// Returns whether to make the file plain now, at the end of a read. The connection then has exclusive access
    /// among connections of this VFS, and no other is refused because of that.
    pub(super) fn retries_plain(&mut self) -> bool {
        if !self.plain_retry.due
            || !self.store.is_marked()
            || self.own_lock.level() != Level::Shared
        {
            return false;
        }
        !self.plain_retry.backs_off() && self.own_lock.lock_exclusive_if_idle()
    }

    /// Truncates what a kill left in the first commit before the marker was set: to stock SQLite a file of zeros is
    /// no database.
    fn empty_if_cut_off(&mut self) -> Result<(), Failure> {
        if self.store.size() == 0 && self.data.len() > 0 { self.empty() } else { Ok(()) }
    }

    /// Truncates what an interrupted first commit left in a new database.
    pub(super) fn empty(&mut self) -> Result<(), Failure> {
        // Stock SQLite may be writing.
        let locked = self.stock_lock.lock(Level::Exclusive).is_ok();
        let emptied = if locked { self.cut_if_empty() } else { Ok(()) };
        self.stock_lock.unlock(Level::None)?;
        emptied
    }

    fn cut_if_empty(&mut self) -> Result<(), Failure> {
        if self.refresh_view()? && self.store.size() == 0 {
            self.data.cut(0)?;
        }
        Ok(())
    }

    fn make_plain_and_go_on(&mut self) -> Result<(), Failure> {
        self.side.see()?;
        self.store.catch_up()?;
        self.store.restore_layout()?;
        let size = self.store.size();
        if self.data.file_bytes()? != size {
            self.plain_retry.cut_unsynced = true;
            self.store.announce_cut()?;
            self.data.cut(size)?;
        }
        self.data.touch();
        if self.plain_retry.cut_unsynced {
            self.data.sync()?;
            self.plain_retry.cut_unsynced = false;
        }
        if self.wal.is_allowed() && self.store.is_in_wal_mode()? {
            // Before stock SQLite can use the log. If it does so already, SQLite finds that out.
            let _ = self.wal.join(self.has_door);
        }
        Ok(self.store.make_plain()?)
    }

    /// Removes a placeholder that a dead connection left. The caller has exclusive access, or no other has the file
    /// open.
    pub(super) fn remove_any_placeholder(&mut self) {
        if self.store.is_marked() {
            return self.placeholder.remove_any();
        }
        if self.placeholder.is_there() {
            self.without_stock_journal(PlaceholderJournal::remove_any);
        }
    }

    /// Removes this connection's placeholder: the transaction has ended. It stays if another connection of this VFS
    /// may create its own; then the next writing transaction or the last close removes it. It decides nothing any
    /// more.
    pub(super) fn remove_own_placeholder(&mut self) {
        self.placeholder.clear();
        if !self.placeholder.is_made() || self.own_lock.level() < Level::Reserved {
            return;
        }
        if self.store.is_marked() {
            self.placeholder.remove();
        } else {
            self.without_stock_journal(PlaceholderJournal::remove);
        }
    }

    /// Removes a placeholder while stock SQLite cannot begin a journal in its place, which would look alike at
    /// first: under a writer's lock. A connection without one takes the exclusive lock for a moment, not the
    /// reserved one: next to a reserved lock a hot journal passes for a living writer's. If others read, the
    /// placeholder stays.
    fn without_stock_journal(&mut self, remove: impl FnOnce(&PlaceholderJournal)) {
        let before = self.stock_lock.level();
        if before > Level::Shared {
            return remove(&self.placeholder);
        }
        if self.stock_lock.lock(Level::Shared).is_ok()
            && self.stock_lock.lock(Level::Exclusive).is_ok()
        {
            remove(&self.placeholder);
        }
        // A lock that cannot be released goes when the file is closed.
        let _ = self.stock_lock.unlock(before);
    }
}
