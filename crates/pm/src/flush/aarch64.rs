//! aarch64: DC CVAP (FEAT_DPB), then DSB.

use std::arch::asm;

use super::FlushInstruction;
use crate::offset::LINE_BYTES;

pub(super) fn has(instruction: FlushInstruction) -> bool {
    instruction == FlushInstruction::DcCvap && std::arch::is_aarch64_feature_detected!("dpb")
}

/// # Safety
/// The lines `first..end` lie within one mapping that starts at `base`; the processor has
/// `instruction`.
#[inline]
pub(super) unsafe fn write_back(
    instruction: FlushInstruction,
    base: *const u8,
    first: u64,
    end: u64,
) {
    assert!(instruction == FlushInstruction::DcCvap, "not an aarch64 instruction");
    for line in first..end {
        // SAFETY: the line lies within the mapping; DC CVAP (here by its encoding as a system
        // instruction) changes no contents.
        unsafe {
            let at = base.add((line * LINE_BYTES) as usize);
            asm!("sys #3, c7, c12, #1, {at}", at = in(reg) at, options(nostack, preserves_flags));
        }
    }
}

#[inline]
pub(super) fn store_fence() {
    // SAFETY: a barrier has no operands and changes no contents.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// No instruction of this architecture is promised to persist whole in a line.
pub(super) fn has_line_store() -> bool {
    false
}

/// # Safety
/// Never called: there is no such instruction.
pub(super) unsafe fn store_line(_: *mut u8, _: &[u8; 64]) {
    unreachable!("no store of whole lines is available here");
}
