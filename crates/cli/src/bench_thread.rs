//! A store in a thread of its own, so that several can be open at once and take turns.
//!
//! Invariants:
//! - At most one thread works at a time: the caller that gives an order waits for the answer.
//! - A thread's store is closed when the thread is gone.
//!
//! Why threads: a peer is borrowed by a visitor for as long as the visitor runs. Rounds are
//! interleaved over the stores, so that a drift of the machine affects all alike. This needs all
//! stores open. A thread without an order sleeps.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};

use command::failure::Failure;
use command::figures::Counted;
use command::footprint::FootprintBytes;
use command::progress::{Bar, LOOK_EVERY};
use command::settings::database_options;
use command::system::{Promise, System, create_store};
use peers::{Access, Visitor, with_store};
use perdura::{Background, Database, Domain, Medium};
use workloads::ycsb::{self, Workload};
use workloads::{Measurement, Progress, RunOptions, Store};

/// The parts that a thread is made from.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// The system that races.
    pub(crate) system: System,
    /// An empty directory of its own.
    pub(crate) directory: PathBuf,
    /// The medium of that directory.
    pub(crate) medium: Medium,
    /// The domain of an engine.
    pub(crate) domain: Option<Domain>,
    /// The threads that do the work which an engine puts off.
    pub(crate) background: Background,
    /// Each update is declared to be its whole transaction.
    pub(crate) statements: bool,
    /// The engine keeps columns within the tuple.
    pub(crate) inline: bool,
    /// The options with which the driver runs.
    pub(crate) run: RunOptions,
    /// The workload to load; every later workload has its tuples, partitions and seed.
    pub(crate) workload: Arc<Workload>,
}

/// An order to a thread.
enum Order {
    Load,
    Run(Arc<Workload>),
    Count(Arc<Workload>),
    Footprint,
}

/// The answer to an order.
enum Answer {
    Opened(Promise),
    Loaded,
    Ran(Measurement),
    Counted(Option<Counted>),
    Footprint(FootprintBytes),
}

type Answers = Sender<Result<Answer, Failure>>;

/// A loaded store that waits for its turn.
pub(crate) struct BenchThread {
    system: System,
    directory: PathBuf,
    promise: Promise,
    /// `None` only while it is dropped.
    orders: Option<Sender<Order>>,
    answers: Receiver<Result<Answer, Failure>>,
    progress: Arc<Progress>,
    partitions: usize,
    thread: Option<JoinHandle<()>>,
}

