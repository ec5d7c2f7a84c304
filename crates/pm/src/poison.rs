//! Media errors under a mapping arrive as SIGBUS, which must not unwind through Rust; and what
//! follows a store that was lost.
//!
//! A pool whose medium fails is *poisoned*, and cut off from its file:
//!
//! 1. It is marked as poisoned. Every commit, read and open asks for the mark before it returns
//!    ([`crate::Memory::healthy`]); a poisoned pool acknowledges nothing.
//! 2. Its whole mapping is replaced, at the same addresses, by a private one of the same file. What
//!    is there is still read; what is stored from now on stays in this process.
//! 3. Where the page still cannot be touched, a zero page takes its place, so that the access ends.
//!
//! So that no store reaches the medium before one that was lost, as recovery relies on:
//!
//! - The thread that lost a store goes on when its handler returns, that is after step 2. None of
//!   its later stores reaches the file.
//! - Another thread's store is *later* than the lost one only if the other thread has learned of
//!   something that the first one did after it; that is after step 2 as well. The kernel takes the
//!   old pages out of the tables of all processors before the call of step 2 returns, and a thread
//!   that faults meanwhile waits for the new mapping: there is no moment without one. So the file
//!   gets what every thread had stored when it could last know nothing of the loss, which is what a
//!   kill at that moment leaves. A store that is under way is made before or after the change, by
//!   parts if it has several; so does a kill.
//! - Two threads that fault at once: the first one makes step 2, the other one waits for it, then
//!   looks at its own page. Should both be at the same page, a store of the one into the zero page
//!   may be lost to the other's; no one relies on what a poisoned pool reads.
//! - A thread that lets the pool grow maps new pages shared. It says how far the file is mapped
//!   *before* it looks for the mark, and step 2 looks how far that is *after* setting the mark: one
//!   of the two notices the other. Growing gives up then, with nothing of the new part in use.
//! - Flushes of private pages do nothing, a sync of them succeeds, and nothing of either is
//!   acknowledged. What is not stored through the mapping (growing cuts off and reserves space after
//!   the pool's end) changes nothing that the header's size covers.
//! - A forked child that faults replaces its own mapping, not the parent's.
//!
//! A sync that fails poisons likewise, from the thread that made it: pages that the kernel could not
//! write count as written, and stores that follow must not become durable without them.
//!
//! Should step 2 be refused, the signal takes its old way, which ends the process: a kill. A fault
//! outside of our pools goes to the handler that was there before.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::mapping::Sharing;
use crate::watched::Watched;

/// The number of pools that one process can have open with the handler on.
const PLACES: usize = 1024;

static WATCHED: Watched<Health, PLACES> = Watched::new();

/// Counts forks of this process as seen by the children; see [`fork_generation`].
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Stores reach the file.
const SHARED: u8 = 0;
/// A thread is making the mapping private.
const LEAVING: u8 = 1;
/// Stores stay in this process.
const PRIVATE: u8 = 2;
/// The kernel has refused.
const REFUSED: u8 = 3;

/// Says whether a pool's medium has failed, and what it takes to cut the pool off from its file.
#[derive(Debug)]
pub(crate) struct Health {
    poisoned: AtomicBool,
    stage: AtomicU8,
    base: usize,
    /// Bytes from `base` on that map the file.
    mapped: AtomicU64,
    file: RawFd,
}

impl Health {
    /// The health of a pool whose first `mapped` bytes map `file`, which stays open as long as this
    /// is in use.
    pub(crate) fn new(base: *mut u8, mapped: u64, file: &File, sharing: Sharing) -> Self {
        let stage = if sharing == Sharing::Private { PRIVATE } else { SHARED };
        Self {
            poisoned: AtomicBool::new(false),
            stage: AtomicU8::new(stage),
            base: base as usize,
            mapped: AtomicU64::new(mapped),
            file: file.as_raw_fd(),
        }
    }

