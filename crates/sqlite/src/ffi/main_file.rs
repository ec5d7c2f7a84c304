//! A main database file of this VFS, as SQLite sees it.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::abi::{File, IoMethods, code, control, device, shm};
use super::api::Api;
use super::guard::guarded;
use super::registry::{self, Addresses};
use super::result_code;
use crate::database::{IndexLock, Level, MainFile};

/// The file's layout in the memory that SQLite allocates.
#[repr(C)]
pub(crate) struct Open {
    base: File,
    state: *mut State,
}

struct State {
    file: Box<dyn MainFile>,
    name: Vec<u8>,
    addresses: Addresses,
    vfs: &'static CStr,
    api: Api,
    /// SQLite's `mmap_size`: bytes from the beginning of the file that it may read in place.
    mmap_limit: i64,
    /// Pages that SQLite has fetched.
    fetched: u64,
    /// SQLite's write-ahead log stays when the last connection closes.
    keeps_log: bool,
}

/// The methods of a file with WAL mode.
static METHODS: IoMethods = IoMethods {
    shm_map: Some(shm_map),
    shm_lock: Some(shm_lock),
    shm_barrier: Some(shm_barrier),
    shm_unmap: Some(shm_unmap),
    ..METHODS_WITHOUT_WAL
};

/// The same without shared memory, so that SQLite cannot use its write-ahead log.
static METHODS_WITHOUT_WAL: IoMethods = IoMethods {
    version: 3,
    close: Some(close),
    read: Some(read),
    write: Some(write),
    truncate: Some(truncate),
    sync: Some(sync),
    file_size: Some(file_size),
    lock: Some(lock),
    unlock: Some(unlock),
    check_reserved_lock: Some(check_reserved_lock),
    file_control: Some(file_control),
    sector_size: Some(sector_size),
    device_characteristics: Some(device_characteristics),
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: Some(fetch),
    unfetch: Some(unfetch),
};

/// Creates an open file in SQLite's memory.
///
/// # Safety
/// There is room for an [`Open`] at `at`, as many bytes as the VFS asks for, and `name` stays valid until the file
/// is closed.
pub(crate) unsafe fn put(
    at: *mut File,
    file: Box<dyn MainFile>,
    name: &[u8],
    room: usize,
    vfs: &'static CStr,
    api: Api,
) {
    let file_end = at as usize + room.next_multiple_of(8);
    let addresses = Addresses { file_end, name: name.as_ptr() as usize, file: at as usize };
    registry::add(name, addresses, file.super_journal_notice(), file.log_opener());
    let methods =
        if file.has_wal_mode() { &raw const METHODS } else { &raw const METHODS_WITHOUT_WAL };
    let state = Box::into_raw(Box::new(State {
        file,
        name: name.to_vec(),
        addresses,
        vfs,
        api,
        mmap_limit: 0,
        fetched: 0,
        keeps_log: false,
    }));
    // SAFETY: the caller's contract.
    unsafe { at.cast::<Open>().write(Open { base: File { methods }, state }) };
}

/// Prepares a database for its log, which SQLite is about to open. Returns a result code.
///
/// # Safety
/// `file` was made by [`put`] and is not closed; SQLite opens the log of its connection, in that connection's thread.
pub(crate) unsafe fn prepare_for_log(file: *mut File) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        with(file, code::CANTOPEN, |state| {
            state.file.prepare_for_log()?;
            Ok(code::OK)
        })
    }
}

/// Runs `work` on an open file.
///
/// # Safety
/// `file` was made by [`put`] and is not closed; SQLite calls from one thread at a time.
unsafe fn with(
    file: *mut File,
    io: c_int,
    work: impl FnOnce(&mut State) -> Result<c_int, crate::database::Failure>,
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
        let state = unsafe { Box::from_raw((*file.cast::<Open>()).state) };
        registry::remove(&state.name, state.addresses);
        result_code::code(state.file.close(), code::IOERR)
    })
}

unsafe extern "C" fn read(file: *mut File, to: *mut c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite calls with a file of ours and room for so many bytes.
    unsafe {
        with(file, code::IOERR_READ, |state| {
            let out = std::slice::from_raw_parts_mut(to.cast::<u8>(), len.max(0) as usize);
            let there = state.file.read(at.max(0).cast_unsigned(), out)?;
            Ok(if there < out.len() { code::IOERR_SHORT_READ } else { code::OK })
        })
    }
}

