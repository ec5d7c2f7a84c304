//! Transactions that go on after a kill, or in another thread: named ones of `sofort`.

use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use engines::EngineError;
use perdura::{
    ColumnType, Database, EngineKind, Error, Media, Options, OwnStats, Placement, Scan, Schema,
    Table, TableSchema, Tx, Unfinished, Value,
};
use sim::{Recorded, Recording, RecordingFiles};

const LIMIT: u64 = 16 << 20;
const ROWS: u64 = 7;

fn options() -> Options {
    let options = Options::new().engine(EngineKind::Sofort).chunk_bytes(64 << 10);
    options.retry_for(Duration::ZERO)
}

fn media(memory: &Recording) -> Media<Recorded> {
    faults::recorded(memory.clone(), RecordingFiles::new())
}

fn create() -> (Recording, Database<Recorded>) {
    create_with(&options())
}

fn create_with(options: &Options) -> (Recording, Database<Recorded>) {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let table = TableSchema::new("t")
        .column("id", ColumnType::U64)
        .column("count", ColumnType::U64)
        .column("note", ColumnType::Text { max: 20 })
        .nullable()
        .key(&["id"])
        .index("by_count", &["count"]);
    let db = Database::create_on(media(&memory), &Schema::new().table(table), options).unwrap();
    let table = db.table("t").unwrap();
    db.write(|tx| (0..ROWS).try_for_each(|id| tx.insert(&table, &row(id, 0)))).unwrap();
    (memory, db)
}

fn row(id: u64, count: u64) -> [Value<'static>; 3] {
    [Value::U64(id), Value::U64(count), Value::Null]
}

/// The database that a kill has left: what was stored is there.
fn killed(memory: &Recording) -> (Recording, Database<Recorded>) {
    let memory = Recording::pool_from_image(&memory.contents(), LIMIT).unwrap();
    let db = Database::open_on(media(&memory), &options()).unwrap();
    (memory, db)
}

fn counts(db: &Database<Recorded>) -> Vec<u64> {
    let table = db.table("t").unwrap();
    let count = |id| db.get(&table, &[Value::U64(id)]).unwrap().unwrap().u64(1);
    let counts = (0..ROWS).map(count).collect();
    let report = db.check().unwrap();
    assert_eq!((report.leaked, report.dangling), (0, 0));
    counts
}

/// Adds one to a row.
fn add(tx: &mut Tx<'_, Recorded>, table: &Table, id: u64) -> Result<(), Error> {
    tx.modify(table, &[Value::U64(id)], |row| vec![(1, Value::U64(row.u64(1) + 1))])
}

#[test]
fn a_named_transaction_goes_on_after_a_kill_and_one_without_a_name_does_not() {
    assert_eq!(EngineKind::Sofort.traits().unfinished, Unfinished::Continued);
    let (memory, db) = create();
    let table = db.table("t").unwrap();
    let mut named = db.begin_named(b"order 4711").unwrap();
    add(&mut named, &table, 1).unwrap();
    add(&mut named, &table, 2).unwrap();
    let mut nameless = db.begin().unwrap();
    add(&mut nameless, &table, 3).unwrap();
    let (memory, db) = killed(&memory);
    let found = db.in_flight().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].name[..], found[0].statements), (&b"order 4711"[..], 2));
    let table = db.table("t").unwrap();
    let taken = db.write(|tx| add(tx, &table, 2));
    assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
    db.write(|tx| add(tx, &table, 3)).unwrap();
    let twice = db.begin_named(b"order 4711").map(drop);
    assert!(twice.is_err(), "an open transaction has the name");
    let mut tx = db.resume(found[0].id).unwrap();
    add(&mut tx, &table, 2).unwrap();
    assert_eq!(counts(&killed(&memory).1), [0, 0, 0, 1, 0, 0, 0], "nobody else sees it");
    let _ticket = tx.commit().unwrap();
    let after = [0, 1, 2, 1, 0, 0, 0];
    assert_eq!(counts(&db), after);
    let (_, db) = killed(&memory);
    assert_eq!((counts(&db), db.in_flight().unwrap().len()), (after.to_vec(), 0));
}

#[test]
fn a_transaction_is_carried_from_thread_to_thread_and_over_a_close() {
    let (memory, db) = create();
    let table = db.table("t").unwrap();
    let mut tx = db.begin_named(b"request").unwrap();
    add(&mut tx, &table, 0).unwrap();
    let id = tx.detach().unwrap();
    thread::scope(|scope| {
        let next = scope.spawn(|| {
            let mut tx = db.resume(id).unwrap();
            add(&mut tx, &table, 0).unwrap();
            tx.detach().unwrap();
        });
        next.join().unwrap();
    });
    db.close().unwrap();
    let db = Database::open_on(media(&memory), &options()).unwrap();
    assert_eq!(counts(&db)[0], 0);
    let _ticket = db.resume(id).unwrap().commit().unwrap();
    assert_eq!(counts(&db)[0], 2);
    let gone = db.resume(id).map(drop);
    assert!(matches!(gone, Err(Error::Engine(EngineError::NotInFlight { .. }))), "{gone:?}");
}

