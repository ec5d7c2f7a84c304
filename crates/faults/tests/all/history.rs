//! The oracle by itself. Each anomaly in a history made by hand is called by its name, a history
//! with a serial order passes, and on small histories the verdict is that of trying all orders.

mod anomalies;
pub(crate) mod crashes;
mod orders;
mod random;

use faults::history::{
    Anomaly, Cell, History, Key, Operation, Outcome, Range, Rule, Seen, Transaction,
};

use Rule::{Serializable, Snapshot};

/// A value and its tag, which is the value's last digit.
fn cell(value: u64) -> Cell {
    Cell { value, tag: value % 10 }
}

fn get(key: Key, value: u64) -> Operation {
    Operation::Read { key, saw: Seen::Cell(cell(value)) }
}

fn missing(key: Key) -> Operation {
    Operation::Read { key, saw: Seen::Absent }
}

fn put(key: Key, value: u64) -> Operation {
    Operation::Write { key, cell: Some(cell(value)) }
}

fn delete(key: Key) -> Operation {
    Operation::Write { key, cell: None }
}

fn scan(low: Key, high: Key, saw: &[(Key, u64)]) -> Operation {
    let saw = saw.iter().map(|(key, value)| (*key, cell(*value))).collect();
    Operation::Scan { range: Range::keys(low, high), saw }
}

fn tagged(low: u64, high: u64, saw: &[(Key, u64)]) -> Operation {
    let saw = saw.iter().map(|(key, value)| (*key, cell(*value))).collect();
    Operation::Scan { range: Range::tags(low, high), saw }
}

fn committed(begin: u64, end: u64, operations: &[Operation]) -> Transaction {
    Transaction {
        session: 0,
        begin,
        end: Some(end),
        durable: Some(end),
        outcome: Outcome::Committed,
        order: None,
        operations: operations.to_vec(),
    }
}

fn aborted(begin: u64, end: u64, operations: &[Operation]) -> Transaction {
    Transaction { outcome: Outcome::Aborted, durable: None, ..committed(begin, end, operations) }
}

fn in_flight(begin: u64, operations: &[Operation]) -> Transaction {
    let (end, durable, outcome) = (None, None, Outcome::InFlight);
    Transaction { end, durable, outcome, ..committed(begin, 0, operations) }
}

/// Keys 1 and 2 hold 1 and 2 in the beginning.
fn history(transactions: &[Transaction]) -> History {
    let initial = vec![(1, cell(1)), (2, cell(2))];
    History { initial, transactions: transactions.to_vec() }
}

#[track_caller]
fn fails(history: &History, rule: Rule, anomaly: Anomaly) {
    let violation = history.check(rule).expect_err("it is noticed");
    println!("{rule:?}: {violation}");
    assert_eq!(violation.anomaly, anomaly, "{violation}");
}

#[track_caller]
fn fails_both(history: &History, anomaly: Anomaly) {
    fails(history, Serializable, anomaly);
    fails(history, Snapshot, anomaly);
}

#[track_caller]
fn passes(history: &History, rule: Rule) -> Vec<usize> {
    history.check(rule).unwrap_or_else(|violation| panic!("{rule:?}: {violation}"))
}
