//! Random histories: those with a serial order pass, and small ones are judged as by trying all
//! orders.

use std::collections::BTreeMap;

use faults::history::Rule::{Serializable, Snapshot};
use faults::history::{Anomaly, Cell, History, Key, Operation, Outcome, Rule, Seen, Transaction};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::random::{Random, Rows};
use super::{cell, committed, delete, missing, passes, put};

fn without_hints(mut history: History) -> History {
    history.transactions.iter_mut().for_each(|one| one.order = None);
    history
}

#[test]
fn serial_histories_pass() {
    for seed in 0..400 {
        let mut random = Random::new(seed, 2 + seed % 9);
        let (mut history, _) = random.serial(60, 1 + seed as usize % 5);
        history.transactions.shuffle(&mut random.random);
        for history in [history.clone(), without_hints(history)] {
            for rule in [Serializable, Snapshot] {
                let verdict = history.check(rule);
                assert!(verdict.is_ok(), "seed {seed}, {rule:?}: {}", verdict.unwrap_err());
            }
        }
    }
}

#[test]
fn snapshot_histories_pass_as_such_and_often_skew() {
    let mut skewed = 0;
    for seed in 0..400 {
        let history = Random::new(seed, 3 + seed % 9).snapshots(50);
        for history in [history.clone(), without_hints(history)] {
            let verdict = history.check(Snapshot);
            assert!(verdict.is_ok(), "seed {seed}: {}", verdict.unwrap_err());
            if let Err(violation) = history.check(Serializable) {
                let named = [Anomaly::WriteSkew, Anomaly::Phantom].contains(&violation.anomaly);
                skewed += u64::from(named);
            }
        }
    }
    assert!(skewed > 400, "{skewed}");
}

/// Writes that read nothing before, and reads that tell of no writer: much is left to be tried.
#[test]
fn serial_histories_of_blind_writes_pass() {
    for seed in 0..4_000 {
        let mut random = SmallRng::seed_from_u64(seed);
        let keys = 2 + seed % 3;
        let (mut rows, mut value) = (BTreeMap::<Key, Cell>::new(), 0);
        let mut transactions = Vec::new();
        for number in 0..4 + seed % 6 {
            let mut operations = Vec::new();
            for _ in 0..random.random_range(1..4) {
                let key = random.random_range(0..keys);
                let now = rows.get(&key).copied();
                operations.push(match (random.random_range(0..5), now) {
                    (0, _) => {
                        value += 1;
                        rows.insert(key, cell(value));
                        put(key, value)
                    }
                    (1, _) => {
                        rows.remove(&key);
                        delete(key)
                    }
                    (_, None) => missing(key),
                    (2, Some(_)) => Operation::Read { key, saw: Seen::Present },
                    (_, Some(cell)) => Operation::Read { key, saw: Seen::Cell(cell) },
                });
            }
            let now = 1_000 + 100 * number;
            let (early, late) = (random.random_range(1..300), random.random_range(1..300));
            transactions.push(committed(now - early, now + late, &operations));
        }
        transactions.shuffle(&mut random);
        let history = History { initial: Vec::new(), transactions };
        let verdict = history.check(Serializable);
        assert!(verdict.is_ok(), "seed {seed}: {}\n{history:#?}", verdict.unwrap_err());
    }
}

/// Thousands of transactions, with the engine's own order of commits and, of fewer, without it.
#[test]
fn thousands_of_transactions_pass() {
    for (count, hints) in [(8_000, true), (1_500, false)] {
        let (history, _) = Random::new(1, 12).serial(count, 4);
        let history = if hints { history } else { without_hints(history) };
        let committed = |one: &&Transaction| one.outcome == Outcome::Committed;
        let committed = history.transactions.iter().filter(committed).count();
        assert!(committed > count / 2, "{committed}");
        assert_eq!(passes(&history, Serializable).len(), committed);
        assert_eq!(passes(&history, Snapshot).len(), committed);
    }
}

/// Returns true if a point for each of them, or two, makes all reads right: all orders are tried.
fn has_order(history: &History, rule: Rule) -> bool {
    let counted = history.transactions.iter().filter(|one| one.outcome == Outcome::Committed);
    let counted: Vec<&Transaction> = counted.collect();
    let rows: Rows = history.initial.iter().copied().collect();
    let mut began = vec![None; counted.len()];
    try_orders(&counted, rule, &rows, &mut began, &mut vec![false; counted.len()])
}

