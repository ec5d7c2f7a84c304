//! Scans of a transaction: which rows they show, and which locks they take.
//!
//! | a scan that | locks of each key in its range | the gap before it | after the last row |
//! |---|---|---|---|
//! | reads | S | S | the gap at the end of the range |
//! | reads to write | U | S | the same |
//! | passes over locked rows | U of those that it shows | | |
//!
//! 1. Rows are copied in batches under the latch of their leaf, with their locks. The first batch
//!    has one row, and each further one as many as have been shown, up to [`BATCH_ROWS`]: a scan
//!    that is stopped has locked what it showed, and less than as much again.
//! 2. A lock that is taken is waited for with nothing latched, and the scan goes on after the last
//!    row.
//! 3. Others that add rows at the end of the range do not keep a scan from getting there: see
//!    `ends`.
//! 4. Ghosts that it meets and that are not needed are removed, from some leaves.

use std::sync::Arc;

use pm::Files;

use super::ends::EndOf;
use super::range::{Keys, RowRange};
use super::session::{Session, name_of};
use crate::Result;
use crate::flaw::Flaw;
use crate::ids::TreeNo;
use crate::latch::{Latched, Latching};
use crate::lock::{Gap, LockMode, Mode, Name};
use crate::tree::{BATCH_ROWS, Batch, Bound, Direction, Met, Permitted, Scan, Tree};

/// Leaves that one scan rids of their ghosts at most.
const SWEPT_LEAVES: usize = 64;

/// The receiver of the keys and rows of a scan; it returns whether it wants the next one.
pub type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// Keys and rows.
pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// The locks that a scan takes of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowLock {
    /// They are read. Nothing comes between them.
    Shared,
    /// They are read, and may be written. Nothing comes between them.
    Update,
    /// The same, for rows that no other transaction has locked. The others are passed over, and the
    /// gaps between rows are not locked.
    UpdateOrSkip,
    /// None: each key may be there or not by now. For trees whose rows have their locks elsewhere.
    None,
}

impl RowLock {
    /// Returns whether the scan waits for locks, and so shows what some order of transactions
    /// shows.
    fn waits(self) -> bool {
        matches!(self, Self::Shared | Self::Update)
    }
}

/// A scan of a transaction, between its batches.
#[derive(Debug)]
pub struct RowScan {
    pub(super) tree: TreeNo,
    pub(super) keys: Option<Keys>,
    pub(super) direction: Direction,
    lock: RowLock,
    pub(super) at: Scan,
    /// Rows that it has shown.
    pub(super) shown: usize,
    begun: bool,
    pub(super) done: bool,
    /// The lock that is waited for before it goes on.
    wanted: Option<(Name, LockMode)>,
}

impl RowScan {
    /// A scan of a range of a tree.
    #[must_use]
    pub fn new(tree: TreeNo, range: &RowRange<'_>, direction: Direction, lock: RowLock) -> Self {
        let keys = Keys::of(range);
        let (done, nowhere) = (keys.is_none(), || Scan::new(direction, Bound::Unbounded));
        let at = keys.as_ref().map_or_else(nowhere, |keys| keys.scan(direction));
        Self { tree, keys, direction, lock, at, shown: 0, begun: false, done, wanted: None }
    }

    /// Returns whether it has shown all rows.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The range, as far as its end goes.
    fn end_of(&self, keys: &Keys) -> EndOf {
        (self.tree, self.direction, keys.end(self.direction).map(<[u8]>::to_vec))
    }
}

