//! Threads that commit at the same time in one partition share syncs: each is acknowledged after
//! one that covers it, whatever becomes of the others.
//!
//! A transaction is open while the others queue, so that all of them are there when it ends. Where
//! the medium is called it can be made to wait, to fail, or to panic.

use crate::support::small_logs;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use faults::files::FileMedium;
use faults::medium::{Medium, Part};
use perdura::{
    ColumnType, Database, EngineKind, Error, Options, Row, Scan, Schema, Table, TableSchema, Value,
};
use sim::{DiskTrace, Recorded, Recording, RecordingFiles};

/// The engines whose commits sync files.
const ENGINES: [EngineKind; 3] = [EngineKind::Inp, EngineKind::Cow, EngineKind::Log];

/// Threads that commit at the same time.
const THREADS: u64 = 5;

fn options(engine: EngineKind) -> Options {
    small_logs()
        .engine(engine)
        .tune("page_bytes", 512)
        .tune("cache_bytes", 64 << 10)
        .tune("memtable_bytes", 4 << 10)
        .tune("checkpoint_bytes", 8 << 10)
        .tune("wal_reserve_bytes", 4 << 10)
        .volatile_limit(64 << 20)
}

/// A hook that runs before each call to the medium.
type Before = dyn Fn(&str) + Send + Sync;

struct Store {
    db: Database<Recorded>,
    table: Table,
    files: RecordingFiles,
    medium: FileMedium,
    before: Arc<Mutex<Option<Arc<Before>>>>,
}

impl Store {
    fn new(engine: EngineKind) -> Self {
        let table = TableSchema::new("t").column("key", ColumnType::U64).key(&["key"]);
        let memory = Recording::pool(64 << 10, 1 << 20).unwrap();
        let files = RecordingFiles::new();
        let media = faults::recorded(memory.clone(), files.clone());
        let options = options(engine);
        let db = Database::create_on(media, &Schema::new().table(table), &options).unwrap();
        let table = db.table("t").unwrap();
        let before: Arc<Mutex<Option<Arc<Before>>>> = Arc::default();
        let called = before.clone();
        files.call_before_each(move |site| {
            let before = called.lock().unwrap().clone();
            if let Some(before) = before {
                before(site.file());
            }
        });
        let medium = FileMedium { options, pool: memory.contents() };
        Self { db, table, files, medium, before }
    }

    fn before(&self, before: impl Fn(&str) + Send + Sync + 'static) {
        *self.before.lock().unwrap() = Some(Arc::new(before));
    }

    /// Inserts two tuples, which are there together or not at all.
    fn insert(&self, number: u64) -> Result<(), Error> {
        self.db.write(|tx| {
            tx.insert(&self.table, &[Value::U64(2 * number)])?;
            tx.insert(&self.table, &[Value::U64(2 * number + 1)])
        })
    }

    /// Runs `work` in so many threads, each of which waits for a transaction that is open until all
    /// of them do. Returns what came of it, `None` for a panic.
    fn at_once<R: Send>(&self, work: impl Fn(u64) -> R + Sync) -> Vec<Option<R>> {
        let open = self.db.begin().unwrap();
        thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> =
                (0..THREADS).map(|number| scope.spawn(move || work(number))).collect();
            while u64::from(self.db.partition(0).waiting()) < THREADS {
                thread::yield_now();
            }
            open.abort().unwrap();
            threads.into_iter().map(|thread| thread.join().ok()).collect()
        })
    }
}

/// The transactions in a database, which are whole.
fn found(db: &Database<Recorded>) -> Result<BTreeSet<u64>, String> {
    let (mut keys, table) = (BTreeSet::new(), db.table("t").unwrap());
    let read = db.read(|tx| {
        tx.scan(&table, &Scan::all(), |row: &Row| {
            keys.insert(row.u64(0));
            ControlFlow::Continue(())
        })
    });
    read.map_err(|error| error.to_string())?;
    let whole: BTreeSet<u64> = keys.iter().map(|key| key / 2).collect();
    if keys.len() != 2 * whole.len() {
        return Err(format!("half a transaction: {keys:?}"));
    }
    Ok(whole)
}

