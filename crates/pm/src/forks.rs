//! Forks of a process with several threads: a child has the one thread that forked, and finds a mutex locked for ever that
//! another one had.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

/// Something that is locked as long as it lives.
trait Held {}

impl<T> Held for MutexGuard<'_, T> {}

/// A mutex, whatever it is of.
trait Hold: Sync {
    fn hold(&'static self) -> Box<dyn Held>;
}

impl<T: Send> Hold for Mutex<T> {
    fn hold(&'static self) -> Box<dyn Held> {
        Box::new(locked(self))
    }
}

type All = Vec<&'static dyn Hold>;

/// The locks that the thread which forks has meanwhile.
struct Forking {
    _each: Vec<Box<dyn Held>>,
    _all: MutexGuard<'static, All>,
}

static ALL: Mutex<All> = Mutex::new(Vec::new());
/// Counts forks, in the parent and in the child.
static FORKED: AtomicU32 = AtomicU32::new(0);
/// The work of [`first_in_children`].
static IN_CHILD: OnceLock<fn()> = OnceLock::new();

thread_local! {
    static FORKING: RefCell<Option<Forking>> = const { RefCell::new(None) };
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets no thread fork while another one has this mutex. It is called once, by a thread that has none of these. A thread
/// that has one takes no other one.
pub fn hold_over_forks<T: Send>(mutex: &'static Mutex<T>) {
    static INSTALL: Once = Once::new();
    extern "C" fn before() {
        let all = locked(&ALL);
        let each = all.iter().map(|one| one.hold()).collect();
        // A thread that is ending has no place for it: it forks without.
        let _ =
            FORKING.try_with(|forking| forking.replace(Some(Forking { _each: each, _all: all })));
    }
    extern "C" fn after() {
        FORKED.fetch_add(1, Ordering::Relaxed);
        let _ = FORKING.try_with(RefCell::take);
    }
    extern "C" fn in_child() {
        after();
        if let Some(work) = IN_CHILD.get() {
            work();
        }
    }
    locked(&ALL).push(mutex);
    INSTALL.call_once(|| {
        // SAFETY: what `before` locks is unlocked by the same thread, in the parent and in its copy in the child. No
        // thread forks that has one of them locked.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
    });
}

/// Runs `work` in each child that is forked after the first call of [`hold_over_forks`], before anything else. It may make
/// only calls that signal handlers may make. There is one such work.
pub(crate) fn first_in_children(work: fn()) {
    let _ = IN_CHILD.set(work);
}

/// Returns how often this process, and those that it was forked from, had forked, since the first call of
/// [`hold_over_forks`]. It does not change while the caller has one of those mutexes.
pub(crate) fn forked() -> u32 {
    FORKED.load(Ordering::Relaxed)
}

/// Lets one test at a time fork, and count what forks of others would change.
#[cfg(test)]
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn no_child_finds_a_mutex_locked_by_an_absent_thread() {
        static MUTEX: Mutex<u64> = Mutex::new(0);
        static STOPS: AtomicBool = AtomicBool::new(false);
        let _alone = alone();
        hold_over_forks(&MUTEX);
        let counting = std::thread::spawn(|| {
            while !STOPS.load(Ordering::Relaxed) {
                *locked(&MUTEX) += 1;
            }
        });
        let before = forked();
        let ended = (0..200)
            .map(|_| {
                // SAFETY: the child locks, and ends; if it waits for ever, the alarm ends it.
                unsafe {
                    let child = libc::fork();
                    if child == 0 {
                        libc::alarm(30);
                        drop(locked(&MUTEX));
                        libc::_exit(0);
                    }
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                    status
                }
            })
            .take_while(|status| *status == 0)
            .count();
        STOPS.store(true, Ordering::Relaxed);
        counting.join().unwrap();
        assert_eq!(ended, 200, "a child waits for ever");
        assert!(forked() - before >= 200);
    }
}
