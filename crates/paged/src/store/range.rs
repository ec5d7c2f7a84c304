//! Ranges of keys, compared by the first bytes of their bounds.

use crate::tree::{Bound, Direction, Scan};

/// One side of a range of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowBound<'k> {
    /// There is none.
    Unbounded,
    /// Keys that begin with these bytes, and keys on the inner side of them, are within.
    Included(&'k [u8]),
    /// Keys that begin with these bytes are without.
    Excluded(&'k [u8]),
}

/// A range of keys, given by the first bytes of its bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowRange<'k> {
    /// The lower bound.
    pub low: RowBound<'k>,
    /// The upper bound.
    pub high: RowBound<'k>,
}

/// The least bytes that are greater than all that begin with these; `None` if there are none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = prefix.to_vec();
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

/// A range of keys by plain bounds: from `low` on, before `high`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Keys {
    pub(super) low: Vec<u8>,
    /// `None`: there is no upper bound.
    pub(super) high: Option<Vec<u8>>,
}

impl Keys {
    /// The keys of a range; `None` if it has none.
    pub(super) fn of(range: &RowRange<'_>) -> Option<Self> {
        let low = match range.low {
            RowBound::Unbounded => Vec::new(),
            RowBound::Included(low) => low.to_vec(),
            RowBound::Excluded(low) => after_prefix(low)?,
        };
        let high = match range.high {
            RowBound::Unbounded => None,
            RowBound::Included(high) => after_prefix(high),
            RowBound::Excluded(high) => Some(high.to_vec()),
        };
        Some(Self { low, high })
    }

    /// Returns whether a key is outside, beyond the end in a direction.
    pub(super) fn ends_before(&self, key: &[u8], direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.high.as_deref().is_some_and(|high| key >= high),
            Direction::Backward => key < &self.low[..],
        }
    }

    /// The scan of these keys, from its start on.
    pub(super) fn scan(&self, direction: Direction) -> Scan {
        let from = match direction {
            Direction::Forward => Bound::Included(&self.low),
            Direction::Backward => self.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
        };
        Scan::new(direction, from)
    }

    /// The bound at the end, in a direction. Forward it is the first key after the range, backward
    /// the first one within.
    pub(super) fn end(&self, direction: Direction) -> Option<&[u8]> {
        match direction {
            Direction::Forward => self.high.as_deref(),
            Direction::Backward => Some(&self.low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_begin_with_a_bound_go_with_it() {
        let range = |low, high| Keys::of(&RowRange { low, high });
        let (a, b) = (&b"a"[..], &[b'b', 255][..]);
        let keys = range(RowBound::Excluded(a), RowBound::Included(b)).expect("keys");
        assert_eq!((&keys.low[..], keys.high.as_deref()), (&b"b"[..], Some(&b"c"[..])));
        assert!(!keys.ends_before(b"b\xff\xff", Direction::Forward));
        assert!(keys.ends_before(b"c", Direction::Forward));
        assert!(keys.ends_before(b"az", Direction::Backward));
        let keys = range(RowBound::Included(a), RowBound::Included(&[255, 255])).expect("keys");
        assert_eq!((&keys.low[..], keys.high), (a, None));
        assert_eq!(range(RowBound::Excluded(&[255]), RowBound::Unbounded), None);
        assert_eq!(range(RowBound::Excluded(&[]), RowBound::Unbounded), None);
    }
}
