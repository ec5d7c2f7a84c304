//! The steps of a copy.

/// A part of making or taking in a copy.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new());
/// let mut checked = 0;
/// db.backup_watched(directory.path().join("backup"), &mut |progress| {
///     checked += u64::from(progress.step == CopyStep::Check);
/// })?;
/// # Ok::<(), Error>(())
/// ```
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
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new());
/// let mut show = |progress: CopyProgress| {
///     println!("{:?}: {} of {:?}", progress.step, progress.done, progress.total);
/// };
/// db.backup_watched(directory.path().join("backup"), &mut show)?;
/// # Ok::<(), Error>(())
/// ```
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

/// Called now and then with the progress of a copy, in the thread that makes it.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new());
/// fn verify(path: &std::path::Path, watch: Watch<'_>) -> Result<u64, Error> {
///     Ok(Backup::open(path)?.verify(watch)?.tuples())
/// }
/// let path = directory.path().join("backup");
/// db.backup(&path)?;
/// assert_eq!(verify(&path, &mut |_| {})?, 2);
/// # Ok::<(), Error>(())
/// ```
pub type Watch<'a> = &'a mut dyn FnMut(CopyProgress);

/// Tuples between two calls of a [`Watch`].
pub(crate) const WATCH_EVERY: u64 = 1024;

/// The contents of a copy.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new());
/// let done: CopySummary = db.backup(directory.path().join("backup"))?;
/// assert_eq!(done.tables, [("account".to_owned(), 2)]);
/// println!("{} tuples in {} bytes", done.tuples(), done.bytes);
/// # Ok::<(), Error>(())
/// ```
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
