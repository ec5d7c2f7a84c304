//! Transactions that go on: over crashes, from one session to another, and by running everything once
//! more.

use column::{ColumnError, Field, InFlight, Options, Session, Store, Value, Waiting};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use sim::Recording;

use crate::work::{Model, Statement, contents, create, durable, from_image, open, small};

const LIMIT: u64 = 8 << 20;

fn store(options: Options) -> (Recording, Store<Recording>) {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), options);
    (memory, store)
}

/// The store after a kill: what was stored is there.
fn killed(memory: &Recording) -> (Recording, Store<Recording>) {
    let memory = from_image(&memory.contents(), LIMIT).unwrap();
    let store = open(memory.clone(), &Waiting::default()).unwrap().0;
    (memory, store)
}

fn row(key: u64, value: u64) -> [Value<'static>; 3] {
    [Value::Word(key), Value::Word(value), Value::Null]
}

#[test]
fn a_transaction_moves_between_sessions_and_over_kills() {
    [small(), durable()].into_iter().for_each(carries);
}

fn carries(options: Options) {
    let (memory, store) = store(options);
    let mut session = store.session();
    session.begin_named(b"order 4711").unwrap();
    assert!(matches!(session.detach(), Err(ColumnError::State { .. })), "nothing is durable");
    session.insert(0, &row(1, 10)).unwrap();
    let id = session.detach().unwrap();
    assert!(session.transaction().is_none());
    let mut other = store.session();
    assert!(matches!(other.begin_named(b"order 4711"), Err(ColumnError::NameTaken)));
    other.begin().unwrap();
    assert!(matches!(other.insert(0, &row(1, 11)), Err(ColumnError::Conflict)));
    other.abort().unwrap();
    let (memory, store) = {
        let killed = killed(&memory);
        drop((session, other));
        killed
    };
    let found = store.in_flight();
    let InFlight { id: again, name, statements, openings, .. } = &found[0];
    assert_eq!((*again, &name[..], *statements, *openings), (id, &b"order 4711"[..], 1, 1));
    let mut session = store.resume(id).unwrap();
    assert!(matches!(store.resume(id), Err(ColumnError::NotInFlight)), "one session has it");
    assert_eq!(session.transaction(), Some((id, 1)));
    session.update(0, Value::Word(1), &[(1, Value::Word(12))]).unwrap();
    session.detach().unwrap();
    let (_, store) = killed(&memory);
    let mut session = store.resume(id).unwrap();
    assert_eq!(session.get(0, Value::Word(1)).unwrap().unwrap()[1], Field::Word(12));
    assert!(store.session().get(0, Value::Word(1)).unwrap().is_none());
    session.commit().unwrap();
    assert_eq!(store.session().get(0, Value::Word(1)).unwrap().unwrap()[1], Field::Word(12));
    session.begin_named(b"order 4711").unwrap();
    store.check().unwrap();
}

#[test]
fn a_resumed_transaction_writes_nothing_anew() {
    [small(), durable()].into_iter().for_each(resumes);
}

fn resumes(options: Options) {
    let (memory, store) = store(options);
    let mut session = store.session();
    session.begin().unwrap();
    for key in 0..20 {
        session.insert(0, &row(key, key)).unwrap();
    }
    let id = session.detach().unwrap();
    let (memory, store) = killed(&memory);
    memory.start();
    let session = store.resume(id).unwrap();
    assert_eq!(session.get(0, Value::Word(7)).unwrap().unwrap()[1], Field::Word(7));
    let trace = memory.stop();
    assert!(trace.events.is_empty(), "{:?}", trace.events);
}

/// A session whose transaction has one statement.
fn started(store: &Store<Recording>, key: u64) -> Session<Recording> {
    let mut session = store.session();
    session.begin().unwrap();
    session.insert(0, &row(key, key)).unwrap();
    session
}

#[test]
fn a_transaction_that_was_found_too_often_is_over() {
    [small(), durable()].into_iter().for_each(finds_too_often);
}

fn finds_too_often(options: Options) {
    let (memory, store) = store(options);
    let mut session = store.session();
    session.begin_named(b"lost").unwrap();
    session.insert(0, &row(1, 1)).unwrap();
    session.detach().unwrap();
    let (mut memory, mut store) = killed(&memory);
    for openings in 1..=column::MOST_OPENINGS {
        assert_eq!(store.in_flight()[0].openings, openings);
        (memory, store) = killed(&memory);
    }
    assert!(store.in_flight().is_empty());
    assert!(store.session().get(0, Value::Word(1)).unwrap().is_none());
    // The next one in any slot is counted anew, also after a statement of one that was found.
    let sessions: Vec<_> = (0..4).map(|key| started(&store, key)).collect();
    let (memory, store) = killed(&memory);
    assert!(store.in_flight().iter().all(|one| one.openings == 1), "{:?}", store.in_flight());
    drop(sessions);
    let id = store.in_flight()[0].id;
    let mut session = store.resume(id).unwrap();
    session.insert(0, &row(9, 9)).unwrap();
    session.detach().unwrap();
    let (_, store) = killed(&memory);
    let openings = store.in_flight().into_iter().map(|one| (one.id == id, one.openings));
    assert!(
        openings
            .into_iter()
            .all(|(resumed_here, openings)| openings == if resumed_here { 1 } else { 2 })
    );
    store.check().unwrap();
}

