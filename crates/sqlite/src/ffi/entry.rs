//! The functions by which SQLite, or a program, loads the extension.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::abi::code;
use super::api::{Api, Routines};
use super::guard::guarded;
use super::vfs;
use crate::database::{MappedOpener, Opener, why_not_taken};

/// Registers the VFS.
///
/// # Safety
/// `routines` is the table of the SQLite that calls.
unsafe fn load(routines: *const Routines, default: bool) -> c_int {
    if routines.is_null() {
        return code::ERROR;
    }
    guarded(code::ERROR, || {
        // SAFETY: the caller's contract.
        let Some(api) = (unsafe { Api::of(routines) }) else { return code::ERROR };
        match vfs::register(api, vfs::NAME, Box::new(MappedOpener), default) {
            // The library has to stay loaded when the connection that loaded it is closed.
            code::OK => code::OK_LOAD_PERMANENTLY,
            error => error,
        }
    })
}

/// Registers the VFS `perdura`: `.load libperdura_sqlite`, under any file name.
///
/// # Safety
/// SQLite calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    _database: *mut c_void,
    _error: *mut *mut c_char,
    routines: *const Routines,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { load(routines, false) }
}

/// The same under the name that SQLite derives from the file's.
///
/// # Safety
/// SQLite calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_perdurasqlite_init(
    _database: *mut c_void,
    _error: *mut *mut c_char,
    routines: *const Routines,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { load(routines, false) }
}

/// Registers the VFS `perdura` as the default one, for programs that cannot name a VFS.
///
/// # Safety
/// SQLite calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_perduradefault_init(
    _database: *mut c_void,
    _error: *mut *mut c_char,
    routines: *const Routines,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { load(routines, true) }
}

/// Registers the VFS `perdura` with the SQLite in `routines`, from a C program; `is_default` is 0 or 1. Returns 0
/// or an error code of SQLite.
///
/// # Safety
/// `routines` is SQLite's table of functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_register(routines: *const Routines, is_default: c_int) -> c_int {
    // SAFETY: the caller's contract.
    match unsafe { load(routines, is_default != 0) } {
        code::OK_LOAD_PERMANENTLY => code::OK,
        error => error,
    }
}

/// Returns why the last database that this thread opened was left to the underlying VFS, as the end of a sentence about
/// it; null if the VFS took it. The text stays valid.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_not_taken() -> *const c_char {
    why_not_taken().map_or(std::ptr::null(), CStr::as_ptr)
}

/// Registers a VFS with another opener, as crash tests do. Returns 0 or an error code of SQLite.
///
/// # Safety
/// `routines` is SQLite's table of functions.
pub unsafe fn register_opener(
    routines: *const Routines,
    name: &'static CStr,
    opener: Box<dyn Opener>,
) -> c_int {
    guarded(code::ERROR, || {
        // SAFETY: the caller's contract.
        let api = unsafe { Api::of(routines) };
        api.map_or(code::ERROR, |api| vfs::register(api, name, opener, false))
    })
}
