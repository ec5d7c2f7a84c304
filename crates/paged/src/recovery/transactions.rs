//! The table of open transactions, as a checkpoint sees it.
//!
//! A checkpoint reads the table while transactions append. So that it misses no record below its
//! own begin, a transaction announces an append before the record has its LSN: while that lasts,
//! [`Open::pending`] is a place from which a scan meets the record.
//!
//! | a checkpoint that has its LSN reads `pending` | the record |
//! |---|---|
//! | before it is announced | gets its LSN later, after the checkpoint's  |
//! | while it is announced | is met, since analysis begins there |
//! | after that | is already the transaction's `last` |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::Result;
use crate::ids::{Lsn, TxNo};
use crate::log::{Chain, Kind, LogManager, Record};

/// Nothing is being appended.
const QUIET: u64 = u64::MAX;

/// An open transaction, for others to see.
#[derive(Debug)]
struct Open {
    pending: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    used: AtomicU64,
    /// It is committed, or undone.
    over: AtomicBool,
}

/// An open transaction, as a checkpoint has found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) tx: TxNo,
    pub(super) first: Lsn,
    pub(super) last: Lsn,
    pub(super) used: u64,
}

/// All open transactions.
#[derive(Debug, Default)]
pub struct Transactions {
    open: Mutex<BTreeMap<TxNo, Arc<Open>>>,
}

impl Transactions {
    /// A table of no transactions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a transaction with this number, which none has had.
    pub fn begin(&self, tx: TxNo) -> Transaction {
        self.adopt(Chain::new(tx))
    }

    /// Takes over a transaction that has records already.
    pub(super) fn adopt(&self, chain: Chain) -> Transaction {
        let open = Arc::new(Open {
            pending: AtomicU64::new(QUIET),
            first: AtomicU64::new(chain.first.0),
            last: AtomicU64::new(chain.last.0),
            used: AtomicU64::new(chain.used),
            over: AtomicBool::new(false),
        });
        let before = self.open.lock().insert(chain.tx, Arc::clone(&open));
        assert!(before.is_none(), "the number of a transaction is its own");
        Transaction { open, chain }
    }

    /// Lets go of a transaction that is over.
    ///
    /// # Panics
    /// If it is neither committed nor undone, and has records.
    #[expect(clippy::needless_pass_by_value, reason = "nothing is appended to it any more")]
    pub fn end(&self, transaction: Transaction) {
        let over = transaction.open.over.load(Ordering::Acquire);
        assert!(over || transaction.chain.first == Lsn::NONE, "the transaction is not over");
        self.open.lock().remove(&transaction.chain.tx);
    }

    /// The number of open transactions.
    pub fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first record of the oldest transaction that has records and is not over.
    pub fn oldest(&self) -> Option<Lsn> {
        let open = self.open.lock();
        let logs = open.values().filter(|open| !open.over.load(Ordering::SeqCst));
        let firsts = logs.map(|open| Lsn(open.first.load(Ordering::SeqCst)));
        firsts.filter(|first| *first != Lsn::NONE).min()
    }

    /// The transactions with records that are not over, and the least place at which one of them
    /// may just have appended.
    pub(super) fn seen(&self) -> (Vec<Seen>, Lsn) {
        let mut pending = QUIET;
        let mut seen = Vec::new();
        for (tx, open) in &*self.open.lock() {
            // First: what is published after it has been read was announced after that, too.
            pending = pending.min(open.pending.load(Ordering::SeqCst));
            if open.over.load(Ordering::SeqCst) {
                continue;
            }
            let read = |word: &AtomicU64| word.load(Ordering::SeqCst);
            let (first, last) = (Lsn(read(&open.first)), Lsn(read(&open.last)));
            if first != Lsn::NONE {
                seen.push(Seen { tx: *tx, first, last, used: read(&open.used) });
            }
        }
        (seen, Lsn(pending))
    }
}

/// A transaction that logs.
#[derive(Debug)]
pub struct Transaction {
    open: Arc<Open>,
    chain: Chain,
}

