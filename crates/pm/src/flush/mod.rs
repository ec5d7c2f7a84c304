//! The flush and fence instructions, found at run time.
//!
//! The flow, by domain:
//!
//! ```text
//! process:  flush = nothing                     fence = compiler fence
//! adr:      flush = CLWB | CLFLUSHOPT | CLFLUSH fence = SFENCE     (aarch64: DC CVAP, DSB)
//! eadr:     flush = nothing                     fence = SFENCE
//! disk:     flush = note the range              fence = msync of the noted pages
//! ```
//!
//! `PERDURA_FLUSH=clwb|clflushopt|clflush|dccvap` forces an instruction, for measurements and for
//! tools such as valgrind that know only CLFLUSH; an instruction that the processor lacks is
//! refused.
//!
//! A line can also be stored whole (x86: MOVDIR64B), past the caches: no flush, and the same fence.

use std::fmt;
use std::sync::OnceLock;

use crate::escaped::Escaped;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod portable;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use portable as arch;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

/// The environment variable that forces a flush instruction.
pub(crate) const FORCE_VARIABLE: &str = "PERDURA_FLUSH";

/// An instruction that writes a cache line back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FlushInstruction {
    /// x86: writes back, keeps the line.
    Clwb,
    /// x86: writes back and evicts, unordered.
    ClflushOpt,
    /// x86: writes back and evicts, ordered with itself.
    Clflush,
    /// aarch64: cleans to the point of persistence.
    DcCvap,
}

impl FlushInstruction {
    /// All instructions that are known, best first.
    pub const ALL: [Self; 4] = [Self::Clwb, Self::ClflushOpt, Self::Clflush, Self::DcCvap];

    /// The instruction's name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clwb => "clwb",
            Self::ClflushOpt => "clflushopt",
            Self::Clflush => "clflush",
            Self::DcCvap => "dccvap",
        }
    }

    /// Returns whether this processor has the instruction.
    pub fn is_available(self) -> bool {
        arch::has(self)
    }

    /// The best instruction of this processor, or the one that `PERDURA_FLUSH` names.
    ///
    /// # Errors
    /// A sentence that says what is wrong: the variable names no instruction or one that the
    /// processor lacks, or the processor can write no line back from user space.
    pub fn detect() -> Result<Self, String> {
        if let Ok(word) = std::env::var(FORCE_VARIABLE) {
            let forced = Self::ALL.into_iter().find(|one| one.name() == word).ok_or_else(|| {
                let word = Escaped(&word);
                format!("{FORCE_VARIABLE}={word}: choose clwb, clflushopt, clflush or dccvap")
            })?;
            if !forced.is_available() {
                return Err(format!("{FORCE_VARIABLE}={word}: this processor has no {word}"));
            }
            return Ok(forced);
        }
        Self::ALL.into_iter().find(|one| one.is_available()).ok_or_else(|| {
            "this processor has no instruction that writes a cache line back; use the domain `process` or `disk`"
                .into()
        })
    }

    /// Writes back the lines numbered `first..end` of the memory that starts at `base`.
    ///
    /// # Safety
    /// The lines lie within one mapping that starts at `base`, and [`Self::is_available`] holds.
    #[inline]
    pub(crate) unsafe fn write_back(self, base: *const u8, first: u64, end: u64) {
        // SAFETY: the caller's contract is the callee's.
        unsafe { arch::write_back(self, base, first, end) }
    }
}

impl fmt::Display for FlushInstruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Waits until every line that this thread has written back is durable.
#[inline]
pub(crate) fn store_fence() {
    arch::store_fence();
}

/// The processor's store of a whole line, which persists whole or not at all and which the next fence of the
/// same thread waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineStore(());

impl LineStore {
    /// The instruction, if the processor has it.
    pub(crate) fn detect() -> Option<Self> {
        static HAS: OnceLock<bool> = OnceLock::new();
        HAS.get_or_init(arch::has_line_store).then_some(Self(()))
    }

    /// Stores a line.
    ///
    /// # Safety
    /// `to` is a line of a mapping that may be written.
    #[inline]
    pub(crate) unsafe fn store(self, to: *mut u8, line: &[u8; 64]) {
        // SAFETY: the caller's contract is the callee's, and the instruction was found.
        unsafe { arch::store_line(to, line) }
    }
}
