//! The part of the allocator that all lanes share: the superblock, the supply of chunks, names.
//!
//! Opening reads the superblock and the mini-transaction logs of the lanes, nothing else: it takes
//! the same time for every size of data. What is in the chunks is found out when they are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use pm::{Bad, Memory, Off, Range};
use zerocopy::IntoBytes;

use crate::classes::{CLASSES, Shape};
use crate::error::HeapError;
use crate::known::HandedOut;
use crate::lane::Lane;
use crate::layout::{
    BLOCK_CLASS, ChunkTag, HIGH_WATER, LANE_AREA_BYTES, NAME_BYTES, NAME_SET, NameEntry,
    SUPERBLOCK_AT, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC, Superblock, TAKEN_AT, directory_names,
    lanes_at, name_at,
};
use crate::mini;
use crate::purpose::Purpose;
use crate::shared::{Heap, Hints, Shared, Supply, bitmap_word};
use crate::span::object_at;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest name of a root, in bytes.
pub const MAX_NAME_BYTES: usize = NAME_BYTES;

/// Options for formatting a heap.
#[derive(Clone, Copy, Debug)]
pub struct HeapOptions {
    /// Bytes of a chunk: a power of two from 8 KiB to 4 MiB. An object that is larger takes
    /// neighbouring chunks.
    pub chunk_bytes: u64,
    /// The number of lanes from the start: one for each partition. There is room for as many names,
    /// and for 62 at least. [`crate::Lanes`] has more.
    pub lanes: u32,
}

impl Default for HeapOptions {
    fn default() -> Self {
        Self { chunk_bytes: 256 << 10, lanes: 1 }
    }
}

/// Says how much of the memory is used for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkUse {
    /// The purpose of the chunk's slots; `None` for a chunk that is free, or holds lanes.
    pub purpose: Option<Purpose>,
    /// The number of lanes in the block of lanes that the chunk is part of; 0 where it is of none.
    pub lanes: u32,
    /// The lane that the chunk belongs to; in a block of lanes, the first one.
    pub lane: u16,
    /// Bytes of each slot.
    pub slot_bytes: u64,
    /// Slots in the chunk.
    pub slots: u64,
    /// Persisted slots.
    pub persisted: u64,
}

impl<M: Memory> Heap<M> {
    /// Lays an empty heap out over a memory, whose bytes after the pool header are zero.
    ///
    /// # Errors
    /// The options are impossible, or the memory cannot grow to the size of the fixed parts.
    pub fn format(memory: M, options: HeapOptions) -> Result<Self, HeapError> {
        let HeapOptions { chunk_bytes, lanes } = options;
        if !chunk_bytes.is_power_of_two() || !(8 << 10..=4 << 20).contains(&chunk_bytes) {
            return Err(HeapError::Options { what: format!("chunks of {chunk_bytes} bytes") });
        }
        if lanes == 0 || lanes > 4096 {
            return Err(HeapError::Options { what: format!("{lanes} lanes") });
        }
        let names = directory_names(lanes);
        let chunks_at = lanes_at(names) + u64::from(lanes) * LANE_AREA_BYTES;
        memory.grow(chunks_at)?;
        let mut superblock = Superblock {
            magic: SUPERBLOCK_MAGIC,
            chunk_bytes,
            lanes,
            names,
            chunks_at,
            reserved: [0; 3],
            checksum: 0,
        };
        superblock.checksum = checksum(&superblock);
        // In one line, the magic last: where it is seen, the rest is.
        memory.copy(Off::new(SUPERBLOCK_AT + 8), &superblock.as_bytes()[8..]);
        memory.store(Off::new(SUPERBLOCK_AT), superblock.magic);
        memory.flush(Range::new(SUPERBLOCK_AT, size_of::<Superblock>() as u64));
        memory.fence();
        Ok(Self::assemble(memory, &superblock, 0))
    }

