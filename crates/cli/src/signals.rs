//! A command that a signal ends leaves nothing of what it was making.
//!
//! Invariant: the command ends as it would have ended without this, by the signal (a shell calls that
//! 130, 143 or 129); a signal that is ignored, as `nohup` has it, stays ignored.
//!
//! How: a thread of its own waits for the signal, whatever the others wait for, removes what is not
//! finished, and does what the signal would have done.

use std::fs;
use std::process::exit;
use std::thread;

use command::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Makes a signal leave nothing that is not finished, from here on.
///
/// # Errors
/// The system takes no handler, or gives no thread.
pub(crate) fn leave_nothing() -> Result<(), Failure> {
    let failed = |error| Failure::about("a handler of signals", error);
    let wanted: Vec<i32> =
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)).collect();
    let mut signals = Signals::new(wanted).map_err(failed)?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            // Kept to the end: the others would fail for want of what was removed, and end it before.
            let _nothing_more = perdura::remove_unfinished();
            let _ = emulate_default_handler(signal);
            // The first process of a container does not end by a signal.
            exit(128 + signal);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map_err(failed)?;
    Ok(())
}

/// Returns true if this process was started with a signal ignored (`man 5 proc_pid_status`).
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}
