//! NV-Logging (P2 4 and 5): log objects and their entries in persistent memory, with two
//! [policies](Persist) by which they become durable.
//!
//! Invariants:
//! - An LSN is a count, given by one fetch-and-add. Its entry in the [`ring`] follows from it by
//!   arithmetic and leads to the [object], which is the record's bytes.
//! - An entry counts if its state bit is set, its round is that of the LSN, and its object is sound
//!   and has the LSN. So entry and object may become durable in any order, and one fence is enough.
//! - With flush-on-insert a page changes, and is unlatched, after the fence of its record. So an
//!   LSN that is missing after a crash is a change that was never seen: a hole, which is skipped.
//!   With flush-on-commit what is durable is a prefix, and the first hole is the end: see `commit`.
//! - An object that was flushed and fenced counts as durable if the medium had not failed by then: what
//!   is stored after a failure reaches the medium no more.
//! - Damage is no hole: records say up to where the log was durable when they were written, and holes
//!   that a restart has skipped are marked. See `restart`.
//! - An LSN that a crash has left as a hole at the end is given again. Objects have the number of the
//!   restart that wrote them, and from the head's `again` on only the newest one's count. Before
//!   `again` moves past a hole its entry is marked as one: it leads to nothing for ever.
//! - The head moves first, then the bits of the entries that it has passed are cleared, then their
//!   entries and segments are used again.
//!
//! 1. `append`: object from a segment that a lane has taken, LSN, copy, flush, entry, flush, fence;
//!    or, with flush-on-commit, the object stays in DRAM.
//! 2. `force` has nothing to do; or makes the prefix durable, with one fence.
//! 3. `truncate`: see above; others append meanwhile.
//! 4. `open` reads the ring from the head on, skips holes, and makes durable what it has seen.

mod cold;
mod commit;
mod form;
mod insert;
mod manager;
pub mod object;
mod persister;
mod restart;
pub mod ring;
mod room;
mod slots;
mod truncation;
mod under_way;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use pm::{Memory, Off};

use self::cold::Cold;
use self::form::Head;
use self::object::Segments;
use self::ring::Ring;
use self::room::Room;
use self::slots::Slots;
use self::under_way::UnderWay;
use super::OpenRecords;
use super::wait::RoomWaits;
use crate::flaw::Flaw;
use crate::ids::Lsn;
use crate::threads::{Threads, Waiter};
use crate::{PagedError, Result};

pub use self::form::{NvForm, Persist};
pub use self::persister::Persister;

/// The options with which an NV log is used.
#[derive(Clone, Copy, Debug)]
pub struct NvOptions {
    /// The moment at which objects become durable.
    pub persist: Persist,
    /// The number of threads that append without waiting for each other, if there are segments for
    /// so many: each has taken one.
    pub lanes: usize,
    /// Entries after which a checkpoint is due (P2 6.1: 80 K), or five eighths of the ring.
    pub checkpoint_records: u64,
}

impl Default for NvOptions {
    fn default() -> Self {
        Self { persist: Persist::OnCommit, lanes: 16, checkpoint_records: 80_000 }
    }
}

/// The work of a log since it was created or opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NvCounts {
    /// Objects that were inserted.
    pub objects: u64,
    /// Objects that the persister has made durable; others are durable when they are inserted.
    pub by_persister: u64,
    /// Objects that commits, and other threads that needed them, have made durable.
    pub by_commits: u64,
}

/// A truncation: where analysis begins, what no page needs, and the open transactions.
type Unfreed = (Lsn, Lsn, Vec<OpenRecords>);

/// The attempts to put cold records by that have failed.
#[derive(Debug, Default)]
struct Refused {
    times: u64,
    /// The error of the last one.
    why: String,
}

