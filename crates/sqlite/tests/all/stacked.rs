//! Two VFSs on top of ours, like SQLite's own `multiplex` and crash tests: both hold writes back until SQLite
//! syncs, and one creates the names that it passes on.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Once;

use libsqlite3_sys as ffi;
use rusqlite::{Connection, OpenFlags};

use crate::register::{open, register, stats};
use crate::sql::{check, folder, rows, side_of, stock};

/// A file of the upper VFS. The first member is SQLite's.
#[repr(C)]
struct Above {
    base: ffi::sqlite3_file,
    kept: *mut Kept,
}

/// Our file underneath, its name, and the writes held back.
struct Kept {
    below: Vec<u64>,
    name: ffi::sqlite3_filename,
    /// It is a main database, whose writes are held back.
    late: bool,
    waiting: Vec<(i64, Vec<u8>)>,
}

impl Kept {
    fn below(&mut self) -> *mut ffi::sqlite3_file {
        self.below.as_mut_ptr().cast()
    }
}

fn ours() -> *mut ffi::sqlite3_vfs {
    // SAFETY: it is registered and never freed.
    unsafe { ffi::sqlite3_vfs_find(c"perdura".as_ptr()) }
}

/// # Safety
/// `file` is open.
unsafe fn kept<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Kept {
    // SAFETY: the caller's contract; SQLite uses it from one thread at a time.
    unsafe { &mut *(*file.cast::<Above>()).kept }
}

/// Methods that forward to the file underneath.
macro_rules! forward {
    ($($name:ident: $method:ident($($argument:ident: $type:ty),*);)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file, $($argument: $type),*) -> c_int {
            // SAFETY: SQLite calls with an open file.
            unsafe {
                let below = kept(file).below();
                (*(*below).pMethods).$method.unwrap()(below, $($argument),*)
            }
        }
    )*};
}

forward! {
    read: xRead(to: *mut c_void, len: c_int, at: i64);
    truncate: xTruncate(to: i64);
    size: xFileSize(size: *mut i64);
    lock: xLock(level: c_int);
    unlock: xUnlock(level: c_int);
    reserved: xCheckReservedLock(found: *mut c_int);
    control: xFileControl(what: c_int, with: *mut c_void);
    sector: xSectorSize();
    device: xDeviceCharacteristics();
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    // SAFETY: SQLite calls with an open file and so many bytes.
    unsafe {
        let kept = kept(file);
        if !kept.late {
            let below = kept.below();
            return (*(*below).pMethods).xWrite.unwrap()(below, from, len, at);
        }
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), len as usize).to_vec();
        kept.waiting.push((at, bytes));
    }
    0
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls with an open file.
    unsafe {
        let kept = kept(file);
        let below = kept.below();
        let methods = &*(*below).pMethods;
        for (at, bytes) in std::mem::take(&mut kept.waiting) {
            let code =
                methods.xWrite.unwrap()(below, bytes.as_ptr().cast(), bytes.len() as c_int, at);
            assert_eq!(code, 0);
        }
        methods.xSync.unwrap()(below, flags)
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes an open file once.
    unsafe {
        let mut kept = Box::from_raw((*file.cast::<Above>()).kept);
        let below = kept.below();
        let code = (*(*below).pMethods).xClose.unwrap()(below);
        ffi::sqlite3_free_filename(kept.name);
        code
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector),
    xDeviceCharacteristics: Some(device),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn open_above(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls with a name and with room for a file.
    unsafe {
        (*file).pMethods = std::ptr::null();
        let (none, text) = (std::ptr::null_mut(), c"".as_ptr());
        let makes_names = CStr::from_ptr((*vfs).zName) == MAKES_NAMES;
        let made: *const c_char = if makes_names {
            ffi::sqlite3_create_filename(name, text, text, 0, none)
        } else {
            none.cast()
        };
        let name = if makes_names { made } else { name };
        let below = vec![0; ((*ours()).szOsFile as usize).div_ceil(8)];
        let mut kept = Box::new(Kept {
            below,
            name: made,
            late: flags & ffi::SQLITE_OPEN_MAIN_DB != 0,
            waiting: Vec::new(),
        });
        let code = (*ours()).xOpen.unwrap()(ours(), name, kept.below(), flags, out_flags);
        if code == 0 {
            (*file).pMethods = &raw const METHODS;
            (*file.cast::<Above>()).kept = Box::into_raw(kept);
        } else {
            ffi::sqlite3_free_filename(made);
        }
        code
    }
}

/// Functions that forward to our VFS.
macro_rules! forward_vfs {
    ($($name:ident: $method:ident($($argument:ident: $type:ty),*);)*) => {$(
        unsafe extern "C" fn $name(_: *mut ffi::sqlite3_vfs, $($argument: $type),*) -> c_int {
            // SAFETY: SQLite calls.
            unsafe { (*ours()).$method.unwrap()(ours(), $($argument),*) }
        }
    )*};
}

forward_vfs! {
    delete: xDelete(name: *const c_char, sync: c_int);
    access: xAccess(name: *const c_char, flags: c_int, found: *mut c_int);
    full: xFullPathname(name: *const c_char, room: c_int, out: *mut c_char);
}

const MAKES_NAMES: &CStr = c"above-with-names";
const PASSES_NAMES: &CStr = c"above";

fn above(path: &Path, name: &CStr) -> Connection {
    static ONCE: Once = Once::new();
    register();
    ONCE.call_once(|| {
        // SAFETY: registered VFSs are never freed.
        unsafe {
            for name in [MAKES_NAMES, PASSES_NAMES] {
                let vfs = Box::leak(Box::new(ffi::sqlite3_vfs {
                    szOsFile: size_of::<Above>() as c_int,
                    pNext: std::ptr::null_mut(),
                    zName: name.as_ptr(),
                    xOpen: Some(open_above),
                    xDelete: Some(delete),
                    xAccess: Some(access),
                    xFullPathname: Some(full),
                    ..*ours()
                }));
                assert_eq!(ffi::sqlite3_vfs_register(vfs, 0), 0);
            }
        }
    });
    let flags = OpenFlags::default();
    Connection::open_with_flags_and_vfs(path, flags, name).unwrap()
}

#[test]
fn writes_passed_on_at_sync_by_a_vfs_above_are_committed() {
    for name in [MAKES_NAMES, PASSES_NAMES] {
        let folder = folder();
        let path = folder.path().join("db");
        let one = above(&path, name);
        one.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); CREATE INDEX i ON t(b)")
            .unwrap();
        for key in 0..200 {
            one.execute("INSERT INTO t VALUES(?1, hex(randomblob(?1)))", [key]).unwrap();
        }
        assert_eq!(stats(&one, "commits"), 202);
        let other = open(&path).unwrap();
        check(&other);
        assert_eq!(rows(&other), rows(&one));
        assert_eq!(rows(&other).len(), 200);
        // Each sees the other's commits.
        other.execute("DELETE FROM t WHERE a % 2 = 0", []).unwrap();
        assert_eq!(rows(&one).len(), 100);
        drop((one, other));
        assert_eq!(rows(&stock(&path)).len(), 100);
    }
}

