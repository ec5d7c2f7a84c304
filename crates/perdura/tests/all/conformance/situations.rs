//! Situations that come together seldom: a tuple that is made and replaced within one batch, with a
//! snapshot between the two; waiting for the first ticket of an open group; thousands of aborts;
//! one tuple that is changed several times by a transaction that ends early; space that has leaked.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use engines::below::{Heap, Lanes, Purpose};
use perdura::{
    Commit, Database, DurableIn, EngineKind, Error, Options, Row, Scan, Snapshot, Table, Ticket,
    Value,
};
use sim::{Recorded, Recording, RecordingFiles};

use super::commits::{prefix, put};
use super::operations::{insert, schema, tuple, update};
use super::{Own, Store, Tuple, Under, each, each_known, holds, key_columns, small, sorted};

/// The table has these tuples, also after a reopening and a kill.
fn stays(store: &mut Store, tuples: &[Tuple]) {
    store.thrice(|db| {
        holds(db, &[(&db.table("t").unwrap(), tuples.to_vec())]);
    });
}

/// The table's tuples by key.
type Content = BTreeMap<u64, Tuple>;

/// The snapshot shows exactly this, in every order and one by one.
fn shows(snapshot: &Snapshot, table: &Table, expected: &Content, gone: u64) {
    let tuples: Vec<Tuple> = expected.values().cloned().collect();
    for index in [None, Some("by_name"), Some("by_count_flag")] {
        let mut found: Vec<Tuple> = Vec::new();
        let all = index.map_or(Scan::all(), |index| Scan::all().by(index));
        snapshot
            .scan(table, &all, |row| {
                found.push(row.values().map(Own::from).collect());
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(found, sorted(tuples.clone(), &key_columns(table, index)), "by {index:?}");
    }
    let mut row = Row::new();
    for id in (0..gone).chain(expected.keys().copied()) {
        let found = snapshot.get_into(table, &[Value::U64(id)], &mut row).unwrap();
        let found = found.then(|| row.values().map(Own::from).collect::<Tuple>());
        assert_eq!(found.as_ref(), expected.get(&id), "tuple {id}");
    }
}

/// Replaces a tuple that the open batch may have made, in one of several ways.
fn replace(store: &Store, table: &Table, content: &mut Content, id: u64, round: u64) {
    let key = [Value::U64(id)];
    let new = tuple(id, round * 3 + 100);
    let mut after = content.get(&id).cloned().expect("it is there");
    store
        .db()
        .write(|tx| match round % 4 {
            0 => {
                after.clone_from(&new);
                update(tx, table, &new)
            }
            // The values in objects of their own stay those of the older version.
            1 => {
                after[2] = Own::I64(1000 + round.cast_signed());
                tx.update(table, &key, &[(2, after[2].value())])
            }
            2 => {
                tx.delete(table, &key)?;
                after.clone_from(&new);
                insert(tx, table, &new)
            }
            _ => {
                after[4] = new[4].clone();
                tx.update(table, &key, &[(4, after[4].value())])
            }
        })
        .unwrap();
    content.insert(id, after);
}

fn delete(store: &Store, table: &Table, content: &mut Content, id: u64) {
    store.db().write(|tx| tx.delete(table, &[Value::U64(id)])).unwrap();
    content.remove(&id);
}

fn make(store: &Store, table: &Table, content: &mut Content, id: u64, version: u64) {
    let new = tuple(id, version);
    store.db().write(|tx| insert(tx, table, &new)).unwrap();
    content.insert(id, new);
}

/// Snapshots and what each has to show.
type Kept = Vec<(Snapshot, Content)>;

fn keep(store: &Store, content: &Content, kept: &mut Kept) {
    kept.push((store.db().snapshot().unwrap(), content.clone()));
}

/// Made, replaced, replaced again and perhaps deleted, each with a snapshot after it; then others
/// come in the places of what is not needed any more.
fn versions_of_one_tuple(store: &Store, content: &mut Content, kept: &mut Kept, round: u64) {
    let table = store.db().table("t").unwrap();
    make(store, &table, content, round, round + 8);
    keep(store, content, kept);
    replace(store, &table, content, round, round);
    if !round.is_multiple_of(3) {
        keep(store, content, kept);
    }
    replace(store, &table, content, round, round + 1);
    // In the middle of a transaction that takes back what it did.
    let mut tx = store.db().begin().unwrap();
    update(&mut tx, &table, &tuple(round, 999)).unwrap();
    keep(store, content, kept);
    tx.abort().unwrap();
    if round.is_multiple_of(2) {
        delete(store, &table, content, round);
        keep(store, content, kept);
    }
    if round.is_multiple_of(5) && !content.contains_key(&round) {
        make(store, &table, content, round, round);
    }
    for other in 1000..1006 {
        if content.contains_key(&other) {
            delete(store, &table, content, other);
        }
        make(store, &table, content, other, round * 5 + other);
    }
}

#[test]
fn a_snapshot_keeps_versions_that_one_batch_made_and_replaced() {
    const ROUNDS: u64 = 24;
    for engine in EngineKind::ALL.into_iter().filter(|engine| engine.traits().snapshots) {
        // All in one batch, a few batches a round, and the ends of batches at every step.
        for group in [1_000_000, 40, 7, 3] {
            println!("{engine}, groups of {group}");
            let mut store = Store::new(&schema(), small(engine).commit(Commit::grouped(group)));
            let table = store.db().table("t").unwrap();
            let (mut content, mut kept) = (Content::new(), Kept::new());
            for round in 0..ROUNDS {
                versions_of_one_tuple(&store, &mut content, &mut kept, round);
                for (snapshot, expected) in kept.iter().rev().take(5) {
                    shows(snapshot, &table, expected, ROUNDS);
                }
                if round % 8 == 7 {
                    store.db().sync().unwrap();
                    kept.iter().for_each(|(one, then)| shows(one, &table, then, ROUNDS));
                    // Neither the oldest ones nor the newest.
                    let mut at = 0;
                    kept.retain(|_| {
                        at += 1;
                        at % 3 != 1
                    });
                }
            }
            kept.iter().for_each(|(one, then)| shows(one, &table, then, ROUNDS));
            drop(kept);
            let tuples: Vec<Tuple> = content.into_values().collect();
            store.db().sync().unwrap();
            stays(&mut store, &tuples);
        }
    }
}

/// Waits for the first of several transactions in one open group; what was aborted before, between
/// and after them has no part in it.
#[test]
fn the_first_ticket_of_an_open_group_can_be_waited_for() {
    each(|engine| {
        let grouped = !matches!(engine, Under::Known(kind) if !kind.groups_commits());
        for (group, many) in [(10_000, 1), (10_000, 6), (5, 4), (2, 1)] {
            // No MemTable is frozen, which would end the group.
            let setup = small(engine).memtable_bytes(4 << 20).commit(Commit::grouped(group));
            let mut store = Store::new(&schema(), setup);
            let mut next = 0;
            for round in 0..6 {
                let db = store.db();
                let table = db.table("t").unwrap();
                let abort = |id: u64| {
                    let mut tx = db.begin().unwrap();
                    insert(&mut tx, &table, &tuple(id, 1)).unwrap();
                    tx.abort().unwrap();
                };
                if round % 2 == 1 {
                    // The group is not the first one of this process.
                    let _ticket = put(db, &table, next);
                    next += 1;
                    db.sync().unwrap();
                    abort(next);
                }
                let before = next;
                let tickets: Vec<Ticket> = (0..many)
                    .map(|_| {
                        next += 1;
                        put(db, &table, next - 1)
                    })
                    .collect();
                let known = matches!(engine, Under::Known(_));
                if known && grouped {
                    assert!(!db.durable(tickets[0]).unwrap(), "the group is open");
                }
                abort(next);
                db.wait(tickets[0]).unwrap();
                assert!(db.durable(tickets[0]).unwrap());
                store.crash();
                let found = prefix(store.db());
                assert!((before + 1..=next).contains(&found), "{before} + 1..={next}, {found}");
                next = found;
            }
        }
    });
}

/// Returns the space that a database takes: by its own account, on the medium, and in objects of
/// the allocator.
fn taken(db: &Database) -> [u64; 3] {
    let report = db.check().unwrap();
    assert_eq!((report.leaked, report.dangling), (0, 0), "{report:?}");
    [db.footprint().unwrap().total(), db.stored_bytes().unwrap(), report.objects]
}

/// Inserts, changes and deletes tuples, with values in objects of their own.
fn much(tx: &mut perdura::Tx<'_>, table: &Table, seed: u64) -> Result<(), Error> {
    for id in 0..3 {
        insert(tx, table, &tuple(100 + seed % 50 + id * 50, seed % 10 + id))?;
    }
    update(tx, table, &tuple(seed % 20, seed % 10 + 7))?;
    tx.update(table, &[Value::U64(seed % 20)], &[(4, Value::Bytes(&[3; 390]))])?;
    tx.delete(table, &[Value::U64((seed + 5) % 20)])?;
    insert(tx, table, &tuple((seed + 5) % 20, seed % 10 + 3))?;
    tx.delete(table, &[Value::U64((seed + 9) % 20)])
}

#[test]
fn four_hundred_aborts_take_no_more_room_than_two_hundred() {
    aborts_take_no_more_room_than_two_hundred(400);
}

/// So many aborts take no more room than the first of them.
pub(crate) fn aborts_take_no_more_room_than_two_hundred(aborts: u64) {
    const FIRST: u64 = 200;
    each(|engine| {
        for group in [1, 1000] {
            let setup = small(engine).map(|options| options.tune("log_bytes", 256 << 10));
            let mut store = Store::new(&schema(), setup.commit(Commit::grouped(group)));
            let table = store.db().table("t").unwrap();
            let tuples: Vec<Tuple> = (0..20).map(|id| tuple(id, id + 5)).collect();
            let fill = |tx: &mut perdura::Tx<'_>| -> Result<(), Error> {
                tuples.iter().try_for_each(|tuple| insert(tx, &table, tuple))
            };
            store.db().write(fill).unwrap();
            let (mut most, mut later) = ([0; 3], [0; 3]);
            for round in 0..aborts {
                let mut tx = store.db().begin().unwrap();
                much(&mut tx, &table, round).unwrap();
                tx.abort().unwrap();
                if round % 20 == 19 {
                    let part = if round < FIRST { &mut most } else { &mut later };
                    for (most, now) in part.iter_mut().zip(taken(store.db())) {
                        *most = now.max(*most);
                    }
                }
            }
            println!("{engine}, groups of {group}: {most:?}, then {later:?}");
            // NV-Logging's file of cold records has those of one open transaction, until it is cut.
            let is_logged = matches!(engine, Under::Known(engine) if engine.traits().durable_in == DurableIn::Both);
            let cold = if is_logged { [4096, 0, 0] } else { [0; 3] };
            for ((most, later), cold) in most.into_iter().zip(later).zip(cold) {
                assert!(later <= most + cold, "{engine}, groups of {group}: {later} after {most}");
            }
            stays(&mut store, &tuples);
        }
    });
}

/// Two updates of one tuple in a transaction, each of several columns, which meet in some.
fn change_twice(tx: &mut perdura::Tx<'_>, table: &Table, id: u64) -> Result<(), Error> {
    let key = [Value::U64(id)];
    let (long, short) = ([8; 400], [9; 40]);
    let first = [
        (1, Value::Text("between")),
        (2, Value::I64(77)),
        (4, Value::Bytes(&long)),
        (5, Value::F64(0.5)),
    ];
    tx.update(table, &key, &first)?;
    let second = [(4, Value::Bytes(&short)), (3, Value::Bytes(b"new")), (2, Value::I64(78))];
    tx.update(table, &key, &second)?;
    let mut row = Row::new();
    assert!(tx.get_into(table, &key, &mut row)?);
    assert_eq!((row.text(1), row.i64(2), row.bytes(4)), ("between", 78, &short[..]));
    assert_eq!((row.bytes(3), row.f64(5)), (&b"new"[..], 0.5));
    Ok(())
}

/// Covers tuples that are in the MemTable as a whole or as changes, and tuples in runs alone.
#[test]
fn columns_that_a_transaction_changes_twice_are_what_they_were_if_it_ends_early() {
    each(|engine| {
        // With the larger one nothing is frozen.
        for memtable in [4 << 10, 4 << 20] {
            let mut store = Store::new(&schema(), small(engine).memtable_bytes(memtable));
            let mut content: Vec<Tuple> = (0..40).map(|id| tuple(id, id + 9)).collect();
            let table = store.db().table("t").unwrap();
            for tuple in &content {
                store.db().write(|tx| insert(tx, &table, tuple)).unwrap();
            }
            for id in (0..40u64).step_by(3) {
                // Some have a change of their own in the MemTable.
                content[id as usize][2] = Own::I64(-5);
                let changes = [(2, Value::I64(-5))];
                store.db().write(|tx| tx.update(&table, &[Value::U64(id)], &changes)).unwrap();
            }
            for id in 0..40 {
                let mut tx = store.db().begin().unwrap();
                change_twice(&mut tx, &table, id).unwrap();
                tx.abort().unwrap();
            }
            holds(store.db(), &[(&table, content.clone())]);
            stays(&mut store, &content);
            // Killed with the transaction open.
            for id in (0..40).step_by(7) {
                let table = store.db().table("t").unwrap();
                let mut owned = store.db().partition(0).exclusive().unwrap();
                let mut tx = owned.begin();
                change_twice(&mut tx, &table, id).unwrap();
                std::mem::forget(tx);
                // Letting go of the partition would undo it.
                std::mem::forget(owned);
                store.crash();
                let table = store.db().table("t").unwrap();
                holds(store.db(), &[(&table, content.clone())]);
            }
        }
    });
}

#[test]
fn a_column_that_an_update_names_twice_is_refused_and_nothing_is_changed() {
    each(|engine| {
        let mut store = Store::new(&schema(), small(engine));
        let table = store.db().table("t").unwrap();
        store.db().write(|tx| insert(tx, &table, &tuple(1, 9))).unwrap();
        let (one, two) = (Value::I64(1), Value::I64(2));
        let note = Value::Bytes(&[5; 300]);
        for changes in [
            &[(2, one), (2, two)][..],
            &[(2, one), (2, one)],
            &[(2, one), (4, note), (2, two)],
            &[(4, note), (2, one), (4, note)],
        ] {
            let mut tx = store.db().begin().unwrap();
            let refused = tx.update(&table, &[Value::U64(1)], changes).unwrap_err();
            assert!(matches!(refused, Error::Invalid(_)), "{refused}");
            let column = if changes[0].0 == 2 { "count" } else { "note" };
            assert!(refused.to_string().contains(column), "{refused}");
            // The transaction goes on as if it had not been asked.
            tx.update(&table, &[Value::U64(1)], &[(5, Value::F64(2.25))]).unwrap();
            let _ticket = tx.commit().unwrap();
        }
        let content = vec![tuple(1, 9)];
        assert_eq!(content[0][5], Own::F64(2.25));
        stays(&mut store, &content);
    });
}

/// Objects that the allocator has as persisted and nothing leads to: as many as there are, in the
/// lane of a partition and in one that is handed out.
#[test]
fn a_check_reports_what_has_leaked() {
    const LIMIT: u64 = 8 << 20;
    each_known(|engine| {
        let memory = Recording::pool(64 << 10, LIMIT).unwrap();
        let options: Options = (*small(engine)).clone().pool_limit(LIMIT).volatile_limit(LIMIT);
        let files = RecordingFiles::new();
        let media = || faults::recorded(memory.clone(), files.clone());
        let db: Database<Recorded> = Database::create_on(media(), &schema(), &options).unwrap();
        let fill = |from: u64, db: &Database<Recorded>| {
            let table = db.table("t").unwrap();
            for id in from..from + 30 {
                db.write(|tx| tx.insert(&table, &super::values(&tuple(id, id)))).unwrap();
            }
        };
        fill(0, &db);
        let sound = db.check().unwrap();
        assert_eq!((sound.leaked, sound.dangling), (0, 0));
        db.close().unwrap();
        for (lost, bytes, purpose, handed_out) in [
            (1, 40, Purpose::Table, false),
            (2, 3000, Purpose::Log, false),
            (3, 40_000, Purpose::Index, true),
            (4, 40, Purpose::Table, true),
        ] {
            let heap = Heap::open(memory.clone()).unwrap();
            let mut lane = if handed_out { Lanes::of(&heap).take().unwrap() } else { heap.lane(0) };
            let at = lane.allocate(bytes, purpose).unwrap();
            lane.mark_persisted(at, &mut Default::default());
            drop((lane, heap));
            let db: Database<Recorded> = Database::open_on(media(), &options).unwrap();
            let report = db.check().unwrap();
            assert_eq!((report.leaked, report.dangling, report.tuples), (lost, 0, lost * 30));
            let found = db.examine().unwrap();
            assert_eq!((found.report, found.findings.total()), (report, 0), "{found:?}");
            // Lanes are no data, and no chunk is counted twice.
            let bytes: u64 = db.footprint().unwrap().other;
            assert!(!handed_out || bytes >= 64 << 10, "{bytes}");
            // It is never given out, and is not in the way.
            fill(lost * 30, &db);
            assert_eq!(db.check().unwrap().leaked, lost);
            db.close().unwrap();
        }
    });
}
