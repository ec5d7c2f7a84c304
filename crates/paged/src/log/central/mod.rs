//! The central log (P2 2.1): one buffer under one lock, written to partitions in the order of LSNs.
//!
//! Invariants:
//! - An LSN is a partition's number (high 32 bits) and an offset in it (low 32). Numbers rise; a
//!   file serves one partition after the other, and its header says which.
//! - What is durable is a prefix of the log without holes. A partition is written when the one
//!   before it is durable and sealed; at most [`CentralOptions::group_bytes`] are ever written and
//!   not synced.
//! - No stale record is taken for one of the log: a record holds its own LSN, so one of an earlier
//!   round is not valid, and the number of the restart that wrote it, which never falls along the
//!   log and was durable before the first record with it, so what lies after a torn end is not
//!   valid once anything is appended there.
//! - Damage is not taken for the end: a record says up to where the log was durable when it was
//!   written. See `docs/format/paged-log.md`, "Where the log ends".
//! - The bytes set aside never exceed those that are free, nor those for which the files have
//!   space. A checkpoint has room of its own, and its last part only one that frees some.
//! - Space that was reserved is durable before any record that counts on it: a group is synced after
//!   the files whose lengths it needs. So after a power cut undo finds what was set aside for it, and
//!   no other user of the medium has taken it meanwhile.
//! - A write or a sync that fails stops the log: nothing more is acknowledged.
//!
//! 1. `append` copies the record into the buffer under the lock; the LSN is where it will stand.
//! 2. `force` waits. One of the waiting threads takes the buffer, writes and syncs it, and wakes
//!    the others: one write and one sync a group, while the next group fills (flush pipelining).
//!    Before, it waits a little for those that were in the last groups
//!    ([`CentralOptions::group_wait`]). A transaction that does not wait commits asynchronously,
//!    and its ticket ends at `durable`.
//! 3. A checkpoint begins a partition, if the one before has something that is worth it. `truncate`
//!    writes the head, then lets whole partitions be used again. What is free beyond what is set
//!    aside and what the next checkpoint takes goes back to the medium, and at [`Central::close`]
//!    all of it.
//! 4. `open` follows the records from the checkpoint to the first that is not valid: the end.

mod end;
mod flush;
mod group;
mod layout;
mod open;
mod options;
mod read;
mod space;
mod walk;

pub use open::{Inspected, inspect};
pub use options::CentralOptions;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use pm::Files;

use self::group::Group;
use self::layout::{Head, SEAL_BYTES, SECTOR, Shape};
use self::space::Space;
use super::record::{self, HEADER_BYTES, Placed, record_bytes};
use super::wait::{RoomWait, RoomWaits};
use super::{Chain, Kind, LogCounts, LogManager, Logged, Record, Visit};
use crate::ids::{Lsn, PageNo, TxNo};
use crate::threads::{Threads, Waiter};
use crate::{PagedError, Result};

/// Bytes set aside with a transaction's first record: for Commit or Abort, and for End.
const END_ROOM: u64 = 2 * HEADER_BYTES as u64;

/// The most bytes that are ever written and not synced.
const MOST_GROUP_BYTES: usize = 4 << 20;

fn reserving(source: io::Error) -> PagedError {
    PagedError::Io { doing: "reserving space of the log", source }
}

#[derive(Debug)]
struct State<R> {
    space: Space<R>,
    /// The records that wait for being written.
    filling: Group,
    /// The group that is being written.
    writing: Option<Arc<Group>>,
    /// An earlier group, emptied.
    spare: Option<Arc<Group>>,
    /// The next bytes begin a partition, with its header.
    header_due: bool,
    /// The newest record.
    newest: Lsn,
    /// Bytes set aside for all chains.
    aside: u64,
    /// Bytes of records appended since the log was opened: all, and those before the newest begin
    /// of a checkpoint.
    appended: u64,
    at_begin: u64,
    /// Threads that wait until a record is durable.
    waiting: Vec<(Lsn, Arc<Waiter>)>,
    /// The thread that waits for others to join its group.
    gatherer: Option<Arc<Waiter>>,
    /// The threads that waited when the last group was done, and the one that wrote it.
    company: usize,
    /// The time that a group took lately.
    sync_time: Duration,
    stopped: Option<String>,
}

