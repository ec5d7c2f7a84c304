//! Serializable transactions, by backward validation: at its commit a transaction checks again everything that it
//! has read, and commits only if no other one has changed that since its snapshot (P4 is silent; it runs at
//! snapshot isolation).
//!
//! 1. Every key and range that was read is checked twice: as the snapshot shows it, and as the last commit shows
//!    it. If a row is another version, or is missing in one of them, the result is [`ColumnError::Outdated`].
//!    Other transactions commit meanwhile, and leave a list of the rows that they change ([`crate::watch`]).
//! 2. While that list is long, its rows alone are checked. A version that these commits have made or ended is seen
//!    in one of the two snapshots and not in the other, unless they have done both; its keys must not be among
//!    what was read. Checked commits are dropped from the list.
//! 3. The commit takes its number, and waits until every number before it is published. A later commit has a
//!    higher number, so it is after this transaction in the order of commits; it waits for this one.
//! 4. The few rows that are left are checked as in step 2. If one has changed, the number is void, and published
//!    all the same. If they are not few, because a large commit has come between, the number is void, too, and
//!    step 2 follows: no commit waits for more than a few rows.
//!
//! So a serializable transaction that changes something has seen what it would see if it ran alone at the moment
//! of its commit. One that only reads sees a snapshot, which is such a moment. No other transaction could change
//! what the transaction itself has changed: the first one to change a row wins.

use std::collections::{HashMap, HashSet};
use std::ops::{Bound, ControlFlow};

use pm::Memory;

use crate::Result;
use crate::error::ColumnError;
use crate::keys::Key;
use crate::secondary::KeyRange;
use crate::slots::Statement;
use crate::store::Shared;
use crate::sync::FEW;
use crate::table::Table;
use crate::value::{Field, Value};
use crate::version::{ReadView, UnbuiltKeys};
use crate::watch::{CommitStatements, CommitWatch};

/// Everything that a transaction has read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reads {
    /// The values of the key's columns, by table and by key.
    keys: HashMap<usize, HashMap<Vec<u8>, Vec<Field>>>,
    /// The ranges of each index, by table and index.
    ranges: HashMap<(usize, usize), HashSet<KeyRange>>,
}

/// Everything that a transaction has read, while it is detached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum KeptReads {
    /// Nothing: it is not serializable.
    #[default]
    None,
    /// These reads.
    Here(Reads),
    /// Reads of a process that has ended.
    Forgotten,
}

impl Reads {
    /// Adds a key that was looked up, found or not.
    pub(crate) fn add_key(&mut self, table: usize, key: &Key<'_>) {
        let keys = self.keys.entry(table).or_default();
        if !keys.contains_key(&*key.bytes) {
            let values = key.values.iter().map(|value| (*value).into()).collect();
            keys.insert(key.bytes.to_vec(), values);
        }
    }

    /// Adds a range that was read, up to `last` if it was not read to its end.
    pub(crate) fn add_range(
        &mut self,
        table: usize,
        index: usize,
        mut range: KeyRange,
        last: Option<Vec<u8>>,
    ) {
        if let Some(last) = last {
            *(if range.backward { &mut range.low } else { &mut range.high }) =
                Bound::Included(last);
        }
        self.ranges.entry((table, index)).or_default().insert(range);
    }

    fn ranges(&self) -> impl Iterator<Item = (usize, usize, &KeyRange)> {
        let each = self.ranges.iter();
        each.flat_map(|((table, index), ranges)| ranges.iter().map(|range| (*table, *index, range)))
    }
}

/// A place between keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Cut<'k> {
    /// Before a key, or, if this is true, after it.
    At(&'k [u8], bool),
    /// After all keys.
    End,
}

/// Everything that was read, arranged for lookups by key.
pub(crate) struct ReadSet<'r> {
    keys: &'r HashMap<usize, HashMap<Vec<u8>, Vec<Field>>>,
    /// The ranges of each index, by table and index, in order and disjoint.
    ranges: HashMap<(usize, usize), Vec<(Cut<'r>, Cut<'r>)>>,
}

impl<'r> ReadSet<'r> {
    pub(crate) fn new(reads: &'r Reads) -> Self {
        let together = |ranges: &'r HashSet<KeyRange>| together(ranges.iter().map(cuts).collect());
        let ranges = reads.ranges.iter().map(|(of, ranges)| (*of, together(ranges)));
        Self { keys: &reads.keys, ranges: ranges.collect() }
    }

