//! Two logs that take turns, for commits with one fence: a checksum over frames, and over the
//! records and pages that they speak of, says whether all of it is durable.
//!
//! 1. Copy the frames into the log whose turn it is; store its number and its mark. Flush it, the
//!    records, and what the commit before has stored in 3; **fence**. *Committed.*
//! 2. The other log is not needed any more.
//! 3. Checkpoint: store what the frames have where it belongs. The next commit flushes that.
//!
//! Recovery applies the frames of the log with the smaller number, then those of the other one: the
//! checkpoint of the first may not be durable while the second is being written.
//!
//! *Why an older log still matches as long as it is needed:* its checksum covers records to which
//! its headers lead, byte by byte. No transaction writes there before another one has committed
//! that gives them up, and by that fence the older log's checkpoint is durable.
//!
//! A log that does not match is emptied, durably, before anything else is written: what a
//! transaction that was cut off had logged could match when the same records are written again.

use std::sync::atomic::Ordering::Acquire;

use heap::{HeapError, Lane, Purpose};
use pm::{Bad, Durable, Flushed, LineSet, Memory, Off, Range, fence_for, observe};
use zerocopy::IntoBytes;

use crate::Result;
use crate::error::SlottedError;
use crate::kept::Kept;
use crate::layout::FRAMES_AT;
use crate::log::{Frames, apply};
use crate::phases::{CHECKPOINT, LOG_FLUSH};
use crate::recovered::{Recovered, Watch};

/// Frames that are committed.
#[derive(Debug)]
struct Committed(());

/// The logs; see the module's comment.
#[derive(Debug)]
pub struct Alternate<M> {
    memory: M,
    at: u64,
    bytes: u64,
    /// The place of the word that leads to the logs.
    link: u64,
    /// The number of the next commit.
    next: u64,
    /// Lines of the last checkpoint, which the next commit flushes.
    stored: LineSet,
    recovered: Recovered,
    kept: Kept,
}

/// Bytes of each of the two logs in an object of so many.
fn half(bytes: u64) -> u64 {
    (bytes - FRAMES_AT) / 2 / 64 * 64
}

impl<M: Memory> Alternate<M> {
    fn new(memory: M, at: u64, bytes: u64, link: u64) -> Result<Self> {
        let (stored, recovered) = (LineSet::new(), Recovered::default());
        let kept = Kept::read(&memory, at)?;
        Ok(Self { memory, at, bytes, link, next: 1, stored, recovered, kept })
    }

    /// Empty logs in an object of `bytes` bytes at `at`, durably; the word at `link` leads there.
    ///
    /// # Errors
    /// It does not lie in the memory.
    pub fn create(memory: M, at: u64, bytes: u64, link: u64) -> Result<Self> {
        let logs = Self::new(memory, at, bytes, link)?;
        let mut lines = LineSet::new();
        (0..2).for_each(|number| logs.empty(number, &mut lines));
        lines.flush(&logs.memory);
        logs.memory.fence();
        Ok(logs)
    }

    /// Opens the logs and recovers.
    ///
    /// # Errors
    /// A committed frame leads outside of the memory.
    pub fn open(memory: M, at: u64, bytes: u64, link: u64) -> Result<Self> {
        let (mut watch, mut logs) = (Watch::start(), Self::new(memory, at, bytes, link)?);
        let mut lines = LineSet::new();
        let mut found = Vec::new();
        for number in 0..2 {
            match logs.read(number)? {
                Some(log) => found.push(log),
                None => logs.empty(number, &mut lines),
            }
        }
        found.sort_unstable_by_key(|(number, _)| *number);
        if let [older, newer] = &found[..]
            && older.0 + 1 != newer.0
        {
            return Err(Bad::Damaged { what: "numbers of two logs", at }.into());
        }
        watch.log_is_read();
        // A killed process may have stored all of it, and nothing of it be durable.
        for (number, frames) in &found {
            let bytes = frames.bytes.len() as u64;
            lines.add(Range::new(logs.log(*number), FRAMES_AT + bytes));
            frames.checks().iter().for_each(|(range, _)| lines.add(*range));
        }
        lines.flush(&logs.memory);
        logs.memory.fence();
        for (number, frames) in &found {
            logs.next = number + 1;
            frames.each(|at, bytes| apply(&logs.memory, at, bytes, &mut lines));
        }
        lines.flush(&logs.memory);
        logs.memory.fence();
        if !found.is_empty() {
            let sizes = found.iter().map(|(_, frames)| frames.size());
            let size = sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
            logs.recovered = watch.recovered(found.len() as u64, size);
        }
        Ok(logs)
    }

