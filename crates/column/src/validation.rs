//! The work that other commits wait for: what a serializable transaction does while it has an unpublished number,
//! and whether the few rows that it checks then suffice.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Debug};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use heap::{Heap, HeapOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::Recording;

use crate::clock::Clock;
use crate::serial::{ReadSet, Reads};
use crate::slots::{INSERT, Statement};
use crate::store::Shared;
use crate::sync::{self, PIECE};
use crate::watch::{CommitStatements, CommitWatch, WatchedCommits, are_more_than};
use crate::{
    ColumnError, Field, FirstColumn, IndexKey, Key, KeyRange, Keys, Kind, Options, Result, Session,
    Store, Value, Waiting,
};

/// Rows that the transaction reads.
const MANY: u64 = 600;
/// Keys that it may read while other commits wait: those of the statements of the last few commits.
const FEW: u64 = 64;

/// Keys of a table with an index of its second column. They count how often they are asked for while a number is
/// taken and unpublished, and run `act` once, when a primary key is extracted from another one.
#[derive(Default)]
pub(crate) struct Counting {
    store: OnceLock<Weak<Shared<Recording>>>,
    asked: AtomicU64,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").finish_non_exhaustive()
    }
}

impl Counting {
    fn count_this(&self) {
        if let Some(shared) = self.store.get().and_then(Weak::upgrade)
            && shared.clock.last_taken() > shared.clock.now()
        {
            self.asked.fetch_add(1, SeqCst);
        }
    }
}

impl Keys for Counting {
    fn count(&self, _: usize) -> usize {
        2
    }

    fn columns(&self, _: usize, index: usize) -> &[usize] {
        if index == 0 { &[0] } else { &[0, 1] }
    }

    fn key(&self, table: usize, index: usize, row: &[Field]) -> Result<IndexKey> {
        self.count_this();
        let primary = FirstColumn.key(table, 0, row)?;
        let Field::Word(value) = row[1] else { return Ok(primary) };
        let bytes = [&value.to_be_bytes()[..], &primary.bytes].concat();
        Ok(if index == 0 { primary } else { IndexKey { bytes, unique: None } })
    }

    fn primary<'k>(&self, _: usize, _: usize, key: &'k [u8]) -> Cow<'k, [u8]> {
        self.count_this();
        let act = self.act.lock().unwrap().take();
        act.into_iter().for_each(|act| act());
        key[8..].into()
    }

    fn is_exact(&self, _: usize) -> bool {
        true
    }
}

pub(crate) fn row(key: u64, value: u64) -> [Value<'static>; 2] {
    [Value::Word(key), Value::Word(value)]
}

/// A store of one table, with this share of its indexes in persistent memory.
pub(crate) fn create(keys: &Arc<Counting>, durable_percent: u32) -> Store<Recording> {
    let memory = Recording::pool(16 << 10, 16 << 20).unwrap();
    let options = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };
    let heap = Heap::format(memory, options).unwrap();
    let tables: &[&[Kind]] = &[&[Kind::Word, Kind::Word]];
    let options = Options { durable_percent, seed: Some(7), ..Options::default() };
    Store::create(heap.lane(0), options, tables, keys).unwrap()
}

/// A transaction reads [`MANY`] rows, those whose second column is below 7, and changes another one. While its
/// commit checks them, another transaction does `write` and commits. Returns the keys that are asked for while
/// other commits wait.
fn asked_while_others_wait(write: impl FnOnce(&mut Session<Recording>) + Send + 'static) -> u64 {
    let keys = Arc::new(Counting::default());
    let store = create(&keys, 0);
    keys.store.set(Arc::downgrade(&store.0)).unwrap();
    let (mut one, mut other) = (store.session(), store.session());
    one.begin().unwrap();
    (0..MANY).for_each(|key| one.insert(0, &row(key, key % 7)).unwrap());
    one.insert(0, &row(1 << 20, 7)).unwrap();
    one.commit().unwrap();
    one.begin_serializable(b"").unwrap();
    let below = Bound::Excluded(7u64.to_be_bytes().to_vec());
    let mut rows = 0;
    let count = |_: Vec<Field>| {
        rows += 1;
        ControlFlow::Continue(())
    };
    one.scan(0, 1, KeyRange { high: below, ..KeyRange::ALL }, None, count).unwrap();
    assert_eq!(rows, MANY);
    (0..MANY).for_each(|key| assert!(one.get(0, Value::Word(key)).unwrap().is_some()));
    one.update(0, Value::Word(1 << 20), &[(1, Value::Word(8))]).unwrap();
    // Without a commit after the snapshot there would be nothing to look at.
    other.begin().unwrap();
    other.insert(0, &row(1 << 21, 7)).unwrap();
    other.commit().unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let committed = Arc::clone(&done);
    let act = move || {
        other.begin().unwrap();
        write(&mut other);
        committed.store(other.commit().unwrap(), SeqCst);
    };
    *keys.act.lock().unwrap() = Some(Box::new(act));
    let number = one.commit().unwrap();
    assert!((1..number).contains(&done.load(SeqCst)), "the other one has committed meanwhile");
    store.check().unwrap();
    keys.asked.load(SeqCst)
}

