//! Lays a page of a b-tree out for its frame.
//!
//! SQLite writes whole images. A commit has to make fewer bytes durable: cells that the frame already holds stay where
//! they are, and new ones go to unused space.
//!
//! Invariants:
//! - The new image is equivalent to SQLite's, and as strictly valid ([`Page::parse`]): free blocks have at least four
//!   bytes and are ascending and apart; fragments have at most sixty bytes.
//! - A [direct](Placed::direct) byte is not live in the frame's current content. Storing it before the commit changes
//!   nothing, whether the commit comes or not; the chain of free blocks stays whole, too.
//! - A direct byte of a page of a b-tree is live in the new image. So the next commit stores nothing there before it is
//!   committed, and the checksum of direct bytes holds until then.
//! - A [logged](Placed::logged) byte is stored after the commit, and again by recovery.
//!
//! 1. Match cells by content. A cell may also replace one of its length that differs little.
//! 2. Surviving cells stay, except where the cell pointers have grown over them.
//! 3. The other cells, longest first, go where they cost the fewest lines. In the gap only the page's header changes;
//!    elsewhere free blocks do, and space that this commit frees is stored through the log.
//! 4. If a cell fits nowhere, all cells lie where SQLite has them.
//! 5. Header, pointers and free blocks are made anew. Differences are stored directly or logged.

use crate::store::placed::{Frame, Placed, changes, exact, parts, split};
use crate::store::placement::matching::survivors;
use crate::store::placement::parse::{
    CELL_BYTES_MIN, FRAGMENTS_MAX, FREE_BLOCK_HEADER_BYTES, Page, taken,
};
use crate::store::span::{Bytes, LINE_BYTES, Span};

/// The most bytes in which a cell may differ from the one it replaces. They are logged; a new place costs two lines
/// and a free block.
const PATCHED_BYTES_MAX: usize = 24;
/// The most pairs of cells that are compared for such a replacement.
const PATCHES_TRIED: usize = 64;
/// The cost of a changed free block: a line, and a run of the log.
const BLOCK_COST: usize = LINE_BYTES + 2 * FREE_BLOCK_HEADER_BYTES;

/// Lays `new` out for a frame. With `erase` all bytes that are not live are zeroed, as SQLite's `secure_delete`
/// asks.
pub fn place(new: &Page, frame: Frame, erase: bool) -> Placed {
    match frame {
        Frame::Fresh => place_fresh(new, erase),
        Frame::Holds(held) => match Page::parse(held, new.shape(), new.is_first()) {
            Some(old) => place_over(&old, new, erase),
            None => exact(new.image(), frame),
        },
    }
}

/// Lays `new` out for an unused frame, as [`place`] does.
pub fn place_fresh(new: &Page, erase: bool) -> Placed {
    let page_bytes = new.shape().page_bytes();
    let places = as_given(new);
    let (image, live) =
        layout(new, &vec![0; page_bytes], &places, &FreeRuns::between(new, &places));
    let erased = if erase { live.holes(Span::new(0, page_bytes)) } else { Vec::new() };
    Placed { direct: runs(&live, page_bytes), logged: Vec::new(), erased, image }
}

/// Lays `new` out over the frame's page of a b-tree, as [`place`] does.
pub fn place_over(old: &Page, new: &Page, erase: bool) -> Placed {
    let mut placed = place_apart(old, new, erase);
    placed.share_lines();
    placed
}

/// The same, but stores directly as much as possible, also in lines with logged bytes.
pub fn place_apart(old: &Page, new: &Page, erase: bool) -> Placed {
    let live_before = old.live();
    let found = Places::find(old, new, &live_before).map(|places| {
        let free = FreeRuns::between(new, &places);
        (places, free)
    });
    let (places, free) = found.filter(|(_, free)| free.fits_header()).unwrap_or_else(|| {
        let places = as_given(new);
        let free = FreeRuns::between(new, &places);
        (places, free)
    });
    let (mut image, live) = layout(new, old.image(), &places, &free);
    let erased = if erase { erase_dead(&live, &mut image, old.image()) } else { Vec::new() };
    let means_nothing = live_before.inverse();
    let mut skipped = Bytes::none(image.len());
    for span in &erased {
        skipped.add(*span);
    }
    let (direct, logged) = split(old.image(), &image, &means_nothing, &skipped, &live);
    Placed { image, direct, logged, erased }
}