/// The central log over files `<prefix>head`, `<prefix>0`, `<prefix>1`, and so on.
#[derive(Debug)]
pub struct Central<F: Files, T: Threads> {
    files: Vec<Arc<F::File>>,
    threads: Arc<T>,
    options: CentralOptions,
    shape: Shape,
    restart: u32,
    /// The head file with what it says.
    head: Mutex<(F::File, Head)>,
    state: Mutex<State<F::File>>,
    durable: AtomicU64,
    end: AtomicU64,
    /// As [`State::appended`], for checking whether a checkpoint is due, and the bytes before the
    /// last one that was completed.
    appended: AtomicU64,
    at_checkpoint: AtomicU64,
    /// Bytes of log from its start on that the log had when it was opened, until there is a
    /// checkpoint.
    found: AtomicU64,
    room: RoomWaits,
    checkpointer: Mutex<Option<Arc<Waiter>>>,
    groups: AtomicU64,
    failures: AtomicU64,
}

impl<F: Files, T: Threads> Central<F, T> {
    /// The number of groups that were written and synced.
    pub fn groups(&self) -> u64 {
        self.groups.load(Ordering::Relaxed)
    }

    /// Bytes of records that fit before a checkpoint has to free some: those that are set aside do
    /// not count.
    pub fn room(&self) -> u64 {
        Self::room_in(&self.state.lock())
    }

