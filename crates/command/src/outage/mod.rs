//! `perdura bench tatp --kill-at`: TATP across a kill, as P4 5 measures it.
//!
//! 1. A process makes the database, and its users enter transactions. They count in a shared page, of
//!    which this process takes a sample ten times a second.
//! 2. At the second that was asked for it is killed with SIGKILL, and another process started at once.
//!    That one opens the database and goes on; its users enter other transactions than the first ones.
//! 3. At the end it receives the order to stop, and checks that all that was acknowledged is there.
//!
//! The rates of success are those of both processes. Invariant: a sample knows nothing of what was
//! acknowledged after it, so that a kill between two samples takes nothing back.
//!
//! | module | its question |
//! |---|---|
//! | `page` | what do users count, and where? |
//! | `process` | what do the processes do? |
//! | `rebuild` | when are indexes built that the kill took? |
//! | `curve` | what are area, delta and response time of a recovery? |

mod curve;
mod page;
pub mod process;
mod rebuild;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use perdura::{Background, Domain, EngineKind};
use workloads::tatp::{self, Rate, Stream};

pub use self::curve::{CSV_HEAD, Curve, Recovery, Sample};
use self::page::{Counts, Page, Word};
use self::process::{CountedChanges, Found, STOP, Task, USERS, partition_of};
pub use self::rebuild::Rebuild;
use crate::failure::Failure;
use crate::process::ChildProcess;
use crate::progress::Bar;
use crate::system::System;

/// The time between two samples.
pub const SAMPLE: Duration = Duration::from_millis(100);
/// The time between two looks whether the next process has answered.
const AIM_EVERY: Duration = Duration::from_millis(1);

/// A run across a kill.
#[derive(Debug, Clone)]
pub struct Outage<'a> {
    /// The engine.
    pub kind: EngineKind,
    /// Its domain; `None` is the medium's own.
    pub domain: Option<Domain>,
    /// The workload; its transactions have no end.
    pub spec: &'a tatp::Spec,
    /// Users.
    pub users: usize,
    /// Per cent of the indexes of sofort that lie in persistent memory; `None` is its default.
    pub placement: Option<u32>,
    /// The moment at which indexes are built again.
    pub rebuild: Rebuild,
    /// The threads that do the work which the engine puts off.
    pub background: Background,
    /// Samples before the kill.
    pub before: u32,
    /// Samples after it.
    pub after: u32,
    /// An empty directory.
    pub directory: &'a Path,
}

/// The result.
pub struct Ended {
    /// The samples.
    pub curve: Curve,
    /// Milliseconds from the kill to the first answer of the next process, its start included; `None` if
    /// there was none.
    pub answered_ms: Option<f64>,
    /// The open call of the next process.
    pub open_ms: f64,
    /// The time from its start to the first answer.
    pub first_answer_ms: Option<f64>,
    /// The time from its start to the first commit of a change.
    pub first_commit_ms: Option<f64>,
    /// Transactions that have returned.
    pub acknowledged: u64,
    /// Transactions that have returned and not succeeded, but for those that only read.
    pub aborted: u64,
    /// The rates of success.
    pub rates: Vec<Rate>,
    /// The contents at the end.
    pub found: Found,
}

impl Ended {
    /// The number of things that should not be. Rates of success of a short run are judged by their own
    /// tolerance.
    pub fn wrong(&self) -> u64 {
        let checks = self.found.checks.iter().filter(|(_, _, violation)| violation.is_some());
        let rates = self.rates.iter().filter(|rate| !rate.holds());
        self.found.lost + self.found.surplus + (checks.count() + rates.count()) as u64
    }
}

/// A process with its counters, as its parent sees them.
struct Running {
    child: ChildProcess,
    page: Page,
    last: Counts,
}

