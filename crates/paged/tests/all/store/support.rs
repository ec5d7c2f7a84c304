//! A small store: pages of 512 bytes, few frames, a log of a few partitions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paged::Result;
use paged::ids::TreeNo;
use paged::latch::Latched;
use paged::lock::LockOptions;
use paged::log::LogManager;
use paged::log::central::{Central, CentralOptions};
use paged::store::{RowBound, RowRange, Session, Store, StoreOptions};
use paged::threads::Host;
use paged::tree::Direction;
use sim::RecordingFiles;

pub(crate) type TestStore = Store<RecordingFiles>;
pub(crate) type TestSession<T = Host> = Session<RecordingFiles, T>;
pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const TREES: [TreeNo; 2] = [TreeNo(1), TreeNo(2)];
pub(crate) const ALL: RowRange<'static> =
    RowRange { low: RowBound::Unbounded, high: RowBound::Unbounded };

pub(crate) fn options(frames: usize) -> StoreOptions {
    let timeout = Duration::from_secs(20);
    let locks = LockOptions { shards: 4, timeout, ..LockOptions::default() };
    let room_wait = Duration::from_millis(20);
    StoreOptions { page_bytes: 512, frames, locks, room_wait, ..StoreOptions::default() }
}

fn log_options(partition_bytes: u64) -> CentralOptions {
    CentralOptions {
        partitions: 4,
        partition_bytes,
        buffer_bytes: 64 << 10,
        group_bytes: 16 << 10,
        record_bytes: 2048,
        reserve_bytes: 4096,
        checkpoint_bytes: partition_bytes,
        group_wait: Duration::ZERO,
    }
}

/// The log of a store that is not open, for tests that append to it.
pub(crate) fn open_log(files: &RecordingFiles, partition: u64) -> Central<RecordingFiles, Host> {
    Central::open(files, "log-", log_options(partition), Arc::default()).expect("a log")
}

pub(crate) fn create(files: &RecordingFiles, frames: usize, partition: u64) -> Arc<TestStore> {
    create_by(Arc::default(), files, frames, partition)
}

/// A store that waits by `threads`, and so does its log.
pub(crate) fn create_by<T: Latched>(
    threads: Arc<T>,
    files: &RecordingFiles,
    frames: usize,
    partition: u64,
) -> Arc<Store<RecordingFiles, T>> {
    let log = Central::create(files, "log-", log_options(partition), Arc::clone(&threads));
    let log = Arc::new(log.expect("a log"));
    Store::create_by(threads, files, "", 77, log, options(frames), &TREES).expect("a store")
}

pub(crate) fn create_with(
    files: &RecordingFiles,
    partition: u64,
    options: StoreOptions,
) -> Arc<TestStore> {
    let log: Central<_, Host> =
        Central::create(files, "log-", log_options(partition), Arc::default()).expect("a log");
    Store::create(files, "", 77, Arc::new(log), options, &TREES).expect("a store")
}

pub(crate) fn open(
    files: &RecordingFiles,
    frames: usize,
    partition: u64,
) -> Result<Arc<TestStore>> {
    open_with(files, partition, options(frames))
}

pub(crate) fn open_with(
    files: &RecordingFiles,
    partition: u64,
    options: StoreOptions,
) -> Result<Arc<TestStore>> {
    let log: Central<_, Host> =
        Central::open(files, "log-", log_options(partition), Arc::default())?;
    let log: Arc<dyn LogManager> = Arc::new(log);
    Ok(Store::open(files, "", log, options)?.0)
}

/// All rows of a tree, in a transaction of their own.
pub(crate) fn rows(
    store: &Arc<TestStore>,
    tree: TreeNo,
    direction: Direction,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut session = store.session();
    session.begin(0, None);
    let mut rows = Vec::new();
    session.scan(tree, &ALL, direction, &mut |key, row| {
        rows.push((key.to_vec(), row.to_vec()));
        Ok(true)
    })?;
    let seen = session.commit()?;
    store.wait(seen)?;
    Ok(rows)
}

/// The contents of both trees.
pub(crate) fn contents(store: &Arc<TestStore>) -> Result<[Model; 2]> {
    let of = |tree| Ok(rows(store, tree, Direction::Forward)?.into_iter().collect());
    Ok([of(TREES[0])?, of(TREES[1])?])
}

pub(crate) fn check(
    store: &Arc<TestStore>,
    models: &[Model; 2],
) -> std::result::Result<(), String> {
    for (tree, model) in TREES.into_iter().zip(models) {
        let found = rows(store, tree, Direction::Forward).map_err(|error| error.to_string())?;
        let wanted: Vec<_> = model.iter().map(|(key, row)| (key.clone(), row.clone())).collect();
        if found != wanted {
            return Err(format!("{tree} has {} rows of {}", found.len(), wanted.len()));
        }
    }
    let checked = store.pool().check().map_err(|error| error.to_string())?;
    if checked.lost != 0 {
        return Err(format!("{} pages are lost", checked.lost));
    }
    Ok(())
}
