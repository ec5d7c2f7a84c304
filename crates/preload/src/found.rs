//! The SQLite that a call was meant for: the one whose function the caller would have got without this library.
//!
//! 1. A program that is linked with SQLite, or with a library that is, has it in the order in which the linker
//!    searches: it is the next one behind this library.
//! 2. A module that is loaded later, as Python's is, brings SQLite for itself alone. It is looked for among all that
//!    is loaded.
//! 3. If that are several, it is the one that the caller's library is linked with.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// A SQLite.
#[derive(Debug)]
pub(crate) enum Sqlite {
    /// The next one behind this library.
    Next,
    /// That of a library and what it is linked with.
    Of(Library),
}

/// A function of SQLite, by its name and signature; where there is none, the error is returned.
macro_rules! function {
    ($sqlite:expr, $name:literal: ($($argument:ty),*) -> $result:ty) => {
        // The caller's `unsafe` says that SQLite declares it so.
        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) -> $result>(
            $sqlite.symbol(std::ffi::CStr::from_bytes_with_nul_unchecked(concat!($name, "\0").as_bytes()))?,
        )
    };
}
pub(crate) use function;

/// A function that every SQLite has, and this library.
const OPEN: &CStr = c"sqlite3_open_v2";
/// How far the caller of this library can be away, in calls.
const DEPTH: usize = 64;

impl Sqlite {
    /// Returns the SQLite that is meant by whoever has called this library.
    ///
    /// # Errors
    /// There is none, or it cannot be told which.
    pub(crate) fn of_caller() -> Result<Self, String> {
        // SAFETY: it looks a name up.
        if !unsafe { libc::dlsym(libc::RTLD_NEXT, OPEN.as_ptr()) }.is_null() {
            return Ok(Self::Next);
        }
        // What is linked with SQLite leads to it as well: each SQLite is kept once.
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

    /// The place of a function.
    ///
    /// # Errors
    /// This SQLite has none of that name.
    pub(crate) fn symbol(&self, name: &CStr) -> Result<*mut c_void, String> {
        let handle = match self {
            Self::Next => libc::RTLD_NEXT,
            Self::Of(library) => library.handle,
        };
        // SAFETY: it looks a name up, in what is loaded.
        let place = unsafe { libc::dlsym(handle, name.as_ptr()) };
        if place.is_null() {
            return Err(format!("SQLite has no function {}", name.to_string_lossy()));
        }
        Ok(place)
    }
}

/// A library that is loaded, and stays at least as long as this.
#[derive(Debug)]
pub(crate) struct Library {
    handle: *mut c_void,
}

impl Library {
    /// The library of a name, if it is loaded.
    fn of(name: &CStr) -> Option<Self> {
        // SAFETY: nothing is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self { handle })
    }

    /// Where the SQLite lies that this library has, or is linked with; `None` if that is none but this library.
    fn sqlite(&self) -> Option<*mut c_void> {
        // SAFETY: it looks a name up, in what is loaded.
        let place = unsafe { libc::dlsym(self.handle, OPEN.as_ptr()) };
        let base = object(place)?.dli_fbase;
        (base != own_base()).then_some(base)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: it was counted when this was made.
        unsafe { libc::dlclose(self.handle) };
    }
}

/// All libraries that are loaded.
fn loaded() -> Vec<Library> {
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _: usize,
        names: *mut c_void,
    ) -> c_int {
        // SAFETY: it is called below with names, and with an object of the loader's, whose name is a C string.
        unsafe {
            let name = (*info).dlpi_name;
            if !name.is_null() && *name != 0 {
                (*names.cast::<Vec<CString>>()).push(CStr::from_ptr(name).to_owned());
            }
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the function is given the names, as it wants. It calls nothing of the loader's, which is locked.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    names.iter().filter_map(|name| Library::of(name)).collect()
}

/// The library, or the program, that an address lies in.
fn object(place: *const c_void) -> Option<libc::Dl_info> {
    // SAFETY: all zeros is one, and it is filled in.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (!place.is_null() && libc::dladdr(place, &raw mut info) != 0).then_some(info)
    }
}

/// Where this library lies.
fn own_base() -> *mut c_void {
    static HERE: u8 = 0;
    object((&raw const HERE).cast()).map_or(std::ptr::null_mut(), |info| info.dli_fbase)
}

/// The library that has called this one.
fn caller() -> Option<Library> {
    let mut frames = [std::ptr::null_mut(); DEPTH];
    // SAFETY: there is so much room.
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
    // SAFETY: the loader's name of a library that is loaded, a C string.
    Library::of(unsafe { CStr::from_ptr(name) })
}
