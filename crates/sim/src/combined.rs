//! Crashes of a program that uses a memory and files: both are cut off at the same moment.
//!
//! The events of both have numbers from one counter
//! ([`Recording::files`](crate::Recording::files)). A crash point is one of either medium: before a
//! fence drains, before a sync, before a note and after it, at the end. What can persist of one
//! medium does not depend on what has of the other, so the states are all pairs of what each may
//! hold: those of lines and those of sectors together.

use std::collections::BTreeMap;

use pm::LINE_BYTES;

use crate::crash::{CrashPoint, Replay};
use crate::files::{DiskEvent, DiskPoint, DiskReplay, DiskTrace};
use crate::picks::{CrashStates, for_each_pick};
use crate::recording::{Event, Trace, atoms, put};

/// Contents of a memory and of files.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct CombinedImage {
    /// The memory.
    pub memory: Vec<u8>,
    /// The files.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The record of a memory and of files.
#[derive(Clone, Default, Debug)]
pub struct CombinedTrace {
    /// The memory.
    pub memory: Trace,
    /// The files.
    pub files: DiskTrace,
}

impl CombinedTrace {
    /// Calls `visit` with every state that a kill of the process could leave: all that was done
    /// up to some event of either medium, and nothing after it. A copy and a write are also cut in
    /// half. With it goes the number of events before the kill, and the last note among them.
    pub fn process_states(&self, mut visit: impl FnMut(usize, Option<u64>, &CombinedImage)) {
        let files = self.files.beginning();
        let mut image = CombinedImage { memory: self.memory.image.clone(), files: files.image() };
        let (mut of_memory, mut of_files) =
            (self.memory.events.iter().peekable(), self.files.events.iter().peekable());
        let (mut events, mut note) = (0, None);
        visit(events, note, &image);
        loop {
            let in_files = of_files.peek().map_or(u64::MAX, |next| next.number);
            if let Some(next) = of_memory.next_if(|next| next.number < in_files) {
                let changed = match &next.event {
                    Event::Store { at, value } => {
                        put(&mut image.memory, *at, &value.to_le_bytes());
                        true
                    }
                    Event::Line { line, bytes } => {
                        put(&mut image.memory, line * LINE_BYTES, &bytes[..]);
                        true
                    }
                    Event::Copy { at, bytes } => {
                        let atoms: Vec<_> = atoms(*at, bytes).collect();
                        let (first, second) = atoms.split_at(atoms.len() / 2);
                        first.iter().for_each(|(at, atom)| put(&mut image.memory, *at, atom));
                        visit(events, note, &image);
                        second.iter().for_each(|(at, atom)| put(&mut image.memory, *at, atom));
                        true
                    }
                    Event::Grow { to } => {
                        image.memory.resize(image.memory.len().max(*to as usize), 0);
                        false
                    }
                    Event::Note(next) => {
                        note = Some(*next);
                        false
                    }
                    Event::Flush { .. } | Event::Fence | Event::Mark(_) => false,
                };
                events += 1;
                if changed {
                    visit(events, note, &image);
                }
            } else if let Some(next) = of_files.next() {
                if files.redo_half(&next.event) {
                    image.files = files.image();
                    visit(events, note, &image);
                }
                if let DiskEvent::Note(next) = next.event {
                    note = Some(next);
                }
                events += 1;
                if files.redo(&next.event) {
                    image.files = files.image();
                    visit(events, note, &image);
                }
            } else {
                return;
            }
        }
    }
}

/// Walks along the traces of both and stops at each crash point.
#[derive(Debug)]
pub struct CombinedReplay<'a> {
    memory: Replay<'a>,
    files: DiskReplay<'a>,
    last_note: Option<u64>,
    passed: usize,
    changed: bool,
    stops: bool,
}

/// A place where a crash of both is looked at.
#[derive(Debug)]
pub struct CombinedPoint<'a> {
    memory: CrashPoint<'a>,
    files: DiskPoint<'a>,
    /// The last of the notes in either trace.
    pub last_note: Option<u64>,
    /// The number of events before it.
    pub position: usize,
}

impl<'a> CombinedReplay<'a> {
    /// Starts before the first event.
    pub fn new(trace: &'a CombinedTrace) -> Self {
        let (memory, files) = (Replay::new(&trace.memory), DiskReplay::new(&trace.files));
        Self { memory, files, last_note: None, passed: 0, changed: true, stops: false }
    }

    /// Returns the number of fences and syncs before it.
    pub fn barriers(&self) -> u64 {
        self.memory.fences() + self.files.syncs()
    }

    /// Goes on to the next crash point. Points between which nothing was done or promised are one.
    pub fn next_point(&mut self) -> Option<CombinedPoint<'_>> {
        self.pass_point().then(|| CombinedPoint {
            memory: self.memory.point(),
            files: self.files.point(),
            last_note: self.last_note,
            position: self.passed,
        })
    }

    /// The same, without looking at it. Returns whether there was one.
    pub fn pass_point(&mut self) -> bool {
        loop {
            let (memory, files) = (self.memory.peek(), self.files.peek());
            let first = match (memory, files) {
                (Some(memory), Some(files)) => memory.number < files.number,
                (memory, _) => memory.is_some(),
            };
            let (is_barrier, note) = match (memory, files) {
                (Some(next), _) if first => match next.event {
                    Event::Note(note) => (true, Some(note)),
                    ref event => (matches!(event, Event::Fence), None),
                },
                (_, Some(next)) => match next.event {
                    DiskEvent::Note(note) => (true, Some(note)),
                    ref event => {
                        (matches!(event, DiskEvent::Sync { .. } | DiskEvent::SyncDirectory), None)
                    }
                },
                _ => (true, None),
            };
            if (is_barrier || self.stops) && std::mem::take(&mut self.changed) {
                self.stops = false;
                return true;
            }
            if memory.is_none() && files.is_none() {
                return false;
            }
            self.passed += 1;
            self.changed |= if first { self.memory.advance() } else { self.files.advance() };
            self.stops = note.is_some();
            self.last_note = note.or(self.last_note);
        }
    }
}