/// Adds one to rows in turn, and a row that says that it was done.
fn work(
    tx: &mut Tx<'_, Recorded>,
    table: &Table,
    mut before_each: impl FnMut(u64),
) -> Result<(), Error> {
    for step in 0..20 {
        before_each(step);
        add(tx, table, step * 3 % ROWS)?;
    }
    tx.insert(table, &row(100, 1))
}

#[test]
fn a_closure_that_a_kill_has_cut_off_is_run_again_and_nothing_is_done_twice() {
    let undisturbed = {
        let (_, db) = create();
        let table = db.table("t").unwrap();
        db.write_named(b"closure", |tx| work(tx, &table, |_| ())).unwrap();
        counts(&db)
    };
    for cut in [1, 7, 19] {
        let (memory, db) = create();
        let table = db.table("t").unwrap();
        let mut image = None;
        db.write_named(b"closure", |tx| {
            work(tx, &table, |step| {
                if step == cut {
                    image = Some(memory.contents());
                }
            })
        })
        .unwrap();
        let left = Recording::pool_from_image(&image.unwrap(), LIMIT).unwrap();
        let db = Database::open_on(media(&left), &options()).unwrap();
        assert_eq!(db.in_flight().unwrap()[0].statements, cut);
        let table = db.table("t").unwrap();
        let other = db.write_named(b"closure", |tx| add(tx, &table, 5));
        let diverged = matches!(other, Err(Error::Diverged));
        assert!(diverged || cut == 0, "{other:?}");
        let short = db.write_named(b"closure", |_| Ok::<_, Error>(()));
        assert!(matches!(short, Err(Error::Diverged)), "{short:?}");
        assert_eq!(db.in_flight().unwrap()[0].statements, cut, "it waits on");
        db.write_named(b"closure", |tx| work(tx, &table, |_| ())).unwrap();
        assert_eq!(counts(&db), undisturbed, "cut off at {cut}");
        assert!(db.in_flight().unwrap().is_empty());
        let again = db.write_named(b"closure", |tx| work(tx, &table, |_| ()));
        assert!(matches!(again, Err(Error::DuplicateKey { .. })), "{again:?}");
        assert_eq!(counts(&db), undisturbed);
    }
}

/// A caller that continues a transaction has a session of its own, which then has the slot of that
/// transaction until its stamps are durable.
#[test]
fn a_few_slots_are_enough_for_many_that_are_carried_on() {
    let memory = Recording::pool(64 << 10, LIMIT).unwrap();
    let table = TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]);
    let options = options().set("slots", 2);
    let db = Database::create_on(media(&memory), &Schema::new().table(table), &options).unwrap();
    let table = db.table("t").unwrap();
    for id in 0..20 {
        let mut tx = db.begin_named(b"request").unwrap();
        tx.insert(&table, &[Value::U64(id)]).unwrap();
        let id = tx.detach().unwrap();
        let _ticket = db.resume(id).unwrap().commit().unwrap();
    }
    assert_eq!(db.check().unwrap().tuples, 20);
}

#[test]
fn other_engines_refuse_names() {
    for engine in [EngineKind::NvmInp, EngineKind::Fast] {
        let memory = Recording::pool(64 << 10, LIMIT).unwrap();
        let table = TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]);
        let options = Options::new().engine(engine).chunk_bytes(64 << 10);
        let db = Database::create_on(media(&memory), &Schema::new().table(table), &options);
        let refused = db.unwrap().begin_named(b"name").map(drop);
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    }
}

/// Indexes come back also without writers.
#[test]
fn reads_build_what_opening_has_left() {
    const MANY: u64 = 2_000;
    let (memory, db) = create();
    let table = db.table("t").unwrap();
    db.write(|tx| (ROWS..MANY).try_for_each(|id| tx.insert(&table, &row(id, id)))).unwrap();
    drop(db);
    let (_memory, db) = killed(&memory);
    let table = db.table("t").unwrap();
    let unbuilt = || match db.stats().unwrap().own {
        OwnStats::Sofort(own) => own.unbuilt,
        other => panic!("{other:?}"),
    };
    let mut before = unbuilt();
    assert!(before >= MANY, "{before}");
    let mut reads = 0;
    while before > 0 {
        let id = reads * 7 % MANY;
        if reads % 2 == 0 {
            let found = db.get(&table, &[Value::U64(id)]).unwrap().unwrap();
            assert_eq!(found.u64(0), id);
        } else {
            let found = db.read(|tx| {
                let mut found = 0;
                tx.scan(&table, &Scan::all().by("by_count"), |_| {
                    found += 1;
                    ControlFlow::Continue(())
                })?;
                Ok(found)
            });
            let found = found.unwrap();
            assert_eq!(found, MANY);
        }
        let now = unbuilt();
        assert!(now < before, "a read builds a part: {now} of {before}");
        (before, reads) = (now, reads + 1);
    }
    assert!(reads > 2, "{reads}");
}