/// One of the last commits is about rows that were read, and leaves them as they were.
#[test]
fn reads_are_not_checked_as_a_whole_while_others_wait() {
    let asked = asked_while_others_wait(|other| {
        other.insert(0, &row(MANY, 2)).unwrap();
        other.delete(0, Value::Word(MANY)).unwrap();
    });
    assert!(asked <= FEW, "{asked}");
}

/// One of the last commits has many rows.
#[test]
fn rows_of_a_large_commit_are_not_checked_while_others_wait() {
    let asked = asked_while_others_wait(|other| {
        (0..MANY).for_each(|key| other.insert(0, &row((1 << 30) + key, 9)).unwrap());
    });
    assert!(asked <= FEW, "{asked}");
}

/// Another watcher registers while a large serializable transaction is validated, after it had looked for one. Its
/// statements are read before it has a number all the same: after that they would be left out.
#[test]
fn statements_of_a_large_commit_are_read_before_its_number() {
    let keys = Arc::new(Counting::default());
    let store = create(&keys, 0);
    let mut one = store.session();
    one.begin().unwrap();
    (0..MANY).for_each(|key| one.insert(0, &row(key, key % 7)).unwrap());
    one.commit().unwrap();
    one.begin_serializable(b"").unwrap();
    let visit = |_| ControlFlow::Continue(());
    one.scan(0, 1, KeyRange::ALL, None, visit).unwrap();
    (0..MANY).for_each(|key| one.update(0, Value::Word(key), &[(1, Value::Word(8))]).unwrap());
    // A row that is not read, at whose number the validation checks all reads.
    let mut other = store.session();
    other.begin().unwrap();
    other.insert(0, &row(1 << 21, 7)).unwrap();
    other.delete(0, Value::Word(1 << 21)).unwrap();
    other.commit().unwrap();
    let shared = Arc::clone(&store.0);
    *keys.act.lock().unwrap() =
        Some(Box::new(move || std::mem::forget(shared.watched.watch(&shared.clock))));
    let number = one.commit().unwrap();
    assert!(keys.act.lock().unwrap().is_none(), "the other one watches");
    let commits = store.0.watched.watch(&store.0.clock).between(number - 1, number);
    let commits = commits.expect("its statements are in the list");
    assert_eq!(commits.iter().map(|statements| statements.len() as u64).sum::<u64>(), MANY);
    store.check().unwrap();
}

/// Commits of another session while a transaction is validated.
const OTHERS: u64 = 1_000;

