//! Threads of which one runs at a time: at every point the baton goes to one that a seed picks.

use std::cell::Cell;
use std::fmt::Debug;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{Threads, Waiter};
use crate::flaw::Flaw;

thread_local! {
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The state of a thread of a [`Baton`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    /// It can run.
    Ready,
    /// It is parked on the waiter at this address, until a time of the baton's clock.
    Parked(usize, Option<Duration>),
    /// It has ended.
    Over,
}

#[derive(Debug)]
struct State {
    random: u64,
    now: Duration,
    doing: Vec<Doing>,
    holder: usize,
    /// No thread could run any more, or there is no end to it: every thread gives up.
    stuck: bool,
    /// The points that may still come.
    points: u64,
}

impl State {
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Gives the baton to a thread that can run. If all are parked, time passes until one need not
    /// be.
    fn pass(&mut self) {
        loop {
            let ready: Vec<usize> = (0..self.doing.len())
                .filter(|thread| match self.doing[*thread] {
                    Doing::Ready => true,
                    Doing::Parked(_, until) => until.is_some_and(|until| until <= self.now),
                    Doing::Over => false,
                })
                .collect();
            if !ready.is_empty() {
                self.holder = ready[(self.next_random() % ready.len() as u64) as usize];
                return;
            }
            let parked = self.doing.iter().filter_map(|doing| match doing {
                Doing::Parked(_, until) => *until,
                _ => None,
            });
            match parked.min() {
                Some(next) => self.now = next,
                None => {
                    self.stuck = self.doing.iter().any(|doing| *doing != Doing::Over);
                    return;
                }
            }
        }
    }
}

/// A scheduler for tests: the same seed gives the same order of threads. Time passes when every
/// thread is parked, and one microsecond at every point.
#[derive(Debug)]
pub struct Baton {
    state: Mutex<State>,
    /// Each thread waits for its turn at one of them.
    turns: [Condvar; TURNS],
    flaw: Option<Flaw>,
}

/// More than a test has threads: then no thread is woken for another one's turn.
const TURNS: usize = 16;

impl Baton {
    /// A baton whose order of threads follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let state = State {
            random: seed,
            now: Duration::ZERO,
            doing: Vec::new(),
            holder: 0,
            stuck: false,
            points: u64::MAX,
        };
        let turns = [const { Condvar::new() }; TURNS];
        Self { state: Mutex::new(state), turns, flaw: None }
    }

    /// The same, with a policy that is wrong.
    #[must_use]
    pub fn with(self, flaw: Option<Flaw>) -> Self {
        Self { flaw, ..self }
    }

    /// The same, for at most so many points: a policy that is wrong may have threads wait for each
    /// other without end.
    #[must_use]
    pub fn at_most(self, points: u64) -> Self {
        self.state.lock().points = points;
        self
    }

    /// Runs `threads` threads of `work`, which gets the number of its thread, to their ends.
    ///
    /// # Panics
    /// If a thread panics, all of them are parked and none can ever be woken, or more points come than
    /// may.
    pub fn run(&self, threads: usize, work: impl Fn(usize) + Sync) {
        {
            let mut state = self.state.lock();
            state.doing = vec![Doing::Ready; threads];
            state.stuck = false;
            state.pass();
        }
        std::thread::scope(|scope| {
            for number in 0..threads {
                let work = &work;
                scope.spawn(move || {
                    NUMBER.set(Some(number));
                    let _over = Over { baton: self, number };
                    self.await_turn(number);
                    work(number);
                });
            }
        });
    }

    fn await_turn(&self, number: usize) {
        let mut state = self.state.lock();
        while state.holder != number && !state.stuck {
            self.turns[number % TURNS].wait(&mut state);
        }
        assert!(state.points > 0, "it comes to no end: {:?}", state.doing);
        assert!(!state.stuck, "every thread is parked, and none can be woken: {:?}", state.doing);
    }

    fn yield_as(&self, number: usize, doing: Doing) {
        {
            let mut state = self.state.lock();
            state.now += Duration::from_micros(1);
            state.points -= 1;
            state.stuck |= state.points == 0;
            state.doing[number] = doing;
            self.pass(&mut state);
        }
        self.await_turn(number);
        self.state.lock().doing[number] = Doing::Ready;
    }

    /// Gives the baton away, and wakes the thread that gets it.
    fn pass(&self, state: &mut State) {
        if !state.stuck {
            state.pass();
        }
        if state.stuck {
            for turn in &self.turns {
                turn.notify_all();
            }
        } else {
            self.turns[state.holder % TURNS].notify_all();
        }
    }
}

/// The end of a thread, also by a panic.
struct Over<'a> {
    baton: &'a Baton,
    number: usize,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let mut state = self.baton.state.lock();
        state.doing[self.number] = Doing::Over;
        if !state.stuck {
            self.baton.pass(&mut state);
        }
        NUMBER.set(None);
    }
}

impl Threads for Baton {
    fn now(&self) -> Duration {
        self.state.lock().now
    }

    fn park(&self, waiter: &Waiter, until: Option<Duration>) -> bool {
        loop {
            if waiter.take() {
                return true;
            }
            if until.is_some_and(|until| until <= self.now()) {
                return false;
            }
            let Some(number) = NUMBER.get() else {
                // It runs alone, as one that recovers does: only time can end its wait.
                let until = until.expect("another thread can wake one that waits for no time");
                self.state.lock().now = until;
                return false;
            };
            self.yield_as(number, Doing::Parked(std::ptr::from_ref(waiter).addr(), until));
        }
    }

    fn wake(&self, waiter: &Waiter) {
        waiter.woken.store(true, std::sync::atomic::Ordering::Release);
        let address = std::ptr::from_ref(waiter).addr();
        for doing in &mut self.state.lock().doing {
            if matches!(doing, Doing::Parked(at, _) if *at == address) {
                *doing = Doing::Ready;
            }
        }
    }

    fn number(&self) -> usize {
        NUMBER.get().unwrap_or(0)
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn point(&self) {
        if let Some(number) = NUMBER.get() {
            self.yield_as(number, Doing::Ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64) -> Vec<usize> {
        let baton = Baton::new(seed);
        let order = Mutex::new(Vec::new());
        baton.run(3, |number| {
            for _ in 0..5 {
                baton.point();
                order.lock().push(number);
            }
        });
        order.into_inner()
    }

    #[test]
    fn the_order_follows_from_the_seed() {
        assert_eq!(order(1), order(1));
        assert!((2..20).any(|seed| order(seed) != order(1)));
    }

    #[test]
    fn time_passes_when_all_are_parked() {
        let baton = Baton::new(1);
        let waiter = Waiter::default();
        baton.run(1, |_| assert!(!baton.park(&waiter, Some(Duration::from_secs(9)))));
        assert!(baton.now() >= Duration::from_secs(9));
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn threads_that_come_to_no_end_are_noticed() {
        let baton = Baton::new(1).at_most(1000);
        baton.run(2, |_| {
            loop {
                baton.point();
            }
        });
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_wake_that_never_comes_is_noticed() {
        let baton = Baton::new(1);
        baton.run(2, |_| assert!(baton.park(&Waiter::default(), None)));
    }
}
