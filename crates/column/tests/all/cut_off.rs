//! A statement that a power cut has torn: its entry is there, its row is not.

use column::{KeyRange, Options, Value, Waiting};
use sim::{Recording, Replay};

use crate::work::{create, from_image, open, rebuild, small};

const LIMIT: u64 = 1 << 20;
const NAME: &[u8] = b"goes on";

/// The row of a torn statement is used again, for a row that is the same.
#[test]
fn a_torn_statement_stays_torn_when_its_row_is_used_again() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    // No other row is free.
    let store = create(memory.clone(), Options { reserve: 1, ..small() });
    let mut session = store.session();
    session.begin_named(NAME).unwrap();
    session.insert(0, &[Value::Word(7), Value::Word(5), Value::Null]).unwrap();
    let row = [Value::Word(8), Value::Word(5), Value::Null];
    memory.start();
    session.insert(0, &row).unwrap();
    let trace = memory.stop();
    let mut torn = 0;
    let mut replay = Replay::new(&trace);
    while let Some(point) = replay.next_point() {
        point.for_each_state(256, 3, |image| {
            let memory = from_image(image, LIMIT).unwrap();
            let (store, _) = open(memory.clone(), &Waiting::default()).unwrap();
            let statements = store.in_flight()[0].statements;
            if statements != 1 {
                return;
            }
            torn += 1;
            rebuild(&store).unwrap();
            // From here on nothing leads to the row, and it is free.
            (0..3).for_each(|_| drop(store.collect(64)));
            let mut other = store.session();
            other.begin().unwrap();
            other.insert(0, &row).unwrap();
            other.commit().unwrap();
            let (store, _) =
                open(from_image(&memory.contents(), LIMIT).unwrap(), &Waiting::default()).unwrap();
            assert_eq!(store.in_flight()[0].statements, 1, "the statement was never acknowledged");
            let seen = store.session().get(0, Value::Word(8)).unwrap();
            assert!(seen.is_some(), "the other transaction's row was acknowledged");
            let mut found = 0;
            let count = |_| {
                found += 1;
                std::ops::ControlFlow::Continue(())
            };
            store.session().scan(0, 0, KeyRange::ALL, None, count).unwrap();
            assert_eq!(found, 1);
        });
    }
    assert!(torn > 10, "{torn}");
}
