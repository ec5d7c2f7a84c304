//! A store: trees of rows under transactions, with the pages, the log, the locks and recovery that
//! make it up.
//!
//! Invariants:
//! - A transaction that changes or reads a key of a tree holds its row lock until it ends, and the
//!   lock of the table before that. Keys of secondary trees are locked as rows of theirs.
//! - A lock is waited for with nothing latched. Under a latch it is only tried.
//! - Space that a row gives up is given away when the row's lock is neither held nor wanted: see
//!   [`crate::tree::Tree::settle`] and `settling`.
//! - Background work, such as checkpoints, is done by a thread (`background`), or by transactions,
//!   a part each between two operations. Both do what `upkeep` says.
//! - A writer waits for a checkpoint only where the log is full.
//!
//! Locks, against phantoms: a transaction that reads a key that is not there locks it all the same,
//! so no other inserts it. One that reads a range shares the gap before each of its keys and before
//! the first one after it. One that inserts a key has the intention to insert on the next one.

mod background;
mod ends;
mod joints;
mod range;
mod room;
mod scan;
mod session;
mod settling;
mod unlocked;
mod upkeep;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use pm::Files;

use crate::check::Checked;
use crate::file::NewFile;
use crate::ids::{Lsn, PageNo, TreeNo, TxNo};
use crate::latch::Latched;
use crate::lock::{LockCounts, LockOptions, LockTable};
use crate::log::LogManager;
use crate::pool::{Pool, PoolStats};
use crate::recovery::{self, Horizon, Restarted, Transactions};
use crate::threads::Host;
use crate::tree::{Leaves, Tree};
use crate::{PagedError, Result};

pub use range::{RowBound, RowRange};
pub use scan::{RowLock, RowScan, Rows, Visit};
pub use session::{Purpose, Session, Tried};

use background::Worker;
use room::Claims;
use upkeep::Upkeep;

/// The order in which a store is recovered and opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Restart {
    /// It is open when all is redone and undone (P2's passes).
    #[default]
    Full,
    /// It is open after analysis. A page is redone when it is first used, the rest in the
    /// background. Unfinished transactions are undone by the thread in the background; without one,
    /// before the store is open.
    OnDemand,
}

/// The options with which a store is used.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Bytes of a page: counts when the store is created.
    pub page_bytes: usize,
    /// Frames of the buffer pool.
    pub frames: usize,
    /// The options of the lock table.
    pub locks: LockOptions,
    /// Early lock release: locks go when the commit record has its LSN, not when it is durable.
    pub early_release: bool,
    /// Whether a thread takes checkpoints, writes pages before their frames are needed and finishes
    /// restarts. Without it each transaction does a part of that work.
    pub background: bool,
    /// The work that has to be done before it is open.
    pub restart: Restart,
    /// The longest time that an operation waits for room in the log, while no transaction ends that
    /// keeps the oldest part of it. Where no transaction can make room it does not wait: see
    /// `room`.
    pub room_wait: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            page_bytes: NewFile::new(0).page_bytes,
            frames: 1024,
            locks: LockOptions::default(),
            early_release: true,
            background: false,
            restart: Restart::Full,
            room_wait: Duration::from_secs(1),
        }
    }
}

/// A store; see the module's comment.
#[derive(Debug)]
pub struct Store<F: Files, T: Latched = Host> {
    upkeep: Arc<Upkeep<F, T>>,
    locks: Arc<LockTable<T>>,
    claims: Claims,
    next_tx: AtomicU64,
    threads: Arc<T>,
    worker: Mutex<Option<Worker<T>>>,
    /// The leaves of damaged pages: see [`Self::find_leaves`].
    leaves: OnceLock<Leaves>,
    horizon: Horizon,
    options: StoreOptions,
}

impl<F: Files> Store<F> {
    /// As [`Self::create_by`], by the threads of the host.
    ///
    /// # Errors
    /// As there.
    pub fn create(
        files: &F,
        prefix: &str,
        stamp: u64,
        log: Arc<dyn LogManager>,
        options: StoreOptions,
        trees: &[TreeNo],
    ) -> Result<Arc<Self>> {
        Self::create_by(Arc::default(), files, prefix, stamp, log, options, trees)
    }

