//! [`Bytes`]: bytes of a memory, to be copied and compared, never to be held as a slice.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

/// Bytes of a memory or of a slice. They can be copied out, compared and taken apart, and that is
/// all: there is no way to a `&[u8]`, which would have to stay as it is while a thread stores to the
/// memory.
///
/// ```
/// use pm::{Dram, Memory, Off, Range, View};
/// # let memory = Dram::new(4096).unwrap();
/// # memory.grow(4096).unwrap();
/// memory.copy(Off::new(64), b"a tuple");
/// let view = memory.view(Range::new(0, 128)).unwrap();
/// let bytes = view.bytes(64, 7);
/// assert_eq!((bytes.to_vec(), bytes.array::<1>(2)), (b"a tuple".to_vec(), *b"t"));
/// ```
///
/// A slice is not to be had:
///
/// ```compile_fail,E0308
/// use pm::{Dram, Memory, Off, Range, View};
/// # let memory = Dram::new(4096).unwrap();
/// # memory.grow(4096).unwrap();
/// let view = memory.view(Range::new(0, 128)).unwrap();
/// let held: &[u8] = view.bytes(64, 7);
/// ```
///
/// ```compile_fail,E0277
/// use pm::{Dram, Memory, Off, Range, View};
/// # let memory = Dram::new(4096).unwrap();
/// # memory.grow(4096).unwrap();
/// let view = memory.view(Range::new(0, 128)).unwrap();
/// let held: &[u8] = view.bytes(64, 7).into();
/// ```
///
/// [`View`](crate::View) says what a race gives.
#[derive(Clone, Copy)]
pub struct Bytes<'a> {
    start: *const u8,
    len: usize,
    source: PhantomData<&'a [u8]>,
}

impl<'a> Bytes<'a> {
    /// The `len` bytes from `start` on.
    ///
    /// # Safety
    /// They can be read for as long as `'a`. They may be stored to meanwhile.
    #[inline]
    pub(crate) unsafe fn new(start: *const u8, len: usize) -> Self {
        Self { start, len, source: PhantomData }
    }

    /// Returns how many bytes there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first one, for a call of the kernel that reads them.
    pub(crate) fn start(&self) -> *const u8 {
        self.start
    }

    /// The `len` bytes from byte `at` on; `None` if there are fewer.
    #[inline]
    pub fn get(&self, at: usize, len: usize) -> Option<Self> {
        // SAFETY: a part of what can be read.
        (at <= self.len && len <= self.len - at)
            .then(|| unsafe { Self::new(self.start.add(at), len) })
    }

    /// A copy of byte `at`.
    ///
    /// # Panics
    /// There are fewer.
    #[inline]
    pub fn byte(&self, at: usize) -> u8 {
        assert!(at < self.len, "within the bytes");
        // SAFETY: it can be read.
        unsafe { self.start.add(at).read() }
    }

    /// A copy of the `N` bytes from byte `at` on.
    ///
    /// # Panics
    /// There are fewer.
    #[inline]
    pub fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        assert!(at <= self.len && N <= self.len - at, "within the bytes");
        // SAFETY: they can be read, and an array of bytes has no alignment.
        unsafe { self.start.add(at).cast::<[u8; N]>().read() }
    }

    /// A copy of all of them, if they are `N`.
    #[inline]
    pub fn whole<const N: usize>(&self) -> Option<[u8; N]> {
        (self.len == N).then(|| self.array(0))
    }

    /// Copies of `N` bytes each, one after the other; what is left at the end is passed over.
    #[inline]
    pub fn arrays<const N: usize>(self) -> Arrays<'a, N> {
        const { assert!(N > 0, "an array has a byte") };
        Arrays(self)
    }

    /// Copies them to `out`, which has the same length.
    ///
    /// # Panics
    /// It has another one.
    #[inline]
    pub fn copy_to(&self, out: &mut [u8]) {
        assert!(out.len() == self.len, "the buffer has the length of the bytes");
        // SAFETY: they can be read, and `out`, to which there is no other access, is as long.
        unsafe { std::ptr::copy_nonoverlapping(self.start, out.as_mut_ptr(), self.len) };
    }

    /// Appends them to `out`.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.len);
        // SAFETY: they can be read, and there is room for them after what is in `out`, which is
        // initialized when they are there.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start, out.as_mut_ptr().add(out.len()), self.len);
            out.set_len(out.len() + self.len);
        }
    }

    /// A copy of all of them.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = Vec::new();
        self.append_to(&mut copy);
        copy
    }

    /// Compares them with `other`, as slices are compared.
    #[inline]
    pub fn compare(&self, other: &[u8]) -> Ordering {
        let both = self.len.min(other.len());
        // SAFETY: so many bytes can be read of both. No slice is made of them.
        let order = unsafe { libc::memcmp(self.start.cast(), other.as_ptr().cast(), both) };
        // No object has so many bytes that their difference does not fit.
        let longer = self.len as isize - other.len() as isize;
        (if order == 0 { longer } else { order as isize }).cmp(&0)
    }

    /// Returns whether they equal `other`.
    #[inline]
    pub fn equal(&self, other: &[u8]) -> bool {
        // SAFETY: as in `compare`.
        self.len == other.len()
            && unsafe { libc::memcmp(self.start.cast(), other.as_ptr().cast(), self.len) == 0 }
    }
}

