//! A library to preload, with which an unchanged program opens its SQLite databases with Perdura's VFS:
//! `LD_PRELOAD=.../libperdura_preload.so sqlite3 /dev/shm/my.db`.
//!
//! It stands before SQLite's three functions that open a connection. Each of them finds the SQLite that the call was
//! meant for, makes the VFS `perdura` the default one of that SQLite, and goes on in it. What names a VFS of its own
//! gets that one.
//!
//! - Nothing is done before a database is opened: a program that opens none never runs any code of this library, and
//!   one that sets SQLite up first (`sqlite3_config`, which SQLite refuses once it has begun) can do so.
//! - An automatic extension would not do: SQLite calls it when the VFS of the connection is chosen already.
//! - A program in which SQLite is compiled in is not reached, nor is one that looks the functions up in SQLite's
//!   library by name. They open databases as ever.
//! - Where the VFS cannot be the default one the program goes on with SQLite's own, and one line on standard error
//!   says why. No database is at risk: SQLite's own VFS refuses one that Perdura's has not closed.
//!
//! It is a crate of its own since the extension must not have functions of SQLite's names: SQLite loads it so that
//! all libraries that are loaded later see them, and Rust programs link it together with a SQLite.

mod begin;
mod found;

use std::ffi::{c_char, c_int, c_void};

use found::{Sqlite, function};
use perdura_sqlite::ffi::abi::code;

/// A connection of SQLite's.
pub(crate) type Connection = *mut c_void;

/// Does what a function of SQLite's does, after the VFS is there.
///
/// # Safety
/// `connection` is null or room for one.
unsafe fn opened(
    connection: *mut Connection,
    open: impl FnOnce(&Sqlite) -> Result<c_int, String>,
) -> c_int {
    let result = Sqlite::of_caller().and_then(|sqlite| {
        if let Err(why) = begin::make_default(&sqlite) {
            begin::tell(&format!("{why}; databases are opened with SQLite's own VFS"));
        }
        open(&sqlite)
    });
    result.unwrap_or_else(|why| {
        begin::tell(&format!("{why}; no database can be opened"));
        // SAFETY: the caller's contract.
        if let Some(connection) = unsafe { connection.as_mut() } {
            *connection = std::ptr::null_mut();
        }
        code::ERROR
    })
}

/// Opens a connection, as SQLite's function of this name does, with the VFS `perdura`.
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

/// Opens a connection by a name in UTF-16, as SQLite's function of this name does, with the VFS `perdura`.
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

/// Opens a connection, as SQLite's function of this name does; with the VFS `perdura` if `vfs` is null, and no URI
/// names one.
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
