//! The walk over the states that a crash of a scenario can leave, and the verdict on each.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;

use paged::latch::Followed;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use sim::{CombinedImage, CombinedReplay, CombinedTrace};

use super::run::{Contents, Scenario, Workload, checks, contents, transaction};
use super::stage::{Media, Open};
use crate::combined::explain;
use crate::explorer::{Again, Effort, Explored, Known, Violation, without_panic};
use crate::history::Recorder;
use crate::history::Rule::Serializable;
use crate::medium::{Part, Walked};
use crate::mutation::Mutation;

/// One in so many states is explored further.
const DEEP: u64 = 8;
/// Transactions that are run on such a state.
const MORE: usize = 10;
/// States of a crash point of a recovery.
const NESTED_BOUND: u64 = 4;
/// One in so many states of a crash in recovery crashes once more.
const DEEPER: u64 = 37;

/// A state, and what was promised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    pub(super) position: usize,
    /// The history's time of the last acknowledgement.
    pub(super) acknowledged: u64,
    pub(super) image: &'a CombinedImage,
    /// A number that two have in common only if they are alike and the same was promised.
    pub(super) number: u64,
}

/// Calls `visit` with the states of the crash points that the effort asks for, until it breaks.
pub(super) fn for_each_spot(
    trace: &CombinedTrace,
    effort: Effort,
    visit: &mut dyn FnMut(Spot<'_>) -> ControlFlow<()>,
) -> Walked {
    let Effort { bound, part, seed, .. } = effort;
    let (mut replay, mut walked, mut number) = (CombinedReplay::new(trace), Walked::default(), 0);
    let mut flow = ControlFlow::Continue(());
    while flow.is_continue() && number < part.to {
        number += 1;
        if !part.has(number - 1) {
            if replay.pass_point() {
                continue;
            }
            break;
        }
        let Some(point) = replay.next_point() else { break };
        walked.points += 1;
        let (position, acknowledged) = (point.position, point.last_note.unwrap_or(0));
        point.for_each_state(bound, seed, |image| {
            if flow.is_continue() {
                let mut hasher = DefaultHasher::new();
                (acknowledged, image).hash(&mut hasher);
                flow = visit(Spot { position, acknowledged, image, number: hasher.finish() });
            }
        });
    }
    walked.barriers = replay.barriers();
    walked
}

impl Scenario {
    /// Looks at the scenario's crash points; stops at the first violation.
    pub fn explore(&self, effort: Effort) -> Explored {
        self.walk(&self.trace, None, effort, &Known::new())
    }

    /// The states that [`Self::explore`] would look at.
    pub fn known(&self, effort: Effort) -> Known {
        let mut known = Known::new();
        for_each_spot(&self.trace, effort, &mut |spot| {
            known.insert(spot.number);
            ControlFlow::Continue(())
        });
        known
    }

    /// The same for a program with a fault, but for states that are known: they do not show the
    /// fault. If it crashes again after them they are looked at all the same.
    pub fn explore_beyond(&self, known: &Known, fault: &Mutation, effort: Effort) -> Explored {
        let (trace, injected) = fault.of_combined(&self.trace);
        let mut explored = self.walk(&trace, Some(fault), effort, known);
        explored.injected += injected;
        explored
    }

    fn walk(
        &self,
        trace: &CombinedTrace,
        fault: Option<&Mutation>,
        effort: Effort,
        known: &Known,
    ) -> Explored {
        let again = effort.again;
        let (mut explored, mut seen) = (Explored::default(), HashSet::new());
        let walked = for_each_spot(trace, effort, &mut |spot| {
            let is_known = known.contains(&spot.number) && again.depth == 0;
            if is_known || !seen.insert(spot.number) {
                return ControlFlow::Continue(());
            }
            explored.states += 1;
            let deep = explored.states.is_multiple_of(DEEP);
            let mut done = without_panic(|| self.judge(&spot, deep));
            if let Ok(found) = &done
                && again.is_due(explored.states, explored.nested)
            {
                let more = without_panic(|| self.crash_again(spot.image, found, fault, again));
                done = more.map(|more| {
                    explored.nested += more.states;
                    explored.nested_in_recovery += more.states;
                    explored.injected += more.injected;
                    Contents::new()
                });
            }
            match done {
                Ok(_) => ControlFlow::Continue(()),
                Err(what) => {
                    let (position, lost) = (spot.position, explain(trace, spot.position));
                    explored.violation = Some(Violation { position, what, lost });
                    ControlFlow::Break(())
                }
            }
        });
        Explored { points: walked.points, barriers: walked.barriers, ..explored }
    }

    fn open(&self, image: &CombinedImage) -> Result<(Media, Open), String> {
        let media = Media::of(image);
        let open = self.stage.open(&media).map_err(|error| format!("does not open: {error}"))?;
        Ok((media, open))
    }

    /// Recovers from a state and judges what is there. `deep` goes on with it.
    pub(super) fn judge(&self, spot: &Spot<'_>, deep: bool) -> Result<Contents, String> {
        let (media, open) = self.open(spot.image)?;
        let found = contents(&self.stage, &open)?;
        let order = self.history.recovered(Serializable, spot.acknowledged, &found);
        order.map_err(|violation| format!("is wrong after a crash: {violation}"))?;
        checks(&open)?;
        if deep {
            self.go_on(&media, open, &found, spot.position as u64)?;
        }
        Ok(found)
    }

    /// A second recovery, more transactions, and a third and a fourth recovery.
    fn go_on(&self, media: &Media, open: Open, found: &Contents, seed: u64) -> Result<(), String> {
        drop(open);
        let (media, open) = self.reopened(media, found)?;
        let recorder = Recorder::new(found.clone());
        let ages = AtomicU64::new(1);
        let mut random = SmallRng::seed_from_u64(seed);
        Followed::by(self.stage.baton(seed), || {
            let mut session = open.store.session();
            for _ in 0..MORE {
                transaction(
                    Workload::Everything,
                    &mut session,
                    &open,
                    &recorder,
                    &mut random,
                    0,
                    &ages,
                )
                .map_err(|error| format!("cannot go on: {error}"))?;
            }
            Ok::<_, String>(())
        })?;
        let left = contents(&self.stage, &open)?;
        let order = recorder.history().recovered(Serializable, recorder.now(), &left);
        order.map_err(|violation| format!("goes on wrongly: {violation}"))?;
        checks(&open)?;
        drop(open);
        let (media, open) = self.reopened(&media, &left)?;
        drop(open);
        self.reopened(&media, &left).map(drop)
    }

    fn reopened(&self, media: &Media, wanted: &Contents) -> Result<(Media, Open), String> {
        let (media, open) = self.open(&media.image())?;
        if contents(&self.stage, &open)? != *wanted {
            return Err("is changed by another recovery".into());
        }
        checks(&open)?;
        Ok((media, open))
    }

    /// Records a recovery from a state, with what it has left for later.
    fn recovery(&self, image: &CombinedImage) -> Result<CombinedTrace, String> {
        let media = Media::of(image);
        media.start();
        let open = self.stage.open(&media).map_err(|error| format!("does not open: {error}"))?;
        let ended = Followed::by(self.stage.baton(1), || open.store.checkpoint());
        ended.map_err(|error| format!("cannot end its recovery: {error}"))?;
        drop(open);
        Ok(media.stop())
    }

    /// Records of recoveries from a state of one crash point in so many.
    ///
    /// # Errors
    /// One goes wrong.
    pub fn recoveries(&self, one_in: u64) -> Result<Vec<CombinedTrace>, String> {
        let part = Part { stride: one_in, ..Part::ALL };
        let mut traces = Vec::new();
        for_each_spot(&self.trace, Effort { part, ..Effort::once(1) }, &mut |spot| {
            traces.push(self.recovery(spot.image));
            ControlFlow::Continue(())
        });
        traces.into_iter().collect()
    }

    /// Crashes at every point of the recovery from a state, and of the recoveries after that: each
    /// has to find what the first one has found.
    fn crash_again(
        &self,
        image: &CombinedImage,
        found: &Contents,
        fault: Option<&Mutation>,
        again: Again,
    ) -> Result<Explored, String> {
        let trace = self.recovery(image)?;
        let (trace, injected) = fault.map_or((trace.clone(), 0), |fault| fault.of_combined(&trace));
        let mut explored = Explored { injected, ..Explored::default() };
        let (mut seen, mut done) = (HashSet::new(), Ok(()));
        for_each_spot(&trace, Effort::once(NESTED_BOUND), &mut |spot| {
            if !seen.insert(spot.number) {
                return ControlFlow::Continue(());
            }
            explored.states += 1;
            done = self.find_again(spot.image, found).map_err(|why| {
                let place = explain(&trace, spot.position).join("; ");
                format!("crashes in recovery ({place}), and {why}")
            });
            if done.is_ok() && again.depth > 1 && explored.states.is_multiple_of(DEEPER) {
                let deeper = Again { depth: again.depth - 1, ..again };
                done = self.crash_again(spot.image, found, fault, deeper).map(|more| {
                    explored.states += more.states;
                    explored.injected += more.injected;
                });
            }
            if done.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        done.map(|()| explored)
    }

    pub(super) fn find_again(
        &self,
        image: &CombinedImage,
        wanted: &Contents,
    ) -> Result<(), String> {
        let (_, open) = self.open(image)?;
        if contents(&self.stage, &open)? != *wanted {
            return Err("recovers other contents".into());
        }
        checks(&open)
    }
}
