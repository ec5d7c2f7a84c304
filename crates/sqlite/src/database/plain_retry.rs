//! A connection's debt to stock SQLite: the file is still to be made a plain one.

/// The refusals of the kernel behind which it is asked no less often any more: at each 255th end of a read.
const REFUSALS_MAX: u32 = 8;

/// The knowledge of one connection of what is between the file and a plain one.
#[derive(Default, Debug)]
pub(crate) struct PlainRetry {
    /// Stock SQLite is kept out although it shares the database: the file could not be made a plain one in time.
    pub(crate) due: bool,
    /// The file has been cut, or may have been, and nobody knows whether its length is durable.
    pub(crate) cut_unsynced: bool,
    /// How often the kernel has refused that since it was done.
    refusals: u32,
    /// Ends of reads until it is tried again.
    skips_left: u32,
}

impl PlainRetry {
    /// The kernel refuses: it is tried at the next end of a read, then at the third one, the seventh and so on.
    pub(crate) fn refused(&mut self) {
        self.due = true;
        self.refusals = (self.refusals + 1).min(REFUSALS_MAX);
        self.skips_left = (1 << self.refusals) - 2;
    }

    /// The kernel has refused nothing.
    pub(crate) fn succeeded(&mut self) {
        if !self.due {
            (self.refusals, self.skips_left) = (0, 0);
        }
    }

    /// Counts the end of a read; returns whether nothing is to be tried at this one.
    pub(crate) fn backs_off(&mut self) -> bool {
        let skips = self.skips_left > 0;
        self.skips_left = self.skips_left.saturating_sub(1);
        skips
    }
}
