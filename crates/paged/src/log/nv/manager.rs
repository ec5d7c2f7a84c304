//! The log as a [`LogManager`]: its room, appends, reads and truncation.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pm::Memory;

use super::super::record::HEADER_BYTES;
use super::super::wait::RoomWait;
use super::super::{Chain, Kind, LogCounts, LogManager, Logged, OpenRecords, Record, Visit};
use super::form::Head;
use super::{NvLog, object, unsound};
use crate::flaw::Flaw;
use crate::ids::{Lsn, TxNo};
use crate::threads::{Threads, Waiter};
use crate::{PagedError, Result};

/// Records set aside with a transaction's first: Commit or Abort, and End.
const END_RECORDS: u64 = 2;

/// The time after which a thread that waits for a record that is being inserted looks again.
const LOOK_AGAIN: Duration = Duration::from_micros(5);

impl<M: Memory, T: Threads> NvLog<M, T> {
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

    /// Returns whether a checkpoint that begins now would free nothing: the log is full, and the open
    /// transactions are those of the one before. It would use up what one needs that comes later.
    fn is_in_vain(&self) -> Result<bool> {
        let ended = self.ended.load(Ordering::Acquire);
        let same = self.ended_before.swap(ended, Ordering::AcqRel) == ended;
        let is_exhausted = || self.entries.is_exhausted() || self.bytes.is_exhausted();
        if !same || !is_exhausted() {
            return Ok(false);
        }
        self.free_again()?;
        Ok(is_exhausted())
    }

    /// Takes records from those that were reserved ahead, and gives back those that can not come any more.
    fn give_back_records(&self, chain: &mut Chain, taken: u64) {
        let left = chain.ahead_records - taken;
        chain.ahead_records = left.min(chain.ahead / object::ALIGN);
        if left > chain.ahead_records {
            self.entries.give_back(left - chain.ahead_records);
            self.room.note_little();
        }
    }

    /// Gives back everything that a chain had set aside.
    fn give_back(&self, chain: &mut Chain) {
        self.entries.give_back(chain.aside_records + chain.ahead_records);
        self.bytes.give_back(chain.aside + chain.ahead);
        (chain.aside, chain.aside_records) = (0, 0);
        (chain.ahead, chain.ahead_records) = (0, 0);
        self.room.end_all(&*self.threads);
    }

    /// The error of a log that has no room for so many bytes.
    fn full(&self, bytes: u64) -> PagedError {
        let free = if self.entries.free() == 0 { 0 } else { self.bytes.free() };
        PagedError::LogFull { bytes, free, most: self.bytes.all, medium: false }
    }
}

impl<M: Memory, T: Threads> LogManager for NvLog<M, T> {
    fn reserve(&self, chain: &mut Chain, payload: u64) -> Result<()> {
        let first = if chain.first == Lsn::NONE { END_RECORDS * object::ALIGN } else { 0 };
        let wanted = 2 * payload.next_multiple_of(object::ALIGN) + first;
        let bytes = wanted.saturating_sub(chain.ahead);
        self.check_size(chain, 2, wanted)?;
        // A record for each line, but not more than the transaction may have in all: large values have
        // records of many lines.
        let has = chain.records + chain.aside_records;
        let may_have = (self.entries.all / 2).saturating_sub(has);
        let records = (wanted / object::ALIGN).min(may_have).saturating_sub(chain.ahead_records);
        loop {
            self.threads.point();
            self.healthy()?;
            if self.take(records, bytes, false) {
                chain.ahead += bytes;
                chain.ahead_records += records;
                return Ok(());
            }
            if !self.free_again()? {
                return Err(self.full(bytes));
            }
        }
    }

    fn await_room(&self, wait: &Arc<RoomWait>) {
        self.room.add(wait, &*self.threads);
        self.ask_for_checkpoint();
    }

    fn forget_wait(&self, wait: &Arc<RoomWait>) {
        self.room.remove(wait);
    }

    fn unreserve(&self, chain: &mut Chain) {
        self.entries.give_back(std::mem::take(&mut chain.ahead_records));
        self.bytes.give_back(std::mem::take(&mut chain.ahead));
        self.room.end_all(&*self.threads);
    }

    fn reserve_checkpoint(
        &self,
        chain: &mut Chain,
        payloads: &[usize],
        _keep: Option<Lsn>,
    ) -> Result<()> {
        let bytes = payloads.iter().map(|payload| object::bytes(*payload)).sum();
        let records = payloads.len() as u64;
        self.threads.point();
        self.healthy()?;
        if self.is_in_vain()? || !self.take(records, bytes, true) {
            return Err(self.full(bytes));
        }
        (chain.ahead, chain.ahead_records) = (bytes, records);
        Ok(())
    }

