//! The locks of one session: those of its transaction, and those that it keeps for the next.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::head::{Evicted, Outcome, Party, Request};
use super::inherit::{self, Share};
use super::mode::{Gap, LockMode, Mode};
use super::name::Name;
use super::table::LockTable;
use crate::error::Conflict;
use crate::flaw::Flaw;
use crate::ids::Lsn;
use crate::threads::Threads;
use crate::{PagedError, Result};

/// A lock that the session keeps beyond its transaction.
#[derive(Debug)]
struct Kept {
    name: Name,
    mode: LockMode,
    share: Arc<Share>,
    /// The transaction that is running has it.
    used: bool,
    /// The commits on which the last transaction depended that had it.
    depends: Lsn,
}

/// Locks for which a session keeps memory from one transaction to the next.
const KEEPS_ROOM_FOR: usize = 1024;

/// The locks of a session. Dropping it lets all go.
#[derive(Debug)]
pub struct Locks<T: Threads> {
    table: Arc<LockTable<T>>,
    party: Arc<Party>,
    /// In the order in which they were got.
    held: IndexMap<Name, LockMode, FxBuildHasher>,
    kept: Vec<Kept>,
    depends: Lsn,
    doomed: Option<Conflict>,
    /// The longest time that an operation of the transaction waits for locks, in all.
    timeout: Duration,
    /// The rest of it, for the operation that is under way.
    left: Duration,
}

impl<T: Threads> LockTable<T> {
    /// The locks of a session, which has none yet.
    pub fn session(self: &Arc<Self>) -> Locks<T> {
        let id = self.parties.fetch_add(1, Ordering::Relaxed);
        Locks::new(Arc::clone(self), Arc::new(Party { id, ..Party::default() }))
    }
}

impl<T: Threads> Locks<T> {
    fn new(table: Arc<LockTable<T>>, party: Arc<Party>) -> Self {
        let (held, kept) = (IndexMap::default(), Vec::new());
        let timeout = table.options.timeout;
        let (depends, doomed, left) = (Lsn::NONE, None, timeout);
        Self { table, party, held, kept, depends, doomed, timeout, left }
    }

    /// Returns whether the transaction has so many locks that it had better lock a table than more
    /// of its rows.
    pub fn has_many(&self) -> bool {
        self.held.len() >= self.table.options.escalate_after
    }

    /// Begins a transaction. A rerun has the age of the first run; a greater one is younger.
    ///
    /// # Panics
    /// If the transaction before has not let go of its locks.
    pub fn begin(&mut self, age: u64) {
        assert!(self.held.is_empty(), "the transaction before holds locks");
        self.party.age.store(age, Ordering::Relaxed);
        (self.depends, self.doomed) = (Lsn::NONE, None);
        self.wait_at_most(self.table.options.timeout);
    }

    /// The session, as the holder of locks.
    pub(crate) fn party(&self) -> Arc<Party> {
        Arc::clone(&self.party)
    }

    /// Sets the longest time that an operation of the transaction waits for locks, instead of the
    /// table's.
    pub fn wait_at_most(&mut self, time: Duration) {
        (self.timeout, self.left) = (time, time);
    }

    /// An operation of the transaction begins. However many locks it has to wait for, it waits no
    /// longer than [`Self::wait_at_most`] says.
    pub fn begin_operation(&mut self) {
        self.left = self.timeout;
    }

    /// The number of requests of all transactions that had to wait so far.
    pub fn waits(&self) -> u64 {
        self.table.counters.waits.load(Ordering::Relaxed)
    }

    /// Returns whether another transaction waits for a lock that the transaction holds.
    pub fn is_waited_for(&self) -> bool {
        self.held.keys().any(|name| {
            let mut shard = self.table.shard(name.bits());
            shard.existing(*name).is_some_and(|head| !head.queue.is_empty())
        })
    }

    /// The mode in which the transaction holds a name.
    pub fn holds(&self, name: Name) -> LockMode {
        self.held.get(&name).copied().unwrap_or_default()
    }

    /// The commit that has to be durable before the transaction is acknowledged, also if it has
    /// only read: locks that it has got were let go early by it or by older ones.
    pub fn depends(&self) -> Lsn {
        self.depends
    }

    /// The transaction has read pages of a table: it depends on the commits of ghosts that it did
    /// not meet there because they are gone.
    pub fn has_scanned(&mut self, table: Name) {
        if self.table.threads.has(Flaw::GoneGhostForgotten) {
            return;
        }
        let gone = Lsn(self.table.gone_from(table).load(Ordering::Acquire));
        self.depends = self.depends.max(gone);
    }

