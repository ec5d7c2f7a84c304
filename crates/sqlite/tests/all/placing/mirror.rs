//! The frames of a database, updated from one commit of SQLite to the next.

use std::collections::BTreeSet;

use perdura_sqlite::store::deferred_flush::{FlushPlan, Unflushed};
use perdura_sqlite::store::moves::{ENTRY_BYTES, Move};
use perdura_sqlite::store::placed::{Frame, Placed, exact};
use perdura_sqlite::store::placement::matching::{Touched, assign};
use perdura_sqlite::store::placement::parse::{Page, same};
use perdura_sqlite::store::placement::permutation::Permutation;
use perdura_sqlite::store::placement::place::place;
use perdura_sqlite::store::record::{Part, RUN_BYTES, decode};
use perdura_sqlite::store::shape::Shape;
use perdura_sqlite::store::span::Span;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::crashes::{Medium, Step, Wrong};

/// Bytes before a commit's record: number, length, checksum.
const LOG_COMMIT_BYTES: usize = 16;
const LINE_BYTES: usize = 64;

/// The lines that a commit writes back, except for page 1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) direct_lines: usize,
    pub(crate) log_lines: usize,
    pub(crate) applied_lines: usize,
    pub(crate) direct_bytes: usize,
    pub(crate) log_bytes: usize,
    pub(crate) applied_bytes: usize,
    pub(crate) moved: usize,
}

impl Cost {
    pub(crate) fn lines(self) -> usize {
        self.direct_lines + self.log_lines + self.applied_lines
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.direct_lines += other.direct_lines;
        self.log_lines += other.log_lines;
        self.applied_lines += other.applied_lines;
        self.direct_bytes += other.direct_bytes;
        self.log_bytes += other.log_bytes;
        self.applied_bytes += other.applied_bytes;
        self.moved += other.moved;
    }
}

/// The frames, and SQLite's last state.
pub(crate) struct Mirror {
    shape: Shape,
    frames: Vec<Vec<u8>>,
    written: Vec<Vec<u8>>,
    permutation: Permutation,
    unflushed: Unflushed,
    erase: bool,
    /// The medium on which power is cut, and the random source of when.
    pub(crate) medium: Option<(Medium, SmallRng)>,
}

fn pages(file: &[u8], shape: Shape) -> Vec<Vec<u8>> {
    file.chunks(shape.page_bytes()).map(<[u8]>::to_vec).collect()
}

impl Mirror {
    /// A file without displaced pages.
    pub(crate) fn new(file: &[u8], erase: bool) -> Self {
        let shape = Shape::of_file(file).expect("a database");
        let frames = pages(file, shape);
        Self {
            shape,
            written: frames.clone(),
            frames,
            permutation: Permutation::new(),
            unflushed: Unflushed::new(),
            erase,
            medium: None,
        }
    }

    /// Cuts power in each commit from now on.
    pub(crate) fn cut_power(&mut self, seed: u64, wrong: Wrong) {
        let mut medium = Medium::new(&self.frames);
        medium.wrong = wrong;
        self.medium = Some((medium, SmallRng::seed_from_u64(seed)));
    }

    /// The number of displaced pages.
    pub(crate) fn displaced(&self) -> usize {
        self.permutation.displaced()
    }

