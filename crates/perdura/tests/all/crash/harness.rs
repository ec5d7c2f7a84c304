//! The walk over all states that a crash can leave behind, whatever the medium.

use std::ops::ControlFlow;

use perdura::recording::Site;
use perdura::{Database, Error, Recorded};

use crate::support::{Driver, Model, Tables, compare, contents};

/// What survives a crash, and how to go on from it.
pub(super) trait Medium: Clone {
    /// What a crash leaves behind.
    type Image: ?Sized + ToOwned;
    /// What was recorded.
    type Trace;
    /// What an open database lies on.
    type Handle;

    /// Opens what a crash has left behind. What opening does is recorded, and what comes after it.
    fn open(&self, image: &Self::Image) -> Result<(Database<Recorded>, Self::Handle), Error>;
    /// Puts a note into the trace: so many transactions are acknowledged.
    fn note(handle: &Self::Handle, note: u64);
    /// What was recorded.
    fn stop(handle: &Self::Handle) -> Self::Trace;
    /// The contents now.
    fn now(handle: &Self::Handle) -> <Self::Image as ToOwned>::Owned;
    /// Calls `visit` with every crash point of the trace in up to `bound` states, until it breaks.
    fn walk(
        trace: &Self::Trace,
        bound: u64,
        visit: &mut dyn FnMut(State<'_, Self::Image>) -> ControlFlow<()>,
    ) -> Walked;
    /// Calls `visit` with every state that a kill of the process can leave behind, as far as the
    /// trace goes before its first note.
    fn kills(trace: &Self::Trace, visit: &mut dyn FnMut(&Self::Image));
}

/// One state.
pub(super) struct State<'a, I: ?Sized> {
    /// How many events lie before the crash.
    pub(super) position: usize,
    /// How many transactions were acknowledged.
    pub(super) acknowledged: u64,
    pub(super) image: &'a I,
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Walked {
    pub(super) points: u64,
    pub(super) states: u64,
    /// Fences or syncs.
    pub(super) barriers: u64,
}

/// What was recorded of a database, and the model after each committed transaction.
pub(super) struct Story<M: Medium> {
    pub(super) medium: M,
    pub(super) trace: M::Trace,
    pub(super) models: Vec<Model>,
    /// Most transactions that can be committed and not acknowledged.
    pub(super) in_flight: usize,
}

/// How often to crash again after a crash, and how often in a row.
#[derive(Clone, Copy)]
pub(super) struct Again {
    /// From every so many states.
    pub(super) every: u64,
    pub(super) depth: u32,
}

/// No crash after the first.
pub(super) const ONCE: Again = Again { every: u64::MAX, depth: 0 };

#[derive(Default, Debug)]
pub(super) struct Explored {
    pub(super) points: u64,
    pub(super) states: u64,
    /// States that a second crash left, or a third.
    pub(super) again: u64,
    pub(super) barriers: u64,
    pub(super) violation: Option<String>,
}

impl<M: Medium> Story<M> {
    /// Looks at every crash point of the trace, which is the story's or one with a fault in it, in
    /// up to `bound` states each; stops at the first violation.
    pub(super) fn explore(&self, trace: &M::Trace, bound: u64, again: Again) -> Explored {
        let mut explored = Explored::default();
        let mut count = 0u64;
        let walked = M::walk(trace, bound, &mut |state| {
            count += 1;
            let mut done = self.verdict(&state, count.is_multiple_of(16));
            if done.is_ok() && again.depth > 0 && count.is_multiple_of(again.every) {
                done = self.crash_again(&state, again).map(|more| explored.again += more);
            }
            match done {
                Ok(()) => ControlFlow::Continue(()),
                Err(why) => {
                    let position = state.position;
                    explored.violation = Some(format!("event {position}: the database {why}"));
                    ControlFlow::Break(())
                }
            }
        });
        let Walked { points, states, barriers } = walked;
        Explored { points, states, barriers, ..explored }
    }

    /// Every state must be recovered from.
    pub(super) fn survives(&self, what: &str, bound: u64, again: Again) -> Explored {
        let explored = self.explore(&self.trace, bound, again);
        println!(
            "{what}: {} transactions, {} fences or syncs, {} points, {} states, {} of crashes after a crash",
            self.models.len() - 1,
            explored.barriers,
            explored.points,
            explored.states,
            explored.again
        );
        assert_eq!(explored.violation, None, "{what}");
        explored
    }

