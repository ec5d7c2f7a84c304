//! The frames of a pool, which are made when they are needed: a pool of which little is used is
//! opened, looked through and dropped as a small one.

use std::ops::Index;
use std::sync::OnceLock;

use super::frame::Frame;
use crate::latch::Latching;
use crate::{PagedError, Result};

/// Frames that are made together.
const CHUNK: usize = 64;

/// Frames, once they are made.
type Chunk<T> = OnceLock<Box<[Frame<T>]>>;

#[derive(Debug)]
pub(super) struct Frames<T> {
    chunks: Box<[Chunk<T>]>,
    len: usize,
}

impl<T: Latching> Frames<T> {
    /// Frames of which none is made.
    ///
    /// # Errors
    /// There is no memory for their list.
    pub(super) fn new(len: usize) -> Result<Self> {
        let chunks = reserved(len.div_ceil(CHUNK), |_| OnceLock::new())?;
        Ok(Self { chunks, len })
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

impl<T> Index<usize> for Frames<T> {
    type Output = Frame<T>;

    fn index(&self, number: usize) -> &Frame<T> {
        &self.chunks[number / CHUNK].get().expect("a frame that is used was made")[number % CHUNK]
    }
}

/// Makes so many things, or says that there is no memory for them.
fn reserved<V>(len: usize, make: impl FnMut(usize) -> V) -> Result<Box<[V]>> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| PagedError::Io {
        doing: "taking memory for the buffer pool",
        source: std::io::ErrorKind::OutOfMemory.into(),
    })?;
    all.extend((0..len).map(make));
    Ok(all.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latch::Native;

    #[test]
    fn frames_are_made_when_they_are_needed_and_found_again() {
        let frames: Frames<Native> = Frames::new(10 * CHUNK + 3).unwrap();
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
