//! The walk over all states that a crash can leave.
//!
//! For each state: recover from it alone, at another address, through `Database::open_on`; every
//! acknowledged transaction must be there, and else at most those in flight, in order, each
//! whole; indexes and allocator agree; more transactions work; a second recovery changes nothing.
//! From some of the states: crash again, at every point of the recovery and of the first
//! transactions after it, and from some of those again.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use perdura::{Database, Error};
use sim::Recorded;

use crate::medium::{Medium, Part, State};
use crate::mutation::Mutation;
use crate::quiet::quietly;
use crate::work::{Items, Work};

/// One in so many states is explored further.
const DEEP: u64 = 8;

/// A recorded run of a database, with what it held after each committed transaction.
#[derive(Clone, Debug)]
pub struct Scenario<M: Medium, W: Work = Items> {
    /// The work that it does.
    pub work: W,
    /// The medium that it runs on.
    pub medium: M,
    /// The record.
    pub trace: M::Trace,
    /// The contents after so many transactions; a note in the trace says how many are acknowledged.
    pub models: Vec<W::Model>,
    /// Most transactions that can be committed and not acknowledged.
    pub in_flight: usize,
    /// True if the trace begins before the database was created: until that is acknowledged it may
    /// be unfinished.
    pub created: bool,
}

/// States, each by a number that two have in common only if they are alike and the same was
/// promised.
pub type Known = HashSet<u64>;

/// The amount to look at.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Most states of a crash point, beyond those in which every two lines are seen in all four
    /// combinations of lost and persisted.
    pub bound: u64,
    /// The crash points.
    pub part: Part,
    /// Chooses the states of a point that has more.
    pub seed: u64,
    /// The further crashes.
    pub again: Again,
}

/// The further crashes after a crash: from how many states, and how many in a row.
#[derive(Clone, Copy, Debug)]
pub struct Again {
    /// Crashes again from every so many states.
    pub every: u64,
    /// Unless there are more than so many states of second crashes for a thousand of first ones.
    pub per_mille: u64,
    /// The number of crashes in a row.
    pub depth: u32,
    /// Transactions of the process that crashes again, after its recovery.
    pub transactions: usize,
    /// One in so many of these processes runs them; the others only recover.
    pub one_in: u64,
}

impl Again {
    /// No crash after the first.
    pub const NEVER: Self =
        Self { every: u64::MAX, per_mille: 0, depth: 0, transactions: 0, one_in: 1 };

    /// Returns crashes from every so many states, so many in a row, with a transaction after each
    /// recovery.
    pub const fn every(every: u64, depth: u32) -> Self {
        Self { every, per_mille: u64::MAX, depth, transactions: 1, one_in: 1 }
    }

    pub(crate) fn is_due(self, states: u64, nested: u64) -> bool {
        self.depth > 0
            && states.is_multiple_of(self.every)
            && nested <= states.saturating_mul(self.per_mille) / 1000
    }
}

impl Effort {
    /// Every crash point, in up to so many states, once.
    pub fn once(bound: u64) -> Self {
        Self { bound, part: Part::ALL, seed: 7, again: Again::NEVER }
    }

    /// Adds further crashes.
    pub fn then(self, again: Again) -> Self {
        Self { again, ..self }
    }
}

/// A number of a set of states: two sets that differ have different ones, or by a chance of 2^-64.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Visited(u64);

impl Visited {
    fn note(&mut self, state: u64) {
        self.add(Self(state));
    }