impl Transaction {
    /// Its number.
    pub fn tx(&self) -> TxNo {
        self.chain.tx
    }

    /// Its first record.
    pub fn first(&self) -> Lsn {
        self.chain.first
    }

    /// Its newest record: a savepoint for [`undo::rollback_to`](super::undo::rollback_to).
    pub fn last(&self) -> Lsn {
        self.chain.last
    }

    /// Returns whether it holds room in the log: records, or what is set aside.
    pub fn holds_room(&self) -> bool {
        self.chain.first != Lsn::NONE || self.chain.ahead > 0
    }

    /// Sets room aside: see [`LogManager::reserve`].
    ///
    /// # Errors
    /// As there.
    pub fn reserve(&mut self, log: &dyn LogManager, bytes: u64) -> Result<()> {
        log.reserve(&mut self.chain, bytes)
    }

    /// Gives back what it has reserved and not used: see [`LogManager::unreserve`].
    pub fn unreserve(&mut self, log: &dyn LogManager) {
        if self.chain.ahead > 0 {
            log.unreserve(&mut self.chain);
        }
    }

    /// Appends a record: see [`LogManager::append`].
    ///
    /// # Errors
    /// As there.
    pub fn append(&mut self, log: &dyn LogManager, record: &Record<'_>) -> Result<Lsn> {
        let over = matches!(record.kind, Kind::Commit | Kind::End);
        self.announced(log, over, |chain| log.append(chain, record))
    }

    /// Appends the record that commits it: see [`LogManager::commit`].
    ///
    /// # Errors
    /// As there.
    pub fn commit(&mut self, log: &dyn LogManager) -> Result<Lsn> {
        self.announced(log, true, |chain| log.commit(chain))
    }

    fn announced(
        &mut self,
        log: &dyn LogManager,
        over: bool,
        append: impl FnOnce(&mut Chain) -> Result<Lsn>,
    ) -> Result<Lsn> {
        self.open.pending.store(log.end().0, Ordering::SeqCst);
        let appended = append(&mut self.chain);
        if appended.is_ok() {
            let open = &self.open;
            // In this order: a concurrent reader finds no record whose bytes are not counted.
            open.used.store(self.chain.used, Ordering::SeqCst);
            open.last.store(self.chain.last.0, Ordering::SeqCst);
            open.first.store(self.chain.first.0, Ordering::SeqCst);
            if over {
                open.over.store(true, Ordering::SeqCst);
            }
        }
        self.open.pending.store(QUIET, Ordering::SeqCst);
        appended
    }
}

#[cfg(test)]
mod tests {
    use pm::{Dram, Memory};

    use super::*;
    use crate::log::nv::{NvForm, NvLog, NvOptions, Persist};
    use crate::threads::Host;

    /// A restart sets less room aside for undoing a transaction than it takes, if a checkpoint says
    /// that its records have fewer bytes.
    #[test]
    fn a_transaction_that_is_seen_beside_an_append_has_the_bytes_of_its_newest_record() {
        const RECORDS: u64 = 40_000;
        const BYTES: u64 = 64;
        let form = NvForm::of_bytes(64 << 20, 1 << 16, 1 << 10);
        let memory = Dram::new(64 << 20).expect("memory");
        memory.grow(form.bytes()).expect("within its limit");
        let options = NvOptions { persist: Persist::OnInsert, ..NvOptions::default() };
        let log: NvLog<Dram, Host> = NvLog::create(memory, 0, form, 1, options, Arc::default());
        let (transactions, over) = (Transactions::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut transaction = transactions.begin(TxNo(1));
                for _ in 0..RECORDS {
                    transaction.append(&log, &Record::bare(Kind::Abort)).expect("appended");
                }
                over.store(true, Ordering::SeqCst);
            });
            while !over.load(Ordering::SeqCst) {
                for Seen { first, last, used, .. } in transactions.seen().0 {
                    assert!(used >= (last.0 + 1 - first.0) * BYTES, "{first} to {last}: {used}");
                }
            }
        });
    }
}