/// An NV log in a memory.
#[derive(Debug)]
pub struct NvLog<M: Memory, T: Threads> {
    memory: M,
    threads: Arc<T>,
    options: NvOptions,
    /// The place of the head.
    at: u64,
    form: NvForm,
    ring: Ring<M>,
    segments: Segments,
    /// The objects that are not durable, with flush-on-commit.
    slots: Option<Slots>,
    /// The LSNs that are not durable, with flush-on-insert.
    under_way: UnderWay,
    restart: u32,
    /// The next LSN.
    next: AtomicU64,
    /// From here on objects of this restart alone count.
    again: u64,
    /// The first LSN that was given since the log was created or opened.
    first: u64,
    entries: Room,
    bytes: Room,
    /// The place where analysis begins, and the oldest record that is kept.
    kept: Mutex<(Lsn, Lsn)>,
    /// The LSN at the begin of the newest checkpoint, and at that of the last that was completed.
    at_begin: AtomicU64,
    at_checkpoint: AtomicU64,
    /// Transactions that have ended, and how many had when the newest checkpoint began.
    ended: AtomicU64,
    ended_before: AtomicU64,
    room: RoomWaits,
    checkpointer: Mutex<Option<Arc<Waiter>>>,
    /// Records that the head has passed and that an open transaction may still need.
    cold: Mutex<Option<Box<dyn Cold>>>,
    refused: Mutex<Refused>,
    /// The place that the last checkpoint could not free, since cold records could not be moved to
    /// the cold file. Locked while something is freed, so that one thread at a time does that.
    unfreed: Mutex<Option<Unfreed>>,
    /// Objects that the persister has made durable, and that others have, with flush-on-commit.
    by_persister: AtomicU64,
    by_commits: AtomicU64,
}

/// The figures of a log that is not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NvInspected {
    /// The form of the log.
    pub form: NvForm,
    /// The place where the last checkpoint lets recovery begin.
    pub checkpoint: Lsn,
    /// Entries of the ring that lead to records.
    pub kept_entries: u64,
}

/// Looks at the log at a place, whosever it is, without a change.
///
/// # Errors
/// It is no log, or its head is damaged.
pub fn inspect<M: Memory>(memory: &M, at: u64) -> Result<NvInspected> {
    let (head, ..) = Head::look(memory, at)?;
    let ring = Ring::new(memory.clone(), head.form.ring(at));
    let kept = (head.keep..head.keep + head.form.entries).filter(|lsn| {
        let lsn = Lsn(*lsn);
        ring.place(lsn).is_some()
    });
    let kept_entries = kept.count() as u64;
    Ok(NvInspected { form: head.form, checkpoint: Lsn(head.start), kept_entries })
}

fn unsound(at: Lsn) -> PagedError {
    PagedError::DamagedLog { at, what: "there is no sound record".into() }
}

impl<M: Memory, T: Threads> NvLog<M, T> {
    /// Makes an empty log of [`NvForm::bytes`] from the begin of a line on, durably. After a crash
    /// in it there may be anything: nothing leads to it.
    ///
    /// # Panics
    /// The parts of the form do not fit together.
    pub fn create(
        memory: M,
        at: u64,
        form: NvForm,
        stamp: u32,
        options: NvOptions,
        threads: Arc<T>,
    ) -> Self {
        assert!(at.is_multiple_of(pm::LINE_BYTES), "a log begins with a line");
        // An entry that another log has left here must not lead to an object.
        let ring = form.ring(at);
        memory.copy(Off::new(ring.start), &vec![0; ring.len as usize]);
        memory.flush(ring);
        let head = Head::create(&memory, at, form, options.persist, stamp);
        memory.fence();
        Self::assemble(memory, at, &head, options, threads)
    }

    /// Opens the log at a place after the program has ended or died.
    ///
    /// # Errors
    /// It is no log, or that of another database or policy.
    pub fn open(
        memory: M,
        at: u64,
        stamp: u32,
        options: NvOptions,
        threads: Arc<T>,
    ) -> Result<Self> {
        Self::open_under(memory, at, stamp, options, threads, Lsn::NONE)
    }

