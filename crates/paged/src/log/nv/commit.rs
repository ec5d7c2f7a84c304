//! Flush-on-commit (P2 4.3): pages change at once, and objects become durable later.
//!
//! A committed change may lie on a change of another transaction, as a row on a page that was split.
//! So a transaction is durable when all older records are, not its own alone: what is durable is a
//! prefix, and recovery ends at the first hole.
//!
//! 1. An object is made in DRAM, in the slot of its LSN, with its place in the segments.
//! 2. `force` goes along the slots from the prefix on: what is full it claims, copies and flushes;
//!    then one fence, and the slots are durable. The prefix moves over durable slots.
//! 3. Where another thread has claimed a slot, or is about to fill one, it waits: a thread that
//!    fills a slot or makes one durable wakes those that wait.
//! 4. A persister that does the same in the background leaves little to commits.

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
    /// The bytes of objects that are durable, to be used again (P2 5.1).
    spare: Mutex<Vec<Vec<u8>>>,
}

/// Objects whose bytes are kept at most, and the largest such, so that they take 4 MiB at most.
const SPARE_OBJECTS: usize = 4096;
const SPARE_BYTES: usize = 1024;

impl Slots {
    /// Slots for so many LSNs, of which all up to `prefix` are durable.
    pub(super) fn new(entries: u64, prefix: u64) -> Self {
        Self {
            slots: std::iter::repeat_with(Mutex::default).take(entries as usize).collect(),
            prefix: AtomicU64::new(prefix),
            waiting: Mutex::default(),
            waiters: AtomicUsize::new(0),
            spare: Mutex::default(),
        }
    }

    fn of(&self, lsn: u64) -> &Mutex<Slot> {
        &self.slots[(lsn % self.slots.len() as u64) as usize]
    }

    pub(super) fn prefix(&self) -> u64 {
        self.prefix.load(Ordering::Acquire)
    }

    /// Bytes for an object, which an earlier one had.
    pub(super) fn spare(&self) -> Vec<u8> {
        self.spare.lock().pop().unwrap_or_default()
    }

    /// Fills the slot of an LSN with an object that belongs to `place`.
    pub(super) fn fill(&self, lsn: Lsn, place: u64, bytes: Vec<u8>) {
        let mut slot = self.of(lsn.0).lock();
        assert_eq!(
            slot.stage,
            Stage::Durable,
            "the ring has no room for an LSN that is not durable"
        );
        *slot = Slot { lsn, stage: Stage::Full, place, bytes };
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

    fn set_durable(&self, lsn: u64) {
        self.of(lsn).lock().stage = Stage::Durable;
    }

    /// Keeps the bytes of objects that are durable.
    fn keep(&self, objects: Vec<(u64, Vec<u8>)>) {
        let mut spare = self.spare.lock();
        let left = SPARE_OBJECTS - spare.len();
        let small = objects.into_iter().map(|object| object.1);
        spare.extend(small.filter(|bytes| bytes.capacity() <= SPARE_BYTES).take(left));
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

    /// Makes durable what is full from one LSN up to another, with one fence. Returns the number of
    /// these objects: none if the medium has failed. Then they stay claimed for ever.
    fn pass<M: Memory, T: Threads>(&self, log: &NvLog<M, T>, from: u64, to: u64) -> u64 {
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
            return 0;
        }
        threads.point();
        memory.fence();
        if log.healthy().is_err() {
            // The threads that wait for these objects see it, too.
            self.wake(&**threads);
            return 0;
        }
        let many = claimed.len() as u64;
        claimed.iter().for_each(|(lsn, _)| self.set_durable(*lsn));
        self.advance();
        self.keep(claimed);
        many
    }

    /// Wakes the threads that wait for a slot to be filled or durable.
    pub(super) fn wake<T: Threads>(&self, threads: &T) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            for waiter in self.waiting.lock().drain(..) {
                threads.wake(&waiter);
            }
        }
    }
}

impl<M: Memory, T: Threads> NvLog<M, T> {
    /// One pass, which wakes the threads that wait for what it did. Returns the number of objects
    /// that it has made durable.
    pub(super) fn pass_once(&self, slots: &Slots, to: u64) -> u64 {
        let many = slots.pass(self, slots.prefix() + 1, to);
        if many > 0 && self.threads.has(Flaw::PrefixJumps) {
            slots.prefix.fetch_max(to, Ordering::AcqRel);
        }
        if many > 0 {
            slots.wake(&*self.threads);
        }
        many
    }

    /// Calls `park` with `waiter` registered, unless `has_come` says then that what it would wait for
    /// is there.
    pub(super) fn wait(
        &self,
        slots: &Slots,
        waiter: &Arc<Waiter>,
        has_come: impl FnOnce() -> bool,
        park: impl FnOnce(),
    ) {
        slots.waiters.fetch_add(1, Ordering::SeqCst);
        slots.waiting.lock().push(Arc::clone(waiter));
        // What was filled or became durable before that has woken no thread.
        if !has_come() {
            park();
        }
        slots.waiting.lock().retain(|other| !Arc::ptr_eq(other, waiter));
        slots.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Makes everything up to an LSN durable, with the help of other threads that do the same.
    pub(super) fn persist_to(&self, slots: &Slots, to: u64) -> Result<()> {
        if self.threads.has(Flaw::OwnRecordAlone) {
            slots.pass(self, to, to);
            return self.healthy();
        }
        let waiter = Waiter::of_this_thread();
        while slots.prefix() < to {
            self.threads.point();
            self.healthy()?;
            let pass = || {
                let many = self.pass_once(slots, to);
                self.by_commits.fetch_add(many, Ordering::Relaxed);
                many > 0 || slots.prefix() >= to || self.healthy().is_err()
            };
            if !pass() {
                self.wait(slots, &waiter, pass, || {
                    self.threads.park(&waiter, None);
                });
            }
        }
        self.healthy()
    }
}
