//! The functions by whose names SQLite, or a program, finds the extension.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::abi::code;
use super::api::{Api, Routines};
use super::guard::guarded;
use super::{main_file, vfs};
use crate::database::{MappedOpener, Opener};

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
            // It has to stay when the connection that loaded it is closed.
            code::OK => match api.call_when_opened(on_open) {
                code::OK => code::OK_LOAD_PERMANENTLY,
                error => error,
            },
            error => error,
        }
    })
}

/// As large as a database can be.
const MAP_WHOLE_DATABASE: &CStr = c"PRAGMA main.mmap_size = 281474976710656";

/// Lets a connection read its main database where it is, if that is ours. SQLite was built with a size for that, most
/// often none, and a VFS cannot tell it another one.
unsafe extern "C" fn on_open(
    connection: *mut c_void,
    _error: *mut *mut c_char,
    routines: *const Routines,
) -> c_int {
    guarded(code::OK, || {
        // SAFETY: SQLite calls with its table, if it has one, and with a connection that has just been on_open.
        unsafe {
            if !routines.is_null()
                && let Some(api) = Api::of(routines)
                && main_file::copies_all_pages(api.main_file(connection))
            {
                // Where that does not work pages are copied.
                api.run(connection, MAP_WHOLE_DATABASE);
            }
        }
        code::OK
    })
}

/// Registers the VFS `perdura`: `.load libperdura_sqlite`, whatever the file is called.
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

/// The same, by the name that SQLite makes of the file's.
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

/// Registers the VFS `perdura` and makes it the one that databases are on_open with that name none: for
/// programs that cannot be told to.
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

/// Registers the VFS `perdura` once with the SQLite in `routines` from a program of C; `is_default` is 0 or
/// 1. Returns 0 if it worked, and else an error code of SQLite.
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

/// Registers a VFS whose main databases another opener opens, as crash tests do. Returns 0 if it worked, and
/// else an error code of SQLite.
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
