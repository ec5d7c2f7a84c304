//! The master record in non-volatile memory (P1 4.2): one word, moved by one 8-byte store.
//! `docs/format/directory.md` draws the object.
//!
//! Two slots hold directories in turn; the word says which one counts, and its transaction. A
//! slot carries the batch's list, too: the objects of the heap that the batch made and those that
//! it superseded. Their persisted bits change after the master record has moved:
//!
//! - *Crash before that store:* the word leads to the old slot. The new objects have no persisted
//!   bit, so they are free.
//! - *Crash after it:* opening does what the list says once more. That is harmless at any time
//!   until the next move, since until then no superseded object is given out again.

use std::sync::atomic::Ordering::Acquire;

use heap::{Heap, Lane, Purpose};
use pm::{Bad, LineSet, Memory, Off, Range, View};

use super::MAX_STORES;
use super::directory::Directory;
use crate::error::StorageError;

const PARAMETER_AT: u64 = 8;
const HEADS_AT: u64 = 64;
const LISTS_AT: u64 = HEADS_AT + MAX_STORES as u64 * 8;
const SLOTS_AT: u64 = 128;
const _: () = assert!(LISTS_AT + 16 == SLOTS_AT);
/// Entries of a list that stand in its slot, at least.
const INLINE_ENTRIES: u64 = 64;
/// Bytes of a segment with more entries: a line for the link, then the entries.
const SEGMENT_BYTES: u64 = 4096;
const SEGMENT_ENTRIES: u64 = (SEGMENT_BYTES - 64) / 8;
const _: () = assert!(SEGMENT_ENTRIES == 504);
/// Segments that are believed.
const MAX_SEGMENTS: usize = 1 << 16;
/// Bytes before a slot's words: their checksum, and how many entries follow.
const SLOT_HEADER_BYTES: u64 = 8;

/// An object of the heap that a batch made or superseded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListEntry {
    /// Becomes persisted.
    New(u64),
    /// Becomes free.
    Superseded(u64),
}

impl ListEntry {
    fn word(self) -> u64 {
        match self {
            Self::New(object) => object | 1,
            Self::Superseded(object) => object,
        }
    }

    fn from_word(word: u64) -> Self {
        if word & 1 == 1 { Self::New(word - 1) } else { Self::Superseded(word) }
    }
}

/// The master record of a partition.
#[derive(Debug)]
pub struct PoolMaster {
    root: u64,
    words: u64,
    slot_bytes: u64,
    /// The slot that counts.
    current: u64,
    /// Segments of the lists of both slots.
    segments: [Vec<u64>; 2],
    image: Vec<u8>,
    /// Entries of the lists written so far.
    listed: u64,
}

impl PoolMaster {
    fn new(root: u64, words: usize) -> Self {
        let words = words as u64;
        let slot_bytes = (SLOT_HEADER_BYTES + words * 8 + INLINE_ENTRIES * 8).next_multiple_of(64);
        let segments = [Vec::new(), Vec::new()];
        Self { root, words, slot_bytes, current: 0, segments, image: Vec::new(), listed: 0 }
    }

    /// Creates a master record with an empty directory. `parameter` is the owner's, who must know
    /// it before anything else. Nothing leads to the record yet; settled when this returns.
    ///
    /// # Errors
    /// No room.
    pub fn create<M: Memory>(
        lane: &mut Lane<M>,
        directory: &Directory,
        parameter: u64,
    ) -> Result<Self, StorageError> {
        let mut master = Self::new(0, directory.word_count());
        let bytes = SLOTS_AT + 2 * master.slot_bytes;
        master.root = lane.allocate(bytes, Purpose::Log)?;
        let memory = lane.memory().clone();
        memory.copy(Off::new(master.root), &vec![0; SLOTS_AT as usize]);
        memory.store(Off::new(master.root + PARAMETER_AT), parameter);
        memory.flush(Range::new(master.root, SLOTS_AT));
        master.current = 1;
        master.write(&memory, directory, std::iter::empty());
        memory.fence();
        master.publish(&memory, directory);
        let mut lines = LineSet::new();
        lane.mark_persisted(master.root, &mut lines);
        lines.flush(&memory);
        memory.fence();
        Ok(master)
    }

