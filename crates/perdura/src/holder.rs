//! The holder of a partition, for messages.

use std::fmt;

/// The holder of a partition for which a call waited until its time was over.
///
/// ```
/// # use perdura::*;
/// # use std::time::Duration;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, _) = accounts(&Options::new().engine(EngineKind::NvmInp));
/// let tx = db.begin()?;
/// let busy = std::thread::scope(|scope| {
///     let other = || db.try_begin(Duration::from_millis(1)).map(|_| ());
///     scope.spawn(other).join().unwrap()
/// });
/// let Err(Error::Busy { by, .. }) = busy else { panic!("{busy:?}") };
/// let by: Holder = by;
/// println!("the partition is taken by {by}");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Holder {
    /// A transaction that writes.
    Writer,
    /// Transactions that read.
    Readers,
    /// A call that copies or checks it, such as a backup.
    Copy,
    /// An owner: see [`crate::Partition::exclusive`].
    Owner,
    /// A step in the background.
    Background,
    /// Open transactions, in an engine that runs many at the same time: as many as there can be, or
    /// any where the whole partition was wanted.
    Transactions,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Writer => "a transaction that writes",
            Self::Readers => "transactions that read",
            Self::Copy => "a backup, a dump or a check",
            Self::Owner => "a thread that owns it",
            Self::Background => "a step in the background",
            Self::Transactions => "transactions that are open",
        })
    }
}
