//! The background work, a bounded part at a time.
//!
//! In this order:
//! 1. Transactions that a crash has left unfinished are undone, those first whose locks are waited
//!    for.
//! 2. A checkpoint, when one is due: pages that may lack changes are redone, pages that have been
//!    dirty since before it began are written, and then it is taken.
//! 3. Pages are written that make way for others soon.
//! 4. Pages are redone that were not asked for since the crash. After the last one comes a
//!    checkpoint, so that the next restart has nothing of this to do.
//! 5. Rows give up space that they hold back, where transactions have left some.
//!
//! So that a restart has a bounded log to read, whatever the data and whenever the kill: a
//! transaction that finds a checkpoint overdue does a part of it, also where a thread does the
//! work, before it appends; and a store whose log is that long when it is opened takes one first.
//!
//! Every part leaves the store as a crash may find it. An error stops the store: each later change
//! returns the reason.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use pm::Files;

use super::joints::FreeRows;
use super::settling::{SETTLED_FOR_OTHERS, Unsettled};
use crate::ids::{Lsn, TreeNo};
use crate::latch::{Exclusive, Latched};
use crate::lock::{LockTable, Locks, Mode, Name};
use crate::log::{LogManager, Logged};
use crate::pool::{Pool, body_of};
use crate::recovery::{Loser, Transactions, Unfinished, checkpoint};
use crate::{PagedError, Result};

/// Changes that are undone in one part.
const UNDO_CHANGES: u64 = 64;
/// Pages that are redone in one part.
const REDO_PAGES: usize = 16;

/// An unfinished transaction, and the locks that it had when the crash came.
#[derive(Debug)]
struct Locked<T: Latched> {
    loser: Loser,
    locks: Locks<T>,
}

/// The unfinished transactions that are not undone yet.
#[derive(Debug)]
struct Losers<T: Latched> {
    left: Vec<Locked<T>>,
    /// The one that is being undone.
    current: usize,
    /// The number of waits for locks when it was picked.
    waits: u64,
}

impl<T: Latched> Losers<T> {
    /// The one that is undone next: one whose locks are waited for, if there is such a one.
    fn most_urgent(&mut self) -> usize {
        let waits = self.left.first().map_or(0, |locked| locked.locks.waits());
        if self.left.len() > 1 && waits != self.waits {
            let urgent = self.left.iter().position(|locked| locked.locks.is_waited_for());
            (self.current, self.waits) = (urgent.unwrap_or(self.current), waits);
        }
        self.current
    }
}

/// Checkpoints: the one under way, and the last one.
#[derive(Debug, Default)]
struct Checkpoints {
    /// One is under way, and pages are written that have been dirty since before this.
    before: Option<Lsn>,
    /// As `before`, of one for which the log had no room. It is not tried again before something
    /// was appended: another attempt would find the same.
    refused: Option<Lsn>,
    /// The place from which the last one kept the log.
    keep: Lsn,
    /// The log that its records took.
    cost: u64,
}

impl Checkpoints {
    /// Begins one, unless it would be refused as the last one was, where the log ends here.
    fn begin(&mut self, end: Lsn) -> Option<Lsn> {
        if self.refused.is_some_and(|refused| refused >= end) {
            return None;
        }
        Some(*self.before.get_or_insert(end))
    }
}

/// A checkpoint that cannot free anything is taken when so many times the log of the last one was
/// consumed since: less than the share of the log that is theirs.
const COSTS: u64 = 32;

/// The parts of a store that the background work uses; see the module's comment.
#[derive(Debug)]
pub(super) struct Upkeep<F: Files, T: Latched> {
    pub(super) pool: Pool<F, T::Latching>,
    pub(super) log: Arc<dyn LogManager>,
    pub(super) transactions: Transactions,
    losers: Exclusive<T::Latching, Losers<T>>,
    /// The number of losers, so that they are not locked where there are none.
    unfinished: AtomicUsize,
    /// The restart has left work; a checkpoint ends it.
    restarting: AtomicBool,
    checkpointing: Exclusive<T::Latching, Checkpoints>,
    unsettled: Unsettled<T>,
    stopped: OnceLock<String>,
}