    /// Waits until the transaction holds a name in a mode, in addition to what it holds already.
    /// Called with nothing latched.
    ///
    /// # Errors
    /// [`PagedError::Conflict`]: the transaction is a victim, or has waited too long. It is doomed: it
    /// gets no lock any more. [`PagedError::TooManyLocks`].
    pub fn lock(&mut self, name: Name, mode: impl Into<LockMode>) -> Result<()> {
        self.request(name, mode.into(), true).map(drop)
    }

    /// As [`Self::lock`], but returns false where it would have to wait: for callers that hold a
    /// latch.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn try_lock(&mut self, name: Name, mode: impl Into<LockMode>) -> Result<bool> {
        self.request(name, mode.into(), false)
    }

    /// Locks for inserting a key before `next`: the intention to insert into the gap, then the new
    /// key, before which the gap is as it was if the transaction has read it.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn lock_insert(&mut self, key: Name, next: Name) -> Result<()> {
        self.lock(next, Gap::Insert)?;
        self.lock(key, self.inserted_before(next))
    }

    /// As [`Self::lock_insert`], but returns false where it would have to wait: for callers that
    /// hold a latch.
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn try_lock_insert(&mut self, key: Name, next: Name) -> Result<bool> {
        Ok(self.try_lock(next, Gap::Insert)? && self.try_lock(key, self.inserted_before(next))?)
    }

    /// The mode of a key that is inserted before `next`, whose gap is locked for it: a gap that the
    /// transaction has read is two gaps from now on.
    fn inserted_before(&self, next: Name) -> LockMode {
        let gap = match self.holds(next).gap {
            Gap::Both if !self.table.threads.has(Flaw::SplitGapNotLocked) => Gap::Shared,
            _ => Gap::None,
        };
        LockMode::row(Mode::Exclusive, gap)
    }

    /// Returns whether the transaction was refused a lock, so that it can only let all go.
    pub fn is_doomed(&self) -> bool {
        self.doomed.is_some()
    }

    /// Checks that the transaction was refused no lock.
    ///
    /// # Errors
    /// [`PagedError::Conflict`]: it was, and can only let all go.
    pub fn check(&self) -> Result<()> {
        self.doomed.map_or(Ok(()), |conflict| Err(PagedError::Conflict(conflict)))
    }

    /// Gives up, because there is no room in the log: the transaction is doomed. Returns the
    /// conflict.
    pub fn give_up(&mut self) -> PagedError {
        self.doomed = Some(Conflict::Room);
        PagedError::Conflict(Conflict::Room)
    }

    fn request(&mut self, name: Name, mode: LockMode, may_wait: bool) -> Result<bool> {
        self.check()?;
        self.take_up_kept(name);
        let Self { table, party, held, depends, doomed, left, .. } = self;
        let have = held.get(&name).copied();
        let mode = have.map_or(mode, |have| have.supremum(mode));
        if have == Some(mode) {
            return Ok(true);
        }
        let upgrade = have.is_some();
        if !upgrade && table.held.fetch_add(1, Ordering::Relaxed) >= table.options.most {
            table.held.fetch_sub(1, Ordering::Relaxed);
            return Err(PagedError::TooManyLocks { most: table.options.most });
        }
        table.counters.requests.fetch_add(1, Ordering::Relaxed);
        let bits = name.bits();
        let mut shard = table.shard(bits);
        let head = shard.head(name, bits);
        let mut evicted = Evicted::default();
        let is_held = head.is_held_against(party, mode, &mut evicted);
        table.count_evicted(&evicted);
        if !is_held && (upgrade || head.queue.is_empty()) {
            *depends = head.give(party, mode).max(*depends);
            held.insert(name, mode);
            return Ok(true);
        }
        if !may_wait {
            if !upgrade {
                table.held.fetch_sub(1, Ordering::Relaxed);
            }
            table.serve(&mut shard, name, bits);
            return Ok(false);
        }
        let number = table.numbers.fetch_add(1, Ordering::Relaxed);
        {
            let mut wait = party.wait.lock();
            (wait.number, wait.name, wait.outcome) = (number, Some(name), None);
        }
        head.enqueue(Request { party: Arc::clone(party), number, mode, upgrade });
        drop(shard);
        table.counters.waits.fetch_add(1, Ordering::Relaxed);
        let start = table.threads.now();
        let outcome = table.wait(party, name, number, *left);
        *left = left.saturating_sub(table.threads.now().saturating_sub(start));
        let (conflict, counter) = match outcome {
            Some(Outcome::Granted(written)) => {
                *depends = written.max(*depends);
                held.insert(name, mode);
                return Ok(true);
            }
            Some(Outcome::Victim) => (Conflict::Deadlock, &table.counters.victims),
            None => (Conflict::Timeout, &table.counters.timeouts),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if !upgrade {
            table.held.fetch_sub(1, Ordering::Relaxed);
        }
        *doomed = Some(conflict);
        Err(PagedError::Conflict(conflict))
    }

    /// Gives the transaction a lock that the session has kept, if it has one and it was not taken
    /// away.
    fn take_up_kept(&mut self, name: Name) {
        let Some(place) = self.kept.iter().position(|kept| kept.name == name) else { return };
        let kept = &mut self.kept[place];
        if kept.used {
            return;
        }
        let taken = !kept.share.take_up();
        let flawed = taken && self.table.threads.has(Flaw::KeptThoughTaken);
        if !taken || flawed {
            // The session that took it has counted it as let go.
            self.table.held.fetch_add(usize::from(flawed), Ordering::Relaxed);
            kept.used = true;
            if kept.mode.reads_rows() {
                self.depends = self.depends.max(kept.depends);
            }
            self.held.insert(name, kept.mode);
            self.table.counters.inherited.fetch_add(1, Ordering::Relaxed);
        } else {
            self.kept.swap_remove(place);
        }
    }

    /// The transaction depends on a commit, of which it may have seen what no lock stands for.
    pub fn depend_on(&mut self, at: Lsn) {
        self.depends = self.depends.max(at);
    }

    /// Lets go of a name that the transaction has only read, before it ends.
    ///
    /// # Panics
    /// If it may have written it.
    pub fn unlock(&mut self, name: Name) {
        let Some(mode) = self.held.swap_remove(&name) else { return };
        assert!(!mode.writes() && !mode.writes_rows(), "what was written stays locked");
        self.kept.retain(|kept| kept.name != name);
        self.let_go(name, Lsn::NONE);
    }

    fn let_go(&self, name: Name, at: Lsn) {
        let bits = name.bits();
        let mut shard = self.table.shard(bits);
        if shard.existing(name).is_some_and(|head| head.remove(&self.party, at)) {
            self.table.held.fetch_sub(1, Ordering::Relaxed);
        }
        self.table.serve(&mut shard, name, bits);
    }

    /// Lets go of everything at the end of the transaction: for a commit as soon as its record has
    /// the LSN `at`, or when that is durable; for others with [`Lsn::NONE`], when all is undone.
    /// Locks of tables that all sessions use stay with the session, if that is asked for.
    pub fn release(&mut self, at: Lsn) {
        let unused: Vec<Kept> = self.kept.extract_if(.., |kept| !kept.used).collect();
        for kept in unused {
            if kept.share.give_up() {
                self.let_go(kept.name, Lsn::NONE);
            }
        }
        let mut held = std::mem::take(&mut self.held);
        for (name, mode) in held.drain(..) {
            if !self.keep(name, mode, at) {
                self.kept.retain(|kept| kept.name != name);
                self.let_go(name, at);
            }
        }
        held.shrink_to(KEEPS_ROOM_FOR);
        self.held = held;
    }

    /// Lets nothing go, now and when this is dropped: what the transaction has changed cannot be
    /// undone before a restart, and no other transaction may see it.
    pub fn abandon(&mut self) {
        self.held.clear();
        self.kept.clear();
    }

    /// Keeps a lock beyond the transaction, if it is one to keep and no transaction waits for it.
    fn keep(&mut self, name: Name, mode: LockMode, at: Lsn) -> bool {
        let Some(often) = self.table.options.inherit_after else { return false };
        if !inherit::can_be_kept(name, mode) || self.doomed.is_some() {
            return false;
        }
        let depends = self.depends.max(at);
        if let Some(kept) = self.kept.iter_mut().find(|kept| kept.name == name) {
            (kept.mode, kept.used, kept.depends) = (mode, false, depends);
            return kept.share.keep(at);
        }
        let mut shard = self.table.shard(name.bits());
        let Some(head) = shard.existing(name) else { return false };
        if head.granted < often || !head.queue.is_empty() {
            return false;
        }
        let share = Arc::new(Share::kept(at));
        let Some(grant) = head.grant_of(&self.party) else { return false };
        grant.share = Some(Arc::clone(&share));
        self.kept.push(Kept { name, mode, share, used: false, depends });
        true
    }
}

impl<T: Threads> Drop for Locks<T> {
    fn drop(&mut self) {
        self.doomed = Some(Conflict::Deadlock);
        self.release(Lsn::NONE);
        self.release(Lsn::NONE);
    }
}
