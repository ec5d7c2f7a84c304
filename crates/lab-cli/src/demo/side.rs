//! An engine on the page: its process, from start to kill to start.
//!
//! Invariants:
//! - One thread owns the process; others send it orders.
//! - After a kill all events of the process are read, and its counts are taken, before the next one
//!   starts: the record is that of a process that has ended.
//!
//! A process that is killed with SIGKILL from outside is started again, too. One that ends by
//! itself has failed, and waits for the button.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use command::args::demo::MOST_USERS;
use command::failure::Failure;
use command::process::ChildProcess;
use command::system::System;
use peers::AcknowledgedFile;
use perdura::{EngineKind, Unfinished};

use super::task::{COUNTERS, Counter, Event, Settings, Task};
use super::view::{Point, Status, View};
use super::worker::WORKER;

/// The time between two points.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// The sizes that both engines have.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    /// Subscribers in each partition.
    pub(super) subscribers: u32,
    /// Statements of a long transaction.
    pub(super) statements: u32,
    /// Milliseconds between two of them.
    pub(super) pace_ms: u32,
}

/// An order.
enum Order {
    /// Kill the process and start the next one; the answer is the number of the one that was killed.
    Crash(Sender<Result<u32, String>>),
    /// Other settings.
    Tell(Settings),
    /// Another engine, with a new database.
    Engine(EngineKind),
}

/// An engine, as the server has it.
pub(super) struct Side {
    view: Arc<Mutex<View>>,
    orders: Sender<Order>,
}

impl Side {
    /// Starts an engine in a directory of its own.
    ///
    /// # Errors
    /// The directory cannot be used, or the system gives no thread.
    pub(super) fn start(
        kind: EngineKind,
        sizes: &Sizes,
        settings: Settings,
        directory: PathBuf,
        clock: Instant,
    ) -> Result<Self, Failure> {
        let view = Arc::new(Mutex::new(new_view(kind, sizes, settings)));
        let (orders, receiver) = channel();
        let counters = new_counters(&directory)?;
        let owner = Owner {
            view: Arc::clone(&view),
            kind,
            sizes: sizes.clone(),
            directory,
            clock,
            counters,
            running: None,
            before: (Duration::ZERO, 0, 0),
        };
        let failed = |error| Failure::about("a thread", error);
        let work = move || owner.work(&receiver);
        thread::Builder::new().name(format!("side {kind}")).spawn(work).map_err(failed)?;
        Ok(Self { view, orders })
    }

    /// The engine as it is.
    pub(super) fn view(&self) -> MutexGuard<'_, View> {
        look(&self.view)
    }

    /// Kills the process; returns its number when it has ended.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn crash(&self) -> Result<u32, String> {
        let (answer, answered) = channel();
        let gone = || "its thread has ended".to_owned();
        self.orders.send(Order::Crash(answer)).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }

    /// Sends it other settings.
    pub(super) fn tell(&self, settings: Settings) {
        // Its thread lives as long as this does.
        let _ = self.orders.send(Order::Tell(settings));
    }

    /// Begins anew with another engine.
    pub(super) fn change(&self, kind: EngineKind) {
        let _ = self.orders.send(Order::Engine(kind));
    }
}

fn look(view: &Mutex<View>) -> MutexGuard<'_, View> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}

fn new_view(kind: EngineKind, sizes: &Sizes, settings: Settings) -> View {
    let continues = kind.traits().unfinished == Unfinished::Continued;
    View::new(kind.name(), continues, sizes.statements, settings)
}

/// Makes an empty directory for the database, and next to it a file of counters at zero.
fn new_counters(directory: &Path) -> Result<AcknowledgedFile, Failure> {
    let failed = |error| Failure::about(directory.display(), error);
    let store = directory.join("store");
    if store.exists() {
        fs::remove_dir_all(&store).map_err(failed)?;
    }
    fs::create_dir_all(&store).map_err(failed)?;
    Ok(AcknowledgedFile::create(&directory.join("counters"), COUNTERS)?)
}

/// A process, and the thread that hears it.
struct Running {
    child: ChildProcess,
    listener: JoinHandle<()>,
}

/// The thread that owns the process.
struct Owner {
    view: Arc<Mutex<View>>,
    kind: EngineKind,
    sizes: Sizes,
    directory: PathBuf,
    clock: Instant,
    counters: AcknowledgedFile,
    running: Option<Running>,
    /// Time, transactions and their nanoseconds at the last point.
    before: (Duration, u64, u64),
}

