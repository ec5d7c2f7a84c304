//! Databases whose pages are not in SQLite's form: a VFS on top encrypts them, as SQLCipher does below SQLite's pager,
//! or ends each with a checksum, as SQLite's `cksumvfs` does.

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::sync::Once;

use libsqlite3_sys as ffi;
use perdura_sqlite::database::{Mapped, OpenOptions};
use rusqlite::{Connection, OpenFlags};

use crate::register::register;
use crate::sql::{check, folder, rows, side_of};

/// A file of the encrypting VFS: SQLite's member, and after it the file underneath.
#[repr(C)]
struct Above {
    base: ffi::sqlite3_file,
    /// The first byte that is encrypted, or [`SUMS`].
    from: i64,
}

/// Instead of a first byte: each page ends with a checksum.
const SUMS: i64 = -1;
const SUM_BYTES: usize = 8;

/// The checksum of a page, and the one that it has.
fn sums(page: &[u8]) -> (u64, u64) {
    let (bytes, sum) = page.split_last_chunk::<SUM_BYTES>().unwrap();
    let made = bytes.iter().fold(7, |sum: u64, byte| sum.wrapping_mul(31) ^ u64::from(*byte));
    (made, u64::from_le_bytes(*sum))
}

/// The file underneath.
///
/// # Safety
/// `file` was opened by [`open_above`].
unsafe fn below(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: the caller's contract; there is room for both.
    unsafe { file.cast::<u8>().add(size_of::<Above>()).cast() }
}

/// Encrypts or decrypts bytes from `at` on.
fn cipher(bytes: &mut [u8], at: i64, from: i64) {
    for (byte, at) in bytes.iter_mut().zip(at..).filter(|(_, at)| *at >= from) {
        *byte ^= (at.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()) >> 56) as u8 | 1;
    }
}

macro_rules! forward {
    ($($name:ident: $method:ident($($argument:ident: $type:ty),*);)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file, $($argument: $type),*) -> c_int {
            // SAFETY: SQLite calls with an open file.
            unsafe {
                let below = below(file);
                (*(*below).pMethods).$method.unwrap()(below, $($argument),*)
            }
        }
    )*};
}