impl BenchThread {
    /// Creates the store and loads it.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn start(setup: Setup, bar: &mut Bar) -> Result<Self, Failure> {
        let (system, spec) = (setup.system, setup.workload.spec().clone());
        let progress = Arc::new(Progress::new(spec.partitions));
        let directory = setup.directory.clone();
        let (orders, orders_in) = channel();
        let (answers, answers_in) = channel();
        let counters = progress.clone();
        let thread = thread::spawn(move || serve(&setup, &counters, &orders_in, &answers));
        let mut started = Self {
            system,
            directory,
            promise: Promise { domain: None, modelled: false },
            orders: Some(orders),
            answers: answers_in,
            progress,
            partitions: spec.partitions,
            thread: Some(thread),
        };
        bar.phase(format!("{system}: creating"), 1);
        if let Answer::Opened(promise) = started.wait(bar)? {
            started.promise = promise;
        }
        bar.phase(format!("{system}: loading"), spec.tuples);
        started.order(Order::Load, bar)?;
        Ok(started)
    }

    /// Returns the system.
    pub(crate) fn system(&self) -> System {
        self.system
    }

    /// Returns the directory of its store.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns what its commits survive.
    pub(crate) fn promise(&self) -> Promise {
        self.promise
    }

    /// Runs a workload on the clock.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn run(
        &self,
        workload: &Arc<Workload>,
        bar: &mut Bar,
    ) -> Result<Measurement, Failure> {
        self.run_part(workload, 0, workload.spec().transactions, bar)
    }

    /// Runs a piece of a workload of `all` transactions of which `done` have been run.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn run_part(
        &self,
        workload: &Arc<Workload>,
        done: u64,
        all: u64,
        bar: &mut Bar,
    ) -> Result<Measurement, Failure> {
        let spec = workload.spec();
        bar.phase(format!("{}: {} {}", self.system, spec.mix, spec.skew), all);
        bar.begin_at(done);
        match self.order(Order::Run(workload.clone()), bar)? {
            Answer::Ran(measurement) => Ok(measurement),
            _ => Err(self.confused()),
        }
    }

    /// Runs a workload off the clock and counts; `None` for a store that does not count.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn count(
        &self,
        workload: &Arc<Workload>,
        bar: &mut Bar,
    ) -> Result<Option<Counted>, Failure> {
        bar.phase(format!("{}: counting", self.system), workload.spec().transactions);
        match self.order(Order::Count(workload.clone()), bar)? {
            Answer::Counted(counters) => Ok(counters),
            _ => Err(self.confused()),
        }
    }

    /// Returns what it takes on its medium.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn footprint(&self, bar: &mut Bar) -> Result<FootprintBytes, Failure> {
        match self.order(Order::Footprint, bar)? {
            Answer::Footprint(footprint) => Ok(footprint),
            _ => Err(self.confused()),
        }
    }

    fn order(&self, order: Order, bar: &mut Bar) -> Result<Answer, Failure> {
        for partition in 0..self.partitions {
            workloads::Observer::completed(&*self.progress, partition, 0);
        }
        let sent = self.orders.as_ref().map(|orders| orders.send(order));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.confused());
        }
        self.wait(bar)
    }

    fn wait(&self, bar: &mut Bar) -> Result<Answer, Failure> {
        loop {
            match self.answers.recv_timeout(LOOK_EVERY) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) => bar.at(self.progress.total()),
                Err(RecvTimeoutError::Disconnected) => return Err(self.confused()),
            }
        }
    }

    /// A bug of ours, most likely a panic in the thread, which has been printed.
    fn confused(&self) -> Failure {
        let what = "its thread stopped unexpectedly; this is a bug of Perdura, please report it";
        Failure::about(self.system, what)
    }
}

impl Drop for BenchThread {
    fn drop(&mut self) {
        drop(self.orders.take());
        // A panic over there has been answered for by `confused`.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The thread.
fn serve(setup: &Setup, progress: &Progress, orders: &Receiver<Order>, answers: &Answers) {
    let served = match setup.system {
        System::Engine(kind) => {
            let (partitions, options) = (
                setup.workload.spec().partitions,
                database_options(setup.run.commit, setup.background),
            );
            let (directory, domain) = (&setup.directory, setup.domain);
            let store = create_store(kind, directory, partitions, &options, domain, setup.inline);
            store.map(|store| {
                let store = store.with_statements(setup.statements);
                let promise = Promise::of_database(store.database());
                let (ran, database) = (Ran::default(), Some(store.database()));
                let serve = Serve { setup, ran, database, progress, promise };
                serve.all(&store, orders, answers);
            })
        }
        System::Peer(kind) => {
            let promise = Promise::of_peer(kind, &setup.medium);
            let serve = Serve { setup, ran: Ran::default(), database: None, progress, promise };
            let visit = Visit { serve, orders, answers };
            let (directory, spec) = (&setup.directory, setup.workload.spec());
            with_store(kind, directory, spec, setup.run.commit, Access::Create, visit)
        }
    };
    if let Err(error) = served {
        // The receiver is gone if the command has failed in the meantime.
        let _ = answers.send(Err(Failure::about(setup.system, error)));
    }
}

/// Transactions that a partition of a store has run, of any partition the most.
#[derive(Debug, Default)]
struct Ran(Cell<u64>);

impl Ran {
    /// A workload that is about to run, with values that nothing has written yet.
    fn anew(&self, workload: &Workload) -> Workload {
        let later = workload.later(self.0.get());
        let end = |p| later.before(p) + later.operations(p).len() as u64;
        self.0.set((0..later.spec().partitions).map(end).max().unwrap_or(0));
        later
    }
}

/// The means by which the orders of one thread are carried out.
struct Serve<'a> {
    setup: &'a Setup,
    ran: Ran,
    database: Option<&'a Database>,
    progress: &'a Progress,
    promise: Promise,
}

/// The same as a visitor of a peer.
struct Visit<'a> {
    serve: Serve<'a>,
    orders: &'a Receiver<Order>,
    answers: &'a Answers,
}

