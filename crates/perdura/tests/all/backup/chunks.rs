//! Chunks of every documented size in every engine: a database works in them, and its backup is
//! restored into them, and into those of the default size.

use super::*;

#[test]
fn chunks_of_every_size_hold_a_database_and_its_restored_backup() {
    few().for_each(|engine| chunks_of_sizes_hold(engine, 3));
}

/// Chunks of each size, or of one in so many.
pub(crate) fn chunks_of_sizes_hold(engine: EngineKind, one_in: usize) {
    for chunk_bytes in (13..=22).step_by(one_in).map(|bits| 1u64 << bits) {
        let place = Place::new();
        let options = small(engine).chunk_bytes(chunk_bytes);
        let mut db = Database::create(place.at("db"), &every_type(), &options).unwrap();
        for number in 0..60 {
            insert_both(&db, 0, number).unwrap();
        }
        for round in 0..2 {
            change(&db, round);
            let before = contents(&db);
            db.close().unwrap();
            db = Database::open(place.at("db"), &small(engine)).unwrap();
            assert_eq!(contents(&db), before, "{engine}, chunks of {chunk_bytes}");
            let report = db.check().unwrap();
            assert_eq!((report.leaked, report.dangling), (0, 0), "{engine} {chunk_bytes}");
        }
        db.backup(place.at("backup")).unwrap();
        // As they were, and as an engine has them by default.
        for (name, options) in [("same", small(engine)), ("given", options)] {
            let again = restored(&place.at("backup"), &place.at(name), &options);
            assert_eq!(contents(&again), contents(&db), "{engine}, chunks of {chunk_bytes}");
            insert_both(&again, 0, 1000).unwrap();
        }
    }
}

/// Updates and deletes some of the tuples.
fn change(db: &Database, round: u64) {
    let table = db.table("every \"type\"").unwrap();
    let keys: Vec<u64> = contents(db)[&(0, "every \"type\"".into())]
        .iter()
        .map(|tuple| u64::from_le_bytes(tuple[56..64].try_into().unwrap()))
        .collect();
    for (at, key) in keys.into_iter().enumerate() {
        let text = format!("{round} {}", "x".repeat(at % 50));
        db.write(|tx| match at % 3 {
            0 => tx.update(&table, &[Value::U64(key)], &[(9, Value::Text(&text))]),
            1 => tx.update(&table, &[Value::U64(key)], &[(10, Value::Bytes(text.as_bytes()))]),
            _ => tx.delete(&table, &[Value::U64(key)]),
        })
        .unwrap();
    }
}
