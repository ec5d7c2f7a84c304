//! Serializable transactions: what they have read is what was there at the moment of their commit.

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use column::{ColumnError, Field, IndexKey, KeyRange, Keys, Pause, Session, Store, Value, Waiting};
use heap::{Heap, HeapOptions};
use sim::Recording;

use crate::keyed::Keyed;
use crate::work::{TABLES, create, from_image, open, small};

const LIMIT: u64 = 8 << 20;

type Sessions = (Store<Recording>, Session<Recording>, Session<Recording>);

fn row(key: u64, value: u64) -> [Value<'static>; 3] {
    [Value::Word(key), Value::Word(value), Value::Null]
}

/// A store with rows 10, 20 to 90, and two sessions.
fn sessions() -> Sessions {
    let store = create(Recording::pool(16 << 10, LIMIT).unwrap(), small());
    let mut session = store.session();
    session.begin().unwrap();
    for key in 1..10 {
        session.insert(0, &row(key * 10, 1)).unwrap();
    }
    session.commit().unwrap();
    let other = store.session();
    (store, session, other)
}

fn value(session: &Session<Recording>, key: u64) -> Option<u64> {
    session.get(0, Value::Word(key)).unwrap().map(|row| match row[1] {
        Field::Word(value) => value,
        ref other => panic!("{other:?}"),
    })
}

fn set(session: &mut Session<Recording>, key: u64, value: u64) {
    session.update(0, Value::Word(key), &[(1, Value::Word(value))]).unwrap();
}

/// A range of keys of the index of primary keys.
fn range(low: u64, high: u64, backward: bool) -> KeyRange {
    let bound = |key: u64| Bound::Included(key.to_be_bytes().to_vec());
    KeyRange { low: bound(low), high: bound(high), backward }
}

