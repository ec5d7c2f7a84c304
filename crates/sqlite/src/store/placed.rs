//! A page as a commit stores it into a frame: the runs that are stored before the commit, and those that are logged.

use crate::store::span::{Bytes, LINE_BYTES, Span};

/// Unchanged bytes between two changed ones that are logged with them, since a separate run costs more.
const JOINED_BYTES: usize = 4;
/// The most direct bytes in a line with logged bytes for which they are logged as well, so that the line is not
/// flushed twice.
const SHARED_BYTES_MAX: usize = 48;

/// A frame before the commit.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    /// No reader uses it: its page is new.
    Fresh,
    /// It holds this, and a crash may bring it back.
    Holds(&'a [u8]),
}

/// A page as it will be in its frame, and the stores that make it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The frame's bytes after the commit.
    pub image: Vec<u8>,
    /// Runs that are stored before the commit.
    pub direct: Vec<Span>,
    /// Runs that are logged, and stored after the commit.
    pub logged: Vec<Span>,
    /// Runs that are zeroed after the commit, before it is acknowledged. The log has them without their bytes.
    pub erased: Vec<Span>,
}

impl Placed {
    /// Logs direct bytes in lines that have logged bytes, which would otherwise be flushed twice.
    pub fn share_lines(&mut self) {
        let mut skipped = Bytes::none(self.image.len());
        for span in &self.erased {
            skipped.add(*span);
        }
        share_lines(&mut self.direct, &mut self.logged, &skipped);
    }

    /// Returns whether the frame stays as it is.
    pub(super) fn stores_nothing(&self) -> bool {
        self.direct.is_empty() && self.logged.is_empty() && self.erased.is_empty()
    }
}

/// Places an image as SQLite wrote it, and logs all of it.
pub(super) fn whole(image: &[u8]) -> Placed {
    let logged = vec![Span::new(0, image.len())];
    Placed { image: image.to_vec(), direct: Vec::new(), logged, erased: Vec::new() }
}

/// Places an image as SQLite wrote it and logs the differences: for a page that is not one of a b-tree, or a frame
/// that does not hold one.
pub fn exact(image: &[u8], frame: Frame) -> Placed {
    let nothing = Bytes::none(image.len());
    let mut placed = Placed {
        image: image.to_vec(),
        direct: Vec::new(),
        logged: Vec::new(),
        erased: Vec::new(),
    };
    match frame {
        Frame::Fresh => placed.direct = vec![Span::new(0, image.len())],
        Frame::Holds(held) => placed.logged = changes(held, image, &nothing, &nothing, &nothing).1,
    }
    placed
}

/// The runs in which two images differ: direct ones, which were not live, and logged ones. Neither contains bytes
/// of `skipped`; `live` are the live bytes of the new image.
pub(super) fn changes(
    before: &[u8],
    after: &[u8],
    means_nothing: &Bytes,
    skipped: &Bytes,
    live: &Bytes,
) -> (Vec<Span>, Vec<Span>) {
    let (mut direct, mut logged) = split(before, after, means_nothing, skipped, live);
    share_lines(&mut direct, &mut logged, skipped);
    (direct, logged)
}

/// The same, with as many direct bytes as possible.
pub(super) fn split(
    before: &[u8],
    after: &[u8],
    means_nothing: &Bytes,
    skipped: &Bytes,
    live: &Bytes,
) -> (Vec<Span>, Vec<Span>) {
    let (mut direct, mut logged) = (Vec::new(), Vec::new());
    for at in differences(before, after) {
        if !skipped.has(at) {
            let runs = if means_nothing.has(at) { &mut direct } else { &mut logged };
            extend(runs, at);
        }
    }
    // Unchanged bytes between two direct runs are stored with them if they were not live and become so.
    join(&mut direct, |between| {
        let becomes_live =
            means_nothing.holes(between).is_empty() && live.holes(between).is_empty();
        becomes_live && !skipped.has_any(between)
    });
    (direct, logged)
}

/// The offsets of the bytes that differ.
fn differences<'a>(before: &'a [u8], after: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    const STEP: usize = 32;
    let chunks = before.chunks(STEP).zip(after.chunks(STEP)).enumerate();
    let unequal = chunks.filter(|(_, (one, other))| one != other);
    unequal.flat_map(|(chunk, (one, other))| {
        let at = (0..one.len()).filter(move |byte| one[*byte] != other[*byte]);
        at.map(move |byte| chunk * STEP + byte)
    })
}

/// Adds a byte after all others.
fn extend(runs: &mut Vec<Span>, at: usize) {
    match runs.last_mut() {
        Some(last) if last.end() == at => last.bytes += 1,
        _ => runs.push(Span::new(at, 1)),
    }
}

/// Joins runs that are close, if the bytes between them may be stored.
fn join(runs: &mut Vec<Span>, may_store: impl Fn(Span) -> bool) {
    let mut joined: Vec<Span> = Vec::with_capacity(runs.len());
    for run in runs.drain(..) {
        match joined.last_mut() {
            Some(last)
                if run.at - last.end() <= JOINED_BYTES
                    && may_store(Span::between(last.end(), run.at)) =>
            {
                last.bytes = run.end() - last.at;
            }
            _ => joined.push(run),
        }
    }
    *runs = joined;
}

/// Logs direct bytes in lines that have logged bytes, which would otherwise be flushed twice. Joins logged runs,
/// without bytes of `skipped`.
fn share_lines(direct: &mut Vec<Span>, logged: &mut Vec<Span>, skipped: &Bytes) {
    let after: Vec<usize> =
        logged.iter().flat_map(|run| parts(*run)).map(|part| part.at / LINE_BYTES).collect();
    let mut kept = Vec::with_capacity(direct.len());
    let mut moved = Vec::new();
    for part in direct.iter().flat_map(|run| parts(*run)) {
        let line = part.at / LINE_BYTES;
        let shares = part.bytes <= SHARED_BYTES_MAX && after.binary_search(&line).is_ok();
        if shares { moved.push(part) } else { kept.push(part) }
    }
    *direct = kept;
    join(direct, |between| between.bytes == 0);
    logged.extend(moved);
    logged.sort_unstable();
    join(logged, |between| !skipped.has_any(between));
}

/// The parts of a run in each line.
pub(super) fn parts(run: Span) -> impl Iterator<Item = Span> {
    (run.at / LINE_BYTES..=(run.end() - 1) / LINE_BYTES).map(move |line| {
        let (start, end) = (line * LINE_BYTES, (line + 1) * LINE_BYTES);
        Span::between(run.at.max(start), run.end().min(end))
    })
}
