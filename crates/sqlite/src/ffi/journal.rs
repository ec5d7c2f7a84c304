//! A rollback journal in memory, or in a file without a name. It serves only its own transaction; a crash loses it. If SQLite appends the name
//! of a super-journal, the name is published first.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use super::abi::{File, IoMethods, code, device};
use super::guard::guarded;
use super::result_code;
use crate::database::{
    Failure, JOURNAL_MAGIC, JournalBytes, NAMED_BYTES, SuperJournalNotice, name_at_end,
};

/// The file's layout in the memory that SQLite allocates.
#[repr(C)]
pub(crate) struct Open {
    base: File,
    state: *mut State,
}

struct State {
    bytes: JournalBytes,
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
pub(crate) unsafe fn put(
    at: *mut File,
    notice: Option<Arc<dyn SuperJournalNotice>>,
    folder: Option<PathBuf>,
) {
    let state = Box::into_raw(Box::new(State { bytes: JournalBytes::new(folder), notice }));
    // SAFETY: the caller's contract.
    unsafe { at.cast::<Open>().write(Open { base: File { methods: &raw const METHODS }, state }) };
}

/// Runs `work` on an open journal.
///
/// # Safety
/// `file` was made by [`put`] and is not closed; SQLite calls from one thread at a time.
unsafe fn with(
    file: *mut File,
    io: c_int,
    work: impl FnOnce(&mut State) -> Result<c_int, Failure>,
) -> c_int {
    guarded(io, || {
        // SAFETY: the caller's contract.
        let state = unsafe { &mut *(*file.cast::<Open>()).state };
        work(state).unwrap_or_else(|failure| result_code::code_of(failure, io))
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
        with(file, code::IOERR_READ, |state| {
            let out = std::slice::from_raw_parts_mut(to.cast::<u8>(), len.max(0) as usize);
            let there = state.bytes.read(at.max(0).cast_unsigned(), out)?;
            Ok(if there < out.len() { code::IOERR_SHORT_READ } else { code::OK })
        })
    }
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite calls with a journal of ours and so many bytes.
    unsafe {
        with(file, code::IOERR_WRITE, |State { bytes, notice }| {
            let new = std::slice::from_raw_parts(from.cast::<u8>(), len.max(0) as usize);
            let at = at.max(0).cast_unsigned();
            bytes.write(at, new)?;
            // The magic after a name is written last. A name that cannot be published is erased.
            if at > 0
                && let (Ok(magic), Some(notice)) = (<[u8; 8]>::try_from(new), notice)
                && let Some(name) = super_journal(bytes, at, magic)?
                && let Err(failure) = notice.publish(&name)
            {
                bytes.write(at, &[0; 8])?;
                return Err(failure);
            }
            Ok(code::OK)
        })
    }
}

/// The name before the bytes at `at`, if these end a name.
fn super_journal(
    bytes: &JournalBytes,
    at: u64,
    magic: [u8; 8],
) -> Result<Option<Vec<u8>>, Failure> {
    if magic != JOURNAL_MAGIC {
        return Ok(None);
    }
    let end = at + magic.len() as u64;
    let mut last = vec![0; end.min(NAMED_BYTES as u64) as usize];
    bytes.read(end - last.len() as u64, &mut last)?;
    Ok(name_at_end(&last).map(<[u8]>::to_vec))
}

unsafe extern "C" fn truncate(file: *mut File, to: i64) -> c_int {
    // SAFETY: SQLite calls with a journal of ours.
    unsafe {
        with(file, code::IOERR, |state| {
            state.bytes.truncate(to.max(0).cast_unsigned())?;
            if state.bytes.len() == 0 {
                state.end();
            }
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn sync(_file: *mut File, _flags: c_int) -> c_int {
    code::OK
}

unsafe extern "C" fn file_size(file: *mut File, size: *mut i64) -> c_int {
    // SAFETY: SQLite calls with a journal of ours and a place for the size.
    unsafe {
        with(file, code::IOERR, |state| {
            size.write(state.bytes.len().cast_signed());
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

unsafe extern "C" fn device_characteristics(_file: *mut File) -> c_int {
    device::POWERSAFE_OVERWRITE | device::SAFE_APPEND | device::SEQUENTIAL
}