/// Reads up to `most` rows of a range.
fn scan(session: &Session<Recording>, range: KeyRange, most: usize) -> usize {
    let mut rows = 0;
    let visit = |_: Vec<Field>| {
        rows += 1;
        if rows == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    session.scan(0, 0, range, None, visit).unwrap();
    rows
}

/// Two interleaved transactions: the first one does `read` and then changes row 90, the second one
/// does `write`, and commits first. Returns the end of the first one.
fn interleaved(
    read: impl FnOnce(&mut Session<Recording>),
    write: impl FnOnce(&mut Session<Recording>),
) -> Result<u64, ColumnError> {
    let (store, mut one, mut other) = sessions();
    one.begin_serializable(b"").unwrap();
    read(&mut one);
    set(&mut one, 90, 5);
    other.begin().unwrap();
    write(&mut other);
    other.commit().unwrap();
    let end = one.commit();
    if end.is_err() {
        one.abort().unwrap();
        assert_eq!(value(&store.session(), 90), Some(1), "nothing of it is there");
    }
    // The number that was void does not hold up others.
    one.begin_serializable(b"").unwrap();
    set(&mut one, 90, 7);
    one.commit().unwrap();
    assert_eq!(value(&store.session(), 90), Some(7));
    store.check().unwrap();
    end
}

#[track_caller]
fn is_outdated(end: &Result<u64, ColumnError>) {
    assert!(matches!(end, Err(ColumnError::Outdated)), "{end:?}");
}

/// Each of two transactions reads both rows and changes one.
fn skewed(begin: fn(&mut Session<Recording>)) -> [Result<u64, ColumnError>; 2] {
    let (_store, mut one, mut other) = sessions();
    begin(&mut one);
    begin(&mut other);
    for (session, key) in [(&mut one, 10), (&mut other, 20)] {
        assert_eq!((value(session, 10), value(session, 20)), (Some(1), Some(1)));
        set(session, key, 0);
    }
    [one.commit(), other.commit()]
}

#[test]
fn of_two_with_crossed_reads_and_changes_one_commits() {
    let [one, other] = skewed(|session| session.begin_serializable(b"").unwrap());
    assert!(one.is_ok());
    is_outdated(&other);
    let [one, other] = skewed(|session| session.begin().unwrap());
    assert!(one.is_ok() && other.is_ok(), "snapshots allow it: {one:?}, {other:?}");
}

#[test]
fn a_row_that_was_read_is_the_same() {
    let read = |session: &mut Session<_>| assert_eq!(value(session, 30), Some(1));
    is_outdated(&interleaved(read, |other| set(other, 30, 2)));
    is_outdated(&interleaved(read, |other| other.delete(0, Value::Word(30)).unwrap()));
    interleaved(read, |other| set(other, 40, 2)).unwrap();
    let read = |session: &mut Session<_>| assert_eq!(value(session, 35), None);
    is_outdated(&interleaved(read, |other| other.insert(0, &row(35, 1)).unwrap()));
}

#[test]
fn a_range_that_was_read_is_the_same() {
    let read = |session: &mut Session<_>| assert_eq!(scan(session, range(30, 60, false), 9), 4);
    is_outdated(&interleaved(read, |other| other.insert(0, &row(45, 1)).unwrap()));
    is_outdated(&interleaved(read, |other| other.delete(0, Value::Word(60)).unwrap()));
    is_outdated(&interleaved(read, |other| set(other, 30, 2)));
    interleaved(read, |other| other.insert(0, &row(65, 1)).unwrap()).unwrap();
    interleaved(read, |other| set(other, 20, 2)).unwrap();
}

/// Rows after the last one that was visited were not read.
#[test]
fn a_range_is_read_as_far_as_the_reader_came() {
    for (backward, read_key, unread_key) in [(false, 35, 45), (true, 55, 45)] {
        let read =
            |session: &mut Session<_>| assert_eq!(scan(session, range(30, 60, backward), 2), 2);
        is_outdated(&interleaved(read, |other| other.insert(0, &row(read_key, 1)).unwrap()));
        interleaved(read, |other| other.insert(0, &row(unread_key, 1)).unwrap()).unwrap();
    }
}

#[test]
fn a_secondary_index_that_was_read_shows_the_same() {
    let read = |session: &mut Session<Recording>| {
        let mut rows = 0;
        let visit = |_: Vec<Field>| {
            rows += 1;
            ControlFlow::Continue(())
        };
        // All rows whose second column is 2.
        let mut low = vec![1];
        low.extend(2u64.to_be_bytes());
        let mut high = vec![1];
        high.extend(3u64.to_be_bytes());
        let range =
            KeyRange { low: Bound::Included(low), high: Bound::Excluded(high), backward: false };
        session.scan(0, 1, range, None, visit).unwrap();
        assert_eq!(rows, 0);
    };
    is_outdated(&interleaved(read, |other| set(other, 30, 2)));
    is_outdated(&interleaved(read, |other| other.insert(0, &row(35, 2)).unwrap()));
    interleaved(read, |other| set(other, 30, 3)).unwrap();
}

/// An error is a read of its row, too.
#[test]
fn a_key_named_by_an_error_is_the_same() {
    let missing = |session: &mut Session<Recording>| {
        let update = session.update(0, Value::Word(35), &[(1, Value::Word(2))]);
        assert!(matches!(update, Err(ColumnError::MissingKey)));
    };
    is_outdated(&interleaved(missing, |other| other.insert(0, &row(35, 1)).unwrap()));
    let there = |session: &mut Session<Recording>| {
        let insert = session.insert(0, &row(30, 2));
        assert!(matches!(insert, Err(ColumnError::DuplicateKey)));
    };
    is_outdated(&interleaved(there, |other| other.delete(0, Value::Word(30)).unwrap()));
}

#[test]
fn a_transaction_that_only_reads_commits() {
    let (_store, mut one, mut other) = sessions();
    one.begin_serializable(b"").unwrap();
    assert_eq!(value(&one, 10), Some(1));
    other.begin().unwrap();
    set(&mut other, 10, 2);
    other.commit().unwrap();
    assert_eq!(value(&one, 10), Some(1));
    one.commit().unwrap();
}

#[test]
fn own_changes_cause_no_conflict() {
    let (_store, mut one, mut other) = sessions();
    one.begin_serializable(b"").unwrap();
    assert_eq!(scan(&one, range(10, 90, false), 99), 9);
    set(&mut one, 10, 2);
    one.delete(0, Value::Word(20)).unwrap();
    one.insert(0, &row(15, 1)).unwrap();
    assert_eq!(scan(&one, range(10, 90, false), 99), 9);
    other.begin().unwrap();
    other.insert(0, &row(95, 1)).unwrap();
    other.commit().unwrap();
    one.commit().unwrap();
}

/// The last statement commits, as it does at snapshot isolation.
#[test]
fn the_last_statement_commits_only_what_is_not_outdated() {
    let (_store, mut one, mut other) = sessions();
    one.begin_serializable(b"").unwrap();
    assert_eq!(value(&one, 10), Some(1));
    other.begin().unwrap();
    set(&mut other, 10, 2);
    other.commit().unwrap();
    let end = one.update_and_commit(0, Value::Word(20), &[(1, Value::Word(2))]);
    is_outdated(&end.map(|()| 0));
    one.abort().unwrap();
    one.begin_serializable(b"").unwrap();
    assert_eq!(value(&one, 10), Some(2));
    one.update_and_commit(0, Value::Word(20), &[(1, Value::Word(2))]).unwrap();
    assert_eq!(value(&other, 20), Some(2));
}

#[test]
fn reads_move_with_the_transaction_to_another_session() {
    for disturb in [false, true] {
        let (store, mut one, mut other) = sessions();
        one.begin_serializable(b"").unwrap();
        assert_eq!(value(&one, 10), Some(1));
        set(&mut one, 90, 5);
        let id = one.detach().unwrap();
        other.begin().unwrap();
        set(&mut other, if disturb { 10 } else { 20 }, 2);
        other.commit().unwrap();
        let mut one = store.resume(id).unwrap();
        match disturb {
            true => is_outdated(&one.commit()),
            false => assert!(one.commit().is_ok()),
        }
    }
}

/// A kill loses the reads of a transaction: it commits only after it has read again.
#[test]
fn after_a_kill_a_transaction_runs_from_its_start() {
    let work = |session: &mut Session<Recording>| -> Result<u64, ColumnError> {
        session.get(0, Value::Word(10))?;
        session.update(0, Value::Word(90), &[(1, Value::Word(5))])?;
        session.commit()
    };
    for disturb in [false, true] {
        let memory = Recording::pool(16 << 10, LIMIT).unwrap();
        let store = create(memory.clone(), small());
        let mut session = store.session();
        session.begin().unwrap();
        session.insert(0, &row(10, 1)).unwrap();
        session.insert(0, &row(90, 1)).unwrap();
        session.commit().unwrap();
        session.begin_serializable(b"order").unwrap();
        assert_eq!(value(&session, 10), Some(1));
        set(&mut session, 90, 5);
        // Twice: what recovery stores says it, too.
        let mut memory = from_image(&memory.contents(), LIMIT).unwrap();
        drop((session, store));
        let store = open(memory.clone(), &Waiting::default()).unwrap().0;
        memory = from_image(&memory.contents(), LIMIT).unwrap();
        drop(store);
        let store = open(memory, &Waiting::default()).unwrap().0;
        let id = store.in_flight()[0].id;
        assert!(matches!(store.resume(id), Err(ColumnError::Forgotten)));
        assert_eq!(store.in_flight()[0].id, id, "it waits on");
        if disturb {
            let mut other = store.session();
            other.begin().unwrap();
            set(&mut other, 10, 2);
            other.commit().unwrap();
        }
        let end = work(&mut store.replay(id).unwrap());
        match disturb {
            true => is_outdated(&end),
            false => assert!(end.is_ok(), "{end:?}"),
        }
        assert_eq!(value(&store.session(), 90), Some(if disturb { 1 } else { 5 }));
    }
}

/// A transaction that cannot commit can be rolled back.
#[test]
fn what_cannot_commit_is_rolled_back() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), small());
    let mut session = store.session();
    session.begin_serializable(b"order").unwrap();
    session.insert(0, &row(10, 1)).unwrap();
    let memory = from_image(&memory.contents(), LIMIT).unwrap();
    drop((session, store));
    let store = open(memory, &Waiting::default()).unwrap().0;
    let mut session = store.replay(store.in_flight()[0].id).unwrap();
    session.abort().unwrap();
    assert_eq!(value(&session, 10), None);
    session.begin().unwrap();
    session.insert(0, &row(10, 2)).unwrap();
    session.commit().unwrap();
    store.check().unwrap();
}

