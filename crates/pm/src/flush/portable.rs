//! Processors without a known write-back instruction: only `process` and `disk` pools work.

use std::sync::atomic::{Ordering, fence};

use super::FlushInstruction;

pub(super) fn has(_: FlushInstruction) -> bool {
    false
}

/// # Safety
/// Never called: no instruction is available.
pub(super) unsafe fn write_back(_: FlushInstruction, _: *const u8, _: u64, _: u64) {
    unreachable!("no flush instruction is available here");
}

pub(super) fn store_fence() {
    fence(Ordering::SeqCst);
}

/// No such instruction is known.
pub(super) fn has_line_store() -> bool {
    false
}

/// # Safety
/// Never called: there is no such instruction.
pub(super) unsafe fn store_line(_: *mut u8, _: &[u8; 64]) {
    unreachable!("no store of whole lines is available here");
}
