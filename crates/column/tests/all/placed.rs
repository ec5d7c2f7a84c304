//! Indexes in persistent memory: nothing is built after opening, and what a crash has cut off between a
//! statement and its indexes is done by the next opening.

use std::collections::BTreeMap;
use std::sync::Arc;

use column::{Field, Kind, Options, Session, Store, Value, Waiting};
use heap::{Heap, HeapOptions};
use pm::LINE_BYTES;
use sim::{Emulated, Event, Meter, MeterOptions, RecordedEvent, Recording, Replay};

use crate::keyed::Keyed;
use crate::work::{
    SEED, contents, create, durable, explore, from_image, leaks, noticed_sites, open, rebuild, text,
};

const LIMIT: u64 = 1 << 20;
const NAME: &[u8] = b"goes on";

fn row(key: u64, value: u64) -> [Value<'static>; 3] {
    [Value::Word(key), Value::Word(value), Value::Null]
}

/// A store with all indexes in persistent memory, and some rows.
fn store() -> (Recording, Store<Recording>) {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), durable());
    let mut session = store.session();
    session.begin().unwrap();
    for key in 0..8 {
        session.insert(0, &row(key * 10, key)).unwrap();
    }
    session.commit().unwrap();
    drop(session);
    (memory, store)
}

/// The value of a row, for a session.
fn value(session: &Session<Recording>, key: u64) -> Result<Option<u64>, String> {
    let row = session.get(0, Value::Word(key)).map_err(text)?;
    Ok(row.map(|row| if let Field::Word(value) = row[1] { value } else { 0 }))
}

/// Persisted objects of the memory that a crash has left, before the store is opened.
fn objects(image: &[u8]) -> u64 {
    let heap = Heap::open(from_image(image, LIMIT).unwrap()).unwrap();
    let mut persisted = 0;
    heap.for_each_persisted(|_, _| persisted += 1).unwrap();
    persisted
}

/// The recovery of a state, recorded, and leaving out each of its flushes and fences: whether that was noticed.
fn noticed_in_recovery(
    image: &[u8],
    check: impl Fn(&[u8], u64) -> Result<(), String>,
    noticed: &mut BTreeMap<(String, String), bool>,
) {
    let memory = from_image(image, LIMIT).unwrap();
    memory.start();
    memory.note(0);
    drop(open(memory.clone(), &Waiting::default()).unwrap());
    let trace = memory.stop();
    let known = noticed.clone();
    let is_done = |place: &str, line: &str| {
        let is_ours =
            ["recover.rs", "table.rs", "skip_list.rs"].iter().any(|file| place.contains(file));
        !is_ours || known.get(&(place.into(), line.into())) == Some(&true)
    };
    noticed.extend(noticed_sites(&trace, 64, is_done, check));
}

/// A line of the source of recovery that leads an index to a row.
fn is_raise(line: &str) -> bool {
    line.starts_with("redo_entry(")
}

/// The statement of a new key is durable, and nothing leads to the key's nodes: opening does it. So it is if the
/// power is cut again meanwhile.
#[test]
fn a_new_key_that_was_cut_off_is_linked_at_opening() {
    let (memory, store) = store();
    let mut session = store.session();
    session.begin_named(NAME).unwrap();
    session.insert(0, &row(55, 1)).unwrap();
    memory.start();
    session.insert(0, &row(35, 2)).unwrap();
    let trace = memory.stop();
    let check = |image: &[u8], _| {
        let (store, heap) = open(from_image(image, LIMIT)?, &Waiting::default())?;
        let found = store.in_flight().pop().ok_or("nothing is in flight")?;
        leaks(&store, &heap)?;
        let session = store.resume(found.id).map_err(text)?;
        // By both indexes.
        let all = contents(&session)?;
        let expected = [Some(1), (found.statements == 2).then_some(2)];
        if all.len() != 8 + found.statements as usize
            || [value(&session, 55)?, value(&session, 35)?] != expected
        {
            return Err(format!("{} statements, {all:?}", found.statements));
        }
        Ok(())
    };
    let (mut linked, mut noticed) = (0, BTreeMap::new());
    let mut replay = Replay::new(&trace);
    while let Some(point) = replay.next_point() {
        point.for_each_state(64, 3, |image| {
            check(image, 0).unwrap();
            let (store, _) = open(from_image(image, LIMIT).unwrap(), &Waiting::default()).unwrap();
            let is_cut_off = store.in_flight()[0].statements == 2
                && store.check().unwrap().objects == objects(image) + 2;
            linked += u64::from(is_cut_off);
            if is_cut_off && linked < 3 {
                let check = |image: &[u8], _| {
                    check(image, 0)?;
                    let (store, _) = open(from_image(image, LIMIT)?, &Waiting::default())?;
                    let statements = store.in_flight()[0].statements;
                    if statements == 2 { Ok(()) } else { Err(format!("{statements} statements")) }
                };
                noticed_in_recovery(image, check, &mut noticed);
            }
        });
    }
    assert!(linked > 0, "no crash came between the statement and its indexes");
    let of_nodes =
        noticed.iter().filter(|((place, line), _)| is_raise(line) && !place.contains("store"));
    let of_nodes: Vec<bool> = of_nodes.map(|(_, seen)| *seen).collect();
    assert_eq!(of_nodes, [true, true], "{noticed:?}");
}

