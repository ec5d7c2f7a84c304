//! The meter that every emulated memory of a run reports to: one cache, and counts of what it does.
//!
//! Invariants:
//! - What is counted is a function of the calls alone. A memory is known by the number that it got
//!   when it was made, a place in it by its offset; there are no addresses, no time, no hashing.
//! - Line numbers are handed out in frames of [`FRAME_BYTES`] when a memory first touches one, as a
//!   kernel hands out pages. A memory that is gone gives its frames back; its modified lines stay
//!   in the cache and are written back as others push them out.
//!
//! How a fetched line is classed, for the model of time:
//!
//! 1. The first line that a call fetches is *near*, if it lies within eight lines of one of the last
//!    four fetched, else *dependent*.
//! 2. Further lines of the same range are *sequential*; those of another range of the same call
//!    (a gather) are *independent*.
//! 3. What a prefetch fetches waits. The first load of one of its lines is classed as in 1, and the
//!    other lines that it fetched are sequential: they were under way together. If none of them was
//!    loaded before [`WAITING`] further prefetches have fetched something, they are independent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pm::{Component, LINE_BYTES, Range, Step};

use super::cache::{CacheModel, LINES, Touched};
use super::counts::LineCounts;
use super::wear::{Wear, WearCounters};

/// Bytes of memory that get their line numbers together.
pub const FRAME_BYTES: u64 = 1 << 20;
const FRAME_LINES: u64 = FRAME_BYTES / LINE_BYTES;
/// A frame that a memory has not touched yet.
const UNTOUCHED: u32 = u32::MAX;
/// Lines: how near a fetched line is to one of the last, and how many of these are remembered.
const NEAR: u32 = 8;
const RECENT: usize = 4;
/// Prefetches none of whose lines was loaded yet, which are remembered.
const WAITING: usize = 4;

/// Selects what is emulated. All of it is part of a result: counts of different options do not
/// compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeterOptions {
    /// Bytes of the last-level cache. 20 MB: the machine of P1 5.
    pub cache_bytes: u64,
    /// Lines of a set.
    pub ways: u32,
    /// True if a flush takes the line out of the cache (CLFLUSH, as in P1 2.3), false if it only
    /// writes it back (CLWB, as the native memories do).
    pub flush_evicts: bool,
    /// True if prefetches fetch lines. The processor may ignore them.
    pub prefetches: bool,
    /// True if a search among ascending words reads all of them (eight at a time, as the native
    /// memories do with AVX-512), false if it halves the range (as they do without).
    pub wide_search: bool,
    /// Lines of its own that the file system modifies and writes back at each sync of a file: its
    /// length and its time. All else that the kernel does costs no line.
    pub lines_per_sync: u32,
}

impl Default for MeterOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 20 << 20,
            ways: 16,
            flush_evicts: false,
            prefetches: true,
            wide_search: true,
            lines_per_sync: 1,
        }
    }
}

/// The counts between the mark before and this one, summed over all marks of the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepTotals {
    /// The mark.
    pub step: Step,
    /// The number of times that it was met.
    pub times: u64,
    /// The counts up to it.
    pub counts: LineCounts,
}

/// A handle to the cache and the counts of a run. Clones share them; one thread uses them at a time.
#[derive(Clone, Debug)]
pub struct Meter(Arc<Mutex<State>>);

impl Meter {
    /// An empty cache, and counts of zero.
    ///
    /// # Panics
    /// If the cache would have no set.
    pub fn new(options: MeterOptions) -> Self {
        Self(Arc::new(Mutex::new(State {
            options,
            cache: CacheModel::new(options.cache_bytes, options.ways),
            frames: Frames::default(),
            counts: LineCounts::default(),
            recent: [u32::MAX; RECENT],
            oldest: 0,
            waiting: Vec::with_capacity(WAITING),
            marked: LineCounts::default(),
            steps: Vec::new(),
            entered: LineCounts::default(),
            component: Component::Other,
            held: false,
            components: [LineCounts::default(); Component::ALL.len()],
            wear: WearCounters::default(),
        })))
    }

    /// Returns the options: what is emulated.
    pub fn options(&self) -> MeterOptions {
        self.state().options
    }

    /// Returns what was counted so far.
    pub fn counts(&self) -> LineCounts {
        let mut state = self.state();
        state.give_up_waiting();
        state.counts
    }

