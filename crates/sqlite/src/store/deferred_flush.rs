//! Lines whose flush is deferred, because the next commit logs their bytes again.
//!
//! A commit's stores after its mark are flushed by the next commit, before that one's log replaces the log that could
//! repeat them. If the next commit stores to the same line, its log can hold those bytes as well: this costs nothing
//! while they fit into the log's last line, and the line stays unflushed for another commit. Ascending inserts change
//! the same lines each time.
//!
//! Invariant: the newest log has every byte of an unflushed line that was stored since the line's last flush.

use std::collections::BTreeMap;

use crate::store::span::{LINE_BYTES, Span};

/// A cache line of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrameLine {
    /// The frame's number.
    pub frame: u32,
    /// The line's number in the frame, from 0.
    pub line: usize,
}

/// Lines that commits stored to after their marks, and that no flush has covered.
#[derive(Clone, Debug, Default)]
pub struct Unflushed {
    lines: BTreeMap<FrameLine, Vec<Span>>,
}

/// How a commit treats the unflushed lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlushPlan {
    /// Lines to flush before this commit's mark.
    pub flush: Vec<FrameLine>,
    /// Earlier runs that this commit logs again, with the bytes of the frames after the commit.
    pub relogged: Vec<(u32, Span)>,
}

impl Unflushed {
    /// No line is unflushed.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of unflushed lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether no line is unflushed.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds the runs that a commit stores after its mark, `logged`, and decides about the lines that were unflushed
    /// before. Lines that it stores to again are relogged while `room` bytes last; each run costs `run_bytes` more
    /// than its length.
    pub fn commit(&mut self, logged: &[(u32, Span)], room: usize, run_bytes: usize) -> FlushPlan {
        let mut now: BTreeMap<FrameLine, Vec<Span>> = BTreeMap::new();
        for (frame, run) in logged {
            for line in run.at / LINE_BYTES..=(run.end() - 1) / LINE_BYTES {
                let from = run.at.max(line * LINE_BYTES);
                let part = Span::between(from, run.end().min((line + 1) * LINE_BYTES));
                now.entry(FrameLine { frame: *frame, line }).or_default().push(part);
            }
        }
        let mut plan = FlushPlan::default();
        let mut room = room;
        for (line, before) in std::mem::take(&mut self.lines) {
            let Some(again) = now.get_mut(&line) else {
                plan.flush.push(line);
                continue;
            };
            let missing = missing(&before, again);
            let costs: usize = missing.iter().map(|run| run.bytes + run_bytes).sum();
            if costs > room {
                plan.flush.push(line);
                continue;
            }
            room -= costs;
            plan.relogged.extend(missing.iter().map(|run| (line.frame, *run)));
            again.extend(missing);
        }
        self.lines = now;
        plan
    }

    /// Takes out lines to flush regardless of the next commit.
    pub fn take(&mut self, which: impl Fn(FrameLine) -> bool) -> Vec<FrameLine> {
        let taken: Vec<FrameLine> =
            self.lines.keys().copied().filter(|line| which(*line)).collect();
        for line in &taken {
            self.lines.remove(line);
        }
        taken
    }

    /// Takes out all lines to flush if no commit follows.
    pub fn flush(&mut self) -> Vec<FrameLine> {
        std::mem::take(&mut self.lines).into_keys().collect()
    }
}

/// The runs of a line in `before` that `again` does not have.
fn missing(before: &[Span], again: &[Span]) -> Vec<Span> {
    let bits = |runs: &[Span]| runs.iter().fold(0u64, |bits, run| bits | mask(*run));
    let mut left = bits(before) & !bits(again);
    let base = before.first().map_or(0, |run| run.at / LINE_BYTES * LINE_BYTES);
    let mut runs = Vec::new();
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        let bytes = (!(left >> at)).trailing_zeros() as usize;
        let run = Span::new(base + at, bytes);
        left &= !mask(run);
        runs.push(run);
    }
    runs
}

/// The bytes of a run within its line.
fn mask(run: Span) -> u64 {
    (u64::MAX >> (LINE_BYTES - run.bytes)) << (run.at % LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// Frames of four lines. After each commit a crash loses each unflushed store or not; the commit's log restores
    /// all of them.
    #[test]
    fn newest_log_restores_every_unflushed_byte() {
        let mut random = SmallRng::seed_from_u64(5);
        let mut relogged_bytes = 0;
        for _ in 0..300 {
            let mut unflushed = Unflushed::new();
            let mut memory = vec![vec![0u8; 256]; 3];
            let mut medium = memory.clone();
            for number in 1..40u8 {
                let logged: Vec<(u32, Span)> = (0..random.random_range(0..4))
                    .map(|_| {
                        let at = random.random_range(0..250);
                        let bytes = random.random_range(1..=(256 - at).min(70));
                        (random.random_range(0..3), Span::new(at, bytes))
                    })
                    .collect();
                let room = random.random_range(0..80);
                let plan = unflushed.commit(&logged, room, 4);
                // Flushed before the mark: everything stored so far.
                for line in &plan.flush {
                    let bytes = line.line * 64..(line.line + 1) * 64;
                    medium[line.frame as usize][bytes.clone()]
                        .copy_from_slice(&memory[line.frame as usize][bytes]);
                }
                for (frame, run) in &logged {
                    memory[*frame as usize][run.at..run.end()].fill(number);
                }
                let costs: usize = plan.relogged.iter().map(|(_, run)| run.bytes + 4).sum();
                assert!(costs <= room);
                relogged_bytes += costs;
                let mut found = medium.clone();
                for (frame, run) in logged.iter().chain(&plan.relogged) {
                    let frame = *frame as usize;
                    found[frame][run.at..run.end()].copy_from_slice(run.of(&memory[frame]));
                }
                assert_eq!(found, memory);
            }
            for line in unflushed.flush() {
                let bytes = line.line * 64..(line.line + 1) * 64;
                medium[line.frame as usize][bytes.clone()]
                    .copy_from_slice(&memory[line.frame as usize][bytes]);
            }
            assert_eq!((medium, unflushed.flush()), (memory, Vec::new()));
        }
        assert!(relogged_bytes > 0);
    }

    #[test]
    fn hot_lines_are_flushed_when_the_log_is_full() {
        let mut unflushed = Unflushed::new();
        let mut flushed = 0;
        for number in 0..28 {
            let logged = [(7, Span::new(3, 4)), (7, Span::new(8 + 2 * number, 2))];
            flushed += unflushed.commit(&logged, 24, 4).flush.len();
        }
        // Five runs of two bytes fit with their headers, until they touch and become one.
        assert!(flushed <= 5, "{flushed}");
        assert_eq!(unflushed.flush().len(), 1);
    }
}
