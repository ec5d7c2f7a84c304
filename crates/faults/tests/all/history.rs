//! The oracle by itself: each anomaly in a history made by hand is called by its name, what has a
//! serial order passes, and on small histories the verdict is that of trying all orders.

use faults::history::{
    Anomaly, By, Cell, History, Key, Operation, Outcome, Range, Rule, Seen, Transaction,
};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

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

#[test]
fn a_lost_update_is_noticed() {
    let one = committed(0, 10, &[get(1, 1), put(1, 11)]);
    let other = committed(1, 11, &[get(1, 1), put(1, 12)]);
    fails_both(&history(&[one.clone(), other.clone()]), Anomaly::LostUpdate);
    // Two inserts of one key, too, and an update together with a deletion.
    let inserts = |value| [missing(5), put(5, value)];
    let both = [committed(0, 10, &inserts(11)), committed(1, 11, &inserts(12))];
    fails_both(&history(&both), Anomaly::LostUpdate);
    let both = [one, committed(1, 11, &[get(1, 1), delete(1)])];
    fails_both(&history(&both), Anomaly::LostUpdate);
}

#[test]
fn dirty_reads_are_noticed() {
    let wrote = [get(1, 1), put(1, 11)];
    let reader = committed(1, 11, &[get(1, 11), put(2, 21)]);
    fails_both(&history(&[aborted(0, 10, &wrote), reader.clone()]), Anomaly::AbortedRead);
    let twice = committed(0, 10, &[put(1, 11), put(1, 12)]);
    fails_both(&history(&[twice, reader]), Anomaly::IntermediateRead);
    let one = committed(0, 10, &[put(1, 11), get(2, 21)]);
    let other = committed(1, 11, &[put(2, 21), get(1, 11)]);
    fails_both(&history(&[one, other]), Anomaly::CircularRead);
}

#[test]
fn a_dirty_write_is_noticed() {
    let one = committed(0, 10, &[put(1, 11), put(2, 21)]);
    let other = committed(1, 11, &[put(1, 12), put(2, 22)]);
    // Of each a half is left; two readers in between show what was there before.
    let both = |end: Transaction| history(&[one.clone(), other.clone(), end]);
    fails_both(&both(committed(20, 21, &[get(1, 11), get(2, 22)])), Anomaly::DirtyWrite);
    passes(&both(committed(20, 21, &[get(1, 11), get(2, 21)])), Serializable);
    passes(&both(committed(20, 21, &[get(1, 12), get(2, 22)])), Serializable);
}

#[test]
fn a_non_repeatable_read_is_noticed() {
    let writer = committed(2, 3, &[get(1, 1), put(1, 11)]);
    let twice = committed(0, 10, &[get(1, 1), get(1, 11)]);
    fails_both(&history(&[writer.clone(), twice]), Anomaly::NonRepeatableRead);
    let gone = committed(0, 10, &[get(1, 1), missing(1)]);
    fails_both(&history(&[committed(2, 3, &[delete(1)]), gone]), Anomaly::NonRepeatableRead);
    // Two keys of one writer, of which one was read before and one after it.
    let writer = committed(2, 3, &[put(1, 11), put(2, 21)]);
    let skewed = committed(0, 10, &[get(1, 1), get(2, 21)]);
    fails_both(&history(&[writer, skewed]), Anomaly::ReadSkew);
}

