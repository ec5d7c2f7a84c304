//! x86-64: CLWB, CLFLUSHOPT or CLFLUSH, then SFENCE.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};

use super::FlushInstruction;
use crate::offset::LINE_BYTES;

pub(super) fn has(instruction: FlushInstruction) -> bool {
    let highest = __cpuid(0).eax;
    let extended = if highest >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    match instruction {
        FlushInstruction::Clwb => extended & (1 << 24) != 0,
        FlushInstruction::ClflushOpt => extended & (1 << 23) != 0,
        FlushInstruction::Clflush => __cpuid(1).edx & (1 << 19) != 0,
        FlushInstruction::DcCvap => false,
    }
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
    for line in first..end {
        // SAFETY: the line lies within the mapping, and writing a line back changes no contents.
        unsafe {
            let at = base.add((line * LINE_BYTES) as usize);
            match instruction {
                FlushInstruction::Clwb => {
                    asm!("clwb [{at}]", at = in(reg) at, options(nostack, preserves_flags));
                }
                FlushInstruction::ClflushOpt => {
                    asm!("clflushopt [{at}]", at = in(reg) at, options(nostack, preserves_flags));
                }
                FlushInstruction::Clflush => {
                    asm!("clflush [{at}]", at = in(reg) at, options(nostack, preserves_flags));
                }
                FlushInstruction::DcCvap => unreachable!("not an x86 instruction"),
            }
        }
    }
}

#[inline]
pub(super) fn store_fence() {
    // SAFETY: SFENCE has no operands, and every x86-64 processor has it.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) }
}

pub(super) fn has_line_store() -> bool {
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & (1 << 28) != 0
}

/// # Safety
/// `to` is a line of a mapping that may be written; the processor has MOVDIR64B.
#[inline]
pub(super) unsafe fn store_line(to: *mut u8, line: &[u8; 64]) {
    // SAFETY: MOVDIR64B reads the 64 bytes of `line` and writes the aligned ones at `to`.
    unsafe {
        asm!("movdir64b {to}, [{from}]", to = in(reg) to, from = in(reg) line.as_ptr(),
             options(nostack, preserves_flags));
    }
}
