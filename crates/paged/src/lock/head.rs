//! The state of one locked name.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::inherit::{Asked, Share};
use super::mode::LockMode;
use super::name::Name;
use crate::ids::Lsn;
use crate::threads::Waiter;

/// The end of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The lock is held; what was written under it is durable at this LSN.
    Granted(Lsn),
    /// The transaction was picked to end a circle.
    Victim,
}

/// The wait of a session.
#[derive(Debug, Default)]
pub(super) struct Wait {
    /// The number of the wait: each has another.
    pub(super) number: u64,
    /// Set while the request is in the queue.
    pub(super) name: Option<Name>,
    /// Set under the mutex of the name's shard, when the request leaves the queue.
    pub(super) outcome: Option<Outcome>,
}

/// A session, as the holder of locks.
#[derive(Debug, Default)]
pub(crate) struct Party {
    pub(crate) id: u64,
    pub(super) age: AtomicU64,
    pub(super) waiter: Waiter,
    pub(super) wait: Mutex<Wait>,
}

#[derive(Debug)]
pub(super) struct Grant {
    pub(super) party: Arc<Party>,
    pub(super) mode: LockMode,
    /// Set where the session keeps the lock for its next transaction.
    pub(super) share: Option<Arc<Share>>,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) party: Arc<Party>,
    pub(super) number: u64,
    pub(super) mode: LockMode,
    /// It already holds the name in a weaker mode.
    pub(super) upgrade: bool,
}

/// A name that a transaction holds or waits for, or whose writers may not be durable.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// Most names have one holder.
    pub(super) grants: SmallVec<[Grant; 1]>,
    pub(super) queue: VecDeque<Request>,
    /// The number of times that it was granted.
    pub(super) granted: u64,
    /// The newest commit of a transaction that may have written it.
    pub(super) written: Lsn,
    /// The newest commit of a transaction that may have written rows of the table.
    pub(super) rows_written: Lsn,
    /// The space that its row holds back is given up when the last lock of it goes.
    pub(super) watched: bool,
}

/// The number of kept grants that were taken while one was looked for.
#[derive(Debug, Default)]
pub(super) struct Evicted(pub(super) usize);

impl Head {
    pub(super) fn is_idle(&self) -> bool {
        self.grants.is_empty() && self.queue.is_empty()
    }

    pub(super) fn grant_of(&mut self, party: &Arc<Party>) -> Option<&mut Grant> {
        self.grants.iter_mut().find(|grant| Arc::ptr_eq(&grant.party, party))
    }

    /// Returns whether another session's grant is in the way. A grant that a session only keeps for
    /// its next transaction is taken from it instead.
    pub(super) fn is_held_against(
        &mut self,
        party: &Arc<Party>,
        mode: LockMode,
        evicted: &mut Evicted,
    ) -> bool {
        let mut held = false;
        let (written, rows_written) = (&mut self.written, &mut self.rows_written);
        self.grants.retain(|grant| {
            if Arc::ptr_eq(&grant.party, party) || mode.goes_beside(grant.mode) {
                return true;
            }
            if let Some(share) = &grant.share
                && let Asked::Yielded(at) = share.ask()
            {
                evicted.0 += 1;
                note(written, rows_written, grant.mode, at);
                return false;
            }
            held = true;
            true
        });
        held
    }

    /// The commit on which a transaction that gets the name in this mode depends.
    pub(super) fn depends(&self, mode: LockMode) -> Lsn {
        if mode.reads_rows() { self.written.max(self.rows_written) } else { self.written }
    }

    /// Takes the grant of a party away. What it may have written is committed at `at`.
    pub(super) fn remove(&mut self, party: &Arc<Party>, at: Lsn) -> bool {
        let place = self.grants.iter().position(|grant| Arc::ptr_eq(&grant.party, party));
        let Some(place) = place else { return false };
        let grant = self.grants.swap_remove(place);
        let kept = grant.share.map_or(Lsn::NONE, |share| share.released());
        note(&mut self.written, &mut self.rows_written, grant.mode, at.max(kept));
        true
    }

    /// Puts a request into the queue.
    pub(super) fn enqueue(&mut self, request: Request) {
        let place = if request.upgrade {
            self.queue.iter().take_while(|before| before.upgrade).count()
        } else {
            self.queue.len()
        };
        self.queue.insert(place, request);
    }

    /// Takes a request out of the queue, if it is still there.
    pub(super) fn withdraw(&mut self, party: &Arc<Party>, number: u64) -> bool {
        let before = self.queue.len();
        self.queue
            .retain(|request| !Arc::ptr_eq(&request.party, party) || request.number != number);
        self.queue.len() < before
    }

    /// Notes that a party has the name in this mode.
    pub(super) fn give(&mut self, party: &Arc<Party>, mode: LockMode) -> Lsn {
        self.granted += 1;
        let mut own = Lsn::NONE;
        match self.grant_of(party) {
            Some(grant) => {
                grant.mode = mode;
                // Rows that its session has written in a transaction before, under the lock it
                // kept.
                own = grant.share.as_ref().map_or(own, |share| share.released());
            }
            None => {
                self.grants.push(Grant { party: Arc::clone(party), mode, share: None });
            }
        }
        self.depends(mode).max(if mode.reads_rows() { own } else { Lsn::NONE })
    }

    /// Grants what can be granted from the front of the queue on; calls `wake` for each.
    pub(super) fn serve(
        &mut self,
        evicted: &mut Evicted,
        mut wake: impl FnMut(&Arc<Party>, Outcome),
    ) {
        while let Some(front) = self.queue.front() {
            let (party, mode) = (Arc::clone(&front.party), front.mode);
            if self.is_held_against(&party, mode, evicted) {
                return;
            }
            self.queue.pop_front();
            let depends = self.give(&party, mode);
            wake(&party, Outcome::Granted(depends));
        }
    }

    /// The sessions for which a request waits: holders in the way, and all that are before it in
    /// the queue.
    pub(super) fn blockers(&self, party: &Arc<Party>, number: u64) -> Option<Vec<Arc<Party>>> {
        let place = self
            .queue
            .iter()
            .position(|request| Arc::ptr_eq(&request.party, party) && request.number == number)?;
        let mode = self.queue[place].mode;
        let holders = self.grants.iter().filter(|grant| {
            let kept = grant.share.as_ref().is_some_and(|share| share.is_kept());
            !Arc::ptr_eq(&grant.party, party) && !mode.goes_beside(grant.mode) && !kept
        });
        let before = self.queue.iter().take(place).map(|request| &request.party);
        Some(holders.map(|grant| &grant.party).chain(before).map(Arc::clone).collect())
    }
}

fn note(written: &mut Lsn, rows_written: &mut Lsn, mode: LockMode, at: Lsn) {
    if mode.writes() {
        *written = at.max(*written);
    }
    if mode.writes_rows() {
        *rows_written = at.max(*rows_written);
    }
}

impl Party {
    /// The greater, the younger.
    pub(crate) fn age(&self) -> u64 {
        self.age.load(Ordering::Relaxed)
    }

    /// Ends a wait. Called under the mutex of the name's shard.
    pub(super) fn finish(&self, outcome: Outcome) {
        let mut wait = self.wait.lock();
        (wait.name, wait.outcome) = (None, Some(outcome));
    }
}
