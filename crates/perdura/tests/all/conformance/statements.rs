//! Updates that are transactions of their own, and updates together with the commit of what came
//! before them: they are what an update and a commit are.

use faults::items::holds_in;
use perdura::{Commit, EngineKind, Error, Partition, RecoveredLog, RecoveryReport, Value};

use super::{Setup, Store, each, small};
use crate::support::{
    Driver, Item, Model, Tables, compare, insert_item, schema as items, update_item,
};

fn item(number: u64) -> Item {
    Item {
        name: format!("n{number}"),
        payload: vec![number as u8; 100],
        count: number as i64,
        flag: b"f".to_vec(),
        score: 0.25,
    }
}

/// A store with the items 0 to 7, and its model.
fn filled(setup: Setup) -> (Store, Model) {
    let store = Store::new(&items(), setup);
    let tables = Tables::of(store.db());
    let mut model = Model::default();
    for key in 0..8 {
        store.db().write(|tx| insert_item(tx, &tables, key, &item(key))).unwrap();
        model.items.insert(key, item(key));
    }
    (store, model)
}

#[test]
fn statements_among_other_transactions_leave_what_the_model_says() {
    each(|engine| {
        for seed in 0..2 {
            let mut store = Store::new(&items(), small(engine));
            let (mut driver, mut model) = (Driver::new(seed, 6), Model::default());
            for transaction in 0..400 {
                let tables = Tables::of(store.db());
                match transaction % 10 {
                    0..6 => driver.statement(store.db(), &tables, &mut model).unwrap(),
                    at => {
                        driver.transaction(store.db(), &tables, &mut model, at - 5).unwrap();
                    }
                }
                match transaction % 37 {
                    11 => store.reopen(),
                    20 | 36 => store.crash(),
                    _ => continue,
                }
                compare(store.db(), &model);
            }
            store.thrice(|db| compare(db, &model));
        }
    });
}

