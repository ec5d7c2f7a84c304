//! The background thread, and a log that is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paged::log::LogManager;
use paged::log::central::{Central, CentralOptions};
use paged::store::{Store, StoreOptions};
use paged::threads::Host;
use paged::tree::Direction;
use paged::{Conflict, PagedError};
use sim::RecordingFiles;

use super::support::{
    Model, TREES, TestSession, check, contents, create_with, open, options, rows,
};

const THREADS: u64 = 4;

fn with_thread(frames: usize) -> StoreOptions {
    StoreOptions { background: true, ..options(frames) }
}

/// Runs a transaction until no conflict ends it, nor a log in which others leave no room for long.
fn repeat(
    session: &mut TestSession,
    age: u64,
    work: impl Fn(&mut TestSession) -> paged::Result<()>,
) {
    loop {
        session.begin(age, None);
        match work(session) {
            Ok(()) => return,
            Err(PagedError::Conflict(_) | PagedError::LogFull { .. }) => {
                session.abort().expect("aborted");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Four threads write much more than the log can hold, in transactions that together are larger
/// than it: every thread ends, and nothing is lost.
fn fill_the_log(background: bool) {
    const PARTITION: u64 = 8 << 10;
    const ROUNDS: u64 = 12;
    let files = RecordingFiles::new();
    let store = create_with(&files, PARTITION, StoreOptions { background, ..options(64) });
    let ages = AtomicU64::new(1);
    let consumed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, ages, consumed) = (&store, &ages, &consumed);
            scope.spawn(move || {
                let mut session = store.session();
                for round in 0..ROUNDS {
                    let age = ages.fetch_add(1, Ordering::Relaxed);
                    repeat(&mut session, age, |session| {
                        for row in 0..10_u64 {
                            let key = [thread.to_be_bytes(), (round * 10 + row).to_be_bytes()];
                            session.insert(TREES[0], &key.concat(), &[round as u8; 100])?;
                        }
                        Ok(())
                    });
                    let at = session.commit().expect("committed");
                    store.wait(at).expect("durable");
                    consumed.fetch_add(10 * 2 * 180, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(consumed.load(Ordering::Relaxed) > 4 * 4 * PARTITION, "the log was filled many times");
    let expected: Model = (0..THREADS)
        .flat_map(|thread| (0..ROUNDS * 10).map(move |row| (thread, row)))
        .map(|(thread, row)| {
            ([thread.to_be_bytes(), row.to_be_bytes()].concat(), vec![(row / 10) as u8; 100])
        })
        .collect();
    let image = files.image();
    drop(store);
    let store = open(&RecordingFiles::from_image(image), 64, PARTITION).expect("opened");
    check(&store, &[expected, Model::new()]).unwrap();
}

#[test]
fn a_full_log_slows_writers_and_loses_nothing() {
    fill_the_log(true);
}

#[test]
fn so_it_does_without_a_thread() {
    fill_the_log(false);
}

/// A transaction that stays open keeps the log: others get an error, and go on when it has ended.
#[test]
fn a_transaction_that_stays_open_holds_the_log_and_others_are_told() {
    for background in [false, true] {
        let files = RecordingFiles::new();
        let store = create_with(&files, 8 << 10, StoreOptions { background, ..options(64) });
        let mut idle = store.session();
        idle.begin(1, None);
        idle.insert(TREES[1], b"idle", b"row").expect("inserted");
        let mut session = store.session();
        let told = (0..1000_u64).find_map(|number| {
            session.begin(2 + number, None);
            let inserted = session.insert(TREES[0], &number.to_be_bytes(), &[1; 100]);
            if inserted.is_ok() {
                session.commit().expect("committed");
            } else {
                session.abort().expect("aborted");
            }
            inserted.err().map(|error| (number, error))
        });
        let Some((number, error)) = told else { panic!("a full log refuses") };
        let is_told =
            matches!(error, PagedError::LogFull { .. } | PagedError::Conflict(Conflict::Room));
        assert!(is_told, "{error}");
        idle.commit().expect("committed");
        for key in number..number + 50 {
            repeat(&mut session, key, |session| {
                session.insert(TREES[0], &key.to_be_bytes(), &[1; 100])
            });
            session.commit().expect("committed");
        }
        let held = rows(&store, TREES[0], Direction::Forward).expect("rows");
        assert_eq!(held.len() as u64, number + 50, "background: {background}");
    }
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if is() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it never comes: {what}");
}

fn insert(session: &mut TestSession, keys: std::ops::Range<u64>) {
    for key in keys {
        session.begin(key, None);
        session.insert(TREES[0], &key.to_be_bytes(), &[1; 60]).expect("inserted");
        session.commit().expect("committed");
    }
}

#[test]
fn the_thread_takes_checkpoints_when_nobody_calls() {
    let files = RecordingFiles::new();
    let store = create_with(&files, 16 << 10, with_thread(64));
    let start = store.log().start();
    let mut session = store.session();
    insert(&mut session, 0..150);
    until("a checkpoint", || store.log().start() > start);
}

#[test]
fn the_thread_ends_with_the_store_and_holds_nothing_of_it() {
    let files = RecordingFiles::new();
    let log_options = CentralOptions {
        partition_bytes: 256 << 10,
        buffer_bytes: 256 << 10,
        ..CentralOptions::default()
    };
    let log: Central<_, Host> =
        Central::create(&files, "log-", log_options, Arc::default()).expect("a log");
    let log: Arc<dyn LogManager> = Arc::new(log);
    let held = Arc::downgrade(&log);
    let store = Store::create(&files, "", 1, log, with_thread(32), &TREES).expect("a store");
    let mut session = store.session();
    insert(&mut session, 0..50);
    drop(store);
    assert!(held.upgrade().is_some(), "the session has it");
    drop(session);
    assert!(held.upgrade().is_none(), "nobody has it");
}

#[test]
fn a_closed_store_has_nothing_left_to_do_and_opens_as_it_was() {
    let files = RecordingFiles::new();
    let store = create_with(&files, 64 << 10, with_thread(24));
    let mut session = store.session();
    insert(&mut session, 0..400);
    store.close().expect("closed");
    assert_eq!(store.pool().dirty_pages(), []);
    let before = contents(&store).expect("contents");
    drop((session, store));
    let store = open(&files, 24, 64 << 10).expect("opened");
    check(&store, &before).unwrap();
}

#[test]
fn an_error_of_the_thread_stops_the_store_with_its_cause() {
    let files = RecordingFiles::new();
    let log_options = CentralOptions {
        partition_bytes: 1 << 20,
        reserve_bytes: 1 << 20,
        buffer_bytes: 8 << 20,
        checkpoint_bytes: 8 << 10,
        ..CentralOptions::default()
    };
    let log: Central<_, Host> =
        Central::create(&files, "log-", log_options, Arc::default()).expect("a log");
    let log = Arc::new(log);
    let store = Store::create(&files, "", 1, log, with_thread(64), &TREES).expect("a store");
    let mut session = store.session();
    insert(&mut session, 0..20);
    let update = |session: &mut TestSession, number: u64| {
        session.begin(number, None);
        let row = [number as u8; 60];
        session.update(TREES[0], &(number % 20).to_be_bytes(), &row)?;
        session.commit()
    };
    for number in 0..200 {
        let at = update(&mut session, number).expect("updated");
        store.wait(at).expect("durable");
    }
    store.checkpoint().expect("a checkpoint");
    // From now on only the thread calls the medium: rows stay in their pages, and no thread waits
    // for a commit.
    files.fail_after(Some(0));
    let refused = (0..100_000_u64).find_map(|number| update(&mut session, number).err());
    let refused = refused.expect("the store stops");
    // The session itself calls the medium where the thread has not come to it for long.
    let said = refused.to_string();
    assert!(
        ["writing the log", "reserving space of the log"].iter().any(|one| said.contains(one)),
        "{said}"
    );
    until("the store has stopped", || store.check_running().is_err());
    let PagedError::Stopped { why } = store.check_running().expect_err("stopped") else { panic!() };
    assert!(why.contains("writing the log"), "{why}");
    files.fail_after(None);
    assert!(matches!(store.close(), Err(PagedError::Stopped { .. })));
}
