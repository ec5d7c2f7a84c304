//! NV-Logging (P2 4 and 5): log objects and their entries in persistent memory, with two
//! [policies](Persist) by which they become durable.
//!
//! Invariants:
//! - An LSN is a count, given by one fetch-and-add. Its entry in the [`ring`] follows from it by
//!   arithmetic and leads to the [object], which is the record's bytes.
//! - An entry counts if its state bit is set, its round is that of the LSN, and its object is sound
//!   and has the LSN. So entry and object may become durable in any order, and one fence is enough.
//! - With flush-on-insert a page changes, and is unlatched, after the fence of its record. So an LSN
//!   that is missing after a crash is a change that nobody has seen: a hole, which is skipped. With
//!   flush-on-commit what is durable is a prefix, and the first hole is the end: see `commit`.
//! - An LSN that a crash has left as a hole at the end is given again. Objects have the number of the
//!   restart that wrote them, and from the head's `again` on only the newest one's count. Before
//!   `again` moves past a hole its entry is cleared: it leads to nothing for ever.
//! - The head moves first, then the bits behind it are cleared, then their entries and segments are
//!   used again.
//!
//! 1. `append`: object from a segment that is lent to a lane, LSN, copy, flush, entry, flush, fence;
//!    or, with flush-on-commit, the object stays in DRAM.
//! 2. `force` has nothing to do; or makes the prefix durable, with one fence.
//! 3. `truncate`: see above; others append meanwhile.
//! 4. `open` reads the ring from the head on, skips holes, and makes durable what it has seen.

mod commit;
mod insert;
pub mod object;
mod persister;
pub mod ring;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pm::{Bad, Memory, Off, Range};

use self::commit::Slots;
use self::object::Segments;
use self::ring::Ring;
use super::record::HEADER_BYTES;
use super::{Chain, Kind, LogManager, Logged, Record};
use crate::flaw::Flaw;
use crate::ids::{Lsn, TxNo};
use crate::threads::{Threads, Waiter};
use crate::{PagedError, Result};

/// Records set aside with a transaction's first: Commit or Abort, and End.
const END_RECORDS: u64 = 2;

/// The share of the log that only checkpoints use.
const CHECKPOINT_SHARE: u64 = 16;

/// The time after which a writer that waits for room asks for a checkpoint again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// The moment at which an object becomes durable (P2 4.3). It belongs to the log's form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persist {
    /// When it is inserted: flush-on-insert.
    OnInsert,
    /// When a commit needs it, or when the persister comes by: flush-on-commit.
    OnCommit,
}

/// The options with which an NV log is used.
#[derive(Clone, Copy, Debug)]
pub struct NvOptions {
    /// The moment at which objects become durable.
    pub persist: Persist,
    /// Bytes of the largest record.
    pub record_bytes: usize,
    /// The number of threads that append without waiting for each other. Each has a segment lent.
    pub lanes: usize,
    /// Entries after which a checkpoint is due (P2 6.1: 80 K).
    pub checkpoint_records: u64,
    /// The longest time that a writer waits for a checkpoint to make room.
    pub room_wait: Duration,
}

impl Default for NvOptions {
    fn default() -> Self {
        Self {
            persist: Persist::OnCommit,
            record_bytes: 16 << 10,
            lanes: 64,
            checkpoint_records: 80_000,
            room_wait: Duration::from_secs(10),
        }
    }
}

/// The places of a log in its memory, all at the begins of lines.
#[derive(Clone, Debug)]
pub struct NvPlaces {
    /// The head: one line.
    pub head: Off<u64>,
    /// The ring: a power of two of entries, of 8 bytes each.
    pub ring: Range,
    /// The segments, of equal size.
    pub segments: Vec<Range>,
}

