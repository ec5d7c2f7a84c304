//! Inserting an object; with flush-on-insert (P2 4.3) it is durable in its place before anything else
//! happens.

use std::sync::atomic::Ordering;

use pm::{Memory, Off, Range};

use super::super::record::{self, HEADER_BYTES, Placed};
use super::super::{Chain, Kind, Record};
use super::NvLog;
use crate::flaw::Flaw;
use crate::ids::Lsn;
use crate::threads::Threads;

impl<M: Memory, T: Threads> NvLog<M, T> {
    /// Puts a record into the log, for which there is room.
    ///
    /// 1. The object gets its place, then its LSN, and is made in DRAM.
    /// 2. It is copied to its place and flushed; the entry is set and flushed.
    /// 3. One fence: the checksum tells whether an entry was durable before its object.
    ///
    /// With flush-on-commit the object waits in DRAM for 2 and 3.
    pub(super) fn insert(&self, chain: &Chain, record: &Record<'_>, bytes: u64) -> Lsn {
        let mut lane = self.segments.lane(self.threads.number());
        let place = self.segments.place(&mut lane, bytes);
        let lsn = Lsn(self.next.fetch_add(1, Ordering::AcqRel));
        self.threads.point();
        self.segments.placed(&mut lane, lsn);
        let placed = Placed { lsn, tx: chain.tx, prev: chain.last, mark: self.restart };
        lane.object.clear();
        record::encode(&mut lane.object, &placed, record, None);
        let used = HEADER_BYTES + record.payload.len();
        lane.object.truncate(used);
        if let Some(slots) = &self.slots {
            slots.fill(lsn, place, std::mem::take(&mut lane.object));
            lane.object = slots.spare();
            drop(lane);
            slots.wake(&*self.threads);
            return lsn;
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
        lsn
    }
}
