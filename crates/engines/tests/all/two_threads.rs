//! A partition that one thread changes and others read, as `Database` allows: several readers or
//! one writer under a lock, and readers of snapshots during writes. Miri is to see it
//! (`scripts/miri`).

use std::ops::ControlFlow;
use std::sync::{Arc, RwLock};
use std::thread;

use engines::below::{
    Catalog, ColumnType, Dram, Heap, HeapOptions, Row, Schema, TableSchema, Value,
};
use engines::{
    Cow, Inp, Log, Method, NvmCow, NvmInp, NvmLog, OwnOptions, Read, Resources, Scan, Setup,
    VersionReader,
};
use sim::{Recorded, Recording, RecordingFiles};

const IDS: u64 = 4;
const ROUNDS: i64 = if cfg!(miri) { 6 } else { 300 };
const LIMIT: u64 = 16 << 20;

/// Small nodes, so that few tuples take several.
fn setup() -> Setup {
    Setup { node_bytes: 256, ..Setup::default() }
}

fn engine<E: Method<Recorded>>() -> E {
    let table = TableSchema::new("t")
        .column("id", ColumnType::U64)
        .column("version", ColumnType::I64)
        .column("payload", ColumnType::Bytes { max: 100 })
        .key(&["id"])
        .index("by_version", &["version"]);
    let catalog = Arc::new(Catalog::new(&Schema::new().table(table)).unwrap());
    let mut options = E::Options::default();
    for (name, value) in [
        ("checkpoint_bytes", 3 << 10),
        ("wal_reserve_bytes", 4 << 10),
        ("wal_buffer_bytes", 4 << 10),
        ("page_bytes", 512),
        ("cache_bytes", 16 << 10),
        ("memtable_bytes", 2 << 10),
        ("growth", 2),
        ("level0_runs", 2),
        ("block_bytes", 512),
    ] {
        options.put(name, value);
    }
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let heap = Heap::format(memory, HeapOptions { chunk_bytes: 16 << 10, lanes: 1 }).unwrap();
    let volatile = Dram::new(16 << 20).unwrap();
    let files = Some(RecordingFiles::new());
    let resources = Resources { partition: 0, volatile, durable: heap, files };
    let mut engine = E::create(resources, &catalog, &setup(), &options).unwrap();
    for id in 0..IDS {
        let values = [Value::U64(id), Value::I64(0), Value::Bytes(&[0; 60])];
        engine.insert(0, &values).unwrap();
    }
    engine.commit().unwrap();
    engine
}

/// One transaction: every tuple gets the version, one in another way.
fn change<E: Method<Recorded>>(engine: &mut E, version: i64) {
    let payload = [version as u8; 60];
    let (value, payload) = (Value::I64(version), Value::Bytes(&payload));
    for id in 0..IDS - 1 {
        engine.update(0, &[Value::U64(id)], &[(1, value), (2, payload)]).unwrap();
    }
    engine.delete(0, &[Value::U64(IDS - 1)]).unwrap();
    engine.insert(0, &[Value::U64(IDS - 1), value, payload]).unwrap();
    engine.commit().unwrap();
}

/// All tuples are of one version, however they are read.
fn look(reader: &dyn Read) -> i64 {
    let mut versions = Vec::new();
    let mut row = Row::new();
    let mut visit = |row: &Row| {
        assert_eq!(row.bytes(2), [row.i64(1) as u8; 60], "a tuple is whole");
        versions.push(row.i64(1));
        ControlFlow::Continue(())
    };
    reader.scan(0, &Scan::ALL, &mut row, &mut visit).unwrap();
    assert_eq!(versions, [versions[0]; IDS as usize]);
    assert!(reader.get(0, &[Value::U64(1)], None, &mut row).unwrap());
    assert_eq!((row.i64(1), row.bytes(2)), (versions[0], &[versions[0] as u8; 60][..]));
    let mut bytes = [0; 100];
    let read = reader.get_bytes(0, &[Value::U64(2)], &[2], &mut bytes).unwrap();
    assert_eq!(bytes[..read.unwrap()], [versions[0] as u8; 60]);
    versions[0]
}

fn under_a_lock<E: Method<Recorded> + Send + Sync>() {
    let engine = RwLock::new(engine::<E>());
    let read = || {
        let mut newest = 0;
        for _ in 0..ROUNDS {
            let version = look(&*engine.read().unwrap());
            assert!(version >= newest, "{}: {version} after {newest}", E::KIND);
            newest = version;
        }
    };
    thread::scope(|scope| {
        scope.spawn(read);
        scope.spawn(|| {
            for version in 1..=ROUNDS {
                change(&mut *engine.write().unwrap(), version);
            }
        });
        read();
    });
    assert_eq!(look(&*engine.read().unwrap()), ROUNDS);
}

fn on_snapshots<E: Method<Recorded> + Send>() {
    let mut engine = engine::<E>();
    let source = engine.snapshot_source().expect("it has snapshots");
    thread::scope(|scope| {
        scope.spawn(move || {
            for version in 1..=ROUNDS {
                change(&mut engine, version);
            }
        });
        let kept = source.snapshot().unwrap();
        let first = look(&*kept);
        let mut newest = first;
        for _ in 0..ROUNDS {
            let version = look(&VersionReader::new(&*source).unwrap());
            assert!(version >= newest, "{}: {version} after {newest}", E::KIND);
            newest = version;
            assert_eq!(look(&*kept), first, "{}", E::KIND);
        }
    });
}

#[test]
fn readers_and_a_writer_take_turns() {
    under_a_lock::<Inp<Recorded>>();
    under_a_lock::<Cow<Recorded>>();
    under_a_lock::<Log<Recorded>>();
    under_a_lock::<NvmInp<Recorded>>();
    under_a_lock::<NvmCow<Recorded>>();
    under_a_lock::<NvmLog<Recorded>>();
}

#[test]
fn snapshot_readers_run_during_writes() {
    on_snapshots::<Cow<Recorded>>();
    on_snapshots::<NvmCow<Recorded>>();
}
