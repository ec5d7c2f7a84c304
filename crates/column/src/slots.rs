//! Transaction slots (P4 4.1: the transaction control block array) and their mirrors.
//!
//! A slot has the state of a transaction in one line, its name in the next, and an entry for each of
//! its statements. What of the line persists is a prefix of the stores to it, so the state is stored
//! last, and first when it is taken back.
//!
//! - An entry counts if its checksum matches it, the slot's sequence and its number: what an earlier
//!   transaction has left there does not.
//! - The mirror, in ordinary memory, says of the slot's current transaction whether it is open. A mark
//!   with another sequence is that of a transaction that is over: if it committed, its stamps were
//!   stored before the sequence went on.

use std::sync::atomic::Ordering::{Acquire, Release};

use heap::{Lane, Purpose};
use pm::{Bad, LINE_BYTES, LineSet, Memory, Off, Range};
use zerocopy::IntoBytes;

use crate::Result;
use crate::error::ColumnError;
use crate::latch::{Latch, Waiting};
use crate::layout::{
    CHAIN_AT, ENTRIES_AT, ENTRY_BYTES, Entry, Header, MOST_NAME, NAME_AT, NAME_CHECK_AT, NUMBER_AT,
    OPENINGS_AT, SEGMENT_BYTES, SEGMENT_ENTRIES, SEQUENCE_AT, SLOT_BYTES, SLOT_ENTRIES,
    SNAPSHOT_AT, STATE_AT,
};
use crate::stamps::parts;
use crate::sync::AtomicU64;

/// The states of a slot's transaction.
pub(crate) const FREE: u64 = 0;
pub(crate) const ACTIVE: u64 = 1;
pub(crate) const COMMITTED: u64 = 2;
pub(crate) const ABORTED: u64 = 3;
/// Flag of [`ACTIVE`]: the transaction has a name, in a line of its own, so its first statement counts only with
/// that.
pub(crate) const NAMED: u64 = 1 << 7;
/// Flag of [`ACTIVE`]: the transaction is serializable.
pub(crate) const SERIAL: u64 = 1 << 6;
/// The bits of the state without the flags.
pub(crate) const STATES: u64 = SERIAL - 1;

/// The kinds of statements.
pub(crate) const INSERT: u8 = 1;
pub(crate) const UPDATE: u8 = 2;
pub(crate) const DELETE: u8 = 3;

/// The state of a transaction, in its mirror: open, aborted, or its commit number.
const OPEN: u64 = 0;
const GONE: u64 = u64::MAX;

/// A statement, as its entry stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Statement {
    pub(crate) kind: u8,
    pub(crate) table: u16,
    pub(crate) old: u64,
    pub(crate) new: u64,
    /// The checksum of the new version.
    pub(crate) sum: u32,
}

/// The outcome of the transaction with a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Open,
    Committed(u64),
    /// It is over. If the mark is still stored where it was read, the transaction has aborted.
    Over,
}

#[derive(Debug, Default)]
struct Mirror {
    sequence: AtomicU64,
    outcome: AtomicU64,
    /// 1 while a transaction has taken the slot and has not fenced yet: until then the slot may still say that the
    /// one before it has committed.
    stale: AtomicU64,
}

/// The slots of a store.
#[derive(Debug)]
pub(crate) struct Slots<M> {
    memory: M,
    at: u64,
    pub(crate) count: u32,
    mirrors: Box<[Mirror]>,
    /// Free slots, and whether each still says that its last transaction has committed.
    free: Latch<Vec<(u16, bool)>>,
    /// The segments of entries of each slot, beyond those in the slot itself.
    chains: Box<[Latch<Vec<u64>>]>,
}

impl<M: Memory> Slots<M> {
    pub(crate) fn open(memory: &M, at: u64, count: u32, waiting: &Waiting) -> Result<Self> {
        pm::checked_range(Range::new(at, u64::from(count) * SLOT_BYTES), memory.len())?;
        if !at.is_multiple_of(LINE_BYTES) {
            return Err(Bad::Damaged { what: "place of the transaction slots", at }.into());
        }
        Ok(Self {
            memory: memory.clone(),
            at,
            count,
            mirrors: (0..count).map(|_| Mirror::default()).collect(),
            free: Latch::new(Vec::new(), waiting),
            chains: (0..count).map(|_| Latch::new(Vec::new(), waiting)).collect(),
        })
    }

