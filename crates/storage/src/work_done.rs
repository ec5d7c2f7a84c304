//! Work that was put off and has been done, for statistics.

use std::ops::{AddAssign, Sub};

/// Counts how much work was done, and in how many steps.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct WorkDone {
    /// Steps, each of which does about as much as its caller asks for.
    pub steps: u64,
    /// Bytes that they read or wrote, about: what a budget for a step is counted in.
    pub bytes: u64,
}

impl WorkDone {
    /// Adds a step.
    pub fn step(&mut self, bytes: u64) {
        self.steps += 1;
        self.bytes += bytes;
    }
}

impl AddAssign for WorkDone {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.bytes += other.bytes;
    }
}

impl Sub for WorkDone {
    type Output = Self;

    /// Returns what was done since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        Self { steps: self.steps - earlier.steps, bytes: self.bytes - earlier.bytes }
    }
}
