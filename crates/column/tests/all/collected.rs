//! Rows of versions that no snapshot sees are used again: space does not grow with updates, every snapshot keeps
//! its versions, and a crash leaks nothing for good.

use column::{Field, Options, Session, Store, Value, Waiting};
use sim::{Killed, Recording};

use crate::work::{
    contents, create, durable, explore, from_image, leaks, mixed, open, rebuild, small, text,
};

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
    [small(), mixed(), durable()].into_iter().for_each(grows_not);
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
    assert_eq!(store.collect(64).unwrap().freed, 0, "indexes are not built");
    rebuild(&store).unwrap();
    let mut session = store.session();
    while store.collect(64).unwrap().freed > 0 {}
    for number in 0..500 {
        update(&mut session, number);
        store.collect(64).unwrap();
    }
    assert!(taken(&store) <= before + 16, "{before}, {}", taken(&store));
}

#[test]
fn snapshots_keep_their_versions() {
    [small(), mixed(), durable()].into_iter().for_each(keeps);
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
        assert!(store.collect(64).unwrap().freed < 3, "but for rows of aborted transactions");
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
        freed += store.collect(64).unwrap().freed;
    }
    assert!(freed > 150, "{freed}");
    store.check().unwrap();
}

/// A slot whose next transaction has not begun, since the memory was full, still says that the last one has
/// committed: the rows of that one are not used again before it is durable that the slot no longer says so.
#[test]
fn rows_are_not_reused_before_their_slot_forgets_them() {
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
    while store.collect(1).unwrap().freed == 0 {}
    come_and_go(&mut session);
    assert!(is_full(&mut session), "there was room for one row");
    while store.collect(64).unwrap().freed > 0 {}
    let memory = from_image(&memory.contents(), 1 << 20).unwrap();
    drop((session, store));
    let store = open(memory, &Waiting::default()).unwrap().0;
    assert_eq!(store.session().get(0, Value::Word(KEY)).unwrap(), None, "it was deleted");
    store.check().unwrap();
}

/// A transaction whose first statement has failed may go on, or stay open for long: the collection does not wait
/// for it.
#[test]
fn rows_are_freed_despite_a_transaction_without_room() {
    let memory = Recording::pool(16 << 10, 1 << 20).unwrap();
    let store = create(memory, small());
    let (mut session, mut reader) = (store.session(), store.session());
    let update = |session: &mut Session<Recording>| {
        session.begin().unwrap();
        session.update(0, Value::Word(1), &[(1, Value::Word(1))])
    };
    session.begin().unwrap();
    session.insert(0, &[Value::Word(1), Value::Word(1), Value::Null]).unwrap();
    session.commit().unwrap();
    while update(&mut session).is_ok() {
        session.commit().unwrap();
    }
    session.abort().unwrap();
    reader.begin().unwrap();
    assert_eq!(store.collect(8).unwrap().freed, 0, "the reader may have found them");
    assert!(update(&mut session).is_err(), "there is room");
    reader.commit().unwrap();
    assert_eq!(store.collect(8).unwrap().freed, 8);
    session.update(0, Value::Word(1), &[(1, Value::Word(1))]).unwrap();
    session.commit().unwrap();
    store.check().unwrap();
}

/// A kill in the collection leaves rows of indexes that are seen and may not be durable. The next process collects,
/// uses the rows that it has found again, and loses its power: no key leads to another one's row.
#[test]
fn a_kill_in_the_collection_misleads_no_key() {
    kills_in_the_collection(5);
}