/// A site in the source that syncs a shared log, or writes a batch out.
fn is_shared_sync(file: &str) -> bool {
    file.ends_with("wal/shared.rs") || file.ends_with("engines/src/cow.rs")
}

fn syncs(trace: &DiskTrace) -> usize {
    trace.events.iter().filter(|record| format!("{:?}", record.event).starts_with("Sync {")).count()
}

/// A power cut anywhere: everything that was acknowledged is there, and everything that is there is
/// whole.
#[test]
fn a_power_cut_takes_nothing_that_shared_a_sync_and_was_acknowledged() {
    for engine in ENGINES {
        let store = Store::new(engine);
        let acknowledged = Mutex::new(0_u64);
        store.files.start();
        for round in 0..4 {
            let done = store.at_once(|thread| {
                let number = round * THREADS + thread;
                store.insert(number).unwrap();
                let mut acknowledged = acknowledged.lock().unwrap();
                *acknowledged |= 1 << number;
                store.files.note(*acknowledged);
            });
            assert!(done.iter().all(Option::is_some));
        }
        let trace = store.files.stop();
        assert_eq!(found(&store.db).unwrap().len() as u64, 4 * THREADS);
        let mut states = 0;
        let walked = FileMedium::walk(&trace, 4, Part::ALL, 1, &mut |state| {
            states += 1;
            let (db, _) = store.medium.open(state.image, false).unwrap();
            let found = found(&db).unwrap();
            let promised = state.acknowledged.unwrap_or(0);
            let lost: Vec<_> = (0..64)
                .filter(|number| promised & 1 << number != 0 && !found.contains(number))
                .collect();
            assert!(lost.is_empty(), "{engine}, before event {}: {lost:?}", state.position);
            db.abandon();
            ControlFlow::Continue(())
        });
        println!("{engine}: {states} states at {} points", walked.points);
        assert!(walked.points > 10, "{engine}");
    }
}

/// The first one who syncs does not before all have written their records: then there are two syncs
/// for all of them. In `cow` the last one in the partition syncs for all.
#[test]
fn all_who_come_while_somebody_syncs_share_the_next_sync() {
    for engine in ENGINES {
        let store = Store::new(engine);
        store.insert(100).unwrap();
        let written = Arc::new(AtomicU32::new(0));
        store.before(move |file| {
            if file.ends_with("storage/src/logs/wal.rs") {
                written.fetch_add(1, SeqCst);
            } else if file.ends_with("wal/shared.rs") {
                while u64::from(written.load(SeqCst)) < THREADS {
                    thread::yield_now();
                }
            }
        });
        store.files.start();
        let done = store.at_once(|thread| store.insert(thread));
        assert!(done.iter().all(|done| matches!(done, Some(Ok(())))));
        let syncs = syncs(&store.files.stop());
        // Two syncs of the log, or those of pages and master record.
        assert_eq!(syncs, 2, "{engine}");
        assert_eq!(found(&store.db).unwrap().len() as u64, THREADS + 1);
        assert_eq!(store.db.partition(0).waiting(), 0);
    }
}

#[test]
fn a_shared_sync_that_fails_acknowledges_nobody() {
    for engine in ENGINES {
        let store = Store::new(engine);
        store.insert(100).unwrap();
        let files = store.files.clone();
        store.before(move |file| {
            if is_shared_sync(file) {
                files.fail_after(Some(0));
            }
        });
        let done = store.at_once(|thread| store.insert(thread));
        assert!(done.iter().all(|done| matches!(done, Some(Err(_)))), "{engine}: {done:?}");
        store.files.fail_after(None);
        // Nothing more is acknowledged, nor read.
        assert!(store.insert(200).is_err(), "{engine}");
        assert!(found(&store.db).is_err(), "{engine}");
        let image = store.files.image();
        store.db.abandon();
        let (db, _) = store.medium.open(&image, false).unwrap();
        assert!(found(&db).unwrap().contains(&100), "{engine}");
    }
}

