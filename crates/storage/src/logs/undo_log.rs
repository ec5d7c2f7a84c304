//! The undo log of the NVM-aware engines (P1 4.1): a linked list of preallocated segments, whose
//! entries are one line each and validate themselves. `docs/format/undo-log.md` draws it.
//!
//! Invariants:
//! - The state word names a finished transaction `t` and how it ended. If it committed, the entries
//!   numbered `t` say which slots its end frees. All transactions that have finished since were
//!   statements: transactions of one entry, which say by themselves that they are committed.
//! - The entries after the last finished transaction belong to the one that was open.
//! - Transactions use two chains of segments in turn, so that the entries of `t` stay until `t + 1`
//!   has ended. All other entries are ignored: their number is lower.
//! - A number is used once. Opening finishes number `t + 1` even if it finds no entry, since parts
//!   of one may have persisted.
//!
//! One fence makes an entry durable, which carries its number and checksum; one more makes the end
//! of the transaction durable, which is one 8-byte store of the state word. A statement takes one
//! fence for both: its entry counts only if what it leads to has the checksum that the entry holds.
//! A statement changes data in place only after that fence, and opening repeats the change.

use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use pm::{Bad, Component, LineSet, Memory, Off, Range, observe};
use zerocopy::IntoBytes;

use crate::error::StorageError;
use crate::logs::undo_entry::UndoEntry;

/// Bytes of the log's head: the state word and the first segments of both chains, on one line.
pub const UNDO_HEAD_BYTES: u64 = 64;
/// Bytes of a segment: a line for the link, then an entry a line.
pub const UNDO_SEGMENT_BYTES: u64 = 4096;

/// Numbers that an engine can keep in the log's head.
pub const UNDO_NOTES: usize = 2;

const _: () = assert!(24 + UNDO_NOTES as u64 * 8 <= UNDO_HEAD_BYTES);

const LINE: u64 = 64;
const ENTRIES: u64 = UNDO_SEGMENT_BYTES / LINE - 1;
/// Segments that a chain has at most: 2^22 lines of entries.
const MAX_SEGMENTS: usize = 1 << 16;

/// Entries of a transaction, at most: an insert, a delete and an update of one or two columns have
/// one each.
pub const MAX_UNDO_ENTRIES: u64 = MAX_SEGMENTS as u64 * ENTRIES;

const STATE_COMMITTED: u64 = 1;
const STATE_EMPTY: u64 = 2;

/// Reports what opening the log found.
#[derive(Debug, Default)]
pub struct UndoWork {
    /// Entries of the transaction that the state word names, if it committed: its frees may be
    /// unfinished.
    pub committed: Vec<UndoEntry>,
    /// The last statements since then, at most two, oldest first: what they change in place, and
    /// what that frees, may not have persisted. None if the open transaction has two operations,
    /// since all of that is durable then.
    pub statements: Vec<UndoEntry>,
    /// Entries of the transaction that was open, oldest first.
    pub open: Vec<UndoEntry>,
}

/// The undo log of one partition.
#[derive(Debug)]
pub struct UndoLog {
    head: u64,
    /// The segments of both chains.
    chains: [Vec<u64>; 2],
    /// The number of the last finished transaction.
    finished: u64,
    /// Entries of the open transaction so far.
    sequence: u32,
    /// Entries of those that have ended.
    logged: u64,
}

impl UndoLog {
    /// Creates an empty log whose head is at `head`, a line that the caller owns. Settled when it
    /// returns, but nothing leads to it yet.
    ///
    /// # Errors
    /// The memory is full.
    pub fn create<M: Memory>(lane: &mut Lane<M>, head: u64) -> Result<Self, StorageError> {
        let mut log = Self::empty(head);
        let memory = lane.memory().clone();
        memory.copy(Off::new(head), &[0; UNDO_HEAD_BYTES as usize]);
        memory.store(log.state_word(), STATE_EMPTY);
        memory.flush(Range::new(head, UNDO_HEAD_BYTES));
        for chain in 0..2 {
            log.add_segment(lane, chain)?;
            memory.fence();
        }
        Ok(log)
    }

    /// Returns a log at `head` that reads as empty, whatever the memory holds: for salvaging a
    /// damaged pool.
    pub fn unreadable(head: u64) -> Self {
        Self::empty(head)
    }

    fn empty(head: u64) -> Self {
        let chains = [Vec::new(), Vec::new()];
        Self { head, chains, finished: 0, sequence: 0, logged: 0 }
    }

