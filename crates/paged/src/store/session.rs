//! A session: one transaction at a time, strictly serializable by two-phase locking.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pm::Files;

use super::Store;
use super::ends::Ends;
use super::joints::Undone;
use super::room::{Claim, Room, Wanting};
use super::settling::SETTLED_FOR_OTHERS;
use crate::flaw::Flaw;
use crate::ids::{Lsn, PageNo, TreeNo};
use crate::latch::{Latched, Latching};
use crate::lock::{Gap, LockMode, Locks, Mode, Name};
use crate::recovery::{Slot, Transaction, undo};
use crate::threads::Host;
use crate::tree::Inserted;
use crate::{PagedError, Result};

/// Bytes that a record has in addition to keys and rows, at most: those of a split's record are its
/// own.
const RECORD_ROOM: u64 = 256;
/// An operation for which that was too little has taken back what it had done, which takes log,
/// too: it sets more aside before it tries again, in so many steps, and tries so often.
const MOST_STEPS: u64 = 3;
const MOST_SHORT: u64 = 16;

/// A row that was locked at once, to be changed perhaps.
#[derive(Debug)]
pub struct Tried {
    /// The row, if there is one.
    pub row: Option<Vec<u8>>,
    /// Its name, if the transaction had it not locked before.
    lock: Option<Name>,
}

/// The purpose for which a row is read, which says how it is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// To read it: others read it, too.
    Read,
    /// To change it perhaps: others read it, too, until it is, but not to change it.
    PerhapsChange,
    /// To change it next: no other transaction reads it.
    Change,
}

/// A session of a store. Dropping it undoes an open transaction.
#[derive(Debug)]
pub struct Session<F: Files, T: Latched = Host> {
    pub(super) store: Arc<Store<F, T>>,
    pub(super) locks: Locks<T>,
    claim: Arc<Claim>,
    open: Option<Transaction>,
    /// The place of its transactions among those of the store, until it is dropped.
    slot: Option<Slot>,
    /// Keys that hold space back which goes when the transaction is over.
    held_back: BTreeSet<(TreeNo, Vec<u8>)>,
    /// The leaf that was read last: a change of what was read finds it without a descent.
    near: Option<(TreeNo, PageNo)>,
    pub(super) ends: Ends,
}

impl<F: Files, T: Latched> Session<F, T> {
    pub(super) fn new(store: Arc<Store<F, T>>) -> Self {
        let locks = store.locks.session();
        let claim = store.claims.add(locks.party());
        let slot = Some(store.upkeep.transactions.slot());
        let (held_back, ends) = (BTreeSet::new(), Ends::default());
        Self { store, locks, claim, open: None, slot, held_back, near: None, ends }
    }

    /// Begins a transaction; one of less age wins over others. Each of its operations waits for
    /// locks so long at most, or as long as
    /// [`LockOptions::timeout`](crate::lock::LockOptions::timeout) says.
    pub fn begin(&mut self, age: u64, wait: Option<Duration>) {
        debug_assert!(self.open.is_none(), "the transaction before is over");
        self.locks.begin(age);
        if let Some(wait) = wait {
            self.locks.wait_at_most(wait);
        }
        self.ends.clear();
        let slot = self.slot.as_ref().expect("it is not dropped");
        self.open = Some(self.store.begin_in(slot));
    }

    /// An operation of the application begins, which may be several of this session: see
    /// [`Locks::begin_operation`].
    pub fn begin_operation(&mut self) {
        self.locks.begin_operation();
    }

