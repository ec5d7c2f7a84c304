//! A store over the NV log with a transaction that stays open while others use the ring many times: what
//! it may need to be undone moves to a file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use paged::ids::Lsn;
use paged::log::LogManager;
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::store::{Restart, Store, StoreOptions};
use paged::threads::Host;
use paged::tree::Direction;
use paged::{PagedError, Result};
use pm::{Memory, Site};
use sim::{DiskEvent, DiskReplay, DiskTrace, Recording, RecordingFiles};

use super::support::{Model, TREES, TestSession, TestStore, check, options, rows};

const AT: u64 = 64;
const LIMIT: u64 = 1 << 20;
const FRAMES: usize = 16;
const FORM: NvForm = NvForm { entries: 256, segments: 32, segment_bytes: 8192, record_bytes: 2048 };

fn log_options(persist: Persist) -> NvOptions {
    NvOptions { persist, lanes: 2, checkpoint_records: 100 }
}

fn over(log: NvLog<Recording, Host>, files: &RecordingFiles) -> Arc<dyn LogManager> {
    log.keep_cold_in(files, "cold".into(), 7).unwrap();
    Arc::new(log)
}

fn create(files: &RecordingFiles, persist: Persist) -> (Recording, Arc<TestStore>) {
    let memory = Recording::new(LIMIT).unwrap();
    memory.grow(AT + FORM.bytes()).unwrap();
    let options_of = log_options(persist);
    let log = NvLog::create(memory.clone(), AT, FORM, 7, options_of, Arc::default());
    let log = over(log, files);
    (memory, Store::create(files, "", 77, log, options(FRAMES), &TREES).unwrap())
}

fn open(memory: &Recording, files: &RecordingFiles, persist: Persist) -> Result<Arc<TestStore>> {
    let log = NvLog::open(memory.clone(), AT, 7, log_options(persist), Arc::default())?;
    Ok(Store::open(files, "", over(log, files), options(FRAMES))?.0)
}

/// Keys of the transaction that stays open, and of the others.
const OLD: u8 = 1;
const BUSY: u8 = 2;

fn insert(session: &mut TestSession, model: &mut Model, key: u8, row: &[u8]) {
    session.insert(TREES[0], &[key], row).unwrap();
    model.insert(vec![key], row.to_vec());
}

fn commit(store: &TestStore, session: &mut TestSession) {
    let at = session.commit().unwrap();
    store.wait(at).unwrap();
}

/// A store with a row for each, and the open transaction, which has changed its own three times.
fn with_old(store: &Arc<TestStore>) -> (TestSession, [Model; 2]) {
    let mut models = [Model::new(), Model::new()];
    let mut session = store.session();
    session.begin(1, None);
    for key in [OLD, BUSY] {
        insert(&mut session, &mut models[0], key, &[0; 20]);
    }
    commit(store, &mut session);
    session.begin(2, None);
    for round in 1..4 {
        session.update(TREES[0], &[OLD], &[round; 30]).unwrap();
    }
    (session, models)
}

/// So many other transactions.
fn busy(store: &Arc<TestStore>, models: &mut [Model; 2], transactions: u64) -> Result<()> {
    let mut session = store.session();
    let first = store.log().end().0;
    for number in first..first + transactions {
        session.begin(3 + number, None);
        let row = vec![number as u8; 20 + number as usize % 7];
        session.update(TREES[0], &[BUSY], &row)?;
        commit(store, &mut session);
        models[0].insert(vec![BUSY], row);
    }
    Ok(())
}

/// Bytes of the file of cold records.
fn cold_bytes(files: &RecordingFiles) -> usize {
    files.image().get("cold").map_or(0, Vec::len)
}

#[test]
fn a_transaction_that_stays_open_does_not_hold_the_ring() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        for commits in [false, true] {
            let files = RecordingFiles::new();
            let (memory, store) = create(&files, persist);
            let (mut old, mut models) = with_old(&store);
            busy(&store, &mut models, 1000).unwrap();
            assert!(store.log().end().0 > 7 * FORM.entries, "many rounds");
            let cold = cold_bytes(&files);
            assert!(cold > 16 + 3 * 64, "its records, in {cold} bytes");
            // It goes on: old records and new ones are undone together.
            old.update(TREES[0], &[OLD], &[9; 31]).unwrap();
            if commits {
                commit(&store, &mut old);
                models[0].insert(vec![OLD], vec![9; 31]);
            } else {
                old.abort().unwrap();
            }
            check(&store, &models).unwrap();
            store.checkpoint().unwrap();
            assert_eq!(cold_bytes(&files), 16, "nothing needs them any more");
            drop((old, store));
            check(&open(&memory, &files, persist).unwrap(), &models).unwrap();
        }
    }
}

