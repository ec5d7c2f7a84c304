//! The locks of the write-ahead log under a scheduler that chooses their interleaving, with connections that may die
//! after any store. At every load and store of a shared word another connection may run.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use perdura_sqlite::store::locks::Liveness;
use perdura_sqlite::store::shm_locks::{IndexLocks, LOCKS, LockWords, Word};
use perdura_sqlite::store::write_queue::WriteQueue;
use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;

const LINES: usize = 4;
/// A line that no connection of a scenario has at first.
const LAST: usize = LINES - 1;

/// Faults that tests seed.
#[derive(Clone, Copy, Default)]
struct Faults {
    all_look_dead: bool,
    /// A shared lock is taken without a word to others before.
    does_not_try: bool,
    /// All connections of a line have one generation.
    has_no_generations: bool,
    /// No connection that waits for the lock for writing is woken.
    wakes_none: bool,
}

/// The words of a line.
const LINE_WORDS: usize = 5;
/// The time that a look at the clock takes.
const STEP_US: u64 = 1_000;
/// A limit from which on only a wake ends a wait, unless the dead are waited for.
const LONG_US: u64 = 5_000;

struct Shared {
    words: Vec<AtomicU64>,
    alive: Vec<AtomicBool>,
    /// For each lock: the living connections that hold it shared, a bit each, and the one that owns it, plus one.
    held: Vec<AtomicU64>,
    owner: Vec<AtomicU64>,
    clock: AtomicU64,
    /// Microseconds of a look at the clock.
    step_us: u64,
    /// A wait that only a wake ends.
    waits_long: bool,
    sleeping: Mutex<()>,
    woken: Condvar,
    /// Calls that wake a connection, and calls that let others run.
    wakes: AtomicU64,
    yields: AtomicU64,
    faults: Faults,
}

impl Shared {
    fn new(faults: Faults) -> Self {
        let zero = |_| AtomicU64::new(0);
        Self {
            words: (0..LOCKS + 3 + LINE_WORDS * LINES).map(zero).collect(),
            alive: (0..LINES).map(|_| AtomicBool::new(false)).collect(),
            held: (0..LOCKS).map(zero).collect(),
            owner: (0..LOCKS).map(zero).collect(),
            clock: AtomicU64::new(STEP_US),
            step_us: STEP_US,
            waits_long: false,
            sleeping: Mutex::new(()),
            woken: Condvar::new(),
            wakes: AtomicU64::new(0),
            yields: AtomicU64::new(0),
            faults,
        }
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.words[match word {
            Word::Owner(lock) => lock,
            Word::Lines => LOCKS,
            Word::Claim => LOCKS + 1,
            Word::Handed => LOCKS + 2,
            Word::Line(line) => LOCKS + 3 + LINE_WORDS * line,
            Word::Takes(line) => LOCKS + 4 + LINE_WORDS * line,
            Word::Since(line) => LOCKS + 5 + LINE_WORDS * line,
            Word::Until(line) => LOCKS + 6 + LINE_WORDS * line,
            Word::Wake(line) => LOCKS + 7 + LINE_WORDS * line,
        }]
    }
}

type Meanwhile = Box<dyn FnOnce()>;

/// A connection's access to the shared state, which allows it so many stores.
#[derive(Clone)]
struct Handle {
    shared: Arc<Shared>,
    left: Rc<Cell<usize>>,
    /// Work between the next question about a life and the answer's use, or while this connection lets others run.
    meanwhile: Rc<RefCell<Option<Meanwhile>>>,
}

/// The payload with which a connection unwinds when it dies. It is not a panic, so that nothing is printed.
struct Died;

impl Handle {
    fn new(shared: &Arc<Shared>, stores: usize) -> Self {
        let left = Rc::new(Cell::new(stores));
        Self { shared: shared.clone(), left, meanwhile: Rc::default() }
    }

    /// Makes a store, unless the connection dies before it.
    fn stored<T>(&self, store: impl FnOnce() -> T) -> T {
        if self.left.get() == 0 {
            resume_unwind(Box::new(Died));
        }
        self.left.set(self.left.get() - 1);
        store()
    }

