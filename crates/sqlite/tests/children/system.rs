//! A child that lives on, and a system call for a tracer.

use crate::protocol::MARK;

/// Forks a child that ends at the first byte of its standard input, or when all writers have closed it. Returns when the
/// child runs.
pub(crate) fn fork_a_child_that_lives_on() {
    let mut ready = [0; 2];
    let mut byte = [0_u8; 1];
    // SAFETY: a place for two descriptors, and for the bytes that are read. The child writes and reads a byte and ends.
    unsafe {
        assert_eq!(libc::pipe(ready.as_mut_ptr()), 0);
        let child = libc::fork();
        if child == 0 {
            libc::write(ready[1], byte.as_ptr().cast(), 1);
            libc::read(0, byte.as_mut_ptr().cast(), 1);
            libc::_exit(0);
        }
        assert!(child > 0, "no child");
        assert_eq!(libc::read(ready[0], byte.as_mut_ptr().cast(), 1), 1);
    }
}

/// Lets a tracer detach from this thread.
pub(crate) fn mark() {
    // SAFETY: the kernel rejects the unknown call.
    unsafe { libc::syscall(MARK) };
}
