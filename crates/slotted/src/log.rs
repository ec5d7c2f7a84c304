//! The slot-header log (P3 3.3): frames with the bytes that pages will have, and one word, the
//! mark, that commits them.
//!
//! 1. Copy the frames; flush them and the records they refer to; **fence**.
//! 2. Store the mark: the frames' bytes and a checksum; flush; **fence**. *Committed.*
//! 3. Checkpoint: store the contents of the frames where they belong; flush; **fence**.
//! 4. Empty the log: store zero into the mark. The next commit flushes it before its first fence.
//!
//! *Crash before 2 is durable:* the frames do not count, and what they refer to lies in free space.
//! *After it:* recovery does 3 and 4 again, which changes nothing where they were done.
//!
//! Until the empty mark is durable, what the frames of a valid mark have written is changed only
//! through this log.

use std::sync::atomic::Ordering::Acquire;

use heap::{HeapError, Lane, Purpose};
use pm::{Bad, Durable, Flushed, LineSet, Memory, Off, Range, fence_for, observe};
use zerocopy::IntoBytes;

use crate::Result;
use crate::error::SlottedError;
use crate::flaw::{self, Flaw};
use crate::kept::Kept;
use crate::layout::{FRAMES_AT, FrameHeader, IN_PLACE};
use crate::phases::{RECORD_FLUSH, SLOT_HEADER};
use crate::recovered::{Recovered, Watch};

/// Frames of a log, in ordinary memory.
#[derive(Default, Debug)]
pub struct Frames {
    pub(crate) bytes: Vec<u8>,
}

/// Frames that stand in the log.
#[derive(Debug)]
pub struct Written {
    bytes: u32,
    checksum: u32,
}

/// Frames that are committed.
#[derive(Debug)]
pub struct Marked(());

impl Frames {
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The number of those that have bytes, not a checksum of some, and the bytes of all.
    pub(crate) fn size(&self) -> (u64, u64) {
        let mut count = 0;
        let whole = self.each(|_, _| count += 1);
        debug_assert!(whole.is_some(), "frames that were checked");
        (count, self.bytes())
    }