/// With all indexes in persistent memory nothing is built after a kill, a transaction goes on at
/// once, and the rows that are not in use are found while transactions run.
#[test]
fn indexes_in_persistent_memory_are_there_after_a_kill() {
    const MANY: u64 = 2_000;
    let (memory, db) = create_with(&options().placement(Placement::Percent(100)));
    let table = db.table("t").unwrap();
    db.write(|tx| (ROWS..MANY).try_for_each(|id| tx.insert(&table, &row(id, id % 50)))).unwrap();
    let mut tx = db.begin_named(b"goes on").unwrap();
    tx.insert(&table, &row(MANY, 7)).unwrap();
    let (_memory, db2) = killed(&memory);
    let own = || match db2.stats().unwrap().own {
        OwnStats::Sofort(own) => (own.unbuilt, own.unswept),
        other => panic!("{other:?}"),
    };
    let table = db2.table("t").unwrap();
    let (unbuilt, unswept) = own();
    assert_eq!(unbuilt, 0);
    assert!(unswept > MANY, "{unswept}");
    let found = db2.in_flight().unwrap();
    let mut tx = db2.resume(found[0].id).unwrap();
    tx.update(&table, &[Value::U64(3)], &[(1, Value::U64(9))]).unwrap();
    let _durable = tx.commit().unwrap();
    assert_eq!(db2.get(&table, &[Value::U64(MANY)]).unwrap().unwrap().u64(1), 7);
    let left = own().1;
    assert!(left > 0, "a commit looks at a few of them");
    while db2.background(1 << 20).unwrap() > 0 {}
    assert_eq!(own(), (0, 0));
    let report = db2.check().unwrap();
    assert_eq!((report.leaked, report.dangling), (0, 0));
}

/// A database with a named transaction that waits, after a kill.
fn one_waits(options: &Options) -> Database<Recorded> {
    let (memory, db) = create();
    let table = db.table("t").unwrap();
    let mut tx = db.begin_named(b"waits").unwrap();
    tx.insert(&table, &row(100, 1)).unwrap();
    let image = memory.contents();
    drop(tx);
    db.abandon();
    let memory = Recording::pool_from_image(&image, LIMIT).unwrap();
    Database::open_on(media(&memory), options).unwrap()
}

#[test]
fn a_transaction_waits_so_long_to_be_continued_and_no_longer() {
    // Zero: not at all.
    let db = one_waits(&options().resume_within(Duration::ZERO));
    assert!(db.in_flight().unwrap().is_empty());
    let table = db.table("t").unwrap();
    db.insert(&table, &row(100, 2)).unwrap();
    // Detached it waits as long: not at all.
    let mut tx = db.begin().unwrap();
    tx.insert(&table, &row(101, 1)).unwrap();
    let id = tx.detach().unwrap();
    let gone = db.resume(id).map(drop);
    assert!(matches!(gone, Err(Error::Engine(EngineError::NotInFlight { .. }))), "{gone:?}");
    db.insert(&table, &row(101, 2)).unwrap();
    assert_eq!((0, 0), {
        let report = db.check().unwrap();
        (report.leaked, report.dangling)
    });
    // A long time is not over.
    let db = one_waits(&options().resume_within(Duration::from_secs(1 << 20)));
    let table = db.table("t").unwrap();
    let conflict = db.insert(&table, &row(100, 2));
    assert!(matches!(conflict, Err(Error::Conflict { .. })), "{conflict:?}");
    let id = db.in_flight().unwrap()[0].id;
    let _ticket = db.resume(id).unwrap().commit().unwrap();
    assert!(db.in_flight().unwrap().is_empty());
}

/// A transaction whose time is over is ended by the next one that begins; it need not be looked
/// for.
#[test]
fn a_transaction_whose_time_is_over_is_in_nobodys_way() {
    let db = one_waits(&options().resume_within(Duration::from_millis(1)));
    let table = db.table("t").unwrap();
    // It comes to an end: at some time the millisecond is over.
    while db.insert(&table, &row(100, 2)).is_err() {}
    assert!(db.in_flight().unwrap().is_empty());
}

