//! A kill of the process, and a power cut during or after the recovery from it.
//!
//! The next process sees all that the killed process had stored, durable or not. Data that it
//! relies on has to be durable before it reports anything; otherwise a later power cut takes back
//! what was seen.
//!
//! 1. The process is killed after the last store or write before a fence or a sync.
//! 2. The next one recovers, shows what is there, and takes a checkpoint.
//! 3. The power fails at each point since the kill, for what the first process had not made
//!    durable, too. A line that it had flushed and not fenced is covered by no fence of the next
//!    one.
//! 4. Until the next process has shown what is there, that may be anything that a crash can leave;
//!    from then on it stays.
//!
//! After the last kill of a scenario the next process has two threads: one opens the store, and the
//! other is the first to change something. What it commits rests on what the first one has stored,
//! and its fences cover no flush of the first.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::thread;

use paged::latch::Followed;
use sim::{CombinedImage, CombinedReplay, CombinedTrace, DiskEvent, Event};

use super::explore::for_each_spot;
use super::run::{Contents, Scenario, add_one, contents, note};
use super::stage::{Media, Open};
use crate::combined::explain;
use crate::explorer::{Effort, Explored, Known, Violation, without_panic};
use crate::medium::Part;
use crate::mutation::Mutation;

/// The note that the next process has shown what is there.
const SHOWN: u64 = u64::MAX;
/// States of a crash point.
const BOUND: u64 = 6;

/// The threads of the process that comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// One that recovers, shows what is there, and takes a checkpoint.
    Alone,
    /// One that recovers, and another one that commits a row and shows what is there.
    Two,
}

/// A kill of a scenario's process, and the process that comes next.
#[derive(Debug)]
pub struct Kill {
    threads: Next,
    killed: CombinedTrace,
    pub(super) next: CombinedTrace,
    /// The contents that the next process has shown.
    shown: Contents,
    /// Crash points before the kill.
    points: u64,
    /// The states that power cuts leave.
    known: Known,
}

impl Scenario {
    /// Kills the process at one in so many of its fences and syncs, and at the last one.
    ///
    /// # Errors
    /// A recovery goes wrong, or a power cut during or after it.
    pub fn kills(&self, one_in: usize) -> Result<Vec<Kill>, String> {
        let chosen: HashSet<usize> = last_changes(&self.trace).step_by(one_in).collect();
        let last = last_changes(&self.trace).last();
        let (mut kills, mut before, mut failed) = (Vec::new(), 0, None);
        self.trace.process_states(|events, _, image| {
            // The half of a write is shown with the number of events before it.
            let is_whole = events > std::mem::replace(&mut before, events);
            let alone = chosen.contains(&events).then_some(Next::Alone);
            let two = (last == Some(events)).then_some(Next::Two);
            for threads in alone.into_iter().chain(two) {
                if failed.is_none() && is_whole {
                    match self.kill(events, image, threads) {
                        Ok(kill) => kills.push(kill),
                        Err(why) => failed = Some(format!("killed after event {events}: {why}")),
                    }
                }
            }
        });
        failed.map_or(Ok(kills), Err)
    }

    /// The state that is left by a kill after so many events.
    fn kill(&self, events: usize, image: &CombinedImage, threads: Next) -> Result<Kill, String> {
        let media = Media::of(image);
        media.start();
        let open = self.stage.open(&media).map_err(|error| format!("does not open: {error}"))?;
        let shown = match threads {
            Next::Alone => contents(&self.stage, &open)?,
            Next::Two => thread::scope(|scope| {
                let other = scope.spawn(|| self.shown_by_another(&open));
                other.join().unwrap_or_else(|panic| resume_unwind(panic))
            })?,
        };
        note(&self.stage, &media, SHOWN);
        if threads == Next::Alone {
            let ended = Followed::by(self.stage.baton(1), || open.store.checkpoint());
            ended.map_err(|error| format!("cannot end its recovery: {error}"))?;
        }
        drop(open);
        let (killed, next) = (first(&self.trace, events), media.stop());
        let both = followed_by(&killed, &next);
        let (mut replay, mut points) = (CombinedReplay::new(&both), 0);
        while replay.next_point().is_some_and(|point| point.position <= events) {
            points += 1;
        }
        let mut kill = Kill { threads, killed, next, shown, points, known: Known::new() };
        let explored = self.explore_kill(&kill, None);
        if let Some(violation) = explored.violation {
            return Err(format!("{violation:#?}"));
        }
        for_each_spot(&both, kill.effort(), &mut |spot| {
            kill.known.insert(spot.number);
            ControlFlow::Continue(())
        });
        Ok(kill)
    }

    /// Commits a row and returns what there is: the work of a thread that has not opened the store.
    fn shown_by_another(&self, open: &Open) -> Result<Contents, String> {
        let added = Followed::by(self.stage.baton(3), || add_one(open));
        added.map_err(|error| format!("another thread cannot commit: {error}"))?;
        contents(&self.stage, open)
    }