/// A store after a kill, with a serializable transaction that did `work`; its number, too.
fn cut_off(work: impl FnOnce(&mut Session<Recording>)) -> (Store<Recording>, column::TxId) {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), small());
    let mut session = store.session();
    session.begin().unwrap();
    session.insert(0, &row(10, 1)).unwrap();
    session.insert(0, &row(90, 1)).unwrap();
    session.commit().unwrap();
    session.begin_serializable(b"order").unwrap();
    work(&mut session);
    let memory = from_image(&memory.contents(), LIMIT).unwrap();
    drop((session, store));
    let store = open(memory, &Waiting::default()).unwrap().0;
    let id = store.in_flight()[0].id;
    (store, id)
}

/// A replay that was given up has read less than the transaction had.
#[test]
fn a_replay_that_was_given_up_cannot_be_resumed() {
    let (store, id) = cut_off(|session| {
        assert_eq!(value(session, 10), Some(1));
        set(session, 90, 5);
    });
    let mut session = store.replay(id).unwrap();
    assert!(matches!(session.commit(), Err(ColumnError::Diverged)));
    session.detach().unwrap();
    assert!(matches!(store.resume(id), Err(ColumnError::Forgotten)));
    store.replay(id).unwrap().abort().unwrap();
}

#[test]
fn a_replay_notes_the_keys_named_by_errors() {
    let fail = |session: &mut Session<Recording>| {
        let insert = session.insert(0, &row(10, 2));
        assert!(matches!(insert, Err(ColumnError::DuplicateKey)), "{insert:?}");
        set(session, 90, 5);
    };
    let (store, id) = cut_off(fail);
    let mut other = store.session();
    other.begin().unwrap();
    other.delete(0, Value::Word(10)).unwrap();
    other.commit().unwrap();
    let mut session = store.replay(id).unwrap();
    fail(&mut session);
    is_outdated(&session.commit());
}

