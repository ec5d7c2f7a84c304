//! The progress of a run of the laboratory, with the time that is left: one bar on a terminal,
//! elsewhere a line now and then where a measurement begins, as a run without a sign of life looks
//! like one that hangs.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use command::failure::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::bench::Watch;
use lab::run::{Audience, Far};

/// Steps of the bar.
const STEPS: f64 = 1000.0;
/// The time of silence between two lines.
pub(super) const SILENCE: Duration = Duration::from_secs(60);

/// Reports the progress of a run on standard error. It has no thread of its own: emulated runs fork
/// this process.
pub(super) enum LabProgress {
    Bar(ProgressBar),
    Lines(Lines),
}

impl LabProgress {
    pub(super) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines(Lines::new(Instant::now()));
        }
        let bar = ProgressBar::with_draw_target(Some(STEPS as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {msg:46}");
        bar.set_style(style.expect("the template is a constant that parses"));
        Self::Bar(bar)
    }
}

impl Watch for LabProgress {
    fn phase(&self, what: &str) {
        match self {
            Self::Bar(bar) => {
                bar.set_message(what.to_owned());
                bar.tick();
            }
            Self::Lines(lines) => {
                if let Some(line) = lines.line(Instant::now(), what) {
                    say(line);
                }
            }
        }
    }
}

impl Audience for LabProgress {
    fn far(&self, far: Far) {
        match self {
            Self::Bar(bar) => {
                bar.set_prefix(text_of(far));
                bar.set_position((far.share * STEPS) as u64);
            }
            Self::Lines(lines) => lines.far.set(Some(far)),
        }
    }
}

impl Drop for LabProgress {
    fn drop(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// The lines on standard error, and the last report.
pub(super) struct Lines {
    last: Cell<Instant>,
    far: Cell<Option<Far>>,
}

impl Lines {
    fn new(begun: Instant) -> Self {
        Self { last: Cell::new(begun), far: Cell::new(None) }
    }

    /// Returns the line to be said where `what` begins; nothing until it was silent for long
    /// enough.
    fn line(&self, now: Instant, what: &str) -> Option<String> {
        if now.saturating_duration_since(self.last.get()) < SILENCE {
            return None;
        }
        self.last.set(now);
        let far = self.far.get().map_or(String::new(), |far| text_of(far) + ": ");
        Some(far + what)
    }
}

fn text_of(far: Far) -> String {
    let left = far.left.map_or(String::new(), |left| format!(", {} left", duration(left)));
    format!("{}/{}{left}", far.done, far.all)
}

/// A time as people say it.
pub(super) fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("{seconds} s"),
        seconds @ 90..5400 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{}.{} h", seconds / 3600, seconds % 3600 / 360),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let text = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!([text(5), text(600), text(9000)], ["5 s", "10 min", "2.5 h"]);
    }

    #[test]
    fn progress_has_the_time_that_is_left() {
        let far = Far { done: 3, all: 10, share: 0.3, left: None };
        assert_eq!(text_of(far), "3/10");
        let left = Some(Duration::from_secs(120));
        assert_eq!(text_of(Far { left, ..far }), "3/10, 2 min left");
    }

    #[test]
    fn lines_come_at_most_once_a_minute() {
        let begun = Instant::now();
        let lines = Lines::new(begun);
        let line = |seconds, what| lines.line(begun + Duration::from_secs(seconds), what);
        assert_eq!(line(59, "inp"), None);
        assert_eq!(line(60, "cow").as_deref(), Some("cow"));
        lines.far.set(Some(Far { done: 3, all: 10, share: 0.3, left: None }));
        assert_eq!(line(119, "log"), None);
        assert_eq!(line(500, "nvm-inp").as_deref(), Some("3/10: nvm-inp"));
        assert_eq!(line(559, "nvm-cow"), None);
    }
}
