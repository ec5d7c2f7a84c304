//! Processes that are killed at a call to the kernel, or whose calls fail.

use std::process::Child;

/// A call to the kernel that marks a place, and that no kernel has: whoever traces a thread leaves it there.
const MARK: i64 = 1_000_000;

/// Says to whoever traces this thread that it goes on alone.
pub(crate) fn mark() {
    // SAFETY: the kernel has no such call, and says so.
    unsafe { libc::syscall(MARK) };
}

/// The end of a thread that was traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Its process was killed.
    Killed,
    /// The process ended by itself before.
    Exited,
    /// It goes on alone from its [mark] on.
    Left,
}

/// A call that a thread is about to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) number: i64,
    arguments: [u64; 6],
}

/// The fate of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Made,
    /// It is not made, and returns this error.
    Fails(i32),
    Killed,
}

/// The call that a stopped thread is about to make; `None` if it has made it.
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

/// Has a stopped thread not make the call that it is about to make, or has what it did not make return an error.
///
/// # Safety
/// It is stopped at a call.
#[cfg(target_arch = "x86_64")]
unsafe fn set(thread: i32, error: Option<i32>) {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the caller's contract; the registers are read into a place for them, and written as the kernel gave them
    // but for the number of the call, or what it returns.
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

/// The tests that want it are left out here.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn set(_: i32, _: Option<i32>) {
    panic!("calls can be made fail on x86_64 alone");
}

/// Stops a thread of a child, lets `go` tell it to go on, and asks at each of its calls what is to become of it.
fn trace(
    child: &mut Child,
    thread: i32,
    go: impl FnOnce(),
    mut at: impl FnMut(Call) -> Next,
) -> End {
    let none = std::ptr::null_mut::<libc::c_void>();
    let mut status = 0;
    // SAFETY: a thread of a child of ours, which is stopped where it is asked for anything else, and a place for its
    // status.
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

/// Kills a child where a thread of it is about to make its call of this number, of those that count; the first one
/// is 1.
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

/// The same, of all its calls.
pub(crate) fn kill_at_call(
    child: &mut Child,
    thread: i32,
    number: usize,
    go: impl FnOnce(),
) -> End {
    kill_at(child, thread, number, |_| true, go)
}

/// Calls that make, change or remove files.
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

/// Calls that look at files, and take locks on them.
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
    /// Returns whether it makes, changes or removes a file; what a process tells does not count.
    pub(crate) fn changes_files(self) -> bool {
        match self.number {
            libc::SYS_write => self.arguments[0] > 2,
            libc::SYS_openat => self.arguments[2] as i32 & libc::O_CREAT != 0,
            number => CHANGE.contains(&number),
        }
    }

    /// Returns whether it is about a file, also one that is mapped; what a process tells and is told does not count.
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

    /// The call's number, and what tells its kinds apart.
    fn kind(self) -> (i64, u64) {
        match self.number {
            libc::SYS_fcntl => (self.number, self.arguments[1]),
            libc::SYS_openat => (self.number, self.arguments[2] & libc::O_CREAT as u64),
            number => (number, 0),
        }
    }
}

/// The calls of a process that fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// One call about a file.
    Once,
    /// One, and the process is killed at so many behind it.
    Killed(usize),
    /// From one on all of its kind.
    Alike,
    /// All that change a file, from one on.
    Changes,
}

/// Lets calls of a thread of a child fail, from the one of this number on, and lets it go on. Returns how many failed.
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
