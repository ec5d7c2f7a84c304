//! Pools in huge pages: on tmpfs the kernel puts them where small ones were while the pool grows,
//! on hugetlbfs there are no others. What is stored is the same.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use perdura::{ColumnType, Database, EngineKind, Options, Scan, Schema, TableSchema, Value};

const TUPLES: u64 = 10_000;
const BYTES: usize = 1_000;

fn schema() -> Schema {
    Schema::new().table(
        TableSchema::new("item")
            .column("id", ColumnType::U64)
            .column("value", ColumnType::Bytes { max: BYTES as u32 })
            .key(&["id"]),
    )
}

fn value(id: u64) -> Vec<u8> {
    (0..BYTES as u64).map(|at| (id.wrapping_mul(0x9e37_79b9) >> (at % 24)) as u8).collect()
}

/// Fills a database, drops the handle, and reads all of it back, twice.
fn fill_and_read(path: &Path, options: &Options) -> u64 {
    let db = Database::create(path, &schema(), options).expect("created");
    let item = db.table("item").expect("there");
    for first in (0..TUPLES).step_by(100) {
        db.write(|tx| {
            (first..first + 100)
                .try_for_each(|id| tx.insert(&item, &[Value::U64(id), Value::Bytes(&value(id))]))
        })
        .expect("inserted");
    }
    let stored = db.stored_bytes().expect("asked");
    drop(db);
    for _ in 0..2 {
        let db = Database::open(path, options).expect("opens");
        let item = db.table("item").expect("there");
        let mut next = 0;
        db.read(|tx| {
            tx.scan(&item, &Scan::all(), |row| {
                assert_eq!((row.u64(0), row.bytes(1)), (next, &value(next)[..]));
                next += 1;
                ControlFlow::Continue(())
            })
        })
        .expect("read");
        assert_eq!(next, TUPLES);
        let report = db.check().expect("sound");
        assert_eq!((report.tuples, report.leaked, report.dangling), (TUPLES, 0, 0));
        db.close().expect("closed");
    }
    stored
}

#[test]
fn a_pool_in_huge_pages_holds_the_same_in_as_much_space() {
    let memory = Path::new("/dev/shm");
    let Ok(directory) = tempfile::tempdir_in(memory) else {
        println!("skipped: no tmpfs at {}", memory.display());
        return;
    };
    for engine in [EngineKind::NvmInp, EngineKind::NvmCow, EngineKind::NvmLog] {
        let stored = [true, false].map(|huge| {
            let path = directory.path().join(format!("{engine}-{huge}"));
            fill_and_read(&path, &Options::new().engine(engine).huge_pages(huge))
        });
        println!("{engine}: {} bytes", stored[0]);
        assert!(stored[0] > 8 << 20, "{engine}: there are places for huge pages");
        assert_eq!(stored[0], stored[1], "{engine}");
    }
}

/// `mount -t hugetlbfs none DIR`, and 64 pages of 2 MiB in `/proc/sys/vm/nr_hugepages`.
#[test]
#[ignore = "needs a hugetlbfs, whose directory PERDURA_HUGETLBFS names"]
fn a_database_lies_on_hugetlbfs() {
    let directory = std::env::var_os("PERDURA_HUGETLBFS").map(PathBuf::from).expect("named");
    let directory = tempfile::tempdir_in(directory).expect("a directory");
    for engine in EngineKind::ALL.into_iter().filter(|engine| !engine.traits().needs_files()) {
        let path = directory.path().join(engine.name());
        let stored = fill_and_read(&path, &Options::new().engine(engine).pool_limit(1 << 30));
        println!("{engine}: {stored} bytes");
        std::fs::remove_file(&path).expect("removed");
    }
    let files = Database::create(
        directory.path().join("inp"),
        &schema(),
        &Options::new().engine(EngineKind::Inp),
    );
    let why = files.expect_err("files cannot be written there").to_string();
    println!("{why}");
}
