//! The table of open transactions, as a checkpoint sees it.
//!
//! A checkpoint reads the table while transactions append. So that it misses no record below its
//! own begin, a transaction announces an append before the record has its LSN: while that lasts,
//! [`Place::pending`] is a place from which a scan meets the record.
//!
//! | a checkpoint that has its LSN reads `pending` | the record |
//! |---|---|
//! | before it is announced | gets its LSN later, after the checkpoint's  |
//! | while it is announced | is met, since analysis begins there |
//! | after that | is already the transaction's `last` |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::Result;
use crate::ids::{Lsn, TxNo};
use crate::log::{Chain, Kind, LogManager, Record};

/// Nothing is being appended.
pub(super) const QUIET: Lsn = Lsn(u64::MAX);
/// There is no transaction.
const NONE: u64 = 0;

/// A place in the table, with a transaction or without, for others to see. Its transaction alone
/// writes it, so it has lines of the cache of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Place {
    /// The number of the transaction. The other words are of this one if it is the same before and
    /// after they are read.
    tx: AtomicU64,
    pending: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    used: AtomicU64,
    /// It is committed, or undone.
    over: AtomicBool,
    /// The newest commit in this place, of this transaction or of one before.
    committed: AtomicU64,
}

impl Place {
    fn empty() -> Self {
        let word = AtomicU64::new;
        Self {
            tx: word(NONE),
            pending: word(QUIET.0),
            first: word(Lsn::NONE.0),
            last: word(Lsn::NONE.0),
            used: word(0),
            over: AtomicBool::new(true),
            committed: word(Lsn::NONE.0),
        }
    }

    /// Begins a transaction, which may have records.
    fn begin(&self, chain: &Chain) {
        debug_assert_eq!(self.tx.load(Ordering::Relaxed), NONE, "one transaction at a time");
        // While it has no number it is over, and has no first record before it is not.
        self.first.store(chain.first.0, Ordering::SeqCst);
        self.last.store(chain.last.0, Ordering::SeqCst);
        self.used.store(chain.used, Ordering::SeqCst);
        self.over.store(false, Ordering::SeqCst);
        self.tx.store(chain.tx.0, Ordering::SeqCst);
    }

    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.tx.store(NONE, Ordering::SeqCst);
    }

    fn is_used(&self) -> bool {
        self.tx.load(Ordering::SeqCst) != NONE
    }

    /// Reads the transaction, if there is one with records that is not over, and lowers `pending`
    /// to where it may just be appending.
    fn seen(&self, pending: &mut u64) -> Option<Seen> {
        loop {
            let tx = self.tx.load(Ordering::SeqCst);
            if tx == NONE {
                return None;
            }
            // First: what is published after it has been read was announced after that, too.
            *pending = self.pending.load(Ordering::SeqCst).min(*pending);
            let over = self.over.load(Ordering::SeqCst);
            let read = |word: &AtomicU64| word.load(Ordering::SeqCst);
            let (first, last) = (Lsn(read(&self.first)), Lsn(read(&self.last)));
            let used = read(&self.used);
            if self.tx.load(Ordering::SeqCst) == tx {
                let seen = Seen { tx: TxNo(tx), first, last, used };
                return (!over && first != Lsn::NONE).then_some(seen);
            }
        }
    }
}

/// An open transaction, as a checkpoint has found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) tx: TxNo,
    pub(super) first: Lsn,
    pub(super) last: Lsn,
    pub(super) used: u64,
}

/// The transactions that are not over, as a reader without locks has found them.
#[derive(Debug)]
pub(super) struct Unfinished {
    /// The first record of the oldest one.
    pub(super) first: Lsn,
    /// The least place at which one may just have appended.
    pub(super) pending: Lsn,
    /// The newest commit of those that are over.
    pub(super) newest: Lsn,
}

/// A place for the transactions of a session, one at a time, so that beginning one takes no memory
/// and no mutex.
#[derive(Debug)]
pub struct Slot(Arc<Place>);

/// All open transactions.
#[derive(Debug, Default)]
pub struct Transactions {
    places: Mutex<Vec<Arc<Place>>>,
    /// The newest commit in a place that is no more.
    committed: AtomicU64,
}

