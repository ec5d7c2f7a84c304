//! A backup is one moment of the history: a writer whose transactions follow from their number
//! goes on while backups are taken, and each must hold what so many transactions lead to.

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use perdura::{
    ColumnType, Concurrency, Database, EngineKind, Error, Options, Row, Schema, TableSchema, Tx,
    Value,
};

use super::{Place, contents, each, few, restored, small};

const ACCOUNTS: u64 = 60;

fn schema() -> Schema {
    Schema::new()
        .table(
            TableSchema::new("account")
                .column("id", ColumnType::U64)
                .column("balance", ColumnType::I64)
                .column("note", ColumnType::Text { max: 200 })
                .key(&["id"])
                .index("by_balance", &["balance"]),
        )
        .table(
            TableSchema::new("clock")
                .column("id", ColumnType::U64)
                .column("transactions", ColumnType::U64)
                .key(&["id"]),
        )
}

/// Transaction `number` of a partition: money moves from one account to another, whose notes say
/// so, one account goes or comes back, and the clock goes on.
fn transaction(tx: &mut Tx<'_>, db: &Database, number: u64) -> Result<(), Error> {
    let (account, clock) = (db.table("account")?, db.table("clock")?);
    if number == 0 {
        tx.insert(&clock, &[Value::U64(0), Value::U64(0)])?;
        for id in 0..ACCOUNTS {
            tx.insert(&account, &[Value::U64(id), Value::I64(100), Value::Text("")])?;
        }
    }
    let (from, to) = (number % ACCOUNTS, number * 7 % ACCOUNTS);
    let note = format!("{number} ").repeat(1 + (number % 20) as usize);
    let mut row = Row::new();
    for (id, change) in [(from, -5), (to, 5)] {
        assert!(tx.get_into(&account, &[Value::U64(id)], &mut row)?);
        let balance = Value::I64(row.i64(1) + change);
        tx.update(&account, &[Value::U64(id)], &[(1, balance), (2, Value::Text(&note))])?;
    }
    let guest = [Value::U64(1000 + number / 2 % 10)];
    if number.is_multiple_of(2) {
        tx.insert(&account, &[guest[0], Value::I64(0), Value::Text(&note)])?;
    } else {
        tx.delete(&account, &guest)?;
    }
    tx.update(&clock, &[Value::U64(0)], &[(1, Value::U64(number + 1))])
}

/// Returns how many transactions a partition says that it has seen.
fn seen(db: &Database, partition: usize) -> u64 {
    let (clock, mut row) = (db.table("clock").unwrap(), Row::new());
    let found = db.partition(partition).read(|tx| tx.get_into(&clock, &[Value::U64(0)], &mut row));
    if found.unwrap() { row.u64(1) } else { 0 }
}

/// Ends the other thread when this one ends, however it does.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Waits until so many transactions are written, or the writer has ended.
fn wait_for(written: &AtomicU64, transactions: u64, stop: &AtomicBool) {
    while written.load(SeqCst) < transactions {
        assert!(!stop.load(SeqCst), "the writer has failed");
        std::thread::yield_now();
    }
}

/// A database in which so many transactions have run, and nothing else.
fn replayed(path: &std::path::Path, options: &Options, transactions: &[u64]) -> Database {
    let db = Database::create(path, &schema(), options).unwrap();
    for (partition, count) in transactions.iter().enumerate() {
        for number in 0..*count {
            db.partition(partition).write(|tx| transaction(tx, &db, number)).unwrap();
        }
    }
    db
}

#[test]
fn a_backup_taken_while_somebody_writes_is_one_moment_of_the_history() {
    few().for_each(a_backup_is_one_moment);
}

