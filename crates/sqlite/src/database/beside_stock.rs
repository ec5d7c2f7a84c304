//! Sharing a database with stock SQLite: the marker, which keeps it out, is set for a commit alone.
//!
//! - As long as the marker is not set each lock is also taken on the database file, so stock SQLite and ours keep each
//!   other out as two of stock SQLite's do (`database::levels`).
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

use crate::database::contract::{Failure, Level, Names as _};
use crate::database::mapped::Mapped;
use crate::database::parameters::Share;
use crate::database::stub::Stub;

impl Mapped {
    /// Chooses who else may use the database.
    pub(super) fn set_share(&mut self, share: Share) {
        self.share = share;
        self.store.set_stays_home(share == Share::Stock);
    }

    /// Looks at the file without a lock, as SQLite does at the header when it opens it.
    pub(super) fn look_unlocked(&mut self) -> Result<(), Failure> {
        let data = &self.data;
        self.store.refresh_unlocked(|| {
            data.see()?;
            Ok::<_, Failure>(data.len())
        })?;
        self.see_side()
    }

    /// Maps what the side file has grown by, which a reader may need, with a lock and without.
    pub(super) fn see_side(&self) -> Result<(), Failure> {
        if self.store.is_marked() && self.store.side_bytes()? > self.side.len() {
            self.side.see()?;
        }
        Ok(())
    }

    /// Lets stock SQLite use the database again, if it is to. The caller has it to himself among ours, and no lock is
    /// lowered here. Where the kernel refuses, all that is committed stays so, and stock SQLite is kept out until the next
    /// time.
    pub(super) fn share_again(&mut self) {
        match self.make_plain_for_stock() {
            Err(_) => self.debt.refuse(),
            Ok(()) => self.debt.accept(),
        }
    }

    fn make_plain_for_stock(&mut self) -> Result<(), Failure> {
        let waits = self.share == Share::Stock && self.store.is_marked();
        self.debt.owes = false;
        if self.share == Share::Stock && !waits && self.stock.level() == Level::None {
            return self.empty_if_cut_off();
        }
        // A commit that is not at its end is for whoever locks next.
        if !waits || self.store.is_prepared() || !self.look()? {
            return Ok(());
        }
        if !self.store.may_go_home() {
            self.debt.owes = true;
            return Ok(());
        }
        let before = self.stock.level();
        let excluded = self.stock.lock(Level::Shared).is_ok()
            && self.stock.lock(Level::Reserved).is_ok()
            && self.stock.lock(Level::Exclusive).is_ok();
        self.debt.owes = !excluded;
        let plain = if excluded { self.make_plain_and_go_on() } else { Ok(()) };
        match before {
            // Whoever goes on to read does so beside stock SQLite.
            Level::None if excluded && plain.is_ok() && self.ours.level() > Level::None => {}
            Level::Exclusive => {}
            before => self.stock.unlock(before)?,
        }
        plain
    }

    /// Returns whether the file is still to be made a plain one, and is to be now, at the end of a read: the connection has it
    /// to itself among ours then. No other one is told that it is busy because of that.
    pub(super) fn pays(&mut self) -> bool {
        if !self.debt.owes || !self.store.is_marked() || self.ours.level() != Level::Shared {
            return false;
        }
        !self.debt.rests() && self.ours.lock_if_alone()
    }

    /// Cuts off what a kill in the first commit has left before the marker was set: stock SQLite takes zeros for no
    /// database.
    fn empty_if_cut_off(&mut self) -> Result<(), Failure> {
        if self.store.size() == 0 && self.data.len() > 0 { self.empty() } else { Ok(()) }
    }

    fn make_plain_and_go_on(&mut self) -> Result<(), Failure> {
        self.side.see()?;
        self.store.catch_up()?;
        self.store.bring_home()?;
        let size = self.store.size();
        if self.data.file_bytes()? != size {
            self.debt.cut_unsynced = true;
            self.data.cut(size)?;
        }
        if self.debt.cut_unsynced {
            self.data.sync()?;
            self.debt.cut_unsynced = false;
        }
        Ok(self.store.make_plain()?)
    }

    /// Removes the stub that one who is dead has left. The caller has the file to himself, or nobody else has it open.
    pub(super) fn remove_stub(&mut self) {
        if self.store.is_marked() {
            return self.stub.remove_any();
        }
        if self.stub.is_there() {
            self.beside_no_journal(Stub::remove_any);
        }
    }

    /// Removes the stub that this connection has made: the transaction has ended. Beside another one of ours that may make
    /// its own it stays, for the next transaction that writes, or for the last close: it decides nothing any more.
    pub(super) fn end_stub(&mut self) {
        self.stub.forget();
        if !self.stub.is_made() || self.ours.level() < Level::Reserved {
            return;
        }
        if self.store.is_marked() {
            self.stub.remove();
        } else {
            self.beside_no_journal(Stub::remove);
        }
    }

    /// Removes a stub while stock SQLite cannot begin a journal in its place, which looks like one at first: with the lock of
    /// one who writes. Without it the exclusive lock is taken for a moment, past the reserved one, beside which a hot journal
    /// passes for that of a living writer. Where others read, the stub stays.
    fn beside_no_journal(&mut self, remove: impl FnOnce(&Stub)) {
        let before = self.stock.level();
        if before > Level::Shared {
            return remove(&self.stub);
        }
        if self.stock.lock(Level::Shared).is_ok() && self.stock.lock(Level::Exclusive).is_ok() {
            remove(&self.stub);
        }
        // A lock that is not given up goes with the file.
        let _ = self.stock.unlock(before);
    }
}