    pub(crate) fn word(&self, slot: u16, at: u64) -> Off<u64> {
        Off::new(self.at + u64::from(slot) * SLOT_BYTES + at)
    }

    pub(crate) fn header(&self, slot: u16) -> Result<Header> {
        Ok(self.memory.read(Off::new(self.word(slot, 0).get()))?)
    }

    /// Takes a free slot.
    pub(crate) fn take(&self) -> Result<u16> {
        let mut free = self.free.write();
        let (slot, committed) = free.pop().ok_or(ColumnError::Busy { slots: self.count })?;
        // With the latch held, so that the collection sees the slot either here or as taken.
        self.mirrors[usize::from(slot)].stale.store(u64::from(committed), Release);
        Ok(slot)
    }

    /// Notes that the first statement of a slot's transaction is durable.
    pub(crate) fn set_begun(&self, slot: u16) {
        self.mirrors[usize::from(slot)].stale.store(0, Release);
    }

    /// Releases a slot whose transaction is over, durably, and whether that `committed`. If it never began, the
    /// slot still says what it said before.
    pub(crate) fn release(&self, slot: u16, committed: bool) {
        let mut free = self.free.write();
        let stale = &self.mirrors[usize::from(slot)].stale;
        let says_committed = committed || stale.load(Acquire) != 0;
        stale.store(0, Release);
        free.push((slot, says_committed));
    }

    /// Lets free slots forget their last transactions, whose stamps are durable, so that the rows of these can be
    /// used again. The caller fences. Returns false, and does nothing, while a slot that is taken may still say
    /// that its last transaction has committed.
    #[track_caller]
    pub(crate) fn forget_committed(&self, lines: &mut LineSet) -> bool {
        let mut free = self.free.write();
        if self.mirrors.iter().any(|mirror| mirror.stale.load(Acquire) != 0) {
            return false;
        }
        for (slot, committed) in free.iter_mut().filter(|(_, committed)| *committed) {
            self.put(*slot, STATE_AT, FREE);
            lines.add(self.line(*slot));
            *committed = false;
        }
        // Before another thread takes one of them: the flush must not meet another transaction's line half stored.
        lines.flush(&self.memory);
        true
    }

    /// The sequence of the slot's last transaction.
    pub(crate) fn sequence(&self, slot: u16) -> u64 {
        self.mirrors[usize::from(slot)].sequence.load(Acquire)
    }

    /// Sets the mirror of a slot to an open transaction.
    pub(crate) fn set_open(&self, slot: u16, sequence: u64) {
        let mirror = &self.mirrors[usize::from(slot)];
        mirror.sequence.store(sequence, Release);
        mirror.outcome.store(OPEN, Release);
    }

    /// Sets the mirror of a slot without a transaction, whose last one had this sequence.
    pub(crate) fn set_over(&self, slot: u16, sequence: u64) {
        self.mirrors[usize::from(slot)].sequence.store(sequence, Release);
        self.set_aborted(slot);
    }

    pub(crate) fn set_committed(&self, slot: u16, number: u64) {
        self.mirrors[usize::from(slot)].outcome.store(number, Release);
    }

    pub(crate) fn set_aborted(&self, slot: u16) {
        self.mirrors[usize::from(slot)].outcome.store(GONE, Release);
    }

    pub(crate) fn outcome(&self, mark: u64) -> Outcome {
        let (slot, sequence) = parts(mark);
        let Some(mirror) = self.mirrors.get(usize::from(slot)) else { return Outcome::Over };
        if mirror.sequence.load(Acquire) != sequence {
            return Outcome::Over;
        }
        let outcome = mirror.outcome.load(Acquire);
        if mirror.sequence.load(Acquire) != sequence {
            return Outcome::Over;
        }
        match outcome {
            OPEN => Outcome::Open,
            GONE => Outcome::Over,
            number => Outcome::Committed(number),
        }
    }