    fn has_range_with(&self, table: usize, index: usize, key: &[u8]) -> bool {
        let Some(ranges) = self.ranges.get(&(table, index)) else { return false };
        let starting = ranges.partition_point(|(low, _)| *low <= Cut::At(key, false));
        starting > 0 && ranges[starting - 1].1 >= Cut::At(key, true)
    }
}

/// The start of a range and its end.
fn cuts(range: &KeyRange) -> (Cut<'_>, Cut<'_>) {
    let low = match &range.low {
        Bound::Unbounded => Cut::At(&[], false),
        Bound::Included(key) => Cut::At(key, false),
        Bound::Excluded(key) => Cut::At(key, true),
    };
    let high = match &range.high {
        Bound::Unbounded => Cut::End,
        Bound::Included(key) => Cut::At(key, true),
        Bound::Excluded(key) => Cut::At(key, false),
    };
    (low, high)
}

/// The same ranges in order; those that touch are merged.
fn together<'k>(mut ranges: Vec<(Cut<'k>, Cut<'k>)>) -> Vec<(Cut<'k>, Cut<'k>)> {
    ranges.retain(|(low, high)| low < high);
    ranges.sort_unstable();
    ranges.dedup_by(|(low, high), (_, last)| {
        let touches = *low <= *last;
        if touches {
            *last = (*high).max(*last);
        }
        touches
    });
    ranges
}

/// The most rounds of step 2.
const MOST_ROUNDS: u32 = 64;