    /// As [`Self::open_by`], by the threads of the host.
    ///
    /// # Errors
    /// As there.
    pub fn open(
        files: &F,
        prefix: &str,
        log: Arc<dyn LogManager>,
        options: StoreOptions,
    ) -> Result<(Arc<Self>, Restarted)> {
        Self::open_by(Arc::default(), files, prefix, log, options)
    }

    /// Looks whether the files of pages of this stamp are there and whole in their headers, without
    /// a change.
    ///
    /// # Errors
    /// A file is missing, cut off, damaged, or of another database.
    pub fn look(files: &F, prefix: &str, stamp: u64) -> Result<()> {
        crate::file::look(files, prefix, stamp, &[crate::pool::staging::NAME])
    }

    /// Returns the newest LSN that a page was written with, as far as the files say: the log was
    /// durable up to there. Nothing is changed.
    ///
    /// # Errors
    /// As [`Self::look`].
    pub fn written(files: &F, prefix: &str) -> Result<Lsn> {
        crate::pool::staging::newest(files, prefix)
    }

    /// Opens a store of which a part is damaged, in files that are not needed afterwards, for
    /// reading what can be read. Where the header is damaged its pages have this stamp, and the
    /// size that they show, or else that of `options`.
    ///
    /// # Errors
    /// The file of pages is missing, or the medium refuses.
    pub fn open_past_damage(
        files: &F,
        prefix: &str,
        stamp: u64,
        log: Arc<dyn LogManager>,
        options: StoreOptions,
    ) -> Result<Arc<Self>> {
        let new = NewFile { page_bytes: options.page_bytes, stamp };
        crate::pool::staging::make_whole(files, prefix, &new, log.start())?;
        let pool = Pool::open(files, prefix, options.frames, Arc::clone(&log))?;
        let transactions = Transactions::new();
        let restarted = recovery::restart_past_damage(&*log, &transactions, &pool);
        let next = TxNo(restarted.greatest.0 + 1);
        Ok(Self::over(Arc::default(), (pool, log, transactions), options, next))
    }
}

impl<F: Files, T: Latched> Store<F, T> {
    /// Creates a store with these trees, whose files have names that begin with `prefix`, durably,
    /// over a log that is empty. Its users wait by `threads`.
    ///
    /// # Errors
    /// There is one, or the medium refuses.
    pub fn create_by(
        threads: Arc<T>,
        files: &F,
        prefix: &str,
        stamp: u64,
        log: Arc<dyn LogManager>,
        options: StoreOptions,
        trees: &[TreeNo],
    ) -> Result<Arc<Self>> {
        let new = NewFile { page_bytes: options.page_bytes, stamp };
        let pool = Pool::create(files, prefix, &new, options.frames, Arc::clone(&log))?;
        let store = Self::over(threads, (pool, log, Transactions::new()), options, TxNo(1));
        let mut transaction = store.upkeep.transactions.begin(store.next_tx());
        for tree in trees {
            store.upkeep.pool.create_tree(&mut transaction, *tree)?;
        }
        let committed = transaction.commit(&*store.upkeep.log)?;
        store.upkeep.log.force(committed)?;
        store.upkeep.transactions.end(transaction);
        store.checkpoint()?;
        Self::begun(store)
    }

