//! A scheduler of threads, of which one runs at a time: the one whose turn it is. It hands the turn
//! over at seeded points, so that the same seed gives the same interleaving.
//!
//! The threads are real: what one of them has flushed no other one's fence covers. A medium that
//! calls [`Scheduler::pass`] before everything that is done to it makes each of these a point where
//! another thread may go on. The allocator's lock is one of the system's: who holds it goes on
//! until it is released, since one who waits for it could not hand the turn back.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pm::Site;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

thread_local!(static ME: Cell<Option<usize>> = const { Cell::new(None) });

/// The time without a change of hands after which a thread must be waiting for something other than
/// its turn. It only ends a test that would hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says which thread runs; see the module's comment.
#[derive(Debug)]
pub struct Scheduler {
    state: Mutex<State>,
    /// One for each thread: it is its turn.
    yours: Vec<Condvar>,
    one_in: u32,
}

#[derive(Debug)]
struct State {
    holder: usize,
    alive: Vec<bool>,
    random: SmallRng,
    handed_over: u64,
}

impl Scheduler {
    /// A scheduler of so many threads, whose turn is handed over at about one point in `one_in`.
    pub fn new(seed: u64, threads: usize, one_in: u32) -> Self {
        let random = SmallRng::seed_from_u64(seed);
        let state = State { holder: 0, alive: vec![true; threads], random, handed_over: 0 };
        let yours = (0..threads).map(|_| Condvar::new()).collect();
        Self { state: Mutex::new(state), yours, one_in }
    }

    /// Runs `work` in every thread, and returns when all have ended.
    ///
    /// # Panics
    /// One of them panics.
    pub fn run(&self, work: impl Fn(usize) + Sync) {
        thread::scope(|scope| {
            for me in 0..self.yours.len() {
                let work = &work;
                scope.spawn(move || {
                    ME.set(Some(me));
                    let _last = Last { scheduler: self, me };
                    drop(self.wait_for_turn(self.state(), me));
                    work(me);
                });
            }
        });
    }

    /// A point where another thread may go on, perhaps. Threads that were not started here pass.
    pub fn pass(&self) {
        if let Some(me) = ME.get() {
            let mut state = self.state();
            if state.random.random_ratio(1, self.one_in) {
                drop(self.hand_over(state, me));
            }
        }
    }

    /// Another thread goes on: this one waits for something that another one has to do.
    pub fn give_on(&self) {
        if let Some(me) = ME.get() {
            drop(self.hand_over(self.state(), me));
        }
    }

    /// [`Self::pass`], unless the place in the source has the allocator's lock.
    pub fn pass_at(&self, site: Site) {
        if !has_lock(site) {
            self.pass();
        }
    }

    /// Returns the number of times that it changed hands.
    pub fn handed_over(&self) -> u64 {
        self.state().handed_over
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_over<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        me: usize,
    ) -> MutexGuard<'a, State> {
        let others: Vec<usize> =
            (0..state.alive.len()).filter(|other| *other != me && state.alive[*other]).collect();
        if others.is_empty() {
            return state;
        }
        let next = others[state.random.random_range(0..others.len())];
        state.holder = next;
        state.handed_over += 1;
        self.yours[next].notify_one();
        if state.alive[me] { self.wait_for_turn(state, me) } else { state }
    }

    fn wait_for_turn<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        me: usize,
    ) -> MutexGuard<'a, State> {
        while state.holder != me {
            let before = state.handed_over;
            let waited = self.yours[me].wait_timeout(state, PATIENCE);
            let late;
            (state, late) = waited.unwrap_or_else(PoisonError::into_inner);
            assert!(
                !late.timed_out() || state.handed_over != before,
                "thread {} has its turn and waits for a lock",
                state.holder
            );
        }
        state
    }
}

/// A guard that hands the turn over when its thread ends or panics.
struct Last<'a> {
    scheduler: &'a Scheduler,
    me: usize,
}

impl Drop for Last<'_> {
    fn drop(&mut self) {
        let mut state = self.scheduler.state();
        state.alive[self.me] = false;
        if state.holder == self.me {
            drop(self.scheduler.hand_over(state, self.me));
        }
    }
}

/// Returns true if a thread at this place holds the lock of the allocator's supply of chunks.
fn has_lock(site: Site) -> bool {
    const SOURCES: [(&str, &str); 4] = [
        ("heap/src/lane.rs", include_str!("../../heap/src/lane.rs")),
        ("heap/src/heap.rs", include_str!("../../heap/src/heap.rs")),
        ("heap/src/span.rs", SPAN),
        ("heap/src/block.rs", include_str!("../../heap/src/block.rs")),
    ];
    // The pool grows, and its header is written, on behalf of the thread that takes a chunk.
    site.file().ends_with("pm/src/header.rs")
        || SOURCES.iter().any(|(file, source)| {
            site.file().ends_with(file) && locked_lines(source, site.line() as usize)
        })
}

const SPAN: &str = include_str!("../../heap/src/span.rs");

/// Returns whether the line with this number comes after one that takes the lock, in the same
/// function, and not after one that releases it. A function that borrows what the lock guards holds
/// the lock, too.
fn locked_lines(source: &str, line: usize) -> bool {
    let mut locked = false;
    for text in source.lines().take(line) {
        let text = text.trim_start();
        if text.starts_with("fn ") || text.starts_with("pub") || text == "drop(supply);" {
            locked = false;
        }
        let taken = text.strip_prefix("let ").and_then(|text| text.strip_suffix(".supply();"));
        locked |= taken.is_some() || text.contains("supply: &");
    }
    locked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_runs_at_a_time_in_an_order_of_the_seed() {
        let order = |seed| {
            let (scheduler, order) = (Scheduler::new(seed, 3, 2), Mutex::new(Vec::new()));
            scheduler.run(|me| {
                for _ in 0..20 {
                    order.try_lock().expect("no other thread runs").push(me);
                    scheduler.pass();
                }
            });
            assert!(scheduler.handed_over() > 10);
            order.into_inner().expect("no thread has panicked")
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn the_lock_of_the_allocator_is_known_from_its_source() {
        let lane = include_str!("../../heap/src/lane.rs");
        let line_of = |source: &str, wanted: &str| {
            let found: Vec<_> =
                (1..).zip(source.lines()).filter(|(_, l)| l.contains(wanted)).collect();
            found.iter().map(|(number, _)| locked_lines(source, *number)).collect::<Vec<_>>()
        };
        let line = |wanted| line_of(lane, wanted);
        assert_eq!(line("memory.store(HIGH_WATER"), [true]);
        assert_eq!(line("memory.store(at, tag.encode())"), [true]);
        assert_eq!(line("memory.store(self.hint("), [true]);
        let persisted = include_str!("../../heap/src/persisted.rs");
        assert_eq!(line_of(persisted, "lines.add(word.range());"), [false; 3]);
        assert_eq!(line_of(SPAN, "memory.flush(Range::new(area.start"), [true]);
    }
}
