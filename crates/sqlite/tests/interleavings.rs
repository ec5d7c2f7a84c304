//! A program of its own: the hook for panics of its scheduler belongs to the process.
//!
//! Locks of connections under a scheduler that chooses their interleaving, and which may die after any store. At every
//! load and store of a shared word another connection may run.
//!
//! The database is two words, which a writer stores one after the other, and a log that says what both will be. Readers
//! expect them to be equal.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use perdura_sqlite::store::locks::{Answer, Connection, Level, Liveness, Words, words};
use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::thread;

const SLOTS: usize = 4;
/// A slot that no connection of a scenario has at first.
const LAST: usize = SLOTS - 1;

struct Shared {
    words: Vec<AtomicU64>,
    /// The log, and the two words of the database.
    log: AtomicU64,
    data: [AtomicU64; 2],
    alive: Vec<AtomicBool>,
    reading: Vec<AtomicBool>,
    acknowledged: AtomicU64,
    /// Faults that tests seed.
    all_look_dead: bool,
    no_replay: bool,
}

impl Shared {
    fn new() -> Self {
        let zero = |_| AtomicU64::new(0);
        let no = |_| AtomicBool::new(false);
        Self {
            words: (0..words(SLOTS)).map(zero).collect(),
            log: AtomicU64::new(0),
            data: [0, 1].map(zero),
            alive: (0..SLOTS).map(no).collect(),
            reading: (0..SLOTS).map(no).collect(),
            acknowledged: AtomicU64::new(0),
            all_look_dead: false,
            no_replay: false,
        }
    }
}

/// A connection's access to the shared state, which allows it so many stores.
#[derive(Clone)]
struct Handle {
    shared: Arc<Shared>,
    left: Rc<Cell<usize>>,
}

/// The payload with which a connection unwinds when it dies. It is not a panic, so that nothing is printed.
struct Died;

impl Handle {
    fn new(shared: &Arc<Shared>, stores: usize) -> Self {
        Self { shared: shared.clone(), left: Rc::new(Cell::new(stores)) }
    }

    /// Makes a store, unless the connection dies before it.
    fn stored<T>(&self, store: impl FnOnce() -> T) -> T {
        if self.left.get() == 0 {
            resume_unwind(Box::new(Died));
        }
        self.left.set(self.left.get() - 1);
        store()
    }

    fn set(&self, word: &AtomicU64, value: u64) {
        self.stored(|| word.store(value, Ordering::SeqCst));
    }
}

impl Words for Handle {
    fn load(&self, word: usize) -> u64 {
        self.shared.words[word].load(Ordering::SeqCst)
    }
    fn store(&self, word: usize, value: u64) {
        self.set(&self.shared.words[word], value);
    }
    fn swap(&self, word: usize, old: u64, new: u64) -> bool {
        let word = &self.shared.words[word];
        self.stored(|| word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok())
    }
    fn pause(&self, _: u32) {
        thread::yield_now();
    }
    fn microseconds(&self) -> u64 {
        0
    }
}

impl Liveness for Handle {
    fn is_alive(&self, slot: usize) -> bool {
        self.shared.alive[slot].load(Ordering::SeqCst) && !self.shared.all_look_dead
    }
}

type TestConnection = Connection<Handle, Handle>;

fn replay(handle: &Handle, one: &mut TestConnection) {
    let shared = &handle.shared;
    let value = shared.log.load(Ordering::SeqCst);
    if value != 0 && !shared.no_replay {
        handle.set(&shared.data[0], value);
        handle.set(&shared.data[1], value);
        handle.set(&shared.log, 0);
    }
    one.end_replay();
}

fn claim(handle: &Handle, slot: usize) -> TestConnection {
    handle.shared.alive[slot].store(true, Ordering::SeqCst);
    let (mut one, answer) = Connection::claim(handle.clone(), handle.clone(), SLOTS, slot);
    if answer == Answer::Replay {
        replay(handle, &mut one);
    }
    one
}

/// Requests a lock a few times; replays if required.
fn lock(handle: &Handle, one: &mut TestConnection, level: Level, times: usize) -> bool {
    for _ in 0..times {
        match one.lock(level) {
            Answer::Got => return true,
            Answer::Busy => thread::yield_now(),
            Answer::Replay => replay(handle, one),
        }
    }
    false
}

fn read_database(shared: &Shared) -> u64 {
    let [one, other] = [0, 1].map(|word| shared.data[word].load(Ordering::SeqCst));
    assert_eq!(one, other, "half a transaction was read");
    assert!(one >= shared.acknowledged.load(Ordering::SeqCst), "a transaction is lost");
    one
}

