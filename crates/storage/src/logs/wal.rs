//! The write-ahead log of the traditional engines, in files (P1 3.1).
//!
//! One record a committed transaction; what is in it the engine says. The log is a sequence of
//! segments, files that are numbered without a gap; the bytes are drawn in `docs/format/wal.md`.
//!
//! Invariants:
//! - A record's transaction number is that of the record before it plus one.
//! - What [`Wal::flush`] has returned for is durable, and stays first: recovery finds a prefix of
//!   the records that were appended, and at least the acknowledged ones.
//! - After the last valid frame of the newest segment there is never a frame that another record
//!   could make valid. Bytes that were written and will not be acknowledged are cut off, durably,
//!   before anything is appended there.
//! - Only the newest segment grows. When the next one has been started, the one before is complete,
//!   and sealed.
//! - After a failed write or sync nothing more is acknowledged. Want of space shows when it is
//!   reserved, before a record is complete, and leaves the log usable.
//! - On a full medium there is room for records that free something, and for a rotation: see
//!   `space.rs`.
//!
//! 1. A record is framed in the buffer, which lies in a volatile [`Memory`]; a full buffer is
//!    written to the segment without a sync. The frame's header comes last: until then its place
//!    is zero, at which recovery stops.
//! 2. `flush` writes the buffer and syncs once for all transactions of the group.
//!    Or `write_out` writes it and leaves the sync to a [`WalSyncer`], with which other threads
//!    wait while the log goes on.
//! 3. `rotate` flushes, starts the next segment, then seals the one before, so that it is noticed if
//!    the next is missing; a checkpoint of the state at that moment
//!    makes all segments before it superfluous, and `remove_before` removes them.
//! 4. Recovery reads the segments from the checkpoint's on and stops at the first frame that is
//!    not valid. In the newest segment that is the torn end, anywhere else damage.

mod error;
mod layout;
mod recovery;
mod segments;
mod shared;
mod space;

use std::io;
use std::sync::Arc;

use pm::{Component, File, Files, LastTransaction, Memory, Off, Range, View, observe};

use self::error::io_error;
use self::layout::{FRAME_HEADER_BYTES, MAX_PAYLOAD_BYTES, SEGMENT_HEADER_BYTES};
use self::segments::{segment_name, segments};
use self::shared::Shared;
use crate::logs::segments::Spare;

pub use self::error::WalError;
pub(crate) use self::segments::number_in;
pub use self::shared::WalSyncer;
pub use self::space::Need;

/// The place where a log begins: a checkpoint holds everything before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogStart {
    /// Number of the first segment.
    pub sequence: u64,
    /// The first transaction in it.
    pub txn: u64,
}

/// The options with which a log is written.
#[derive(Clone, Copy, Debug)]
pub struct WalOptions {
    /// Bytes in which a segment's space is reserved ahead; at least 1.
    pub reserve_bytes: u64,
    /// Bytes that are set aside for operations that free something, in the segment that grows and in
    /// the next one each. 0: nothing is set aside.
    pub aside_bytes: u64,
    /// Transactions that are synced together; 1 makes each durable on its own.
    pub group: u32,
    /// True if a log that is recovered was closed, so that no crash can have torn its end.
    pub closed: bool,
    /// The number of a transaction: a log that is recovered has every one before it, since a
    /// checkpoint that was written while they ran has parts of them.
    pub reaches: u64,
    /// The end of a log that is recovered, if that is known.
    pub end: Option<LastTransaction>,
}

impl Default for WalOptions {
    fn default() -> Self {
        Self {
            reserve_bytes: 4 << 20,
            aside_bytes: 0,
            group: 1,
            closed: false,
            reaches: 0,
            end: None,
        }
    }
}

/// Reports what recovery found.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct WalReport {
    /// Records seen.
    pub records: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Bytes cut off after the last valid frame.
    pub torn_tail_bytes: u64,
}

