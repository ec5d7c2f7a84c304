//! Going through all crash points of a trace, and leaving out one instruction at a time: for the crash
//! tests of every layer.

use std::collections::HashSet;
use std::fmt;

use pm::Site;

use crate::crash::Replay;
use crate::recording::{Event, Recorded, Trace};

/// Counts what was looked at, with the first violation.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Explored {
    /// Crash points.
    pub points: u64,
    /// States, each counted once for each note that it was looked at with.
    pub states: u64,
    /// The first violation, if there is one.
    pub failed: Option<String>,
}

/// Judges an image, with the transactions that were acknowledged before the crash.
type Check<'a> = dyn FnMut(&[u8], u64) -> Result<(), String> + 'a;

impl Replay<'_> {
    /// Checks the states of every crash point, at most `bound` of each ([`crate::CrashPoint::for_each_state`]),
    /// up to the first violation. `check` is given the memory's contents and the last note before the
    /// crash, 0 if there is none.
    pub fn explore(
        mut self,
        bound: u64,
        seed: u64,
        mut check: impl FnMut(&[u8], u64) -> Result<(), String>,
    ) -> Explored {
        self.explore_all(bound, seed, &mut check)
    }

    /// Compiled once, not for each check.
    fn explore_all(&mut self, bound: u64, seed: u64, check: &mut Check<'_>) -> Explored {
        let (mut explored, mut seen) = (Explored::default(), HashSet::new());
        while explored.failed.is_none()
            && let Some(point) = self.next_point()
        {
            explored.points += 1;
            let (position, noted) = (point.position, point.last_note.unwrap_or(0));
            point.for_each_numbered_state(bound, seed, |image, number| {
                if explored.failed.is_some() || !seen.insert((number, noted)) {
                    return;
                }
                explored.states += 1;
                if let Err(why) = check(image, noted) {
                    explored.failed = Some(format!("event {position}: {why}"));
                }
            });
        }
        explored
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Flush,
    Fence,
    Store,
}

/// A flush, a fence or an ordered store of the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    kind: Kind,
    /// The place.
    pub site: Site,
}

impl Instruction {
    fn of(recorded: &Recorded) -> Option<Self> {
        let kind = match recorded.event {
            Event::Flush { .. } => Kind::Flush,
            Event::Fence => Kind::Fence,
            Event::Store { .. } | Event::Line { .. } => Kind::Store,
            _ => return None,
        };
        Some(Self { kind, site: recorded.site })
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            Kind::Flush => "flush",
            Kind::Fence => "fence",
            Kind::Store => "store",
        };
        write!(f, "{what} at {}:{}", self.site.file(), self.site.line())
    }
}

impl Trace {
    /// The places in the source that flushed something, in the order of their first flush.
    pub fn flush_sites(&self) -> Vec<Site> {
        self.sites(|event| matches!(event, Event::Flush { .. }))
    }

    /// The places in the source that fenced, in the order of their first fence.
    pub fn fence_sites(&self) -> Vec<Site> {
        self.sites(|event| matches!(event, Event::Fence))
    }

    fn sites(&self, wanted: impl Fn(&Event) -> bool) -> Vec<Site> {
        let mut sites: Vec<Site> = Vec::new();
        for recorded in &self.events {
            if wanted(&recorded.event) && !sites.contains(&recorded.site) {
                sites.push(recorded.site);
            }
        }
        sites
    }

    /// The same trace as if the flushes of `site` were not in the code.
    pub fn without_flushes_of(&self, site: Site) -> Self {
        let keep = |recorded: &&Recorded| {
            !(matches!(recorded.event, Event::Flush { .. }) && recorded.site == site)
        };
        Self {
            image: self.image.clone(),
            events: self.events.iter().filter(keep).cloned().collect(),
        }
    }

    /// The same trace without any fence of `site`.
    pub fn without_fences_of(&self, site: Site) -> Self {
        let keep = |recorded: &&Recorded| {
            !(matches!(recorded.event, Event::Fence) && recorded.site == site)
        };
        Self {
            image: self.image.clone(),
            events: self.events.iter().filter(keep).cloned().collect(),
        }
    }

    /// The flushes, fences and ordered stores, each once, in the order of their first event.
    pub fn instructions(&self) -> Vec<Instruction> {
        let mut instructions: Vec<Instruction> = Vec::new();
        for one in self.events.iter().filter_map(Instruction::of) {
            if !instructions.contains(&one) {
                instructions.push(one);
            }
        }
        instructions
    }

    /// The same trace as if the instruction were not in the code. A store that is left out never
    /// persists.
    pub fn without(&self, left_out: Instruction) -> Self {
        let keep = |recorded: &&Recorded| Instruction::of(recorded) != Some(left_out);
        Self {
            image: self.image.clone(),
            events: self.events.iter().filter(keep).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pm::{Memory, Off, Range};

    use crate::Recording;

    /// A word, and then one that says that it is there.
    fn trace() -> Trace {
        let memory = Recording::new(4096).unwrap();
        memory.grow(256).unwrap();
        memory.start();
        memory.store(Off::new(0), 7);
        memory.flush(Range::new(0, 8));
        memory.fence();
        memory.store(Off::new(64), 1);
        memory.flush(Range::new(64, 8));
        memory.fence();
        memory.note(1);
        memory.stop()
    }

    fn check(image: &[u8], noted: u64) -> Result<(), String> {
        let whole = match (image[64], image[0]) {
            (0, _) => noted == 0,
            (_, word) => word == 7,
        };
        if whole { Ok(()) } else { Err(format!("{} {}", image[0], image[64])) }
    }

    #[test]
    fn an_instruction_that_is_left_out_is_noticed() {
        let trace = trace();
        let explored = Replay::new(&trace).explore(100, 1, check);
        assert_eq!((explored.failed, explored.states), (None, 4));
        let instructions = trace.instructions();
        assert_eq!(instructions.len(), 6);
        for one in instructions {
            let without = trace.without(one);
            assert_eq!(without.events.len(), trace.events.len() - 1);
            let explored = Replay::new(&without).explore(100, 1, check);
            assert!(explored.failed.is_some(), "{one}");
        }
    }
}