pub(crate) fn a_backup_is_one_moment(engine: EngineKind) {
    let place = Place::new();
    let db = Database::create(place.at("db"), &schema(), &small(engine)).unwrap();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    // It is not far ahead of the backups: what they hold is done again.
    let last = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ends = Ends(&stop);
            for number in 0.. {
                while number >= last.load(SeqCst) && !stop.load(SeqCst) {
                    std::thread::yield_now();
                }
                db.write(|tx| transaction(tx, &db, number)).unwrap();
                written.store(number + 1, SeqCst);
                if stop.load(SeqCst) {
                    break;
                }
            }
        });
        let _ends = Ends(&stop);
        for backup in 0..3 {
            // Each some way further on.
            last.store(backup * 40 + 200, SeqCst);
            wait_for(&written, 1 + backup * 40, &stop);
            let before = written.load(SeqCst);
            db.backup(place.at(&format!("backup-{backup}"))).unwrap();
            let after = written.load(SeqCst) + 1;
            let backup = place.at(&format!("backup-{backup}"));
            let copy = restored(&backup, &place.at("copy"), &small(EngineKind::NvmInp));
            assert!((before..=after).contains(&seen(&copy, 0)), "what was committed before");
            let model = replayed(&place.at("model"), &small(EngineKind::NvmInp), &[seen(&copy, 0)]);
            assert_eq!(contents(&copy), contents(&model));
            drop((copy, model));
            std::fs::remove_file(place.at("copy")).unwrap();
            std::fs::remove_file(place.at("model")).unwrap();
        }
    });
    // Any of them into any engine.
    let backup = place.at("backup-1");
    let expected = contents(&restored(&backup, &place.at("first"), &small(engine)));
    for other in EngineKind::ALL {
        let copy = restored(&backup, &place.at(&format!("copy-{other}")), &small(other));
        assert_eq!((copy.engine(), contents(&copy)), (other, expected.clone()));
    }
    // The database is none the worse for it.
    let model = replayed(&place.at("model"), &small(engine), &[seen(&db, 0)]);
    assert_eq!(contents(&db), contents(&model));
    db.check().unwrap();
}

/// Returns what partitions have seen of so many transactions, each in the next one.
fn at_one_moment(counts: &[u64]) -> Vec<u64> {
    let (total, partitions) = (counts.iter().sum::<u64>(), counts.len() as u64);
    (0..partitions)
        .map(|number| total / partitions + u64::from(number < total % partitions))
        .collect()
}

/// One thread commits in partition 0, 1, 2, 0, 1, ..: at any one moment each of them has seen as
/// many as the next one, or one more, and only one of these steps is there.
#[test]
fn several_partitions_are_copied_at_one_moment() {
    few().for_each(|engine| several_partitions_are_copied(engine, 2, 100));
}

/// Takes so many backups, and then so many dumps of the least that can be copied.
pub(crate) fn several_partitions_are_copied(engine: EngineKind, backups: u64, dumps: u64) {
    const PARTITIONS: u64 = 3;
    let place = Place::new();
    let options = small(engine).partitions(PARTITIONS as u32);
    let db = Database::create(place.at("db"), &schema(), &options).unwrap();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ends = Ends(&stop);
            for number in 0.. {
                let partition = db.partition((number % PARTITIONS) as usize);
                partition.write(|tx| transaction(tx, &db, number / PARTITIONS)).unwrap();
                written.store(number + 1, SeqCst);
                if stop.load(SeqCst) {
                    break;
                }
            }
        });
        let _ends = Ends(&stop);
        for backup in 0..backups {
            wait_for(&written, backup * 11, &stop);
            db.backup(place.at(&format!("backup-{backup}"))).unwrap();
        }
        for _ in 0..dumps {
            let counts = dumped_clocks(&db);
            assert_eq!(counts, at_one_moment(&counts), "{engine}");
        }
    });
    for backup in 0..backups {
        let copy = restored(
            &place.at(&format!("backup-{backup}")),
            &place.at(&format!("copy-{backup}")),
            &options,
        );
        let counts: Vec<u64> = (0..3).map(|partition| seen(&copy, partition)).collect();
        assert_eq!(counts, at_one_moment(&counts), "{engine}");
        let model = replayed(&place.at(&format!("model-{backup}")), &options, &counts);
        assert_eq!(contents(&copy), contents(&model));
    }
}

