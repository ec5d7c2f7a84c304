//! The log that a restart reads is bounded by the threshold of checkpoints, whatever the data and
//! whenever the kill: in records, not in time.

use std::sync::Arc;

use paged::log::central::{Central, CentralOptions};
use paged::recovery::Restarted;
use paged::store::{Restart, Store, StoreOptions};
use paged::threads::Host;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::RecordingFiles;

use super::support::{TREES, TestStore, check, contents, options};

/// Bytes of log after which a checkpoint is due.
const THRESHOLD: u64 = 4 << 10;
const FRAMES: usize = 24;
const ROW_BYTES: usize = 60;
/// A transaction has two records, of which the change has the row before and afterwards, and each
/// record has a header of 64 bytes.
const LEAST_TRANSACTION_BYTES: u64 = 64 + 64 + 2 * ROW_BYTES as u64;
/// The bytes that one transaction may append at most, with splits and with a checkpoint of its own.
const MOST_STEP_BYTES: u64 = 2 << 10;

/// Records that a restart reads at most that has `thresholds` of log, and in which two parts of a
/// checkpoint came too late: its frames are one batch.
fn most_records(thresholds: u64) -> u64 {
    2 * (thresholds * THRESHOLD + 2 * MOST_STEP_BYTES) / LEAST_TRANSACTION_BYTES
}

fn log_options() -> CentralOptions {
    CentralOptions {
        partitions: 4,
        partition_bytes: 64 << 10,
        buffer_bytes: 64 << 10,
        group_bytes: 16 << 10,
        record_bytes: 2048,
        reserve_bytes: 4096,
        checkpoint_bytes: THRESHOLD,
        group_wait: std::time::Duration::ZERO,
    }
}

fn store_options(background: bool) -> StoreOptions {
    StoreOptions { background, restart: Restart::OnDemand, ..options(FRAMES) }
}

fn open(files: &RecordingFiles, background: bool) -> (Arc<TestStore>, Restarted) {
    let log: Central<_, Host> =
        Central::open(files, "log-", log_options(), Arc::default()).unwrap();
    Store::open(files, "", Arc::new(log), store_options(background)).unwrap()
}

/// A store with so many rows.
fn loaded(files: &RecordingFiles, rows: u32, background: bool) -> Arc<TestStore> {
    let log: Central<_, Host> =
        Central::create(files, "log-", log_options(), Arc::default()).unwrap();
    let options = store_options(background);
    let store = Store::create(files, "", 77, Arc::new(log), options, &TREES).unwrap();
    let mut session = store.session();
    for row in 0..rows {
        session.begin(1, None);
        session.insert(TREES[0], &row.to_be_bytes(), &[0; ROW_BYTES]).unwrap();
        let at = session.commit().unwrap();
        store.wait(at).unwrap();
    }
    store
}

/// Gives a row other bytes, all of them, durably.
fn update(store: &Arc<TestStore>, random: &mut StdRng, rows: u32, round: u8) {
    let mut session = store.session();
    session.begin(1, None);
    let key = random.random_range(0..rows).to_be_bytes();
    let before = session.get_for_update(TREES[0], &key).unwrap().unwrap()[0];
    let after = if before == round { !round } else { round };
    session.update(TREES[0], &key, &[after; ROW_BYTES]).unwrap();
    let at = session.commit().unwrap();
    store.wait(at).unwrap();
}

fn killed(files: &RecordingFiles) -> RecordingFiles {
    RecordingFiles::from_image(files.image())
}

#[test]
fn a_kill_at_any_time_leaves_a_bounded_log_whatever_the_data() {
    for (background, thresholds) in [(false, 2), (true, 3)] {
        for rows in [100, 2_000] {
            let (files, mut random) = (RecordingFiles::new(), StdRng::seed_from_u64(7));
            let store = loaded(&files, rows, background);
            let mut most = 0;
            for round in 0..200 {
                update(&store, &mut random, rows, round);
                let copy = killed(&files);
                let (again, restarted) = open(&copy, false);
                most = most.max(restarted.analysed);
                if round % 50 == 49 {
                    check(&again, &contents(&store).unwrap()).unwrap();
                }
            }
            let bound = most_records(thresholds);
            println!("{rows} rows, thread: {background}: at most {most} records, bound {bound}");
            assert!(most <= bound, "{rows} rows, thread: {background}: {most} records of {bound}");
            assert!(
                most * LEAST_TRANSACTION_BYTES > THRESHOLD,
                "checkpoints come when they are due"
            );
        }
    }
}

/// Each program dies after its first transaction, long before it has redone everything and taken a
/// checkpoint.
#[test]
fn kills_one_after_the_other_do_not_make_the_log_longer_and_longer() {
    for background in [false, true] {
        let (mut files, mut random) = (RecordingFiles::new(), StdRng::seed_from_u64(7));
        drop(loaded(&files, 2_000, false));
        let mut most = 0;
        for round in 0..150 {
            files = killed(&files);
            let (store, restarted) = open(&files, background);
            most = most.max(restarted.analysed);
            update(&store, &mut random, 2_000, round);
            files = killed(&files);
        }
        let bound = most_records(3);
        println!("thread: {background}: at most {most} records, bound {bound}");
        assert!(most <= bound, "thread: {background}: {most} records of {bound}");
    }
}
