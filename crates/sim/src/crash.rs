//! The states that a power cut could leave, built from a trace by the crash model of
//! `docs/format/crash-model.md`.
//!
//! - An 8-byte aligned store persists whole or not at all, and so does a store of a whole line, which a
//!   fence makes durable without a write-back.
//! - What persists of a line is a prefix of the stores to that line. A bulk copy is one element of
//!   that order whose 8-byte atoms persist in any combination, one of them possibly torn. Of these
//!   combinations each atom alone and all but each are built, and one torn atom, either half first.
//! - Lines are independent of each other until the thread that wrote them back has fenced; the
//!   fence covers the stores that were made before the write-back.
//!
//! Checking before every fence drains, around every note and at the end covers all points in between:
//! until the next fence the set of possible states only grows. Of a set that is too large for all of
//! it to be built, every point shows the newest part: what was stored since the point before.

use std::collections::{BTreeMap, HashSet};

use pm::LINE_BYTES;

use crate::image::Image;
use crate::picks::{CHOICES, CrashStates};
use crate::recording::{Event, Recorded, Trace, atoms};
use crate::split_mix::next_random;
use crate::weak;

const LINE: usize = LINE_BYTES as usize;

/// One of this many of the bound's states is a sample, whatever the rest takes.
const SAMPLES: u64 = 4;

/// A store or a copy as far as it touches one line.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// `(offset in the line, bytes)`; one atom for an ordered store.
    atoms: Vec<(usize, Vec<u8>)>,
    /// Part of a bulk copy, of which nothing is atomic.
    bulk: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    groups: Vec<Group>,
    /// The number of groups that the flush covers, for each thread that flushed the line.
    flushed: BTreeMap<u32, usize>,
}

impl Pending {
    /// All atoms, in the order of their stores.
    fn atoms(&self) -> Vec<&(usize, Vec<u8>)> {
        self.groups.iter().flat_map(|group| &group.atoms).collect()
    }

    /// No fence that comes covers what was flushed before.
    pub(crate) fn forget_flushes(&mut self) {
        self.flushed.clear();
    }
}

/// The part of one line that has persisted.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct LineChoice {
    /// The line's number.
    pub line: u64,
    /// The line's contents.
    pub bytes: [u8; LINE],
}

/// Walks along a trace and stops at each crash point.
#[derive(Debug)]
pub struct Replay<'a> {
    trace: &'a Trace,
    next: usize,
    persisted: Image,
    pending: BTreeMap<u64, Pending>,
    changed: bool,
    last_note: Option<u64>,
    fences: u64,
    weak: bool,
}

/// A place in a trace where a crash is looked at: what is durable for sure, and for every other
/// line what it may hold.
#[derive(Debug)]
pub struct CrashPoint<'a> {
    /// The bytes that are durable for sure.
    pub persisted: &'a [u8],
    /// The notes up to here end with this one.
    pub last_note: Option<u64>,
    /// The number of events before it.
    pub position: usize,
    image: &'a Image,
    options: Vec<Vec<LineChoice>>,
}

