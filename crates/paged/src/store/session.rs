//! A session: one transaction at a time, strictly serializable by two-phase locking.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pm::Files;

use super::Store;
use super::room::{Claim, Room, Wanting};
use crate::flaw::Flaw;
use crate::ids::{Lsn, TreeNo};
use crate::latch::{Latched, Latching};
use crate::lock::{Gap, LockMode, Locks, Mode, Name};
use crate::recovery::{Transaction, undo};
use crate::threads::Host;
use crate::tree::{Batch, Bound, Direction, Inserted, Tree};
use crate::{PagedError, Result};

/// Bytes that a record has beside keys and rows, at most: those of a split's record are its own.
const RECORD_ROOM: u64 = 256;
/// An operation for which that was too little has taken back what it had done, which takes log, too: it sets
/// more aside before it tries again, in so many steps, and tries so often.
const MOST_STEPS: u64 = 3;
const MOST_SHORT: u64 = 16;

/// One side of a range of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowBound<'k> {
    /// There is none.
    Unbounded,
    /// Keys that begin with these bytes, and keys on the inner side of them, are within.
    Included(&'k [u8]),
    /// Keys that begin with these bytes are without.
    Excluded(&'k [u8]),
}

/// A range of keys, told by the first bytes of its bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowRange<'k> {
    /// The lower bound.
    pub low: RowBound<'k>,
    /// The upper bound.
    pub high: RowBound<'k>,
}

impl RowRange<'_> {
    fn is_below(&self, key: &[u8]) -> bool {
        match self.low {
            RowBound::Unbounded => false,
            RowBound::Included(low) => key < low,
            RowBound::Excluded(low) => key < low || key.starts_with(low),
        }
    }

    fn is_above(&self, key: &[u8]) -> bool {
        match self.high {
            RowBound::Unbounded => false,
            RowBound::Included(high) => key > high && !key.starts_with(high),
            RowBound::Excluded(high) => key >= high,
        }
    }
}

/// Whoever is shown the keys and rows of a scan; it returns whether it wants the next one.
pub type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// The least bytes that are greater than all that begin with these; `None` if there are none.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = prefix.to_vec();
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

/// A session of a store. Dropping it undoes an open transaction.
#[derive(Debug)]
pub struct Session<F: Files, T: Latched = Host> {
    store: Arc<Store<F, T>>,
    locks: Locks<T>,
    claim: Arc<Claim>,
    open: Option<Transaction>,
    /// Keys that hold space back which goes when the transaction is committed.
    held_back: BTreeSet<(TreeNo, Vec<u8>)>,
    batch: Batch,
}

impl<F: Files, T: Latched> Session<F, T> {
    pub(super) fn new(store: Arc<Store<F, T>>) -> Self {
        let locks = store.locks.session();
        let claim = store.claims.add(locks.party());
        let (held_back, batch) = (BTreeSet::new(), Batch::default());
        Self { store, locks, claim, open: None, held_back, batch }
    }

