//! Work in a copy of this process.
//!
//! A database that was loaded once serves many runs: each in a child that the kernel makes by
//! copying pages only when they are written, with the memories, the engines' own state and the
//! state of the cache as they are.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does `work` in a forked child and brings back the bytes that it returns. Nothing else that the
/// child does is seen here, and nothing that lives here is dropped there. The child ends with this
/// thread, however that ends: it has the same files open, and with them the same locks.
///
/// Only the calling thread goes on in the child: a lock that another one holds is never released
/// there, so the caller has no other threads, or ones that wait.
///
/// # Errors
/// The kernel refuses; or `work` panicked or was killed.
pub fn in_child(work: impl FnOnce() -> Vec<u8>) -> io::Result<Vec<u8>> {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are stored into our array.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made both, and they have no other owner.
    let (mut from, mut to) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: asks for a number.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the child does not return from here; what it may do is the caller's promise.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        // SAFETY: both only say something to the kernel or ask it. The parent may have ended before
        // the call.
        let alone = unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) != 0
                || libc::getppid() != parent
        };
        if alone {
            // SAFETY: as below.
            unsafe { libc::_exit(1) };
        }
        let done = catch_unwind(AssertUnwindSafe(work));
        let sent = done.is_ok_and(|bytes| to.write_all(&bytes).is_ok());
        // SAFETY: ends the child at once: no destructor of the parent's values runs twice.
        unsafe { libc::_exit(i32::from(!sent)) };
    }
    drop(to);
    let mut bytes = Vec::new();
    let read = from.read_to_end(&mut bytes);
    let status = wait(child)?;
    read?;
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        return Ok(bytes);
    }
    let how = if libc::WIFSIGNALED(status) {
        format!("was ended by signal {}", libc::WTERMSIG(status))
    } else {
        "panicked".into()
    };
    Err(io::Error::other(format!("the copy of this process that did the work {how}")))
}

fn wait(child: libc::pid_t) -> io::Result<libc::c_int> {
    let mut status = 0;
    loop {
        // SAFETY: our own child, and our own variable.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            return Ok(status);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

// An interpreter has no fork.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_child_sees_what_was_there_and_changes_only_its_copy() {
        let _alone = crate::forks::alone();
        let mut value = vec![1, 2, 3];
        let there = in_child(|| {
            value.push(4);
            value.clone()
        });
        assert_eq!(there.unwrap(), [1, 2, 3, 4]);
        assert_eq!(value, [1, 2, 3]);
    }

    #[test]
    fn more_than_a_pipe_holds_comes_back() {
        let _alone = crate::forks::alone();
        assert_eq!(in_child(|| vec![7; 1 << 20]).unwrap().len(), 1 << 20);
    }

    #[test]
    fn work_that_fails_is_an_error() {
        let _alone = crate::forks::alone();
        assert!(in_child(|| panic!("on purpose")).unwrap_err().to_string().contains("panicked"));
        let killed = in_child(|| std::process::abort()).unwrap_err();
        assert!(killed.to_string().contains("signal"), "{killed}");
    }

    /// A thing that a child holds open, a lock for example, is free when the child's parent is
    /// killed.
    #[test]
    fn a_child_ends_with_its_parent() {
        let _alone = crate::forks::alone();
        let mut ends = [0; 2];
        // SAFETY: two descriptors are stored into our array.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
        // SAFETY: the kernel has just made both, and they have no other owner.
        let (from, to) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
        // SAFETY: the child makes a child of its own and does not return from here.
        let parent = unsafe { libc::fork() };
        assert!(parent >= 0);
        if parent == 0 {
            let _ = in_child(|| {
                (&to).write_all(b"!").unwrap();
                // Not for ever: so that a test that fails leaves no process.
                std::thread::sleep(Duration::from_secs(60));
                Vec::new()
            });
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        drop(to);
        (&from).read_exact(&mut [0]).unwrap();
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::kill(parent, libc::SIGKILL) }, 0);
        wait(parent).unwrap();
        let mut end = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, our own.
        let ended = unsafe { libc::poll(&raw mut end, 1, 30_000) };
        assert_eq!(ended, 1, "the child of the killed process goes on");
        assert_eq!((&from).read(&mut [0]).unwrap(), 0, "the other end is closed");
    }
}
