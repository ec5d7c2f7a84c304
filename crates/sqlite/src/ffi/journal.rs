//! A rollback journal in memory. It serves only its own transaction; a crash loses it. If SQLite appends the name
//! of a super-journal, the name is published first.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::abi::{File, IoMethods, code, device};
use super::guard::guarded;
use super::result_code;
use crate::database::{SuperJournalNotice, name_at_end};

/// The file's layout in the memory that SQLite allocates.
#[repr(C)]
pub(crate) struct Open {
    base: File,
    state: *mut State,
}

struct State {
    bytes: Vec<u8>,
    notice: Option<Arc<dyn SuperJournalNotice>>,
}

impl State {
    /// Ends the journal.
    fn end(&self) {
        if let Some(notice) = &self.notice {
            notice.clear();
        }
    }
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

/// Creates an empty journal in SQLite's memory.
///
/// # Safety
/// There is room for an [`Open`] at `at`.
pub(crate) unsafe fn put(at: *mut File, notice: Option<Arc<dyn SuperJournalNotice>>) {
    let state = Box::into_raw(Box::new(State { bytes: Vec::new(), notice }));
    // SAFETY: the caller's contract.
    unsafe { at.cast::<Open>().write(Open { base: File { methods: &raw const METHODS }, state }) };
}

/// Runs `work` on an open journal.
///
/// # Safety
/// `file` was made by [`put`] and is not closed; SQLite calls from one thread at a time.
unsafe fn with(file: *mut File, work: impl FnOnce(&mut Vec<u8>) -> c_int) -> c_int {
    guarded(code::IOERR, || {
        // SAFETY: the caller's contract.
        work(unsafe { &mut (*(*file.cast::<Open>()).state).bytes })
    })
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    guarded(code::IOERR, || {
        // SAFETY: SQLite closes what it has opened, once.
        unsafe { Box::from_raw((*file.cast::<Open>()).state) }.end();
        code::OK
    })
}

unsafe extern "C" fn read(file: *mut File, to: *mut c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite calls with a journal of ours and room for so many bytes.
    unsafe {
        with(file, |bytes| {
            let out = std::slice::from_raw_parts_mut(to.cast::<u8>(), len.max(0) as usize);
            let rest = bytes.get(at.max(0) as usize..).unwrap_or_default();
            let there = rest.len().min(out.len());
            out[..there].copy_from_slice(&rest[..there]);
            out[there..].fill(0);
            if there < out.len() { code::IOERR_SHORT_READ } else { code::OK }
        })
    }
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite calls with a journal of ours and so many bytes.
    unsafe {
        guarded(code::IOERR, || {
            let State { bytes, notice } = &mut *(*file.cast::<Open>()).state;
            let new = std::slice::from_raw_parts(from.cast::<u8>(), len.max(0) as usize);
            let at = at.max(0) as usize;
            let end = at.saturating_add(new.len());
            if end > bytes.len() {
                if bytes.try_reserve(end - bytes.len()).is_err() {
                    return code::NOMEM;
                }
                bytes.resize(end, 0);
            }
            bytes[at..end].copy_from_slice(new);
            // The magic after a name is written last. A name that cannot be published is erased.
            if at > 0
                && new.len() == 8
                && let (Some(name), Some(notice)) = (name_at_end(&bytes[..end]), notice)
                && let Err(failure) = notice.publish(name)
            {
                bytes[at..end].fill(0);
                return result_code::code_of(failure, code::IOERR_WRITE);
            }
            code::OK
        })
    }
}

unsafe extern "C" fn truncate(file: *mut File, to: i64) -> c_int {
    // SAFETY: SQLite calls with a journal of ours.
    unsafe {
        guarded(code::IOERR, || {
            let state = &mut *(*file.cast::<Open>()).state;
            state.bytes.truncate(to.max(0) as usize);
            if state.bytes.is_empty() {
                state.end();
            }
            code::OK
        })
    }
}

unsafe extern "C" fn sync(_file: *mut File, _flags: c_int) -> c_int {
    code::OK
}

unsafe extern "C" fn file_size(file: *mut File, size: *mut i64) -> c_int {
    // SAFETY: SQLite calls with a journal of ours and a place for the size.
    unsafe {
        with(file, |bytes| {
            size.write(bytes.len() as i64);
            code::OK
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

unsafe extern "C" fn device_characteristics(_file: *mut File) -> c_int {
    device::POWERSAFE_OVERWRITE | device::SAFE_APPEND | device::SEQUENTIAL
}
