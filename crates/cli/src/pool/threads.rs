//! The states of the threads of a process, as `/proc` reports them.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use rustix::io::Errno;

/// The threads of a process at a moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Threads(BTreeMap<String, Thread>);

#[derive(Debug, PartialEq, Eq)]
struct Thread {
    /// `T` for stopped, `Z` for ended, `R` for running: proc(5).
    state: char,
    /// The number of times that it has given up its processor, by itself or not. It has to in order
    /// to stop: who stands still with the same count twice did not run in between.
    switches: u64,
}

impl Threads {
    /// Returns those of a process: none if there is no such process.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub(super) fn of(process: i32) -> io::Result<Self> {
        let mut threads = BTreeMap::new();
        let entries = match fs::read_dir(format!("/proc/{process}/task")) {
            Err(error) if has_ended(&error) => return Ok(Self(threads)),
            entries => entries?,
        };
        for entry in entries {
            let entry = match entry {
                Err(error) if has_ended(&error) => continue,
                entry => entry?,
            };
            let status = match fs::read_to_string(entry.path().join("status")) {
                // It has ended meanwhile, and does not run either.
                Err(error) if has_ended(&error) => continue,
                status => status?,
            };
            let thread = Thread::read(&status).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "/proc has no state of a thread")
            })?;
            threads.insert(entry.file_name().to_string_lossy().into_owned(), thread);
        }
        Ok(Self(threads))
    }

    /// Returns true if all of them have ended.
    pub(super) fn have_ended(&self) -> bool {
        self.0.values().all(Thread::has_ended)
    }

    /// Returns true if some live, and none of them runs.
    pub(super) fn all_stopped(&self) -> bool {
        let stands = |thread: &Thread| thread.has_ended() || matches!(thread.state, 'T' | 't');
        !self.have_ended() && self.0.values().all(stands)
    }
}

/// Returns true if what was looked at is not there any more.
fn has_ended(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::SRCH].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|error| gone.contains(&error))
}

impl Thread {
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Reads it as proc(5) writes it.
    fn read(status: &str) -> Option<Self> {
        let field = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()
        };
        let switches = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"]
            .map(|name| field(name)?.parse::<u64>().ok());
        let [Some(by_itself), Some(not)] = switches else { return None };
        Some(Self { state: field("State")?.chars().next()?, switches: by_itself + not })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_read_as_the_kernel_writes_them() {
        let status = |state: &str, switches: u64| {
            format!(
                "Name:\tState:\nState:\t{state}\nTgid:\t7\nvoluntary_ctxt_switches:\t{switches}\n\
                 nonvoluntary_ctxt_switches:\t5\n"
            )
        };
        let read = |text: &str| Thread::read(text);
        assert_eq!(read(&status("T (stopped)", 2)), Some(Thread { state: 'T', switches: 7 }));
        assert_eq!(read(&status("S (sleeping)", 0)), Some(Thread { state: 'S', switches: 5 }));
        assert_eq!(read("State:\tT (stopped)\n"), None);

        let threads = |states: &str| {
            let thread = |(at, state)| (format!("{at}"), Thread { state, switches: 0 });
            Threads(states.chars().enumerate().map(thread).collect())
        };
        assert!(threads("T").all_stopped() && threads("ZTt").all_stopped());
        assert!(!threads("TS").all_stopped() && !threads("R").all_stopped());
        assert!(!threads("ZZ").all_stopped() && !threads("").all_stopped(), "it is dead");
        assert!(threads("ZZ").have_ended() && !threads("ZS").have_ended());
    }

    #[test]
    fn who_ran_in_between_has_another_count() {
        let own = std::process::id().cast_signed();
        let before = Threads::of(own).expect("this process");
        assert!(!before.all_stopped());
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert_ne!(before, Threads::of(own).expect("this process"));
        assert!(Threads::of(i32::MAX).expect("no process").have_ended());
    }
}
