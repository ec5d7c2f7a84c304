//! The cost of statements and commits of SOFORT: flushed lines and fences, which are its design (P4
//! 4.2).
//!
//! Rows and values are so many that nothing grows meanwhile. Versions that were replaced are
//! collected when a transaction begins, many at once: that is bounded apart.

use perdura::{
    ColumnType, Counters, Database, EngineKind, Options, OwnStats, Schema, Table, TableSchema, Tx,
    Value,
};
use sim::{Recorded, Recording, RecordingFiles};

const ROWS: u64 = 200;
const UPDATES: u64 = 100;

/// A table of `columns` columns, the key among them, with some rows.
fn store(columns: u64) -> (Recording, Database<Recorded>, Table) {
    let mut table = TableSchema::new("t").column("c0", ColumnType::U64).key(&["c0"]);
    for column in 1..columns {
        table = table.column(format!("c{column}"), ColumnType::I64);
    }
    let memory = Recording::pool(4 << 20, 64 << 20).unwrap();
    let media = faults::recorded(memory.clone(), RecordingFiles::new());
    let options = Options::new().engine(EngineKind::Sofort).chunk_bytes(64 << 10);
    let db = Database::create_on(media, &Schema::new().table(table), &options).unwrap();
    let table = db.table("t").unwrap();
    for key in 0..ROWS {
        let values: Vec<Value<'_>> = std::iter::once(Value::U64(key))
            .chain((1..columns).map(|column| Value::I64((key + column).cast_signed())))
            .collect();
        db.write(|tx| tx.insert(&table, &values)).unwrap();
    }
    (memory, db, table)
}

fn counted(memory: &Recording, act: impl FnOnce()) -> (u64, u64) {
    memory.start();
    act();
    let Counters { flushed_lines, fences, .. } = memory.stop().counters();
    (flushed_lines, fences)
}

fn key(number: u64) -> [Value<'static>; 1] {
    [Value::U64(number * 7 % ROWS)]
}

fn new(number: u64) -> [(u16, Value<'static>); 1] {
    [(1, Value::I64(1_000_000 + number.cast_signed()))]
}

#[test]
fn an_update_is_one_fence_and_a_line_a_column_and_its_commit_one_fence_and_two_lines() {
    for columns in [2, 5, 20] {
        let (memory, db, table) = store(columns);
        let (mut updates, mut commits) = ((0, 0), (0, 0));
        for number in 0..UPDATES {
            let mut tx = db.begin().unwrap();
            let (lines, fences) = counted(&memory, || {
                tx.update(&table, &key(number), &new(number)).unwrap();
            });
            updates = (lines.max(updates.0), fences.max(updates.1));
            let (lines, fences) = counted(&memory, || {
                let _ = tx.commit().unwrap();
            });
            commits = (lines.max(commits.0), fences.max(commits.1));
        }
        assert!(updates.0 <= columns + 7 && updates.1 == 1, "{columns} columns: {updates:?}");
        assert_eq!(commits, (2, 1), "{columns} columns");
    }
}

#[test]
fn a_transaction_of_one_update_is_one_fence_and_collecting_is_shared_by_many() {
    let (memory, db, table) = store(5);
    let mut more = 0;
    for number in 0..UPDATES {
        let (lines, fences) = counted(&memory, || {
            db.update(&table, &key(number), &new(number)).unwrap();
        });
        if fences == 1 {
            assert!(lines <= 5 + 7, "{lines} lines");
        } else {
            more += 1;
            // Stamps of other sessions, slots, begins, ends.
            assert!(fences <= 5, "{fences} fences");
        }
    }
    assert!(more <= 2, "{more} of {UPDATES}");
    let OwnStats::Sofort(own) = db.stats().unwrap().own else { unreachable!() };
    assert!(own.freed + own.garbage >= UPDATES - 1 && own.freed > 0, "{own:?}");
}

/// A read does none of the work that was put off, for which it would wait for the medium, and for
/// who changes a row.
#[test]
fn a_read_flushes_and_fences_nothing_however_much_is_put_off() {
    let (memory, db, table) = store(3);
    let garbage = || match db.stats().unwrap().own {
        OwnStats::Sofort(own) => own.garbage,
        other => panic!("{other:?}"),
    };
    let update = |tx: &mut Tx<'_, Recorded>, number| tx.update(&table, &key(number), &new(number));
    // A snapshot keeps all versions: none can be collected when the transaction ends.
    let reader = db.begin().unwrap();
    db.write(|tx| (0..5 * UPDATES).try_for_each(|number| update(tx, number))).unwrap();
    let before = garbage();
    assert!(before > 4 * UPDATES, "{before}");
    for number in 0..UPDATES {
        let cost = counted(&memory, || assert!(db.get(&table, &key(number)).unwrap().is_some()));
        assert_eq!(cost, (0, 0), "lines and fences of read {number}");
    }
    drop(reader);
    let cost = counted(&memory, || assert!(db.get(&table, &key(0)).unwrap().is_some()));
    assert_eq!((cost, garbage()), ((0, 0), before));
    (0..UPDATES).for_each(|number| db.update(&table, &key(number), &new(number)).unwrap());
    assert!(garbage() < before, "transactions that may change something do a part of it");
}

/// The owner of a partition does a part of the work that is put off, as concurrent transactions do.
#[test]
fn rows_do_not_grow_with_the_updates_of_who_has_the_partition_alone() {
    let (_memory, db, table) = store(2);
    let mut own = db.partition(0).exclusive().unwrap();
    for number in 0..20 * UPDATES {
        own.update(&table, &key(number), &new(number % UPDATES)).unwrap();
    }
    drop(own);
    let own = match db.stats().unwrap().own {
        OwnStats::Sofort(own) => own,
        other => panic!("{other:?}"),
    };
    assert!(own.garbage < 2 * UPDATES, "{own:?}");
    assert!(own.freed > 18 * UPDATES, "{own:?}");
}

/// The thread in the background pauses after a step that has done nothing: each one that has done
/// something is counted, until nothing waits.
#[test]
fn each_step_of_work_that_was_put_off_is_counted() {
    let (memory, db, _) = store(3);
    drop(db);
    let memory = Recording::from_image(&memory.contents(), 64 << 20).unwrap();
    let media = faults::recorded(memory, RecordingFiles::new());
    let db = Database::open_on(media, &Options::new()).unwrap();
    let mut before = db.stats().unwrap();
    assert!(before.waiting_bytes > 0 && before.background.steps == 0, "{before:?}");
    while before.waiting_bytes > 0 {
        db.background(1).unwrap();
        let after = db.stats().unwrap();
        let (done, earlier) = (after.background, before.background);
        assert!(done.steps > earlier.steps && done.bytes > earlier.bytes, "{after:?}");
        assert_eq!(after.inline, before.inline);
        before = after;
    }
}