    /// Opens the log whose head is at `head` and reads what is left to do. Until
    /// [`Self::finish_recovery`] nothing changes; but what was read, some of which a killed process
    /// may only have stored, is durable when this returns: what is done by it would otherwise meet
    /// another log after the next crash. `is_complete` says whether what a statement leads to has
    /// the checksum in it, and flushes that.
    ///
    /// # Errors
    /// Damage.
    pub fn open<M: Memory>(
        memory: &M,
        head: u64,
        is_complete: impl FnOnce(&UndoEntry) -> Result<bool, Bad>,
    ) -> Result<(Self, UndoWork), Bad> {
        let mut log = Self::empty(head);
        let state = memory.load(log.state_word(), Acquire)?;
        log.finished = state >> 2;
        for chain in 0..2 {
            let mut link = log.first_segment(chain);
            loop {
                let segment = memory.load(link, Acquire)?;
                if segment == 0 {
                    break;
                }
                if log.chains[chain].len() == MAX_SEGMENTS || !segment.is_multiple_of(LINE) {
                    return Err(Bad::Damaged { what: "undo log segment", at: segment });
                }
                memory.view(Range::new(segment, UNDO_SEGMENT_BYTES))?;
                log.chains[chain].push(segment);
                link = Off::new(segment);
            }
            if log.chains[chain].is_empty() {
                return Err(Bad::Damaged { what: "undo log", at: head });
            }
        }
        let named = log.finished;
        let committed = match state & 3 {
            STATE_COMMITTED => log.entries(memory, named)?,
            STATE_EMPTY => Vec::new(),
            _ => return Err(Bad::Damaged { what: "undo log state", at: head }),
        };
        let mut statements = log.statements(memory)?;
        if let Some(last) = statements.last()
            && !is_complete(last)?
        {
            // Never acknowledged, and nothing of it stands in place.
            statements.pop();
        }
        if let Some(last) = statements.last() {
            log.finished = last.transaction;
        }
        let open = log.entries(memory, log.finished + 1)?;
        memory.flush(Range::new(head, UNDO_HEAD_BYTES));
        let read = [
            (named, committed.len()),
            (log.finished, statements.len().min(1)),
            (log.finished + 1, open.len()),
        ];
        for (transaction, count) in read {
            let chain = (transaction & 1) as usize;
            // The line after the entries is flushed too: that there is no further entry may not be
            // durable yet.
            let lines = log.chains[chain].len() as u64 * ENTRIES;
            for sequence in 0..lines.min(count as u64 + 1) {
                memory.flush(Range::new(log.entry_at(chain, sequence as u32).get(), LINE));
            }
        }
        memory.fence();
        // The second operation of a transaction is logged after the fence of the first. That fence
        // also covers what statements have left to do. Repeated now, it would put older values over
        // newer ones that the first operation has made durable in place.
        if open.iter().filter(|entry| !entry.continues()).count() > 1 {
            statements.clear();
        }
        Ok((log, UndoWork { committed, statements, open }))
    }

    /// Returns the statements after the transaction that the state word names, oldest first, as far
    /// as they are not overwritten: a chain holds at most one.
    fn statements<M: Memory>(&self, memory: &M) -> Result<Vec<UndoEntry>, Bad> {
        let mut found = Vec::new();
        for chain in 0..2 {
            let entry: UndoEntry = memory.read(self.entry_at(chain, 0).plus(0))?;
            let is_ours =
                entry.transaction & 1 == chain as u64 && entry.transaction > self.finished;
            if is_ours && entry.is_statement() && entry.is_whole() {
                found.push(entry);
            }
        }
        found.sort_by_key(|entry: &UndoEntry| entry.transaction);
        match found[..] {
            [first, second] if first.transaction + 1 != second.transaction => {
                Err(Bad::Damaged { what: "undo log", at: self.head })
            }
            _ => Ok(found),
        }
    }

    /// The number of the transaction that is open or comes next.
    #[inline]
    pub fn transaction(&self) -> u64 {
        self.finished + 1
    }

    /// Returns how many entries the open transaction has.
    #[inline]
    pub fn len(&self) -> u32 {
        self.sequence
    }

