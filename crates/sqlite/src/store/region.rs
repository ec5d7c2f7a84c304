//! A part of a memory as a memory of its own: the database, or the side file.
//!
//! Natively each is a mapped file. In crash tests both lie in one recording, so that one trace has all stores in order.

use std::sync::atomic::Ordering;

use pm::{Bad, GrowError, LineSet, Memory, Off, Range};

/// A part of a memory.
#[derive(Clone, Debug)]
pub struct Region<M> {
    memory: M,
    base: u64,
    limit: u64,
}

impl<M: Memory> Region<M> {
    /// At most `limit` bytes from `base` on, which is aligned to a line.
    pub fn new(memory: M, base: u64, limit: u64) -> Self {
        assert!(base.is_multiple_of(pm::LINE_BYTES), "a region begins with a line");
        Self { memory, base, limit }
    }

    /// A whole memory.
    pub fn whole(memory: M) -> Self {
        Self::new(memory, 0, u64::MAX)
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The usable bytes.
    pub fn len(&self) -> u64 {
        self.memory.len().saturating_sub(self.base).min(self.limit)
    }

    /// Returns whether no byte is usable yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes at least so many bytes usable.
    ///
    /// # Errors
    /// The medium is full, or the region's limit is reached.
    pub fn grow(&self, to: u64) -> Result<(), GrowError> {
        if to > self.limit {
            return Err(GrowError::Limit { limit: self.limit });
        }
        if to <= self.len() { Ok(()) } else { self.memory.grow(self.base + to) }
    }

    /// Copies bytes from `at` on.
    ///
    /// # Errors
    /// They are not within the region.
    pub fn read_into(&self, at: u64, out: &mut [u8]) -> Result<(), Bad> {
        pm::checked_range(Range::new(at, out.len() as u64), self.len())?;
        self.memory.read_into(Off::new(self.base + at), out)
    }

    /// A view of `len` bytes from `at` on.
    ///
    /// # Errors
    /// They are not within the region.
    pub fn view(&self, at: u64, len: u64) -> Result<M::View<'_>, Bad> {
        pm::checked_range(Range::new(at, len), self.len())?;
        self.memory.view(Range::new(self.base + at, len))
    }

    /// The word at `at`.
    ///
    /// # Errors
    /// It is not within the region.
    pub fn load(&self, at: u64) -> Result<u64, Bad> {
        pm::checked_range(Range::new(at, 8), self.len())?;
        self.memory.load(Off::new(self.base + at), Ordering::Acquire).map(u64::from_le)
    }

    /// Stores a word.
    #[track_caller]
    pub fn store(&self, at: u64, word: u64) {
        self.memory.store(Off::new(self.base + at), word.to_le());
    }

    /// Copies bytes to `at`.
    #[track_caller]
    pub fn copy(&self, at: u64, bytes: &[u8]) {
        self.memory.copy(Off::new(self.base + at), bytes);
    }

    /// Stores a whole line at `at`, which the next fence makes durable. Only for memories that
    /// [can](pm::Memory::has_store_line).
    #[track_caller]
    pub fn store_line(&self, at: u64, bytes: &[u8; pm::LINE_BYTES as usize]) {
        self.memory.store_line(pm::Line::of(self.base + at), bytes);
    }

    /// Flushes all usable bytes.
    #[track_caller]
    pub fn flush_all(&self) {
        self.memory.flush(Range::new(self.base, self.len()));
    }

    /// Says that a range is not needed for a while.
    pub fn release(&self, at: u64, len: u64) {
        self.memory.release(Range::new(self.base + at, len));
    }

    /// Adds the lines of a range to a set of lines to flush.
    pub fn note(&self, lines: &mut LineSet, at: u64, len: u64) {
        lines.add(Range::new(self.base + at, len));
    }
}
