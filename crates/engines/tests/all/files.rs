//! The engines with files: one call to the kernel fails, at every call in turn, and the size of the
//! log that they keep.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use engines::below::{
    Catalog, ColumnType, Dram, Heap, HeapOptions, Row, Schema, StorageError, TableSchema, Value,
};
use engines::{
    Cow, Engine, EngineError, Inp, Log, LogOptions, Method, NvmCow, NvmInp, NvmLog, OwnOptions,
    OwnStats, Resources, Scan, Setup, Write,
};
use sim::{Recorded, Recording, RecordingFiles};

const LIMIT: u64 = 1 << 20;

fn catalog() -> Arc<Catalog> {
    let table = TableSchema::new("t")
        .column("id", ColumnType::U64)
        .column("version", ColumnType::I64)
        .column("payload", ColumnType::Bytes { max: 200 })
        .key(&["id"])
        .index("by_version", &["version"]);
    Arc::new(Catalog::new(&Schema::new().table(table)).unwrap())
}

/// Small nodes, so that few tuples take several.
fn setup() -> Setup {
    Setup { node_bytes: 256, ..Setup::default() }
}

/// Small in every way, of an engine that has these options or some of them.
fn options<O: OwnOptions>() -> O {
    let mut options = O::default();
    for (name, value) in [
        ("checkpoint_bytes", 3 << 10),
        ("wal_reserve_bytes", 4 << 10),
        ("wal_buffer_bytes", 4 << 10),
        ("page_bytes", 512),
        ("cache_bytes", 64 << 10),
        ("memtable_bytes", 2 << 10),
        ("growth", 2),
        ("level0_runs", 2),
        ("block_bytes", 512),
    ] {
        options.put(name, value);
    }
    options
}

struct Subject<E: Method<Recorded>> {
    catalog: Arc<Catalog>,
    options: E::Options,
    memory: Recording,
    files: RecordingFiles,
    engine: E,
}

fn resources(heap: &Heap<Recording>, files: &RecordingFiles) -> Resources<Recorded> {
    let volatile = Dram::new(64 << 20).unwrap();
    Resources { partition: 0, volatile, durable: heap.clone(), files: Some(files.clone()) }
}

impl<E: Method<Recorded>> Subject<E> {
    fn new(options: E::Options) -> Self {
        Self::with(options, &setup())
    }

    fn with(options: E::Options, setup: &Setup) -> Self {
        let (catalog, files) = (catalog(), RecordingFiles::new());
        let memory = Recording::pool(64 << 10, LIMIT).unwrap();
        let heap_options = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };
        let heap = Heap::format(memory.clone(), heap_options).unwrap();
        let engine = E::create(resources(&heap, &files), &catalog, setup, &options).unwrap();
        Self { catalog, options, memory, files, engine }
    }

    /// Opens it as after a kill: from what the files hold now.
    fn reopen(&mut self) {
        self.memory = Recording::from_image(&self.memory.contents(), LIMIT).unwrap();
        let heap = Heap::open(self.memory.clone()).unwrap();
        let opened = E::open(resources(&heap, &self.files), &self.catalog, &setup(), &self.options);
        self.engine = opened.unwrap_or_else(|error| panic!("{}: {error}", E::KIND)).0;
    }

    fn put(&mut self, id: u64, version: i64) -> Result<(), EngineError> {
        let payload = [version as u8; 60];
        let (version, payload) = (Value::I64(version), Value::Bytes(&payload));
        match self.engine.update(0, &[Value::U64(id)], &[(1, version), (2, payload)]) {
            Err(error) if is_missing(&error) => {
                self.engine.insert(0, &[Value::U64(id), version, payload])
            }
            done => done,
        }
    }

    fn contents(&self) -> BTreeMap<u64, i64> {
        let mut found = BTreeMap::new();
        self.engine
            .scan(0, &Scan::ALL, &mut Row::new(), &mut |row| {
                assert_eq!(row.bytes(2), [row.i64(1) as u8; 60], "a tuple is whole");
                found.insert(row.u64(0), row.i64(1));
                ControlFlow::Continue(())
            })
            .unwrap();
        found
    }
}

