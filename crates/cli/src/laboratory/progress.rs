//! How far a run of the laboratory is: one bar, with the time that is left.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::bench::Watch;
use lab::run::{Audience, Far};

/// Steps of the bar.
const STEPS: f64 = 1000.0;

/// A bar on standard error, if that is a terminal. It has no thread of its own: emulated runs fork
/// this process.
pub(super) struct LabBar(ProgressBar);

impl LabBar {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(STEPS as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {msg:46}");
        bar.set_style(style.expect("the template is a constant that parses"));
        Self(bar)
    }
}

impl Watch for LabBar {
    fn phase(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.tick();
    }
}

impl Audience for LabBar {
    fn far(&self, far: Far) {
        let left = far.left.map_or(String::new(), |left| format!(", {} left", duration(left)));
        self.0.set_prefix(format!("{}/{}{left}", far.done, far.all));
        self.0.set_position((far.share * STEPS) as u64);
    }
}

impl Drop for LabBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
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
}
