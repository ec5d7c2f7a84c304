//! The sessions of a partition whose engine runs many transactions at the same time.
//!
//! Invariants:
//! - A session that is lent has one user; one that is free has no transaction open.
//! - While a partition is still ([`SessionPool::still`]) no session of it is lent.
//! - There are at most [`MOST`] sessions. They are made as they are needed, and used again.
//!
//! 1. Whoever begins a transaction takes a free session, or makes one, or waits.
//! 2. When it has ended the session is given back. One whose transaction could not be undone is
//!    dropped instead.
//! 3. Whoever needs the partition as a whole (to copy, check or close it, or to own it) lets no new
//!    transaction begin, and waits until the last session has come back.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use engines::{Begin, Sessions};

use crate::any_engine::AnyEngine;
use crate::error::Error;

/// So many transactions of a partition are open at the same time, at most.
pub(crate) const MOST: usize = 256;

/// The sessions of a partition; see the module's comment.
pub(crate) struct SessionPool<E> {
    source: Arc<dyn Sessions>,
    state: Mutex<State<E>>,
    /// Told when a session comes back, and when a partition is no longer still.
    changed: Condvar,
    /// The age of the last transaction that has begun.
    age: AtomicU64,
}

struct State<E> {
    free: Vec<Box<AnyEngine<E>>>,
    /// How many are lent.
    lent: usize,
    /// How many keep the partition still, or wait for that.
    still: usize,
}

impl<E> SessionPool<E> {
    pub(crate) fn new(source: Arc<dyn Sessions>) -> Self {
        let state = State { free: Vec::new(), lent: 0, still: 0 };
        let state = Mutex::new(state);
        Self { source, state, changed: Condvar::new(), age: AtomicU64::new(0) }
    }

    /// A panic never happens while the state is half changed.
    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new transaction's age.
    pub(crate) fn next_age(&self) -> u64 {
        self.age.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Lends a session, in which a transaction has begun; `None` if there was none until the
    /// deadline.
    pub(crate) fn lend(
        &self,
        begin: &Begin,
        deadline: Option<Instant>,
    ) -> Result<Option<Lent<'_, E>>, Error> {
        let mut state = self.state();
        while state.still > 0 || state.lent >= MOST {
            let Some(deadline) = deadline else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.lent += 1;
        let free = state.free.pop();
        drop(state);
        // Given back on every way out.
        let mut lent = Lent { pool: self, session: free };
        if lent.session.is_none() {
            lent.session = Some(Box::new(AnyEngine::session(self.source.session()?)));
        }
        lent.begin_as(begin)?;
        Ok(Some(lent))
    }

    /// Waits until no session is lent, and lends none meanwhile.
    pub(crate) fn still(&self) -> Still<'_, E> {
        let mut state = self.state();
        state.still += 1;
        while state.lent > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Still { pool: self }
    }
}

impl<E> fmt::Debug for SessionPool<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionPool").field("source", &self.source).finish_non_exhaustive()
    }
}

/// A session with an open transaction, which is undone if it has not ended when this is dropped.
pub(crate) struct Lent<'a, E> {
    pool: &'a SessionPool<E>,
    /// None only while it is being made.
    session: Option<Box<AnyEngine<E>>>,
}

impl<E> Deref for Lent<'_, E> {
    type Target = AnyEngine<E>;

    fn deref(&self) -> &AnyEngine<E> {
        self.session.as_ref().expect("a session")
    }
}

impl<E> DerefMut for Lent<'_, E> {
    fn deref_mut(&mut self) -> &mut AnyEngine<E> {
        self.session.as_mut().expect("a session")
    }
}

impl<E> Drop for Lent<'_, E> {
    fn drop(&mut self) {
        // One whose transaction could not be undone has stopped.
        let usable = |mut session: Box<AnyEngine<E>>| {
            session.abort_open();
            (!session.is_stopped()).then_some(session)
        };
        let session = self.session.take().and_then(usable);
        let mut state = self.pool.state();
        state.free.extend(session);
        state.lent -= 1;
        drop(state);
        self.pool.changed.notify_all();
    }
}

impl<E> fmt::Debug for Lent<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").finish_non_exhaustive()
    }
}

/// No session of a partition is lent meanwhile.
pub(crate) struct Still<'a, E> {
    pool: &'a SessionPool<E>,
}

impl<E> Drop for Still<'_, E> {
    fn drop(&mut self) {
        self.pool.state().still -= 1;
        self.pool.changed.notify_all();
    }
}

impl<E> fmt::Debug for Still<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Still").finish_non_exhaustive()
    }
}
