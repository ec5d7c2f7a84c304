//! Media errors under a mapping arrive as SIGBUS, which must not unwind through Rust.
//!
//! The handler maps a zero page over the fault, so that the faulting access can go on, and marks
//! the pool as poisoned; every commit, read and open asks for the mark before it returns
//! ([`crate::Memory::healthy`]), and a poisoned pool acknowledges nothing. A fault outside of our
//! pools goes to the handler that was there before.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::watched::Watched;

/// How many pools one process can have open with the handler on.
const PLACES: usize = 256;

static WATCHED: Watched<PLACES> = Watched::new();

/// Counts forks of this process as seen by the children; see [`fork_generation`].
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Watches a run of addresses as long as it lives.
#[derive(Debug)]
pub(crate) struct Watch {
    place: usize,
}

impl Watch {
    /// Watches `len` bytes from `base` on. Returns `None` when all places are taken; the pool then
    /// works, but a media error ends the process.
    ///
    /// `poisoned` must live as long as the watch.
    pub(crate) fn new(base: *mut u8, len: u64, poisoned: &AtomicBool) -> Option<Self> {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(install);
        let start = base as usize;
        WATCHED.add(start, start + len as usize, poisoned).map(|place| Self { place })
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
    // handler only does what a signal handler may: atomics, mmap, sigaction.
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
    if let Some(poisoned) = WATCHED.find(address) {
        // SAFETY: asks for a constant.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // A mapping of hugetlbfs can be replaced by its own pages only.
        if [page, 2 << 20, 1 << 30].into_iter().any(|bytes| zero_page(address, bytes)) {
            // SAFETY: it outlives its watch, which lives as long as the pool, which is in use.
            unsafe { (*poisoned).store(true, Ordering::SeqCst) };
            return;
        }
    }
    // SAFETY: not ours: hand the signal to whoever was there before, as the kernel would have.
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
