//! The contract between SQLite's calls and a database: what the C functions call.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use crate::store::error::StoreError;
pub use crate::store::locks::Level;

/// A reason why a call fails, as SQLite tells reasons apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Another connection is in the way.
    Busy,
    /// There is no room on the medium.
    Full(String),
    /// No memory.
    Memory,
    /// The file cannot be opened.
    CannotOpen(String),
    /// The file may not be written to.
    ReadOnly,
    /// The file is not what it was.
    Corrupt(String),
    /// The medium, or the kernel, fails.
    Io(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let why = error.to_string();
        match error {
            StoreError::Full(_) => Self::Full(why),
            StoreError::Memory => Self::Memory,
            StoreError::PagesInUse => Self::Busy,
            StoreError::Bad(_) | StoreError::Prepared | StoreError::Undecided(_) => Self::Io(why),
            StoreError::Cut { .. } => Self::Corrupt(why),
            StoreError::SideMissing
            | StoreError::SideMismatch
            | StoreError::SideDamaged(_)
            | StoreError::LongName(_)
            | StoreError::Version(_) => Self::CannotOpen(why),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let full = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded];
        let why = error.to_string();
        if full.contains(&error.kind()) { Self::Full(why) } else { Self::Io(why) }
    }
}

/// A main database file that one connection has open.
pub trait MainFile: Send + Debug {
    /// Copies bytes from `at` on; those behind the end are zero. Returns how many there are.
    ///
    /// # Errors
    /// The medium fails.
    fn read(&mut self, at: u64, out: &mut [u8]) -> Result<usize, Failure>;
    /// The address of bytes from `at` on, for SQLite to read them there until [`Self::unfetch`]; `None` if they are
    /// to be [read](Self::read). It asks while it has a lock, and gives all back before it gives that up.
    ///
    /// # Errors
    /// The medium fails.
    fn fetch(&mut self, at: u64, len: u64) -> Result<Option<*const u8>, Failure> {
        let _ = (at, len);
        Ok(None)
    }
    /// SQLite does not read there any more.
    fn unfetch(&mut self, at: u64, page: *const u8) {
        let _ = (at, page);
    }
    /// Takes bytes that become durable with the next [`Self::commit`].
    ///
    /// # Errors
    /// No memory, or the file may not be written to.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failure>;
    /// Cuts the file off, or lets it end with zeros, with the next [`Self::commit`].
    ///
    /// # Errors
    /// The file may not be written to.
    fn truncate(&mut self, to: u64) -> Result<(), Failure>;
    /// Bytes of the file, with what has been written.
    ///
    /// # Errors
    /// The medium fails.
    fn size(&mut self) -> Result<u64, Failure>;
    /// Makes durable all that was written, whole or not at all. If the transaction is one with those of other
    /// databases, it has the name of their super-journal: then all counts once that file is gone and [`Self::end_transaction`] is
    /// called. Without a name behind such a commit the transaction is rolled back.
    ///
    /// # Errors
    /// No room, or the medium fails; nothing has changed then.
    fn commit(&mut self, super_journal: Option<&[u8]>) -> Result<(), Failure>;
    /// The journal that the connection has in memory names this super-journal from now on: others have to find that
    /// out. `None` if that is not this file's business.
    fn super_journal_notice(&self) -> Option<Arc<dyn SuperJournalNotice>> {
        None
    }
    /// SQLite syncs the file: what was written since [`Self::commit`], by a VFS above that passes it on no sooner,
    /// becomes durable, as a part of the same transaction.
    ///
    /// # Errors
    /// No room, or the medium fails; nothing has changed then.
    fn sync(&mut self) -> Result<(), Failure>;
    /// The transaction has ended: one with those of other databases counts from now on, and a new size that was
    /// written behind the commit becomes durable.
    ///
    /// # Errors
    /// The medium fails, or the super-journal is still there.
    fn end_transaction(&mut self) -> Result<(), Failure>;
    /// Raises the lock.
    ///
    /// # Errors
    /// Somebody is in the way, or the kernel refuses.
    fn lock(&mut self, to: Level) -> Result<(), Failure>;
    /// Lowers the lock. What was written and not committed is forgotten.
    ///
    /// # Errors
    /// The kernel refuses.
    fn unlock(&mut self, to: Level) -> Result<(), Failure>;
    /// The lock that it has, as SQLite tells it: that of one who waits for the readers to leave is the pending one.
    fn level(&self) -> Level;
    /// Returns whether some connection is going to write.
    ///
    /// # Errors
    /// The kernel would not say.
    fn is_reserved(&mut self) -> Result<bool, Failure>;
    /// Returns whether the file has lost its name.
    fn has_moved(&self) -> bool;
    /// Answers a pragma of ours: `None` if it is none, else its answer, or why the value is not possible.
    fn pragma(&mut self, name: &str, value: Option<&str>) -> Option<Result<String, String>>;
    /// Closes it. If nobody else has it open the file is a plain one then.
    ///
    /// # Errors
    /// The medium fails; the next one that opens the file recovers it.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

/// A thing that tells others that a journal names a super-journal.
pub trait SuperJournalNotice: Send + Sync + Debug {
    /// From now on it does, durably.
    ///
    /// # Errors
    /// No room, or the kernel refuses: the journal may not name it.
    fn publish(&self, super_journal: &[u8]) -> Result<(), Failure>;
    /// The journal has ended, and names none any more.
    fn clear(&self);
}

/// OpenOptions a main database is to be opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// It may be made.
    pub create: bool,
    /// It is only to be read.
    pub read_only: bool,
    /// SQLite overwrites what is deleted, unless a pragma says otherwise.
    pub secure_delete: bool,
    /// The parameter `perdura_mode` of the URI.
    pub mode: Option<String>,
    /// The parameter `perdura_domain` of the URI.
    pub domain: Option<String>,
    /// The parameter `perdura_share` of the URI.
    pub share: Option<String>,
}

/// The outcome of opening a main database.
#[derive(Debug)]
pub enum Opened {
    /// It is ours.
    File(Box<dyn MainFile>),
    /// The VFS below is to open it.
    Underlying,
    /// Nobody can open it.
    Failed(Failure),
}

/// A thing that opens main databases.
pub trait Opener: Send + Sync + Debug {
    /// Opens one.
    fn open(&self, path: &Path, options: &OpenOptions) -> Opened;
}
