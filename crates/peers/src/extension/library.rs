//! Functions of SQLite's that have no safe form elsewhere.

use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, OnceLock, PoisonError};

use perdura_sqlite::database::Opener;
use perdura_sqlite::ffi::entry::{perdura_register, register_opener};
use rusqlite::{Connection, ffi};

/// Two connections that are opened at the same time would both find no VFS yet.
static REGISTERING: Mutex<()> = Mutex::new(());

/// The function that SQLite calls with its own when a connection is opened.
unsafe extern "C" fn begin(
    _: *mut ffi::sqlite3,
    _: *mut *mut c_char,
    routines: *const ffi::sqlite3_api_routines,
) -> c_int {
    let _alone = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: it is SQLite's table.
    unsafe { perdura_register(routines.cast(), 0) }
}

/// Registers the VFS with the SQLite of this process, once. It is not the default one.
///
/// # Errors
/// SQLite has no memory for it.
pub fn register() -> rusqlite::Result<()> {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    let code = *REGISTERED.get_or_init(|| {
        // SAFETY: an extension's function, as SQLite wants it; it is there as long as the process.
        let code = unsafe { ffi::sqlite3_auto_extension(Some(begin)) };
        if code != ffi::SQLITE_OK {
            return code;
        }
        // Opening any database calls it.
        let opened = Connection::open_in_memory();
        // SAFETY: the same function; other registered ones stay.
        unsafe { ffi::sqlite3_cancel_auto_extension(Some(begin)) };
        opened.map_or(ffi::SQLITE_ERROR, |_| ffi::SQLITE_OK)
    });
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)),
    }
}

/// A VFS that waits to be registered.
static WAITING: Mutex<Option<(&'static CStr, Box<dyn Opener>)>> = Mutex::new(None);

/// Acts as `begin`, for the VFS that waits.
unsafe extern "C" fn begin_waiting(
    _: *mut ffi::sqlite3,
    _: *mut *mut c_char,
    routines: *const ffi::sqlite3_api_routines,
) -> c_int {
    let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner).take();
    match waiting {
        // SAFETY: it is SQLite's table.
        Some((name, opener)) => unsafe { register_opener(routines.cast(), name, opener) },
        None => ffi::SQLITE_OK,
    }
}

/// Registers a VFS of another name, whose databases `opener` opens, with the SQLite of this process.
///
/// # Errors
/// SQLite has no memory for it.
pub fn register_with(name: &'static CStr, opener: Box<dyn Opener>) -> rusqlite::Result<()> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    *WAITING.lock().unwrap_or_else(PoisonError::into_inner) = Some((name, opener));
    // SAFETY: an extension's function, as SQLite wants it; it is there as long as the process.
    let code = unsafe { ffi::sqlite3_auto_extension(Some(begin_waiting)) };
    if code != ffi::SQLITE_OK {
        return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
    }
    let opened = Connection::open_in_memory();
    // SAFETY: the same function.
    unsafe { ffi::sqlite3_cancel_auto_extension(Some(begin_waiting)) };
    opened.map(drop)
}
