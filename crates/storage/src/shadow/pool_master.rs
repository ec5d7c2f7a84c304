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
use index::pages::ExtentList;
use pm::{Bad, LineSet, Memory, Off, Range, View};

use super::MAX_STORES;
use super::directory::Directory;
use crate::error::StorageError;

const PARAMETER_AT: u64 = 8;
/// The oldest extent of each store, then the newest.
const OLDEST_AT: u64 = 16;
const HEADS_AT: u64 = 64;
const _: () = assert!(OLDEST_AT + MAX_STORES as u64 * 8 == HEADS_AT);
const LISTS_AT: u64 = HEADS_AT + MAX_STORES as u64 * 8;
const SLOTS_AT: u64 = 128;
const _: () = assert!(LISTS_AT + 16 == SLOTS_AT);
/// Entries of a list that stand in its slot, at least.
const INLINE_ENTRIES: u64 = 64;
/// Bytes of a segment with more entries: a line for the link, then the entries.
const SEGMENT_BYTES: u64 = 4096;
const SEGMENT_ENTRIES: u64 = (SEGMENT_BYTES - 64) / 8;
const _: () = assert!(SEGMENT_ENTRIES == 504);
/// Segments that a list can have.
const MAX_SEGMENTS: u64 = 1 << 16;
/// Segments of a list that stay, whether batches need them or not.
const KEPT_SEGMENTS: usize = 4;
/// Segments that a commit gives back at most.
const TRIM_STEP: usize = 64;
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
    /// The segments of the lists of both slots that have been needed. More may be linked to the
    /// last of them.
    segments: [Vec<u64>; 2],
    /// Segments that the last batch of each slot has used.
    used: [usize; 2],
    image: Vec<u8>,
    /// Entries of the lists written so far.
    listed: u64,
}

impl PoolMaster {
    fn new(root: u64, words: usize) -> Self {
        let words = words as u64;
        let slot_bytes = (SLOT_HEADER_BYTES + words * 8 + INLINE_ENTRIES * 8).next_multiple_of(64);
        let (segments, used) = ([Vec::new(), Vec::new()], [0; 2]);
        Self { root, words, slot_bytes, current: 0, segments, used, image: Vec::new(), listed: 0 }
    }

