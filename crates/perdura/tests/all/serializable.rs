//! Serializable transactions of `sofort`, which uses snapshots by default.

use std::time::Duration;

use engines::EngineError;
use perdura::{
    ColumnType, ConflictReason, Database, EngineKind, Error, Isolation, Media, Options, Schema,
    Table, TableSchema, Value, WriteOptions,
};
use sim::{Recorded, Recording, RecordingFiles};

const LIMIT: u64 = 16 << 20;

fn options() -> Options {
    Options::new().engine(EngineKind::Sofort).chunk_bytes(64 << 10)
}

fn media(memory: &Recording) -> Media<Recorded> {
    faults::recorded(memory.clone(), RecordingFiles::new())
}

/// Two accounts with one each.
fn accounts(options: &Options) -> (Recording, Database<Recorded>, Table) {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let accounts = TableSchema::new("accounts")
        .column("id", ColumnType::U64)
        .column("balance", ColumnType::U64)
        .key(&["id"]);
    let db = Database::create_on(media(&memory), &Schema::new().table(accounts), options).unwrap();
    let table = db.table("accounts").unwrap();
    db.insert(&table, &[Value::U64(1), Value::U64(1)]).unwrap();
    db.insert(&table, &[Value::U64(2), Value::U64(1)]).unwrap();
    (memory, db, table)
}

fn balance(db: &Database<Recorded>, table: &Table, id: u64) -> u64 {
    db.get(table, &[Value::U64(id)]).unwrap().unwrap().u64(1)
}

/// Each of two transactions reads the other one's account, and empties its own. Returns the end of
/// the second one.
fn skewed(options: &Options) -> Result<(), Error> {
    let (_, db, table) = accounts(options);
    let (mut one, mut other) = (db.begin()?, db.begin()?);
    for (tx, id) in [(&mut one, 1), (&mut other, 2)] {
        assert!(tx.get(&table, &[Value::U64(3 - id)])?.is_some());
        tx.update(&table, &[Value::U64(id)], &[("balance", Value::U64(0))])?;
    }
    let _ticket = one.commit()?;
    let end = other.commit().map(drop);
    assert_eq!(balance(&db, &table, 1), 0);
    assert_eq!(balance(&db, &table, 2), u64::from(end.is_err()));
    db.close()?;
    end
}

#[test]
fn an_opening_says_what_a_transaction_gets_that_asks_for_nothing() {
    skewed(&options()).unwrap();
    skewed(&options().isolation(Isolation::Snapshot)).unwrap();
    let end = skewed(&options().isolation(Isolation::Serializable));
    assert!(
        matches!(end, Err(Error::Conflict { reason: ConflictReason::Validation, .. })),
        "{end:?}"
    );
    let traits = EngineKind::Sofort.traits();
    let most = (traits.isolation, traits.usual_isolation);
    assert_eq!(most, (Isolation::Serializable, Isolation::Snapshot));
}

/// It runs again after the conflict, and sees what the other one has left.
#[test]
fn a_transaction_that_asks_for_it_is_serializable() {
    for (isolation, expected) in
        [(Isolation::Serializable, (false, 2)), (Isolation::Snapshot, (true, 1))]
    {
        let (_, db, table) = accounts(&options());
        let mut runs = 0;
        let how = WriteOptions::new().isolation(isolation);
        let done = db.write_with(how, |tx| -> Result<bool, Error> {
            runs += 1;
            let mut sum = 0;
            for id in [1, 2] {
                sum += tx.get(&table, &[Value::U64(id)])?.expect("an account").u64(1);
            }
            if runs == 1 {
                db.write(|other| {
                    other.update(&table, &[Value::U64(2)], &[("balance", Value::U64(0))])
                })?;
            }
            if sum < 2 {
                return Ok(false);
            }
            tx.update(&table, &[Value::U64(1)], &[("balance", Value::U64(0))])?;
            Ok(true)
        });
        assert_eq!((done.unwrap(), runs), expected, "{isolation}");
        db.close().unwrap();
    }
}

/// A kill forgets what was read: `write_named` reads it again.
#[test]
fn behind_a_kill_a_serializable_transaction_goes_on_by_its_name_alone() {
    let options = options().isolation(Isolation::Serializable).retry_for(Duration::ZERO);
    for disturb in [false, true] {
        let (memory, db, table) = accounts(&options);
        let mut tx = db.begin_named(b"order").unwrap();
        assert!(tx.get(&table, &[Value::U64(2)]).unwrap().is_some());
        tx.update(&table, &[Value::U64(1)], &[("balance", Value::U64(7))]).unwrap();
        let image = memory.contents();
        drop(tx);
        db.abandon();
        let memory = Recording::pool_from_image(&image, LIMIT).unwrap();
        let db = Database::open_on(media(&memory), &options).unwrap();
        let table = db.table("accounts").unwrap();
        let id = db.in_flight().unwrap()[0].id;
        let refused = db.resume(id).map(drop);
        assert!(matches!(refused, Err(Error::Engine(EngineError::Column(_)))), "{refused:?}");
        if disturb {
            let change = [("balance", Value::U64(0))];
            db.write(|tx| tx.update(&table, &[Value::U64(2)], &change)).unwrap();
        }
        let done = db.write_named(b"order", |tx| -> Result<(), Error> {
            assert_eq!(tx.get(&table, &[Value::U64(2)])?.unwrap().u64(1), 1, "it sees what it saw");
            tx.update(&table, &[Value::U64(1)], &[("balance", Value::U64(7))])
        });
        match disturb {
            true => assert!(matches!(done, Err(Error::Conflict { .. })), "{done:?}"),
            false => done.unwrap(),
        }
        assert_eq!(balance(&db, &table, 1), if disturb { 1 } else { 7 });
        assert!(db.in_flight().unwrap().is_empty());
        db.close().unwrap();
    }
}

/// The owner of a partition needs no validation, and its engine notes nothing: such a transaction
/// may not be continued while others run.
#[test]
fn a_transaction_of_ones_own_partition_is_not_left_to_others() {
    let (_, db, table) = accounts(&options().isolation(Isolation::Serializable));
    let mut own = db.partition(0).exclusive().unwrap();
    let mut tx = own.begin();
    assert_eq!(tx.get(&table, &[Value::U64(2)]).unwrap().unwrap().u64(1), 1);
    tx.update(&table, &[Value::U64(1)], &[("balance", Value::U64(0))]).unwrap();
    let left = tx.detach();
    assert!(matches!(left, Err(Error::Unsupported { .. })), "{left:?}");
    assert_eq!(own.get(&table, &[Value::U64(1)]).unwrap().unwrap().u64(1), 1, "it is undone");
    own.update(&table, &[Value::U64(1)], &[("balance", Value::U64(3))]).unwrap();
    drop(own);
    assert!(db.in_flight().unwrap().is_empty());
    assert_eq!(balance(&db, &table, 1), 3);
}
