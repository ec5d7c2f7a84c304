//! The store against a model: random transactions, reopening, and what single calls promise.

use std::sync::Arc;

use column::{ColumnError, Field, FirstColumn, Kind, Options, Store, Value, Waiting};
use heap::{Heap, HeapOptions};
use pm::Dram;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::Recording;

use crate::keyed::Keyed;
use crate::work::{
    Model, Statement, contents, create, durable, hashed, mixed, open, rebuild, small,
};

const LIMIT: u64 = 64 << 20;

fn memory() -> Recording {
    Recording::pool(16 << 10, LIMIT).unwrap()
}

/// Random transactions; after some of them the store is opened anew, and used while its indexes come
/// back.
fn transactions(options: Options, seed: u64, many: u64, keys: u64) {
    let memory = memory();
    let mut store = create(memory.clone(), options);
    let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(seed));
    for number in 0..many {
        let mut session = store.session();
        let mut own = model.clone();
        session.begin().unwrap();
        for _ in 0..random.random_range(1..12) {
            let statement = Statement::random(&mut random, keys);
            statement.both(&mut session, &mut own).unwrap();
            let (table, key) = statement.at();
            let found = session.get(table, key.value()).unwrap();
            assert_eq!(found.as_ref(), own.get(&(table, key)), "{statement:?}");
        }
        if number % 5 == 4 {
            session.abort().unwrap();
        } else {
            session.commit().unwrap();
            model = own;
        }
        drop(session);
        if number % 16 == 0 {
            assert_eq!(contents(&store.session()).unwrap(), model, "seed {seed}, {number}");
            store.check().unwrap();
        }
        if number % 40 == 39 {
            drop(store);
            store = open(memory.clone(), &Waiting::default()).unwrap().0;
            assert_eq!(contents(&store.session()).unwrap(), model, "seed {seed}, {number}");
        }
        if number % 2 == 0 {
            store.rebuild(7).unwrap();
        } else {
            store.build_pending().unwrap();
        }
    }
    rebuild(&store).unwrap();
    assert_eq!(store.built().waiting, 0);
    assert_eq!(contents(&store.session()).unwrap(), model);
    store.check().unwrap();
}

#[test]
fn transactions_do_what_the_model_does() {
    for (seed, keys) in [(1, 8), (2, 60), (3, 1000)] {
        for durable_percent in [0, 10, mixed().durable_percent, 60, 100] {
            transactions(Options { durable_percent, ..small() }, seed, 200, keys);
        }
        transactions(hashed(), seed, 200, keys);
    }
}

#[test]
fn a_store_in_volatile_memory_works_as_well() {
    let heap = Heap::format(Dram::new(LIMIT).unwrap(), HeapOptions::default()).unwrap();
    let store = Store::create(
        heap.lane(0),
        Options::default(),
        &[&[Kind::Word, Kind::Word]],
        &Arc::new(FirstColumn),
    );
    let store = store.unwrap();
    let mut session = store.session();
    for key in 0..3000 {
        session.begin().unwrap();
        session.insert(0, &[Value::Word(key), Value::Word(key % 7)]).unwrap();
        session.commit().unwrap();
    }
    let row = session.get(0, Value::Word(2999)).unwrap().unwrap();
    assert_eq!(row, [Field::Word(2999), Field::Word(2999 % 7)]);
    assert_eq!(store.built().built, 3000 + 2999 + 6, "a value has one id");
    store.check().unwrap();
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let store = create(memory(), small());
    let mut session = store.session();
    let row = [Value::Word(1), Value::Null, Value::Bytes(b"one")];
    assert!(matches!(session.insert(0, &row), Err(ColumnError::State { .. })));
    session.begin().unwrap();
    assert!(matches!(session.begin(), Err(ColumnError::State { .. })));
    session.insert(0, &row).unwrap();
    assert!(matches!(session.insert(0, &row), Err(ColumnError::DuplicateKey)));
    let unfit = |result| matches!(result, Err(ColumnError::Unfit { .. }));
    assert!(unfit(session.insert(0, &row[..2])));
    assert!(unfit(session.insert(0, &[Value::Null, Value::Null, Value::Null])));
    assert!(unfit(session.insert(0, &[Value::Word(2), Value::Bytes(b"two"), Value::Null])));
    assert!(unfit(session.insert(2, &row)));
    assert!(unfit(session.update(0, Value::Word(1), &[(0, Value::Word(2))])));
    assert!(unfit(session.update(0, Value::Word(1), &[(3, Value::Word(2))])));
    assert!(unfit(session.delete(0, Value::Bytes(b"1"))));
    let missing = |result| matches!(result, Err(ColumnError::MissingKey));
    assert!(missing(session.update(0, Value::Word(2), &[(1, Value::Word(2))])));
    assert!(missing(session.delete(0, Value::Word(2))));
    assert_eq!(session.transaction().unwrap().1, 1);
    session.commit().unwrap();
    assert_eq!(contents(&store.session()).unwrap().len(), 1);
    store.check().unwrap();
}

