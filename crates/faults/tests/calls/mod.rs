//! Calls to the kernel of one thread that fail, or at which its process is killed or stopped.
//!
//! The calls are real. A seccomp filter of the thread turns each call of interest into a signal;
//! its handler makes the call, or says that it has failed. Calls whose failure no program can act
//! upon are left alone: close, munmap, madvise, and those of the allocator. Syncs are not made,
//! which makes no difference to a process that reads its files again, and spares the disk.

pub(crate) mod child;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Once;

/// The behaviour of the point that is visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// It fails.
    Fails,
    /// It has no room, as all that take room after it.
    NoRoom,
    /// A signal comes before it has done anything.
    Interrupted,
    /// It does a half.
    Half,
    /// As the first, of the calls of this number alone.
    FailsAlone(libc::c_long),
    /// The process is killed before it does anything.
    Killed,
    /// The process stops before it does anything, and goes on at `SIGCONT`.
    Stopped,
}

/// Calls that are made to fail, and with what error.
const FAILING: [(libc::c_long, libc::c_int); 28] = [
    (libc::SYS_open, libc::EMFILE),
    (libc::SYS_openat, libc::EMFILE),
    (libc::SYS_read, libc::EIO),
    (libc::SYS_pread64, libc::EIO),
    (libc::SYS_write, libc::ENOSPC),
    (libc::SYS_pwrite64, libc::ENOSPC),
    (libc::SYS_lseek, libc::EIO),
    (libc::SYS_fstat, libc::EIO),
    (libc::SYS_newfstatat, libc::EIO),
    (libc::SYS_statx, libc::EIO),
    (libc::SYS_fstatfs, libc::EIO),
    (libc::SYS_getdents64, libc::EIO),
    (libc::SYS_mmap, libc::ENOMEM),
    (libc::SYS_mprotect, libc::ENOMEM),
    (libc::SYS_msync, libc::EIO),
    (libc::SYS_fsync, libc::EIO),
    (libc::SYS_fdatasync, libc::EIO),
    (libc::SYS_ftruncate, libc::EIO),
    (libc::SYS_fallocate, libc::ENOSPC),
    (libc::SYS_flock, libc::ENOLCK),
    (libc::SYS_mkdir, libc::ENOSPC),
    (libc::SYS_rename, libc::ENOSPC),
    (libc::SYS_renameat2, libc::ENOSPC),
    (libc::SYS_unlink, libc::EIO),
    (libc::SYS_unlinkat, libc::EIO),
    (libc::SYS_readlink, libc::EIO),
    (libc::SYS_readlinkat, libc::EIO),
    (libc::SYS_mkdirat, libc::ENOSPC),
];

/// Calls that do less than they were asked for, or are interrupted; all of them return a number of
/// bytes or can be made again.
const PARTIAL: [libc::c_long; 4] =
    [libc::SYS_read, libc::SYS_pread64, libc::SYS_write, libc::SYS_pwrite64];
const INTERRUPTED: [libc::c_long; 8] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
];

pub(crate) const SYNCS: [libc::c_long; 3] = [libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_msync];

/// The state of a thread's calls.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    /// `None`: all succeed.
    pub(crate) way: Option<Way>,
    /// Calls of its kind that come before the one that fails.
    pub(crate) left: u64,
    /// The one that was hit.
    pub(crate) hit: libc::c_long,
}

