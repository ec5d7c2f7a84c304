//! A program of its own: the crate's sources are compiled again at its root, over a scheduler's locks and atomics.
//!
//! Sessions whose interleaving a scheduler chooses: at every load and store of the clock and of the slots'
//! mirrors, and at every latch, another one may go on. The sources are those of the crate, compiled a
//! second time over the scheduler's locks and atomics. `all/crowd.rs` interleaves what lies in persistent
//! memory.
//!
//! Writers move money between accounts, one reads all of them, one collects old versions. Every snapshot
//! has the same sum, and all that was acknowledged before it began; no transfer is lost.

#![expect(
    unreachable_pub,
    dead_code,
    unused_imports,
    reason = "modules of a crate, compiled into a test"
)]

#[path = "../src/array.rs"]
mod array;
#[path = "../src/bytes.rs"]
mod bytes;
#[path = "../src/check.rs"]
mod check;
#[path = "../src/chunk.rs"]
mod chunk;
#[path = "../src/claims.rs"]
mod claims;
#[path = "../src/clock.rs"]
mod clock;
#[path = "../src/collect.rs"]
mod collect;
#[path = "../src/dictionary.rs"]
mod dictionary;
#[path = "../src/dictionary_index.rs"]
mod dictionary_index;
#[path = "../src/epoch.rs"]
mod epoch;
#[path = "../src/error.rs"]
mod error;
#[path = "../src/hash_table.rs"]
mod hash_table;
#[path = "../src/ids.rs"]
mod ids;
#[path = "../src/keys.rs"]
mod keys;
#[path = "../src/latch.rs"]
mod latch;
#[path = "../src/layout.rs"]
mod layout;
#[path = "../src/placement.rs"]
mod placement;
#[path = "../src/read.rs"]
mod read;
#[path = "../src/rebuild.rs"]
mod rebuild;
#[path = "../src/recover.rs"]
mod recover;
#[path = "../src/replay.rs"]
mod replay;
#[path = "../src/scanned.rs"]
mod scanned;
#[path = "../src/secondary.rs"]
mod secondary;
#[path = "../src/seed.rs"]
mod seed;
#[path = "../src/serial.rs"]
mod serial;
#[path = "../src/session.rs"]
mod session;
#[path = "../src/skip_list.rs"]
mod skip_list;
#[path = "../src/slots.rs"]
mod slots;
#[path = "../src/stamps.rs"]
mod stamps;
#[path = "../src/statement.rs"]
mod statement;
#[path = "../src/store.rs"]
mod store;
#[path = "../src/stripes.rs"]
mod stripes;
#[path = "../src/table.rs"]
mod table;
#[path = "../src/unbuilt.rs"]
mod unbuilt;
#[path = "../src/unfenced.rs"]
mod unfenced;
#[path = "../src/value.rs"]
mod value;
#[path = "../src/version.rs"]
mod version;
#[path = "../src/watch.rs"]
mod watch;
mod sync {
    use std::cell::Cell;
    use std::panic::Location;
    use std::sync::atomic::Ordering;

    pub(crate) use shuttle::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use shuttle::thread::yield_now;
    pub(crate) use std::sync::{PoisonError, TryLockError, TryLockResult};

    /// So few that two commits are too many.
    pub(crate) const FEW: u64 = 1;
    /// So few that two commits are two pieces.
    pub(crate) const PIECE: usize = 1;

    thread_local! {
        /// The store that is left out: the end of its file's name, and its line.
        pub(crate) static LEFT_OUT: Cell<Option<(&'static str, u32)>> = const { Cell::new(None) };
    }

    /// An atomic of the scheduler's, of whose stores a test leaves one out.
    #[derive(Default, Debug)]
    pub(crate) struct AtomicU64(shuttle::sync::atomic::AtomicU64);

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> Self {
            Self(shuttle::sync::atomic::AtomicU64::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            self.0.load(order)
        }

        #[track_caller]
        pub(crate) fn store(&self, value: u64, order: Ordering) {
            let here = Location::caller();
            let is_left_out = LEFT_OUT
                .get()
                .is_some_and(|(file, line)| here.file().ends_with(file) && here.line() == line);
            if !is_left_out {
                self.0.store(value, order);
            }
        }

        pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            self.0.fetch_add(value, order)
        }

        pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
            self.0.fetch_sub(value, order)
        }
    }
}

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::heap::{Heap, HeapOptions};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner, thread};
use sim::Recording;