    /// Gives back to the medium what nothing needs before the next opening, besides what a deletion
    /// and a checkpoint need then. Everything is durable, and a checkpoint was taken.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn close(&self) -> Result<()> {
        let mut state = self.lock();
        Self::check(&state)?;
        let aside = state.aside;
        let trimmed = state.space.trim(0, aside).and_then(|()| state.space.trim_end(aside));
        trimmed.map_err(|source| PagedError::Io { doing: "giving back space of the log", source })
    }

    fn room_in(state: &State<F::File>) -> u64 {
        let kept = state.aside + state.space.of_checkpoints();
        state.space.free().saturating_sub(kept)
    }

    fn lock(&self) -> MutexGuard<'_, State<F::File>> {
        self.threads.point();
        self.state.lock()
    }

    fn check(state: &State<F::File>) -> Result<()> {
        match &state.stopped {
            None => Ok(()),
            Some(why) => Err(PagedError::Stopped { why: why.clone() }),
        }
    }

    /// Stops the log, and wakes all threads that wait for it.
    fn stop(
        &self,
        state: &mut State<F::File>,
        doing: &'static str,
        source: io::Error,
    ) -> PagedError {
        state.stopped.get_or_insert_with(|| format!("{doing}: {source}"));
        let waiting = state.waiting.drain(..).map(|(_, waiter)| waiter);
        for waiter in waiting.chain(state.gatherer.clone()) {
            self.threads.wake(&waiter);
        }
        self.room.end_all(&*self.threads);
        PagedError::Io { doing, source }
    }

    /// Lets the buffer have room for a record and what may come with it.
    fn make_buffer_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<F::File>>,
        bytes: usize,
    ) -> Result<MutexGuard<'a, State<F::File>>> {
        loop {
            Self::check(&state)?;
            let writing = state.writing.as_ref().map_or(0, |group| group.bytes.len());
            let needed = bytes + SECTOR + SEAL_BYTES as usize;
            if state.filling.bytes.len() + writing + needed <= self.options.buffer_bytes {
                return Ok(state);
            }
            state = if state.writing.is_none() && state.gatherer.is_none() {
                self.write_group(state)?
            } else {
                self.await_group(state, Lsn::NONE, true)
            };
        }
    }

    /// Sees to it that the files have space, by asking the medium for more. `bytes` are needed for
    /// what is said to be full if it has none.
    fn has_space(state: &State<F::File>, reserved: io::Result<bool>, bytes: u64) -> Result<()> {
        match reserved {
            Ok(true) => Ok(()),
            Ok(false) => Err(Self::full(state, bytes, 0)),
            Err(source) => Err(reserving(source)),
        }
    }

    /// The error of a log that has no room for so many bytes.
    fn full(state: &State<F::File>, bytes: u64, free: u64) -> PagedError {
        let (most, medium) = (state.space.capacity(), state.space.refused);
        PagedError::LogFull { bytes, free, most, medium }
    }

    /// Puts the bytes of a record at the end.
    fn put(&self, state: &mut State<F::File>, chain: &Chain, record: &Record<'_>) -> Lsn {
        let bytes = record_bytes(record.payload.len()) as u64;
        if bytes > state.space.left() {
            self.seal(state);
        }
        let (number, offset) = (state.space.number, state.space.offset);
        let file = state.space.file(number);
        let filling = &mut state.filling;
        if std::mem::take(&mut state.header_due) {
            filling.begin_run(number, file, 0);
            filling.bytes.extend(layout::partition_header(&self.shape, number, self.restart));
        } else if filling.runs.is_empty() {
            filling.begin_run(number, file, offset);
        }
        let lsn = layout::lsn_of(number, offset);
        let sure = layout::sure_of(filling.unsynced_before(offset));
        let placed = Placed { lsn, tx: chain.tx, prev: chain.last, mark: self.restart, sure };
        record::encode(&mut filling.bytes, &placed, record, None);
        filling.last = lsn;
        state.newest = lsn;
        state.space.offset += bytes;
        self.end.store(layout::lsn_of(number, state.space.offset).0, Ordering::Release);
        lsn
    }

    /// Ends the partition: the log goes on in the next one.
    fn seal(&self, state: &mut State<F::File>) {
        let (number, offset) = (state.space.number, state.space.offset);
        if state.filling.runs.is_empty() {
            state.filling.begin_run(number, state.space.file(number), offset);
        }
        let sure = layout::sure_of(state.filling.unsynced_before(offset));
        let at = layout::lsn_of(number, offset);
        layout::seal(&mut state.filling.bytes, at, self.restart, sure);
        state.space.advance();
        state.header_due = true;
    }

    /// Wakes the checkpointer, if there is one.
    fn ask_for_checkpoint(&self) {
        if let Some(waiter) = &*self.checkpointer.lock() {
            self.threads.wake(waiter);
        }
    }

    /// The half of the log that a transaction may have.
    fn check_size(state: &State<F::File>, chain: &Chain, more: u64) -> Result<()> {
        let (bytes, most) = (chain.used + chain.aside + more, state.space.capacity() / 2);
        if chain.tx != TxNo(0) && bytes > most {
            return Err(PagedError::TransactionTooLarge { bytes, most });
        }
        Ok(())
    }

    /// Gives back everything that a chain had set aside.
    fn give_back(&self, state: &mut State<F::File>, chain: &mut Chain) {
        state.aside -= chain.aside + chain.ahead;
        (chain.aside, chain.ahead) = (0, 0);
        self.room.end_all(&*self.threads);
    }
}

impl<F: Files, T: Threads> LogManager for Central<F, T> {
    fn reserve(&self, chain: &mut Chain, payload: u64) -> Result<()> {
        let first = if chain.first == Lsn::NONE { END_ROOM } else { 0 };
        let wanted = 2 * payload + first;
        let bytes = wanted.saturating_sub(chain.ahead);
        let mut state = self.lock();
        Self::check(&state)?;
        Self::check_size(&state, chain, wanted)?;
        let free = Self::room_in(&state);
        if bytes > free {
            return Err(Self::full(&state, bytes, free));
        }
        let promised = state.aside + bytes;
        let reserved = state.space.reserve(promised);
        Self::has_space(&state, reserved, bytes)?;
        state.aside = promised;
        chain.ahead += bytes;
        Ok(())
    }

    fn await_room(&self, wait: &Arc<RoomWait>) {
        self.room.add(wait, &*self.threads);
        self.ask_for_checkpoint();
    }

    fn forget_wait(&self, wait: &Arc<RoomWait>) {
        self.room.remove(wait);
    }