fn is_missing(error: &EngineError) -> bool {
    error.to_string().contains("has no tuple")
}

/// Runs a story in which call number `calls` fails, and no other. Returns whether there was such a
/// call, and how often the partition had to be opened again.
fn story<E: Method<Recorded>>(calls: u64) -> (bool, u64) {
    let mut subject = Subject::<E>::new(options());
    let (mut model, mut stops) = (BTreeMap::new(), 0);
    subject.files.fail_once_after(calls);
    for transaction in 0..64i64 {
        let mut wanted = model.clone();
        let mut run = || {
            for id in [transaction as u64 % 23, transaction as u64 * 7 % 31] {
                subject.put(id, transaction)?;
                wanted.insert(id, transaction);
            }
            let (_, durable) = subject.engine.commit()?;
            assert!(durable, "no group");
            match transaction % 8 {
                3 => subject.engine.checkpoint(),
                5 => subject.engine.background(1 << 10).map(|_| ()),
                _ => Ok(()),
            }
        };
        if run().is_ok() {
            model = wanted;
            continue;
        }
        // The partition goes on as it was, or says that it cannot.
        if subject.engine.abort().is_err() {
            stops += 1;
            subject.reopen();
        }
        let found = subject.contents();
        assert!(found == model || found == wanted, "{} call {calls}: {found:?}", E::KIND);
        model = found;
    }
    assert_eq!(subject.contents(), model, "{} call {calls}", E::KIND);
    let reached = !subject.files.will_fail();
    subject.files.fail_after(None);
    subject.reopen();
    assert_eq!(subject.contents(), model, "{} call {calls}", E::KIND);
    subject.engine.check(&mut |_| ()).unwrap();
    subject.engine.close().unwrap();
    subject.reopen();
    assert_eq!(subject.contents(), model, "{} call {calls}", E::KIND);
    (reached, stops)
}

/// One call fails, such as a sync, and all after it succeed: files that may count by then stay, and
/// the partition opens with all that was acknowledged.
fn one_failed_call_loses_nothing<E: Method<Recorded>>(calls_at_least: u64, stops_at_least: u64) {
    let (mut calls, mut stops) = (0, 0);
    loop {
        let (reached, stopped) = story::<E>(calls);
        if !reached {
            break;
        }
        (calls, stops) = (calls + 1, stops + stopped);
    }
    println!("{}: {calls} calls, {stops} times opened again", E::KIND);
    assert!(calls >= calls_at_least && stops >= stops_at_least, "{calls} calls, {stops} stops");
}

#[test]
fn one_failed_call_of_log_loses_nothing() {
    one_failed_call_loses_nothing::<Log<Recorded>>(200, 100);
}

#[test]
fn one_failed_call_of_inp_loses_nothing() {
    one_failed_call_loses_nothing::<Inp<Recorded>>(200, 100);
}

#[test]
fn one_failed_call_of_cow_loses_nothing() {
    one_failed_call_loses_nothing::<Cow<Recorded>>(200, 100);
}

/// A MemTable in which tuples are only changed in place never becomes full: it is written out for
/// the sake of the log.
#[test]
fn updates_in_place_do_not_let_the_log_of_log_grow() {
    let memtable_bytes = 32 << 10;
    let mut subject = Subject::<Log<Recorded>>::new(LogOptions { memtable_bytes, ..options() });
    let mut largest = 0;
    for version in 0..8_000i64 {
        let payload = [version as u8; 60];
        if version < 40 {
            subject.put(version as u64, version).unwrap();
        } else {
            let key = [Value::U64(version as u64 % 40)];
            subject.engine.update(0, &key, &[(2, Value::Bytes(&payload))]).unwrap();
        }
        subject.engine.commit().unwrap();
        largest = largest.max(subject.engine.footprint().unwrap().log);
    }
    let stats = subject.engine.stats();
    println!("{largest} bytes of log at most, {stats:?}");
    // That of the MemTable, and that of the one before while it is being written out.
    assert!(largest < 11 * memtable_bytes, "{largest}");
    let OwnStats::Log(own) = stats.own else { panic!("{stats:?}") };
    assert!(own.flushes > 5, "{stats:?}");
    assert_eq!((own.stalls, stats.failures), (0, 0), "{stats:?}");
    // A kill again and again, each before the log has become long enough.
    for version in 0..4_000i64 {
        let payload = [version as u8; 60];
        let key = [Value::U64(version as u64 % 40)];
        subject.engine.update(0, &key, &[(2, Value::Bytes(&payload))]).unwrap();
        subject.engine.commit().unwrap();
        if version % 200 == 199 {
            subject.reopen();
        }
        largest = largest.max(subject.engine.footprint().unwrap().log);
    }
    assert!(largest < 11 * memtable_bytes, "{largest} with kills");
}