    /// Adds a frame: the bytes that lie at offset `at` of `page` then.
    pub fn add(&mut self, page: u64, at: usize, bytes: &[u8]) {
        let header = FrameHeader { page, at: at as u16, len: bytes.len() as u16, crc: 0 };
        let header = FrameHeader { crc: checksum(&header, bytes), ..header };
        self.bytes.extend(header.as_bytes());
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// Adds a frame of one word.
    pub fn add_word(&mut self, at: u64, value: u64) {
        self.add(at, 0, &value.to_le_bytes());
    }

    /// Adds a frame with the checksum of bytes that lie at offset `at` of `page`.
    pub fn add_check(&mut self, page: u64, at: usize, bytes: &[u8]) {
        let (at, len) = (at as u16 | IN_PLACE, bytes.len() as u16);
        self.bytes.extend(FrameHeader { page, at, len, crc: crc32c::crc32c(bytes) }.as_bytes());
    }

    /// The runs of bytes of which there is a checksum.
    pub(crate) fn checks(&self) -> Vec<(Range, u32)> {
        let (mut checks, mut rest) = (Vec::new(), &self.bytes[..]);
        while let Some((head, after)) = rest.split_first_chunk::<16>() {
            let header: FrameHeader = zerocopy::transmute!(*head);
            let len = usize::from(header.len);
            if header.at & IN_PLACE == 0 {
                rest = after.get(len.next_multiple_of(8)..).unwrap_or_default();
                continue;
            }
            let at = header.page.saturating_add(u64::from(header.at & !IN_PLACE));
            checks.push((Range::new(at, len as u64), header.crc));
            rest = after;
        }
        checks
    }

    /// Returns whether the memory has the bytes of which there is a checksum.
    pub(crate) fn match_memory<M: Memory>(&self, memory: &M) -> Result<bool> {
        let mut bytes = Vec::new();
        if flaw::has::<M>(Flaw::RecordUnchecked) {
            return Ok(true);
        }
        for (range, checksum) in self.checks() {
            bytes.resize(range.len as usize, 0);
            memory.read_into(Off::new(range.start), &mut bytes)?;
            if crc32c::crc32c(&bytes) != checksum {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Calls `visit` with the place and the bytes of each frame that has them; `None` if one is
    /// damaged.
    pub(crate) fn each(&self, mut visit: impl FnMut(u64, &[u8])) -> Option<()> {
        let mut rest = &self.bytes[..];
        while let Some((head, after)) = rest.split_first_chunk::<16>() {
            let header: FrameHeader = zerocopy::transmute!(*head);
            if header.at & IN_PLACE != 0 {
                rest = after;
                continue;
            }
            let len = usize::from(header.len);
            let bytes = after.get(..len)?;
            if header.crc != checksum(&header, bytes) {
                return None;
            }
            visit(header.page.checked_add(u64::from(header.at))?, bytes);
            rest = after.get(len.next_multiple_of(8)..)?;
        }
        rest.is_empty().then_some(())
    }

    /// Checks that these frames, which come from the medium, are whole and lie in the memory.
    pub(crate) fn checked<M: Memory>(&self, memory: &M, log: u64) -> Result<()> {
        let (mut wild, len) = (None, memory.len());
        let whole = self.each(|at, bytes| {
            if pm::checked_range(Range::new(at, bytes.len() as u64), len).is_err() {
                wild = Some(at);
            }
        });
        match (whole, wild) {
            (Some(()), None) => Ok(()),
            (_, wild) => {
                let at = wild.unwrap_or(log);
                Err(Bad::Damaged { what: "frame of the log", at }.into())
            }
        }
    }
}

fn checksum(header: &FrameHeader, bytes: &[u8]) -> u32 {
    let header = FrameHeader { crc: 0, ..*header };
    crc32c::crc32c_append(crc32c::crc32c(header.as_bytes()), bytes)
}

/// The log of a store.
#[derive(Debug)]
pub struct Log<M> {
    memory: M,
    at: u64,
    bytes: u64,
    /// The place of the word that leads to the log.
    link: u64,
    /// The mark was emptied, and the next commit flushes that.
    emptied: bool,
    recovered: Recovered,
    kept: Kept,
}

impl<M: Memory> Log<M> {
    /// The log of `bytes` bytes at `at`, which was found there or made; the word at `link` leads
    /// there.
    ///
    /// # Errors
    /// It does not lie in the memory.
    pub fn new(memory: M, at: u64, bytes: u64, link: u64) -> Result<Self> {
        let kept = Kept::read(&memory, at)?;
        let recovered = Recovered::default();
        // A process that was killed may have emptied it.
        Ok(Self { memory, at, bytes, link, emptied: true, recovered, kept })
    }

    /// The memory that the log lies in.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The place of the log.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Bytes of the log.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The work of the opening.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// The place of the word that leads to the log.
    pub fn link(&self) -> u64 {
        self.link
    }

    /// Makes the log, which is empty, large enough for these many bytes of frames, and for others
    /// that a later deletion may need.
    ///
    /// # Errors
    /// The memory is full; nothing has changed then.
    pub fn reserve(&mut self, lane: &mut Lane<M>, now: u64, later: u64) -> Result<()> {
        self.grow(lane, now.max(later))?;
        self.kept.ask(&self.memory, self.at, later);
        Ok(())
    }

    /// Makes the log, which is empty, large enough for these many bytes of frames.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub fn grow(&mut self, lane: &mut Lane<M>, frames: u64) -> Result<()> {
        let bytes = FRAMES_AT + frames;
        if bytes <= self.bytes {
            return Ok(());
        }
        self.replace(lane, bytes.next_power_of_two())
    }

    /// Gives room of the log, which is empty, back to the heap: what is beyond `Kept::bytes`. A
    /// memory without room for the smaller one keeps the larger one.
    ///
    /// # Errors
    /// The heap is damaged.
    pub fn give_back(&mut self, lane: &mut Lane<M>) -> Result<()> {
        let bytes = (FRAMES_AT + self.kept.bytes()).next_power_of_two();
        if bytes >= self.bytes {
            return Ok(());
        }
        match self.replace(lane, bytes) {
            Err(SlottedError::Heap(HeapError::Full(_))) => Ok(()),
            done => done,
        }
    }

    /// Puts an empty log of so many bytes in the place of this one.
    fn replace(&mut self, lane: &mut Lane<M>, bytes: u64) -> Result<()> {
        let other = lane.allocate(bytes, Purpose::Log)?;
        let mut lines = LineSet::new();
        let first = [0, bytes, 0, self.kept.word(), 0, 0, 0, 0];
        self.memory.copy(Off::new(other), first.as_bytes());
        lines.add(Range::new(other, FRAMES_AT));
        // Before the old one is used for anything else, its mark is durably empty.
        self.settle(&mut lines);
        lane.mini_store(Off::new(self.link), other);
        lane.mini_persist(other)?;
        lane.mini_free(self.at)?;
        lane.mini_commit(&mut lines);
        lane.fence_flushed();
        (self.at, self.bytes, self.emptied) = (other, bytes, true);
        Ok(())
    }

    fn mark(&self) -> Off<u64> {
        Off::new(self.at)
    }

    /// Adds the line of a mark that was emptied to those that a commit flushes first.
    pub fn settle(&mut self, lines: &mut LineSet) {
        if std::mem::take(&mut self.emptied) {
            lines.add(self.mark().range());
        }
    }

    /// Flushes `lines`, copies frames into the log and flushes them.
    ///
    /// # Panics
    /// They do not fit: see [`Self::grow`].
    #[track_caller]
    pub fn append(&mut self, frames: &Frames, lines: &mut LineSet) -> Flushed<Written> {
        lines.flush(&self.memory);
        observe!(M: self.memory.phase(RECORD_FLUSH));
        self.settle(lines);
        let written = self.copy(frames, lines);
        observe!(M: self.memory.phase(SLOT_HEADER));
        Flushed::lines(&self.memory, lines, written)
    }

    /// The same, and stores the mark: where the frames are all that it speaks of, its checksum says
    /// whether they are durable, and one fence serves both.
    ///
    /// # Panics
    /// As [`Self::append`].
    #[track_caller]
    pub fn append_marked(&mut self, frames: &Frames, lines: &mut LineSet) -> Flushed<Marked> {
        self.emptied = false;
        let written = self.copy(frames, lines);
        self.mark_as(&written, lines);
        if flaw::has::<M>(Flaw::JournalUnsynced) {
            lines.clear();
            lines.add(Range::new(self.link, 8));
        }
        Flushed::lines(&self.memory, lines, Marked(()))
    }

    #[track_caller]
    fn copy(&self, frames: &Frames, lines: &mut LineSet) -> Written {
        assert!(FRAMES_AT + frames.bytes() <= self.bytes, "the log has room for its frames");
        let range = Range::new(self.at + FRAMES_AT, frames.bytes.len() as u64);
        self.memory.copy(Off::new(range.start), &frames.bytes);
        if !flaw::has::<M>(Flaw::FrameUnflushed) {
            lines.add(range);
        }
        Written { bytes: range.len as u32, checksum: crc32c::crc32c(&frames.bytes) }
    }

    #[track_caller]
    fn mark_as(&self, written: &Written, lines: &mut LineSet) {
        let Written { bytes, checksum } = *written;
        self.memory.store(self.mark(), u64::from(checksum) << 32 | u64::from(bytes));
        lines.add(self.mark().range());
    }

    /// Commits frames that are durable, with all that they speak of.
    #[track_caller]
    pub fn commit(&mut self, written: Durable<Written>, lines: &mut LineSet) -> Flushed<Marked> {
        self.mark_as(&written.into_inner(), lines);
        Flushed::lines(&self.memory, lines, Marked(()))
    }

    /// The same, of frames that are not; for [`Flaw::MarkUnfenced`].
    #[track_caller]
    pub(crate) fn commit_unfenced(
        &mut self,
        written: &Flushed<Written>,
        lines: &mut LineSet,
    ) -> Flushed<Marked> {
        self.mark_as(written.get(), lines);
        Flushed::lines(&self.memory, lines, Marked(()))
    }

    /// Stores what committed frames have where it belongs, durably, and empties the log.
    #[track_caller]
    pub fn checkpoint(&mut self, _marked: Durable<Marked>, frames: &Frames, lines: &mut LineSet) {
        let applied = frames.each(|at, bytes| apply(&self.memory, at, bytes, lines));
        assert!(applied.is_some(), "frames that were just made");
        if flaw::has::<M>(Flaw::CheckpointUnflushed) {
            lines.clear();
            return self.empty();
        }
        if flaw::has::<M>(Flaw::EmptiedEarly) {
            self.empty();
            self.settle(lines);
        }
        let checkpointed = Flushed::lines(&self.memory, lines, ());
        let () = fence_for(&self.memory, checkpointed).into_inner();
        self.empty();
    }

    /// Empties a log whose frames are not needed any more, durably: `_home` is stored where it
    /// belongs.
    #[track_caller]
    pub fn remove(&mut self, _marked: Durable<Marked>, _home: Durable<()>) {
        self.empty();
        self.settle_now();
    }

    /// Makes a mark that was emptied durable, whether this process or one that was killed has done
    /// it.
    #[track_caller]
    pub fn settle_now(&mut self) {
        let mut lines = LineSet::new();
        self.settle(&mut lines);
        lines.flush(&self.memory);
        self.memory.fence();
    }

    #[track_caller]
    fn empty(&mut self) {
        self.memory.store(self.mark(), 0);
        self.emptied = true;
    }

    /// Recovers (P3 4.4): does the checkpoint of a valid mark again and empties the log; ignores
    /// frames without one. Returns whether there was a valid mark.
    ///
    /// # Errors
    /// A committed frame leads outside of the memory.
    #[track_caller]
    pub fn recover(&mut self) -> Result<bool> {
        let mut watch = Watch::start();
        let word = self.memory.load(self.mark(), Acquire)?;
        if word == 0 {
            return Ok(false);
        }
        let (bytes, checksum) = (word & u64::from(u32::MAX), (word >> 32) as u32);
        let mut frames = Frames::default();
        if bytes <= self.bytes - FRAMES_AT {
            frames.bytes.resize(bytes as usize, 0);
            self.memory.read_into(Off::new(self.at + FRAMES_AT), &mut frames.bytes)?;
        }
        let sound = frames.bytes.len() as u64 == bytes
            && (crc32c::crc32c(&frames.bytes) == checksum || flaw::has::<M>(Flaw::MarkUnchecked));
        if !sound || !frames.match_memory(&self.memory)? {
            // The mark is of a log that was emptied, whose frames the next commit has begun to
            // overwrite.
            self.empty();
            return Ok(false);
        }
        frames.checked(&self.memory, self.at)?;
        watch.log_is_read();
        let mut lines = LineSet::new();
        // The mark may be what a killed process had stored: with some of the headers durable it
        // has to be, too, with all that it speaks of.
        lines.add(Range::new(self.at, FRAMES_AT + bytes));
        frames.checks().iter().for_each(|(range, _)| lines.add(*range));
        if flaw::has::<M>(Flaw::MarkTrusted) {
            lines.clear();
            lines.add(Range::new(self.link, 8));
        }
        if flaw::has::<M>(Flaw::RecoveryEmptiesEarly) {
            self.empty();
            lines.add(self.mark().range());
        }
        let marked = Flushed::lines(&self.memory, &mut lines, Marked(()));
        let marked = fence_for(&self.memory, marked);
        self.checkpoint(marked, &frames, &mut lines);
        self.recovered = watch.recovered(1, frames.size());
        Ok(true)
    }
}

/// Stores the bytes of a frame; of one that is an aligned word, in one store.
#[track_caller]
pub(crate) fn apply<M: Memory>(memory: &M, at: u64, bytes: &[u8], lines: &mut LineSet) {
    lines.add(Range::new(at, bytes.len() as u64));
    let aligned = at.is_multiple_of(8);
    if aligned && let ([word], []) = bytes.as_chunks::<8>() {
        memory.store(Off::new(at), u64::from_le_bytes(*word));
    } else {
        memory.copy(Off::new(at), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pm::Dram;

    fn log() -> Log<Dram> {
        let memory = Dram::new(1 << 16).unwrap();
        memory.grow(1 << 16).unwrap();
        Log::new(memory, 4096, 4096, 0).unwrap()
    }

    #[test]
    fn a_mark_with_other_frames_counts_for_nothing() {
        let mut log = log();
        let mut frames = Frames::default();
        frames.add_word(8192, 7);
        frames.add(8200, 8, &[1; 24]);
        let mut lines = LineSet::new();
        let written = log.append(&frames, &mut lines);
        let written = fence_for(&log.memory, written);
        let _ = log.commit(written, &mut lines);
        let word = log.memory.load(log.mark(), Acquire).unwrap();
        log.memory.copy(Off::new(4096 + 64 + 16), &[9]);
        assert!(!log.recover().unwrap());
        assert_eq!(log.memory.load(Off::new(8192), Acquire).unwrap(), 0);
        assert_eq!(log.recovered(), Recovered::default());
        // As it was, it counts.
        log.memory.copy(Off::new(4096 + 64 + 16), &[7]);
        log.memory.store(log.mark(), word);
        assert!(log.recover().unwrap());
        assert_eq!(log.memory.load(Off::new(8192), Acquire).unwrap(), 7);
        assert_eq!(log.memory.load(Off::new(8208), Acquire).unwrap(), 0x0101_0101_0101_0101);
        let Recovered { transactions, frames, frame_bytes, .. } = log.recovered();
        // Two headers of 16 bytes, a word, and three of them.
        assert_eq!((transactions, frames, frame_bytes), (1, 2, 64));
        assert!(!log.recover().unwrap());
    }

    /// As in a log of records: a frame of eight bytes may lie anywhere.
    #[test]
    fn a_frame_of_eight_bytes_need_not_be_aligned() {
        let mut log = log();
        let mut frames = Frames::default();
        frames.add(8192, 5, &[3; 8]);
        let mut lines = LineSet::new();
        let _ = log.append_marked(&frames, &mut lines);
        assert!(log.recover().unwrap());
        assert_eq!(log.memory.read::<[u8; 8]>(Off::new(8197)).unwrap(), [3; 8]);
    }

    #[test]
    fn a_frame_that_leads_outside_of_the_memory_is_damage() {
        let mut log = log();
        let mut frames = Frames::default();
        frames.add_word(1 << 16, 7);
        let mut lines = LineSet::new();
        let written = log.append(&frames, &mut lines);
        let written = fence_for(&log.memory, written);
        let _ = log.commit(written, &mut lines);
        let refused = log.recover().unwrap_err().to_string();
        assert_eq!(refused, "damaged frame of the log at offset 0x10000");
    }
}