/// The disk is full when a checkpoint wants to put records by: the log slows writers and then refuses
/// them, with the reason. Nothing is lost, and they go on when there is space again, or when the
/// transaction ends.
#[test]
fn a_full_disk_that_takes_no_cold_records_refuses_writers_until_it_has_room() {
    for (persist, ends) in [
        (Persist::OnInsert, false),
        (Persist::OnInsert, true),
        (Persist::OnCommit, false),
        (Persist::OnCommit, true),
    ] {
        let files = RecordingFiles::new();
        let (memory, store) = create(&files, persist);
        let (mut old, mut models) = with_old(&store);
        let used = files.image().values().map(|bytes| bytes.len() as u64).sum();
        files.limit(Some(used));
        let mut refused = 0;
        while refused < 3 {
            match busy(&store, &mut models, 1) {
                Ok(()) => {
                    assert!(store.log().end().0 < 3 * FORM.entries, "{persist:?}: never full");
                }
                Err(error @ PagedError::NoSpaceForCold { .. }) => {
                    assert!(error.to_string().contains("space"), "{persist:?}: {error}");
                    refused += 1;
                }
                Err(error) => panic!("{persist:?}: {error}"),
            }
        }
        let mut session = store.session();
        session.begin(u64::MAX, None);
        let found = session.get(TREES[0], &[BUSY]).unwrap();
        assert_eq!(found.as_ref(), models[0].get(&[BUSY][..]), "{persist:?}");
        commit(&store, &mut session);
        // Killed now, it is what was acknowledged, without the open transaction.
        let again = Recording::from_image(&memory.contents(), LIMIT).unwrap();
        let again = open(&again, &RecordingFiles::from_image(files.image()), persist).unwrap();
        check(&again, &models).unwrap();
        drop(again);
        if ends {
            old.abort().unwrap();
            busy(&store, &mut models, 300).unwrap();
            files.limit(None);
        } else {
            files.limit(None);
            busy(&store, &mut models, 300).unwrap();
            old.abort().unwrap();
        }
        check(&store, &models).unwrap();
        drop((old, store));
        check(&open(&memory, &files, persist).unwrap(), &models).unwrap();
    }
}

/// The file takes nothing once, or for some time: the ring keeps what it has and that is tried
/// again, and each attempt that failed is counted, though no caller has to know.
#[test]
fn each_call_that_fails_while_records_are_put_by_is_counted_and_loses_nothing() {
    let (mut of_cold, mut counted) = (BTreeSet::new(), 0);
    for (persist, point) in [Persist::OnInsert, Persist::OnCommit]
        .into_iter()
        .flat_map(|of| (0..40).map(move |at| (of, at)))
    {
        let files = RecordingFiles::new();
        let (memory, store) = create(&files, persist);
        let (old, mut models) = with_old(&store);
        files.fail_once_after(point);
        let mut done = true;
        while done && files.refused().is_none() {
            done = busy(&store, &mut models, 1).is_ok();
        }
        let site = files.refused().expect("one call has failed");
        // If the call failed in the background work of a transaction that succeeded, the store has
        // stopped.
        let goes_on = done && busy(&store, &mut models, 1).is_ok();
        let is_retried = site.file().ends_with("nv/cold.rs") && goes_on;
        assert_eq!(store.log().counts().failures, u64::from(is_retried), "{persist:?}: {site}");
        if is_retried {
            busy(&store, &mut models, 300).unwrap();
            assert_eq!(store.log().counts().failures, 1, "{persist:?}: {site}");
            of_cold.insert((site.line(), site.column()));
            counted += 1;
        }
        drop((old, store));
        files.fail_after(None);
        let store = open(&memory, &files, persist).unwrap();
        check(&store, &models).unwrap();
        store.checkpoint().unwrap();
        assert!(cold_bytes(&files) <= 16, "{persist:?}: {site}: its space is not given back");
    }
    assert!(of_cold.len() >= 4 && counted >= 8, "{of_cold:?}, {counted}");
}

/// The bytes of files by their names.
type Image = BTreeMap<String, Vec<u8>>;