#[test]
fn phantoms_are_noticed() {
    let insert = committed(2, 3, &[missing(5), put(5, 51)]);
    let twice = committed(0, 10, &[scan(3, 9, &[]), scan(3, 9, &[(5, 51)])]);
    fails_both(&history(&[insert.clone(), twice]), Anomaly::Phantom);
    // A scan that does not show one of two rows that were inserted together.
    let two = committed(2, 3, &[missing(5), put(5, 51), missing(6), put(6, 61)]);
    fails_both(&history(&[two, committed(0, 10, &[scan(3, 9, &[(6, 61)])])]), Anomaly::Phantom);
    // Each inserts what the other one's scan should have shown: a write skew on a range.
    let one = committed(0, 10, &[scan(3, 9, &[]), missing(5), put(5, 51)]);
    let other = committed(1, 11, &[scan(3, 9, &[]), missing(6), put(6, 61)]);
    fails(&history(&[one.clone(), other.clone()]), Serializable, Anomaly::Phantom);
    passes(&history(&[one, other]), Snapshot);
    // By the order of the tags.
    let one = committed(0, 10, &[tagged(1, 1, &[(1, 1)]), missing(5), put(5, 51)]);
    let other = committed(1, 11, &[tagged(1, 1, &[(1, 1)]), missing(6), put(6, 61)]);
    fails(&history(&[one, other]), Serializable, Anomaly::Phantom);
    let one = committed(0, 10, &[tagged(1, 1, &[(1, 1)]), missing(5), put(5, 52)]);
    let other = committed(1, 11, &[tagged(1, 1, &[(1, 1)]), missing(6), put(6, 62)]);
    passes(&history(&[one, other]), Serializable);
}

#[test]
fn write_skew_fails_under_serializable_and_passes_under_snapshot() {
    let one = committed(0, 10, &[get(1, 1), get(2, 2), put(1, 11)]);
    let other = committed(1, 11, &[get(1, 1), get(2, 2), put(2, 22)]);
    let skewed = history(&[one, other]);
    fails(&skewed, Serializable, Anomaly::WriteSkew);
    passes(&skewed, Snapshot);
    let violation = skewed.check(Serializable).unwrap_err();
    assert_eq!(violation.length, 2);
    assert_eq!(
        violation.to_string(),
        "write skew (G2): T0 (thread 0) did not see what T1 (thread 0) did to key 2, the value 22; \
         T1 (thread 0) did not see what T0 (thread 0) did to key 1, the value 11"
    );
}

#[test]
fn a_long_fork_is_noticed() {
    let writers = [committed(0, 10, &[put(1, 11)]), committed(0, 10, &[put(2, 22)])];
    let readers =
        [committed(0, 10, &[get(1, 11), get(2, 2)]), committed(0, 10, &[get(1, 1), get(2, 22)])];
    fails_both(&history(&[writers, readers].concat()), Anomaly::LongFork);
}

#[test]
fn a_stale_read_is_noticed() {
    let writer = committed(0, 1, &[get(1, 1), put(1, 11)]);
    fails_both(&history(&[writer.clone(), committed(2, 3, &[get(1, 1)])]), Anomaly::RealTime);
    passes(&history(&[writer.clone(), committed(0, 3, &[get(1, 1)])]), Serializable);
    // A row that was there all the time.
    fails_both(&history(&[committed(2, 3, &[scan(1, 2, &[(2, 2)])])]), Anomaly::Fabricated);
    let inserted = committed(0, 1, &[missing(5), put(5, 51)]);
    fails_both(&history(&[inserted, committed(2, 3, &[scan(3, 9, &[])])]), Anomaly::RealTime);
}

#[test]
fn what_nobody_wrote_and_what_one_wrote_oneself_is_noticed() {
    fails_both(&history(&[committed(0, 1, &[get(1, 77)])]), Anomaly::Fabricated);
    let torn = Operation::Read { key: 1, saw: Seen::Cell(Cell { value: 1, tag: 7 }) };
    fails_both(&history(&[committed(0, 1, &[torn])]), Anomaly::Fabricated);
    fails_both(&history(&[committed(0, 1, &[missing(1)])]), Anomaly::Fabricated);
    let here = Operation::Read { key: 9, saw: Seen::Present };
    fails_both(&history(&[committed(0, 1, &[here])]), Anomaly::Fabricated);
    let unseen = |after| history(&[committed(0, 1, &[put(1, 11), after])]);
    fails_both(&unseen(get(1, 1)), Anomaly::OwnWriteUnseen);
    fails_both(&unseen(missing(1)), Anomaly::OwnWriteUnseen);
    fails_both(&unseen(scan(0, 1, &[])), Anomaly::OwnWriteUnseen);
    passes(&unseen(scan(0, 2, &[(1, 11), (2, 2)])), Serializable);
    let twice = [committed(0, 1, &[put(1, 11)]), committed(2, 3, &[put(2, 11)])];
    fails_both(&history(&twice), Anomaly::SameValueTwice);
}