/// The offsets of a page's cells.
type Offsets = Vec<usize>;

/// A search for cell offsets in a frame.
struct Places<'p, 'a> {
    old: &'p Page<'a>,
    new: &'p Page<'a>,
    at: Vec<Option<usize>>,
    /// Bytes of the new image used so far.
    used: Bytes,
    /// Live bytes of the frame, which can be stored only after the commit.
    live: Bytes,
    /// Numbers of lines that are stored before the commit, as far as known.
    lines_before: Bytes,
    /// Numbers of lines that are stored after it.
    lines_after: Bytes,
}

impl<'p, 'a> Places<'p, 'a> {
    /// The offsets of all cells of `new`, or `None` if one does not fit.
    fn find(old: &'p Page<'a>, new: &'p Page<'a>, live: &Bytes) -> Option<Offsets> {
        let page_bytes = new.shape().page_bytes();
        let lines = Bytes::none(page_bytes / LINE_BYTES);
        let mut places = Self {
            old,
            new,
            at: vec![None; new.cells().len()],
            used: Bytes::none(page_bytes),
            live: live.clone(),
            lines_before: lines.clone(),
            lines_after: lines,
        };
        places.used.add(Span::between(0, new.pointers_end()));
        places.lines_after.add(lines_of(Span::new(new.header(), new.kind().header_bytes())));
        places.keep();
        let mut left: Vec<usize> =
            (0..new.cells().len()).filter(|cell| places.at[*cell].is_none()).collect();
        left.sort_by_key(|cell| std::cmp::Reverse(new.cells()[*cell].bytes));
        for cell in left {
            let bytes = new.cells()[cell].bytes.max(CELL_BYTES_MIN);
            let at = places.cheapest(bytes)?;
            places.put(Span::new(at, bytes));
            places.at[cell] = Some(at);
        }
        places.at.into_iter().collect()
    }

    /// Keeps surviving cells in place, and lets others replace cells that are gone.
    fn keep(&mut self) {
        let kept = survivors(self.old, self.new);
        let mut gone = vec![true; self.old.cells().len()];
        for (cell, kept) in kept.iter().enumerate() {
            let Some(kept) = *kept else { continue };
            let span = taken(self.old.cells()[kept]);
            if span.at >= self.new.pointers_end() {
                gone[kept] = false;
                self.used.add(span);
                self.at[cell] = Some(span.at);
            }
        }
        let gone = (0..gone.len()).filter(|cell| gone[*cell]).collect();
        self.patch(gone);
    }

    /// Lets cells replace cells that are gone and differ little.
    fn patch(&mut self, mut gone: Vec<usize>) {
        let new: Vec<usize> = (0..self.at.len()).filter(|cell| self.at[*cell].is_none()).collect();
        if new.len() * gone.len() > PATCHES_TRIED {
            return;
        }
        for cell in new {
            let bytes = self.new.cell(cell);
            let least = gone
                .iter()
                .enumerate()
                .filter(|(_, old)| self.old.cells()[**old].at >= self.new.pointers_end())
                .filter(|(_, old)| self.old.cells()[**old].bytes == bytes.len())
                .map(|(place, old)| (differing(self.old.cell(*old), bytes), place))
                .min();
            if let Some((_, place)) = least.filter(|least| least.0 <= PATCHED_BYTES_MAX) {
                let span = taken(self.old.cells()[gone.remove(place)]);
                self.used.add(span);
                self.at[cell] = Some(span.at);
            }
        }
    }

