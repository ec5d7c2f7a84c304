//! Places in a memory: offsets from its base, byte ranges and cache lines.
//!
//! A persistent pointer is an [`Off`]: eight bytes, relative to the base of the memory, so that a
//! pool can be mapped anywhere (P1 2.3 asks for pointers that survive a restart; P1's allocator
//! fixes the virtual address instead).

use std::fmt;
use std::marker::PhantomData;

/// Bytes in a cache line, the unit in which caches write back to memory.
pub const LINE_BYTES: u64 = 64;

/// The offset of a `T` from the base of its memory, in bytes.
pub struct Off<T>(u64, PhantomData<fn() -> T>);

impl<T> Off<T> {
    /// The object of type `T` that starts `bytes` bytes after the base.
    #[inline]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes, PhantomData)
    }

    /// The distance from the base in bytes.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The offset `bytes` bytes further on, of another type.
    #[inline]
    pub const fn plus<U>(self, bytes: u64) -> Off<U> {
        Off::new(self.0 + bytes)
    }

    /// The bytes that the object covers.
    #[inline]
    pub const fn range(self) -> Range {
        Range { start: self.0, len: size_of::<T>() as u64 }
    }
}

impl<T> Clone for Off<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Off<T> {}
impl<T> PartialEq for Off<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Off<T> {}
impl<T> fmt::Debug for Off<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{:#x}", self.0)
    }
}

/// A run of bytes in a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Range {
    /// Offset of the first byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Range {
    /// `len` bytes from offset `start` on.
    #[inline]
    pub const fn new(start: u64, len: u64) -> Self {
        Self { start, len }
    }

    /// The offset just past the last byte.
    #[inline]
    pub const fn end(self) -> u64 {
        self.start + self.len
    }

    /// The cache lines that the range touches, first and one past the last. The start is rounded
    /// down: a flush that rounds only its length misses the last line of an unaligned range.
    #[inline]
    pub const fn lines(self) -> (u64, u64) {
        if self.len == 0 {
            return (self.start / LINE_BYTES, self.start / LINE_BYTES);
        }
        (self.start / LINE_BYTES, (self.start + self.len - 1) / LINE_BYTES + 1)
    }

    /// Returns how many cache lines the range touches.
    #[inline]
    pub const fn line_count(self) -> u64 {
        let (first, end) = self.lines();
        end - first
    }
}

/// A cache line by its number: the line that starts at offset `64 * n`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Line(pub u64);

impl Line {
    /// The line that holds the byte at `offset`.
    #[inline]
    pub const fn of(offset: u64) -> Self {
        Self(offset / LINE_BYTES)
    }

    /// Offset of the line's first byte.
    #[inline]
    pub const fn start(self) -> u64 {
        self.0 * LINE_BYTES
    }

    /// The line's 64 bytes.
    #[inline]
    pub const fn range(self) -> Range {
        Range { start: self.start(), len: LINE_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::Range;

    #[test]
    fn an_unaligned_range_covers_its_last_line() {
        assert_eq!(Range::new(63, 2).lines(), (0, 2));
        assert_eq!(Range::new(60, 64).line_count(), 2);
        assert_eq!(Range::new(64, 64).lines(), (1, 2));
        assert_eq!(Range::new(100, 0).line_count(), 0);
    }
}