/// An overdue transaction does not block an owner either, whether it is overdue before or after
/// the partition is taken.
#[test]
fn a_transaction_whose_time_is_over_is_not_in_an_owners_way() {
    let db = one_waits(&options().resume_within(Duration::ZERO));
    let table = db.table("t").unwrap();
    let mut tx = db.begin().unwrap();
    tx.insert(&table, &row(101, 1)).unwrap();
    let _id = tx.detach().unwrap();
    let mut own = db.partition(0).exclusive().unwrap();
    own.write(|tx| tx.insert(&table, &row(101, 2))).unwrap();
    drop(own);
    let within = Duration::from_millis(200);
    let db = one_waits(&options().resume_within(within));
    let table = db.table("t").unwrap();
    let mut own = db.partition(0).exclusive().unwrap();
    thread::sleep(within);
    own.write(|tx| tx.insert(&table, &row(100, 2))).unwrap();
    drop(own);
    assert!(db.in_flight().unwrap().is_empty());
    let report = db.check().unwrap();
    assert_eq!((report.leaked, report.dangling), (0, 0));
}

#[test]
fn a_transaction_that_has_diverged_waits_as_long() {
    let db = one_waits(&options().resume_within(Duration::from_millis(1)));
    let table = db.table("t").unwrap();
    let other = |tx: &mut Tx<'_, Recorded>| tx.insert(&table, &row(99, 1));
    match db.write_named(b"waits", other) {
        // It waits on, from now; each try would count anew.
        Err(Error::Diverged) => while !db.in_flight().unwrap().is_empty() {},
        // Its time was over.
        done => done.unwrap(),
    }
    assert!(db.get(&table, &[Value::U64(100)]).unwrap().is_none());
}

/// A closure that swallows the error cannot go on; the session's next transaction is as any other.
#[test]
fn behind_a_difference_nothing_but_the_end_is_possible() {
    let db = one_waits(&options());
    let table = db.table("t").unwrap();
    let done = db.write_named(b"waits", |tx| -> Result<(), Error> {
        let other = tx.insert(&table, &row(99, 1));
        assert!(matches!(other, Err(Error::Diverged)), "{other:?}");
        let same = tx.insert(&table, &row(100, 1));
        assert!(matches!(same, Err(Error::Diverged)), "{same:?}");
        Ok(())
    });
    assert!(matches!(done, Err(Error::Diverged)), "{done:?}");
    assert_eq!(db.in_flight().unwrap().len(), 1, "it waits on");
    let undone = db.write(|tx| -> Result<(), Error> {
        tx.insert(&table, &row(50, 1))?;
        Err(Error::user("no"))
    });
    assert!(undone.is_err());
    assert_eq!(db.in_flight().unwrap().len(), 1, "the other one is rolled back");
    db.write_named(b"waits", |tx| tx.insert(&table, &row(100, 1))).unwrap();
    assert_eq!(db.get(&table, &[Value::U64(100)]).unwrap().unwrap().u64(1), 1);
}

/// Damage that deferred work finds before a transaction begins: nothing is in doubt, so the
/// partition continues for transactions that do not meet the damage.
#[test]
fn damage_that_is_found_before_a_transaction_begins_stops_nobody() {
    const MANY: u64 = 2_000;
    let (memory, db) = create();
    let table = db.table("t").unwrap();
    db.write(|tx| (ROWS..MANY).try_for_each(|id| tx.insert(&table, &row(id, id)))).unwrap();
    let mut image = memory.contents();
    drop(db);
    // The ids of the values of neighbouring rows; one of them leads to no value any more.
    let run: Vec<u8> = (1_000u32..1_004).flat_map(u32::to_le_bytes).collect();
    let places: Vec<_> = (0..image.len() - run.len())
        .step_by(4)
        .filter(|at| image[*at..].starts_with(&run))
        .collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| image[at + 4..at + 8].copy_from_slice(&[0xff, 0xff, 0xff, 0]));
    let memory = Recording::pool_from_image(&image, LIMIT).unwrap();
    let db = Database::open_on(media(&memory), &options()).unwrap();
    let table = db.table("t").unwrap();
    let mut own = db.partition(0).exclusive().unwrap();
    let mut update = |count| own.update(&table, &[Value::U64(3)], &[(1, Value::U64(count))]);
    let done = (1..100).find(|count| update(*count).is_err()).expect("the damage is found") - 1;
    let again = update(100);
    assert!(matches!(again, Err(Error::Damaged(_))), "{again:?}");
    drop(own);
    let found = db.get(&table, &[Value::U64(3)]).unwrap().unwrap();
    assert_eq!(found.u64(1), done, "the last one that was acknowledged");
}
