//! Runs of bytes in a page, and sets of a page's bytes.

use smallvec::SmallVec;

/// Bytes of a cache line. Frames are aligned to lines.
pub(crate) const LINE_BYTES: usize = pm::LINE_BYTES as usize;

/// A run of bytes in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The offset of the first byte in the page.
    pub at: usize,
    /// Length in bytes.
    pub bytes: usize,
}

impl Span {
    /// `bytes` bytes from offset `at` on.
    pub const fn new(at: usize, bytes: usize) -> Self {
        Self { at, bytes }
    }

    /// The bytes from `at` up to but excluding `end`.
    pub const fn between(at: usize, end: usize) -> Self {
        Self { at, bytes: end - at }
    }

    /// The offset just past the last byte.
    pub const fn end(self) -> usize {
        self.at + self.bytes
    }

    /// Returns the number of cache lines that the bytes lie in.
    pub const fn lines(self) -> usize {
        if self.bytes == 0 { 0 } else { (self.end() - 1) / LINE_BYTES - self.at / LINE_BYTES + 1 }
    }

    /// The bytes themselves.
    ///
    /// # Panics
    /// If they are not all in `page`.
    pub fn of(self, page: &[u8]) -> &[u8] {
        &page[self.at..self.end()]
    }
}

/// A set of bytes of a page. Up to pages of 4 KB it needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes {
    words: SmallVec<[u64; 64]>,
    len: usize,
}

impl Bytes {
    /// An empty set for a page of `len` bytes.
    pub fn none(len: usize) -> Self {
        Self { words: SmallVec::from_elem(0, len.div_ceil(64)), len }
    }

    /// The bytes of the page that are not in the set.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let mut inverse = self.clone();
        inverse.words.iter_mut().for_each(|word| *word = !*word);
        if let (Some(last), used @ 1..) = (inverse.words.last_mut(), self.len % 64) {
            *last &= u64::MAX >> (64 - used);
        }
        inverse
    }

    /// Adds a run; returns whether none of it was in the set.
    ///
    /// # Panics
    /// If the run does not lie in the page.
    pub fn add(&mut self, span: Span) -> bool {
        assert!(span.end() <= self.len, "a run past the page");
        let mut new = true;
        for (word, mask) in masks(span) {
            new &= self.words[word] & mask == 0;
            self.words[word] |= mask;
        }
        new
    }

    /// Removes a run.
    ///
    /// # Panics
    /// If the run does not lie in the page.
    pub fn remove(&mut self, span: Span) {
        assert!(span.end() <= self.len, "a run past the page");
        for (word, mask) in masks(span) {
            self.words[word] &= !mask;
        }
    }

    /// Returns whether a byte is in the set.
    pub fn has(&self, at: usize) -> bool {
        self.words[at / 64] & (1 << (at % 64)) != 0
    }

    /// Returns whether a byte of the run is in the set.
    pub fn has_any(&self, span: Span) -> bool {
        masks(span).any(|(word, mask)| self.words[word] & mask != 0)
    }

    /// Returns how many bytes are in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The maximal runs within `within` that are not in the set, by offset.
    pub fn holes(&self, within: Span) -> Vec<Span> {
        let mut holes = Vec::new();
        let mut at = within.at;
        while let Some(start) = self.next(at, within.end(), false) {
            let end = self.next(start, within.end(), true).unwrap_or(within.end());
            holes.push(Span::between(start, end));
            at = end;
        }
        holes
    }

    /// The first offset in `at..end` whose byte is in the set, or is not.
    fn next(&self, at: usize, end: usize, in_it: bool) -> Option<usize> {
        let mut at = at;
        while at < end {
            let word = self.words[at / 64];
            let wanted = if in_it { word } else { !word } >> (at % 64);
            if wanted != 0 {
                let found = at + wanted.trailing_zeros() as usize;
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }
}

/// The words of a run, with its bits in each.
fn masks(span: Span) -> impl Iterator<Item = (usize, u64)> {
    let words = if span.bytes == 0 { 0..0 } else { span.at / 64..(span.end() - 1) / 64 + 1 };
    words.map(move |word| {
        let from = span.at.saturating_sub(word * 64);
        let to = (span.end() - word * 64).min(64);
        (word, (u64::MAX << from) & (u64::MAX >> (64 - to)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn byte_set_matches_a_plain_list() {
        let mut random = SmallRng::seed_from_u64(3);
        for _ in 0..2_000 {
            let mut set = Bytes::none(512);
            let mut list = [false; 512];
            for _ in 0..random.random_range(0..8) {
                let at = random.random_range(0..512);
                let span = Span::new(at, random.random_range(0..=512 - at));
                let fresh = list[span.at..span.end()].iter().all(|has| !has);
                assert_eq!(set.has_any(span), !fresh);
                if random.random() {
                    assert_eq!(set.add(span), fresh);
                    list[span.at..span.end()].fill(true);
                } else {
                    set.remove(span);
                    list[span.at..span.end()].fill(false);
                }
            }
            assert_eq!(set.count(), list.iter().filter(|has| **has).count());
            assert!((0..512).all(|at| set.has(at) == list[at]));
            let inverse = set.inverse();
            assert!((0..512).all(|at| inverse.has(at) != list[at]));
            assert_eq!((inverse.count() + set.count(), inverse.inverse() == set), (512, true));
            let within = Span::between(random.random_range(0..256), random.random_range(256..512));
            let mut left = vec![false; 512];
            for hole in set.holes(within) {
                assert!(hole.bytes > 0 && hole.at >= within.at && hole.end() <= within.end());
                assert!(hole.at == within.at || list[hole.at - 1]);
                assert!(hole.end() == within.end() || list[hole.end()]);
                left[hole.at..hole.end()].fill(true);
            }
            assert!((within.at..within.end()).all(|at| left[at] != list[at]));
        }
    }

    #[test]
    fn inverse_of_a_set_ends_with_the_page() {
        let mut set = Bytes::none(70);
        set.add(Span::new(0, 69));
        assert_eq!((set.inverse().count(), set.inverse().has(69)), (1, true));
    }

    #[test]
    fn run_counts_the_lines_of_its_bytes() {
        for (span, lines) in
            [((0, 0), 0), ((0, 64), 1), ((63, 2), 2), ((64, 64), 1), ((10, 119), 3)]
        {
            assert_eq!(Span::new(span.0, span.1).lines(), lines, "{span:?}");
        }
    }
}