    fn append(&self, chain: &mut Chain, record: &Record<'_>) -> Result<Lsn> {
        let bytes = object::bytes(record.payload.len());
        let most = self.form.record_bytes as usize;
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
        let ahead_records = needed_records.min(chain.ahead_records);
        let checkpoint = matches!(record.kind, Kind::CheckpointBegin | Kind::CheckpointEnd);
        let is_new = record.kind == Kind::CheckpointBegin && chain.ahead == 0;
        if is_new && self.is_in_vain()? {
            return Err(self.full(needed));
        }
        if !self.take(needed_records - ahead_records, needed - ahead, checkpoint) {
            return Err(self.full(needed));
        }
        let lsn = self.insert(chain, record, bytes)?;
        chain.aside = chain.aside + more - taken;
        chain.aside_records = chain.aside_records + more_records - taken_records;
        chain.ahead -= ahead;
        self.give_back_records(chain, ahead_records);
        chain.used += bytes;
        chain.records += 1;
        chain.last = lsn;
        if chain.first == Lsn::NONE {
            chain.first = lsn;
        }
        if of_transaction && matches!(record.kind, Kind::Commit | Kind::End) {
            self.ended.fetch_add(1, Ordering::AcqRel);
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

    /// With flush-on-insert the newest LSN: a caller that knows of a record has it from an append
    /// that has returned.
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

    /// With flush-on-insert a record before `to` may still be on its way: it was never seen, but a
    /// restart could not tell it from one that was lost.
    fn force_all(&self, to: Lsn) -> Result<()> {
        if self.slots.is_some() {
            return self.force(to);
        }
        while self.under_way.durable_before(to.0 + 1) <= to.0 {
            self.healthy()?;
            self.threads.park(&Waiter::default(), Some(self.threads.now() + LOOK_AGAIN));
        }
        self.healthy()
    }

    fn read(&self, at: Lsn) -> Result<Logged> {
        // A transaction that is undone has its objects made durable first (P2 4.4).
        self.force(at)?;
        let found = match self.at(at) {
            Some(found) => found.read.logged(&found.bytes[HEADER_BYTES..]),
            None => self.cold.lock().as_ref().map_or(Ok(None), |cold| cold.read(at))?,
        };
        found.ok_or_else(|| unsound(at))
    }

    fn consumed(&self) -> u64 {
        self.next.load(Ordering::Acquire) - self.at_checkpoint.load(Ordering::Acquire)
    }

    fn largest(&self) -> usize {
        self.form.record_bytes as usize - HEADER_BYTES
    }

    fn attend(&self, checkpointer: Arc<Waiter>) {
        *self.checkpointer.lock() = Some(checkpointer);
    }

    fn counts(&self) -> LogCounts {
        let failures = self.refused.lock().times;
        LogCounts { appended: self.segments.appended(), groups: 0, failures }
    }

    fn is_due(&self) -> bool {
        self.room.are_some() || self.consumed() >= self.options.checkpoint_records
    }

    fn threshold(&self) -> u64 {
        self.options.checkpoint_records
    }

    fn start(&self) -> Lsn {
        self.kept.lock().0
    }

    fn kept(&self) -> Lsn {
        self.kept.lock().1
    }

    fn truncate(&self, start: Lsn, keep: Lsn) -> Result<()> {
        self.force(start)?;
        let mut kept = self.kept.lock();
        let keep = keep.min(start).max(kept.1);
        Head::move_to(&self.memory, self.at, start, keep);
        let before = std::mem::replace(&mut *kept, (start, keep)).1;
        self.ring.clear(before, keep);
        self.at_checkpoint.store(self.at_begin.load(Ordering::Acquire), Ordering::Release);
        self.entries.give_back(keep.0 - before.0);
        let early = self.threads.has(Flaw::SegmentsFreedEarly);
        let free_before = if early { Lsn(u64::MAX) } else { keep };
        let freed = self.segments.free_before(free_before);
        self.bytes.give_back(freed);
        drop(kept);
        if keep > before || freed > 0 {
            self.room.end_all(&*self.threads);
        }
        Ok(())
    }

    fn truncate_with_open(&self, start: Lsn, redo: Lsn, open: &[OpenRecords]) -> Result<()> {
        self.free_with_open(&mut self.unfreed.lock(), start, redo, open)
    }

    fn hindrance(&self) -> Option<PagedError> {
        let is_hindered = self.unfreed.lock().is_some() && self.cold.lock().is_some();
        is_hindered.then(|| PagedError::NoSpaceForCold { why: self.refused.lock().why.clone() })
    }

    fn adopt(&self, chain: &mut Chain) {
        // Analysis counts bytes of records: as objects they may take nearly twice as many, and each
        // has a line at least.
        let lines = 2 * chain.used.div_ceil(object::ALIGN) + END_RECORDS;
        (chain.aside, chain.aside_records) = (lines * object::ALIGN, lines);
        self.entries.find_taken(chain.aside_records);
        self.bytes.find_taken(chain.aside);
    }

    fn scan(&self, from: Lsn, visit: &mut dyn FnMut(Logged) -> Result<()>) -> Result<()> {
        self.scan_to(from, Lsn(u64::MAX), visit)
    }

    fn scan_to(&self, from: Lsn, to: Lsn, visit: Visit<'_>) -> Result<()> {
        let to = to.0.min(self.next.load(Ordering::Acquire));
        let from = from.0.max(self.kept.lock().1.0);
        for number in from..to {
            let Some(found) = self.at(Lsn(number)) else {
                if self.slots.is_some() {
                    let what = "there is no sound record, though the log goes on".into();
                    return Err(PagedError::DamagedLog { at: Lsn(number), what });
                }
                // A change that was never seen.
                continue;
            };
            if let Some(logged) = found.read.logged(&found.bytes[HEADER_BYTES..]) {
                visit(logged)?;
            }
        }
        Ok(())
    }
}