/// Judges `contents`, left by a crash before time `at`.
#[track_caller]
fn left(history: &History, at: u64, contents: &[(Key, u64)]) -> Result<Vec<usize>, Anomaly> {
    let contents: Vec<_> = contents.iter().map(|(key, value)| (*key, cell(*value))).collect();
    let left = history.recovered(Serializable, at, &contents);
    left.map_err(|violation| {
        println!("{violation}");
        violation.anomaly
    })
}

#[test]
fn a_crash_leaves_a_prefix_with_all_that_were_acknowledged() {
    let first = committed(0, 3, &[get(1, 1), put(1, 11)]);
    let second = committed(1, 9, &[get(1, 11), put(1, 12), put(2, 22)]);
    let third = committed(4, 10, &[missing(5), put(5, 51)]);
    let all = history(&[first, second, third]);
    let before = [(1, 1), (2, 2)];
    assert_eq!(left(&all, 3, &before), Ok(vec![]));
    assert_eq!(left(&all, 4, &before), Err(Anomaly::DirtyAcknowledgement));
    assert_eq!(left(&all, 4, &[(1, 11), (2, 2)]), Ok(vec![0]));
    assert_eq!(left(&all, 4, &[(1, 12), (2, 22)]), Ok(vec![0, 1]));
    assert_eq!(left(&all, 4, &[(1, 12), (2, 2)]), Err(Anomaly::Torn));
    assert_eq!(left(&all, 4, &[(1, 11), (2, 22)]), Err(Anomaly::Torn));
    assert_eq!(left(&all, 4, &[(1, 11), (2, 2), (5, 51)]), Ok(vec![0, 2]));
    assert_eq!(left(&all, 10, &[(1, 11), (2, 2)]), Err(Anomaly::DirtyAcknowledgement));
    assert_eq!(left(&all, 10, &[(1, 12), (2, 22)]), Ok(vec![0, 1]));
    assert_eq!(left(&all, 11, &[(1, 12), (2, 22)]), Err(Anomaly::DirtyAcknowledgement));
    assert_eq!(left(&all, 4, &[(1, 11), (2, 77)]), Err(Anomaly::Fabricated));
    assert_eq!(left(&all, 4, &[(1, 11), (2, 2), (7, 71)]), Err(Anomaly::Fabricated));
    assert_eq!(left(&all, 4, &[(1, 11)]), Err(Anomaly::Fabricated));
}

#[test]
fn a_crash_may_take_what_was_not_durable_but_nothing_from_the_middle() {
    let volatile = |begin, end, operations: &[Operation]| Transaction {
        durable: None,
        ..committed(begin, end, operations)
    };
    let first = volatile(0, 1, &[get(1, 1), put(1, 11)]);
    let second = volatile(2, 3, &[get(2, 2), put(2, 22)]);
    let all = history(&[first, second]);
    assert!(left(&all, 9, &[(1, 1), (2, 2)]).is_ok());
    assert!(left(&all, 9, &[(1, 11), (2, 2)]).is_ok());
    assert!(left(&all, 9, &[(1, 11), (2, 22)]).is_ok());
    assert_eq!(left(&all, 9, &[(1, 1), (2, 22)]), Err(Anomaly::NotAPrefix));
}

