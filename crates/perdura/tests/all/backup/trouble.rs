//! A disk that is full, names that are taken, and pools that are too small: a failure leaves
//! nothing, and what was there stays.

use crate::support::small_logs;
use perdura::{Backup, Database, DurableIn, EngineKind, Error, PoolError, Value};
use sim::{Recorded, Recording, RecordingFiles};

use super::{Place, contents, each, every_type, filled, insert_both, restore, small};

fn backup_in(db: &Database<Recorded>, disk: &RecordingFiles) -> Result<(), Error> {
    db.backup_in(disk, "backup", "/disk/backup", &mut |_| ()).map(|_| ())
}

/// For each call that a backup makes on its disk.
#[test]
fn a_disk_that_is_full_at_any_call_leaves_nothing_and_the_database_usable() {
    each(|engine| {
        let options = small(engine).chunk_bytes(16 << 10);
        let memory = Recording::pool(64 << 10, 4 << 20).unwrap();
        let media = faults::recorded(memory, RecordingFiles::new());
        let db = Database::create_on(media, &every_type(), &options).unwrap();
        let (table, value) = (db.table("pair").unwrap(), [7; 300]);
        let insert = |number: f64| {
            let tuple = [Value::Text("k"), Value::F64(number), Value::Bytes(&value)];
            db.write(|tx| tx.insert(&table, &tuple)).unwrap();
        };
        (0..300).for_each(|number| insert(number.into()));
        let mut calls = 0;
        let sound = loop {
            let disk = RecordingFiles::new();
            disk.fail_once_after(calls);
            let done = backup_in(&db, &disk);
            if disk.will_fail() {
                done.unwrap();
                break disk.image();
            }
            let error = done.unwrap_err().to_string();
            assert!(error.starts_with("/disk/backup: "), "{error}");
            assert!(disk.image().is_empty(), "call {calls}: {:?}", disk.image().keys());
            insert(1000.0 + calls as f64);
            calls += 1;
        };
        assert!(calls >= 6, "create, writes, sync, rename, sync of the directory: {calls}");
        let place = Place::new();
        std::fs::write(place.at("backup"), &sound["backup"]).unwrap();
        let copy = super::restored(&place.at("backup"), &place.at("copy"), &small(engine));
        assert_eq!(contents(&copy), contents(&db));
        db.abandon();
    });
}

#[test]
fn a_pool_that_is_too_small_for_a_backup_leaves_nothing() {
    let place = Place::new();
    let db = filled(&place.at("db"), &small(EngineKind::NvmInp), 300);
    db.backup(place.at("backup")).unwrap();
    let names = place.names();
    each(|engine| {
        let options = small(engine).pool_limit(512 << 10).chunk_bytes(64 << 10);
        if let Err(error) = restore(&place.at("backup"), &place.at("copy"), &options) {
            // A log in the pool is made as small as the pool, and no batch fits into it.
            let small_log = engine.traits().durable_in == DurableIn::Both
                && error.to_string().contains("bytes of log; at most");
            assert!(matches!(error, Error::Full(_)) || small_log, "{error}");
            assert_eq!(place.names(), names);
        } else {
            assert!(engine.traits().needs_files(), "{engine}: it fits");
            std::fs::remove_file(place.at("copy")).unwrap();
            std::fs::remove_dir_all(place.at("copy.files")).unwrap();
        }
    });
}

#[test]
fn nothing_that_is_there_is_replaced() {
    let place = Place::new();
    let db = filled(&place.at("db"), &small(EngineKind::NvmInp), 5);
    db.backup(place.at("backup")).unwrap();
    let sound = std::fs::read(place.at("backup")).unwrap();
    let said = |error: Error, what: &str| {
        let text = error.to_string();
        assert!(text.contains(what), "{text}");
    };
    for name in ["backup", "db"] {
        said(db.backup(place.at(name)).unwrap_err(), "exists already");
    }
    std::fs::create_dir(place.at("directory")).unwrap();
    said(db.backup(place.at("directory")).unwrap_err(), "exists already");
    said(db.backup(place.at("missing/backup")).unwrap_err(), "missing/backup: ");
    std::fs::write(place.at("next.perdura-new"), "somebody's").unwrap();
    said(db.backup(place.at("next")).unwrap_err(), "next.perdura-new` is in the way");
    assert_eq!(std::fs::read(place.at("next.perdura-new")).unwrap(), b"somebody's");
    assert!(!place.at("next").exists());

    // A restored database: the pool, its files, and what a kill may have left of an earlier try.
    for engine in [EngineKind::NvmInp, EngineKind::Inp] {
        for taken in ["copy", "copy.files", "copy.perdura-new"] {
            std::fs::write(place.at(taken), "somebody's").unwrap();
            let names = place.names();
            let error =
                restore(&place.at("backup"), &place.at("copy"), &small(engine)).unwrap_err();
            assert!(matches!(error, Error::InTheWay { .. }), "{error}");
            said(error, taken);
            assert_eq!(place.names(), names);
            assert_eq!(std::fs::read(place.at(taken)).unwrap(), b"somebody's");
            std::fs::remove_file(place.at(taken)).unwrap();
        }
    }
    std::os::unix::fs::symlink(place.at("nowhere"), place.at("copy")).unwrap();
    let error =
        restore(&place.at("backup"), &place.at("copy"), &small(EngineKind::Inp)).unwrap_err();
    said(error, "exists already");
    assert_eq!(std::fs::read(place.at("backup")).unwrap(), sound);
    Backup::open(place.at("backup")).unwrap().verify(&mut |_| ()).unwrap();
}

#[test]
fn options_that_make_no_sense_create_nothing() {
    let place = Place::new();
    let db = filled(&place.at("db"), &small(EngineKind::NvmInp), 5);
    db.backup(place.at("backup")).unwrap();
    let names = place.names();
    let strong = small_logs().engine(EngineKind::Inp).domain(perdura::Domain::Eadr);
    match restore(&place.at("backup"), &place.at("copy"), &strong) {
        // On a platform that saves its caches it is none.
        Ok(_) => return,
        Err(error) => {
            assert!(matches!(error, Error::Pool(PoolError::DomainTooStrong { .. })), "{error}");
        }
    }
    assert_eq!(place.names(), names);
    let options = small(EngineKind::Cow).tune("page_bytes", 77);
    assert!(restore(&place.at("backup"), &place.at("copy"), &options).is_err());
    assert_eq!(place.names(), names);
    insert_both(&db, 0, 99).unwrap();
}
