//! Things that a database with one big lock, with locks of tables, or without room for more than
//! its buffer pool could not do.

use std::path::Path;
use std::sync::Barrier;

use faults::sharing::{CELL, schema};
use perdura::{Database, Domain, EngineKind, Options, Scan, Value};

/// The engines with a buffer pool and row locks.
fn engines() -> impl Iterator<Item = EngineKind> {
    EngineKind::P2.into_iter().inspect(|engine| println!("{engine}"))
}

fn options(engine: EngineKind) -> Options {
    Options::new()
        .domain(Domain::Process)
        .engine(engine)
        .tune("page_bytes", 4096)
        .tune("buffer_bytes", 128 << 10)
        .tune("log_bytes", 32 << 20)
        .tune("log_buffer_bytes", 1 << 20)
        // Nothing happens while no thread does anything.
        .tune("persister", 0)
}

fn row(key: u64, body: &[u8]) -> [Value<'_>; 4] {
    [Value::U64(key), Value::U64(key % 3), Value::U64(key), Value::Bytes(body)]
}

/// All of them are open, with a row of the same page changed, before the first one commits.
#[test]
fn rows_of_one_page_are_changed_by_many_threads_at_once() {
    engines().for_each(rows_of_one_page_by_many_threads);
}

fn rows_of_one_page_by_many_threads(engine: EngineKind) {
    const THREADS: u64 = 8;
    let directory = tempfile::tempdir().unwrap();
    let db = Database::create(directory.path().join("db"), &schema(), &options(engine)).unwrap();
    let table = db.table(CELL).unwrap();
    db.write(|tx| (0..THREADS).try_for_each(|key| tx.insert(&table, &row(key, b"before"))))
        .unwrap();
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for key in 0..THREADS {
            let (db, table, barrier) = (&db, &table, &barrier);
            scope.spawn(move || {
                let mut tx = db.begin().unwrap();
                let change = [("body", Value::Bytes(b"after"))];
                let changed = tx.update(table, &[Value::U64(key)], &change);
                // All get so far, or the test fails instead of hanging.
                barrier.wait();
                changed.unwrap();
                let _ticket = tx.commit().unwrap();
            });
        }
    });
    let rows: Vec<_> = (0..THREADS)
        .map(|key| db.get(&table, &[Value::U64(key)]).unwrap().unwrap().bytes(3).to_vec())
        .collect();
    assert!(rows.iter().all(|body| body == b"after"), "{rows:?}");
    db.close().unwrap();
}

/// One has inserted, changed and read, and stays open; another thread does the same with other
/// keys, and ends.
#[test]
fn transactions_on_other_keys_end_while_one_is_open() {
    engines().for_each(other_keys_during_an_open_transaction);
}

fn other_keys_during_an_open_transaction(engine: EngineKind) {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::create(directory.path().join("db"), &schema(), &options(engine)).unwrap();
    let table = db.table(CELL).unwrap();
    db.write(|tx| (0..100).try_for_each(|key| tx.insert(&table, &row(key, b"before")))).unwrap();
    let change = |first: u64| {
        let mut tx = db.begin().unwrap();
        let body = [("body", Value::Bytes(b"after"))];
        tx.update(&table, &[Value::U64(first)], &body).unwrap();
        tx.delete(&table, &[Value::U64(first + 1)]).unwrap();
        tx.insert(&table, &row(1000 - first, b"new")).unwrap();
        assert!(tx.get(&table, &[Value::U64(first + 2)]).unwrap().is_some());
        tx
    };
    let open = change(10);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| change(50).commit().unwrap());
        let _ticket = other.join().unwrap();
    });
    let _ticket = open.commit().unwrap();
    assert_eq!(db.check().unwrap().tuples, 100);
    db.close().unwrap();
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&path, &to);
        } else {
            std::fs::copy(&path, &to).unwrap();
        }
    }
}

#[test]
fn a_transaction_may_be_larger_than_the_buffer_pool() {
    engines().for_each(larger_than_the_buffer_pool);
}

fn larger_than_the_buffer_pool(engine: EngineKind) {
    const ROWS: u64 = 6_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Database::create(&path, &schema(), &options(engine)).unwrap();
    let table = db.table(CELL).unwrap();
    let fill = |body: &[u8]| {
        let mut tx = db.begin().unwrap();
        (0..ROWS).for_each(|key| tx.insert(&table, &row(key, body)).unwrap());
        tx
    };
    fill(&[1; 60]).abort().unwrap();
    assert_eq!(db.check().unwrap().tuples, 0);
    let _ticket = fill(&[2; 60]).commit().unwrap();
    let own = db.stats().unwrap().own;
    assert!(own.buffer().unwrap().evictions > 500, "{own:?}");
    // A kill while it is open leaves what the files have now.
    let mut tx = db.begin().unwrap();
    (0..ROWS).for_each(|key| tx.delete(&table, &[Value::U64(key)]).unwrap());
    let left = tempfile::tempdir().unwrap();
    copy(directory.path(), left.path());
    tx.abort().unwrap();
    db.close().unwrap();
    let db = Database::open(left.path().join("db"), &options(engine)).unwrap();
    let table = db.table(CELL).unwrap();
    let mut rows = 0;
    let all = db.read(|tx| {
        rows = 0;
        tx.scan(&table, &Scan::all(), |row| {
            rows += u64::from(row.bytes(3) == [2; 60]);
            std::ops::ControlFlow::Continue(())
        })
    });
    all.unwrap();
    assert_eq!((rows, db.check().unwrap().tuples), (ROWS, ROWS));
    db.close().unwrap();
}

/// Pages are written when frames are needed, and for a checkpoint: a commit needs the log alone.
#[test]
fn a_commit_writes_no_page() {
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let options = options(engine).tune("buffer_bytes", 8 << 20);
        let db = Database::create(directory.path().join("db"), &schema(), &options).unwrap();
        let table = db.table(CELL).unwrap();
        let batches = || db.stats().unwrap().own.buffer().unwrap().page_batches;
        let before = batches();
        for key in 0..300 {
            db.write(|tx| tx.insert(&table, &row(key, &[1; 60]))).unwrap();
        }
        assert_eq!(batches(), before, "{engine}");
        db.checkpoint().unwrap();
        assert!(batches() > before, "{engine}");
        db.close().unwrap();
    }
}
