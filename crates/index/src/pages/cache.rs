//! The page cache: frames in volatile memory, given out by a clock.
//!
//! Invariants:
//! - Only the writer makes a frame dirty or writes one out; a reader that needs a frame takes a
//!   clean one.
//! - A frame is dirty only while its page belongs to the open batch, so that readers of older
//!   directories never look at it, and what is written out early is not read after a crash.
//! - A pinned frame keeps its page and its bytes.
//!
//! Frames are divided into shards, each with its own lock, so that readers seldom wait for each
//! other, and never for a write or a sync of the writer. If all frames of a shard are pinned or dirty it takes
//! one more than its share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pm::{Bad, File, Memory, Off, Range, View};

use super::page::{CHECKSUM_AT, Header, PAGE_HEADER_BYTES, checksum};
use crate::clock::Clock;
use crate::error::IndexError;

#[derive(Debug)]
struct Shard {
    frames: Clock<u64>,
    /// A page on its way in.
    buffer: Vec<u8>,
    /// A bit for each page of the shard: written since the file was opened.
    written: Vec<u64>,
}

impl Shard {
    fn is_written(&self, place: u64) -> bool {
        self.written.get((place / 64) as usize).is_some_and(|word| word & 1 << (place % 64) != 0)
    }

    fn note_written(&mut self, place: u64) {
        let word = (place / 64) as usize;
        if self.written.len() <= word {
            self.written.resize(word + 1, 0);
        }
        self.written[word] |= 1 << (place % 64);
    }
}

/// The cache of one file.
#[derive(Debug)]
pub(super) struct Cache<F, V> {
    pub(super) file: F,
    pub(super) data_at: u64,
    pub(super) page_bytes: u32,
    /// The transaction of the directory that was opened.
    opened: u64,
    memory: V,
    shards: Box<[Mutex<Shard>]>,
    frames_per_shard: usize,
    /// The place of the first frame in the memory.
    first_frame: u64,
    /// The place where the next one will be.
    next_frame: Mutex<u64>,
}

/// Frames that a shard has at least.
const LEAST_FRAMES: u64 = 16;

impl<F: File, V: Memory> Cache<F, V> {
    pub(super) fn new(
        file: F,
        data_at: u64,
        page_bytes: u32,
        opened: u64,
        memory: V,
        cache_bytes: u64,
    ) -> Self {
        let frames = (cache_bytes / u64::from(page_bytes)).max(LEAST_FRAMES);
        let shards = (frames / (4 * LEAST_FRAMES)).next_power_of_two().min(16);
        let frames_per_shard = frames.div_ceil(shards) as usize;
        let first_frame = memory.len().next_multiple_of(4096).max(4096);
        let shard = || Shard {
            frames: Clock::new(frames_per_shard),
            buffer: Vec::new(),
            written: Vec::new(),
        };
        Self {
            file,
            data_at,
            page_bytes,
            opened,
            first_frame,
            next_frame: Mutex::new(first_frame),
            memory,
            shards: (0..shards).map(|_| Mutex::new(shard())).collect(),
            frames_per_shard,
        }
    }

    /// Bytes of memory that frames have taken so far; none is given back.
    pub(super) fn taken_bytes(&self) -> u64 {
        let next = *self.next_frame.lock().unwrap_or_else(PoisonError::into_inner);
        next - self.first_frame
    }

    /// Returns how many frames there are to be.
    pub(super) fn frames(&self) -> u64 {
        (self.frames_per_shard * self.shards.len()) as u64
    }

    fn shard(&self, page: u64) -> MutexGuard<'_, Shard> {
        // Neighbours lie in different shards.
        let shard = page as usize & (self.shards.len() - 1);
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a page within its shard.
    fn within_shard(&self, page: u64) -> u64 {
        page / self.shards.len() as u64
    }

    fn place(&self, page: u64) -> u64 {
        self.data_at + (page - 1) * u64::from(self.page_bytes)
    }

    fn frame_range(&self, at: u64) -> Range {
        Range::new(at, u64::from(self.page_bytes))
    }

    /// Calls `read` with a page.
    pub(super) fn with<'s, R>(
        &'s self,
        page: u64,
        read: impl FnOnce(&V::View<'s>) -> R,
    ) -> Result<R, IndexError> {
        if page == 0 || page > u64::MAX >> 16 {
            return Err(Bad::Damaged { what: "page number", at: page }.into());
        }
        let mut shard = self.shard(page);
        let index = match shard.frames.find(page) {
            Some(index) => index,
            None => self.read_in(&mut shard, page)?,
        };
        let frame = shard.frames.frame(index);
        frame.pins += 1;
        frame.used = true;
        let at = frame.at;
        drop(shard);
        let _pin = Pin { cache: self, page, index };
        let view = self.memory.view(self.frame_range(at))?;
        Ok(read(&view))
    }

