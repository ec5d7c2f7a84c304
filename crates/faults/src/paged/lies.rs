//! Log managers that do wrong, for faults that lie between a store and its log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paged::Result;
use paged::change::{Body, Change};
use paged::ids::{Lsn, TxNo};
use paged::log::{Chain, Kind, LogManager, Logged, Record, RoomWait};
use paged::threads::Waiter;

/// The wrong that a log manager does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// The head moves past records that pages and open transactions still need.
    HeadBeforePages,
    /// A transaction's end is logged where its undoing begins.
    EndBeforeCompensations,
    /// The growth of a tree by a level is not logged.
    RootUnlogged,
    /// A split is not logged.
    SplitUnlogged,
    /// A compensation is undone itself.
    CompensationUndone,
    /// A transaction is undone from its oldest record on.
    OldestUndoneFirst,
}

/// A log manager that does one thing wrong and leaves all others to another one.
#[derive(Debug)]
pub struct Lying {
    log: Arc<dyn LogManager>,
    lie: Lie,
    /// The records of transactions that are being undone, the oldest first.
    undone: Mutex<HashMap<TxNo, Vec<Logged>>>,
}

impl Lying {
    /// A liar over a log.
    pub fn over(log: Arc<dyn LogManager>, lie: Lie) -> Arc<dyn LogManager> {
        Arc::new(Self { log, lie, undone: Mutex::default() })
    }

    fn is_unlogged(&self, record: &Record<'_>) -> bool {
        let Ok(body) = Body::decode(record.payload) else { return false };
        record.kind == Kind::Change
            && match self.lie {
                Lie::RootUnlogged => matches!(body.change, Change::Root { .. }),
                Lie::SplitUnlogged => matches!(body.change, Change::Split { .. }),
                _ => false,
            }
    }

    /// The changes of a transaction up to a record, the oldest first.
    fn changes_up_to(&self, last: Lsn) -> Result<Vec<Logged>> {
        let (mut changes, mut at) = (Vec::new(), last);
        while at != Lsn::NONE {
            let record = self.log.read(at)?;
            at = record.prev;
            if record.kind == Kind::Change {
                changes.push(record);
            }
        }
        changes.reverse();
        Ok(changes)
    }

    fn undone(&self) -> MutexGuard<'_, HashMap<TxNo, Vec<Logged>>> {
        self.undone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the change that stands in this one's place if a transaction's changes are read in the
    /// reverse order; any other record as it is. It holds no lock while it reads the log, since
    /// another thread may run then.
    fn turned_round(&self, read: Logged) -> Result<Logged> {
        let known = self.undone().get(&read.tx).and_then(|known| known.last().map(|one| one.lsn));
        if known.is_none_or(|last| last < read.lsn) {
            let changes = self.changes_up_to(read.lsn)?;
            self.undone().insert(read.tx, changes);
        }
        let undone = self.undone();
        let known = &undone[&read.tx];
        let place = known.iter().position(|record| record.lsn == read.lsn);
        let Some(place) = place else { return Ok(read) };
        let other = &known[known.len() - 1 - place];
        let (page, page_before, payload) = (other.page, other.page_before, other.payload.clone());
        Ok(Logged { page, page_before, payload, ..read })
    }
}

impl LogManager for Lying {
    fn reserve(&self, chain: &mut Chain, bytes: u64) -> Result<()> {
        self.log.reserve(chain, bytes)
    }

    fn await_room(&self, wait: &Arc<RoomWait>) {
        self.log.await_room(wait);
    }

    fn forget_wait(&self, wait: &Arc<RoomWait>) {
        self.log.forget_wait(wait);
    }

    fn unreserve(&self, chain: &mut Chain) {
        self.log.unreserve(chain);
    }

    fn reserve_checkpoint(
        &self,
        chain: &mut Chain,
        payloads: &[usize],
        keep: Option<Lsn>,
    ) -> Result<()> {
        self.log.reserve_checkpoint(chain, payloads, keep)
    }

    fn append(&self, chain: &mut Chain, record: &Record<'_>) -> Result<Lsn> {
        if self.is_unlogged(record) {
            // A record that is not looked at has its LSN.
            return self.log.append(chain, &Record::bare(Kind::Abort));
        }
        if self.lie == Lie::EndBeforeCompensations && record.kind == Kind::Abort {
            return self.log.append(chain, &Record::bare(Kind::End));
        }
        self.log.append(chain, record)
    }

    fn commit(&self, chain: &mut Chain) -> Result<Lsn> {
        self.log.commit(chain)
    }

    fn durable(&self) -> Lsn {
        self.log.durable()
    }

    fn end(&self) -> Lsn {
        self.log.end()
    }

    fn force(&self, to: Lsn) -> Result<()> {
        self.log.force(to)
    }

    fn read(&self, at: Lsn) -> Result<Logged> {
        let read = self.log.read(at)?;
        match (self.lie, read.kind) {
            (Lie::CompensationUndone, Kind::Compensation) => {
                Ok(Logged { kind: Kind::Change, ..read })
            }
            (Lie::OldestUndoneFirst, Kind::Change) => self.turned_round(read),
            _ => Ok(read),
        }
    }

    fn consumed(&self) -> u64 {
        self.log.consumed()
    }

    fn largest(&self) -> usize {
        self.log.largest()
    }

    fn attend(&self, checkpointer: Arc<Waiter>) {
        self.log.attend(checkpointer);
    }

    fn is_due(&self) -> bool {
        self.log.is_due()
    }

    fn start(&self) -> Lsn {
        self.log.start()
    }

    fn truncate(&self, start: Lsn, keep: Lsn) -> Result<()> {
        let keep = if self.lie == Lie::HeadBeforePages { start } else { keep };
        self.log.truncate(start, keep)
    }

    fn adopt(&self, chain: &mut Chain) {
        self.log.adopt(chain);
    }

    fn scan(&self, from: Lsn, visit: &mut dyn FnMut(Logged) -> Result<()>) -> Result<()> {
        self.log.scan(from, visit)
    }
}
