//! The objects that are not durable yet, in DRAM: each in the slot of its LSN (P2 4.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

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
    pub(super) fn claim(&self, lsn: u64) -> Option<(u64, Vec<u8>)> {
        let mut slot = self.of(lsn).lock();
        if slot.lsn != Lsn(lsn) || slot.stage != Stage::Full {
            return None;
        }
        slot.stage = Stage::Claimed;
        Some((slot.place, std::mem::take(&mut slot.bytes)))
    }

    /// Marks the object of an LSN, which was claimed, as durable.
    pub(super) fn set_durable(&self, lsn: u64) {
        self.of(lsn).lock().stage = Stage::Durable;
    }

    /// Moves the prefix to an LSN whatever is durable: a fault that tests seed.
    pub(super) fn jump(&self, to: u64) {
        self.prefix.fetch_max(to, Ordering::AcqRel);
    }

    /// Keeps the bytes of objects that are durable.
    pub(super) fn keep(&self, objects: Vec<(u64, Vec<u8>)>) {
        let mut spare = self.spare.lock();
        let left = SPARE_OBJECTS - spare.len();
        let small = objects.into_iter().map(|object| object.1);
        spare.extend(small.filter(|bytes| bytes.capacity() <= SPARE_BYTES).take(left));
    }

    /// Moves the prefix over what is durable.
    pub(super) fn advance(&self) {
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

    /// Wakes the threads that wait for a slot to be filled or durable.
    pub(super) fn wake<T: Threads>(&self, threads: &T) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            for waiter in self.waiting.lock().drain(..) {
                threads.wake(&waiter);
            }
        }
    }
    /// Calls `park` with `waiter` registered, unless `has_come` says then that what it would wait for
    /// is there.
    pub(super) fn wait(
        &self,
        waiter: &Arc<Waiter>,
        has_come: impl FnOnce() -> bool,
        park: impl FnOnce(),
    ) {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        self.waiting.lock().push(Arc::clone(waiter));
        // What was filled or became durable before that has woken no thread.
        if !has_come() {
            park();
        }
        self.waiting.lock().retain(|other| !Arc::ptr_eq(other, waiter));
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}
