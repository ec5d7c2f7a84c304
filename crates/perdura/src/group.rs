//! Transactions of one partition that share a sync. A transaction that has committed lets the next
//! one in, and is acknowledged after a sync that covers both.
//!
//! Invariants:
//! - A transaction is acknowledged only after a sync has returned that began after the
//!   transaction's end.
//! - After a failed sync no transaction is acknowledged any more.
//! - While any thread waits there is a leader, or any waiting thread may become one, or another
//!   thread is to come that will sync. So no thread waits for ever.
//!
//! 1. A transaction that has ended becomes a [`Member`] with the partition still taken, and waits
//!    without it.
//! 2. One of the waiting threads leads: it syncs for all transactions that have ended by then.
//!    Those that end meanwhile wait for the next sync, which one of them leads.
//! 3. Where the sync needs the partition (`cow`) no thread leads while others wait for the
//!    partition to run their transactions: the last of these syncs, while it still has the
//!    partition. A thread that gives the partition back without a sync, while no other waits for
//!    it, allows a waiting thread to lead ([`Group::vacate`]).
//! 4. A leader waits a little for those who took part the last time, since they are likely to
//!    commit again: an eighth of the time of a sync, at most. A thread that commits alone does not
//!    wait.

use std::fmt::Display;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use crate::sync::{AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, Stopwatch, yield_now};

/// The part of a sync's time for which the leader waits for others.
const LINGER: u32 = 8;

#[derive(Debug)]
struct State {
    /// The last transaction that is durable, as far as any thread waited for it.
    durable: u64,
    /// The reason why a sync has failed.
    failed: Option<String>,
    /// Set while anyone who waits may lead.
    vacant: bool,
    /// Members that wait for the next sync.
    arrived: u32,
    /// The time that the last sync took.
    sync: Duration,
}

/// The commits that wait for a sync of a partition; see the module's comment.
#[derive(Debug)]
pub(crate) struct Group {
    /// The number of waiting threads.
    members: AtomicU32,
    /// The number of those who took part in the last sync, or came while it ran.
    expected: AtomicU32,
    /// The last transaction that ended and whose sync was left to the group.
    newest: AtomicU64,
    durable: AtomicU64,
    /// A sync does not need the partition.
    outside: bool,
    state: Mutex<State>,
    changed: Condvar,
}

/// The reason why a waiting thread is not acknowledged.
#[derive(Debug)]
pub(crate) enum Failed<F> {
    /// Its own sync failed.
    Here(F),
    /// A failure in another thread.
    Elsewhere(String),
}

impl Group {
    /// A group without waiting threads. `outside`: a sync does not need the partition.
    pub(crate) fn new(outside: bool) -> Self {
        let sync = Duration::ZERO;
        let state = State { durable: 0, failed: None, vacant: outside, arrived: 0, sync };
        Self {
            members: AtomicU32::new(0),
            expected: AtomicU32::new(0),
            newest: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            outside,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Returns true if a commit had better leave its sync to the group.
    #[inline]
    pub(crate) fn has_company(&self) -> bool {
        self.has_members() || self.expected.load(Relaxed) > 1
    }

    /// Returns true if any thread waits.
    #[inline]
    pub(crate) fn has_members(&self) -> bool {
        self.members.load(SeqCst) > 0
    }

    /// Returns the number of waiting threads.
    pub(crate) fn members(&self) -> u32 {
        self.members.load(SeqCst)
    }

    /// Returns true if a sync does not need the partition.
    pub(crate) fn is_outside(&self) -> bool {
        self.outside
    }

    /// The last transaction whose sync was left to the group. For threads that read the partition,
    /// and may see what is not durable.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Relaxed)
    }

    /// Returns true if a transaction is durable whose sync was left to the group.
    #[inline]
    pub(crate) fn is_durable(&self, number: u64) -> bool {
        self.durable.load(Acquire) >= number
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a thread that waits for `number`. It has the partition if `number` is its own
    /// transaction.
    pub(crate) fn join(&self, number: u64) -> Member<'_> {
        self.members.fetch_add(1, SeqCst);
        Member { group: self, number }
    }

    /// Leaves the sync of this transaction to the group. Called with the partition taken.
    pub(crate) fn leave_sync(&self, number: u64) -> Member<'_> {
        self.newest.store(number, Relaxed);
        self.join(number)
    }