    /// Returns what was counted up to each mark, in the order in which the marks were first met;
    /// what came after the last mark is in [`Self::counts`] alone.
    pub fn steps(&self) -> Vec<StepTotals> {
        self.state().steps.clone()
    }

    /// Returns what was counted for each component; the sum is [`Self::counts`].
    pub fn components(&self) -> [(Component, LineCounts); Component::ALL.len()] {
        let mut state = self.state();
        state.give_up_waiting();
        let component = state.component;
        state.turn_to(component);
        Component::ALL.map(|component| (component, state.components[component as usize]))
    }

    /// Returns how often each line was written.
    pub fn wear(&self) -> Wear {
        self.state().wear.summary()
    }

    /// Sets counts, steps and wear to zero. The cache stays as it is.
    pub fn reset(&self) {
        let mut state = self.state();
        state.waiting.clear();
        state.counts = LineCounts::default();
        state.marked = LineCounts::default();
        state.steps.clear();
        state.entered = LineCounts::default();
        state.components = [LineCounts::default(); Component::ALL.len()];
        state.wear.clear();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a new memory.
    pub(super) fn register(&self) -> Arc<Registration> {
        let mut state = self.state();
        let (number, wide_search) = (state.frames.register(), state.options.wide_search);
        drop(state);
        Arc::new(Registration { meter: self.clone(), number, wide_search })
    }
}

/// A memory's number, as long as anybody has the memory.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) meter: Meter,
    pub(super) number: usize,
    /// [`MeterOptions::wide_search`].
    pub(super) wide_search: bool,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.meter.state().frames.release(self.number);
    }
}

/// Line numbers of the memories.
#[derive(Default, Debug)]
struct Frames {
    /// The counts, by memory and by the number of the frame in it.
    of: Vec<Vec<u32>>,
    used: u32,
    /// Given back, to be used again; the last one first.
    free: Vec<u32>,
}

impl Frames {
    fn register(&mut self) -> usize {
        self.of.push(Vec::new());
        self.of.len() - 1
    }

    fn release(&mut self, memory: usize) {
        let frames = std::mem::take(&mut self.of[memory]);
        self.free.extend(frames.into_iter().rev().filter(|frame| *frame != UNTOUCHED));
    }

    #[inline]
    fn line(&mut self, memory: usize, line: u64) -> u32 {
        let (frame, within) = ((line / FRAME_LINES) as usize, (line % FRAME_LINES) as u32);
        let number = match self.of[memory].get(frame) {
            Some(number) if *number != UNTOUCHED => *number,
            _ => self.first_touch(memory, frame),
        };
        number * FRAME_LINES as u32 + within
    }

    #[cold]
    fn first_touch(&mut self, memory: usize, frame: usize) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            assert!(self.used < LINES / FRAME_LINES as u32, "128 GiB are emulated at most");
            self.used += 1;
            self.used - 1
        });
        let frames = &mut self.of[memory];
        if frames.len() <= frame {
            frames.resize(frame + 1, UNTOUCHED);
        }
        frames[frame] = number;
        number
    }
}

/// Lines that a prefetch has fetched and that were not loaded since.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    first: u32,
    end: u32,
    fetched: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) options: MeterOptions,
    cache: CacheModel,
    frames: Frames,
    pub(super) counts: LineCounts,
    /// The last lines that a load has fetched, in a ring.
    recent: [u32; RECENT],
    oldest: usize,
    waiting: Vec<Waiting>,
    /// The counts when the last mark was met.
    marked: LineCounts,
    steps: Vec<StepTotals>,
    /// The counts when the component's work began.
    entered: LineCounts,
    component: Component,
    held: bool,
    components: [LineCounts; Component::ALL.len()],
    wear: WearCounters,
}

impl State {
    /// A read of one range.
    #[inline]
    pub(super) fn load(&mut self, memory: usize, at: Range) {
        self.load_part(memory, at, false);
    }

    /// A read of several ranges whose places are all known.
    pub(super) fn gather(&mut self, memory: usize, parts: &[Range]) {
        let mut fetched = false;
        for part in parts {
            fetched |= self.load_part(memory, *part, fetched);
        }
    }