    /// Begins a transaction; one of less age wins over others. It waits for a lock so long at most, or
    /// as long as [`LockOptions::timeout`](crate::lock::LockOptions::timeout) says.
    pub fn begin(&mut self, age: u64, wait: Option<Duration>) {
        debug_assert!(self.open.is_none(), "the transaction before is over");
        self.locks.begin(age);
        if let Some(wait) = wait {
            self.locks.wait_at_most(wait);
        }
        self.open = Some(self.store.begin());
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

    /// Returns whether the transaction has locked a table so that it needs no locks to read its rows.
    fn reads_all(&self, tree: TreeNo) -> bool {
        self.locks.holds(Name::Table(tree)).mode.reads_all()
    }

    /// A row has been read, whose lock is held until the end.
    #[inline]
    fn has_read(&mut self, name: Name) {
        if T::Latching::has(Flaw::ReadLockLetGo) {
            let LockMode { mode, gap } = self.locks.holds(name);
            if mode == Mode::Shared && matches!(gap, Gap::None | Gap::Shared) {
                self.locks.unlock(name);
            }
        }
    }

    fn lock_scanned(&mut self, tree: TreeNo, name: Name, mode: LockMode) -> Result<()> {
        if self.reads_all(tree) {
            return Ok(());
        }
        self.locks.lock(name, mode)
    }

    fn try_lock_scanned(&mut self, tree: TreeNo, name: Name, mode: LockMode) -> Result<bool> {
        if self.reads_all(tree) {
            return Ok(true);
        }
        let locked = self.locks.try_lock(name, mode);
        self.has_read(name);
        locked
    }

    /// Locks a table, as a whole if the transaction has many locks already.
    fn lock_to_scan(&mut self, tree: TreeNo) -> Result<()> {
        let mode = if self.locks.has_many() { Mode::Shared } else { Mode::IntentShared };
        self.locks.lock(Name::Table(tree), mode)
    }

    /// Reads the row of a key.
    ///
    /// # Errors
    /// A conflict, or a page cannot be read.
    pub fn get(&mut self, tree: TreeNo, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.lock_key(tree, key, Mode::IntentShared, Mode::Shared)?;
        let found = self.store.tree(tree)?.get(key);
        self.has_read(Name::row(tree, key));
        found
    }

    /// Reads the row of a key that may be changed: others read it, too, until it is, but not to change
    /// it.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_for_update(&mut self, tree: TreeNo, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mode = match T::Latching::has(Flaw::UpdateAsShared) {
            false => Mode::Update,
            true => Mode::Shared,
        };
        self.lock_key(tree, key, Mode::IntentExclusive, mode)?;
        self.store.tree(tree)?.get(key)
    }

    /// Reads the row of a key that is changed next: nobody else reads it.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_exclusive(&mut self, tree: TreeNo, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.lock_key(tree, key, Mode::IntentExclusive, Mode::Exclusive)?;
        self.store.tree(tree)?.get(key)
    }

    /// Does a change, with room in the log for it.
    fn change<R>(
        &mut self,
        bytes: usize,
        mut act: impl FnMut(&Store<F, T>, &mut Transaction, &mut Locks<T>) -> Result<R>,
    ) -> Result<R> {
        let store = Arc::clone(&self.store);
        store.take_part()?;
        let (mut wanting, step) = (Wanting::default(), bytes as u64 + RECORD_ROOM);
        let mut short = 0;
        self.claim.set_holds(true);
        loop {
            let transaction = self.open.as_mut().expect("a transaction is open");
            let ahead = step * (1 + short.min(MOST_STEPS));
            let done = transaction.reserve(&*store.upkeep.log, ahead).and_then(|()| {
                let done = act(&store, transaction, &mut self.locks);
                short += u64::from(matches!(done, Err(PagedError::LogFull { .. })));
                done
            });
            let holds = transaction.holds_room();
            let waited = match done {
                Err(PagedError::LogFull { .. }) if short <= MOST_SHORT => {
                    store.await_room(&self.claim, &mut wanting, holds)
                }
                _ => Ok(Room::None),
            };
            if matches!(waited, Ok(Room::Perhaps)) {
                continue;
            }
            store.end_wanting(&self.claim, &wanting, holds);
            return match (waited?, done) {
                (Room::Victim, _) => Err(self.locks.give_up()),
                (_, Err(full @ PagedError::LogFull { .. })) => {
                    let full = store.upkeep.log.hindrance().unwrap_or(full);
                    Err(if holds { self.locks.give_up() } else { full })
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
            let mut wanted = None;
            let mut failed = None;
            let inserted = self.change(key.len() + row.len(), |store, transaction, locks| {
                let mut permit = |next: Option<&[u8]>| {
                    let next = name_of(tree, next);
                    let tried = locks.try_lock(next, Gap::Insert).and_then(|granted| {
                        // The gap that the transaction has read is two gaps now.
                        let both = granted
                            && locks.holds(next).gap == Gap::Both
                            && !T::Latching::has(Flaw::SplitGapNotLocked);
                        let mode = LockMode::row(Mode::Exclusive, Gap::Shared);
                        Ok(granted && (!both || locks.try_lock(own, mode)?))
                    });
                    match tried {
                        Ok(true) => true,
                        Ok(false) => {
                            wanted = Some(next);
                            false
                        }
                        Err(error) => {
                            failed = Some(error);
                            false
                        }
                    }
                };
                store.tree(tree)?.insert_if(transaction, key, row, &mut permit)
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            match (inserted, wanted) {
                (Inserted::Done, _) => return Ok(()),
                (Inserted::Refused, Some(next)) => self.locks.lock_insert(own, next)?,
                // A page was given up on the way: again.
                (Inserted::Refused, None) => T::Latching::pause(),
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
        self.change(bytes, |store, transaction, _| {
            store.tree(tree)?.update(transaction, key, row)
        })?;
        self.hold_back(tree, key);
        Ok(())
    }

    /// Deletes the row of a key.
    ///
    /// # Errors
    /// There is none, a conflict, no room, or a page cannot be read.
    pub fn delete(&mut self, tree: TreeNo, key: &[u8]) -> Result<()> {
        self.lock_key(tree, key, Mode::IntentExclusive, Mode::Exclusive)?;
        let bytes = key.len() + self.store.upkeep.pool.page_bytes();
        self.change(bytes, |store, transaction, _| store.tree(tree)?.delete(transaction, key))?;
        self.hold_back(tree, key);
        Ok(())
    }

    /// Calls `visit` with keys and rows of a range, in order, until it returns false.
    ///
    /// # Errors
    /// A conflict, or a page cannot be read.
    pub fn scan(
        &mut self,
        tree: TreeNo,
        range: &RowRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<()> {
        self.lock_to_scan(tree)?;
        let store = Arc::clone(&self.store);
        let on = store.tree(tree)?;
        let mut batch = std::mem::take(&mut self.batch);
        let done = match direction {
            Direction::Forward => self.forward(&on, range, &mut batch, visit),
            Direction::Backward => self.backward(&on, range, &mut batch, visit),
        };
        batch.rows.clear();
        self.batch = batch;
        done
    }

    fn forward(
        &mut self,
        on: &Tree<'_, F, T::Latching>,
        range: &RowRange<'_>,
        batch: &mut Batch,
        visit: Visit<'_>,
    ) -> Result<()> {
        let from = match range.low {
            RowBound::Unbounded => Bound::Unbounded,
            RowBound::Included(low) => Bound::Included(low),
            RowBound::Excluded(low) => match &behind(low) {
                Some(bytes) => {
                    return self.walk(
                        on,
                        Direction::Forward,
                        Bound::Included(bytes),
                        range,
                        batch,
                        visit,
                    );
                }
                None => return Ok(()),
            },
        };
        self.walk(on, Direction::Forward, from, range, batch, visit)
    }

    fn backward(
        &mut self,
        on: &Tree<'_, F, T::Latching>,
        range: &RowRange<'_>,
        batch: &mut Batch,
        visit: Visit<'_>,
    ) -> Result<()> {
        let top = match range.high {
            RowBound::Unbounded => None,
            RowBound::Included(high) => behind(high),
            RowBound::Excluded(high) => Some(high.to_vec()),
        };
        // The gap above the range's last key is locked by the first key above the range.
        let nothing = RowRange {
            low: RowBound::Unbounded,
            high: top.as_deref().map_or(RowBound::Unbounded, RowBound::Excluded),
        };
        match &top {
            Some(top) => {
                let from = Bound::Included(top);
                self.walk(on, Direction::Forward, from, &nothing, batch, &mut |_, _| Ok(false))?;
                self.walk(on, Direction::Backward, Bound::Excluded(top), range, batch, visit)
            }
            None => {
                self.lock_scanned(on.number, Name::End(on.number), Gap::Shared.into())?;
                self.walk(on, Direction::Backward, Bound::Unbounded, range, batch, visit)
            }
        }
    }

    /// Visits rows from a place on, with the locks of each.
    fn walk(
        &mut self,
        on: &Tree<'_, F, T::Latching>,
        direction: Direction,
        from: Bound<'_>,
        range: &RowRange<'_>,
        batch: &mut Batch,
        visit: Visit<'_>,
    ) -> Result<()> {
        let mut scan = on.scan(direction, from);
        loop {
            if self.locks.has_many() {
                self.lock_to_scan(on.number)?;
            }
            let (mut ended, mut failed, mut wanted) = (false, None, None);
            let mut permit = |key: Option<&[u8]>| {
                let outside = |key: &[u8]| match direction {
                    Direction::Forward => range.is_above(key),
                    Direction::Backward => range.is_below(key),
                };
                let out = key.is_none_or(outside);
                if out && direction == Direction::Backward {
                    // The gap before the range's first key is locked with that key.
                    ended = true;
                    return key.is_none();
                }
                let gap =
                    if T::Latching::has(Flaw::GapNotLocked) { Gap::None } else { Gap::Shared };
                let unlocked = out || T::Latching::has(Flaw::ReadNotLocked);
                let mode = LockMode::row(if unlocked { Mode::None } else { Mode::Shared }, gap);
                let name = name_of(on.number, key);
                match self.try_lock_scanned(on.number, name, mode) {
                    Ok(true) => {
                        ended = out;
                        !out || key.is_none()
                    }
                    Ok(false) => {
                        wanted = Some((name, mode));
                        false
                    }
                    Err(error) => {
                        failed = Some(error);
                        false
                    }
                }
            };
            scan.next(batch, &mut permit)?;
            self.locks.has_scanned(Name::Table(on.number));
            if let Some(error) = failed {
                return Err(error);
            }
            for (key, row) in &batch.rows {
                if !visit(key, row)? {
                    return Ok(());
                }
            }
            match wanted {
                Some((name, mode)) => self.lock_scanned(on.number, name, mode)?,
                None if ended || batch.rows.is_empty() => return Ok(()),
                None => {}
            }
        }
    }

    /// Commits: all of it is durable up to the LSN that is returned, which the caller waits for with
    /// [`Store::wait`] before it acknowledges anything, what was only read included.
    ///
    /// # Errors
    /// The transaction was refused a lock: it can only be aborted. Or the store has stopped, and nothing
    /// is committed. Or the log has stopped; whether the transaction is committed shows after a restart.
    pub fn commit(&mut self) -> Result<Lsn> {
        if !T::Latching::has(Flaw::DoomedCommits) {
            self.locks.check()?;
        }
        let Some(mut transaction) = self.open.take() else { return Ok(Lsn::NONE) };
        let store = Arc::clone(&self.store);
        if transaction.last() == Lsn::NONE {
            let independent = T::Latching::has(Flaw::ReaderIndependent);
            let depends = if independent { Lsn::NONE } else { self.locks.depends() };
            self.locks.release(Lsn::NONE);
            transaction.unreserve(&*store.upkeep.log);
            store.upkeep.transactions.end(transaction);
            self.claim.set_holds(false);
            self.held_back.clear();
            return Ok(depends);
        }
        // A part of a statement that failed may still be there: then the pool has stopped, or undo had
        // taken it back.
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
        // It is committed: an error of the work beside it is said to whoever changes something next.
        let _ = store.take_part();
        Ok(if T::Latching::has(Flaw::AcknowledgedEarly) { Lsn::NONE } else { wait_for })
    }

    /// Notes a row whose space goes when the transaction is over. There are as many as locks at most.
    fn hold_back(&mut self, tree: TreeNo, key: &[u8]) {
        self.held_back.insert((tree, key.to_vec()));
    }

    /// Gives away the space that rows of the transaction held back, when their locks are let go: a
    /// ghost whose gap another transaction has locked stays. So does what finds no room in the log, or
    /// no frame, until its page needs the space.
    fn settle(&mut self) {
        for (tree, key) in std::mem::take(&mut self.held_back) {
            if let Ok(tree) = self.store.tree(tree) {
                let _ = tree.settle(&key);
            }
        }
    }

    /// Undoes the open transaction.
    ///
    /// # Errors
    /// A page cannot be read, or the log has stopped: the transaction stays open, and a restart undoes
    /// it.
    pub fn abort(&mut self) -> Result<()> {
        let Some(mut transaction) = self.open.take() else { return Ok(()) };
        let store = Arc::clone(&self.store);
        if let Err(error) = undo::abort(&*store.upkeep.log, &mut transaction, &store.upkeep.pool) {
            self.open = Some(transaction);
            return Err(error);
        }
        store.upkeep.transactions.end(transaction);
        self.claim.set_holds(false);
        self.locks.release(Lsn::NONE);
        self.settle();
        Ok(())
    }

    /// The commit that has to be durable before anybody is told what the last transaction has seen, though
    /// it was undone. Nobody is told what one in a conflict has seen: it is run again.
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
        undo::rollback_to(&*store.upkeep.log, self.transaction(), &store.upkeep.pool, savepoint)
            .map(drop)
    }
}

fn name_of(tree: TreeNo, key: Option<&[u8]>) -> Name {
    key.map_or(Name::End(tree), |key| Name::row(tree, key))
}

impl<F: Files, T: Latched> Drop for Session<F, T> {
    fn drop(&mut self) {
        // What cannot be undone now, a restart undoes; its locks go with the store.
        if self.abort().is_err() {
            self.locks.abandon();
        }
        self.store.claims.remove(&self.claim);
    }
}
