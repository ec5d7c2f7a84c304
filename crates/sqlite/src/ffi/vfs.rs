//! The VFS: decides which files it opens itself and which the underlying VFS opens.
//!
//! It opens main databases, and the rollback journals and write-ahead logs of those that are open. A journal that
//! exists when a database is opened is stock SQLite's. The underlying VFS opens that one, and SQLite rolls it back as
//! usual.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::abi::{File, Symbol, Vfs, code, open as flag};
use super::absent::{Known, Since};
use super::api::Api;
use super::guard::guarded;
use super::journal::Journal;
use super::wal_file::Log;
use super::{log_file, main_file, registry, result_code};
use crate::database::{Failure, LogOpener, OpenOptions, Opened, Opener};

/// The name of the VFS.
pub const NAME: &CStr = c"perdura";

/// The state of the VFS.
#[derive(Debug)]
struct State {
    underlying: *mut Vfs,
    name: &'static CStr,
    api: Api,
    opener: Box<dyn Opener>,
}

/// Registers a VFS on top of the default one, unless it is registered.
pub(crate) fn register(
    api: Api,
    name: &'static CStr,
    opener: Box<dyn Opener>,
    default: bool,
) -> c_int {
    // SAFETY: the names are C strings, and a registered VFS stays valid.
    unsafe {
        let known = api.find(name.as_ptr());
        if !known.is_null() {
            return if default { api.register(&mut *known, true) } else { code::OK };
        }
        let underlying = api.find(std::ptr::null());
        if underlying.is_null() {
            return code::ERROR;
        }
        if FIRST_UNDERLYING.load(Ordering::Acquire).is_null() {
            FIRST_UNDERLYING.store(underlying, Ordering::Release);
        }
        let state = Box::leak(Box::new(State { underlying, name, api, opener }));
        let ours = size_of::<main_file::Open>()
            .max(size_of::<log_file::Open<Journal>>())
            .max(size_of::<log_file::Open<Log>>());
        let vfs = Vfs {
            version: 3.min((*underlying).version),
            longest_path: (*underlying).longest_path,
            next: std::ptr::null_mut(),
            name: name.as_ptr(),
            data: (&raw mut *state).cast(),
            file_bytes: (*underlying).file_bytes.max(ours as c_int),
            open: Some(open),
            delete: Some(delete),
            access: Some(access),
            full_pathname: Some(full_pathname),
            dl_open: Some(dl_open),
            dl_error: Some(dl_error),
            dl_sym: Some(dl_sym),
            dl_close: Some(dl_close),
            randomness: Some(randomness),
            sleep: Some(sleep),
            current_time: Some(current_time),
            get_last_error: Some(get_last_error),
            current_time_int64: Some(current_time_int64),
            set_system_call: Some(set_system_call),
            get_system_call: Some(get_system_call),
            next_system_call: Some(next_system_call),
        };
        api.register(Box::leak(Box::new(vfs)), default)
    }
}

/// # Safety
/// `vfs` is ours.
unsafe fn state(vfs: *mut Vfs) -> &'static State {
    // SAFETY: the caller's contract; the state is never freed.
    unsafe { &*(*vfs).data.cast::<State>() }
}