impl Outage<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// A process failed, or the directory cannot be used.
    pub fn run(&self, bar: &mut Bar) -> Result<Ended, Failure> {
        let store = self.directory.join("store");
        std::fs::create_dir(&store).map_err(|error| Failure::about(store.display(), error))?;
        bar.endless_phase(format!("{}: loading", self.kind));
        let mut first = self.start(&store, 0, CountedChanges::default())?;
        while !first.page.counts().at_work {
            self.alive(&mut first)?;
            thread::sleep(SAMPLE / 10);
            bar.at(0);
        }
        bar.phase(format!("{}: running", self.kind), (self.before + self.after).into());
        let mut sampler = Sampler::new(bar);
        for _ in 0..self.before {
            self.alive(&mut first)?;
            sampler.sample(&mut first, false);
        }
        first.child.kill()?;
        let killed = Instant::now();
        if first.child.was_killed()? != Some(true) {
            // It had failed before.
            return Err(first.child.failure(System::Engine(self.kind)));
        }
        sampler.curve.killed_s = (killed - sampler.started).as_secs_f64();
        let left = first.page.counts();
        let mut second = self.start(&store, 1, CountedChanges::of(&left, true))?;
        for _ in 0..self.after {
            self.alive(&mut second)?;
            sampler.watch(&mut second, killed);
        }
        let Sampler { curve, answered, .. } = sampler;
        let found = self.stop(&mut second, bar)?;
        let counts = second.page.counts();
        self.ended(curve, answered, [&left, &counts], found)
    }

    fn start(
        &self,
        store: &Path,
        sitting: u64,
        before: CountedChanges,
    ) -> Result<Running, Failure> {
        let path = self.directory.join(format!("page{sitting}"));
        let page = Page::create(&path, self.users)?;
        let task = Task {
            engine: self.kind.name().into(),
            domain: self.domain.map(|domain| domain.name().into()),
            directory: store.to_owned(),
            page: path,
            spec: self.spec.clone(),
            users: self.users,
            sitting,
            placement: self.placement,
            rebuild: self.rebuild,
            thread: self.background == Background::Thread,
            before,
        };
        let last = page.counts();
        Ok(Running { child: ChildProcess::start(USERS, &task)?, page, last })
    }

    /// Fails if a process has ended.
    fn alive(&self, running: &mut Running) -> Result<(), Failure> {
        match running.child.was_killed()? {
            None => Ok(()),
            Some(_) => Err(running.child.failure(System::Engine(self.kind))),
        }
    }

    /// Has a process stop, and say what the database holds.
    fn stop(&self, running: &mut Running, bar: &mut Bar) -> Result<Found, Failure> {
        bar.phase(format!("{}: reading it all", self.kind), 1);
        running.child.tell(STOP);
        let text = running.child.last_words(|| bar.at(0))?;
        serde_json::from_str(&text).map_err(|_| running.child.failure(System::Engine(self.kind)))
    }

    fn ended(
        &self,
        curve: Curve,
        answered: Option<Duration>,
        [left, counts]: [&Counts; 2],
        found: Found,
    ) -> Result<Ended, Failure> {
        let mut succeeded = left.succeeded;
        succeeded.iter_mut().zip(&counts.succeeded).for_each(|(sum, one)| *sum += one);
        let mut users = Vec::new();
        for (sitting, counts) in [left, counts].into_iter().enumerate() {
            for (user, &entered) in counts.entered.iter().enumerate() {
                let partition = partition_of(user, self.spec);
                let stream = Stream::new(self.spec, partition, user as u64, sitting as u64)?;
                users.push((stream, entered));
            }
        }
        let rates = tatp::rates_of_users(self.spec, users, &succeeded)?;
        let failed = |rate: &Rate| rate.tries.saturating_sub(rate.succeeded);
        let aborted = rates.iter().filter(|rate| !rate.kind.is_read_only()).map(failed).sum();
        let ms = |ns: u64| ns as f64 / 1e6;
        let elapsed_ms = |ns: u64| (ns > 0).then(|| ms(ns));
        Ok(Ended {
            curve,
            answered_ms: answered.map(|time| time.as_secs_f64() * 1e3),
            open_ms: ms(counts.open_ns),
            first_answer_ms: elapsed_ms(counts.first_answer_ns),
            first_commit_ms: elapsed_ms(counts.first_commit_ns),
            acknowledged: left.done() + counts.done(),
            aborted,
            rates,
            found,
        })
    }
}

/// Takes samples.
struct Sampler<'a> {
    bar: &'a mut Bar,
    started: Instant,
    curve: Curve,
    /// The time from the kill to the first answer.
    answered: Option<Duration>,
}

impl<'a> Sampler<'a> {
    fn new(bar: &'a mut Bar) -> Self {
        Self { bar, started: Instant::now(), curve: Curve::default(), answered: None }
    }

    /// The time until the next sample is due.
    fn due(&self) -> Duration {
        let next = SAMPLE * (self.curve.samples.len() as u32 + 1);
        next.saturating_sub(self.started.elapsed())
    }

    /// Waits until a sample is due, and takes it.
    fn sample(&mut self, running: &mut Running, is_after: bool) {
        thread::sleep(self.due());
        let counts = running.page.counts();
        let end_s = self.started.elapsed().as_secs_f64();
        let begun_s = self.curve.samples.last().map_or(0.0, |last| last.end_s);
        self.curve.samples.push(Sample {
            end_s,
            seconds: end_s - begun_s,
            commits: counts.commits().saturating_sub(running.last.commits()),
            responses: counts.responses_since(&running.last),
            built_percent: counts.built_percent(),
            is_after,
        });
        running.last = counts;
        self.bar.at(self.curve.samples.len() as u64);
    }

    /// As [`Sampler::sample`], and looks meanwhile for the first answer after a kill.
    fn watch(&mut self, running: &mut Running, killed: Instant) {
        while self.answered.is_none() && self.due() > AIM_EVERY {
            thread::sleep(AIM_EVERY);
            if running.page.get(Word::FirstAnswer) > 0 {
                self.answered = Some(killed.elapsed());
            }
        }
        self.sample(running, true);
    }
}
