//! A child that lives on, and a system call for a tracer.

use crate::protocol::MARK;

/// Forks a child that ends at the first byte of its standard input, or when all writers have closed it.
pub(crate) fn fork_a_child_that_lives_on() {
    // SAFETY: the child only reads a byte and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::read(0, [0u8; 1].as_mut_ptr().cast(), 1);
            libc::_exit(0);
        }
        assert!(child > 0, "no child");
    }
}

/// Lets a tracer detach from this thread.
pub(crate) fn mark() {
    // SAFETY: the kernel rejects the unknown call.
    unsafe { libc::syscall(MARK) };
}
