//! The size that a log keeps when it gives room back: one that later deletions never outgrow.
//!
//! A put takes room for the deletion of its row ([`room`](crate::room)), which works in a full
//! memory. The most that any has asked for stands in the log's first line, durably before the put
//! goes on; it grows by powers of two, so that it seldom changes.

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, Memory, Off};

/// Bytes that a log keeps at least: what is not worth giving back.
pub const KEPT_LOG_BYTES: u64 = 64 << 10;
/// The place in the first line of a log of the bytes of frames that a deletion may need.
const KEPT_AT: u64 = 24;

/// Bytes of frames that the log at `at` has to have room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept(u64);

impl Kept {
    /// Reads what a log has to keep; not more than there is, whatever the word says.
    pub(crate) fn read<M: Memory>(memory: &M, at: u64) -> Result<Self, Bad> {
        Ok(Self(memory.load(Off::new(at + KEPT_AT), Acquire)?.min(memory.len())))
    }

    /// Bytes of frames that the log keeps room for.
    pub(crate) fn bytes(self) -> u64 {
        self.0.max(KEPT_LOG_BYTES)
    }

    /// The word, for the first line of another log in the place of this one.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// Notes durably that a deletion may need so many bytes of frames in the log at `at`.
    pub(crate) fn ask<M: Memory>(&mut self, memory: &M, at: u64, frames: u64) {
        if frames <= self.bytes() {
            return;
        }
        self.0 = frames.next_power_of_two();
        let place = Off::<u64>::new(at + KEPT_AT);
        memory.store(place, self.0);
        memory.flush_word(place);
        memory.fence();
    }
}