impl<M: Memory> Shared<M> {
    /// Takes a number for a commit whose reads, in the snapshot `from`, are what the commits before it have left.
    /// Returns `statements`, too, read before the number is taken, if there is another watcher by then; and the
    /// watcher of the other commits, to be dropped when the number is published.
    ///
    /// # Errors
    /// [`ColumnError::Outdated`]; damage.
    pub(crate) fn validate(
        &self,
        reads: &Reads,
        from: u64,
        statements: impl Fn() -> CommitStatements,
    ) -> Result<(u64, Option<CommitStatements>, CommitWatch<'_>)> {
        let mut watch = self.watched.watch(&self.clock);
        self.clock.wait_for(watch.from);
        if !self.is_unchanged(reads, from, watch.from)? {
            return Err(ColumnError::Outdated);
        }
        let read_set = ReadSet::new(reads);
        let (mut rounds, mut for_watchers) = (0, None);
        loop {
            rounds += 1;
            let are_many = |watch: &CommitWatch<'_>, now| {
                rounds < MOST_ROUNDS && watch.has_more_than(FEW, (watch.from, now))
            };
            let now = self.clock.now();
            if are_many(&watch, now) {
                self.look_at_commits((reads, &read_set), &watch, now)?;
                watch.go_on_from(now);
                continue;
            }
            // As late as possible, but before the number: other commits wait for that.
            for_watchers = for_watchers.or_else(|| watch.for_watchers(&statements));
            let number = self.clock.take();
            self.clock.wait_before(number);
            if are_many(&watch, number - 1) {
                self.clock.publish(number);
                continue;
            }
            return match self.look_at_commits((reads, &read_set), &watch, number - 1) {
                Ok(()) => {
                    watch.stop();
                    Ok((number, for_watchers, watch))
                }
                Err(error) => {
                    self.clock.publish(number);
                    Err(error)
                }
            };
        }
    }

    /// Checks that the watched commits, up to `to`, have changed nothing that was read.
    fn look_at_commits(
        &self,
        (reads, read_set): (&Reads, &ReadSet<'_>),
        watch: &CommitWatch<'_>,
        to: u64,
    ) -> Result<()> {
        let from = watch.from;
        let is_changed = match watch.between(from, to) {
            Some(commits) => {
                let mut statements = commits.iter().flat_map(|statements| statements.iter());
                statements.try_fold(false, |changed, statement| {
                    Ok::<_, ColumnError>(
                        changed || self.is_changed(read_set, statement, (from, to))?,
                    )
                })?
            }
            None => !self.is_unchanged(reads, from, to)?,
        };
        if is_changed { Err(ColumnError::Outdated) } else { Ok(()) }
    }

    /// Returns whether another transaction's statement has changed what the read set holds: whether it made or
    /// ended a version that lies in what was read, and that only one of the snapshots `from` and `to` sees.
    pub(crate) fn is_changed(
        &self,
        read_set: &ReadSet<'_>,
        statement: &Statement,
        (from, to): (u64, u64),
    ) -> Result<bool> {
        let number = usize::from(statement.table);
        let table = self.table(number)?;
        for row in [statement.old, statement.new].into_iter().filter(|row| *row != 0) {
            if self.is_seen(table, row, from)? == self.is_seen(table, row, to)? {
                continue;
            }
            if let Some(keys) = read_set.keys.get(&number)
                && keys.contains_key(&table.key(row, 0)?.bytes)
            {
                return Ok(true);
            }
            for index in 0..table.indexes.len() {
                if read_set.ranges.contains_key(&(number, index))
                    && read_set.has_range_with(number, index, &table.key(row, index)?.bytes)
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns whether a snapshot sees this version, of a published commit.
    fn is_seen(&self, table: &Table<M>, row: u64, snapshot: u64) -> Result<bool> {
        // Only a version that has begun by then: otherwise those before it would be searched.
        Ok(self.has_begun(table, row, snapshot)?
            && self.seen(table, row, &view_of(snapshot))? == Some(row))
    }

    /// Returns whether everything that was read in the snapshot `from` is the same in the snapshot `to`.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn is_unchanged(&self, reads: &Reads, from: u64, to: u64) -> Result<bool> {
        if from == to {
            return Ok(true);
        }
        let [before, after] = [from, to].map(view_of);
        for (number, keys) in &reads.keys {
            let table = self.table(*number)?;
            for (bytes, values) in keys {
                let values: Vec<Value<'_>> = values.iter().map(Field::value).collect();
                let newest = self.newest(table, &Key::new(bytes, &values))?;
                if self.seen(table, newest, &before)? != self.seen(table, newest, &after)? {
                    return Ok(false);
                }
            }
        }
        for (number, index, range) in reads.ranges() {
            let table = self.table(number)?;
            let (mut rest, mut unchanged) = (UnbuiltKeys::default(), true);
            self.for_each_key(table, index, range.clone(), |key, hint| {
                let mut at = |view: &ReadView<'_>| match index {
                    0 => self.seen(table, hint, view),
                    _ => self.seen_by_index(table, (index, key, hint), view, (&mut rest, &mut 0)),
                };
                unchanged = at(&before)? == at(&after)?;
                Ok(if unchanged { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
            if !unchanged {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The view of a snapshot. The transaction's own mark counts as that of another open one.
fn view_of(snapshot: u64) -> ReadView<'static> {
    ReadView { mark: 0, snapshot, replay: None }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn bound(random: &mut SmallRng) -> Bound<Vec<u8>> {
        let key = vec![random.random_range(1..4); random.random_range(0..4)];
        match random.random_range(0..5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }

    /// All keys of up to three bytes, of five different ones.
    fn keys() -> Vec<Vec<u8>> {
        let mut keys = vec![vec![]];
        for length in 0..3 {
            let longest: Vec<_> = keys.iter().filter(|key| key.len() == length).cloned().collect();
            for key in longest {
                keys.extend((0..5).map(|byte| [&key[..], &[byte]].concat()));
            }
        }
        keys
    }

    #[test]
    fn a_key_is_in_the_ranges_together_if_it_is_in_one_of_them() {
        let (keys, mut inside) = (keys(), [0, 0]);
        for seed in 0..2_000 {
            let mut random = SmallRng::seed_from_u64(seed);
            let mut reads = Reads::default();
            for _ in 0..random.random_range(0..5) {
                let [low, high] = [bound(&mut random), bound(&mut random)];
                reads.add_range(3, 1, KeyRange { low, high, backward: random.random() }, None);
            }
            let read_set = ReadSet::new(&reads);
            for key in &keys {
                let expected = reads.ranges().any(|(.., range)| range.contains(key));
                inside[usize::from(expected)] += 1;
                assert_eq!(read_set.has_range_with(3, 1, key), expected, "seed {seed}, {key:?}");
                assert!(!read_set.has_range_with(3, 0, key));
            }
        }
        assert!(inside.into_iter().all(|count| count > 10_000), "{inside:?}");
    }
}
