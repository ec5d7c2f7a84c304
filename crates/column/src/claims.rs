//! Claims of rows: a transaction claims a row that it is going to change, and other transactions do not change the
//! row until it ends.
//!
//! Claims are made, and checked by statements, with the stripe of the row's key held. So of two transactions that
//! want one row the first one gets it: a claimed row is the last version of its key, and no other transaction ends
//! it. Claims are in ordinary memory alone: a transaction that goes on after a crash, or in another session, has
//! none.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering::Relaxed;

use pm::Memory;

use crate::Result;
use crate::latch::{Latch, Waiting};
use crate::session::Session;
use crate::stripes::Stripes;
use crate::sync::AtomicU64;
use crate::table::Table;
use crate::version::ReadView;

/// A table and the bytes of a primary key.
type Claimed = (usize, Vec<u8>);

#[derive(Debug, Default)]
struct Holders {
    /// The session that has each row.
    of: HashMap<Claimed, u64>,
    /// The rows of each session.
    rows: HashMap<u64, Vec<Claimed>>,
    /// The number of the last session.
    sessions: u64,
}

/// The claims of all sessions; see the module's comment.
#[derive(Debug)]
pub(crate) struct Claims {
    holders: Latch<Holders>,
    /// The number of claims, for a check without the latch. The caller of a check has the row's stripe, or has
    /// made the claim itself, so it misses no claim that counts.
    count: AtomicU64,
}

impl Claims {
    pub(crate) fn new(waiting: &Waiting) -> Self {
        Self { holders: Latch::new(Holders::default(), waiting), count: AtomicU64::new(0) }
    }

    /// Returns a number for a session.
    pub(crate) fn next_session(&self) -> u64 {
        let mut holders = self.holders.write();
        holders.sessions += 1;
        holders.sessions
    }

    /// Returns whether another session has claimed a row.
    pub(crate) fn are_others(&self, session: u64, table: usize, key: &[u8]) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let claimed = (table, key.to_vec());
        self.holders.read().of.get(&claimed).is_some_and(|holder| *holder != session)
    }

    /// Claims a row for a session; returns false if another one has it.
    fn add(&self, session: u64, row: Claimed) -> bool {
        let mut holders = self.holders.write();
        match holders.of.entry(row.clone()) {
            Entry::Occupied(claimed) => *claimed.get() == session,
            Entry::Vacant(place) => {
                place.insert(session);
                holders.rows.entry(session).or_default().push(row);
                self.count.fetch_add(1, Relaxed);
                true
            }
        }
    }

    /// The transaction of a session is over.
    pub(crate) fn end(&self, session: u64) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let mut holders = self.holders.write();
        for row in holders.rows.remove(&session).unwrap_or_default() {
            holders.of.remove(&row);
            self.count.fetch_sub(1, Relaxed);
        }
    }
}

impl<M: Memory> Session<M> {
    /// Claims a version that the open transaction sees; returns false if another one has ended or claimed
    /// it. Without a transaction there is nothing to claim for.
    pub(crate) fn claim(&self, table: &Table<M>, row: u64, view: &ReadView<'_>) -> Result<bool> {
        if self.open.is_none() {
            return Ok(true);
        }
        let key = table.key(row, 0)?.bytes;
        let _stripe = self.shared.stripes.take(vec![Stripes::of(table.number, 0, &key)]);
        Ok(self.shared.is_last_for(table, row, view)?
            && self.shared.claims.add(self.number, (table.number, key)))
    }
}