    /// Commits SQLite's file.
    pub(crate) fn commit(&mut self, file: &[u8]) -> Cost {
        self.shape = Shape::of_file(file).expect("a database");
        let pages = pages(file, self.shape);
        self.frames.resize(pages.len().max(self.frames.len()), vec![0; self.shape.page_bytes()]);
        let touched: Vec<u32> = (1..=pages.len() as u32)
            .filter(|page| self.written.get(*page as usize - 1) != Some(&pages[*page as usize - 1]))
            .collect();
        let takes = self.takes(&touched, &pages);
        let mut cost = Cost::default();
        let (mut record, mut moves, mut applied) = (Vec::new(), Vec::new(), Vec::new());
        let mut after = Vec::new();
        for (page, from) in touched.iter().zip(takes) {
            let image = &pages[*page as usize - 1];
            let frame = self.permutation.frame(from);
            let (part, stored) = self.part(*page, image, frame, self.is_fresh(from));
            if from != *page {
                moves.push(Move { page: *page, frame });
            }
            if *page != 1 {
                cost.add(part_cost(&part));
                let after = part.logged.iter().chain(&part.erased);
                applied.extend(after.map(|run| (frame, *run)));
            }
            record.push(part);
            after.push(stored);
        }
        for (part, stored) in record.iter().zip(after) {
            self.frames[part.frame as usize - 1] = stored;
        }
        self.permutation.apply(&moves).expect("a frame for each page");
        cost.moved = moves.len();
        cost.log_bytes += LOG_COMMIT_BYTES;
        applied.extend(moves.iter().map(|step| (0, Span::new(step.at() as usize, ENTRY_BYTES))));
        // The log's last line usually has room for deferred bytes.
        let room = cost.log_bytes.next_multiple_of(LINE_BYTES) - cost.log_bytes;
        let deferred = self.unflushed.commit(&applied, room, RUN_BYTES);
        cost.log_bytes +=
            deferred.relogged.iter().map(|(_, run)| run.bytes + RUN_BYTES).sum::<usize>();
        cost.log_lines = cost.log_bytes.div_ceil(LINE_BYTES);
        cost.applied_lines = deferred.flush.len();
        self.crash(record, &deferred, &pages);
        self.written = pages;
        cost
    }

    /// Cuts power in this commit.
    fn crash(&mut self, mut record: Vec<Part>, deferred: &FlushPlan, pages: &[Vec<u8>]) {
        let Some((medium, random)) = &mut self.medium else { return };
        let carries = medium.wrong != Wrong::CarriesNothing;
        for (frame, run) in deferred.relogged.iter().filter(|(frame, _)| *frame != 0 && carries) {
            let part = record.iter_mut().find(|part| part.frame == *frame);
            let part = part.expect("only what this commit stores to is carried");
            part.logged.push(*run);
            part.bytes.extend_from_slice(run.of(&self.frames[*frame as usize - 1]));
        }
        let step = Step {
            record,
            frames: &self.frames,
            flushed: deferred.flush.iter().map(|line| (line.frame, line.line)).collect(),
            table: (1..=self.frames.len() as u32)
                .map(|page| self.permutation.frame(page))
                .collect(),
            pages: [&self.written, pages],
        };
        medium.commit(step, self.shape, random);
    }

    fn is_fresh(&self, page: u32) -> bool {
        page as usize > self.written.len()
    }