impl Transactions {
    /// A table of no transactions.
    pub fn new() -> Self {
        Self::default()
    }

    fn place(&self) -> Arc<Place> {
        let place = Arc::new(Place::empty());
        self.places.lock().push(Arc::clone(&place));
        place
    }

    fn remove(&self, place: &Arc<Place>) {
        let mut places = self.places.lock();
        self.committed.fetch_max(place.committed.load(Ordering::SeqCst), Ordering::SeqCst);
        places.retain(|other| !Arc::ptr_eq(other, place));
    }

    /// A place for the transactions of a session.
    pub fn slot(&self) -> Slot {
        Slot(self.place())
    }

    /// Takes a session's place back. A transaction that is in it, since it could not be undone,
    /// stays.
    #[expect(clippy::needless_pass_by_value, reason = "no transaction begins in it any more")]
    pub fn give_back(&self, slot: Slot) {
        if !slot.0.is_used() {
            self.remove(&slot.0);
        }
    }

    /// Begins a transaction with this number, which none has had, in a session's place.
    pub fn begin_in(&self, slot: &Slot, tx: TxNo) -> Transaction {
        let chain = Chain::new(tx);
        slot.0.begin(&chain);
        Transaction { place: Arc::clone(&slot.0), is_session: true, chain }
    }

    /// The same, in a place of its own.
    pub fn begin(&self, tx: TxNo) -> Transaction {
        self.adopt(Chain::new(tx))
    }

    /// Takes over a transaction that has records already.
    pub(super) fn adopt(&self, chain: Chain) -> Transaction {
        let place = self.place();
        place.begin(&chain);
        Transaction { place, is_session: false, chain }
    }

    /// Lets go of a transaction that is over.
    ///
    /// # Panics
    /// If it is neither committed nor undone, and has records.
    #[expect(clippy::needless_pass_by_value, reason = "nothing is appended to it any more")]
    pub fn end(&self, transaction: Transaction) {
        let over = transaction.place.over.load(Ordering::Acquire);
        assert!(over || transaction.chain.first == Lsn::NONE, "the transaction is not over");
        transaction.place.end();
        if !transaction.is_session {
            self.remove(&transaction.place);
        }
    }

    /// The number of open transactions.
    pub fn len(&self) -> usize {
        self.places.lock().iter().filter(|place| place.is_used()).count()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first record of the oldest transaction that has records and is not over.
    pub fn oldest(&self) -> Option<Lsn> {
        let places = self.places.lock();
        places.iter().filter_map(|place| place.seen(&mut 0)).map(|seen| seen.first).min()
    }

    /// The transactions that are not over now, as far as a reader without locks asks.
    pub(super) fn unfinished(&self) -> Unfinished {
        let places = self.places.lock();
        let (mut first, mut pending) = (QUIET, QUIET.0);
        let mut newest = self.committed.load(Ordering::SeqCst);
        for place in places.iter() {
            first = place.seen(&mut pending).map_or(first, |seen| seen.first.min(first));
            // Afterwards: one that is over has noted its commit before.
            newest = newest.max(place.committed.load(Ordering::SeqCst));
        }
        Unfinished { first, pending: Lsn(pending), newest: Lsn(newest) }
    }

    /// The transactions with records that are not over, by their numbers, and the least place at
    /// which one of them may just have appended.
    pub(super) fn seen(&self) -> (Vec<Seen>, Lsn) {
        let mut pending = QUIET.0;
        let places = self.places.lock();
        let mut seen: Vec<Seen> =
            places.iter().filter_map(|place| place.seen(&mut pending)).collect();
        seen.sort_unstable_by_key(|seen| seen.tx);
        (seen, Lsn(pending))
    }
}

/// A transaction that logs.
#[derive(Debug)]
pub struct Transaction {
    place: Arc<Place>,
    /// The place is that of a session.
    is_session: bool,
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
        self.announced(log, record.kind, |chain| log.append(chain, record))
    }