/// A record that is in the log's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a full group must be flushed"]
pub struct Appended {
    /// Its log sequence number: there is one record a transaction, so its transaction's number.
    pub lsn: u64,
    /// True if its group is full, so that [`Wal::flush`] is due.
    pub group_full: bool,
}

/// The segment that grows.
#[derive(Debug)]
struct Tail<R> {
    name: String,
    file: Arc<R>,
    sequence: u64,
    /// Bytes that have space reserved.
    reserved: u64,
    /// Bytes that were written; the buffer continues here.
    written: u64,
}

/// A record that was begun and not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The place where its frame starts in the segment.
    start: u64,
    payload_bytes: u64,
    /// CRC-32C of the payload so far.
    sum: u32,
    /// True if a part could not be put.
    incomplete: bool,
}

/// A write-ahead log over segments named `<prefix><sequence, 16 hexadecimal digits>`.
///
/// One writer: the engine that owns it runs one transaction at a time.
#[derive(Debug)]
pub struct Wal<F: Files, M: Memory> {
    files: F,
    prefix: String,
    options: WalOptions,
    memory: M,
    buffer: Range,
    /// Bytes in the buffer.
    filled: u64,
    tail: Tail<F::File>,
    /// The number of the next transaction.
    next_txn: u64,
    /// Says how far it is durable, also for those who sync it meanwhile.
    shared: Arc<Shared<F::File>>,
    /// True if records were written out since the log's own last sync: a syncer may be at work.
    is_shared: bool,
    open: Option<Open>,
    /// Complete segments with their bytes, oldest first.
    older: Vec<(u64, u64)>,
    /// The file that becomes the next segment.
    spare: Spare<F>,
    /// Bytes of the records that were ended.
    logged_bytes: u64,
}

impl<F: Files, M: Memory> Wal<F, M> {
    /// Starts an empty log, durably. `buffer` is a range of `memory` that the log has to itself,
    /// of at least 64 bytes.
    ///
    /// # Errors
    /// [`WalError::Io`]; there may be an unused segment then.
    ///
    /// # Panics
    /// If the buffer is too small, or `options` has a zero.
    pub fn create(
        files: F,
        prefix: &str,
        start: LogStart,
        memory: M,
        buffer: Range,
        options: WalOptions,
    ) -> Result<Self, WalError> {
        let mut spare = Spare::missing(files.clone(), space::spare_name(prefix));
        let mut tail = space::first_segment(&mut spare, prefix, start.sequence, options)?;
        begin_segment(&files, &mut tail, start.txn)?;
        Ok(Self::assemble((files, spare), prefix, (memory, buffer), options, tail, start.txn))
    }

    fn assemble(
        (files, spare): (F, Spare<F>),
        prefix: &str,
        (memory, buffer): (M, Range),
        options: WalOptions,
        tail: Tail<F::File>,
        next_txn: u64,
    ) -> Self {
        assert!(buffer.len >= 64, "the log's buffer has at least 64 bytes");
        assert!(options.reserve_bytes > 0 && options.group > 0, "log options are not zero");
        Self {
            files,
            prefix: prefix.into(),
            options,
            memory,
            buffer,
            filled: 0,
            tail,
            next_txn,
            shared: Shared::new(next_txn),
            is_shared: false,
            open: None,
            older: Vec::new(),
            spare,
            logged_bytes: 0,
        }
    }

    /// Begins the record of transaction `txn`, which must be [`Wal::next_txn`].
    ///
    /// # Errors
    /// [`WalError::Poisoned`]; [`WalError::Io`] where no space could be reserved. No record is
    /// begun then.
    ///
    /// # Panics
    /// If a record is open, or the number is another.
    pub fn begin(&mut self, txn: u64) -> Result<(), WalError> {
        assert!(self.open.is_none(), "a record is open");
        assert_eq!(txn, self.next_txn, "transactions are logged without a gap");
        self.check()?;
        observe!(M: self.memory.enter(Component::Recovery));
        if self.buffer.len - self.filled < FRAME_HEADER_BYTES {
            // A header is never split between the file and the buffer.
            self.spill()?;
        }
        let start = self.position();
        self.append(&[0; FRAME_HEADER_BYTES as usize])?;
        self.open = Some(Open { start, payload_bytes: 0, sum: 0, incomplete: false });
        Ok(())
    }