#[test]
fn whoever_was_in_flight_is_there_if_it_was_seen() {
    let deletes = in_flight(0, &[get(1, 1), delete(1)]);
    let replaced = in_flight(0, &[get(2, 2), put(2, 21), missing(5), put(5, 51)]);
    let all = history(&[deletes, replaced]);
    assert_eq!(left(&all, 9, &[(1, 1), (2, 2)]), Ok(vec![]));
    assert_eq!(left(&all, 9, &[(2, 2)]), Ok(vec![0]));
    assert!(left(&all, 9, &[(2, 21), (5, 51)]).is_ok());
    assert_eq!(left(&all, 9, &[(2, 2), (5, 51)]), Err(Anomaly::Torn));
    // One that was undone must not be there.
    let all = history(&[aborted(0, 20, &[get(1, 1), put(1, 11)])]);
    assert_eq!(left(&all, 9, &[(1, 11), (2, 2)]), Err(Anomaly::AbortedRead));
}

/// A wrong number of the engine's own neither hides nor makes anything.
#[test]
fn the_number_of_a_commit_is_a_hint() {
    let one = Transaction { order: Some(2), ..committed(0, 10, &[put(1, 11)]) };
    let other = Transaction { order: Some(1), ..committed(0, 10, &[put(1, 12)]) };
    let last = committed(20, 21, &[get(1, 12)]);
    assert_eq!(passes(&history(&[one.clone(), other.clone(), last]), Serializable), [0, 1, 2]);
    let last = committed(20, 21, &[get(1, 11)]);
    assert_eq!(passes(&history(&[one, other, last]), Serializable), [1, 0, 2]);
}

/// Random transactions on a few keys that run one after the other, or each on a snapshot, as some
/// engine would have recorded them that runs them at the same time.
struct Random {
    random: SmallRng,
    keys: u64,
    next: u64,
}

type Rows = BTreeMap<Key, Cell>;

impl Random {
    fn new(seed: u64, keys: u64) -> Self {
        Self { random: SmallRng::seed_from_u64(seed), keys, next: 100 }
    }

    fn unique(&mut self) -> Cell {
        self.next += 10;
        Cell { value: self.next, tag: self.random.random_range(0..4) }
    }

    fn operation(&mut self, rows: &mut Rows) -> Vec<Operation> {
        let key = self.random.random_range(0..self.keys);
        let there = rows.get(&key).copied();
        let read = Operation::Read { key, saw: there.map_or(Seen::Absent, Seen::Cell) };
        let cell = self.unique();
        match self.random.random_range(0..10) {
            0..3 => vec![read],
            3 => vec![self.scan(rows, By::Key)],
            4 => vec![self.scan(rows, By::Tag)],
            5 => {
                if rows.remove(&key).is_none() {
                    return vec![read];
                }
                let found = Operation::Read { key, saw: Seen::Present };
                vec![found, Operation::Write { key, cell: None }]
            }
            // Blind.
            6 => {
                rows.insert(key, cell);
                vec![Operation::Write { key, cell: Some(cell) }]
            }
            _ => {
                rows.insert(key, cell);
                vec![read, Operation::Write { key, cell: Some(cell) }]
            }
        }
    }

    fn scan(&mut self, rows: &Rows, by: By) -> Operation {
        let highest = if by == By::Key { self.keys } else { 4 };
        let low = self.random.random_range(0..highest);
        let high = self.random.random_range(low..highest);
        let (low, high) = ((low, 0), (high, u64::MAX));
        let mut range = Range { by, low, high };
        let mut saw: Vec<_> = rows.iter().map(|(key, cell)| (*key, *cell)).collect();
        saw.retain(|(key, cell)| range.has(*key, *cell));
        saw.sort_by_key(|(key, cell)| Range::place(by, *key, *cell));
        // It is broken off.
        if saw.len() > 1 && self.random.random_ratio(1, 3) {
            saw.truncate(1);
            range.high = Range::place(by, saw[0].0, saw[0].1);
        }
        Operation::Scan { range, saw }
    }

    fn operations(&mut self, rows: &mut Rows) -> Vec<Operation> {
        let count = self.random.random_range(1..5);
        (0..count).flat_map(|_| self.operation(rows)).collect()
    }