/// # Safety
/// `name` is null or a C string that outlives the use of what is returned.
unsafe fn bytes_of<'a>(name: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's contract.
    if name.is_null() { &[] } else { unsafe { CStr::from_ptr(name) }.to_bytes() }
}

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    guarded(code::CANTOPEN, || {
        // SAFETY: SQLite calls with a VFS of ours, a name or none, room for a file and for flags or not.
        unsafe {
            let (state, bytes) = (state(vfs), bytes_of(name));
            (*file).methods = std::ptr::null();
            if flags & flag::MAIN_DB != 0 && !bytes.is_empty() {
                let options = OpenOptions {
                    create: flags & flag::CREATE != 0,
                    read_only: flags & flag::READONLY != 0,
                    secure_delete: state.api.deletes_securely(),
                    may_encrypt: state.api.may_encrypt(),
                    mode: state.api.parameter(name, c"perdura_mode"),
                    domain: state.api.parameter(name, c"perdura_domain"),
                    share: state.api.parameter(name, c"perdura_share"),
                    wal: state.api.parameter(name, c"perdura_wal"),
                };
                match state.opener.open(Path::new(OsStr::from_bytes(bytes)), &options) {
                    Opened::File(main) => {
                        let room = (*vfs).file_bytes.max(0) as usize;
                        main_file::put(file, main, bytes, room, state.name, state.api);
                        if !out_flags.is_null() {
                            out_flags.write(flags);
                        }
                        return code::OK;
                    }
                    Opened::Failed(failure) => {
                        return result_code::code_of(failure, code::CANTOPEN);
                    }
                    Opened::Underlying => registry::add_delegated(name as usize),
                }
            }
            if flags & (flag::MAIN_JOURNAL | flag::WAL) != 0 {
                let database = state.api.database_of(name) as usize;
                if flags & flag::WAL != 0 {
                    match registry::log_owner(database) {
                        Some(owner) => {
                            let prepared = main_file::prepare_for_log(owner.file as *mut File);
                            if prepared != code::OK {
                                return prepared;
                            }
                            let opener = owner.opener.as_deref();
                            return open_log(opener, bytes, file, flags, out_flags);
                        }
                        // The log would be stock SQLite's, next to a database of this VFS.
                        None if registry::is_foreign_log(bytes, database) => {
                            return result_code::code_of(foreign_log(), code::CANTOPEN);
                        }
                        None => {}
                    }
                }
                // A journal that exists is stock SQLite's, and hot.
                registry::remove_journal(name as usize);
                if flags & flag::CREATE != 0 && registry::is_own_journal(database, file as usize) {
                    let notice = registry::add_journal(database, file as usize, name as usize);
                    let folder = Path::new(OsStr::from_bytes(bytes)).parent();
                    log_file::put(file, Journal::new(notice, folder.map(Path::to_owned)));
                    if !out_flags.is_null() {
                        out_flags.write(flags);
                    }
                    return code::OK;
                }
            }
            let underlying = state.underlying;
            let creates = flags & flag::CREATE != 0;
            if creates {
                registry::announce_file(bytes, false);
            }
            let result = (*underlying)
                .open
                .map_or(code::CANTOPEN, |open| open(underlying, name, file, flags, out_flags));
            if creates {
                registry::announce_file(bytes, true);
            }
            result
        }
    })
}

/// The failure of a log that a VFS on top of this one opens under a name of its own.
fn foreign_log() -> Failure {
    let why = "a VFS on top of this one opens its write-ahead log under a name of its own";
    Failure::CannotOpen(why.into())
}

/// Opens the write-ahead log of a connection of this VFS.
///
/// # Safety
/// There is room for a file at `file`, and for flags at `out_flags` unless it is null.
unsafe fn open_log(
    opener: Option<&dyn LogOpener>,
    path: &[u8],
    file: *mut File,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let Some(opener) = opener else { return code::CANTOPEN };
    match opener.open_log(Path::new(OsStr::from_bytes(path))) {
        Err(failure) => result_code::code_of(failure, code::CANTOPEN),
        Ok(log) => {
            // SAFETY: the caller's contract.
            unsafe {
                log_file::put(file, Log(log));
                if !out_flags.is_null() {
                    out_flags.write(flags);
                }
            }
            code::OK
        }
    }
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync: c_int) -> c_int {
    guarded(code::IOERR, || {
        // An in-memory journal went when it was closed.
        if registry::remove_journal(name as usize) {
            return code::OK;
        }
        // SAFETY: SQLite calls with a VFS of ours and a name.
        unsafe {
            let underlying = underlying(vfs);
            // A commit without a log makes no other change of the folder, with which the removal would become durable.
            let sync = sync | c_int::from(registry::belongs_to_open(bytes_of(name), "-wal"));
            match (*underlying).delete.map_or(code::IOERR, |delete| delete(underlying, name, sync))
            {
                // SQLite removes an in-memory journal twice.
                code::IOERR_DELETE_NOENT
                    if registry::belongs_to_open(bytes_of(name), "-journal") =>
                {
                    code::OK
                }
                result => result,
            }
        }
    })
}

/// Asks the underlying VFS whether a file exists, unless a journal is known to be absent.
unsafe extern "C" fn access(
    vfs: *mut Vfs,
    name: *const c_char,
    flags: c_int,
    found: *mut c_int,
) -> c_int {
    guarded(code::IOERR, || {
        // SAFETY: SQLite calls with a VFS of ours, a name and a place for the answer.
        unsafe {
            let asks = flags == flag::ACCESS_EXISTS;
            let known =
                if asks { registry::known(bytes_of(name)) } else { Known::Ask(Since::default()) };
            if known == Known::Absent {
                found.write(0);
                return code::OK;
            }
            let underlying = underlying(vfs);
            let result = (*underlying)
                .access
                .map_or(code::IOERR, |access| access(underlying, name, flags, found));
            if let Known::Ask(looked) = known
                && asks
                && result == code::OK
                && found.read() == 0
            {
                registry::note_absent(bytes_of(name), looked);
            }
            result
        }
    })
}

