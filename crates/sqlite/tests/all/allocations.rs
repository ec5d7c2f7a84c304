//! The memory that transactions take, and what happens when there is no more: SQLite's error, and no dead process.
//!
//! All Rust code of this program allocates by the functions below. SQLite's own does not.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::path::Path;

use libsqlite3_sys as ffi;
use rusqlite::Connection;

use crate::process_kills::MODES;
use crate::register::open;
use crate::sql::{check, folder, rows, stock};

thread_local! {
    /// Bytes that this thread has allocated and not freed since [`within`] began, the most of them, and the limit.
    static USED: Cell<(i64, i64, i64)> = const { Cell::new((0, 0, i64::MAX)) };
    /// Allocations of this thread.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

impl Counting {
    /// Counts bytes; returns whether they are within the limit.
    fn take(bytes: i64) -> bool {
        let taken = USED.try_with(|used| {
            let (now, most, limit) = used.get();
            let next = now + bytes;
            if bytes > 0 && next > limit {
                return false;
            }
            used.set((next, most.max(next), limit));
            true
        });
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + u64::from(bytes > 0)));
        taken.unwrap_or(true)
    }
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Self::take(layout.size() as i64) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        Self::take(-(layout.size() as i64));
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Runs `work` while this thread can allocate so many bytes. Returns the most that it had.
fn within(limit: i64, work: impl FnOnce()) -> i64 {
    USED.set((0, 0, limit));
    work();
    let (_, most, _) = USED.replace((0, 0, i64::MAX));
    most
}

/// Runs statements, without an allocation here. Returns SQLite's code.
fn run(connection: &Connection, sql: &CStr) -> i32 {
    let (none, ignored) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the connection is open.
    unsafe { ffi::sqlite3_exec(connection.handle(), sql.as_ptr(), None, none, ignored) }
}

fn opened(path: &Path, mode: &str) -> Connection {
    let one = open(Path::new(&format!("file:{}?perdura_mode={mode}", path.display()))).unwrap();
    one.execute_batch(
        "PRAGMA cache_size = 20; CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b)",
    )
    .unwrap();
    one
}

/// The allocations of `work`.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

/// In the mode `lean` a transaction keeps its buffers for the next one.
#[test]
fn lean_transaction_allocates_little() {
    let directory = folder();
    let one = opened(&directory.path().join("db"), "lean");
    let update = c"UPDATE t SET b = b + 1 WHERE a = 3";
    let insert = c"WITH n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n LIMIT 90)
                   INSERT INTO t SELECT a, 7 FROM n";
    assert_eq!(run(&one, insert), ffi::SQLITE_OK);
    // A node of the map of staged pages; and, with a journal that is opened anew, what stands for it.
    let modes = [(c"PRAGMA locking_mode = NORMAL", 4), (c"PRAGMA locking_mode = EXCLUSIVE", 1)];
    for (mode, most) in modes {
        assert_eq!(run(&one, mode), ffi::SQLITE_OK);
        (0..3).for_each(|_| assert_eq!(run(&one, update), ffi::SQLITE_OK));
        let many = allocations(|| assert_eq!(run(&one, update), ffi::SQLITE_OK));
        assert!(many <= most, "{mode:?}: {many}");
    }
}

/// A transaction that inserts rows of 3,000 bytes.
fn insertion(rows: usize) -> CString {
    CString::new(format!(
        "BEGIN; WITH n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n LIMIT {rows})
         INSERT INTO t SELECT NULL, hex(zeroblob(1500)) FROM n; COMMIT"
    ))
    .unwrap()
}

const UPDATE: &CStr = c"BEGIN; UPDATE t SET b = hex(randomblob(1500)); COMMIT";

#[test]
fn large_transaction_takes_little_memory() {
    for mode in MODES {
        let directory = folder();
        let path = directory.path().join("db");
        let one = opened(&path, mode);
        for (what, sql) in [("insertion", insertion(6_000)), ("update", UPDATE.to_owned())] {
            let most = within(i64::MAX, || assert_eq!(run(&one, &sql), ffi::SQLITE_OK));
            // SQLite's cache has 2 MB by default. The pages alone have 24.
            assert!(most < 4 << 20, "{mode}, {what}: {most} bytes");
        }
        drop(one);
        assert_eq!(rows_of(&path), 6_000);
    }
}

fn rows_of(path: &Path) -> i64 {
    stock(path).query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

#[test]
fn transaction_without_memory_fails_and_changes_nothing() {
    for mode in MODES {
        let directory = folder();
        let path = directory.path().join("db");
        let one = opened(&path, mode);
        let (mut there, mut failed) = (0, 0);
        for many in [1, 40, 700] {
            for (adds, sql) in [(many, insertion(many)), (0, UPDATE.to_owned())] {
                let mut limit = 4 << 10;
                loop {
                    let mut code = 0;
                    within(limit, || code = run(&one, &sql));
                    if code == ffi::SQLITE_OK {
                        there += adds;
                        break;
                    }
                    assert_eq!(code, ffi::SQLITE_NOMEM, "{mode}, {many} rows, {limit} bytes");
                    failed += 1;
                    one.execute_batch("ROLLBACK").unwrap_or(());
                    limit += limit / 7;
                }
            }
            check(&one);
            assert_eq!(rows(&one).len(), there);
        }
        assert!(failed > 20, "{mode}: {failed}");
        drop(one);
        assert_eq!(rows_of(&path), there as i64);
    }
}
