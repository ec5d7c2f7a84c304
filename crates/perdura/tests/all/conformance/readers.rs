//! Readers and writers at the same time. In engines with snapshots neither waits for the other, and
//! in all engines a reader sees what was committed before it began.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use perdura::{
    ColumnType, Commit, Database, EngineKind, Environment, Error, Row, Schema, Table, TableSchema,
    Value,
};
use sim::{Recording, RecordingFiles};

use super::{Store, each, small};

fn schema() -> Schema {
    let table = TableSchema::new("counter")
        .column("id", ColumnType::U64)
        .column("count", ColumnType::U64)
        .key(&["id"]);
    Schema::new().table(table)
}

fn engines() -> Vec<EngineKind> {
    let has = |engine: &EngineKind| Store::new(&schema(), small(*engine)).db().snapshot().is_ok();
    let engines: Vec<_> = EngineKind::ALL.into_iter().filter(has).collect();
    assert!(engines.len() >= 2, "{engines:?}");
    engines
}

const COUNTERS: u64 = 8;

fn begin<E: Environment>(db: &Database<E>) -> Table {
    let table = db.table("counter").unwrap();
    let zero = |id| [Value::U64(id), Value::U64(0)];
    db.write(|tx| (0..COUNTERS).try_for_each(|id| tx.insert(&table, &zero(id)))).unwrap();
    table
}

fn set<E: Environment>(db: &Database<E>, table: &Table, count: u64) -> Result<(), Error> {
    db.write(|tx| {
        (0..COUNTERS)
            .try_for_each(|id| tx.update(table, &[Value::U64(id)], &[(1, Value::U64(count))]))
    })
}

/// Returns the count that all counters have.
fn count<E: Environment>(db: &Database<E>, table: &Table) -> u64 {
    let counts = db.read(|tx| {
        let mut row = Row::new();
        (0..COUNTERS)
            .map(|id| {
                assert!(tx.get_into(table, &[Value::U64(id)], &mut row)?);
                Ok(row.u64(1))
            })
            .collect::<Result<Vec<_>, Error>>()
    });
    let counts = counts.unwrap();
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    counts[0]
}

/// A reader that waited would wait here for ever.
#[test]
fn a_reader_does_not_wait_for_a_transaction_that_is_open() {
    for engine in engines() {
        let store = Store::new(&schema(), small(engine));
        let (db, table) = (store.db(), begin(store.db()));
        let (there, here) = mpsc::channel();
        let (go, wait) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let (there, wait) = (there, wait);
                db.write(|tx| {
                    for id in 0..COUNTERS {
                        tx.update(&table, &[Value::U64(id)], &[(1, Value::U64(1))])?;
                    }
                    there.send(()).unwrap();
                    wait.recv().unwrap();
                    Ok(())
                })
                .unwrap();
            });
            here.recv().unwrap();
            assert_eq!(count(db, &table), 0, "{engine}");
            go.send(()).unwrap();
        });
        assert_eq!(count(db, &table), 1, "{engine}");
        let owner = db.partition(0).exclusive().unwrap();
        assert_eq!(count(db, &table), 1, "{engine}");
        drop(owner);
    }
}

/// A writer that waited would wait here for ever.
#[test]
fn a_reader_holds_up_no_writer_and_sees_one_state() {
    for engine in engines() {
        let store = Store::new(&schema(), small(engine));
        let (db, table) = (store.db(), begin(store.db()));
        let mut row = Row::new();
        db.read(|tx| {
            for round in 1..=3 {
                thread::scope(|scope| scope.spawn(|| set(db, &table, round)).join())
                    .expect("it does not panic")?;
                for id in 0..COUNTERS {
                    assert!(tx.get_into(&table, &[Value::U64(id)], &mut row)?);
                    assert_eq!(row.u64(1), 0, "{engine}");
                }
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(count(db, &table), 3, "{engine}");
        db.check().unwrap();
    }
}

#[test]
fn a_reader_sees_what_was_committed_before_it_began() {
    each(|engine| {
        for group in [1, 4] {
            let options = small(engine).commit(Commit::grouped(group));
            let store = Store::new(&schema(), options);
            let (db, table) = (store.db(), begin(store.db()));
            for round in 1..=10 {
                set(db, &table, round).unwrap();
                assert_eq!(count(db, &table), round, "in groups of {group}");
                thread::scope(|scope| {
                    scope.spawn(|| assert_eq!(count(db, &table), round, "in groups of {group}"));
                });
            }
        }
    });
}

#[derive(PartialEq, Debug)]
enum Said {
    /// The writer waits in a call to its medium.
    Stopped,
    /// It has committed.
    Done,
}

/// Stops the writer before one of its calls to the medium.
struct Gate {
    /// Calls to let pass before that.
    left: Mutex<Option<u64>>,
    say: Mutex<mpsc::Sender<Said>>,
    go: Mutex<mpsc::Receiver<()>>,
}

impl Gate {
    fn pass(&self) {
        let mut left = self.left.lock().unwrap();
        match *left {
            None => {}
            Some(0) => {
                *left = None;
                drop(left);
                self.say.lock().unwrap().send(Said::Stopped).unwrap();
                self.go.lock().unwrap().recv().unwrap();
            }
            Some(more) => *left = Some(more - 1),
        }
    }
}

/// The writer is stopped once before each store, flush, fence, write and sync that a transaction
/// makes, and a reader runs meanwhile. A reader that waited would wait for ever.
#[test]
fn a_reader_waits_for_no_store_fence_write_or_sync_of_a_writer() {
    for engine in engines() {
        let (memory, files) = (Recording::pool(64 << 10, 64 << 20).unwrap(), RecordingFiles::new());
        let media = faults::recorded(memory.clone(), files.clone());
        let db = Database::create_on(media, &schema(), &small(engine)).unwrap();
        let table = begin(&db);
        let (say, said) = mpsc::channel();
        let (let_go, go) = mpsc::channel();
        let (left, done) = (Mutex::new(None), say.clone());
        let gate = Arc::new(Gate { left, say: Mutex::new(say), go: Mutex::new(go) });
        let (in_memory, in_files) = (gate.clone(), gate.clone());
        memory.call_before_each(move |_| in_memory.pass());
        files.call_before_each(move |_| in_files.pass());
        let mut stopped = 0;
        for round in 1.. {
            *gate.left.lock().unwrap() = Some(stopped);
            let last = thread::scope(|scope| {
                scope.spawn(|| {
                    set(&db, &table, round).unwrap();
                    done.send(Said::Done).unwrap();
                });
                let first = said.recv().unwrap();
                let seen = count(&db, &table);
                assert!(seen == round || seen + 1 == round, "{engine}: {seen} in round {round}");
                if first == Said::Stopped {
                    let_go.send(()).unwrap();
                    assert_eq!(said.recv().unwrap(), Said::Done);
                }
                first == Said::Done
            });
            assert_eq!(count(&db, &table), round, "{engine}");
            if last {
                break;
            }
            stopped += 1;
        }
        *gate.left.lock().unwrap() = None;
        println!("{engine}: {stopped} calls");
        assert!(stopped >= 5, "{engine}");
        db.check().unwrap();
    }
}
