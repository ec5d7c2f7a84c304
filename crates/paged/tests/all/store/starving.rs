//! Transactions that together want more log than there is: one has to end, at once, and no time
//! decides it. Waits last an hour here.

use std::sync::Arc;
use std::time::Duration;

use paged::ids::TxNo;
use paged::log::central::{Central, CentralOptions};
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::log::{Chain, LogManager};
use paged::store::{Store, StoreOptions};
use paged::threads::Host;
use paged::{Conflict, PagedError};
use parking_lot::Mutex;
use pm::Memory;
use sim::{Recording, RecordingFiles};

use super::support::{Model, TREES, TestSession, TestStore, check, options};

const AT: u64 = 64;
const FORM: NvForm = NvForm { entries: 256, segments: 32, segment_bytes: 8192, record_bytes: 2048 };
const THREADS: u64 = 4;

/// The transactions of a test.
#[derive(Clone, Copy)]
struct Work {
    row_bytes: usize,
    /// Rows that each inserts at most before all go on at the same time.
    first: u64,
    /// Rows that each inserts then: none finds enough room for them in a log that is nearly full.
    then: u64,
}

const FULL: Work = Work { row_bytes: 60, first: 100, then: 30 };
/// Each row has a page of its own.
const LONG: Work = Work { row_bytes: 140, first: 6, then: 16 };

const ROUNDS: u64 = 6;
const HOUR: Duration = Duration::from_secs(3600);

fn patient(background: bool) -> StoreOptions {
    let mut options = StoreOptions { background, room_wait: HOUR, ..options(64) };
    options.locks.timeout = HOUR;
    options
}

fn nv_log(files: &RecordingFiles, persist: Persist, cold: bool) -> Arc<dyn LogManager> {
    let memory = Recording::new(1 << 20).expect("address space");
    memory.grow(AT + FORM.bytes()).expect("within its limit");
    let of = NvOptions { persist, lanes: 4, checkpoint_records: 100 };
    let log = NvLog::create(memory, AT, FORM, 7, of, Arc::<Host>::default());
    if cold {
        log.keep_cold_in(files, "cold".into(), 7).expect("nothing is cold");
    }
    Arc::new(log)
}

fn central_log(files: &RecordingFiles) -> Arc<dyn LogManager> {
    let options = CentralOptions {
        partitions: 4,
        partition_bytes: 10 << 10,
        buffer_bytes: 64 << 10,
        group_bytes: 16 << 10,
        record_bytes: 1024,
        reserve_bytes: 4096,
        checkpoint_bytes: 8 << 10,
        group_wait: Duration::ZERO,
    };
    let log: Central<_, Host> =
        Central::create(files, "log-", options, Arc::default()).expect("a log");
    Arc::new(log)
}

fn key(thread: u64, round: u64, row: u64) -> Vec<u8> {
    [thread, round, row].map(|number| number as u8).to_vec()
}

/// Returns whether the log has room for a few rows and their pages.
fn has_room(store: &TestStore) -> bool {
    let mut chain = Chain::new(TxNo(u64::MAX));
    let reserved = store.log().reserve(&mut chain, 1216);
    store.log().unreserve(&mut chain);
    reserved.is_ok()
}

fn insert(session: &mut TestSession, key: &[u8], row_bytes: usize) -> paged::Result<()> {
    session.insert(TREES[0], key, &vec![1; row_bytes])
}

/// Goes on with an open transaction until it is committed. If it has to end it is run again, one
/// such at a time. Returns the number of runs that were ended.
fn finish(
    mut session: TestSession,
    keys: &[Vec<u8>],
    from: usize,
    alone: &Mutex<()>,
    row_bytes: usize,
    age: u64,
) -> u64 {
    let (mut ended, mut from, mut turn) = (0, from, None);
    loop {
        match keys[from..].iter().try_for_each(|key| insert(&mut session, key, row_bytes)) {
            Ok(()) => {
                session.commit().expect("committed");
                return ended;
            }
            Err(PagedError::Conflict(Conflict::Room)) => {
                session.abort().expect("aborted");
                ended += 1;
                turn.get_or_insert_with(|| alone.lock());
                session.begin(age, None);
                from = 0;
            }
            Err(error) => panic!("age {age}: {error}"),
        }
    }
}