    /// Opens the heap that a memory holds. Finishes the mini-transactions that a crash cut off.
    ///
    /// # Errors
    /// [`HeapError::Unformatted`]; the superblock is damaged.
    pub fn open(memory: M) -> Result<Self, HeapError> {
        if memory.len() < SUPERBLOCK_AT + SUPERBLOCK_BYTES {
            return Err(HeapError::Unformatted);
        }
        let superblock: Superblock = memory.read(Off::new(SUPERBLOCK_AT))?;
        if superblock.magic == 0 {
            // Where something has been allocated or named, it was there once.
            let first_name: NameEntry = memory.read(name_at(0))?;
            if memory.load(HIGH_WATER, Acquire)? == 0 && first_name.state == 0 {
                return Err(HeapError::Unformatted);
            }
        }
        let damaged = Bad::Damaged { what: "heap superblock", at: SUPERBLOCK_AT };
        if superblock.magic != SUPERBLOCK_MAGIC || superblock.checksum != checksum(&superblock) {
            return Err(damaged.into());
        }
        let areas = u64::from(superblock.lanes) * LANE_AREA_BYTES;
        // What lanes write into their areas is not checked again.
        if memory.len() < superblock.chunks_at
            || superblock.chunks_at != lanes_at(superblock.names) + areas
        {
            return Err(damaged.into());
        }
        let high_water = memory.load(HIGH_WATER, Acquire)?;
        let room = memory.len().saturating_sub(superblock.chunks_at) / superblock.chunk_bytes;
        if high_water > room {
            return Err(Bad::Damaged { what: "heap high-water mark", at: HIGH_WATER.get() }.into());
        }
        let heap = Self::assemble(memory, &superblock, high_water);
        heap.make_durable()?;
        Ok(heap)
    }

    /// A killed process may have stored what is not durable. What the heap goes by from now on
    /// becomes so, before anything is made that needs it: the mark, names, blocks of lanes, tags of
    /// chunks that were just taken, mini-transactions.
    fn make_durable(&self) -> Result<(), HeapError> {
        let (memory, high_water) = (&self.0.memory, self.supply().high_water);
        memory.flush_word(HIGH_WATER);
        for index in 0..self.0.names {
            let entry: NameEntry = memory.read(name_at(index))?;
            // They are set one after the other, each durably before the next.
            if entry.state != NAME_SET {
                break;
            }
            memory.flush(name_at(index).range());
        }
        let blocks = self.read_blocks()?;
        let fixed = (0..self.0.lanes).map(|lane| self.lane_at(lane));
        let in_blocks =
            blocks.iter().flat_map(|block| block.numbers().map(|lane| self.area_in(*block, lane)));
        for area in fixed.chain(in_blocks) {
            mini::finish(memory, area)?;
            let taken = memory.load(Off::new(area.start + TAKEN_AT), Acquire)?;
            if (1..=high_water).contains(&taken) {
                memory.flush_word(Off::<u64>::new(self.chunk_at(taken as u32 - 1)));
            }
        }
        memory.fence();
        self.hand_out_later(blocks);
        Ok(())
    }

    fn assemble(memory: M, superblock: &Superblock, high_water: u64) -> Self {
        let mut shapes = Box::new([Shape::default(); CLASSES]);
        for (class, shape) in shapes.iter_mut().enumerate() {
            *shape = Shape::new(class, superblock.chunk_bytes, superblock.chunks_at);
        }
        Self(Arc::new(Shared {
            memory,
            chunk_bytes: superblock.chunk_bytes,
            chunk_shift: superblock.chunk_bytes.trailing_zeros(),
            chunks_at: superblock.chunks_at,
            lanes: superblock.lanes,
            names: superblock.names,
            span_object_at: object_at(superblock.chunks_at),
            shapes,
            supply: Mutex::new(Supply {
                high_water,
                free: BTreeSet::new(),
                spans: BTreeMap::new(),
                blocks: Vec::new(),
                hints: Hints::Unknown,
            }),
            owned: Mutex::new(vec![false; superblock.lanes as usize]),
            all_lanes: AtomicU32::new(superblock.lanes),
            handed_out: Mutex::new(HandedOut::default()),
        }))
    }

    /// The memory under the heap.
    pub fn memory(&self) -> &M {
        &self.0.memory
    }

    /// Returns the number of lanes for [`Self::lane`]. Those in blocks are [`crate::Lanes`]'
    /// affair.
    pub fn lanes(&self) -> u32 {
        self.0.lanes
    }

    /// Bytes of the largest object that shares its chunks with others. Larger ones, up to
    /// [`crate::span::MAX_OBJECT_BYTES`], take whole chunks.
    pub fn max_slot_bytes(&self) -> u64 {
        let fits = |shape: &&Shape| shape.slots > 0;
        self.0.shapes.iter().rev().find(fits).map_or(0, |shape| u64::from(shape.slot_bytes))
    }

    /// The lane numbered `number`, one of those that the heap was formatted with.
    ///
    /// # Panics
    /// There is no such lane, or it has an owner already.
    pub fn lane(&self, number: u32) -> Lane<M> {
        let mut owned = self.0.owned.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = &mut owned[number as usize];
        assert!(!*taken, "lane {number} has an owner");
        *taken = true;
        Lane::new(self.clone(), number)
    }

    pub(crate) fn return_lane(&self, number: u32) {
        self.0.owned.lock().unwrap_or_else(PoisonError::into_inner)[number as usize] = false;
    }