    /// The owner's parameter of the master record at `root`.
    ///
    /// # Errors
    /// There is nothing.
    pub fn parameter<M: Memory>(memory: &M, root: u64) -> Result<u64, Bad> {
        memory.load(Off::new(root.saturating_add(PARAMETER_AT)), Acquire)
    }

    /// Opens the master record at `root`; `directory` gets its contents. Returns the list of the
    /// batch that moved it last, too.
    ///
    /// # Errors
    /// Damage.
    pub fn open<M: Memory>(
        heap: &Heap<M>,
        root: u64,
        directory: &mut Directory,
    ) -> Result<(Self, Vec<ListEntry>), Bad> {
        let memory = heap.memory();
        let mut master = Self::new(root, directory.word_count());
        let word = memory.load(Off::new(root), Acquire)?;
        master.current = word & 1;
        for slot in 0..2 {
            let mut link = master.list_cell(slot);
            loop {
                let segment = memory.load(link, Acquire)?;
                if segment == 0 {
                    break;
                }
                let segments = &mut master.segments[slot as usize];
                if segments.len() == MAX_SEGMENTS || !segment.is_multiple_of(64) {
                    return Err(Bad::Damaged { what: "batch list", at: segment });
                }
                memory.view(Range::new(segment, SEGMENT_BYTES))?;
                segments.push(segment);
                link = Off::new(segment);
            }
        }
        let list = master.read_slot(memory, directory)?;
        if directory.transaction != word >> 1 {
            return Err(Bad::Damaged { what: "master record", at: root });
        }
        // What a killed process has stored counts from now on: it is durable before the bits of
        // its batch's objects change.
        memory.flush(Range::new(root, 8));
        memory.fence();
        Ok((master, list))
    }

    fn read_slot<M: Memory>(
        &self,
        memory: &M,
        directory: &mut Directory,
    ) -> Result<Vec<ListEntry>, Bad> {
        let at = self.slot_at(self.current);
        let damaged = Bad::Damaged { what: "directory", at };
        let slot = memory.view(Range::new(at, self.slot_bytes))?;
        let header = slot.word(0);
        let entries = header >> 32;
        if entries > self.capacity(self.current) {
            return Err(damaged);
        }
        let word_at = |word: u64| slot.word((SLOT_HEADER_BYTES + word * 8) as usize);
        let mut sum = crc32c::crc32c(&(entries as u32).to_le_bytes());
        let mut checked = |word: u64| {
            sum = crc32c::crc32c_append(sum, &word.to_le_bytes());
            word
        };
        directory.set_words((0..self.words).map(|word| checked(word_at(word))))?;
        let mut list = Vec::with_capacity(entries as usize);
        for entry in 0..entries {
            let word = match entry.checked_sub(self.inline_entries()) {
                None => word_at(self.words + entry),
                Some(_) => memory.load(self.entry_at(self.current, entry), Acquire)?,
            };
            list.push(ListEntry::from_word(checked(word)));
        }
        if sum == header as u32 { Ok(list) } else { Err(damaged) }
    }

    /// The word that the list of extents of a store starts with.
    pub fn head(&self, store: usize) -> Off<u64> {
        assert!(store < MAX_STORES, "one word for each store");
        Off::new(self.root + HEADS_AT + store as u64 * 8)
    }

    /// Where the object lies.
    pub fn root(&self) -> u64 {
        self.root
    }

    fn list_cell(&self, slot: u64) -> Off<u64> {
        Off::new(self.root + LISTS_AT + slot * 8)
    }

    fn slot_at(&self, slot: u64) -> u64 {
        self.root + SLOTS_AT + slot * self.slot_bytes
    }

    fn inline_entries(&self) -> u64 {
        (self.slot_bytes - SLOT_HEADER_BYTES) / 8 - self.words
    }

    /// How many entries fit the list of a slot.
    fn capacity(&self, slot: u64) -> u64 {
        self.inline_entries() + self.segments[slot as usize].len() as u64 * SEGMENT_ENTRIES
    }