impl<F: Files, T: Latched> Session<F, T> {
    /// Calls `visit` with keys and rows of a range, in order, until it returns false.
    ///
    /// # Errors
    /// A conflict, or a page cannot be read.
    pub fn scan(
        &mut self,
        tree: TreeNo,
        range: &RowRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<()> {
        let mut scan = RowScan::new(tree, range, direction, RowLock::Shared);
        while !scan.is_done() {
            for (key, row) in self.next_rows(&mut scan, None)? {
                if !visit(&key, &row)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Copies the next rows of a scan. They are `most` at most, if that is known, and otherwise one
    /// at first and more each time; none only where the scan is done.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub fn next_rows(&mut self, scan: &mut RowScan, most: Option<usize>) -> Result<Rows> {
        let Some(keys) = scan.keys.clone().filter(|_| !scan.done) else { return Ok(Rows::new()) };
        let store = Arc::clone(&self.store);
        let on = store.tree(scan.tree)?;
        let most = most.unwrap_or(scan.shown).clamp(1, BATCH_ROWS);
        let mut batch = Batch::default();
        loop {
            self.lock_to_scan(scan)?;
            if let Some((name, mode)) = scan.wanted.take() {
                self.lock_scanned(scan.tree, name, mode)?;
            }
            if !std::mem::replace(&mut scan.begun, true) {
                self.begin_rows(&on, scan, &keys)?;
            }
            if self.is_chased(&on, scan, &keys)? {
                scan.done = true;
                return Ok(Rows::new());
            }
            self.fill(&on, scan, &keys, &mut batch, most)?;
            if !scan.lock.waits() {
                // No lock says which transactions the skipped rows depend on, so this depends
                // on all of them.
                self.locks.depend_on(store.log().end());
            }
            scan.shown += batch.rows.len();
            if !batch.rows.is_empty() || scan.done {
                return Ok(batch.rows);
            }
        }
    }

    fn begin_rows(
        &mut self,
        on: &Tree<'_, F, T::Latching>,
        scan: &mut RowScan,
        keys: &Keys,
    ) -> Result<()> {
        if self.store.leaves.get().is_none() {
            scan.at.sweep(SWEPT_LEAVES);
        }
        if scan.direction == Direction::Backward && scan.lock.waits() {
            // The first key above the range locks the gap after its last one.
            self.lock_gap_at(on, keys.high.as_deref())?;
        }
        Ok(())
    }

    /// Copies one batch.
    fn fill(
        &mut self,
        on: &Tree<'_, F, T::Latching>,
        scan: &mut RowScan,
        keys: &Keys,
        batch: &mut Batch,
        most: usize,
    ) -> Result<()> {
        let RowScan { direction, lock, wanted, .. } = scan;
        let (mut ended, mut failed) = (false, None);
        let mut permit = |met: Met<'_>| {
            let out = met.key().is_none_or(|key| keys.ends_before(key, *direction));
            if out && (*direction == Direction::Backward || !lock.waits()) {
                // Backward the gap before the range's first key is locked with that key.
                ended = true;
                return Permitted::from(met == Met::End);
            }
            let name = name_of(on.number, met.key());
            let mode = match (*lock, met) {
                (RowLock::None, Met::Row(_)) => return Permitted::Yes,
                (RowLock::None | RowLock::UpdateOrSkip, Met::Ghost(_)) => {
                    return Permitted::Skipped;
                }
                (RowLock::UpdateOrSkip, _) => Mode::Update.into(),
                (lock, _) => mode_of::<T::Latching>(lock, out),
            };
            match self.try_lock_scanned(on.number, name, mode) {
                Ok(true) => {
                    ended = out;
                    (!out || met == Met::End).into()
                }
                Ok(false) if !lock.waits() => Permitted::Skipped,
                Ok(false) => {
                    *wanted = Some((name, mode));
                    Permitted::No
                }
                Err(error) => {
                    failed = Some(error);
                    Permitted::No
                }
            }
        };
        on.next(&mut scan.at, batch, most, &mut permit)?;
        self.locks.has_scanned(Name::Table(on.number));
        scan.done = ended || (scan.wanted.is_none() && scan.at.is_done());
        failed.map_or(Ok(()), Err)
    }

    /// Locks a table, as a whole if the transaction has many locks already.
    fn lock_to_scan(&mut self, scan: &RowScan) -> Result<()> {
        let mode = match (scan.lock, self.locks.has_many()) {
            (RowLock::Shared, true) => Mode::Shared,
            (RowLock::Update, true) => Mode::SharedIntentExclusive,
            (RowLock::Shared | RowLock::None, _) => Mode::IntentShared,
            (RowLock::Update | RowLock::UpdateOrSkip, _) => Mode::IntentExclusive,
        };
        self.locks.lock(Name::Table(scan.tree), mode)
    }

    /// Looks whether a scan has passed what was the last key of its range. If it locks what it
    /// reads the end of the range is locked then; otherwise it ends there, which is said.
    fn is_chased(
        &mut self,
        on: &Tree<'_, F, T::Latching>,
        scan: &RowScan,
        keys: &Keys,
    ) -> Result<bool> {
        let (range, is_long) = (scan.end_of(keys), scan.shown >= BATCH_ROWS);
        let bound = keys.end(scan.direction);
        let last_key = || on.last_key(scan.direction, bound);
        let Some(end) = self.ends.of(range, is_long, last_key)? else { return Ok(false) };
        let has_passed = end.last.as_ref().is_none_or(|last| scan.at.has_passed(last));
        if !has_passed || end.is_locked {
            return Ok(false);
        }
        if !scan.lock.waits() {
            return Ok(true);
        }
        end.is_locked = true;
        self.lock_gap_at(on, bound).map(|()| false)
    }

    /// Locks the gap before the first key from `point` on, or before the end of the tree if that is
    /// `None`.
    fn lock_gap_at(&mut self, on: &Tree<'_, F, T::Latching>, point: Option<&[u8]>) -> Result<()> {
        let mode = mode_of::<T::Latching>(RowLock::Shared, true);
        let Some(point) = point else {
            return self.lock_scanned(on.number, Name::End(on.number), mode);
        };
        loop {
            let (mut wanted, mut tried) = (Name::End(on.number), Ok(true));
            let mut scan = Scan::new(Direction::Forward, Bound::Included(point));
            on.next(&mut scan, &mut Batch::default(), 1, &mut |met| {
                wanted = name_of(on.number, met.key());
                tried = self.try_lock_scanned(on.number, wanted, mode);
                Permitted::No
            })?;
            self.locks.has_scanned(Name::Table(on.number));
            if tried? {
                return Ok(());
            }
            self.lock_scanned(on.number, wanted, mode)?;
        }
    }

    fn lock_scanned(&mut self, tree: TreeNo, name: Name, mode: LockMode) -> Result<()> {
        if self.reads_all(tree) {
            return Ok(());
        }
        self.locks.lock(name, mode)
    }

    fn try_lock_scanned(&mut self, tree: TreeNo, name: Name, mode: LockMode) -> Result<bool> {
        if self.reads_all(tree) {
            return Ok(true);
        }
        let locked = self.locks.try_lock(name, mode);
        self.has_read(name);
        locked
    }
}

/// The mode in which a scan locks a key with the gap before it, or the gap alone.
fn mode_of<L: Latching>(lock: RowLock, is_gap: bool) -> LockMode {
    let gap = if L::has(Flaw::GapNotLocked) { Gap::None } else { Gap::Shared };
    let mode = match lock {
        _ if is_gap || L::has(Flaw::ReadNotLocked) => Mode::None,
        RowLock::Update if !L::has(Flaw::UpdateAsShared) => Mode::Update,
        _ => Mode::Shared,
    };
    LockMode::row(mode, gap)
}
