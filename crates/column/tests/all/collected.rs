//! Rows of versions that nobody sees any more are used again: space does not grow with updates, whoever
//! may see a version keeps it, and a crash forgets nothing for good.

use column::{Field, Options, Session, Store, Value, Waiting};
use pm::Recording;

use crate::work::{create, durable, from_image, open, rebuild, small, text};

const LIMIT: u64 = 8 << 20;
const KEYS: u64 = 20;

fn store(options: Options) -> (Recording, Store<Recording>) {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), options);
    let mut session = store.session();
    session.begin().unwrap();
    for key in 0..KEYS {
        session.insert(0, &[Value::Word(key), Value::Word(key), Value::Null]).unwrap();
    }
    session.commit().unwrap();
    (memory, store)
}

fn update(session: &mut Session<Recording>, number: u64) {
    session.begin().unwrap();
    let change = [(1, Value::Word(number % 50))];
    session.update(0, Value::Word(number % KEYS), &change).unwrap();
    // Some of them are not to be.
    if number % 7 == 3 { session.abort() } else { session.commit().map(drop) }.unwrap();
}

/// Rows that versions have or have had.
fn taken(store: &Store<Recording>) -> u64 {
    store.check().unwrap().taken
}

#[test]
fn rows_do_not_grow_with_updates() {
    [small(), durable()].into_iter().for_each(grows_not);
}

fn grows_not(options: Options) {
    let (memory, store) = store(options);
    // One that begins nothing more keeps nothing.
    let mut idle = store.session();
    update(&mut idle, 1);
    let mut session = store.session();
    for number in 0..2000 {
        update(&mut session, number);
        if number % 8 == 0 {
            store.collect(64).unwrap();
        }
    }
    assert!(taken(&store) < 100, "{}", taken(&store));
    // Deleted rows, too, and those of keys that come and go.
    for number in 0..500 {
        session.begin().unwrap();
        session.insert(0, &[Value::Word(1000 + number % 9), Value::Null, Value::Null]).unwrap();
        session.commit().unwrap();
        session.begin().unwrap();
        session.delete(0, Value::Word(1000 + number % 9)).unwrap();
        session.commit().unwrap();
        store.collect(64).unwrap();
    }
    assert!(taken(&store) < 120, "{}", taken(&store));
    // A crash forgets which rows are free; they are found while indexes are built.
    drop((session, idle, store));
    let memory = from_image(&memory.contents(), LIMIT).unwrap();
    let (store, _heap) = open(memory, &Waiting::default()).map_err(text).unwrap();
    let before = taken(&store);
    assert_eq!(store.collect(64).unwrap(), 0, "indexes are not built");
    rebuild(&store).unwrap();
    let mut session = store.session();
    while store.collect(64).unwrap() > 0 {}
    for number in 0..500 {
        update(&mut session, number);
        store.collect(64).unwrap();
    }
    assert!(taken(&store) <= before + 16, "{before}, {}", taken(&store));
}

#[test]
fn whoever_may_see_a_version_keeps_it() {
    [small(), durable()].into_iter().for_each(keeps);
}

fn keeps(options: Options) {
    let (_, store) = store(options);
    let (mut reader, mut writer, mut detached) =
        (store.session(), store.session(), store.session());
    reader.begin().unwrap();
    detached.begin().unwrap();
    detached.insert(0, &[Value::Word(500), Value::Null, Value::Null]).unwrap();
    let id = detached.detach().unwrap();
    for number in 0..200 {
        update(&mut writer, number);
        assert!(store.collect(64).unwrap() < 3, "but for rows of aborted transactions");
    }
    let sees = |session: &Session<Recording>| {
        (0..KEYS).all(|key| {
            let row = session.get(0, Value::Word(key)).unwrap().unwrap();
            row[1] == Field::Word(key)
        })
    };
    assert!(sees(&reader));
    reader.commit().unwrap();
    for _ in 0..9 {
        store.collect(64).unwrap();
    }
    let mut resumed = store.resume(id).unwrap();
    assert!(sees(&resumed));
    resumed.commit().unwrap();
    let mut freed = 0;
    for _ in 0..9 {
        freed += store.collect(64).unwrap();
    }
    assert!(freed > 150, "{freed}");
    store.check().unwrap();
}

/// A slot whose next transaction has not begun, since the memory was full, says still that the last one
/// has committed: the rows of that one are nobody else's before it is durable that it no longer does.
#[test]
fn a_row_stays_away_though_the_next_transaction_of_its_slot_finds_no_room() {
    const KEY: u64 = 500;
    let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
    let store = create(memory.clone(), small());
    let mut session = store.session();
    let come_and_go = |session: &mut Session<Recording>| {
        session.begin().unwrap();
        session.insert(0, &[Value::Word(KEY), Value::Word(1), Value::Null]).unwrap();
        session.commit().unwrap();
        session.begin().unwrap();
        session.delete(0, Value::Word(KEY)).unwrap();
        session.commit().unwrap();
    };
    session.begin().unwrap();
    session.insert(0, &[Value::Word(1), Value::Word(1), Value::Null]).unwrap();
    session.commit().unwrap();
    come_and_go(&mut session);
    let is_full = |session: &mut Session<Recording>| {
        session.begin().unwrap();
        match session.update(0, Value::Word(1), &[(1, Value::Word(1))]) {
            Ok(()) => {
                session.commit().unwrap();
                false
            }
            Err(_) => {
                session.abort().unwrap();
                true
            }
        }
    };
    while !is_full(&mut session) {}
    while store.collect(1).unwrap() == 0 {}
    come_and_go(&mut session);
    assert!(is_full(&mut session), "there was room for one row");
    while store.collect(64).unwrap() > 0 {}
    let memory = from_image(&memory.contents(), 1 << 20).unwrap();
    drop((session, store));
    let store = open(memory, &Waiting::default()).unwrap().0;
    assert_eq!(store.session().get(0, Value::Word(KEY)).unwrap(), None, "it was deleted");
    store.check().unwrap();
}