    /// Returns whether a line was fetched. `together`: lines of other ranges of the same call were.
    #[inline]
    fn load_part(&mut self, memory: usize, at: Range, together: bool) -> bool {
        let (first, end) = at.lines();
        self.counts.accesses += end - first;
        self.counts.loaded_bytes += at.len;
        let mut fetched = false;
        for line in first..end {
            let line = self.frames.line(memory, line);
            match self.cache.touch(line, false) {
                Touched::Hit if self.waiting.is_empty() => continue,
                Touched::Hit => {
                    if let Some(others) = self.wait_for(line) {
                        self.counts.sequential += others;
                    } else {
                        continue;
                    }
                }
                Touched::Missed => {}
                Touched::Replaced(out) => self.write_back(out),
            }
            *match (fetched, together) {
                (true, _) => &mut self.counts.sequential,
                (false, true) => &mut self.counts.independent,
                (false, false) if self.is_near(line) => &mut self.counts.near,
                (false, false) => &mut self.counts.dependent,
            } += 1;
            fetched = true;
            self.recent[self.oldest] = line;
            self.oldest = (self.oldest + 1) % RECENT;
        }
        fetched
    }

    fn is_near(&self, line: u32) -> bool {
        self.recent.iter().any(|recent| recent.abs_diff(line) <= NEAR)
    }

    /// A line that was prefetched is loaded: the prefetch it came with is over. Returns how many
    /// other lines that one fetched.
    fn wait_for(&mut self, line: u32) -> Option<u64> {
        let at = self.waiting.iter().position(|some| (some.first..some.end).contains(&line))?;
        Some(self.waiting.remove(at).fetched - 1)
    }

    fn give_up_waiting(&mut self) {
        self.counts.independent += self.waiting.drain(..).map(|some| some.fetched).sum::<u64>();
    }

    pub(super) fn prefetch(&mut self, memory: usize, at: Range) {
        if !self.options.prefetches || at.len == 0 {
            return;
        }
        let (first, end) = at.lines();
        let (mut lowest, mut highest, mut fetched) = (u32::MAX, 0, 0);
        for line in first..end {
            let line = self.frames.line(memory, line);
            self.counts.accesses += 1;
            match self.cache.touch(line, false) {
                Touched::Hit => continue,
                Touched::Missed => {}
                Touched::Replaced(out) => self.write_back(out),
            }
            (lowest, highest) = (lowest.min(line), highest.max(line));
            fetched += 1;
        }
        if fetched == 0 {
            return;
        }
        if self.waiting.len() == WAITING {
            self.counts.independent += self.waiting.remove(0).fetched;
        }
        self.waiting.push(Waiting { first: lowest, end: highest + 1, fetched });
    }

    #[inline]
    pub(super) fn store(&mut self, memory: usize, at: Range) {
        let (first, end) = at.lines();
        self.counts.accesses += end - first;
        self.counts.stored_bytes += at.len;
        for line in first..end {
            let line = self.frames.line(memory, line);
            match self.cache.touch(line, true) {
                Touched::Hit => continue,
                Touched::Missed => {}
                Touched::Replaced(out) => self.write_back(out),
            }
            self.counts.store_misses += 1;
        }
    }

    pub(super) fn flush(&mut self, memory: usize, at: Range) {
        let (first, end) = at.lines();
        self.counts.flush_requests += end - first;
        for line in first..end {
            let line = self.frames.line(memory, line);
            let modified = if self.options.flush_evicts {
                self.cache.evict(line)
            } else {
                self.cache.clean(line)
            };
            if modified {
                self.counts.flushed_lines += 1;
                self.wear.write(line);
            }
        }
    }

    pub(super) fn mark(&mut self, step: Step) {
        let counts = self.counts.since(&self.marked);
        self.marked = self.counts;
        let known = self.steps.iter_mut().find(|known| known.step == step);
        match known {
            Some(known) => {
                known.times += 1;
                known.counts += counts;
            }
            None => self.steps.push(StepTotals { step, times: 1, counts }),
        }
    }

    #[inline]
    pub(super) fn enter(&mut self, component: Component) {
        if !self.held && self.component != component {
            self.turn_to(component);
        }
    }

    pub(super) fn hold(&mut self, component: Option<Component>) {
        self.held = component.is_some();
        self.turn_to(component.unwrap_or(Component::Other));
    }

    fn turn_to(&mut self, component: Component) {
        self.components[self.component as usize] += self.counts.since(&self.entered);
        (self.entered, self.component) = (self.counts, component);
    }

    #[inline]
    fn write_back(&mut self, line: u32) {
        self.counts.evicted_lines += 1;
        self.wear.write(line);
    }
}