/// The counts that the clocks of all partitions show in a dump of them.
fn dumped_clocks(db: &Database) -> Vec<u64> {
    let (clock, mut lines) = (db.table("clock").unwrap(), Vec::new());
    db.dump_to(&mut lines, "", &[clock], &mut |_| ()).unwrap();
    let text = String::from_utf8(lines).unwrap();
    let counts = text.lines().filter_map(|line| line.split_once("\"transactions\":"));
    counts.map(|(_, count)| count.trim_end_matches('}').parse().unwrap()).collect()
}

/// Snapshots are taken within a moment, so there must be many between two of which much happens:
/// one thread commits in the first partition and then in the last one, over and over.
#[test]
fn snapshots_of_many_partitions_are_of_one_moment() {
    const LAST: usize = 59;
    for engine in [EngineKind::Cow, EngineKind::NvmCow] {
        let place = Place::new();
        let options = small(engine).partitions(LAST as u32 + 1).chunk_bytes(16 << 10);
        let db = Database::create(place.at("db"), &schema(), &options).unwrap();
        let clock = db.table("clock").unwrap();
        let start = |tx: &mut Tx<'_>| tx.insert(&clock, &[Value::U64(0), Value::U64(0)]);
        (0..=LAST).for_each(|partition| db.partition(partition).write(start).unwrap());
        let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ends = Ends(&stop);
                while !stop.load(SeqCst) {
                    let number = written.fetch_add(1, SeqCst) + 1;
                    for partition in [0, LAST] {
                        let change = [(1, Value::U64(number))];
                        let go_on = |tx: &mut Tx<'_>| tx.update(&clock, &[Value::U64(0)], &change);
                        db.partition(partition).write(go_on).unwrap();
                    }
                }
            });
            let _ends = Ends(&stop);
            for copy in 0..300 {
                wait_for(&written, copy * 8, &stop);
                let counts = dumped_clocks(&db);
                let (first, last) = (counts[0], counts[LAST]);
                assert!(first == last || first == last + 1, "{engine}: {first}, {last}");
            }
        });
    }
}

/// An output that changes the database whenever something is written to it.
struct Meddling<'a> {
    out: Vec<u8>,
    act: &'a mut dyn FnMut(),
}

impl Write for Meddling<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (self.act)();
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn written_meanwhile(db: &Database, act: &mut dyn FnMut()) -> Vec<u8> {
    let mut out = Meddling { out: Vec::new(), act };
    db.backup_to(&mut out, "output", &mut |_| ()).unwrap();
    out.out
}

/// The same thread commits while the backup is written: it would wait for itself for ever.
#[test]
fn with_snapshots_writers_do_not_wait_for_the_copy() {
    for engine in [EngineKind::Cow, EngineKind::NvmCow] {
        for partitions in [1, 2] {
            let place = Place::new();
            let options = small(engine).partitions(partitions);
            let db = replayed(&place.at("db"), &options, &vec![30; partitions as usize]);
            let before = contents(&db);
            let mut number = 30;
            let bytes = written_meanwhile(&db, &mut || {
                for partition in 0..partitions as usize {
                    db.partition(partition).write(|tx| transaction(tx, &db, number)).unwrap();
                }
                number += 1;
            });
            assert!(number > 33, "it was written in {} parts", number - 30);
            std::fs::write(place.at("backup"), bytes).unwrap();
            let copy = restored(&place.at("backup"), &place.at("copy"), &options);
            assert_eq!(contents(&copy), before);
            assert_eq!(seen(&db, 0), number);
        }
    }
}

