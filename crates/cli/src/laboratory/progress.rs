//! How far a run of the laboratory is, with the time that is left: one bar on a terminal, elsewhere a
//! line now and then, as a run without a sign of life looks like one that hangs.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::bench::Watch;
use lab::run::{Audience, Far};

use crate::failure::say;

/// Steps of the bar.
const STEPS: f64 = 1000.0;
/// How long it is silent between two lines.
pub(super) const SILENCE: Duration = Duration::from_secs(60);

/// Tells on standard error how far a run is. It has no thread of its own: emulated runs fork this
/// process.
pub(super) enum LabProgress {
    Bar(ProgressBar),
    Lines(Lines),
}

impl LabProgress {
    pub(super) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines(Lines { told: Cell::new(Instant::now()) });
        }
        let bar = ProgressBar::with_draw_target(Some(STEPS as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {msg:46}");
        bar.set_style(style.expect("the template is a constant that parses"));
        Self::Bar(bar)
    }
}

impl Watch for LabProgress {
    fn phase(&self, what: &str) {
        if let Self::Bar(bar) = self {
            bar.set_message(what.to_owned());
            bar.tick();
        }
    }
}

impl Audience for LabProgress {
    fn far(&self, far: Far) {
        match self {
            Self::Bar(bar) => {
                bar.set_prefix(told(far));
                bar.set_position((far.share * STEPS) as u64);
            }
            Self::Lines(lines) if lines.is_due(Instant::now()) => say(told(far)),
            Self::Lines(_) => {}
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

/// When the last line was told.
pub(super) struct Lines {
    told: Cell<Instant>,
}

impl Lines {
    /// Whether it was silent for long enough; then another line is told now.
    fn is_due(&self, now: Instant) -> bool {
        let due = now.saturating_duration_since(self.told.get()) >= SILENCE;
        if due {
            self.told.set(now);
        }
        due
    }
}

fn told(far: Far) -> String {
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
    fn times_are_told_as_people_say_them() {
        let told = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!([told(5), told(600), told(9000)], ["5 s", "10 min", "2.5 h"]);
    }

    #[test]
    fn how_far_it_is_is_told_with_what_is_left() {
        let far = Far { done: 3, all: 10, share: 0.3, left: None };
        assert_eq!(told(far), "3/10");
        let left = Some(Duration::from_secs(120));
        assert_eq!(told(Far { left, ..far }), "3/10, 2 min left");
    }

    #[test]
    fn lines_come_once_a_minute() {
        let begun = Instant::now();
        let lines = Lines { told: Cell::new(begun) };
        let due = |seconds| lines.is_due(begun + Duration::from_secs(seconds));
        let asked: Vec<u64> = (0..=180).step_by(20).filter(|&seconds| due(seconds)).collect();
        assert_eq!(asked, [60, 120, 180]);
    }
}
