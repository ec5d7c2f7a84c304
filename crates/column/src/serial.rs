//! Serializable transactions, by backward validation: at its commit a transaction looks again at all that
//! it has read, and goes on only if nobody has changed it since its snapshot (P4 is silent; it runs at
//! snapshot isolation).
//!
//! 1. The commit takes its number, and waits until every number before it is published. What comes later
//!    has a higher number, so it is behind this transaction in the order of commits.
//! 2. Every key and range that was read is looked at twice: as the snapshot shows it, and as the commit
//!    before this one shows it. A row that is another version, or is missing in one of them, is a
//!    [`crate::ColumnError::Conflict`]; the number is void then, and published all the same.
//!
//! So a serializable transaction that changes something has seen what it would see if it ran alone at the
//! moment of its commit. One that only reads sees a snapshot, which is such a moment. What the transaction
//! itself has changed nobody else could change: the first one to change a row wins.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};

use pm::Memory;

use crate::Result;
use crate::keys::Key;
use crate::secondary::KeyRange;
use crate::store::Shared;
use crate::value::{Field, Value};
use crate::version::{Rest, Sight};

/// Everything that a transaction has read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reads {
    /// The values of the key's columns, by table and key.
    keys: HashMap<(usize, Vec<u8>), Vec<Field>>,
    /// Table, index and range.
    ranges: Vec<(usize, usize, KeyRange)>,
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
        let same = |(table_too, index_too, other): &(usize, usize, KeyRange)| {
            (*table_too, *index_too) == (table, index) && *other == range
        };
        if !self.ranges.iter().any(same) {
            self.ranges.push((table, index, range));
        }
    }
}

impl<M: Memory> Shared<M> {
    /// Returns whether all that was read in the snapshot `from` is the same in the snapshot `to`.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn is_unchanged(&self, reads: &Reads, from: u64, to: u64) -> Result<bool> {
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
        for (number, index, range) in &reads.ranges {
            let (table, index) = (self.table(*number)?, *index);
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