/// Runs the next point of any of them.
fn try_orders(
    all: &[&Transaction],
    rule: Rule,
    rows: &Rows,
    began: &mut Vec<Option<BTreeMap<Key, Option<Cell>>>>,
    ended: &mut Vec<bool>,
) -> bool {
    if ended.iter().all(|ended| *ended) {
        return true;
    }
    for at in 0..all.len() {
        if ended[at] {
            continue;
        }
        if let Some(writes) = began[at].clone() {
            // Its keys were not written in between: the writers are refused below.
            let mut rows = rows.clone();
            for (key, cell) in &writes {
                match cell {
                    Some(cell) => drop(rows.insert(*key, *cell)),
                    None => drop(rows.remove(key)),
                }
            }
            ended[at] = true;
            let others = began.iter().enumerate().filter(|one| one.0 != at && !ended[one.0]);
            let collides = others
                .flat_map(|one| one.1)
                .any(|other| other.keys().any(|key| writes.contains_key(key)));
            if !collides && try_orders(all, rule, &rows, began, ended) {
                return true;
            }
            ended[at] = false;
            continue;
        }
        // A transaction that ended before it began comes first.
        let waits =
            (0..all.len()).any(|other| !ended[other] && all[other].end.unwrap() < all[at].begin);
        let Some(writes) = (if waits { None } else { runs(all[at], rows) }) else { continue };
        if rule == Serializable
            && began.iter().enumerate().any(|one| one.1.is_some() && !ended[one.0])
        {
            continue;
        }
        began[at] = Some(writes);
        if try_orders(all, rule, rows, began, ended) {
            return true;
        }
        began[at] = None;
    }
    false
}

/// Returns what it writes if it runs on these rows; `None` if it sees something else than it saw.
fn runs(one: &Transaction, rows: &Rows) -> Option<BTreeMap<Key, Option<Cell>>> {
    let (mut rows, mut writes) = (rows.clone(), BTreeMap::new());
    for operation in &one.operations {
        let right = match operation {
            Operation::Read { key, saw: Seen::Absent } => !rows.contains_key(key),
            Operation::Read { key, saw: Seen::Present } => rows.contains_key(key),
            Operation::Read { key, saw: Seen::Cell(cell) } => rows.get(key) == Some(cell),
            Operation::Scan { range, saw } => {
                let shown: Rows = saw.iter().copied().collect();
                let there = rows.iter().filter(|(key, cell)| range.has(**key, **cell));
                there.map(|(key, cell)| (*key, *cell)).collect::<Rows>() == shown
            }
            Operation::Write { key, cell } => {
                writes.insert(*key, *cell);
                match cell {
                    Some(cell) => drop(rows.insert(*key, *cell)),
                    None => drop(rows.remove(key)),
                }
                true
            }
        };
        if !right {
            return None;
        }
    }
    Some(writes)
}

/// Small histories in which each transaction sees some state of the past or of the future, so that
/// many have no order.
#[test]
fn small_histories_are_judged_as_by_trying_all_orders() {
    let mut right = [[0u64; 2]; 2];
    for seed in 0..6_000 {
        let mut random = Random::new(seed, 2 + seed % 3);
        let count = 3 + seed as usize % 3;
        let (mut history, mut states) = (History::default(), vec![Rows::new()]);
        for number in 0..count as u64 {
            let mut rows = states[random.random.random_range(0..states.len())].clone();
            let operations = random.operations(&mut rows);
            let begin = number * 100 + random.random.random_range(0..50);
            let begin = begin.saturating_sub([0, 100, 200][random.random.random_range(0..3)]);
            let end = number * 100 + 60 + random.random.random_range(0..200);
            let outcome = if random.random.random_ratio(1, 20) {
                Outcome::Aborted
            } else {
                Outcome::Committed
            };
            history
                .transactions
                .push(Transaction { outcome, ..committed(begin, end, &operations) });
            // Sometimes on top of what is last, sometimes as if nothing else had been.
            states.push(rows);
        }
        history.transactions.shuffle(&mut random.random);
        for (at, rule) in [Serializable, Snapshot].into_iter().enumerate() {
            let (verdict, has) = (history.check(rule), has_order(&history, rule));
            right[at][usize::from(has)] += 1;
            assert_eq!(verdict.is_ok(), has, "seed {seed}, {rule:?}: {verdict:?}\n{history:#?}");
        }
    }
    println!("{right:?}");
    assert!(right.iter().flatten().all(|count| *count > 500), "{right:?}");
}
