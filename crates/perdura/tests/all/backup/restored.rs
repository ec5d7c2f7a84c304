//! Restoring: what comes back, and where: every type, the largest values, no values, other numbers
//! of partitions, what options may change and what they may not.

use crate::support::{small_logs, small_pages};
use perdura::{
    Backup, BackupError, ColumnType, CopyProgress, CopyStep, Database, EngineKind, Error, Schema,
    TableSchema, Value,
};

use super::{
    Place, contents, each, each_with_the_next, every_type, filled, insert_both, restore, restored,
    small,
};

#[test]
fn every_type_comes_back_in_every_engine() {
    for (engine, next) in each_with_the_next() {
        every_type_comes_back(engine, &[engine, next]);
    }
}

pub(crate) fn every_type_comes_back(engine: EngineKind, into: &[EngineKind]) {
    let place = Place::new();
    let db = filled(&place.at("db"), &small(engine).partitions(2), 80);
    let summary = db.backup(place.at("backup")).unwrap();
    assert_eq!(summary.tables, [("every \"type\"".into(), 160), ("pair".into(), 160)]);
    assert_eq!(summary.bytes, std::fs::metadata(place.at("backup")).unwrap().len());
    let expected = contents(&db);
    for &other in into {
        let to = place.at(&format!("copy-{other}"));
        let options = small(other);
        let done = restore(&place.at("backup"), &to, &options).unwrap();
        assert_eq!((done.tuples(), done.skipped), (320, 0));
        let copy = Database::open(&to, &options).unwrap();
        assert_eq!(contents(&copy), expected, "{engine} as {other}");
        insert_both(&copy, 1, 7777).unwrap();
        copy.check().unwrap();
    }
}

#[test]
fn an_empty_database_comes_back_empty() {
    each(|engine| {
        let place = Place::new();
        let db = Database::create(place.at("db"), &every_type(), &small(engine)).unwrap();
        assert_eq!(db.backup(place.at("backup")).unwrap().tuples(), 0);
        let copy = restored(&place.at("backup"), &place.at("copy"), &small(engine));
        assert_eq!((copy.schema(), contents(&copy)), (&every_type(), contents(&db)));
    });
}

#[test]
fn the_largest_values_and_many_tuples_come_back() {
    let schema = Schema::new().table(
        TableSchema::new("blob")
            .column("id", ColumnType::U64)
            .column("bytes", ColumnType::Bytes { max: 128 << 10 })
            .column("text", ColumnType::Text { max: 128 << 10 })
            .key(&["id"]),
    );
    let place = Place::new();
    let db = Database::create(place.at("db"), &schema, &small(EngineKind::NvmInp)).unwrap();
    let table = db.table("blob").unwrap();
    let most = vec![0xa5; 128 << 10];
    let text = "x".repeat(128 << 10);
    for id in 0..2500u64 {
        let (bytes, text) = match id % 100 {
            0 => (&most[..], text.as_str()),
            1 => (&most[..65_535], ""),
            _ => (&most[..5], "five"),
        };
        db.write(|tx| tx.insert(&table, &[Value::U64(id), Value::Bytes(bytes), Value::Text(text)]))
            .unwrap();
    }
    db.backup(place.at("backup")).unwrap();
    let expected = contents(&db);
    each(|engine| {
        let to = place.at(&format!("copy-{engine}"));
        assert!(contents(&restored(&place.at("backup"), &to, &small(engine))) == expected);
    });
}

