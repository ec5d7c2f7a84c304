//! Serializable transactions, by backward validation: at its commit a transaction looks again at all that
//! it has read, and goes on only if nobody has changed it since its snapshot (P4 is silent; it runs at
//! snapshot isolation).
//!
//! 1. Every key and range that was read is looked at twice: as the snapshot shows it, and as the last commit
//!    shows it. A row that is another version, or is missing in one of them, is [`ColumnError::Outdated`].
//!    Others commit meanwhile, and leave which rows they change ([`crate::watch`]).
//! 2. As long as many have done so, their rows are looked at: one that is among what was read leads to step 1
//!    again, for those commits.
//! 3. The commit takes its number, and waits until every number before it is published. What comes later
//!    has a higher number, so it is behind this transaction in the order of commits; it waits for this one.
//! 4. The few commits that are left are looked at, as in step 2. If something has changed, the number is void, and
//!    published all the same.
//!
//! So a serializable transaction that changes something has seen what it would see if it ran alone at the
//! moment of its commit. One that only reads sees a snapshot, which is such a moment. What the transaction
//! itself has changed nobody else could change: the first one to change a row wins.

use std::collections::{HashMap, HashSet};
use std::ops::{Bound, ControlFlow};

use pm::Memory;

use crate::Result;
use crate::error::ColumnError;
use crate::keys::Key;
use crate::secondary::KeyRange;
use crate::slots::Statement;
use crate::store::Shared;
use crate::value::{Field, Value};
use crate::version::{Rest, Sight};
use crate::watch::Watch;

/// Everything that a transaction has read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reads {
    /// The values of the key's columns, by table and key.
    keys: HashMap<(usize, Vec<u8>), Vec<Field>>,
    /// The ranges of each index, by table and index.
    ranges: HashMap<(usize, usize), HashSet<KeyRange>>,
}

/// Everything that a transaction has read, while no session has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Kept {
    /// It is not serializable: nobody asks.
    #[default]
    None,
    /// This.
    Here(Reads),
    /// It was in a process that is gone.
    Forgotten,
}

impl Reads {
    /// Adds a row that was sought, and found or not.
    pub(crate) fn add_key(&mut self, table: usize, key: &Key<'_>) {
        let values = || key.values.iter().map(|value| (*value).into()).collect();
        self.keys.entry((table, key.bytes.to_vec())).or_insert_with(values);
    }

    /// Adds a range that was read, as far as `last`, if it was not read to its end.
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

/// Commits that are left to be looked at while others wait.
const FEW: u64 = 16;
/// Times that the last commits are looked at before that.
const MOST_ROUNDS: u32 = 64;

impl<M: Memory> Shared<M> {
    /// Takes a number for a commit: what was read in the snapshot `from` is what the commits before it have left.
    ///
    /// # Errors
    /// [`ColumnError::Outdated`]; damage.
    pub(crate) fn validate(&self, reads: &Reads, from: u64) -> Result<u64> {
        let watch = self.watched.watch(&self.clock);
        let mut upto = watch.from;
        self.clock.wait_for(upto);
        if !self.is_unchanged(reads, from, upto)? {
            return Err(ColumnError::Outdated);
        }
        for _ in 0..MOST_ROUNDS {
            let now = self.clock.now();
            if now - upto <= FEW {
                break;
            }
            self.look_at_commits(reads, &watch, (upto, now))?;
            upto = now;
        }
        let number = self.clock.take();
        self.clock.wait_before(number);
        if let Err(error) = self.look_at_commits(reads, &watch, (upto, number - 1)) {
            self.clock.publish(number);
            return Err(error);
        }
        Ok(number)
    }

    /// Checks that the commits behind `from`, up to `to`, have changed nothing that was read.
    fn look_at_commits(
        &self,
        reads: &Reads,
        watch: &Watch<'_>,
        (from, to): (u64, u64),
    ) -> Result<()> {
        let apart = match watch.between(from, to) {
            Some(statements) => !self.is_touched(reads, &statements)?,
            None => false,
        };
        if apart || self.is_unchanged(reads, from, to)? {
            Ok(())
        } else {
            Err(ColumnError::Outdated)
        }
    }

    /// Returns whether one of the statements is about something that was read.
    fn is_touched(&self, reads: &Reads, statements: &[Statement]) -> Result<bool> {
        for Statement { table: number, old, new, .. } in statements {
            let number = usize::from(*number);
            let table = self.table(number)?;
            for row in [*old, *new].into_iter().filter(|row| *row != 0) {
                if reads.keys.contains_key(&(number, table.key(row, 0)?.bytes)) {
                    return Ok(true);
                }
                for index in 0..table.indexes.len() {
                    let Some(ranges) = reads.ranges.get(&(number, index)) else { continue };
                    let key = table.key(row, index)?.bytes;
                    if ranges.iter().any(|range| range.contains(&key)) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Returns whether all that was read in the snapshot `from` is the same in the snapshot `to`.
    ///
    /// # Errors
    /// Damage.
    fn is_unchanged(&self, reads: &Reads, from: u64, to: u64) -> Result<bool> {
        if from == to {
            return Ok(true);
        }
        // A mark of the transaction itself is like that of any other one that is open.
        let [before, after] = [from, to].map(|snapshot| Sight { mark: 0, snapshot, replay: None });
        for ((number, bytes), values) in &reads.keys {
            let table = self.table(*number)?;
            let values: Vec<Value<'_>> = values.iter().map(Field::value).collect();
            let newest = self.newest(table, &Key::new(bytes, &values))?;
            if self.seen(table, newest, &before)? != self.seen(table, newest, &after)? {
                return Ok(false);
            }
        }
        for (number, index, range) in reads.ranges() {
            let table = self.table(number)?;
            let (mut rest, mut unchanged) = (Rest::default(), true);
            self.for_each_key(table, index, range.clone(), |key, hint| {
                let mut at = |sight: &Sight<'_>| match index {
                    0 => self.seen(table, hint, sight),
                    _ => self.seen_by_index(table, (index, key, hint), sight, &mut rest),
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
