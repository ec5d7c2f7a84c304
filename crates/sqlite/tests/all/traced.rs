//! Processes that are killed at a call to the kernel.

use std::process::Child;

/// The end of a thread that was traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Its process was killed.
    Killed,
    /// The process ended by itself before.
    Exited,
}

/// Returns whether a thread that is stopped at a call is about to make it, and has not made it.
///
/// # Safety
/// It is stopped there.
unsafe fn begins(thread: i32) -> bool {
    let mut info = [0_u8; 128];
    let bytes = info.len() as *mut libc::c_void;
    // SAFETY: the caller's contract; there is room for so many bytes.
    let written =
        unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, bytes, info.as_mut_ptr()) };
    assert!(written > 0, "the kernel tells");
    info[0] == libc::PTRACE_SYSCALL_INFO_ENTRY
}

/// Stops a thread of a child, lets `go` tell it to go on, and kills the child where the thread is about to make its
/// call of this number; the first one is 1.
pub(crate) fn kill_at_call(
    child: &mut Child,
    thread: i32,
    number: usize,
    go: impl FnOnce(),
) -> End {
    let none = std::ptr::null_mut::<libc::c_void>();
    let mut status = 0;
    // SAFETY: a thread of a child of ours, which is stopped where it is asked for anything else, and a place for its
    // status. No memory is read or written.
    unsafe {
        let options = libc::PTRACE_O_TRACESYSGOOD as usize as *mut libc::c_void;
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, thread, none, options), 0, "it can be traced");
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, thread, none, none), 0);
        assert_eq!(libc::waitpid(thread, &raw mut status, libc::__WALL), thread);
        go();
        let mut calls = 0;
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
            let begins = begins(thread);
            calls += usize::from(begins);
            if begins && calls == number {
                child.kill().unwrap();
                libc::waitpid(thread, &raw mut status, libc::__WALL);
                let _ = child.wait();
                return End::Killed;
            }
        }
    }
}

/// Calls that make, change or remove files, or look at them.
#[cfg(target_arch = "x86_64")]
const OF_FILES: [i64; 17] = [
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fchmod,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_fcntl,
    libc::SYS_stat,
];

/// As [`kill_at_call`], but the call of this number among those about files is not made, and returns that there is no
/// room. Then the process goes on. Returns whether there was such a call.
#[cfg(target_arch = "x86_64")]
pub(crate) fn fail_at_call(
    child: &mut Child,
    thread: i32,
    number: usize,
    go: impl FnOnce(),
) -> bool {
    let none = std::ptr::null_mut::<libc::c_void>();
    let (mut status, mut failed) = (0, false);
    // SAFETY: as above; the registers are read into a place for them, and written as the kernel gave them but for the
    // number of a call that is not to be made, and for what it returns.
    unsafe {
        let options = libc::PTRACE_O_TRACESYSGOOD as usize as *mut libc::c_void;
        assert_eq!(libc::ptrace(libc::PTRACE_SEIZE, thread, none, options), 0, "it can be traced");
        assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT, thread, none, none), 0);
        assert_eq!(libc::waitpid(thread, &raw mut status, libc::__WALL), thread);
        go();
        let (mut calls, mut fails) = (0, false);
        loop {
            assert_eq!(libc::ptrace(libc::PTRACE_SYSCALL, thread, none, none), 0);
            assert_eq!(libc::waitpid(thread, &raw mut status, libc::__WALL), thread);
            if !libc::WIFSTOPPED(status) {
                let _ = child.wait();
                return failed;
            }
            if libc::WSTOPSIG(status) != libc::SIGTRAP | 0x80 {
                continue;
            }
            let begins = begins(thread);
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            let place = (&raw mut registers).cast::<libc::c_void>();
            assert_eq!(libc::ptrace(libc::PTRACE_GETREGS, thread, none, place), 0);
            if begins && OF_FILES.contains(&registers.orig_rax.cast_signed()) {
                calls += 1;
                fails = calls == number;
                if fails {
                    registers.orig_rax = u64::MAX;
                    assert_eq!(libc::ptrace(libc::PTRACE_SETREGS, thread, none, place), 0);
                }
            } else if !begins && fails {
                (fails, failed) = (false, true);
                registers.rax = i64::from(-libc::ENOSPC).cast_unsigned();
                assert_eq!(libc::ptrace(libc::PTRACE_SETREGS, thread, none, place), 0);
            }
        }
    }
}
