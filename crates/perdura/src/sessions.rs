//! The sessions of a partition whose engine runs many transactions at the same time.
//!
//! Invariants:
//! - A session in use has one user; a free one has no transaction open.
//! - While a partition is still ([`SessionPool::still`]) no session of it is in use.
//! - There are at most [`MOST`] sessions. They are made as they are needed, and used again.
//!
//! 1. To begin a transaction, take a free session, or make one, or wait.
//! 2. When the transaction has ended the session is given back. One whose transaction could not be
//!    undone is dropped instead.
//! 3. To use the partition as a whole (to copy, check, close or own it), let no new transaction
//!    begin, and wait until the last session has come back.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engines::{Begin, EngineError, InFlight, Sessions, TxId};

use crate::any_engine::AnyEngine;
use crate::held::{self, Hold};
use crate::holder::Holder;
use crate::partition_lock::Taken;
use crate::waits::{IfTaken, Waits};

/// The most transactions of a partition that are open at the same time.
pub(crate) const MOST: usize = 256;

/// The place from which a transaction is continued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Continue {
    Last,
    Start,
}

/// The sessions of a partition; see the module's comment.
pub(crate) struct SessionPool<E> {
    source: Arc<dyn Sessions>,
    state: Mutex<State<E>>,
    /// Notified when a session comes back, and when a partition is no longer still.
    changed: Condvar,
    /// The age of the last transaction that has begun.
    age: AtomicU64,
    waits: Waits,
}

struct State<E> {
    #[expect(clippy::vec_box, reason = "a session is taken and given back without moving it")]
    free: Vec<Box<AnyEngine<E>>>,
    /// The number of sessions in use.
    in_use: usize,
    /// The number of threads that keep the partition still, or wait for that.
    still: usize,
    /// The number of threads that wait until something has changed. Where there is
    /// none, none is notified: that would be a call of the kernel for each transaction.
    waiting: usize,
}

impl<E> State<E> {
    /// Returns whether no session can be had.
    fn is_full(&self) -> bool {
        self.still > 0 || self.in_use >= MOST
    }
}

impl<E> SessionPool<E> {
    /// The sessions of an engine, whose unfinished transactions wait so long at most.
    pub(crate) fn new(source: Arc<dyn Sessions>, within: Option<Duration>) -> Self {
        let state = State { free: Vec::new(), in_use: 0, still: 0, waiting: 0 };
        let state = Mutex::new(state);
        let waits = Waits::new(within);
        waits.note_all(|| source.numbers());
        Self { source, state, changed: Condvar::new(), age: AtomicU64::new(0), waits }
    }

    /// A panic never happens while the state is half changed.
    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rolls back the transactions that have waited too long to be continued.
    pub(crate) fn end_overdue(&self) {
        self.end_overdue_or(IfTaken::Wait);
    }

    fn end_overdue_or(&self, if_taken: IfTaken) {
        for id in self.waits.overdue(if_taken, Instant::now) {
            // The partition is being copied, or all sessions are in use: later, then.
            let Ok(_place) = self.place(Duration::ZERO) else { return };
            self.end_if_overdue(id, if_taken);
        }
    }

    /// Does the same for a caller that has a place already, or all of them.
    fn end_all_overdue(&self) {
        for id in self.waits.overdue(IfTaken::Wait, Instant::now) {
            self.end_if_overdue(id, IfTaken::Wait);
        }
    }

    fn end_if_overdue(&self, id: TxId, if_taken: IfTaken) {
        self.waits.end_overdue(id, if_taken, Instant::now, || {
            // Else the engine reports the reason when a transaction begins.
            if let Ok(mut session) = self.source.replay(id) {
                let _ = session.abort();
            }
        });
    }

    /// The transactions that wait to be continued.
    pub(crate) fn in_flight(&self) -> Vec<InFlight> {
        self.end_overdue();
        self.waits.look(|| self.source.in_flight())
    }

    /// A new transaction's age.
    pub(crate) fn next_age(&self) -> u64 {
        self.age.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Waits until `is` returns false for the state, or `most` has passed; without a limit if that is
    /// `None`. Returns false with the state if the time has passed.
    fn wait_while<'g>(
        &self,
        mut state: MutexGuard<'g, State<E>>,
        most: Option<Duration>,
        is: impl Fn(&State<E>) -> bool,
    ) -> (MutexGuard<'g, State<E>>, bool) {
        if !is(&state) {
            return (state, true);
        }
        let deadline = most.and_then(|most| Instant::now().checked_add(most));
        state.waiting += 1;
        let ended = loop {
            if !is(&state) {
                break true;
            }
            let Some(deadline) = deadline else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        state.waiting -= 1;
        (state, ended)
    }

    /// Notifies the threads that wait, if there are some, that something has changed.
    fn notify(&self, state: MutexGuard<'_, State<E>>) {
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
    }

    /// Takes a session and begins a transaction in it, with a name if it goes on after a crash.
    /// Waits for a session for this time at most.
    pub(crate) fn begin(
        &self,
        begin: &Begin,
        name: Option<&[u8]>,
        wait: Duration,
    ) -> Result<PooledSession<'_, E>, SessionError> {
        // Overdue transactions do not disturb readers.
        if !begin.reads_only {
            self.end_overdue_or(IfTaken::Leave);
        }
        let mut session = self.place_with(wait, |state| state.free.pop())?;
        if session.engine.is_none() {
            session.engine = Some(Box::new(AnyEngine::session(self.source.session()?)));
        }
        match session.begin_as(begin, name) {
            // An overdue transaction may have the name: since the check above, or because the latch
            // was taken then.
            Err(EngineError::NameTaken) => {
                self.end_all_overdue();
                session.begin_as(begin, name)?;
            }
            begun => begun?,
        }
        Ok(session)
    }

