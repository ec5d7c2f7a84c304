//! Processes that are killed at a system call, or whose system calls fail.

use std::process::Child;

use crate::failing::protocol::MARK;

/// The end of tracing a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Its process was killed.
    Killed,
    /// The process ended by itself.
    Exited,
    /// The tracer has detached at the [mark].
    Left,
}

/// A system call that a thread is about to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) number: i64,
    arguments: [u64; 6],
}

/// What happens to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Made,
    /// It is skipped, and returns this error.
    Fails(i32),
    Killed,
}

/// The call that a stopped thread is about to make; `None` after the call.
///
/// # Safety
/// It is stopped at a call.
unsafe fn begun(thread: i32) -> Option<Call> {
    let mut info = [0_u64; 16];
    let bytes = size_of_val(&info) as *mut libc::c_void;
    // SAFETY: the caller's contract; there is room for so many bytes.
    let written =
        unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, bytes, info.as_mut_ptr()) };
    assert!(written > 0, "the kernel answers");
    let begins = info[0] as u8 == libc::PTRACE_SYSCALL_INFO_ENTRY;
    let arguments = info[4..10].try_into().expect("six words");
    begins.then_some(Call { number: info[3].cast_signed(), arguments })
}

/// Skips the call that a stopped thread is about to make, or sets the error that a skipped call returns.
///
/// # Safety
/// It is stopped at a call.
#[cfg(target_arch = "x86_64")]
unsafe fn set(thread: i32, error: Option<i32>) {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the caller's contract; the registers are read into a place for them, and written as the kernel gave them
    // but for the number of the call, or its result.
    unsafe {
        let mut registers: libc::user_regs_struct = std::mem::zeroed();
        assert_eq!(libc::ptrace(libc::PTRACE_GETREGS, thread, none, &raw mut registers), 0);
        match error {
            None => registers.orig_rax = u64::MAX,
            Some(error) => registers.rax = i64::from(-error).cast_unsigned(),
        }
        assert_eq!(libc::ptrace(libc::PTRACE_SETREGS, thread, none, &raw mut registers), 0);
    }
}

/// Tests that need it are ignored here.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn set(_: i32, _: Option<i32>) {
    panic!("calls can be made fail on x86_64 alone");
}

/// Attaches to a thread of a child, lets it continue by `go`, and asks `at` about each of its calls.
fn trace(
    child: &mut Child,
    thread: i32,
    go: impl FnOnce(),
    mut at: impl FnMut(Call) -> Next,
) -> End {
    let none = std::ptr::null_mut::<libc::c_void>();
    let mut status = 0;
    // SAFETY: a thread of our child, stopped where it is asked for anything else, and a place for its status.
    unsafe {
        let options = libc::PTRACE_O_TRACESYSGOOD as usize as *mut libc::c_void;
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, thread, none, options), 0, "it can be traced");
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, thread, none, none), 0);
        assert_eq!(libc::waitpid(thread, &raw mut status, libc::__WALL), thread);
        go();
        let mut fails = None;
        loop {
            assert_eq!(libc::ptrace(libc::PTRACE_SYSCALL, thread, none, none), 0);
            assert_eq!(libc::waitpid(thread, &raw mut status, libc::__WALL), thread);
            if !libc::WIFSTOPPED(status) {
                let _ = child.wait();
                return End::Exited;
            }
            if libc::WSTOPSIG(status) != libc::SIGTRAP | 0x80 {
                continue;
            }
            let Some(call) = begun(thread) else {
                if let Some(error) = fails.take() {
                    set(thread, Some(error));
                }
                continue;
            };
            if call.number == MARK {
                assert_eq!(libc::ptrace(libc::PTRACE_DETACH, thread, none, none), 0);
                return End::Left;
            }
            match at(call) {
                Next::Made => {}
                Next::Fails(error) => {
                    fails = Some(error);
                    set(thread, None);
                }
                Next::Killed => {
                    child.kill().unwrap();
                    libc::waitpid(thread, &raw mut status, libc::__WALL);
                    let _ = child.wait();
                    return End::Killed;
                }
            }
        }
    }
}

/// Kills a child as a thread of it is about to make a call: the one with this number, from 1, among those that
/// count.
pub(crate) fn kill_at(
    child: &mut Child,
    thread: i32,
    number: usize,
    counts: fn(Call) -> bool,
    go: impl FnOnce(),
) -> End {
    let mut calls = 0;
    trace(child, thread, go, |call| {
        calls += usize::from(counts(call));
        if calls == number { Next::Killed } else { Next::Made }
    })
}