/// Validates a transaction while others commit. Returns how many of their commits are kept just before it has a
/// number, and while that is unpublished. If `is_slow`, another watcher of all of them stops in between.
fn kept_by_a_validation(is_slow: bool) -> [usize; 2] {
    let keys = Arc::new(Counting::default());
    let store = create(&keys, 0);
    let mut one = store.session();
    one.begin().unwrap();
    (0..MANY).for_each(|key| one.insert(0, &row(key, key % 7)).unwrap());
    let snapshot = one.commit().unwrap();
    // Without a commit after the snapshot there would be nothing to look at.
    one.begin().unwrap();
    one.insert(0, &row(1 << 21, 7)).unwrap();
    one.commit().unwrap();
    let shared = Arc::clone(&store.0);
    let slow = RefCell::new(is_slow.then(|| store.0.watched.watch(&store.0.clock)));
    let act = move || {
        for key in 0..OTHERS {
            one.begin().unwrap();
            one.insert(0, &row((1 << 30) + key, 9)).unwrap();
            one.commit().unwrap();
        }
        // Another transaction watches the commit.
        std::mem::forget(shared.watched.watch(&shared.clock));
    };
    *keys.act.lock().unwrap() = Some(Box::new(act));
    let mut reads = Reads::default();
    let below = Bound::Excluded(7u64.to_be_bytes().to_vec());
    reads.add_range(0, 1, KeyRange { high: below, ..KeyRange::ALL }, None);
    let (kept, before) = (|| store.0.watched.state.read().commits.len(), Cell::new(None));
    let statements = || {
        before.set(Some(kept()));
        slow.borrow_mut().iter_mut().for_each(CommitWatch::stop);
        inserts(1)
    };
    let (number, _, watch) = store.0.validate(&reads, snapshot, statements).unwrap();
    assert_eq!((number, store.now()), (snapshot + OTHERS + 2, snapshot + OTHERS + 1));
    let unpublished = kept();
    store.0.clock.publish(number);
    drop(watch);
    assert_eq!(kept(), 0);
    [before.get().expect("it reads its statements"), unpublished]
}

#[test]
fn commits_that_a_validation_has_checked_are_dropped() {
    assert_eq!(kept_by_a_validation(false), [0, 0]);
}

/// The other watcher leaves all commits to be dropped by this one.
#[test]
fn a_validation_drops_nothing_while_others_wait() {
    assert_eq!(kept_by_a_validation(true), [OTHERS as usize; 2]);
}

fn inserts(count: u64) -> CommitStatements {
    let one = |new| Statement { kind: INSERT, table: 0, old: 0, new, sum: 0 };
    Some((0..count).map(one).collect())
}

/// Adds commits with a statement each, after the number from which they are watched.
fn add(watched: &WatchedCommits, clock: &Clock, commits: u64) {
    for _ in 0..commits {
        let number = clock.take();
        watched.add(number, Some(inserts(1)), || panic!("they are given"));
        clock.publish(number);
    }
}

#[test]
fn few_commits_are_looked_at_with_the_latch_held() {
    const COMMITS: u64 = 10 * PIECE as u64 + 3;
    let waiting = Waiting::default();
    let (clock, watched) = (Clock::new(0, &waiting), WatchedCommits::new(&waiting));
    let watch = watched.watch(&clock);
    add(&watched, &clock, COMMITS);
    let later = watched.watch(&clock);
    add(&watched, &clock, 1);
    let mut looked = 0;
    {
        let state = watched.state.read();
        assert!(are_more_than(sync::FEW, state.commits.values().inspect(|_| looked += 1)));
    }
    assert_eq!(looked, sync::FEW + 1);
    assert!(
        watch.has_more_than(COMMITS, (0, COMMITS + 1))
            && !watch.has_more_than(COMMITS, (0, COMMITS))
    );
    assert_eq!(watch.piece(0, COMMITS).len(), PIECE);
    for upto in [0, 1, PIECE as u64, COMMITS] {
        assert_eq!(watch.between(0, upto).unwrap().len() as u64, upto);
    }
    assert_eq!(watch.between(COMMITS - 1, COMMITS).unwrap().len(), 1);
    // Commits that are not needed any more are dropped in pieces, and the others stay.
    watched.state.write().from.remove(&watch.from);
    assert_eq!(watched.state.write().take_unwanted().len(), PIECE);
    drop(watch);
    assert!(watched.state.read().commits.keys().eq([&(COMMITS + 1)]));
    drop(later);
    assert!(watched.state.read().commits.is_empty());
}

#[test]
fn commits_with_more_statements_are_more() {
    let commits = [inserts(2), inserts(3), None];
    let more = |few, of: usize| are_more_than(few, commits[..of].iter());
    assert!(!more(5, 2) && more(4, 2) && more(1, 1) && !more(0, 0));
    assert!(more(u64::MAX - 1, 3), "a commit that could not be read is more than any bound");
}

