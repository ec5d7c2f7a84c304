//! The reasons why a backup is refused.

use engines::below::Escaped;

/// The version of the backup format that this build writes and reads.
pub(crate) const BACKUP_VERSION: u32 = 1;

/// A backup cannot be restored. Nothing was created.
///
/// ```
/// # use perdura::*;
/// # let directory = tempfile::tempdir().unwrap();
/// let path = directory.path().join("notes");
/// std::fs::write(&path, [b'x'; 4096]).unwrap();
/// let refused = Backup::open(&path).map(|_| ());
/// assert!(matches!(refused, Err(Error::Backup(BackupError::NotABackup { .. }))), "{refused:?}");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The file is something else.
    #[error(
        "{path}: is no backup of a Perdura database; name a file that `perdura pool backup` or `Database::backup` has written", path = Escaped(.path))]
    NotABackup {
        /// The file.
        path: String,
    },
    /// It is a base backup, which is nothing without the log.
    #[error(
        "{path}: is a base backup: it is restored with the archive of the log that the database has had (`--archive DIR`, `Backup::restore_until`)", path = Escaped(.path))]
    NeedsArchive {
        /// The file.
        path: String,
    },
    /// It is no base backup, and has no use for an archive.
    #[error(
        "{path}: is the copy of one moment, and no base backup: restore it without an archive, or name a file that `perdura pool backup --archive` has written", path = Escaped(.path))]
    NoBase {
        /// The file.
        path: String,
    },
    /// The moment that is asked for is not one that the backup can be restored to.
    #[error("{path}: {what}", path = Escaped(.path), what = Escaped(.what))]
    Moment {
        /// The file.
        path: String,
        /// The reason, and what to do.
        what: String,
    },
    /// The backup is of another version of the format.
    #[error(
        "{path}: has backup format version {found}; this build reads version {BACKUP_VERSION}: use a build that reads it", path = Escaped(.path))]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
    },
    /// The backup's description is whole, but has something that this build does not know.
    #[error(
        "{path}: its description has something that this build does not know ({why}); use the build that has written it, or a newer one", path = Escaped(.path), why = Escaped(.why))]
    Unknown {
        /// The file.
        path: String,
        /// The unknown thing.
        why: String,
    },
    /// The backup is not what was written.
    #[error("{path}: damaged at byte {at}: {what}; nothing was restored. Use another backup", path = Escaped(.path), what = Escaped(.what))]
    Damaged {
        /// The file.
        path: String,
        /// The offset at which the error begins.
        at: u64,
        /// The error, in words.
        what: String,
    },
    /// The number of partitions asked for cannot be made from those in the backup.
    #[error(
        "{path}: has {found} partitions, which cannot be put into {wanted}; ask for {found}, or a number that divides it", path = Escaped(.path))]
    Partitions {
        /// The file.
        path: String,
        /// Partitions in the backup.
        found: u32,
        /// Partitions asked for.
        wanted: u32,
    },
    /// The database had an engine that this build does not have.
    #[error(
        "{path}: is of engine `{engine}`, which this build does not have; name another engine to restore it into", path = Escaped(.path), engine = Escaped(.engine))]
    UnknownEngine {
        /// The file.
        path: String,
        /// The engine's name.
        engine: String,
    },
    /// Partitions that are put together have different tuples under one key.
    #[error(
        "{path}: partition {partition} has a tuple of table `{table}` whose primary key another one has too, with other values; keep the number of partitions", path = Escaped(.path), table = Escaped(.table))]
    Collision {
        /// The file.
        path: String,
        /// The partition in the backup.
        partition: u32,
        /// The table.
        table: String,
    },
}
