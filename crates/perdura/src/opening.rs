//! The parts of the time that opening takes.

use std::time::{Duration, Instant};

/// The time of each part of [`crate::Database::open`], in the order in which they ran; `None` for a
/// database that was created by this handle.
///
/// No part depends on how much data there is, but for [`Self::recovery`] in engines that load
/// checkpoints or replay logs.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new());
/// assert_eq!(db.opening_times(), None, "this handle has created it");
/// db.close()?;
/// let db = Database::open(directory.path().join("accounts"), &Options::new())?;
/// let times: OpeningTimes = db.opening_times().expect("it was opened");
/// println!("recovery took {:?}", times.recovery);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OpeningTimes {
    /// Opening and locking the file, checking its header, reserving addresses, mapping.
    pub map: Duration,
    /// Finishing the allocator's mini-transactions, reading the description and the schema.
    pub describe: Duration,
    /// Marking the pool as open, in both copies of its header.
    pub mark: Duration,
    /// Recovery of all partitions.
    pub recovery: Duration,
}

/// A clock whose laps are the parts.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start or the last lap.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}
