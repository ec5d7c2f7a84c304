//! Copies between a memory and the stack or a row buffer.
//!
//! A tuple's columns are a handful of short runs, each of a length that is known only at run time;
//! one call of `memcpy` a run costs more than the copy. [`Copier`] is chosen once when a memory is
//! made, so that no build flag and no check per copy is needed.

#[cfg(target_arch = "x86_64")]
mod x86_64;

/// Copies runs of bytes, one behind the other.
///
/// # Safety
/// Each `(from, len)` is readable, `out` is writable for the sum of the lengths, and they do not
/// overlap.
pub(crate) type Gather = unsafe fn(base: *const u8, parts: &[crate::Range], out: *mut u8);

/// The fastest [`Gather`] of this processor.
pub(crate) fn gather() -> Gather {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        return x86_64::gather_avx;
    }
    gather_portable
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
    use super::{gather, gather_portable};
    use crate::Range;

    #[test]
    fn the_wide_copy_equals_the_portable_one_for_every_length() {
        let source: Vec<u8> = (0..4096u32).map(|i| (i * 31 % 251) as u8).collect();
        for first in 0..300u64 {
            let parts = [Range::new(first % 7, first), Range::new(900 + first % 5, 300 - first)];
            let (mut wide, mut plain) = (vec![0u8; 301], vec![0u8; 301]);
            // SAFETY: both parts lie within `source`, their lengths add up to 300 of 301 bytes.
            unsafe {
                gather()(source.as_ptr(), &parts, wide.as_mut_ptr());
                gather_portable(source.as_ptr(), &parts, plain.as_mut_ptr());
            }
            assert_eq!(wide, plain, "first part of {first} bytes");
        }
    }
}