    /// Reads a page from the file into a frame.
    fn read_in(&self, shard: &mut Shard, page: u64) -> Result<usize, IndexError> {
        let at = self.place(page);
        let damaged = Bad::Damaged { what: "page of the file", at };
        shard.buffer.resize(self.page_bytes as usize, 0);
        let read = self.file.read_at(at, &mut shard.buffer)?;
        if read < self.page_bytes as usize {
            return Err(damaged.into());
        }
        let header = Header::read(&super::page::Image(&shard.buffer));
        let sound = (PAGE_HEADER_BYTES..=self.page_bytes as usize).contains(&header.used)
            && checksum(page, &shard.buffer[..header.used]) == header.checksum;
        if !sound {
            return Err(damaged.into());
        }
        // The directory that was opened leads to none of a later transaction: then a later one was
        // durable, and its master record is lost.
        if header.birth > self.opened && !shard.is_written(self.within_shard(page)) {
            return Err(Bad::Damaged { what: "page of a later transaction", at }.into());
        }
        let index = self.frame_for(shard, page)?;
        self.memory.copy(Off::new(shard.frames.frame(index).at), &shard.buffer);
        Ok(index)
    }

    /// A frame for a page that has none: one never used, else one that the clock chooses, else one
    /// more than the shard's share. Without memory for a new one the clock chooses at any time.
    fn frame_for(&self, shard: &mut Shard, page: u64) -> Result<usize, IndexError> {
        let frames = &mut shard.frames;
        let chosen = if frames.is_full() { frames.give_up() } else { None };
        let index = match chosen {
            Some(index) => index,
            None => match self.new_frame() {
                Ok(at) => frames.add(at),
                Err(error) => frames.give_up().ok_or(error)?,
            },
        };
        frames.hold(index, page);
        Ok(index)
    }

    fn new_frame(&self) -> Result<u64, IndexError> {
        let mut next = self.next_frame.lock().unwrap_or_else(PoisonError::into_inner);
        let at = *next;
        let end = at + u64::from(self.page_bytes);
        if end > self.memory.len() {
            self.memory
                .grow(end.next_multiple_of(1 << 20))
                .or_else(|_| self.memory.grow(end))
                .map_err(|error| IndexError::Heap(error.into()))?;
        }
        *next = end;
        Ok(at)
    }

    /// Gives a page new contents; returns whether it was clean.
    pub(super) fn replace(&self, page: u64, image: &[u8]) -> Result<bool, IndexError> {
        let mut shard = self.shard(page);
        let index = match shard.frames.find(page) {
            Some(index) => index,
            None => self.frame_for(&mut shard, page)?,
        };
        let frame = shard.frames.frame(index);
        frame.used = true;
        self.memory.copy(Off::new(frame.at), image);
        Ok(!std::mem::replace(&mut frame.dirty, true))
    }

    /// Changes eight bytes of a page; returns whether it was clean.
    pub(super) fn patch(&self, page: u64, at: usize, bytes: [u8; 8]) -> Result<bool, IndexError> {
        let mut shard = self.shard(page);
        let index = match shard.frames.find(page) {
            Some(index) => index,
            None => self.read_in(&mut shard, page)?,
        };
        let frame = shard.frames.frame(index);
        self.memory.copy(Off::new(frame.at + at as u64), &bytes);
        Ok(!std::mem::replace(&mut frame.dirty, true))
    }

    /// The contents of a page are not needed any more.
    pub(super) fn forget(&self, page: u64) {
        let mut shard = self.shard(page);
        if let Some(index) = shard.frames.find(page) {
            let frame = shard.frames.frame(index);
            frame.dirty = false;
            frame.used = false;
        }
    }

    /// Writes a page out, if it is dirty, with its checksum; returns whether it was. `out` is put to
    /// use as a buffer. No thread waits for the file meanwhile: the page is dirty until it is there, and
    /// so stays in its frame.
    #[track_caller]
    pub(super) fn write_out(&self, page: u64, out: &mut Vec<u8>) -> Result<bool, IndexError> {
        let mut shard = self.shard(page);
        let Some(index) = shard.frames.find(page) else { return Ok(false) };
        let frame = shard.frames.frame(index);
        if !frame.dirty {
            return Ok(false);
        }
        let view = self.memory.view(self.frame_range(frame.at))?;
        let header = Header::read(&view);
        // What lies after the used bytes is of an older page.
        out.clear();
        view.bytes(0, header.used).append_to(out);
        drop(shard);
        out.resize(self.page_bytes as usize, 0);
        let sum = checksum(page, &out[..header.used]);
        out[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        self.file.write_at(self.place(page), out)?;
        let mut shard = self.shard(page);
        shard.frames.frame(index).dirty = false;
        shard.note_written(self.within_shard(page));
        Ok(true)
    }

    fn unpin(&self, page: u64, index: usize) {
        let mut shard = self.shard(page);
        shard.frames.frame(index).pins -= 1;
    }
}

/// Keeps a frame for as long as it is read, also when the reader panics.
struct Pin<'a, F: File, V: Memory> {
    cache: &'a Cache<F, V>,
    page: u64,
    index: usize,
}

impl<F: File, V: Memory> Drop for Pin<'_, F, V> {
    fn drop(&mut self) {
        self.cache.unpin(self.page, self.index);
    }
}