/// Indexed columns, more columns than a log entry has room for, none.
#[test]
fn any_update_can_be_a_statement() {
    each(|engine| {
        let (mut store, mut model) = filled(small(engine));
        let tables = Tables::of(store.db());
        let (key, long) = ([Value::U64(3)], vec![9; 300]);
        let update = |changes: &[(u16, Value<'_>)]| {
            store.db().update(&tables.item, &key, changes).unwrap();
        };
        update(&[]);
        update(&[(1, Value::Text("indexed"))]);
        update(&[(2, Value::Bytes(&[])), (3, Value::I64(-1))]);
        update(&[(2, Value::Bytes(&[1; 50]))]);
        update(&[(2, Value::Bytes(&long)), (5, Value::F64(2.0))]);
        update(&[(5, Value::F64(3.0)), (4, Value::Bytes(b"flag"))]);
        let expected = Item {
            name: "indexed".into(),
            payload: long.clone(),
            count: -1,
            flag: b"flag".to_vec(),
            score: 3.0,
        };
        model.items.insert(3, expected);
        store.thrice(|db| compare(db, &model));
    });
}

#[test]
fn a_statement_that_fails_changes_nothing() {
    each(|engine| {
        let (mut store, model) = filled(small(engine));
        let tables = Tables::of(store.db());
        let update =
            |key, changes: &[(u16, Value<'_>)]| store.db().update(&tables.item, &[key], changes);
        let one = [(5, Value::F64(1.0))];
        assert!(matches!(update(Value::U64(99), &one), Err(Error::MissingKey { .. })));
        for (key, change) in [
            (Value::Text("1"), one[0]),
            (Value::U64(1), (0, Value::U64(1))),
            (Value::U64(1), (6, Value::U64(1))),
            (Value::U64(1), (5, Value::U64(1))),
            (Value::U64(1), (2, Value::Bytes(&[0; 301]))),
            (Value::U64(1), (1, Value::Text("a name that is too long"))),
        ] {
            let failed = update(key, &[change]);
            assert!(matches!(failed, Err(Error::Invalid(_))), "{change:?}: {failed:?}");
        }
        let two = [(5, Value::F64(1.0)), (2, Value::Bytes(&[0; 301]))];
        assert!(matches!(update(Value::U64(1), &two), Err(Error::Invalid(_))));
        let other = Store::new(&items(), small(engine));
        let foreign = Tables::of(other.db()).item;
        let failed = store.db().update(&foreign, &[Value::U64(1)], &one);
        assert!(matches!(failed, Err(Error::ForeignTable { .. })), "{failed:?}");
        store.thrice(|db| compare(db, &model));
    });
}

/// After a kill opening does the last two again; after closing there is nothing to do.
#[test]
fn a_database_that_was_closed_has_no_statement_to_do_again() {
    let (mut store, _) = filled(small(EngineKind::NvmInp));
    for closed in [true, false] {
        let tables = Tables::of(store.db());
        for score in 0..3 {
            let change = [(5, Value::F64(f64::from(score)))];
            store.db().update(&tables.item, &[Value::U64(2)], &change).unwrap();
        }
        if closed {
            store.reopen();
        } else {
            store.crash();
        }
        let report = store.db().recovery_report();
        assert_eq!(report.redone, if closed { 0 } else { 2 }, "{report:?}");
    }
}

/// Opening after a kill, and closing, store logs of frames in place; the report says how
/// much it was.
#[test]
fn opening_tells_the_frames_that_it_has_stored() {
    for engine in [EngineKind::Nvwal, EngineKind::Wal] {
        let (mut store, mut model) = filled(small(engine));
        store.reopen();
        assert_eq!(store.db().recovery_report(), RecoveryReport::default(), "{engine}: closed");
        let tables = Tables::of(store.db());
        for key in 8..11 {
            store.db().write(|tx| insert_item(tx, &tables, key, &item(key))).unwrap();
            model.items.insert(key, item(key));
        }
        store.crash();
        let RecoveredLog { frames, frame_bytes, .. } = store.db().recovery_report().log;
        // A row and its keys are in several leaves; a frame has a header and a word at least.
        assert!(frames >= 6 && frame_bytes >= 24 * frames, "{engine}: {frames}, {frame_bytes}");
        compare(store.db(), &model);
        store.crash();
        assert_eq!(store.db().recovery_report(), RecoveryReport::default(), "{engine}: again");
        let tables = Tables::of(store.db());
        store.db().write(|tx| insert_item(tx, &tables, 11, &item(11))).unwrap();
        store.db().checkpoint().unwrap();
        store.crash();
        let report = store.db().recovery_report();
        assert_eq!(report, RecoveryReport::default(), "{engine}: a checkpoint");
    }
}

#[test]
fn a_transaction_can_end_with_an_update() {
    each(|engine| {
        let (mut store, mut model) = filled(small(engine));
        let tables = Tables::of(store.db());
        let mut tx = store.db().begin().unwrap();
        insert_item(&mut tx, &tables, 20, &item(20)).unwrap();
        update_item(&mut tx, &tables, 3, &item(7), 2).unwrap();
        let score = [(5, Value::F64(8.0))];
        let ticket = tx.update_and_commit(&tables.item, &[Value::U64(20)], &score).unwrap();
        assert!(ticket.is_durable());
        model.items.insert(20, Item { score: 8.0, ..item(20) });
        model.items.insert(3, Item { payload: item(7).payload, ..item(3) });
        // If the update fails, nothing of it is left.
        let mut tx = store.db().begin().unwrap();
        tx.delete(&tables.item, &[Value::U64(3)]).unwrap();
        let failed = tx.update_and_commit(&tables.item, &[Value::U64(3)], &score);
        assert!(matches!(failed, Err(Error::MissingKey { .. })));
        // Nothing before it: a statement, whose number is the next one.
        let tx = store.db().begin().unwrap();
        let next = tx.update_and_commit(&tables.item, &[Value::U64(4)], &score).unwrap();
        assert!(next.is_durable() && next.number() > ticket.number());
        model.items.insert(4, Item { score: 8.0, ..item(4) });
        store.thrice(|db| compare(db, &model));
    });
}

/// Statements that move values to slots of another size, so that the chunks of the old size become
/// empty; then another partition needs chunks, and takes them. After a kill, opening relies on the
/// last two statements, and what they freed must not belong to the other partition.
#[test]
fn what_statements_free_can_go_to_another_partition() {
    const KEYS: u64 = 220;
    let large = |key| Item { payload: vec![key as u8; 300], ..item(key) };
    let smaller = |key: u64| Item { payload: vec![key as u8; 20], ..item(key) };
    each(|engine| {
        // In which moment a chunk becomes empty depends on where the values lie: try many.
        let every = if engine == EngineKind::NvmInp.into() { 1 } else { 40 };
        for last in (100..KEYS).step_by(every) {
            let mut store = Store::new(&items(), small(engine).partitions(2));
            let tables = Tables::of(store.db());
            let (first, other) = (store.db().partition(0), store.db().partition(1));
            (0..KEYS).for_each(|key| insert_item_in(&first, &tables, key, &large(key)));
            for key in 0..last {
                let change = [(2, Value::Bytes(&[key as u8; 20][..]))];
                first.update(&tables.item, &[Value::U64(key)], &change).unwrap();
            }
            (0..60).for_each(|key| insert_item_in(&other, &tables, key, &large(key)));
            store.crash();
            let tables = Tables::of(store.db());
            let mut model = Model::default();
            let item = |key| if key < last { smaller(key) } else { large(key) };
            model.items.extend((0..KEYS).map(|key| (key, item(key))));
            assert!(holds_in(&store.db().partition(0), &tables, &model).unwrap(), "{last}");
            model.items = (0..60).map(|key| (key, large(key))).collect();
            assert!(holds_in(&store.db().partition(1), &tables, &model).unwrap(), "{last}");
        }
    });
}

/// The same for what a transaction that was no statement has freed, followed by statements: the
/// state word goes on naming it.
#[test]
fn what_is_freed_before_statements_can_go_to_another_partition() {
    const KEYS: u64 = 200;
    each(|engine| {
        for statements in 0..5 {
            let mut store = Store::new(&items(), small(engine).partitions(2));
            let tables = Tables::of(store.db());
            let (first, other) = (store.db().partition(0), store.db().partition(1));
            let mut model = Model::default();
            for key in 0..KEYS {
                let item = Item { payload: vec![key as u8; 300], ..item(key) };
                insert_item_in(&first, &tables, key, &item);
                model.items.insert(key, item);
            }
            first
                .write(|tx| {
                    (0..KEYS - 1).try_for_each(|key| tx.delete(&tables.item, &[Value::U64(key)]))
                })
                .unwrap();
            model.items.retain(|key, _| *key == KEYS - 1);
            for score in 1..=statements {
                let change = [(5, Value::F64(score.into()))];
                first.update(&tables.item, &[Value::U64(KEYS - 1)], &change).unwrap();
                model.items.get_mut(&(KEYS - 1)).unwrap().score = score.into();
            }
            let others = model.items.values().next().unwrap().clone();
            (0..KEYS).for_each(|key| insert_item_in(&other, &tables, key, &others));
            store.crash();
            let tables = Tables::of(store.db());
            let held = holds_in(&store.db().partition(0), &tables, &model);
            assert!(held.unwrap(), "{engine}, {statements} statements");
            model.items = (0..KEYS).map(|key| (key, others.clone())).collect();
            let held = holds_in(&store.db().partition(1), &tables, &model);
            assert!(held.unwrap(), "{engine}, {statements} statements");
        }
    });
}

fn insert_item_in(partition: &Partition<'_>, tables: &Tables, key: u64, item: &Item) {
    partition.write(|tx| insert_item(tx, tables, key, item)).unwrap();
}

/// Statements are members of the group where commits are grouped.
#[test]
fn statements_in_groups_are_durable_when_their_ticket_or_a_sync_says_so() {
    each(|engine| {
        let (mut store, mut model) = filled(small(engine).commit(Commit::grouped(1000)));
        let tables = Tables::of(store.db());
        store.db().sync().unwrap();
        let mut all = true;
        for round in 0..5 {
            let tx = store.db().begin().unwrap();
            let score = f64::from(round);
            let change = [(5, Value::F64(score))];
            let ticket = tx.update_and_commit(&tables.item, &[Value::U64(2)], &change).unwrap();
            all &= ticket.is_durable();
            model.items.insert(2, Item { score, ..item(2) });
            if round == 3 {
                store.db().wait(ticket).unwrap();
            }
        }
        store.crash();
        let last = compare_either(&store, &model, &item(2), 3.0);
        assert!(last || !all, "every commit was durable");
        let mut exclusive = store.db().partition(0).exclusive().unwrap();
        let tables = Tables::of(store.db());
        exclusive.update(&tables.item, &[Value::U64(2)], &[(5, Value::F64(9.0))]).unwrap();
        exclusive.sync().unwrap();
        drop(exclusive);
        model.items.insert(2, Item { score: 9.0, ..item(2) });
        store.crash();
        compare(store.db(), &model);
    });
}

/// Compares the store with the model, or else with another score of item 2; returns true in the
/// first case.
fn compare_either(store: &Store, model: &Model, two: &Item, score: f64) -> bool {
    if faults::items::differs(store.db(), model).is_ok() {
        return true;
    }
    let mut before = model.clone();
    before.items.insert(2, Item { score, ..two.clone() });
    compare(store.db(), &before);
    false
}