    /// Looks at the power cuts after a kill. The fault is in the next process. States that also
    /// arise without it do not show it.
    pub fn explore_kill(&self, kill: &Kill, fault: Option<&Mutation>) -> Explored {
        let mut explored = Explored::default();
        let next = match fault {
            Some(fault) => {
                let (next, injected) = fault.of_combined(&kill.next);
                explored.injected = injected;
                if injected == 0 {
                    return explored;
                }
                next
            }
            None => kill.next.clone(),
        };
        let (trace, mut seen) = (followed_by(&kill.killed, &next), HashSet::new());
        for_each_spot(&trace, kill.effort(), &mut |spot| {
            if kill.known.contains(&spot.number) || !seen.insert(spot.number) {
                return ControlFlow::Continue(());
            }
            explored.states += 1;
            let done = without_panic(|| match spot.acknowledged {
                SHOWN => self.find_again(spot.image, &kill.shown),
                // The scenario does not know the row that was added.
                _ if kill.threads == Next::Two => Ok(()),
                _ => self.judge(&spot, false).map(drop),
            });
            let Err(what) = done else { return ControlFlow::Continue(()) };
            let (position, lost) = (spot.position, explain(&trace, spot.position));
            explored.violation = Some(Violation { position, what, lost });
            ControlFlow::Break(())
        });
        explored
    }
}

impl Kill {
    fn effort(&self) -> Effort {
        Effort { part: Part { from: self.points, ..Part::ALL }, ..Effort::once(BOUND) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Change,
    Barrier,
    Nothing,
}

fn in_memory(event: &Event) -> Does {
    match event {
        Event::Store { .. } | Event::Copy { .. } | Event::Line { .. } => Does::Change,
        Event::Fence => Does::Barrier,
        Event::Flush { .. } | Event::Grow { .. } | Event::Mark(_) | Event::Note(_) => Does::Nothing,
    }
}

fn in_files(event: &DiskEvent) -> Does {
    match event {
        DiskEvent::Sync { .. } | DiskEvent::SyncDirectory => Does::Barrier,
        DiskEvent::FailedSync { .. } | DiskEvent::Note(_) => Does::Nothing,
        _ => Does::Change,
    }
}

/// The numbers of all events, in their order, with what each does.
fn events(trace: &CombinedTrace) -> Vec<(u64, Does)> {
    let memory = trace.memory.events.iter().map(|one| (one.number, in_memory(&one.event)));
    let files = trace.files.events.iter().map(|one| (one.number, in_files(&one.event)));
    let mut all: Vec<_> = memory.chain(files).collect();
    all.sort_by_key(|(number, _)| *number);
    all
}

/// The numbers of events up to the last change before each barrier.
fn last_changes(trace: &CombinedTrace) -> impl Iterator<Item = usize> {
    let mut last = None;
    (1..).zip(events(trace)).filter_map(move |(many, (_, does))| match does {
        Does::Change => {
            last = Some(many);
            None
        }
        Does::Barrier => last.take(),
        Does::Nothing => None,
    })
}

/// The first events of a record.
fn first(trace: &CombinedTrace, many: usize) -> CombinedTrace {
    let end = events(trace).get(many).map_or(u64::MAX, |(number, _)| *number);
    let mut first = trace.clone();
    first.memory.events.retain(|one| one.number < end);
    first.files.events.retain(|one| one.number < end);
    first
}

/// The record of a killed process and of the next one, which has found all that the first had done.
fn followed_by(killed: &CombinedTrace, next: &CombinedTrace) -> CombinedTrace {
    let mut both = killed.clone();
    let numbers = events(killed).last().map_or(0, |(number, _)| number + 1);
    let threads = killed.memory.events.iter().map(|one| one.thread + 1).max().unwrap_or(0);
    both.memory.events.extend(next.memory.events.iter().cloned().map(|mut one| {
        (one.number, one.thread) = (one.number + numbers, one.thread + threads);
        one
    }));
    let files = same_files(killed, next);
    both.files.events.extend(next.files.events.iter().cloned().map(|mut one| {
        one.number += numbers;
        match &mut one.event {
            DiskEvent::Create { file, .. }
            | DiskEvent::Write { file, .. }
            | DiskEvent::SetLen { file, .. }
            | DiskEvent::Reserve { file, .. }
            | DiskEvent::Sync { file }
            | DiskEvent::FailedSync { file } => *file = files[&*file],
            _ => {}
        }
        one
    }));
    both
}

/// Maps each file's number in the trace of the next process to the number of the same file in the
/// trace of the killed one.
///
/// # Panics
/// The next process has made a file. A paged store makes none after its creation.
fn same_files(killed: &CombinedTrace, next: &CombinedTrace) -> BTreeMap<u64, u64> {
    let numbers = &killed.files.numbers;
    let same = next.files.numbers.iter().map(|(name, number)| (*number, numbers[name]));
    same.collect()
}
