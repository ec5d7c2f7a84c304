//! Versions of a key: which of them a transaction sees, and which it may replace.
//!
//! A version is seen if the transaction made it, or it was committed up to its snapshot, and if its end
//! was not. Marks of open transactions do not count for others, nor do those of transactions that are
//! over without a stamp.

use std::sync::atomic::Ordering::Acquire;

use pm::{Memory, Off};

use crate::Result;
use crate::error::ColumnError;
use crate::replay::Replay;
use crate::secondary::KeyIndex;
use crate::slots::Fate;
use crate::stamps::{is_mark, visible};
use crate::store::Shared;
use crate::table::Table;
use crate::value::Value;

/// A transaction's view: its own mark (zero: it has changed nothing), and its snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    pub(crate) mark: u64,
    pub(crate) snapshot: u64,
    /// A transaction that is replayed sees of its own what it has come to.
    pub(crate) replay: Option<&'a Replay>,
}

/// The meaning of a stamp for a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meaning {
    /// It does not count: it was never set, or its transaction is over without a commit.
    Nothing,
    /// The transaction's own.
    Own,
    /// Another open transaction's.
    Open,
    /// A commit's.
    At(u64),
}

/// The newest version of a key, for whoever wants to replace it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Newest {
    /// A row.
    Live(u64),
    /// The key has none; what comes next is made behind this version, or zero.
    Absent(u64),
}

impl<M: Memory> Shared<M> {
    fn meaning(&self, at: Off<u64>, own: u64) -> Result<Meaning> {
        let mut stamp = self.memory.load(at, Acquire)?;
        loop {
            if !is_mark(stamp) {
                return Ok(if stamp == 0 { Meaning::Nothing } else { Meaning::At(stamp) });
            }
            if stamp == own {
                return Ok(Meaning::Own);
            }
            match self.slots.fate(stamp) {
                Fate::Open => return Ok(Meaning::Open),
                Fate::Committed(number) => return Ok(Meaning::At(number)),
                Fate::Over => {}
            }
            // Its stamp was stored before the slot went on.
            let again = self.memory.load(at, Acquire)?;
            if again == stamp {
                return Ok(Meaning::Nothing);
            }
            stamp = again;
        }
    }

    /// The newest version of a key that may count: from the index, or from the rows that are not in it
    /// yet.
    pub(crate) fn newest(&self, table: &Table<M>, key: &[u8], value: Value<'_>) -> Result<u64> {
        let (hit, unbuilt) = {
            let keys: &KeyIndex = &table.keys.read();
            (keys.get(key), keys.unbuilt)
        };
        if let Some(row) = hit {
            return Ok(row);
        }
        if unbuilt <= 1 {
            return Ok(0);
        }
        let id = match value {
            Value::Word(0) | Value::Bytes(&[]) => 0,
            _ => match table.columns[0].find(value)? {
                Some(id) => id,
                None => return Ok(0),
            },
        };
        for row in (1..unbuilt).rev() {
            if table.has_key_id(row, id)? && self.counts(table, row)? {
                return Ok(row);
            }
        }
        Ok(0)
    }

    /// The version that the transaction sees, of those from `newest` back.
    pub(crate) fn seen(
        &self,
        table: &Table<M>,
        newest: u64,
        sight: &Sight<'_>,
    ) -> Result<Option<u64>> {
        let mut row = newest;
        while row != 0 {
            let place = table.place(row)?;
            let (begin, end) = (
                self.memory.load(place.begin(), Acquire)?,
                self.memory.load(place.end(), Acquire)?,
            );
            if !is_mark(begin) && !is_mark(end) && visible(begin, end, sight.snapshot) {
                return Ok(Some(row));
            }
            let begun = match self.meaning(place.begin(), sight.mark)? {
                Meaning::Own => sight.replay.is_none_or(|replay| replay.has_made(table.at, row)),
                Meaning::At(number) => number <= sight.snapshot,
                Meaning::Open | Meaning::Nothing => false,
            };
            if begun {
                let ended = match self.meaning(place.end(), sight.mark)? {
                    Meaning::Own => {
                        sight.replay.is_none_or(|replay| replay.has_ended(table.at, row))
                    }
                    Meaning::At(number) => number <= sight.snapshot,
                    Meaning::Open | Meaning::Nothing => false,
                };
                return Ok((!ended).then_some(row));
            }
            row = table.prev(row)?;
        }
        Ok(None)
    }

    /// The newest version of a key, for a transaction that has the key's stripe: the first one that
    /// changes it wins.
    pub(crate) fn to_replace(
        &self,
        table: &Table<M>,
        newest: u64,
        sight: &Sight<'_>,
    ) -> Result<Newest> {
        let mut row = newest;
        while row != 0 {
            let place = table.place(row)?;
            match self.meaning(place.begin(), sight.mark)? {
                Meaning::Open => return Err(ColumnError::Conflict),
                Meaning::At(number) if number > sight.snapshot => {
                    return Err(ColumnError::Conflict);
                }
                Meaning::Nothing => {
                    row = table.prev(row)?;
                    continue;
                }
                Meaning::Own | Meaning::At(_) => {}
            }
            return match self.meaning(place.end(), sight.mark)? {
                Meaning::Open => Err(ColumnError::Conflict),
                Meaning::At(number) if number > sight.snapshot => Err(ColumnError::Conflict),
                Meaning::Own | Meaning::At(_) => Ok(Newest::Absent(row)),
                Meaning::Nothing => Ok(Newest::Live(row)),
            };
        }
        Ok(Newest::Absent(0))
    }

    /// Returns whether a row that was there when the store was opened may be in an index: it was
    /// committed, or is in an entry of a transaction that was in flight then. Others may be torn.
    pub(crate) fn counts(&self, table: &Table<M>, row: u64) -> Result<bool> {
        let begin = self.memory.load(table.place(row)?.begin(), Acquire)?;
        Ok(match begin {
            0 => false,
            stamp if !is_mark(stamp) => true,
            mark => self.recovered.get(&mark).is_some_and(|rows| rows.contains(&(table.at, row))),
        })
    }
}