    /// Allows any waiting thread to lead, since no other thread is to come that would sync.
    #[cold]
    pub(crate) fn vacate(&self) {
        self.state().vacant = true;
        self.changed.notify_all();
    }

    /// Notes that everything up to `number` is durable, by a sync that was just made in the
    /// partition; `others` wait for the partition by now.
    pub(crate) fn made_durable(&self, number: u64, others: u32, sync: Duration) {
        let mut state = self.state();
        state.vacant = self.outside;
        self.acknowledge(&mut state, number, sync);
        self.expected.fetch_add(1 + others, Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    fn acknowledge(&self, state: &mut State, number: u64, sync: Duration) {
        state.durable = state.durable.max(number);
        self.durable.store(state.durable, Release);
        state.sync = sync;
        self.expected.store(std::mem::take(&mut state.arrived), Relaxed);
    }

    /// Notes that a sync has failed.
    pub(crate) fn fail(&self, why: &impl Display) {
        self.state().failed.get_or_insert_with(|| why.to_string());
        self.changed.notify_all();
    }

    /// Waits a little, with the partition taken, for a thread that is likely to come. Returns true
    /// when `come` does.
    pub(crate) fn expect(&self, come: impl Fn() -> bool) -> bool {
        let state = self.state();
        let (missing, patience) =
            (state.arrived + 1 < self.expected.load(Relaxed), state.sync / LINGER);
        drop(state);
        let watch = Stopwatch::start();
        while !come() {
            if !missing || watch.is_over(patience) {
                return false;
            }
            yield_now();
        }
        true
    }

    /// The same for a leader that does not have the partition.
    fn linger<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let (expected, patience) = (self.expected.load(Relaxed), state.sync / LINGER);
        let watch = Stopwatch::start();
        while state.arrived < expected && !watch.is_over(patience) {
            drop(state);
            yield_now();
            state = self.state();
        }
        state
    }
}

/// A waiting thread.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    group: &'a Group,
    number: u64,
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.group.members.fetch_sub(1, SeqCst);
    }
}

impl Member<'_> {
    /// The transaction.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns when the transaction is durable. If no other thread leads, `lead` syncs and returns
    /// the last transaction that is durable, or `None` if it could not sync yet.
    pub(crate) fn wait<F: Display>(
        self,
        mut lead: impl FnMut() -> Result<Option<u64>, F>,
    ) -> Result<(), Failed<F>> {
        let group = self.group;
        let mut state = group.state();
        state.arrived += 1;
        loop {
            if state.durable >= self.number {
                return Ok(());
            }
            if let Some(why) = &state.failed {
                return Err(Failed::Elsewhere(why.clone()));
            }
            if !state.vacant {
                state = group.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.vacant = false;
            let mut term = Term { group, retry: true };
            if group.outside {
                state = group.linger(state);
            }
            let batch = std::mem::take(&mut state.arrived);
            drop(state);
            let watch = Stopwatch::start();
            let done = lead();
            state = group.state();
            let arrived = std::mem::replace(&mut state.arrived, batch);
            match done {
                Ok(Some(durable)) => {
                    group.acknowledge(&mut state, durable, watch.elapsed());
                    group.expected.fetch_add(arrived, Relaxed);
                    state.arrived = arrived;
                    term.retry = group.outside;
                }
                Ok(None) => state.arrived += arrived,
                Err(error) => {
                    state.failed.get_or_insert_with(|| error.to_string());
                    drop(state);
                    return Err(Failed::Here(error));
                }
            }
            drop(state);
            drop(term);
            state = group.state();
        }
    }
}

/// The time during which a thread leads. However it ends, perhaps by a panic, the waiting threads
/// are notified.
struct Term<'a> {
    group: &'a Group,
    /// Set if the lead is free again afterwards.
    retry: bool,
}

impl Drop for Term<'_> {
    fn drop(&mut self) {
        self.group.state().vacant |= self.retry;
        self.group.changed.notify_all();
    }
}