impl<'a> Replay<'a> {
    /// Starts before the first event.
    pub fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            next: 0,
            persisted: Image::new(trace.image.clone()),
            pending: BTreeMap::new(),
            changed: true,
            last_note: None,
            fences: 0,
            weak: false,
        }
    }

    /// The same, on a processor that orders the stores to a line no more than those to several
    /// (aarch64): between two fences each word of a line persists by itself, as any of the values that it
    /// had.
    #[must_use]
    pub fn weakly_ordered(self) -> Self {
        Self { weak: true, ..self }
    }

    /// Starts before the first event of a process that found what another had left: some
    /// of it durable, some `pending`.
    pub(crate) fn resume(
        trace: &'a Trace,
        persisted: Vec<u8>,
        pending: BTreeMap<u64, Pending>,
    ) -> Self {
        Self { persisted: Image::new(persisted), pending, ..Self::new(trace) }
    }

    /// Returns what is durable, and what may be.
    pub(crate) fn state(&self) -> (Vec<u8>, BTreeMap<u64, Pending>) {
        (self.persisted.bytes().to_vec(), self.pending.clone())
    }

    /// The last note that was passed.
    pub(crate) fn last_note(&self) -> Option<u64> {
        self.last_note
    }

    /// Returns the number of fences before it.
    pub fn fences(&self) -> u64 {
        self.fences
    }

    /// Goes on to the next crash point: before a fence drains, before a note and after it, or at
    /// the end. Points between which nothing was stored or promised are one point.
    pub fn next_point(&mut self) -> Option<CrashPoint<'_>> {
        self.pass_point().then(|| self.point())
    }

    /// The same, without looking at it. Returns whether there was one.
    pub fn pass_point(&mut self) -> bool {
        let mut stops = false;
        loop {
            let next = self.trace.events.get(self.next);
            stops |= next.is_none_or(|one| matches!(one.event, Event::Fence | Event::Note(_)));
            if stops && std::mem::take(&mut self.changed) {
                return true;
            }
            let Some(recorded) = next else { return false };
            self.next += 1;
            self.step(recorded);
            stops = matches!(recorded.event, Event::Note(_));
        }
    }

    /// Does what was recorded.
    pub(crate) fn step(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::Store { at, value } => self.group(*at, &value.to_le_bytes(), false),
            Event::Copy { at, bytes } => self.group(*at, bytes, true),
            Event::Line { line, bytes } => {
                self.changed = true;
                let pending = self.pending.entry(*line).or_default();
                pending.groups.push(Group { atoms: vec![(0, bytes.to_vec())], bulk: false });
                // The next fence waits for it, and it comes after what the line had.
                let all = pending.groups.len();
                pending.flushed.insert(recorded.thread, all);
            }
            Event::Flush { first, end } => {
                for (_, pending) in self.pending.range_mut(first..end) {
                    let all = pending.groups.len();
                    pending.flushed.insert(recorded.thread, all);
                }
            }
            Event::Fence => self.fence(recorded.thread),
            Event::Grow { to } => self.persisted.grow(*to),
            Event::Mark(_) => {}
            Event::Note(note) => {
                self.last_note = Some(*note);
                // What was promised has changed although no byte has.
                self.changed = true;
            }
        }
    }

    /// The event that comes next.
    pub(crate) fn peek(&self) -> Option<&'a Recorded> {
        self.trace.events.get(self.next)
    }

    /// Does what was recorded next. Returns whether anything was stored, or promised.
    pub(crate) fn advance(&mut self) -> bool {
        self.changed = false;
        if let Some(recorded) = self.peek() {
            self.next += 1;
            self.step(recorded);
        }
        self.changed
    }

    fn group(&mut self, at: u64, bytes: &[u8], bulk: bool) {
        self.changed = true;
        let mut lines: BTreeMap<u64, Group> = BTreeMap::new();
        for (start, atom) in atoms(at, bytes) {
            let group =
                lines.entry(start / LINE_BYTES).or_insert(Group { atoms: Vec::new(), bulk });
            group.atoms.push(((start % LINE_BYTES) as usize, atom.to_vec()));
        }
        for (line, group) in lines {
            self.pending.entry(line).or_default().groups.push(group);
        }
    }

    fn fence(&mut self, thread: u32) {
        self.fences += 1;
        let persisted = &mut self.persisted;
        self.pending.retain(|line, pending| {
            if let Some(covered) = pending.flushed.remove(&thread) {
                for group in pending.groups.drain(..covered) {
                    for (offset, bytes) in group.atoms {
                        persisted.put(line * LINE_BYTES + offset as u64, &bytes);
                    }
                }
                for other in pending.flushed.values_mut() {
                    *other = other.saturating_sub(covered);
                }
            }
            !pending.groups.is_empty()
        });
    }

    /// The place where it is, as a crash point.
    pub(crate) fn point(&self) -> CrashPoint<'_> {
        let options =
            self.pending.iter().map(|(line, pending)| self.choices(*line, pending)).collect();
        CrashPoint {
            persisted: self.persisted.bytes(),
            image: &self.persisted,
            last_note: self.last_note,
            position: self.next,
            options,
        }
    }

    /// The durable contents of a line.
    fn durable(&self, line: u64) -> [u8; LINE] {
        let start = (line * LINE_BYTES) as usize;
        let mut bytes = [0u8; LINE];
        let durable = self.persisted.bytes();
        let end = durable.len().min(start + LINE);
        bytes[..end - start].copy_from_slice(&durable[start..end]);
        bytes
    }

    /// Every content that a line can have; first "nothing persisted", last "everything".
    fn choices(&self, line: u64, pending: &Pending) -> Vec<LineChoice> {
        let mut bytes = self.durable(line);
        let mut seen = HashSet::new();
        let mut choices = Vec::new();
        let mut add = |bytes: [u8; LINE]| {
            if seen.insert(bytes) {
                choices.push(LineChoice { line, bytes });
            }
        };
        add(bytes);
        if self.weak {
            weak::contents(bytes, &pending.atoms(), self.next as u64, &mut add);
        }
        for group in &pending.groups {
            let mut whole = bytes;
            apply(&mut whole, &group.atoms);
            if group.bulk {
                for index in 0..group.atoms.len() {
                    // Only this atom, and all but this one: any order among the atoms.
                    let mut one = bytes;
                    apply(&mut one, &group.atoms[index..=index]);
                    add(one);
                    let mut rest = bytes;
                    apply(&mut rest, &group.atoms[..index]);
                    apply(&mut rest, &group.atoms[index + 1..]);
                    add(rest);
                }
                // A bulk copy may move single bytes: tear an atom, either part of it first.
                let (offset, atom) = &group.atoms[self.next % group.atoms.len()];
                if atom.len() > 1 {
                    let cut = 1 + self.next % (atom.len() - 1);
                    for (from, part) in [(0, &atom[..cut]), (cut, &atom[cut..])] {
                        let mut torn = bytes;
                        apply(&mut torn, &[(offset + from, part.to_vec())]);
                        add(torn);
                    }
                }
            }
            bytes = whole;
            add(bytes);
        }
        // Where the newest content was seen before, it must still be last; and what is durable first.
        match choices.iter().position(|choice| choice.bytes == bytes) {
            Some(0) if choices.len() == 1 => return choices,
            Some(0) | None => {}
            Some(index) => drop(choices.remove(index)),
        }
        choices.push(LineChoice { line, bytes });
        choices
    }
}