    /// Returns whether a transaction is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns whether the open transaction has changed anything.
    pub fn has_changed(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.last() != Lsn::NONE)
    }

    fn transaction(&mut self) -> &mut Transaction {
        self.open.as_mut().expect("a transaction is open")
    }

    fn lock_key(&mut self, tree: TreeNo, key: &[u8], table: Mode, row: Mode) -> Result<()> {
        self.locks.lock(Name::Table(tree), table)?;
        let is_read = row == Mode::Shared;
        if is_read && self.reads_all(tree) {
            return Ok(());
        }
        let flaw = if is_read { Flaw::ReadNotLocked } else { Flaw::WriteNotLocked };
        if T::Latching::has(flaw) {
            return Ok(());
        }
        self.locks.lock(Name::row(tree, key), row)
    }

    /// Returns whether the transaction has locked a table so that it needs no locks to read its
    /// rows.
    pub(super) fn reads_all(&self, tree: TreeNo) -> bool {
        self.locks.holds(Name::Table(tree)).mode.reads_all()
    }

    /// A row has been read, whose lock is held until the end.
    #[inline]
    pub(super) fn has_read(&mut self, name: Name) {
        if T::Latching::has(Flaw::ReadLockLetGo) {
            let LockMode { mode, gap } = self.locks.holds(name);
            if mode == Mode::Shared && matches!(gap, Gap::None | Gap::Shared) {
                self.locks.unlock(name);
            }
        }
    }

    /// Copies the row of a key into `row`, which has nothing else then. Returns whether there is
    /// one.
    ///
    /// # Errors
    /// A conflict, or a page cannot be read.
    pub fn read(
        &mut self,
        tree: TreeNo,
        key: &[u8],
        purpose: Purpose,
        row: &mut Vec<u8>,
    ) -> Result<bool> {
        let (table, mode) = match purpose {
            Purpose::Read => (Mode::IntentShared, Mode::Shared),
            Purpose::PerhapsChange if T::Latching::has(Flaw::UpdateAsShared) => {
                (Mode::IntentExclusive, Mode::Shared)
            }
            Purpose::PerhapsChange => (Mode::IntentExclusive, Mode::Update),
            Purpose::Change => (Mode::IntentExclusive, Mode::Exclusive),
        };
        self.lock_key(tree, key, table, mode)?;
        let read = self.store.tree(tree)?.read(key, row);
        if purpose == Purpose::Read {
            self.has_read(Name::row(tree, key));
        }
        let (is_there, leaf) = read?;
        self.near = Some((tree, leaf));
        Ok(is_there)
    }

    /// As [`Self::read`], to read it; `None` if there is none.
    ///
    /// # Errors
    /// As there.
    pub fn get(&mut self, tree: TreeNo, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_for(tree, key, Purpose::Read)
    }

    /// As [`Self::read`], perhaps to change it; `None` if there is none.
    ///
    /// # Errors
    /// As there.
    pub fn get_for_update(&mut self, tree: TreeNo, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_for(tree, key, Purpose::PerhapsChange)
    }

    /// As [`Self::read`], to change it next; `None` if there is none.
    ///
    /// # Errors
    /// As there.
    pub fn get_exclusive(&mut self, tree: TreeNo, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_for(tree, key, Purpose::Change)
    }

    fn get_for(&mut self, tree: TreeNo, key: &[u8], purpose: Purpose) -> Result<Option<Vec<u8>>> {
        let mut row = Vec::new();
        Ok(self.read(tree, key, purpose, &mut row)?.then_some(row))
    }

    /// The leaf that was read last, if it is of this tree.
    fn near(&self, tree: TreeNo) -> Option<PageNo> {
        self.near.filter(|(of, _)| *of == tree).map(|(_, leaf)| leaf)
    }

    /// Reads the row of a key that may be changed, if no other transaction has locked it. `None`:
    /// another one has. It does not wait for locks of rows.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn try_get_for_update(&mut self, tree: TreeNo, key: &[u8]) -> Result<Option<Tried>> {
        self.locks.lock(Name::Table(tree), Mode::IntentExclusive)?;
        let name = Name::row(tree, key);
        let is_new = self.locks.holds(name) == LockMode::default();
        if !self.reads_all(tree) && !self.locks.try_lock(name, Mode::Update)? {
            return Ok(None);
        }
        let row = self.store.tree(tree)?.get(key)?;
        Ok(Some(Tried { row, lock: is_new.then_some(name) }))
    }

    /// Lets go of a row that [`Self::try_get_for_update`] has returned and that is not wanted,
    /// unless the transaction had it locked before.
    pub fn let_go(&mut self, tried: &Tried) {
        if let Some(name) = tried.lock {
            self.locks.unlock(name);
        }
    }

    /// Does a change, with room in the log for it.
    fn change<R>(
        &mut self,
        bytes: usize,
        mut act: impl FnMut(&Store<F, T>, &mut Transaction, &mut Locks<T>) -> Result<R>,
    ) -> Result<R> {
        let Self { store, locks, claim, open, .. } = self;
        let store = &**store;
        store.take_part()?;
        let (mut wanting, step) = (Wanting::default(), bytes as u64 + RECORD_ROOM);
        let mut short = 0;
        claim.set_holds(true);
        loop {
            let transaction = open.as_mut().expect("a transaction is open");
            let ahead = step * (1 + short.min(MOST_STEPS));
            let done = transaction.reserve(&*store.upkeep.log, ahead).and_then(|()| {
                let done = act(store, transaction, locks);
                short += u64::from(matches!(done, Err(PagedError::LogFull { .. })));
                done
            });
            let holds = transaction.holds_room();
            let waited = match done {
                Err(PagedError::LogFull { .. }) if short <= MOST_SHORT => {
                    store.await_room(claim, &mut wanting, holds)
                }
                _ => Ok(Room::None),
            };
            if matches!(waited, Ok(Room::Perhaps)) {
                continue;
            }
            store.end_wanting(claim, &wanting, holds);
            return match (waited?, done) {
                (Room::Victim, _) => Err(locks.give_up()),
                (_, Err(full @ PagedError::LogFull { .. })) => {
                    let full = store.upkeep.log.hindrance().unwrap_or(full);
                    Err(if holds { locks.give_up() } else { full })
                }
                (_, done) => done,
            };
        }
    }

    /// Inserts a row.
    ///
    /// # Errors
    /// There is one with this key, a conflict, no room, or a page cannot be read.
    pub fn insert(&mut self, tree: TreeNo, key: &[u8], row: &[u8]) -> Result<()> {
        self.lock_key(tree, key, Mode::IntentExclusive, Mode::Exclusive)?;
        let own = Name::row(tree, key);
        loop {
            let inserted = self.change(key.len() + row.len(), |store, transaction, locks| {
                let mut permit = |next: Option<&[u8]>| {
                    let next = name_of(tree, next);
                    Ok((!locks.try_lock_insert(own, next)?).then_some(next))
                };
                store.tree(tree)?.insert_if(transaction, key, row, &mut permit)
            })?;
            match inserted {
                Inserted::Done => return Ok(()),
                Inserted::Refused(next) => self.locks.lock_insert(own, next)?,
                Inserted::Again => T::Latching::pause(),
            }
        }
    }

    /// Replaces the row of a key.
    ///
    /// # Errors
    /// There is none, a conflict, no room, or a page cannot be read.
    pub fn update(&mut self, tree: TreeNo, key: &[u8], row: &[u8]) -> Result<()> {
        self.lock_key(tree, key, Mode::IntentExclusive, Mode::Exclusive)?;
        let bytes = key.len() + 2 * row.len().max(self.store.upkeep.pool.page_bytes());
        let near = self.near(tree);
        let holds_back = self.change(bytes, |store, transaction, _| {
            store.tree(tree)?.near(near).update(transaction, key, row)
        })?;
        if holds_back {
            self.hold_back(tree, key);
        }
        Ok(())
    }

    /// Deletes the row of a key.
    ///
    /// # Errors
    /// There is none, a conflict, no room, or a page cannot be read.
    pub fn delete(&mut self, tree: TreeNo, key: &[u8]) -> Result<()> {
        self.lock_key(tree, key, Mode::IntentExclusive, Mode::Exclusive)?;
        let bytes = key.len() + self.store.upkeep.pool.page_bytes();
        let near = self.near(tree);
        self.change(bytes, |store, transaction, _| {
            store.tree(tree)?.near(near).delete(transaction, key)
        })?;
        self.hold_back(tree, key);
        Ok(())
    }

    /// Commits: all of it is durable up to the LSN that is returned, which the caller waits for
    /// with [`Store::wait`] before it acknowledges anything, what was only read included.
    ///
    /// # Errors
    /// The transaction was refused a lock: it can only be aborted. Or the store has stopped, and
    /// nothing is committed. Or the log has stopped; whether the transaction is committed shows
    /// after a restart.
    pub fn commit(&mut self) -> Result<Lsn> {
        if !T::Latching::has(Flaw::DoomedCommits) {
            self.locks.check()?;
        }
        let Some(mut transaction) = self.open.take() else { return Ok(Lsn::NONE) };
        let store = &self.store;
        if transaction.last() == Lsn::NONE {
            let independent = T::Latching::has(Flaw::ReaderIndependent);
            let depends = if independent { Lsn::NONE } else { self.locks.depends() };
            self.locks.release(Lsn::NONE);
            transaction.unreserve(&*store.upkeep.log);
            store.upkeep.transactions.end(transaction);
            self.claim.set_holds(false);
            self.settle();
            return Ok(depends);
        }
        // A part of a statement that failed may still be there: then the pool has stopped, or undo
        // had taken it back.
        let committed = store.upkeep.check_running();
        let committed = committed.and_then(|()| transaction.commit(&*store.upkeep.log));
        let committed = match committed {
            Ok(committed) => committed,
            Err(error) => {
                self.open = Some(transaction);
                return Err(error);
            }
        };
        store.upkeep.transactions.end(transaction);
        self.claim.set_holds(false);
        if !store.options.early_release {
            store.upkeep.log.force(committed)?;
        }
        let wait_for = committed.max(self.locks.depends());
        self.locks.release(committed);
        self.settle();
        // It is committed: an error of the background work is returned by the next call that
        // changes something.
        let _ = self.store.take_part();
        Ok(if T::Latching::has(Flaw::AcknowledgedEarly) { Lsn::NONE } else { wait_for })
    }

    /// Notes a row whose space goes when the transaction is over. There are as many as locks at
    /// most.
    fn hold_back(&mut self, tree: TreeNo, key: &[u8]) {
        self.held_back.insert((tree, key.to_vec()));
    }

    /// Gives away the space that rows of the transaction held back, when their locks are let go, or
    /// leaves it to the transactions that have them locked: a ghost whose gap another transaction
    /// has locked stays. What finds no room in the log, or no frame, is tried again later.
    fn settle(&mut self) {
        let upkeep = &self.store.upkeep;
        let own = std::mem::take(&mut self.held_back);
        let most = SETTLED_FOR_OTHERS + own.len();
        for (tree, key) in own {
            let _ = upkeep.settle(tree, &key);
        }
        upkeep.settle_for_others(most);
    }

    /// Undoes the open transaction.
    ///
    /// # Errors
    /// A page cannot be read, or the log has stopped: the transaction stays open, and a restart
    /// undoes it.
    pub fn abort(&mut self) -> Result<()> {
        let Some(mut transaction) = self.open.take() else { return Ok(()) };
        let store = Arc::clone(&self.store);
        let undone = Undone::of(&store.upkeep.pool);
        let aborted = undo::abort(&*store.upkeep.log, &mut transaction, &undone);
        self.held_back.extend(undone.into_keys());
        if let Err(error) = aborted {
            self.open = Some(transaction);
            return Err(error);
        }
        store.upkeep.transactions.end(transaction);
        self.claim.set_holds(false);
        self.locks.release(Lsn::NONE);
        self.settle();
        Ok(())
    }

    /// The commit that has to be durable before the caller shows what the last transaction has
    /// seen, though it was undone. What one in a conflict has seen is not shown: it is run again.
    pub fn has_seen(&self) -> Lsn {
        if self.locks.is_doomed() { Lsn::NONE } else { self.locks.depends() }
    }

    /// Marks this place in the open transaction.
    pub fn savepoint(&mut self) -> Lsn {
        self.transaction().last()
    }

    /// Undoes what the open transaction has done since [`Self::savepoint`].
    ///
    /// # Errors
    /// As [`Self::abort`].
    pub fn rollback_to(&mut self, savepoint: Lsn) -> Result<()> {
        if T::Latching::has(Flaw::SavepointIgnored) {
            return Ok(());
        }
        let store = Arc::clone(&self.store);
        let undone = Undone::of(&store.upkeep.pool);
        let rolled_back =
            undo::rollback_to(&*store.upkeep.log, self.transaction(), &undone, savepoint);
        self.held_back.extend(undone.into_keys());
        rolled_back.map(drop)
    }
}

pub(super) fn name_of(tree: TreeNo, key: Option<&[u8]>) -> Name {
    key.map_or(Name::End(tree), |key| Name::row(tree, key))
}

impl<F: Files, T: Latched> Drop for Session<F, T> {
    fn drop(&mut self) {
        // If the undo fails, a restart undoes the transaction; its locks go with the store.
        if self.abort().is_err() {
            self.locks.abandon();
        }
        self.store.claims.remove(&self.claim);
        if let Some(slot) = self.slot.take() {
            self.store.upkeep.transactions.give_back(slot);
        }
    }
}