    /// The offset where a cell of so many bytes costs least; the lowest of equal ones.
    fn cheapest(&self, bytes: usize) -> Option<usize> {
        let area = Span::between(self.new.pointers_end(), self.new.shape().usable());
        let mut before = None;
        let mut best: Option<(usize, usize)> = None;
        for hole in self.used.holes(area) {
            let mut ends = vec![hole.end()];
            ends.extend(
                self.live.holes(hole).iter().map(|free| free.end()).filter(|end| *end < hole.end()),
            );
            for end in ends.into_iter().filter(|end| *end >= hole.at + bytes) {
                let cell = Span::between(end - bytes, end);
                let cost = self.cost_of_bytes(cell) + self.cost_of_chain(hole, cell, before);
                if best.is_none_or(|best| (cost, cell.at) < best) {
                    best = Some((cost, cell.at));
                }
            }
            if hole.at != area.at && hole.bytes >= FREE_BLOCK_HEADER_BYTES {
                before = Some(hole);
            }
        }
        best.map(|(_, at)| at)
    }

    /// Places a cell.
    fn put(&mut self, cell: Span) {
        self.used.add(cell);
        for part in parts(cell) {
            let after = self.live.has_any(part) || self.lines_after.has(part.at / LINE_BYTES);
            let lines = if after { &mut self.lines_after } else { &mut self.lines_before };
            lines.add(lines_of(part));
        }
    }

    /// The cost of storing a cell in bytes. A line that is stored before the commit counts as 64; so does one that
    /// is stored after it, plus the logged bytes.
    fn cost_of_bytes(&self, cell: Span) -> usize {
        let cost = |part: Span| {
            let line = part.at / LINE_BYTES;
            match (self.live.has_any(part), self.lines_after.has(line)) {
                (true, false) => LINE_BYTES + part.bytes,
                (_, true) => part.bytes,
                (false, false) if self.lines_before.has(line) => 0,
                (false, false) => LINE_BYTES,
            }
        };
        parts(cell).map(cost).sum()
    }

    /// The cost of changing a free block's header.
    fn cost_of_block(&self, at: usize) -> usize {
        BLOCK_COST - if self.lines_after.has(at / LINE_BYTES) { LINE_BYTES } else { 0 }
    }

    /// The additional cost of the free blocks around a cell if it goes into this hole. `before` is the preceding
    /// free block.
    fn cost_of_chain(&self, hole: Span, cell: Span, before: Option<Span>) -> usize {
        let is_gap = hole.at == self.new.pointers_end();
        let changes = |block: Span| {
            let is_one = block.bytes >= FREE_BLOCK_HEADER_BYTES;
            if is_one && !self.is_block(block) { self.cost_of_block(block.at) } else { 0 }
        };
        let (head, tail) = (Span::between(hole.at, cell.at), Span::between(cell.end(), hole.end()));
        if is_gap {
            return BLOCK_COST + changes(tail);
        }
        let mut cost = changes(head) + changes(tail);
        if head.bytes.max(tail.bytes) < FREE_BLOCK_HEADER_BYTES {
            // The preceding block gets another successor.
            let before = before.filter(|before| self.is_block(*before));
            cost += before.map_or(0, |before| self.cost_of_block(before.at));
        }
        (BLOCK_COST + cost).saturating_sub(changes(hole))
    }

    /// Returns whether the frame already has this free block.
    fn is_block(&self, block: Span) -> bool {
        self.old.free_blocks().binary_search(&block).is_ok()
    }
}

/// The numbers of the lines of a run.
fn lines_of(run: Span) -> Span {
    Span::between(run.at / LINE_BYTES, (run.end() - 1) / LINE_BYTES + 1)
}

/// The number of bytes in which two cells of one length differ.
fn differing(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).filter(|(one, other)| one != other).count()
}

/// The offsets of the cells in SQLite's image.
fn as_given(new: &Page) -> Offsets {
    new.cells().iter().map(|cell| cell.at).collect()
}

