//! The frames of a pool, which are made when they are needed: a pool of which little is used is
//! opened, looked through and dropped as a small one.

use std::io;
use std::ops::Index;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use pm::{FrameArena, Peek};
use zerocopy::FromZeros;

use super::frame::{Frame, Held};
use super::replace::MOST_USES;
use crate::ids::PageNo;
use crate::latch::Latching;
use crate::page::Page;
use crate::{PagedError, Result};

/// Frames that are made together.
const CHUNK: usize = 64;

/// Frames, once they are made.
type Chunk<T> = OnceLock<Box<[Frame<T>]>>;

#[derive(Debug)]
pub(super) struct Frames<T> {
    chunks: Box<[Chunk<T>]>,
    len: usize,
    /// The memory of their pages.
    arena: FrameArena,
    /// Uses of each since it was looked at last, up to a few.
    uses: Box<[AtomicU8]>,
}

impl<T: Latching> Frames<T> {
    /// Frames of which none is made.
    ///
    /// # Errors
    /// There is no memory for their list.
    pub(super) fn new(len: usize, page_bytes: usize) -> Result<Self> {
        let chunks = reserved(len.div_ceil(CHUNK), |_| OnceLock::new())?;
        let arena = FrameArena::new(len, page_bytes).map_err(no_memory)?;
        let uses = <[AtomicU8]>::new_box_zeroed_with_elems(len);
        let uses = uses.map_err(|_| no_memory(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Self { chunks, len, arena, uses })
    }

    /// The memory for a page of a frame, which is not whole. It is taken when the frame is used
    /// first.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn page_in<'h>(&self, number: usize, held: &'h mut Held) -> Result<&'h mut Page> {
        if held.page.bytes().is_empty() {
            held.page = Page::over(self.arena.claim(number).map_err(no_memory)?);
        }
        held.page.memory().open();
        Ok(&mut held.page)
    }

    /// Begins a look at the page of a frame; `None` where there is none that is whole.
    #[inline]
    pub(super) fn peek(&self, number: usize) -> Option<Peek<'_>> {
        self.arena.peek(number)
    }

    /// Notes a use of a frame.
    #[inline]
    pub(super) fn used(&self, number: usize) {
        let uses = self.uses(number);
        if uses < MOST_USES {
            self.uses[number].store(uses + 1, Ordering::Relaxed);
        }
    }

    /// Notes that a frame has another page, or none.
    pub(super) fn set_resident(&self, number: usize, page: Option<PageNo>) {
        self[number].set_resident(page);
        self.uses[number].store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn uses(&self, number: usize) -> u8 {
        self.uses[number].load(Ordering::Relaxed)
    }

    /// Takes one use of a frame away; returns how many there were.
    pub(super) fn use_up(&self, number: usize) -> u8 {
        let uses = self.uses(number);
        self.uses[number].store(uses.saturating_sub(1), Ordering::Relaxed);
        uses
    }

    /// The number of frames, made or not.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns a frame, which is made if it was not. A page gets into no other one, so a thread
    /// that reads the log's end, then looks at those that are made, misses no change before that
    /// end.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn make(&self, number: usize) -> Result<&Frame<T>> {
        let chunk = &self.chunks[number / CHUNK];
        if chunk.get().is_none() {
            let from = number / CHUNK * CHUNK;
            let made = reserved(CHUNK.min(self.len - from), |_| Frame::new())?;
            // Another thread may have made them first.
            let _ = chunk.set(made);
        }
        Ok(&self[number])
    }

    /// Returns a frame, if it was made.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Frame<T>> {
        self.chunks.get(number / CHUNK)?.get()?.get(number % CHUNK)
    }

    /// The frames that are made, with their numbers, in order.
    pub(super) fn made(&self) -> impl Iterator<Item = (usize, &Frame<T>)> {
        let chunks = self.chunks.iter().zip((0..).step_by(CHUNK));
        chunks.filter_map(|(chunk, from)| Some((from..).zip(chunk.get()?.iter()))).flatten()
    }

    /// The made frames but one: those after it, then those before it.
    pub(super) fn others(&self, number: usize) -> impl Iterator<Item = (usize, &Frame<T>)> {
        let after = self.made().filter(move |(other, _)| *other > number);
        after.chain(self.made().take_while(move |(other, _)| *other < number))
    }
}

impl<T: Latching> Index<usize> for Frames<T> {
    type Output = Frame<T>;

    fn index(&self, number: usize) -> &Frame<T> {
        self.get(number).expect("a frame that is used was made")
    }
}

fn no_memory(source: io::Error) -> PagedError {
    PagedError::Io { doing: "taking memory for the buffer pool", source }
}

/// Makes so many things, or says that there is no memory for them.
fn reserved<V>(len: usize, make: impl FnMut(usize) -> V) -> Result<Box<[V]>> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| no_memory(io::ErrorKind::OutOfMemory.into()))?;
    all.extend((0..len).map(make));
    Ok(all.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latch::Native;

    #[test]
    fn frames_are_made_when_they_are_needed_and_found_again() {
        let frames: Frames<Native> = Frames::new(10 * CHUNK + 3, 512).unwrap();
        assert_eq!((frames.len(), frames.made().count()), (10 * CHUNK + 3, 0));
        for number in [10 * CHUNK + 2, CHUNK, CHUNK + 1] {
            let made = std::ptr::from_ref(frames.make(number).unwrap());
            assert!(std::ptr::eq(made, &raw const frames[number]));
        }
        let made: Vec<usize> = frames.made().map(|(number, _)| number).collect();
        assert_eq!(made, (CHUNK..2 * CHUNK).chain(10 * CHUNK..10 * CHUNK + 3).collect::<Vec<_>>());
        assert!(
            frames.made().all(|(number, frame)| std::ptr::eq(frame, &raw const frames[number]))
        );
        let others: Vec<usize> = frames.others(2 * CHUNK - 2).map(|(number, _)| number).collect();
        assert_eq!((others[0], others[1], others.len()), (2 * CHUNK - 1, 10 * CHUNK, CHUNK + 2));
        assert_eq!(others.last(), Some(&(2 * CHUNK - 3)));
    }
}
