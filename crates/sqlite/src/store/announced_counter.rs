//! The change counter of page 1 that is announced before the marker is set.
//!
//! It stands for a commit that has not stored its own. If that one fails, or is rolled back, others may have read the
//! old content under it, and the next commit needs a later one.

/// An announced change counter.
#[derive(Debug, Default)]
pub(super) struct AnnouncedCounter {
    /// Page 1 has it.
    announced: bool,
    /// Its commit failed or was rolled back.
    exposed: bool,
}

impl AnnouncedCounter {
    /// Notes that page 1 gets one.
    pub(super) fn announce(&mut self) {
        self.announced = true;
    }

    /// Notes that a commit begins. One that is still announced belongs to a commit that failed or was rolled back.
    pub(super) fn begin_commit(&mut self) {
        self.exposed |= std::mem::take(&mut self.announced);
    }

    /// Returns whether others may have read the old content under it.
    #[inline]
    pub(super) fn is_exposed(&self) -> bool {
        self.exposed
    }

    /// Notes that a commit has stored its own.
    #[inline]
    pub(super) fn note_stored(&mut self) {
        *self = Self::default();
    }
}