    /// What is wrong with a state, if anything.
    pub(super) fn verdict(&self, state: &State<'_, M::Image>, deep: bool) -> Result<(), String> {
        let opened = self.medium.open(state.image);
        let (db, handle) = opened.map_err(|error| format!("does not open: {error}"))?;
        let mut model = self.found(&db, state.acknowledged as usize)?;
        if !deep {
            db.abandon();
            return Ok(());
        }
        let (tables, mut driver) = (Tables::of(&db), Driver::new(state.position as u64, 60));
        for operations in 0..20 {
            driver
                .transaction(&db, &tables, &mut model, operations % 5)
                .map_err(|error| format!("cannot go on: {error}"))?;
        }
        exactly(&db, &model)?;
        compare(&db, &model);
        db.abandon();
        let again = self.medium.open(std::borrow::Borrow::borrow(&M::now(&handle)));
        let (again, _) = again.map_err(|error| format!("does not open again: {error}"))?;
        exactly(&again, &model)?;
        compare(&again, &model);
        again.abandon();
        Ok(())
    }

    /// The contents, if they are what they may be.
    fn found(&self, db: &Database<Recorded>, acknowledged: usize) -> Result<Model, String> {
        let found = contents(db).map_err(|error| format!("cannot be read: {error}"))?;
        let mut possible = self.models[acknowledged..].iter().take(self.in_flight + 1);
        if !possible.any(|model| *model == found) {
            let earlier = self.models.iter().rposition(|model| *model == found);
            return Err(format!(
                "after {acknowledged} acknowledged transactions has the contents {}",
                earlier.map_or("of no moment".into(), |at| format!("of after {at}"))
            ));
        }
        checks(db)?;
        Ok(found)
    }

    /// Crashes again at every point of the recovery and of the first transactions after it. What
    /// the first recovery has found is what every later one has to find.
    fn crash_again(&self, state: &State<'_, M::Image>, again: Again) -> Result<u64, String> {
        let opened = self.medium.open(state.image);
        let (db, handle) = opened.map_err(|error| format!("does not open: {error}"))?;
        M::note(&handle, 0);
        let (tables, mut driver) = (Tables::of(&db), Driver::new(state.position as u64, 60));
        let mut models = vec![contents(&db).map_err(|error| error.to_string())?];
        for operations in 1..4 {
            let mut model = models[models.len() - 1].clone();
            let done = driver.transaction(&db, &tables, &mut model, operations);
            if done.map_err(|error| format!("cannot go on: {error}"))? {
                models.push(model);
                M::note(&handle, models.len() as u64 - 1);
            }
        }
        db.abandon();
        let trace = M::stop(&handle);
        let after = Self { medium: self.medium.clone(), trace, models, in_flight: 1 };
        let mut states = 0;
        let mut killed = Ok(());
        M::kills(&after.trace, &mut |image| {
            states += 1;
            if killed.is_ok() {
                let state = State { position: states as usize, acknowledged: 0, image };
                killed = after.verdict(&state, false);
            }
        });
        killed.map_err(|why| format!("killed in recovery, {why}"))?;
        let deeper = Again { every: 37, depth: again.depth - 1 };
        let explored = after.explore(&after.trace, 6, deeper);
        match explored.violation {
            None => Ok(states + explored.states + explored.again),
            Some(why) => Err(format!("crashed again, {why}")),
        }
    }
}

fn checks(db: &Database<Recorded>) -> Result<(), String> {
    let report = db.check().map_err(|error| format!("is damaged: {error}"))?;
    if report.leaked != 0 || report.dangling != 0 {
        return Err(format!("has an allocator that disagrees: {report:?}"));
    }
    Ok(())
}

/// What a fault in the trace may break, as an error; [`compare`] looks at all else.
fn exactly(db: &Database<Recorded>, model: &Model) -> Result<(), String> {
    let found = contents(db).map_err(|error| format!("cannot be read later: {error}"))?;
    if found != *model {
        return Err("has other contents later".into());
    }
    checks(db)
}

/// A story and the number of states to look at at each of its points.
pub(super) type Bounded<'a, M> = (&'a Story<M>, u64);

/// Leaves out what the code does at each of its places in turn, in all stories that come to it.
/// Returns the places whose absence nothing notices, and how many places there are: either the test
/// is blind there or the instruction superfluous.
pub(super) fn unnoticed<M: Medium>(
    stories: &[Bounded<'_, M>],
    sites: impl Fn(&M::Trace) -> Vec<Site>,
    without: impl Fn(&M::Trace, Site) -> M::Trace,
) -> (Vec<String>, usize) {
    let mut places: Vec<Site> = Vec::new();
    for site in stories.iter().flat_map(|(story, _)| sites(&story.trace)) {
        if !places.contains(&site) {
            places.push(site);
        }
    }
    let all = places.len();
    places.retain(|site| {
        stories.iter().all(|(story, bound)| {
            !sites(&story.trace).contains(site)
                || story.explore(&without(&story.trace, site), *bound, ONCE).violation.is_none()
        })
    });
    (places.iter().map(|site| format!("{}:{}", site.file(), site.line())).collect(), all)
}