    pub(crate) fn supply(&self) -> MutexGuard<'_, Supply> {
        self.0.supply.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The area of a lane that is not in a block.
    pub(crate) fn lane_at(&self, lane: u32) -> Range {
        let start = lanes_at(self.0.names) + u64::from(lane) * LANE_AREA_BYTES;
        Range::new(start, LANE_AREA_BYTES)
    }

    /// Returns where chunk `number` starts.
    #[inline]
    pub(crate) fn chunk_at(&self, number: u32) -> u64 {
        self.0.chunks_at + (u64::from(number) << self.0.chunk_shift)
    }

    /// The chunk that holds the byte at `offset`.
    #[inline]
    pub(crate) fn chunk_of(&self, offset: u64) -> Option<u32> {
        let within = offset.checked_sub(self.0.chunks_at)?;
        u32::try_from(within >> self.0.chunk_shift).ok()
    }

    pub(crate) fn tag(&self, chunk: u32) -> Result<Option<ChunkTag>, Bad> {
        let at = self.chunk_at(chunk);
        let word = self.0.memory.load(Off::new(at), Acquire)?;
        let Some(tag) = ChunkTag::decode(word) else {
            return if word == 0 { Ok(None) } else { Err(Bad::Damaged { what: "chunk tag", at }) };
        };
        let shape = self.0.shapes.get(usize::from(tag.class));
        let sound = (tag.class >= BLOCK_CLASS || shape.is_some_and(|shape| shape.slots > 0))
            && Purpose::from_number(tag.purpose).is_some()
            && u32::from(tag.lane) < self.0.all_lanes.load(Relaxed);
        if sound { Ok(Some(tag)) } else { Err(Bad::Damaged { what: "chunk tag", at }) }
    }

    /// Returns whether the object at `offset` is persisted.
    ///
    /// # Errors
    /// There is no slot at this offset.
    pub fn is_persisted(&self, offset: u64) -> Result<bool, Bad> {
        let wild = Bad::Damaged { what: "object offset", at: offset };
        let chunk = self.chunk_of(offset).ok_or(wild)?;
        let tag = self.tag(chunk)?.ok_or(wild)?;
        let (shape, _) = self.shape_of(chunk, tag)?;
        let slot = shape.slot_of(offset - self.chunk_at(chunk)).ok_or(wild)?;
        let word = self.0.memory.load(bitmap_word(self.chunk_at(chunk), slot), Acquire)?;
        Ok(word & (1 << (slot % 64)) != 0)
    }

    /// Checks that there is a slot or a span at `offset` with room for `bytes` bytes.
    ///
    /// # Errors
    /// It is not so.
    pub fn has_room(&self, offset: u64, bytes: u64) -> Result<(), Bad> {
        let wild = Bad::Damaged { what: "object offset", at: offset };
        let chunk = self.chunk_of(offset).ok_or(wild)?;
        if u64::from(chunk) >= self.supply().high_water {
            return Err(wild);
        }
        let (shape, _) = self.shape_of(chunk, self.tag(chunk)?.ok_or(wild)?)?;
        shape.slot_of(offset - self.chunk_at(chunk)).ok_or(wild)?;
        if u64::from(shape.slot_bytes) < bytes {
            return Err(Bad::Damaged { what: "length of an object", at: offset });
        }
        Ok(())
    }

    /// Calls `visit` with the offset and the slot size of every persisted object.
    ///
    /// # Errors
    /// A chunk is damaged.
    pub fn for_each_persisted(&self, mut visit: impl FnMut(u64, u64)) -> Result<(), Bad> {
        let chunks = self.supply().high_water as u32;
        let mut next = 0;
        while next < chunks {
            let chunk = next;
            next += 1;
            let Some(tag) = self.tag(chunk)? else { continue };
            let (shape, many) = self.shape_of(chunk, tag)?;
            next = chunk + many;
            let start = self.chunk_at(chunk);
            for slot in 0..shape.slots {
                let word = self.0.memory.load(bitmap_word(start, slot), Acquire)?;
                if word & (1 << (slot % 64)) != 0 {
                    visit(start + shape.offset_of(slot), u64::from(shape.slot_bytes));
                }
            }
        }
        Ok(())
    }

