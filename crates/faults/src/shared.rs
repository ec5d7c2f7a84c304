//! Threads that share one partition, and run one at a time ([`crate::scheduler`]); what they saw,
//! and what a crash leaves of it, before the oracle ([`crate::history`]).
//!
//! A thread hands its turn over before a store, a flush or a fence, when it is going to take the
//! engine's lock, and when it waits: for that lock, which the engine has to report, or for a
//! partition that a serial engine lets one have at a time. Each acknowledgement is noted in the
//! record with the time by the history's clock, so that for each state it is known what was
//! promised.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use perdura::{Database, Error, Maker, Options, Tx};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Recorded, Recording, RecordingFiles, Trace};

use crate::explorer::{Abandoned, Effort, Explored, Violation, with_promise, without_panic};
use crate::history::{Cell, History, Key, Recorder, Rule};
use crate::items::checks;
use crate::medium::{Medium, State};
use crate::pool::{LIMIT, PoolMedium};
use crate::scheduler::Scheduler;
use crate::sharing::{Mix, Sharer, schema};

/// An engine of a test.
pub type Brought = Arc<dyn Maker<Recorded>>;

/// The scenario.
#[derive(Clone)]
pub struct Shared {
    /// The options with which the database is made and opened.
    pub options: Options,
    /// Makes an engine of a test that gives its turn on where it waits. Without it the options name
    /// the engine.
    pub maker: Option<Arc<dyn Fn(Arc<Scheduler>) -> Brought + Send + Sync>>,
    /// Chooses the transactions, and who runs when.
    pub seed: u64,
    /// The number of threads.
    pub threads: usize,
    /// The number of transactions of all threads together.
    pub transactions: usize,
    /// The number of keys.
    pub keys: u64,
    /// The mix of operations.
    pub mix: Mix,
    /// Another thread goes on before about one in so many stores, flushes, fences or locks.
    pub one_in: u32,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// A recording of a shared run.
pub struct SharedScenario {
    /// The transactions with what they saw.
    pub history: History,
    /// The operations on the memory, with the history's time at each acknowledgement.
    pub trace: Trace,
    /// The number of times that another thread went on.
    pub handed_over: u64,
    /// The number of transactions that ended in a conflict.
    pub conflicts: usize,
    options: Options,
    maker: Option<Brought>,
    sharer: Sharer,
    /// Kept, so that its address is taken.
    before: Recording,
}

impl fmt::Debug for SharedScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { history, handed_over, .. } = self;
        let transactions = history.transactions.len();
        let mut shown = f.debug_struct("SharedScenario");
        shown.field("transactions", &transactions).field("handed_over", handed_over);
        shown.finish_non_exhaustive()
    }
}

impl Shared {
    /// Creates a scenario of so many transactions of two threads on a few keys.
    pub fn new(options: Options, seed: u64, transactions: usize) -> Self {
        let (threads, keys, mix, one_in) = (2, 6, Mix::ALL, 6);
        Self { options, maker: None, seed, threads, transactions, keys, mix, one_in }
    }

    /// Runs it.
    ///
    /// # Panics
    /// The engine fails without any crash.
    pub fn run(&self) -> SharedScenario {
        let memory = Recording::pool(64 << 10, LIMIT).expect("address space");
        let media = crate::recorded(memory.clone(), RecordingFiles::new());
        let scheduler = Arc::new(Scheduler::new(self.seed, self.threads, self.one_in));
        let maker = self.maker.as_ref().map(|maker| maker(scheduler.clone()));
        let db = match &maker {
            Some(maker) => Database::create_with(media, &schema(), &self.options, &**maker),
            None => Database::create_on(media, &schema(), &self.options),
        };
        let db = db.expect("a database");
        let (sharer, initial) = Sharer::fill(&db, self.keys, self.mix).expect("it is filled");
        assert_eq!(sharer.contents(&db).expect("it is read"), initial, "it is there");
        let recorder = Recorder::new(initial);
        let hook = scheduler.clone();
        memory.call_before_each(move |site| hook.pass_at(site));
        memory.start();
        memory.note(0);
        let conflicts = self.act(&db, &sharer, &recorder, &scheduler, &memory);
        let trace = memory.stop();
        // What is there in the end, as one more transaction.
        let mut last = recorder.begin(self.threads);
        last.scan(crate::history::Range::ALL, sharer.contents(&db).expect("it is read"));
        recorder.committed(last, None);
        checks(&db).expect("a sound database");
        db.close().expect("it closes");
        SharedScenario {
            history: recorder.history(),
            trace,
            handed_over: scheduler.handed_over(),
            conflicts,
            options: self.options.clone(),
            maker,
            sharer,
            before: memory,
        }
    }

