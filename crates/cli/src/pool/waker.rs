//! The process that lets another one go on if the command that stopped it cannot.
//!
//! Invariant: whatever becomes of the command (its end, SIGKILL, Ctrl-C, Ctrl-Z), the process that
//! it stopped goes on. Only who kills both of them with SIGKILL has to do it himself.
//!
//! How: it is a [cleanup process](command::cleanup_process) of the command, and looks now and then whether the
//! command has been stopped itself.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use command::cleanup_process::wait_for_end;
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};

use super::threads::Threads;

/// First argument of the waker; the second one is the number of the process.
pub(crate) const WAKER: &str = "__waker";
/// The time between two looks whether the command has been stopped.
const GLANCE: Duration = Duration::from_millis(100);

/// The waker.
pub(crate) fn wake(arguments: &[OsString]) -> ExitCode {
    let process = arguments.first().and_then(|process| process.to_str()?.parse().ok());
    let Some(process) = process.and_then(Pid::from_raw) else {
        return ExitCode::from(2);
    };
    match attend_to(process) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(1),
    }
}

fn attend_to(process: Pid) -> io::Result<()> {
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let go_on = || pidfd_send_signal(&process, Signal::CONT);
    let command = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let mut was_stopped = false;
    let is_needed = wait_for_end(GLANCE, || {
        let is_stopped = Threads::of(command).is_ok_and(|threads| threads.all_stopped());
        if is_stopped && !was_stopped {
            // The command sees afterwards that it copied no single moment. If this fails, the
            // process is gone.
            let _ = go_on();
        }
        was_stopped = is_stopped;
    })?;
    if is_needed {
        go_on()?;
    }
    Ok(())
}
