//! Registers the VFS with the SQLite that is linked into the tests, as an extension is loaded.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::Once;

use perdura_sqlite::ffi::entry::{perdura_register, register_opener};
use rusqlite::{Connection, OpenFlags};

/// The function that SQLite calls with its own when a connection is opened.
unsafe extern "C" fn begin(
    _: *mut libsqlite3_sys::sqlite3,
    _: *mut *mut c_char,
    routines: *const libsqlite3_sys::sqlite3_api_routines,
) -> c_int {
    // SAFETY: it is SQLite's table.
    unsafe {
        let opener = Box::new(crate::explored::RecordingOpener);
        match register_opener(routines.cast(), c"perdura-recording", opener) {
            0 => perdura_register(routines.cast(), 0),
            error => error,
        }
    }
}

/// Opens the database of a name in its recording.
pub(crate) fn open_recording(name: &str) -> rusqlite::Result<Connection> {
    register();
    Connection::open_with_flags_and_vfs(name, OpenFlags::default(), "perdura-recording")
}

/// Opens a database with the VFS.
pub(crate) fn open(path: &Path) -> rusqlite::Result<Connection> {
    register();
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "perdura")
}

/// One of the counts of a connection.
pub(crate) fn stats(connection: &Connection, name: &str) -> u64 {
    let json: String =
        connection.query_row("PRAGMA perdura_stats", [], |row| row.get(0)).expect("it is ours");
    let behind = json.split(&format!("\"{name}\":")).nth(1).expect("it is counted");
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Runs `work` in a forked child, and returns what it returned.
pub(crate) fn in_forked_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs the work alone and ends at once; nothing of the parent's is dropped in it.
    unsafe {
        match libc::fork() {
            0 => {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                libc::_exit(i32::from(!matches!(result, Ok(true))));
            }
            child => {
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                status == 0
            }
        }
    }
}

/// Registers the VFS, once.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: an extension's function, as SQLite wants it.
        assert_eq!(unsafe { libsqlite3_sys::sqlite3_auto_extension(Some(begin)) }, 0);
        // Opening any database calls it.
        drop(Connection::open_in_memory().expect("a database in memory"));
        // SAFETY: nothing else has been registered.
        unsafe { libsqlite3_sys::sqlite3_reset_auto_extension() };
    });
}

/// As SQLite's own `fuzzcheck` does it.
#[test]
fn another_vfs_may_take_the_functions_that_are_not_about_files() {
    register();
    // SAFETY: the VFS stays, and each function is given what it is to fill.
    unsafe {
        let ours = *libsqlite3_sys::sqlite3_vfs_find(c"perdura".as_ptr());
        let mut other = libsqlite3_sys::sqlite3_vfs {
            pNext: std::ptr::null_mut(),
            pAppData: std::ptr::null_mut(),
            xOpen: None,
            zName: c"other".as_ptr(),
            ..ours
        };
        let (mut day, mut milliseconds, mut bytes) = (0.0, 0, [0; 32]);
        assert_eq!(ours.xCurrentTime.unwrap()(&raw mut other, &raw mut day), 0);
        assert_eq!(ours.xCurrentTimeInt64.unwrap()(&raw mut other, &raw mut milliseconds), 0);
        assert_eq!(ours.xRandomness.unwrap()(&raw mut other, 32, bytes.as_mut_ptr()), 32);
        ours.xSleep.unwrap()(&raw mut other, 0);
        // Of this millennium, and not zero.
        assert!(day > 2_451_545.0 && milliseconds > 211_813_488_000_000 && bytes != [0; 32]);
    }
}
