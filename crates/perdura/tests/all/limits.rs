//! Limits of the schema, and of what the kernel lets a process have (`RLIMIT_AS`, `RLIMIT_FSIZE`):
//! an ordinary error, after which a creation has left nothing and a database has lost nothing.
//! Limits hold for a process, so these tests run in one of their own.

use crate::support::small_pages;
use std::path::{Path, PathBuf};
use std::process::Command;

use perdura::{
    ColumnType, Database, Domain, DurableIn, EngineKind, Error, Options, Schema, Table,
    TableSchema, Value,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CHILD: &str = "PERDURA_LIMITS_CHILD";

/// Runs the test of this name in a process of its own; says in that one that it is.
fn in_child(name: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let done = Command::new(std::env::current_exe().unwrap())
        .args([&format!("limits::{name}"), "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(done.status.success(), "{}: {}{}", done.status, said[0], said[1]);
    assert!(said[0].contains("1 passed"), "{}", said[0]);
    false
}

/// Sets the limit that the kernel enforces. It can be taken back.
fn limit(resource: Resource, bytes: Option<u64>) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

fn one_table() -> Schema {
    let table = TableSchema::new("t")
        .column("id", ColumnType::U64)
        .column("value", ColumnType::Bytes { max: 4000 })
        .key(&["id"]);
    Schema::new().table(table)
}

fn insert(db: &Database, table: &Table, id: u64) -> Result<(), Error> {
    // Bytes that no compression makes fewer.
    let mut bytes = [0u8; 4000];
    let mut state = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    bytes.fill_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    });
    db.partition(0).write(|tx| tx.insert(table, &[Value::U64(id), Value::Bytes(&bytes)]))
}

/// Returns true if there is nothing in the directory.
fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

/// A place in a directory of its own.
fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = crate::support::in_memory();
    let path = directory.path().join("db");
    (directory, path)
}

#[test]
fn a_schema_has_1024_tables_in_every_engine() {
    let columns = |table: TableSchema| {
        (0..5).fold(table, |table, column| {
            table.column(format!("a column with a long name, number {column}"), ColumnType::U64)
        })
    };
    let schema = (0..1024).fold(Schema::new(), |schema, number| {
        let table = TableSchema::new(format!("table {number}")).column("id", ColumnType::U64);
        schema.table(columns(table).key(&["id"]))
    });
    for (engine, chunk_bytes) in
        EngineKind::ALL.into_iter().flat_map(|engine| [(engine, None), (engine, Some(8 << 10))])
    {
        let (_directory, path) = place();
        let options = small_pages().engine(engine).domain(Domain::Process);
        let options = chunk_bytes.map_or(options.clone(), |bytes| options.chunk_bytes(bytes));
        let db = Database::create(&path, &schema, &options).unwrap();
        let tuple = [7u64; 6].map(Value::U64);
        for name in ["table 0", "table 1023"] {
            let table = db.table(name).unwrap();
            db.write(|tx| tx.insert(&table, &tuple)).unwrap();
        }
        db.close().unwrap();
        let db = Database::open(&path, &small_pages()).unwrap();
        assert_eq!(db.schema(), &schema, "{engine}");
        let report = db.check().unwrap();
        assert_eq!((report.tuples, report.leaked, report.dangling), (2, 0, 0), "{engine}");
        assert!(db.examine().unwrap().findings.is_empty(), "{engine}");
    }
}

/// A log in the pool has its space from the beginning.
fn small_log(options: Options, engine: EngineKind) -> Options {
    match engine.traits().durable_in {
        DurableIn::Both => options.tune("log_bytes", 512 << 10).tune("log_entries", 1024),
        DurableIn::Pool | DurableIn::Files => options,
    }
}

#[test]
fn many_partitions_reserve_little_each() {
    for engine in EngineKind::ALL {
        let (_directory, path) = place();
        let options = small_pages().engine(engine).domain(Domain::Process).partitions(256);
        let options = small_log(options, engine);
        let db = Database::create(&path, &one_table(), &options).unwrap();
        let stored = db.stored_bytes().unwrap();
        println!("{engine}: {stored} bytes");
        assert!(stored < 512 << 20, "{engine}: {stored}");
        let table = db.table("t").unwrap();
        for partition in [0, 255] {
            let tuple = [Value::U64(1), Value::Bytes(&[1; 4000])];
            db.partition(partition).write(|tx| tx.insert(&table, &tuple)).unwrap();
        }
        assert_eq!(db.check().unwrap().tuples, 2, "{engine}");
    }
}