impl Visitor for Visit<'_> {
    type Output = ();

    fn visit<S: Store>(self, store: &S) {
        self.serve.all(store, self.orders, self.answers);
    }
}

impl Serve<'_> {
    /// Carries out orders until there are no more.
    fn all<S: Store>(&self, store: &S, orders: &Receiver<Order>, answers: &Answers) {
        let mut answer = Ok(Answer::Opened(self.promise));
        loop {
            if answers.send(answer).is_err() {
                return;
            }
            let Ok(order) = orders.recv() else { return };
            answer = self.one(store, &order);
        }
    }

    fn one<S: Store>(&self, store: &S, order: &Order) -> Result<Answer, Failure> {
        let run = &self.setup.run;
        match order {
            Order::Load => {
                ycsb::load(store, &self.setup.workload, run.workers, self.progress)?;
                // What an engine logged while it was loaded, off the clock, must not bring a
                // checkpoint into the first run on the clock.
                if let Some(database) = self.database {
                    database.checkpoint()?;
                }
                Ok(Answer::Loaded)
            }
            Order::Run(workload) => {
                let workload = self.ran.anew(workload);
                Ok(Answer::Ran(ycsb::run(store, &workload, run, self.progress)?))
            }
            Order::Count(workload) => {
                let Some(database) = self.database else { return Ok(Answer::Counted(None)) };
                let workload = self.ran.anew(workload);
                database.count(true);
                let before = Counted::of(database);
                let ran = ycsb::run(store, &workload, run, self.progress);
                let counted = Counted::of(database).since(&before);
                database.count(false);
                ran?;
                Ok(Answer::Counted(Some(counted)))
            }
            Order::Footprint => self.footprint(store).map(Answer::Footprint),
        }
    }

    fn footprint<S: Store>(&self, store: &S) -> Result<FootprintBytes, Failure> {
        if let Some(database) = self.database {
            return FootprintBytes::of_database(database);
        }
        let other = store.footprint_bytes()?;
        Ok(FootprintBytes::of_peer(other))
    }
}

#[cfg(test)]
mod tests {
    use workloads::ycsb::{Pieces, Spec};

    use super::*;

    #[test]
    fn no_two_runs_write_the_same_values() {
        let spec = Spec { tuples: 100, transactions: 700, partitions: 2, ..Spec::default() };
        let short = Spec { transactions: 50, ..spec.clone() };
        let whole = Workload::generate(&spec).expect("generated");
        let short = Workload::generate(&short).expect("generated");
        let mut pieces = Pieces::new(&spec).expect("generated");
        let pieces = [pieces.take(300), pieces.take(400)];
        // A value is made of its tuple and of how many transactions of the partition came before.
        let (ran, mut free) = (Ran::default(), [0; 2]);
        for given in [&whole, &whole, &short, &pieces[0], &pieces[1], &whole] {
            let anew = ran.anew(given);
            assert_eq!(anew.digest(), given.digest(), "the same operations");
            for (partition, free) in free.iter_mut().enumerate() {
                let first = anew.before(partition);
                assert!(first >= *free, "partition {partition}: {first} is written already");
                *free = first + anew.operations(partition).len() as u64;
            }
        }
        let all = 3 * 700 + 50 + 700;
        assert!(free.iter().sum::<u64>() >= all, "{free:?}");
    }
}