forward! {
    close: xClose();
    truncate: xTruncate(to: i64);
    sync: xSync(flags: c_int);
    size: xFileSize(size: *mut i64);
    lock: xLock(level: c_int);
    unlock: xUnlock(level: c_int);
    reserved: xCheckReservedLock(found: *mut c_int);
    control: xFileControl(what: c_int, with: *mut c_void);
    sector: xSectorSize();
    device: xDeviceCharacteristics();
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    to: *mut c_void,
    len: c_int,
    at: i64,
) -> c_int {
    // SAFETY: SQLite calls with an open file and room for so many bytes.
    unsafe {
        let below = below(file);
        let code = (*(*below).pMethods).xRead.unwrap()(below, to, len, at);
        if code == 0 {
            let bytes = std::slice::from_raw_parts_mut(to.cast(), len as usize);
            match (*file.cast::<Above>()).from {
                // What is shorter than a page is checked by no one.
                SUMS if len < 512 || sums(bytes).0 == sums(bytes).1 => {}
                SUMS => return ffi::SQLITE_IOERR_READ,
                from => cipher(bytes, at, from),
            }
        }
        code
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    // SAFETY: SQLite calls with an open file and so many bytes.
    unsafe {
        let below = below(file);
        let mut bytes = std::slice::from_raw_parts(from.cast::<u8>(), len as usize).to_vec();
        match (*file.cast::<Above>()).from {
            SUMS => {
                let (made, end) = (sums(&bytes).0, bytes.len() - SUM_BYTES);
                bytes[end..].copy_from_slice(&made.to_le_bytes());
            }
            from => cipher(&mut bytes, at, from),
        }
        (*(*below).pMethods).xWrite.unwrap()(below, bytes.as_ptr().cast(), len, at)
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

/// The VFSs: their names, those underneath, and the first byte that each encrypts.
const ALL: [(&CStr, &CStr, i64); 6] = [
    (c"sums-perdura", c"perdura", SUMS),
    (c"sums-unix", c"unix", SUMS),
    (c"cipher-perdura", c"perdura", 0),
    (c"cipher-unix", c"unix", 0),
    (c"header-perdura", c"perdura", 32),
    (c"header-unix", c"unix", 32),
];

unsafe extern "C" fn open_above(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls with a name and with room for a file.
    unsafe {
        let own = CStr::from_ptr((*vfs).zName);
        let (_, under, from) = ALL.into_iter().find(|(name, ..)| *name == own).unwrap();
        let under = ffi::sqlite3_vfs_find(under.as_ptr());
        if flags & ffi::SQLITE_OPEN_MAIN_DB == 0 {
            return (*under).xOpen.unwrap()(under, name, file, flags, out_flags);
        }
        (*file).pMethods = std::ptr::null();
        let code = (*under).xOpen.unwrap()(under, name, below(file), flags, out_flags);
        if code == 0 {
            file.cast::<Above>()
                .write(Above { base: ffi::sqlite3_file { pMethods: &raw const METHODS }, from });
        }
        code
    }
}

fn register_all() {
    static ONCE: Once = Once::new();
    register();
    ONCE.call_once(|| {
        for (name, under, _) in ALL {
            // SAFETY: registered VFSs are never freed.
            unsafe {
                let under = ffi::sqlite3_vfs_find(under.as_ptr());
                let vfs = Box::leak(Box::new(ffi::sqlite3_vfs {
                    szOsFile: (*under).szOsFile + size_of::<Above>() as c_int,
                    pNext: std::ptr::null_mut(),
                    zName: name.as_ptr(),
                    xOpen: Some(open_above),
                    ..*under
                }));
                assert_eq!(ffi::sqlite3_vfs_register(vfs, 0), 0);
            }
        }
    });
}

fn open_with(path: &Path, vfs: &str) -> rusqlite::Result<Connection> {
    register_all();
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), vfs)
}

/// Lets a new database have room for a checksum in each page.
fn reserve(connection: &Connection) {
    let mut bytes = SUM_BYTES as c_int;
    let with = (&raw mut bytes).cast();
    // SAFETY: the connection is open.
    let code = unsafe {
        let reserve = ffi::SQLITE_FCNTL_RESERVE_BYTES;
        ffi::sqlite3_file_control(connection.handle(), c"main".as_ptr(), reserve, with)
    };
    assert_eq!(code, 0);
}

/// The change counter is a part of what has a checksum.
#[test]
fn pages_with_checksums_are_whole_after_a_kill() {
    let directory = folder();
    let (path, copy) = (directory.path().join("db"), directory.path().join("copy"));
    let made = open_with(&path, "sums-unix").unwrap();
    reserve(&made);
    made.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
    drop(made);
    let one = open_with(&path, "sums-perdura").unwrap();
    for key in 0..20 {
        one.execute("INSERT INTO t VALUES(?1, 'row')", [key]).unwrap();
    }
    std::fs::copy(&path, &copy).unwrap();
    if side_of(&path).exists() {
        std::fs::copy(side_of(&path), side_of(&copy)).unwrap();
    }
    drop(one);
    for path in [&path, &copy] {
        for vfs in ["sums-perdura", "sums-unix"] {
            let read = open_with(path, vfs).unwrap();
            assert_eq!(rows(&read).len(), 20, "{vfs}");
            check(&read);
        }
    }
    // A new one.
    let path = directory.path().join("new");
    let one = open_with(&path, "sums-perdura").unwrap();
    reserve(&one);
    assert!(one.execute_batch("CREATE TABLE t(a, b)").is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "nothing has changed");
}

#[test]
fn encrypted_database_stays_readable_without_the_vfs() {
    for (ours, stocks) in [("cipher-perdura", "cipher-unix"), ("header-perdura", "header-unix")] {
        let directory = folder();
        let (path, copy) = (directory.path().join("db"), directory.path().join("copy"));
        let made = open_with(&path, stocks).unwrap();
        made.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)").unwrap();
        for key in 0..500 {
            made.execute("INSERT INTO t VALUES(?1, 'row')", [key]).unwrap();
        }
        drop(made);
        let one = open_with(&path, ours).unwrap();
        assert_eq!(rows(&one).len(), 500, "{ours}");
        one.execute_batch("INSERT INTO t VALUES(1000, 'acknowledged')").unwrap();
        assert!(!side_of(&path).exists(), "it is left to the underlying VFS");
        // As a kill would leave it.
        std::fs::copy(&path, &copy).unwrap();
        drop(one);
        for path in [&path, &copy] {
            for vfs in [stocks, ours] {
                let read = open_with(path, vfs).unwrap();
                check(&read);
                assert_eq!(rows(&read).len(), 501, "{vfs}");
            }
        }
    }
}

#[test]
fn commit_of_a_page_1_that_is_not_sqlites_is_refused() {
    for ours in ["cipher-perdura", "header-perdura"] {
        let directory = folder();
        let path = directory.path().join("db");
        let one = open_with(&path, ours).unwrap();
        for _ in 0..2 {
            assert!(one.execute_batch("CREATE TABLE t(a, b)").is_err(), "{ours}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "nothing has changed");
        }
        drop(one);
        assert!(!side_of(&path).exists());
    }
}

#[test]
fn new_database_of_an_encrypting_build_is_left_to_it() {
    let directory = folder();
    let path = directory.path().join("db");
    let options = OpenOptions { create: true, may_encrypt: true, ..OpenOptions::default() };
    assert!(Mapped::open(&path, &options).unwrap().is_none());
    assert!(!side_of(&path).exists());
    let plain = Connection::open(&path).unwrap();
    plain.execute_batch("CREATE TABLE t(a, b)").unwrap();
    drop(plain);
    assert!(Mapped::open(&path, &options).unwrap().is_some(), "it is in SQLite's form");
}