    /// The memory that the logs lie in.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The place of the object that the logs lie in.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The work of the opening.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    fn log(&self, number: u64) -> u64 {
        self.at + FRAMES_AT + number % 2 * half(self.bytes)
    }

    fn empty(&self, number: u64, lines: &mut LineSet) {
        let log = self.log(number);
        self.memory.store(Off::new(log), 0);
        lines.add(Range::new(log, 8));
    }

    /// The number and the frames of a log, if it matches its mark.
    fn read(&self, number: u64) -> Result<Option<(u64, Frames)>> {
        let log = self.log(number);
        let mark = self.memory.load(Off::new(log), Acquire)?;
        let found = self.memory.load(Off::new(log + 8), Acquire)?;
        let bytes = mark & u64::from(u32::MAX);
        if mark == 0 || found % 2 != number || bytes > half(self.bytes) - FRAMES_AT {
            return Ok(None);
        }
        let mut frames = Frames::default();
        frames.bytes.resize(bytes as usize, 0);
        self.memory.read_into(Off::new(log + FRAMES_AT), &mut frames.bytes)?;
        if mark_of(found, &frames) != mark {
            return Ok(None);
        }
        frames.checked(&self.memory, log)?;
        Ok(frames.match_memory(&self.memory)?.then_some((found, frames)))
    }

    /// Commits frames, with the records that they speak of: their lines are in `lines`.
    ///
    /// # Errors
    /// The memory is full; nothing has changed then.
    pub fn commit(
        &mut self,
        lane: &mut Lane<M>,
        frames: &Frames,
        mut lines: LineSet,
    ) -> Result<()> {
        self.grow(lane, frames.bytes())?;
        let log = self.log(self.next);
        self.stored.lines().iter().for_each(|line| lines.add(line.range()));
        self.stored.clear();
        self.memory.copy(Off::new(log + FRAMES_AT), &frames.bytes);
        self.memory.store(Off::new(log + 8), self.next);
        self.memory.store(Off::new(log), mark_of(self.next, frames));
        lines.add(Range::new(log, FRAMES_AT + frames.bytes.len() as u64));
        let committed = Flushed::lines(&self.memory, &mut lines, Committed(()));
        let committed = fence_for(&self.memory, committed);
        observe!(M: self.memory.phase(LOG_FLUSH));
        self.next += 1;
        self.checkpoint(committed, frames);
        observe!(M: self.memory.phase(CHECKPOINT));
        Ok(())
    }

    fn checkpoint(&mut self, _committed: Durable<Committed>, frames: &Frames) {
        let (memory, stored) = (&self.memory, &mut self.stored);
        let applied = frames.each(|at, bytes| apply(memory, at, bytes, stored));
        assert!(applied.is_some(), "frames that were just made");
    }

    /// Makes the last checkpoint durable.
    pub fn settle(&mut self) {
        if !self.stored.is_empty() {
            self.stored.flush(&self.memory);
            self.memory.fence();
        }
    }

    /// Makes each log large enough for these many bytes of frames, and for others that a later
    /// deletion may need.
    ///
    /// # Errors
    /// The memory is full; nothing has changed then.
    pub fn reserve(&mut self, lane: &mut Lane<M>, now: u64, later: u64) -> Result<()> {
        self.grow(lane, now.max(later))?;
        self.kept.ask(&self.memory, self.at, later);
        Ok(())
    }

    /// Makes each log large enough for these many bytes of frames.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub fn grow(&mut self, lane: &mut Lane<M>, frames: u64) -> Result<()> {
        if one_log(frames) <= half(self.bytes) {
            return Ok(());
        }
        self.replace(lane, both_logs(frames))
    }

    /// Gives room of the logs back to the heap: what is beyond `Kept::bytes`. A memory without room
    /// for smaller ones keeps the larger ones.
    ///
    /// # Errors
    /// The heap is damaged.
    pub fn give_back(&mut self, lane: &mut Lane<M>) -> Result<()> {
        let bytes = both_logs(self.kept.bytes());
        if bytes >= self.bytes {
            return Ok(());
        }
        match self.replace(lane, bytes) {
            Err(SlottedError::Heap(HeapError::Full(_))) => Ok(()),
            done => done,
        }
    }

    /// Puts empty logs in an object of so many bytes in the place of these.
    fn replace(&mut self, lane: &mut Lane<M>, bytes: u64) -> Result<()> {
        let other = lane.allocate(bytes, Purpose::Log)?;
        // The old logs are not needed any more.
        self.settle();
        let first = [0, bytes, 0, self.kept.word(), 0, 0, 0, 0];
        self.memory.copy(Off::new(other), first.as_bytes());
        let logs = Self::create(self.memory.clone(), other, bytes, self.link)?;
        let mut lines = LineSet::new();
        lines.add(Range::new(other, FRAMES_AT));
        lane.mini_store(Off::new(self.link), other);
        lane.mini_persist(other)?;
        lane.mini_free(self.at)?;
        lane.mini_commit(&mut lines);
        lane.fence_flushed();
        *self = Self { next: self.next, recovered: self.recovered, ..logs };
        Ok(())
    }
}

/// Bytes of one log with so many bytes of frames.
fn one_log(frames: u64) -> u64 {
    (FRAMES_AT + frames).next_multiple_of(64)
}

/// Bytes of an object with two such logs.
fn both_logs(frames: u64) -> u64 {
    (FRAMES_AT + 2 * one_log(frames)).next_power_of_two()
}

fn mark_of(number: u64, frames: &Frames) -> u64 {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), &frames.bytes);
    u64::from(checksum) << 32 | frames.bytes.len() as u64
}
