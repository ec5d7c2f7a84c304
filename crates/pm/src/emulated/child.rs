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
/// child does is seen here, and nothing that lives here is dropped there.
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
    // SAFETY: the kernel has just made both, and nobody else knows of them.
    let (mut from, mut to) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: the child does not return from here; what it may do is the caller's promise.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
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
    use super::*;

    #[test]
    fn a_child_sees_what_was_there_and_changes_only_its_copy() {
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
        assert_eq!(in_child(|| vec![7; 1 << 20]).unwrap().len(), 1 << 20);
    }

    #[test]
    fn work_that_fails_is_an_error() {
        assert!(in_child(|| panic!("on purpose")).unwrap_err().to_string().contains("panicked"));
        let killed = in_child(|| std::process::abort()).unwrap_err();
        assert!(killed.to_string().contains("signal"), "{killed}");
    }
}