/// An update that commits is durable, and the index leads to the version before it: opening leads it on, before the
/// slot forgets the update.
#[test]
fn an_index_that_lags_a_commit_is_led_on_at_opening() {
    let (memory, store) = store();
    let mut session = store.session();
    session.begin().unwrap();
    memory.start();
    session.update_and_commit(0, Value::Word(30), &[(1, Value::Word(77))]).unwrap();
    memory.note(1);
    let trace = memory.stop();
    let check = |image: &[u8], noted| {
        let (store, heap) = open(from_image(image, LIMIT)?, &Waiting::default())?;
        for found in store.in_flight() {
            store.resume(found.id).map_err(text)?.abort().map_err(text)?;
        }
        leaks(&store, &heap)?;
        match (value(&store.session(), 30)?, noted) {
            (Some(77), _) | (Some(3), 0) => Ok(()),
            (found, _) => Err(format!("{found:?}")),
        }
    };
    let (mut committed, mut noticed) = (0, BTreeMap::new());
    let mut replay = Replay::new(&trace);
    while let Some(point) = replay.next_point() {
        let noted = point.last_note.unwrap_or(0);
        point.for_each_state(64, 3, |image| {
            check(image, noted).unwrap();
            let (store, _) = open(from_image(image, LIMIT).unwrap(), &Waiting::default()).unwrap();
            if value(&store.session(), 30).unwrap() == Some(77) {
                committed += 1;
                if committed < 4 {
                    noticed_in_recovery(image, |image, _| check(image, 1), &mut noticed);
                }
            }
        });
    }
    assert!(committed > 0);
    // The stamps, the row in the index, and the flush and fence of both before slots forget.
    assert!(noticed.iter().any(|((_, line), seen)| is_raise(line) && *seen), "{noticed:?}");
    assert!(noticed.iter().filter(|(_, seen)| **seen).count() >= 5, "{noticed:?}");
}

/// A session commits at once, and does nothing more: what it has left is not fenced. Others build on it, and go on.
#[test]
fn others_build_on_what_an_idle_session_has_not_fenced() {
    let (memory, store) = store();
    let (mut idle, mut busy) = (store.session(), store.session());
    memory.start();
    memory.note(0);
    sim::record_as(Some(100));
    idle.begin().unwrap();
    idle.insert(0, &row(34, 1)).unwrap();
    idle.update_and_commit(0, Value::Word(34), &[(1, Value::Word(2))]).unwrap();
    memory.note(1);
    sim::record_as(Some(101));
    for (number, key) in (2..).zip([35, 36, 33, 34]) {
        busy.begin().unwrap();
        if key == 34 {
            busy.update(0, Value::Word(key), &[(1, Value::Word(3))]).unwrap();
        } else {
            busy.insert(0, &row(key, key)).unwrap();
        }
        busy.commit().unwrap();
        memory.note(number);
    }
    sim::record_as(None);
    let trace = memory.stop();
    let (_, states, failed) = explore(Replay::new(&trace), 32, |image, noted| {
        let (store, heap) = open(from_image(image, LIMIT)?, &Waiting::default())?;
        leaks(&store, &heap)?;
        let session = store.session();
        let found: Vec<_> = [34, 35, 36, 33]
            .map(|key| value(&session, key))
            .into_iter()
            .collect::<Result<_, _>>()?;
        let least: [Option<u64>; 4] = match noted {
            0 => [None; 4],
            1 => [Some(2), None, None, None],
            2 => [Some(2), Some(35), None, None],
            3 => [Some(2), Some(35), Some(36), None],
            4 => [Some(2), Some(35), Some(36), Some(33)],
            _ => [Some(3), Some(35), Some(36), Some(33)],
        };
        let fits = found.iter().zip(least).all(|(found, least)| *found >= least);
        if fits { Ok(()) } else { Err(format!("{found:?} after note {noted}")) }
    });
    assert_eq!(failed, None);
    assert!(states > 300, "{states}");
}