use clock::Clock;
use slots::Statement;
use watch::WatchedCommits;

pub(crate) use check::Census;
pub(crate) use error::ColumnError;
pub(crate) use keys::{FirstColumn, IndexKey, Key, Keys};
pub(crate) use latch::{Pause, Waiting};
pub(crate) use layout::{Kind, MOST_NAME, MOST_OPENINGS, Options};
pub(crate) use rebuild::Built;
pub(crate) use secondary::KeyRange;
pub(crate) use session::Session;
pub(crate) use store::{InFlight, Recovered, Store, TxId};
pub(crate) use value::{Field, Value};

pub(crate) type Result<T> = std::result::Result<T, ColumnError>;

const ACCOUNTS: u64 = 3;
const EACH: u64 = 100;
const TRANSFERS: u64 = 2;
const WRITERS: u64 = 2;

type Bank = Store<Recording>;

/// A bank with this share of its indexes in persistent memory, in per cent.
fn bank(durable_percent: u32) -> (Recording, Bank) {
    let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
    let heap =
        Heap::format(memory.clone(), HeapOptions { chunk_bytes: 16 << 10, lanes: 1 }).unwrap();
    let options = Options {
        slots: 4,
        first_rows: 64,
        most_rows: 64,
        reserve: 64,
        durable_percent,
        hashed: false,
        seed: Some(7),
    };
    let tables: &[&[Kind]] = &[&[Kind::Word, Kind::Word]];
    let bank = Store::create(heap.lane(0), options, tables, &Arc::new(FirstColumn)).unwrap();
    let mut session = bank.session();
    session.begin().unwrap();
    for account in 0..ACCOUNTS {
        session.insert(0, &[Value::Word(account + 1), Value::Word(EACH)]).unwrap();
    }
    session.commit().unwrap();
    heap.set_root("bank", bank.at()).unwrap();
    drop(session);
    (memory, bank)
}

/// A session that a panic leaves as it is: the scheduler's latches do not work while a thread unwinds.
struct Teller(Option<Session<Recording>>);

impl Teller {
    fn of(bank: &Bank) -> Self {
        Self(Some(bank.session()))
    }
}

impl Deref for Teller {
    type Target = Session<Recording>;
    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("a session")
    }
}

