//! Locks of connections whose interleaving a scheduler chooses, and which die behind any of their
//! stores. At every load and store of a shared word another connection may go on.
//!
//! The database is two words that a writer stores one after the other, behind a log that says what
//! both will be. Readers want them equal.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use perdura_sqlite::store::locks::{Answer, Connection, Level, Liveness, Words, words};
use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use shuttle::thread;

const SLOTS: usize = 4;
/// A slot that no story's connection has at first.
const LAST: usize = SLOTS - 1;

struct Shared {
    words: Vec<AtomicU64>,
    /// The log, and the two words of the database.
    log: AtomicU64,
    data: [AtomicU64; 2],
    alive: Vec<AtomicBool>,
    reading: Vec<AtomicBool>,
    acknowledged: AtomicU64,
    /// Answers that tests make wrong.
    everybody_is_dead: bool,
    nobody_replays: bool,
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
            everybody_is_dead: false,
            nobody_replays: false,
        }
    }
}

/// A connection's hold of what is shared, which lets it make so many stores.
#[derive(Clone)]
struct Hand {
    shared: Arc<Shared>,
    left: Rc<Cell<usize>>,
}

/// The value that a connection unwinds with when it dies: no panic, so that nothing is printed.
struct Died;

impl Hand {
    fn new(shared: &Arc<Shared>, stores: usize) -> Self {
        Self { shared: shared.clone(), left: Rc::new(Cell::new(stores)) }
    }

    /// A store, behind which the connection may die.
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

impl Words for Hand {
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
}

impl Liveness for Hand {
    fn is_alive(&self, slot: usize) -> bool {
        self.shared.alive[slot].load(Ordering::SeqCst) && !self.shared.everybody_is_dead
    }
}

type One = Connection<Hand, Hand>;

fn replay(hand: &Hand, one: &mut One) {
    let shared = &hand.shared;
    let value = shared.log.load(Ordering::SeqCst);
    if value != 0 && !shared.nobody_replays {
        hand.set(&shared.data[0], value);
        hand.set(&shared.data[1], value);
        hand.set(&shared.log, 0);
    }
    one.replayed();
}

fn claim(hand: &Hand, slot: usize) -> One {
    hand.shared.alive[slot].store(true, Ordering::SeqCst);
    let (mut one, answer) = Connection::claim(hand.clone(), hand.clone(), SLOTS, slot);
    if answer == Answer::Replay {
        replay(hand, &mut one);
    }
    one
}

/// Asks for a lock, some times; replays if told to.
fn lock(hand: &Hand, one: &mut One, level: Level, times: usize) -> bool {
    for _ in 0..times {
        match one.lock(level) {
            Answer::Got => return true,
            Answer::Busy => thread::yield_now(),
            Answer::Replay => replay(hand, one),
        }
    }
    false
}

fn look(shared: &Shared) -> u64 {
    let [one, other] = [0, 1].map(|word| shared.data[word].load(Ordering::SeqCst));
    assert_eq!(one, other, "half a transaction was read");
    assert!(one >= shared.acknowledged.load(Ordering::SeqCst), "a transaction is lost");
    one
}

/// Reads, and writes what it read and one more. Returns whether it wrote.
fn transaction(hand: &Hand, one: &mut One, times: usize) -> bool {
    let shared = &hand.shared;
    if !lock(hand, one, Level::Shared, times) {
        return false;
    }
    shared.reading[one.slot()].store(true, Ordering::SeqCst);
    let read = look(shared);
    let reserved = lock(hand, one, Level::Reserved, 1);
    assert!(!reserved || look(shared) == read, "somebody wrote beside a reader");
    shared.reading[one.slot()].store(false, Ordering::SeqCst);
    let wrote = reserved && lock(hand, one, Level::Exclusive, times);
    if wrote {
        assert_eq!(one.level(), Level::Exclusive);
        let others = shared.reading.iter().filter(|reading| reading.load(Ordering::SeqCst)).count();
        assert_eq!(others, 0, "a reader beside a writer");
        hand.set(&shared.log, read + 1);
        hand.set(&shared.data[0], read + 1);
        hand.set(&shared.data[1], read + 1);
        hand.set(&shared.log, 0);
        shared.acknowledged.store(read + 1, Ordering::SeqCst);
    }
    one.unlock(Level::None);
    wrote
}

/// Reads, and then moves the database and moves it back, if nobody else is there. Returns whether it did.
fn visit(hand: &Hand, one: &mut One, times: usize) -> bool {
    let shared = &hand.shared;
    if !lock(hand, one, Level::Shared, times) {
        return false;
    }
    shared.reading[one.slot()].store(true, Ordering::SeqCst);
    let read = look(shared);
    shared.reading[one.slot()].store(false, Ordering::SeqCst);
    let alone = one.exclude_if_alone();
    if alone {
        assert_eq!(one.level(), Level::Exclusive);
        let others = shared.reading.iter().filter(|reading| reading.load(Ordering::SeqCst)).count();
        assert_eq!(others, 0, "a reader beside one who is alone");
        assert_eq!(look(shared), read, "somebody wrote beside a reader");
        if read > 0 {
            hand.set(&shared.log, read);
            hand.set(&shared.data[0], u64::MAX);
            hand.set(&shared.data[0], read);
            hand.set(&shared.log, 0);
        }
    }
    one.unlock(Level::None);
    alone
}

/// A connection that dies after so many stores, if it makes as many. Another one has its slot then.
fn life(shared: &Arc<Shared>, slot: usize, stores: usize) {
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let hand = Hand::new(shared, stores);
        let mut one = claim(&hand, slot);
        transaction(&hand, &mut one, 3);
        visit(&hand, &mut one, 3);
        transaction(&hand, &mut one, 3);
    }));
    if let Err(death) = lived
        && !death.is::<Died>()
    {
        resume_unwind(death);
    }
    shared.reading[slot].store(false, Ordering::SeqCst);
    shared.alive[slot].store(false, Ordering::SeqCst);
}

