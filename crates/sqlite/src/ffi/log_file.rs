//! A log next to a database, as SQLite sees it: a rollback journal, or a write-ahead log. SQLite locks and maps the
//! database's file alone.

use std::ffi::{c_int, c_void};

use super::abi::{File, IoMethods, code};
use super::guard::guarded;
use super::result_code;
use crate::database::{Failure, LogFile};

/// A kind of log.
pub(super) trait OpenLog: LogFile + Sized {
    /// SQLite's flags for what the medium does.
    const CHARACTERISTICS: c_int;

    /// Closes the log.
    fn close(self);
}

/// The file's layout in the memory that SQLite allocates.
#[repr(C)]
pub(super) struct Open<F> {
    base: File,
    state: *mut F,
}

impl<F: OpenLog> Open<F> {
    const TABLE: &'static IoMethods = &IoMethods {
        version: 1,
        close: Some(close::<F>),
        read: Some(read::<F>),
        write: Some(write::<F>),
        truncate: Some(truncate::<F>),
        sync: Some(sync::<F>),
        file_size: Some(file_size::<F>),
        lock: Some(lock),
        unlock: Some(lock),
        check_reserved_lock: Some(check_reserved_lock),
        file_control: Some(file_control),
        sector_size: Some(sector_size),
        device_characteristics: Some(device_characteristics::<F>),
        shm_map: None,
        shm_lock: None,
        shm_barrier: None,
        shm_unmap: None,
        fetch: None,
        unfetch: None,
    };
}

/// Creates an open log in SQLite's memory.
///
/// # Safety
/// There is room for an [`Open`] at `at`.
pub(super) unsafe fn put<F: OpenLog>(at: *mut File, file: F) {
    let state = Box::into_raw(Box::new(file));
    let base = File { methods: &raw const *Open::<F>::TABLE };
    // SAFETY: the caller's contract.
    unsafe { at.cast::<Open<F>>().write(Open { base, state }) };
}

/// Runs `work` on an open log.
///
/// # Safety
/// `file` was made by [`put`] and is not closed; SQLite calls from one thread at a time.
unsafe fn with<F: OpenLog>(
    file: *mut File,
    io: c_int,
    work: impl FnOnce(&mut F) -> Result<c_int, Failure>,
) -> c_int {
    guarded(io, || {
        // SAFETY: the caller's contract.
        let state = unsafe { &mut *(*file.cast::<Open<F>>()).state };
        work(state).unwrap_or_else(|failure| result_code::code_of(failure, io))
    })
}

unsafe extern "C" fn close<F: OpenLog>(file: *mut File) -> c_int {
    guarded(code::IOERR, || {
        // SAFETY: SQLite closes what it has opened, once.
        unsafe { Box::from_raw((*file.cast::<Open<F>>()).state) }.close();
        code::OK
    })
}

unsafe extern "C" fn read<F: OpenLog>(
    file: *mut File,
    to: *mut c_void,
    len: c_int,
    at: i64,
) -> c_int {
    // SAFETY: SQLite calls with a file of ours and room for so many bytes.
    unsafe {
        with::<F>(file, code::IOERR_READ, |state| {
            let out = std::slice::from_raw_parts_mut(to.cast::<u8>(), len.max(0) as usize);
            let there = state.read(at.max(0).cast_unsigned(), out)?;
            Ok(if there < out.len() { code::IOERR_SHORT_READ } else { code::OK })
        })
    }
}

unsafe extern "C" fn write<F: OpenLog>(
    file: *mut File,
    from: *const c_void,
    len: c_int,
    at: i64,
) -> c_int {
    // SAFETY: SQLite calls with a file of ours and so many bytes.
    unsafe {
        with::<F>(file, code::IOERR_WRITE, |state| {
            let bytes = std::slice::from_raw_parts(from.cast::<u8>(), len.max(0) as usize);
            state.write(at.max(0).cast_unsigned(), bytes)?;
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn truncate<F: OpenLog>(file: *mut File, to: i64) -> c_int {
    // SAFETY: SQLite calls with a file of ours.
    unsafe {
        with::<F>(file, code::IOERR_TRUNCATE, |state| {
            state.truncate(to.max(0).cast_unsigned())?;
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn sync<F: OpenLog>(file: *mut File, _flags: c_int) -> c_int {
    // SAFETY: SQLite calls with a file of ours.
    unsafe {
        with::<F>(file, code::IOERR_FSYNC, |state| {
            state.sync()?;
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn file_size<F: OpenLog>(file: *mut File, size: *mut i64) -> c_int {
    // SAFETY: SQLite calls with a file of ours and a place for the size.
    unsafe {
        with::<F>(file, code::IOERR, |state| {
            size.write(state.size()?.cast_signed());
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn lock(_file: *mut File, _level: c_int) -> c_int {
    code::OK
}

unsafe extern "C" fn check_reserved_lock(_file: *mut File, found: *mut c_int) -> c_int {
    // SAFETY: SQLite calls with a place for the answer.
    unsafe { found.write(0) };
    code::OK
}

unsafe extern "C" fn file_control(_file: *mut File, _what: c_int, _with: *mut c_void) -> c_int {
    code::NOTFOUND
}

unsafe extern "C" fn sector_size(_file: *mut File) -> c_int {
    512
}

unsafe extern "C" fn device_characteristics<F: OpenLog>(_file: *mut File) -> c_int {
    F::CHARACTERISTICS
}
