//! Errors below the allocator.

use crate::escaped::Escaped;
use std::io;
use std::path::{Path, PathBuf};

use crate::domain::Domain;
use crate::place::Whereabouts;

/// The advice about something foreign that is in the way.
pub(crate) const FOREIGN: &str = "is in the way, and is not what an attempt that was cut off leaves; give it another name, or remove it";

/// Bytes that came from a medium are not what they must be. Never a panic: the reader gets this
/// and decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// A stored offset points outside the memory.
    #[error("offset {start:#x} + {len} lies outside the {limit} bytes of the memory")]
    OutOfBounds {
        /// First byte asked for.
        start: u64,
        /// Bytes asked for.
        len: u64,
        /// Bytes that there are.
        limit: u64,
    },
    /// A stored offset is not aligned as its object must be.
    #[error("offset {at:#x} is not a multiple of {align}")]
    Misaligned {
        /// The offset.
        at: u64,
        /// The number that it must be a multiple of.
        align: u64,
    },
    /// The bytes at `at` cannot be what should stand there.
    #[error("damaged {what} at offset {at:#x}")]
    Damaged {
        /// The structure.
        what: &'static str,
        /// The place where it starts.
        at: u64,
    },
    /// The process is a forked child of the one that opened the pool.
    #[error(
        "the pool belongs to the parent process; open it there only, or close it before the fork"
    )]
    Forked,
    /// The medium reported an error under the mapping, or a sync failed.
    #[error(
        "the medium failed under this pool; nothing more is acknowledged: close it and run `perdura pool check`"
    )]
    Poisoned,
}

/// A memory could not be made larger.
#[derive(Debug, thiserror::Error)]
pub enum GrowError {
    /// The size limit that was chosen when the pool was created is reached.
    #[error("the pool is full: {limit} bytes, its limit")]
    Limit {
        /// The limit in bytes.
        limit: u64,
    },
    /// The process may have no more addresses to map it at.
    #[error(
        "a pool of {wanted} bytes needs more addresses than this process may have (RLIMIT_AS, `ulimit -v`)"
    )]
    Addresses {
        /// Size that was wanted in bytes.
        wanted: u64,
    },
    /// The medium has no room, or refused.
    #[error("the medium has no room for a pool of {wanted} bytes: {source}", source = Escaped(.source))]
    Medium {
        /// Size that was wanted in bytes.
        wanted: u64,
        /// The kernel's error.
        source: io::Error,
    },
}