/// The watcher begins at a later number: the statements are not read for it.
#[test]
fn statements_of_an_unwatched_commit_are_not_read() {
    let waiting = Waiting::default();
    let (clock, watched) = (Clock::new(0, &waiting), WatchedCommits::new(&waiting));
    let number = clock.take();
    let watch = watched.watch(&clock);
    watched.add(number, None, || panic!("others wait for this"));
    clock.publish(number);
    assert_eq!(watch.between(0, number), Some(Vec::new()));
    add(&watched, &clock, 1);
    assert_eq!(watch.between(number, number + 1).unwrap().len(), 1);
}

/// Keys of rows that random transactions are about, and values of the second column.
const KEYS: u64 = 9;
const VALUES: u64 = 4;

/// Runs random statements; they may be in conflict.
fn change(session: &mut Session<Recording>, random: &mut SmallRng) {
    for _ in 0..random.random_range(1..6) {
        let (key, value) = (random.random_range(0..KEYS), random.random_range(0..VALUES));
        let done = match random.random_range(0..4) {
            0 => session.insert(0, &row(key, value)),
            1 => session.delete(0, Value::Word(key)),
            _ => session.update(0, Value::Word(key), &[(1, Value::Word(value))]),
        };
        match done {
            Ok(()) => {}
            Err(ColumnError::MissingKey | ColumnError::DuplicateKey | ColumnError::Conflict) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// A bound of a range of an index.
fn bound(index: usize, random: &mut SmallRng) -> Bound<Vec<u8>> {
    let (key, value) = (random.random_range(0..KEYS), random.random_range(0..VALUES));
    let mut bytes = key.to_be_bytes().to_vec();
    if index == 1 {
        bytes = [&value.to_be_bytes()[..], &bytes].concat();
    }
    match random.random_range(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(bytes),
        _ => Bound::Excluded(bytes),
    }
}

/// Some keys and ranges.
fn reads(random: &mut SmallRng) -> Reads {
    let mut reads = Reads::default();
    for _ in 0..random.random_range(0..3) {
        let value = Value::Word(random.random_range(0..KEYS));
        reads.add_key(0, &Key::from(value));
    }
    for _ in 0..random.random_range(0..3) {
        let index = random.random_range(0..2);
        let [low, high] = [bound(index, random), bound(index, random)];
        reads.add_range(0, index, KeyRange { low, high, backward: random.random() }, None);
    }
    reads
}

/// The statements of commits give the same verdict on reads as a check of all reads: between any two snapshots,
/// with a transaction open, one aborted, and versions collected meanwhile.
#[test]
fn statements_of_commits_give_the_verdict_of_all_reads() {
    let mut verdicts = [0, 0];
    for seed in 0..400 {
        let random = &mut SmallRng::seed_from_u64(seed);
        let keys = Arc::new(Counting::default());
        let store = create(&keys, [0, 100][seed as usize % 2]);
        let shared = &store.0;
        let (mut first, mut open, mut aborted) =
            (store.session(), store.session(), store.session());
        for _ in 0..3 {
            first.begin().unwrap();
            change(&mut first, random);
            first.commit().unwrap();
        }
        open.begin().unwrap();
        let watch = shared.watched.watch(&shared.clock);
        let mut others = [store.session(), store.session()];
        for number in 0..random.random_range(1..7) {
            let other = &mut others[number % 2];
            other.begin().unwrap();
            change(other, random);
            other.commit().unwrap();
            aborted.begin().unwrap();
            change(&mut aborted, random);
            aborted.abort().unwrap();
            change(&mut open, random);
            store.collect(8).unwrap();
        }
        let (reads, last) = (reads(random), store.now());
        let read_set = ReadSet::new(&reads);
        for from in watch.from..=last {
            for to in from..=last {
                let commits = watch.between(from, to).unwrap();
                let found = commits
                    .iter()
                    .flat_map(|statements| statements.iter())
                    .any(|statement| shared.is_changed(&read_set, statement, (from, to)).unwrap());
                let expected = !shared.is_unchanged(&reads, from, to).unwrap();
                assert_eq!(found, expected, "seed {seed}, from {from} to {to}: {reads:?}");
                verdicts[usize::from(found)] += 1;
            }
        }
        drop(watch);
        store.check().unwrap();
    }
    assert!(verdicts.into_iter().all(|count| count > 500), "{verdicts:?}");
}
