//! Reads without locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use paged::flaw::Flaw;
use paged::ids::{Lsn, TreeNo};
use paged::latch::Followed;
use paged::log::record::record_bytes;
use paged::log::{Kind, Logged};
use paged::store::{RowLock, RowScan, Store};
use paged::threads::Baton;
use paged::tree::Direction;
use paged::{PagedError, Result};
use sim::RecordingFiles;

use super::support::{ALL, TREES, TestStore, create, create_by, open};

const TREE: TreeNo = TREES[0];

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn row_of(number: u64) -> Vec<u8> {
    format!("the row of {number}").into_bytes()
}

fn get(store: &TestStore, horizon: Lsn, number: u64) -> Result<Option<Vec<u8>>> {
    let mut row = b"before".to_vec();
    Ok(store.read_below(horizon, TREE, &key(number), &mut row)?.then_some(row))
}

fn keys(store: &TestStore, horizon: Lsn, direction: Direction) -> Result<Vec<u64>> {
    let mut scan = RowScan::new(TREE, &ALL, direction, RowLock::None);
    let mut found = Vec::new();
    while !scan.is_done() {
        let rows = store.next_rows_below(horizon, &mut scan, None)?;
        found.extend(rows.iter().map(|(key, row)| {
            let number = u64::from_be_bytes(key[..].try_into().expect("eight bytes"));
            assert_eq!(*row, row_of(number));
            number
        }));
    }
    Ok(found)
}

/// A store with rows of even numbers, durable.
fn filled(files: &RecordingFiles, rows: u64, frames: usize) -> Arc<TestStore> {
    let store = create(files, frames, 256 << 10);
    let mut session = store.session();
    for number in 0..rows {
        session.begin(number, None);
        session.insert(TREE, &key(2 * number), &row_of(2 * number)).expect("inserted");
        let at = session.commit().expect("committed");
        store.wait(at).expect("durable");
    }
    store
}

/// A read of a page that is in a frame takes no lock and no pin.
#[test]
fn a_warm_read_takes_no_lock_and_no_pin() {
    let store = filled(&RecordingFiles::new(), 500, 256);
    let horizon = store.horizon();
    assert_eq!(horizon, store.log().end());
    let before = (store.pool_stats(), store.lock_counts());
    for number in 0..1000 {
        let wanted = (number % 2 == 0).then(|| row_of(number));
        assert_eq!(get(&store, horizon, number).expect("read"), wanted, "{number}");
    }
    assert_eq!((store.pool_stats(), store.lock_counts()), before);
    let all: Vec<u64> = (0..500).map(|number| 2 * number).collect();
    assert_eq!(keys(&store, horizon, Direction::Forward).expect("read"), all);
    let backward = keys(&store, horizon, Direction::Backward).expect("read");
    assert!(backward.into_iter().rev().eq(all));
    assert_eq!(store.lock_counts(), before.1);
}

/// Pages that are not in a frame are read, into one of the few there are.
#[test]
fn a_page_that_is_not_in_a_frame_is_read() {
    let store = filled(&RecordingFiles::new(), 500, 16);
    let before = store.pool_stats();
    for number in (0..1000).rev() {
        let wanted = (number % 2 == 0).then(|| row_of(number));
        assert_eq!(get(&store, store.horizon(), number).expect("read"), wanted, "{number}");
    }
    assert!(store.pool_stats().evictions > before.evictions + 10);
}

#[track_caller]
fn is_too_old<R: std::fmt::Debug>(read: &Result<R>) {
    assert!(matches!(read, Err(PagedError::TooOld)), "{read:?}");
}