    /// So many transactions of so many threads, each at a point of its own between its beginning
    /// and its end; and the rows after each.
    fn serial(&mut self, count: usize, threads: usize) -> (History, Vec<Rows>) {
        let mut rows = Rows::new();
        for key in 0..self.keys / 2 {
            rows.insert(key, Cell { value: key + 1, tag: key % 4 });
        }
        let initial = rows.iter().map(|(key, cell)| (*key, *cell)).collect();
        let (mut transactions, mut after) = (Vec::new(), vec![rows.clone()]);
        // The threads' last ends, in thousandths of the distance between two points.
        let mut free = vec![0u64; threads];
        for number in 0..count as u64 {
            let point = (number + 1) * 1000;
            let ready: Vec<usize> = (0..threads).filter(|at| free[*at] < point).collect();
            let Some(session) = ready.get(self.random.random_range(0..threads)).copied() else {
                continue;
            };
            let begin =
                self.random.random_range(free[session].max(point.saturating_sub(4000))..point);
            let end = self.random.random_range(point + 1..point + 4000);
            free[session] = end + 1;
            let abort = self.random.random_ratio(1, 10);
            let mut work = rows.clone();
            let operations = self.operations(&mut work);
            let (outcome, order) = if abort {
                (Outcome::Aborted, None)
            } else {
                rows = work;
                (Outcome::Committed, Some(number))
            };
            let end = Some(end);
            let durable = end.filter(|_| !abort);
            transactions.push(Transaction {
                session,
                begin,
                end,
                durable,
                outcome,
                order,
                operations,
            });
            after.push(rows.clone());
        }
        (History { initial, transactions }, after)
    }

    /// The same on snapshots, of which the first to commit a key wins.
    fn snapshots(&mut self, count: usize) -> History {
        let (mut states, mut time) = (vec![(0, Rows::new())], 0);
        let mut last_write: BTreeMap<Key, u64> = BTreeMap::new();
        let mut transactions = Vec::new();
        for _ in 0..count {
            // It commits now; it began some commits ago.
            time += 1000;
            let back = self.random.random_range(0..states.len().min(4));
            let (since, mut rows) = states[states.len() - 1 - back].clone();
            let operations = self.operations(&mut rows);
            let writes: BTreeMap<Key, Option<Cell>> = operations
                .iter()
                .filter_map(|one| {
                    if let Operation::Write { key, cell } = one {
                        Some((*key, *cell))
                    } else {
                        None
                    }
                })
                .collect();
            let loses = writes.keys().any(|key| last_write.get(key).is_some_and(|at| *at > since));
            let outcome = if loses { Outcome::Aborted } else { Outcome::Committed };
            let session = transactions.len();
            let begin = since + self.random.random_range(0..1000);
            let (end, durable) = (Some(time + self.random.random_range(1..1000)), None);
            let order = if loses { None } else { Some(time) };
            transactions.push(Transaction {
                session,
                begin,
                end,
                durable,
                outcome,
                order,
                operations,
            });
            if loses {
                continue;
            }
            let mut now = states[states.len() - 1].1.clone();
            for (key, cell) in writes {
                last_write.insert(key, time);
                match cell {
                    Some(cell) => drop(now.insert(key, cell)),
                    None => drop(now.remove(&key)),
                }
            }
            states.push((time, now));
        }
        History { initial: Vec::new(), transactions }
    }
}

fn without_hints(mut history: History) -> History {
    history.transactions.iter_mut().for_each(|one| one.order = None);
    history
}

