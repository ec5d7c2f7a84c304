//! A global allocator that counts, with counters for each thread, in place of the system's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<Live> = const { Cell::new(Live { bytes: 0, blocks: 0 }) };
    static PAUSED: Cell<bool> = const { Cell::new(false) };
}

/// The bytes that this thread has allocated and not freed. Negative, if it has freed what others allocated.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    pub(crate) bytes: i64,
    pub(crate) blocks: i64,
}

/// Counts an allocation, a change of its size, or that it was freed.
fn count(allocations: u64, bytes: i64, blocks: i64) {
    // A thread that is going away has no counters any more, and is none of ours.
    let _ = LIVE.try_with(|live| {
        if !PAUSED.get() {
            ALLOCATIONS.set(ALLOCATIONS.get() + allocations);
            let before = live.get();
            live.set(Live { bytes: before.bytes + bytes, blocks: before.blocks + blocks });
        }
    });
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64, 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64, 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64), -1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(at, layout) };
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(1, bytes as i64 - layout.size() as i64, 0);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns how many allocations `act` makes in this thread.
pub(crate) fn allocations(act: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    act();
    ALLOCATIONS.get() - before
}

/// Returns what this thread has allocated and not freed.
pub(crate) fn live() -> Live {
    LIVE.get()
}

/// Runs `act`, whose allocations do not count: those of a test that keeps what it has counted. What
/// is allocated here has to be freed here.
pub(crate) fn uncounted<T>(act: impl FnOnce() -> T) -> T {
    PAUSED.set(true);
    let done = act();
    PAUSED.set(false);
    done
}
