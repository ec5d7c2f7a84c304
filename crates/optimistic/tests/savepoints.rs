//! Savepoints of a session are of one transaction, and of one way through it, as in the engines
//! that ship.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engines::below::{
    Catalog, ColumnType, Dram, Heap, HeapOptions, Row, Schema, TableSchema, Value,
};
use engines::{Begin, Engine, EngineError, Isolation, Maker, Resources, Setup};
use optimistic::Optimistic;
use sim::{Recorded, Recording};

fn root() -> Box<dyn Engine> {
    let table = TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]);
    let catalog = Arc::new(Catalog::new(&Schema::new().table(table)).unwrap());
    let memory = Recording::pool(64 << 10, 4 << 20).unwrap();
    let heap = Heap::format(memory, HeapOptions { chunk_bytes: 8 << 10, lanes: 1 }).unwrap();
    let volatile = Dram::new(1 << 20).unwrap();
    let resources = Resources::<Recorded> { partition: 0, volatile, durable: heap, files: None };
    Optimistic::new()
        .create(resources, &catalog, &Setup { node_bytes: 256, ..Setup::default() })
        .unwrap()
}

fn begin() -> Begin {
    static AGE: AtomicU64 = AtomicU64::new(0);
    let age = AGE.fetch_add(1, Ordering::Relaxed);
    Begin { isolation: Isolation::Serializable, age, wait: None, reads_only: false }
}

fn ids(engine: &dyn Engine) -> Vec<u64> {
    let has = |id: &u64| engine.get(0, &[Value::U64(*id)], None, &mut Row::new()).unwrap();
    (0..5).filter(has).collect()
}

fn void(done: &Result<(), EngineError>) {
    assert!(matches!(done, Err(EngineError::NoSavepoint)), "{done:?}");
}

#[test]
fn one_that_was_rolled_back_past_is_void() {
    let root = root();
    let mut session = root.sessions().unwrap().session().unwrap();
    session.begin(&begin()).unwrap();
    session.insert(0, &[Value::U64(0)]).unwrap();
    let first = session.savepoint().unwrap();
    session.insert(0, &[Value::U64(1)]).unwrap();
    let second = session.savepoint().unwrap();
    session.rollback_to(first).unwrap();
    // There are as many writes again as there were at the second one.
    session.insert(0, &[Value::U64(2)]).unwrap();
    session.insert(0, &[Value::U64(3)]).unwrap();
    void(&session.rollback_to(second));
    assert_eq!(ids(&*session), [0, 2, 3]);
    session.rollback_to(first).unwrap();
    session.rollback_to(first).unwrap();
    assert_eq!(ids(&*session), [0]);
    session.insert(0, &[Value::U64(4)]).unwrap();
    session.commit().unwrap();
    session.begin(&begin()).unwrap();
    assert_eq!(ids(&*session), [0, 4]);
}

#[test]
fn one_of_another_transaction_is_void() {
    let root = root();
    let sessions = root.sessions().unwrap();
    let (mut session, mut other) = (sessions.session().unwrap(), sessions.session().unwrap());
    session.begin(&begin()).unwrap();
    other.begin(&begin()).unwrap();
    let of_another = other.savepoint().unwrap();
    let before = session.savepoint().unwrap();
    session.insert(0, &[Value::U64(0)]).unwrap();
    void(&session.rollback_to(of_another));
    session.commit().unwrap();
    session.begin(&begin()).unwrap();
    session.insert(0, &[Value::U64(1)]).unwrap();
    void(&session.rollback_to(before));
    session.abort().unwrap();
    session.begin(&begin()).unwrap();
    void(&session.rollback_to(before));
    assert_eq!(ids(&*session), [0]);
}
