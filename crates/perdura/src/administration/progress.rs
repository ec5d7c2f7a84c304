//! The steps of a copy.

/// A part of making or taking in a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CopyStep {
    /// Tuples are written.
    Write,
    /// A backup is read and its checksums are compared; nothing is created yet.
    Verify,
    /// Tuples are put into a database.
    Load,
    /// The copy is read again and compared.
    Check,
}

/// The progress of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyProgress {
    /// The step that is being done.
    pub step: CopyStep,
    /// The amount done: bytes of the input in [`CopyStep::Verify`] and [`CopyStep::Load`], else
    /// tuples.
    pub done: u64,
    /// The amount to do, where it is known.
    pub total: Option<u64>,
}

/// Hears now and then how far a copy is, in the thread that makes it.
pub type Watch<'a> = &'a mut dyn FnMut(CopyProgress);

/// Tuples between two calls of a [`Watch`].
pub(crate) const WATCH_EVERY: u64 = 1024;

/// The contents of a copy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopySummary {
    /// Each table and its tuples in all partitions, in the order of the schema.
    pub tables: Vec<(String, u64)>,
    /// Bytes of the backup or of the JSON lines.
    pub bytes: u64,
    /// Tuples that were there already and stayed as they were: see [`crate::Existing::Skip`]; when
    /// partitions are put together, tuples that several of them had alike.
    pub skipped: u64,
}

impl CopySummary {
    /// Tuples of all tables.
    pub fn tuples(&self) -> u64 {
        self.tables.iter().map(|(_, tuples)| tuples).sum()
    }
}