    /// Returns the use of each chunk, in their order in the memory. Those after the first one of a
    /// span have no slots. Blocks of lanes have none at all.
    ///
    /// # Errors
    /// A chunk is damaged.
    pub fn chunk_use(&self) -> Result<Vec<ChunkUse>, Bad> {
        let (chunks, free) = {
            let supply = self.supply();
            (supply.high_water as u32, supply.free.clone())
        };
        let nothing =
            ChunkUse { purpose: None, lanes: 0, lane: 0, slot_bytes: 0, slots: 0, persisted: 0 };
        let mut uses = Vec::with_capacity(chunks as usize);
        while uses.len() < chunks as usize {
            let chunk = uses.len() as u32;
            let tag = if free.contains(&chunk) { None } else { self.tag(chunk)? };
            let Some(tag) = tag else {
                uses.push(nothing);
                continue;
            };
            let (shape, many) = self.shape_of(chunk, tag)?;
            let mut persisted = 0;
            for word in 0..shape.words() as u32 {
                let at = bitmap_word(self.chunk_at(chunk), word * 64);
                persisted += u64::from(self.0.memory.load(at, Acquire)?.count_ones());
            }
            let block = self.supply().block_of(tag.lane).filter(|_| tag.class == BLOCK_CLASS);
            let lanes = block.map_or(0, |block| block.lanes);
            let here = ChunkUse {
                purpose: Purpose::from_number(tag.purpose).filter(|_| lanes == 0),
                lanes,
                lane: tag.lane,
                slot_bytes: u64::from(shape.slot_bytes),
                slots: u64::from(shape.slots),
                persisted,
            };
            uses.push(here);
            let more = ChunkUse { slot_bytes: 0, slots: 0, persisted: 0, ..here };
            uses.extend((1..many).map(|_| more));
        }
        Ok(uses)
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> u64 {
        self.0.chunk_bytes
    }

    /// The root that `name` stands for.
    ///
    /// # Errors
    /// The directory lies outside the memory.
    pub fn root(&self, name: &str) -> Result<Option<u64>, HeapError> {
        // Setting a name writes more than a word.
        let _no_name_is_set = self.supply();
        Ok(self.find_name(name)?.map(|(_, entry)| entry.root))
    }

    /// All names with their roots.
    ///
    /// # Errors
    /// The directory lies outside the memory.
    pub fn roots(&self) -> Result<Vec<(String, u64)>, HeapError> {
        let mut roots = Vec::new();
        let _no_name_is_set = self.supply();
        for index in 0..self.0.names {
            let entry: NameEntry = self.0.memory.read(name_at(index))?;
            if entry.state == NAME_SET {
                let end = entry.name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
                let name = String::from_utf8_lossy(&entry.name[..end]).into_owned();
                roots.push((name, entry.root));
            }
        }
        Ok(roots)
    }

    fn find_name(&self, name: &str) -> Result<Option<(u32, NameEntry)>, HeapError> {
        let padded = pad_name(name)?;
        for index in 0..self.0.names {
            let entry: NameEntry = self.0.memory.read(name_at(index))?;
            if entry.state == NAME_SET && entry.name == padded {
                return Ok(Some((index, entry)));
            }
        }
        Ok(None)
    }

    /// Makes `name` stand for `root`, atomically and durably: an existing name by one 8-byte
    /// store, a new one by the store of its state after the rest is durable.
    ///
    /// # Errors
    /// The name is too long, or the directory full.
    pub fn set_root(&self, name: &str, root: u64) -> Result<(), HeapError> {
        let memory = &self.0.memory;
        // One change at a time: the supply's lock serves.
        let _alone = self.supply();
        if let Some((index, _)) = self.find_name(name)? {
            let at: Off<u64> = name_at(index).plus(NAME_BYTES as u64);
            memory.store(at, root);
            memory.flush_word(at);
            memory.fence();
            return Ok(());
        }
        for index in 0..self.0.names {
            let at = name_at(index);
            let entry: NameEntry = memory.read(at)?;
            if entry.state != NAME_SET {
                let entry = NameEntry { name: pad_name(name)?, root, state: 0 };
                memory.copy(at.plus(0), entry.as_bytes());
                // The entry is one line: its stores persist in order, the state last.
                memory.store(at.plus(NAME_BYTES as u64 + 8), NAME_SET);
                memory.flush(at.range());
                memory.fence();
                return Ok(());
            }
        }
        Err(HeapError::NamesFull { max: self.0.names as usize })
    }
}

fn pad_name(name: &str) -> Result<[u8; NAME_BYTES], HeapError> {
    let mut padded = [0; NAME_BYTES];
    if name.is_empty() || name.len() > NAME_BYTES || name.contains('\0') {
        return Err(HeapError::BadName { name: name.into(), max: NAME_BYTES });
    }
    padded[..name.len()].copy_from_slice(name.as_bytes());
    Ok(padded)
}

fn checksum(superblock: &Superblock) -> u64 {
    u64::from(crc32c::crc32c(&superblock.as_bytes()[..size_of::<Superblock>() - 8]))
}
