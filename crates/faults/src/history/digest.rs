//! The digest of a history: of each transaction, what it needs of other ones and what it leaves;
//! and the reads that are wrong by themselves.

use std::collections::HashMap;

use super::anomaly::{Anomaly, Violation};
use super::model::{By, Cell, History, Key, Operation, Outcome, Range, Seen, Transaction};

/// A condition that a version of a key has to meet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Want {
    Cell(Cell),
    Present,
    Absent,
    /// The row is not in a range that was scanned.
    Outside(Range),
}

impl Want {
    pub(super) fn is(&self, key: Key, cell: Option<Cell>) -> bool {
        match self {
            Self::Cell(wanted) => cell == Some(*wanted),
            Self::Present => cell.is_some(),
            Self::Absent => cell.is_none(),
            Self::Outside(range) => cell.is_none_or(|cell| !range.has(key, cell)),
        }
    }

    /// Returns true if no version can be both.
    fn excludes(&self, other: &Self, key: Key) -> bool {
        match (self, other) {
            (Self::Cell(cell), other) | (other, Self::Cell(cell)) => !other.is(key, Some(*cell)),
            (Self::Absent, Self::Present) | (Self::Present, Self::Absent) => true,
            _ => false,
        }
    }
}

/// A read of a key that the transaction had not written.
#[derive(Debug)]
pub(super) struct Read {
    /// The number of the key.
    pub(super) key: usize,
    /// All of these.
    pub(super) wants: Vec<Want>,
    /// A scan has shown it, or not shown it.
    scanned: bool,
}

impl Read {
    /// Returns whether all that is known is that no scan showed it.
    pub(super) fn is_predicate(&self) -> bool {
        self.wants.iter().all(|want| matches!(want, Want::Outside(_)))
    }

    pub(super) fn cell(&self) -> Option<Cell> {
        self.wants
            .iter()
            .find_map(|want| if let Want::Cell(cell) = want { Some(*cell) } else { None })
    }
}

/// One transaction that counts.
#[derive(Debug)]
pub(super) struct Actor {
    /// Its number in the history. What a crash has left has the number after the last.
    pub(super) number: usize,
    /// The session, for people.
    pub(super) session: usize,
    pub(super) begin: u64,
    /// `u64::MAX` if it has not ended.
    pub(super) end: u64,
    /// True if it was promised to be durable before the crash.
    pub(super) durable: bool,
    /// The engine's own number.
    pub(super) order: Option<u64>,
    pub(super) reads: Vec<Read>,
    /// The cells that it leaves, by number of key.
    pub(super) writes: Vec<(usize, Option<Cell>)>,
}

/// The writer of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrote {
    /// The number in the history; `None` if it was there before.
    pub(super) by: Option<usize>,
    key: Key,
    cell: Cell,
    /// The writer left it there.
    last: bool,
}

/// All keys and values of a history.
#[derive(Debug)]
pub(super) struct Index {
    /// The keys, in order.
    pub(super) keys: Vec<Key>,
    pub(super) wrote: HashMap<u64, Wrote>,
    pub(super) initial: HashMap<Key, Cell>,
}

