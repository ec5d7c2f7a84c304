//! SQLite's tables and numbers, as `sqlite3.h` declares them; the same since 3.7.6.

use std::ffi::{c_char, c_double, c_int, c_void};

/// An open file: the first member of what a VFS keeps for it.
#[repr(C)]
#[derive(Debug)]
pub struct File {
    /// Null until the file is open. SQLite closes a file with methods.
    pub methods: *const IoMethods,
}

/// The methods of an open file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named as in SQLite's documentation, but for `x`")]
pub struct IoMethods {
    pub version: c_int,
    pub close: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub read: Option<unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int>,
    pub write: Option<unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int>,
    pub truncate: Option<unsafe extern "C" fn(*mut File, i64) -> c_int>,
    pub sync: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub file_size: Option<unsafe extern "C" fn(*mut File, *mut i64) -> c_int>,
    pub lock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub unlock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub check_reserved_lock: Option<unsafe extern "C" fn(*mut File, *mut c_int) -> c_int>,
    pub file_control: Option<unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int>,
    pub sector_size: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub device_characteristics: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub shm_map:
        Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int>,
    pub shm_lock: Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int>,
    pub shm_barrier: Option<unsafe extern "C" fn(*mut File)>,
    pub shm_unmap: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub fetch: Option<unsafe extern "C" fn(*mut File, i64, c_int, *mut *mut c_void) -> c_int>,
    pub unfetch: Option<unsafe extern "C" fn(*mut File, i64, *mut c_void) -> c_int>,
}

/// A function of a library that SQLite has loaded.
pub type Symbol = Option<unsafe extern "C" fn()>;

/// A virtual file system.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named as in SQLite's documentation, but for `x`")]
pub struct Vfs {
    pub version: c_int,
    pub file_bytes: c_int,
    pub longest_path: c_int,
    pub next: *mut Vfs,
    pub name: *const c_char,
    pub data: *mut c_void,
    pub open: Option<
        unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int,
    >,
    pub delete: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int>,
    pub access: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int>,
    pub full_pathname:
        Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int>,
    pub dl_open: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void>,
    pub dl_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char)>,
    pub dl_sym: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Symbol>,
    pub dl_close: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void)>,
    pub randomness: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub sleep: Option<unsafe extern "C" fn(*mut Vfs, c_int) -> c_int>,
    pub current_time: Option<unsafe extern "C" fn(*mut Vfs, *mut c_double) -> c_int>,
    pub get_last_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub current_time_int64: Option<unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
    pub set_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, Symbol) -> c_int>,
    pub get_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> Symbol>,
    pub next_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *const c_char>,
}

/// Result codes.
#[expect(missing_docs, reason = "named as in SQLite's documentation")]
pub mod code {
    use std::ffi::c_int;
    pub const OK: c_int = 0;
    pub const ERROR: c_int = 1;
    pub const BUSY: c_int = 5;
    pub const NOMEM: c_int = 7;
    pub const READONLY: c_int = 8;
    pub const IOERR: c_int = 10;
    pub const CORRUPT: c_int = 11;
    pub const NOTFOUND: c_int = 12;
    pub const FULL: c_int = 13;
    pub const CANTOPEN: c_int = 14;
    pub const OK_LOAD_PERMANENTLY: c_int = 256;
    pub const IOERR_READ: c_int = IOERR | 1 << 8;
    pub const IOERR_SHORT_READ: c_int = IOERR | 2 << 8;
    pub const IOERR_WRITE: c_int = IOERR | 3 << 8;
    pub const IOERR_FSYNC: c_int = IOERR | 4 << 8;
    pub const IOERR_TRUNCATE: c_int = IOERR | 6 << 8;
    pub const IOERR_NOMEM: c_int = IOERR | 12 << 8;
    pub const IOERR_LOCK: c_int = IOERR | 15 << 8;
    pub const IOERR_SHMLOCK: c_int = IOERR | 20 << 8;
    pub const IOERR_SHMMAP: c_int = IOERR | 21 << 8;
    pub const IOERR_DELETE_NOENT: c_int = IOERR | 23 << 8;
    pub const IOERR_MMAP: c_int = IOERR | 24 << 8;
}

/// Flags of `xOpen`.
#[expect(missing_docs, reason = "named as in SQLite's documentation")]
pub mod open {
    use std::ffi::c_int;
    pub const READONLY: c_int = 0x1;
    pub const READWRITE: c_int = 0x2;
    pub const CREATE: c_int = 0x4;
    pub const URI: c_int = 0x40;
    pub const MAIN_DB: c_int = 0x100;
    pub const MAIN_JOURNAL: c_int = 0x800;
    pub const WAL: c_int = 0x8_0000;
    /// Asks the VFS whether a file exists.
    pub const ACCESS_EXISTS: c_int = 0;
}

/// Operations of `xFileControl`.
#[expect(missing_docs, reason = "named as in SQLite's documentation")]
pub mod control {
    use std::ffi::c_int;
    pub const LOCKSTATE: c_int = 1;
    pub const SIZE_HINT: c_int = 5;
    pub const CHUNK_SIZE: c_int = 6;
    pub const PERSIST_WAL: c_int = 10;
    pub const VFSNAME: c_int = 12;
    pub const POWERSAFE_OVERWRITE: c_int = 13;
    pub const PRAGMA: c_int = 14;
    pub const MMAP_SIZE: c_int = 18;
    pub const HAS_MOVED: c_int = 20;
    pub const SYNC: c_int = 21;
    pub const COMMIT_PHASETWO: c_int = 22;
    pub const CKPT_DONE: c_int = 37;
}

/// Flags of `xShmLock`.
#[expect(missing_docs, reason = "named as in SQLite's documentation")]
pub mod shm {
    use std::ffi::c_int;
    pub const LOCK: c_int = 2;
    pub const SHARED: c_int = 4;
}

/// Properties of a device.
#[expect(missing_docs, reason = "named as in SQLite's documentation")]
pub mod device {
    use std::ffi::c_int;
    pub const SAFE_APPEND: c_int = 0x200;
    pub const SEQUENTIAL: c_int = 0x400;
    pub const POWERSAFE_OVERWRITE: c_int = 0x1000;
}
