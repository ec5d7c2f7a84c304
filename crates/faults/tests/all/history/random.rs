//! Random transactions, recorded as an engine would have that runs them at the same time.

use std::collections::BTreeMap;

use faults::history::{By, Cell, History, Key, Operation, Outcome, Range, Seen, Transaction};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Makes transactions on a few keys, which run one after the other or each on a snapshot.
pub(super) struct Random {
    pub(super) random: SmallRng,
    pub(super) keys: u64,
    next: u64,
}

/// The contents of a table.
pub(super) type Rows = BTreeMap<Key, Cell>;

impl Random {
    pub(super) fn new(seed: u64, keys: u64) -> Self {
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

    pub(super) fn operations(&mut self, rows: &mut Rows) -> Vec<Operation> {
        let count = self.random.random_range(1..5);
        (0..count).flat_map(|_| self.operation(rows)).collect()
    }

    /// So many transactions of so many threads, each at a point of its own between its beginning
    /// and its end; and the rows after each.
    pub(super) fn serial(&mut self, count: usize, threads: usize) -> (History, Vec<Rows>) {
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
    pub(super) fn snapshots(&mut self, count: usize) -> History {
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
