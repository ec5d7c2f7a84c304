//! Reads of a transaction: one row by its key, and rows in the order of an index. A read waits for no writer.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use pm::Memory;

use crate::Result;
use crate::epoch::EpochGuard;
use crate::error::ColumnError;
use crate::keys::Key;
use crate::latch::Latch;
use crate::scanned::Scanned;
use crate::secondary::KeyRange;
use crate::serial::Reads;
use crate::session::Session;
use crate::store::Shared;
use crate::table::Table;
use crate::value::Field;
use crate::version::UnbuiltKeys;

/// The claims that a scan makes of the rows that it shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claiming {
    /// None: it only reads them.
    None,
    /// Each is claimed, or the transaction is in conflict.
    OrFail,
    /// Those that can be claimed are, and the others are not shown.
    OrSkip,
}

/// Keys that are copied from an index at a time.
const BATCH: usize = 64;
/// The number of entries without a row from which on a scan takes dead versions out of indexes.
const MANY_UNSEEN: u64 = 64;

impl<M: Memory> Shared<M> {
    /// The newest versions of a range of keys among the rows that are not in the index yet.
    pub(crate) fn unbuilt_keys(
        &self,
        table: &Table<M>,
        index: usize,
        range: &KeyRange,
    ) -> Result<BTreeMap<Vec<u8>, u64>> {
        let unbuilt = table.indexes[index].read().unbuilt;
        let mut found = BTreeMap::new();
        if unbuilt <= 1 {
            return Ok(found);
        }
        for row in 1..unbuilt {
            if self.counts(table, row)? {
                let key = table.key(row, index)?.bytes;
                let there = found.get(&key).copied();
                if range.contains(&key)
                    && there.map_or(Ok(true), |there| self.is_newer(table, row, there))?
                {
                    found.insert(key, row);
                }
            }
        }
        table.indexes[index].read().backlog.add_keys(unbuilt - 1);
        Ok(found)
    }

    /// Calls `visit` with each key of a range and the newest version that has it, in order.
    pub(crate) fn for_each_key(
        &self,
        table: &Table<M>,
        index: usize,
        mut range: KeyRange,
        mut visit: impl FnMut(&[u8], u64) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        // Before the index is read: rows that come into it meanwhile are in both.
        let mut rest = self.unbuilt_keys(table, index, &range)?;
        loop {
            let batch = table.indexes[index].read().some(&range, BATCH)?;
            let last = batch.last().map(|(key, _)| key.clone()).filter(|_| batch.len() == BATCH);
            let mut all = upto(&mut rest, last.as_deref(), range.backward);
            for (key, row) in batch {
                let other = rest.remove(&key).or_else(|| all.get(&key).copied());
                let newest = other.map_or(Ok(row), |other| self.newer(table, other, row))?;
                all.insert(key, newest);
            }
            let mut visit = |(key, row): (&Vec<u8>, &u64)| visit(key, *row);
            let mut each = all.iter();
            while let Some(next) = if range.backward { each.next_back() } else { each.next() } {
                if visit(next)?.is_break() {
                    return Ok(());
                }
            }
            match last {
                Some(last) => range.go_on_after(last),
                None => return Ok(()),
            }
        }
    }
}

/// Removes and returns the keys before `last` in the scan's direction; all if there is none.
fn upto(
    rest: &mut BTreeMap<Vec<u8>, u64>,
    last: Option<&[u8]>,
    backward: bool,
) -> BTreeMap<Vec<u8>, u64> {
    match last {
        None => std::mem::take(rest),
        Some(last) => {
            let higher = rest.split_off(last);
            if backward { higher } else { std::mem::replace(rest, higher) }
        }
    }
}

impl<M: Memory> Session<M> {
    /// Keeps the snapshot of a read without a transaction.
    fn guard(&self) -> Option<EpochGuard> {
        self.open.is_none().then(|| EpochGuard::new(&self.shared.epochs, &self.shared.clock))
    }

    /// Notes a key that a serializable transaction has looked up.
    pub(crate) fn has_read(&self, table: usize, key: &Key<'_>) {
        if let Some(reads) = self.open.as_ref().and_then(|open| open.reads.as_ref()) {
            reads.write().add_key(table, key);
        }
    }