/// The visitor knows the rows that it has come to, whatever becomes of the scan.
#[test]
fn a_range_is_read_though_its_visitor_panics() {
    let read = |session: &mut Session<Recording>| {
        let mut rows = 0;
        let visit = |_: Vec<Field>| {
            rows += 1;
            if rows == 2 {
                resume_unwind(Box::new("the visitor's"));
            }
            ControlFlow::Continue(())
        };
        let scan = AssertUnwindSafe(|| session.scan(0, 0, range(30, 60, false), None, visit));
        assert!(catch_unwind(scan).is_err());
    };
    is_outdated(&interleaved(read, |other| set(other, 40, 2)));
    is_outdated(&interleaved(read, |other| other.insert(0, &row(35, 1)).unwrap()));
    interleaved(read, |other| set(other, 50, 2)).unwrap();
}

/// Keys that do something else once, when the primary key is sought in one of them.
#[derive(Default)]
struct Interrupted(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Debug for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupted").finish_non_exhaustive()
    }
}

const KEYS: Keyed = Keyed { unique: false };

impl Keys for Interrupted {
    fn count(&self, table: usize) -> usize {
        KEYS.count(table)
    }

    fn columns(&self, table: usize, index: usize) -> &[usize] {
        KEYS.columns(table, index)
    }

    fn key(&self, table: usize, index: usize, row: &[Field]) -> Result<IndexKey, ColumnError> {
        KEYS.key(table, index, row)
    }