impl Index {
    pub(super) fn of(history: &History, contents: &[(Key, Cell)]) -> Result<Self, Box<Violation>> {
        let mut keys: Vec<Key> =
            history.initial.iter().chain(contents).map(|(key, _)| *key).collect();
        let mut wrote = HashMap::new();
        for (key, cell) in &history.initial {
            wrote.insert(cell.value, Wrote { by: None, key: *key, cell: *cell, last: true });
        }
        let mut twice = None;
        for (number, transaction) in history.transactions.iter().enumerate() {
            let mut last: HashMap<Key, u64> = HashMap::new();
            for operation in &transaction.operations {
                match operation {
                    Operation::Read { key, .. } => keys.push(*key),
                    Operation::Scan { saw, .. } => keys.extend(saw.iter().map(|(key, _)| *key)),
                    Operation::Write { key, cell } => {
                        keys.push(*key);
                        if let Some(before) = last.remove(key).and_then(|v| wrote.get_mut(&v)) {
                            before.last = false;
                        }
                        let Some(cell) = cell else { continue };
                        last.insert(*key, cell.value);
                        let one = Wrote { by: Some(number), key: *key, cell: *cell, last: true };
                        if wrote.insert(cell.value, one).is_some() {
                            twice = Some((cell.value, number));
                        }
                    }
                }
            }
        }
        if let Some((value, number)) = twice {
            let step = format!("the value {value}, by T{number} and before");
            return Err(Violation::of_one(Anomaly::SameValueTwice, step));
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(Self { keys, wrote, initial: history.initial.iter().copied().collect() })
    }

    pub(super) fn number(&self, key: Key) -> usize {
        self.keys.binary_search(&key).expect("all keys are known")
    }

    /// The numbers of the keys that a scan may show.
    fn covered(&self, range: &Range) -> std::ops::Range<usize> {
        match range.by {
            By::Tag => 0..self.keys.len(),
            By::Key => {
                let from = self.keys.partition_point(|key| (*key, 0) < range.low);
                let to = self.keys.partition_point(|key| (*key, 0) <= range.high);
                from..to.max(from)
            }
        }
    }
}

/// The ends of transactions, as far as they are known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Known {
    Committed,
    Aborted,
    Perhaps,
}

impl Known {
    /// Returns what was known of a transaction's end before `at`.
    pub(super) fn before(transaction: &Transaction, at: u64) -> Self {
        match transaction.outcome {
            Outcome::Aborted => Self::Aborted,
            Outcome::Committed if transaction.end.is_some_and(|end| end < at) => Self::Committed,
            _ => Self::Perhaps,
        }
    }
}

/// Digests one transaction.
pub(super) struct Digester<'a> {
    pub(super) index: &'a Index,
    pub(super) known: &'a [Known],
    /// The transactions that were in flight and were seen.
    pub(super) seen: Vec<usize>,
    name: String,
    is_crash: bool,
    own: HashMap<usize, Option<Cell>>,
    order_of_writes: Vec<usize>,
    reads: Vec<Read>,
    read_of: HashMap<usize, usize>,
    /// Two reads that do not go together; what else is wrong is said first.
    conflict: Option<Box<Violation>>,
}

type Checked = Result<(), Box<Violation>>;

impl<'a> Digester<'a> {
    pub(super) fn new(index: &'a Index, known: &'a [Known]) -> Self {
        Self {
            index,
            known,
            seen: Vec::new(),
            name: String::new(),
            is_crash: false,
            own: HashMap::new(),
            order_of_writes: Vec::new(),
            reads: Vec::new(),
            read_of: HashMap::new(),
            conflict: None,
        }
    }

    /// Digests transaction `number`; `is_crash` if it stands for what a crash has left.
    pub(super) fn digest(
        &mut self,
        number: usize,
        transaction: &Transaction,
        is_crash: bool,
    ) -> Result<Actor, Box<Violation>> {
        self.name = name(number, transaction.session, is_crash);
        self.is_crash = is_crash;
        self.own.clear();
        self.order_of_writes.clear();
        self.read_of.clear();
        for operation in &transaction.operations {
            match operation {
                Operation::Read { key, saw } => self.read(*key, *saw)?,
                Operation::Scan { range, saw } => self.scan(range, saw)?,
                Operation::Write { key, cell } => {
                    let key = self.index.number(*key);
                    if self.own.insert(key, *cell).is_none() {
                        self.order_of_writes.push(key);
                    }
                }
            }
        }
        if let Some(conflict) = self.conflict.take() {
            return Err(conflict);
        }
        let own = &self.own;
        Ok(Actor {
            number,
            session: transaction.session,
            begin: transaction.begin,
            end: transaction.end.unwrap_or(u64::MAX),
            durable: false,
            order: transaction.order,
            reads: std::mem::take(&mut self.reads),
            writes: self.order_of_writes.iter().map(|key| (*key, own[key])).collect(),
        })
    }

    fn wrong(&self, anomaly: Anomaly, what: impl std::fmt::Display) -> Box<Violation> {
        Violation::of_one(anomaly, format!("{} {what}", self.name))
    }