/// Copies of `N` bytes each: see [`Bytes::arrays`].
#[derive(Clone, Debug)]
pub struct Arrays<'a, const N: usize>(Bytes<'a>);

impl<const N: usize> Iterator for Arrays<'_, N> {
    type Item = [u8; N];

    #[inline]
    fn next(&mut self) -> Option<[u8; N]> {
        let Bytes { start, len, .. } = self.0;
        if len < N {
            return None;
        }
        // SAFETY: so many bytes are left, and what is then left starts after them.
        unsafe {
            self.0 = Bytes::new(start.add(N), len - N);
            Some(start.cast::<[u8; N]>().read())
        }
    }
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    #[inline]
    fn from(slice: &'a [u8]) -> Self {
        // SAFETY: a slice can be read as long as it lives, and is not stored to.
        unsafe { Self::new(slice.as_ptr(), slice.len()) }
    }
}

impl<'a> From<&'a Vec<u8>> for Bytes<'a> {
    #[inline]
    fn from(slice: &'a Vec<u8>) -> Self {
        Self::from(&slice[..])
    }
}

impl Default for Bytes<'_> {
    /// None.
    fn default() -> Self {
        Self::from(&[][..])
    }
}

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_vec().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_compare_and_come_apart_as_slices_do(
            one in prop::collection::vec(0u8..3, 0..20), other in prop::collection::vec(0u8..3, 0..20),
            at in 0usize..25, len in 0usize..25,
        ) {
            let bytes = Bytes::from(&one);
            prop_assert_eq!((bytes.len(), bytes.is_empty()), (one.len(), one.is_empty()));
            prop_assert_eq!(bytes.compare(&other), one.cmp(&other));
            prop_assert_eq!(bytes.equal(&other), one == other);
            prop_assert!(bytes.equal(&one) && bytes.compare(&one).is_eq());
            let part = bytes.get(at, len).map(|part| part.to_vec());
            prop_assert_eq!(part.as_deref(), one.get(at..at + len));
            let threes: Vec<[u8; 3]> = bytes.arrays().collect();
            prop_assert_eq!(threes.concat(), &one[..one.len() / 3 * 3]);
            prop_assert_eq!(bytes.whole::<4>().map(Vec::from), (one.len() == 4).then(|| one.clone()));
            let (mut copy, mut appended) = (vec![9; one.len()], other.clone());
            bytes.copy_to(&mut copy);
            bytes.append_to(&mut appended);
            prop_assert_eq!((copy, appended), (one.clone(), [other, one.clone()].concat()));
            for (at, byte) in one.iter().enumerate() {
                prop_assert_eq!((bytes.byte(at), bytes.array::<1>(at)), (*byte, [*byte]));
            }
        }
    }

    #[test]
    #[should_panic(expected = "within the bytes")]
    fn an_array_that_ends_after_them_is_refused() {
        Bytes::from(&[0u8; 8][..]).array::<4>(5);
    }

    #[test]
    #[should_panic(expected = "within the bytes")]
    fn an_array_far_after_them_is_refused() {
        Bytes::from(&[0u8; 8][..]).array::<4>(usize::MAX);
    }

    #[test]
    #[should_panic(expected = "within the bytes")]
    fn a_byte_after_them_is_refused() {
        Bytes::from(&[0u8; 8][..]).byte(8);
    }

    #[test]
    #[should_panic(expected = "the buffer has the length")]
    fn a_buffer_of_another_length_is_refused() {
        Bytes::from(&[0u8; 8][..]).copy_to(&mut [0; 9]);
    }
}