    fn seen(&self, word: Word, value: u64) -> u64 {
        match word {
            Word::Line(_) | Word::Owner(_) if self.shared.faults.has_no_generations => {
                value & 0xffff
            }
            _ => value,
        }
    }
}

impl LockWords for Handle {
    fn load(&self, word: Word) -> u64 {
        self.shared.word(word).load(Ordering::SeqCst)
    }
    fn store(&self, word: Word, value: u64) {
        let value = self.seen(word, value);
        self.stored(|| self.shared.word(word).store(value, Ordering::SeqCst));
    }
    fn store_first(&self, word: Word, value: u64) {
        if self.shared.faults.does_not_try && value >> 8 & 0xff != 0 {
            return;
        }
        self.store(word, value);
    }
    fn swap(&self, word: Word, old: u64, new: u64) -> bool {
        let (old, new) = (self.seen(word, old), self.seen(word, new));
        let word = self.shared.word(word);
        self.stored(|| word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok())
    }
    fn pause(&self) {
        thread::yield_now();
    }
    fn yields(&self) {
        self.shared.yields.fetch_add(1, Ordering::SeqCst);
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile();
        }
        thread::yield_now();
    }
    fn wait(&self, word: Word, seen: u64, limit_us: u64) -> bool {
        if !self.shared.waits_long || limit_us < LONG_US {
            thread::yield_now();
            self.shared.clock.fetch_add(limit_us, Ordering::SeqCst);
            return self.load(word) != seen;
        }
        let mut sleeping = self.shared.sleeping.lock().unwrap();
        while self.load(word) == seen {
            sleeping = self.shared.woken.wait(sleeping).unwrap();
        }
        true
    }
    fn wake(&self, _: Word) {
        self.shared.wakes.fetch_add(1, Ordering::SeqCst);
        if !self.shared.faults.wakes_none {
            let _sleeping = self.shared.sleeping.lock().unwrap();
            self.shared.woken.notify_all();
        }
    }
    fn microseconds(&self) -> u64 {
        self.shared.clock.fetch_add(self.shared.step_us, Ordering::SeqCst)
    }
}

impl Liveness for Handle {
    fn is_alive(&self, line: usize) -> bool {
        let lives = |alive: &AtomicBool| alive.load(Ordering::SeqCst);
        let is_alive =
            self.shared.alive.get(line).is_some_and(lives) && !self.shared.faults.all_look_dead;
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile();
        }
        is_alive
    }
}

type Locks = IndexLocks<Handle, Handle>;

fn claim(handle: &Handle, line: usize) -> Locks {
    handle.shared.alive[line].store(true, Ordering::SeqCst);
    IndexLocks::claim(handle.clone(), handle.clone(), LINES, line)
}

/// Holds a lock shared for a moment, next to others but to no owner. Returns whether it did.
fn share(shared: &Shared, locks: &mut Locks, line: usize, lock: usize) -> bool {
    if !locks.lock_shared(lock) {
        return false;
    }
    shared.held[lock].fetch_or(1 << line, Ordering::SeqCst);
    assert_eq!(shared.owner[lock].load(Ordering::SeqCst), 0, "shared next to an owner");
    thread::yield_now();
    assert_eq!(shared.owner[lock].load(Ordering::SeqCst), 0, "an owner next to a shared one");
    shared.held[lock].fetch_and(!(1 << line), Ordering::SeqCst);
    locks.unlock_shared(lock);
    true
}

/// Owns locks for a moment, alone. Returns whether it did.
fn own(shared: &Shared, locks: &mut Locks, line: usize, first: usize, count: usize) -> bool {
    if !locks.lock_exclusive(first, count) {
        return false;
    }
    let all = first..first + count;
    for lock in all.clone() {
        assert!(locks.owns(lock));
        let before = shared.owner[lock].swap(line as u64 + 1, Ordering::SeqCst);
        let held = shared.held[lock].load(Ordering::SeqCst);
        assert_eq!((before, held), (0, 0), "it is not alone");
    }
    thread::yield_now();
    for lock in all {
        assert_eq!(shared.held[lock].load(Ordering::SeqCst), 0, "shared next to an owner");
        shared.owner[lock].store(0, Ordering::SeqCst);
    }
    locks.unlock_exclusive(first, count);
    true
}