fn apply(line: &mut [u8; LINE], atoms: &[(usize, Vec<u8>)]) {
    for (offset, bytes) in atoms {
        line[*offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

impl CrashPoint<'_> {
    /// Returns how many lines may differ from what is durable.
    pub fn pending_lines(&self) -> usize {
        self.options.len()
    }

    /// The number of options of each line that may differ.
    pub(crate) fn options(&self) -> Vec<usize> {
        self.options.iter().map(Vec::len).collect()
    }

    /// The memory's contents with these options picked.
    pub(crate) fn image(&self, picks: &[usize]) -> Vec<u8> {
        let mut image = self.persisted.to_vec();
        for (line, pick) in self.options.iter().zip(picks) {
            let LineChoice { line, bytes } = &line[*pick];
            let start = *line as usize * LINE;
            let end = image.len().min(start + LINE);
            image[start..end].copy_from_slice(&bytes[..end - start]);
        }
        image
    }

    /// Calls `visit` with the memory's contents in each state: all combinations of
    /// [the choices](LineChoice) if there are at most `bound`. Else all lost, all persisted, a set in
    /// which every two lines are seen in all four combinations of lost and persisted, up to `bound`
    /// states in which every line has another one of its choices each time (of more than
    /// [`CHOICES`], of the newest), and samples: as many as are missing to `bound`, a few at least.
    /// The same seed gives the same states.
    pub fn for_each_state(
        &self,
        bound: u64,
        seed: u64,
        mut visit: impl FnMut(&[u8]),
    ) -> CrashStates {
        self.for_each_numbered_state(bound, seed, |image, _| visit(image))
    }

    /// As [`Self::for_each_state`], with a number for each image that two have in common only if they
    /// are alike, or by a chance of 2^-64.
    pub fn for_each_numbered_state(
        &self,
        bound: u64,
        seed: u64,
        mut visit: impl FnMut(&[u8], u64),
    ) -> CrashStates {
        self.for_each_of(bound, seed, &mut visit)
    }

    /// Compiled once, not for each visitor.
    fn for_each_of(&self, bound: u64, seed: u64, visit: &mut dyn FnMut(&[u8], u64)) -> CrashStates {
        let total = self
            .options
            .iter()
            .try_fold(1u64, |product, line| product.checked_mul(line.len() as u64))
            .unwrap_or(u64::MAX);
        let mut image = self.image.clone();
        // In the image, the first of each line's choices.
        let mut shown = vec![0u16; self.options.len()];
        let mut seen: HashSet<Vec<u16>> = HashSet::new();
        let mut show = |picks: &[u16]| -> bool {
            if !seen.insert(picks.to_vec()) {
                return false;
            }
            for ((line, pick), shown) in self.options.iter().zip(picks).zip(&mut shown) {
                if std::mem::replace(shown, *pick) == *pick {
                    continue;
                }
                let choice = &line[usize::from(*pick)];
                let start = (choice.line * LINE_BYTES) as usize;
                let bytes = image.bytes().len().min(start + LINE) - start;
                image.put(start as u64, &choice.bytes[..bytes]);
            }
            visit(image.bytes(), image.fingerprint());
            true
        };
        let mut visited = 0;
        if total <= bound {
            let mut picks = vec![0u16; self.options.len()];
            loop {
                visited += u64::from(show(&picks));
                let Some(place) =
                    (0..picks.len()).find(|i| usize::from(picks[*i]) + 1 < self.options[*i].len())
                else {
                    return CrashStates { visited, exhaustive: true };
                };
                picks[place] += 1;
                picks[..place].fill(0);
            }
        }
        let last: Vec<u16> = self.options.iter().map(|line| (line.len() - 1) as u16).collect();
        let lost = vec![0u16; self.options.len()];
        visited += u64::from(show(&lost)) + u64::from(show(&last));
        // Pairwise: row `bit` takes the binary digits of the line's number; with the complements,
        // every two lines differ in some row both ways, and agree both ways in the rows above.
        let bits = usize::BITS - self.options.len().leading_zeros();
        for bit in 0..bits {
            for inverted in [0, 1] {
                let row: Vec<u16> = (0..self.options.len())
                    .map(|i| if (i >> bit) & 1 == inverted { last[i] } else { 0 })
                    .collect();
                visited += u64::from(show(&row));
            }
        }
        let most = self.options.iter().map(Vec::len).max().unwrap_or(0).min(CHOICES);
        for row in 0..most.min(bound as usize) {
            // Lines differ in where they begin, so that they do not go in step.
            let choice = |(number, line): (usize, &Vec<LineChoice>)| {
                let few = line.len().min(CHOICES);
                (line.len() - 1 - (row + self.position + number * 7) % few) as u16
            };
            let row: Vec<u16> = self.options.iter().enumerate().map(choice).collect();
            visited += u64::from(show(&row));
        }
        let mut random = seed ^ (self.position as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut tries = 0;
        let enough = bound.max(visited + bound / SAMPLES);
        while visited < enough && tries < bound * 2 {
            tries += 1;
            let mut picks: Vec<u16> = match next_random(&mut random) % 3 {
                0 => lost.clone(),
                1 => last.clone(),
                _ => self
                    .options
                    .iter()
                    .map(|line| (next_random(&mut random) % line.len() as u64) as u16)
                    .collect(),
            };
            let place = (next_random(&mut random) % picks.len() as u64) as usize;
            picks[place] = (next_random(&mut random) % self.options[place].len() as u64) as u16;
            visited += u64::from(show(&picks));
        }
        CrashStates { visited, exhaustive: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pm::{Memory, Off, Range};

    use crate::Recording;

    /// All states that the trace of `act` can leave at its last crash point.
    fn states(act: impl FnOnce(&Recording)) -> HashSet<Vec<u8>> {
        let memory = Recording::new(4096).unwrap();
        memory.grow(256).unwrap();
        memory.start();
        act(&memory);
        let trace = memory.stop();
        let mut replay = Replay::new(&trace);
        let mut found = HashSet::new();
        while let Some(point) = replay.next_point() {
            found.clear();
            point.for_each_state(10_000, 1, |image| {
                found.insert(image.to_vec());
            });
        }
        found
    }

    fn words(image: &[u8], at: [usize; 2]) -> (u8, u8) {
        (image[at[0]], image[at[1]])
    }

    #[test]
    fn stores_to_one_line_persist_as_a_prefix() {
        let found = states(|memory| {
            memory.store(Off::new(0), 1);
            memory.store(Off::new(8), 1);
        });
        let seen: HashSet<_> = found.iter().map(|image| words(image, [0, 8])).collect();
        assert_eq!(seen, HashSet::from([(0, 0), (1, 0), (1, 1)]), "never the second store alone");
    }

    #[test]
    fn lines_are_independent_until_flushed_and_fenced() {
        let unordered = states(|memory| {
            memory.store(Off::new(0), 1);
            memory.flush(Range::new(0, 8));
            memory.store(Off::new(64), 1);
        });
        let seen: HashSet<_> = unordered.iter().map(|image| words(image, [0, 64])).collect();
        assert_eq!(seen.len(), 4, "a flush without a fence orders nothing");
        let ordered = states(|memory| {
            memory.store(Off::new(0), 1);
            memory.flush(Range::new(0, 8));
            memory.fence();
            memory.store(Off::new(64), 1);
        });
        let seen: HashSet<_> = ordered.iter().map(|image| words(image, [0, 64])).collect();
        assert_eq!(seen, HashSet::from([(1, 0), (1, 1)]));
    }

    #[test]
    fn a_fence_covers_only_stores_before_the_flush() {
        let found = states(|memory| {
            memory.flush(Range::new(0, 8));
            memory.store(Off::new(0), 1);
            memory.fence();
        });
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_fence_of_another_thread_covers_nothing() {
        let found = states(|memory| {
            memory.store(Off::new(0), 1);
            memory.flush(Range::new(0, 8));
            std::thread::scope(|scope| {
                scope.spawn(|| memory.fence());
            });
        });
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_bulk_copy_may_persist_in_any_order_and_torn() {
        let found = states(|memory| memory.copy(Off::new(0), &[7; 24]));
        let firsts: HashSet<_> = found.iter().map(|image| words(image, [0, 16])).collect();
        assert!(firsts.contains(&(0, 7)), "the last atom without the first");
        let torn = |first: u8| {
            let mut atoms = found.iter().flat_map(|image| image.chunks(8).take(3));
            atoms.any(|atom| atom[0] == first && atom[7] == 7 - first)
        };
        assert!(torn(7) && torn(0), "an atom that is torn, either half first");
        let one = states(|memory| memory.copy(Off::new(0), &[7; 8]));
        assert!(one.len() > 2, "a copy of one atom can tear");
        assert_eq!(states(|memory| memory.store(Off::new(0), u64::MAX)).len(), 2, "a store cannot");
    }

    #[test]
    fn beyond_the_bound_lines_are_seen_in_all_pairs() {
        // Miri takes minutes for a hundred.
        let lines: usize = if cfg!(miri) { 12 } else { 100 };
        let memory = Recording::new(1 << 16).unwrap();
        memory.grow((lines * 64).next_multiple_of(4096) as u64).unwrap();
        memory.start();
        for line in 0..lines {
            memory.store(Off::new(line as u64 * 64), 1);
        }
        let trace = memory.stop();
        let mut replay = Replay::new(&trace);
        let point = replay.next_point().unwrap();
        let mut images = Vec::new();
        let states = point.for_each_state(40, 3, |image| images.push(image.to_vec()));
        assert!(!states.exhaustive && states.visited <= 50);
        for a in 0..lines {
            for b in 0..a {
                let seen: HashSet<_> =
                    images.iter().map(|image| words(image, [a * 64, b * 64])).collect();
                assert_eq!(seen.len(), 4, "lines {a} and {b}");
            }
        }
    }

    #[test]
    fn a_kill_leaves_every_store_up_to_some_point() {
        let memory = Recording::new(4096).unwrap();
        memory.grow(256).unwrap();
        memory.start();
        memory.store(Off::new(64), 1);
        memory.copy(Off::new(0), &[2; 16]);
        let trace = memory.stop();
        let mut seen = Vec::new();
        trace.process_states(|_, image| seen.push((image[64], image[0], image[8])));
        // The copy's last part first, or its first.
        assert_eq!(seen, [(0, 0, 0), (1, 0, 0), (1, 0, 2), (1, 2, 0), (1, 2, 2)]);
    }
}
