//! Ctrl-C.
//!
//! A separate thread waits for the signal. While a statement runs, the signal ends the statement.
//! Between two statements, an interactive shell leaves the signal to the editor. Any other shell
//! ends as the signal would have ended it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use command::failure::Failure;
use rusqlite::Connection;
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// The watch over Ctrl-C.
#[derive(Debug)]
pub(super) struct Interrupts {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// A statement runs.
    busy: AtomicBool,
    /// It has been ended by the signal.
    ended: AtomicBool,
    /// The shell is interactive.
    typed: bool,
}

impl Interrupts {
    /// Begins to watch. `typed` says that the shell is interactive.
    ///
    /// # Errors
    /// The system refuses the handler or the thread.
    pub(super) fn watch(connection: &Connection, typed: bool) -> Result<Self, Failure> {
        let failed = |error| Failure::about("a handler of signals", error);
        let shared = Arc::new(Shared { typed, ..Shared::default() });
        let mut signals = Signals::new([SIGINT]).map_err(failed)?;
        let (handle, seen) = (connection.get_interrupt_handle(), Arc::clone(&shared));
        let wait = move || {
            for signal in signals.forever() {
                if seen.busy.load(Ordering::SeqCst) {
                    seen.ended.store(true, Ordering::SeqCst);
                    handle.interrupt();
                } else if !seen.typed {
                    // Nothing is being committed: the database is as a kill leaves it.
                    let _ = emulate_default_handler(signal);
                }
            }
        };
        thread::Builder::new().name("interrupts".into()).spawn(wait).map_err(failed)?;
        Ok(Self { shared })
    }

    /// Runs what the signal is to end.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.shared.busy.store(true, Ordering::SeqCst);
        let done = work();
        self.shared.busy.store(false, Ordering::SeqCst);
        done
    }

    /// Returns whether the signal has ended a statement, and with it a shell without a user.
    pub(super) fn all_is_over(&self) -> bool {
        !self.shared.typed && self.shared.ended.load(Ordering::SeqCst)
    }

    /// Ends the process as the signal does, if that is what it was for.
    pub(super) fn end_if_it_should(&self) {
        if self.all_is_over() {
            let _ = emulate_default_handler(SIGINT);
        }
    }
}
