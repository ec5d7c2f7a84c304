//! Flush-on-commit (P2 4.3): pages change at once, and objects become durable behind that.
//!
//! A committed change may lie on a change of another transaction, as a row on a page that was split.
//! So a transaction is durable when all older records are, not its own alone: what is durable is a
//! prefix, and recovery ends at the first hole.
//!
//! 1. An object is made in DRAM, in the slot of its LSN, with its place in the segments.
//! 2. `force` goes along the slots from the prefix on: what is full it claims, copies and flushes;
//!    then one fence, and the slots are durable. The prefix moves over durable slots.
//! 3. Where another thread has claimed a slot, or is about to fill one, it waits: whoever fills a
//!    slot or makes one durable wakes those who wait.
//! 4. A persister that does the same behind everyone leaves little to commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use pm::{Memory, Off, Range};

use super::NvLog;
use crate::Result;
use crate::flaw::Flaw;
use crate::ids::Lsn;
use crate::threads::{Threads, Waiter};

/// The state of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    /// It is durable, or the slot was never used.
    #[default]
    Durable,
    /// It is made, in DRAM alone.
    Full,
    /// A thread makes it durable.
    Claimed,
}

/// The object of an LSN, in DRAM.
#[derive(Debug, Default)]
struct Slot {
    lsn: Lsn,
    stage: Stage,
    place: u64,
    bytes: Vec<u8>,
}

/// The objects that are not durable yet.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Mutex<Slot>>,
    /// Everything up to here is durable.
    prefix: AtomicU64,
    waiting: Mutex<Vec<Arc<Waiter>>>,
    waiters: AtomicUsize,
}

impl Slots {
    /// Slots for so many LSNs, of which all up to `prefix` are durable.
    pub(super) fn new(entries: u64, prefix: u64) -> Self {
        Self {
            slots: std::iter::repeat_with(Mutex::default).take(entries as usize).collect(),
            prefix: AtomicU64::new(prefix),
            waiting: Mutex::default(),
            waiters: AtomicUsize::new(0),
        }
    }

    fn of(&self, lsn: u64) -> &Mutex<Slot> {
        &self.slots[(lsn % self.slots.len() as u64) as usize]
    }

    pub(super) fn prefix(&self) -> u64 {
        self.prefix.load(Ordering::Acquire)
    }

    /// Fills the slot of an LSN with an object that belongs to `place`; the bytes that were there are
    /// given back, to be used again.
    pub(super) fn fill(&self, lsn: Lsn, place: u64, bytes: &mut Vec<u8>) {
        let mut slot = self.of(lsn.0).lock();
        assert_eq!(
            slot.stage,
            Stage::Durable,
            "the ring has no room for an LSN that is not durable"
        );
        std::mem::swap(&mut slot.bytes, bytes);
        (slot.lsn, slot.stage, slot.place) = (lsn, Stage::Full, place);
    }

    /// Claims the object of an LSN, if it is full.
    fn claim(&self, lsn: u64) -> Option<(u64, Vec<u8>)> {
        let mut slot = self.of(lsn).lock();
        if slot.lsn != Lsn(lsn) || slot.stage != Stage::Full {
            return None;
        }
        slot.stage = Stage::Claimed;
        Some((slot.place, std::mem::take(&mut slot.bytes)))
    }

    fn set_durable(&self, lsn: u64, bytes: Vec<u8>) {
        let mut slot = self.of(lsn).lock();
        (slot.stage, slot.bytes) = (Stage::Durable, bytes);
    }

    /// Moves the prefix over what is durable.
    fn advance(&self) {
        let mut prefix = self.prefix();
        loop {
            {
                let slot = self.of(prefix + 1).lock();
                if slot.lsn != Lsn(prefix + 1) || slot.stage != Stage::Durable {
                    return;
                }
            }
            let moved = self.prefix.compare_exchange(
                prefix,
                prefix + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            prefix = moved.map_or_else(|now| now, |before| before + 1);
        }
    }

    /// Makes durable what is full from one LSN up to another, with one fence.
    fn pass<M: Memory, T: Threads>(&self, log: &NvLog<M, T>, from: u64, to: u64) -> bool {
        let NvLog { memory, ring, threads, .. } = log;
        let mut claimed = Vec::new();
        for lsn in from..=to {
            let Some((place, bytes)) = self.claim(lsn) else { continue };
            memory.copy(Off::new(place), &bytes);
            memory.flush(Range::new(place, bytes.len() as u64));
            ring.set(Lsn(lsn), place);
            claimed.push((lsn, bytes));
        }
        if claimed.is_empty() {
            self.advance();
            return false;
        }
        threads.point();
        memory.fence();
        for (lsn, bytes) in claimed {
            self.set_durable(lsn, bytes);
        }
        self.advance();
        true
    }

    /// Wakes those who wait for a slot to be filled or durable.
    pub(super) fn wake<T: Threads>(&self, threads: &T) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            for waiter in self.waiting.lock().drain(..) {
                threads.wake(&waiter);
            }
        }
    }
}

impl<M: Memory, T: Threads> NvLog<M, T> {
    /// One pass, which wakes those who wait for what it did.
    pub(super) fn pass_once(&self, slots: &Slots, to: u64) -> bool {
        let did = slots.pass(self, slots.prefix() + 1, to);
        if did && self.threads.has(Flaw::PrefixJumps) {
            slots.prefix.fetch_max(to, Ordering::AcqRel);
        }
        if did {
            slots.wake(&*self.threads);
        }
        did
    }

    /// Makes everything up to an LSN durable, with the help of whoever else is at it.
    pub(super) fn persist_to(&self, slots: &Slots, to: u64) -> Result<()> {
        if self.threads.has(Flaw::OwnRecordAlone) {
            slots.pass(self, to, to);
            return self.healthy();
        }
        let waiter = Waiter::of_this_thread();
        while slots.prefix() < to {
            self.threads.point();
            let did = self.pass_once(slots, to);
            if did || slots.prefix() >= to {
                continue;
            }
            slots.waiters.fetch_add(1, Ordering::SeqCst);
            slots.waiting.lock().push(Arc::clone(&waiter));
            // What was filled or became durable before that has woken nobody.
            if !self.pass_once(slots, to) && slots.prefix() < to {
                self.threads.park(&waiter, None);
            }
            slots.waiting.lock().retain(|other| !Arc::ptr_eq(other, &waiter));
            slots.waiters.fetch_sub(1, Ordering::SeqCst);
        }
        self.healthy()
    }
}