    /// Appends the record that commits it: see [`LogManager::commit`].
    ///
    /// # Errors
    /// As there.
    pub fn commit(&mut self, log: &dyn LogManager) -> Result<Lsn> {
        self.announced(log, Kind::Commit, |chain| log.commit(chain))
    }

    fn announced(
        &mut self,
        log: &dyn LogManager,
        kind: Kind,
        append: impl FnOnce(&mut Chain) -> Result<Lsn>,
    ) -> Result<Lsn> {
        self.place.pending.store(log.end().0, Ordering::SeqCst);
        let appended = append(&mut self.chain);
        if let Ok(at) = appended {
            let place = &self.place;
            // In this order: a concurrent reader finds no record whose bytes are not counted.
            place.used.store(self.chain.used, Ordering::SeqCst);
            place.last.store(self.chain.last.0, Ordering::SeqCst);
            place.first.store(self.chain.first.0, Ordering::SeqCst);
            if kind == Kind::Commit {
                place.committed.store(at.0, Ordering::SeqCst);
            }
            if matches!(kind, Kind::Commit | Kind::End) {
                place.over.store(true, Ordering::SeqCst);
            }
        }
        self.place.pending.store(QUIET.0, Ordering::SeqCst);
        appended
    }
}

#[cfg(test)]
mod tests {
    use pm::{Dram, Memory};

    use super::*;
    use crate::log::nv::{NvForm, NvLog, NvOptions, Persist};
    use crate::threads::Host;

    fn log() -> NvLog<Dram, Host> {
        let form = NvForm::of_bytes(64 << 20, 1 << 16, 1 << 10);
        let memory = Dram::new(64 << 20).expect("memory");
        memory.grow(form.bytes()).expect("within its limit");
        let options = NvOptions { persist: Persist::OnInsert, ..NvOptions::default() };
        NvLog::create(memory, 0, form, 1, options, Arc::default())
    }

    /// A restart sets less room aside for undoing a transaction than it takes, if a checkpoint says
    /// that its records have fewer bytes.
    #[test]
    fn a_transaction_that_is_seen_beside_an_append_has_the_bytes_of_its_newest_record() {
        const RECORDS: u64 = 40_000;
        const BYTES: u64 = 64;
        let log = log();
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

    /// The next transaction of a session has the place of the one before.
    #[test]
    fn a_place_shows_one_transaction_at_a_time() {
        const TRANSACTIONS: u64 = 10_000;
        /// The log has room for no more, however late the other thread is.
        const MOST: u64 = 200_000;
        const EACH: u64 = 4;
        let log = log();
        let (transactions, over) = (Transactions::new(), AtomicBool::new(false));
        let (begin, has_seen) = (log.end().0, AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let slot = transactions.slot();
                for tx in 0..MOST {
                    if tx > TRANSACTIONS && has_seen.load(Ordering::Relaxed) > 100 {
                        break;
                    }
                    let mut transaction = transactions.begin_in(&slot, TxNo(1 + tx));
                    for _ in 1..EACH {
                        transaction.append(&log, &Record::bare(Kind::Abort)).expect("appended");
                    }
                    transaction.append(&log, &Record::bare(Kind::End)).expect("appended");
                    transactions.end(transaction);
                }
                transactions.give_back(slot);
                over.store(true, Ordering::SeqCst);
            });
            let (mut seen, mut oldest) = (0_u64, Lsn::NONE);
            while !over.load(Ordering::SeqCst) {
                for Seen { tx, first, last, .. } in transactions.seen().0 {
                    let own = begin + (tx.0 - 1) * EACH;
                    assert_eq!(first, Lsn(own), "{tx}");
                    assert!((own..own + EACH).contains(&last.0), "{tx}: {last}");
                    seen += 1;
                    has_seen.store(seen, Ordering::Relaxed);
                }
                if let Some(now) = transactions.oldest() {
                    assert!(now >= oldest && (now.0 - begin).is_multiple_of(EACH), "{now}");
                    oldest = now;
                }
            }
            assert!(seen > 100, "{seen}");
        });
        assert!(transactions.is_empty() && transactions.seen().0.is_empty());
    }
}
