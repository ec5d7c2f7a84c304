//! The horizon: a place in the log below which no transaction is unfinished, and all is durable.
//!
//! A reader that sees the changes below it, and no others, sees what some order of transactions
//! leaves, and nothing that a crash would take back:
//!
//! 1. A transaction that is not over has all its records at the horizon or after it, and so has one
//!    that is committed and not yet durable.
//! 2. A transaction with records on both sides was over, and durable if it had committed, before the
//!    horizon was used. What it changed at the horizon or after it lies on pages that a reader
//!    refuses. Of the pages that a reader takes it has all of the transaction's changes.
//! 3. A horizon that was right once stays so. It moves forward when a reader finds that the log has
//!    grown.
//!
//! Records of system transactions, such as splits, change no row: whether they are durable does not
//! matter.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Transactions;
use super::transactions::{QUIET, Unfinished};
use crate::ids::Lsn;
use crate::log::LogManager;

/// A horizon that is right once the log is durable up to the newest commit.
#[derive(Debug, Default)]
struct Candidate {
    horizon: Lsn,
    newest: Lsn,
    /// The end of the log, unless a record was just being appended: then what it has ended is not
    /// known to be over, and the log may not grow again.
    end: Option<Lsn>,
}

impl Candidate {
    fn now(log: &dyn LogManager, transactions: &Transactions) -> Self {
        // First: a transaction that is not seen to append gets its LSN after that.
        let end = log.end();
        let Unfinished { first, pending, newest } = transactions.unfinished();
        let is_quiet = pending == QUIET;
        Self { horizon: first.min(pending).min(end), newest, end: is_quiet.then_some(end) }
    }
}

/// The place below which no transaction is unfinished; what lies below it may not be durable yet.
pub(crate) fn unfinished(log: &dyn LogManager, transactions: &Transactions) -> Lsn {
    Candidate::now(log, transactions).horizon
}

/// The horizon, as far as it is known.
#[derive(Debug)]
pub struct Horizon {
    known: AtomicU64,
    /// The end that the log had when it was known.
    end: AtomicU64,
    next: Mutex<Candidate>,
}

impl Default for Horizon {
    fn default() -> Self {
        Self {
            known: AtomicU64::new(Lsn::NONE.0),
            end: AtomicU64::new(u64::MAX),
            next: Mutex::default(),
        }
    }
}

impl Horizon {
    /// Returns the horizon, which is perhaps less than the newest possible.
    #[inline]
    pub fn get(&self, log: &dyn LogManager, transactions: &Transactions) -> Lsn {
        if self.end.load(Ordering::Acquire) != log.end().0 {
            self.look(log, transactions);
        }
        Lsn(self.known.load(Ordering::Acquire))
    }

    /// Moves the horizon forward, unless another thread is doing so.
    #[cold]
    fn look(&self, log: &dyn LogManager, transactions: &Transactions) {
        let Some(mut next) = self.next.try_lock() else { return };
        let found = Candidate::now(log, transactions);
        let durable = log.durable();
        if found.newest <= durable {
            self.known.fetch_max(found.horizon.0, Ordering::AcqRel);
            if let Some(end) = found.end {
                self.end.store(end.0, Ordering::Release);
            }
            *next = found;
        } else if next.newest <= durable {
            self.known.fetch_max(next.horizon.0, Ordering::AcqRel);
            *next = found;
        }
    }
}

#[cfg(test)]
mod tests {
    use pm::{Dram, Memory};

    use super::*;
    use crate::ids::TxNo;
    use crate::log::central::{Central, CentralOptions};
    use crate::log::{Chain, Kind, Record};
    use crate::threads::Host;
    use sim::RecordingFiles;

