//! Gather with 32-byte registers: a run of up to 128 bytes is two or four overlapping loads and
//! as many stores, without a loop.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_storeu_si128, _mm256_loadu_si256, _mm256_storeu_si256,
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
        if len >= 64 && len <= 128 {
            let (a, b) = (load32(from), load32(from.add(32)));
            let (c, d) = (load32(from.add(len - 64)), load32(from.add(len - 32)));
            store32(to, a);
            store32(to.add(32), b);
            store32(to.add(len - 64), c);
            store32(to.add(len - 32), d);
        } else if len >= 32 && len < 64 {
            let (a, b) = (load32(from), load32(from.add(len - 32)));
            store32(to, a);
            store32(to.add(len - 32), b);
        } else if len >= 16 && len < 32 {
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
