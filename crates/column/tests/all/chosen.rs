//! Structures that are placed one by one, and built again in the order of their use.

use std::sync::Arc;

use column::{
    ColumnError, Field, Form, Part, Placement, Store, Structure, StructureState, Value, Waiting,
};
use heap::{Heap, HeapOptions};
use sim::{Recording, Replay};

use crate::keyed::Keyed;
use crate::work::{
    NAME, TABLES, contents, create, explore, from_image, leaks, open, rebuild, small, text,
};

const LIMIT: u64 = 4 << 20;

fn create_chosen(memory: Recording, chosen: &[Structure]) -> Result<Store<Recording>, ColumnError> {
    let options = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };
    let heap = Heap::format(memory, options).unwrap();
    let (lane, keys) = (heap.lane(0), Arc::new(Keyed { unique: false }));
    let placement = Placement::Chosen(chosen);
    let store = Store::create_placed(lane, small(), &TABLES, &keys, placement)?;
    heap.set_root(NAME, store.at()).unwrap();
    Ok(store)
}

/// Puts rows into both tables.
fn fill(store: &Store<Recording>, rows: u64) {
    let mut session = store.session();
    for number in 1..=rows {
        let name = format!("name {number}");
        let (word, bytes) = (Value::Word, Value::Bytes(name.as_bytes()));
        session.begin().unwrap();
        session.insert(0, &[word(number), word(number * 3), bytes]).unwrap();
        session.insert(1, &[bytes, bytes, word(number), word(number * 5)]).unwrap();
        session.commit().unwrap();
    }
}

/// The next process after a kill.
fn killed(memory: &Recording) -> (Store<Recording>, Heap<Recording>) {
    open(from_image(&memory.contents(), LIMIT).unwrap(), &Waiting::default()).unwrap()
}

fn structure(table: usize, part: Part) -> Structure {
    Structure { table, part }
}

#[test]
fn chosen_structures_survive_a_kill_and_others_are_built() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let chosen = [
        structure(1, Part::Keys(1)),
        structure(0, Part::Dictionary(2)),
        structure(0, Part::Keys(0)),
    ];
    let store = create_chosen(memory.clone(), &chosen).unwrap();
    fill(&store, 40);
    let before = contents(&store.session()).unwrap();
    let (next, heap) = killed(&memory);
    let found = next.structures();
    assert_eq!(found.len(), 2 + 3 + 2 + 4);
    for state in &found {
        let is_chosen = chosen.contains(&state.structure);
        assert_eq!(state.form != Form::Ordinary, is_chosen, "{state:?}");
        assert_eq!(state.waiting == 0, is_chosen, "{state:?}");
    }
    assert_eq!(contents(&next.session()).unwrap(), before);
    rebuild(&next).unwrap();
    assert!(next.structures().iter().all(|state| state.waiting == 0));
    assert_eq!(contents(&next.session()).unwrap(), before);
    next.check().unwrap();
    leaks(&next, &heap).unwrap();
}

#[test]
fn a_structure_that_there_is_not_is_refused() {
    for wrong in [
        structure(2, Part::Keys(0)),
        structure(0, Part::Keys(2)),
        structure(0, Part::Dictionary(3)),
    ] {
        let memory = Recording::pool(16 << 10, LIMIT).unwrap();
        let error = create_chosen(memory, &[structure(0, Part::Keys(0)), wrong]).unwrap_err();
        assert!(matches!(error, ColumnError::Options { .. }), "{error}");
    }
}

/// The structures in the order in which they are built, from the start.
fn order(store: &Store<Recording>) -> Vec<StructureState> {
    let mut order = Vec::new();
    loop {
        let before = store.structures();
        store.rebuild(1024).unwrap();
        let after = store.structures();
        let mut changed =
            before.iter().zip(&after).filter(|(one, other)| one.waiting > other.waiting);
        match changed.next() {
            Some((state, _)) => order.push(*state),
            None => return order,
        }
    }
}