/// Returns a page's address; null if SQLite has to read a copy.
unsafe extern "C" fn fetch(file: *mut File, at: i64, len: c_int, out: *mut *mut c_void) -> c_int {
    // SAFETY: SQLite calls with a file of ours and a place for the address, and stores nothing there.
    unsafe {
        with(file, code::IOERR_MMAP, |state| {
            out.write(std::ptr::null_mut());
            let (from, len) = (at.max(0).cast_unsigned(), len.max(0) as u64);
            if from.saturating_add(len) <= state.mmap_limit.max(0).cast_unsigned()
                && let Some(page) = state.file.fetch(from, len)?
            {
                state.fetched += 1;
                out.write(page.cast_mut().cast());
            }
            Ok(code::OK)
        })
    }
}

/// Ends the use of a page. A null page says that SQLite's view of the file may be stale, which changes nothing
/// here.
unsafe extern "C" fn unfetch(file: *mut File, at: i64, page: *mut c_void) -> c_int {
    // SAFETY: SQLite calls with a file of ours.
    unsafe {
        with(file, code::IOERR_MMAP, |state| {
            if !page.is_null() {
                state.fetched -= 1;
                state.file.unfetch(at.max(0).cast_unsigned(), page.cast_const().cast());
            }
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn write(file: *mut File, from: *const c_void, len: c_int, at: i64) -> c_int {
    // SAFETY: SQLite calls with a file of ours and so many bytes.
    unsafe {
        with(file, code::IOERR_WRITE, |state| {
            let bytes = std::slice::from_raw_parts(from.cast::<u8>(), len.max(0) as usize);
            state.file.write(at.max(0).cast_unsigned(), bytes)?;
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn truncate(file: *mut File, to: i64) -> c_int {
    // SAFETY: SQLite calls with a file of ours.
    unsafe {
        with(file, code::IOERR_TRUNCATE, |state| {
            state.file.truncate(to.max(0).cast_unsigned())?;
            Ok(code::OK)
        })
    }
}

/// Mostly does nothing: [`control::SYNC`] came before, and comes even when SQLite does not sync. But a VFS above
/// may pass on its writes only now.
unsafe extern "C" fn sync(file: *mut File, _flags: c_int) -> c_int {
    // SAFETY: SQLite calls with a file of ours.
    unsafe {
        with(file, code::IOERR_FSYNC, |state| {
            state.file.sync()?;
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn file_size(file: *mut File, size: *mut i64) -> c_int {
    // SAFETY: SQLite calls with a file of ours and a place for the size.
    unsafe {
        with(file, code::IOERR, |state| {
            size.write(state.file.size()?.cast_signed());
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn lock(file: *mut File, to: c_int) -> c_int {
    // SAFETY: SQLite calls with a file of ours.
    unsafe {
        with(file, code::IOERR_LOCK, |state| {
            state.file.lock(Level::of(to))?;
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn unlock(file: *mut File, to: c_int) -> c_int {
    // SAFETY: SQLite calls with a file of ours.
    unsafe {
        with(file, code::IOERR, |state| {
            state.file.unlock(Level::of(to))?;
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, found: *mut c_int) -> c_int {
    // SAFETY: SQLite calls with a file of ours and a place for the answer.
    unsafe {
        with(file, code::IOERR_LOCK, |state| {
            found.write(state.file.is_reserved()?.into());
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn file_control(file: *mut File, what: c_int, with_what: *mut c_void) -> c_int {
    // SAFETY: SQLite calls with a file of ours, and with what it says of each operation.
    unsafe {
        with(file, code::IOERR_FSYNC, |state| {
            match what {
                // The name of a super-journal, or none.
                control::SYNC => {
                    let name = with_what.cast::<c_char>();
                    let name = (!name.is_null()).then(|| CStr::from_ptr(name).to_bytes());
                    state.file.commit(name)?;
                }
                control::COMMIT_PHASETWO => state.file.end_transaction()?,
                control::PRAGMA => return Ok(pragma(state, with_what.cast())),
                control::LOCKSTATE => with_what.cast::<c_int>().write(state.file.level().number()),
                control::HAS_MOVED => {
                    with_what.cast::<c_int>().write(state.file.has_moved().into());
                }
                control::VFSNAME => {
                    let name = state.api.text(&state.vfs.to_string_lossy());
                    with_what.cast::<*mut c_char>().write(name);
                }
                control::CKPT_DONE => state.file.end_checkpoint()?,
                // A negative number only asks.
                control::PERSIST_WAL => {
                    let keeps = with_what.cast::<c_int>();
                    if keeps.read() >= 0 {
                        state.keeps_log = keeps.read() != 0;
                    }
                    keeps.write(state.keeps_log.into());
                }
                // It always is.
                control::POWERSAFE_OVERWRITE => with_what.cast::<c_int>().write(1),
                // Returns the previous limit; a negative one only asks. As in stock SQLite, it cannot change while
                // a page is fetched.
                control::MMAP_SIZE => {
                    let (limit, before) = (with_what.cast::<i64>().read(), state.mmap_limit);
                    with_what.cast::<i64>().write(before);
                    if limit >= 0 && state.fetched == 0 {
                        state.mmap_limit = limit;
                    }
                }
                // Hints: the file grows at the commit.
                control::SIZE_HINT | control::CHUNK_SIZE => {}
                _ => return Ok(code::NOTFOUND),
            }
            Ok(code::OK)
        })
    }
}

/// # Safety
/// `words` has three entries: room for an answer, the name, and the value or null.
unsafe fn pragma(state: &mut State, words: *mut *mut c_char) -> c_int {
    // SAFETY: the caller's contract.
    let text = |place: usize| unsafe {
        let word = *words.add(place);
        (!word.is_null()).then(|| CStr::from_ptr(word).to_string_lossy().into_owned())
    };
    let Some(name) = text(1) else { return code::NOTFOUND };
    let name = name.to_ascii_lowercase();
    let (answer, code) = match state.file.pragma(&name, text(2).as_deref()) {
        None => return code::NOTFOUND,
        Some(Ok(answer)) => (answer, code::OK),
        Some(Err(why)) => (why, code::ERROR),
    };
    // SAFETY: as above; SQLite frees the text.
    unsafe { words.write(state.api.text(&answer)) };
    code
}

unsafe extern "C" fn sector_size(_file: *mut File) -> c_int {
    512
}

unsafe extern "C" fn device_characteristics(file: *mut File) -> c_int {
    let all = device::POWERSAFE_OVERWRITE | device::SAFE_APPEND;
    // SAFETY: SQLite calls with a file of ours.
    unsafe {
        with(file, all, |state| {
            Ok(if state.file.is_sequential() { all | device::SEQUENTIAL } else { all })
        })
    }
}

/// Returns the address of a region of the index of the log.
unsafe extern "C" fn shm_map(
    file: *mut File,
    region: c_int,
    bytes: c_int,
    create: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls with a file of ours and a place for the address. The region is shared memory, which it reads
    // and writes by its own rules.
    unsafe {
        with(file, code::IOERR_SHMMAP, |state| {
            out.write(std::ptr::null_mut());
            let (region, bytes) = (region.max(0) as u64, bytes.max(0) as u64);
            if let Some(at) = state.file.map_index(region, bytes, create != 0)? {
                out.write(at.cast_mut().cast());
            }
            Ok(code::OK)
        })
    }
}

unsafe extern "C" fn shm_lock(file: *mut File, first: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: SQLite calls with a file of ours.
    unsafe {
        with(file, code::IOERR_SHMLOCK, |state| {
            state.file.lock_index(IndexLock {
                first: first.max(0) as usize,
                count: count.max(0) as usize,
                shared: flags & shm::SHARED != 0,
                take: flags & shm::LOCK != 0,
            })?;
            Ok(code::OK)
        })
    }
}

/// All earlier accesses come before all later ones.
unsafe extern "C" fn shm_barrier(_file: *mut File) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut File, remove: c_int) -> c_int {
    // SAFETY: SQLite calls with a file of ours.
    unsafe {
        with(file, code::IOERR_SHMMAP, |state| {
            state.file.unmap_index(remove != 0)?;
            Ok(code::OK)
        })
    }
}