#[test]
fn part_passed_on_late_by_a_vfs_above_is_committed() {
    for name in [MAKES_NAMES, PASSES_NAMES] {
        let folder = folder();
        let paths = ["one", "two"].map(|name| folder.path().join(name));
        let one = above(&paths[0], name);
        let vfs = name.to_str().unwrap();
        let attach = format!("ATTACH 'file:{}?vfs={vfs}' AS two", paths[1].display());
        one.execute_batch(&attach).unwrap();
        let create = "CREATE TABLE main.t(a INTEGER PRIMARY KEY, b TEXT);
             CREATE TABLE two.t(a INTEGER PRIMARY KEY, b TEXT)";
        one.execute_batch(create).unwrap();
        let others = paths.each_ref().map(|path| open(path).unwrap());
        for key in 0..40 {
            let end = if key % 4 == 3 { "ROLLBACK" } else { "COMMIT" };
            one.execute_batch(&format!(
                "BEGIN; INSERT INTO main.t VALUES({key}, hex(randomblob(500)));
                 INSERT INTO two.t VALUES({key}, hex(randomblob(300))); {end}"
            ))
            .unwrap();
            let there = 1 + key - (key + 1) / 4;
            others.iter().for_each(|other| assert_eq!(rows(other).len(), there as usize, "{key}"));
        }
        assert_eq!(stats(&one, "recoveries"), 0);
        drop((one, others));
        paths.iter().for_each(|path| assert_eq!(rows(&stock(path)).len(), 30));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

#[test]
fn vfs_above_keeps_a_journal_file_and_ours_has_none() {
    let folder = folder();
    let path = folder.path().join("db");
    let journal = folder.path().join("db-journal");
    let update = "BEGIN; UPDATE t SET b = 'two'";
    for name in [MAKES_NAMES, PASSES_NAMES] {
        let one = above(&path, name);
        one.execute_batch("CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
        one.execute_batch("INSERT OR REPLACE INTO t VALUES(1, 'one')").unwrap();
        assert!(side_of(&path).exists() && !journal.exists());
        one.execute_batch(update).unwrap();
        assert!(journal.exists());
        one.execute_batch("ROLLBACK").unwrap();
        assert!(!journal.exists());
        assert_eq!(rows(&one), [(1, Some("one".into()))]);
        drop(one);
        assert_eq!(rows(&stock(&path)), [(1, Some("one".into()))]);
    }
    let one = open(&path).unwrap();
    one.execute_batch(update).unwrap();
    assert!(!journal.exists());
    one.execute_batch("ROLLBACK").unwrap();
    assert_eq!(rows(&one), [(1, Some("one".into()))]);
}

/// The log would be stock SQLite's, and the database this VFS's.
#[test]
fn log_under_a_name_of_a_vfs_above_is_refused() {
    let folder = folder();
    let path = folder.path().join("db");
    let uri = format!("file:{}?perdura_wal=on", path.display());
    let one = above(Path::new(&uri), MAKES_NAMES);
    one.execute_batch("PRAGMA locking_mode = EXCLUSIVE; CREATE TABLE t(a, b)").unwrap();
    let mode: Result<String, _> = one.query_row("PRAGMA journal_mode = wal", [], |row| row.get(0));
    let error = mode.and_then(|_| one.execute("INSERT INTO t VALUES(1, 'one')", [])).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::CannotOpen));
    let mut why = [0_u8; 200];
    // SAFETY: our VFS, and a place with room for the text.
    unsafe {
        let get = (*ours()).xGetLastError.unwrap();
        get(ours(), why.len() as c_int, why.as_mut_ptr().cast());
    }
    let why = String::from_utf8_lossy(&why);
    assert!(why.contains("a VFS on top of this one"), "{why}");
    assert!(!folder.path().join("db-wal").exists());
    drop(one);
    let other = open(&path).unwrap();
    other.execute_batch("INSERT INTO t VALUES(2, 'two')").unwrap();
    assert_eq!(rows(&other).len(), 1);
}
