//! Progress bars: on standard error, only on a terminal, only for what takes over two seconds.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long a command runs before it shows how far it is.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long to sleep between two looks at the counters of a run.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The progress of a command, one phase after the other. It disappears when it is dropped.
pub(crate) struct Bar {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
    /// Steps of the phase that were done before what is being watched.
    done: u64,
}

impl Bar {
    /// A bar that is not seen yet.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Self { bar, started: Instant::now(), shown: false, done: 0 }
    }

    /// A bar that is never seen: somebody else shows how far it is.
    pub(crate) fn silent() -> Self {
        let mut bar = Self::new();
        bar.shown = true;
        bar
    }

    fn style(&self, template: &str) {
        let style = ProgressStyle::with_template(template);
        self.bar.set_style(style.expect("the templates are constants that parse"));
    }

    /// Begins a phase of `total` steps.
    pub(crate) fn phase(&mut self, what: impl Into<String>, total: u64) {
        self.style("{msg:36} {wide_bar} {human_pos}/{human_len}");
        self.bar.set_length(total);
        self.bar.set_message(what.into());
        self.begin_at(0);
    }

    /// Begins a phase of which nobody knows how many steps it has.
    pub(crate) fn endless_phase(&mut self, what: impl Into<String>) {
        self.style("{msg:36} {human_pos}");
        self.bar.unset_length();
        self.bar.set_message(what.into());
        self.begin_at(0);
    }

    /// Begins a phase of which nobody knows how far it is, only how long it takes.
    fn timed_phase(&mut self, what: &str) {
        self.style("{msg:36} {elapsed}");
        self.bar.unset_length();
        self.bar.set_message(what.to_owned());
        self.begin_at(0);
    }

    /// The phase goes on where an earlier part of it has ended.
    pub(crate) fn begin_at(&mut self, done: u64) {
        self.done = done;
        self.at(0);
    }

    /// Does some work in a thread of its own, and meanwhile shows how far it is.
    pub(crate) fn watch<T: Send>(
        &mut self,
        done: impl Fn() -> u64,
        work: impl FnOnce() -> T + Send,
    ) -> T {
        thread::scope(|scope| {
            // Nothing is sent: the channel closes when the work ends, however it does.
            let (working, ended) = channel::<()>();
            let worker = scope.spawn(move || {
                let _working = working;
                work()
            });
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                self.at(done());
            }
            worker.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// The phase has come so far.
    pub(crate) fn at(&mut self, done: u64) {
        if !self.shown && self.started.elapsed() > PATIENCE {
            self.shown = true;
            // Draws nothing where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(self.done + done);
    }
}

/// Does some work of which nobody knows how far it is, and shows how long it takes.
pub(crate) fn timed<T: Send>(what: &str, work: impl FnOnce() -> T + Send) -> T {
    let mut bar = Bar::new();
    bar.timed_phase(what);
    bar.watch(|| 0, work)
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