thread_local! {
    pub(crate) static CALLS: Cell<Calls> = const { Cell::new(Calls { way: None, left: 0, hit: -1 }) };
    /// True while the thread is in the allocator.
    static ALLOCATES: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, whose calls to the kernel are left alone: when it makes them depends on
/// what other threads do.
struct Alone;

impl Alone {
    fn within<R>(work: impl FnOnce() -> R) -> R {
        ALLOCATES.set(true);
        let done = work();
        ALLOCATES.set(false);
        done
    }
}

// SAFETY: the system's allocator does everything.
unsafe impl GlobalAlloc for Alone {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        Self::within(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        Self::within(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        Self::within(|| unsafe { System.realloc(pointer, layout, bytes) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        Self::within(|| unsafe { System.dealloc(pointer, layout) });
    }
}

#[global_allocator]
static ALLOCATOR: Alone = Alone;

fn counts(way: Way, call: libc::c_long) -> bool {
    match way {
        Way::Fails | Way::Killed | Way::Stopped => true,
        Way::NoRoom => error_of(call) == libc::ENOSPC,
        Way::Interrupted => INTERRUPTED.contains(&call),
        Way::Half => PARTIAL.contains(&call),
        Way::FailsAlone(one) => one == call,
    }
}

fn error_of(call: libc::c_long) -> libc::c_int {
    FAILING.iter().find(|(one, _)| *one == call).map_or(libc::EIO, |(_, error)| *error)
}

/// Returns what a call returns that the filter has stopped.
fn answer(call: libc::c_long, mut arguments: [libc::c_long; 6]) -> libc::c_long {
    let mut calls = CALLS.get();
    // The test's own words, and the allocator's calls.
    let other = (call == libc::SYS_write && arguments[0] <= 2) || ALLOCATES.get();
    if let Some(way) = calls.way.filter(|way| counts(*way, call) && !other) {
        let hit = calls.left == 0;
        if hit && calls.hit < 0 {
            calls.hit = call;
        } else if !hit {
            calls.left -= 1;
        }
        let once = calls.hit == call && hit;
        if hit && way != Way::NoRoom {
            calls.left = u64::MAX;
        }
        CALLS.set(calls);
        match way {
            Way::Fails | Way::NoRoom | Way::FailsAlone(_) if hit => {
                return -libc::c_long::from(error_of(call));
            }
            Way::Killed if once => send(libc::SIGKILL),
            Way::Stopped if once => send(libc::SIGSTOP),
            Way::Interrupted if once => return -libc::c_long::from(libc::EINTR),
            Way::Half if once => arguments[2] = (arguments[2] + 1) / 2,
            _ => {}
        }
    }
    if SYNCS.contains(&call) {
        return 0;
    }
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the call that the program has made, with its own arguments, or a shorter one.
    let done = unsafe { libc::syscall(call, a, b, c, d, e, f) };
    if done != -1 {
        return done;
    }
    // SAFETY: this thread's own number.
    -libc::c_long::from(unsafe { *libc::__errno_location() })
}

/// Sends this process a signal, by a call that the filter lets through.
fn send(signal: libc::c_int) {
    // SAFETY: signals this process alone.
    unsafe {
        libc::syscall(
            libc::SYS_kill,
            libc::c_long::from(libc::getpid()),
            libc::c_long::from(signal),
        )
    };
}

extern "C" fn stopped(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands a handler with SA_SIGINFO the registers of the thread.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    // SAFETY: this thread's own number, which a signal must leave as it was.
    let errno = unsafe { *libc::__errno_location() };
    let at = |register: libc::c_int| registers[register as usize];
    let arguments =
        [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9]
            .map(at);
    registers[libc::REG_RAX as usize] = answer(at(libc::REG_RAX), arguments);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Stops the calls of interest of this thread, but for those that the handler itself makes.
pub(crate) fn stop_calls_of_this_thread() {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: a handler that touches nothing but its own thread's numbers and registers.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = stopped as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()), 0);
        }
    });
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    // The C library's function through which the handler calls; it is short.
    let own = libc::syscall as *const () as u64;
    let (from, until) = (own as u32, own as u32 + 64);
    assert!(until > from, "within 4 GiB");
    let mut filter = vec![
        // The address after the call: low word at 8, high word at 12.
        step(LOAD, 12, 0, 0),
        step(IS, (own >> 32) as u32, 0, 4),
        step(LOAD, 8, 0, 0),
        step(AT_LEAST, until, 2, 0),
        step(AT_LEAST, from, 0, 1),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
        // The call's number.
        step(LOAD, 0, 0, 0),
    ];
    for (call, _) in FAILING {
        filter.push(step(IS, call as u32, 0, 1));
        filter.push(step(RETURN, libc::SECCOMP_RET_TRAP, 0, 0));
    }
    filter.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter is read by the kernel during the call. It binds this thread alone.
    unsafe {
        let (one, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, none, none, none), 0);
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        let done = libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program);
        assert_eq!(done, 0, "the kernel lets a thread filter its own calls");
    }
}

/// Does `work` in a thread whose calls are stopped. What the C library itself allocates there, for
/// reading a directory, it finds in what it keeps.
pub(crate) fn with_stopped_calls(work: impl FnOnce() + Send) {
    // SAFETY: a setting of the C library's allocator.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) };
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            stop_calls_of_this_thread();
            work();
        });
        thread.join()
    });
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}