/// One session adds a value to a dictionary, in the index of which the value's node shares a line with the node of
/// another session's key. That one stores its row meanwhile, at any moment.
#[test]
fn a_store_to_the_same_line_spoils_no_new_value() {
    let (memory, store) = store();
    let (mut one, mut other) = (store.session(), store.session());
    let mut spoilt = 0;
    for key in 200..216 {
        one.begin().unwrap();
        one.insert(0, &row(key, 1)).unwrap();
        one.commit().unwrap();
        one.begin().unwrap();
        memory.start();
        sim::record_as(Some(100));
        one.update(0, Value::Word(key), &[(2, Value::Bytes(b""))]).unwrap();
        sim::record_as(Some(101));
        other.begin().unwrap();
        other.insert(0, &row(1000 + key, 1)).unwrap();
        sim::record_as(None);
        let trace = memory.stop();
        one.commit().unwrap();
        other.commit().unwrap();
        // The last store of the one leads its key to the new row; the first copy of the other is a node.
        let is_store = |event: &RecordedEvent| matches!(event.event, Event::Store { .. });
        let led = trace.events.iter().rposition(|event| event.thread == 100 && is_store(event));
        let line = trace.events.iter().find_map(|event| match event.event {
            Event::Copy { at, .. } if event.thread == 101 => Some(at / LINE_BYTES),
            _ => None,
        });
        let (led, line) = (led.unwrap(), line.unwrap());
        if !matches!(trace.events[led].event, Event::Store { at, .. } if at / LINE_BYTES == line) {
            continue;
        }
        for position in led + 1..trace.events.len() {
            if !matches!(trace.events[position].event, Event::Fence) {
                continue;
            }
            let mut trace = trace.clone();
            let store = trace.events.remove(led);
            trace.events.insert(position, store);
            let (_, states, failed) = explore(Replay::new(&trace), 64, |image, _| {
                let (store, heap) = open(from_image(image, LIMIT)?, &Waiting::default())?;
                leaks(&store, &heap)
            });
            assert_eq!(failed, None, "the store is event {position}");
            spoilt += states;
        }
        break;
    }
    assert!(spoilt > 300, "{spoilt}");
}

/// The slot of the transaction that has made a key still has it when the process is killed. Later the row was
/// updated, and one more update was rolled back, whose version is in front of what counts. Opening does not lead the
/// key back to the first version.
#[test]
fn a_rolled_back_version_hides_no_committed_one() {
    for ends in [false, true] {
        let (memory, store) = store();
        let (mut first, mut second) = (store.session(), store.session());
        first.begin().unwrap();
        first.insert(0, &row(35, 1)).unwrap();
        // Another slot than this one, in which both transactions of this session are.
        second.begin().unwrap();
        second.delete(0, Value::Word(70)).unwrap();
        first.commit().unwrap();
        second.abort().unwrap();
        second.begin().unwrap();
        second.update(0, Value::Word(35), &[(1, Value::Word(2))]).unwrap();
        second.commit().unwrap();
        // Its slot is the next one that is taken.
        drop(second);
        let mut third = store.session();
        third.begin().unwrap();
        third.update(0, Value::Word(35), &[(1, Value::Word(3))]).unwrap();
        if ends {
            third.delete(0, Value::Word(35)).unwrap();
        }
        third.abort().unwrap();
        let killed = from_image(&memory.contents(), LIMIT).unwrap();
        let (store, heap) = open(killed, &Waiting::default()).unwrap();
        let session = store.session();
        assert_eq!(value(&session, 35).unwrap(), Some(2));
        assert_eq!(contents(&session).unwrap().len(), 9);
        leaks(&store, &heap).unwrap();
    }
}

