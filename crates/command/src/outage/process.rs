//! A process of users. It makes or opens the database, and its users enter transactions until it is
//! killed or ordered to stop. After the order it checks all that the database holds.

use std::ffi::OsString;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use perdura::{Background, Database, Domain, EngineKind, OwnStats};
use serde::{Deserialize, Serialize};
use workloads::tatp::{self, Changes, Kind, Stream, Terminal};
use workloads::{Commit, Outcome, contents};

use super::page::{Counts, Page, UserCounters, Word};
use super::rebuild::Rebuild;
use crate::failure::{Failure, or_end};
use crate::footprint::FootprintBytes;
use crate::output::print;
use crate::process::run_task;
use crate::settings::{database_options, placed};
use crate::system::create;
use crate::system::{Promise, System, pool_path};

/// First argument of this process.
pub const USERS: &str = "__users";
/// The line that orders it to stop.
pub(super) const STOP: &str = "stop";
/// The time between two looks at the share of indexes that is built.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Bytes of a step of building before the users come.
const STEP_BYTES: u64 = 1 << 20;

/// The task of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Task {
    /// The engine's name.
    pub(super) engine: String,
    /// The domain's name; `None` is the medium's own.
    pub(super) domain: Option<String>,
    /// A directory for the database; one that has a database is gone on with.
    pub(super) directory: PathBuf,
    /// The file of counters, all of them zero.
    pub(super) page: PathBuf,
    /// The workload; its transactions have no end.
    pub(super) spec: tatp::Spec,
    /// Users.
    pub(super) users: usize,
    /// Distinguishes the transactions of one process from those of another.
    pub(super) sitting: u64,
    /// Per cent of the indexes of sofort that lie in persistent memory; `None` is its default.
    pub(super) placement: Option<u32>,
    /// The moment at which indexes are built that a crash took.
    pub(super) rebuild: Rebuild,
    /// A thread does the work that the engine puts off.
    pub(super) thread: bool,
    /// The changes of the processes before.
    pub(super) before: CountedChanges,
}

/// Changes that were counted, in the form in which they are passed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CountedChanges {
    inserted: u64,
    deleted: u64,
    maybe_inserted: u64,
    maybe_deleted: u64,
}

impl CountedChanges {
    /// The changes of a process that has been killed, or has ended by itself.
    pub(super) fn of(counts: &Counts, was_killed: bool) -> Self {
        let made = |kind: Kind| counts.succeeded[kind as usize];
        let maybe = |kind| if was_killed { counts.under_way(kind) } else { 0 };
        Self {
            inserted: made(Kind::InsertCallForwarding),
            deleted: made(Kind::DeleteCallForwarding),
            maybe_inserted: maybe(Kind::InsertCallForwarding),
            maybe_deleted: maybe(Kind::DeleteCallForwarding),
        }
    }

    fn and(self, later: Self) -> Changes {
        Changes {
            inserted: self.inserted + later.inserted,
            deleted: self.deleted + later.deleted,
            maybe_inserted: self.maybe_inserted + later.maybe_inserted,
            maybe_deleted: self.maybe_deleted + later.maybe_deleted,
        }
    }
}

/// The contents that a process has left after it was ordered to stop.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Found {
    /// The checks, each with its name, what it demands, and what contradicts it.
    pub checks: Vec<(String, String, Option<String>)>,
    /// Rows of acknowledged transactions that are gone, or are there though they were deleted.
    pub lost: u64,
    /// Rows that no transaction inserted.
    pub surplus: u64,
    /// Rows of all tables.
    pub tuples: u64,
    /// Bytes of their values.
    pub user_bytes: u64,
    /// Storage by component.
    pub footprint_bytes: FootprintBytes,
    /// Runs of a transaction after its first one, and those entered again.
    pub retries_and_conflicts: (u64, u64),
    /// The domain, and whether it is modelled.
    pub domain: Option<String>,
    /// The medium does not keep what the domain promises.
    pub modelled: bool,
}

/// The things that the threads of the process share.
struct Shared {
    task: Task,
    database: Database,
    page: Page,
    stop: &'static AtomicBool,
    /// The start of the open call.
    started: Instant,
    /// Users who have had no answer yet.
    waiting: AtomicUsize,
    answered: AtomicBool,
    committed: AtomicBool,
}

/// Runs the process until it is killed, ordered to stop, or fails.
pub fn run(arguments: &[OsString]) -> ExitCode {
    run_task(arguments, work)
}

fn work(task: Task) -> Result<(), Failure> {
    // Lives as long as the process, which ends with its standard input.
    let stop: &'static AtomicBool = Box::leak(Box::default());
    thread::spawn(move || listen(stop));
    let page = Page::open(&task.page, task.users)?;
    let path = pool_path(&task.directory);
    let started = Instant::now();
    let database = if path.exists() { open(&path, &task)? } else { load(&path, &task)? };
    page.set(Word::Open, ns_since(started));
    let users = task.users;
    let shared = Shared {
        task,
        database,
        page,
        stop,
        started,
        waiting: AtomicUsize::new(users),
        answered: AtomicBool::new(false),
        committed: AtomicBool::new(false),
    };
    let shared = &shared;
    shared.look()?;
    if shared.task.rebuild == Rebuild::First {
        // Rows that are not in use are looked for later: no answer waits for that.
        while !shared.look()? {
            shared.database.background(STEP_BYTES)?;
        }
    }
    let all = thread::scope(|threads| {
        let users: Vec<_> =
            (0..shared.task.users).map(|user| threads.spawn(move || shared.user(user))).collect();
        threads.spawn(|| or_end(shared.watch()));
        users.into_iter().map(|user| user.join().expect("users do not panic")).collect::<Vec<_>>()
    });
    let sum = |of: fn(&(u64, u64)) -> u64| all.iter().map(of).sum();
    let found = shared.find((sum(|one| one.0), sum(|one| one.1)))?;
    let encoded = serde_json::to_string(&found);
    print(&(encoded.map_err(|error| Failure::about("a child process", error))? + "\n"))
}

