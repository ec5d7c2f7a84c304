//! Bulk operations of a memory: copying runs of bytes out, searching words.
//!
//! A tuple's columns are a handful of short runs, each of a length that is known only at run time;
//! one call of `memcpy` a run costs more than the copy. A node's keys are a few dozen words; a
//! binary search mispredicts half of its branches. [`Kernels`] with wide registers are chosen once
//! when a memory is made, so that no build flag and no check per call is needed.

#[cfg(target_arch = "x86_64")]
mod x86_64;

/// Copies runs of bytes, one after the other.
///
/// # Safety
/// Each `(from, len)` is readable, `out` is writable for the sum of the lengths, and they do not
/// overlap.
pub(crate) type Gather = unsafe fn(base: *const u8, parts: &[crate::Range], out: *mut u8);

/// Returns how many of the `count` words from `words` on are at most `key`; the words ascend.
///
/// # Safety
/// `count` words are readable, aligned or not.
pub(crate) type Rank = unsafe fn(words: *const u64, count: usize, key: u64) -> usize;

/// A bit for each of the `count` pairs of words from `pairs` on whose first word is `key`; at most
/// 64 pairs.
///
/// # Safety
/// `count` pairs are readable, aligned or not.
pub(crate) type Matches = unsafe fn(pairs: *const u64, count: usize, key: u64) -> u64;

/// The functions for this processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels {
    pub(crate) gather: Gather,
    pub(crate) rank: Rank,
    pub(crate) matches: Matches,
}

const PORTABLE: Kernels =
    Kernels { gather: gather_portable, rank: rank_portable, matches: matches_portable };

/// The fastest kernels of this processor.
pub(crate) fn kernels() -> Kernels {
    #[expect(clippy::allow_attributes, reason = "other targets change nothing below")]
    #[allow(unused_mut)]
    let mut kernels = PORTABLE;
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx") {
            kernels.gather = x86_64::gather_avx;
        }
        let popcnt = std::arch::is_x86_feature_detected!("popcnt");
        if popcnt && std::arch::is_x86_feature_detected!("avx512f") {
            kernels.rank = x86_64::rank_avx512;
            kernels.matches = x86_64::matches_avx512;
        }
    }
    kernels
}

/// # Safety
/// As [`Rank`].
unsafe fn rank_portable(words: *const u64, count: usize, key: u64) -> usize {
    let (mut low, mut size) = (0, count);
    while size > 1 {
        let half = size / 2;
        // SAFETY: `low + half <= count`, the caller's contract. No branch: a step forward or none.
        let word = u64::from_le(unsafe { words.add(low + half - 1).read_unaligned() });
        low += half * usize::from(word <= key);
        size -= half;
    }
    if size == 1 {
        // SAFETY: `low < count`.
        let word = u64::from_le(unsafe { words.add(low).read_unaligned() });
        low += usize::from(word <= key);
    }
    low
}

/// # Safety
/// As [`Matches`].
unsafe fn matches_portable(pairs: *const u64, count: usize, key: u64) -> u64 {
    let mut found = 0;
    for index in 0..count {
        // SAFETY: within the `count` pairs.
        let word = u64::from_le(unsafe { pairs.add(index * 2).read_unaligned() });
        found |= u64::from(word == key) << index;
    }
    found
}

/// # Safety
/// As [`Gather`].
unsafe fn gather_portable(base: *const u8, parts: &[crate::Range], mut out: *mut u8) {
    for part in parts {
        // SAFETY: the caller's contract.
        unsafe {
            std::ptr::copy_nonoverlapping(base.add(part.start as usize), out, part.len as usize);
            out = out.add(part.len as usize);
        }
    }
}

/// Asks for the line at `at`; only a hint.
#[inline]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and changes no contents.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::{PORTABLE, kernels};
    use crate::Range;

    #[test]
    fn the_wide_copy_equals_the_portable_one_for_every_length() {
        let source: Vec<u8> = (0..4096u32).map(|i| (i * 31 % 251) as u8).collect();
        for first in 0..300u64 {
            let parts = [Range::new(first % 7, first), Range::new(900 + first % 5, 300 - first)];
            let (mut wide, mut plain) = (vec![0u8; 301], vec![0u8; 301]);
            // SAFETY: both parts lie within `source`, their lengths add up to 300 of 301 bytes.
            unsafe {
                (kernels().gather)(source.as_ptr(), &parts, wide.as_mut_ptr());
                (PORTABLE.gather)(source.as_ptr(), &parts, plain.as_mut_ptr());
            }
            assert_eq!(wide, plain, "first part of {first} bytes");
        }
    }

    #[test]
    fn the_wide_searches_equal_the_portable_ones() {
        // Miri takes a minute for each.
        for count in (0..64usize).step_by(if cfg!(miri) { 21 } else { 1 }) {
            let words: Vec<u64> = (0..count as u64).map(|i| i * 3 + (1 << 63)).collect();
            let pairs: Vec<u64> = words.iter().flat_map(|word| [*word, 7]).collect();
            let keys = (0..=count as u64 * 3).map(|key| key + (1 << 63)).chain([0, 7, u64::MAX]);
            for key in keys {
                let below = words.iter().filter(|word| **word <= key).count();
                let equal = words.iter().position(|word| *word == key);
                for kernels in [kernels(), PORTABLE] {
                    // SAFETY: both arrays have `count` words or pairs.
                    unsafe {
                        assert_eq!((kernels.rank)(words.as_ptr(), count, key), below);
                        let found = (kernels.matches)(pairs.as_ptr(), count, key);
                        assert_eq!(found, equal.map_or(0, |at| 1 << at), "{count} pairs");
                    }
                }
            }
        }
    }
}
