//! Functions of SQLite's that have no safe form elsewhere.

use std::ffi::{CStr, CString, c_char, c_int};
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

/// Returns whether a text ends where a statement of SQL does: at a semicolon that is in no string, comment or
/// trigger.
#[must_use]
pub fn ends_a_statement(sql: &str) -> bool {
    // SQLite ends the statement at a zero byte.
    let Ok(sql) = CString::new(sql) else { return true };
    // SAFETY: it is a C string.
    unsafe { ffi::sqlite3_complete(sql.as_ptr()) != 0 }
}

/// The keywords of SQLite's SQL, in capitals.
pub fn keywords() -> impl Iterator<Item = String> {
    // SAFETY: it only returns a number.
    let count = unsafe { ffi::sqlite3_keyword_count() };
    (0..count).filter_map(|number| {
        let (mut text, mut bytes) = (std::ptr::null(), 0);
        // SAFETY: there are places for the name, which stays as long as the process, and for its length.
        unsafe {
            if ffi::sqlite3_keyword_name(number, &raw mut text, &raw mut bytes) != ffi::SQLITE_OK {
                return None;
            }
            let name = std::slice::from_raw_parts(text.cast::<u8>(), usize::try_from(bytes).ok()?);
            Some(String::from_utf8_lossy(name).into_owned())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_those_of_sql() {
        let all: Vec<String> = keywords().collect();
        assert!(all.len() > 100 && all.contains(&"SELECT".to_owned()), "{all:?}");
    }

    #[test]
    fn a_statement_ends_at_a_semicolon_of_its_own() {
        for ended in [
            "SELECT 1;",
            "SELECT ';';",
            "SELECT 1; -- and so on\n",
            "CREATE TRIGGER a BEGIN SELECT 1; END;",
        ] {
            assert!(ends_a_statement(ended), "{ended}");
        }
        for open in ["SELECT 1", "SELECT ';", "SELECT 1 /* ;", "CREATE TRIGGER a BEGIN SELECT 1;"] {
            assert!(!ends_a_statement(open), "{open}");
        }
    }
}
