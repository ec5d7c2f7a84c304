//! Work in a forked child.

use libsqlite3_sys as ffi;

/// SQLite's static mutexes that its calls take, an inner one after those that are held around it: main, those of the
/// VFS, of open connections, of random numbers, of caches, and of memory.
const STATIC_MUTEXES: [i32; 7] = [2, 11, 4, 5, 6, 7, 3];

/// Runs `work` in a forked child; returns its result.
pub(crate) fn in_forked_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs only the work and then ends; none of the parent's values is dropped in it. SQLite's static
    // mutexes are held over the fork, or one of another thread's would stay locked in the child for ever.
    unsafe {
        assert_eq!(ffi::sqlite3_initialize(), ffi::SQLITE_OK);
        let mutexes = STATIC_MUTEXES.map(|number| ffi::sqlite3_mutex_alloc(number));
        mutexes.iter().for_each(|mutex| ffi::sqlite3_mutex_enter(*mutex));
        let forked = libc::fork();
        mutexes.iter().rev().for_each(|mutex| ffi::sqlite3_mutex_leave(*mutex));
        match forked {
            0 => {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                libc::_exit(i32::from(!matches!(result, Ok(true))));
            }
            child => {
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                status == 0
            }
        }
    }
}