#[test]
fn what_is_not_committed_or_not_durable_is_not_seen() {
    let store = filled(&RecordingFiles::new(), 500, 256);
    let (far, mut session) = (500, store.session());
    session.begin(1, None);
    session.update(TREE, &key(0), b"changed").expect("updated");
    for _ in 0..2 {
        let horizon = store.horizon();
        assert!(horizon < store.log().end());
        is_too_old(&get(&store, horizon, 0));
        is_too_old(&keys(&store, horizon, Direction::Forward));
        assert_eq!(get(&store, horizon, far).expect("read"), Some(row_of(far)));
    }
    let at = session.commit().expect("committed");
    assert!(at > store.log().durable());
    is_too_old(&get(&store, store.horizon(), 0));
    let before = store.horizon();
    store.wait(at).expect("durable");
    is_too_old(&get(&store, before, 0));
    assert_eq!(get(&store, store.horizon(), 0).expect("read"), Some(b"changed".to_vec()));

    session.begin(2, None);
    session.delete(TREE, &key(4)).expect("deleted");
    is_too_old(&get(&store, store.horizon(), 4));
    session.abort().expect("aborted");
    assert_eq!(get(&store, store.horizon(), 4).expect("read"), Some(row_of(4)));
    session.begin(3, None);
    session.delete(TREE, &key(4)).expect("deleted");
    let at = session.commit().expect("committed");
    store.wait(at).expect("durable");
    assert_eq!(get(&store, store.horizon(), 4).expect("read"), None);
}

/// A state that was taken stays what it was, or is refused.
#[test]
fn later_changes_are_not_seen() {
    let store = filled(&RecordingFiles::new(), 500, 256);
    let before = store.horizon();
    let mut session = store.session();
    session.begin(1, None);
    for number in (1..40).step_by(2) {
        session.insert(TREE, &key(number), &row_of(number)).expect("inserted");
    }
    let at = session.commit().expect("committed");
    store.wait(at).expect("durable");
    is_too_old(&get(&store, before, 1));
    is_too_old(&get(&store, before, 2));
    is_too_old(&keys(&store, before, Direction::Forward));
    is_too_old(&keys(&store, before, Direction::Backward));
    assert_eq!(get(&store, before, 500).expect("read"), Some(row_of(500)));
    assert_eq!(keys(&store, store.horizon(), Direction::Forward).expect("read").len(), 520);
}

/// A long row lies on pages of its own, which are changed without a change of its leaf.
#[test]
fn a_change_of_a_long_row_is_noticed() {
    let store = filled(&RecordingFiles::new(), 10, 256);
    let (long, mut session) = (vec![7; 3000], store.session());
    session.begin(1, None);
    session.insert(TREE, &key(1), &long).expect("inserted");
    let at = session.commit().expect("committed");
    store.wait(at).expect("durable");
    let before = store.horizon();
    assert_eq!(get(&store, before, 1).expect("read"), Some(long.clone()));
    let mut changed = long;
    changed[2900] = 8;
    session.begin(2, None);
    session.update(TREE, &key(1), &changed).expect("updated");
    is_too_old(&get(&store, before, 1));
    is_too_old(&get(&store, store.horizon(), 1));
    let at = session.commit().expect("committed");
    store.wait(at).expect("durable");
    is_too_old(&get(&store, before, 1));
    assert_eq!(get(&store, store.horizon(), 1).expect("read"), Some(changed));
}

/// The pages as a crash has left them lack changes, which come with the first look; nothing of an
/// unfinished transaction is seen.
#[test]
fn after_a_crash_what_was_durable_is_seen() {
    let files = RecordingFiles::new();
    let store = filled(&files, 200, 64);
    let mut session = store.session();
    session.begin(1, None);
    session.update(TREE, &key(0), b"changed").expect("updated");
    store.sync().expect("durable");
    std::mem::forget(session);
    let left = RecordingFiles::from_image(files.image());
    drop::<Arc<Store<_>>>(store);
    let store = open(&left, 64, 256 << 10).expect("opened");
    let all: Vec<u64> = (0..200).map(|number| 2 * number).collect();
    assert_eq!(keys(&store, store.horizon(), Direction::Forward).expect("read"), all);
    assert_eq!(get(&store, store.horizon(), 0).expect("read"), Some(row_of(0)));
}