/// Sleeps, as SQLite's busy handler does, after the lock for writing was found busy.
fn sleep(handle: &Handle, locks: &Locks, limit_us: u64) {
    let wish = locks.wish().expect("it was busy");
    WriteQueue::new(handle, LINES, locks.place()).sleep(wish, limit_us, handle);
}

/// Owns the lock for writing for a moment, after as many sleeps as it takes, or so many. Returns whether it did.
fn write(handle: &Handle, locks: &mut Locks, line: usize, sleeps: usize, limit_us: u64) -> bool {
    for _ in 0..sleeps {
        if own(&handle.shared, locks, line, 0, 1) {
            return true;
        }
        sleep(handle, locks, limit_us);
    }
    own(&handle.shared, locks, line, 0, 1)
}

/// A connection that dies after so many stores, if it makes that many.
fn run_life(shared: &Arc<Shared>, line: usize, stores: usize) {
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let handle = Handle::new(shared, stores);
        let mut locks = claim(&handle, line);
        for _ in 0..2 {
            share(shared, &mut locks, line, 3);
            write(&handle, &mut locks, line, 1, STEP_US);
            share(shared, &mut locks, line, 4);
            own(shared, &mut locks, line, 3, 2);
        }
        locks.unlock_all();
    }));
    if let Err(death) = lived
        && !death.is::<Died>()
    {
        resume_unwind(death);
    }
    for lock in 0..LOCKS {
        shared.held[lock].fetch_and(!(1 << line), Ordering::SeqCst);
        let mine = line as u64 + 1;
        let _ = shared.owner[lock].compare_exchange(mine, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
    shared.alive[line].store(false, Ordering::SeqCst);
}

/// Connections that die at different times, and one that comes when all are gone and must not be blocked.
fn run_lives(stores: [usize; 3], faults: Faults) {
    let shared = Arc::new(Shared::new(faults));
    let threads: Vec<_> = (0..3)
        .map(|line| {
            let shared = shared.clone();
            thread::spawn(move || {
                run_life(&shared, line, stores[line]);
                run_life(&shared, line, usize::MAX);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let handle = Handle::new(&shared, usize::MAX);
    let mut locks = claim(&handle, LAST);
    assert!(share(&shared, &mut locks, LAST, 3), "the dead are in the way of a reader");
    assert!(own(&shared, &mut locks, LAST, 0, 1), "the dead are in the way of a writer");
    let owned = (0..4).any(|_| own(&shared, &mut locks, LAST, 0, LOCKS));
    assert!(owned, "the dead are in the way");
}

/// The most stores of a connection in a scenario. It dies after each of them.
const STORES: usize = 40;

#[test]
fn connection_may_die_after_any_store() {
    for stores in 0..STORES {
        let run = move || {
            run_lives([stores, usize::MAX, (stores * 7) % STORES], Faults::default());
        };
        shuttle::check_random_with_seed(run, 7, 60);
        shuttle::check_pct(run, 30, 3);
    }
}

#[test]
#[ignore = "long: a hundred times as many interleavings"]
fn long_connection_may_die_after_any_store() {
    for one in 0..STORES {
        for other in (0..STORES).step_by(3).chain([usize::MAX]) {
            let run = move || run_lives([one, other, usize::MAX], Faults::default());
            shuttle::check_random_with_seed(run, 11, 1_000);
            shuttle::check_pct(run, 500, 4);
        }
    }
}

/// The most sleeps of a writer next to others: more than there are transactions.
const SLEEPS_MAX: usize = 200;

/// Writers that each commit several times, and sleep until they are woken. All get the lock as often as they want it.
fn run_writers(step_us: u64, faults: Faults) {
    let shared = Shared { step_us, waits_long: true, ..Shared::new(faults) };
    let shared = Arc::new(shared);
    let threads: Vec<_> = (0..3)
        .map(|line| {
            let shared = shared.clone();
            thread::spawn(move || {
                let handle = Handle::new(&shared, usize::MAX);
                let mut locks = claim(&handle, line);
                for _ in 0..3 {
                    let wrote = write(&handle, &mut locks, line, SLEEPS_MAX, u64::MAX / 2);
                    assert!(wrote, "passed by");
                    assert_eq!(locks.wish(), None);
                }
                locks.unlock_all();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for word in [Word::Claim, Word::Since(0), Word::Since(1), Word::Since(2)] {
        assert_eq!(shared.word(word).load(Ordering::SeqCst), 0, "{word:?} is left");
    }
}

/// No wake is lost: a connection that sleeps for ever would be a deadlock, which the scheduler reports.
#[test]
fn sleeping_writers_are_woken() {
    for step_us in [1, 100, STEP_US] {
        let run = move || run_writers(step_us, Faults::default());
        shuttle::check_random_with_seed(run, 7, 2_000);
        shuttle::check_pct(run, 1_000, 3);
    }
}

#[test]
fn lost_wake_is_noticed() {
    let faults = Faults { wakes_none: true, ..Faults::default() };
    let run = move || run_writers(1, faults);
    assert!(catch_unwind(|| shuttle::check_random_with_seed(run, 7, 400)).is_err());
}

/// The test notices living connections taken for dead, and shared locks that are not announced.
#[test]
fn wrong_locks_are_noticed() {
    let faults = [
        Faults { all_look_dead: true, ..Faults::default() },
        Faults { does_not_try: true, ..Faults::default() },
    ];
    for (number, faults) in faults.into_iter().enumerate() {
        let noticed = (2..STORES).any(|stores| {
            let run = move || run_lives([stores, (stores * 5) % STORES, usize::MAX], faults);
            catch_unwind(|| shuttle::check_random_with_seed(run, 7, 400)).is_err()
        });
        assert!(noticed, "{number}");
    }
}

/// The most attempts that a lock of the dead is in the way: less than ten milliseconds, if they are a millisecond apart.
const ATTEMPTS_MAX: usize = 4;

/// All that a connection may want.
fn wants() -> Vec<(bool, usize, usize)> {
    let shared = (0..LOCKS).map(|lock| (true, lock, 1));
    let exclusive = (0..LOCKS).map(|lock| (false, lock, 1));
    shared.chain(exclusive).chain([(false, 4, 4), (false, 0, LOCKS)]).collect()
}

/// Connections die together, each after any of its stores. One that lived next to them, and has met readers before or
/// not, and one that comes later get each lock within a few attempts.
#[test]
fn lock_of_the_dead_is_soon_free() {
    let run = || {
        let mut most = 0;
        for stores in 0..STORES {
            for (number, want) in wants().into_iter().enumerate() {
                let shared = Arc::new(Shared::new(Faults::default()));
                let handle = Handle::new(&shared, usize::MAX);
                let mut lives = claim(&handle, LAST);
                if stores % 2 == 0 {
                    // It has met living readers in all lines.
                    let met = [0, 1, 2].map(|line| claim(&handle, line));
                    let met = met.map(|mut one| {
                        assert!(one.lock_shared(3));
                        one
                    });
                    assert!(!lives.lock_exclusive(3, 1));
                    met.into_iter().for_each(|mut one| one.unlock_all());
                }
                for line in 0..LAST {
                    run_life(&shared, line, stores.saturating_sub(line * 3));
                }
                let mut locks = if (stores + number) % 2 == 0 {
                    lives
                } else {
                    lives.unlock_all();
                    claim(&handle, 0)
                };
                let (is_shared, first, count) = want;
                let attempts = (1..=ATTEMPTS_MAX).find(|_| {
                    if is_shared {
                        locks.lock_shared(first)
                    } else {
                        locks.lock_exclusive(first, count)
                    }
                });
                most = most.max(attempts.unwrap_or_else(|| panic!("{stores}, {want:?}")));
            }
        }
        assert!(most > 1, "no lock of a dead reader was in the way");
    };
    shuttle::check_random_with_seed(run, 7, 1);
}

/// Many readers that died together are buried together, by the first attempt of a connection that has met none of them:
/// many connections make no other one.
#[test]
fn many_dead_readers_are_buried_at_once() {
    let run = || {
        let shared = Arc::new(Shared::new(Faults::default()));
        let handle = Handle::new(&shared, usize::MAX);
        let mut one = claim(&handle, LAST);
        for line in 0..LAST {
            let mut dies = claim(&handle, line);
            assert!(dies.lock_shared(3 + line));
            shared.alive[line].store(false, Ordering::SeqCst);
        }
        assert!(one.lock_exclusive(3, LOCKS - 3));
    };
    shuttle::check_random_with_seed(run, 7, 1);
}

/// A dead reader is found between those that live, of which one is in the way at every other attempt.
#[test]
fn living_reader_hides_no_dead_one() {
    let run = || {
        let shared = Arc::new(Shared::new(Faults::default()));
        let handle = Handle::new(&shared, usize::MAX);
        let [mut lives, mut dies, mut one] = [0, 1, 2].map(|line| claim(&handle, line));
        assert!(dies.lock_shared(3));
        shared.alive[1].store(false, Ordering::SeqCst);
        let attempts = (1..=ATTEMPTS_MAX).find(|number| {
            let overlaps = number % 2 == 1 && lives.lock_shared(3);
            let taken = one.lock_exclusive(3, 1);
            if overlaps {
                lives.unlock_shared(3);
            }
            taken
        });
        assert!(attempts.is_some(), "it stays in the way");
    };
    shuttle::check_random_with_seed(run, 7, 1);
}

/// A connection takes over a dead one's line while another one is about to bury that. Without generations it would
/// lose its locks.
#[test]
fn new_connection_is_not_buried_for_the_dead_one() {
    for has_no_generations in [false, true] {
        shuttle::check_random_with_seed(
            move || {
                let shared =
                    Arc::new(Shared::new(Faults { has_no_generations, ..Faults::default() }));
                let handle = Handle::new(&shared, usize::MAX);
                let [mut dies, mut one] = [0, 1].map(|line| claim(&handle, line));
                assert!(dies.lock_exclusive(0, 1));
                shared.alive[0].store(false, Ordering::SeqCst);
                let (new, other) = (Rc::new(RefCell::new(None)), handle.clone());
                let made = Rc::clone(&new);
                let meanwhile = move || {
                    let mut locks = claim(&other, 0);
                    assert!(locks.lock_exclusive(0, 1), "the dead one's lock is free");
                    *made.borrow_mut() = Some(locks);
                };
                *handle.meanwhile.borrow_mut() = Some(Box::new(meanwhile));
                let got = one.lock_exclusive(0, 1);
                assert!(new.borrow().is_some(), "the question was asked");
                assert_eq!(got, has_no_generations);
            },
            1,
            1,
        );
    }
}

/// A dead writer is buried at once, a dead reader that was met alive only when it has not moved for a millisecond.
#[test]
fn dead_reader_is_buried_a_millisecond_later() {
    shuttle::check_random_with_seed(
        || {
            let shared = Arc::new(Shared::new(Faults::default()));
            let handle = Handle::new(&shared, usize::MAX);
            let [mut dies, mut one] = [0, 1].map(|line| claim(&handle, line));
            assert!(dies.lock_shared(3) && dies.lock_exclusive(0, 1));
            assert!(!one.lock_exclusive(0, 1) && !one.lock_exclusive(3, 1));
            assert!(one.lock_shared(3) && !one.lock_shared(0));
            one.unlock_shared(3);
            // Alive, it stays in the way.
            assert!(!one.lock_exclusive(3, 1) && !one.lock_exclusive(3, 1));
            shared.alive[0].store(false, Ordering::SeqCst);
            assert!(one.lock_exclusive(0, 1));
            assert!(one.lock_exclusive(3, 1));
            // The next connection in the line has none of its locks.
            let mut next = claim(&handle, 0);
            assert!(!next.lock_exclusive(0, 1) && !next.lock_shared(3));
            one.unlock_all();
            assert!(next.lock_exclusive(0, LOCKS));
        },
        1,
        1,
    );
}

/// Without a connection that waits, the lock for writing is taken and given up without a call.
#[test]
fn writer_alone_wakes_none() {
    let run = || {
        let shared = Arc::new(Shared::new(Faults::default()));
        let handle = Handle::new(&shared, usize::MAX);
        let [mut one, mut other] = [0, 1].map(|line| claim(&handle, line));
        for _ in 0..3 {
            for locks in [&mut one, &mut other] {
                assert!(locks.lock_exclusive(0, 1));
                locks.unlock_exclusive(0, 1);
            }
        }
        assert!(one.lock_exclusive(0, 1));
        // Busy without a sleep afterwards: it does not wait.
        assert!(!other.lock_exclusive(0, 1));
        one.unlock_exclusive(0, 1);
        assert!(one.lock_exclusive(0, 1));
        one.unlock_all();
        let calls = [&shared.wakes, &shared.yields].map(|calls| calls.load(Ordering::SeqCst));
        assert_eq!(calls, [0, 0]);
        assert_eq!(shared.clock.load(Ordering::SeqCst), 2 * STEP_US, "the time of the busy one");
    };
    shuttle::check_random_with_seed(run, 7, 1);
}

/// The owner that commits again lets the connection pass that has waited.
#[test]
fn lock_is_handed_to_the_one_that_waits() {
    let run = || {
        let shared = Arc::new(Shared::new(Faults::default()));
        let handle = Handle::new(&shared, usize::MAX);
        let [mut one, mut waits] = [0, 1].map(|line| claim(&handle, line));
        assert!(one.lock_exclusive(0, 1));
        assert!(!waits.lock_exclusive(0, 1));
        // Its sleep ends with the time that was asked for.
        sleep(&handle, &waits, STEP_US);
        one.unlock_exclusive(0, 1);
        assert_eq!(shared.wakes.load(Ordering::SeqCst), 1, "it is woken");
        let waits = Rc::new(RefCell::new(waits));
        let taker = Rc::clone(&waits);
        let take = move || assert!(taker.borrow_mut().lock_exclusive(0, 1), "it is its turn");
        *handle.meanwhile.borrow_mut() = Some(Box::new(take));
        assert!(!one.lock_exclusive(0, 1), "it lets the other one pass");
        assert!(handle.meanwhile.borrow().is_none() && waits.borrow().owns(0));
        waits.borrow_mut().unlock_exclusive(0, 1);
        assert!(one.lock_exclusive(0, 1), "no other one waits");
        assert_eq!(shared.yields.load(Ordering::SeqCst), 1);
    };
    shuttle::check_random_with_seed(run, 7, 1);
}

/// A connection that claims the lock and does not take it, dead or alive, holds up another one for a moment, once.
#[test]
fn claim_that_is_not_used_lapses() {
    for dies in [false, true] {
        let run = move || {
            let shared = Arc::new(Shared::new(Faults::default()));
            let handle = Handle::new(&shared, usize::MAX);
            let [mut one, mut claims] = [0, 1].map(|line| claim(&handle, line));
            assert!(one.lock_exclusive(0, 1) && !claims.lock_exclusive(0, 1));
            sleep(&handle, &claims, STEP_US);
            shared.alive[1].store(!dies, Ordering::SeqCst);
            one.unlock_exclusive(0, 1);
            assert!(one.lock_exclusive(0, 1), "it takes the lock after a while");
            one.unlock_exclusive(0, 1);
            let yields = shared.yields.load(Ordering::SeqCst);
            assert!((1..5).contains(&yields), "{yields}");
            assert!(one.lock_exclusive(0, 1));
            assert_eq!(shared.yields.load(Ordering::SeqCst), yields, "not again");
        };
        shuttle::check_random_with_seed(run, 7, 1);
    }
}

/// The oldest ticket comes first, and a dead connection's is no longer in the way.
#[test]
fn oldest_ticket_comes_first() {
    for dies in [false, true] {
        let run = move || {
            let shared = Arc::new(Shared::new(Faults::default()));
            let handle = Handle::new(&shared, usize::MAX);
            let [mut one, mut old, mut new] = [0, 1, 2].map(|line| claim(&handle, line));
            assert!(one.lock_exclusive(0, 1));
            assert!(!old.lock_exclusive(0, 1) && !new.lock_exclusive(0, 1));
            for locks in [&old, &new] {
                sleep(&handle, locks, STEP_US);
            }
            let claim = || shared.word(Word::Claim).load(Ordering::SeqCst) & 0xffff;
            assert_eq!(claim(), 2);
            shared.alive[1].store(!dies, Ordering::SeqCst);
            sleep(&handle, &new, 10 * LONG_US);
            assert_eq!(claim(), if dies { 3 } else { 2 });
            one.unlock_exclusive(0, 1);
            assert_eq!(new.lock_exclusive(0, 1), dies || claim() != 2);
        };
        shuttle::check_random_with_seed(run, 7, 1);
    }
}

/// A thread that slept for a connection may claim the lock while another one uses the connection.
#[test]
fn claim_of_a_connection_without_a_wish_ends() {
    let run = || {
        let shared = Arc::new(Shared::new(Faults::default()));
        let handle = Handle::new(&shared, usize::MAX);
        let [mut one, mut both] = [0, 1].map(|line| claim(&handle, line));
        assert!(one.lock_exclusive(0, 1) && !both.lock_exclusive(0, 1));
        let wish = both.wish().unwrap();
        one.unlock_exclusive(0, 1);
        assert!(both.lock_exclusive(0, 1));
        WriteQueue::new(&handle, LINES, both.place()).sleep(wish, STEP_US, &handle);
        let word = |word| shared.word(word).load(Ordering::SeqCst);
        assert_eq!((word(Word::Claim) & 0xffff, both.wish()), (2, None));
        both.unlock_exclusive(0, 1);
        assert!(both.lock_exclusive(0, 1));
        assert_eq!((word(Word::Claim), word(Word::Since(1))), (0, 0));
    };
    shuttle::check_random_with_seed(run, 7, 1);
}

/// A connection that was woken early and does not try again is soon no longer in the way.
#[test]
fn ticket_ends_soon_after_its_sleep() {
    let run = || {
        let shared = Arc::new(Shared::new(Faults::default()));
        let handle = Handle::new(&shared, usize::MAX);
        let [mut one, mut leaves] = [0, 1].map(|line| claim(&handle, line));
        assert!(one.lock_exclusive(0, 1) && !leaves.lock_exclusive(0, 1));
        one.unlock_exclusive(0, 1);
        sleep(&handle, &leaves, 1_000_000);
        let now = shared.clock.load(Ordering::SeqCst);
        assert!(now < 100_000, "the lock is free: {now}");
        let until = shared.word(Word::Until(1)).load(Ordering::SeqCst);
        assert!((now..now + 20_000).contains(&until), "{until} at {now}");
    };
    shuttle::check_random_with_seed(run, 7, 1);
}

/// A new connection in the line of one that has died while it waited has no ticket and no claim.
#[test]
fn new_connection_has_no_claim() {
    let run = || {
        let shared = Arc::new(Shared::new(Faults::default()));
        let handle = Handle::new(&shared, usize::MAX);
        let [mut one, mut dies] = [0, 1].map(|line| claim(&handle, line));
        assert!(one.lock_exclusive(0, 1) && !dies.lock_exclusive(0, 1));
        sleep(&handle, &dies, STEP_US);
        assert_ne!(shared.word(Word::Claim).load(Ordering::SeqCst), 0);
        let next = claim(&handle, 1);
        assert_eq!(next.wish(), None);
        for word in [Word::Claim, Word::Since(1), Word::Until(1)] {
            assert_eq!(shared.word(word).load(Ordering::SeqCst), 0, "{word:?}");
        }
    };
    shuttle::check_random_with_seed(run, 7, 1);
}