impl<F: Files, T: Latched> Upkeep<F, T> {
    pub(super) fn new(
        pool: Pool<F, T::Latching>,
        log: Arc<dyn LogManager>,
        transactions: Transactions,
        locks: &Arc<LockTable<T>>,
    ) -> Self {
        pool.set_settled(Arc::new(FreeRows(Arc::clone(locks))));
        Self {
            pool,
            log,
            transactions,
            losers: Exclusive::new(Losers { left: Vec::new(), current: 0, waits: 0 }),
            unfinished: AtomicUsize::new(0),
            restarting: AtomicBool::new(false),
            checkpointing: Exclusive::new(Checkpoints::default()),
            unsettled: Unsettled::new(Arc::clone(locks)),
            stopped: OnceLock::new(),
        }
    }

    /// Takes over what a restart has left for later. The store is not used before this returns: the
    /// locks of unfinished transactions are taken again.
    pub(super) fn adopt(&self, left: Unfinished, locks: &Arc<LockTable<T>>) -> Result<()> {
        self.restarting
            .store(!left.places.is_empty() || !left.losers.is_empty(), Ordering::Release);
        self.pool.redo_later(left.places);
        let mut losers = Vec::with_capacity(left.losers.len());
        for mut loser in left.losers {
            let mut locks = locks.session();
            locks.begin(0);
            match self.lock_again(&loser, &mut locks) {
                Ok(()) => losers.push(Locked { loser, locks }),
                // The table holds no more: it is undone before any transaction begins.
                Err(PagedError::TooManyLocks { .. }) => {
                    loser.undo(&*self.log, &self.pool, u64::MAX)?;
                    self.transactions.end(loser.into_transaction());
                    locks.release(Lsn::NONE);
                }
                Err(error) => return Err(error),
            }
        }
        self.unfinished.store(losers.len(), Ordering::Release);
        self.losers.lock().left = losers;
        Ok(())
    }

    /// Takes the locks of the rows that a transaction has changed.
    fn lock_again(&self, loser: &Loser, locks: &mut Locks<T>) -> Result<()> {
        loser.changes(&*self.log, &mut |record: &Logged| {
            let body = body_of(record)?;
            let mut names = vec![(Name::Table(body.tree), Mode::IntentExclusive)];
            body.change.keys(&mut |key| names.push((Name::row(body.tree, key), Mode::Exclusive)));
            for (name, mode) in names {
                if !locks.try_lock(name, mode)? {
                    let what = "two unfinished transactions have changed the same row".into();
                    return Err(PagedError::DamagedLog { at: record.lsn, what });
                }
            }
            Ok(())
        })
    }

    /// Gives up the space that a row holds back, when it is not locked any more.
    ///
    /// # Errors
    /// The log has no room for it now, or the medium refuses: it is tried again later.
    pub(super) fn settle(&self, tree: TreeNo, key: &[u8]) -> Result<()> {
        self.unsettled.settle(&self.pool, tree, key)
    }

    /// Gives up the space of up to so many rows that others had to leave, and leaves the rest to
    /// the thread in the background.
    pub(super) fn settle_for_others(&self, most: usize) {
        if self.unsettled.settle_some(&self.pool, most).is_ok_and(|settled| settled == most) {
            self.pool.wake_cleaner();
        }
    }

