//! Versions of a key: which one a transaction sees, and which one it may replace.
//!
//! A transaction sees a version if it made it, or if it was committed up to its snapshot, and its end was not.
//! Marks of other open transactions are ignored, and so are those of transactions that are over without a stamp.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Acquire;

use pm::{Memory, Off};

use crate::Result;
use crate::error::ColumnError;
use crate::keys::{IndexKey, Key};
use crate::replay::Replay;
use crate::secondary::KeyRange;
use crate::slots::Outcome;
use crate::stamps::{is_mark, visible};
use crate::store::Shared;
use crate::table::Table;

/// The view of a transaction: its own mark (zero if it has changed nothing), and its snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadView<'a> {
    pub(crate) mark: u64,
    pub(crate) snapshot: u64,
    /// A replayed transaction sees its own changes up to the statement that it has come to.
    pub(crate) replay: Option<&'a Replay>,
}

/// The meaning of a stamp for a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meaning {
    /// Nothing: the stamp was never set, or its transaction is over without a commit.
    Nothing,
    /// The transaction's own.
    Own,
    /// Another open transaction's.
    Open,
    /// A commit's.
    At(u64),
}

/// The newest versions of primary keys among the rows that the primary index lacks. A scan of a secondary index
/// gathers them when it first needs them.
#[derive(Default, Debug)]
pub(crate) struct UnbuiltKeys(Option<BTreeMap<Vec<u8>, u64>>);

