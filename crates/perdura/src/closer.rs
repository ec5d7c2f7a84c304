//! The thread that ends groups of commits in time: see [`crate::Commit::Grouped`].
//!
//! 1. A commit that leaves its group open sets the partition's alarm, unless it is set, to now plus
//!    the limit. That wakes the thread, if it has nothing else to wait for.
//! 2. When an alarm goes off the thread first clears it, then takes the partition, and syncs:
//!    everything that was committed before the alarm was cleared is durable then. A later commit
//!    sets it again.
//!
//! So a transaction waits at most for the limit, the sync, and the holder of the partition.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use engines::below::Environment;

use crate::any_engine::AnyEngine;
use crate::error::Error;
use crate::partition_lock::PartitionLock;
use crate::sharing::Syncs;

/// The time that the thread waits for a partition before it looks after the others.
const PATIENCE: Duration = Duration::from_millis(10);

#[derive(Debug)]
struct State {
    /// The end of each partition's group, if one is open.
    due: Vec<Option<Instant>>,
    stop: bool,
}

/// The times at which groups end.
#[derive(Debug)]
pub(crate) struct Alarms {
    within: Duration,
    set: Vec<AtomicBool>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Alarms {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit has left the group of a partition open. Called with the partition taken.
    #[inline]
    pub(crate) fn left_open(&self, partition: usize) {
        if !self.set[partition].load(SeqCst) {
            self.set(partition);
        }
    }

    #[cold]
    fn set(&self, partition: usize) {
        self.set[partition].store(true, SeqCst);
        self.state().due[partition] = Instant::now().checked_add(self.within);
        self.changed.notify_all();
    }

    /// Waits for the next partition whose group is due; `None` to end.
    fn next(&self) -> Option<usize> {
        let mut state = self.state();
        loop {
            if state.stop {
                return None;
            }
            let first =
                (0..).zip(&state.due).filter_map(|(at, due)| due.map(|due| (due, at))).min();
            let now = Instant::now();
            state = match first {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some((due, at)) if due <= now => {
                    state.due[at] = None;
                    self.set[at].store(false, SeqCst);
                    return Some(at);
                }
                Some((due, _)) => {
                    let waited = self.changed.wait_timeout(state, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// The partition could not be had: once more, soon.
    fn again(&self, partition: usize) {
        self.set[partition].store(true, SeqCst);
        self.state().due[partition].get_or_insert_with(Instant::now);
    }
}

/// The thread, for as long as the database is open.
#[derive(Debug)]
pub(crate) struct Closer {
    pub(crate) alarms: Arc<Alarms>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread: a forked child has not.
    process: u32,
}

impl Closer {
    /// Starts the thread, which lets no group be open for longer than `within`.
    pub(crate) fn start<E: Environment>(
        partitions: &Arc<[PartitionLock<AnyEngine<E>>]>,
        within: Duration,
    ) -> Result<Self, Error> {
        let count = partitions.len();
        let alarms = Arc::new(Alarms {
            within,
            set: (0..count).map(|_| AtomicBool::new(false)).collect(),
            state: Mutex::new(State { due: vec![None; count], stop: false }),
            changed: Condvar::new(),
        });
        let (own, partitions) = (alarms.clone(), partitions.clone());
        let work = move || {
            while let Some(partition) = own.next() {
                // A sync that fails stops its partition, which returns an error to every caller.
                let done = partitions[partition].visit(PATIENCE, |engine| drop(engine.sync()));
                if done.is_none() {
                    own.again(partition);
                }
            }
        };
        let started = thread::Builder::new().name("perdura-groups".into()).spawn(work);
        let io = |source| Error::Io { path: "the thread that ends groups".into(), source };
        let thread = Some(started.map_err(io)?);
        Ok(Self { alarms, thread, process: std::process::id() })
    }

    /// Ends the thread. Called while no partition is taken.
    pub(crate) fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != std::process::id() {
            // It stayed with the parent.
            std::mem::forget(thread);
            return;
        }
        self.alarms.state().stop = true;
        self.alarms.changed.notify_all();
        // It runs no code of the user's; what it could panic with is ours, and was printed.
        let _ = thread.join();
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.stop();
    }
}