    /// Adds states that are not among these.
    pub(crate) fn add(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

/// Counts of what was looked at.
#[derive(Clone, Default, Debug)]
pub struct Explored {
    /// Crash points.
    pub points: u64,
    /// States that a first crash left, none counted twice.
    pub states: u64,
    /// Distinguishes these states from others.
    pub visited: Visited,
    /// States that a second crash left, or a third.
    pub nested: u64,
    /// The number of [`Self::states`] from crashes before opening, or creation, had ended.
    pub in_recovery: u64,
    /// The number of [`Self::nested`] from crashes before the recovery had ended.
    pub nested_in_recovery: u64,
    /// Fences, or syncs.
    pub barriers: u64,
    /// Events of the trace that a fault has changed.
    pub injected: u64,
    /// The first state that is wrong.
    pub violation: Option<Violation>,
}

/// A state that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The number of events before the crash.
    pub position: usize,
    /// The fault.
    pub what: String,
    /// The stores that the crash has lost, and who had done them.
    pub lost: Vec<String>,
}

impl<M: Medium, W: Work> Scenario<M, W> {
    /// Looks at the scenario's crash points, in a program with a fault if one is given; stops at
    /// the first violation.
    pub fn explore(&self, fault: Option<&Mutation>, effort: Effort) -> Explored {
        match fault {
            None => self.walk(&self.trace, None, effort, &Known::new()),
            Some(fault) => self.explore_beyond(&Known::new(), fault, effort),
        }
    }

    /// The states that [`Self::explore`] would look at without a fault.
    pub fn known(&self, effort: Effort) -> Known {
        let (mut known, Effort { bound, part, seed, .. }) = (Known::new(), effort);
        M::walk(&self.trace, bound, part, seed, &mut |state| {
            known.insert(with_promise::<M>(&state));
            ControlFlow::Continue(())
        });
        known
    }

    /// Works as [`Self::explore`] with a fault, but skips states that the program leaves without it
    /// too: they do not show the fault.
    ///
    /// # Panics
    /// It is to crash again after a state: the fault is in recovery, too, which has to be run for
    /// that from states that are known.
    pub fn explore_beyond(&self, known: &Known, fault: &Mutation, effort: Effort) -> Explored {
        assert!(known.is_empty() || effort.again.depth == 0, "recovery is not known");
        let (trace, injected) = M::mutate(&self.trace, fault);
        let mut explored = self.walk(&trace, Some(fault), effort, known);
        explored.injected += injected;
        explored
    }

    fn walk(
        &self,
        trace: &M::Trace,
        fault: Option<&Mutation>,
        effort: Effort,
        known: &Known,
    ) -> Explored {
        let Effort { bound, part, seed, again } = effort;
        let mut explored = Explored::default();
        let (mut seen, mut crashed_again) = (HashSet::new(), 0u64);
        let walked = M::walk(trace, bound, part, seed, &mut |state| {
            let number = with_promise::<M>(&state);
            if self.is_nothing_yet(&state) || known.contains(&number) || !seen.insert(number) {
                return ControlFlow::Continue(());
            }
            explored.states += 1;
            explored.visited.note(number);
            explored.in_recovery += u64::from(state.acknowledged.is_none());
            let mut done = self.verdict(&state, explored.states.is_multiple_of(DEEP));
            let is_open = state.acknowledged.is_some() || !self.created;
            if done.is_ok() && is_open && again.is_due(explored.states, explored.nested) {
                let runs = crashed_again.is_multiple_of(again.one_in);
                let transactions = if runs { again.transactions } else { 0 };
                crashed_again += 1;
                let again = Again { transactions, ..again };
                done = self.crash_again(&state, fault, again).map(|more| {
                    explored.nested += more.states + more.nested;
                    explored.nested_in_recovery += more.in_recovery + more.nested_in_recovery;
                    explored.injected += more.injected;
                });
            }
            match done {
                Ok(()) => ControlFlow::Continue(()),
                Err(what) => {
                    let lost = M::explain(trace, state.position, state.image);
                    let position = state.position;
                    explored.violation = Some(Violation { position, what, lost });
                    ControlFlow::Break(())
                }
            }
        });
        Explored { points: walked.points, barriers: walked.barriers, ..explored }
    }

