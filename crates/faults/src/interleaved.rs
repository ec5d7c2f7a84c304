//! Several partitions whose transactions interleave, in threads that run one at a time
//! ([`crate::scheduler`]) and go from partition to partition; and what a crash leaves of them.
//!
//! For each state: every partition has all of its acknowledged transactions, and else at
//! most the one that was in flight, whole; the allocator's view of the whole pool is what the
//! partitions lead to; more transactions work, each in a thread of its own; a second recovery
//! changes nothing.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use perdura::{Database, EngineKind, Options, Snapshot};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Recorded, Recording, RecordingFiles};

use crate::driver::Driver;
use crate::explorer::{Abandoned, Again, Effort, Explored, Violation, with_promise, without_panic};
use crate::files::{self, FileMedium};
use crate::items::{Model, Tables, checks, contents_in, differs_in, schema, which_in};
use crate::medium::{Medium, State};
use crate::mutation::Mutation;
use crate::plot::options;
use crate::pool::{self, PoolMedium};
use crate::scheduler::Scheduler;

/// Most partitions: what is acknowledged of all of them has to fit into a note.
pub const MOST_PARTITIONS: u32 = 4;

/// The scenario.
#[derive(Clone, Debug)]
pub struct Interleaved {
    /// The options with which the database is made and opened.
    pub options: Options,
    /// Chooses the transactions, and who runs when.
    pub seed: u64,
    /// The number of partitions, at most [`MOST_PARTITIONS`].
    pub partitions: u32,
    /// The number of threads, at most one for each partition.
    pub threads: usize,
    /// Transactions of all partitions together.
    pub transactions: usize,
    /// Keys of a table.
    pub keys: u64,
    /// Operations of a large transaction.
    pub large: usize,
    /// Half of the transactions are statements.
    pub statements: bool,
    /// Another thread goes on before about one in so many stores, flushes, fences or calls.
    pub one_in: u32,
}

/// A recorded run of several partitions, with what each held after each of its transactions.
#[derive(Clone, Debug)]
pub struct InterleavedScenario<M: Medium> {
    /// The medium that it runs on.
    pub medium: M,
    /// The record. A note says how many transactions of each partition are acknowledged.
    pub trace: M::Trace,
    /// The models, by partition.
    pub models: Vec<Vec<Model>>,
    /// The number of times that another thread went on.
    pub handed_over: u64,
}

/// The state that the threads share.
struct SharedState {
    random: SmallRng,
    taken: Vec<bool>,
    left: usize,
    acknowledged: Vec<u64>,
}

/// A partition's own.
struct Own {
    driver: Driver,
    models: Vec<Model>,
    snapshot: Option<Snapshot>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Packs the numbers of acknowledged transactions of each partition into a note.
fn note_of(acknowledged: &[u64]) -> u64 {
    acknowledged.iter().rev().fold(0, |note, count| note << 16 | count)
}

/// Returns how many transactions of a partition a note says are acknowledged.
fn acknowledged_in(note: u64, partition: usize) -> usize {
    usize::from((note >> (16 * partition)) as u16)
}

impl Interleaved {
    /// Creates a scenario of so many transactions in three partitions, by three threads.
    pub fn new(engine: EngineKind, seed: u64, transactions: usize) -> Self {
        let options = options(engine).partitions(3);
        // The smaller a chunk, the more often one goes from a partition to another.
        let options =
            if engine.traits().needs_files() { options } else { options.chunk_bytes(8 << 10) };
        let (partitions, threads) = (3, 3);
        let large = if engine.traits().needs_files() { 20 } else { 70 };
        let (keys, statements, one_in) = (30, false, 6);
        Self { options, seed, partitions, threads, transactions, keys, large, statements, one_in }
    }

    /// Runs the scenario of an engine whose data lie in the pool.
    ///
    /// # Panics
    /// The engine fails without any crash.
    pub fn run_in_pool(&self) -> InterleavedScenario<PoolMedium> {
        let memory = Recording::pool(64 << 10, pool::LIMIT).expect("address space");
        let media = crate::recorded(memory.clone(), RecordingFiles::new());
        let db = Database::create_on(media, &schema(), &self.options).expect("a database");
        let scheduler = Arc::new(Scheduler::new(self.seed, self.threads, self.one_in));
        let hook = scheduler.clone();
        memory.call_before_each(move |site| hook.pass_at(site));
        memory.start();
        let models = self.act(&db, &scheduler, &|note| memory.note(note));
        let trace = memory.stop();
        db.close().expect("it closes");
        let medium = PoolMedium { options: self.options.clone(), before: memory };
        InterleavedScenario { medium, trace, models, handed_over: scheduler.handed_over() }
    }