/// Reads, and writes what it read plus one. Returns whether it wrote.
fn transaction(handle: &Handle, one: &mut TestConnection, times: usize) -> bool {
    let shared = &handle.shared;
    if !lock(handle, one, Level::Shared, times) {
        return false;
    }
    shared.reading[one.slot()].store(true, Ordering::SeqCst);
    let read = read_database(shared);
    let reserved = lock(handle, one, Level::Reserved, 1);
    assert!(!reserved || read_database(shared) == read, "a write next to a reader");
    shared.reading[one.slot()].store(false, Ordering::SeqCst);
    let wrote = reserved && lock(handle, one, Level::Exclusive, times);
    if wrote {
        assert_eq!(one.level(), Level::Exclusive);
        let others = shared.reading.iter().filter(|reading| reading.load(Ordering::SeqCst)).count();
        assert_eq!(others, 0, "a reader next to a writer");
        handle.set(&shared.log, read + 1);
        handle.set(&shared.data[0], read + 1);
        handle.set(&shared.data[1], read + 1);
        handle.set(&shared.log, 0);
        shared.acknowledged.store(read + 1, Ordering::SeqCst);
    }
    one.unlock(Level::None);
    wrote
}

/// Takes the exclusive lock if no other connection is there; returns whether it did.
type Alone = fn(&mut TestConnection) -> bool;

/// Reads, and then moves the database away and back if no other connection is there. Returns whether it did.
fn visit(handle: &Handle, one: &mut TestConnection, times: usize, alone: Alone) -> bool {
    let shared = &handle.shared;
    if !lock(handle, one, Level::Shared, times) {
        return false;
    }
    shared.reading[one.slot()].store(true, Ordering::SeqCst);
    let read = read_database(shared);
    shared.reading[one.slot()].store(false, Ordering::SeqCst);
    let alone = alone(one);
    if alone {
        assert_eq!(one.level(), Level::Exclusive);
        let others = shared.reading.iter().filter(|reading| reading.load(Ordering::SeqCst)).count();
        assert_eq!(others, 0, "a reader next to an exclusive lock");
        assert_eq!(read_database(shared), read, "a write next to a reader");
        if read > 0 {
            handle.set(&shared.log, read);
            handle.set(&shared.data[0], u64::MAX);
            handle.set(&shared.data[0], read);
            handle.set(&shared.log, 0);
        }
    }
    one.unlock(Level::None);
    alone
}

/// The two ways, for a moment and for longer.
const WAYS: [Alone; 2] = [TestConnection::lock_exclusive_if_idle, |one: &mut TestConnection| {
    one.lock_exclusive_or_stay() == Answer::Got
}];

/// A connection that dies after so many stores, if it makes that many.
fn run_life(shared: &Arc<Shared>, slot: usize, stores: usize) {
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let handle = Handle::new(shared, stores);
        let mut one = claim(&handle, slot);
        transaction(&handle, &mut one, 3);
        visit(&handle, &mut one, 3, WAYS[slot % 2]);
        transaction(&handle, &mut one, 3);
    }));
    if let Err(death) = lived
        && !death.is::<Died>()
    {
        resume_unwind(death);
    }
    shared.reading[slot].store(false, Ordering::SeqCst);
    shared.alive[slot].store(false, Ordering::SeqCst);
}

