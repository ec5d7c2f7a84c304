//! Work in a forked child.

/// Runs `work` in a forked child; returns its result.
pub(crate) fn in_forked_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs only the work and then ends; none of the parent's values is dropped in it.
    unsafe {
        match libc::fork() {
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
