//! Native memory that takes the time of the phases of operations: of a search, a commit, a checkpoint.
//!
//! A phase ends where the code says so ([`Memory::phase`]), and took the time since the one before it
//! ended. In a memory without an observer there is no call at all, so phases cost nothing where they
//! are not measured.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pm::{Memory, Range, Step};

use crate::delegate::all_but_flush_of;

/// The time of all phases of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhaseTime {
    /// The phase.
    pub phase: Step,
    /// The number of times that it has ended.
    pub times: u64,
    /// Nanoseconds of all of them, with those that taking the time took.
    pub nanoseconds: u64,
}

#[derive(Debug)]
struct Clock {
    ended: Instant,
    phases: Vec<PhaseTime>,
}

/// A memory with a clock. Clones share both; one thread uses them at a time.
#[derive(Clone, Debug)]
pub struct Timed<M> {
    inner: M,
    clock: Arc<Mutex<Clock>>,
}

impl<M: Memory> Timed<M> {
    /// Takes the time of what is done to `inner`.
    pub fn new(inner: M) -> Self {
        let clock = Clock { ended: Instant::now(), phases: Vec::with_capacity(16) };
        Self { inner, clock: Arc::new(Mutex::new(clock)) }
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets all phases; the next one begins now.
    pub fn reset(&self) {
        let mut clock = self.clock();
        clock.phases.clear();
        clock.ended = Instant::now();
    }

    /// Returns the phases since [`Self::reset`], in the order in which they first ended.
    pub fn phases(&self) -> Vec<PhaseTime> {
        self.clock().phases.clone()
    }

    /// Nanoseconds that it takes to end a phase, which are part of it: the least of several rounds, since a
    /// disturbance only adds. Phases are forgotten.
    pub fn cost_ns(&self) -> f64 {
        const ENDS: u64 = 1000;
        let round = || {
            self.reset();
            (0..ENDS).for_each(|_| self.phase(Step("none")));
            self.phases()[0].nanoseconds as f64 / ENDS as f64
        };
        let least = (0..20).map(|_| round()).fold(f64::INFINITY, f64::min);
        self.reset();
        least
    }
}

impl<M: Memory> Memory for Timed<M> {
    const DURABLE: bool = M::DURABLE;
    const OBSERVED: bool = true;
    type View<'a> = M::View<'a>;

    all_but_flush_of!(self => self.inner);

    #[inline]
    #[track_caller]
    fn flush(&self, at: Range) {
        self.inner.flush(at);
    }

    fn phase(&self, phase: Step) {
        let now = Instant::now();
        let mut clock = self.clock();
        let nanoseconds = now.duration_since(clock.ended).as_nanos() as u64;
        clock.ended = now;
        match clock.phases.iter_mut().find(|known| known.phase == phase) {
            Some(known) => {
                known.times += 1;
                known.nanoseconds += nanoseconds;
            }
            None => clock.phases.push(PhaseTime { phase, times: 1, nanoseconds }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pm::{Dram, Off, observe};

    #[test]
    fn each_phase_has_the_time_since_the_one_before() {
        let memory = Timed::new(Dram::new(4096).unwrap());
        memory.grow(4096).unwrap();
        let begun = Instant::now();
        memory.reset();
        for _ in 0..3 {
            memory.store(Off::new(0), 1);
            observe!(Timed<Dram>: memory.phase(Step("one")));
            observe!(Timed<Dram>: memory.phase(Step("two")));
        }
        let (phases, whole) = (memory.phases(), begun.elapsed().as_nanos() as u64);
        let names: Vec<_> = phases.iter().map(|one| (one.phase.0, one.times)).collect();
        assert_eq!(names, [("one", 3), ("two", 3)]);
        assert!(phases.iter().map(|one| one.nanoseconds).sum::<u64>() <= whole);
        assert!(memory.cost_ns() > 0.0 && memory.phases().is_empty());
    }
}