/// Connections that die at different times, and one that comes when all are gone and must not be blocked.
fn run_lives(stores: [usize; 3], shared: Shared) {
    let shared = Arc::new(shared);
    let threads: Vec<_> = (0..3)
        .map(|slot| {
            let shared = shared.clone();
            thread::spawn(move || {
                run_life(&shared, slot, stores[slot]);
                run_life(&shared, slot, usize::MAX);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let handle = Handle::new(&shared, usize::MAX);
    let mut one = claim(&handle, LAST);
    assert!(transaction(&handle, &mut one, 2), "the dead are in the way");
    assert!(!one.is_reserved());
}

/// The most stores of a connection in a scenario. It dies after each of them.
const STORES: usize = 32;

#[test]
fn connection_may_die_after_any_store() {
    for stores in 0..STORES {
        let run = move || run_lives([stores, usize::MAX, (stores * 7) % STORES], Shared::new());
        shuttle::check_random_with_seed(run, 7, 60);
        shuttle::check_pct(run, 30, 3);
    }
}

/// The test notices a store that does not replay, and one that takes living connections for dead.
#[test]
fn wrong_answers_are_noticed() {
    for (all_look_dead, no_replay) in [(true, false), (false, true)] {
        let noticed = (4..14).any(|stores| {
            let run = move || {
                let shared = Shared { all_look_dead, no_replay, ..Shared::new() };
                run_lives([stores, usize::MAX, usize::MAX], shared);
            };
            catch_unwind(|| shuttle::check_random_with_seed(run, 7, 200)).is_err()
        });
        assert!(noticed, "{all_look_dead}, {no_replay}");
    }
}

/// Readers that come while a writer waits stay out until the writer has finished.
#[test]
fn waiting_writer_gets_its_turn() {
    shuttle::check_random_with_seed(
        || {
            let shared = Arc::new(Shared::new());
            let handle = Handle::new(&shared, usize::MAX);
            let [mut reader, mut writer, mut late] = [0, 1, 2].map(|slot| claim(&handle, slot));
            assert_eq!(reader.lock(Level::Shared), Answer::Got);
            assert_eq!(writer.lock(Level::Shared), Answer::Got);
            assert_eq!(writer.lock(Level::Reserved), Answer::Got);
            // Next to a reserved lock others still begin to read, but not to write.
            assert_eq!(late.lock(Level::Shared), Answer::Got);
            assert_eq!(late.lock(Level::Reserved), Answer::Busy);
            assert!(late.is_reserved());
            late.unlock(Level::None);
            assert_eq!(writer.lock(Level::Exclusive), Answer::Busy);
            assert_eq!(writer.level(), Level::Pending);
            assert_eq!((late.lock(Level::Shared), late.level()), (Answer::Busy, Level::None));
            reader.unlock(Level::None);
            assert_eq!(reader.lock(Level::Shared), Answer::Busy);
            assert_eq!(writer.lock(Level::Exclusive), Answer::Got);
            assert_eq!(reader.lock(Level::Shared), Answer::Busy);
            writer.unlock(Level::Shared);
            assert_eq!(reader.lock(Level::Shared), Answer::Got);
            assert!(!reader.is_reserved());
        },
        1,
        1,
    );
}

/// A connection that does not get the exclusive lock, and stays, keeps none out.
#[test]
fn refused_exclusive_lock_that_stays_keeps_none_out() {
    shuttle::check_random_with_seed(
        || {
            let shared = Arc::new(Shared::new());
            let handle = Handle::new(&shared, usize::MAX);
            let [mut reader, mut one, mut late] = [0, 1, 2].map(|slot| claim(&handle, slot));
            for all in [&mut reader, &mut one] {
                assert_eq!(all.lock(Level::Shared), Answer::Got);
            }
            assert_eq!((one.lock_exclusive_or_stay(), one.level()), (Answer::Busy, Level::Shared));
            assert_eq!(late.lock(Level::Shared), Answer::Got);
            late.unlock(Level::None);
            // Nor next to a writer.
            assert_eq!(reader.lock(Level::Reserved), Answer::Got);
            assert_eq!((one.lock_exclusive_or_stay(), one.level()), (Answer::Busy, Level::Shared));
            assert!(reader.is_reserved());
            reader.unlock(Level::None);
            assert_eq!(one.lock_exclusive_or_stay(), Answer::Got);
            assert_eq!((one.level(), late.lock(Level::Shared)), (Level::Exclusive, Answer::Busy));
        },
        1,
        1,
    );
}

/// A brief exclusive lock probes first, and others wait for it: while no connection writes, none is busy.
#[test]
fn brief_exclusive_lock_makes_no_other_busy() {
    static ALONE: [std::sync::atomic::AtomicU64; 2] =
        [const { std::sync::atomic::AtomicU64::new(0) }; 2];
    let scenario = || {
        let shared = Arc::new(Shared::new());
        let threads: Vec<_> = (0..3)
            .map(|slot| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let handle = Handle::new(&shared, usize::MAX);
                    let mut one = claim(&handle, slot);
                    for _ in 0..3 {
                        assert_eq!(one.lock(Level::Shared), Answer::Got, "no connection writes");
                        shared.reading[slot].store(true, Ordering::SeqCst);
                        // Only one connection begins to write, and does not.
                        if slot == 0 {
                            assert_eq!(
                                one.lock(Level::Reserved),
                                Answer::Got,
                                "no connection writes"
                            );
                        }
                        thread::yield_now();
                        shared.reading[slot].store(false, Ordering::SeqCst);
                        let alone = one.lock_exclusive_if_idle();
                        let reads = shared.reading.iter().any(|one| one.load(Ordering::SeqCst));
                        assert!(!alone || slot > 0 && !reads, "a reader next to an exclusive lock");
                        ALONE[usize::from(alone)].fetch_add(1, Ordering::Relaxed);
                        one.unlock(Level::None);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    shuttle::check_random_with_seed(scenario, 5, 1_000);
    shuttle::check_pct(scenario, 500, 3);
    let [not, alone] = [&ALONE[0], &ALONE[1]].map(|count| count.load(Ordering::Relaxed));
    assert!(not > 1_000 && alone > 100, "{not}, {alone}");
    let in_turn = || {
        let shared = Arc::new(Shared::new());
        let handle = Handle::new(&shared, usize::MAX);
        let [mut reader, mut one, mut late] = [0, 1, 2].map(|slot| claim(&handle, slot));
        assert_eq!(
            (reader.lock(Level::Shared), one.lock(Level::Shared)),
            (Answer::Got, Answer::Got)
        );
        assert!(!one.lock_exclusive_if_idle());
        assert_eq!((one.level(), late.lock(Level::Shared)), (Level::Shared, Answer::Got));
        late.unlock(Level::None);
        reader.unlock(Level::None);
        assert!(one.lock_exclusive_if_idle() && !one.is_reserved());
        // Here no other connection runs, so the wait ends.
        assert_eq!(late.lock(Level::Shared), Answer::Busy);
        one.unlock(Level::Shared);
        assert_eq!(late.lock(Level::Shared), Answer::Got);
        assert_eq!(late.lock(Level::Reserved), Answer::Got);
        assert!(!one.lock_exclusive_if_idle() && one.level() == Level::Shared);
        one.unlock(Level::None);
        assert!(!late.lock_exclusive_if_idle() && late.level() == Level::Reserved);
    };
    shuttle::check_random_with_seed(in_turn, 1, 1);
}

/// SQLite requests the exclusive lock straight from the shared one when it finds a dead writer's journal. Another
/// connection that saw a living writer then would take the journal for that one's.
#[test]
fn rolling_back_a_hot_journal_does_not_count_as_writing() {
    let scenario = || {
        let shared = Arc::new(Shared::new());
        let threads: Vec<_> = (0..2)
            .map(|slot| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let handle = Handle::new(&shared, usize::MAX);
                    let mut one = claim(&handle, slot);
                    for _ in 0..3 {
                        if one.lock(Level::Shared) == Answer::Got {
                            assert!(!one.is_reserved(), "no connection writes");
                            let alone = one.lock(Level::Exclusive) == Answer::Got;
                            assert_eq!(one.is_reserved(), alone);
                        }
                        one.unlock(Level::None);
                        thread::yield_now();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    shuttle::check_random_with_seed(scenario, 5, 300);
    let in_turn = || {
        let shared = Arc::new(Shared::new());
        let handle = Handle::new(&shared, usize::MAX);
        let [mut one, mut two] = [0, 1].map(|slot| claim(&handle, slot));
        assert_eq!((one.lock(Level::Shared), two.lock(Level::Shared)), (Answer::Got, Answer::Got));
        for _ in 0..2 {
            assert_eq!((one.lock(Level::Exclusive), one.level()), (Answer::Busy, Level::Pending));
            assert!(!two.is_reserved());
        }
        assert_eq!(one.lock(Level::Reserved), Answer::Got);
        assert!(two.is_reserved());
        two.unlock(Level::None);
        assert_eq!(
            (two.lock(Level::Shared), one.lock(Level::Exclusive)),
            (Answer::Busy, Answer::Got)
        );
    };
    shuttle::check_random_with_seed(in_turn, 1, 1);
}

/// The next connection replays after a writer that fails halfway and lives.
#[test]
fn abandoned_turn_is_replayed_by_the_next_connection() {
    shuttle::check_random_with_seed(
        || {
            let shared = Arc::new(Shared::new());
            let handle = Handle::new(&shared, usize::MAX);
            let [mut failing, mut next] = [0, 1].map(|slot| claim(&handle, slot));
            assert_eq!(failing.lock(Level::Exclusive), Answer::Got);
            failing.abandon();
            assert_eq!(failing.level(), Level::None);
            assert_eq!(next.lock(Level::Shared), Answer::Replay);
            assert_eq!(failing.lock(Level::Shared), Answer::Busy);
            next.end_replay();
            assert_eq!(next.lock(Level::Shared), Answer::Got);
            assert_eq!(failing.lock(Level::Shared), Answer::Got);
        },
        1,
        1,
    );
}

/// Tests that `scripts/long` runs in a night, and no build.
mod long {
    use super::*;

    #[test]
    #[ignore = "scripts/long runs it"]
    fn connection_may_die_after_any_store() {
        for one in 0..STORES {
            for other in (0..STORES).step_by(3).chain([usize::MAX]) {
                let run = move || run_lives([one, other, usize::MAX], Shared::new());
                shuttle::check_random_with_seed(run, 11, 1_000);
                shuttle::check_pct(run, 500, 4);
            }
        }
    }
}