/// The newest version of a key, for a statement that wants to replace it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Newest {
    /// A row.
    Live(u64),
    /// The key has no row; a new version is made after this one, or zero.
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
            match self.slots.outcome(stamp) {
                Outcome::Open => return Ok(Meaning::Open),
                Outcome::Committed(number) => return Ok(Meaning::At(number)),
                Outcome::Over => {}
            }
            // Its stamp was stored before the slot began another transaction.
            let again = self.memory.load(at, Acquire)?;
            if again == stamp {
                return Ok(Meaning::Nothing);
            }
            stamp = again;
        }
    }

    /// Returns the newest version of a key that may count: from the index, or from the rows that are not in it
    /// yet.
    pub(crate) fn newest(&self, table: &Table<M>, key: &Key<'_>) -> Result<u64> {
        let (hit, unbuilt) = Self::hit(table, &key.bytes)?;
        if unbuilt <= 1 || hit != 0 && self.is_last(table, hit)? {
            return Ok(hit);
        }
        let mut newest = hit;
        let mut visit = |row| -> Result<ControlFlow<()>> {
            if newest != 0 && !self.is_newer(table, row, newest)? {
                return Ok(ControlFlow::Continue(()));
            }
            newest = row;
            let is_last = self.is_last(table, row)?;
            Ok(if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        if !table.keys.is_exact(table.number) {
            self.each_with_key(table, &key.bytes, unbuilt, visit)?;
            return Ok(newest);
        }
        let mut ids = Vec::with_capacity(key.values.len());
        for (column, value) in table.key_columns().iter().zip(&*key.values) {
            match table.columns[*column].find(*value)? {
                Some(id) => ids.push(id),
                None => return Ok(hit),
            }
        }
        table.each_unbuilt(&ids, unbuilt, |row| match self.counts(table, row)? {
            true => visit(row),
            false => Ok(ControlFlow::Continue(())),
        })?;
        Ok(newest)
    }

    /// Calls `visit` with the rows below `unbuilt` that have a primary key, the last row first.
    fn each_with_key(
        &self,
        table: &Table<M>,
        primary: &[u8],
        unbuilt: u64,
        mut visit: impl FnMut(u64) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut looked = 0;
        for row in (1..unbuilt).rev() {
            looked += 1;
            // A row that does not count may be torn.
            let has_key = self.counts(table, row)? && table.key(row, 0)?.bytes == *primary;
            if has_key && visit(row)?.is_break() {
                break;
            }
        }
        table.indexes[0].read().backlog.add_keys(looked);
        Ok(())
    }

    /// The newest version of a primary key that was found in a secondary index.
    fn newest_of(&self, table: &Table<M>, primary: &[u8], rest: &mut UnbuiltKeys) -> Result<u64> {
        let (hit, unbuilt) = Self::hit(table, primary)?;
        if unbuilt <= 1 || hit != 0 && self.is_last(table, hit)? {
            return Ok(hit);
        }
        let rest = match &mut rest.0 {
            Some(rest) => rest,
            none => none.insert(self.unbuilt_keys(table, 0, &KeyRange::ALL)?),
        };
        // After the gathering: rows that came into the index meanwhile are in both.
        let (hit, _) = Self::hit(table, primary)?;
        match rest.get(primary) {
            Some(row) if hit != 0 => self.newer(table, *row, hit),
            Some(row) => Ok(*row),
            None => Ok(hit),
        }
    }

    /// The version that the primary index has of a key, or zero; and how many rows are not built yet.
    fn hit(table: &Table<M>, primary: &[u8]) -> Result<(u64, u64)> {
        let keys = table.indexes[0].read();
        Ok((keys.get(primary)?.unwrap_or(0), keys.unbuilt))
    }

    /// Returns whether a version is the newest one of its key, while indexes are built: it was made since the
    /// opening, or no commit has ended it.
    pub(crate) fn is_last(&self, table: &Table<M>, row: u64) -> Result<bool> {
        let ended = || self.meaning(table.place(row)?.end(), 0);
        Ok(row >= table.ids.opened || !matches!(ended()?, Meaning::At(_)))
    }

    /// Returns whether a version of a key is newer than another one, both there when the store was opened. Of
    /// versions that one commit has both made and ended, neither is newer: no snapshot sees them, and the version
    /// in front of them has another number. It looks at no other version, since a transaction may have made any
    /// number of them.
    pub(crate) fn is_newer(&self, table: &Table<M>, row: u64, than: u64) -> Result<bool> {
        // Before the stamps, which change when such a transaction ends.
        let in_one = self
            .recovered
            .values()
            .find_map(|rows| Some((rows.get(&(table.at, row))?, rows.get(&(table.at, than))?)));
        if let Some((statement, other)) = in_one {
            return Ok(statement > other);
        }
        let begun = |row| -> Result<u64> {
            Ok(match self.meaning(table.place(row)?.begin(), 0)? {
                Meaning::Nothing => 0,
                Meaning::At(number) => number,
                Meaning::Open | Meaning::Own => u64::MAX,
            })
        };
        let (number, other) = (begun(row)?, begun(than)?);
        if number != other {
            return Ok(number > other);
        }
        // One transaction has made both, and ended all of its versions but the last one, or that, too.
        let end = self.meaning(table.place(row)?.end(), 0)?;
        Ok(number != 0 && end != Meaning::At(number))
    }

    /// The first version from `newest` back that a commit or an open transaction has made, or zero.
    pub(crate) fn newest_counting(&self, table: &Table<M>, newest: u64) -> Result<u64> {
        let (mut row, mut passed) = (newest, 0);
        while row != 0 && self.meaning(table.place(row)?.begin(), 0)? == Meaning::Nothing {
            row = table.prev(row, &mut passed)?;
        }
        Ok(row)
    }

    /// The newer one of two versions, of which the index has the second one.
    pub(crate) fn newer(&self, table: &Table<M>, row: u64, indexed: u64) -> Result<u64> {
        let stays = self.is_last(table, indexed)? || !self.is_newer(table, row, indexed)?;
        Ok(if stays { indexed } else { row })
    }

    /// Returns whether a version had begun at `horizon`, and so for every snapshot from there on.
    pub(crate) fn has_begun(&self, table: &Table<M>, row: u64, horizon: u64) -> Result<bool> {
        let begun = self.meaning(table.place(row)?.begin(), 0)?;
        Ok(matches!(begun, Meaning::At(number) if number <= horizon))
    }

    /// The commit from which on no snapshot sees a row that was there when the store was opened, if there is one;
    /// zero if the row is free.
    pub(crate) fn ended(&self, table: &Table<M>, row: u64) -> Result<Option<u64>> {
        if !self.counts(table, row)? {
            return Ok(Some(0));
        }
        match self.meaning(table.place(row)?.end(), 0)? {
            Meaning::At(number) => Ok(Some(number)),
            _ => Ok(None),
        }
    }

    /// Returns whether no snapshot from `horizon` on sees a version that was there when the store was opened: it was
    /// rolled back, or had ended by then.
    pub(crate) fn is_dead(&self, table: &Table<M>, row: u64, horizon: u64) -> Result<bool> {
        let place = table.place(row)?;
        Ok(match self.meaning(place.begin(), 0)? {
            Meaning::Nothing => true,
            _ => {
                let ended = self.meaning(place.end(), 0)?;
                matches!(ended, Meaning::At(number) if number <= horizon)
            }
        })
    }

    /// Returns the version that the transaction sees of the row with this key in a secondary index, if that has
    /// the key. `hint` is a version that has it; the rest is the scan's.
    pub(crate) fn seen_by_index(
        &self,
        table: &Table<M>,
        (index, key, hint): (usize, &[u8], u64),
        view: &ReadView<'_>,
        (rest, versions): (&mut UnbuiltKeys, &mut u64),
    ) -> Result<Option<u64>> {
        let primary = table.keys.primary(table.number, index, key);
        // The version before a hint that was rolled back may be free by now, or another row's.
        let mut found = match self.meaning(table.place(hint)?.begin(), view.mark)? {
            Meaning::Nothing => None,
            _ => self.seen_from(table, hint, view, versions)?,
        };
        if found.is_none() {
            let newest = self.newest_of(table, &primary, rest)?;
            found = self.seen_from(table, newest, view, versions)?;
        }
        match found {
            Some(row) if row != hint && table.key(row, index)?.bytes != key => Ok(None),
            found => Ok(found),
        }
    }

    /// Refuses a key of a secondary index if another row has, or may have when this transaction commits, the
    /// unique part of it. The caller has the part's stripe. Rows that the transaction sees were refused before.
    pub(crate) fn check_unique(
        &self,
        table: &Table<M>,
        (index, key): (usize, &IndexKey),
        view: &ReadView<'_>,
    ) -> Result<()> {
        let Some(unique) = key.unique else { return Ok(()) };
        let same = &key.bytes[..unique];
        let own = table.keys.primary(table.number, index, &key.bytes);
        let (range, mut rest) = (KeyRange::starting_with(same), UnbuiltKeys::default());
        self.for_each_key(table, index, range, |other, _| {
            let primary = table.keys.primary(table.number, index, other);
            if primary == own {
                return Ok(ControlFlow::Continue(()));
            }
            let (mut row, mut passed) = (self.newest_of(table, &primary, &mut rest)?, 0);
            while row != 0 {
                match self.meaning(table.place(row)?.begin(), view.mark)? {
                    Meaning::At(number) if number <= view.snapshot => break,
                    Meaning::Open | Meaning::At(_)
                        if table.key(row, index)?.bytes.starts_with(same) =>
                    {
                        return Err(ColumnError::Conflict);
                    }
                    _ => row = table.prev(row, &mut passed)?,
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Returns the version that the transaction sees, of those from `newest` back.
    pub(crate) fn seen(
        &self,
        table: &Table<M>,
        newest: u64,
        view: &ReadView<'_>,
    ) -> Result<Option<u64>> {
        self.seen_from(table, newest, view, &mut 0)
    }

    /// The same. Adds the number of versions that it looks at to `versions`.
    pub(crate) fn seen_from(
        &self,
        table: &Table<M>,
        newest: u64,
        view: &ReadView<'_>,
        versions: &mut u64,
    ) -> Result<Option<u64>> {
        let (mut row, mut passed) = (newest, 0);
        while row != 0 {
            *versions += 1;
            let place = table.place(row)?;
            let (begin, end) = (
                self.memory.load(place.begin(), Acquire)?,
                self.memory.load(place.end(), Acquire)?,
            );
            if !is_mark(begin) && !is_mark(end) && visible(begin, end, view.snapshot) {
                return Ok(Some(row));
            }
            let begun = match self.meaning(place.begin(), view.mark)? {
                Meaning::Own => view.replay.is_none_or(|replay| replay.has_made(table.at, row)),
                Meaning::At(number) => number <= view.snapshot,
                Meaning::Open | Meaning::Nothing => false,
            };
            if begun {
                let ended = match self.meaning(place.end(), view.mark)? {
                    Meaning::Own => {
                        view.replay.is_none_or(|replay| replay.has_ended(table.at, row))
                    }
                    Meaning::At(number) => number <= view.snapshot,
                    Meaning::Open | Meaning::Nothing => false,
                };
                return Ok((!ended).then_some(row));
            }
            row = table.prev(row, &mut passed)?;
        }
        Ok(None)
    }

    /// Returns the newest version of a key, for a transaction that has the key's stripe: the first one that
    /// changes it wins.
    pub(crate) fn to_replace(
        &self,
        table: &Table<M>,
        newest: u64,
        view: &ReadView<'_>,
    ) -> Result<Newest> {
        let (mut row, mut passed) = (newest, 0);
        while row != 0 {
            let place = table.place(row)?;
            match self.meaning(place.begin(), view.mark)? {
                Meaning::Open => return Err(ColumnError::Conflict),
                Meaning::At(number) if number > view.snapshot => {
                    return Err(ColumnError::Conflict);
                }
                Meaning::Nothing => {
                    row = table.prev(row, &mut passed)?;
                    continue;
                }
                Meaning::Own | Meaning::At(_) => {}
            }
            return match self.meaning(place.end(), view.mark)? {
                Meaning::Open => Err(ColumnError::Conflict),
                Meaning::At(number) if number > view.snapshot => Err(ColumnError::Conflict),
                Meaning::Own | Meaning::At(_) => Ok(Newest::Absent(row)),
                Meaning::Nothing => Ok(Newest::Live(row)),
            };
        }
        Ok(Newest::Absent(0))
    }

    /// Returns whether no other transaction has ended a version that a transaction sees, which is then the last
    /// one of its key. The caller has the key's stripe. A replayed transaction may have ended the version itself,
    /// in a statement that is to come.
    pub(crate) fn is_last_for(
        &self,
        table: &Table<M>,
        row: u64,
        view: &ReadView<'_>,
    ) -> Result<bool> {
        let ended = self.meaning(table.place(row)?.end(), view.mark)?;
        Ok(matches!(ended, Meaning::Nothing | Meaning::Own))
    }

    /// Returns whether a row that was there when the store was opened may be in an index: it was
    /// committed, or is in an entry of a transaction that was in flight then. Others may be torn.
    pub(crate) fn counts(&self, table: &Table<M>, row: u64) -> Result<bool> {
        let begin = self.memory.load(table.place(row)?.begin(), Acquire)?;
        Ok(match begin {
            0 => false,
            stamp if !is_mark(stamp) => true,
            mark => {
                self.recovered.get(&mark).is_some_and(|rows| rows.contains_key(&(table.at, row)))
            }
        })
    }
}