    /// Works as [`Self::open`], under pages of which the newest was written with the LSN `written`: all up
    /// to there was durable, and what is missing of it is damage.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_under(
        memory: M,
        at: u64,
        stamp: u32,
        options: NvOptions,
        threads: Arc<T>,
        written: Lsn,
    ) -> Result<Self> {
        Self::open_with(memory, at, stamp, options, threads, Some(written))
    }

    /// Works as [`Self::open`], but takes a damaged record for a hole or the end: for reading what
    /// can be read, in a memory that is not needed afterwards.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_past_damage(
        memory: M,
        at: u64,
        stamp: u32,
        options: NvOptions,
        threads: Arc<T>,
    ) -> Result<Self> {
        Self::open_with(memory, at, stamp, options, threads, None)
    }

    /// `written` is `None` for an open that goes on past damage.
    fn open_with(
        memory: M,
        at: u64,
        stamp: u32,
        options: NvOptions,
        threads: Arc<T>,
        written: Option<Lsn>,
    ) -> Result<Self> {
        let mut head = Head::read(&memory, at, options.persist, stamp)?;
        let mut log = Self::assemble(memory, at, &head, options, threads);
        log.find_records(written)?;
        let next = log.next.load(Ordering::Acquire);
        if next < head.again || next < head.start {
            let what = "there is no sound record, though the log was durable after it".into();
            return Err(PagedError::DamagedLog { at: Lsn(next), what });
        }
        // What lies after the end is of an older restart for ever.
        head.begin(&log.memory, at, next);
        (log.restart, log.again, log.first) = (head.restart, head.again, next);
        Ok(log)
    }

    fn assemble(memory: M, at: u64, head: &Head, options: NvOptions, threads: Arc<T>) -> Self {
        let Head { restart, again, start, keep, form } = *head;
        let lanes = (options.lanes as u64).clamp(1, form.most_lanes());
        let next = keep.max(again);
        Self {
            ring: Ring::new(memory.clone(), form.ring(at)),
            memory,
            threads,
            at,
            form,
            restart,
            next: AtomicU64::new(next),
            again,
            first: next,
            entries: Room::new(form.entries),
            // A lane's segment is not available to others, so one for each lane does not count.
            bytes: Room::new((form.segments - lanes) * (form.segment_bytes - form.record_bytes)),
            segments: Segments::new(&form.segments(at), lanes as usize),
            under_way: UnderWay::new(lanes as usize),
            slots: (options.persist == Persist::OnCommit)
                .then(|| Slots::new(form.entries, next - 1)),
            options: NvOptions {
                checkpoint_records: options.checkpoint_records.min(form.entries / 8 * 5),
                ..options
            },
            kept: Mutex::new((Lsn(start), Lsn(keep))),
            at_begin: AtomicU64::new(next),
            at_checkpoint: AtomicU64::new(next),
            ended: AtomicU64::new(1),
            ended_before: AtomicU64::new(0),
            room: RoomWaits::default(),
            checkpointer: Mutex::new(None),
            cold: Mutex::new(None),
            refused: Mutex::default(),
            unfreed: Mutex::new(None),
            by_persister: AtomicU64::new(0),
            by_commits: AtomicU64::new(0),
        }
    }

    /// Returns what the log has done since it was created or opened.
    pub fn counts(&self) -> NvCounts {
        NvCounts {
            objects: self.next.load(Ordering::Relaxed) - self.first,
            by_persister: self.by_persister.load(Ordering::Relaxed),
            by_commits: self.by_commits.load(Ordering::Relaxed),
        }
    }

    /// The record with this LSN, if there is one.
    fn at(&self, lsn: Lsn) -> Option<object::Found> {
        let place = match self.threads.has(Flaw::RoundIgnored) {
            true => self.ring.place_in_any_round(lsn),
            false => self.ring.place(lsn),
        }?;
        let trusted = self.threads.has(Flaw::ChecksumIgnored);
        let found = object::read(&self.memory, place, self.segments.limit(place)?, trusted)?;
        let counts = lsn.0 < self.again
            || found.read.placed.mark == self.restart
            || self.threads.has(Flaw::OlderRestartCounts);
        (counts && found.read.placed.lsn == lsn).then_some(found)
    }

    /// Checks that the medium has not failed: then all that was fenced before is durable.
    fn healthy(&self) -> Result<()> {
        self.memory.healthy().map_err(|error| PagedError::Stopped { why: error.to_string() })
    }

    fn ask_for_checkpoint(&self) {
        if let Some(waiter) = &*self.checkpointer.lock() {
            self.threads.wake(waiter);
        }
    }
}