    /// Creates a master record with an empty directory. `parameter` is the owner's, which it must
    /// know before anything else. Nothing leads to the record yet; settled when this returns.
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
        let entries = memory.load(Off::new(master.slot_at(master.current)), Acquire)? >> 32;
        while master.capacity(master.current) < entries {
            if !master.follow(memory, master.current)? {
                return Err(Bad::Damaged { what: "batch list", at: root });
            }
        }
        master.used[master.current as usize] = master.segments[master.current as usize].len();
        let list = master.read_slot(memory, directory)?;
        if directory.transaction != word >> 1 {
            return Err(Bad::Damaged { what: "master record", at: root });
        }
        // The record of a killed process counts from now on: it is made durable before the bits of
        // its batch's objects change.
        memory.flush(Range::new(root, 8));
        memory.fence();
        Ok((master, list))
    }

    /// Returns the segment after the known ones of a slot; zero if there is none.
    fn next_segment<M: Memory>(&self, memory: &M, slot: u64) -> Result<u64, Bad> {
        let segment = memory.load(self.last_link(slot), Acquire)?;
        if segment != 0 {
            let many = self.segments[slot as usize].len() as u64;
            if many == MAX_SEGMENTS || !segment.is_multiple_of(64) {
                return Err(Bad::Damaged { what: "batch list", at: segment });
            }
            memory.view(Range::new(segment, SEGMENT_BYTES))?;
        }
        Ok(segment)
    }

    /// Takes the next segment of a slot's list into use, if there is one.
    fn follow<M: Memory>(&mut self, memory: &M, slot: u64) -> Result<bool, Bad> {
        let segment = self.next_segment(memory, slot)?;
        if segment != 0 {
            self.segments[slot as usize].push(segment);
        }
        Ok(segment != 0)
    }

    /// Returns the word that leads to the segment after the known ones of a slot.
    fn last_link(&self, slot: u64) -> Off<u64> {
        let last = self.segments[slot as usize].last();
        last.map_or(self.list_cell(slot), |last| Off::new(*last))
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

    /// The words for the ends of the list of extents of a store.
    pub fn extents(&self, store: usize) -> ExtentList {
        assert!(store < MAX_STORES, "words for each store");
        let word = |at: u64| Off::new(self.root + at + store as u64 * 8);
        ExtentList { newest: word(HEADS_AT), oldest: word(OLDEST_AT) }
    }

    /// Returns where the object lies.
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

    /// Returns how many entries fit the list of a slot.
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

    /// Entries that the list of a batch can have.
    pub fn max_entries(&self) -> u64 {
        self.inline_entries() + MAX_SEGMENTS * SEGMENT_ENTRIES
    }

    /// Makes sure that the next batch's list has room for so many entries.
    ///
    /// # Errors
    /// No room, or more than [`Self::max_entries`]; nothing has changed.
    #[inline]
    pub fn reserve<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        entries: u64,
    ) -> Result<(), StorageError> {
        while self.capacity(1 - self.current) < entries {
            self.add_segment(lane, entries)?;
        }
        Ok(())
    }

    /// Takes one more segment into use for the next batch's list: one that an earlier batch has
    /// left, else a fresh one. The link and the segment's persisted bit are one mini-transaction.
    #[cold]
    fn add_segment<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        entries: u64,
    ) -> Result<(), StorageError> {
        if entries > self.max_entries() {
            return Err(StorageError::TransactionTooLarge { max: self.max_entries() });
        }
        let next = 1 - self.current;
        if self.follow(lane.memory(), next)? {
            return Ok(());
        }
        let segment = lane.allocate(SEGMENT_BYTES, Purpose::Log)?;
        lane.memory().store(Off::new(segment), 0);
        let mut lines = LineSet::new();
        lines.add(Range::new(segment, 8));
        lane.mini_store(self.last_link(next), segment);
        lane.mini_persist(segment)?;
        // Its words, and those of the bitmap, change by mini-transactions only.
        lane.mini_commit(&mut lines);
        self.segments[next as usize].push(segment);
        Ok(())
    }

    /// Gives segments of the current slot back that its batch does not need, some of them, after a
    /// move. The rest of the list and the persisted bits are one mini-transaction.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub fn trim<M: Memory>(&mut self, lane: &mut Lane<M>) -> Result<(), Bad> {
        let slot = self.current as usize;
        let keep = self.used[slot].max(KEPT_SEGMENTS);
        while self.segments[slot].len() < keep {
            if !self.follow(lane.memory(), self.current)? {
                return Ok(());
            }
        }
        self.segments[slot].truncate(keep);
        if self.next_segment(lane.memory(), self.current)? != 0 {
            self.give_back(lane)?;
        }
        Ok(())
    }

    /// Takes segments after the known ones out of the current slot's list.
    #[cold]
    fn give_back<M: Memory>(&mut self, lane: &mut Lane<M>) -> Result<(), Bad> {
        let link = self.last_link(self.current);
        let mut next = self.next_segment(lane.memory(), self.current)?;
        for _ in 0..TRIM_STEP {
            if next == 0 {
                break;
            }
            lane.mini_free(next).inspect_err(|_| lane.mini_cancel())?;
            next = lane.memory().load(Off::new(next), Acquire)?;
        }
        lane.mini_store(link, next);
        lane.mini_commit(&mut LineSet::new());
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
        self.used[slot as usize] = (body.len() - inline).div_ceil(SEGMENT_ENTRIES as usize * 8);
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
        image.shrink_to(room + KEPT_SEGMENTS * SEGMENT_BYTES as usize);
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
        memory.flush_word(word);
    }

    /// Calls `visit` with every object that the record is made of.
    ///
    /// # Errors
    /// Damage.
    pub fn objects<M: Memory>(&self, memory: &M, mut visit: impl FnMut(u64)) -> Result<(), Bad> {
        visit(self.root);
        for slot in 0..2 {
            let mut rest = Self::new(self.root, self.words as usize);
            while rest.follow(memory, slot)? {}
            rest.segments[slot as usize].iter().copied().for_each(&mut visit);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use heap::HeapOptions;
    use sim::Recording;

    use super::*;

    /// Moves the master record with a list of so many entries.
    fn batch(master: &mut PoolMaster, lane: &mut Lane<Recording>, entries: u64) {
        let memory = lane.memory().clone();
        let mut directory = Directory::new(1, 1, 1);
        master.reserve(lane, entries).unwrap();
        directory.transaction = memory.load(Off::new(master.root), Acquire).unwrap() / 2 + 1;
        master.write(&memory, &directory, (1..=entries).map(|n| ListEntry::Superseded(n * 8)));
        memory.fence();
        master.publish(&memory, &directory);
        memory.fence();
        master.trim(lane).unwrap();
    }

    fn segments(master: &PoolMaster, memory: &Recording) -> usize {
        let mut objects = 0;
        master.objects(memory, |_| objects += 1).unwrap();
        objects - 1
    }

    #[test]
    fn what_a_large_batch_needed_is_not_followed_and_goes_again() {
        let memory = Recording::pool(1 << 20, 64 << 20).unwrap();
        let heap = Heap::format(memory.clone(), HeapOptions::default()).unwrap();
        let mut lane = heap.lane(0);
        let mut directory = Directory::new(1, 1, 1);
        let mut master = PoolMaster::create(&mut lane, &directory, 0).unwrap();
        let error = master.reserve(&mut lane, master.max_entries() + 1);
        assert!(matches!(error, Err(StorageError::TransactionTooLarge { .. })), "{error:?}");
        let large = 300 * SEGMENT_ENTRIES;
        batch(&mut master, &mut lane, large);
        let (opened, list) = PoolMaster::open(&heap, master.root, &mut directory).unwrap();
        let known = opened.segments[opened.current as usize].len();
        assert_eq!((list.len() as u64, known), (large, 300));
        batch(&mut master, &mut lane, 3);
        batch(&mut master, &mut lane, 3);
        let (mut master, list) = PoolMaster::open(&heap, master.root, &mut directory).unwrap();
        assert_eq!(list.len(), 3);
        assert!(segments(&master, &memory) > 200, "there are many still");
        assert!(master.segments.iter().all(Vec::is_empty), "of which opening has followed none");
        (0..12).for_each(|_| batch(&mut master, &mut lane, 3));
        assert!(segments(&master, &memory) <= 2 * KEPT_SEGMENTS);
        let mut persisted = 0;
        heap.for_each_persisted(|_, _| persisted += 1).unwrap();
        assert_eq!(persisted, 1 + segments(&master, &memory), "the others are free");
        batch(&mut master, &mut lane, 2000);
        let (_, list) = PoolMaster::open(&heap, master.root, &mut directory).unwrap();
        assert_eq!(list.len(), 2000);
    }
}