#[test]
fn what_ran_in_some_serial_order_passes() {
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
fn what_ran_on_snapshots_passes_as_such_and_is_often_not_serializable() {
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

/// Crashes of valid histories: prefixes pass, and a prefix that is too short, a key that is of
/// another time and a row too many do not.
#[test]
fn what_a_crash_may_leave_passes_and_little_else_does() {
    let (mut wrong, mut noticed) = (0, 0);
    for seed in 0..100 {
        let mut random = Random::new(seed, 3 + seed % 6);
        let (history, after) = random.serial(40, 1 + seed as usize % 4);
        let at = random.random.random_range(0..45_000);
        let ends = |one: &Transaction| one.end.is_some_and(|end| end < at);
        let least = history.transactions.iter().rposition(ends).map_or(0, |last| last + 1);
        let begun = |one: &Transaction| one.begin < at;
        let most = history.transactions.iter().rposition(begun).map_or(0, |last| last + 1);
        // Every prefix that has all that ended, and none that had not begun.
        let prefixes =
            (least..=most).filter(|most| history.transactions[..*most].iter().all(begun));
        for prefix in prefixes {
            let contents: Vec<_> = after[prefix].iter().map(|(key, cell)| (*key, *cell)).collect();
            let left = history.recovered(Serializable, at, &contents);
            assert!(left.is_ok(), "seed {seed}, {prefix} of {least}: {}", left.unwrap_err());
            for key in 0..random.keys {
                let mut other = after[prefix].clone();
                let older =
                    after[..prefix].iter().rev().find(|rows| rows.get(&key) != other.get(&key));
                let Some(older) = older else { continue };
                match older.get(&key) {
                    Some(cell) => other.insert(key, *cell),
                    None => other.remove(&key),
                };
                if after[least..].contains(&other) {
                    continue;
                }
                wrong += 1;
                let contents: Vec<_> = other.into_iter().collect();
                noticed += u64::from(history.recovered(Serializable, at, &contents).is_err());
            }
        }
    }
    println!("{noticed} of {wrong}");
    // A part of the others is of another order that is as good.
    assert!(wrong > 800 && noticed * 100 > wrong * 95, "{noticed} of {wrong}");
}

/// Returns true if a point for each of them, or two, makes all reads right: all orders are tried.
fn has_order(history: &History, rule: Rule) -> bool {
    let counted = history.transactions.iter().filter(|one| one.outcome == Outcome::Committed);
    let counted: Vec<&Transaction> = counted.collect();
    let rows: Rows = history.initial.iter().copied().collect();
    let mut began = vec![None; counted.len()];
    tried(&counted, rule, &rows, &mut began, &mut vec![false; counted.len()])
}

/// Runs the next point of any of them.
fn tried(
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
            if !collides && tried(all, rule, &rows, began, ended) {
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
        if tried(all, rule, rows, began, ended) {
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
fn on_small_histories_the_verdict_is_that_of_trying_all_orders() {
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

/// A thread that has committed may hear of it long after others have gone on.
#[test]
fn whoever_hears_late_of_its_commit_stands_where_others_have_seen_it() {
    const BEHIND: u64 = 700;
    let late = committed(2, 10_000, &[get(0, 11), put(0, 12)]);
    let mut all = vec![committed(0, 1, &[put(0, 11)]), late, committed(3, 4, &[get(0, 12)])];
    all.extend((0..BEHIND).map(|number| {
        let write = if number % 2 == 0 { delete(0) } else { put(0, 20 + number) };
        committed(5 + 2 * number, 6 + 2 * number, &[write])
    }));
    let order = passes(&history(&all), Serializable);
    assert_eq!(order[..3], [0, 1, 2]);
}

/// T4 has to be before T3, since it saw key 0 before T3 put it there. That depends on the order in
/// which they wrote key 5, which nothing shows.
#[test]
fn a_read_that_is_somewhere_because_of_a_choice_undoes_the_choice() {
    let initial = vec![(6, cell(60))];
    let transactions = vec![
        committed(1, 5, &[put(5, 51)]),
        committed(7, 8, &[delete(5)]),
        committed(9, 10, &[put(6, 61), delete(0)]),
        committed(6, 11, &[get(6, 60), put(5, 52), put(0, 1)]),
        committed(4, 12, &[delete(5), missing(0), get(6, 60)]),
    ];
    let order = passes(&History { initial, transactions }, Serializable);
    assert_eq!(order, [0, 1, 4, 3, 2]);
}

/// Writes that read nothing before, and reads that tell of no writer: much is left to be tried.
#[test]
fn what_ran_blindly_in_some_serial_order_passes() {
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