/// The files of a power cut after the last event of a trace, in several states.
fn states_at_the_end(trace: &DiskTrace, visit: &mut dyn FnMut(&Image)) {
    let mut replay = DiskReplay::new(trace);
    while let Some(point) = replay.next_point() {
        if point.last_note.is_some() {
            point.for_each_state(6, 1, &mut *visit);
        }
    }
}

/// The power fails between two transactions; of the files only what was synced has to be there.
#[test]
fn after_a_power_cut_it_is_undone_from_the_file() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let files = RecordingFiles::new();
        let (memory, store) = create(&files, persist);
        let (old, mut models) = with_old(&store);
        let (mut states, mut from_file, mut noticed) = (0, 0, 0);
        for _ in 0..300 {
            files.start();
            busy(&store, &mut models, 1).unwrap();
            files.note(1);
            let trace = files.stop();
            let contents = memory.contents();
            let recovered = |image: &Image| -> std::result::Result<(), String> {
                let memory = Recording::from_image(&contents, LIMIT).unwrap();
                let files = RecordingFiles::from_image(image.clone());
                let store = open(&memory, &files, persist).map_err(|error| error.to_string())?;
                check(&store, &models)
            };
            states_at_the_end(&trace, &mut |image| {
                assert_eq!(recovered(image), Ok(()));
                from_file += u32::from(image.contains_key("cold"));
                states += 1;
            });
            let of_cold = |site: &Site| site.file().ends_with("nv/cold.rs");
            for site in trace.sync_sites().into_iter().filter(of_cold) {
                states_at_the_end(&trace.without_syncs_of(site), &mut |image| {
                    noticed += u32::from(recovered(image).is_err());
                });
            }
        }
        println!(
            "{persist:?}: {states} states, {from_file} with the file, {noticed} without a sync"
        );
        assert!(states >= 300 && from_file > 150 && noticed > 0);
        drop((old, store));
    }
}

/// The memory of a program at the moment at which it dies.
type AtDeath = Arc<Mutex<Option<Vec<u8>>>>;

/// Lets a program die at its `number`-th call to the file of cold records, and nothing is written any more.
fn die_at(files: &RecordingFiles, memory: &Recording, number: u64) -> AtDeath {
    let (at_death, left) = (AtDeath::default(), AtomicU64::new(number + 1));
    let (of, noted, memory) = (files.clone(), Arc::clone(&at_death), memory.clone());
    files.call_before_each(move |site| {
        if site.file().ends_with("nv/cold.rs") && left.fetch_sub(1, Ordering::Relaxed) == 1 {
            *noted.lock().unwrap() = Some(memory.contents());
            of.fail_after(Some(0));
        }
    });
    at_death
}

/// Runs a store, whose files are recorded from the begin on, until it dies at that call. Returns them, as
/// the system has them, and the memory; `None` if there are not so many calls.
fn died(persist: Persist, number: u64) -> Option<(RecordingFiles, Vec<u8>)> {
    let files = RecordingFiles::new();
    files.start();
    let (memory, store) = create(&files, persist);
    let (mut old, mut models) = with_old(&store);
    for round in 4..16 {
        old.update(TREES[0], &[OLD], &[round; 90]).unwrap();
    }
    let at_death = die_at(&files, &memory, number);
    while store.log().kept() <= Lsn(FORM.entries) && busy(&store, &mut models, 1).is_ok() {}
    drop((old, store));
    let contents = at_death.lock().unwrap().take()?;
    files.call_before_each(|_| {});
    files.fail_after(None);
    Some((files, contents))
}

/// Opens what a program has left so that transactions are undone after the checkpoint that is overdue.
fn open_beside(memory: &Recording, files: &RecordingFiles, persist: Persist) -> Arc<TestStore> {
    let of_log = NvOptions { checkpoint_records: 20, ..log_options(persist) };
    let log = NvLog::open(memory.clone(), AT, 7, of_log, Arc::default()).unwrap();
    let background =
        StoreOptions { background: true, restart: Restart::OnDemand, ..options(FRAMES) };
    Store::open(files, "", over(log, files), background).unwrap().0
}

/// The transaction that was open is undone, and nothing else is harmed.
fn check_undone(contents: &[u8], image: &Image, persist: Persist) {
    let memory = Recording::from_image(contents, LIMIT).unwrap();
    let store = open_beside(&memory, &RecordingFiles::from_image(image.clone()), persist);
    store.check().unwrap();
    let rows = rows(&store, TREES[0], Direction::Forward).unwrap();
    assert_eq!((rows.len(), &rows[0]), (2, &(vec![OLD], vec![0; 20])), "{persist:?}");
}