    /// Runs the scenario of an engine that keeps files.
    ///
    /// # Panics
    /// The engine fails without any crash.
    pub fn run_in_files(&self) -> InterleavedScenario<FileMedium> {
        let memory = Recording::pool(64 << 10, files::LIMIT).expect("address space");
        let files = RecordingFiles::new();
        let media = crate::recorded(memory.clone(), files.clone());
        let db = Database::create_on(media, &schema(), &self.options).expect("a database");
        let medium = FileMedium { options: self.options.clone(), pool: memory.contents() };
        let scheduler = Arc::new(Scheduler::new(self.seed, self.threads, self.one_in));
        let hook = scheduler.clone();
        files.call_before_each(move |site| hook.pass_at(site));
        files.start();
        let models = self.act(&db, &scheduler, &|note| files.note(note));
        let trace = files.stop();
        db.abandon();
        InterleavedScenario { medium, trace, models, handed_over: scheduler.handed_over() }
    }

    fn act(
        &self,
        db: &Database<Recorded>,
        scheduler: &Scheduler,
        note: &(dyn Fn(u64) + Sync),
    ) -> Vec<Vec<Model>> {
        assert!(self.partitions <= MOST_PARTITIONS && self.threads <= self.partitions as usize);
        let (tables, many) = (Tables::of(db), self.partitions as usize);
        let own = |partition| {
            let driver = Driver::new(self.seed * 16 + partition, self.keys);
            Mutex::new(Own { driver, models: vec![Model::default()], snapshot: None })
        };
        let owns: Vec<_> = (0..u64::from(self.partitions)).map(own).collect();
        let shared = Mutex::new(SharedState {
            random: SmallRng::seed_from_u64(self.seed),
            taken: vec![false; many],
            left: self.transactions,
            acknowledged: vec![0; many],
        });
        scheduler.run(|_| {
            loop {
                let next = lock(&shared).next();
                let Some((partition, number)) = next else { break };
                let own = &mut *lock(&owns[partition]);
                let mut model = own.models[own.models.len() - 1].clone();
                let operations = if number % 16 == 15 { self.large } else { 1 + number % 5 };
                let place = db.partition(partition);
                if self.statements && number % 2 == 0 {
                    own.driver.statement_in(&place, &tables, &mut model).expect("it runs");
                } else {
                    let done = own.driver.in_partition(&place, &tables, &mut model, operations);
                    let durable = done.expect("it runs").is_none_or(|ticket| ticket.is_durable());
                    assert!(durable, "a commit is not durable");
                }
                if own.models.last() != Some(&model) {
                    own.models.push(model);
                }
                own.snapshot = if number % 3 == 0 { place.snapshot().ok() } else { None };
                let mut shared = lock(&shared);
                shared.acknowledged[partition] = own.models.len() as u64 - 1;
                shared.taken[partition] = false;
                note(note_of(&shared.acknowledged));
            }
        });
        // In this thread: the others have ended.
        for own in &owns {
            lock(own).snapshot = None;
        }
        let models: Vec<_> = owns.into_iter().map(|own| lock(&own).models.clone()).collect();
        for (partition, models) in models.iter().enumerate() {
            let differs = differs_in(&db.partition(partition), &tables, &models[models.len() - 1]);
            assert_eq!(differs, Ok(()), "partition {partition}");
        }
        checks(db).expect("a sound database");
        models
    }
}

impl SharedState {
    /// A free partition for the next transaction, and the number of it.
    fn next(&mut self) -> Option<(usize, usize)> {
        self.left = self.left.checked_sub(1)?;
        let free: Vec<usize> = (0..self.taken.len()).filter(|at| !self.taken[*at]).collect();
        let partition = free[self.random.random_range(0..free.len())];
        self.taken[partition] = true;
        Some((partition, self.left))
    }
}

impl<M: Medium> InterleavedScenario<M> {
    /// Looks at the scenario's crash points, in a program with a fault if one is given; stops at
    /// the first violation.
    pub fn explore(&self, fault: Option<&Mutation>, effort: Effort) -> Explored {
        match fault {
            None => self.walk(&self.trace, None, effort),
            Some(fault) => {
                let (trace, injected) = M::mutate(&self.trace, fault);
                let explored = self.walk(&trace, Some(fault), effort);
                Explored { injected: explored.injected + injected, ..explored }
            }
        }
    }

    fn walk(&self, trace: &M::Trace, fault: Option<&Mutation>, effort: Effort) -> Explored {
        let Effort { bound, part, seed, again } = effort;
        let (mut explored, mut seen) = (Explored::default(), HashSet::new());
        let walked = M::walk(trace, bound, part, seed, &mut |state| {
            if !seen.insert(with_promise::<M>(&state)) {
                return ControlFlow::Continue(());
            }
            explored.states += 1;
            let deep = explored.states.is_multiple_of(16);
            let mut done = without_panic(|| self.judge(&state, deep));
            if done.is_ok() && again.is_due(explored.states, explored.nested) {
                done = self.crash_again(&state, fault).map(|more| {
                    explored.nested += more.states;
                    explored.injected += more.injected;
                });
            }
            let Err(what) = done else { return ControlFlow::Continue(()) };
            let (position, lost) = (state.position, M::explain(trace, state.position, state.image));
            explored.violation = Some(Violation { position, what, lost });
            ControlFlow::Break(())
        });
        Explored { points: walked.points, barriers: walked.barriers, ..explored }
    }

