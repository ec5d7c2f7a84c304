//! Power cuts at every step of a commit: recovery finds either SQLite's last state or the one it is about to write,
//! whole.
//!
//! A line that was stored and not fenced is on the medium or not, independently of others. A record counts only if it
//! is whole and its direct bytes are there.

use std::collections::BTreeSet;

use perdura_sqlite::store::placement::parse::same;
use perdura_sqlite::store::record::Part;
use perdura_sqlite::store::replay::replay;
use perdura_sqlite::store::shape::Shape;
use perdura_sqlite::store::span::Span;
use rand::Rng;
use rand::rngs::SmallRng;

const LINE_BYTES: usize = 64;

/// Faults to seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Nothing,
    /// The older record is replayed over direct stores of the newer one.
    ReplaysOverDirect,
    /// Relogged bytes are in no record.
    CarriesNothing,
    /// The newer record counts without its direct bytes.
    SkipsDirect,
}

/// The frames on the medium, and the commits that recovery may have to replay.
pub(crate) struct Medium {
    frames: Vec<Vec<u8>>,
    /// The frames with all stores.
    stored: Vec<Vec<u8>>,
    /// The frame of each page, from page 1, after the last commit.
    table: Vec<u32>,
    record: Vec<Part>,
    /// Lines that the last commit stored after its mark, or left unflushed.
    unflushed: BTreeSet<(u32, usize)>,
    pub(crate) newer_lost: usize,
    pub(crate) newer_found: usize,
    pub(crate) wrong: Wrong,
}

/// A commit on the medium. Its record includes relogged runs.
pub(crate) struct Step<'s> {
    pub(crate) record: Vec<Part>,
    /// The frames after the commit.
    pub(crate) frames: &'s [Vec<u8>],
    /// Lines of the previous commit that this one flushes.
    pub(crate) flushed: Vec<(u32, usize)>,
    /// The frame of each page after the commit, including pages that the database once had.
    pub(crate) table: Vec<u32>,
    /// The pages before and after the commit.
    pub(crate) pages: [&'s [Vec<u8>]; 2],
}

fn lines(parts: &[Part], runs: impl Fn(&Part) -> Vec<Span>) -> BTreeSet<(u32, usize)> {
    let lines = |part: &Part| {
        let frame = part.frame;
        let of_run = runs(part)
            .into_iter()
            .flat_map(|run| run.at / LINE_BYTES..=(run.end() - 1) / LINE_BYTES);
        of_run.map(move |line| (frame, line)).collect::<Vec<_>>()
    };
    parts.iter().flat_map(lines).collect()
}

fn copy_line(to: &mut [Vec<u8>], from: &[Vec<u8>], (frame, line): (u32, usize)) {
    let bytes = line * LINE_BYTES..(line + 1) * LINE_BYTES;
    to[frame as usize - 1][bytes.clone()].copy_from_slice(&from[frame as usize - 1][bytes]);
}

impl Medium {
    pub(crate) fn new(frames: &[Vec<u8>]) -> Self {
        Self {
            frames: frames.to_vec(),
            stored: frames.to_vec(),
            table: (1..=frames.len() as u32).collect(),
            record: Vec::new(),
            unflushed: BTreeSet::new(),
            newer_lost: 0,
            newer_found: 0,
            wrong: Wrong::Nothing,
        }
    }