impl Owner {
    fn work(mut self, orders: &Receiver<Order>) {
        self.start();
        let mut next = self.clock.elapsed() + TICK;
        loop {
            match orders.recv_timeout(next.saturating_sub(self.clock.elapsed())) {
                Ok(Order::Crash(answer)) => {
                    let _ = answer.send(self.crash());
                }
                Ok(Order::Tell(settings)) => self.tell(settings),
                Ok(Order::Engine(kind)) => self.change(kind),
                Err(RecvTimeoutError::Timeout) => {
                    next = self.clock.elapsed() + TICK;
                    self.tick();
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Starts a process, on the database that there is or a new one.
    fn start(&mut self) {
        if let Err(failure) = self.try_start() {
            self.fail(&failure);
        }
    }

    fn try_start(&mut self) -> Result<(), Failure> {
        let loads = look(&self.view).status == Status::Loading;
        if loads {
            self.counters = new_counters(&self.directory)?;
        }
        let task = Task {
            engine: self.kind.name().into(),
            directory: self.directory.join("store"),
            counters: self.directory.join("counters"),
            subscribers: self.sizes.subscribers,
            statements: self.sizes.statements,
            pace_ms: self.sizes.pace_ms,
            settings: look(&self.view).settings,
        };
        let started = Instant::now();
        let mut child = ChildProcess::start(WORKER, &task)?;
        let Some(output) = child.take_output() else {
            return Err(Failure::about("a child process", "it says nothing"));
        };
        {
            let mut view = look(&self.view);
            view.pid = child.pid();
            view.failure = None;
            view.status = if loads { Status::Loading } else { Status::Recovering };
        }
        let view = Arc::clone(&self.view);
        let listener = thread::spawn(move || listen(output, &view, started));
        self.running = Some(Running { child, listener });
        Ok(())
    }

    fn fail(&mut self, failure: &Failure) {
        let mut view = look(&self.view);
        if view.status != Status::Loading {
            view.status = Status::Failed;
        }
        view.failure = Some(failure.why().to_owned());
    }

    /// Kills the process, takes the record, and starts the next one.
    fn crash(&mut self) -> Result<u32, String> {
        let Some(running) = &mut self.running else {
            self.start();
            return Err("its process had ended, and is started again".into());
        };
        if look(&self.view).status == Status::Loading {
            return Err("it is still loading".into());
        }
        let pid = running.child.pid();
        running.child.kill().map_err(|failure| failure.why().to_owned())?;
        self.killed();
        Ok(pid)
    }

    /// The process has been killed.
    fn killed(&mut self) {
        let Some(running) = self.running.take() else { return };
        // Its output has ended with it.
        let _ = running.listener.join();
        self.note();
        self.start();
    }

    /// Takes the record of a process that has ended.
    fn note(&self) {
        let mut view = look(&self.view);
        if view.status != Status::Loading {
            view.crash(self.now(), self.counters.counts());
        }
    }

    fn tell(&mut self, settings: Settings) {
        look(&self.view).settings = settings;
        if let Some(running) = &mut self.running
            && let Ok(line) = serde_json::to_string(&settings)
        {
            running.child.tell(&line);
        }
    }

    fn change(&mut self, kind: EngineKind) {
        if let Some(Running { child, listener }) = self.running.take() {
            // Dropping it kills it.
            drop(child);
            let _ = listener.join();
        }
        self.kind = kind;
        let settings = look(&self.view).settings;
        *look(&self.view) = new_view(kind, &self.sizes, settings);
        self.before = (self.clock.elapsed(), 0, 0);
        self.start();
    }

    /// Tenths of a second on the clock.
    fn now(&self) -> u64 {
        (self.clock.elapsed().as_millis() / TICK.as_millis()) as u64
    }

    fn tick(&mut self) {
        self.point();
        let Some(running) = &mut self.running else { return };
        match running.child.was_killed() {
            Ok(None) => {}
            Ok(Some(true)) => self.killed(),
            Ok(Some(false)) => {
                let failure = running.child.failure(System::Engine(self.kind));
                if let Some(Running { listener, .. }) = self.running.take() {
                    let _ = listener.join();
                }
                self.note();
                self.fail(&failure);
            }
            Err(failure) => self.fail(&failure),
        }
    }

    /// Measures what was done since the last point.
    fn point(&mut self) {
        let counts = self.counters.counts();
        let sum = |of: fn(usize) -> Counter| -> u64 {
            (0..MOST_USERS as usize).map(|user| counts[of(user).place()]).sum()
        };
        let (now, tick) = (self.clock.elapsed(), self.now());
        let (transactions, ns) = (sum(Counter::Transactions), sum(Counter::Nanoseconds));
        let done = transactions.saturating_sub(self.before.1);
        let seconds = now.saturating_sub(self.before.0).as_secs_f64().max(1e-3);
        let mean_us = ns.saturating_sub(self.before.2) as f64 / 1000.0 / done as f64;
        let mut view = look(&self.view);
        view.count(&counts);
        view.measure(Point {
            tick,
            txn_s: (done as f64 / seconds).round(),
            mean_us: (done > 0).then_some((mean_us * 100.0).round() / 100.0),
        });
        self.before = (now, transactions, ns);
    }
}

/// Hears a process until it ends.
fn listen(output: ChildStdout, view: &Mutex<View>, started: Instant) {
    for line in BufReader::new(output).lines() {
        // A kill may cut off a line.
        let Some(said) = line.ok().and_then(|line| serde_json::from_str::<Event>(&line).ok())
        else {
            return;
        };
        look(view).hear(&said, started.elapsed().as_secs_f64() * 1000.0);
    }
}