/// The free runs of the cell content area.
struct FreeRuns {
    /// The end of the gap after the cell pointers.
    content: usize,
    /// The free runs after the gap.
    holes: Vec<Span>,
}

impl FreeRuns {
    /// The free runs between cells of `new` at `places`.
    fn between(new: &Page, places: &Offsets) -> Self {
        let area = Span::between(new.pointers_end(), new.shape().usable());
        let mut used = Bytes::none(new.shape().page_bytes());
        for (cell, at) in new.cells().iter().zip(places) {
            let fresh = used.add(taken(Span::new(*at, cell.bytes)));
            debug_assert!(fresh && *at >= area.at, "two cells in one place");
        }
        let mut holes = used.holes(area);
        let content = match holes.first() {
            Some(gap) if gap.at == area.at => holes.remove(0).end(),
            _ => area.at,
        };
        Self { content, holes }
    }

    /// Returns whether free blocks and fragments can describe all free runs.
    fn fits_header(&self) -> bool {
        fragments(&self.holes) <= FRAGMENTS_MAX
    }
}

/// The bytes in fragments.
fn fragments(holes: &[Span]) -> usize {
    holes.iter().map(|hole| hole.bytes).filter(|bytes| *bytes < FREE_BLOCK_HEADER_BYTES).sum()
}

/// The image of `new` with its cells at `places` and these free runs, on top of the bytes of `held`; and its live
/// bytes.
fn layout(new: &Page, held: &[u8], places: &Offsets, free: &FreeRuns) -> (Vec<u8>, Bytes) {
    let FreeRuns { content, holes } = free;
    let (header, given) = (new.header(), new.image());
    let mut image = held.to_vec();
    let pointers = header + new.kind().header_bytes();
    image[..pointers].copy_from_slice(&given[..pointers]);
    image[new.shape().usable()..].copy_from_slice(&given[new.shape().usable()..]);
    put16(&mut image, header + 5, *content);
    image[header + 7] = fragments(holes) as u8;
    let mut live = Bytes::none(image.len());
    live.add(Span::between(0, new.pointers_end()));
    live.add(Span::between(new.shape().usable(), image.len()));
    for (number, at) in places.iter().enumerate() {
        put16(&mut image, pointers + 2 * number, *at);
        let cell = new.cell(number);
        image[*at..*at + cell.len()].copy_from_slice(cell);
        live.add(taken(Span::new(*at, cell.len())));
    }
    let mut link = header + 1;
    for block in holes.iter().filter(|hole| hole.bytes >= FREE_BLOCK_HEADER_BYTES) {
        put16(&mut image, link, block.at);
        put16(&mut image, block.at + 2, block.bytes);
        live.add(Span::new(block.at, FREE_BLOCK_HEADER_BYTES));
        link = block.at;
    }
    put16(&mut image, link, 0);
    debug_assert!(
        Page::parse(&image, new.shape(), new.is_first()).is_some_and(|page| page.live() == live),
        "a page that was laid out is one"
    );
    (image, live)
}

/// Zeroes all but the `live` bytes of the new image; returns the runs in which this changes the frame.
fn erase_dead(live: &Bytes, image: &mut [u8], held: &[u8]) -> Vec<Span> {
    let dead = live.holes(Span::new(0, image.len()));
    for hole in &dead {
        image[hole.at..hole.end()].fill(0);
    }
    let nothing = Bytes::none(image.len());
    dead.iter()
        .flat_map(|hole| {
            let (held, image) = (hole.of(held), hole.of(image));
            let changed = changes(held, image, &nothing, &nothing, &nothing).1;
            changed.into_iter().map(|run| Span::new(hole.at + run.at, run.bytes))
        })
        .collect()
}

/// The runs of bytes in a set.
fn runs(set: &Bytes, len: usize) -> Vec<Span> {
    set.inverse().holes(Span::new(0, len))
}

/// Stores a big-endian number of two bytes; 65,536 is stored as 0.
fn put16(image: &mut [u8], at: usize, value: usize) {
    image[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}