    /// Takes a session and continues this waiting transaction in it: after its last statement, or
    /// from its start.
    pub(crate) fn resume(
        &self,
        id: TxId,
        from: Continue,
        wait: Duration,
    ) -> Result<PooledSession<'_, E>, SessionError> {
        let mut session = self.place(wait)?;
        let resumed = self.waits.resume(id, || match from {
            Continue::Last => self.source.resume(id),
            Continue::Start => self.source.replay(id),
        })?;
        session.resumed = true;
        session.engine = Some(Box::new(AnyEngine::resumed(resumed)));
        Ok(session)
    }

    /// A place for a session, which is given back with it.
    fn place(&self, wait: Duration) -> Result<PooledSession<'_, E>, SessionError> {
        self.place_with(wait, |_| None)
    }

    /// The same with a session, if there is one to be taken.
    fn place_with(
        &self,
        wait: Duration,
        take: impl FnOnce(&mut State<E>) -> Option<Box<AnyEngine<E>>>,
    ) -> Result<PooledSession<'_, E>, SessionError> {
        if held::any(|hold| hold == Hold::alone(self)) {
            return Err(Taken::Nested.into());
        }
        let (mut state, free) = self.wait_while(self.state(), Some(wait), State::is_full);
        if !free {
            let by = if state.still > 0 { Holder::Copy } else { Holder::Transactions };
            return Err(Taken::Busy(by).into());
        }
        state.in_use += 1;
        let engine = take(&mut state);
        drop(state);
        held::take(Hold::shared(self));
        Ok(PooledSession { pool: self, engine, resumed: false })
    }

    /// Waits for this time at most until no session is in use; none can be taken meanwhile.
    pub(crate) fn still(&self, most: Option<Duration>) -> Result<Still<'_, E>, Taken> {
        if held::any(|hold| hold == Hold::shared(self)) {
            return Err(Taken::Nested);
        }
        let mut state = self.state();
        state.still += 1;
        held::take(Hold::alone(self));
        // Given back on every way out.
        let still = Still { pool: self };
        let (state, empty) = self.wait_while(state, most, |state| state.in_use > 0);
        drop(state);
        if empty { Ok(still) } else { Err(Taken::Busy(Holder::Transactions)) }
    }
}

impl<E> Drop for SessionPool<E> {
    fn drop(&mut self) {
        held::forget(self);
    }
}

/// The reason why a session cannot be had.
#[derive(Debug)]
pub(crate) enum SessionError {
    Taken(Taken),
    Engine(EngineError),
}

impl From<Taken> for SessionError {
    fn from(taken: Taken) -> Self {
        Self::Taken(taken)
    }
}

impl From<EngineError> for SessionError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl<E> fmt::Debug for SessionPool<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionPool").field("source", &self.source).finish_non_exhaustive()
    }
}

/// A session with an open transaction, which is undone if it has not ended when this is dropped.
pub(crate) struct PooledSession<'a, E> {
    pool: &'a SessionPool<E>,
    /// `None` only while it is being made.
    engine: Option<Box<AnyEngine<E>>>,
    /// Its transaction was continued.
    resumed: bool,
}

impl<E> PooledSession<'_, E> {
    /// Detaches the open transaction, so that it can be continued.
    pub(crate) fn detach(&mut self) -> Result<TxId, EngineError> {
        let pool = self.pool;
        pool.waits.leave(Instant::now, || (**self).detach())
    }
}

impl<E> Deref for PooledSession<'_, E> {
    type Target = AnyEngine<E>;

    fn deref(&self) -> &AnyEngine<E> {
        self.engine.as_ref().expect("it was made")
    }
}

impl<E> DerefMut for PooledSession<'_, E> {
    fn deref_mut(&mut self) -> &mut AnyEngine<E> {
        self.engine.as_mut().expect("it was made")
    }
}

impl<E> Drop for PooledSession<'_, E> {
    fn drop(&mut self) {
        // One whose transaction could not be undone has stopped.
        let usable = |mut session: Box<AnyEngine<E>>| {
            session.abort_open();
            (!session.is_stopped()).then_some(session)
        };
        let mut session = self.engine.take().and_then(usable);
        if self.resumed {
            // One that has diverged waits on.
            self.pool.waits.note_all(|| self.pool.source.numbers());
        }
        let mut state = self.pool.state();
        state.in_use -= 1;
        // One that was resumed comes in addition to those there are: it is kept if none is free, so
        // that there are no more than were in use at the same time.
        if !self.resumed || state.free.is_empty() {
            state.free.extend(session.take());
        }
        held::leave(Hold::shared(self.pool));
        self.pool.notify(state);
    }
}

impl<E> fmt::Debug for PooledSession<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledSession").finish_non_exhaustive()
    }
}

/// Keeps the sessions of a partition out of use for as long as it lives.
pub(crate) struct Still<'a, E> {
    pool: &'a SessionPool<E>,
}

impl<E> Still<'_, E> {
    /// Rolls back the transactions that have waited too long to be continued. For the owner of the
    /// partition, in which no session is used.
    pub(crate) fn end_overdue(&self) {
        self.pool.end_all_overdue();
    }
}

impl<E> Drop for Still<'_, E> {
    fn drop(&mut self) {
        held::leave(Hold::alone(self.pool));
        let mut state = self.pool.state();
        state.still -= 1;
        self.pool.notify(state);
    }
}

impl<E> fmt::Debug for Still<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Still").finish_non_exhaustive()
    }
}