    /// Stores the line of a transaction that begins, and its name, before any statement of it is durable.
    pub(crate) fn store_begin(
        &self,
        slot: u16,
        sequence: u64,
        snapshot: u64,
        (name, is_serial): (&[u8], bool),
    ) {
        self.put(slot, STATE_AT, FREE);
        self.put(slot, SEQUENCE_AT, sequence);
        self.put(slot, SNAPSHOT_AT, snapshot);
        self.put(slot, OPENINGS_AT, 0);
        let named = if name.is_empty() { 0 } else { NAMED };
        let serial = if is_serial { SERIAL } else { 0 };
        self.put(slot, STATE_AT, ACTIVE | named | serial);
        if !name.is_empty() {
            self.store_name(slot, sequence, name);
        }
    }

    /// Stores the line of a slot whose transaction is over; the next one has a higher sequence.
    pub(crate) fn store_over(&self, slot: u16, sequence: u64) {
        self.put(slot, STATE_AT, FREE);
        self.put(slot, SEQUENCE_AT, sequence);
    }

    /// Stores the line of a transaction in flight.
    pub(crate) fn store_kept(&self, slot: u16, openings: u64, is_serial: bool) {
        self.put(slot, OPENINGS_AT, openings);
        self.put(slot, STATE_AT, if is_serial { ACTIVE | SERIAL } else { ACTIVE });
    }

    /// Stores that the transaction has gone on since the store was opened.
    pub(crate) fn store_resumed(&self, slot: u16) {
        self.put(slot, OPENINGS_AT, 0);
    }

    #[track_caller]
    fn put(&self, slot: u16, at: u64, value: u64) {
        self.memory.store(self.word(slot, at), value);
    }

    pub(crate) fn store_commit(&self, slot: u16, number: u64, statements: u64) {
        self.put(slot, NUMBER_AT, number);
        self.put(slot, STATE_AT, COMMITTED | statements << 8);
    }

    pub(crate) fn store_abort(&self, slot: u16) {
        self.put(slot, STATE_AT, ABORTED);
    }

    /// Stores the name of the transaction that begins.
    fn store_name(&self, slot: u16, sequence: u64, name: &[u8]) {
        let mut padded = [0; MOST_NAME];
        padded[..name.len()].copy_from_slice(name);
        self.memory.copy(Off::new(self.word(slot, NAME_AT).get()), &padded);
        self.memory
            .store(self.word(slot, NAME_CHECK_AT), name_check(&padded, name.len(), sequence));
    }

    /// The name of the transaction with this sequence, or nothing.
    pub(crate) fn name(&self, slot: u16, sequence: u64) -> Result<Vec<u8>> {
        let padded: [u8; MOST_NAME] = self.memory.read(Off::new(self.word(slot, NAME_AT).get()))?;
        let check = self.memory.load(self.word(slot, NAME_CHECK_AT), Acquire)?;
        let length = check as u8 as usize;
        if length > MOST_NAME || check != name_check(&padded, length, sequence) {
            return Ok(Vec::new());
        }
        Ok(padded[..length].to_vec())
    }

    pub(crate) fn line(&self, slot: u16) -> Range {
        Range::new(self.word(slot, 0).get(), 64)
    }

    pub(crate) fn name_line(&self, slot: u16) -> Range {
        Range::new(self.word(slot, NAME_AT).get(), 64)
    }

    /// The place of an entry that has room.
    pub(crate) fn entry_at(&self, slot: u16, index: u64) -> Off<Entry> {
        if index < SLOT_ENTRIES {
            return Off::new(self.word(slot, ENTRIES_AT).get() + index * ENTRY_BYTES);
        }
        let further = index - SLOT_ENTRIES;
        let chain = self.chains[usize::from(slot)].read();
        let segment = chain[(further / SEGMENT_ENTRIES) as usize];
        Off::new(segment + (further % SEGMENT_ENTRIES + 1) * ENTRY_BYTES)
    }

    /// Returns whether the known segments have room for an entry.
    fn has_room(&self, slot: u16, index: u64) -> bool {
        let segments = self.chains[usize::from(slot)].read().len() as u64;
        index < SLOT_ENTRIES + segments * SEGMENT_ENTRIES
    }

