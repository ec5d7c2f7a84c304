//! The contract between SQLite's calls and a database.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use crate::store::error::StoreError;
pub use crate::store::locks::Level;

/// A reason why a call fails, as SQLite distinguishes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Another connection holds a lock.
    Busy,
    /// The medium has no room.
    Full(String),
    /// Out of memory.
    Memory,
    /// The file cannot be opened.
    CannotOpen(String),
    /// The file is read-only.
    ReadOnly,
    /// The file has changed from outside.
    Corrupt(String),
    /// The medium or the kernel fails.
    Io(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let why = error.to_string();
        match error {
            StoreError::Full(_) => Self::Full(why),
            StoreError::Memory => Self::Memory,
            StoreError::PagesInUse => Self::Busy,
            StoreError::Bad(_)
            | StoreError::Foreign
            | StoreError::Scratch(_)
            | StoreError::Prepared
            | StoreError::Undecided(_)
            | StoreError::FolderMissing(_) => Self::Io(why),
            StoreError::Cut { .. } => Self::Corrupt(why),
            StoreError::SideMissing
            | StoreError::SideMismatch
            | StoreError::SideForeign
            | StoreError::SideDamaged(_)
            | StoreError::LongName(_)
            | StoreError::Version(_) => Self::CannotOpen(why),
        }
    }
}

impl From<pm::Bad> for Failure {
    fn from(bad: pm::Bad) -> Self {
        StoreError::from(bad).into()
    }
}

impl From<pm::GrowError> for Failure {
    fn from(error: pm::GrowError) -> Self {
        StoreError::from(error).into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let full = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded];
        let why = error.to_string();
        if full.contains(&error.kind()) { Self::Full(why) } else { Self::Io(why) }
    }
}

