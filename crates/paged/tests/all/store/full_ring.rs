//! Four threads write much more than a log in persistent memory can hold: every thread waits for
//! room and ends, and nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paged::PagedError;
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::store::{Store, StoreOptions};
use paged::threads::Host;
use pm::Memory;
use sim::{Recording, RecordingFiles};

use super::support::{Model, TREES, TestStore, check, options};

const AT: u64 = 64;
const LIMIT: u64 = 1 << 20;
const FORM: NvForm = NvForm { entries: 256, segments: 32, segment_bytes: 8192, record_bytes: 2048 };
const THREADS: u64 = 4;
const ROUNDS: u64 = 30;
const ROWS: u64 = 10;
const HOUR: Duration = Duration::from_secs(3600);

fn log_options(persist: Persist) -> NvOptions {
    NvOptions { persist, lanes: 4, checkpoint_records: 100 }
}

/// Inserts rows, again where it was in a conflict, until they are committed.
fn round(store: &Arc<TestStore>, ages: &AtomicU64, thread: u64, round: u64) {
    let (mut session, age) = (store.session(), ages.fetch_add(1, Ordering::Relaxed));
    loop {
        session.begin(age, None);
        let done = (0..ROWS).try_for_each(|row| {
            let key = [thread.to_be_bytes(), (round * ROWS + row).to_be_bytes()].concat();
            session.insert(TREES[0], &key, &[round as u8; 100])
        });
        match done {
            Ok(()) => {
                let at = session.commit().expect("committed");
                return store.wait(at).expect("durable");
            }
            Err(PagedError::Conflict(_)) => session.abort().expect("aborted"),
            Err(error) => panic!("thread {thread}, round {round}: {error}"),
        }
    }
}

fn fill_the_ring(persist: Persist, background: bool) {
    let (memory, files) = (Recording::new(LIMIT).unwrap(), RecordingFiles::new());
    memory.grow(AT + FORM.bytes()).unwrap();
    let of = log_options(persist);
    let log = NvLog::create(memory.clone(), AT, FORM, 7, of, Arc::<Host>::default());
    // No time decides anything: see `starving`.
    let of_store = StoreOptions { background, room_wait: HOUR, ..options(64) };
    let store = Store::create(&files, "", 77, Arc::new(log), of_store, &TREES).unwrap();
    let ages = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, ages) = (&store, &ages);
            scope.spawn(move || (0..ROUNDS).for_each(|number| round(store, ages, thread, number)));
        }
    });
    let records = store.log().end().0;
    assert!(records > 4 * FORM.entries, "the ring was filled many times: {records}");
    let (log, image) = (memory.contents(), files.image());
    drop(store);
    let memory = Recording::from_image(&log, LIMIT).unwrap();
    let files = RecordingFiles::from_image(image);
    let written = TestStore::written(&files, "").unwrap();
    let log = NvLog::open_under(memory, AT, 7, of, Arc::<Host>::default(), written).unwrap();
    let (store, _) = Store::open(&files, "", Arc::new(log), options(64)).unwrap();
    let rows = (0..THREADS).flat_map(|thread| (0..ROUNDS * ROWS).map(move |row| (thread, row)));
    let rows = rows.map(|(thread, row)| {
        ([thread.to_be_bytes(), row.to_be_bytes()].concat(), vec![(row / ROWS) as u8; 100])
    });
    check(&store, &[rows.collect(), Model::new()]).unwrap();
}

#[test]
fn a_full_ring_slows_writers_and_loses_nothing() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        fill_the_ring(persist, true);
        fill_the_ring(persist, false);
    }
}