/// A pool file could not be created or opened: nothing on the medium was changed. Or it was closed,
/// and is not what its path leads to ([`PoolError::Removed`], [`PoolError::Elsewhere`]).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The kernel refused.
    #[error("{path}: cannot {doing}: {source}", path = Escaped(.path.display()), source = Escaped(.source))]
    Io {
        /// The pool file.
        path: PathBuf,
        /// The thing that was tried.
        doing: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// Something is already at this path.
    #[error("{path}: exists already; open it, or choose another path", path = Escaped(.path.display()))]
    Exists {
        /// The pool file.
        path: PathBuf,
    },
    /// A file has the name that the pool would have until it is finished, and is none that a creation has
    /// left which was cut off.
    #[error("{path}: {FOREIGN}", path = Escaped(.path.display()))]
    InTheWay {
        /// The file.
        path: PathBuf,
    },
    /// The path does not lead to an ordinary file.
    #[error("{path}: is {what}, not a regular file; a pool must be a regular file", path = Escaped(.path.display()))]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of thing that it is instead.
        what: &'static str,
    },
    /// Another handle has the pool open, in this process or in another.
    #[error(
        "{path}: is open already, {holder}; a pool has one process and one handle at a time: close the other one first", path = Escaped(.path.display()), holder = Escaped(.holder))]
    InUse {
        /// The pool file.
        path: PathBuf,
        /// The process that has it open, as `by process 1234`.
        holder: String,
    },
    /// The file or the directory was removed while it was open, by whatever name it had.
    #[error(
        "{path}: was removed while it was open here, and what was written to it is lost; what has its name now is untouched", path = Escaped(.path.display()))]
    Removed {
        /// The file or directory that was removed.
        path: PathBuf,
    },
    /// The path leads elsewhere than when it was opened. Nothing is lost.
    #[error(
        "{path}: leads elsewhere by now than when it was opened; what was opened, and written to, is {}, and all of it is there", 
        now.as_ref().map_or("under another name".into(), |now| Escaped(now.display()).to_string()), path = Escaped(.path.display()))]
    Elsewhere {
        /// The path that was opened.
        path: PathBuf,
        /// The place where that is now, as far as it is known.
        now: Option<PathBuf>,
    },
    /// The file is shorter than a header.
    #[error("{path}: is not a Perdura pool: {bytes} bytes are too few for its header", path = Escaped(.path.display()))]
    TooShort {
        /// The pool file.
        path: PathBuf,
        /// The file's length.
        bytes: u64,
    },
    /// Neither header copy begins with the magic number.
    #[error("{path}: is not a Perdura pool (no header found)", path = Escaped(.path.display()))]
    NotAPool {
        /// The pool file.
        path: PathBuf,
    },
    /// Both copies of the header are damaged.
    #[error("{path}: both copies of the pool header are damaged ({why}); restore a backup", path = Escaped(.path.display()))]
    HeaderDamaged {
        /// The pool file.
        path: PathBuf,
        /// The fault of the first copy.
        why: &'static str,
    },
    /// The pool was written by another version of the format.
    #[error("{path}: has format version {found}; this build reads version {supported}{hint}", path = Escaped(.path.display()))]
    Version {
        /// The pool file.
        path: PathBuf,
        /// The version in the header.
        found: u32,
        /// The version that this build reads.
        supported: u32,
        /// The advice: what to do.
        hint: &'static str,
    },
    /// The pool uses a feature that this build does not know.
    #[error(
        "{path}: uses features {flags:#x} that this build does not know; open it with a newer build", path = Escaped(.path.display()))]
    Features {
        /// The pool file.
        path: PathBuf,
        /// The unknown feature bits.
        flags: u64,
    },
    /// The pool was written on a machine with another byte order, pointer width or line size.
    #[error("{path}: was written on a machine with {what}; dump it there and load it here", path = Escaped(.path.display()))]
    OtherMachine {
        /// The pool file.
        path: PathBuf,
        /// The thing that differs.
        what: &'static str,
    },
    /// The file is shorter than its header says.
    #[error(
        "{path}: is truncated: its header says {expected} bytes, the file has {found}; restore a backup", path = Escaped(.path.display()))]
    Truncated {
        /// The pool file.
        path: PathBuf,
        /// Bytes that the header promises.
        expected: u64,
        /// Bytes that the file has.
        found: u64,
    },
    /// The file has holes, as a sparse copy has, and there is no room to fill them.
    #[error(
        "{path}: is a sparse copy, and its medium has no room for all of it: {missing} bytes are missing in the file, {free} are free; make room, or copy it with its holes filled to another place; nothing was changed ({source})", path = Escaped(.path.display()), source = Escaped(.source))]
    Holes {
        /// The pool file.
        path: PathBuf,
        /// Bytes that have no space on the medium.
        missing: u64,
        /// Bytes that are free there.
        free: u64,
        /// The kernel's error.
        source: io::Error,
    },
    /// A `process` pool was not closed before the machine went down.
    #[error(
        "{path}: was open when the machine went down, and its durability domain, {domain}, promises nothing across a reboot: the pool may be missing any part of what was written since it was last closed; restore a backup, take what is left into a new database with `perdura pool check FILE --repair-into NEW`, or open it as it is with `accept_loss`", path = Escaped(.path.display()), domain = Escaped(.domain))]
    Rebooted {
        /// The pool file.
        path: PathBuf,
        /// The domain: `process`, or one that is modelled.
        domain: String,
    },
    /// A domain was asked for that is stronger than the medium's, without saying that it may be modelled;
    /// or a database lies on a medium that does not keep what it promises.
    #[error("{path}: {wanted} is stronger than {natural}, the domain of its medium; {remedy}", path = Escaped(.path.display()))]
    DomainTooStrong {
        /// The pool file.
        path: PathBuf,
        /// The domain that was asked for.
        wanted: Domain,
        /// The medium's own domain.
        natural: Domain,
        /// The way out.
        remedy: &'static str,
    },
    /// The pool was created for another domain.
    #[error(
        "{path}: was created for domain {stored}, not {wanted}; open it without naming a domain", path = Escaped(.path.display()), stored = Escaped(.stored), wanted = Escaped(.wanted))]
    DomainDiffers {
        /// The pool file.
        path: PathBuf,
        /// The domain in the header.
        stored: String,
        /// The domain that was asked for.
        wanted: String,
    },
    /// The sizes asked for make no sense.
    #[error("{path}: {why}", path = Escaped(.path.display()), why = Escaped(.why))]
    Sizes {
        /// The pool file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
}

impl PoolError {
    /// The file that it is about.
    pub fn path_mut(&mut self) -> &mut PathBuf {
        use PoolError as E;
        match self {
            E::Io { path, .. }
            | E::Exists { path }
            | E::InTheWay { path }
            | E::NotAFile { path, .. }
            | E::InUse { path, .. }
            | E::Removed { path }
            | E::Elsewhere { path, .. }
            | E::TooShort { path, .. }
            | E::NotAPool { path }
            | E::HeaderDamaged { path, .. }
            | E::Version { path, .. }
            | E::Features { path, .. }
            | E::OtherMachine { path, .. }
            | E::Truncated { path, .. }
            | E::Holes { path, .. }
            | E::Rebooted { path, .. }
            | E::DomainTooStrong { path, .. }
            | E::DomainDiffers { path, .. }
            | E::Sizes { path, .. } => path,
        }
    }

    /// Turns the whereabouts of what was opened as `path` into an error, unless it is there.
    ///
    /// # Errors
    /// It is not there.
    pub fn of_whereabouts(path: PathBuf, found: Whereabouts) -> Result<(), Self> {
        match found {
            Whereabouts::There => Ok(()),
            Whereabouts::Removed => Err(Self::Removed { path }),
            Whereabouts::At(now) => Err(Self::Elsewhere { path, now }),
        }
    }
}

/// Makes an error of the pool at `path` from one of the kernel.
pub(crate) fn io_error(path: &Path, doing: &'static str) -> impl Fn(io::Error) -> PoolError {
    let path = path.to_path_buf();
    move |source| PoolError::Io { path: path.clone(), doing, source }
}