    /// The word that leads to the next segment after the known ones.
    fn link(&self, slot: u16) -> Off<u64> {
        let chain = self.chains[usize::from(slot)].read();
        chain.last().map_or(self.word(slot, CHAIN_AT), |last| Off::new(*last))
    }

    /// Loads the place of a slot's next segment; returns whether there is one.
    fn learn(&self, slot: u16) -> Result<bool> {
        let next = self.memory.load(self.link(slot), Acquire)?;
        if next != 0 {
            let bytes = self.memory.len();
            pm::checked_range(Range::new(next, SEGMENT_BYTES), bytes)?;
            if self.chains[usize::from(slot)].read().len() as u64 > bytes / SEGMENT_BYTES {
                return Err(Bad::Damaged { what: "chain of statements", at: next }.into());
            }
            self.chains[usize::from(slot)].write().push(next);
        }
        Ok(next != 0)
    }

    /// Makes room for an entry. A segment stays with its slot.
    #[track_caller]
    pub(crate) fn make_room(&self, slot: u16, index: u64, lane: &Latch<Lane<M>>) -> Result<()> {
        while !self.has_room(slot, index) {
            if self.learn(slot)? {
                continue;
            }
            let mut lane = lane.write();
            let segment = lane.allocate(SEGMENT_BYTES, Purpose::Log)?;
            self.memory.copy(Off::new(segment), &[0; ENTRY_BYTES as usize]);
            let mut lines = LineSet::new();
            lines.add(Range::new(segment, ENTRY_BYTES));
            lane.mini_persist(segment)?;
            lane.mini_store(self.link(slot), segment);
            lane.mini_commit(&mut lines);
            lane.fence_flushed();
            self.chains[usize::from(slot)].write().push(segment);
        }
        Ok(())
    }

    /// Stores an entry.
    #[track_caller]
    pub(crate) fn store_entry(&self, mark: u64, index: u64, statement: Statement) -> Range {
        let at = self.entry_at(parts(mark).0, index);
        let entry = encode(mark, index, statement);
        self.memory.copy(Off::new(at.get()), entry.as_bytes());
        at.range()
    }

    /// A statement of the transaction with this mark, if there is a matching entry.
    pub(crate) fn statement(&self, mark: u64, index: u64) -> Result<Option<Statement>> {
        let slot = parts(mark).0;
        while !self.has_room(slot, index) {
            if !self.learn(slot)? {
                return Ok(None);
            }
        }
        let entry: Entry = self.memory.read(self.entry_at(slot, index))?;
        let found = Statement {
            kind: entry.what as u8,
            table: (entry.what >> 8) as u16,
            old: entry.old,
            new: entry.new,
            sum: (entry.check >> 32) as u32,
        };
        Ok((encode(mark, index, found) == entry).then_some(found))
    }

    /// Clears an entry that was never acknowledged, if there is one. The caller fences.
    #[track_caller]
    pub(crate) fn forget_entry(&self, mark: u64, index: u64, lines: &mut LineSet) -> Result<()> {
        if self.statement(mark, index)?.is_some() {
            // The first word contains the kind, which is never zero.
            let first: Off<u64> = Off::new(self.entry_at(parts(mark).0, index).get());
            self.memory.store(first, 0);
            lines.add(first.range());
        }
        Ok(())
    }

    /// All segments of a slot.
    pub(crate) fn segments(&self, slot: u16) -> Result<Vec<u64>> {
        while self.learn(slot)? {}
        Ok(self.chains[usize::from(slot)].read().clone())
    }
}

fn encode(mark: u64, index: u64, statement: Statement) -> Entry {
    let Statement { kind, table, old, new, sum } = statement;
    let what = u64::from(kind) | u64::from(table) << 8 | index << 32;
    let head = crc32c::crc32c([what, old, new, u64::from(sum), mark].as_bytes());
    Entry { what, old, new, check: u64::from(head) | u64::from(sum) << 32 }
}

fn name_check(padded: &[u8; MOST_NAME], length: usize, sequence: u64) -> u64 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(padded), sequence.as_bytes());
    u64::from(sum) << 32 | length as u64
}