/// The VFS underlying the first registered one.
static FIRST_UNDERLYING: AtomicPtr<Vfs> = AtomicPtr::new(std::ptr::null_mut());

/// The VFS underlying one of ours.
///
/// # Safety
/// `vfs` is ours.
unsafe fn underlying(vfs: *mut Vfs) -> *mut Vfs {
    // SAFETY: the caller's contract.
    unsafe { state(vfs).underlying }
}

/// The same, or the first one if `vfs` is not ours: other VFSs borrow functions that are not about files from the
/// default VFS, and call them with themselves.
///
/// # Safety
/// `vfs` is one, and one of ours is registered.
unsafe fn underlying_of_any(vfs: *mut Vfs) -> *mut Vfs {
    let opens = open as unsafe extern "C" fn(_, _, _, _, _) -> _;
    // SAFETY: the caller's contract. Who opens files as ours do has all that ours have.
    unsafe {
        match (*vfs).open {
            Some(found) if std::ptr::fn_addr_eq(found, opens) => underlying(vfs),
            _ => FIRST_UNDERLYING.load(Ordering::Acquire),
        }
    }
}

/// Functions that forward to the underlying VFS, which another function finds.
macro_rules! forward {
    ($underlying:ident: $($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $otherwise:expr;)*) => {$(
        unsafe extern "C" fn $name(vfs: *mut Vfs, $($argument: $type),*) -> $result {
            guarded($otherwise, || {
                // SAFETY: it was found in a registered VFS of ours, and the underlying one is called with its own
                // arguments; where the first argument counts, SQLite calls.
                unsafe {
                    let underlying = $underlying(vfs);
                    (*underlying).$name.map_or($otherwise, |call| call(underlying, $($argument),*))
                }
            })
        }
    )*};
}

forward! {
    underlying:
    full_pathname(name: *const c_char, room: c_int, out: *mut c_char) -> c_int, code::CANTOPEN;
    dl_open(name: *const c_char) -> *mut c_void, std::ptr::null_mut();
    dl_error(room: c_int, out: *mut c_char) -> (), ();
    dl_sym(library: *mut c_void, name: *const c_char) -> Symbol, None;
    dl_close(library: *mut c_void) -> (), ();
    set_system_call(name: *const c_char, call: Symbol) -> c_int, code::NOTFOUND;
    get_system_call(name: *const c_char) -> Symbol, None;
    next_system_call(name: *const c_char) -> *const c_char, std::ptr::null();
}

forward! {
    underlying_of_any:
    randomness(room: c_int, out: *mut c_char) -> c_int, 0;
    current_time(out: *mut f64) -> c_int, code::ERROR;
    current_time_int64(out: *mut i64) -> c_int, code::ERROR;
}

/// Sleeps. SQLite's busy handler does so after it has found a lock busy. If that lock has a queue, the sleep ends when it
/// is free for the connection.
unsafe extern "C" fn sleep(vfs: *mut Vfs, microseconds: c_int) -> c_int {
    guarded(0, || {
        if let Some(slept) = crate::database::sleep_until_free(microseconds.max(0) as u64) {
            return c_int::try_from(slept).unwrap_or(c_int::MAX);
        }
        // SAFETY: SQLite calls with a VFS, or another VFS with itself.
        unsafe {
            let underlying = underlying_of_any(vfs);
            (*underlying).sleep.map_or(0, |call| call(underlying, microseconds))
        }
    })
}

/// The reason of the last failure, and the error number of this thread's last failed system call.
unsafe extern "C" fn get_last_error(vfs: *mut Vfs, room: c_int, out: *mut c_char) -> c_int {
    guarded(0, || {
        let why = result_code::last();
        if room > 0 && !out.is_null() {
            let len = why.len().min(room as usize - 1);
            // SAFETY: SQLite provides that much room.
            unsafe {
                std::ptr::copy_nonoverlapping(why.as_ptr(), out.cast(), len);
                out.add(len).write(0);
            }
        }
        // SAFETY: SQLite calls; the one underlying needs no room.
        unsafe {
            let underlying = underlying_of_any(vfs);
            (*underlying)
                .get_last_error
                .map_or(0, |number| number(underlying, 0, std::ptr::null_mut()))
        }
    })
}
