//! A checkpoint that finds no room, since the medium is full: the caller gets the error, and the
//! partition goes on.

use std::sync::Arc;

use engines::below::{
    Catalog, ColumnType, Dram, Heap, HeapOptions, Row, Schema, TableSchema, Value,
};
use engines::{
    Begin, Engine, EngineError, Isolation, Method, NvLoggingFoc, NvLoggingFoi, OwnOptions,
    Resources, Setup,
};
use paged::PagedError;
use sim::{Recorded, Recording, RecordingFiles};

const ROWS: u64 = 40;

fn engine<E: Method<Recorded>>(files: &RecordingFiles) -> E {
    let table = TableSchema::new("t")
        .column("id", ColumnType::U64)
        .column("payload", ColumnType::Bytes { max: 100 })
        .key(&["id"]);
    let catalog = Arc::new(Catalog::new(&Schema::new().table(table)).unwrap());
    let mut options = E::Options::default();
    for (name, value) in [
        ("page_bytes", 512),
        ("buffer_bytes", 64 << 10),
        ("log_bytes", 128 << 10),
        ("log_entries", 256),
        ("log_buffer_bytes", 256 << 10),
        ("checkpoint_bytes", 8 << 10),
        ("checkpoint_entries", 64),
        ("persister", 0),
    ] {
        options.put(name, value);
    }
    let durable = Recording::pool(64 << 10, 16 << 20).unwrap();
    let heap = Heap::format(durable, HeapOptions { chunk_bytes: 16 << 10, lanes: 1 }).unwrap();
    let volatile = Dram::new(16 << 20).unwrap();
    let resources = Resources { partition: 0, volatile, durable: heap, files: Some(files.clone()) };
    let mut engine = E::create(resources, &catalog, &Setup::default(), &options).unwrap();
    for id in 0..ROWS {
        engine.insert(0, &[Value::U64(id), Value::Bytes(&[0; 60])]).unwrap();
    }
    engine.commit().unwrap();
    engine
}

fn begin(session: &mut dyn Engine, age: u64) {
    let isolation = Isolation::Serializable;
    session.begin(&Begin { isolation, age, wait: None, reads_only: false }).unwrap();
}

fn update(session: &mut dyn Engine, id: u64, stamp: u8) -> Result<(), EngineError> {
    session.update(0, &[Value::U64(id)], &[(1, Value::Bytes(&[stamp; 60]))])
}

fn is_refused_and_goes_on<E: Method<Recorded>>() {
    let files = RecordingFiles::new();
    let mut root = engine::<E>(&files);
    root.checkpoint().unwrap();
    files.limit(Some(bytes(&files)));
    let sessions = root.sessions().unwrap();
    let (mut idle, mut other) = (sessions.session().unwrap(), sessions.session().unwrap());
    begin(&mut *idle, 1);
    for id in 1..20 {
        update(&mut *idle, id, 1).unwrap();
    }
    let full = (2..10_000).find_map(|age| {
        begin(&mut *other, age);
        match update(&mut *other, ROWS - 1, age as u8) {
            Ok(()) => other.commit().err(),
            Err(error) => {
                other.abort().unwrap();
                Some(error)
            }
        }
    });
    assert!(full.is_some(), "the log is full at some time");
    let refused = (0..10_000).find_map(|_| root.checkpoint().err());
    let refused = refused.expect("a checkpoint that frees nothing takes no more than there is");
    assert!(
        matches!(
            refused,
            EngineError::Paged(PagedError::LogFull { .. } | PagedError::NoSpaceForCold { .. })
        ),
        "{refused}"
    );
    assert!(!root.is_stopped(), "the partition goes on");
    idle.abort().unwrap();
    root.checkpoint().unwrap();
    begin(&mut *other, 20_000);
    other.delete(0, &[Value::U64(1)]).unwrap();
    assert!(other.commit().unwrap().1, "it is durable");
    root.checkpoint().unwrap();
    let mut row = Row::new();
    assert!(!root.get(0, &[Value::U64(1)], None, &mut row).unwrap());
    assert!(root.get(0, &[Value::U64(2)], None, &mut row).unwrap());
    assert_eq!(row.bytes(1), [0; 60], "what was open is undone");
}

#[test]
fn a_refused_checkpoint_does_not_stop_nv_logging() {
    is_refused_and_goes_on::<NvLoggingFoi<Recorded>>();
    is_refused_and_goes_on::<NvLoggingFoc<Recorded>>();
}

fn bytes(files: &RecordingFiles) -> u64 {
    files.image().values().map(|bytes| bytes.len() as u64).sum()
}
