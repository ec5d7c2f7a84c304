//! The work of an opening: what the log had that was not yet where it belongs.

use std::time::{Duration, Instant};

/// The frames that opening a store has stored where they belong, and the time of both steps. All
/// zero where there was none.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Transactions whose frames they are; 0 in a log that does not tell them apart.
    pub transactions: u64,
    /// Frames with bytes of pages or words of the master.
    pub frames: u64,
    /// Bytes of all frames, with their headers.
    pub frame_bytes: u64,
    /// Nanoseconds in which the log was found, read and checked.
    pub read_ns: u64,
    /// Nanoseconds in which the frames were stored, durably.
    pub applied_ns: u64,
}

/// A recovery under way.
#[derive(Debug)]
pub(crate) struct Watch {
    started: Instant,
    read: Duration,
}

impl Watch {
    /// Starts to read a log.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), read: Duration::ZERO }
    }

    /// Notes that the log is read.
    pub(crate) fn log_is_read(&mut self) {
        self.read = self.started.elapsed();
    }

    /// Returns the work, which is done: so many frames, and their bytes.
    pub(crate) fn recovered(
        &self,
        transactions: u64,
        (frames, frame_bytes): (u64, u64),
    ) -> Recovered {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Recovered {
            transactions,
            frames,
            frame_bytes,
            read_ns: nanoseconds(self.read),
            applied_ns: nanoseconds(self.started.elapsed().saturating_sub(self.read)),
        }
    }
}