#[test]
fn partitions_can_be_put_together_by_a_number_that_divides_theirs() {
    let place = Place::new();
    let options = small(EngineKind::NvmInp).partitions(4);
    let db = Database::create(place.at("db"), &every_type(), &options).unwrap();
    for partition in 0..4 {
        // A replicated table has the same tuples everywhere.
        insert_both(&db, partition, 5000).unwrap();
        insert_both(&db, partition, partition as u64 * 10).unwrap();
    }
    db.backup(place.at("backup")).unwrap();
    for wanted in [1, 2] {
        let to = place.at(&format!("copy-{wanted}"));
        let options = small(EngineKind::Inp).partitions(wanted);
        let done = restore(&place.at("backup"), &to, &options).unwrap();
        assert_eq!(done.skipped, 2 * u64::from(4 - wanted));
        let copy = Database::open(&to, &options).unwrap();
        let tuples: usize = contents(&copy).values().map(Vec::len).sum();
        assert_eq!(tuples, 16 - 2 * (4 - wanted as usize));
        for partition in 0..wanted as usize {
            let twice = insert_both(&copy, partition, (partition as u64 + u64::from(wanted)) * 10);
            let twice = if wanted == 1 { insert_both(&copy, 0, 30) } else { twice };
            assert!(matches!(twice, Err(Error::DuplicateKey { .. })), "partition 2 is in 0");
        }
    }
    for wanted in [0, 3, 5, 8] {
        let options = small(EngineKind::Inp).partitions(wanted);
        let error = restore(&place.at("backup"), &place.at("copy"), &options).unwrap_err();
        let expected = matches!(error, Error::Backup(BackupError::Partitions { found: 4, .. }));
        assert!(expected, "{error}");
    }
    // The same key with other values in two of them.
    let table = db.table("pair").unwrap();
    let own = [Value::Text("own"), Value::F64(1.0)];
    for partition in 0..4 {
        let value = [partition as u8];
        db.partition(partition)
            .write(|tx| tx.insert(&table, &[own[0], own[1], Value::Bytes(&value)]))
            .unwrap();
    }
    db.backup(place.at("collides")).unwrap();
    let options = small(EngineKind::Inp).partitions(2);
    let error = restore(&place.at("collides"), &place.at("copy"), &options).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, Error::Backup(BackupError::Collision { partition: 2, .. })), "{said}");
    assert!(said.contains("collides") && said.contains("`pair`"), "{said}");
    let names = place.names();
    assert!(names.iter().all(|name| !name.starts_with("copy.") && name != "copy"), "{names:?}");
}

#[test]
fn a_backup_says_what_it_is_of_and_how_far_it_is() {
    let place = Place::new();
    let db = filled(&place.at("db"), &small(EngineKind::Log).partitions(3), 700);
    let mut steps: Vec<CopyProgress> = Vec::new();
    db.backup_watched(place.at("backup"), &mut |step| steps.push(step)).unwrap();
    assert!(steps.len() > 2 && steps.iter().all(|at| at.step == CopyStep::Write));
    assert_eq!((steps[0].total, steps.last().unwrap().total), (None, Some(4200)));
    let mut backup = Backup::open(place.at("backup")).unwrap();
    assert_eq!((backup.engine(), backup.partitions()), ("log", 3));
    assert_eq!(backup.schema(), &every_type());
    assert_eq!(backup.verify(&mut |_| ()).unwrap().tuples(), 4200);
    steps.clear();
    // The engine is the backup's unless another is named.
    let options = small_pages().pool_limit(1 << 30).volatile_limit(1 << 30);
    backup.restore(place.at("copy"), &options, &mut |step| steps.push(step)).unwrap();
    for step in [CopyStep::Verify, CopyStep::Load, CopyStep::Check] {
        let of = |at: &&CopyProgress| at.step == step;
        let last = steps.iter().rfind(of).unwrap();
        assert!(last.done <= last.total.unwrap());
        assert!(steps.iter().filter(of).is_sorted_by_key(|at| at.done));
    }
    let copy = Database::open(place.at("copy"), &small_logs()).unwrap();
    assert_eq!(copy.engine(), EngineKind::Log);
}

#[test]
fn a_restored_database_can_be_backed_up_again() {
    let place = Place::new();
    let db = filled(&place.at("db"), &small(EngineKind::Cow), 50);
    db.backup(place.at("first")).unwrap();
    let copy = restored(&place.at("first"), &place.at("copy"), &small(EngineKind::NvmLog));
    copy.backup(place.at("second")).unwrap();
    let again = restored(&place.at("second"), &place.at("again"), &small(EngineKind::Cow));
    assert_eq!(contents(&again), contents(&db));
}
