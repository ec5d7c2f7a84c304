//! Syncing a log while its owner appends to it: what a [`Wal`](super::Wal) shares with its
//! [`WalSyncer`]s.
//!
//! Invariants:
//! - At most one sync of the log is under way. The kernel reports an error of the medium to one
//!   sync of a file: two that ran at the same time could share the loss, and one of them the error.
//! - A syncer makes durable what the owner had written out before the sync began
//!   ([`Wal::write_out`](super::Wal::write_out)), and says no more.
//! - The owner that syncs itself waits for a syncer that is at work. It need not look for one
//!   unless it has written something out since its own last sync: else all is durable, and a syncer
//!   finds nothing to do.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pm::File;

use super::error::WalError;

/// The part that was written out: a sync of this file makes the transactions before `txn` durable.
#[derive(Debug)]
struct WrittenOut<R> {
    file: Arc<R>,
    name: Arc<str>,
    txn: u64,
}

impl<R> Clone for WrittenOut<R> {
    fn clone(&self) -> Self {
        Self { file: self.file.clone(), name: self.name.clone(), txn: self.txn }
    }
}

/// Says how far a log is durable, for its owner and its syncers.
#[derive(Debug)]
pub(super) struct Shared<R> {
    /// The first transaction that is not durable. Changed by the thread that syncs.
    first_pending: AtomicU64,
    poisoned: AtomicBool,
    written_out: Mutex<Option<WrittenOut<R>>>,
    /// Taken by who syncs.
    syncing: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: File> Shared<R> {
    pub(super) fn new(first_pending: u64) -> Arc<Self> {
        Arc::new(Self {
            first_pending: AtomicU64::new(first_pending),
            poisoned: AtomicBool::new(false),
            written_out: Mutex::new(None),
            syncing: Mutex::new(()),
        })
    }

    #[inline]
    pub(super) fn first_pending(&self) -> u64 {
        self.first_pending.load(Acquire)
    }

    /// All before `txn` is durable. Called by who syncs.
    #[inline]
    pub(super) fn made_durable(&self, txn: u64) {
        self.first_pending.store(txn, Release);
    }

    #[inline]
    pub(super) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Acquire)
    }

    #[cold]
    pub(super) fn poison(&self) {
        self.poisoned.store(true, Release);
    }

    /// The owner has written out what is before `txn` to `file`, and nothing of it is elsewhere but
    /// durable.
    pub(super) fn write_out(&self, file: &Arc<R>, name: &str, txn: u64) {
        let (file, name) = (file.clone(), name.into());
        *lock(&self.written_out) = Some(WrittenOut { file, name, txn });
    }

    /// Waits for the syncer that is at work. The owner syncs itself then, and leaves nothing to do
    /// for those who come later.
    #[cold]
    pub(super) fn quiet(&self) -> MutexGuard<'_, ()> {
        let quiet = lock(&self.syncing);
        *lock(&self.written_out) = None;
        quiet
    }

    fn sync(&self) -> Result<u64, WalError> {
        let _quiet = lock(&self.syncing);
        if self.is_poisoned() {
            return Err(WalError::Poisoned);
        }
        let Some(WrittenOut { file, name, txn }) = lock(&self.written_out).clone() else {
            return Ok(self.first_pending());
        };
        file.sync().map_err(|source| {
            self.poison();
            WalError::Io { doing: "sync", name: (*name).into(), source }
        })?;
        self.made_durable(txn);
        // Unless there is more already. The file may be removed before the next time.
        lock(&self.written_out).take_if(|now| now.txn == txn);
        Ok(txn)
    }
}

/// Makes a log durable from any thread, while another thread appends to it.
#[derive(Debug)]
pub struct WalSyncer<R>(pub(super) Arc<Shared<R>>);

impl<R: File> WalSyncer<R> {
    /// Makes durable what had been written out when this was called. Returns the first transaction
    /// that is not durable.
    ///
    /// # Errors
    /// [`WalError::Poisoned`], or [`WalError::Io`]: the log is poisoned.
    pub fn sync(&self) -> Result<u64, WalError> {
        self.0.sync()
    }
}