#[test]
fn the_first_change_wins_and_readers_see_snapshots() {
    let store = create(memory(), small());
    let (mut one, mut other) = (store.session(), store.session());
    one.begin().unwrap();
    one.insert(0, &[Value::Word(1), Value::Word(10), Value::Null]).unwrap();
    one.commit().unwrap();
    let value = |session: &column::Session<Recording>| {
        session.get(0, Value::Word(1)).unwrap().map(|row| row[1].clone())
    };
    one.begin().unwrap();
    other.begin().unwrap();
    one.update(0, Value::Word(1), &[(1, Value::Word(11))]).unwrap();
    assert_eq!(value(&one), Some(Field::Word(11)), "its own");
    assert_eq!(value(&other), Some(Field::Word(10)), "not another's");
    let conflict = |result| matches!(result, Err(ColumnError::Conflict));
    assert!(conflict(other.update(0, Value::Word(1), &[(1, Value::Word(12))])));
    assert!(conflict(other.delete(0, Value::Word(1))));
    one.commit().unwrap();
    assert_eq!(value(&other), Some(Field::Word(10)), "its snapshot");
    assert!(conflict(other.delete(0, Value::Word(1))), "it was committed later");
    other.abort().unwrap();
    other.begin().unwrap();
    other.delete(0, Value::Word(1)).unwrap();
    one.begin().unwrap();
    assert!(conflict(one.insert(0, &[Value::Word(1), Value::Null, Value::Null])));
    other.abort().unwrap();
    one.update(0, Value::Word(1), &[(1, Value::Word(13))]).unwrap();
    one.commit().unwrap();
    assert_eq!(value(&other), Some(Field::Word(13)));
    store.check().unwrap();
}

#[test]
fn slots_are_a_bound_and_come_back() {
    let store = create(memory(), small());
    let mut sessions: Vec<_> = (0..5).map(|_| store.session()).collect();
    let mut insert = |number: u64| {
        let session = &mut sessions[number as usize];
        session.begin().unwrap();
        session.insert(0, &[Value::Word(number), Value::Null, Value::Null])
    };
    for number in 0..4 {
        insert(number).unwrap();
    }
    assert!(matches!(insert(4), Err(ColumnError::Busy { slots: 4 })));
    sessions[0].abort().unwrap();
    sessions[4].insert(0, &[Value::Word(4), Value::Null, Value::Null]).unwrap();
    sessions[4].commit().unwrap();
    drop(sessions);
    assert_eq!(contents(&store.session()).unwrap().len(), 1);
    // All four were given back; a session that finds none settles the last transactions of others.
    let mut sessions: Vec<_> = (0..7).map(|_| store.session()).collect();
    for number in 10..30 {
        let session = &mut sessions[number as usize % 7];
        session.begin().unwrap();
        session.insert(0, &[Value::Word(number), Value::Null, Value::Null]).unwrap();
        session.commit().unwrap();
    }
    assert_eq!(contents(&sessions[0]).unwrap().len(), 21);
}

#[test]
fn a_full_memory_fails_one_statement() {
    [small(), durable()].into_iter().for_each(fills);
}

fn fills(options: Options) {
    let memory = memory();
    let store = create(memory.clone(), options);
    memory.fail_growth_after(Some(0));
    let mut session = store.session();
    let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(9));
    let mut full = 0;
    for number in 0..3000u64 {
        session.begin().unwrap();
        let mut bytes = vec![number as u8; random.random_range(1..400)];
        bytes[0] = (number >> 8) as u8;
        let row = [Value::Word(number), Value::Word(number), Value::Bytes(&bytes)];
        match session.insert(0, &row) {
            Ok(()) => {
                let row = vec![Field::Word(number), Field::Word(number), Field::Bytes(bytes)];
                model.insert((0, Field::Word(number)), row);
            }
            Err(ColumnError::Heap(heap::HeapError::Full(_))) => full += 1,
            Err(other) => panic!("{other}"),
        }
        session.commit().unwrap();
    }
    assert!(full > 100 && model.len() > 50, "{full}, {}", model.len());
    assert_eq!(contents(&session).unwrap(), model);
    store.check().unwrap();
    drop((session, store));
    memory.fail_growth_after(None);
    let (store, _) = open(memory, &Waiting::default()).unwrap();
    assert_eq!(contents(&store.session()).unwrap(), model);
    rebuild(&store).unwrap();
    store.check().unwrap();
}

