//! Threads of the operating system: no update is lost, and a reader sees whole transactions.

use std::sync::atomic::{AtomicBool, Ordering};

use column::{ColumnError, Field, Kind, Options, Session, Store, Value};
use heap::{Heap, HeapOptions};
use pm::Dram;

const THREADS: u64 = 4;
const ROUNDS: u64 = 150;
const ACCOUNTS: u64 = 5;

fn word(session: &Session<Dram>, key: u64) -> u64 {
    match session.get(0, Value::Word(key)).unwrap().unwrap()[1] {
        Field::Word(word) => word,
        ref other => panic!("{other:?}"),
    }
}

/// Moves one from an account to the next, and counts the transfer; returns whether it could.
fn transfer(session: &mut Session<Dram>, from: u64, counter: u64) -> Result<(), ColumnError> {
    let to = (from + 1) % ACCOUNTS;
    let (less, more) = (word(session, from).wrapping_sub(1), word(session, to).wrapping_add(1));
    let count = word(session, counter) + 1;
    session.update(0, Value::Word(from), &[(1, Value::Word(less))])?;
    session.update(0, Value::Word(to), &[(1, Value::Word(more))])?;
    session.update(0, Value::Word(counter), &[(1, Value::Word(count))])
}

#[test]
fn threads_lose_no_update_and_see_whole_transactions() {
    let heap = Heap::format(Dram::new(64 << 20).unwrap(), HeapOptions::default()).unwrap();
    let tables: [&[Kind]; 1] = [&[Kind::Word, Kind::Word]];
    let store = Store::create(heap.lane(0), Options::default(), &tables).unwrap();
    let mut session = store.session();
    session.begin().unwrap();
    for key in 0..ACCOUNTS + THREADS {
        let value = if key < ACCOUNTS { 1 << 40 } else { 0 };
        session.insert(0, &[Value::Word(key), Value::Word(value)]).unwrap();
    }
    session.commit().unwrap();
    let over = AtomicBool::new(false);
    let sum = |session: &Session<Dram>| (0..ACCOUNTS).map(|key| word(session, key)).sum::<u64>();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let mut session = store.session();
                    for round in 0..ROUNDS {
                        loop {
                            session.begin().unwrap();
                            match transfer(&mut session, round % ACCOUNTS, ACCOUNTS + thread) {
                                Ok(()) => {
                                    session.commit().unwrap();
                                    break;
                                }
                                Err(ColumnError::Conflict) => session.abort().unwrap(),
                                Err(other) => panic!("{other}"),
                            }
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut session = store.session();
            while !over.load(Ordering::Acquire) {
                session.begin().unwrap();
                assert_eq!(sum(&session), ACCOUNTS << 40);
                session.abort().unwrap();
            }
        });
        let ends: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Release);
        assert!(ends.iter().all(Result::is_ok));
    });
    let session = store.session();
    for thread in 0..THREADS {
        assert_eq!(word(&session, ACCOUNTS + thread), ROUNDS);
    }
    assert_eq!(sum(&session), ACCOUNTS << 40);
    store.check().unwrap();
}