    /// Looks at every `stride`th of the states that a kill of the process can leave, in a program
    /// with a fault if one is given; stops at the first violation.
    pub fn explore_kills(&self, fault: Option<&Mutation>, stride: u64) -> Explored {
        let (mutated, injected) = match fault {
            None => (None, 0),
            Some(fault) => {
                let (trace, injected) = M::mutate(&self.trace, fault);
                (Some(trace), injected)
            }
        };
        let trace = mutated.as_ref().unwrap_or(&self.trace);
        let mut explored = Explored { injected, ..Explored::default() };
        let mut seen = HashSet::new();
        M::kills(trace, &mut |state| {
            let number = with_promise::<M>(&state);
            if self.is_nothing_yet(&state) || !seen.insert(number) {
                return ControlFlow::Continue(());
            }
            explored.points += 1;
            if !explored.points.is_multiple_of(stride) {
                return ControlFlow::Continue(());
            }
            explored.states += 1;
            explored.visited.note(number);
            match self.verdict(&state, explored.states.is_multiple_of(DEEP)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(what) => {
                    let lost = M::explain(trace, state.position, state.image);
                    let position = state.position;
                    explored.violation = Some(Violation { position, what, lost });
                    ControlFlow::Break(())
                }
            }
        });
        explored
    }

    /// The database is being created. The medium does not show this, but no user would open it.
    fn is_nothing_yet(&self, state: &State<'_, M::Image>) -> bool {
        self.created && !M::WHOLE && state.acknowledged.is_none()
    }

    /// Judges a state. `deep` goes on with it.
    ///
    /// # Errors
    /// The thing that is wrong with it; a panic is.
    pub fn verdict(&self, state: &State<'_, M::Image>, deep: bool) -> Result<(), String> {
        without_panic(|| self.judge(state, deep))
    }

    fn judge(&self, state: &State<'_, M::Image>, deep: bool) -> Result<(), String> {
        let (db, handle) = match self.medium.open(state.image, false) {
            Err(Error::Unfinished { .. }) if self.created && state.acknowledged.is_none() => {
                return Ok(());
            }
            opened => opened.map_err(|error| format!("does not open: {error}"))?,
        };
        let db = Abandoned(Some(db));
        let found = self.found(&db, state.acknowledged.unwrap_or(0) as usize)?;
        if !deep {
            return Ok(());
        }
        let mut model = found.clone();
        drop(db);
        // A second recovery changes nothing.
        let (db, handle) = self.open_again(&handle, &model)?;
        let mut more = self.work.more(state.position as u64);
        for operations in 0..20 {
            self.work
                .transaction(&mut more, &db, &mut model, 1 + operations % 5)
                .map_err(|error| format!("cannot go on: {error}"))?;
        }
        self.work.differs(&db, &model)?;
        drop(db);
        let (db, handle) = self.open_again(&handle, &model)?;
        // While work is put off, some space has no owner: only now is the check complete.
        while db.background(u64::MAX).map_err(|error| format!("has work left: {error}"))? > 0 {}
        self.work.differs(&db, &model)?;
        M::has_no_rest(&db, &handle)
    }

    fn open_again(
        &self,
        handle: &M::Handle,
        model: &W::Model,
    ) -> Result<(Abandoned, M::Handle), String> {
        let opened = self.medium.open(M::now(handle).borrow(), false);
        let (db, handle) = opened.map_err(|error| format!("does not open again: {error}"))?;
        let db = Abandoned(Some(db));
        self.work.differs(&db, model).map_err(|what| format!("recovered again {what}"))?;
        Ok((db, handle))
    }

    /// The contents, if they are what they may be.
    fn found(&self, db: &Database<Recorded>, acknowledged: usize) -> Result<&W::Model, String> {
        let unreadable = |error| format!("cannot be read: {error}");
        let possible = self.possible(acknowledged);
        let Some(number) = self.work.which(db, possible).map_err(unreadable)? else {
            let found = self.work.contents(db).map_err(unreadable)?;
            let earlier = self.models.iter().rposition(|model| *model == found);
            return Err(format!(
                "has, after {acknowledged} acknowledged transactions, the contents {}",
                match earlier {
                    None => "of no moment".into(),
                    Some(at) if possible.contains(&found) => format!("of after {at} in disorder"),
                    Some(at) => format!("of after {at}"),
                }
            ));
        };
        self.work.reads_differ(db, &possible[number])?;
        Ok(&possible[number])
    }