    fn parse<'p>(&self, page: u32, image: &'p [u8]) -> Option<Page<'p>> {
        let tree = !self.shape.is_pointer_map(page);
        tree.then(|| Page::parse(image, self.shape, page == 1)).flatten()
    }

    /// For each page, the one whose frame it takes.
    fn takes(&self, touched: &[u32], pages: &[Vec<u8>]) -> Vec<u32> {
        let parsed: Vec<[Option<Page>; 2]> = touched
            .iter()
            .map(|page| {
                let held = &self.frames[self.permutation.frame(*page) as usize - 1];
                let old = self.parse(*page, held).filter(|_| !self.is_fresh(*page));
                [old, self.parse(*page, &pages[*page as usize - 1])]
            })
            .collect();
        let candidates: Vec<Touched> = touched
            .iter()
            .zip(&parsed)
            .map(|(page, [old, new])| Touched {
                old: old.as_ref(),
                new: new.as_ref(),
                stays: *page == 1,
                fresh: self.is_fresh(*page),
            })
            .collect();
        assign(&candidates).into_iter().map(|from| touched[from]).collect()
    }

    /// The part of a page in the record, and the frame after the commit.
    fn part(&self, page: u32, image: &[u8], frame: u32, fresh: bool) -> (Part, Vec<u8>) {
        let held = &self.frames[frame as usize - 1];
        let before = if fresh { Frame::Fresh } else { Frame::Holds(held) };
        let placed = match self.parse(page, image) {
            Some(new) => place(&new, before, self.erase),
            None => exact(image, before),
        };
        let stored = self.stored(page, held, fresh, image, &placed);
        let moved = (self.permutation.frame(page) != frame).then_some(page);
        let Placed { image, direct, logged, erased } = placed;
        let bytes = logged.iter().flat_map(|run| run.of(&image)).copied().collect();
        (Part { frame, moved, direct, logged, erased, bytes }, stored)
    }

    /// The frame after the commit. Direct stores change nothing in the frame's old content; all stores together
    /// make the new image, which is equivalent to SQLite's.
    fn stored(
        &self,
        page: u32,
        held: &[u8],
        fresh: bool,
        image: &[u8],
        placed: &Placed,
    ) -> Vec<u8> {
        let first = page == 1;
        assert!(same(image, &placed.image, self.shape, first), "page {page} says something else");
        let mut frame = held.to_vec();
        store(&mut frame, &placed.direct, &placed.image);
        if let Some(old) = Page::parse(held, self.shape, first).filter(|_| !fresh) {
            let now =
                Page::parse(&frame, self.shape, first).expect("direct stores damage the frame");
            assert!(same(held, &frame, self.shape, first), "direct stores change a cell");
            assert_eq!(old.free_blocks(), now.free_blocks());
            assert_eq!((old.content(), old.cells()), (now.content(), now.cells()));
        } else if !fresh {
            assert!(placed.direct.is_empty());
        }
        store(&mut frame, &placed.logged, &placed.image);
        for run in &placed.erased {
            frame[run.at..run.end()].fill(0);
        }
        if fresh {
            assert!(same(&frame, &placed.image, self.shape, first));
        } else {
            assert_eq!(frame, placed.image, "the stores do not make the image");
        }
        let laid_out = self.erase && (fresh || Page::parse(held, self.shape, first).is_some());
        if let Some(new) = Page::parse(&placed.image, self.shape, first).filter(|_| laid_out) {
            let dead = new.live().holes(Span::new(0, frame.len()));
            assert!(dead.iter().all(|hole| hole.of(&frame).iter().all(|byte| *byte == 0)));
        }
        frame
    }

    /// Lets SQLite continue from the frames' bytes instead of its own.
    pub(crate) fn read_again(&mut self) {
        self.written = pages(&self.file(), self.shape);
    }

    /// The file with all pages in their own frames.
    pub(crate) fn file(&self) -> Vec<u8> {
        let frames = (1..=self.written.len() as u32)
            .map(|page| self.frames[self.permutation.frame(page) as usize - 1].as_slice());
        frames.collect::<Vec<_>>().concat()
    }
}

fn store(frame: &mut [u8], runs: &[Span], image: &[u8]) {
    for run in runs {
        frame[run.at..run.end()].copy_from_slice(run.of(image));
    }
}

fn lines(runs: &[Span]) -> usize {
    let lines = runs.iter().flat_map(|run| run.at / LINE_BYTES..=(run.end() - 1) / LINE_BYTES);
    lines.collect::<BTreeSet<usize>>().len()
}

fn bytes(runs: &[Span]) -> usize {
    runs.iter().map(|run| run.bytes).sum()
}

fn part_cost(part: &Part) -> Cost {
    let mut record = Vec::new();
    part.encode(&mut record);
    assert!(decode(&record, 65_536).is_some());
    Cost {
        direct_lines: lines(&part.direct),
        direct_bytes: bytes(&part.direct),
        log_bytes: record.len(),
        applied_bytes: bytes(&part.logged) + bytes(&part.erased),
        ..Cost::default()
    }
}
