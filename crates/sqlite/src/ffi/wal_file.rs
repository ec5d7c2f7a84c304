//! A write-ahead log of this VFS, as SQLite sees it.

use std::ffi::{c_int, c_void};

use super::abi::{File, IoMethods, code, device};
use super::guard::guarded;
use super::result_code;
use crate::database::{Failure, LogFile};

/// The file's layout in the memory that SQLite allocates.
#[repr(C)]
pub(crate) struct Open {
    base: File,
    log: *mut Box<dyn LogFile>,
}

static METHODS: IoMethods = IoMethods {
    version: 1,
    close: Some(close),
    read: Some(read),
    write: Some(write),
    truncate: Some(truncate),
    sync: Some(sync),
    file_size: Some(file_size),
    lock: Some(lock),
    unlock: Some(lock),
    check_reserved_lock: Some(check_reserved_lock),
    file_control: Some(file_control),
    sector_size: Some(sector_size),
    device_characteristics: Some(device_characteristics),
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: None,
    unfetch: None,
};

/// Creates an open log in SQLite's memory.
///
/// # Safety
/// There is room for an [`Open`] at `at`.
pub(crate) unsafe fn put(at: *mut File, log: Box<dyn LogFile>) {
    let log = Box::into_raw(Box::new(log));
    // SAFETY: the caller's contract.
    unsafe { at.cast::<Open>().write(Open { base: File { methods: &raw const METHODS }, log }) };
}

/// Runs `work` on an open log.
///
/// # Safety
/// `file` was made by [`put`] and is not closed; SQLite calls from one thread at a time.
unsafe fn with(
    file: *mut File,
    io: c_int,
    work: impl FnOnce(&mut dyn LogFile) -> Result<c_int, Failure>,
) -> c_int {
    guarded(io, || {
        // SAFETY: the caller's contract.
        let log = unsafe { &mut **(*file.cast::<Open>()).log };
        work(log).unwrap_or_else(|failure| result_code::code_of(failure, io))
    })
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    guarded(code::IOERR, || {
        // SAFETY: SQLite closes what it has opened, once.
        drop(unsafe { Box::from_raw((*file.cast::<Open>()).log) });
        code::OK
    })
}

unsafe extern "C" fn read(file: *mut File, to: *mut c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite calls with a log of ours and room for so many bytes.
    unsafe {
        with(file, code::IOERR_READ, |log| {
            let out = std::slice::from_raw_parts_mut(to.cast::<u8>(), len.max(0) as usize);
            let there = log.read(at.max(0).cast_unsigned(), out)?;
            Ok(if there < out.len() { code::IOERR_SHORT_READ } else { code::OK })
        })
    }
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite calls with a log of ours and so many bytes.
    unsafe {
        with(file, code::IOERR_WRITE, |log| {
            let bytes = std::slice::from_raw_parts(from.cast::<u8>(), len.max(0) as usize);
            log.write(at.max(0).cast_unsigned(), bytes)?;
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn truncate(file: *mut File, to: i64) -> c_int {
    // SAFETY: SQLite calls with a log of ours.
    unsafe {
        with(file, code::IOERR_WRITE, |log| {
            log.truncate(to.max(0).cast_unsigned())?;
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn sync(file: *mut File, _flags: c_int) -> c_int {
    // SAFETY: SQLite calls with a log of ours.
    unsafe {
        with(file, code::IOERR_FSYNC, |log| {
            log.sync()?;
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn file_size(file: *mut File, size: *mut i64) -> c_int {
    // SAFETY: SQLite calls with a log of ours and a place for the size.
    unsafe {
        with(file, code::IOERR, |log| {
            size.write(log.size()?.cast_signed());
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

/// SQLite asks the database file instead.
unsafe extern "C" fn device_characteristics(_file: *mut File) -> c_int {
    device::POWERSAFE_OVERWRITE
}
