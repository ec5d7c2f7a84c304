//! A library to preload, with which an unchanged program opens its SQLite databases through
//! Perdura's VFS: `LD_PRELOAD=.../libperdura_preload.so sqlite3 /dev/shm/my.db`.
//!
//! It overrides SQLite's three functions that open a connection. Each finds the SQLite that the
//! call was meant for, makes `perdura` its default VFS, and calls it. A call that names a VFS gets
//! that one.
//!
//! - Nothing happens before a database is opened. A program that opens none never runs code of this
//!   library, and one that configures SQLite first (`sqlite3_config`, which SQLite refuses later)
//!   can still do so.
//! - An automatic extension would come too late: SQLite calls it after it has chosen the
//!   connection's VFS.
//! - A program with SQLite compiled in is not reached, nor one that looks the functions up by name
//!   in SQLite's library. Such programs open databases as before.
//! - If the VFS cannot be the default one, the program continues with SQLite's own, and one line on
//!   standard error says why. No database is at risk: SQLite's own VFS refuses a file that this one
//!   has not closed.
//!
//! This is a crate of its own because the extension must not have functions of SQLite's names:
//! SQLite makes the extension's symbols visible to all libraries that are loaded later, and Rust
//! programs link the extension together with a SQLite.

mod callers_sqlite;
mod default_vfs;

use std::ffi::{c_char, c_int, c_void};

use callers_sqlite::{Sqlite, function};
use perdura_sqlite::ffi::abi::code;

/// A SQLite connection.
pub(crate) type Connection = *mut c_void;

/// Calls one of SQLite's functions after making the VFS the default one.
///
/// # Safety
/// `connection` is null, or points to a place for one.
unsafe fn opened(
    connection: *mut Connection,
    open: impl FnOnce(&Sqlite) -> Result<c_int, String>,
) -> c_int {
    let result = Sqlite::of_caller().and_then(|sqlite| {
        if let Err(why) = default_vfs::make_default(&sqlite) {
            default_vfs::warn_once(&format!("{why}; databases are opened with SQLite's own VFS"));
        }
        open(&sqlite)
    });
    result.unwrap_or_else(|why| {
        default_vfs::warn_once(&format!("{why}; no database can be opened"));
        // SAFETY: the caller's contract.
        if let Some(connection) = unsafe { connection.as_mut() } {
            *connection = std::ptr::null_mut();
        }
        code::ERROR
    })
}

/// Opens a connection like SQLite's function of this name, with the VFS `perdura`.
///
/// # Safety
/// As SQLite's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open(name: *const c_char, connection: *mut Connection) -> c_int {
    // SAFETY: the caller's contract; SQLite declares the function so.
    unsafe {
        opened(connection, |sqlite| {
            let open = function!(sqlite, "sqlite3_open": (*const c_char, *mut Connection) -> c_int);
            Ok(open(name, connection))
        })
    }
}

/// Opens a connection by a UTF-16 name like SQLite's function of this name, with the VFS `perdura`.
///
/// # Safety
/// As SQLite's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open16(name: *const c_void, connection: *mut Connection) -> c_int {
    // SAFETY: the caller's contract; SQLite declares the function so.
    unsafe {
        opened(connection, |sqlite| {
            let open =
                function!(sqlite, "sqlite3_open16": (*const c_void, *mut Connection) -> c_int);
            Ok(open(name, connection))
        })
    }
}

/// Opens a connection like SQLite's function of this name, with the VFS `perdura` if `vfs` is null
/// and no URI names one.
///
/// # Safety
/// As SQLite's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_open_v2(
    name: *const c_char,
    connection: *mut Connection,
    flags: c_int,
    vfs: *const c_char,
) -> c_int {
    // SAFETY: the caller's contract; SQLite declares the function so.
    unsafe {
        opened(connection, |sqlite| {
            let open = function!(
                sqlite,
                "sqlite3_open_v2": (*const c_char, *mut Connection, c_int, *const c_char) -> c_int
            );
            Ok(open(name, connection, flags, vfs))
        })
    }
}