/// The keys of a transaction that is over stand in the indexes when a process is killed. They are found, and taken
/// out, while transactions go on; no answer waits for that.
#[test]
fn keys_of_finished_transactions_leave_indexes_after_a_kill() {
    let (memory, store) = store();
    let before = store.check().unwrap();
    let mut cut_off = store.session();
    cut_off.begin().unwrap();
    for key in 0..5 {
        cut_off.insert(0, &row(100 + key, key)).unwrap();
        cut_off.update(0, Value::Word(100 + key), &[(1, Value::Word(1 + key))]).unwrap();
        cut_off.update(0, Value::Word(key * 10), &[(1, Value::Word(2 + key))]).unwrap();
    }
    let killed = |memory: &Recording| {
        let memory = from_image(&memory.contents(), LIMIT).unwrap();
        let (store, heap) = open(memory.clone(), &Waiting::default()).unwrap();
        (memory, store, heap)
    };
    let (memory, store, _) = killed(&memory);
    let found = store.in_flight().pop().unwrap();
    store.resume(found.id).unwrap().abort().unwrap();
    // The next process knows of none of its rows.
    let (_, store, heap) = killed(&memory);
    assert!(store.built().unswept > 15, "{:?}", store.built());
    assert_eq!(contents(&store.session()).unwrap().len(), 8);
    assert!(store.check().unwrap().objects > before.objects, "keys stand in the indexes");
    assert_eq!(store.collect(64).unwrap().freed, 0, "it is not known yet which rows are in use");
    rebuild(&store).unwrap();
    assert_eq!((store.built().unswept, store.has_unbuilt()), (0, false));
    while store.collect(64).unwrap().freed > 0 {}
    // Values stay: those of five keys, in the index of their dictionary.
    assert_eq!(store.check().unwrap().objects, before.objects + 5);
    leaks(&store, &heap).unwrap();
    assert_eq!(contents(&store.session()).unwrap().len(), 8);
}

/// Lines that are looked at by the next process after a kill: to open a store of so many rows, and for its first
/// commit, which changes a row and adds another one. And the rows and values that were looked at for want of an index.
fn looked_at(rows: u64, durable_percent: u32) -> ([u64; 2], u64) {
    const LIMIT: u64 = 256 << 20;
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let options = HeapOptions { chunk_bytes: 1 << 20, lanes: 1 };
    let lane = Heap::format(memory.clone(), options).unwrap().lane(0);
    let options = Options { durable_percent, seed: Some(SEED), ..Options::default() };
    let tables: &[&[Kind]] = &[&[Kind::Word, Kind::Word, Kind::Bytes]];
    let keys = Arc::new(Keyed { unique: false });
    let store = Store::create(lane, options, tables, &keys).unwrap();
    let mut session = store.session();
    for key in 0..rows {
        let text = format!("text {}", key * 7 % rows);
        let row = [Value::Word(key), Value::Word(key * 3 % rows), Value::Bytes(text.as_bytes())];
        session.begin().unwrap();
        session.insert(0, &row).unwrap();
        session.commit().unwrap();
    }
    session.begin().unwrap();
    session.update(0, Value::Word(rows / 2), &[(1, Value::Word(5))]).unwrap();
    let image = memory.contents();
    let meter = Meter::new(MeterOptions::default());
    let memory = Emulated::new(from_image(&image, LIMIT).unwrap(), &meter);
    let lane = Heap::open(memory).unwrap().lane(0);
    let (next, _) = Store::open(lane, store.at(), &keys, &Waiting::default()).unwrap();
    let opened = meter.counts().accesses;
    assert_eq!(next.in_flight().len(), 1);
    assert_eq!(next.built().waiting > 0, durable_percent == 0);
    let mut session = next.session();
    session.begin().unwrap();
    session.update(0, Value::Word(rows / 3), &[(2, Value::Bytes(b"text 4"))]).unwrap();
    session.insert(0, &[Value::Word(rows), Value::Word(7), Value::Bytes(b"new")]).unwrap();
    session.commit().unwrap();
    ([opened, meter.counts().accesses - opened], next.built().looked)
}

/// A search in a list looks at a few lines more where there are 16 times as many keys; nothing else depends on that.
#[test]
fn opening_reads_nothing_that_grows_with_the_rows() {
    let [small, large] = [200, 3200].map(|rows| looked_at(rows, 100));
    println!("{small:?} {large:?}");
    assert_eq!((small.1, large.1), (0, 0));
    for (small, large) in small.0.into_iter().zip(large.0) {
        assert!(large < small + 400, "{small} lines, then {large}");
    }
    // In ordinary memory the first commit looks through the columns.
    let [small, large] = [200, 3200].map(|rows| looked_at(rows, 0));
    println!("{small:?} {large:?}");
    assert!(small.1 >= 200 && large.1 >= 3200, "{small:?} {large:?}");
}