/// Runs `work` as a child's thread is about to make a call, as for [`kill_at`], and lets the thread go on.
pub(crate) fn work_at(
    child: &mut Child,
    thread: i32,
    number: usize,
    counts: fn(Call) -> bool,
    go: impl FnOnce(),
    mut work: impl FnMut(),
) -> End {
    let mut calls = 0;
    trace(child, thread, go, |call| {
        calls += usize::from(counts(call));
        if counts(call) && calls == number {
            work();
        }
        Next::Made
    })
}

/// Runs `work` as a child's thread is about to truncate a file, and kills the child at its next call.
pub(crate) fn kill_after_truncation(
    child: &mut Child,
    thread: i32,
    go: impl FnOnce(),
    mut work: impl FnMut(),
) -> End {
    let mut truncated = false;
    trace(child, thread, go, |call| {
        if truncated {
            return Next::Killed;
        }
        if call.number == libc::SYS_ftruncate {
            truncated = true;
            work();
        }
        Next::Made
    })
}

/// As [`kill_at`], among all calls.
pub(crate) fn kill_at_call(
    child: &mut Child,
    thread: i32,
    number: usize,
    go: impl FnOnce(),
) -> End {
    kill_at(child, thread, number, |_| true, go)
}

/// Returns the numbers of the calls that a child's thread makes until its [mark].
pub(crate) fn calls_of(child: &mut Child, thread: i32, go: impl FnOnce()) -> Vec<i64> {
    let mut calls = Vec::new();
    let end = trace(child, thread, go, |call| {
        calls.push(call.number);
        Next::Made
    });
    assert_eq!(end, End::Left);
    calls
}

/// Calls that create, change or remove files.
const CHANGE: &[i64] = &[
    libc::SYS_pwrite64,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fchmod,
    libc::SYS_unlinkat,
    libc::SYS_msync,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// Calls that read files or their properties, or lock them.
const LOOK: &[i64] = &[
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_statx,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_fstatfs,
    libc::SYS_fcntl,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_faccessat,
    libc::SYS_openat,
    libc::SYS_read,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
];

impl Call {
    /// Returns whether it creates, changes or removes a file. Output of the process does not count.
    pub(crate) fn changes_files(self) -> bool {
        match self.number {
            libc::SYS_write => self.arguments[0] > 2,
            libc::SYS_openat => self.arguments[2] as i32 & libc::O_CREAT != 0,
            number => CHANGE.contains(&number),
        }
    }

    /// Returns whether it is about a file, mapped ones included. Input and output of the process do not count.
    pub(crate) fn is_of_files(self) -> bool {
        match self.number {
            libc::SYS_read => self.arguments[0] > 2,
            libc::SYS_mmap => self.arguments[4] as i32 >= 0,
            number => self.changes_files() || LOOK.contains(&number),
        }
    }

    /// Returns whether it removes a file.
    pub(crate) fn removes(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        if self.number == libc::SYS_unlink {
            return true;
        }
        self.number == libc::SYS_unlinkat
    }

    /// The call's number, and what distinguishes its kinds.
    fn kind(self) -> (i64, u64) {
        match self.number {
            libc::SYS_fcntl => (self.number, self.arguments[1]),
            libc::SYS_openat => (self.number, self.arguments[2] & libc::O_CREAT as u64),
            number => (number, 0),
        }
    }
}

/// Which calls of a process fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// One call about a file.
    Once,
    /// One, and the process is killed so many calls later.
    Killed(usize),
    /// One, and all later ones of its kind.
    Alike,
    /// One that changes a file, and all later ones that do.
    Changes,
}

/// Makes calls of a child's thread fail, from the one with this number on. Returns how many failed.
pub(crate) fn fail(
    child: &mut Child,
    thread: i32,
    fault: Fault,
    number: usize,
    go: impl FnOnce(),
) -> (End, usize) {
    let (mut calls, mut failed, mut kind) = (0, 0, None);
    let end = trace(child, thread, go, |call| {
        let counts = match fault {
            Fault::Changes => call.changes_files(),
            _ => call.is_of_files(),
        };
        if !counts {
            return Next::Made;
        }
        calls += 1;
        let fails = match fault {
            Fault::Once => calls == number,
            Fault::Killed(after) if calls == number + after => return Next::Killed,
            Fault::Killed(_) => calls == number,
            Fault::Alike if calls == number => {
                kind = Some(call.kind());
                true
            }
            Fault::Alike => kind == Some(call.kind()),
            Fault::Changes => calls >= number,
        };
        if !fails {
            return Next::Made;
        }
        failed += 1;
        Next::Fails(if fault == Fault::Alike { libc::EIO } else { libc::ENOSPC })
    });
    (end, failed)
}