    /// The row with this key.
    ///
    /// # Errors
    /// The key is of another kind; damage.
    pub fn get<'k>(&self, table: usize, key: impl Into<Key<'k>>) -> Result<Option<Vec<Field>>> {
        self.get_some(table, key, None)
    }

    /// As [`Self::get`], with the values of some columns, and NULL in the others.
    ///
    /// # Errors
    /// As [`Self::get`]; no such column.
    pub fn get_some<'k>(
        &self,
        table: usize,
        key: impl Into<Key<'k>>,
        columns: Option<&[usize]>,
    ) -> Result<Option<Vec<Field>>> {
        let (table, key) = (self.shared.table(table)?, key.into());
        let _guard = self.guard();
        // Before the newest version is looked up: a version that is made later is not in the snapshot, either.
        let view = self.view();
        table.check_key(&key.values)?;
        self.has_read(table.number, &key);
        let newest = self.shared.newest(table, &key)?;
        let seen = self.shared.seen(table, newest, &view)?;
        seen.map(|row| table.fields(row, columns)).transpose()
    }

    /// Calls `visit` with each row whose key in an index is in a range, in the order of keys. The rows
    /// have all columns, or some, and NULL in the others.
    ///
    /// # Errors
    /// No such index or column; damage.
    pub fn scan(
        &self,
        table: usize,
        index: usize,
        range: KeyRange,
        columns: Option<&[usize]>,
        visit: impl FnMut(Vec<Field>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.scan_as(Claiming::None, (table, index, range), columns, visit)
    }

    /// Works as [`Self::scan`], and claims for the open transaction what it shows: others do not change
    /// it, and find it claimed, until the transaction ends.
    ///
    /// # Errors
    /// As [`Self::scan`]; [`ColumnError::Conflict`] where another transaction has changed or claimed a
    /// row, unless such rows are passed over.
    pub fn scan_as(
        &self,
        claiming: Claiming,
        (table, index, range): (usize, usize, KeyRange),
        columns: Option<&[usize]>,
        mut visit: impl FnMut(Vec<Field>) -> ControlFlow<()>,
    ) -> Result<()> {
        let table = self.shared.table(table)?;
        if index >= table.indexes.len() {
            return Err(ColumnError::Unfit { what: "an index of this number" });
        }
        let _guard = self.guard();
        let (view, mut rest, mut scanned) =
            (self.view(), UnbuiltKeys::default(), Scanned::default());
        let reads = self.open.as_ref().and_then(|open| open.reads.as_ref());
        // Rows that are skipped were not read, and no other transaction changes those that are claimed.
        let reads = reads.filter(|_| claiming != Claiming::OrSkip);
        let mut noted = reads.map(|reads| ScannedRange::new(reads, (table.number, index, &range)));
        let done = self.shared.for_each_key(table, index, range, |key, hint| {
            scanned.entries += 1;
            let (at, versions) = ((index, key, hint), &mut scanned.versions);
            let seen = match index {
                0 => self.shared.seen_from(table, hint, &view, versions)?,
                _ => self.shared.seen_by_index(table, at, &view, (&mut rest, versions))?,
            };
            let Some(row) = seen else {
                scanned.unseen += 1;
                return Ok(ControlFlow::Continue(()));
            };
            if claiming != Claiming::None && !self.claim(table, row, &view)? {
                return match claiming {
                    Claiming::OrSkip => Ok(ControlFlow::Continue(())),
                    Claiming::None | Claiming::OrFail => Err(ColumnError::Conflict),
                };
            }
            let fields = table.fields(row, columns)?;
            if let Some(noted) = &mut noted {
                noted.visit(key);
            }
            let flow = visit(fields);
            if let Some(noted) = noted.as_mut().filter(|_| flow.is_continue()) {
                noted.go_on();
            }
            Ok(flow)
        });
        self.shared.scans.add(scanned);
        if scanned.unseen >= MANY_UNSEEN {
            self.shared.unlink_for_reader(scanned.unseen);
        }
        done
    }
}

/// The range that a scan of a serializable transaction reads. It is noted when the scan ends, also by a panic of
/// `visit`: up to the row at which it ended.
struct ScannedRange<'a> {
    reads: &'a Latch<Reads>,
    table: usize,
    index: usize,
    range: KeyRange,
    /// The last visited key, and whether the scan has ended there.
    last: Vec<u8>,
    ends_there: bool,
}

impl<'a> ScannedRange<'a> {
    fn new(reads: &'a Latch<Reads>, (table, index, range): (usize, usize, &KeyRange)) -> Self {
        Self { reads, table, index, range: range.clone(), last: Vec::new(), ends_there: false }
    }

    fn visit(&mut self, key: &[u8]) {
        self.last.clear();
        self.last.extend_from_slice(key);
        self.ends_there = true;
    }

    fn go_on(&mut self) {
        self.ends_there = false;
    }
}

impl Drop for ScannedRange<'_> {
    fn drop(&mut self) {
        let last = self.ends_there.then(|| std::mem::take(&mut self.last));
        self.reads.write().add_range(self.table, self.index, self.range.clone(), last);
    }
}