fn starve(log: Arc<dyn LogManager>, files: &RecordingFiles, background: bool, work: Work) -> u64 {
    let store = Store::create(files, "", 77, log, patient(background), &TREES).expect("a store");
    let (mut rows, mut victims) = (Model::new(), 0);
    for round in 0..ROUNDS {
        let mut sessions: Vec<_> = (0..THREADS).map(|_| store.session()).collect();
        sessions.iter_mut().zip(1..).for_each(|(session, age)| session.begin(age, None));
        let mut first = 0;
        while first < work.first && has_room(&store) {
            for (session, thread) in sessions.iter_mut().zip(0..) {
                insert(session, &key(thread, round, first), work.row_bytes).expect("there is room");
            }
            first += 1;
        }
        let alone = Mutex::default();
        let keys: Vec<Vec<Vec<u8>>> = (0..THREADS)
            .map(|thread| (0..first + work.then).map(|row| key(thread, round, row)).collect())
            .collect();
        victims += std::thread::scope(|scope| {
            let running: Vec<_> = (sessions.into_iter().zip(&keys).zip(1..))
                .map(|((session, keys), age)| {
                    let alone = &alone;
                    scope.spawn(move || {
                        finish(session, keys, first as usize, alone, work.row_bytes, age)
                    })
                })
                .collect();
            running.into_iter().map(|one| one.join().expect("no panic")).sum::<u64>()
        });
        rows.extend(keys.into_iter().flatten().map(|key| (key, vec![1; work.row_bytes])));
    }
    assert_eq!(store.room_victims(), victims, "each was told");
    assert_eq!((store.lock_counts().timeouts, store.lock_counts().victims), (0, 0));
    check(&store, &[rows, Model::new()]).unwrap();
    victims
}

#[test]
fn of_transactions_that_fill_a_ring_together_one_ends_at_once() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        for background in [true, false] {
            let files = RecordingFiles::new();
            let victims = starve(nv_log(&files, persist, false), &files, background, FULL);
            assert!(victims >= ROUNDS, "none of the four can go on, in no round: {victims}");
        }
    }
}

/// Records that only open transactions need leave the ring. A row that finds too little room takes
/// a part back, and sets more aside.
#[test]
fn all_end_where_cold_records_leave_the_ring_and_rows_are_long() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let files = RecordingFiles::new();
        starve(nv_log(&files, persist, true), &files, true, LONG);
    }
}

/// A transaction that holds room waits for the lock of another one, which waits for room.
fn chain_of_waits(log: Arc<dyn LogManager>, files: &RecordingFiles) {
    let store = Store::create(files, "", 77, log, patient(true), &TREES).expect("a store");
    let (mut old, mut young) = (store.session(), store.session());
    old.begin(1, None);
    young.begin(2, None);
    young.insert(TREES[1], b"wanted", b"row").expect("inserted");
    // It holds half of the log: the other one fills the rest before it has as much.
    let half = (0..1000).find_map(|row| old.insert(TREES[0], &key(0, 0, row), &[0; 100]).err());
    assert!(matches!(half, Some(PagedError::TransactionTooLarge { .. })), "{half:?}");
    std::thread::scope(|scope| {
        // Dropped with a panic, so that no thread waits for it.
        let mut young = young;
        let waits = scope.spawn(move || {
            // It holds room, and reads the row when the other has ended.
            let found = old.get(TREES[1], b"wanted")?;
            old.commit().map(|_| found)
        });
        let refused =
            (0..1000).find_map(|row| young.insert(TREES[0], &key(1, 0, row), &[1; 100]).err());
        let refused = refused.expect("the log is full");
        assert!(matches!(refused, PagedError::Conflict(Conflict::Room)), "{refused}");
        young.abort().expect("aborted");
        assert_eq!(waits.join().expect("no panic").expect("committed"), None);
    });
    assert_eq!((store.room_victims(), store.lock_counts().victims), (1, 0));
}

#[test]
fn who_waits_for_a_lock_of_one_that_starves_starves_with_it() {
    let files = RecordingFiles::new();
    chain_of_waits(central_log(&files), &files);
}

/// The oldest record's transaction rests while others want room: it may be ended, so they wait, and
/// get an error in the end.
#[test]
fn nobody_is_a_victim_while_one_that_holds_room_is_busy_elsewhere() {
    let files = RecordingFiles::new();
    let of = StoreOptions { room_wait: Duration::from_millis(5), ..patient(true) };
    let store = Store::create(&files, "", 77, central_log(&files), of, &TREES).expect("a store");
    let mut idle = store.session();
    idle.begin(1, None);
    idle.insert(TREES[1], b"idle", b"row").expect("inserted");
    let mut session = store.session();
    let refused = (0..1000).find_map(|number| {
        session.begin(2, None);
        let inserted = session.insert(TREES[0], &key(0, 0, number), &[1; 100]);
        match &inserted {
            Ok(()) => drop(session.commit().expect("committed")),
            Err(_) => session.abort().expect("aborted"),
        }
        inserted.err()
    });
    let refused = refused.expect("the log is full");
    let is_told =
        matches!(refused, PagedError::LogFull { .. } | PagedError::Conflict(Conflict::Room));
    assert!(is_told, "{refused}");
    assert_eq!(store.room_victims(), 0);
    idle.commit().expect("committed");
}
