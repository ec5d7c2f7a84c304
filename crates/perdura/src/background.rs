//! The background thread, which does the work that engines put off: see [`crate::Background`].
//!
//! 1. The thread goes round over the partitions and does a step in each that has a backlog; between
//!    two steps all others can have the partition. A partition that is not given back is left alone
//!    until the next round.
//! 2. When none has a backlog it sleeps. A commit that leaves a backlog wakes it.
//! 3. A step that failed is tried again after a pause, or when the partition can be used again;
//!    until one has succeeded the error is kept for [`Worker::take_error`].
//!
//! Nothing is lost when it is stopped anywhere: a step leaves the partition as a commit does.

use std::collections::BTreeMap;
use std::panic;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use engines::EngineError;
use engines::below::Environment;

use crate::any_engine::AnyEngine;
use crate::error::Error;
use crate::partition_lock::PartitionLock;
use crate::wakeup::Wakeup;

/// Bytes of a step, for which a writer may have to wait.
const STEP_BYTES: u64 = 64 << 10;

/// The last step of these partitions failed.
type Errors = Mutex<BTreeMap<usize, EngineError>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The outcome of a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Nothing was to be done.
    Idle,
    /// Work was done.
    Worked,
    /// Work is left, but none of it could be done.
    Stuck,
}

type Partitions<E> = Arc<[PartitionLock<AnyEngine<E>>]>;

fn round<E: Environment>(
    partitions: &[PartitionLock<AnyEngine<E>>],
    wakeup: &Wakeup,
    errors: &Errors,
) -> Round {
    let mut round = Round::Idle;
    for (number, partition) in partitions.iter().enumerate() {
        if wakeup.is_stopped() {
            return round;
        }
        if !partition.has_backlog() {
            continue;
        }
        let done = partition.step(|engine| {
            let before = engine.stats().background;
            let result = if can_work(engine) { engine.background(STEP_BYTES) } else { Ok(0) };
            let more = can_work(engine);
            ((result, engine.stats().background != before || !more), more)
        });
        match done {
            Some((Ok(_), true)) => {
                lock(errors).remove(&number);
                round = Round::Worked;
            }
            Some((Err(error), _)) => {
                lock(errors).insert(number, error);
            }
            Some((Ok(_), false)) | None => {}
        }
        if round == Round::Idle {
            round = Round::Stuck;
        }
    }
    round
}

/// Returns true if there is work that the engine can do. An engine that has stopped does none.
fn can_work<E: Environment>(engine: &AnyEngine<E>) -> bool {
    engine.has_backlog() && !engine.is_stopped()
}

/// The thread, for as long as the database is open.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) wakeup: Arc<Wakeup>,
    errors: Arc<Errors>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread: a forked child has not.
    process: u32,
}

impl Worker {
    /// Starts the thread.
    pub(crate) fn start<E: Environment>(partitions: &Partitions<E>) -> Result<Self, Error> {
        let (wakeup, errors) = (Arc::new(Wakeup::default()), Arc::new(Errors::default()));
        let (heard, failed, partitions) = (wakeup.clone(), errors.clone(), partitions.clone());
        for (number, partition) in partitions.iter().enumerate() {
            let taken = |taken| Error::taken(number, taken);
            if can_work(&*partition.write().map_err(taken)?) {
                partition.leave_backlog();
            }
        }
        let work = move || {
            while !heard.is_stopped() {
                match round(&partitions, &heard, &failed) {
                    Round::Worked => {}
                    Round::Stuck => heard.pause(),
                    Round::Idle => {
                        heard.sleep(|| partitions.iter().any(PartitionLock::has_backlog));
                    }
                }
            }
        };
        let started = thread::Builder::new().name("perdura-background".into()).spawn(work);
        let io = |source| Error::Io { path: "the thread in the background".into(), source };
        let thread = Some(started.map_err(io)?);
        Ok(Self { wakeup, errors, thread, process: std::process::id() })
    }

    /// The error of a step that failed and has not succeeded since; each is given out once.
    pub(crate) fn take_error(&self) -> Result<(), Error> {
        match lock(&self.errors).pop_first() {
            None => Ok(()),
            Some((partition, source)) => Err(Error::Background { partition, source }),
        }
    }

    /// Stops the thread, after the step that is under way. Called while no partition is taken.
    pub(crate) fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != std::process::id() {
            // It stayed with the parent, perhaps in the middle of a step, with locks held.
            std::mem::forget(thread);
            return;
        }
        self.wakeup.stop();
        if let Err(why) = thread.join()
            && !thread::panicking()
        {
            panic::resume_unwind(why);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}