/// Connections that die at different times, and one that comes when all are gone: nothing is in its
/// way.
fn lives(stores: [usize; 3], shared: Shared) {
    let shared = Arc::new(shared);
    let threads: Vec<_> = (0..3)
        .map(|slot| {
            let shared = shared.clone();
            thread::spawn(move || {
                life(&shared, slot, stores[slot]);
                life(&shared, slot, usize::MAX);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let hand = Hand::new(&shared, usize::MAX);
    let mut one = claim(&hand, LAST);
    assert!(transaction(&hand, &mut one, 2), "the dead are in the way");
    assert!(!one.is_reserved());
}

/// The stores of a connection in a story, at most: it dies behind each of them.
const STORES: usize = 32;

#[test]
fn a_connection_may_die_behind_any_store() {
    for stores in 0..STORES {
        let run = move || lives([stores, usize::MAX, (stores * 7) % STORES], Shared::new());
        shuttle::check_random_with_seed(run, 7, 60);
        shuttle::check_pct(run, 30, 3);
    }
}

#[test]
#[ignore = "long: a hundred times as many interleavings"]
fn a_connection_may_die_behind_any_store_in_a_long_run() {
    for one in 0..STORES {
        for other in (0..STORES).step_by(3).chain([usize::MAX]) {
            let run = move || lives([one, other, usize::MAX], Shared::new());
            shuttle::check_random_with_seed(run, 11, 1_000);
            shuttle::check_pct(run, 500, 4);
        }
    }
}

/// The test notices a store that does not replay, and one that takes the living for dead.
#[test]
fn wrong_answers_are_noticed() {
    for (everybody_is_dead, nobody_replays) in [(true, false), (false, true)] {
        let noticed = (4..14).any(|stores| {
            let run = move || {
                let shared = Shared { everybody_is_dead, nobody_replays, ..Shared::new() };
                lives([stores, usize::MAX, usize::MAX], shared);
            };
            catch_unwind(|| shuttle::check_random_with_seed(run, 7, 200)).is_err()
        });
        assert!(noticed, "{everybody_is_dead}, {nobody_replays}");
    }
}

/// Readers that come while a writer waits stay out, until the writer has been and gone.
#[test]
fn a_waiting_writer_has_its_turn() {
    shuttle::check_random_with_seed(
        || {
            let shared = Arc::new(Shared::new());
            let hand = Hand::new(&shared, usize::MAX);
            let [mut reader, mut writer, mut late] = [0, 1, 2].map(|slot| claim(&hand, slot));
            assert_eq!(reader.lock(Level::Shared), Answer::Got);
            assert_eq!(writer.lock(Level::Shared), Answer::Got);
            assert_eq!(writer.lock(Level::Reserved), Answer::Got);
            // Beside a reserved lock others still begin to read, and none of them to write.
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

/// One that is alone for a while looks first, and others wait for it: as long as nobody writes nobody is busy.
#[test]
fn who_is_alone_for_a_while_makes_nobody_busy() {
    static ALONE: [std::sync::atomic::AtomicU64; 2] =
        [const { std::sync::atomic::AtomicU64::new(0) }; 2];
    let story = || {
        let shared = Arc::new(Shared::new());
        let threads: Vec<_> = (0..3)
            .map(|slot| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let hand = Hand::new(&shared, usize::MAX);
                    let mut one = claim(&hand, slot);
                    for _ in 0..3 {
                        assert_eq!(one.lock(Level::Shared), Answer::Got, "nobody writes");
                        shared.reading[slot].store(true, Ordering::SeqCst);
                        // One alone is going to write, and does not.
                        if slot == 0 {
                            assert_eq!(one.lock(Level::Reserved), Answer::Got, "nobody writes");
                        }
                        thread::yield_now();
                        shared.reading[slot].store(false, Ordering::SeqCst);
                        let alone = one.exclude_if_alone();
                        let reads = shared.reading.iter().any(|one| one.load(Ordering::SeqCst));
                        assert!(!alone || slot > 0 && !reads, "a reader beside one who is alone");
                        ALONE[usize::from(alone)].fetch_add(1, Ordering::Relaxed);
                        one.unlock(Level::None);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    shuttle::check_random_with_seed(story, 5, 1_000);
    shuttle::check_pct(story, 500, 3);
    let [not, alone] = [&ALONE[0], &ALONE[1]].map(|count| count.load(Ordering::Relaxed));
    assert!(not > 1_000 && alone > 100, "{not}, {alone}");
    let in_turn = || {
        let shared = Arc::new(Shared::new());
        let hand = Hand::new(&shared, usize::MAX);
        let [mut reader, mut one, mut late] = [0, 1, 2].map(|slot| claim(&hand, slot));
        assert_eq!(
            (reader.lock(Level::Shared), one.lock(Level::Shared)),
            (Answer::Got, Answer::Got)
        );
        assert!(!one.exclude_if_alone());
        assert_eq!((one.level(), late.lock(Level::Shared)), (Level::Shared, Answer::Got));
        late.unlock(Level::None);
        reader.unlock(Level::None);
        assert!(one.exclude_if_alone() && !one.is_reserved());
        // Here nobody else goes on, so the wait ends.
        assert_eq!(late.lock(Level::Shared), Answer::Busy);
        one.unlock(Level::Shared);
        assert_eq!(late.lock(Level::Shared), Answer::Got);
        assert_eq!(late.lock(Level::Reserved), Answer::Got);
        assert!(!one.exclude_if_alone() && one.level() == Level::Shared);
        one.unlock(Level::None);
        assert!(!late.exclude_if_alone() && late.level() == Level::Reserved);
    };
    shuttle::check_random_with_seed(in_turn, 1, 1);
}

/// SQLite asks for the exclusive lock straight from the shared one when it finds the journal of a dead writer. Another one
/// that is told of a living writer then would take that journal for his.
#[test]
fn who_finds_a_dead_writers_journal_counts_as_no_writer_to_another_one() {
    let story = || {
        let shared = Arc::new(Shared::new());
        let threads: Vec<_> = (0..2)
            .map(|slot| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let hand = Hand::new(&shared, usize::MAX);
                    let mut one = claim(&hand, slot);
                    for _ in 0..3 {
                        if one.lock(Level::Shared) == Answer::Got {
                            assert!(!one.is_reserved(), "nobody writes");
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
    shuttle::check_random_with_seed(story, 5, 300);
    let in_turn = || {
        let shared = Arc::new(Shared::new());
        let hand = Hand::new(&shared, usize::MAX);
        let [mut one, mut two] = [0, 1].map(|slot| claim(&hand, slot));
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

/// A writer that fails in the middle and lives lets the next one replay.
#[test]
fn a_turn_that_is_given_up_is_replayed_by_the_next() {
    shuttle::check_random_with_seed(
        || {
            let shared = Arc::new(Shared::new());
            let hand = Hand::new(&shared, usize::MAX);
            let [mut failing, mut next] = [0, 1].map(|slot| claim(&hand, slot));
            assert_eq!(failing.lock(Level::Exclusive), Answer::Got);
            failing.leave_half_way();
            assert_eq!(failing.level(), Level::None);
            assert_eq!(next.lock(Level::Shared), Answer::Replay);
            assert_eq!(failing.lock(Level::Shared), Answer::Busy);
            next.replayed();
            assert_eq!(next.lock(Level::Shared), Answer::Got);
            assert_eq!(failing.lock(Level::Shared), Answer::Got);
        },
        1,
        1,
    );
}