    /// Returns whether the medium has failed.
    #[inline]
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Relaxed)
    }

    /// The file is mapped up to `to` now. Returns false if the pool has been poisoned, perhaps too
    /// early for the new part: nothing may be stored there.
    pub(crate) fn has_grown(&self, to: u64) -> bool {
        self.mapped.store(to, Ordering::SeqCst);
        !self.poisoned.load(Ordering::SeqCst)
    }

    /// Poisons the pool, whose medium has failed: no store that comes after this reaches the file.
    #[cold]
    pub(crate) fn poison(&self) {
        if !self.leave_file() {
            // Nothing else keeps later stores from the medium.
            std::process::abort();
        }
    }

    /// Steps 1 and 2. Returns false if the kernel refuses. Async-signal-safe.
    fn leave_file(&self) -> bool {
        self.poisoned.store(true, Ordering::SeqCst);
        let (was, will) = (Ordering::SeqCst, Ordering::SeqCst);
        if self.stage.compare_exchange(SHARED, LEAVING, was, will).is_ok() {
            let stage = if self.map_privately() { PRIVATE } else { REFUSED };
            self.stage.store(stage, Ordering::SeqCst);
        }
        loop {
            match self.stage.load(Ordering::SeqCst) {
                PRIVATE => return true,
                REFUSED => return false,
                // SAFETY: gives the processor to the thread that is at it.
                _ => unsafe { libc::sched_yield() },
            };
        }
    }

    fn map_privately(&self) -> bool {
        let len = self.mapped.load(Ordering::SeqCst) as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // Where the kernel counts all that may be stored to, it may have no room for that: then the
        // first store to another page ends the process.
        [libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ].into_iter().any(|access| {
            let start = self.base as *mut libc::c_void;
            // SAFETY: these addresses are the pool's, which is in use, and its file is open. A thread
            // that reads there finds the same bytes before and after.
            unsafe { libc::mmap(start, len, access, flags, self.file, 0) != libc::MAP_FAILED }
        })
    }
}

/// Watches a run of addresses as long as it lives.
#[derive(Debug)]
pub(crate) struct Watch {
    place: usize,
}

impl Watch {
    /// Watches `len` bytes from `base` on. Returns `None` when all places are taken; the pool then
    /// works, but a media error ends the process.
    ///
    /// `health` must live as long as the watch.
    pub(crate) fn new(base: *mut u8, len: u64, health: &Health) -> Option<Self> {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(install);
        let start = base as usize;
        WATCHED.add(start, start + len as usize, health).map(|place| Self { place })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.remove(self.place);
    }
}

static mut PREVIOUS: std::mem::MaybeUninit<libc::sigaction> = std::mem::MaybeUninit::uninit();

fn install() {
    // SAFETY: runs once, before any pool is watched; the action is fully initialised, and the
    // handler only does what a signal handler may: atomics, mmap, madvise, sigaction.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigbus as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, (&raw mut PREVIOUS).cast());
    }
}

extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo for SIGBUS.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(health) = WATCHED.find(address) {
        // SAFETY: the variable of this thread, which the interrupted code may be about to read.
        let errno = unsafe { *libc::__errno_location() };
        // SAFETY: it outlives its watch, which lives as long as the pool, which is in use.
        let left = unsafe { &*health }.leave_file();
        let mended = left && mend(address);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        if mended {
            return;
        }
    }
    // SAFETY: not ours: hand the signal to the handler that was there before, as the kernel would have.
    unsafe {
        let previous = *(&raw const PREVIOUS).cast::<libc::sigaction>();
        if previous.sa_sigaction == libc::SIG_DFL || previous.sa_sigaction == libc::SIG_IGN {
            libc::sigaction(signal, &raw const previous, std::ptr::null_mut());
        } else if previous.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(previous.sa_sigaction);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(libc::c_int) = std::mem::transmute(previous.sa_sigaction);
            handler(signal);
        }
    }
}

/// Step 3, in a pool that has left its file.
fn mend(address: usize) -> bool {
    // SAFETY: asks for a constant.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = (address & !(page - 1)) as *mut libc::c_void;
    // SAFETY: a page of a pool, which is ours. A kernel that does not know this refuses.
    if unsafe { libc::madvise(start, page, libc::MADV_POPULATE_WRITE) } == 0 {
        return true;
    }
    // A mapping of hugetlbfs can be replaced by its own pages only.
    [page, 2 << 20, 1 << 30].into_iter().any(|bytes| zero_page(address, bytes))
}

/// Puts a private zero page of so many bytes in the place of the one at `address`, in a pool, so that
/// the access can finish. A pool starts at a multiple of the bytes of its medium's pages.
fn zero_page(address: usize, bytes: usize) -> bool {
    // SAFETY: the page lies within a pool's reservation, which is ours.
    let at = unsafe {
        libc::mmap(
            (address & !(bytes - 1)) as *mut libc::c_void,
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    at != libc::MAP_FAILED
}

/// A number that differs in a forked child: a pool that was opened under another number belongs to
/// the parent.
#[inline]
pub(crate) fn fork_generation() -> u32 {
    static INSTALL: Once = Once::new();
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::SeqCst);
    }
    INSTALL.call_once(|| {
        // SAFETY: the handler only touches an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    FORKS.load(Ordering::Relaxed)
}
