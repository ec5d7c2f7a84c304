//! A store that can be measured: the operations that it must have.
//!
//! Invariants that every implementation keeps:
//! - [`Session::update`] is one transaction: all its columns or none of them survive.
//! - What a session promised under its [`Commit`] form survives a kill of the process.
//! - A session belongs to one partition and to one thread; it may hold its partition's lock for as
//!   long as it lives, so a second session on the same partition may be refused as busy.

use std::path::{Path, PathBuf};

use pm::Escaped;

use crate::tuple::{COLUMN_BYTES, COLUMNS, Column, ROW_BYTES};

/// The moment at which an update is durable. Stores are opened with the form that the driver is
/// given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// An update is durable when [`Session::update`] returns.
    Durable,
    /// An update is durable when the [`Session::sync`] returns that follows every so many updates
    /// of a partition.
    Grouped(u32),
}

/// The reason why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The key was expected to exist.
    #[error("key {key} does not exist")]
    Missing {
        /// The key that was looked for.
        key: u64,
    },
    /// The transaction was rolled back and may be tried again.
    #[error("the transaction was aborted")]
    Aborted,
    /// Another session holds the partition.
    #[error("partition {partition} is held by another session; drop that session first")]
    Busy {
        /// Index of the partition.
        partition: usize,
    },
    /// The store has no such partition.
    #[error("partition {partition} does not exist: the store has {partitions}")]
    NoPartition {
        /// Index that was asked for.
        partition: usize,
        /// The number of partitions.
        partitions: usize,
    },
    /// The store has no room for another tuple.
    #[error("{path}: full at {tuples} tuples; create it for more", path = Escaped(.path.display()))]
    Full {
        /// The file that is full.
        path: PathBuf,
        /// The number of tuples that it was created for.
        tuples: u64,
    },
    /// The file is not what this store writes.
    #[error("{path}: {what}", path = Escaped(.path.display()), what = Escaped(.what))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// The operating system refused.
    #[error("{path}: {source}", path = Escaped(.path.display()), source = Escaped(.source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The store cannot do this on this machine, or in this version.
    #[error("{text}", text = Escaped(.0))]
    Unsupported(String),
    /// An error of the store's own.
    #[error(transparent)]
    Engine(Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// An operating system error about `path`.
    #[must_use]
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// An error of the store's own.
    pub fn engine(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Engine(error.into())
    }
}

/// A row as a reader receives it: ten columns, owned by the caller, reused for every read.
#[derive(Clone)]
pub struct RowBuffer {
    columns: [Column; COLUMNS],
}

impl RowBuffer {
    /// A row of zeroes.
    #[must_use]
    pub fn new() -> Self {
        Self { columns: [[0; COLUMN_BYTES]; COLUMNS] }
    }

    /// The ten columns.
    #[must_use]
    pub fn columns(&self) -> &[Column; COLUMNS] {
        &self.columns
    }

    /// The ten columns, to be filled.
    pub fn columns_mut(&mut self) -> &mut [Column; COLUMNS] {
        &mut self.columns
    }

    /// All columns back to back, to be filled: [`ROW_BYTES`] bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.columns.as_flattened_mut();
        debug_assert_eq!(bytes.len(), ROW_BYTES);
        bytes
    }
}

impl Default for RowBuffer {
    fn default() -> Self {
        Self::new()
    }
}

/// A database under measurement, divided into partitions.
pub trait Store: Sync {
    /// One partition as one thread uses it.
    type Session<'a>: Session
    where
        Self: 'a;

    /// The name under which figures are printed.
    fn name(&self) -> &str;

    /// Returns the number of partitions; tuple `k` belongs to partition `k % partitions`.
    fn partitions(&self) -> usize;

    /// Begins to use a partition in the calling thread.
    ///
    /// # Errors
    /// [`StoreError::NoPartition`], [`StoreError::Busy`], or the store's own.
    fn session(&self, partition: usize) -> Result<Self::Session<'_>, StoreError>;

    /// Bytes that the file system has allocated for the store's files (`st_blocks`); zero for a
    /// store without files.
    ///
    /// # Errors
    /// If the files cannot be examined.
    fn footprint_bytes(&self) -> Result<u64, StoreError>;
}

/// One partition as one thread uses it.
pub trait Session {
    /// Inserts a new tuple while loading; durable after [`Session::finish_load`].
    ///
    /// # Errors
    /// The store's own.
    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError>;

    /// Makes everything loaded durable and visible.
    ///
    /// # Errors
    /// The store's own.
    fn finish_load(&mut self) -> Result<(), StoreError>;

    /// One transaction: copies all ten columns of a tuple out; false if there is no such tuple.
    ///
    /// # Errors
    /// The store's own.
    fn read(&mut self, key: u64, row: &mut RowBuffer) -> Result<bool, StoreError>;

    /// One transaction: replaces `values.len()` columns from `first_column` on.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Aborted`], or the store's own.
    fn update(
        &mut self,
        key: u64,
        first_column: usize,
        values: &[Column],
    ) -> Result<(), StoreError>;

    /// Makes every update that has returned durable.
    ///
    /// # Errors
    /// The store's own.
    fn sync(&mut self) -> Result<(), StoreError>;
}

/// Bytes that the file system has allocated (`st_blocks`) for a file, or for a directory with
/// everything below it.
///
/// # Errors
/// If something cannot be examined.
pub fn allocated_bytes(path: &Path) -> Result<u64, StoreError> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(path).map_err(|error| StoreError::io(path, error))?;
    let mut bytes = metadata.blocks() * 512;
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).map_err(|error| StoreError::io(path, error))? {
            let entry = entry.map_err(|error| StoreError::io(path, error))?;
            bytes += allocated_bytes(&entry.path())?;
        }
    }
    Ok(bytes)
}
