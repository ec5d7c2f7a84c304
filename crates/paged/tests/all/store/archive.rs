//! The archive of the log and restoring to a point in time: every moment after a base backup,
//! crashes between any two calls to the archive, an archive that fails, and segments that are not
//! whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paged::base::Base;
use paged::file::NewFile;
use paged::ids::{Lsn, PageNo};
use paged::log::archive::{Archive, ArchiveReader};
use paged::log::central::{Central, CentralOptions};
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::log::{Archived, Chain, Clock, Kind, LogManager, Record, TIME_RESOLUTION};
use paged::restore::{Made, restore};
use paged::store::Store;
use paged::threads::Host;
use paged::{Conflict, PagedError, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::{DiskReplay, Recording, RecordingFiles};

use super::crash::change;
use super::support::{Model, TREES, TestStore, check, contents, options};

pub(crate) const STAMP: u64 = 77;
pub(crate) const FRAMES: usize = 16;
pub(crate) const PREFIX: &str = "archive-0-";

pub(crate) type Image = BTreeMap<String, Vec<u8>>;

/// A log, its pages and its archive in three directories.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) files: RecordingFiles,
    pub(crate) archive: RecordingFiles,
    /// Microseconds.
    pub(crate) now: Arc<AtomicU64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Log {
    Central,
    Nv(Persist),
}

pub(crate) fn log_options() -> CentralOptions {
    CentralOptions {
        partitions: 4,
        partition_bytes: 16 << 10,
        buffer_bytes: 64 << 10,
        group_bytes: 16 << 10,
        record_bytes: 2048,
        reserve_bytes: 4096,
        checkpoint_bytes: 16 << 10,
        group_wait: std::time::Duration::ZERO,
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        let now = Arc::new(AtomicU64::new(1_000_000));
        Self { files: RecordingFiles::new(), archive: RecordingFiles::new(), now }
    }

    /// Files that the archive lies in, too: so a crash hits both at once.
    fn of(files: RecordingFiles) -> Self {
        Self { archive: files.clone(), files, ..Self::new() }
    }

    fn in_one() -> Self {
        Self::of(RecordingFiles::new())
    }

    pub(crate) fn clock(&self) -> Clock {
        let now = Arc::clone(&self.now);
        Arc::new(move || now.load(Ordering::Relaxed))
    }

    pub(crate) fn archived(&self, log: Arc<dyn LogManager>) -> Result<Arc<dyn LogManager>> {
        let archive = Archive::open(self.archive.clone(), PREFIX, STAMP)?.with_segments_of(2048);
        Ok(Arc::new(Archived::new(log, archive, (&self.files, ""), self.clock())?))
    }

    pub(crate) fn create(&self, log: Log) -> Arc<TestStore> {
        let threads: Arc<Host> = Arc::default();
        let log: Arc<dyn LogManager> = match log {
            Log::Central => {
                let log = Central::create(&self.files, "log-", log_options(), threads);
                Arc::new(log.expect("a log"))
            }
            Log::Nv(persist) => nv_log(persist),
        };
        let log = self.archived(log).expect("an archive");
        Store::create(&self.files, "", STAMP, log, options(FRAMES), &TREES).expect("a store")
    }

    pub(crate) fn open(&self) -> Result<Arc<TestStore>> {
        let log: Central<_, Host> =
            Central::open(&self.files, "log-", log_options(), Arc::default())?;
        let log = self.archived(Arc::new(log))?;
        Ok(Store::open(&self.files, "", log, options(FRAMES))?.0)
    }

    pub(crate) fn reader(&self) -> Result<ArchiveReader<RecordingFiles>> {
        ArchiveReader::open(self.archive.clone(), PREFIX, STAMP)
    }

    /// A store that is restored, in new files.
    pub(crate) fn restore(&self, base: &Copied, until: Lsn) -> Result<Arc<TestStore>> {
        let (files, options) = (RecordingFiles::new(), options(FRAMES));
        let log: Arc<dyn LogManager> =
            Arc::new(Central::<_, Host>::create(&files, "log-", log_options(), Arc::default())?);
        let made = Made {
            files: &files,
            prefix: "",
            new: NewFile { page_bytes: options.page_bytes, stamp: 88 },
            frames: FRAMES,
            log_start: log.start(),
        };
        let mut pages = base.pages.iter().cloned();
        restore(&made, &base.base, &mut || Ok(pages.next()), self.reader()?, until)?;
        Ok(Store::open(&files, "", log, options)?.0)
    }
}

/// An empty log in persistent memory of its own.
pub(crate) fn nv_log(persist: Persist) -> Arc<dyn LogManager> {
    let form = NvForm::of_bytes(512 << 10, 4096, 2048);
    let memory = Recording::pool(1 << 20, 1 << 22).expect("memory");
    let options = NvOptions { persist, lanes: 2, ..NvOptions::default() };
    let threads: Arc<Host> = Arc::default();
    Arc::new(NvLog::create(memory, 1 << 16, form, 7, options, threads))
}

/// A base backup in memory.
#[derive(Clone, Debug)]
pub(crate) struct Copied {
    pub(crate) base: Base,
    pub(crate) pages: Vec<(PageNo, Vec<u8>)>,
}

pub(crate) fn copy(store: &TestStore) -> Copied {
    let mut pages = Vec::new();
    let base = store.copy_base(&mut |number, bytes| {
        pages.push((number, bytes.to_vec()));
        Ok(())
    });
    Copied { base: base.expect("a base backup"), pages }
}

/// The contents after each commit, and where it is in the log.
pub(crate) type Commits = Vec<(Lsn, u64, [Model; 2])>;

/// Transactions of two sessions, one of which stays open over several of the other's.
pub(crate) fn run(
    home: &Home,
    store: &Arc<TestStore>,
    random: &mut StdRng,
    commits: &mut Commits,
    many: u64,
) {
    let mut model = commits.last().map_or_else(Default::default, |last| last.2.clone());
    let mut open = store.session();
    for number in 0..many {
        if number % 8 == 2 {
            open.begin(0, None);
            open.insert(TREES[0], &[255, number as u8], &[9; 900]).expect("inserted");
        } else if number % 8 == 6 {
            open.abort().expect("aborted");
        }
        let mut session = store.session();
        session.begin(number, None);
        let before = model.clone();
        change(&mut session, random, &mut model, number);
        home.now.fetch_add(random.random_range(0..20_000), Ordering::Relaxed);
        if number % 7 == 3 {
            session.abort().expect("aborted");
            model = before;
            continue;
        }
        let at = session.commit().expect("committed");
        store.wait(at).expect("durable");
        commits.push((at, home.now.load(Ordering::Relaxed), model.clone()));
        if number % 9 == 8 {
            store.checkpoint().expect("a checkpoint");
        }
    }
    open.abort().expect("aborted");
}

fn every_commit_is_restored(log: Log, seed: u64) {
    let home = Home::new();
    let store = home.create(log);
    let (mut random, mut commits) = (StdRng::seed_from_u64(seed), Commits::new());
    run(&home, &store, &mut random, &mut commits, 30);
    // A transaction is open while the base is copied.
    let mut open = store.session();
    open.begin(0, None);
    open.insert(TREES[1], b"never", &[7; 700]).expect("inserted");
    let base = copy(&store);
    let first = commits.len() - 1;
    run(&home, &store, &mut random, &mut commits, 16);
    drop(open);
    run(&home, &store, &mut random, &mut commits, 40);
    store.close().expect("closed");
    drop(store);
    let stored = home.reader().expect("an archive").stored();
    assert!(stored.segments > 5, "{stored:?}");
    for (lsn, _, model) in &commits[first..] {
        // The last one before the base is what the base itself ends with.
        let until = Lsn(lsn.0 + 1).max(base.base.end);
        let restored = home.restore(&base, until).expect("restored");
        check(&restored, model).unwrap_or_else(|why| panic!("{log:?}, seed {seed}, {lsn}: {why}"));
        // It works, and opens again as any other.
        let mut session = restored.session();
        session.begin(0, None);
        session.insert(TREES[0], b"new", b"row").expect("inserted");
        session.commit().expect("committed");
        restored.close().expect("closed");
    }
    let all = home.restore(&base, stored.to).expect("restored");
    check(&all, &commits[commits.len() - 1].2).expect("all of it");
}

#[test]
fn a_restored_store_is_what_it_was_after_each_commit() {
    every_commit_is_restored(Log::Central, 3);
}

#[test]
fn a_log_in_persistent_memory_is_restored_the_same_way() {
    every_commit_is_restored(Log::Nv(Persist::OnCommit), 4);
    every_commit_is_restored(Log::Nv(Persist::OnInsert), 5);
}

#[test]
fn a_time_of_day_leads_to_what_was_acknowledged_by_then() {
    let home = Home::new();
    let store = home.create(Log::Central);
    let (mut random, mut commits) = (StdRng::seed_from_u64(8), Commits::new());
    let base = copy(&store);
    run(&home, &store, &mut random, &mut commits, 60);
    let closed = home.now.fetch_add(1, Ordering::Relaxed) + 1;
    store.close().expect("closed");
    let reader = home.reader().expect("an archive");
    let resolution = TIME_RESOLUTION.as_micros() as u64;
    // The archive says up to when it goes, and not what may have been acknowledged later.
    for later in [closed, u64::MAX] {
        assert_eq!(reader.end_at(base.base.end, later).expect("read"), Err(closed));
    }
    for (_, time, _) in &commits {
        let end = reader.end_at(base.base.end, *time).expect("read").expect("found");
        for (lsn, at, _) in &commits {
            assert!(*at > *time || *lsn < end, "acknowledged by then");
            assert!(*at <= *time + resolution || *lsn >= end, "committed later");
        }
    }
}

#[test]
fn marks_of_the_time_are_rare() {
    let home = Home::new();
    let store = home.create(Log::Central);
    let before = store.log().counts().appended;
    let mut session = store.session();
    for number in 0..100_u64 {
        session.begin(number, None);
        session.insert(TREES[0], &number.to_be_bytes(), b"row").expect("inserted");
        session.commit().expect("committed");
    }
    let appended = store.log().counts().appended - before;
    let mut marks = 0;
    store.checkpoint().expect("archived");
    let reader = home.reader().expect("an archive");
    let stored = reader.stored();
    reader
        .scan(stored.from, stored.to, &mut |record| {
            marks += u64::from(record.kind == paged::log::Kind::Time);
            Ok(())
        })
        .expect("read");
    // All these commits are within one resolution; a mark has 72 bytes.
    assert_eq!(marks, 1, "of {appended} bytes");
}

/// A store whose archive lies in the same files, transactions on it, and its contents after each.
fn recorded_run() -> (sim::DiskTrace, Copied, Vec<[Model; 2]>) {
    let home = Home::in_one();
    home.files.start();
    let store = home.create(Log::Central);
    let base = copy(&store);
    let (mut random, mut models) = (StdRng::seed_from_u64(11), vec![[Model::new(), Model::new()]]);
    home.files.note(0);
    let mut session = store.session();
    for number in 0..36 {
        session.begin(number, None);
        let mut model = models[models.len() - 1].clone();
        change(&mut session, &mut random, &mut model, number);
        home.now.fetch_add(20_000, Ordering::Relaxed);
        let at = session.commit().expect("committed");
        store.wait(at).expect("durable");
        models.push(model);
        home.files.note(models.len() as u64 - 1);
        if number % 6 == 5 {
            store.checkpoint().expect("a checkpoint");
        }
    }
    drop(session);
    store.close().expect("closed");
    (home.files.stop(), base, models)
}

/// A process that finds such files goes on, and what is restored from its archive is what it has.
fn goes_on(image: &Image, noted: usize, base: &Copied, models: &[[Model; 2]]) {
    let home = Home::of(RecordingFiles::from_image(image.clone()));
    let store = home.open().expect("the archive joins the log");
    let found = contents(&store).expect("read");
    assert!(models[noted..].iter().take(2).any(|model| *model == found), "behind {noted}");
    store.close().expect("closed");
    let to = home.reader().expect("an archive").stored().to;
    let restored = home.restore(base, to).expect("restored");
    check(&restored, &found).expect("the same");
}

#[test]
fn power_cuts_leave_an_archive_and_a_log_without_a_gap() {
    let (trace, base, models) = recorded_run();
    let (mut states, mut points) = (0, 0);
    let mut replay = DiskReplay::new(&trace);
    while let Some(point) = replay.next_point() {
        let Some(noted) = point.last_note else { continue };
        points += 1;
        let visited = point.for_each_state(6, 5, |image| {
            goes_on(image, noted as usize, &base, &models);
        });
        states += visited.visited;
    }
    println!("{points} crash points, {states} states");
    assert!(points > 100 && states > 300, "{points} points, {states} states");
}

#[test]
fn a_process_that_is_killed_between_any_two_calls_goes_on() {
    let (trace, base, models) = recorded_run();
    let mut states = 0;
    trace.process_states(|_, noted, image| {
        if let Some(noted) = noted {
            goes_on(image, noted as usize, &base, &models);
            states += 1;
        }
    });
    assert!(states > 200, "{states}");
}

#[test]
fn a_missing_sync_of_the_archive_is_noticed() {
    let (trace, base, models) = recorded_run();
    let is_own = |site: &pm::Site| {
        ["new_file.rs", "archive/note.rs"].iter().any(|name| site.file().ends_with(name))
    };
    let of_archive = trace.sync_sites().into_iter().filter(is_own);
    let mut sites = 0;
    for site in of_archive {
        sites += 1;
        let without = trace.without_syncs_of(site);
        let noticed = std::panic::catch_unwind(|| {
            let mut replay = DiskReplay::new(&without);
            while let Some(point) = replay.next_point() {
                let Some(noted) = point.last_note else { continue };
                point.for_each_state(12, 5, |image| {
                    goes_on(image, noted as usize, &base, &models);
                });
            }
        });
        assert!(noticed.is_err(), "{site}");
    }
    assert_eq!(sites, 4, "a segment's, its mark's, its directory's, and the note's");
}

#[test]
fn an_archive_that_takes_nothing_slows_writers_and_loses_nothing() {
    let home = Home::new();
    let store = home.create(Log::Central);
    let base = copy(&store);
    let mut model = Model::new();
    home.archive.limit(Some(0));
    let mut session = store.session();
    let mut refused = None;
    for number in 0..2_000_u64 {
        session.begin(number, None);
        let key = number.to_be_bytes();
        let mut inserted = session.insert(TREES[0], &key, &[1; 100]);
        if matches!(inserted, Err(PagedError::Conflict(Conflict::Room))) {
            // It held room of which it needed more; it is run again, as callers do.
            session.abort().expect("aborted");
            session.begin(number, None);
            inserted = session.insert(TREES[0], &key, &[1; 100]);
        }
        match inserted {
            Ok(()) => {
                let at = session.commit().expect("committed");
                store.wait(at).expect("durable");
                model.insert(key.to_vec(), vec![1; 100]);
            }
            Err(error) => {
                session.abort().expect("aborted");
                refused = Some(error);
                break;
            }
        }
    }
    let refused = refused.expect("the log is full in the end");
    assert!(matches!(refused, PagedError::ArchiveFails { .. }), "{refused}");
    assert!(model.len() > 100, "the log was used first: {}", model.len());
    // The rows that are there can be read, and survive a kill.
    check(&store, &[model.clone(), Model::new()]).expect("all there");
    let killed = Home {
        files: RecordingFiles::from_image(home.files.image()),
        archive: RecordingFiles::from_image(home.archive.image()),
        now: Arc::clone(&home.now),
    };
    check(&killed.open().expect("it opens"), &[model.clone(), Model::new()]).expect("all there");
    // There is room again: once the pause is over, writers go on by themselves.
    home.archive.limit(None);
    home.now.fetch_add(1_000_000, Ordering::Relaxed);
    session.begin(9_999, None);
    session.insert(TREES[1], b"later", b"row").expect("inserted");
    session.commit().expect("committed");
    drop(session);
    store.close().expect("closed");
    let other = Model::from([(b"later".to_vec(), b"row".to_vec())]);
    let to = home.reader().expect("an archive").stored().to;
    check(&home.restore(&base, to).expect("restored"), &[model, other]).expect("all there");
}

#[test]
fn failing_archive_is_tried_after_growing_pauses() {
    let home = Home::new();
    let threads: Arc<Host> = Arc::default();
    let log = Central::create(&home.files, "log-", log_options(), threads).expect("a log");
    let log = home.archived(Arc::new(log)).expect("an archive");
    let record = Record { payload: &[7; 8], ..Record::bare(Kind::Time) };
    log.append(&mut Chain::default(), &record).expect("appended");
    log.force(log.end()).expect("durable");
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    home.archive.call_before_each(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    home.archive.limit(Some(0));
    log.truncate(log.end(), log.end()).expect("nothing is freed");
    let attempt = calls.swap(0, Ordering::Relaxed);
    assert!(attempt > 0 && log.hindrance().is_some());
    let tried = || {
        (0..100).for_each(|_| assert!(!log.would_free(log.end())));
        calls.swap(0, Ordering::Relaxed)
    };
    for pause in [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 320_000, 320_000] {
        home.now.fetch_add(pause - 1, Ordering::Relaxed);
        assert_eq!(tried(), 0, "{pause}");
        home.now.fetch_add(1, Ordering::Relaxed);
        assert_eq!(tried(), attempt, "{pause}");
    }
    log.end_pause();
    assert_eq!(tried(), attempt);
    home.now.store(0, Ordering::Relaxed);
    assert_eq!(tried(), attempt, "the clock was set back");
    home.archive.limit(None);
    log.end_pause();
    log.would_free(log.end());
    assert!(log.hindrance().is_none());
}

#[track_caller]
pub(crate) fn refusal<T>(result: Result<T>) -> String {
    result.map(drop).expect_err("it is refused").to_string()
}

#[test]
fn archives_that_are_not_whole_are_refused_by_name() {
    let home = Home::new();
    let store = home.create(Log::Central);
    let (mut random, mut commits) = (StdRng::seed_from_u64(2), Commits::new());
    let base = copy(&store);
    run(&home, &store, &mut random, &mut commits, 40);
    store.close().expect("closed");
    let (image, to) = (home.archive.image(), home.reader().expect("an archive").stored().to);
    let with =
        |archive: Image| Home { archive: RecordingFiles::from_image(archive), ..home.clone() };
    let name = |number: u64| format!("{PREFIX}{number:012}");
    let count = image.len() as u64;

    let mut gap = image.clone();
    gap.remove(&name(3));
    let why = refusal(with(gap.clone()).reader());
    assert!(why.contains(&name(3)) && why.contains("missing"), "{why}");
    assert!(refusal(with(gap).open()).contains("missing"));

    let mut cut = image.clone();
    (1..count).for_each(|number| drop(cut.remove(&name(number))));
    let why = refusal(with(cut).restore(&base, to));
    assert!(why.contains("base backup needs it from"), "{why}");

    let mut short = image.clone();
    short.remove(&name(count));
    assert!(refusal(with(short).restore(&base, to)).contains("it has the log from"));
    let mut empty = image.clone();
    empty.clear();
    assert!(refusal(with(empty).reader()).contains("is it the directory"));

    for (at, wanted) in [(0, "damaged"), (100, "wrong checksum")] {
        let mut damaged = image.clone();
        damaged.get_mut(&name(count)).expect("there")[at] ^= 1;
        let why = refusal(with(damaged).restore(&base, to));
        assert!(why.contains(&name(count)) && why.contains(wanted), "{why}");
    }
    let mut swapped = image.clone();
    swapped.insert(name(2), image[&name(3)].clone());
    assert!(refusal(with(swapped).reader()).contains("is in fact number 3"));
    let why = refusal(ArchiveReader::open(home.archive.clone(), PREFIX, 78));
    assert!(why.contains("another database"), "{why}");
    let before = Lsn(base.base.end.0 - 8);
    assert!(refusal(home.restore(&base, before)).contains("take an older backup"));
}
