//! Gather with 32-byte registers: a run of up to 128 bytes is two or four overlapping loads and
//! as many stores, without a loop. Searches with 64-byte registers: eight words a comparison.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_storeu_si128, _mm256_loadu_si256, _mm256_storeu_si256,
    _mm512_cmpeq_epi64_mask, _mm512_cmple_epu64_mask, _mm512_loadu_si512,
    _mm512_mask_cmpeq_epi64_mask, _mm512_mask_cmple_epu64_mask, _mm512_maskz_loadu_epi64,
    _mm512_set1_epi64,
};

use crate::Range;

/// # Safety
/// As [`super::Gather`], and the processor has AVX.
#[target_feature(enable = "avx")]
pub(super) unsafe fn gather_avx(base: *const u8, parts: &[Range], mut out: *mut u8) {
    for part in parts {
        let len = part.len as usize;
        // SAFETY: the caller's contract; every access below stays within `len` bytes of both.
        unsafe {
            copy_run(base.add(part.start as usize), out, len);
            out = out.add(len);
        }
    }
}

/// # Safety
/// `from` is readable and `to` writable for `len` bytes; the processor has AVX.
#[target_feature(enable = "avx")]
#[inline]
unsafe fn copy_run(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: in each arm the highest byte touched is `len - 1`, since the last piece is taken
    // from the end backwards.
    unsafe {
        if (64..=128).contains(&len) {
            let (a, b) = (load32(from), load32(from.add(32)));
            let (c, d) = (load32(from.add(len - 64)), load32(from.add(len - 32)));
            store32(to, a);
            store32(to.add(32), b);
            store32(to.add(len - 64), c);
            store32(to.add(len - 32), d);
        } else if (32..64).contains(&len) {
            let (a, b) = (load32(from), load32(from.add(len - 32)));
            store32(to, a);
            store32(to.add(len - 32), b);
        } else if (16..32).contains(&len) {
            let a = _mm_loadu_si128(from.cast::<__m128i>());
            let b = _mm_loadu_si128(from.add(len - 16).cast::<__m128i>());
            _mm_storeu_si128(to.cast::<__m128i>(), a);
            _mm_storeu_si128(to.add(len - 16).cast::<__m128i>(), b);
        } else if len == 8 {
            to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned());
        } else {
            std::ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

/// # Safety
/// 32 bytes are readable at `at`; the processor has AVX.
#[target_feature(enable = "avx")]
#[inline]
unsafe fn load32(at: *const u8) -> __m256i {
    // SAFETY: the caller's contract.
    unsafe { _mm256_loadu_si256(at.cast()) }
}

/// # Safety
/// 32 bytes are writable at `at`; the processor has AVX.
#[target_feature(enable = "avx")]
#[inline]
unsafe fn store32(at: *mut u8, value: __m256i) {
    // SAFETY: the caller's contract.
    unsafe { _mm256_storeu_si256(at.cast(), value) }
}

/// # Safety
/// As [`super::Rank`], and the processor has AVX-512F.
#[target_feature(enable = "avx512f,popcnt")]
pub(super) unsafe fn rank_avx512(words: *const u64, count: usize, key: u64) -> usize {
    let wanted = _mm512_set1_epi64(key.cast_signed());
    let (whole, rest) = (count / 8, count % 8);
    let mut rank = 0;
    // SAFETY: whole groups of eight words lie within `count`; the last load touches only the words
    // of its mask.
    unsafe {
        for group in 0..whole {
            let eight = _mm512_loadu_si512(words.add(group * 8).cast());
            rank += _mm512_cmple_epu64_mask(eight, wanted).count_ones();
        }
        let mask = (1u8 << rest) - 1;
        let some = _mm512_maskz_loadu_epi64(mask, words.add(whole * 8).cast());
        rank += _mm512_mask_cmple_epu64_mask(mask, some, wanted).count_ones();
    }
    rank as usize
}

/// # Safety
/// As [`super::Matches`], and the processor has AVX-512F.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn matches_avx512(pairs: *const u64, count: usize, key: u64) -> u64 {
    let wanted = _mm512_set1_epi64(key.cast_signed());
    let (whole, rest) = (count / 4, count % 4);
    // Bits 0, 2, 4 and 6 of a comparison of four pairs are those of the first words.
    let pack = |mask: u8| u64::from(mask & 1 | mask >> 1 & 2 | mask >> 2 & 4 | mask >> 3 & 8);
    let mut found = 0;
    // SAFETY: whole groups of four pairs lie within `count`; the last load touches only the words
    // of its mask.
    unsafe {
        for group in 0..whole {
            let four = _mm512_loadu_si512(pairs.add(group * 8).cast());
            let mask = _mm512_cmpeq_epi64_mask(four, wanted) & 0x55;
            if mask != 0 {
                found |= pack(mask) << (group * 4);
            }
        }
        let lanes = ((1u16 << (rest * 2)) - 1) as u8;
        let some = _mm512_maskz_loadu_epi64(lanes, pairs.add(whole * 8).cast());
        let mask = _mm512_mask_cmpeq_epi64_mask(lanes & 0x55, some, wanted);
        if mask != 0 {
            found |= pack(mask) << (whole * 4);
        }
    }
    found
}
