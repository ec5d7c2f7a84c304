//! NVWAL, which P3 compares its schemes with (P3 2.2): pages are changed in ordinary memory, and a commit logs the
//! bytes that differ.
//!
//! 1. Compare each page with its previous version; runs with less than 16 bytes between them are joined. Make log
//!    frames of them.
//! 2. Take blocks for the frames and append them to the log; flush; **fence**.
//! 3. Store the log's length, which is NVWAL's commit flag; flush; **fence**. *Committed.*
//! 4. Index the log's pages in ordinary memory ([`crate::store::nvwal_log::cache`]), where reads find them.
//!
//! A checkpoint after 1,000 frames stores the pages' runs in place, each byte once; flush; **fence**; it empties the
//! log; flush; **fence**. The same happens before a commit in another mode, and when the last connection closes.
//! While the log has frames no slot counts.
//!
//! *Other connections* read new frames when they lock. *Crash before step 3 is durable:* nothing refers to the
//! frames. *In a checkpoint:* the log has everything until it is in place.
//!
//! A commit has no number. One that is interrupted counts as begun, and the next connection that locks empties the log.

use pm::Memory;

use crate::store::connection::Store;
use crate::store::error::{Result, StoreError};
use crate::store::frames::Frames;
use crate::store::last_commit::Lines;
use crate::store::layout::{COUNTERS, GRANULE, HEADER_BYTES};
use crate::store::nvwal_log::frame_log::Log;
use crate::store::page1;
use crate::store::plan::{Counters, place_of};
use crate::store::room;
use crate::store::stage::{Granule, zeroed};

/// The most memory that a checkpoint takes for a log frame, and besides.
const CHECKPOINTED_FRAME_BYTES: usize = 2 << 10;
const CHECKPOINT_BYTES: usize = 32 << 10;
/// The most memory that reading the log takes for each of its bytes, besides its pages.
const READ_BYTES: usize = 8;

impl<M: Memory> Store<M> {
    /// Returns whether the staged bytes fit into the log: a large transaction would make it as long. A database that
    /// SQLite empties, after an interrupted creation, does not: the log cannot hold that size.
    pub(in crate::store) fn fits_into_frames(&self, size: u64) -> bool {
        size >= HEADER_BYTES && !self.stage.is_streamed()
    }

    /// Logs a commit (steps 2 to 4).
    pub(in crate::store) fn log_frames(
        &mut self,
        size: u64,
        frames: &Frames,
        counters: &Option<Counters>,
    ) -> Result<()> {
        let (mut lines, (from, emptied)) = (Lines::default(), self.cache.state());
        let bytes = self.frame_log(emptied).write(frames, from);
        let mut all = Vec::new();
        Frames::each(&frames.bytes, |at, bytes| all.push((at, bytes)));
        // No connection accepts others.
        self.check_frames(&all)?;
        let to = from + bytes.len() as u64;
        self.side.write_log(from, &bytes, emptied, &mut lines.side);
        self.side.use_blocks(from, to, emptied, &mut lines.side);
        if self.last.is_open() || from == 0 {
            self.side.note_header(&mut lines.side);
        }
        if !self.view.marker_is_durable() {
            self.note_marker(&mut lines);
        }
        self.fence(&mut lines);
        self.healthy()?;
        self.last.note_durable_checkpoint();
        self.view.note_durable_marker();
        self.side.set_log_bytes(to, &mut lines.side);
        self.fence(&mut lines);
        self.healthy()?;
        self.take_frames(&all)?;
        self.cache.note_read(to);
        self.view.set_size(size);
        self.stats.frames += frames.count;
        self.stats.bytes += bytes.len() as u64;
        // Once every begun commit is applied, no recovery raises the counters.
        self.put_counters(counters)?;
        self.data.memory().healthy()?;
        if self.cache.is_full() {
            self.checkpoint_frames()?;
        }
        self.side.set_begun(self.last.number());
        Ok(())
    }

    fn frame_log(&self, emptied: u64) -> Log {
        Log { tag: self.side.tag(), emptied }
    }

    /// Reads the log's frames at offset `from` into the cache.
    ///
    /// # Errors
    /// A frame is damaged; none is taken.
    fn take_log(&mut self, log: &[u8], from: u64, emptied: u64) -> Result<()> {
        room::ensure(READ_BYTES * log.len())?;
        let frames = self.frame_log(emptied).read(log, from);
        let damaged = StoreError::SideDamaged("a frame of its log does not match its checksum");
        self.take_frames(&frames.ok_or(damaged)?)
    }

    /// Returns an error if a frame, or the size in one, lies outside of the file.
    fn check_frames(&self, frames: &[(u64, &[u8])]) -> Result<()> {
        // The file grows before a frame says so.
        let file = HEADER_BYTES..=self.data.len();
        let fits = |(at, bytes): &(u64, &[u8])| {
            let len = bytes.len() as u64;
            if len == 0 {
                file.contains(at)
            } else {
                at % GRANULE + len <= GRANULE && at + len <= *file.end()
            }
        };
        if !frames.iter().all(fits) {
            return Err(StoreError::SideDamaged("its log of frames is of another database"));
        }
        Ok(())
    }

