//! Registers the VFS with the SQLite linked into the tests, as an extension is loaded.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::Once;

use perdura_sqlite::ffi::entry::{perdura_register, register_opener};
use rusqlite::{Connection, OpenFlags};

/// The extension function that SQLite calls when a connection is opened.
unsafe extern "C" fn begin(
    _: *mut libsqlite3_sys::sqlite3,
    _: *mut *mut c_char,
    routines: *const libsqlite3_sys::sqlite3_api_routines,
) -> c_int {
    // SAFETY: it is SQLite's table.
    unsafe {
        for (name, opener) in crate::openers::openers() {
            let error = register_opener(routines.cast(), name, opener);
            if error != 0 {
                return error;
            }
        }
        perdura_register(routines.cast(), 0)
    }
}

/// Opens a database in its recording.
pub(crate) fn open_recording(name: &str) -> rusqlite::Result<Connection> {
    register();
    Connection::open_with_flags_and_vfs(name, OpenFlags::default(), "perdura-recording")
}

/// Opens a database with the VFS.
pub(crate) fn open(path: &Path) -> rusqlite::Result<Connection> {
    register();
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "perdura")
}

/// One of a connection's counters.
pub(crate) fn stats(connection: &Connection, name: &str) -> u64 {
    let json: String =
        connection.query_row("PRAGMA perdura_stats", [], |row| row.get(0)).expect("it is ours");
    let after = json.split(&format!("\"{name}\":")).nth(1).expect("it is counted");
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Copies a database by SQLite's backup functions, some pages at a time.
pub(crate) fn backup(from: &Connection, to: &Connection) {
    use libsqlite3_sys as ffi;
    // SAFETY: both connections are open, and outlive the backup.
    unsafe {
        let main = c"main".as_ptr();
        let backup = ffi::sqlite3_backup_init(to.handle(), main, from.handle(), main);
        assert!(!backup.is_null(), "it begins");
        while ffi::sqlite3_backup_step(backup, 10) == ffi::SQLITE_OK {}
        assert_eq!(ffi::sqlite3_backup_finish(backup), ffi::SQLITE_OK);
    }
}

/// Runs `work` while an idle forked child lives, and then kills the child.
pub(crate) fn next_to_a_forked_child<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the child only waits until it is killed.
    let child = unsafe {
        match libc::fork() {
            0 => loop {
                libc::pause();
            },
            child => child,
        }
    };
    assert!(child > 0, "no child");
    let result = work();
    let mut status = 0;
    // SAFETY: the child is ours and has not been waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
    }
    result
}

/// Registers the VFS, once.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: an extension function as SQLite expects it.
        assert_eq!(unsafe { libsqlite3_sys::sqlite3_auto_extension(Some(begin)) }, 0);
        // Opening any database calls it.
        drop(Connection::open_in_memory().expect("a database in memory"));
        // SAFETY: the same function. The extension's own one stays.
        unsafe { libsqlite3_sys::sqlite3_cancel_auto_extension(Some(begin)) };
    });
}

/// Sleeps by the VFS, as SQLite's busy handler and `sqlite3_sleep` do.
pub(crate) fn sleep_by_the_vfs(microseconds: i32) {
    // SAFETY: the VFS is registered for good.
    unsafe {
        let vfs = libsqlite3_sys::sqlite3_vfs_find(c"perdura".as_ptr());
        (*vfs).xSleep.unwrap()(vfs, microseconds);
    }
}

/// As SQLite's own `fuzzcheck` does.
#[test]
fn another_vfs_may_borrow_functions_not_about_files() {
    register();
    // SAFETY: the VFS is never freed, and each function gets what it has to fill.
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
        // A date of this millennium, and not zeros.
        assert!(day > 2_451_545.0 && milliseconds > 211_813_488_000_000 && bytes != [0; 32]);
    }
}

/// SQLite's number for the lock of the main database.
fn lock_state(connection: &Connection) -> c_int {
    let mut level = -1;
    // SAFETY: the connection is open, and the operation writes a number.
    let code = unsafe {
        libsqlite3_sys::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            libsqlite3_sys::SQLITE_FCNTL_LOCKSTATE,
            (&raw mut level).cast(),
        )
    };
    assert_eq!(code, 0);
    level
}

#[test]
fn waiting_writer_reports_the_pending_lock() {
    let folder = crate::contents::folder();
    let (writer, reader) =
        (open(&folder.path().join("db")).unwrap(), open(&folder.path().join("db")).unwrap());
    writer.busy_timeout(std::time::Duration::ZERO).unwrap();
    // A new database, which stock SQLite may read, and then a live one.
    for statement in ["CREATE TABLE t(a, b)", "INSERT INTO t VALUES(1, 2)"] {
        reader.execute_batch("BEGIN; SELECT * FROM sqlite_schema").unwrap();
        writer.execute_batch("BEGIN").unwrap();
        writer.execute_batch(statement).unwrap();
        assert_eq!(lock_state(&writer), 2);
        writer.execute_batch("COMMIT").unwrap_err();
        assert_eq!(lock_state(&writer), 3);
        reader.execute_batch("COMMIT").unwrap();
        writer.execute_batch("COMMIT").unwrap();
        assert_eq!(lock_state(&writer), 0);
    }
}

#[test]
fn failed_open_reports_the_systems_errno() {
    register();
    let folder = crate::contents::folder();
    let name = format!("file:{}?vfs=perdura", folder.path().join("none/db").display());
    let name = std::ffi::CString::new(name).unwrap();
    let mut connection = std::ptr::null_mut();
    // SAFETY: a name, and a place for a connection, which is closed.
    unsafe {
        let flags = libsqlite3_sys::SQLITE_OPEN_READWRITE
            | libsqlite3_sys::SQLITE_OPEN_CREATE
            | libsqlite3_sys::SQLITE_OPEN_URI;
        let code = libsqlite3_sys::sqlite3_open_v2(
            name.as_ptr(),
            &raw mut connection,
            flags,
            std::ptr::null(),
        );
        assert_eq!(code, libsqlite3_sys::SQLITE_CANTOPEN);
        assert_eq!(libsqlite3_sys::sqlite3_system_errno(connection), libc::ENOENT);
        libsqlite3_sys::sqlite3_close(connection);
    }
}
