//! The reason why a database is left to the underlying VFS.

use std::cell::Cell;
use std::ffi::CStr;

thread_local! {
    /// That of the last database which this thread has opened, or tried to open.
    static LAST: Cell<Option<&'static CStr>> = const { Cell::new(None) };
}

/// A reason why the VFS does not take a database, as the end of a sentence about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotTaken {
    Asked,
    NotWritable,
    StocksWal,
    Disk,
    Encrypted,
    UnreadableFolder,
    NoSideFile,
    Full,
}

impl NotTaken {
    const fn text(self) -> &'static CStr {
        match self {
            Self::Asked => c"perdura_mode=stock leaves it to SQLite's own VFS",
            Self::NotWritable => c"it cannot be opened for writing",
            Self::StocksWal => c"it is in SQLite's WAL mode",
            Self::Disk => c"it is on an ordinary disk, and no domain is named",
            Self::Encrypted => {
                c"an extension of SQLite encrypts it, or reserves bytes in its pages, or may do so if it is new"
            }
            Self::UnreadableFolder => c"its directory cannot be read, to make names durable",
            Self::NoSideFile => c"no side file can be made in its directory",
            Self::Full => c"the medium has no room for a side file",
        }
    }

    /// Leaves the database to the underlying VFS.
    pub(super) fn leave<T, E>(self) -> Result<Option<T>, E> {
        LAST.set(Some(self.text()));
        Ok(None)
    }
}

/// Forgets the last reason.
pub(super) fn forget() {
    LAST.set(None);
}

/// Returns why the last database that this thread opened was left to the underlying VFS; `None` if it was not.
pub fn why_not_taken() -> Option<&'static CStr> {
    LAST.get()
}
