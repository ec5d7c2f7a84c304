//! Finds the SQLite that a call was meant for: the one whose function the caller would have got
//! without this library.
//!
//! 1. A program that is linked with SQLite, directly or through a library, has it in the linker's
//!    search order: it is the next one after this library.
//! 2. A module that is loaded later, as Python's is, brings its own SQLite. It is searched for
//!    among all loaded libraries.
//! 3. If there are several, it is the one that the caller's library is linked with.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// A SQLite.
#[derive(Debug)]
pub(crate) enum Sqlite {
    /// The next one in the linker's search order.
    Next,
    /// The one of a library, or of what that is linked with.
    Of(Library),
}

/// A function of SQLite, by name and signature; returns the error if it does not exist.
macro_rules! function {
    ($sqlite:expr, $name:literal: ($($argument:ty),*) -> $result:ty) => {
        // The caller's `unsafe` says that SQLite declares it so.
        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) -> $result>(
            $sqlite.symbol(std::ffi::CStr::from_bytes_with_nul_unchecked(concat!($name, "\0").as_bytes()))?,
        )
    };
}
pub(crate) use function;

/// A function that every SQLite has, and this library as well.
const OPEN: &CStr = c"sqlite3_open_v2";
/// The most stack frames that are searched for the caller.
const DEPTH: usize = 64;

impl Sqlite {
    /// Returns the SQLite that the caller of this library means.
    ///
    /// # Errors
    /// There is no SQLite, or there are several and it is unknown which one is meant.
    pub(crate) fn of_caller() -> Result<Self, String> {
        // SAFETY: it looks up a name.
        if !unsafe { libc::dlsym(libc::RTLD_NEXT, OPEN.as_ptr()) }.is_null() {
            return Ok(Self::Next);
        }
        // A library that is linked with SQLite finds it as well: each SQLite is kept once.
        let mut found: Vec<(*mut c_void, Library)> = Vec::new();
        for library in loaded() {
            let Some(base) = library.sqlite() else { continue };
            if found.iter().all(|(known, _)| *known != base) {
                found.push((base, library));
            }
        }
        if found.len() > 1 {
            let caller = caller().filter(|library| library.sqlite().is_some());
            return caller.map(Self::Of).ok_or_else(|| {
                "there are several SQLites, and it is unknown which one is called".into()
            });
        }
        found.pop().map(|(_, library)| Self::Of(library)).ok_or_else(|| "there is no SQLite".into())
    }

    /// The address of a function.
    ///
    /// # Errors
    /// This SQLite has no function of that name.
    pub(crate) fn symbol(&self, name: &CStr) -> Result<*mut c_void, String> {
        let handle = match self {
            Self::Next => libc::RTLD_NEXT,
            Self::Of(library) => library.handle,
        };
        // SAFETY: it looks up a name in a loaded library.
        let place = unsafe { libc::dlsym(handle, name.as_ptr()) };
        if place.is_null() {
            return Err(format!("SQLite has no function {}", name.to_string_lossy()));
        }
        Ok(place)
    }
}

/// A loaded library, which stays loaded at least as long as this value.
#[derive(Debug)]
pub(crate) struct Library {
    handle: *mut c_void,
}

impl Library {
    /// The library with a name, if it is loaded.
    fn of(name: &CStr) -> Option<Self> {
        // SAFETY: nothing is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self { handle })
    }

    /// The base address of the SQLite that this library contains or is linked with; `None` if that
    /// is this library itself.
    fn sqlite(&self) -> Option<*mut c_void> {
        // SAFETY: it looks a name up, in what is loaded.
        let place = unsafe { libc::dlsym(self.handle, OPEN.as_ptr()) };
        let base = object(place)?.dli_fbase;
        (base != own_base()).then_some(base)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: `of` has counted this handle.
        unsafe { libc::dlclose(self.handle) };
    }
}

/// All loaded libraries.
fn loaded() -> Vec<Library> {
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _: usize,
        names: *mut c_void,
    ) -> c_int {
        // SAFETY: it is called below with a vector of names and with the loader's object, whose
        // name is a C string.
        unsafe {
            let name = (*info).dlpi_name;
            if !name.is_null() && *name != 0 {
                (*names.cast::<Vec<CString>>()).push(CStr::from_ptr(name).to_owned());
            }
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the function gets the vector it expects. It calls no function of the loader, which is
    // locked.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    names.iter().filter_map(|name| Library::of(name)).collect()
}

/// The library or program that contains an address.
fn object(place: *const c_void) -> Option<libc::Dl_info> {
    // SAFETY: all zeros is a valid value, which is then filled in.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (!place.is_null() && libc::dladdr(place, &raw mut info) != 0).then_some(info)
    }
}

/// The base address of this library.
fn own_base() -> *mut c_void {
    static HERE: u8 = 0;
    object((&raw const HERE).cast()).map_or(std::ptr::null_mut(), |info| info.dli_fbase)
}

/// The library that called this one.
fn caller() -> Option<Library> {
    let mut frames = [std::ptr::null_mut(); DEPTH];
    // SAFETY: the array has that many entries.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), DEPTH as c_int) };
    let own = own_base();
    let outside = frames[..count.max(0) as usize]
        .iter()
        .filter_map(|frame| object(*frame))
        .find(|info| info.dli_fbase != own)?;
    let name: *const c_char = outside.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: the loader's name of a loaded library, a C string.
    Library::of(unsafe { CStr::from_ptr(name) })
}
