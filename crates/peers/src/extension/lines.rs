//! SQLite's own VFS with a sync that writes cache lines back, as an `fsync` that ends at persistent
//! memory would.
//!
//! Where the medium is memory a sync of SQLite's own VFS costs a call to the kernel and nothing
//! else, so its write-ahead log is compared with systems that do write back. Here each file notes
//! what SQLite writes; a sync maps the file, writes those lines back, fences, and is then passed
//! on. All else is SQLite's own VFS.
//!
//! It is for a benchmark: a file is opened a second time for its mapping, and closing that lets go
//! of the locks that other connections of this process hold on the file.

use std::cell::Cell;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rusqlite::{Connection, ffi};

use super::connection::Stats;
use crate::flush::{Flush, LINE_BYTES};
use crate::mapping::Mapping;

/// The name of the VFS.
pub(super) const VFS: &CStr = c"perdura-lines";
/// A file is mapped in steps of so many bytes.
const MAPPED_STEP: u64 = 64 << 20;

thread_local! {
    /// Lines, fences, and bytes of write-ahead logs, of the files that this thread uses.
    static DONE: Cell<[u64; 3]> = const { Cell::new([0; 3]) };
}

fn count(lines: u64, fences: u64, logged: u64) {
    let [all_lines, all_fences, all_logged] = DONE.get();
    DONE.set([all_lines + lines, all_fences + fences, all_logged + logged]);
}

/// Returns what files of this VFS have done in this thread: lines and fences of their syncs, and
/// bytes written to write-ahead logs.
pub(super) fn counts() -> Stats {
    let [lines, fences, bytes] = DONE.get();
    Stats { lines, fences, bytes, ..Stats::default() }
}

/// The file as SQLite has it. The file of SQLite's own VFS lies [`INNER_AT`] bytes from its
/// beginning.
#[repr(C)]
struct Outer {
    file: ffi::sqlite3_file,
    written: *mut Written,
}

/// The offset of the other VFS's file in ours.
const INNER_AT: usize = size_of::<Outer>().next_multiple_of(16);

/// The part of a file that was written since its last sync.
struct Written {
    path: PathBuf,
    file: File,
    flush: Flush,
    is_log: bool,
    mapped: Option<(Mapping, u64)>,
    /// Runs of bytes: the first one, and the one after the last.
    runs: Vec<(u64, u64)>,
}

impl Written {
    fn open(path: &Path, is_log: bool) -> Option<Self> {
        let file = File::options().read(true).write(true).open(path).ok()?;
        let flush = Flush::detect().ok()?;
        let path = path.to_owned();
        Some(Self { path, file, flush, is_log, mapped: None, runs: Vec::new() })
    }

    fn note(&mut self, at: u64, bytes: u64) {
        match self.runs.last_mut() {
            // A log is written run by run: header, page, header, page.
            Some(last) if last.1 == at => last.1 += bytes,
            _ => self.runs.push((at, at + bytes)),
        }
        if self.is_log {
            count(0, 0, bytes);
        }
    }

    /// Writes back what was written, as far as the file still has it.
    fn sync(&mut self) -> Option<()> {
        let line = LINE_BYTES as u64;
        let end = self.file.metadata().ok()?.len();
        let enough = |mapped: &(Mapping, u64)| mapped.1 >= end;
        if !self.mapped.as_ref().is_some_and(enough) {
            let bytes = end.max(1).next_multiple_of(MAPPED_STEP);
            let mapping =
                Mapping::new(&self.file, &self.path, usize::try_from(bytes).ok()?).ok()?;
            self.mapped = Some((mapping, bytes));
        }
        let (mapping, _) = self.mapped.as_ref()?;
        let mut lines = 0;
        for (from, to) in self.runs.drain(..) {
            for at in (from / line * line..to.min(end)).step_by(LINE_BYTES) {
                mapping.write_back(self.flush, at as usize);
                lines += 1;
            }
        }
        self.flush.fence();
        count(lines, 1, 0);
        Some(())
    }
}

/// The file of SQLite's own VFS within ours.
///
/// # Safety
/// `file` is one that [`open`] has opened.
unsafe fn inner(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: `szOsFile` has room for both.
    unsafe { file.byte_add(INNER_AT) }
}

/// Functions that call that of the inner file.
macro_rules! passed_on {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[allow(non_snake_case)]
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $argument: $type)*) -> c_int {
            // SAFETY: SQLite hands in a file that is open; the inner one is as long, and its
            // methods stay.
            unsafe {
                let inner = inner(file);
                match (*(*inner).pMethods).$name {
                    Some(method) => method(inner $(, $argument)*),
                    None => ffi::SQLITE_IOERR,
                }
            }
        }
    )*};
}

