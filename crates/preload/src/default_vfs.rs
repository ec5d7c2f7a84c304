//! Makes the VFS the default one of a SQLite.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use perdura_sqlite::ffi::abi::{Vfs, code};
use perdura_sqlite::ffi::api::Routines;
use perdura_sqlite::ffi::entry::perdura_register;
use perdura_sqlite::ffi::vfs::NAME;

use crate::Connection;
use crate::callers_sqlite::{Sqlite, function};

/// SQLite's own default VFS.
const OWN: &CStr = c"unix";

/// Makes the VFS the default one, unless it is. Checked at each call, since SQLite forgets it when it is shut down.
///
/// # Errors
/// The program has chosen another default VFS, or SQLite rejects this one.
pub(crate) fn make_default(sqlite: &Sqlite) -> Result<(), String> {
    // SAFETY: SQLite declares the functions so; a VFS that is registered has a name, and stays.
    unsafe {
        let find = function!(sqlite, "sqlite3_vfs_find": (*const c_char) -> *mut Vfs);
        let known = find(NAME.as_ptr());
        let default = find(std::ptr::null());
        if default.is_null() {
            return Err("SQLite has no VFS".into());
        }
        if default == known {
            return Ok(());
        }
        let name = CStr::from_ptr((*default).name);
        if name != OWN {
            return Err(format!(
                "the program has chosen the VFS {}",
                name.to_bytes().escape_ascii()
            ));
        }
        if known.is_null() {
            register(sqlite)?;
        }
        let known = find(NAME.as_ptr());
        let make = function!(sqlite, "sqlite3_vfs_register": (*mut Vfs, c_int) -> c_int);
        match make(known, 1) {
            code::OK => Ok(()),
            error => Err(format!("SQLite does not take the VFS: error {error}")),
        }
    }
}

/// Held while registering: two connections opened at the same time would both find no VFS.
static REGISTERING: Mutex<()> = Mutex::new(());

/// The extension function that SQLite calls when a connection is opened.
unsafe extern "C" fn begin(_: Connection, _: *mut *mut c_char, routines: *const Routines) -> c_int {
    let _alone = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: it is SQLite's table.
    unsafe { perdura_register(routines, 0) }
}

/// Registers the VFS. No lock is held while SQLite opens a connection, since the program's own automatic extensions
/// may open others.
fn register(sqlite: &Sqlite) -> Result<(), String> {
    type Extension = unsafe extern "C" fn(Connection, *mut *mut c_char, *const Routines) -> c_int;
    /// SQLITE_OPEN_READWRITE, SQLITE_OPEN_CREATE and SQLITE_OPEN_MEMORY.
    const IN_MEMORY: c_int = 0x2 | 0x4 | 0x80;
    // SAFETY: SQLite declares the functions so, and calls an extension as `begin` is declared. `begin` stays loaded
    // with this library, which is never unloaded.
    unsafe {
        let add = function!(sqlite, "sqlite3_auto_extension": (Extension) -> c_int);
        let cancel = function!(sqlite, "sqlite3_cancel_auto_extension": (Extension) -> c_int);
        let open = function!(
            sqlite,
            "sqlite3_open_v2": (*const c_char, *mut Connection, c_int, *const c_char) -> c_int
        );
        let close = function!(sqlite, "sqlite3_close": (Connection) -> c_int);
        let find = function!(sqlite, "sqlite3_vfs_find": (*const c_char) -> *mut c_void);
        let version = function!(sqlite, "sqlite3_libversion": () -> *const c_char);
        if add(begin) == code::OK {
            let mut connection: Connection = std::ptr::null_mut();
            open(c":memory:".as_ptr(), &raw mut connection, IN_MEMORY, std::ptr::null());
            close(connection);
            cancel(begin);
        }
        // Another thread may have cancelled the extension, but only after it registered the VFS itself.
        if find(NAME.as_ptr()).is_null() {
            let version = CStr::from_ptr(version()).to_string_lossy();
            return Err(format!(
                "SQLite {version} does not take the extension (3.34 and newer do)"
            ));
        }
        Ok(())
    }
}

/// Prints a warning to standard error, once in a process.
pub(crate) fn warn_once(why: &str) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        // Without standard error there is no one to warn.
        let _ = writeln!(std::io::stderr(), "libperdura_preload.so: {why}");
    }
}