impl DerefMut for Teller {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.as_mut().expect("a session")
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

fn money(session: &Session<Recording>, account: u64) -> u64 {
    let row = session.get(0, Value::Word(account + 1)).unwrap().expect("an account");
    match row[1] {
        Field::Word(money) => money,
        ref other => panic!("{other:?}"),
    }
}

fn all(session: &Session<Recording>) -> Vec<u64> {
    (0..ACCOUNTS).map(|account| money(session, account)).collect()
}

/// Moves one from an account to another. Two statements; the second commits if `at_once` says so.
fn transfer(session: &mut Session<Recording>, from: u64, to: u64, at_once: bool) -> Result<u64> {
    session.begin()?;
    let (less, more) = (money(session, from) - 1, money(session, to) + 1);
    session.update(0, Value::Word(from + 1), &[(1, Value::Word(less))])?;
    let change = [(1, Value::Word(more))];
    if at_once {
        session.update_and_commit(0, Value::Word(to + 1), &change).map(|()| 0)
    } else {
        session.update(0, Value::Word(to + 1), &change)?;
        session.commit()
    }
}

/// Writers, a reader and a collector.
fn story<const PLACED: u32>() {
    let bank = Arc::new(bank(PLACED).1);
    let heard = Arc::new(sync::AtomicU64::new(0));
    let writers = (0..WRITERS).map(|writer| {
        let (bank, heard) = (Arc::clone(&bank), Arc::clone(&heard));
        thread::spawn(move || {
            let mut session = Teller::of(&bank);
            for number in 0..TRANSFERS {
                let (from, to) = ((writer + number) % ACCOUNTS, (writer + number + 1) % ACCOUNTS);
                let number = loop {
                    match transfer(&mut session, from, to, number == 1) {
                        Ok(number) => break number,
                        Err(ColumnError::Conflict) => session.abort().unwrap(),
                        Err(error) => panic!("{error}"),
                    }
                    thread::yield_now();
                };
                heard.fetch_add(0, Ordering::SeqCst);
                heard.store(number.max(heard.load(Ordering::SeqCst)), Ordering::SeqCst);
            }
        })
    });
    let reader = {
        let (bank, heard) = (Arc::clone(&bank), Arc::clone(&heard));
        thread::spawn(move || {
            let mut session = Teller::of(&bank);
            for _ in 0..3 {
                let known = heard.load(Ordering::SeqCst);
                session.begin().unwrap();
                let snapshot = session.snapshot().unwrap();
                assert!(
                    snapshot >= known,
                    "{snapshot} does not see {known}, which was acknowledged"
                );
                let seen = all(&session);
                assert_eq!(seen.iter().sum::<u64>(), ACCOUNTS * EACH, "{seen:?} at {snapshot}");
                thread::yield_now();
                assert_eq!(all(&session), seen, "a snapshot stays");
                session.commit().unwrap();
            }
        })
    };
    let collector = {
        let bank = Arc::clone(&bank);
        thread::spawn(move || {
            for _ in 0..3 {
                bank.collect(64).unwrap();
                thread::yield_now();
            }
        })
    };
    let threads: Vec<_> = writers.chain([reader, collector]).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut session = Teller::of(&bank);
    session.begin().unwrap();
    let mut expected = [EACH; ACCOUNTS as usize];
    for (writer, number) in (0..WRITERS).flat_map(|w| (0..TRANSFERS).map(move |n| (w, n))) {
        expected[((writer + number) % ACCOUNTS) as usize] -= 1;
        expected[((writer + number + 1) % ACCOUNTS) as usize] += 1;
    }
    assert_eq!(all(&session), expected, "no transfer is lost");
    session.commit().unwrap();
    drop(session);
    bank.check().unwrap();
    for _ in 0..4 {
        bank.collect(64).unwrap();
    }
    assert_eq!(bank.garbage(), 0, "no snapshot sees the old versions any more");
    bank.check().unwrap();
}

/// The bank that a kill has left, with an open transaction, while indexes are built: two build them, one
/// goes on with the transaction, one reads, one collects.
fn reopened<const PLACED: u32>() {
    const NAME: &[u8] = b"goes on";
    let (memory, bank) = bank(PLACED);
    let mut session = bank.session();
    for number in 0..4 {
        transfer(&mut session, number % ACCOUNTS, (number + 1) % ACCOUNTS, false).unwrap();
    }
    session.begin_named(NAME).unwrap();
    let less = money(&session, 0) - 1;
    session.update(0, Value::Word(1), &[(1, Value::Word(less))]).unwrap();
    let memory = Recording::pool_from_image(&memory.contents(), 1 << 20).unwrap();
    drop((session, bank));
    memory.mark_open().unwrap();
    let heap = Heap::open(memory).unwrap();
    let at = heap.root("bank").unwrap().unwrap();
    let waiting = Waiting::default();
    let bank = Store::open(heap.lane(0), at, &Arc::new(FirstColumn), &waiting).unwrap().0;
    let bank = Arc::new(bank);
    let before = all(&bank.session());
    let builders = (0..2).map(|_| {
        let bank = Arc::clone(&bank);
        thread::spawn(move || while bank.rebuild(3).unwrap() {})
    });
    let goes_on = {
        let bank = Arc::clone(&bank);
        thread::spawn(move || {
            let mut session = bank.resume(bank.in_flight()[0].id).unwrap();
            let more = money(&session, 1) + 1;
            session.update(0, Value::Word(2), &[(1, Value::Word(more))]).unwrap();
            session.commit().unwrap();
        })
    };
    let reader = {
        let bank = Arc::clone(&bank);
        thread::spawn(move || {
            for _ in 0..3 {
                let mut session = bank.session();
                session.begin().unwrap();
                let seen = all(&session);
                assert_eq!(seen.iter().sum::<u64>(), ACCOUNTS * EACH, "{seen:?}");
                session.commit().unwrap();
                bank.build_pending().unwrap();
            }
        })
    };
    let collector = {
        let bank = Arc::clone(&bank);
        thread::spawn(move || {
            for _ in 0..3 {
                bank.collect(64).unwrap();
                thread::yield_now();
            }
        })
    };
    let threads: Vec<_> = builders.chain([goes_on, reader, collector]).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(!bank.has_unbuilt());
    assert_eq!(all(&bank.session())[1], before[1] + 1);
    assert_eq!(all(&bank.session()).iter().sum::<u64>(), ACCOUNTS * EACH);
    bank.check().unwrap();
}

/// Three serializable transactions: each reads all accounts, and puts one more than their sum into its
/// own. What is there in the end is what they leave one after another, in some order.
fn serial<const PLACED: u32>() {
    let bank = Arc::new(bank(PLACED).1);
    let one = |session: &mut Session<Recording>, account: u64| -> Result<u64> {
        session.begin_serializable(b"")?;
        let sum: u64 = all(session).iter().sum();
        // The second one has two statements: those of more than a few are not read while other commits wait.
        for number in 0..=account % 2 {
            let money = sum + u64::from(number == account % 2);
            session.update(0, Value::Word(account + 1), &[(1, Value::Word(money))])?;
        }
        session.commit()
    };
    let threads = (0..ACCOUNTS).map(|account| {
        let bank = Arc::clone(&bank);
        thread::spawn(move || {
            let mut session = bank.session();
            loop {
                match one(&mut session, account) {
                    Ok(number) => return number,
                    Err(ColumnError::Outdated) => session.abort().unwrap(),
                    Err(error) => panic!("{error}"),
                }
                thread::yield_now();
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    let mut order: Vec<_> =
        (0..).zip(threads).map(|(account, thread)| (thread.join().unwrap(), account)).collect();
    order.sort_unstable();
    let mut expected = vec![EACH; ACCOUNTS as usize];
    for (_, account) in order {
        expected[account] = expected.iter().sum::<u64>() + 1;
    }
    assert_eq!(all(&bank.session()), expected, "not as one after another");
    bank.check().unwrap();
}

/// Two commit, and two watch which rows those change: each of them knows every commit between the number from which
/// it watches and its own, though those that it has looked at are dropped meanwhile.
fn watched() {
    let clock = Arc::new(Clock::new(0, &Waiting::default()));
    let watched = Arc::new(WatchedCommits::new(&Waiting::default()));
    let committed = Arc::new(shuttle::sync::Mutex::new(BTreeMap::new()));
    let one = |row| Statement { kind: slots::INSERT, table: 0, old: 0, new: row, sum: 0 };
    let commits = |row: u64| {
        let (clock, watched, committed) = (clock.clone(), watched.clone(), committed.clone());
        thread::spawn(move || {
            for row in row..row + 3 {
                // Read before it has a number, if it is watched by then; otherwise after that.
                let for_watchers = watched.for_watchers(|| Some([one(row)].into()));
                let number = clock.take();
                committed.lock().unwrap().insert(number, row);
                watched.add(number, for_watchers, || Some([one(row)].into()));
                clock.publish(number);
            }
        })
    };
    let watches = || {
        let (clock, watched, committed) = (clock.clone(), watched.clone(), committed.clone());
        thread::spawn(move || {
            for _ in 0..2 {
                let mut watch = watched.watch(&clock);
                let start = watch.from;
                clock.wait_for(start);
                let now = clock.now();
                let mut found = watch.between(start, now).unwrap();
                watch.go_on_from(now);
                let number = clock.take();
                clock.wait_before(number);
                found.extend(watch.between(now, number - 1).unwrap());
                let found: Vec<u64> = found.iter().map(|statements| statements[0].new).collect();
                let committed = committed.lock().unwrap();
                let all = |from| committed.range(from + 1..number).map(|(_, row)| *row);
                let (all, left): (Vec<u64>, _) = (all(start).collect(), all(now).count() as u64);
                drop(committed);
                for few in 0..4 {
                    let are_more = watch.has_more_than(few, (now, number - 1));
                    assert_eq!(are_more, left > few, "{few}: {all:?}");
                }
                watch.stop();
                clock.publish(number);
                assert_eq!(found, all, "after {start}, before {number}");
            }
        })
    };
    let threads = [commits(10), watches(), commits(20), watches()];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let left = watched.watch(&clock).between(0, clock.now());
    assert_eq!(left, Some(Vec::new()), "no watcher needs it any more");
}

fn run(schedules: usize, story: fn()) -> usize {
    let with = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        config.max_steps = MaxSteps::FailAfter(100_000);
        config.stack_size = 1 << 20;
        config.failure_persistence = FailurePersistence::None;
        Runner::new(scheduler, config).run(story)
    };
    with(Box::new(RandomScheduler::new_from_seed(7, schedules)))
        + with(Box::new(PctScheduler::new_from_seed(8, 3, schedules)))
}

#[test]
fn snapshots_are_of_one_moment() {
    assert_eq!(run(1_000, story::<0>), 2_000);
    assert_eq!(run(100, story::<50>), 200);
    assert_eq!(run(200, story::<100>), 400);
}

#[test]
fn indexes_are_built_while_a_transaction_goes_on() {
    assert_eq!(run(300, reopened::<0>), 600);
    assert_eq!(run(50, reopened::<50>), 100);
    assert_eq!(run(100, reopened::<100>), 200);
}

#[test]
fn a_watcher_gets_every_commit_after_its_start() {
    assert_eq!(run(1_500, watched), 3_000);
}

#[test]
fn serializable_transactions_are_equal_to_some_order() {
    assert_eq!(run(500, serial::<0>), 1_000);
    assert_eq!(run(150, serial::<100>), 300);
}

/// The test notices each store that is left out.
#[test]
fn a_store_that_is_left_out_is_noticed() {
    let slots = include_str!("../src/slots.rs");
    let clock = include_str!("../src/clock.rs");
    for (file, source, text) in [
        ("src/slots.rs", slots, "mirror.sequence.store(sequence, Release);"),
        ("src/slots.rs", slots, "mirror.outcome.store(OPEN, Release);"),
        ("src/slots.rs", slots, ".outcome.store(number, Release);"),
        ("src/slots.rs", slots, ".outcome.store(GONE, Release);"),
        ("src/clock.rs", clock, "self.published.store(number, Release);"),
    ] {
        let line = source.lines().position(|line| line.contains(text)).expect(text) + 1;
        sync::LEFT_OUT.set(Some((file, line as u32)));
        let found = catch_unwind(AssertUnwindSafe(|| run(100, story::<0>)));
        sync::LEFT_OUT.set(None);
        assert!(found.is_err(), "it is not noticed that `{text}` is left out");
    }
}

/// Tests that `scripts/long` runs in a night, and no build.
mod long {
    use super::*;

    #[test]
    #[ignore = "scripts/long runs it"]
    fn interleavings() {
        assert_eq!(run(100_000, serial::<0>), 200_000);
        assert_eq!(run(50_000, serial::<100>), 100_000);
        assert_eq!(run(100_000, story::<0>), 200_000);
        assert_eq!(run(50_000, story::<50>), 100_000);
        assert_eq!(run(50_000, story::<100>), 100_000);
        assert_eq!(run(50_000, reopened::<0>), 100_000);
        assert_eq!(run(50_000, reopened::<50>), 100_000);
        assert_eq!(run(50_000, reopened::<100>), 100_000);
        assert_eq!(run(50_000, watched), 100_000);
    }
}