/// Without snapshots: a partition can be written as soon as it has been copied, while the next one
/// is, and readers never wait.
#[test]
fn partitions_are_given_back_one_by_one() {
    // Paged engines are still while they are copied, for readers, too.
    for engine in EngineKind::P1 {
        let place = Place::new();
        let options = small(engine).partitions(2);
        let db = replayed(&place.at("db"), &options, &[20, 20]);
        let before = contents(&db);
        let (mut calls, mut number) = (0, 20);
        let count = |calls: &mut u32| {
            *calls += 1;
            *calls
        };
        let mut all = 0;
        written_meanwhile(&db, &mut || all = count(&mut all));
        let bytes = written_meanwhile(&db, &mut || {
            calls += 1;
            assert_eq!(seen(&db, 1), 20, "a reader does not wait");
            // The last block and the end of the last table belong to the last partition.
            if calls > all - 4 {
                db.partition(0).write(|tx| transaction(tx, &db, number)).unwrap();
                number += 1;
            }
        });
        assert_eq!(number, 24);
        std::fs::write(place.at("backup"), bytes).unwrap();
        let copy = restored(&place.at("backup"), &place.at("copy"), &options);
        assert_eq!(contents(&copy), before);
    }
}

/// A writer waits while a partition is copied, and readers do not wait for that writer: not the
/// thread that copies, nor another one, nor one that reads within a read.
#[test]
fn readers_do_not_wait_behind_a_writer_that_waits_for_the_copy() {
    for engine in [EngineKind::Inp, EngineKind::Log, EngineKind::NvmInp, EngineKind::NvmLog] {
        let place = Place::new();
        let db = replayed(&place.at("db"), &small(engine), &[20]);
        let mut all = 0;
        written_meanwhile(&db, &mut || all += 1);
        let begins = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (db, begins, mut read) = (&db, &begins, 0);
            let mut writer = None;
            db.backup_to(
                &mut Meddling {
                    out: Vec::new(),
                    act: &mut || {
                        writer.get_or_insert_with(|| {
                            let writer = scope.spawn(|| {
                                begins.store(true, SeqCst);
                                db.write(|tx| transaction(tx, db, 20)).unwrap();
                            });
                            while !begins.load(SeqCst) {
                                std::thread::yield_now();
                            }
                            // So that it has come to wait.
                            std::thread::sleep(std::time::Duration::from_millis(20));
                            writer
                        });
                        read += 1;
                        // The last parts are written when the partition has been copied.
                        if read > all - 3 {
                            return;
                        }
                        assert_eq!(seen(db, 0), 20, "{engine}");
                        let within = || db.read(|_| Ok(seen(db, 0))).unwrap();
                        assert_eq!(scope.spawn(within).join().unwrap(), 20, "{engine}");
                        db.check().unwrap();
                    },
                },
                "output",
                &mut |_| (),
            )
            .unwrap();
            assert!(all > 5, "{all}");
            writer.unwrap().join().unwrap();
        });
        assert_eq!(seen(&db, 0), 21);
    }
}

/// A read within a read does not wait for a writer that waits for the outer one.
#[test]
fn one_can_read_within_a_read_whoever_waits() {
    each(|engine| {
        let place = Place::new();
        let db = replayed(&place.at("db"), &small(engine), &[20]);
        let begins = AtomicBool::new(false);
        std::thread::scope(|scope| {
            db.read(|_| {
                scope.spawn(|| {
                    begins.store(true, SeqCst);
                    db.write(|tx| transaction(tx, &db, 20)).unwrap();
                });
                while !begins.load(SeqCst) {
                    std::thread::yield_now();
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
                // In engines with snapshots or many transactions the outer read, which has locked
                // nothing, keeps no writer waiting.
                let now = seen(&db, 0);
                let waits = engine.traits().concurrency == Concurrency::Serial;
                let may = db.snapshot().is_ok() || !waits;
                assert!(now == 20 || now == 21 && may, "{engine}: {now}");
                Ok(())
            })
            .unwrap();
        });
        assert_eq!(seen(&db, 0), 21);
    });
}