/// Kills at each store of the collection, or at one in so many.
pub(crate) fn kills_in_the_collection(one_in: usize) {
    // A change of a column that is in no secondary index, of which no slot says anything any more; and one that is
    // given up.
    let committed = |session: &mut Session<Recording>| {
        for key in [4, 0, 0, 0] {
            session.update(0, Value::Word(key), &[(2, Value::Bytes(b""))]).unwrap();
            session.commit().unwrap();
            session.begin().unwrap();
        }
    };
    let given_up = |session: &mut Session<Recording>| {
        session.update(0, Value::Word(4), &[(1, Value::Word(4))]).unwrap();
        session.abort().unwrap();
    };
    let (mut killed, mut states) = (0, 0);
    for (number, stories) in [[true, false], [false, true], [true, true]].into_iter().enumerate() {
        let (memory, store) = store(durable());
        let mut session = store.session();
        session.begin().unwrap();
        if stories[0] {
            committed(&mut session);
        }
        memory.start();
        if stories[1] {
            given_up(&mut session);
        }
        session.finish();
        while store.collect(64).unwrap().freed > 0 {}
        memory.stop().kills(one_in, |kill| {
            let (used, failed) = collect_and_use(kill);
            assert_eq!(failed, None, "story {number}, event {}", kill.position());
            killed += 1;
            states += used;
        });
    }
    println!("{killed} kills, {states} states");
    let (all, of_all) = (killed * one_in, states * one_in as u64);
    assert!(all > 20 && of_all > 5000, "{killed} kills, {states} states");
}

/// Goes on after a kill, and explores power cuts in that: returns the number of states, and the first failure.
fn collect_and_use(killed: &Killed) -> (u64, Option<String>) {
    let memory = killed.reopened(LIMIT).unwrap();
    let store = open(memory.clone(), &Waiting::default()).unwrap().0;
    for found in store.in_flight() {
        store.resume(found.id).unwrap().abort().unwrap();
    }
    rebuild(&store).unwrap();
    while store.collect(64).unwrap().freed > 0 {}
    let before = contents(&store.session()).unwrap();
    memory.note(1);
    let mut session = store.session();
    session.begin().unwrap();
    // More than there are rows that are free, so all of them are used.
    for key in (5..KEYS).chain(8..12) {
        session.update(0, Value::Word(key), &[(2, Value::Bytes(b""))]).unwrap();
    }
    session.commit().unwrap();
    let after = contents(&session).unwrap();
    memory.note(2);
    drop((session, store));
    let trace = memory.stop();
    let (_, states, failed) = explore(killed.replay(&trace), 4, |image, noted| {
        let (store, heap) = open(from_image(image, LIMIT)?, &Waiting::default())?;
        leaks(&store, &heap)?;
        let found = contents(&store.session())?;
        let fits = noted == 0 || noted == 1 && found == before || found == after;
        if fits { Ok(()) } else { Err(format!("{noted}: {found:?}")) }
    });
    (states, failed)
}

/// The next process after a kill finds free rows in the order of their places. The row of a rolled back version to
/// which a key leads lies in front of that of the version before it.
#[test]
fn rolled_back_versions_are_unlinked_before_older_ones() {
    let (memory, store) = store(durable());
    let mut session = store.session();
    let mut change = |key, column: usize, value: Value<'_>, commits: bool| {
        session.begin().unwrap();
        session.update(0, Value::Word(key), &[(column, value)]).unwrap();
        if commits { session.commit().map(drop) } else { session.abort() }.unwrap();
        session.finish();
    };
    change(4, 2, Value::Bytes(b"first"), true);
    // The next version has the place that the first one had.
    while store.collect(64).unwrap().freed == 0 {}
    change(4, 1, Value::Word(4), false);
    change(4, 2, Value::Bytes(b"second"), true);
    // The rows between them are more than the unused ones.
    (5..KEYS).for_each(|key| change(key, 2, Value::Bytes(b"first"), true));
    drop((session, store));
    let memory = from_image(&memory.contents(), LIMIT).unwrap();
    let (store, _heap) = open(memory, &Waiting::default()).unwrap();
    rebuild(&store).unwrap();
    assert!(store.garbage() > 2, "{}", store.garbage());
    let mut session = store.session();
    let mut freed = 0;
    for number in 0..80 {
        let many = store.collect(1).unwrap().freed;
        freed += many;
        if many > 0 {
            session.begin().unwrap();
            session.insert(0, &[Value::Word(100 + number), Value::Null, Value::Null]).unwrap();
            session.commit().unwrap();
        }
        // By both indexes.
        let rows = contents(&session).unwrap();
        assert_eq!(rows.len() as u64, KEYS + freed);
    }
    assert!(freed > 2 && store.garbage() == 0, "{freed} are free, {} are not", store.garbage());
    store.check().unwrap();
}