#[test]
fn one_who_dies_in_a_shared_sync_leaves_nobody_waiting() {
    for engine in ENGINES {
        let store = Store::new(engine);
        store.insert(100).unwrap();
        let first = AtomicBool::new(true);
        store.before(move |file| {
            if is_shared_sync(file) && first.swap(false, SeqCst) {
                std::panic::resume_unwind(Box::new("the leader dies"));
            }
        });
        let done = store.at_once(|thread| store.insert(thread));
        let died = done.iter().filter(|done| done.is_none()).count();
        assert_eq!(died, 1, "{engine}: {done:?}");
        assert!(done.iter().flatten().all(Result::is_ok), "{engine}: {done:?}");
        store.insert(200).unwrap();
        let image = store.files.image();
        store.db.abandon();
        let (db, _) = store.medium.open(&image, false).unwrap();
        let found = found(&db).unwrap();
        let kept = (0..THREADS).filter(|number| matches!(done[*number as usize], Some(Ok(()))));
        for number in kept.chain([100, 200]) {
            assert!(found.contains(&number), "{engine}: {number} of {found:?}");
        }
    }
}

/// A reader may see what is not durable yet, but does not return with it before it is.
#[test]
fn a_reader_returns_with_nothing_that_a_power_cut_could_take() {
    for (engine, fails) in ENGINES.into_iter().flat_map(|engine| [(engine, false), (engine, true)])
    {
        let store = Store::new(engine);
        store.insert(100).unwrap();
        let (synced, open, files) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
            store.files.clone(),
        );
        let gate = (synced.clone(), open.clone());
        store.before(move |file| {
            if is_shared_sync(file) {
                gate.0.store(true, SeqCst);
                while !gate.1.load(SeqCst) {
                    thread::yield_now();
                }
                if fails {
                    files.fail_after(Some(0));
                }
            }
        });
        let (seen, returned) = (AtomicU32::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| store.at_once(|thread| store.insert(thread)));
            while !synced.load(SeqCst) {
                thread::yield_now();
            }
            let reader = scope.spawn(|| {
                let mut count = 0;
                let done = store.db.read(|tx| {
                    count = 0;
                    tx.scan(&store.table, &Scan::all(), |_| {
                        count += 1;
                        ControlFlow::Continue(())
                    })?;
                    seen.store(count, SeqCst);
                    Ok(())
                });
                returned.store(true, SeqCst);
                done.map(|()| count)
            });
            while seen.load(SeqCst) == 0 {
                thread::yield_now();
            }
            let early = seen.load(SeqCst) > 2 && {
                (0..100).for_each(|_| thread::yield_now());
                returned.load(SeqCst)
            };
            open.store(true, SeqCst);
            let done = reader.join().unwrap();
            assert!(!early, "{engine}");
            match seen.load(SeqCst) {
                // A snapshot: it shows what is durable.
                2 => assert_eq!((engine, done.ok()), (EngineKind::Cow, Some(2))),
                count => {
                    assert!(engine != EngineKind::Cow && count % 2 == 0);
                    assert_eq!(done.is_ok(), !fails, "{engine}");
                }
            }
        });
    }
}

/// An owner of the partition is not waited for, and does not wait.
#[test]
fn an_owner_syncs_for_those_who_wait_before_it_keeps_the_partition() {
    for engine in ENGINES {
        let store = Store::new(engine);
        let owned = AtomicBool::new(false);
        let done = store.at_once(|thread| {
            if thread == 0 {
                let mut owner = store.db.partition(0).exclusive().unwrap();
                owned.store(true, SeqCst);
                owner.write(|tx| tx.insert(&store.table, &[Value::U64(1 << 20)])).unwrap();
                owner.write(|tx| tx.delete(&store.table, &[Value::U64(1 << 20)])).unwrap();
                return Ok(());
            }
            store.insert(thread)
        });
        assert!(done.iter().all(|done| matches!(done, Some(Ok(())))), "{engine}: {done:?}");
        assert!(owned.load(SeqCst));
        assert_eq!(found(&store.db).unwrap().len() as u64, THREADS - 1);
    }
}