fn checkpoints(engine: &Inp<Recorded>) -> u64 {
    let stats = engine.stats();
    let OwnStats::Inp(own) = stats.own else { panic!("{stats:?}") };
    own.checkpoints
}

/// A checkpoint counts only when the log has all that it may hold: transactions that have ended
/// while it was written are in a group that is open. Otherwise the log would be too short for it,
/// and the partition would not open after a crash.
#[test]
fn inp_checkpoint_first_makes_the_open_group_durable() {
    let setup = Setup { group: 1 << 20, helped: true, ..setup() };
    let mut subject = Subject::<Inp<Recorded>>::with(options(), &setup);
    let mut model = BTreeMap::new();
    let mut waiting_at_the_end = 0;
    for turn in 0..200 {
        subject.put(turn % 23, turn as i64).unwrap();
        model.insert(turn % 23, turn as i64);
        let (number, durable) = subject.engine.commit().unwrap();
        let waiting = number - subject.engine.durable();
        assert_eq!(durable, waiting == 0, "turn {turn}");
        let before = checkpoints(&subject.engine);
        subject.engine.background(600).unwrap();
        if checkpoints(&subject.engine) == before {
            continue;
        }
        waiting_at_the_end += waiting;
        assert_eq!(subject.engine.durable(), number, "turn {turn}");
        let mut crashed = Subject::<Inp<Recorded>>::new(options());
        crashed.files = RecordingFiles::from_image(subject.files.image());
        crashed.reopen();
        assert_eq!(crashed.contents(), model, "turn {turn}");
    }
    assert!(waiting_at_the_end > 3, "{waiting_at_the_end}");
}

/// The changes of one update have a bound that every engine knows: a log that counts in two bytes
/// would lose the rest.
fn an_update_of_too_many_columns_is_refused<E: Method<Recorded>>() {
    let mut subject = Subject::<E>::new(options());
    subject.put(1, 1).unwrap();
    subject.engine.commit().unwrap();
    let key = [Value::U64(1)];
    for many in [1 << 16, (1 << 16) + 1, 1025] {
        let error = subject.engine.update(0, &key, &vec![(1, Value::I64(2)); many]).unwrap_err();
        let refused = StorageError::TooManyChanges { table: "t".into(), found: many };
        assert_eq!(error.to_string(), refused.to_string(), "{}", E::KIND);
    }
    assert_eq!(subject.contents(), [(1, 1)].into());
    let changes: Vec<_> = (0..1024).map(|version| (1, Value::I64(version % 2))).collect();
    let error = subject.engine.update(0, &key, &changes).unwrap_err().to_string();
    assert!(error.contains("twice"), "{}: {error}", E::KIND);
    assert_eq!(subject.contents(), [(1, 1)].into());
    subject.reopen();
    assert_eq!(subject.contents(), [(1, 1)].into());
}

#[test]
fn no_engine_takes_an_update_of_too_many_columns() {
    an_update_of_too_many_columns_is_refused::<Inp<Recorded>>();
    an_update_of_too_many_columns_is_refused::<Cow<Recorded>>();
    an_update_of_too_many_columns_is_refused::<Log<Recorded>>();
    an_update_of_too_many_columns_is_refused::<NvmInp<Recorded>>();
    an_update_of_too_many_columns_is_refused::<NvmCow<Recorded>>();
    an_update_of_too_many_columns_is_refused::<NvmLog<Recorded>>();
}