impl NvPlaces {
    fn check(&self, options: &NvOptions) {
        let aligned = |at: u64| at.is_multiple_of(pm::LINE_BYTES);
        let entries = self.ring.len / 8;
        assert!(aligned(self.head.get()) && aligned(self.ring.start), "places begin at lines");
        assert!(
            entries.is_power_of_two() && entries >= 64,
            "the ring has a power of two of entries"
        );
        let bytes = self.segments.first().map_or(0, |segment| segment.len);
        assert!(
            self.segments
                .iter()
                .all(|one| one.len == bytes && aligned(one.start) && aligned(one.len)),
            "segments are of one size"
        );
        assert!(
            bytes >= 4 * options.record_bytes as u64 && self.segments.len() > options.lanes + 4,
            "every lane has a segment of four records, and some are left"
        );
    }

    /// A number for the form of a log, which never changes.
    fn shape(&self, persist: Persist) -> u64 {
        let bytes = self.segments[0].len;
        let (segments, lines) = (self.segments.len() as u64, bytes / pm::LINE_BYTES);
        (self.ring.len / 8) | (segments << 20) | (lines << 44) | ((persist as u64) << 63)
    }
}

/// Room, in entries or in bytes, of which a part is promised.
#[derive(Debug)]
struct Room {
    promised: AtomicU64,
    all: u64,
}

impl Room {
    /// The amount that can be promised, of which checkpoints alone get the last part.
    fn limit(&self, checkpoint: bool) -> u64 {
        if checkpoint { self.all } else { self.all - self.all / CHECKPOINT_SHARE }
    }

    fn free(&self) -> u64 {
        self.limit(false).saturating_sub(self.promised.load(Ordering::Acquire))
    }

    fn take(&self, amount: u64, checkpoint: bool) -> bool {
        let before = self.promised.fetch_add(amount, Ordering::AcqRel);
        let fits = amount == 0 || before + amount <= self.limit(checkpoint);
        if !fits {
            self.promised.fetch_sub(amount, Ordering::AcqRel);
        }
        fits
    }

    fn give_back(&self, amount: u64) {
        self.promised.fetch_sub(amount, Ordering::AcqRel);
    }
}

/// The words of the head's line.
mod head {
    pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"PERDNVLG");
    pub(super) const VERSION: u64 = 1;
    pub(super) const WORDS: [&str; 8] =
        ["magic", "version and stamp", "restart", "again", "start", "keep", "shape", "sum"];
    pub(super) const RESTART: u64 = 16;
    pub(super) const AGAIN: u64 = 24;
    pub(super) const START: u64 = 32;
    pub(super) const KEEP: u64 = 40;

    /// The sum of the words that never change.
    pub(super) fn sum(named: u64, shape: u64) -> u64 {
        let words = [MAGIC, named, shape].map(u64::to_le_bytes);
        u64::from(crc32c::crc32c(words.as_flattened()))
    }
}

/// An NV log in a memory.
#[derive(Debug)]
pub struct NvLog<M: Memory, T: Threads> {
    memory: M,
    threads: Arc<T>,
    options: NvOptions,
    head: Off<u64>,
    ring: Ring<M>,
    segments: Segments,
    /// The objects that are not durable, with flush-on-commit.
    slots: Option<Slots>,
    restart: u32,
    /// The next LSN.
    next: AtomicU64,
    /// From here on objects of this restart alone count.
    again: u64,
    entries: Room,
    bytes: Room,
    /// The place where analysis begins, and the oldest record that is kept.
    kept: Mutex<(Lsn, Lsn)>,
    /// The LSN at the begin of the newest checkpoint, and at that of the last that was completed.
    at_begin: AtomicU64,
    at_checkpoint: AtomicU64,
    room: Mutex<VecDeque<Arc<Waiter>>>,
    waiting: AtomicU64,
    checkpointer: Mutex<Option<Arc<Waiter>>>,
}

fn bad(at: Lsn) -> impl Fn(Bad) -> PagedError {
    move |error| PagedError::DamagedLog { at, what: error.to_string() }
}

fn wrong(what: impl Into<String>) -> PagedError {
    PagedError::WrongLog { name: "in persistent memory".into(), what: what.into() }
}

