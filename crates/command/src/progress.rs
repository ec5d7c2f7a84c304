//! Progress bars: on standard error, only on a terminal, only for what takes over two seconds.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The time that a command runs before it shows how far it is.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time to sleep between two looks at the counters of a run.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The progress of a command, one phase after the other. It disappears when it is dropped.
pub struct Bar {
    bar: ProgressBar,
    /// The target that it is shown on.
    target: fn() -> ProgressDrawTarget,
    started: Instant,
    shown: bool,
    /// Steps of the phase that were done before what is being watched.
    done: u64,
}

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}

impl Bar {
    /// A bar that is not seen yet.
    pub fn new() -> Self {
        // Draws nothing where standard error is no terminal.
        Self::on(ProgressDrawTarget::stderr)
    }

    /// Makes a bar that is never seen: the progress is shown elsewhere.
    pub fn silent() -> Self {
        Self::on(ProgressDrawTarget::hidden)
    }

    fn on(target: fn() -> ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Self { bar, target, started: Instant::now(), shown: false, done: 0 }
    }

    /// Begins a phase of `total` steps.
    pub fn phase(&mut self, what: impl Into<String>, total: u64) {
        self.begin(what.into(), Some(total), "{msg:36} {wide_bar} {human_pos}/{human_len}");
    }

    /// Begins a phase whose number of steps is unknown.
    pub fn endless_phase(&mut self, what: impl Into<String>) {
        self.begin(what.into(), None, "{msg:36} {human_pos}");
    }

    /// Begins a phase whose progress is unknown: only its time is shown.
    fn timed_phase(&mut self, what: &str) {
        self.begin(what.to_owned(), None, "{msg:36} {elapsed}");
    }

    /// Begins a phase with a bar of its own: one that is changed part by part is drawn in between, as
    /// the old position of the new length.
    fn begin(&mut self, what: String, total: Option<u64>, template: &str) {
        self.bar.finish_and_clear();
        let style = ProgressStyle::with_template(template);
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        self.bar = bar
            .with_style(style.expect("the templates are constants that parse"))
            .with_message(what);
        if self.shown {
            self.bar.set_draw_target((self.target)());
        }
        self.begin_at(0);
    }

    /// The phase goes on where an earlier part of it has ended.
    pub fn begin_at(&mut self, done: u64) {
        self.done = done;
        self.at(0);
    }

    /// Does some work in a thread of its own, and meanwhile shows how far it is.
    pub fn watch<T: Send>(&mut self, done: impl Fn() -> u64, work: impl FnOnce() -> T + Send) -> T {
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
    pub fn at(&mut self, done: u64) {
        if !self.shown && self.started.elapsed() > PATIENCE {
            self.shown = true;
            self.bar.set_draw_target((self.target)());
        }
        self.bar.set_position(self.done + done);
    }
}

/// Does work whose progress is unknown, and shows how long it takes.
pub fn timed<T: Send>(what: &str, work: impl FnOnce() -> T + Send) -> T {
    let mut bar = Bar::new();
    bar.timed_phase(what);
    bar.watch(|| 0, work)
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use indicatif::TermLike;

    use super::*;

    static DRAWN: Mutex<String> = Mutex::new(String::new());

    /// A terminal that keeps all that is drawn.
    #[derive(Debug)]
    struct Drawn;

    impl TermLike for Drawn {
        fn width(&self) -> u16 {
            100
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)?;
            self.write_str("\n")
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            DRAWN.lock().expect("no panic").push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.write_str("\n")
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_phase_is_drawn_with_the_numbers_of_another() {
        // Each bar may draw some changes at once, whatever the rate: more than it has here.
        let target = || ProgressDrawTarget::term_like_with_hz(Box::new(Drawn), 255);
        let mut bar = Bar::on(target);
        bar.shown = true;
        for (what, total) in [("one", 900_000), ("two", 1), ("three", 2_000)] {
            bar.phase(what, total);
            bar.at(total);
        }
        bar.endless_phase("four");
        bar.at(77);
        drop(bar);
        let drawn = DRAWN.lock().expect("no panic").clone();
        let known = [("one", "/900,000"), ("two", "/1"), ("three", "/2,000")];
        let mut seen = 0;
        for line in drawn.lines().filter(|line| line.contains('/')) {
            let what = line.split_whitespace().next().unwrap_or_default();
            let end = known.iter().find(|(name, _)| *name == what).map(|(_, end)| *end);
            assert!(end.is_some_and(|end| line.trim_end().ends_with(end)), "{line}");
            let (at, total) = line.rsplit_once('/').expect("found");
            let number = |text: &str| {
                let digits = text.split_whitespace().last().unwrap_or_default().replace(',', "");
                digits.parse::<u64>().expect("a number")
            };
            assert!(number(at) <= number(total), "{line}");
            seen += 1;
        }
        assert!(seen >= 3, "{drawn}");
    }
}