    /// Looks at every `stride`th state that a kill of the process can leave.
    pub fn explore_kills(&self, stride: u64) -> Explored {
        let mut explored = Explored::default();
        M::kills(&self.trace, &mut |state| {
            explored.points += 1;
            if !explored.points.is_multiple_of(stride) {
                return ControlFlow::Continue(());
            }
            explored.states += 1;
            let deep = explored.states.is_multiple_of(16);
            let Err(what) = without_panic(|| self.judge(&state, deep)) else {
                return ControlFlow::Continue(());
            };
            let position = state.position;
            explored.violation = Some(Violation { position, what, lost: Vec::new() });
            ControlFlow::Break(())
        });
        explored
    }

    fn judge(&self, state: &State<'_, M::Image>, deep: bool) -> Result<(), String> {
        let opened = self.medium.open(state.image, false);
        let (db, handle) = opened.map_err(|error| format!("does not open: {error}"))?;
        let db = Abandoned(Some(db));
        let mut models = self.found(&db, state.acknowledged.unwrap_or(0))?;
        if !deep {
            return Ok(());
        }
        go_on(&db, state.position as u64, &mut models, |_| ())?;
        same(&db, &models)?;
        drop(db);
        let again = self.medium.open(M::now(&handle).borrow(), false);
        let (again, _) = again.map_err(|error| format!("does not open again: {error}"))?;
        same(&Abandoned(Some(again)), &models)
    }

    /// Returns what each partition holds, if it is what it may be.
    fn found(&self, db: &Database<Recorded>, note: u64) -> Result<Vec<Model>, String> {
        let tables = Tables::of(db);
        let mut all = Vec::new();
        for (partition, models) in self.models.iter().enumerate() {
            let unreadable = |error| format!("cannot be read: {error}");
            let (place, acknowledged) = (db.partition(partition), acknowledged_in(note, partition));
            let possible = &models[acknowledged..models.len().min(acknowledged + 2)];
            let held = which_in(&place, &tables, possible).map_err(unreadable)?;
            let Some(number) = held else {
                let found = contents_in(&place, &tables).map_err(unreadable)?;
                let earlier = models.iter().rposition(|model| *model == found);
                return Err(format!(
                    "has in partition {partition}, after {acknowledged} acknowledged \
                     transactions, the contents {}",
                    earlier.map_or("of no moment".into(), |at| format!("of after {at}"))
                ));
            };
            all.push(possible[number].clone());
        }
        checks(db)?;
        Ok(all)
    }

    /// Crashes again at every point of the recovery and of the first transactions after it.
    fn crash_again(
        &self,
        state: &State<'_, M::Image>,
        fault: Option<&Mutation>,
    ) -> Result<Explored, String> {
        let after = without_panic(|| {
            let opened = self.medium.open(state.image, true);
            let (db, handle) = opened.map_err(|error| format!("does not open: {error}"))?;
            let db = Abandoned(Some(db));
            let mut now = self.found(&db, state.acknowledged.unwrap_or(0))?;
            let mut models: Vec<_> = now.iter().map(|model| vec![model.clone()]).collect();
            M::note(&handle, 0);
            go_on(&db, state.position as u64, &mut now, |now| {
                for (models, now) in models.iter_mut().zip(now) {
                    if models.last() != Some(now) {
                        models.push(now.clone());
                    }
                }
                let counts: Vec<_> = models.iter().map(|models| models.len() as u64 - 1).collect();
                M::note(&handle, note_of(&counts));
            })?;
            drop(db);
            let trace = M::stop(&handle);
            let medium = self.medium.away_from(handle);
            Ok(Self { medium, trace, models, handed_over: 0 })
        })?;
        let effort = Effort { again: Again::NEVER, ..Effort::once(6) };
        let explored = after.explore(fault, effort);
        match explored.violation {
            None => Ok(explored),
            Some(Violation { what, lost, .. }) => {
                Err(format!("crashes again, and {what} ({})", lost.join("; ")))
            }
        }
    }
}

/// A few transactions in every partition, each in a thread of its own; `done` is called after each.
fn go_on(
    db: &Database<Recorded>,
    seed: u64,
    models: &mut [Model],
    mut done: impl FnMut(&[Model]),
) -> Result<(), String> {
    let tables = Tables::of(db);
    let mut drivers: Vec<_> =
        (0..models.len() as u64).map(|at| Driver::new(seed * 16 + at, 60)).collect();
    for operations in 1..5 {
        for (partition, driver) in drivers.iter_mut().enumerate() {
            let (place, model) = (db.partition(partition), &mut models[partition]);
            let work = || driver.in_partition(&place, &tables, model, operations);
            let ended = thread::scope(|scope| scope.spawn(work).join());
            let ended = ended.map_err(|_| "makes the program panic".to_owned())?;
            ended.map_err(|error| format!("cannot go on: {error}"))?;
            done(models);
        }
    }
    Ok(())
}

fn same(db: &Database<Recorded>, models: &[Model]) -> Result<(), String> {
    let tables = Tables::of(db);
    for (partition, model) in models.iter().enumerate() {
        differs_in(&db.partition(partition), &tables, model)
            .map_err(|why| format!("{why}, in partition {partition}"))?;
    }
    checks(db).map(drop)
}
