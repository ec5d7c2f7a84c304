//! The lines that an operation has written and must flush before its next fence.
//!
//! The rule of every write path: first all the stores, then all the flushes,
//! then one fence. A flush right after the store to a cold line waits for that line; a flush some
//! stores later does not.

use std::collections::TryReserveError;

use crate::memory::Memory;
use crate::offset::{Line, Range};

/// A set of lines, in the order in which they were first added.
#[derive(Default, Debug)]
pub struct LineSet {
    lines: Vec<Line>,
}

/// The number of the most recently added lines that are searched for a duplicate. Operations write
/// neighbouring things one after the other, so this finds nearly all of them.
const LOOK_BACK: usize = 8;

impl LineSet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for so many more lines.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn try_reserve(&mut self, lines: usize) -> Result<(), TryReserveError> {
        self.lines.try_reserve(lines)
    }

    /// Adds the lines of `range`.
    #[inline]
    pub fn add(&mut self, range: Range) {
        let (first, end) = range.lines();
        for number in first..end {
            let line = Line(number);
            let recent = self.lines.len().saturating_sub(LOOK_BACK);
            if !self.lines[recent..].contains(&line) {
                self.lines.push(line);
            }
        }
    }

    /// Flushes every line of the set and empties it.
    #[inline]
    #[track_caller]
    pub fn flush<M: Memory>(&mut self, memory: &M) {
        if M::DURABLE {
            for line in &self.lines {
                memory.flush_line(*line);
            }
        }
        self.lines.clear();
    }

    /// Takes the lines of another set over, which is empty then. This one is empty before: what is in
    /// it has been flushed.
    #[inline]
    pub fn take(&mut self, others: &mut Self) {
        debug_assert!(self.is_empty(), "a line would be lost");
        std::mem::swap(&mut self.lines, &mut others.lines);
    }

    /// The lines, in the order in which they were first added.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Forgets the lines without flushing them: their contents are not part of anything any more.
    pub fn clear(&mut self) {
        self.lines.clear();
    }

    /// Returns whether there is nothing to flush.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns how many lines a flush would write back.
    pub fn len(&self) -> usize {
        self.lines.len()
    }
}
