//! Retries of making the file a plain one, so that stock SQLite can use it again.

/// The number of refusals after which the interval grows no further: one try at each 255th end of a read.
const REFUSALS_MAX: u32 = 8;

/// One connection's view of what keeps the file from being plain.
#[derive(Default, Debug)]
pub(crate) struct PlainRetry {
    /// The database is shared with stock SQLite, but could not be made plain in time.
    pub(crate) due: bool,
    /// The file has been cut, or may have been, and its length may not be durable.
    pub(crate) cut_unsynced: bool,
    /// Refusals since the last success.
    refusals: u32,
    /// Ends of reads to skip before the next try.
    skips_left: u32,
}

impl PlainRetry {
    /// Records a refusal. The next tries come at the next end of a read, then at the third, the seventh,
    /// and so on.
    pub(crate) fn refused(&mut self) {
        self.due = true;
        self.refusals = (self.refusals + 1).min(REFUSALS_MAX);
        self.skips_left = (1 << self.refusals) - 2;
    }

    /// Records that the kernel refused nothing.
    pub(crate) fn succeeded(&mut self) {
        if !self.due {
            (self.refusals, self.skips_left) = (0, 0);
        }
    }

    /// Counts the end of a read; returns whether this one is skipped.
    pub(crate) fn backs_off(&mut self) -> bool {
        let skips = self.skips_left > 0;
        self.skips_left = self.skips_left.saturating_sub(1);
        skips
    }
}