    fn unreserve(&self, chain: &mut Chain) {
        let mut state = self.lock();
        state.aside -= std::mem::take(&mut chain.ahead);
        self.room.end_all(&*self.threads);
    }

    fn reserve_checkpoint(
        &self,
        chain: &mut Chain,
        payloads: &[usize],
        keep: Option<Lsn>,
    ) -> Result<()> {
        let bytes = payloads.iter().map(|payload| record_bytes(*payload) as u64).sum();
        let mut state = self.lock();
        Self::check(&state)?;
        let aside = state.aside;
        let frees = match keep {
            Some(keep) => Ok(layout::place_of(keep).0 > state.space.first()),
            None if state.space.first() < state.space.number => Ok(true),
            None => state.space.turn(aside, bytes),
        };
        let frees = frees.map_err(reserving)?;
        // The last room is for one that frees some.
        let left = if frees { 0 } else { state.space.checkpoint_bytes() };
        let free = state.space.free().saturating_sub(aside + left);
        if bytes > free {
            return Err(Self::full(&state, bytes, free));
        }
        let found = state.space.find_all(aside + bytes + left);
        Self::has_space(&state, found, bytes)?;
        state.aside += bytes;
        chain.ahead += bytes;
        Ok(())
    }

    fn append(&self, chain: &mut Chain, record: &Record<'_>) -> Result<Lsn> {
        let bytes = record_bytes(record.payload.len()) as u64;
        let most = self.options.record_bytes;
        if bytes > most as u64 {
            return Err(PagedError::TooLarge { what: "a log record", bytes: bytes as usize, most });
        }
        let mut state = self.make_buffer_room(self.lock(), bytes as usize)?;
        let of_transaction = chain.tx != TxNo(0);
        let undoes =
            matches!(record.kind, Kind::Compensation | Kind::Commit | Kind::Abort | Kind::End);
        // The bytes that it takes of those set aside for it, and the bytes to set aside with it.
        let taken = if undoes { bytes.min(chain.aside) } else { 0 };
        let mut more = 0;
        if of_transaction && record.kind == Kind::Change {
            more = bytes + if chain.first == Lsn::NONE { END_ROOM } else { 0 };
            Self::check_size(&state, chain, bytes + more)?;
        }
        let needed = bytes - taken + more;
        let ahead = needed.min(chain.ahead);
        let checkpoint = matches!(record.kind, Kind::CheckpointBegin | Kind::CheckpointEnd);
        let free = if checkpoint {
            state.space.free().saturating_sub(state.aside)
        } else {
            Self::room_in(&state)
        };
        if needed - ahead > free {
            return Err(Self::full(&state, needed, free));
        }
        let promised = state.aside - taken - ahead + bytes + more;
        let reserved = if undoes && needed == ahead {
            // The files have it, as all that is set aside.
            state.space.find(bytes)
        } else if checkpoint || undoes {
            // Nothing of what is set aside for others.
            state.space.find_all(promised)
        } else {
            state.space.reserve(promised)
        };
        Self::has_space(&state, reserved, needed)?;
        if record.kind == Kind::CheckpointBegin {
            state.at_begin = state.appended;
            let (of_others, own) = (state.aside - chain.ahead, chain.ahead);
            if state.space.turn(of_others, own).map_err(reserving)? {
                self.seal(&mut state);
            }
        }
        let lsn = self.put(&mut state, chain, record);
        state.aside = state.aside + more - taken - ahead;
        chain.aside = chain.aside + more - taken;
        chain.ahead -= ahead;
        chain.used += bytes;
        chain.records += 1;
        chain.last = lsn;
        if chain.first == Lsn::NONE {
            chain.first = lsn;
        }
        if of_transaction && matches!(record.kind, Kind::Commit | Kind::End) {
            self.give_back(&mut state, chain);
        }
        let before = self.consumed();
        state.appended += bytes;
        self.appended.store(state.appended, Ordering::Release);
        let threshold = self.options.checkpoint_bytes;
        drop(state);
        if before < threshold && before + bytes >= threshold {
            self.ask_for_checkpoint();
        }
        Ok(lsn)
    }