    /// Returns whether the open transaction has no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sequence == 0
    }

    /// Bytes of the entries that were appended since the log was opened.
    pub fn logged_bytes(&self) -> u64 {
        (self.logged + u64::from(self.sequence)) * LINE
    }

    /// Makes sure that `entries` more entries fit. May make fences of its own.
    ///
    /// # Errors
    /// The memory is full, or the transaction is too large; the log is as it was.
    #[inline]
    #[track_caller]
    pub fn reserve<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        entries: usize,
    ) -> Result<(), StorageError> {
        let chain = (self.transaction() & 1) as usize;
        while u64::from(self.sequence) + entries as u64 > self.chains[chain].len() as u64 * ENTRIES
        {
            self.add_segment(lane, chain)?;
        }
        Ok(())
    }

    /// Appends an entry; [`Self::reserve`] made room. It is durable once `lines` are flushed and
    /// fenced.
    #[inline]
    #[track_caller]
    pub fn append<M: Memory>(&mut self, memory: &M, mut entry: UndoEntry, lines: &mut LineSet) {
        observe!(M: memory.enter(Component::Recovery));
        entry.seal(self.transaction(), self.sequence);
        let at = self.entry_at((self.transaction() & 1) as usize, self.sequence);
        memory.copy(at, entry.as_bytes());
        lines.add(Range::new(at.get(), LINE));
        self.sequence += 1;
    }

    /// Appends the entry of a statement, to an open transaction that has none; [`Self::reserve`]
    /// made room. Call [`Self::statement_committed`] when `lines` have been flushed and fenced, and
    /// change nothing in place before.
    #[inline]
    #[track_caller]
    pub fn append_statement<M: Memory>(
        &mut self,
        memory: &M,
        mut entry: UndoEntry,
        lines: &mut LineSet,
    ) {
        assert!(self.is_empty() && entry.is_statement(), "a statement is a transaction by itself");
        observe!(M: memory.enter(Component::Recovery));
        entry.seal(self.transaction(), entry.sequence);
        let at = self.entry_at((self.transaction() & 1) as usize, 0);
        memory.copy(at, entry.as_bytes());
        lines.add(Range::new(at.get(), LINE));
    }

    /// The statement that was appended is durable, and with that committed.
    #[inline]
    pub fn statement_committed(&mut self) {
        self.finished += 1;
        self.logged += 1;
    }

    /// Records, between transactions, that opening need not redo or finish what has ended, since
    /// all of it is durable. The word itself becomes durable with the next fence, for which the
    /// caller flushes `lines`.
    #[track_caller]
    pub fn nothing_left<M: Memory>(&mut self, memory: &M, lines: &mut LineSet) {
        observe!(M: memory.enter(Component::Recovery));
        memory.store(self.state_word(), self.finished << 2 | STATE_EMPTY);
        lines.add(self.state_word().range());
    }

    /// Takes the entries from number `first` on out of the log, durably, because their operations
    /// have been undone.
    #[track_caller]
    pub fn retract<M: Memory>(&mut self, memory: &M, first: u32) {
        let at = self.entry_at((self.transaction() & 1) as usize, first);
        // An entry ends the log if its transaction number is wrong.
        memory.store(at.plus(0), 0);
        memory.flush(Range::new(at.get(), LINE));
        memory.fence();
        self.logged += u64::from(self.sequence.saturating_sub(first));
        self.sequence = self.sequence.min(first);
    }

    /// [`Self::retract`] of the entries from number `first` on and before `end`, newest first: each
    /// of them, since the transaction goes on, and one that was left would follow the next entry.
    ///
    /// Their checksums go, too. The next entry in the place has the same transaction and sequence
    /// number: of its copy a crash may leave the first word alone, which would bring the old entry
    /// back if all else of it were still there.
    #[track_caller]
    pub fn retract_each<M: Memory>(&mut self, memory: &M, first: u32, end: u32) {
        for number in (first..end).rev() {
            let at = self.entry_at((self.transaction() & 1) as usize, number);
            // The word of checksum and sequence number.
            memory.store(Off::new(at.get() + 8), 0);
            self.retract(memory, number);
        }
    }

    /// The entries of the open transaction, oldest first.
    ///
    /// # Errors
    /// Damage.
    pub fn open_entries<M: Memory>(&self, memory: &M) -> Result<Vec<UndoEntry>, Bad> {
        let mut entries = self.entries(memory, self.transaction())?;
        entries.truncate(self.sequence as usize);
        Ok(entries)
    }

    /// Commits the open transaction: everything that it changed is durable already. Durable when
    /// the flush, which this makes, has been fenced.
    #[inline]
    #[track_caller]
    pub fn commit<M: Memory>(&mut self, memory: &M) {
        self.finish(memory, STATE_COMMITTED);
    }

    /// Ends the open transaction, which has been undone durably.
    #[inline(never)]
    #[track_caller]
    pub fn abort<M: Memory>(&mut self, memory: &M) {
        self.finish(memory, STATE_EMPTY);
    }

    /// Ends recovery: the work is done durably.
    #[track_caller]
    pub fn finish_recovery<M: Memory>(&mut self, memory: &M) {
        self.finish(memory, STATE_EMPTY);
    }

    // The compiler takes it for too long, though it is the end of every transaction.
    #[inline(always)]
    #[track_caller]
    fn finish<M: Memory>(&mut self, memory: &M, state: u64) {
        self.finished += 1;
        self.logged += u64::from(self.sequence);
        self.sequence = 0;
        let word = self.state_word();
        observe!(M: memory.enter(Component::Recovery));
        memory.store(word, self.finished << 2 | state);
        memory.flush_word(word);
    }

    /// Stores a number of the engine's on the line of the state word: it becomes durable with the
    /// next end of a transaction, and costs no flush of its own.
    #[track_caller]
    pub fn note<M: Memory>(&self, memory: &M, number: usize, value: u64) {
        memory.store(self.note_at(number), value);
    }

    /// The words that end a transaction without entries, with new values of all numbers of
    /// [`Self::note`], for a mini-transaction that changes them together with something else. When
    /// that is committed, call [`Self::ended`].
    pub fn end(&self, notes: [u64; UNDO_NOTES]) -> [(Off<u64>, u64); 1 + UNDO_NOTES] {
        assert!(self.is_empty(), "an open transaction has to be undone first");
        std::array::from_fn(|word| match word.checked_sub(1) {
            None => (self.state_word(), self.transaction() << 2 | STATE_EMPTY),
            Some(number) => (self.note_at(number), notes[number]),
        })
    }

    /// The words of [`Self::end`] have been stored.
    pub fn ended(&mut self) {
        self.finished += 1;
    }

    /// A number that [`Self::note`] stored; zero at first.
    ///
    /// # Errors
    /// The log lies outside the memory.
    pub fn noted<M: Memory>(&self, memory: &M, number: usize) -> Result<u64, Bad> {
        memory.load(self.note_at(number), Acquire)
    }

    fn note_at(&self, number: usize) -> Off<u64> {
        assert!(number < UNDO_NOTES, "the head has room for {UNDO_NOTES} numbers");
        Off::new(self.head + 24 + number as u64 * 8)
    }

    /// Calls `visit` with the offset of every segment.
    pub fn segments(&self, visit: impl FnMut(u64)) {
        self.chains.iter().flatten().copied().for_each(visit);
    }

    fn state_word(&self) -> Off<u64> {
        Off::new(self.head)
    }

    fn first_segment(&self, chain: usize) -> Off<u64> {
        Off::new(self.head + 8 + chain as u64 * 8)
    }

    #[inline]
    fn entry_at(&self, chain: usize, sequence: u32) -> Off<u8> {
        let (segment, line) = (u64::from(sequence) / ENTRIES, u64::from(sequence) % ENTRIES);
        Off::new(self.chains[chain][segment as usize] + LINE + line * LINE)
    }

    /// Links a fresh segment to the end of a chain. The link and the segment's persisted bit are
    /// one mini-transaction: a crash leaks nothing.
    #[cold]
    #[track_caller]
    fn add_segment<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        chain: usize,
    ) -> Result<(), StorageError> {
        // A longer chain would not be believed when it is opened.
        if self.chains[chain].len() == MAX_SEGMENTS {
            return Err(StorageError::TransactionTooLarge { max: MAX_UNDO_ENTRIES });
        }
        let segment = lane.allocate(UNDO_SEGMENT_BYTES, Purpose::Log)?;
        let memory = lane.memory();
        memory.store(Off::new(segment), 0);
        // Earlier contents must not look like a statement.
        memory.store(Off::new(segment + LINE), 0);
        let mut lines = LineSet::new();
        lines.add(Range::new(segment, LINE + 8));
        let link = match self.chains[chain].last() {
            Some(last) => Off::new(*last),
            None => self.first_segment(chain),
        };
        lane.mini_store(link, segment);
        lane.mini_persist(segment)?;
        lane.mini_commit(&mut lines);
        self.chains[chain].push(segment);
        Ok(())
    }

    fn entries<M: Memory>(&self, memory: &M, transaction: u64) -> Result<Vec<UndoEntry>, Bad> {
        let chain = (transaction & 1) as usize;
        let mut entries = Vec::new();
        let room = self.chains[chain].len() as u64 * ENTRIES;
        for sequence in 0..room as u32 {
            let at = self.entry_at(chain, sequence);
            let entry: UndoEntry = memory.read(at.plus(0))?;
            if !entry.is_valid(transaction, sequence) {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}