fn ns_since(started: Instant) -> u64 {
    started.elapsed().as_nanos() as u64
}

/// Waits for the order to stop. Ends the process if the process that could give it is gone.
fn listen(stop: &AtomicBool) {
    for line in std::io::stdin().lock().lines() {
        match line {
            Ok(line) if line == STOP => stop.store(true, Ordering::Relaxed),
            _ => break,
        }
    }
    std::process::exit(1);
}

impl Task {
    fn kind(&self) -> Result<EngineKind, Failure> {
        self.engine.parse().map_err(|error| Failure::about("an engine", error))
    }

    fn options(&self) -> perdura::Options {
        let background = if self.thread { Background::Thread } else { Background::Inline };
        placed(database_options(Commit::Durable, background), self.placement)
    }
}

fn load(path: &Path, task: &Task) -> Result<Database, Failure> {
    let domain = task.domain.as_deref().map(str::parse::<Domain>).transpose();
    let domain = domain.map_err(|error| Failure::about("a domain", error))?;
    let system = System::Engine(task.kind()?);
    let (schema, partitions) = (tatp::schema(), task.spec.partitions);
    let database = create(system, path, &schema, partitions, &task.options(), domain)?;
    tatp::load(&database, &task.spec, task.users.min(partitions), &())?;
    // What an engine logged meanwhile is no part of what the users do.
    database.checkpoint()?;
    Ok(database)
}

fn open(path: &Path, task: &Task) -> Result<Database, Failure> {
    Ok(Database::open(path, &task.options())?)
}

impl Shared {
    /// Stores the share of indexes that is built; returns whether all are.
    fn look(&self) -> Result<bool, Failure> {
        // Statistics of others would wait for a user who has a partition to himself.
        if self.database.engine() != EngineKind::Sofort {
            return Ok(true);
        }
        let OwnStats::Sofort(own) = self.database.stats()?.own else { return Ok(true) };
        self.page.set(Word::Unbuilt, own.unbuilt);
        self.page.set(Word::Built, own.built);
        Ok(own.unbuilt == 0)
    }

    fn watch(&self) -> Result<(), Failure> {
        while !self.look()? && !self.stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Works as a user; a failure ends the process, since other users have no end.
    fn user(&self, user: usize) -> (u64, u64) {
        match self.serve(user) {
            Ok(tries) => tries,
            Err(failure) => {
                or_end(Err(failure));
                (0, 0)
            }
        }
    }

    fn serve(&self, user: usize) -> Result<(u64, u64), Failure> {
        let Task { spec, users, sitting, .. } = &self.task;
        let partition = partition_of(user, spec);
        let stream = Stream::new(spec, partition, user as u64, *sitting)?;
        let mut terminal = Terminal::of_user(&self.database, partition, *users <= spec.partitions)?;
        let mut counters = UserCounters::new(&self.page, user);
        for (number, input) in stream.enumerate() {
            let kind = input.kind();
            counters.begins(kind);
            let started = Instant::now();
            let succeeded = terminal.submit(input)? == Outcome::Committed;
            counters.ended(kind, succeeded, ns_since(started));
            self.first(&self.answered, Word::FirstAnswer);
            if number == 0 && self.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.page.set(Word::AtWork, 1);
            }
            if succeeded && !kind.is_read_only() {
                self.first(&self.committed, Word::FirstCommit);
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(terminal.retries_and_conflicts())
    }

    /// Notes the time of what has happened, if it has not happened before.
    fn first(&self, happened: &AtomicBool, word: Word) {
        if !happened.load(Ordering::Relaxed) && !happened.swap(true, Ordering::Relaxed) {
            self.page.set(word, ns_since(self.started));
        }
    }

    fn find(&self, retries_and_conflicts: (u64, u64)) -> Result<Found, Failure> {
        let database = &self.database;
        let changes = self.task.before.and(CountedChanges::of(&self.page.counts(), false));
        let (checks, lost, surplus) = tatp::check_changes(database, &self.task.spec, &changes)?;
        let held = contents(database)?;
        let promise = Promise::of_database(database);
        let outcome =
            |check: workloads::Check| (check.name.into(), check.what.into(), check.violation);
        Ok(Found {
            checks: checks.into_iter().map(outcome).collect(),
            lost,
            surplus,
            tuples: held.tuples(),
            user_bytes: held.user_bytes(),
            footprint_bytes: FootprintBytes::of_database(database)?,
            retries_and_conflicts,
            domain: promise.domain.map(|domain| domain.name().into()),
            modelled: promise.modelled,
        })
    }
}

/// The partition at which a user sits.
pub(super) fn partition_of(user: usize, spec: &tatp::Spec) -> usize {
    user % spec.partitions
}
