//! Inserting an object; with flush-on-insert (P2 4.3) it is durable in its place before anything else
//! happens.

use std::sync::atomic::Ordering;

use pm::{Memory, Off, Range};

use super::super::record::{self, HEADER_BYTES, MOST_SURE, Placed};
use super::super::{Chain, Kind, Record};
use super::NvLog;
use crate::Result;
use crate::flaw::Flaw;
use crate::ids::{Lsn, TxNo};
use crate::threads::Threads;

impl<M: Memory, T: Threads> NvLog<M, T> {
    /// How sure a record with this LSN is of the log before it: see [`Placed::sure`].
    fn sure(&self, lsn: Lsn, tx: TxNo, kind: Kind) -> u32 {
        let is_change = matches!(kind, Kind::Change | Kind::Compensation);
        let durable_before = match &self.slots {
            Some(slots) => slots.prefix() + 1,
            // Those of transactions name the records that they rest on, and are the most.
            None if is_change && tx != TxNo(0) => return 0,
            None => self.under_way.durable_before(lsn.0),
        };
        let sure = lsn.0 - durable_before.min(lsn.0) + 1;
        if sure > u64::from(MOST_SURE) { 0 } else { sure as u32 }
    }

    /// Puts a record into the log, for which there is room.
    ///
    /// 1. The object gets its place, then its LSN, and is made in DRAM.
    /// 2. It is copied to its place and flushed; the entry is set and flushed.
    /// 3. One fence: the checksum shows an entry that was durable before its object.
    ///
    /// With flush-on-commit the object waits in DRAM for 2 and 3.
    ///
    /// # Errors
    /// The medium failed by the time of the fence: the object may be lost.
    pub(super) fn insert(&self, chain: &Chain, record: &Record<'_>, bytes: u64) -> Result<Lsn> {
        let mut lane = self.segments.lane(self.threads.number());
        let place = self.segments.place(&mut lane, bytes);
        self.under_way.begin(lane.number, self.next.load(Ordering::SeqCst));
        let lsn = Lsn(self.next.fetch_add(1, Ordering::SeqCst));
        self.threads.point();
        self.segments.placed(&mut lane, lsn);
        let sure = self.sure(lsn, chain.tx, record.kind);
        let placed = Placed { lsn, tx: chain.tx, prev: chain.last, mark: self.restart, sure };
        lane.object.clear();
        record::encode(&mut lane.object, &placed, record, None);
        let used = HEADER_BYTES + record.payload.len();
        lane.object.truncate(used);
        if let Some(slots) = &self.slots {
            slots.fill(lsn, place, std::mem::take(&mut lane.object));
            lane.object = slots.spare();
            drop(lane);
            slots.wake(&*self.threads);
            return Ok(lsn);
        }
        self.memory.copy(Off::new(place), &lane.object);
        let is_flushed =
            record.kind != Kind::Compensation || !self.threads.has(Flaw::CompensationUnflushed);
        if is_flushed {
            self.memory.flush(Range::new(place, used as u64));
        }
        self.ring.set(lsn, place);
        self.threads.point();
        self.memory.fence();
        self.under_way.end(lane.number);
        self.healthy()?;
        Ok(lsn)
    }
}