    fn read(&mut self, key: Key, saw: Seen) -> Checked {
        let number = self.index.number(key);
        let want = match saw {
            Seen::Absent => Want::Absent,
            Seen::Present => Want::Present,
            Seen::Cell(cell) => Want::Cell(cell),
        };
        match self.own.get(&number) {
            Some(own) if want.is(key, *own) => Ok(()),
            Some(own) => Err(self.own_unseen(key, *own, &want)),
            None => self.want(number, want, false),
        }
    }

    fn scan(&mut self, range: &Range, saw: &[(Key, Cell)]) -> Checked {
        let mut shown = HashMap::new();
        for (key, cell) in saw {
            if !range.has(*key, *cell) {
                let what = format!("scanned {range:?} and saw {cell:?} of key {key}");
                return Err(self.wrong(Anomaly::Fabricated, what));
            }
            if shown.insert(self.index.number(*key), *cell).is_some() {
                return Err(self.wrong(Anomaly::Fabricated, format!("scanned key {key} twice")));
            }
        }
        let covered = self.index.covered(range);
        for number in covered {
            let key = self.index.keys[number];
            let want = shown.get(&number).map_or(Want::Outside(*range), |cell| Want::Cell(*cell));
            match self.own.get(&number) {
                Some(own) if want.is(key, *own) => {}
                Some(own) => return Err(self.own_unseen(key, *own, &want)),
                None => self.want(number, want, true)?,
            }
        }
        Ok(())
    }

    fn own_unseen(&self, key: Key, own: Option<Cell>, want: &Want) -> Box<Violation> {
        let what = format!("wrote {own:?} to key {key} and then saw {want:?}");
        self.wrong(Anomaly::OwnWriteUnseen, what)
    }

    fn want(&mut self, number: usize, want: Want, scanned: bool) -> Checked {
        let key = self.index.keys[number];
        if let Want::Cell(cell) = want {
            self.check_value(key, cell)?;
        }
        let Some(at) = self.read_of.get(&number).copied() else {
            self.read_of.insert(number, self.reads.len());
            self.reads.push(Read { key: number, wants: vec![want], scanned });
            return Ok(());
        };
        let before = &self.reads[at].wants;
        if let Some(other) = before.iter().find(|other| other.excludes(&want, key)) {
            // A row has come into a range that was scanned, or has gone out of it.
            let gone = |want: &Want| matches!(want, Want::Outside(_) | Want::Absent);
            let phantom = (scanned || self.reads[at].scanned) && (gone(&want) || gone(other));
            let anomaly = if phantom { Anomaly::Phantom } else { Anomaly::NonRepeatableRead };
            let what = format!("saw of key {key} first {other:?} and then {want:?}");
            let found = self.wrong(anomaly, what);
            self.conflict.get_or_insert(found);
        } else if !before.contains(&want) {
            self.reads[at].wants.push(want);
        }
        self.reads[at].scanned |= scanned;
        Ok(())
    }

    /// A value identifies its writer.
    fn check_value(&mut self, key: Key, cell: Cell) -> Checked {
        let described = |what: &str| format!("read {cell:?} of key {key}, {what}");
        let Some(wrote) = self.index.wrote.get(&cell.value) else {
            return Err(
                self.wrong(Anomaly::Fabricated, described("which no transaction has written"))
            );
        };
        if wrote.key != key || wrote.cell != cell {
            let what = format!("but {:?} was written to key {}", wrote.cell, wrote.key);
            return Err(self.wrong(Anomaly::Fabricated, described(&what)));
        }
        let Some(by) = wrote.by else { return Ok(()) };
        if self.known[by] == Known::Aborted {
            let what = format!("which T{by} had written, and T{by} aborted");
            return Err(self.wrong(Anomaly::AbortedRead, described(&what)));
        }
        if !wrote.last {
            let anomaly = if self.is_crash { Anomaly::Torn } else { Anomaly::IntermediateRead };
            let what = format!("which T{by} had written and then replaced itself");
            return Err(self.wrong(anomaly, described(&what)));
        }
        if self.known[by] == Known::Perhaps {
            self.seen.push(by);
        }
        Ok(())
    }
}

/// A transaction's name, for people.
pub(super) fn name(number: usize, session: usize, is_crash: bool) -> String {
    if is_crash { "the recovered state".into() } else { format!("T{number} (thread {session})") }
}