    fn act(
        &self,
        db: &Database<Recorded>,
        sharer: &Sharer,
        recorder: &Recorder,
        scheduler: &Scheduler,
        memory: &Recording,
    ) -> usize {
        let (left, conflicts) = (AtomicUsize::new(self.transactions), AtomicUsize::new(0));
        // One for all: who draws next follows from the seed, too.
        let random = Mutex::new(SmallRng::seed_from_u64(self.seed));
        let draw = || random.lock().unwrap_or_else(PoisonError::into_inner).random();
        let take = |left: usize| left.checked_sub(1);
        scheduler.run(|me| {
            while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                let mut random = SmallRng::seed_from_u64(draw());
                let mut pending = recorder.begin(me);
                let mut tx = begin(db, scheduler);
                let done = sharer.change(&mut tx, &mut random, recorder, &mut pending);
                let done = match done {
                    Ok(()) if random.random_ratio(1, 10) => {
                        tx.abort().expect("it aborts");
                        recorder.aborted(pending);
                        continue;
                    }
                    Ok(()) => tx.commit(),
                    Err(error) => {
                        drop(tx);
                        Err(error)
                    }
                };
                match done {
                    Ok(ticket) => {
                        assert!(ticket.is_durable(), "a commit is not durable");
                        recorder.committed(pending, Some(ticket.number()));
                        memory.note(recorder.now());
                    }
                    Err(Error::Conflict { .. }) => {
                        recorder.aborted(pending);
                        conflicts.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
        conflicts.into_inner()
    }
}

/// Begins a transaction. A thread that would wait for the partition passes its turn on.
fn begin<'a>(db: &'a Database<Recorded>, scheduler: &Scheduler) -> Tx<'a, Recorded> {
    loop {
        match db.try_begin(Duration::ZERO) {
            Err(Error::Busy { .. }) => scheduler.give_on(),
            begun => return begun.expect("it begins"),
        }
    }
}

impl SharedScenario {
    /// Looks at the crash points; stops at the first state that is no prefix of an order that the
    /// rule allows. From every so many states more transactions follow, and another recovery.
    pub fn explore(&self, rule: Rule, effort: Effort) -> Explored {
        let Effort { bound, part, seed, again } = effort;
        let mut explored = Explored::default();
        let mut seen = HashSet::new();
        let walked = PoolMedium::walk(&self.trace, bound, part, seed, &mut |state| {
            if !seen.insert(with_promise::<PoolMedium>(&state)) {
                return ControlFlow::Continue(());
            }
            explored.states += 1;
            let deep = again.is_due(explored.states, 0);
            self.look(rule, &state, deep, &mut explored)
        });
        Explored { points: walked.points, barriers: walked.barriers, ..explored }
    }

    /// Looks at every `stride`th state that a kill of the process can leave.
    pub fn explore_kills(&self, rule: Rule, stride: u64) -> Explored {
        let mut explored = Explored::default();
        PoolMedium::kills(&self.trace, &mut |state| {
            explored.points += 1;
            if !explored.points.is_multiple_of(stride) {
                return ControlFlow::Continue(());
            }
            explored.states += 1;
            let deep = explored.states.is_multiple_of(16);
            self.look(rule, &state, deep, &mut explored)
        });
        explored
    }

    fn look(
        &self,
        rule: Rule,
        state: &State<'_, [u8]>,
        deep: bool,
        explored: &mut Explored,
    ) -> ControlFlow<()> {
        let Err(what) = without_panic(|| self.judge(rule, state, deep)) else {
            return ControlFlow::Continue(());
        };
        let lost = PoolMedium::explain(&self.trace, state.position, state.image);
        explored.violation = Some(Violation { position: state.position, what, lost });
        ControlFlow::Break(())
    }

    fn open(&self, image: &[u8]) -> Result<(Abandoned, Recording), String> {
        let memory = Recording::pool_from_image(image, LIMIT).map_err(|error| error.to_string())?;
        assert!(!memory.is_mapped_like(&self.before), "it recovers at another address");
        let media = crate::recorded(memory.clone(), RecordingFiles::new());
        let db = match &self.maker {
            Some(maker) => Database::open_with(media, &self.options, &**maker),
            None => Database::open_on(media, &self.options),
        };
        let db = db.map_err(|error| format!("does not open: {error}"))?;
        Ok((Abandoned(Some(db)), memory))
    }

    fn contents(&self, db: &Database<Recorded>) -> Result<Vec<(Key, Cell)>, String> {
        let table = db.table(crate::sharing::CELL).map_err(|error| error.to_string())?;
        let sharer = Sharer { table, ..self.sharer.clone() };
        sharer.contents(db).map_err(|error| format!("cannot be read: {error}"))
    }

    fn judge(&self, rule: Rule, state: &State<'_, [u8]>, deep: bool) -> Result<(), String> {
        let (db, memory) = self.open(state.image)?;
        let contents = self.contents(&db)?;
        let at = state.acknowledged.unwrap_or(0);
        let order = self.history.recovered(rule, at, &contents);
        order.map_err(|violation| format!("is wrong after a crash: {violation}"))?;
        checks(&db)?;
        if !deep {
            return Ok(());
        }
        // A few more, on what the crash has left, and a second recovery.
        let table = db.table(crate::sharing::CELL).map_err(|error| error.to_string())?;
        let sharer = Sharer { table, ..self.sharer.clone() };
        let recorder = Recorder::new(contents);
        let mut random = SmallRng::seed_from_u64(state.position as u64);
        for _ in 0..6 {
            let mut pending = recorder.begin(0);
            let mut tx = db.begin().map_err(|error| error.to_string())?;
            let done = sharer.change(&mut tx, &mut random, &recorder, &mut pending);
            let done = done.and_then(|()| tx.commit());
            let ticket = done.map_err(|error| format!("cannot go on: {error}"))?;
            recorder.committed(pending, Some(ticket.number()));
        }
        drop(db);
        let (db, _) = self.open(PoolMedium::now(&memory).borrow())?;
        let order = recorder.history().recovered(rule, recorder.now(), &self.contents(&db)?);
        order.map_err(|violation| format!("goes on wrongly: {violation}"))?;
        checks(&db).map(drop)
    }
}
