//! The name `paged`: which engine it is on which medium, and what a database says of it later.

use crate::support::small_pages;
use std::path::Path;

use perdura::{
    Backup, ColumnType, Database, Domain, EngineChoice, EngineKind, Error, Options, Schema,
    TableSchema, Value, medium_of,
};
use sim::{Recording, RecordingFiles};

fn schema() -> Schema {
    Schema::new().table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]))
}

fn paged() -> Options {
    small_pages().engine(EngineChoice::Paged).tune("log_bytes", 1 << 20)
}

/// The engine that `paged` is in a directory.
fn expected(directory: &Path) -> EngineKind {
    match medium_of(&std::fs::File::open(directory).unwrap()).unwrap().natural {
        Domain::Disk => EngineKind::NvDisk,
        Domain::Process | Domain::Adr | Domain::Eadr => EngineKind::NvLoggingFoc,
    }
}

/// Directories on a disk and in memory, where there are such.
fn directories() -> Vec<tempfile::TempDir> {
    let places = [std::env::temp_dir(), "/dev/shm".into(), env!("CARGO_TARGET_TMPDIR").into()];
    places.iter().filter_map(|place| tempfile::tempdir_in(place).ok()).collect()
}

#[test]
fn paged_is_one_engine_on_a_disk_and_another_in_memory_and_the_database_says_which() {
    for directory in directories() {
        let (path, wanted) = (directory.path().join("db"), expected(directory.path()));
        println!("{}: {wanted}", path.display());
        let db = Database::create(&path, &schema(), &paged()).unwrap();
        assert_eq!(db.engine(), wanted);
        db.insert(&db.table("t").unwrap(), &[Value::U64(7)]).unwrap();
        db.close().unwrap();
        for named in [paged(), small_pages(), small_pages().engine(wanted)] {
            let db = Database::open(&path, &named).unwrap();
            assert_eq!((db.engine(), db.check().unwrap().tuples), (wanted, 1));
            db.close().unwrap();
        }
        let refused = Database::open(&path, &small_pages().engine(EngineKind::Inp)).unwrap_err();
        assert!(matches!(&refused, Error::WrongEngine { .. }), "{refused}");

        let db = Database::open(&path, &small_pages()).unwrap();
        let backup = directory.path().join("backup");
        db.backup(&backup).unwrap();
        db.close().unwrap();
        let copy = directory.path().join("copy");
        Backup::open(&backup).unwrap().restore(&copy, &paged(), &mut |_| {}).unwrap();
        let db = Database::open(&copy, &paged()).unwrap();
        assert_eq!((db.engine(), db.check().unwrap().tuples), (wanted, 1));
        db.close().unwrap();
    }
}

#[test]
fn a_database_of_another_engine_is_none_of_paged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let options = small_pages().engine(EngineKind::NvmInp).domain(Domain::Process);
    Database::create(&path, &schema(), &options).unwrap().close().unwrap();
    let refused = Database::open(&path, &paged().domain(Domain::Process)).unwrap_err();
    match &refused {
        Error::WrongEngine { found, wanted, .. } => {
            assert_eq!((found.as_str(), wanted.as_str()), ("nvm-inp", "paged"));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn options_by_name_are_those_of_the_engine_that_paged_is() {
    let create = |options: &Options| {
        let memory = Recording::pool(1 << 20, 64 << 20).unwrap();
        let media = faults::recorded(memory, RecordingFiles::new());
        Database::create_on(media, &schema(), options)
    };
    let db = create(&paged().set("persister", 0)).unwrap();
    assert_eq!(db.engine(), EngineKind::NvLoggingFoc, "such a medium stands for persistent memory");
    let refused = create(&paged().set("growth", 2)).unwrap_err().to_string();
    assert!(refused.contains("nv-logging-foc has no option `growth`"), "{refused}");
    let refused = create(&paged().set("persister", 2)).unwrap_err().to_string();
    assert!(refused.contains("persister of 2; choose 0 to 1"), "{refused}");
}