    /// Opens a store after its program has ended or died, over its log, and recovers it. Its users
    /// wait by `threads`.
    ///
    /// # Errors
    /// Pages or log are damaged or missing, or the medium refuses.
    pub fn open_by(
        threads: Arc<T>,
        files: &F,
        prefix: &str,
        log: Arc<dyn LogManager>,
        options: StoreOptions,
    ) -> Result<(Arc<Self>, Restarted)> {
        crate::pool::staging::check(files, prefix, log.end())?;
        let pool = Pool::open(files, prefix, options.frames, Arc::clone(&log))?;
        pool.check_noted(prefix)?;
        let transactions = Transactions::new();
        if options.restart == Restart::Full {
            let restarted = recovery::restart(&*log, &transactions, &pool)?;
            let next = TxNo(restarted.greatest.0 + 1);
            let store = Self::over(threads, (pool, log, transactions), options, next);
            // A store that was closed is opened without a change.
            if restarted.redone > 0 || restarted.losers > 0 {
                store.checkpoint_if_possible()?;
            }
            return Ok((Self::begun(store)?, restarted));
        }
        let (restarted, left) = recovery::restart_on_demand(&*log, &transactions, &pool)?;
        let next = TxNo(restarted.greatest.0 + 1);
        let store = Self::over(threads, (pool, log, transactions), options, next);
        store.upkeep.adopt(left, &store.locks)?;
        if !options.background {
            store.upkeep.undo_rest()?;
        }
        // Programs that die again and again before their checkpoint would make it longer and
        // longer.
        if store.upkeep.is_overdue() {
            store.checkpoint_if_possible()?;
        }
        Ok((Self::begun(store)?, restarted))
    }

    fn over(
        threads: Arc<T>,
        (pool, log, transactions): (Pool<F, T::Latching>, Arc<dyn LogManager>, Transactions),
        options: StoreOptions,
        next: TxNo,
    ) -> Arc<Self> {
        let locks = LockTable::new(Arc::clone(&threads), options.locks);
        Arc::new(Self {
            upkeep: Arc::new(Upkeep::new(pool, log, transactions, &locks)),
            locks,
            claims: Claims::default(),
            next_tx: AtomicU64::new(next.0),
            threads,
            worker: Mutex::new(None),
            leaves: OnceLock::new(),
            horizon: Horizon::default(),
            options,
        })
    }

    /// Starts the background thread, if there is to be one.
    fn begun(store: Arc<Self>) -> Result<Arc<Self>> {
        if store.options.background {
            *store.worker.lock() = Some(Worker::start(&store.threads, &store.upkeep)?);
        }
        Ok(store)
    }

    fn next_tx(&self) -> TxNo {
        TxNo(self.next_tx.fetch_add(1, Ordering::Relaxed))
    }

    fn begin_in(&self, slot: &recovery::Slot) -> recovery::Transaction {
        self.upkeep.transactions.begin_in(slot, self.next_tx())
    }

    /// A session, with no transaction.
    pub fn session(self: &Arc<Self>) -> Session<F, T> {
        Session::new(Arc::clone(self))
    }

    /// The pages.
    pub fn pool(&self) -> &Pool<F, T::Latching> {
        &self.upkeep.pool
    }

    /// The log.
    pub fn log(&self) -> &dyn LogManager {
        &*self.upkeep.log
    }

    /// The counts of the buffer pool.
    pub fn pool_stats(&self) -> PoolStats {
        self.upkeep.pool.stats()
    }

    /// The counts of the lock table.
    pub fn lock_counts(&self) -> LockCounts {
        self.locks.counts()
    }

    /// The number of transactions that had to end because all that held room in the log wanted
    /// more.
    pub fn room_victims(&self) -> u64 {
        self.claims.victims()
    }

    /// Takes a checkpoint, while transactions go on.
    ///
    /// # Errors
    /// A medium failed. Or the log has no room for it ([`PagedError::LogFull`]), or all frames are
    /// in use: the store goes on, and a later one may succeed.
    pub fn checkpoint(&self) -> Result<()> {
        self.upkeep.checkpoint().map(drop)
    }

    /// The same for opening, which needs none.
    fn checkpoint_if_possible(&self) -> Result<()> {
        self.checkpoint()
            .or_else(|error| if error.is_of_the_moment() { Ok(()) } else { Err(error) })
    }

