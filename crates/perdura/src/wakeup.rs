//! The wakeup of the thread in the background: see [`crate::background`].

use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard};

/// The pause after a round in which nothing could be done.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct State {
    stop: bool,
    /// Set if a backlog was left since the thread fell asleep.
    notified: bool,
}

/// Wakes the thread.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    asleep: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Wakeup {
    /// Notifies the thread of a backlog. Called with the partition taken, so that the thread, which
    /// looks at every partition before it sleeps, either sees the backlog or is notified.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.asleep.load(SeqCst) {
            self.wake(|state| state.notified = true);
        }
    }

    #[cold]
    fn wake(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread end.
    pub(crate) fn stop(&self) {
        self.wake(|state| state.stop = true);
    }

    /// Returns true if the thread has to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state().stop
    }

    /// Sleeps until it is notified, unless `backlog` finds something to do.
    pub(crate) fn sleep(&self, backlog: impl FnOnce() -> bool) {
        self.asleep.store(true, SeqCst);
        if !backlog() {
            let mut state = self.state();
            while !state.stop && !state.notified {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        self.asleep.store(false, SeqCst);
        self.state().notified = false;
    }

    /// Waits a little, or until the thread is to end.
    pub(crate) fn pause(&self) {
        let state = self.state();
        let stopped = self.changed.wait_timeout_while(state, PAUSE, |state| !state.stop);
        drop(stopped.unwrap_or_else(PoisonError::into_inner));
    }
}
