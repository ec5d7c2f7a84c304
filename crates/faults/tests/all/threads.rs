//! Real threads: four of them run random transactions on a few keys of one partition, in every way
//! that the API has, and the oracle looks at what they saw. Which thread runs when is the machine's
//! affair, so that each run is another one; how much is done is counted, not timed.

use faults::history::Rule;
use faults::racing::Racing;
use faults::sharing::{Mix, Sharer, schema};
use optimistic::Optimistic;
use perdura::{
    ColumnType, Database, Domain, EngineKind, Error, Isolation, Options, Schema, TableSchema,
    Value, WriteOptions,
};

const TRANSACTIONS: usize = 1_200;
const KEYS: u64 = 8;

/// Four threads on a database, and what the oracle says.
fn run(name: &str, db: &Database, rule: Rule, seed: u64) {
    let (sharer, initial) = Sharer::fill(db, KEYS, Mix::ALL).unwrap();
    let racing = Racing { threads: 4, transactions: TRANSACTIONS, seed };
    let raced = racing.run(db, &sharer, initial).unwrap();
    let order = raced.history.check(rule).unwrap_or_else(|found| {
        panic!("{name}, seed {seed}: {found}\n{:?}", raced.history);
    });
    println!("{name}, seed {seed}: {} in order", order.len());
    assert!(order.len() > TRANSACTIONS / 2, "{} in order", order.len());
    let report = db.check().unwrap();
    assert_eq!((report.leaked, report.dangling), (0, 0), "{report:?}");
}

fn small() -> Options {
    Options::new().domain(Domain::Process).chunk_bytes(64 << 10)
}

#[test]
fn four_threads_in_a_partition_of_each_engine_keep_its_rule() {
    for engine in EngineKind::ALL {
        let directory = tempfile::tempdir().unwrap();
        let options = small().engine(engine);
        let db = Database::create(directory.path().join("db"), &schema(), &options).unwrap();
        run(engine.name(), &db, Rule::of(engine), 1);
        db.close().unwrap();
    }
}

#[test]
fn four_threads_in_sofort_are_serializable_if_asked_for() {
    for seed in 1..4 {
        let directory = tempfile::tempdir().unwrap();
        let options = small().engine(EngineKind::Sofort).isolation(Isolation::Serializable);
        let db = Database::create(directory.path().join("db"), &schema(), &options).unwrap();
        run("sofort, serializable", &db, Rule::Serializable, seed);
        db.close().unwrap();
    }
}

#[test]
fn four_threads_in_the_optimistic_engine_keep_its_rule() {
    let engines = [
        (Optimistic::new(), Rule::Serializable),
        (Optimistic::new().on_snapshots(), Rule::Snapshot),
    ];
    for (engine, rule) in engines {
        for seed in 1..4 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("db");
            let db = Database::create_at_with(&path, &schema(), &small(), &engine).unwrap();
            run("optimistic", &db, rule, seed);
            db.close().unwrap();
        }
    }
}

/// Unique values are validated, too, whether they were there or not.
#[test]
fn of_two_that_take_what_is_unique_one_is_in_conflict() {
    let schema = Schema::new().table(
        TableSchema::new("t")
            .column("id", ColumnType::U64)
            .column("mail", ColumnType::U64)
            .key(&["id"])
            .unique_index("by_mail", &["mail"]),
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Database::create_at_with(&path, &schema, &small(), &Optimistic::new()).unwrap();
    let table = db.table("t").unwrap();
    let conflict = |done: Result<perdura::Ticket, Error>| {
        assert!(matches!(done, Err(Error::Conflict { .. })), "{done:?}");
    };
    let row = |id, mail| [Value::U64(id), Value::U64(mail)];
    // Both find it free.
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    one.insert(&table, &row(1, 7)).unwrap();
    two.insert(&table, &row(2, 7)).unwrap();
    let _ticket = one.commit().unwrap();
    conflict(two.commit());
    // One finds it taken, and it is not any more when that one commits something else.
    let (mut one, mut two) = (db.begin().unwrap(), db.begin().unwrap());
    let taken = one.insert(&table, &row(3, 7));
    assert!(matches!(taken, Err(Error::DuplicateKey { index: Some(_), .. })), "{taken:?}");
    one.insert(&table, &row(4, 8)).unwrap();
    two.delete(&table, &[Value::U64(1)]).unwrap();
    let _ticket = two.commit().unwrap();
    conflict(one.commit());
    db.close().unwrap();
}

/// One that asks for less than the engine has gets it, and the others keep what they have.
#[test]
fn isolation_is_asked_for_by_each_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Optimistic::new().on_snapshots();
    let path = directory.path().join("db");
    let db = Database::create_at_with(&path, &schema(), &small(), &engine).unwrap();
    let more = WriteOptions::new().isolation(Isolation::Serializable);
    let refused = db.write_with(more, |_| Ok::<_, Error>(()));
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    db.write_with(WriteOptions::new().isolation(Isolation::Snapshot), |_| Ok::<_, Error>(()))
        .unwrap();
    db.close().unwrap();
}