#[test]
fn a_limit_of_addresses_leaves_room_for_a_database() {
    if !in_child("a_limit_of_addresses_leaves_room_for_a_database") {
        return;
    }
    for engine in EngineKind::ALL {
        let (directory, path) = place();
        let options = small_pages().engine(engine).domain(Domain::Process).partitions(4);
        limit(Resource::As, Some(3 << 30));
        let db = Database::create(&path, &one_table(), &options).unwrap();
        let table = db.table("t").unwrap();
        (0..100).for_each(|id| insert(&db, &table, id).unwrap());
        db.close().unwrap();
        let db = Database::open(&path, &small_pages()).unwrap();
        assert_eq!(db.check().unwrap().tuples, 100, "{engine}");
        db.close().unwrap();
        if engine.traits().needs_files() {
            // A request that cannot be met is refused, and the error says what could be had.
            let error = Database::open(&path, &small_pages().volatile_limit(1 << 40));
            let error = error.unwrap_err().to_string();
            assert!(error.contains("`volatile_limit`") && error.contains("of 4"), "{error}");
            let fits = error.split("; ").last().unwrap().split(' ').next().unwrap();
            let fits = small_pages().volatile_limit(fits.parse().unwrap());
            assert_eq!(Database::open(&path, &fits).unwrap().check().unwrap().tuples, 100);
        }
        drop(directory);
        limit(Resource::As, None);
    }
}

#[test]
fn a_pool_that_needs_more_addresses_is_full() {
    if !in_child("a_pool_that_needs_more_addresses_is_full") {
        return;
    }
    for engine in EngineKind::ALL.into_iter().filter(|engine| !engine.traits().needs_files()) {
        let (_directory, path) = place();
        let options = small_pages().engine(engine).domain(Domain::Process);
        Database::create(&path, &one_table(), &options).unwrap().close().unwrap();
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
        limit(Resource::As, Some((pages * 4096) + (48 << 20)));
        let db = Database::open(&path, &small_pages()).unwrap();
        let table = db.table("t").unwrap();
        let (mut there, mut error) = (0, None);
        while error.is_none() && there < 100_000 {
            match insert(&db, &table, there) {
                Ok(()) => there += 1,
                Err(full) => error = Some(full.to_string()),
            }
        }
        let error = error.unwrap();
        assert!(error.contains("addresses") && error.contains("open it in a process"), "{error}");
        assert!(there > 1000, "{engine}: {there}");
        db.close().unwrap();
        limit(Resource::As, None);
        let db = Database::open(&path, &small_pages()).unwrap();
        assert_eq!(db.check().unwrap().tuples, there, "{engine}");
        insert(&db, &db.table("t").unwrap(), there).unwrap();
    }
}

#[test]
fn a_limit_of_bytes_in_a_file_is_an_error_and_no_signal() {
    if !in_child("a_limit_of_bytes_in_a_file_is_an_error_and_no_signal") {
        return;
    }
    for engine in EngineKind::ALL {
        let (directory, path) = place();
        let options = small_pages()
            .engine(engine)
            .domain(Domain::Process)
            .chunk_bytes(64 << 10)
            .tune("memtable_bytes", 64 << 10)
            .tune("checkpoint_bytes", 128 << 10)
            .tune("wal_reserve_bytes", 64 << 10);
        let options = small_log(options, engine);
        limit(Resource::Fsize, Some(16 << 10));
        let error = Database::create(&path, &one_table(), &options).unwrap_err().to_string();
        assert!(error.contains("RLIMIT_FSIZE"), "{engine}: {error}");
        assert!(is_empty(directory.path()), "{engine}");
        limit(Resource::Fsize, Some(1 << 20));
        let db = Database::create(&path, &one_table(), &options).unwrap();
        let table = db.table("t").unwrap();
        let (mut there, mut error) = (0, None);
        while error.is_none() && there < 600 {
            match insert(&db, &table, there) {
                Ok(()) => there += 1,
                Err(full) => error = Some(full),
            }
        }
        // A failure of deferred work does not fail a transaction.
        let error = error.or_else(|| db.checkpoint().err()).map(|error| error.to_string());
        let failures = db.stats().unwrap().failures;
        println!("{engine}: {there} tuples, {failures} failures put off, then {error:?}");
        match error {
            Some(error) => assert!(error.contains("RLIMIT_FSIZE"), "{engine}: {error}"),
            None => assert!(failures > 0, "{engine}"),
        }
        let backup = directory.path().join("backup");
        let error = db.backup(&backup).map(drop);
        assert!(error.is_ok() || !backup.exists(), "{engine}");
        let _ = db.close();
        limit(Resource::Fsize, None);
        let db = Database::open(&path, &small_pages()).unwrap();
        assert_eq!(db.check().unwrap().tuples, there, "{engine}");
        insert(&db, &db.table("t").unwrap(), there).unwrap();
        limit(Resource::Fsize, Some(4 << 10));
        let error = db.backup(directory.path().join("second")).unwrap_err().to_string();
        assert!(error.contains("RLIMIT_FSIZE"), "{engine}: {error}");
        let left = std::fs::read_dir(directory.path()).unwrap();
        let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert!(left.into_iter().all(|name| !name.contains("second")), "{engine}");
        limit(Resource::Fsize, None);
    }
}