    /// The contents that there may be when so many transactions are acknowledged.
    fn possible(&self, acknowledged: usize) -> &[W::Model] {
        let end = self.models.len().min(acknowledged + self.in_flight + 1);
        &self.models[acknowledged..end]
    }

    /// Crashes again at every point of the recovery and of the first transactions after it. What
    /// the first recovery has found is what every later one has to find.
    fn crash_again(
        &self,
        state: &State<'_, M::Image>,
        fault: Option<&Mutation>,
        again: Again,
    ) -> Result<Explored, String> {
        let after = without_panic(|| self.next_process(state, again.transactions))?;
        let (mut seen, mut killed) = (HashSet::new(), Ok(()));
        M::kills(&after.trace, &mut |state| {
            // Of recovery; from then on kills are looked at elsewhere.
            if state.acknowledged.is_some() || killed.is_err() {
                return ControlFlow::Break(());
            }
            if seen.insert(state.fingerprint) {
                killed = after.verdict(&state, false);
            }
            ControlFlow::Continue(())
        });
        let states = seen.len() as u64;
        killed.map_err(|why| format!("is killed in recovery, and {why}"))?;
        // A sample: there are as many recoveries after a recovery as it has crash points.
        let deeper = Again { every: 37, per_mille: 100, depth: again.depth - 1, ..again };
        let effort = Effort::once(6).then(deeper);
        let explored = match fault {
            None => after.walk(&after.trace, None, effort, &Known::new()),
            Some(fault) => after.explore(Some(fault), effort),
        };
        match explored.violation {
            None => Ok(Explored {
                states: states + explored.states,
                in_recovery: states + explored.in_recovery,
                ..explored
            }),
            Some(Violation { what, lost, .. }) => {
                Err(format!("crashes again, and {what} ({})", lost.join("; ")))
            }
        }
    }

    /// Recovers from a state and runs a few transactions.
    fn next_process(
        &self,
        state: &State<'_, M::Image>,
        transactions: usize,
    ) -> Result<Self, String> {
        let opened = self.medium.open(state.image, true);
        let (db, handle) = opened.map_err(|error| format!("does not open: {error}"))?;
        let db = Abandoned(Some(db));
        let mut more = self.work.more(state.position as u64);
        M::note(&handle, 0);
        // Which of them it is, every later recovery has to find.
        let possible = self.possible(state.acknowledged.unwrap_or(0) as usize);
        let held = self.work.which(&db, possible).map_err(|error| error.to_string())?;
        let held = held.ok_or("recovers to something else another time")?;
        let mut models = vec![possible[held].clone()];
        for operations in 1..=transactions {
            let mut model = models[models.len() - 1].clone();
            // In a thread of its own: it must not make recovery's fences.
            let mut done = Ok(false);
            let work = || self.work.transaction(&mut more, &db, &mut model, operations);
            std::thread::scope(|scope| match scope.spawn(work).join() {
                Ok(ended) => done = ended,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            if done.map_err(|error| format!("cannot go on: {error}"))? {
                models.push(model);
                M::note(&handle, models.len() as u64 - 1);
            }
        }
        drop(db);
        let trace = M::stop(&handle);
        let medium = self.medium.away_from(handle);
        let work = self.work.clone();
        Ok(Self { work, medium, trace, models, in_flight: 1, created: false })
    }
}

/// A number that two states have in common only if they are alike, and what was promised too.
pub(crate) fn with_promise<M: Medium>(state: &State<'_, M::Image>) -> u64 {
    let promised = state.acknowledged.map_or(0, |number| number + 1);
    state.fingerprint ^ promised.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A database that ends as a kill ends it, whatever happens.
pub(crate) struct Abandoned(pub(crate) Option<Database<Recorded>>);

impl std::ops::Deref for Abandoned {
    type Target = Database<Recorded>;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(db) = self.0.take() {
            db.abandon();
        }
    }
}

pub(crate) fn without_panic<R>(work: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    let ended = quietly(|| catch_unwind(AssertUnwindSafe(work)));
    ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        Err(format!("makes the program panic: {}", text.unwrap_or_default()))
    })
}