impl<M: Memory, T: Threads> NvLog<M, T> {
    /// Makes an empty log, durably. After a crash in it there may be anything: nobody knows of it.
    ///
    /// # Panics
    /// If the places or the options do not fit together.
    pub fn create(
        memory: M,
        places: &NvPlaces,
        stamp: u32,
        options: NvOptions,
        threads: Arc<T>,
    ) -> Self {
        places.check(&options);
        // What an earlier log has left here must not pass for objects of this one.
        for range in places.segments.iter().chain([&places.ring]) {
            memory.copy(Off::new(range.start), &vec![0; range.len as usize]);
            memory.flush(*range);
        }
        let named = head::VERSION | u64::from(stamp) << 32;
        let (shape, first) = (places.shape(options.persist), 1);
        let sum = head::sum(named, shape);
        let words = [head::MAGIC, named, 1, first, first, first, shape, sum];
        for (number, word) in words.into_iter().enumerate() {
            memory.store(places.head.plus(number as u64 * 8), word);
        }
        memory.flush(Range::new(places.head.get(), pm::LINE_BYTES));
        memory.fence();
        Self::assemble(memory, places, options, threads, 1, first, (first, first))
    }

    /// Opens a log after the program has ended or died.
    ///
    /// # Errors
    /// It is no log, or that of another database or form.
    ///
    /// # Panics
    /// If the places or the options do not fit together.
    pub fn open(
        memory: M,
        places: &NvPlaces,
        stamp: u32,
        options: NvOptions,
        threads: Arc<T>,
    ) -> Result<Self> {
        places.check(&options);
        let mut words = [0; head::WORDS.len()];
        for (number, word) in words.iter_mut().enumerate() {
            let at = places.head.plus(number as u64 * 8);
            *word = memory.load(at, Ordering::Acquire).map_err(bad(Lsn::NONE))?;
        }
        let [magic, named, restart, again, start, keep, shape, sum] = words;
        if magic != head::MAGIC || sum != head::sum(named, shape) {
            return Err(wrong("its head is damaged"));
        } else if named & u64::from(u32::MAX) != head::VERSION {
            return Err(wrong(format!("it has format version {}", named & u64::from(u32::MAX))));
        } else if named >> 32 != u64::from(stamp) || shape != places.shape(options.persist) {
            return Err(wrong("it belongs to another database, or has another form"));
        }
        let restart = restart as u32;
        let mut log =
            Self::assemble(memory, places, options, threads, restart, again, (start, keep));
        log.find_records();
        let next = log.next.load(Ordering::Acquire);
        if next < again || next < start {
            let what = "there is no sound record, though the log was durable behind it".into();
            return Err(PagedError::DamagedLog { at: Lsn(next), what });
        }
        // What lies behind the end is of an older restart for ever.
        let again = next;
        log.memory.store(log.head.plus(head::AGAIN), again);
        log.memory.store(log.head.plus(head::RESTART), u64::from(restart) + 1);
        log.memory.flush_word(log.head.plus(head::RESTART));
        log.memory.fence();
        (log.restart, log.again) = (restart + 1, again);
        Ok(log)
    }

    fn assemble(
        memory: M,
        places: &NvPlaces,
        options: NvOptions,
        threads: Arc<T>,
        restart: u32,
        again: u64,
        (start, keep): (u64, u64),
    ) -> Self {
        let segments = Segments::new(&places.segments, options.lanes);
        let sure = places.segments[0].len - options.record_bytes as u64;
        let room = |all| Room { promised: AtomicU64::new(0), all };
        Self {
            ring: Ring::new(memory.clone(), places.ring),
            memory,
            threads,
            head: places.head,
            restart,
            next: AtomicU64::new(keep.max(again)),
            again,
            entries: room(places.ring.len / 8),
            // A lane's segment is nobody else's, so one for each lane does not count.
            bytes: room((places.segments.len() - options.lanes) as u64 * sure),
            segments,
            slots: (options.persist == Persist::OnCommit)
                .then(|| Slots::new(places.ring.len / 8, keep.max(again) - 1)),
            options,
            kept: Mutex::new((Lsn(start), Lsn(keep))),
            at_begin: AtomicU64::new(keep.max(again)),
            at_checkpoint: AtomicU64::new(keep.max(again)),
            room: Mutex::default(),
            waiting: AtomicU64::new(0),
            checkpointer: Mutex::new(None),
        }
    }