#[test]
fn the_most_used_structures_are_built_first() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), small());
    fill(&store, 40);
    let session = store.session();
    for number in 0..3000 {
        let name = format!("name {}", number % 50);
        assert_eq!(session.get(1, Value::Bytes(name.as_bytes())).unwrap().is_some(), {
            (1..=40).contains(&(number % 50))
        });
    }
    store.note_uses();
    let used = store.structures();
    let (next, _) = killed(&memory);
    for (before, after) in used.iter().zip(next.structures()) {
        assert_eq!(after.uses, before.uses / 2, "{after:?}");
    }
    let order = order(&next);
    assert_eq!(order.len(), 11);
    assert_eq!(order[0].structure.table, 1);
    assert!(order[0].uses >= 1500, "{order:?}");
    assert!(order.is_sorted_by(|one, next| one.uses >= next.uses), "{order:?}");
}

/// How large a structure is says nothing of how often it is used: that the store builds it, collects its versions
/// and checks it is no use.
#[test]
fn the_stores_own_work_is_no_use_of_a_structure() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), small());
    fill(&store, 40);
    let mut session = store.session();
    for number in 41..=1000 {
        session.begin().unwrap();
        let text = Value::Bytes(b"large");
        session.insert(0, &[Value::Word(number), Value::Word(number), text]).unwrap();
        session.commit().unwrap();
    }
    drop(session);
    let second = from_image(&memory.contents(), LIMIT).unwrap();
    let (next, _) = open(second.clone(), &Waiting::default()).unwrap();
    let uses = || next.structures().iter().map(|state| state.uses).collect::<Vec<_>>();
    assert!(uses().iter().all(|uses| *uses == 0), "no uses were stored: {:?}", uses());
    rebuild(&next).unwrap();
    assert!(uses().iter().all(|uses| *uses == 0), "built: {:?}", uses());
    for _ in 0..100 {
        assert!(next.session().get(1, Value::Bytes(b"name 7")).unwrap().is_some());
    }
    next.note_uses();
    let (third, _) = killed(&second);
    let order = order(&third);
    assert_eq!(order[0].structure, structure(1, Part::Keys(0)), "{order:?}");
    // Versions are taken out of the indexes.
    let mut session = third.session();
    for number in 1..=40 {
        session.begin().unwrap();
        session.update(0, Value::Word(number), &[(1, Value::Word(7))]).unwrap();
        session.commit().unwrap();
    }
    drop(session);
    let used = third.structures();
    let freed: u64 = (0..4).map(|_| third.collect(1024).unwrap().freed).sum();
    assert!(freed >= 40, "{freed}");
    third.check().unwrap();
    let same = used.iter().zip(third.structures()).all(|(before, now)| before.uses == now.uses);
    assert!(same, "collected: {used:?} {:?}", third.structures());
}

#[test]
fn tables_of_transactions_in_flight_are_built_first() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), small());
    fill(&store, 40);
    for _ in 0..3000 {
        assert!(store.session().get(1, Value::Bytes(b"name 7")).unwrap().is_some());
    }
    store.note_uses();
    let mut cut_off = store.session();
    cut_off.begin_named(b"goes on").unwrap();
    cut_off.update(0, Value::Word(7), &[(1, Value::Word(8))]).unwrap();
    let (next, _) = killed(&memory);
    let tables: Vec<usize> = order(&next).iter().map(|built| built.structure.table).collect();
    assert_eq!(tables, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
}

/// They are a hint: whatever a crash leaves of them, the store is as it was.
#[test]
fn a_power_cut_while_uses_are_noted_changes_nothing() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create_chosen(memory.clone(), &[structure(0, Part::Keys(0))]).unwrap();
    fill(&store, 8);
    let before = contents(&store.session()).unwrap();
    // What the last commit has left is durable with the next one.
    let mut session = store.session();
    session.begin().unwrap();
    session.update(0, Value::Word(1), &[(1, Value::Word(3))]).unwrap();
    session.abort().unwrap();
    memory.start();
    store.note_uses();
    let trace = memory.stop();
    let (_, states, failed) = explore(Replay::new(&trace), 64, |image, _| {
        let (next, heap) = open(from_image(image, LIMIT)?, &Waiting::default())?;
        leaks(&next, &heap)?;
        next.check().map_err(text)?;
        let found = contents(&next.session())?;
        if found == before { Ok(()) } else { Err(format!("{found:?}")) }
    });
    assert_eq!(failed, None);
    assert!(states > 1, "{states}");
    let value = store.session().get(0, Value::Word(1)).unwrap().map(|row| row[1].clone());
    assert_eq!(value, Some(Field::Word(3)));
}