impl CombinedPoint<'_> {
    /// Returns how many lines, sectors, lengths and directories may differ from what is durable.
    pub fn pending(&self) -> usize {
        self.memory.pending_lines() + self.files.pending()
    }

    /// Calls `visit` with the contents of both in each state: all of them if there are at most
    /// `bound`; else some, of which the most telling come first, as for [files
    /// alone](DiskPoint::for_each_state): every two lines, every two sectors, and every line with
    /// every sector are seen in all four combinations of lost and persisted. The same seed gives
    /// the same states.
    pub fn for_each_state(
        &self,
        bound: u64,
        seed: u64,
        mut visit: impl FnMut(&CombinedImage),
    ) -> CrashStates {
        let lines = self.memory.options();
        let options: Vec<usize> = lines.iter().copied().chain(self.files.options()).collect();
        let mut seen = std::collections::HashSet::new();
        for_each_pick(&options, bound, seed, self.position, |picks| {
            if !seen.insert(picks.to_vec()) {
                return false;
            }
            let (of_lines, of_files) = picks.split_at(lines.len());
            let image = CombinedImage {
                memory: self.memory.image(of_lines),
                files: self.files.image(of_files),
            };
            visit(&image);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use pm::{File, Files, Memory, Off, Range};

    use crate::Recording;

    /// The states of `act` at its last crash point: a word in memory, a byte in a file, and the
    /// note.
    fn states(act: impl FnOnce(&Recording, &dyn Fn(u8), &dyn Fn())) -> HashSet<(u64, u8, u64)> {
        let memory = Recording::new(1 << 16).unwrap();
        memory.grow(4096).unwrap();
        let files = memory.files([("a".into(), vec![0; 512])].into());
        memory.start();
        files.start();
        let file = files.open("a").unwrap();
        let write = |byte| file.write_at(0, &[byte]).unwrap();
        act(&memory, &write, &|| file.sync().unwrap());
        let trace = CombinedTrace { memory: memory.stop(), files: files.stop() };
        let (mut replay, mut found) = (CombinedReplay::new(&trace), HashSet::new());
        while let Some(point) = replay.next_point() {
            found.clear();
            let note = point.last_note.unwrap_or(0);
            point.for_each_state(100, 1, |image| {
                let word = u64::from_le_bytes(image.memory[64..72].try_into().unwrap());
                found.insert((word, image.files["a"][0], note));
            });
        }
        found
    }

    fn persist(memory: &Recording, word: u64) {
        memory.store(Off::new(64), word);
        memory.flush(Range::new(64, 8));
    }

    #[test]
    fn what_is_open_of_one_medium_does_not_depend_on_the_other() {
        let found = states(|memory, write, _| {
            persist(memory, 7);
            write(9);
        });
        assert_eq!(found, HashSet::from([(0, 0, 0), (7, 0, 0), (0, 9, 0), (7, 9, 0)]));
    }

    #[test]
    fn both_are_cut_off_at_the_same_moment() {
        let found = states(|memory, write, sync| {
            persist(memory, 7);
            memory.fence();
            write(9);
            sync();
            memory.note(1);
            persist(memory, 8);
        });
        assert_eq!(found, HashSet::from([(7, 9, 1), (8, 9, 1)]));
        let found = states(|memory, write, sync| {
            write(9);
            sync();
            persist(memory, 7);
            write(10);
        });
        assert_eq!(found, HashSet::from([(0, 9, 0), (7, 9, 0), (0, 10, 0), (7, 10, 0)]));
    }

    #[test]
    fn a_kill_loses_nothing_of_either_medium() {
        let memory = Recording::new(1 << 16).unwrap();
        memory.grow(4096).unwrap();
        let files = memory.files([("a".into(), vec![0; 512])].into());
        memory.start();
        files.start();
        memory.store(Off::new(64), 7);
        files.open("a").unwrap().write_at(0, &[9, 9]).unwrap();
        memory.note(1);
        memory.store(Off::new(64), 8);
        let trace = CombinedTrace { memory: memory.stop(), files: files.stop() };
        let mut found = Vec::new();
        trace.process_states(|events, note, image| {
            found.push((events, note, image.memory[64], image.files["a"][..2].to_vec()));
        });
        let expected = [
            (0, None, 0, vec![0, 0]),
            (1, None, 7, vec![0, 0]),
            (1, None, 7, vec![9, 0]),
            (2, None, 7, vec![9, 9]),
            (4, Some(1), 8, vec![9, 9]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_fence_does_not_stand_for_a_sync() {
        let found = states(|memory, write, _| {
            write(9);
            persist(memory, 7);
            memory.fence();
            memory.note(1);
        });
        assert_eq!(found, HashSet::from([(7, 0, 1), (7, 9, 1)]));
    }
}