    /// Runs a commit with crashes at its steps.
    pub(crate) fn commit(&mut self, step: Step, shape: Shape, random: &mut SmallRng) {
        let len = step.frames.len().max(self.frames.len());
        for frames in [&mut self.frames, &mut self.stored] {
            frames.resize(len, vec![0; shape.page_bytes()]);
        }
        let before = self.stored.clone();
        // 1. Direct stores and the record, under one fence with the last commit's lines.
        for part in &step.record {
            let image = &step.frames[part.frame as usize - 1];
            for run in &part.direct {
                self.stored[part.frame as usize - 1][run.at..run.end()]
                    .copy_from_slice(run.of(image));
            }
        }
        let direct = lines(&step.record, |part| part.direct.clone());
        let pending: BTreeSet<(u32, usize)> = direct.union(&self.unflushed).copied().collect();
        for _ in 0..3 {
            let mut found = self.frames.clone();
            let odds = [0.1, 0.5, 0.9][random.random_range(0..3)];
            for line in &pending {
                if !random.random_bool(odds) {
                    continue;
                }
                // A line written back between the stores has only the first of them.
                let from = if random.random() { &before } else { &self.stored };
                copy_line(&mut found, from, *line);
            }
            self.recovers(found, None, &step, shape);
            // The record is whole, and its direct bytes are there; other lines arrived or not.
            let mut found = self.frames.clone();
            let odds = [0.1, 0.5, 0.9][random.random_range(0..3)];
            let needed = |line| direct.contains(line) && self.wrong != Wrong::SkipsDirect;
            let reached = pending.iter().filter(|line| needed(line) || random.random_bool(odds));
            reached.for_each(|line| copy_line(&mut found, &self.stored, *line));
            self.recovers(found, Some(&step.record), &step, shape);
        }
        // 2. The fence.
        // Page 1 is not relogged.
        let first = self.unflushed.iter().filter(|(frame, _)| *frame == 1);
        let flushed = direct.iter().chain(&step.flushed).chain(first).filter(|line| line.0 != 0);
        for line in flushed.copied().collect::<Vec<_>>() {
            copy_line(&mut self.frames, &self.stored, line);
            self.unflushed.remove(&line);
        }
        // 3. The stores after it.
        for store in replay(&[], Some(&step.record), shape.page_bytes()) {
            let bytes = store.bytes.map_or_else(|| vec![0; store.len], <[u8]>::to_vec);
            self.stored[store.frame as usize - 1][store.at..store.at + store.len]
                .copy_from_slice(&bytes);
        }
        let after = |part: &Part| part.logged.iter().chain(&part.erased).copied().collect();
        self.unflushed.extend(lines(&step.record, after));
        for _ in 0..2 {
            let mut found = self.frames.clone();
            let reached = self.unflushed.iter().filter(|_| random.random());
            reached.for_each(|line| copy_line(&mut found, &self.stored, *line));
            self.recovers(found, Some(&step.record), &step, shape);
        }
        (self.record, self.table) = (step.record, step.table);
    }

    /// Recovers and compares. A recovery that is interrupted and repeated has the same result.
    fn recovers(
        &mut self,
        mut found: Vec<Vec<u8>>,
        newer: Option<&[Part]>,
        step: &Step,
        shape: Shape,
    ) {
        for _ in 0..2 {
            let stores = match self.wrong {
                Wrong::ReplaysOverDirect => {
                    let mut stores = replay(&self.record, None, shape.page_bytes());
                    stores.extend(replay(&[], newer, shape.page_bytes()));
                    stores
                }
                _ => replay(&self.record, newer, shape.page_bytes()),
            };
            for store in stores {
                let place = &mut found[store.frame as usize - 1][store.at..store.at + store.len];
                match store.bytes {
                    Some(bytes) => place.copy_from_slice(bytes),
                    None => place.fill(0),
                }
            }
        }
        *if newer.is_some() { &mut self.newer_found } else { &mut self.newer_lost } += 1;
        let mut table = self.table.clone();
        if newer.is_some() {
            let last = step.table.len().max(table.len()) as u32;
            table.extend(table.len() as u32 + 1..=last);
            for part in newer.into_iter().flatten() {
                if let Some(page) = part.moved {
                    table[page as usize - 1] = part.frame;
                }
            }
        }
        let pages = step.pages[usize::from(newer.is_some())];
        for (number, page) in (1..).zip(pages) {
            let frame = table[number as usize - 1] as usize;
            let map = shape.is_pointer_map(number);
            let says_the_same = if map {
                found[frame - 1] == *page
            } else {
                same(page, &found[frame - 1], shape, number == 1)
            };
            assert!(
                says_the_same,
                "page {number} in frame {frame}, newer record: {}",
                newer.is_some()
            );
        }
    }
}