    fn commit(&self, chain: &mut Chain) -> Result<Lsn> {
        self.append(chain, &Record::bare(Kind::Commit))
    }

    fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    fn end(&self) -> Lsn {
        Lsn(self.end.load(Ordering::Acquire))
    }

    fn force(&self, to: Lsn) -> Result<()> {
        if self.durable() >= to {
            return Ok(());
        }
        let mut state = self.lock();
        let to = to.min(state.newest);
        loop {
            if self.durable() >= to {
                return Ok(());
            }
            Self::check(&state)?;
            state = if state.writing.is_none() && state.gatherer.is_none() {
                let state = self.gather(state);
                Self::check(&state)?;
                self.write_group(state)?
            } else {
                self.await_group(state, to, false)
            };
        }
    }

    fn read(&self, at: Lsn) -> Result<Logged> {
        self.read_at(at)
    }

    fn consumed(&self) -> u64 {
        // In this order: the second never overtakes the first.
        let checkpointed = self.at_checkpoint.load(Ordering::Acquire);
        let appended = self.appended.load(Ordering::Acquire) - checkpointed;
        self.found.load(Ordering::Acquire) + appended
    }

    fn counts(&self) -> LogCounts {
        LogCounts {
            appended: self.appended.load(Ordering::Acquire),
            groups: self.groups(),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    fn largest(&self) -> usize {
        self.options.record_bytes - HEADER_BYTES
    }

    fn attend(&self, checkpointer: Arc<Waiter>) {
        *self.checkpointer.lock() = Some(checkpointer);
    }

    fn is_due(&self) -> bool {
        self.room.are_some() || self.consumed() >= self.options.checkpoint_bytes
    }

    fn threshold(&self) -> u64 {
        self.options.checkpoint_bytes
    }

    fn start(&self) -> Lsn {
        self.head.lock().1.start
    }

    fn kept(&self) -> Lsn {
        layout::lsn_of(self.lock().space.first(), SECTOR as u64)
    }

    fn truncate(&self, start: Lsn, keep: Lsn) -> Result<()> {
        self.force(Lsn(u64::MAX))?;
        let (first, _) = layout::place_of(keep.min(start));
        {
            let mut head = self.head.lock();
            let next = Head {
                count: head.1.count + 1,
                start,
                first: first.max(head.1.first),
                reached: self.durable(),
                ..head.1
            };
            if let Err(source) = open::write_head(&head.0, &self.shape, &next) {
                return Err(self.stop(&mut self.lock(), "writing the log's head", source));
            }
            head.1 = next;
        }
        let mut state = self.lock();
        Self::check(&state)?;
        let frees = state.space.free_before(first);
        let (keep, aside) = (2 * self.options.checkpoint_bytes, state.aside);
        if frees && state.space.trim(keep, aside).is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.at_checkpoint.store(state.at_begin, Ordering::Release);
        self.found.store(0, Ordering::Release);
        if frees {
            self.room.end_all(&*self.threads);
        }
        Ok(())
    }

    fn would_free(&self, keep: Lsn) -> bool {
        let state = self.lock();
        let of_all = || keep >= self.end() && state.space.is_turn_due(state.aside);
        layout::place_of(keep).0 > state.space.first() || of_all()
    }

    fn adopt(&self, chain: &mut Chain) {
        let mut state = self.lock();
        chain.aside = chain.used + END_ROOM;
        state.aside += chain.aside;
    }

    fn scan(&self, from: Lsn, visit: Visit<'_>) -> Result<()> {
        self.scan_between(from, Lsn(u64::MAX), visit)
    }

    fn scan_to(&self, from: Lsn, to: Lsn, visit: Visit<'_>) -> Result<()> {
        self.scan_between(from, to, visit)
    }

    fn read_each(&self, places: &[Lsn], visit: Visit<'_>) -> Result<()> {
        self.read_places(places, visit)
    }
}

impl Record<'_> {
    /// A record that only has a kind.
    pub fn bare(kind: Kind) -> Self {
        let (page, none) = (PageNo(0), Lsn::NONE);
        Self { kind, page, page_before: none, undo_next: none, payload: &[] }
    }
}
