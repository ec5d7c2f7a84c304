//! Processes that are forked of a test, and stopped or killed at a call.

use super::{CALLS, Calls, Way, stop_calls_of_this_thread};

/// A child that makes its calls until the one at which it is killed or stopped.
#[derive(Debug)]
pub(crate) struct Child(libc::pid_t);

/// The state of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// It was killed.
    Killed,
    /// It stands still.
    Stopped,
    /// It has ended with this code.
    Ended(i32),
}

impl Child {
    /// Forks a child that does `work`, whose result is the code with which it ends. It is killed or
    /// stopped at its call of this number. No other thread of this process may have a lock.
    pub(crate) fn start(way: Way, number: u64, work: impl FnOnce() -> i32) -> Self {
        // SAFETY: the child has this thread alone, and ends without anything that others would do.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "a child starts");
        if child > 0 {
            return Self(child);
        }
        stop_calls_of_this_thread();
        CALLS.set(Calls { way: Some(way), left: number, hit: -1 });
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(101);
        CALLS.set(Calls { way: None, left: 0, hit: -1 });
        // SAFETY: as above.
        unsafe { libc::_exit(code) }
    }

    /// Waits until it has ended or stands still.
    pub(crate) fn wait(&self) -> State {
        let mut status = 0;
        // SAFETY: a child of ours, and a place for its status.
        let found = unsafe { libc::waitpid(self.0, &raw mut status, libc::WUNTRACED) };
        assert_eq!(found, self.0, "it is our child");
        match status {
            status if libc::WIFSTOPPED(status) => State::Stopped,
            status if libc::WIFSIGNALED(status) => State::Killed,
            status => State::Ended(libc::WEXITSTATUS(status)),
        }
    }

    /// Lets it go on, and waits until it has ended.
    pub(crate) fn go_on(&self) -> State {
        // SAFETY: a child of ours that has not been waited for to its end.
        unsafe { libc::kill(self.0, libc::SIGCONT) };
        self.wait()
    }
}
