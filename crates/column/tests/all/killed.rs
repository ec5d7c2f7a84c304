//! A transaction of a thousand statements, four sessions in parallel, and two hundred kills, each after some store
//! or other.
//!
//! Every statement adds one to a row, so a statement that was done twice, or not at all, shows. What was
//! acknowledged is there after each kill, and at most the call that was under way: the long transaction
//! is in flight and goes on after its last statement, the other ones are finished.

use column::{Field, Options, Session, Store, Value, Waiting};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::{Event, Recording, Trace};

use crate::work::{create, durable, from_image, mixed, open, small, text};

const LIMIT: u64 = 8 << 20;
const STATEMENTS: u64 = 1000;
const KILLS: u64 = 200;
/// Rows of the long transaction, which has made them.
const KEYS: u64 = 90;
/// The other sessions, with a row each.
const OTHERS: u64 = 4;

/// Adds one to a row, or makes it.
fn add_one(session: &mut Session<Recording>, key: u64) {
    let row = session.get(0, Value::Word(key)).unwrap();
    match row.as_ref().map(|row| &row[1]) {
        Some(Field::Word(count)) => {
            session.update(0, Value::Word(key), &[(1, Value::Word(count + 1))]).unwrap();
        }
        _ => session.insert(0, &[Value::Word(key), Value::Word(1), Value::Null]).unwrap(),
    }
}

fn count(session: &Session<Recording>, key: u64) -> u64 {
    match session.get(0, Value::Word(key)).unwrap().as_deref() {
        Some([_, Field::Word(count), _]) => *count,
        _ => 0,
    }
}

/// The row of another session.
fn own_row(session: u64) -> u64 {
    1000 + session
}

/// The statements and commits that were acknowledged; the long transaction is the last one.
type Acknowledged = [u64; OTHERS as usize + 1];

/// The work of a process until it is killed: some statements of each transaction, in turns. Each
/// acknowledgement is a note.
fn process(
    store: &Store<Recording>,
    memory: &Recording,
    before: Acknowledged,
) -> Vec<Acknowledged> {
    let mut states = vec![before];
    let note = |states: &mut Vec<Acknowledged>, of: usize| {
        let mut next = states[states.len() - 1];
        next[of] += 1;
        memory.note(states.len() as u64);
        states.push(next);
    };
    let mut long = match store.in_flight().iter().find(|one| one.name == b"long") {
        Some(found) => store.resume(found.id).unwrap(),
        None => store.session(),
    };
    if long.snapshot().is_none() {
        long.begin_named(b"long").unwrap();
    }
    let mut others: Vec<_> = (0..OTHERS).map(|_| store.session()).collect();
    for round in 0..3 {
        for (number, session) in others.iter_mut().enumerate() {
            session.begin_named(format!("other {number}").as_bytes()).unwrap();
            add_one(session, own_row(number as u64));
        }
        for _ in 0..3 {
            let statement = states[states.len() - 1][OTHERS as usize];
            if statement < STATEMENTS {
                add_one(&mut long, statement % KEYS);
                note(&mut states, OTHERS as usize);
            }
        }
        for (number, session) in others.iter_mut().enumerate() {
            session.commit().unwrap();
            note(&mut states, number);
        }
        store.rebuild(1 << round).unwrap();
    }
    // The process does not come to its end.
    long.detach().unwrap();
    states
}

/// Kills the process after one of its stores; returns the memory, and the last note before it.
fn kill(trace: &Trace, random: &mut SmallRng) -> (Recording, u64) {
    let stored = |event: &Event| matches!(event, Event::Store { .. } | Event::Copy { .. });
    let stores = trace.events.iter().filter(|event| stored(&event.event)).count();
    let mut found = None;
    trace.kills(random.random_range(1..=stores), |killed| {
        let memory = || from_image(killed.visible(), LIMIT).unwrap();
        found.get_or_insert_with(|| (memory(), killed.last_note().unwrap_or(0)));
    });
    found.unwrap()
}

/// Finishes the other open transactions; returns what is there, which is what was
/// acknowledged and at most one call more.
fn found(store: &Store<Recording>, acknowledged: Acknowledged) -> Acknowledged {
    let mut found = [0; OTHERS as usize + 1];
    for one in store.in_flight() {
        if one.name == b"long" {
            found[OTHERS as usize] = one.statements;
        } else {
            let mut session = store.resume(one.id).unwrap();
            assert_eq!(session.transaction(), Some((one.id, 1)));
            session.commit().unwrap();
        }
    }
    let session = store.session();
    for number in 0..OTHERS {
        found[number as usize] = count(&session, own_row(number));
    }
    for (found, acknowledged) in found.iter().zip(acknowledged) {
        assert!((acknowledged..=acknowledged + 1).contains(found), "{found}, {acknowledged}");
    }
    for key in 0..KEYS {
        assert_eq!(count(&session, key), 0, "no other session sees the long transaction");
    }
    found
}

#[test]
fn a_thousand_statements_outlive_two_hundred_kills() {
    outlives(small(), KILLS);
    outlives(durable(), KILLS / 4);
    outlives(mixed(), KILLS / 4);
}

fn outlives(options: Options, kills: u64) {
    let mut memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let mut store = create(memory.clone(), Options { slots: 8, reserve: 64, ..options });
    let (mut random, mut state) = (SmallRng::seed_from_u64(5), [0; OTHERS as usize + 1]);
    for _ in 0..kills {
        memory.start();
        let states = process(&store, &memory, state);
        let (left, noted) = kill(&memory.stop(), &mut random);
        drop(store);
        memory = left;
        store = open(memory.clone(), &Waiting::default()).map_err(text).unwrap().0;
        state = found(&store, states[noted as usize]);
    }
    // Without any more of them.
    while state[OTHERS as usize] < STATEMENTS {
        let states = process(&store, &memory, state);
        state = states[states.len() - 1];
    }
    println!("{state:?}");
    let mut session = store.resume(store.in_flight()[0].id).unwrap();
    session.commit().unwrap();
    for key in 0..KEYS {
        let times = STATEMENTS / KEYS + u64::from(key < STATEMENTS % KEYS);
        assert_eq!(count(&session, key), times, "row {key}");
    }
    for (number, times) in (0..OTHERS).zip(state) {
        assert_eq!(count(&session, own_row(number)), times);
    }
    store.check().unwrap();
}