passed_on! {
    xRead(to: *mut c_void, bytes: c_int, at: i64);
    xTruncate(size: i64);
    xFileSize(size: *mut i64);
    xLock(level: c_int);
    xUnlock(level: c_int);
    xCheckReservedLock(found: *mut c_int);
    xFileControl(op: c_int, argument: *mut c_void);
    xSectorSize();
    xDeviceCharacteristics();
    xShmMap(page: c_int, bytes: c_int, extend: c_int, to: *mut *mut c_void);
    xShmLock(at: c_int, count: c_int, flags: c_int);
    xShmUnmap(delete: c_int);
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    at: i64,
) -> c_int {
    // SAFETY: as in `passed_on`; `written` is ours from `open` to `close`.
    unsafe {
        let inner = inner(file);
        let Some(method) = (*(*inner).pMethods).xWrite else { return ffi::SQLITE_IOERR };
        let code = method(inner, from, bytes, at);
        if code == ffi::SQLITE_OK {
            (*(*file.cast::<Outer>()).written)
                .note(at.cast_unsigned(), u64::from(bytes.cast_unsigned()));
        }
        code
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: as in `write`.
    unsafe {
        if (*(*file.cast::<Outer>()).written).sync().is_none() {
            return ffi::SQLITE_IOERR_FSYNC;
        }
        let inner = inner(file);
        match (*(*inner).pMethods).xSync {
            Some(method) => method(inner, flags),
            None => ffi::SQLITE_IOERR,
        }
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: as in `write`; SQLite uses no file that is closed.
    unsafe {
        let inner = inner(file);
        let code = (*(*inner).pMethods).xClose.map_or(ffi::SQLITE_IOERR, |method| method(inner));
        drop(Box::from_raw((*file.cast::<Outer>()).written));
        (*file).pMethods = std::ptr::null();
        code
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // Without the pages of `xFetch`: SQLite maps nothing unless it is asked to.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(xRead),
    xWrite: Some(write),
    xTruncate: Some(xTruncate),
    xSync: Some(sync),
    xFileSize: Some(xFileSize),
    xLock: Some(xLock),
    xUnlock: Some(xUnlock),
    xCheckReservedLock: Some(xCheckReservedLock),
    xFileControl: Some(xFileControl),
    xSectorSize: Some(xSectorSize),
    xDeviceCharacteristics: Some(xDeviceCharacteristics),
    xShmMap: Some(xShmMap),
    xShmLock: Some(xShmLock),
    xShmBarrier: Some(barrier),
    xShmUnmap: Some(xShmUnmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: as in `passed_on`.
    unsafe {
        let inner = inner(file);
        if let Some(method) = (*(*inner).pMethods).xShmBarrier {
            method(inner);
        }
    }
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite's own VFS is its default one and stays; `file` has the `szOsFile` bytes that
    // `register` has asked for, with room for both files in sequence. A null method table means to
    // SQLite that nothing is open.
    unsafe {
        (*file).pMethods = std::ptr::null();
        let own = ffi::sqlite3_vfs_find(std::ptr::null());
        let Some(method) = (*own).xOpen else { return ffi::SQLITE_CANTOPEN };
        let is_log = flags & ffi::SQLITE_OPEN_WAL != 0;
        if name.is_null() || !(is_log || flags & ffi::SQLITE_OPEN_MAIN_DB != 0) {
            return method(vfs, name, file, flags, flags_out);
        }
        let inner = file.byte_add(INNER_AT);
        (*inner).pMethods = std::ptr::null();
        let code = method(own, name, inner, flags, flags_out);
        if code != ffi::SQLITE_OK || (*inner).pMethods.is_null() {
            return code;
        }
        let path = Path::new(OsStr::from_bytes(CStr::from_ptr(name.cast::<c_char>()).to_bytes()));
        let Some(written) = Written::open(path, is_log) else {
            if let Some(close) = (*(*inner).pMethods).xClose {
                close(inner);
            }
            return ffi::SQLITE_CANTOPEN;
        };
        (*file.cast::<Outer>()).written = Box::into_raw(Box::new(written));
        (*file).pMethods = &raw const METHODS;
        ffi::SQLITE_OK
    }
}

/// Registers the VFS with the SQLite of this process, once. It is not the default one.
///
/// # Errors
/// SQLite has none of its own, or no memory; this processor writes no lines back.
pub(super) fn register() -> rusqlite::Result<()> {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    let code = *REGISTERED.get_or_init(|| {
        if Flush::detect().is_err() {
            return ffi::SQLITE_NOTFOUND;
        }
        // Makes sure that SQLite has its own.
        let _opened = Connection::open_in_memory();
        // SAFETY: SQLite's own VFS stays as long as the process; so does the copy, which is never
        // freed.
        unsafe {
            let own = ffi::sqlite3_vfs_find(std::ptr::null());
            if own.is_null() {
                return ffi::SQLITE_NOTFOUND;
            }
            let mut vfs = *own;
            vfs.pNext = std::ptr::null_mut();
            vfs.zName = VFS.as_ptr();
            vfs.szOsFile += c_int::try_from(INNER_AT).expect("few bytes");
            vfs.xOpen = Some(open);
            ffi::sqlite3_vfs_register(Box::into_raw(Box::new(vfs)), 0)
        }
    });
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)),
    }
}