    /// Copies all pages while transactions go on, for a base backup. Returns what the copy needs of
    /// the log. Afterwards the archive of the log, if it has one, has all of that.
    ///
    /// # Errors
    /// A page is damaged, `visit` failed, or a medium, or the archive does.
    pub fn copy_base(
        &self,
        visit: &mut dyn FnMut(PageNo, &[u8]) -> Result<()>,
    ) -> Result<crate::base::Base> {
        let taken = self.upkeep.checkpoint()?;
        let (pages, count) = crate::base::copy_pages(&self.upkeep.pool, visit)?;
        self.sync()?;
        let end = self.upkeep.log.end();
        self.checkpoint()?;
        match self.upkeep.log.hindrance() {
            Some(error) => Err(error),
            None => {
                let (keep, start) = (taken.keep, taken.start);
                let joint = self.upkeep.log.joint().unwrap_or_default();
                Ok(crate::base::Base { keep, start, end, pages, count, joint })
            }
        }
    }

    /// The number of pages that may lack changes since a crash, and of transactions to be undone.
    pub fn unfinished(&self) -> (usize, usize) {
        (self.upkeep.pool.lacking(), self.upkeep.unfinished())
    }

    /// Looks at every page, after all that a restart has left: see [`Pool::check`]. Nothing may be
    /// changed meanwhile.
    ///
    /// # Errors
    /// As there, or what is left cannot be undone.
    pub fn check(&self) -> Result<Checked> {
        self.upkeep.undo_rest()?;
        self.upkeep.pool.check()
    }

    /// Looks at every page, for a caller that saves what can be read and changes nothing any more:
    /// from now on a damaged page hides no other. Returns the errors of those that cannot be read.
    pub fn find_leaves(&self) -> Vec<PagedError> {
        let (leaves, damaged) = Leaves::find(&self.upkeep.pool);
        let _ = self.leaves.set(leaves);
        damaged
    }

    /// Returns key and row of the first row of a tree after a key, or of all, that can be read;
    /// `None` if there is none, or [`Self::find_leaves`] was not called.
    pub fn next_readable(&self, tree: TreeNo, after: Option<&[u8]>) -> Option<(Vec<u8>, Vec<u8>)> {
        self.tree(tree).ok()?.next_readable(after)
    }

    /// Checks that the background work has not failed.
    ///
    /// # Errors
    /// It has: the error says why.
    pub fn check_running(&self) -> Result<()> {
        self.upkeep.check_running()
    }

    /// Does a part of the background work, for a caller that has time. Returns false if there was
    /// nothing to do.
    ///
    /// # Errors
    /// A medium failed, and the store has stopped.
    pub fn work(&self) -> Result<bool> {
        self.upkeep.take_part()
    }

    /// Does a part of the background work, if there is no thread to do it.
    fn take_part(&self) -> Result<()> {
        self.upkeep.check_running()?;
        if self.options.background {
            return if self.upkeep.is_overdue() { self.upkeep.help() } else { Ok(()) };
        }
        if self.upkeep.has_work() {
            self.upkeep.take_part()?;
        }
        Ok(())
    }

    /// Waits until everything up to a place in the log is durable. Threads that wait share a sync.
    ///
    /// # Errors
    /// The medium failed.
    pub fn wait(&self, to: Lsn) -> Result<()> {
        if to <= self.upkeep.log.durable() { Ok(()) } else { self.upkeep.log.force(to) }
    }

    /// Makes everything durable that is committed.
    ///
    /// # Errors
    /// The medium failed.
    pub fn sync(&self) -> Result<()> {
        self.upkeep.log.force(self.upkeep.log.end())
    }

    /// Writes all pages and takes a checkpoint, so that the next opening has nothing to redo. No
    /// transaction is open.
    ///
    /// # Errors
    /// The medium failed.
    pub fn close(&self) -> Result<()> {
        // It ends with the part that it is doing.
        drop(self.worker.lock().take());
        self.upkeep.check_running()?;
        self.upkeep.undo_rest()?;
        self.upkeep.settle_rest()?;
        self.upkeep.pool.clean_all()?;
        self.checkpoint()?;
        self.upkeep.pool.forget_batch()
    }

    fn tree(&self, number: TreeNo) -> Result<Tree<'_, F, T::Latching>> {
        if let Some(leaves) = self.leaves.get() {
            return Ok(leaves.tree(&self.upkeep.pool, number));
        }
        self.upkeep.pool.tree(number)?.ok_or(PagedError::NoTree { tree: number })
    }
}
