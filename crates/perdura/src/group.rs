//! Transactions of one partition that share a sync: whoever has committed lets the next one in and
//! is acknowledged after a sync that covers both.
//!
//! Invariants:
//! - Nobody is acknowledged before a sync has returned that began behind the end of its transaction.
//! - After a sync that failed nobody is acknowledged any more.
//! - While somebody waits, somebody leads, or may lead, or is to come: nobody waits for ever.
//!
//! 1. A transaction that has ended becomes a [`Member`] with the partition still taken, and waits
//!    without it.
//! 2. One of those who wait leads: it syncs for all whose transactions have ended by then. Who ends
//!    meanwhile waits for the next sync, which one of them leads.
//! 3. Where the sync needs the partition (`cow`) nobody leads while others wait for that to run their
//!    transactions: the last of them syncs, still in it. Whoever leaves the partition without a sync,
//!    and finds that nobody else wants it, says that there is a lead to be taken
//!    ([`Group::vacate`]).
//! 4. A leader waits a little for those who took part the last time, since they are likely to commit
//!    again: an eighth of what a sync takes, at most. One who commits alone waits for nobody.

use std::fmt::Display;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use crate::sync::{AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, Stopwatch, yield_now};

/// The part of a sync that others are waited for.
const LINGER: u32 = 8;

#[derive(Debug)]
struct State {
    /// The last transaction that is durable, as far as somebody waited for it.
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
    /// The number of those who wait.
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

/// The reason why one who waits is not acknowledged.
#[derive(Debug)]
pub(crate) enum Failed<F> {
    /// Its own sync failed.
    Here(F),
    /// A failure in another thread.
    Elsewhere(String),
}

impl Group {
    /// A group of which nobody waits. `outside`: a sync does not need the partition.
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

    /// Returns true if somebody waits.
    #[inline]
    pub(crate) fn has_members(&self) -> bool {
        self.members.load(SeqCst) > 0
    }

    /// Returns the number of those who wait.
    pub(crate) fn members(&self) -> u32 {
        self.members.load(SeqCst)
    }

    /// Returns true if a sync does not need the partition.
    pub(crate) fn is_outside(&self) -> bool {
        self.outside
    }

    /// The last transaction whose sync was left to the group: for one who reads the partition, and
    /// may see what is not durable.
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

    /// One who waits for `number`, with the partition taken if it is its own transaction.
    pub(crate) fn join(&self, number: u64) -> Member<'_> {
        self.members.fetch_add(1, SeqCst);
        Member { group: self, number }
    }

    /// The sync of this transaction is left to the group. Called with the partition taken.
    pub(crate) fn leave_sync(&self, number: u64) -> Member<'_> {
        self.newest.store(number, Relaxed);
        self.join(number)
    }

    /// Lets anyone who waits lead, since nobody else is to come who would.
    #[cold]
    pub(crate) fn vacate(&self) {
        self.state().vacant = true;
        self.changed.notify_all();
    }

    /// Everything up to `number` is durable, by the last sync of the partition that somebody made in
    /// it; `others` wait for the partition by now.
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

    /// A sync has failed.
    pub(crate) fn fail(&self, why: &impl Display) {
        self.state().failed.get_or_insert_with(|| why.to_string());
        self.changed.notify_all();
    }

    /// Waits a little for one who is likely to come, with the partition taken; returns whether
    /// somebody has, as `come` says.
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

/// One who waits.
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

    /// Returns when the transaction is durable. Where nobody else leads, `lead` syncs, and returns
    /// the last transaction that is durable; or `None` if it could not yet.
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

/// The time during which one leads. However it ends, perhaps by a panic, those who wait hear of it.
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
