//! Sharing a database with stock SQLite: the marker, which keeps it out, is set for a commit alone.
//!
//! - As long as the marker is not set each lock is also taken on the database file, so stock SQLite and ours keep each
//!   other out as two of stock SQLite's do (`database::stock_lock`).
//! - Before the exclusive lock is lowered the file is made a plain one again, as at the last close: all that was
//!   committed is durable where it belongs, each page in its own frame, and the file has the database's length, durably, too,
//!   whoever has cut it. Then the marker is cleared, and stock SQLite finds a change counter that it does not know.
//! - *A kill before that* leaves the marker: stock SQLite is refused until one of ours has recovered, which clears the
//!   marker if it shares the database so, too.
//! - Where that cannot be, since stock SQLite is looking at page 1 just then, or a statement reads on and has pages where
//!   they are, or the kernel refuses, each connection that shares it so tries it again when it ends to read and no other
//!   one of ours reads. What the kernel refuses again and again is tried ever more seldom.
//!
//! *A stub* is removed only while nobody can put something in its place: no other one of ours is going to write, and stock
//! SQLite cannot begin a journal.
//!
//! It is for each connection to say. One that does not leaves the marker behind its commits, until one that does ends to
//! read or to write.

use pm::Memory as _;

use crate::database::contract::{Failure, Level, SuperJournalNotice as _};
use crate::database::mapped::Mapped;
use crate::database::parameters::Share;
use crate::database::placeholder_journal::PlaceholderJournal;

impl Mapped {
    /// Chooses who else may use the database.
    pub(super) fn set_share(&mut self, share: Share) {
        self.share = share;
        self.store.set_keeps_layout(share == Share::Stock);
    }

    /// Looks at the file without a lock, as SQLite does at the header when it opens it.
    pub(super) fn refresh_unlocked(&mut self) -> Result<(), Failure> {
        let data = &self.data;
        self.store.refresh_unlocked(|| {
            data.see()?;
            Ok::<_, Failure>(data.len())
        })?;
        self.map_side_growth()
    }

    /// Maps what the side file has grown by, which a reader may need, with a lock and without.
    pub(super) fn map_side_growth(&self) -> Result<(), Failure> {
        if self.store.is_marked() && self.store.side_bytes()? > self.side.len() {
            self.side.see()?;
        }
        Ok(())
    }

    /// Lets stock SQLite use the database again, if it is to. The caller has it to himself among ours, and no lock is
    /// lowered here. Where the kernel refuses, all that is committed stays so, and stock SQLite is kept out until the next
    /// time.
    pub(super) fn readmit_stock(&mut self) {
        match self.make_plain_for_stock() {
            Err(_) => self.plain_retry.refused(),
            Ok(()) => self.plain_retry.succeeded(),
        }
    }

    fn make_plain_for_stock(&mut self) -> Result<(), Failure> {
        let waits = self.share == Share::Stock && self.store.is_marked();
        self.plain_retry.due = false;
        if self.share == Share::Stock && !waits && self.stock_lock.level() == Level::None {
            return self.empty_if_cut_off();
        }
        // A commit that is not at its end is for whoever locks next.
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
            // Whoever goes on to read does so beside stock SQLite.
            Level::None if excluded && plain.is_ok() && self.own_lock.level() > Level::None => {}
            Level::Exclusive => {}
            before => self.stock_lock.unlock(before)?,
        }
        plain
    }

    /// Returns whether the file is still to be made a plain one, and is to be now, at the end of a read: the connection has it
    /// to itself among ours then. No other one is told that it is busy because of that.
    pub(super) fn retries_plain(&mut self) -> bool {
        if !self.plain_retry.due
            || !self.store.is_marked()
            || self.own_lock.level() != Level::Shared
        {
            return false;
        }
        !self.plain_retry.backs_off() && self.own_lock.lock_exclusive_if_idle()
    }

    /// Cuts off what a kill in the first commit has left before the marker was set: stock SQLite takes zeros for no
    /// database.
    fn empty_if_cut_off(&mut self) -> Result<(), Failure> {
        if self.store.size() == 0 && self.data.len() > 0 { self.empty() } else { Ok(()) }
    }

    fn make_plain_and_go_on(&mut self) -> Result<(), Failure> {
        self.side.see()?;
        self.store.catch_up()?;
        self.store.restore_layout()?;
        let size = self.store.size();
        if self.data.file_bytes()? != size {
            self.plain_retry.cut_unsynced = true;
            self.data.cut(size)?;
        }
        if self.plain_retry.cut_unsynced {
            self.data.sync()?;
            self.plain_retry.cut_unsynced = false;
        }
        Ok(self.store.make_plain()?)
    }

    /// Removes the stub that one who is dead has left. The caller has the file to himself, or nobody else has it open.
    pub(super) fn remove_any_placeholder(&mut self) {
        if self.store.is_marked() {
            return self.placeholder.remove_any();
        }
        if self.placeholder.is_there() {
            self.without_stock_journal(PlaceholderJournal::remove_any);
        }
    }

    /// Removes the stub that this connection has made: the transaction has ended. Beside another one of ours that may make
    /// its own it stays, for the next transaction that writes, or for the last close: it decides nothing any more.
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

    /// Removes a stub while stock SQLite cannot begin a journal in its place, which looks like one at first: with the lock of
    /// one who writes. Without it the exclusive lock is taken for a moment, past the reserved one, beside which a hot journal
    /// passes for that of a living writer. Where others read, the stub stays.
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
        // A lock that is not given up goes with the file.
        let _ = self.stock_lock.unlock(before);
    }
}
