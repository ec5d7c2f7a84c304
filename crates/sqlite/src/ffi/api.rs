//! The functions of SQLite that the extension calls, from the table that an extension is given.

use std::ffi::{c_char, c_int, c_void};

use super::abi::Vfs;

/// The table `sqlite3_api_routines`: function pointers, in an order that SQLite only appends to.
#[repr(C)]
#[derive(Debug)]
pub struct Routines {
    _first: *const c_void,
}

/// The oldest SQLite that has all functions used here, 3.34.
const OLDEST: c_int = 3_034_000;

type Malloc = unsafe extern "C" fn(u64) -> *mut c_void;
type Find = unsafe extern "C" fn(*const c_char) -> *mut Vfs;
type Register = unsafe extern "C" fn(*mut Vfs, c_int) -> c_int;
type Version = unsafe extern "C" fn() -> c_int;
type OptionUsed = unsafe extern "C" fn(*const c_char) -> c_int;
type Database = unsafe extern "C" fn(*const c_char) -> *const c_char;
type Parameter = unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char;

/// Functions of SQLite.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    malloc: Malloc,
    vfs_find: Find,
    vfs_register: Register,
    uri_parameter: Parameter,
    filename_database: Database,
    /// Missing if SQLite was built without it.
    option_used: Option<OptionUsed>,
}

// Indices of the functions in the table.
const LIBVERSION_NUMBER: usize = 67;
const VFS_FIND: usize = 141;
const VFS_REGISTER: usize = 142;
const COMPILEOPTION_USED: usize = 161;
const URI_PARAMETER: usize = 189;
const MALLOC64: usize = 197;
const FILENAME_DATABASE: usize = 246;

impl Api {
    /// The functions in SQLite's table; `None` if SQLite is too old.
    ///
    /// # Safety
    /// `routines` is SQLite's table.
    pub(crate) unsafe fn of(routines: *const Routines) -> Option<Self> {
        // SAFETY: the caller's contract. Whatever the version, that of the version is there; and from
        // the oldest one on all others, each a function with the signature that SQLite declares.
        unsafe {
            let place = |place: usize| *routines.cast::<*const c_void>().add(place);
            let version = std::mem::transmute::<*const c_void, Version>(place(LIBVERSION_NUMBER));
            if version() < OLDEST {
                return None;
            }
            Some(Self {
                malloc: std::mem::transmute::<*const c_void, Malloc>(place(MALLOC64)),
                vfs_find: std::mem::transmute::<*const c_void, Find>(place(VFS_FIND)),
                vfs_register: std::mem::transmute::<*const c_void, Register>(place(VFS_REGISTER)),
                uri_parameter: std::mem::transmute::<*const c_void, Parameter>(place(
                    URI_PARAMETER,
                )),
                filename_database: std::mem::transmute::<*const c_void, Database>(place(
                    FILENAME_DATABASE,
                )),
                option_used: std::mem::transmute::<*const c_void, Option<OptionUsed>>(place(
                    COMPILEOPTION_USED,
                )),
            })
        }
    }

    /// The name of the main database of a journal. For the connection's own journal it is the same pointer that
    /// `xOpen` of the database was given.
    ///
    /// # Safety
    /// `journal` is the name that was passed to `xOpen` of a main journal or a write-ahead log.
    pub(crate) unsafe fn database_of(&self, journal: *const c_char) -> *const c_char {
        // SAFETY: the caller's contract. A VFS above that makes a name does so as SQLite does, with zeros in front.
        unsafe { (self.filename_database)(journal) }
    }

    /// The VFS of a name, or the default one; null if there is none.
    ///
    /// # Safety
    /// `name` is null or a C string.
    pub(crate) unsafe fn find(&self, name: *const c_char) -> *mut Vfs {
        // SAFETY: the caller's contract.
        unsafe { (self.vfs_find)(name) }
    }

    /// Registers a VFS, which is never freed.
    pub(crate) fn register(&self, vfs: &'static mut Vfs, default: bool) -> c_int {
        // SAFETY: SQLite links it into its list.
        unsafe { (self.vfs_register)(vfs, c_int::from(default)) }
    }

    /// The value of a URI parameter of an open database.
    ///
    /// # Safety
    /// `file` is the name that SQLite passed to `xOpen` of a main database.
    pub(crate) unsafe fn parameter(
        &self,
        file: *const c_char,
        name: &std::ffi::CStr,
    ) -> Option<String> {
        // SAFETY: the caller's contract; what is returned lives as long as the file's name.
        unsafe {
            let value = (self.uri_parameter)(file, name.as_ptr());
            (!value.is_null())
                .then(|| std::ffi::CStr::from_ptr(value).to_string_lossy().into_owned())
        }
    }

    /// Returns whether SQLite was built with an option.
    fn was_built_with(&self, option: &std::ffi::CStr) -> bool {
        // SAFETY: it searches a list for the name.
        self.option_used.is_some_and(|used| unsafe { used(option.as_ptr()) != 0 })
    }

    /// Returns whether SQLite was built to overwrite deleted data.
    pub(crate) fn deletes_securely(&self) -> bool {
        self.was_built_with(c"SECURE_DELETE") || self.was_built_with(c"FAST_SECURE_DELETE")
    }

    /// Returns whether SQLite was built to encrypt databases, as SQLCipher is.
    pub(crate) fn may_encrypt(&self) -> bool {
        self.was_built_with(c"HAS_CODEC")
    }

    /// Copies a text into memory that SQLite will free; null if there is none.
    pub(crate) fn text(&self, text: &str) -> *mut c_char {
        let bytes = text.as_bytes();
        // SAFETY: that many bytes are allocated, or none.
        unsafe {
            let at: *mut u8 = (self.malloc)(bytes.len() as u64 + 1).cast();
            if !at.is_null() {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
                at.add(bytes.len()).write(0);
            }
            at.cast()
        }
    }
}