    /// Puts the next bytes of the record that was begun.
    ///
    /// # Errors
    /// As [`Wal::begin`], and [`WalError::TooLong`]. The record must be discarded then.
    ///
    /// # Panics
    /// If no record is open.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), WalError> {
        self.check()?;
        observe!(M: self.memory.enter(Component::Recovery));
        let open = self.open.as_mut().expect("a record is open");
        let payload_bytes = open.payload_bytes + bytes.len() as u64;
        if payload_bytes > MAX_PAYLOAD_BYTES {
            open.incomplete = true;
            return Err(WalError::TooLong);
        }
        open.sum = crc32c::crc32c_append(open.sum, bytes);
        open.payload_bytes = payload_bytes;
        let result = self.append(bytes);
        if let (Err(_), Some(open)) = (&result, &mut self.open) {
            open.incomplete = true;
        }
        result
    }

    /// Ends the record. It is durable after the next [`Wal::flush`].
    ///
    /// # Errors
    /// [`WalError::Poisoned`] or [`WalError::Io`]; [`WalError::Incomplete`] where a part could not
    /// be put: discard it.
    ///
    /// # Panics
    /// If no record is open.
    pub fn end(&mut self) -> Result<Appended, WalError> {
        self.check()?;
        observe!(M: self.memory.enter(Component::Recovery));
        let open = self.open.expect("a record is open");
        if open.incomplete {
            return Err(WalError::Incomplete);
        }
        let lsn = self.next_txn;
        let header = layout::frame_header(open.sum, open.payload_bytes, self.tail.sequence, lsn);
        if open.start < self.tail.written {
            self.write(open.start, &header)?;
        } else {
            let at = self.buffer.start + (open.start - self.tail.written);
            self.memory.copy(Off::new(at), &header);
        }
        self.open = None;
        self.logged_bytes += FRAME_HEADER_BYTES + open.payload_bytes;
        self.next_txn += 1;
        Ok(Appended { lsn, group_full: self.is_group_full() })
    }

    /// Drops the record that was begun, if there is one: its transaction aborts. Its number is
    /// free again.
    ///
    /// # Errors
    /// [`WalError::Poisoned`]; [`WalError::Io`] where a part of the record had reached the file
    /// and could not be cut off: the log is poisoned then. The record is dropped in any case.
    pub fn discard(&mut self) -> Result<(), WalError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        self.check()?;
        if open.start >= self.tail.written {
            self.filled = open.start - self.tail.written;
            return Ok(());
        }
        // Its payload must not come to stand where recovery looks for a frame: the next record
        // may be shorter, and what the user wrote may look like a frame.
        let (end, reserved) = (self.tail.written, self.tail.reserved);
        let kept = space::kept_until(open.start, reserved, self.options);
        let kept = if kept < end { kept } else { reserved };
        self.filled = 0;
        self.tail.written = open.start;
        let mut left = kept;
        let done = self.sync_after("cut a dropped record off", |file| {
            left = space::clear(file, (open.start, end), (reserved, kept))?;
            Ok(())
        });
        self.tail.reserved = left;
        done
    }

    /// Makes every record that was ended durable: one write and one sync for all of them, nothing
    /// if all are durable already.
    ///
    /// # Errors
    /// [`WalError::Poisoned`] or [`WalError::Io`]: the log is poisoned, and the pending
    /// transactions are not acknowledged; they may be there after recovery.
    pub fn flush(&mut self) -> Result<(), WalError> {
        self.check()?;
        if self.pending() == 0 {
            return Ok(());
        }
        observe!(M: self.memory.enter(Component::Recovery));
        self.spill()?;
        self.sync_after("sync", |_| Ok(()))
    }

    /// Syncs the segment that grows, to which all that has ended was written.
    #[inline]
    #[track_caller]
    fn sync_after(
        &mut self,
        doing: &'static str,
        first: impl FnOnce(&F::File) -> io::Result<()>,
    ) -> Result<(), WalError> {
        let _quiet = std::mem::take(&mut self.is_shared).then(|| self.shared.quiet());
        // A syncer that was at work may have failed.
        self.check()?;
        let done = match first(&self.tail.file) {
            Ok(()) => self.tail.file.sync(),
            failed => failed,
        };
        done.map_err(|source| self.poison(doing, source))?;
        self.shared.made_durable(self.next_txn);
        Ok(())
    }

    /// Writes every record that was ended to the file, so that a [`WalSyncer`] can make them durable
    /// while the log goes on.
    ///
    /// # Errors
    /// [`WalError::Poisoned`] or [`WalError::Io`]: the log is poisoned.
    ///
    /// # Panics
    /// If a record is open.
    pub fn write_out(&mut self) -> Result<(), WalError> {
        assert!(self.open.is_none(), "a record is open");
        self.check()?;
        if self.pending() > 0 {
            self.spill()?;
            self.shared.write_out(&self.tail.file, &self.tail.name, self.next_txn);
            self.is_shared = true;
        }
        Ok(())
    }

    /// Returns a syncer, which makes durable what was written out, without the log.
    pub fn syncer(&self) -> WalSyncer<F::File> {
        WalSyncer(self.shared.clone())
    }

    /// Flushes, starts the next segment, durably, and returns where it begins. A checkpoint of
    /// the state of now goes with it.
    ///
    /// # Errors
    /// As [`Wal::flush`]. Where there is no space for the segment the log goes on in the old one.
    ///
    /// # Panics
    /// If a record is open.
    pub fn rotate(&mut self) -> Result<LogStart, WalError> {
        assert!(self.open.is_none(), "a record is open");
        self.flush()?;
        // For the seal.
        self.reserve(self.position() + FRAME_HEADER_BYTES)?;
        let mut tail = self.next_segment()?;
        let start = LogStart { sequence: tail.sequence, txn: self.next_txn };
        // From here on the new segment may be durable: were the old one to grow after a failure,
        // recovery would find a gap between the two.
        begin_segment(&self.files, &mut tail, start.txn).inspect_err(|_| self.shared.poison())?;
        // Not before: a sealed segment that has no successor counts as damage. The seal is neither
        // synced nor needed: without it only the loss of a whole file goes unnoticed.
        let seal = layout::seal(self.tail.sequence, start.txn);
        let _ = self.tail.file.write_at(self.tail.written, &seal);
        let old = std::mem::replace(&mut self.tail, tail);
        let bytes = space::end_at_seal(&*old.file, old.written, old.reserved);
        self.older.push((old.sequence, bytes));
        self.replenish();
        Ok(start)
    }

    /// Flushes, before the log is closed.
    ///
    /// # Errors
    /// As [`Wal::flush`]; the log must not be taken for closed then.
    pub fn close(&mut self) -> Result<(), WalError> {
        self.flush()
    }

    /// Removes the segments before `sequence`, oldest first. Call it when a checkpoint that
    /// starts at `sequence` is durable.
    ///
    /// # Errors
    /// [`WalError::Io`]: some may be left; the next call removes them.
    ///
    /// # Panics
    /// If the segment that grows were removed.
    pub fn remove_before(&mut self, sequence: u64) -> Result<(), WalError> {
        assert!(sequence <= self.tail.sequence, "the segment that grows stays");
        // Not synced: what a crash brings back is older than what recovery reads, which removes it
        // again.
        for old in segments(&self.files, &self.prefix)? {
            if old < sequence {
                let name = segment_name(&self.prefix, old);
                self.files.remove(&name).map_err(io_error("remove", &name))?;
            }
        }
        self.older.retain(|(old, _)| *old >= sequence);
        if !self.is_poisoned() {
            self.replenish();
        }
        Ok(())
    }

    /// The number that the next transaction must have.
    pub fn next_txn(&self) -> u64 {
        self.next_txn
    }

    /// All records with a smaller log sequence number are durable.
    pub fn first_pending_lsn(&self) -> u64 {
        self.shared.first_pending()
    }

    /// Transactions that were ended and are not durable yet.
    pub fn pending(&self) -> u64 {
        self.next_txn - self.shared.first_pending()
    }

    /// Returns whether so many transactions are not durable that [`Wal::flush`] is due.
    pub fn is_group_full(&self) -> bool {
        self.pending() >= u64::from(self.options.group)
    }

    /// Number of the segment that grows.
    pub fn sequence(&self) -> u64 {
        self.tail.sequence
    }

    /// Number of the oldest segment.
    pub fn first_sequence(&self) -> u64 {
        self.older.first().map_or(self.tail.sequence, |(sequence, _)| *sequence)
    }

    /// Bytes that the segments take, reserved ones included.
    pub fn bytes(&self) -> u64 {
        self.older_bytes() + self.tail.reserved + self.spare.reserved()
    }

    /// The same without what is reserved and not written in the last segment and for the next one.
    pub fn used_bytes(&self) -> u64 {
        self.older_bytes() + self.position()
    }

    fn older_bytes(&self) -> u64 {
        self.older.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of the records that were ended since the log was opened.
    pub fn logged_bytes(&self) -> u64 {
        self.logged_bytes
    }

    /// Returns whether a write or a sync has failed, so that nothing more is acknowledged.
    pub fn is_poisoned(&self) -> bool {
        self.shared.is_poisoned()
    }

    fn check(&self) -> Result<(), WalError> {
        if self.is_poisoned() { Err(WalError::Poisoned) } else { Ok(()) }
    }

    /// Returns where the next byte goes in the segment.
    fn position(&self) -> u64 {
        self.tail.written + self.filled
    }

    /// Appends to the buffer, through it to the file where it is full. Space is reserved first, so
    /// that a full medium shows here and not when the buffer is written.
    fn append(&mut self, mut bytes: &[u8]) -> Result<(), WalError> {
        self.reserve(self.position() + bytes.len() as u64)?;
        while !bytes.is_empty() {
            if self.filled == self.buffer.len {
                self.spill()?;
            }
            let room = (self.buffer.len - self.filled).min(bytes.len() as u64);
            let (part, rest) = bytes.split_at(room as usize);
            self.memory.copy(Off::new(self.buffer.start + self.filled), part);
            self.filled += room;
            bytes = rest;
        }
        Ok(())
    }

    /// Writes the buffer to the file, without a sync.
    fn spill(&mut self) -> Result<(), WalError> {
        if self.filled == 0 {
            return Ok(());
        }
        let view = self.memory.view(Range::new(self.buffer.start, self.filled))?;
        let bytes = view.bytes(0, self.filled as usize);
        let result = self.tail.file.write_bytes(self.tail.written, bytes);
        result.map_err(|source| self.poison("write to", source))?;
        self.tail.written += self.filled;
        self.filled = 0;
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), WalError> {
        let result = self.tail.file.write_at(at, bytes);
        result.map_err(|source| self.poison("write to", source))
    }

    fn poison(&self, doing: &'static str, source: io::Error) -> WalError {
        self.shared.poison();
        WalError::Io { doing, name: self.tail.name.clone(), source }
    }
}

/// Makes an empty segment durable.
fn begin_segment<F: Files>(
    files: &F,
    tail: &mut Tail<F::File>,
    first_txn: u64,
) -> Result<(), WalError> {
    let header = layout::segment_header(tail.sequence, first_txn, files.stamp());
    tail.file.write_at(0, &header).map_err(io_error("write to", &tail.name))?;
    tail.file.sync().map_err(io_error("sync", &tail.name))?;
    files.sync_directory().map_err(io_error("sync the directory of", &tail.name))?;
    tail.written = SEGMENT_HEADER_BYTES;
    Ok(())
}