    fn change() -> Record<'static> {
        Record::bare(Kind::Abort)
    }

    /// A log that is durable when it is forced.
    fn log() -> Central<RecordingFiles, Host> {
        let files = RecordingFiles::new();
        Central::create(&files, "log-", CentralOptions::default(), std::sync::Arc::default())
            .expect("a log")
    }

    #[test]
    fn it_is_before_the_first_record_of_what_is_not_over() {
        let (log, transactions, horizon) = (log(), Transactions::new(), Horizon::default());
        let get = || horizon.get(&log, &transactions);
        assert_eq!(get(), log.end(), "there is no transaction");
        let mut first = transactions.begin(TxNo(1));
        first.append(&log, &change()).expect("appended");
        let at = first.first();
        let mut second = transactions.begin(TxNo(2));
        second.append(&log, &change()).expect("appended");
        let committed = second.commit(&log).expect("committed");
        transactions.end(second);
        log.force(committed).expect("durable");
        assert_eq!(get(), at, "the first one is open");
        first.append(&log, &change()).expect("appended");
        let committed = first.commit(&log).expect("committed");
        transactions.end(first);
        log.force(committed).expect("durable");
        assert_eq!(get(), log.end());
    }

    #[test]
    fn it_waits_for_the_commit_to_be_durable() {
        let (log, transactions, horizon) = (log(), Transactions::new(), Horizon::default());
        let get = || horizon.get(&log, &transactions);
        let before = get();
        let mut one = transactions.begin(TxNo(1));
        one.append(&log, &change()).expect("appended");
        let committed = one.commit(&log).expect("committed");
        transactions.end(one);
        assert!(committed > log.durable());
        assert_eq!(get(), before);
        log.force(committed).expect("durable");
        let known = get();
        assert!(known > committed, "{known}");
        // A record of no transaction holds nothing back.
        log.append(&mut Chain::default(), &change()).expect("appended");
        assert!(log.durable() < log.end());
        assert_eq!(get(), log.end());
    }

    /// A commit that became durable meanwhile is used, though a later one is not.
    #[test]
    fn it_moves_forward_although_there_is_always_a_commit_that_is_not_durable() {
        let (log, transactions, horizon) = (log(), Transactions::new(), Horizon::default());
        let commit = |tx| {
            let mut one = transactions.begin(TxNo(tx));
            one.append(&log, &change()).expect("appended");
            let committed = one.commit(&log).expect("committed");
            transactions.end(one);
            committed
        };
        let mut before = horizon.get(&log, &transactions);
        let mut last = commit(1);
        for tx in 2..20 {
            horizon.get(&log, &transactions);
            let durable = last;
            log.force(durable).expect("durable");
            last = commit(tx);
            let known = horizon.get(&log, &transactions);
            assert!(known >= before, "it does not go back");
            if known > before {
                before = known;
            }
        }
        assert!(before > Lsn(0) && before >= Lsn(last.0 / 2), "{before} of {last}");
    }

    /// No transaction is in part below the horizon, and in part open.
    #[test]
    fn nothing_unfinished_is_below_it() {
        const TRANSACTIONS: u64 = 2_000;
        let memory = Dram::new(64 << 20).expect("memory");
        let form = crate::log::nv::NvForm::of_bytes(64 << 20, 1 << 16, 1 << 10);
        memory.grow(form.bytes()).expect("within its limit");
        let log: crate::log::nv::NvLog<Dram, Host> = crate::log::nv::NvLog::create(
            memory,
            0,
            form,
            1,
            crate::log::nv::NvOptions::default(),
            std::sync::Arc::default(),
        );
        let (transactions, horizon) = (Transactions::new(), Horizon::default());
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (log, transactions, horizon) = (&log, &transactions, &horizon);
                scope.spawn(move || {
                    let slot = transactions.slot();
                    for tx in 0..TRANSACTIONS {
                        let number = TxNo(1 + 2 * tx + thread);
                        let mut one = transactions.begin_in(&slot, number);
                        one.append(log, &change()).expect("appended");
                        let first = one.first();
                        assert!(horizon.get(log, transactions) <= first, "it is open");
                        one.append(log, &change()).expect("appended");
                        assert!(horizon.get(log, transactions) <= first, "it is open");
                        let committed = one.commit(log).expect("committed");
                        transactions.end(one);
                        log.force(committed).expect("durable");
                    }
                    transactions.give_back(slot);
                });
            }
        });
        assert_eq!(horizon.get(&log, &transactions), log.end());
    }
}
