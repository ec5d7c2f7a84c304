//! A connection's debt to stock SQLite: the file is still to be made a plain one.

/// The refusals of the kernel behind which it is asked no less often any more: at each 255th end of a read.
const REFUSALS_MAX: u32 = 8;

/// The knowledge of one connection of what is between the file and a plain one.
#[derive(Default, Debug)]
pub(crate) struct Debt {
    /// Stock SQLite is kept out although it shares the database: the file could not be made a plain one in time.
    pub(crate) owes: bool,
    /// The file has been cut, or may have been, and nobody knows whether its length is durable.
    pub(crate) cut_unsynced: bool,
    /// How often the kernel has refused that since it was done.
    refusals: u32,
    /// Ends of reads until it is tried again.
    left: u32,
}

impl Debt {
    /// The kernel refuses: it is tried at the next end of a read, then at the third one, the seventh and so on.
    pub(crate) fn refuse(&mut self) {
        self.owes = true;
        self.refusals = (self.refusals + 1).min(REFUSALS_MAX);
        self.left = (1 << self.refusals) - 2;
    }

    /// The kernel has refused nothing.
    pub(crate) fn accept(&mut self) {
        if !self.owes {
            (self.refusals, self.left) = (0, 0);
        }
    }

    /// Counts the end of a read; returns whether nothing is to be tried at this one.
    pub(crate) fn rests(&mut self) -> bool {
        let rests = self.left > 0;
        self.left = self.left.saturating_sub(1);
        rests
    }
}