    /// Follows the ring, and makes durable what it finds: a program that died may have left it in the
    /// caches.
    fn find_records(&mut self) {
        let keep = self.kept.get_mut().1.0;
        // With holes the end may be anywhere, without them it is at the first.
        let mut next = if self.slots.is_some() { keep } else { keep.max(self.again) };
        for number in keep..keep + self.ring.len() {
            let Some(found) = self.at(Lsn(number)) else {
                if self.slots.is_some() {
                    break;
                }
                // What an older restart has left at the place that it leads to would count when `again`
                // is past it.
                self.ring.forget(Lsn(number));
                continue;
            };
            self.memory.flush(found.range);
            self.ring.flush(Lsn(number));
            self.segments.found(found.range, Lsn(number));
            next = next.max(number + 1);
        }
        self.memory.fence();
        let bytes = self.segments.sort_out(self.options.record_bytes as u64);
        self.next = AtomicU64::new(next);
        if self.slots.is_some() {
            self.slots = Some(Slots::new(self.ring.len(), next - 1));
        }
        (self.at_begin, self.at_checkpoint) = (AtomicU64::new(next), AtomicU64::new(next));
        self.entries.promised = AtomicU64::new(next - keep);
        self.bytes.promised = AtomicU64::new(bytes);
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

    fn healthy(&self) -> Result<()> {
        self.memory.healthy().map_err(|error| PagedError::Stopped { why: error.to_string() })
    }

    fn ask_for_checkpoint(&self) {
        if let Some(waiter) = &*self.checkpointer.lock() {
            self.threads.wake(waiter);
        }
    }

    fn wake_for_room(&self) {
        if self.waiting.load(Ordering::Acquire) > 0 {
            for waiter in self.room.lock().drain(..) {
                self.threads.wake(&waiter);
            }
        }
    }

    /// Takes room for entries and bytes, or none.
    fn take(&self, entries: u64, bytes: u64, checkpoint: bool) -> bool {
        if !self.entries.take(entries, checkpoint) {
            return false;
        }
        let fits = self.bytes.take(bytes, checkpoint);
        if !fits {
            self.entries.give_back(entries);
        }
        fits
    }

    /// The half of the log that a transaction may have, of bytes and of entries.
    fn check_size(&self, chain: &Chain, records: u64, bytes: u64) -> Result<()> {
        let records = chain.records + chain.aside_records + records;
        let (bytes, most) = if records > self.entries.all / 2 {
            (records * object::ALIGN, self.entries.all / 2 * object::ALIGN)
        } else {
            (chain.used + chain.aside + bytes, self.bytes.all / 2)
        };
        if chain.tx != TxNo(0) && bytes > most {
            return Err(PagedError::TransactionTooLarge { bytes, most });
        }
        Ok(())
    }

    /// Gives back everything that a chain had set aside.
    fn give_back(&self, chain: &mut Chain) {
        self.entries.give_back(chain.aside_records + chain.ahead / object::ALIGN);
        self.bytes.give_back(chain.aside + chain.ahead);
        (chain.aside, chain.aside_records, chain.ahead) = (0, 0, 0);
        self.wake_for_room();
    }
}

impl<M: Memory, T: Threads> LogManager for NvLog<M, T> {
    fn reserve(&self, chain: &mut Chain, payload: u64) -> Result<()> {
        let waiter = Waiter::of_this_thread();
        let first = if chain.first == Lsn::NONE { END_RECORDS * object::ALIGN } else { 0 };
        let wanted = 2 * payload.next_multiple_of(object::ALIGN) + first;
        let bytes = wanted.saturating_sub(chain.ahead);
        let until = self.threads.now() + self.options.room_wait;
        self.check_size(chain, 2, wanted)?;
        loop {
            self.threads.point();
            self.healthy()?;
            if self.take(bytes / object::ALIGN, bytes, false) {
                chain.ahead += bytes;
                return Ok(());
            }
            let now = self.threads.now();
            if now >= until || self.checkpointer.lock().is_none() {
                return Err(PagedError::LogFull { bytes, free: self.bytes.free() });
            }
            self.waiting.fetch_add(1, Ordering::AcqRel);
            self.room.lock().push_back(Arc::clone(&waiter));
            // What was given back before this was registered has woken nobody.
            let free = self.bytes.free() >= bytes && self.entries.free() >= bytes / object::ALIGN;
            if !free {
                self.ask_for_checkpoint();
                self.threads.park(&waiter, Some(until.min(now + ASK_AGAIN)));
            }
            self.room.lock().retain(|other| !Arc::ptr_eq(other, &waiter));
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn unreserve(&self, chain: &mut Chain) {
        let ahead = std::mem::take(&mut chain.ahead);
        self.entries.give_back(ahead / object::ALIGN);
        self.bytes.give_back(ahead);
        self.wake_for_room();
    }

    fn append(&self, chain: &mut Chain, record: &Record<'_>) -> Result<Lsn> {
        let bytes = object::bytes(record.payload.len());
        let most = self.options.record_bytes;
        if bytes > most as u64 {
            return Err(PagedError::TooLarge { what: "a log record", bytes: bytes as usize, most });
        }
        self.threads.point();
        self.healthy()?;
        let of_transaction = chain.tx != TxNo(0);
        let undoes =
            matches!(record.kind, Kind::Compensation | Kind::Commit | Kind::Abort | Kind::End);
        // Taken from that which was set aside for it, and set aside with it: bytes and records.
        let taken = if undoes { bytes.min(chain.aside) } else { 0 };
        let taken_records = if undoes { 1.min(chain.aside_records) } else { 0 };
        let (mut more, mut more_records) = (0, 0);
        if of_transaction && record.kind == Kind::Change {
            let ends = if chain.first == Lsn::NONE { END_RECORDS } else { 0 };
            (more, more_records) = (bytes + ends * object::ALIGN, 1 + ends);
            self.check_size(chain, 1 + more_records, bytes + more)?;
        }
        let needed = bytes - taken + more;
        let needed_records = 1 - taken_records + more_records;
        let ahead = needed.min(chain.ahead);
        // What was reserved ahead counts an entry for each line.
        let entries = ahead / object::ALIGN;
        let checkpoint = matches!(record.kind, Kind::CheckpointBegin | Kind::CheckpointEnd);
        if !self.take(needed_records.saturating_sub(entries), needed - ahead, checkpoint) {
            return Err(PagedError::LogFull { bytes: needed, free: self.bytes.free() });
        }
        let lsn = self.insert(chain, record, bytes);
        self.entries.give_back(entries.saturating_sub(needed_records));
        chain.aside = chain.aside + more - taken;
        chain.aside_records = chain.aside_records + more_records - taken_records;
        chain.ahead -= ahead;
        chain.used += bytes;
        chain.records += 1;
        chain.last = lsn;
        if chain.first == Lsn::NONE {
            chain.first = lsn;
        }
        if of_transaction && matches!(record.kind, Kind::Commit | Kind::End) {
            self.give_back(chain);
        }
        if record.kind == Kind::CheckpointBegin {
            self.at_begin.store(lsn.0, Ordering::Release);
        }
        let since = self.at_checkpoint.load(Ordering::Acquire);
        if lsn.0 == since + self.options.checkpoint_records {
            self.ask_for_checkpoint();
        }
        Ok(lsn)
    }

    fn commit(&self, chain: &mut Chain) -> Result<Lsn> {
        self.append(chain, &Record::bare(Kind::Commit))
    }

    /// With flush-on-insert the newest LSN: whoever knows of a record has it from an append that has
    /// returned.
    fn durable(&self) -> Lsn {
        match &self.slots {
            Some(slots) => Lsn(slots.prefix()),
            None => Lsn(self.next.load(Ordering::Acquire) - 1),
        }
    }

    fn end(&self) -> Lsn {
        Lsn(self.next.load(Ordering::Acquire))
    }

    fn force(&self, to: Lsn) -> Result<()> {
        match &self.slots {
            Some(slots) => self.persist_to(slots, to.0.min(self.next.load(Ordering::Acquire) - 1)),
            None => self.healthy(),
        }
    }

    fn read(&self, at: Lsn) -> Result<Logged> {
        // Who is undone has its objects made durable first (P2 4.4).
        self.force(at)?;
        let logged = self.at(at).and_then(|found| found.read.logged(&found.bytes[HEADER_BYTES..]));
        let what = || "there is no sound record".into();
        logged.ok_or_else(|| PagedError::DamagedLog { at, what: what() })
    }

    fn consumed(&self) -> u64 {
        self.next.load(Ordering::Acquire) - self.at_checkpoint.load(Ordering::Acquire)
    }

    fn largest(&self) -> usize {
        self.options.record_bytes - HEADER_BYTES
    }

    fn attend(&self, checkpointer: Arc<Waiter>) {
        *self.checkpointer.lock() = Some(checkpointer);
    }

    fn is_due(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
            || self.consumed() >= self.options.checkpoint_records
    }

    fn start(&self) -> Lsn {
        self.kept.lock().0
    }

    fn truncate(&self, start: Lsn, keep: Lsn) -> Result<()> {
        self.force(start)?;
        let mut kept = self.kept.lock();
        let keep = keep.min(start).max(kept.1);
        // One line: if the crash comes between the two, more is kept than is needed.
        self.memory.store(self.head.plus(head::START), start.0);
        self.memory.store(self.head.plus(head::KEEP), keep.0);
        self.memory.flush_word(self.head.plus(head::KEEP));
        self.memory.fence();
        let before = std::mem::replace(&mut *kept, (start, keep)).1;
        self.ring.clear(before, keep);
        self.at_checkpoint.store(self.at_begin.load(Ordering::Acquire), Ordering::Release);
        self.entries.give_back(keep.0 - before.0);
        let early = self.threads.has(Flaw::SegmentsFreedEarly);
        let free_before = if early { Lsn(u64::MAX) } else { keep };
        self.bytes.give_back(self.segments.free_before(free_before));
        drop(kept);
        self.wake_for_room();
        Ok(())
    }

    fn adopt(&self, chain: &mut Chain) {
        // Analysis counts bytes of records: as objects they may take nearly twice as many, and each
        // has a line at least.
        let lines = 2 * chain.used.div_ceil(object::ALIGN) + END_RECORDS;
        (chain.aside, chain.aside_records) = (lines * object::ALIGN, lines);
        self.entries.promised.fetch_add(chain.aside_records, Ordering::AcqRel);
        self.bytes.promised.fetch_add(chain.aside, Ordering::AcqRel);
    }

    fn scan(&self, from: Lsn, visit: &mut dyn FnMut(Logged) -> Result<()>) -> Result<()> {
        let next = self.next.load(Ordering::Acquire);
        for number in from.0.max(self.kept.lock().1.0)..next {
            let Some(found) = self.at(Lsn(number)) else {
                if self.slots.is_some() {
                    let what = "there is no sound record, though the log goes on".into();
                    return Err(PagedError::DamagedLog { at: Lsn(number), what });
                }
                // A change that nobody has seen.
                continue;
            };
            if let Some(logged) = found.read.logged(&found.bytes[HEADER_BYTES..]) {
                visit(logged)?;
            }
        }
        Ok(())
    }
}
