//! A store: trees of rows under transactions, with the pages, the log, the locks and recovery that make
//! it up.
//!
//! Invariants:
//! - Whoever changes or reads a key of a tree holds its row lock until the end of its transaction, and
//!   the lock of the table before that. Keys of secondary trees are locked as rows of theirs.
//! - A lock is waited for with nothing latched. Under a latch it is only tried.
//! - Space that a row gives up is given away when the row's lock is free or the transaction that
//!   gave it up is committed: see [`crate::tree::Tree::settle`].
//! - A checkpoint is taken by whoever finds it due, between two operations. One runs at a time.
//!
//! Locks, against phantoms: who reads a key that is not there locks it all the same, so nobody
//! inserts it. Who reads a range shares the gap before each of its keys and before the first one
//! behind it. Who inserts a key has the intention to insert on the next one.

mod joints;
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pm::Files;

use crate::file::NewFile;
use crate::ids::{Lsn, TreeNo, TxNo};
use crate::latch::{Exclusive, Latched};
use crate::lock::{LockCounts, LockOptions, LockTable};
use crate::log::LogManager;
use crate::pool::{Pool, PoolStats};
use crate::recovery::{self, Restarted, Transactions, checkpoint};
use crate::threads::Host;
use crate::{PagedError, Result};

pub use session::{RowBound, RowRange, Session, Visit};

use joints::FreeRows;

/// The options with which a store is used.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Bytes of a page: counts when the store is created.
    pub page_bytes: usize,
    /// Frames of the buffer pool.
    pub frames: usize,
    /// Of the lock table.
    pub locks: LockOptions,
    /// Early lock release: locks go when the commit record has its LSN, not when it is durable.
    pub early_release: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            page_bytes: NewFile::new(0).page_bytes,
            frames: 1024,
            locks: LockOptions::default(),
            early_release: true,
        }
    }
}

/// A store; see the module's comment.
#[derive(Debug)]
pub struct Store<F: Files, T: Latched = Host> {
    pool: Pool<F, T::Latching>,
    log: Arc<dyn LogManager>,
    locks: Arc<LockTable<T>>,
    transactions: Transactions,
    next_tx: AtomicU64,
    checkpointing: Exclusive<T::Latching, ()>,
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
}

impl<F: Files, T: Latched> Store<F, T> {
    /// Creates a store with these trees, whose files have names that begin with `prefix`, durably, over
    /// a log that is empty. Who uses it waits by `threads`.
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
        let store = Self::over(threads, pool, log, options, TxNo(1));
        let mut transaction = store.begin();
        for tree in trees {
            store.pool.create_tree(&mut transaction, *tree)?;
        }
        let committed = transaction.commit(&*store.log)?;
        store.log.force(committed)?;
        store.transactions.end(transaction);
        store.checkpoint()?;
        Ok(store)
    }

    /// Opens a store after its program has ended or died, over its log, and recovers it. Who uses it
    /// waits by `threads`.
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
        let pool = Pool::open(files, prefix, options.frames, Arc::clone(&log))?;
        let transactions = Transactions::new();
        let restarted = recovery::restart(&*log, &transactions, &pool)?;
        let next = TxNo(restarted.greatest.0 + 1);
        let store = Self::over(threads, pool, log, options, next);
        // A store that was closed is opened without a change.
        if restarted.redone > 0 || restarted.losers > 0 {
            store.checkpoint()?;
        }
        Ok((store, restarted))
    }

    fn over(
        threads: Arc<T>,
        pool: Pool<F, T::Latching>,
        log: Arc<dyn LogManager>,
        options: StoreOptions,
        next: TxNo,
    ) -> Arc<Self> {
        let locks = LockTable::new(threads, options.locks);
        pool.set_settled(Arc::new(FreeRows(Arc::clone(&locks))));
        Arc::new(Self {
            pool,
            log,
            locks,
            transactions: Transactions::new(),
            next_tx: AtomicU64::new(next.0),
            checkpointing: Exclusive::new(()),
            options,
        })
    }

    fn begin(&self) -> recovery::Transaction {
        self.transactions.begin(TxNo(self.next_tx.fetch_add(1, Ordering::Relaxed)))
    }

    /// A session, with no transaction.
    pub fn session(self: &Arc<Self>) -> Session<F, T> {
        Session::new(Arc::clone(self))
    }

    /// The pages.
    pub fn pool(&self) -> &Pool<F, T::Latching> {
        &self.pool
    }

    /// The log.
    pub fn log(&self) -> &dyn LogManager {
        &*self.log
    }

    /// What the buffer pool has done.
    pub fn pool_stats(&self) -> PoolStats {
        self.pool.stats()
    }

    /// What the lock table has done.
    pub fn lock_counts(&self) -> LockCounts {
        self.locks.counts()
    }

    /// Takes a checkpoint, while transactions go on.
    ///
    /// # Errors
    /// A medium failed.
    pub fn checkpoint(&self) -> Result<()> {
        let _one = self.checkpointing.lock();
        self.take_checkpoint(self.log.end())
    }

    fn take_checkpoint(&self, write_before: Lsn) -> Result<()> {
        checkpoint::take(&*self.log, &self.pool, &self.transactions, write_before).map(drop)
    }

    /// Takes a checkpoint if one is due and nobody does so already.
    fn checkpoint_if_due(&self) -> Result<()> {
        if !self.log.is_due() {
            return Ok(());
        }
        match self.checkpointing.try_lock() {
            Some(_one) => self.take_checkpoint(self.log.end()),
            None => Ok(()),
        }
    }

    /// Waits until everything up to a place in the log is durable. Threads that wait share a sync.
    ///
    /// # Errors
    /// The medium failed.
    pub fn wait(&self, to: Lsn) -> Result<()> {
        if to <= self.log.durable() { Ok(()) } else { self.log.force(to) }
    }

    /// Makes everything durable that is committed.
    ///
    /// # Errors
    /// The medium failed.
    pub fn sync(&self) -> Result<()> {
        self.log.force(self.log.end())
    }

    /// Writes all pages and takes a checkpoint, so that the next opening has nothing to redo. No
    /// transaction is open.
    ///
    /// # Errors
    /// The medium failed.
    pub fn close(&self) -> Result<()> {
        self.pool.clean_all()?;
        self.checkpoint()?;
        self.pool.forget_batch()
    }

    fn tree(&self, number: TreeNo) -> Result<crate::tree::Tree<'_, F, T::Latching>> {
        self.pool.tree(number)?.ok_or(PagedError::NoTree { tree: number })
    }
}
