//! Flush and fence, as the floors execute them.
//!
//! The best instruction that the processor has writes a line back: CLWB (the line stays cached),
//! else CLFLUSHOPT, else CLFLUSH. Each is issued through `asm!`, which the compiler takes for an
//! access to any memory: stores before it in the program are before it in the machine.

use workloads::StoreError;

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// The instruction that writes a line back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Writes back, keeps the line, not ordered but by a fence.
    Clwb,
    /// Writes back, drops the line, not ordered but by a fence.
    ClflushOpt,
    /// Writes back, drops the line, ordered.
    Clflush,
}

#[cfg(target_arch = "x86_64")]
impl Flush {
    /// The best that this processor has.
    ///
    /// # Errors
    /// If it has none.
    pub(crate) fn detect() -> Result<Self, StoreError> {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        let extended = if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
        if extended & 1 << 24 != 0 {
            Ok(Self::Clwb)
        } else if extended & 1 << 23 != 0 {
            Ok(Self::ClflushOpt)
        } else if __cpuid(1).edx & 1 << 19 != 0 {
            Ok(Self::Clflush)
        } else {
            Err(StoreError::Unsupported("this processor has no cache line flush".into()))
        }
    }

    /// Writes back the line that contains `at`.
    ///
    /// # Safety
    /// `at` is in mapped memory, and the processor has the instruction.
    #[inline(always)]
    pub(crate) unsafe fn line(self, at: *const u8) {
        use std::arch::asm;
        // SAFETY: the caller's promise; writing a line back changes no contents.
        unsafe {
            match self {
                Self::Clwb => asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags)),
                Self::ClflushOpt => {
                    asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags));
                }
                Self::Clflush => {
                    asm!("clflush [{}]", in(reg) at, options(nostack, preserves_flags));
                }
            }
        }
    }

    /// Waits until every line written back so far is in the persistence domain.
    #[inline(always)]
    pub(crate) fn fence(self) {
        // SAFETY: SFENCE has no operands, and every x86-64 processor has it.
        unsafe { std::arch::asm!("sfence", options(nostack, preserves_flags)) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Flush {
    /// # Errors
    /// Always: only x86-64 is written.
    pub(crate) fn detect() -> Result<Self, StoreError> {
        Err(StoreError::Unsupported("the floors need x86-64".into()))
    }

    /// Never called: [`Flush::detect`] gives out no value here.
    ///
    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn line(self, _: *const u8) {}

    /// Never called: [`Flush::detect`] gives out no value here.
    pub(crate) fn fence(self) {}
}