    fn primary<'k>(&self, table: usize, index: usize, key: &'k [u8]) -> Cow<'k, [u8]> {
        let act = self.0.lock().unwrap().take();
        act.into_iter().for_each(|act| act());
        KEYS.primary(table, index, key)
    }

    fn is_exact(&self, table: usize) -> bool {
        KEYS.is_exact(table)
    }
}

/// A wait in a test where no thread may wait.
#[derive(Debug)]
struct Never;

impl Pause for Never {
    fn pause(&self) {
        panic!("a thread waits");
    }
}

/// A transaction reads rows 10 and 20 by their keys and all of them by the secondary index, and changes row 90.
/// While its commit looks at the index, another one does `write` and commits. Returns the end of the first one, and
/// the number of the other one.
fn meanwhile(
    many: u64,
    write: impl Fn(&mut Session<Recording>, u64) + Send + 'static,
) -> (Result<u64, ColumnError>, u64) {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let heap =
        Heap::format(memory.clone(), HeapOptions { chunk_bytes: 16 << 10, lanes: 1 }).unwrap();
    let keys = Arc::new(Interrupted::default());
    let at = Store::create(heap.lane(0), small(), &TABLES[..1], &keys).unwrap().at();
    drop(heap);
    let heap = Heap::open(from_image(&memory.contents(), LIMIT).unwrap()).unwrap();
    let never = Waiting::through(Arc::new(Never));
    let store = Store::open(heap.lane(0), at, &keys, &never).unwrap().0;
    let (mut one, mut other) = (store.session(), store.session());
    one.begin().unwrap();
    (1..10).for_each(|key| one.insert(0, &row(key * 10, 1)).unwrap());
    one.commit().unwrap();
    one.begin_serializable(b"").unwrap();
    assert_eq!((value(&one, 10), value(&one, 20)), (Some(1), Some(1)));
    let mut rows = 0;
    let count = |_| {
        rows += 1;
        ControlFlow::Continue(())
    };
    // But for those whose second column is 7.
    let mut high = vec![1];
    high.extend(7u64.to_be_bytes());
    let below = KeyRange { high: Bound::Excluded(high), ..KeyRange::ALL };
    one.scan(0, 1, below, None, count).unwrap();
    assert_eq!(rows, 9);
    set(&mut one, 90, 5);
    // Without a commit after the snapshot there would be nothing to look at.
    other.begin().unwrap();
    other.insert(0, &row(100, 7)).unwrap();
    other.commit().unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let committed = done.clone();
    let writes = move || {
        let mut last = 0;
        for number in 0..many {
            other.begin().unwrap();
            write(&mut other, number);
            last = other.commit().unwrap();
        }
        committed.store(last, SeqCst);
    };
    *keys.0.lock().unwrap() = Some(Box::new(writes));
    let end = one.commit();
    if end.is_err() {
        one.abort().unwrap();
    }
    store.check().unwrap();
    (end, done.load(SeqCst))
}

#[test]
fn others_commit_while_a_transaction_is_validated() {
    for many in [1, 3, 100] {
        let (end, other) = meanwhile(many, |session, number| {
            session.update(0, Value::Word(100), &[(2, Value::Bytes(&[number as u8]))]).unwrap();
        });
        assert_eq!(end.unwrap(), other + 1);
        // A row that is looked at once more, and is what it was.
        let (end, _) = meanwhile(many, |session, number| {
            session.insert(0, &row(200, 2)).unwrap();
            session.delete(0, Value::Word(200)).unwrap();
            set(session, 100, 7 + number);
        });
        end.unwrap();
    }
}

#[test]
fn changes_during_a_validation_are_noticed() {
    for many in [1, 3, 100] {
        // By its key, which has been looked at by then.
        is_outdated(&meanwhile(many, |session, number| set(session, 10, number + 7)).0);
        is_outdated(&meanwhile(many, |session, number| set(session, 100, 1 + number % 2)).0);
        let (end, _) = meanwhile(many, |session, number| {
            session.insert(0, &row(200 + number, 1)).unwrap();
        });
        is_outdated(&end);
    }
}