    /// Gives up the space of all rows that others had to leave, for closing.
    ///
    /// # Errors
    /// A medium failed.
    pub(super) fn settle_rest(&self) -> Result<()> {
        loop {
            match self.unsettled.settle_some(&self.pool, SETTLED_FOR_OTHERS) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.is_of_the_moment() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// The number of transactions that a crash has left and that are not undone yet.
    pub(super) fn unfinished(&self) -> usize {
        self.unfinished.load(Ordering::Acquire)
    }

    /// Checks that no error has stopped the work, or the pool.
    pub(super) fn check_running(&self) -> Result<()> {
        match self.stopped.get() {
            Some(why) => Err(PagedError::Stopped { why: why.clone() }),
            None => self.pool.check_running(),
        }
    }

    /// Notes an error that stops the store, and returns it.
    pub(super) fn stop(&self, error: PagedError) -> PagedError {
        let _ = self.stopped.set(error.to_string());
        error
    }

    /// Returns whether there is background work that transactions do if there is no thread for it.
    pub(super) fn has_work(&self) -> bool {
        self.restarting.load(Ordering::Acquire) || self.log.is_due() || self.unfinished() > 0
    }

    /// Does a part of what is to be done. Returns false if there was nothing.
    pub(super) fn step(&self) -> Result<bool> {
        self.check_running()?;
        let done = self.undo_some(UNDO_CHANGES)?
            || self.checkpoint_some()?
            || self.pool.clean_ahead()? > 0
            || self.redo_some()?
            || self.unsettled.settle_some(&self.pool, SETTLED_FOR_OTHERS)? > 0;
        Ok(done)
    }

    /// As [`Self::step`], for callers with other work to do: an error of the moment, such as that
    /// all frames are in use, is passed over, and any other one stops the store.
    pub(super) fn take_part(&self) -> Result<bool> {
        self.step().or_else(|error| {
            if error.is_of_the_moment() { Ok(false) } else { Err(self.stop(error)) }
        })
    }

    /// Takes back some changes of one unfinished transaction.
    fn undo_some(&self, most: u64) -> Result<bool> {
        if self.unfinished() == 0 {
            return Ok(false);
        }
        let mut losers = self.losers.lock();
        let at = losers.most_urgent();
        let Some(locked) = losers.left.get_mut(at) else { return Ok(false) };
        if locked.loser.undo(&*self.log, &self.pool, most)? {
            let Locked { loser, mut locks } = losers.left.swap_remove(at);
            self.transactions.end(loser.into_transaction());
            locks.release(Lsn::NONE);
            (losers.current, losers.waits) = (0, 0);
            self.unfinished.store(losers.left.len(), Ordering::Release);
        }
        Ok(true)
    }

    /// Undoes all unfinished transactions.
    pub(super) fn undo_rest(&self) -> Result<()> {
        while self.undo_some(u64::MAX)? {}
        Ok(())
    }

    /// Returns whether a checkpoint is so late that a restart would read more than twice the log
    /// after which one is due.
    pub(super) fn is_overdue(&self) -> bool {
        self.log.consumed() >= self.log.threshold().saturating_mul(2)
    }

    /// Returns whether a checkpoint would free nothing, because of a transaction that is still
    /// open, and the last one was just now.
    fn is_useless(&self, last: &Checkpoints) -> bool {
        let keep = self.transactions.oldest().unwrap_or_else(|| self.log.end());
        let (moves, consumed) = (keep > last.keep, self.log.consumed());
        // The next checkpoint frees the log that this one would not.
        let shortens = moves && consumed >= self.log.threshold().max(2 * last.cost);
        let frees = moves && self.log.would_free(keep);
        !frees && !shortens && consumed < COSTS * last.cost
    }

    /// Does a part of a checkpoint, if one is due or under way and no other thread does so.
    fn checkpoint_some(&self) -> Result<bool> {
        match self.checkpointing.try_lock() {
            Some(mut checkpoints) => self.checkpoint_part(&mut checkpoints),
            None => Ok(false),
        }
    }

    /// Does a part of a checkpoint that is overdue, after any other thread that does one: so
    /// transactions do not change pages faster than pages are written.
    pub(super) fn help(&self) -> Result<()> {
        let mut checkpoints = self.checkpointing.lock();
        if !self.is_overdue() {
            return Ok(());
        }
        match self.checkpoint_part(&mut checkpoints) {
            Err(error) if !error.is_of_the_moment() => Err(self.stop(error)),
            _ => Ok(()),
        }
    }

    fn checkpoint_part(&self, checkpoints: &mut Checkpoints) -> Result<bool> {
        let before = match checkpoints.before {
            None if !self.log.is_due() || self.is_useless(checkpoints) => None,
            None => checkpoints.begin(self.log.end()),
            before => before,
        };
        let Some(before) = before else { return Ok(false) };
        if self.pool.redo_some(REDO_PAGES)? == 0 && !self.pool.clean_some(before)?.1 {
            let taken = self.take(before, checkpoints);
            if matches!(taken, Err(PagedError::LogFull { .. })) {
                // The next one writes the pages that have become dirty meanwhile, too, and so has
                // smaller tables.
                (checkpoints.before, checkpoints.refused) = (None, Some(before));
            }
            taken?;
        }
        Ok(true)
    }

    fn take(&self, before: Lsn, checkpoints: &mut Checkpoints) -> Result<checkpoint::Taken> {
        let taken = checkpoint::take(&*self.log, &self.pool, &self.transactions, before)?;
        // Others may have appended at the same time.
        let cost = self.log.consumed().min(taken.bytes);
        *checkpoints = Checkpoints { before: None, refused: None, keep: taken.keep, cost };
        // It has redone all pages, to write those that were dirty.
        self.restarting.store(false, Ordering::Release);
        Ok(taken)
    }

    /// Takes a whole checkpoint, while transactions go on. An archive that failed is tried at once.
    pub(super) fn checkpoint(&self) -> Result<checkpoint::Taken> {
        self.log.end_pause();
        self.take(self.log.end(), &mut self.checkpointing.lock())
    }

    /// Takes a checkpoint because a session needs room in the log. Returns false if it would free
    /// nothing: others have to end first.
    pub(super) fn make_room(&self) -> Result<bool> {
        let mut checkpoints = self.checkpointing.lock();
        if self.is_useless(&checkpoints) {
            return Ok(false);
        }
        match self.take(self.log.end(), &mut checkpoints) {
            // It would take what the next one needs, which can free something.
            Err(PagedError::LogFull { .. }) => Ok(false),
            taken => taken.map(|_| true),
        }
    }

    /// Redoes some pages that were not asked for. After the last one a checkpoint begins.
    fn redo_some(&self) -> Result<bool> {
        if !self.restarting.load(Ordering::Acquire) {
            return Ok(false);
        }
        if self.pool.redo_some(REDO_PAGES)? == 0 {
            let Some(mut checkpoints) = self.checkpointing.try_lock() else { return Ok(false) };
            return Ok(checkpoints.begin(self.log.end()).is_some());
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use sim::RecordingFiles;

    use super::*;
    use crate::file::NewFile;
    use crate::ids::TxNo;
    use crate::lock::LockOptions;
    use crate::log::central::{Central, CentralOptions};
    use crate::log::{Chain, Kind, Record};
    use crate::recovery;
    use crate::store::{Store, StoreOptions};
    use crate::threads::Host;

    const TREE: TreeNo = TreeNo(9);

    fn log(files: &RecordingFiles, create: bool) -> Arc<dyn LogManager> {
        let options = CentralOptions {
            partition_bytes: 256 << 10,
            buffer_bytes: 256 << 10,
            reserve_bytes: 4096,
            ..CentralOptions::default()
        };
        let log: Central<_, Host> = if create {
            Central::create(files, "log-", options, Arc::default()).expect("a log")
        } else {
            Central::open(files, "log-", options, Arc::default()).expect("the log")
        };
        Arc::new(log)
    }

    /// Files of a store that died while three transactions had each changed ten rows.
    fn died() -> RecordingFiles {
        let files = RecordingFiles::new();
        let options = StoreOptions { page_bytes: 512, frames: 32, ..StoreOptions::default() };
        let store = Store::create(&files, "", 1, log(&files, true), options, &[TREE]);
        let store = store.expect("a store");
        for loser in 0..3_u8 {
            let mut session = store.session();
            session.begin(1 + u64::from(loser), None);
            for row in 0..10 {
                session.insert(TREE, &[loser, row], b"row").expect("inserted");
            }
            std::mem::forget(session);
        }
        store.sync().expect("durable");
        RecordingFiles::from_image(files.image())
    }

    /// No other thread writes pages: those that append do, a batch each, until a restart has little
    /// to read.
    #[test]
    fn whoever_finds_a_checkpoint_overdue_does_a_part_of_it() {
        const THRESHOLD: u64 = 8 << 10;
        let files = RecordingFiles::new();
        let options = CentralOptions {
            partition_bytes: 256 << 10,
            buffer_bytes: 256 << 10,
            reserve_bytes: 4096,
            checkpoint_bytes: THRESHOLD,
            ..CentralOptions::default()
        };
        let log: Central<_, Host> =
            Central::create(&files, "log-", options, Arc::default()).expect("a log");
        let (log, new) = (Arc::new(log), NewFile { page_bytes: 512, stamp: 1 });
        let pool = Pool::create(&files, "", &new, 256, Arc::clone(&log) as _).expect("pages");
        let locks = LockTable::new(Arc::default(), LockOptions::default());
        let upkeep: Upkeep<_, Host> =
            Upkeep::new(pool, Arc::clone(&log) as _, Transactions::new(), &locks);
        let mut chain = Chain::new(TxNo(1));
        let tree = upkeep.pool.create_tree(&mut chain, TREE).expect("a tree");
        let mut row = 0_u16;
        while !upkeep.is_overdue() {
            upkeep.help().expect("nothing to do");
            tree.insert(&mut chain, &row.to_be_bytes(), &[0; 90]).expect("inserted");
            row += 1;
        }
        assert!(log.consumed() >= 2 * THRESHOLD);
        let dirty = upkeep.pool.dirty_pages().len();
        for part in 1.. {
            upkeep.help().expect("a part");
            if !upkeep.is_overdue() {
                break;
            }
            assert!(part * 64 < dirty, "a part has a batch: {part} of {dirty} pages");
        }
        assert!(log.consumed() < THRESHOLD, "{}", log.consumed());
    }

    /// The pages that became dirty after a checkpoint was begun are too many for what the log has
    /// left. An attempt costs no log, and is made again when something has changed.
    #[test]
    fn a_checkpoint_without_room_is_not_tried_for_ever() {
        let files = RecordingFiles::new();
        let options = CentralOptions {
            partitions: 4,
            partition_bytes: 16 << 10,
            buffer_bytes: 64 << 10,
            group_bytes: 16 << 10,
            record_bytes: 2048,
            reserve_bytes: 4096,
            checkpoint_bytes: 8 << 10,
            ..CentralOptions::default()
        };
        let log: Central<_, Host> =
            Central::create(&files, "log-", options, Arc::default()).expect("a log");
        let (log, new) = (Arc::new(log), NewFile { page_bytes: 512, stamp: 1 });
        let pool = Pool::create(&files, "", &new, 1024, Arc::clone(&log) as _).expect("pages");
        let locks = LockTable::new(Arc::default(), LockOptions::default());
        let upkeep: Upkeep<_, Host> =
            Upkeep::new(pool, Arc::clone(&log) as _, Transactions::new(), &locks);
        let tree = upkeep.pool.create_tree(&mut Chain::new(TxNo(1)), TREE).expect("a tree");
        let key = |row: u16| row.to_be_bytes();
        for row in 0..800 {
            let mut chain = Chain::new(TxNo(2 + u64::from(row)));
            tree.insert(&mut chain, &key(row), &[0; 190]).expect("inserted");
            log.commit(&mut chain).expect("committed");
            if row % 40 == 39 {
                upkeep.checkpoint().expect("a checkpoint");
            }
        }
        // Kept by a transaction that stays open, the log fills up while many pages become dirty.
        let mut idle = upkeep.transactions.begin(TxNo(1000));
        tree.update(&mut idle, &key(0), &[1; 190]).expect("updated");
        upkeep.checkpointing.lock().before = Some(log.end());
        let rows: Vec<u16> = (2..800).step_by(2).collect();
        let full = rows.chunks(20).find_map(|rows| {
            let mut chain = Chain::new(TxNo(2000 + u64::from(rows[0])));
            let change = |row: &u16| {
                let [high, low] = key(*row);
                tree.insert(&mut chain, &[high, low, 1], &[]).err()
            };
            let full = rows.iter().find_map(change);
            if chain.records > 0 {
                log.commit(&mut chain).expect("committed");
            }
            full
        });
        assert!(matches!(full, Some(PagedError::LogFull { .. })), "{full:?}");
        assert!(upkeep.pool.dirty_pages().len() > 90, "{}", upkeep.pool.dirty_pages().len());
        // Earlier checkpoints have left little of the room that is theirs.
        let end = Record { payload: &[0; 1900], ..Record::bare(Kind::CheckpointEnd) };
        log.append(&mut Chain::default(), &end).expect("there is so much");
        let (start, end) = (log.start(), log.end());
        for _ in 0..100 {
            let stepped = upkeep.step();
            assert!(stepped.as_ref().err().is_none_or(PagedError::is_of_the_moment), "{stepped:?}");
        }
        assert_eq!(log.end(), end, "attempts cost no log");
        assert!(!upkeep.step().expect("nothing to do"), "nothing has changed");
        crate::recovery::undo::abort(&*log, &mut idle, &upkeep.pool).expect("undone");
        upkeep.transactions.end(idle);
        for _ in 0..100 {
            upkeep.step().expect("there is room");
        }
        assert!(log.start() > start, "a checkpoint was taken");
    }

    #[test]
    fn a_transaction_whose_locks_somebody_waits_for_is_undone_first() {
        let files = died();
        let log = log(&files, false);
        let pool = Pool::open(&files, "", 32, Arc::clone(&log)).expect("pages");
        let transactions = Transactions::new();
        let left = recovery::restart_on_demand(&*log, &transactions, &pool).expect("analysed").1;
        let locks = LockTable::new(Arc::default(), LockOptions::default());
        let upkeep: Upkeep<_, Host> = Upkeep::new(pool, log, transactions, &locks);
        upkeep.adopt(left, &locks).expect("adopted");
        assert_eq!((upkeep.unfinished(), upkeep.transactions.len()), (3, 3));
        assert_eq!(locks.counts().held, 3 * 11, "the rows and the table");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut own = locks.session();
                own.begin(7);
                own.lock(Name::row(TREE, &[2, 5]), Mode::Shared).expect("locked");
            });
            while !upkeep.losers.lock().left[2].locks.is_waited_for() {
                std::thread::yield_now();
            }
            while upkeep.unfinished() == 3 {
                assert!(upkeep.undo_some(3).expect("undone"));
            }
            waiting.join().expect("locked, while the others are left");
        });
        assert_eq!(upkeep.unfinished(), 2);
        upkeep.undo_rest().expect("undone");
        assert_eq!((upkeep.unfinished(), upkeep.transactions.len()), (0, 0));
        assert_eq!(locks.counts().held, 0);
        let tree = upkeep.pool.tree(TREE).expect("read").expect("there");
        assert_eq!(tree.get(&[2, 5]).expect("read"), None);
    }
}