    fn entry_at(&self, slot: u64, entry: u64) -> Off<u64> {
        let Some(beyond) = entry.checked_sub(self.inline_entries()) else {
            return Off::new(self.slot_at(slot) + SLOT_HEADER_BYTES + (self.words + entry) * 8);
        };
        let segment = self.segments[slot as usize][(beyond / SEGMENT_ENTRIES) as usize];
        Off::new(segment + 64 + beyond % SEGMENT_ENTRIES * 8)
    }

    /// Makes sure that the next batch's list has room for so many entries.
    ///
    /// # Errors
    /// No room; nothing has changed.
    #[inline]
    pub fn reserve<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        entries: u64,
    ) -> Result<(), StorageError> {
        while self.capacity(1 - self.current) < entries {
            self.add_segment(lane)?;
        }
        Ok(())
    }

    /// Links a fresh segment to the next batch's list. The link and the segment's persisted bit
    /// are one mini-transaction.
    #[cold]
    fn add_segment<M: Memory>(&mut self, lane: &mut Lane<M>) -> Result<(), StorageError> {
        let next = 1 - self.current;
        let segment = lane.allocate(SEGMENT_BYTES, Purpose::Log)?;
        lane.memory().store(Off::new(segment), 0);
        let mut lines = LineSet::new();
        lines.add(Range::new(segment, 8));
        let link = self.segments[next as usize].last();
        let link = link.map_or(self.list_cell(next), |last| Off::new(*last));
        lane.mini_store(link, segment);
        lane.mini_persist(segment)?;
        // Its words, and those of the bitmap, change by mini-transactions only.
        lane.mini_commit(&mut lines);
        self.segments[next as usize].push(segment);
        Ok(())
    }

    /// First step of a move: writes the directory and the batch's list into the slot that does
    /// not count, and flushes them.
    pub fn write<M: Memory>(
        &mut self,
        memory: &M,
        directory: &Directory,
        entries: impl Iterator<Item = ListEntry>,
    ) {
        let (slot, room) = (1 - self.current, (self.slot_bytes - SLOT_HEADER_BYTES) as usize);
        let mut image = std::mem::take(&mut self.image);
        image.clear();
        image.extend_from_slice(&[0; SLOT_HEADER_BYTES as usize]);
        let words = directory.words().chain(entries.map(ListEntry::word));
        words.for_each(|word| image.extend_from_slice(&word.to_le_bytes()));
        let (header, body) = image.split_at_mut(SLOT_HEADER_BYTES as usize);
        let count = (body.len() as u64 / 8 - self.words) as u32;
        let sum = crc32c::crc32c(&count.to_le_bytes());
        header[..4].copy_from_slice(&crc32c::crc32c_append(sum, body).to_le_bytes());
        header[4..].copy_from_slice(&count.to_le_bytes());
        assert!(u64::from(count) <= self.capacity(slot), "room for the list is reserved");
        self.listed += u64::from(count);
        let inline = body.len().min(room);
        for (part, segment) in
            body[inline..].chunks(SEGMENT_ENTRIES as usize * 8).zip(&self.segments[slot as usize])
        {
            memory.copy(Off::new(segment + 64), part);
            memory.flush(Range::new(segment + 64, part.len() as u64));
        }
        let at = self.slot_at(slot);
        let bytes = SLOT_HEADER_BYTES as usize + inline;
        memory.copy(Off::new(at), &image[..bytes]);
        memory.flush(Range::new(at, bytes as u64));
        self.image = image;
    }

    /// Bytes of the entries of all lists written since the record was opened.
    pub fn listed_bytes(&self) -> u64 {
        self.listed * 8
    }

    /// Second step, when all that is new is durable: moves the master record by one store, and
    /// flushes it. Durable after the next fence.
    pub fn publish<M: Memory>(&mut self, memory: &M, directory: &Directory) {
        self.current = 1 - self.current;
        let word = Off::<u64>::new(self.root);
        memory.store(word, directory.transaction << 1 | self.current);
        memory.flush(word.range());
    }

    /// Calls `visit` with every object that the record is made of.
    pub fn objects(&self, mut visit: impl FnMut(u64)) {
        visit(self.root);
        self.segments.iter().flatten().copied().for_each(visit);
    }
}
