//! Lines flushed and fences of statements and commits: deterministic, so they are tests.

use std::sync::Arc;

use column::{FirstColumn, Kind, Options, Session, Store, Value};
use heap::{Heap, HeapOptions};
use pm::Counters;
use sim::Recording;

use crate::work::SEED;

const ROWS: u64 = 400;

/// A table of `columns` columns with some rows, and a session of it.
fn store(memory: &Recording, columns: usize) -> Session<Recording> {
    placed(memory, columns, 0).1
}

/// The same, with so many per cent of its indexes in persistent memory.
fn placed(
    memory: &Recording,
    columns: usize,
    durable_percent: u32,
) -> (Store<Recording>, Session<Recording>) {
    let options = Options { durable_percent, seed: Some(SEED), ..Options::default() };
    let heap = Heap::format(memory.clone(), HeapOptions::default()).unwrap();
    let kinds = vec![Kind::Word; columns];
    let store = Store::create(heap.lane(0), options, &[&kinds], &Arc::new(FirstColumn)).unwrap();
    let mut session = store.session();
    for key in 0..ROWS {
        let row: Vec<Value<'_>> = (0..columns as u64).map(|at| Value::Word(key + at)).collect();
        session.begin().unwrap();
        session.insert(0, &row).unwrap();
        session.commit().unwrap();
    }
    (store, session)
}

/// The most that one of some calls has cost, with what the call before it has left over.
fn most(
    memory: &Recording,
    session: &mut Session<Recording>,
    before: impl Fn(&mut Session<Recording>, u64),
    counted: impl Fn(&mut Session<Recording>, u64),
    after: impl Fn(&mut Session<Recording>, u64),
) -> (u64, u64) {
    let mut most = (0, 0);
    for number in 0..100 {
        before(session, number);
        memory.start();
        counted(session, number);
        let Counters { flushed_lines, fences, .. } = memory.stop().counters();
        most = (most.0.max(flushed_lines), most.1.max(fences));
        after(session, number);
    }
    most
}

fn key(number: u64) -> Value<'static> {
    Value::Word(number * 7 % ROWS)
}

/// A value that is not there yet.
fn new(number: u64) -> [(usize, Value<'static>); 1] {
    [(1, Value::Word(1_000_000 + number))]
}

#[test]
fn an_update_has_one_fence_and_a_line_a_column() {
    for columns in [2, 5, 20, 41] {
        let memory = Recording::pool(16 << 10, 256 << 20).unwrap();
        let mut session = store(&memory, columns);
        let (lines, fences) = most(
            &memory,
            &mut session,
            |session, _| session.begin().unwrap(),
            |session, number| session.update(0, key(number), &new(number)).unwrap(),
            |session, _| assert!(session.commit().unwrap() > 0),
        );
        println!("{columns} columns: {lines} lines, {fences} fences");
        assert!(lines <= columns as u64 + 7, "{columns} columns: {lines} lines");
        assert_eq!(fences, 1, "{columns} columns");
    }
}

#[test]
fn the_commit_of_an_update_has_one_fence_and_two_lines() {
    let memory = Recording::pool(16 << 10, 256 << 20).unwrap();
    let mut session = store(&memory, 5);
    let update = |session: &mut Session<Recording>, number| {
        session.begin().unwrap();
        session.update(0, key(number), &new(number)).unwrap();
    };
    let commit = |session: &mut Session<Recording>, _| assert!(session.commit().unwrap() > 0);
    let costs = most(&memory, &mut session, update, commit, |_, _| ());
    assert_eq!(costs, (2, 1));
}

#[test]
fn an_update_that_commits_has_one_fence() {
    let memory = Recording::pool(16 << 10, 256 << 20).unwrap();
    let mut session = store(&memory, 5);
    let (lines, fences) = most(
        &memory,
        &mut session,
        |session, _| session.begin().unwrap(),
        |session, number| session.update_and_commit(0, key(number), &new(number)).unwrap(),
        |_, _| (),
    );
    assert!(lines <= 5 + 7, "{lines} lines");
    assert_eq!(fences, 1);
}

#[test]
fn an_abort_has_one_fence_and_undoes_nothing() {
    let memory = Recording::pool(16 << 10, 256 << 20).unwrap();
    let mut session = store(&memory, 5);
    let updates = |session: &mut Session<Recording>, number: u64| {
        session.begin().unwrap();
        for more in 0..20 {
            session.update(0, key(number + more), &new(number)).unwrap();
        }
    };
    let abort = |session: &mut Session<Recording>, _| session.abort().unwrap();
    let costs = most(&memory, &mut session, updates, abort, |_, _| ());
    assert_eq!(costs, (2, 1));
}

/// Where the index of keys lies in persistent memory: an update of values that are there has a line more, that of the
/// key's node. A new key has three fences more: the record of a mini-transaction, its words, and its end.
#[test]
fn costs_of_an_index_in_persistent_memory() {
    let memory = Recording::pool(16 << 10, 256 << 20).unwrap();
    let (store, mut session) = placed(&memory, 5, 100);
    let known = |number| [(1, Value::Word(number * 11 % ROWS))];
    let begin = |session: &mut Session<Recording>, _| session.begin().unwrap();
    let commit = |session: &mut Session<Recording>, _| assert!(session.commit().unwrap() > 0);
    let update = |session: &mut Session<Recording>, number| {
        session.update(0, key(number), &known(number)).unwrap();
    };
    let (lines, fences) = most(&memory, &mut session, begin, update, commit);
    println!("update: {lines} lines, {fences} fences");
    assert!(lines <= 5 + 8, "{lines} lines");
    assert_eq!(fences, 1);
    assert_eq!(
        most(
            &memory,
            &mut session,
            |session, number| {
                session.begin().unwrap();
                update(session, number);
            },
            commit,
            |_, _| ()
        ),
        (3, 1)
    );
    // A new value has four fences more: its node, and the three of a mini-transaction.
    let update_new = |session: &mut Session<Recording>, number| {
        session.update(0, key(number), &new(number)).unwrap();
    };
    let (lines, fences) = most(&memory, &mut session, begin, update_new, commit);
    println!("update to a new value: {lines} lines, {fences} fences");
    assert!(lines <= 5 + 22, "{lines} lines");
    assert_eq!(fences, 5);
    // Keys that were there once: their values are in the dictionary, and there is room for their nodes.
    let key = |number| Value::Word(ROWS + number);
    let insert = |session: &mut Session<Recording>, number| {
        let known = |at| Value::Word((number + at) % ROWS);
        session.insert(0, &[key(number), known(1), known(2), known(3), known(4)]).unwrap();
    };
    for number in 0..100 {
        session.begin().unwrap();
        insert(&mut session, number);
        session.abort().unwrap();
    }
    while store.collect(64).unwrap().freed > 0 {}
    let (lines, fences) = most(&memory, &mut session, begin, insert, commit);
    println!("insert: {lines} lines, {fences} fences");
    // Those of an update; the node's; the record of the mini-transaction, its words and its end.
    assert!(lines <= 5 + 18, "{lines} lines");
    assert_eq!(fences, 4);
}
