//! The thread in the background, which does what engines put off: see [`crate::Background`].
//!
//! 1. It goes round over the partitions and does a step in each that has a backlog; between two
//!    steps everybody else can have the partition.
//! 2. When none has one it sleeps. A commit that leaves a backlog wakes it.
//! 3. A step that failed is tried again after a pause, or when the partition can be used again;
//!    until one has succeeded the error is kept for [`Worker::take_error`].
//!
//! Nothing is lost when it is stopped anywhere: a step leaves the partition as a commit does.

use std::collections::BTreeMap;
use std::panic;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engines::EngineError;
use engines::below::Environment;

use crate::any_engine::AnyEngine;
use crate::error::Error;
use crate::turns::Turns;

/// Bytes of a step, for which a writer may have to wait.
const STEP_BYTES: u64 = 64 << 10;
/// How long nothing is tried when nothing could be done.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct State {
    stop: bool,
    /// Somebody has left a backlog since the thread fell asleep.
    rung: bool,
}

/// Wakes the thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    asleep: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    /// The last step of these partitions failed.
    errors: Mutex<BTreeMap<usize, EngineError>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bell {
    /// There is a backlog. Called with the partition taken, so that the thread, which looks at
    /// every partition before it sleeps, either sees the backlog or hears the bell.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.asleep.load(SeqCst) {
            self.wake(|state| state.rung = true);
        }
    }

    #[cold]
    fn wake(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        lock(&self.state).stop
    }

    /// Sleeps until the bell rings, unless `backlog` finds something to do.
    fn sleep(&self, backlog: impl FnOnce() -> bool) {
        self.asleep.store(true, SeqCst);
        if !backlog() {
            let mut state = lock(&self.state);
            while !state.stop && !state.rung {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        self.asleep.store(false, SeqCst);
        lock(&self.state).rung = false;
    }

    fn pause(&self) {
        let state = lock(&self.state);
        let stopped = self.changed.wait_timeout_while(state, PAUSE, |state| !state.stop);
        drop(stopped.unwrap_or_else(PoisonError::into_inner));
    }
}

/// What came of a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// There was nothing to do.
    Idle,
    /// Something was done.
    Worked,
    /// There is something to do, but nothing could be done.
    Stuck,
}

type Partitions<E> = Arc<[Turns<AnyEngine<E>>]>;

fn round<E: Environment>(partitions: &[Turns<AnyEngine<E>>], bell: &Bell) -> Round {
    let mut round = Round::Idle;
    for (number, partition) in partitions.iter().enumerate() {
        if bell.is_stopped() {
            return round;
        }
        if !can_work(&partition.read()) {
            continue;
        }
        let (result, worked) = partition.step(|engine| {
            let before = engine.stats().background;
            let result = engine.background(STEP_BYTES);
            (result, engine.stats().background != before || !can_work(engine))
        });
        match result {
            Ok(_) if worked => {
                lock(&bell.errors).remove(&number);
                round = Round::Worked;
            }
            Ok(_) => {}
            Err(error) => {
                lock(&bell.errors).insert(number, error);
            }
        }
        if round == Round::Idle {
            round = Round::Stuck;
        }
    }
    round
}

/// Whether there is something to do. Who has stopped does nothing any more.
fn can_work<E: Environment>(engine: &AnyEngine<E>) -> bool {
    engine.has_backlog() && !engine.is_stopped()
}

/// The thread, for as long as the database is open.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread.
    pub(crate) fn start<E: Environment>(partitions: &Partitions<E>) -> Result<Self, Error> {
        let bell = Arc::new(Bell::default());
        let (heard, partitions) = (bell.clone(), partitions.clone());
        let work = move || {
            while !heard.is_stopped() {
                match round(&partitions, &heard) {
                    Round::Worked => {}
                    Round::Stuck => heard.pause(),
                    Round::Idle => heard
                        .sleep(|| partitions.iter().any(|partition| can_work(&partition.read()))),
                }
            }
        };
        let started = thread::Builder::new().name("perdura-background".into()).spawn(work);
        let io = |source| Error::Io { path: "the thread in the background".into(), source };
        Ok(Self { bell, thread: Some(started.map_err(io)?) })
    }

    /// The error of a step that failed and has not succeeded since; each is given out once.
    pub(crate) fn take_error(&self) -> Result<(), Error> {
        match lock(&self.bell.errors).pop_first() {
            None => Ok(()),
            Some((partition, source)) => Err(Error::Background { partition, source }),
        }
    }

    /// Stops the thread, after the step that is under way. Nobody has a partition.
    pub(crate) fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.bell.wake(|state| state.stop = true);
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