    /// Takes frames into the cache. A frame without bytes carries the database's size.
    fn take_frames(&mut self, frames: &[(u64, &[u8])]) -> Result<()> {
        self.check_frames(frames)?;
        let mut size = None;
        for &(at, bytes) in frames {
            if bytes.is_empty() {
                size = Some(at);
                continue;
            }
            let number = at / GRANULE;
            if self.cache.get(number).is_none() {
                let granule = self.granule_in_place(number)?;
                self.cache.add(number, granule);
            }
            self.cache.put(number, (at % GRANULE) as usize, bytes);
        }
        if let Some(size) = size {
            self.cache.set_size(size);
        }
        Ok(())
    }

    /// A granule as it is in the frames of its pages.
    fn granule_in_place(&self, number: u64) -> Result<Granule> {
        let mut granule = zeroed()?;
        let there = self.data.len().saturating_sub(number * GRANULE).min(GRANULE) as usize;
        self.in_frames(number * GRANULE, &mut granule[..there])?;
        Ok(granule)
    }

    /// Copies bytes from `at` on, with the log's on top of those in place.
    pub(in crate::store) fn over_frames(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            let (number, within) = ((at + done as u64) / GRANULE, (at + done as u64) % GRANULE);
            let len = (GRANULE - within).min((out.len() - done) as u64) as usize;
            let out = &mut out[done..done + len];
            match self.cache.get(number) {
                Some(granule) => out.copy_from_slice(&granule[within as usize..][..len]),
                None => self.in_frames(number * GRANULE + within, out)?,
            }
            done += len;
        }
        // The counters are always in place.
        for range in COUNTERS {
            let (start, end) = (range.start as u64, range.end as u64);
            let (from, to) = (start.max(at), end.min(at + out.len() as u64));
            if from < to {
                self.data.read_into(from, &mut out[(from - at) as usize..(to - at) as usize])?;
            }
        }
        Ok(())
    }

    /// Applies NVWAL's log and empties it. The caller has exclusive access, and a commit has begun.
    ///
    /// # Errors
    /// The medium fails.
    pub(in crate::store) fn checkpoint_frames(&mut self) -> Result<()> {
        if self.cache.is_empty() {
            return Ok(());
        }
        room::ensure(self.cache.frames() * CHECKPOINTED_FRAME_BYTES + CHECKPOINT_BYTES)?;
        let (mut lines, before) = (Lines::default(), self.stats.lines);
        let mut places = Vec::new();
        for (at, bytes) in self.cache.runs() {
            self.find_places(at, bytes, &mut places)?;
        }
        // Places read from a failed medium may be wrong.
        self.healthy()?;
        for (place, part) in places {
            for range in page1::all_but_counters(place, part.len()) {
                self.data.copy(place + range.start as u64, &part[range]);
            }
            self.data.note(&mut lines.data, place, part.len() as u64);
        }
        self.side.set_size(self.cache.size_of(self.view.size()), &mut lines.side);
        self.fence(&mut lines);
        self.healthy()?;
        self.side.set_log_bytes(0, &mut lines.side);
        self.fence(&mut lines);
        self.healthy()?;
        // Made durable before a new log has frames. A process that dies here leaves a commit that has begun.
        self.side.set_emptied(self.cache.empty());
        self.stats.checkpoints += 1;
        self.stats.checkpoint_lines += self.stats.lines - before;
        Ok(())
    }

    /// The places of bytes of the database, by its pages' frames.
    fn find_places<'a>(
        &self,
        at: u64,
        bytes: &'a [u8],
        places: &mut Vec<(u64, &'a [u8])>,
    ) -> Result<()> {
        if self.side.table().entries == 0 {
            places.push((at, bytes));
            return Ok(());
        }
        let page_bytes = self.page_bytes();
        let mut done = 0;
        while done < bytes.len() {
            let from = at + done as u64;
            let (page, within) = (from / page_bytes + 1, from % page_bytes);
            let len = (page_bytes - within).min((bytes.len() - done) as u64) as usize;
            let frame = self.side.frame(page as u32)?;
            places.push((place_of(frame, page_bytes) + within, &bytes[done..done + len]));
            done += len;
        }
        Ok(())
    }

    /// Reads new log frames of other connections, or that they emptied the log. The caller holds a lock.
    ///
    /// # Errors
    /// The medium fails, or the log is damaged.
    pub fn catch_up(&mut self) -> Result<()> {
        let (bytes, emptied) = self.side.log_state()?;
        let read = self.cache.follow(bytes, emptied);
        if bytes > read {
            let frames = self.side.read_log(read, bytes, emptied)?;
            self.take_log(&frames, read, emptied)?;
            self.cache.note_read(bytes);
        }
        self.view.set_size(self.cache.size_of(self.view.size()));
        Ok(())
    }

    /// Sets the number of frames after which a checkpoint is made, 1,000 by default.
    pub fn set_frames_per_checkpoint(&mut self, frames: usize) {
        self.cache.set_frames_per_checkpoint(frames);
    }

    /// Empties the log after a crash. The words that give its length are durable.
    ///
    /// # Errors
    /// The medium fails, or the log is damaged.
    pub(in crate::store) fn recover_frames(&mut self) -> Result<()> {
        let (bytes, emptied) = self.side.log_state()?;
        self.cache.clear(emptied);
        if bytes > 0 {
            let frames = self.side.read_log(0, bytes, emptied)?;
            self.view.set_size(self.side.size()?);
            self.take_log(&frames, 0, emptied)?;
            self.cache.note_read(bytes);
            self.check_file_bytes(self.cache.size_of(self.view.size()))?;
            // Bytes read from a failed medium do not go into the database.
            self.healthy()?;
            return self.checkpoint_frames();
        }
        self.side.set_emptied(self.cache.empty());
        Ok(())
    }
}
