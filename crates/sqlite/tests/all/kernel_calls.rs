//! The system calls of a transaction, each as expensive as several lines of the database. Some can be made to fail.
//!
//! The functions below override those of the C library in this program.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use crate::register::open;
use crate::sql::folder;

thread_local! {
    /// Lock calls and removed names of this thread.
    static CALLS: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    /// Calls of this thread that fail: truncation and sync.
    static REFUSED: Cell<[bool; 2]> = const { Cell::new([false; 2]) };
    /// No file that this thread uses gets more room.
    static IS_FULL: Cell<bool> = const { Cell::new(false) };
    /// Syncs of all file systems by this thread.
    static SYNCS_OF_ALL: Cell<u32> = const { Cell::new(0) };
    /// Called with the path of each file that this thread syncs, before it is synced.
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

type Watch = Box<dyn FnMut(&Path)>;

/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(file: c_int, command: c_int, argument: *mut c_void) -> c_int {
    if [libc::F_OFD_SETLK, libc::F_OFD_SETLKW, libc::F_OFD_GETLK].contains(&command) {
        CALLS.set((CALLS.get().0 + 1, CALLS.get().1));
    }
    // SAFETY: the caller's contract.
    unsafe { libc::syscall(libc::SYS_fcntl, file, command, argument) as c_int }
}

/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(name: *const c_char) -> c_int {
    CALLS.set((CALLS.get().0, CALLS.get().1 + 1));
    // SAFETY: the caller's contract.
    unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, name, 0) as c_int }
}

fn call(refused: usize, work: impl FnOnce() -> c_int) -> c_int {
    if REFUSED.get()[refused] {
        // SAFETY: the thread's own error number.
        unsafe { *libc::__errno_location() = libc::EIO };
        return -1;
    }
    work()
}

/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(file: c_int, to: libc::off64_t) -> c_int {
    // SAFETY: the caller's contract.
    call(0, || unsafe { libc::syscall(libc::SYS_ftruncate, file, to) as c_int })
}

/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(file: c_int) -> c_int {
    // Taken out meanwhile: it may sync as well.
    if let Some(mut watch) = WATCH.take() {
        watch(&std::fs::read_link(format!("/proc/self/fd/{file}")).expect("the file is open"));
        WATCH.set(Some(watch));
    }
    // SAFETY: the caller's contract.
    call(1, || unsafe { libc::syscall(libc::SYS_fsync, file) as c_int })
}

/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_fallocate(file: c_int, at: libc::off_t, bytes: libc::off_t) -> c_int {
    if IS_FULL.get() {
        return libc::ENOSPC;
    }
    // SAFETY: the caller's contract.
    match unsafe { libc::syscall(libc::SYS_fallocate, file, 0, at, bytes) } {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
    }
}

/// Runs `work` while the medium has no room for this thread.
pub(crate) fn on_a_full_medium<T>(work: impl FnOnce() -> T) -> T {
    IS_FULL.set(true);
    let done = work();
    IS_FULL.set(false);
    done
}

/// It is only counted: this machine has other work.
#[unsafe(no_mangle)]
extern "C" fn sync() {
    SYNCS_OF_ALL.set(SYNCS_OF_ALL.get() + 1);
}

/// Syncs of all file systems that this thread has asked for.
pub(crate) fn syncs_of_all() -> u32 {
    SYNCS_OF_ALL.get()
}

/// Runs `work` while such calls of this thread fail.
pub(crate) fn refusing<T>(cuts: bool, syncs: bool, work: impl FnOnce() -> T) -> T {
    REFUSED.set([cuts, syncs]);
    let done = work();
    REFUSED.set([false; 2]);
    done
}

/// Runs `work`, and `watch` with the path of each file that it syncs in this thread.
pub(crate) fn watching_syncs<T>(watch: Watch, work: impl FnOnce() -> T) -> T {
    WATCH.set(Some(watch));
    let done = work();
    WATCH.set(None);
    done
}

/// The calls made by `work`.
fn calls(work: impl FnOnce()) -> (u32, u32) {
    CALLS.set((0, 0));
    work();
    CALLS.get()
}

#[test]
fn transaction_makes_no_lock_or_unlink_calls() {
    let folder = folder();
    let one = open(&folder.path().join("db")).unwrap();
    let run = |sql: &str| one.execute_batch(sql).unwrap();
    run("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES(1, 'one')");
    // Locks are words in the side file, without system calls.
    assert_eq!(calls(|| run("INSERT INTO t VALUES(2, 'two')")), (0, 0));
    assert_eq!(calls(|| run("BEGIN; INSERT INTO t VALUES(3, 'three'); ROLLBACK")), (0, 0));
    assert_eq!(calls(|| run("SELECT * FROM t")), (0, 0));
    // One call checks whether the blocking owner is alive.
    let other = open(&folder.path().join("db")).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    run("BEGIN IMMEDIATE");
    assert_eq!(calls(|| assert!(other.execute_batch("BEGIN IMMEDIATE").is_err())), (1, 0));
    run("COMMIT");
    drop(other);
    run("PRAGMA locking_mode = EXCLUSIVE; INSERT INTO t VALUES(4, 'four')");
    assert_eq!(calls(|| run("INSERT INTO t VALUES(5, 'five')")), (0, 0));
}