/// A main database file as one connection has it open.
pub trait MainFile: Send + Debug {
    /// Copies bytes from `at` on, zeros past the end. Returns how many bytes there are.
    ///
    /// # Errors
    /// The medium fails.
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure>;
    /// Returns the address of bytes from `at` on, which SQLite reads in place until [`Self::unfetch`], or
    /// `None` if they have to be [read](Self::read). SQLite holds a lock while it has such bytes.
    ///
    /// # Errors
    /// The medium fails.
    fn fetch(&mut self, at: u64, len: u64) -> Result<Option<*const u8>, Failure> {
        let _ = (at, len);
        Ok(None)
    }
    /// Ends SQLite's use of a fetched page.
    fn unfetch(&mut self, at: u64, page: *const u8) {
        let _ = (at, page);
    }
    /// Writes bytes that become durable with the next [`Self::commit`].
    ///
    /// # Errors
    /// Out of memory, or the file is read-only.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure>;
    /// Truncates the file, or extends it with zeros, at the next [`Self::commit`].
    ///
    /// # Errors
    /// The file is read-only.
    fn truncate(&mut self, to: u64) -> Result<(), Failure>;
    /// Returns the bytes of the file, uncommitted writes included.
    ///
    /// # Errors
    /// The medium fails.
    fn size(&mut self) -> Result<u64, Failure>;
    /// Makes all writes durable, whole or not at all. A transaction over several databases passes the name
    /// of its super-journal: its writes count once that file is gone and [`Self::end_transaction`] is
    /// called. A later call without a name rolls such a transaction back.
    ///
    /// # Errors
    /// No room, or the medium fails; nothing has changed.
    fn commit(&mut self, super_journal: Option<&[u8]>) -> Result<(), Failure>;
    /// Returns where to publish the name of the super-journal that the connection's in-memory journal has.
    /// `None` if the file takes part in no such transaction.
    fn super_journal_notice(&self) -> Option<Arc<dyn SuperJournalNotice>> {
        None
    }
    /// Handles SQLite's sync. What a VFS above this one wrote after [`Self::commit`] becomes durable as a
    /// part of the same transaction.
    ///
    /// # Errors
    /// No room, or the medium fails; nothing has changed.
    fn sync(&mut self) -> Result<(), Failure>;
    /// Ends the transaction. One over several databases counts from now on, and a size that was set after
    /// the commit becomes durable.
    ///
    /// # Errors
    /// The medium fails, or the super-journal is still there.
    fn end_transaction(&mut self) -> Result<(), Failure>;
    /// Raises the lock.
    ///
    /// # Errors
    /// Another connection holds a lock, or the kernel refuses.
    fn lock(&mut self, to: Level) -> Result<(), Failure>;
    /// Lowers the lock. Uncommitted writes are discarded.
    ///
    /// # Errors
    /// The kernel refuses.
    fn unlock(&mut self, to: Level) -> Result<(), Failure>;
    /// Returns the lock as SQLite reports it: a writer that waits for readers holds the pending lock.
    fn level(&self) -> Level;
    /// Returns whether any connection has begun to write.
    ///
    /// # Errors
    /// The kernel does not answer.
    fn is_reserved(&mut self) -> Result<bool, Failure>;
    /// Returns whether the file has been renamed or removed.
    fn has_moved(&self) -> bool;
    /// Returns whether SQLite may use its write-ahead log.
    fn has_wal_mode(&self) -> bool {
        false
    }
    /// Returns what opens the write-ahead log of this connection; `None` if the file has no WAL mode.
    fn log_opener(&self) -> Option<Arc<dyn LogOpener>> {
        None
    }
    /// Prepares the file for its write-ahead log, which SQLite is about to open.
    ///
    /// # Errors
    /// The medium has failed.
    fn prepare_for_log(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    /// Returns the address of a region of the index of the log, which stays until [`Self::unmap_index`]; `None` if the
    /// region is not there and may not be made.
    ///
    /// # Errors
    /// No room; or stock SQLite uses the log.
    fn map_index(
        &mut self,
        region: u64,
        bytes: u64,
        create: bool,
    ) -> Result<Option<*const u8>, Failure> {
        let _ = (region, bytes, create);
        Err(no_wal_mode())
    }
    /// Takes or gives up locks of the log.
    ///
    /// # Errors
    /// Busy.
    fn lock_index(&mut self, locks: IndexLock) -> Result<(), Failure> {
        let _ = locks;
        Err(no_wal_mode())
    }
    /// Ends the use of the index. If `remove`, no other connection needs its file.
    ///
    /// # Errors
    /// The kernel refuses.
    fn unmap_index(&mut self, remove: bool) -> Result<(), Failure> {
        let _ = remove;
        Ok(())
    }
    /// Makes the pages durable that a checkpoint has written.
    ///
    /// # Errors
    /// The medium fails.
    fn end_checkpoint(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    /// Returns whether writes become durable in the order in which they are made, of all files of the database.
    fn is_sequential(&self) -> bool {
        true
    }
    /// Answers a pragma of this VFS, or says why the value is invalid. `None` for other pragmas.
    fn pragma(&mut self, name: &str, value: Option<&str>) -> Option<Result<String, String>>;
    /// Closes the file. The last connection leaves a plain file.
    ///
    /// # Errors
    /// The medium fails; the next connection that opens the file recovers it.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

/// The failure of a file without WAL mode.
fn no_wal_mode() -> Failure {
    Failure::Io("the file has no WAL mode".into())
}

/// A change of the locks of a log, as SQLite asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexLock {
    /// The first lock.
    pub first: usize,
    /// The number of locks; 1 if they are shared.
    pub count: usize,
    /// Others may share them.
    pub shared: bool,
    /// They are taken; otherwise given up.
    pub take: bool,
}

/// Opens the write-ahead log of one connection.
pub trait LogOpener: Send + Sync + Debug {
    /// Opens the log, and makes it if it is not there.
    ///
    /// # Errors
    /// The database has no WAL mode, stock SQLite uses the log, or the kernel refuses.
    fn open_log(&self, path: &Path) -> Result<Box<dyn LogFile>, Failure>;
}

/// A write-ahead log as one connection has it open. SQLite's locks say who reads and writes what.
pub trait LogFile: Send + Debug {
    /// Copies bytes from `at` on, zeros past the end. Returns how many bytes there are.
    ///
    /// # Errors
    /// The medium fails.
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure>;
    /// Stores bytes, which others see at once.
    ///
    /// # Errors
    /// No room, or the medium fails.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure>;
    /// Truncates the log.
    ///
    /// # Errors
    /// The kernel refuses.
    fn truncate(&mut self, to: u64) -> Result<(), Failure>;
    /// Makes all that is stored durable.
    ///
    /// # Errors
    /// The medium fails.
    fn sync(&mut self) -> Result<(), Failure>;
    /// Returns the log's bytes.
    ///
    /// # Errors
    /// The medium fails.
    fn size(&mut self) -> Result<u64, Failure>;
}

/// A notice to other processes that a journal names a super-journal.
pub trait SuperJournalNotice: Send + Sync + Debug {
    /// Publishes the name, durably.
    ///
    /// # Errors
    /// No room, or the kernel refuses: the journal may not name the super-journal.
    fn publish(&self, super_journal: &[u8]) -> Result<(), Failure>;
    /// Withdraws the name: the journal has ended.
    fn clear(&self);
    /// Notes that a file with a journal's name is about to be created, or was.
    fn announce_file(&self, is_created: bool);
    /// Returns what changes before a file with a journal's name appears, if the marker keeps stock SQLite out. `None` while
    /// such a file is being created.
    fn epoch(&self) -> Option<JournalEpoch>;
    /// Returns whether this connection has seen the marker, and it was not cleared since, as [`JournalEpoch::cleared`] has
    /// this value.
    fn has_seen_marker(&self, cleared: u64) -> bool;
}

/// A time in which no file with a journal's name appears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalEpoch {
    /// The side file's tag.
    pub tag: u64,
    /// The word that is raised before the marker is cleared.
    pub cleared: u64,
    /// The word that is raised before and after such a file is created.
    pub announced: u64,
}

/// Options for opening a main database.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The database may be created.
    pub create: bool,
    /// The database is opened read-only.
    pub read_only: bool,
    /// SQLite overwrites deleted data, unless a pragma says otherwise.
    pub secure_delete: bool,
    /// SQLite was built to encrypt databases.
    pub may_encrypt: bool,
    /// The parameter `perdura_mode` of the URI.
    pub mode: Option<String>,
    /// The parameter `perdura_domain` of the URI.
    pub domain: Option<String>,
    /// The parameter `perdura_share` of the URI.
    pub share: Option<String>,
    /// The parameter `perdura_wal` of the URI.
    pub wal: Option<String>,
}

/// The outcome of opening a main database.
#[derive(Debug)]
pub enum Opened {
    /// The database, opened by this VFS.
    File(Box<dyn MainFile>),
    /// The underlying VFS opens the database.
    Underlying,
    /// The database cannot be opened.
    Failed(Failure),
}

/// An opener of main databases.
pub trait Opener: Send + Sync + Debug {
    /// Opens a database.
    fn open(&self, path: &Path, options: &OpenOptions) -> Opened;
}