/// Opening indexes nothing and writes the slots alone; answers are right at every share of what is
/// built, and of what comes meanwhile.
#[test]
fn answers_are_right_while_indexes_come_back() {
    let fill = |keys: u64| {
        let memory = memory();
        let store = create(memory.clone(), Options { reserve: 64, ..small() });
        let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(keys));
        let mut session = store.session();
        for _ in 0..keys {
            session.begin().unwrap();
            for _ in 0..6 {
                Statement::random(&mut random, keys).both(&mut session, &mut model).unwrap();
            }
            session.commit().unwrap();
        }
        drop((session, store));
        let memory = crate::work::from_image(&memory.contents(), LIMIT).unwrap();
        memory.start();
        let (store, _) = open(memory.clone(), &Waiting::default()).unwrap();
        let costs = memory.stop().counters();
        (store, model, random, costs)
    };
    let (.., few) = fill(10);
    let (store, mut model, mut random, many) = fill(60);
    assert_eq!(few.fences, many.fences);
    assert!(many.flushed_lines < 80, "a few lines a slot: {many:?}");
    let built = store.built();
    assert!(built.built == 0 && built.waiting > 200, "{built:?}");
    let mut steps = 0;
    loop {
        let mut session = store.session();
        session.begin().unwrap();
        Statement::random(&mut random, 70).both(&mut session, &mut model).unwrap();
        session.commit().unwrap();
        for key in 0..70 {
            for (table, kinds) in crate::work::TABLES.iter().enumerate() {
                let key = crate::work::key(kinds[0], key);
                let found = session.get(table, key.value()).unwrap();
                assert_eq!(found.as_ref(), model.get(&(table, key)), "{:?}", store.built());
            }
        }
        assert_eq!(contents(&session).unwrap(), model, "{:?}", store.built());
        steps += 1;
        if !store.rebuild(60).unwrap() {
            break;
        }
    }
    store.check().unwrap();
    assert!(steps > 6 && store.built().waiting == 0, "{steps} {:?}", store.built());
}

/// A unique key is one transaction's: of two that take it, one is in conflict, whatever the other does.
#[test]
fn of_two_that_take_what_is_unique_one_is_in_conflict() {
    let heap = Heap::format(memory(), HeapOptions::default()).unwrap();
    let keys = Arc::new(Keyed { unique: true });
    let kinds: [&[Kind]; 1] = [&[Kind::Word, Kind::Word]];
    let store = Store::create(heap.lane(0), small(), &kinds, &keys).unwrap();
    let row = |key, value| [Value::Word(key), Value::Word(value)];
    let (mut one, mut two) = (store.session(), store.session());
    let conflict = |done| assert!(matches!(done, Err(ColumnError::Conflict)), "{done:?}");
    one.begin().unwrap();
    two.begin().unwrap();
    one.insert(0, &row(1, 7)).unwrap();
    conflict(two.insert(0, &row(2, 7)));
    two.insert(0, &row(2, 8)).unwrap();
    conflict(two.update(0, Value::Word(2), &[(1, Value::Word(7))]));
    one.commit().unwrap();
    // It does not see what the other one has committed.
    conflict(two.update(0, Value::Word(2), &[(1, Value::Word(7))]));
    two.commit().unwrap();
    // What an abort gives back is free, and so is what was changed or deleted.
    one.begin().unwrap();
    one.insert(0, &row(3, 9)).unwrap();
    one.abort().unwrap();
    one.begin().unwrap();
    one.update(0, Value::Word(1), &[(1, Value::Word(10))]).unwrap();
    one.delete(0, Value::Word(2)).unwrap();
    one.commit().unwrap();
    two.begin().unwrap();
    for (key, value) in [(4, 9), (5, 7), (6, 8)] {
        two.insert(0, &row(key, value)).unwrap();
    }
    // A row may go on with its own.
    two.update(0, Value::Word(4), &[(1, Value::Word(9))]).unwrap();
    two.commit().unwrap();
    store.check().unwrap();
}
