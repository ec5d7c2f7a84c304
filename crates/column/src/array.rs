//! An array in memory whose segments never move (P4 4.1).
//!
//! The header has how many elements are reserved, and the pages of a directory: page `n` leads to
//! `2^n` segments. Segments have twice the elements of the last one, up to a bound.
//!
//! Invariants:
//! - Every element below `reserved` lies in a segment that the directory leads to.
//! - A segment is zero, durably, before the directory leads to it. Zero is an element that is not
//!   there, so a hole is harmless, and opening reads nothing but the header.
//! - Growing is one mini-transaction: a crash leaves all of it or nothing.
//!
//! Where segments are is remembered in ordinary memory, when it is first asked for.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use pm::{Bad, LineSet, Memory, Off, Range};

use crate::Result;
use crate::error::ColumnError;
use crate::layout::{LEVELS, LEVELS_AT, Options};

/// The sizes of segments, which are powers of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The first one has two to this power.
    first_log2: u32,
    doublings: u32,
}

impl Shape {
    pub(crate) fn of(options: &Options) -> Self {
        let first_log2 = options.first_rows.ilog2();
        Self { first_log2, doublings: options.most_rows.ilog2() - first_log2 }
    }

    /// Elements of a segment.
    #[inline]
    pub(crate) fn elements(self, segment: u64) -> u64 {
        1 << (u64::from(self.first_log2) + segment.min(u64::from(self.doublings)))
    }

    /// The first element of a segment.
    #[inline]
    pub(crate) fn start(self, segment: u64) -> u64 {
        let doubled = segment.min(u64::from(self.doublings));
        let rest = segment - doubled;
        (((1 << doubled) - 1) + (rest << self.doublings)) << self.first_log2
    }

    /// The segment of an element.
    #[inline]
    pub(crate) fn segment(self, element: u64) -> u64 {
        let firsts = element >> self.first_log2;
        let doubled = (1 << self.doublings) - 1;
        if firsts < doubled {
            return u64::from((firsts + 1).ilog2());
        }
        u64::from(self.doublings) + ((firsts - doubled) >> self.doublings)
    }
}

/// An array; a `S` says where a segment is.
#[derive(Debug)]
pub(crate) struct Array<S> {
    at: u64,
    pub(crate) shape: Shape,
    known: [OnceLock<Box<[OnceLock<S>]>>; LEVELS],
}

/// The page of a segment, and its place there.
#[inline]
fn page_of(segment: u64) -> Result<(usize, u64)> {
    let level = (segment + 1).ilog2() as usize;
    if level >= LEVELS {
        return Err(ColumnError::Unfit { what: "one more row, or another value of a column," });
    }
    Ok((level, segment + 1 - (1 << level)))
}

impl<S> Array<S> {
    /// The array whose header is at `at`.
    pub(crate) fn new(at: u64, shape: Shape) -> Self {
        Self { at, shape, known: [const { OnceLock::new() }; LEVELS] }
    }

    /// The word that has the number of reserved elements.
    pub(crate) fn reserved_at(&self) -> Off<u64> {
        Off::new(self.at)
    }

    fn page_at(&self, level: usize) -> Off<u64> {
        Off::new(self.at + LEVELS_AT + level as u64 * 8)
    }

    /// A segment; `load` finds its parts by its place.
    #[inline]
    pub(crate) fn segment<M: Memory>(
        &self,
        memory: &M,
        segment: u64,
        load: impl FnOnce(u64) -> Result<S>,
    ) -> Result<&S> {
        let (level, within) = page_of(segment)?;
        let known = self.known[level]
            .get_or_init(|| (0..1usize << level).map(|_| OnceLock::new()).collect());
        let known = &known[within as usize];
        if let Some(found) = known.get() {
            return Ok(found);
        }
        let place = self.place(memory, segment)?;
        let place = place.ok_or(Bad::Damaged { what: "segment of an array", at: self.at })?;
        let found = load(place)?;
        Ok(known.get_or_init(|| found))
    }

    /// The place of a segment, if it is there.
    pub(crate) fn place<M: Memory>(&self, memory: &M, segment: u64) -> Result<Option<u64>> {
        let (level, within) = page_of(segment)?;
        let page = memory.load(self.page_at(level), Acquire)?;
        if page == 0 {
            return Ok(None);
        }
        let place = memory.load(Off::new(page.saturating_add(within * 8)), Acquire)?;
        pm::checked_range(Range::new(place, 8), memory.len())?;
        Ok((place != 0).then_some(place))
    }

    /// Adds a segment whose object is at `place`, and is zero, durably. `persist` are its objects; they are given
    /// back if there is no room.
    pub(crate) fn add<M: Memory>(
        &self,
        lane: &mut Lane<M>,
        segment: u64,
        place: u64,
        persist: &[u64],
    ) -> Result<()> {
        let memory = lane.memory().clone();
        let (level, within) = page_of(segment)?;
        let mut page = memory.load(self.page_at(level), Acquire)?;
        if page == 0 {
            page = match zeroed(lane, 8 << level) {
                Ok(page) => page,
                Err(full) => {
                    persist.iter().for_each(|object| lane.release(*object));
                    return Err(full);
                }
            };
            memory.fence();
            lane.mini_persist(page)?;
            lane.mini_store(self.page_at(level), page);
        }
        for object in persist {
            lane.mini_persist(*object)?;
        }
        lane.mini_store(Off::new(page + within * 8), place);
        lane.mini_commit(&mut LineSet::new());
        lane.fence_flushed();
        Ok(())
    }

    /// The objects of the directory.
    pub(crate) fn pages<M: Memory>(&self, memory: &M) -> Result<Vec<u64>> {
        let mut pages = Vec::new();
        for level in 0..LEVELS {
            let page = memory.load(self.page_at(level), Acquire)?;
            pages.extend((page != 0).then_some(page));
        }
        Ok(pages)
    }

    /// The places of all segments.
    pub(crate) fn segments<M: Memory>(&self, memory: &M) -> Result<Vec<u64>> {
        let mut places = Vec::new();
        while let Some(place) = self.place(memory, places.len() as u64)? {
            places.push(place);
        }
        Ok(places)
    }
}

/// An object of zeros, flushed; the caller fences.
#[track_caller]
pub(crate) fn zeroed<M: Memory>(lane: &mut Lane<M>, bytes: u64) -> Result<u64> {
    let bytes = bytes.max(64);
    let at = lane.allocate(bytes, Purpose::Table)?;
    lane.memory().copy(Off::new(at), &vec![0; bytes as usize]);
    lane.memory().flush(Range::new(at, bytes));
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_lie_in_the_segments_that_have_them() {
        let options = Options { first_rows: 64, most_rows: 256, ..Options::default() };
        let shape = Shape::of(&options);
        assert_eq!([0, 1, 2, 3].map(|segment| shape.elements(segment)), [64, 128, 256, 256]);
        assert_eq!([0, 1, 2, 3].map(|segment| shape.start(segment)), [0, 64, 192, 448]);
        for element in 0..2000 {
            let segment = shape.segment(element);
            let start = shape.start(segment);
            assert!((start..start + shape.elements(segment)).contains(&element), "{element}");
        }
    }
}
