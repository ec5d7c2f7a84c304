//! Counts of what a connection has done, as `PRAGMA perdura_stats` shows them.

/// Counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Transactions that changed something.
    pub commits: u64,
    /// Lines that were flushed.
    pub lines: u64,
    /// Fences.
    pub fences: u64,
    /// Frames that were logged.
    pub frames: u64,
    /// Their bytes, with their places.
    pub bytes: u64,
    /// Times that the logs were replayed.
    pub recoveries: u64,
}

impl Stats {
    /// The counts as a line of JSON.
    pub fn json(&self) -> String {
        let Self { commits, lines, fences, frames, bytes, recoveries } = self;
        format!(
            "{{\"commits\":{commits},\"lines\":{lines},\"fences\":{fences},\"frames\":{frames},\"bytes\":{bytes},\"recoveries\":{recoveries}}}"
        )
    }
}