/// Threads move amounts between rows of several pages; readers see the sum that there always is.
#[test]
fn a_reader_sees_all_rows_at_one_moment() {
    const ROWS: u64 = 60;
    const ROUNDS: u64 = 2_000;
    let store = create(&RecordingFiles::new(), 64, 1 << 20);
    let amount = |row: &[u8]| u64::from_be_bytes(row[..8].try_into().expect("eight bytes"));
    let padded = |amount: u64| [&amount.to_be_bytes()[..], &[amount as u8; 60]].concat();
    let mut session = store.session();
    session.begin(0, None);
    for number in 0..ROWS {
        session.insert(TREE, &key(number), &padded(100)).expect("inserted");
    }
    let at = session.commit().expect("committed");
    store.wait(at).expect("durable");
    drop(session);
    let done = AtomicBool::new(false);
    let mut seen = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = store.session();
            for round in 0..ROUNDS {
                let (from, to) = (round * 7 % ROWS, (round * 11 + 30) % ROWS);
                if from == to {
                    continue;
                }
                session.begin(round, None);
                for (number, by) in [(from, -1), (to, 1_i64)] {
                    let row = session.get_exclusive(TREE, &key(number)).expect("read");
                    let now = amount(&row.expect("there")).wrapping_add_signed(by);
                    session.update(TREE, &key(number), &padded(now)).expect("updated");
                }
                let at = session.commit().expect("committed");
                store.wait(at).expect("durable");
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let horizon = store.horizon();
            let (mut sum, mut row) = (0, Vec::new());
            let all = (0..ROWS).try_for_each(|number| {
                assert!(store.read_below(horizon, TREE, &key(number), &mut row)?);
                assert!(row[8..].iter().all(|byte| *byte == row[7]), "a torn row");
                sum += amount(&row);
                Ok(())
            });
            match all {
                Ok(()) => {
                    assert_eq!(sum, 100 * ROWS);
                    seen.0 += 1;
                }
                Err(PagedError::TooOld) => seen.1 += 1,
                Err(error) => panic!("{error}"),
            }
        }
    });
    println!("{} of {} looks saw all of it", seen.0, seen.0 + seen.1);
    assert!(seen.0 > 0, "{seen:?}");
}

/// A transaction changes a row and is undone, over and over, while another thread reads; returns whether that
/// has seen the change. Who goes on when follows from the seed.
fn sees_what_is_undone(seed: u64, flaw: Option<Flaw>) -> bool {
    let baton = Arc::new(Baton::new(seed).with(flaw));
    let store = create_by(Arc::clone(&baton), &RecordingFiles::new(), 32, 256 << 10);
    let mut session = store.session();
    session.begin(0, None);
    session.insert(TREE, &key(0), b"right").expect("inserted");
    let at = session.commit().expect("committed");
    store.wait(at).expect("durable");
    drop(session);
    let wrong = AtomicBool::new(false);
    baton.run(2, |me| {
        Followed::by(baton.clone(), || {
            let (mut session, mut row) = (store.session(), Vec::new());
            for round in 0..60 {
                if me == 0 {
                    session.begin(round, None);
                    session.update(TREE, &key(0), b"wrong").expect("updated");
                    session.abort().expect("undone");
                } else {
                    let read = store.read_below(store.horizon(), TREE, &key(0), &mut row);
                    let is_wrong = read.is_ok() && row != b"right";
                    wrong.fetch_or(is_wrong, Ordering::Relaxed);
                }
            }
        });
    });
    wrong.into_inner()
}

#[test]
fn a_look_that_is_not_checked_is_noticed() {
    for flaw in [Flaw::LookNotChecked, Flaw::PageLsnIgnored, Flaw::HorizonPastOpen] {
        assert!((0..40).any(|seed| sees_what_is_undone(seed, Some(flaw))), "{flaw:?}");
    }
    assert!(!(0..40).any(|seed| sees_what_is_undone(seed, None)));
}

/// An update logs what it changes, and its commit.
#[test]
fn an_update_appends_two_records() {
    let store = filled(&RecordingFiles::default(), 100, 64);
    let mut session = store.session();
    let mut end = Lsn::NONE;
    for number in 0..50 {
        session.begin(number, None);
        session.update(TREE, &key(2 * number), &row_of(2 * number + 1)).expect("updated");
        let before = std::mem::replace(&mut end, session.commit().expect("committed"));
        store.wait(end).expect("durable");
        let commit = store.log().read(end).expect("the commit");
        let change = store.log().read(commit.prev).expect("the change");
        assert_eq!((commit.kind, change.kind), (Kind::Commit, Kind::Change));
        assert_eq!(change.prev, Lsn::NONE, "the first one of its transaction");
        let bytes = |record: &Logged| record_bytes(record.payload.len()) as u64;
        assert_eq!(change.lsn.0 + bytes(&change), commit.lsn.0);
        assert!(before == Lsn::NONE || before.0 + bytes(&commit) == change.lsn.0, "{number}");
    }
}