/// Runs all of a transaction's statements and reads, as a closure would.
fn run(session: &mut Session<Recording>, statements: &[Statement]) -> Result<(), ColumnError> {
    let mut own = Model::new();
    for statement in statements {
        match statement.run(session) {
            Ok(()) => assert!(statement.model(&mut own)),
            Err(ColumnError::DuplicateKey | ColumnError::MissingKey) => {
                assert!(!statement.model(&mut own));
            }
            Err(other) => return Err(other),
        }
        assert_eq!(contents(session).unwrap(), own, "{statement:?}");
    }
    Ok(())
}

#[test]
fn a_replay_compares_what_is_done_and_does_the_rest() {
    for seed in 0..6 {
        let mut random = SmallRng::seed_from_u64(seed);
        let all: Vec<Statement> = (0..30).map(|_| Statement::random(&mut random, 4)).collect();
        for part in [1, 7, 16, 30] {
            let (memory, store) = store(small());
            let mut session = store.session();
            session.begin_named(b"closure").unwrap();
            run(&mut session, &all[..part]).unwrap();
            if session.transaction().is_none() {
                continue;
            }
            session.detach().unwrap();
            let (memory, store) = killed(&memory);
            let found = store.in_flight().remove(0);
            let mut session = store.replay(found.id).unwrap();
            assert!(contents(&session).unwrap().is_empty(), "it sees what it saw");
            assert!(matches!(session.commit(), Err(ColumnError::Diverged)));
            memory.start();
            run(&mut session, &all[..part]).unwrap();
            assert!(!session.is_replaying());
            assert!(memory.stop().events.is_empty(), "nothing is done twice");
            assert_eq!(session.transaction(), Some((found.id, found.statements)));
            session.detach().unwrap();
            let mut session = store.replay(found.id).unwrap();
            run(&mut session, &all).unwrap();
            session.commit().unwrap();
            let mut expected = Model::new();
            for statement in &all {
                statement.model(&mut expected);
            }
            assert_eq!(contents(&store.session()).unwrap(), expected, "seed {seed}, {part}");
            store.check().unwrap();
        }
    }
}

#[test]
fn a_replay_that_does_something_else_has_diverged() {
    let (_, store) = store(small());
    let mut session = store.session();
    session.begin().unwrap();
    session.insert(0, &row(1, 10)).unwrap();
    session.insert(0, &row(2, 20)).unwrap();
    session.update(0, Value::Word(1), &[(1, Value::Word(11))]).unwrap();
    session.delete(0, Value::Word(2)).unwrap();
    let mut id = session.detach().unwrap();
    let diverged = |result| assert!(matches!(result, Err(ColumnError::Diverged)), "{result:?}");
    for right in 0..4 {
        let mut session = store.replay(id).unwrap();
        for statement in 0..right {
            match statement {
                0 => session.insert(0, &row(1, 10)).unwrap(),
                1 => session.insert(0, &row(2, 20)).unwrap(),
                _ => session.update(0, Value::Word(1), &[(1, Value::Word(11))]).unwrap(),
            }
        }
        diverged(session.insert(0, &row(3, 30)));
        match right {
            0 => {
                diverged(session.insert(0, &row(1, 11)));
                let missing = session.update(0, Value::Word(1), &[(1, Value::Word(11))]);
                assert!(matches!(missing, Err(ColumnError::MissingKey)), "{missing:?}");
            }
            1 => {
                diverged(session.insert(0, &row(2, 10)));
                diverged(session.update(0, Value::Word(1), &[(1, Value::Word(11))]));
            }
            2 => {
                diverged(session.update(0, Value::Word(2), &[(1, Value::Word(11))]));
                diverged(session.update(0, Value::Word(1), &[(1, Value::Word(12))]));
                diverged(session.update(0, Value::Word(1), &[(2, Value::Null)]));
            }
            _ => {
                diverged(session.delete(0, Value::Word(1)));
                diverged(session.update(0, Value::Word(2), &[(1, Value::Word(20))]));
            }
        }
        id = session.detach().unwrap();
    }
}