/// The power fails before cold records are synced: of the sectors with them any may be there.
#[test]
fn cold_records_of_which_a_power_cut_has_left_some_are_put_by_again() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let mut some = 0;
        for number in 0.. {
            let Some((files, contents)) = died(persist, number) else { break };
            files.note(1);
            states_at_the_end(&files.stop(), &mut |image| {
                check_undone(&contents, image, persist);
                let cold = image.get("cold").map_or(&[][..], |cold| cold);
                let is_there = |sector: &[u8]| sector.iter().any(|byte| *byte != 0);
                let sectors: Vec<bool> = cold.chunks(512).map(is_there).collect();
                some += u32::from(sectors.contains(&true) && sectors.contains(&false));
            });
        }
        assert!(some > 0, "{persist:?}");
    }
}

/// A program is killed while it puts records by. The next one undoes their transaction from the ring, and
/// nothing needs the file.
#[test]
fn a_kill_leaves_no_space_to_cold_records() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let mut left = 0;
        for number in 0.. {
            let Some((files, contents)) = died(persist, number) else { break };
            left += u32::from(cold_bytes(&files) > 16);
            let memory = Recording::from_image(&contents, LIMIT).unwrap();
            let store = open(&memory, &files, persist).unwrap();
            store.checkpoint().unwrap();
            assert!(cold_bytes(&files) <= 16, "{persist:?}, call {number}: it stays for ever");
        }
        assert!(left > 0, "{persist:?}");
    }
}

/// A program is killed before cold records are synced, or their file's name, or the sync fails; the next
/// one moves the head, and then the power fails.
#[test]
fn cold_records_that_are_in_the_caches_alone_are_not_relied_on() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let mut cut = 0;
        for number in 0.. {
            let Some((files, contents)) = died(persist, number) else { break };
            let memory = Recording::from_image(&contents, LIMIT).unwrap();
            let (behind, noted) = (AtDeath::default(), files.clone());
            let (of_cut, seen) = (Arc::clone(&behind), memory.clone());
            memory.call_before_each(move |site| {
                // The head has moved, and the bits that it has passed are cleared.
                let is_clearing = site.file().ends_with("nv/ring.rs");
                let mut behind = of_cut.lock().unwrap();
                if is_clearing && behind.is_none() {
                    *behind = Some(seen.contents());
                    noted.note(1);
                }
            });
            drop(open_beside(&memory, &files, persist));
            let contents = behind.lock().unwrap().take().expect("the head has moved");
            let trace = files.stop();
            let killed =
                trace.without(|record| matches!(record.event, DiskEvent::FailedSync { .. }));
            for trace in [trace, killed] {
                let mut replay = DiskReplay::new(&trace);
                while let Some(point) = replay.next_point() {
                    if point.last_note.is_some() {
                        point.for_each_state(6, 1, |image| {
                            check_undone(&contents, image, persist);
                            cut += 1;
                        });
                        break;
                    }
                }
            }
        }
        assert!(cut > 0, "{persist:?}");
    }
}

/// The records of one open transaction are in the file when another one's are moved there.
#[test]
fn records_of_two_open_transactions_stay_in_the_file() {
    const LATE: [u8; 2] = [3, 4];
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let files = RecordingFiles::new();
        let (memory, store) = create(&files, persist);
        let (mut old, mut models) = with_old(&store);
        let mut session = store.session();
        session.begin(3, None);
        for key in LATE {
            insert(&mut session, &mut models[0], key, &[0; 20]);
        }
        commit(&store, &mut session);
        busy(&store, &mut models, 300).unwrap();
        let mut late = LATE.map(|key| {
            let mut late = store.session();
            late.begin(u64::MAX - u64::from(key), None);
            late.update(TREES[0], &[key], &[9; 30]).unwrap();
            busy(&store, &mut models, 300).unwrap();
            late
        });
        // Killed now, all three are undone; and so they are without.
        let again = Recording::from_image(&memory.contents(), LIMIT).unwrap();
        let again = open(&again, &RecordingFiles::from_image(files.image()), persist).unwrap();
        check(&again, &models).unwrap();
        old.abort().unwrap();
        late.iter_mut().for_each(|late| late.abort().unwrap());
        check(&store, &models).unwrap();
    }
}
