//! A lane: the allocator of one partition, or of one thread.
//!
//! Life of an object, in P1's durability states (P1 4.1):
//!
//! ```text
//! unallocated --allocate--> allocated --mark_persisted--> persisted
//!      ^                        |                             |
//!      +------- release --------+        clear_persisted ----+  (still taken)
//!      +------------------- release --------------------------+
//! ```
//!
//! After a crash a slot is persisted or unallocated: its bit says which.
//! `clear_persisted` and `release` are two steps, since the contents of a freed object must stay
//! as they are until nothing durable can lead to it any more.
//!
//! Allocation is rotating best fit (P1 2.3): the smallest class that fits, and in it a cursor that
//! goes round over the free slots, so that writes spread over the medium.

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, Memory, Off, Range};

use crate::chunk::Chunk;
use crate::classes::{CLASSES, SPAN_INDEX, class_of};
use crate::error::HeapError;
use crate::known::{Class, GONE, OnDrop, no_classes};
use crate::layout::{
    BLOCK_CLASS, ChunkTag, HIGH_WATER, HINT_CLASSES, MiniEntry, SPAN_CLASS, TAKEN_AT,
};
use crate::purpose::Purpose;
use crate::shared::{Heap, Hints, Met, bitmap_word};

/// The number of chunks that are looked at for free slots before a new one is taken from the
/// memory.
pub(crate) const DISCOVER_STEP: usize = 32;

/// Free slots of a class, in chunks, of which a lane keeps so many before it gives an empty chunk back.
const SPARE_CHUNKS: u64 = 2;

/// The allocator of one partition, or of one thread; see the module's comment.
#[derive(Debug)]
pub struct Lane<M: Memory> {
    pub(crate) heap: Heap<M>,
    pub(crate) number: u32,
    pub(crate) area: Range,
    pub(crate) classes: Vec<Class>,
    /// The knowledge of the lane's chunks, by chunk number.
    pub(crate) chunks: Vec<Option<Box<Chunk>>>,
    /// The next chunk that was there when the heap was opened and has not been looked at.
    pub(crate) undiscovered: std::ops::Range<u32>,
    /// True if nothing durable names a slot that is not persisted, so that an empty chunk
    /// belongs to no lane.
    pub(crate) recovered: bool,
    pub(crate) mini: Vec<MiniEntry>,
    pub(crate) mini_freed: Vec<u64>,
    /// The end of a mini-transaction has been flushed and not been fenced.
    pub(crate) unfenced: bool,
    /// Slots that are kept for when there is no room, by class, and whether they may be used.
    pub(crate) kept: Vec<(usize, Vec<u64>)>,
    uses_kept: bool,
    pub(crate) on_drop: OnDrop,
}

impl<M: Memory> Lane<M> {
    pub(crate) fn new(heap: Heap<M>, number: u32) -> Self {
        let there = heap.supply().high_water as u32;
        let area = heap.lane_at(number);
        let mut lane = Self::bare(heap, number, area, OnDrop::Fixed);
        lane.classes = no_classes();
        lane.undiscovered = 0..there;
        lane.recovered = there == 0;
        lane
    }

    /// A lane without classes.
    pub(crate) fn bare(heap: Heap<M>, number: u32, area: Range, on_drop: OnDrop) -> Self {
        Self {
            number,
            area,
            classes: Vec::new(),
            chunks: Vec::new(),
            undiscovered: 0..0,
            recovered: false,
            mini: Vec::new(),
            mini_freed: Vec::new(),
            unfenced: false,
            kept: Vec::new(),
            uses_kept: false,
            on_drop,
            heap,
        }
    }

    /// The memory under the heap.
    #[inline]
    pub fn memory(&self) -> &M {
        &self.heap.0.memory
    }

    /// The heap that the lane belongs to.
    pub fn heap(&self) -> &Heap<M> {
        &self.heap
    }

    /// Allocates a slot for `bytes` bytes, whose contents are arbitrary. Nothing durable changes
    /// that would have to be undone: after a crash the slot is free.
    ///
    /// # Errors
    /// The object is too large, or the memory is full.
    #[inline]
    pub fn allocate(&mut self, bytes: u64, purpose: Purpose) -> Result<u64, HeapError> {
        let class = match class_of(bytes) {
            Some(class) if self.heap.0.shapes[class].slots > 0 => class,
            _ => return self.allocate_span(bytes, purpose),
        };
        let index = purpose as usize * CLASSES + class;
        if self.classes[index].free == 0 {
            self.more(class, purpose)?;
        }
        Ok(self.take(index))
    }

    /// Takes a free slot of a class that has one.
    #[inline]
    fn take(&mut self, index: usize) -> u64 {
        let class = &mut self.classes[index];
        loop {
            let number = class.chunks[class.position];
            if number != GONE
                && let Some(chunk) = self.chunks[number as usize].as_deref_mut()
                && let Some(slot) = chunk.take_from(class.slot)
            {
                class.slot = slot + 1;
                class.free -= 1;
                if chunk.free == 0 {
                    class.with_space[class.position / 64] &= !(1 << (class.position % 64));
                }
                let at = self.heap.chunk_at(number) + chunk.shape.offset_of(slot);
                self.bring_next(index);
                return at;
            }
            class.position = next_set(&class.with_space, class.position + 1);
            class.slot = 0;
        }
    }

    /// Brings the slot that will be taken next, and its bit, closer: the cursor rotates, so that
    /// both are cold, and a flush would wait for them.
    #[inline]
    fn bring_next(&self, index: usize) {
        let class = &self.classes[index];
        if !M::DURABLE || class.free == 0 {
            return;
        }
        let chunk = |position: usize| {
            let number = class.chunks[position];
            Some((number, self.chunks.get(number as usize)?.as_deref()?))
        };
        let here = chunk(class.position)
            .and_then(|(number, chunk)| Some((number, chunk, chunk.free_from(class.slot)?)));
        let next = here.or_else(|| {
            let (number, chunk) = chunk(next_set(&class.with_space, class.position + 1))?;
            Some((number, chunk, chunk.free_from(0)?))
        });
        if let Some((number, chunk, slot)) = next {
            let start = self.heap.chunk_at(number);
            let bytes = u64::from(chunk.shape.slot_bytes).min(256);
            self.memory().prefetch(Range::new(start + chunk.shape.offset_of(slot), bytes));
            self.memory().prefetch(bitmap_word(start, slot).range());
        }
    }

    /// Finds free slots for a class that has none: in the chunk that the hint names, in chunks not
    /// looked at since opening, in a chunk that was given back, or in a fresh one. Where the memory
    /// cannot grow all chunks are looked at that were not yet, and all that are empty serve.
    #[cold]
    fn more(&mut self, class: usize, purpose: Purpose) -> Result<(), HeapError> {
        match self.find_more(class, purpose) {
            Err(HeapError::Full(_)) if self.take_kept(purpose as usize * CLASSES + class) => Ok(()),
            done => done,
        }
    }

    /// Looks for free slots of a class that has none, where it costs little; returns whether it has
    /// some now.
    fn look_around(&mut self, class: usize, purpose: Purpose) -> Result<bool, Bad> {
        let index = purpose as usize * CLASSES + class;
        if self.classes[index].free > 0 {
            return Ok(true);
        }
        if !std::mem::replace(&mut self.classes[index].hint_tried, true) {
            let hint = self.memory().load(self.hint(class, purpose), Acquire)?;
            if let Some(chunk) = u32::try_from(hint).ok().and_then(|hint| hint.checked_sub(1))
                && self.undiscovered.contains(&chunk)
            {
                // A hint is only a hint: what it names is checked like any other chunk.
                self.learn(chunk, Met::Named)?;
            }
        }
        if self.classes[index].free == 0 {
            self.discover(DISCOVER_STEP)?;
        }
        Ok(self.classes[index].free > 0)
    }

    fn find_more(&mut self, class: usize, purpose: Purpose) -> Result<(), HeapError> {
        let index = purpose as usize * CLASSES + class;
        self.free_given_back()?;
        if self.look_around(class, purpose)? {
            return Ok(());
        }
        let Err(full) = self.carve(class, purpose) else { return Ok(()) };
        if !matches!(full, HeapError::Full(_)) {
            return Err(full);
        }
        while self.classes[index].free == 0 && self.discover(DISCOVER_STEP)? {}
        if self.classes[index].free > 0 {
            return Ok(());
        }
        self.give_back_empty();
        match self.carve(class, purpose) {
            Err(HeapError::Full(_)) if self.heap.empty_idle_lanes()? => self.carve(class, purpose),
            done => done,
        }
    }

    /// Gives all empty chunks back, which no other lane can use while they are kept.
    pub(crate) fn give_back_empty(&mut self) {
        let known = if self.recovered { self.chunks.len() } else { 0 };
        for number in 0..known as u32 {
            if self.chunks[number as usize].as_deref().is_some_and(Chunk::is_empty) {
                self.give_back(number);
            }
        }
    }

    /// Keeps so many slots for `bytes` bytes back, as far as there is room, for when there is none:
    /// see [`Self::use_kept`]. Nothing durable says so. `grow`: the memory may grow for them.
    ///
    /// # Errors
    /// Damage.
    pub fn keep(
        &mut self,
        bytes: u64,
        purpose: Purpose,
        many: usize,
        grow: bool,
    ) -> Result<(), HeapError> {
        let Some(class) = class_of(bytes) else { return Ok(()) };
        let index = purpose as usize * CLASSES + class;
        let (of_class, have) = match self.kept.iter().position(|kept| kept.0 == index) {
            Some(found) => (found, self.kept[found].1.len()),
            None => {
                self.kept.push((index, Vec::new()));
                (self.kept.len() - 1, 0)
            }
        };
        for _ in have..many {
            if !grow && !self.look_around(class, purpose)? {
                break;
            }
            // Never what is kept already.
            let uses_kept = std::mem::replace(&mut self.uses_kept, false);
            let slot = self.allocate(bytes, purpose);
            self.uses_kept = uses_kept;
            match slot {
                Ok(slot) => self.kept[of_class].1.push(slot),
                Err(HeapError::Full(_)) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sets whether an allocation that finds no room takes a slot that is kept back.
    pub fn use_kept(&mut self, use_them: bool) {
        self.uses_kept = use_them;
    }

    /// Makes a slot of a class free that has been kept back, if it may and there is one.
    fn take_kept(&mut self, index: usize) -> bool {
        let kept = self.kept.iter_mut().find(|kept| kept.0 == index);
        match kept.filter(|_| self.uses_kept).and_then(|kept| kept.1.pop()) {
            Some(slot) => {
                self.release(slot);
                true
            }
            None => false,
        }
    }

    /// The owner has recovered: from now on nothing durable names a slot of this lane that is not
    /// persisted, but for slots that were allocated and not released since. Until then chunks that
    /// are empty are not given to others: a log may name their slots.
    pub fn recovered(&mut self) {
        self.recovered = true;
        let spans = &self.classes[SPAN_INDEX..];
        let spans: Vec<u32> = spans.iter().flat_map(|class| &class.chunks).copied().collect();
        for number in spans {
            let chunk = self.chunks.get(number as usize).and_then(Option::as_deref);
            if chunk.is_some_and(Chunk::is_empty) {
                self.give_back(number);
            }
        }
    }

    /// Looks at up to `chunks` chunks that were there when the heap was opened. Returns whether
    /// there are more.
    ///
    /// # Errors
    /// A chunk is damaged.
    pub fn discover(&mut self, chunks: usize) -> Result<bool, Bad> {
        for _ in 0..chunks {
            let Some(chunk) = self.undiscovered.next() else { return Ok(false) };
            let next = self.learn(chunk, Met::InTurn)?;
            self.undiscovered.start = self.undiscovered.start.max(next);
        }
        Ok(!self.undiscovered.is_empty())
    }

    /// Fills in what is known of a chunk from its persisted bits, if it is ours and not known yet;
    /// returns which one comes after it.
    fn learn(&mut self, number: u32, met: Met) -> Result<u32, Bad> {
        if let Some(Some(chunk)) = self.chunks.get(number as usize) {
            return Ok(number + self.heap.chunks_of(chunk));
        }
        let (tag, shape, many) = match self.heap.chunk_or_end(number, met)? {
            Ok(chunk) => chunk,
            Err(next) => return Ok(next),
        };
        if u32::from(tag.lane) != self.number || tag.class == BLOCK_CLASS {
            return Ok(number + many);
        }
        let start = self.heap.chunk_at(number);
        let mut persisted = Vec::with_capacity(shape.words());
        for word in 0..shape.words() as u32 {
            persisted.push(self.memory().load(bitmap_word(start, word * 64), Acquire)?);
        }
        let is_span = tag.class == SPAN_CLASS;
        let index = match usize::from(tag.purpose) {
            purpose if is_span => SPAN_INDEX + purpose,
            purpose => purpose * CLASSES + usize::from(tag.class),
        };
        let chunk = Chunk::new(shape, index as u16, persisted);
        let empty = chunk.is_empty();
        self.adopt(number, chunk);
        if is_span && empty && self.recovered {
            self.give_back(number);
        }
        Ok(number + many)
    }

    pub(crate) fn adopt(&mut self, number: u32, mut chunk: Chunk) {
        let class = &mut self.classes[usize::from(chunk.class)];
        let position = class.gone.pop().unwrap_or(class.chunks.len());
        if position == class.chunks.len() {
            class.chunks.push(number);
        }
        class.chunks[position] = number;
        class.with_space.resize(class.chunks.len().div_ceil(64), 0);
        if chunk.free > 0 {
            class.with_space[position / 64] |= 1 << (position % 64);
        }
        class.free += u64::from(chunk.free);
        chunk.position = position as u32;
        if self.chunks.is_empty() {
            // Room for all chunks at once, which is not touched yet: zeros come from the system as they are needed.
            // To store them would cost the first allocation after an opening time that grows with the memory.
            let there = self.undiscovered.end.max(number + 1);
            self.chunks = vec![None; there as usize];
        } else if self.chunks.len() <= number as usize {
            self.chunks.resize_with(number as usize + 1, || None);
        }
        self.chunks[number as usize] = Some(Box::new(chunk));
    }

    /// Takes a chunk for a class, one that was given back or a fresh one. Its tag is durable when
    /// this returns: a log entry or a mini-transaction that names one of its slots may be durable
    /// before the next fence.
    fn carve(&mut self, class: usize, purpose: Purpose) -> Result<(), HeapError> {
        let shape = self.heap.0.shapes[class];
        let tag = ChunkTag { class: class as u8, purpose: purpose as u8, lane: self.number as u16 };
        let heap = self.heap.clone();
        let memory = heap.memory();
        let mut supply = heap.supply();
        let number = if let Some(number) = supply.free.pop_last() {
            // The bitmap of the new class may lie where slots of the old one did. The chunk has
            // no tag, or no persisted slot under its old one, so a crash in between is harmless.
            let bitmap = Range::new(
                heap.chunk_at(number) + crate::layout::CHUNK_HEADER_BYTES,
                shape.words() as u64 * 8,
            );
            memory.copy(Off::new(bitmap.start), &vec![0; bitmap.len as usize]);
            memory.flush(bitmap);
            memory.fence();
            number
        } else {
            let number = u32::try_from(supply.high_water)
                .ok()
                .filter(|number| *number < u32::MAX - 1)
                .ok_or(HeapError::Options { what: "more than 2^32 chunks".into() })?;
            memory.grow(heap.chunk_at(number) + heap.chunk_bytes())?;
            supply.high_water += 1;
            memory.store(HIGH_WATER, supply.high_water);
            memory.flush_word(HIGH_WATER);
            number
        };
        // Before the tag: a thread that sees that one stored knows that it may not be durable.
        memory.store(self.taken_at(), u64::from(number) + 1);
        let at = Off::<u64>::new(heap.chunk_at(number));
        memory.store(at, tag.encode());
        memory.flush_word(at);
        // Only a hint: it may be lost.
        memory.store(self.hint(class, purpose), u64::from(number) + 1);
        if supply.hints == Hints::Durable {
            supply.hints = Hints::Stored;
        }
        // Before another lane stores a hint the mark is durable. If not, a hint could reach the medium
        // that names a chunk beyond the next fresh one; a fresh span, for which no hint goes, could
        // have that chunk inside.
        memory.fence();
        drop(supply);
        let index = purpose as usize * CLASSES + class;
        self.adopt(number, Chunk::new(shape, index as u16, vec![0; shape.words()]));
        Ok(())
    }

    /// Returns where the lane says which chunk it took last. Nothing makes the word durable: it is
    /// for the process after a kill, which sees it and not whether the chunk's tag is durable.
    pub(crate) fn taken_at(&self) -> Off<u64> {
        Off::new(self.area.start + TAKEN_AT)
    }

    fn hint(&self, class: usize, purpose: Purpose) -> Off<u64> {
        Off::new(self.area.start + (purpose as u64 * HINT_CLASSES + class as u64) * 8)
    }

    /// The chunk that holds the object at `offset`, made known if it is not, and the object's slot.
    #[inline]
    pub(crate) fn slot(&mut self, offset: u64) -> Result<(u32, u32), Bad> {
        let wild = Bad::Damaged { what: "object offset", at: offset };
        let number = self.heap.chunk_of(offset).ok_or(wild)?;
        if self.chunks.get(number as usize).is_none_or(Option::is_none) {
            if u64::from(number) >= self.heap.supply().high_water {
                return Err(wild);
            }
            self.learn(number, Met::Named)?;
        }
        let chunk = self.chunks.get(number as usize).and_then(|chunk| chunk.as_deref());
        let chunk = chunk.ok_or(wild)?;
        let slot = chunk.shape.slot_of(offset - self.heap.chunk_at(number)).ok_or(wild)?;
        Ok((number, slot))
    }

    /// Makes a slot available again. Its persisted bit is durably clear, or was never set, and
    /// nothing durable leads to it. A slot that is available already stays so: only recovery,
    /// which repeats what a crash cut off, does that.
    #[inline]
    pub fn release(&mut self, offset: u64) {
        let Ok((number, slot)) = self.slot(offset) else { return };
        let Some(chunk) = self.chunks[number as usize].as_deref_mut() else { return };
        if !chunk.is_taken(slot) {
            return;
        }
        let class = &mut self.classes[usize::from(chunk.class)];
        let position = chunk.position as usize;
        if chunk.free == 0 {
            class.with_space[position / 64] |= 1 << (position % 64);
        }
        chunk.give_back(slot);
        class.free += 1;
        // Recovery may yet look for another slot of it, which a log names and no bit shows.
        if chunk.is_empty() && self.recovered {
            let spare = class.free > SPARE_CHUNKS * u64::from(chunk.shape.slots);
            if spare || usize::from(chunk.class) >= SPAN_INDEX {
                self.give_back(number);
            }
        }
    }

    /// Gives an empty chunk to the lane that needs one next.
    #[cold]
    fn give_back(&mut self, number: u32) {
        let Some(chunk) = self.chunks[number as usize].take() else { return };
        let class = &mut self.classes[usize::from(chunk.class)];
        let position = chunk.position as usize;
        class.gone.push(position);
        class.free -= u64::from(chunk.shape.slots);
        class.chunks[position] = GONE;
        class.with_space[position / 64] &= !(1 << (position % 64));
        // Another lane may take the chunk at once. What a mini-transaction of this one has
        // changed in it must not be changed once more by a record that is not durably gone.
        self.end_mini();
        if usize::from(chunk.class) >= SPAN_INDEX {
            return self.give_back_span(number, self.heap.chunks_of(&chunk));
        }
        let heap = self.heap.clone();
        let mut supply = heap.supply();
        // The next opening of the heap finds that it belongs to no lane; where this is lost it is still the
        // lane's. Under the lock: the next tag comes after it.
        let tag = Off::<u64>::new(heap.chunk_at(number));
        heap.memory().store(tag, 0);
        heap.memory().flush_word(tag);
        supply.free.insert(number);
    }

    /// Gives every object of the lane back at once, and all its chunks to the lanes that need them next.
    /// Only for volatile memory, where no object is ever persisted.
    ///
    /// # Panics
    /// The memory is durable.
    pub fn clear(&mut self) {
        assert!(!M::DURABLE, "objects in durable memory are freed one by one");
        assert!(self.undiscovered.is_empty(), "a volatile lane knows all its chunks");
        let mut supply = self.heap.supply();
        for (number, chunk) in self.chunks.drain(..).enumerate() {
            if let Some(chunk) = chunk {
                let number = number as u32;
                supply.spans.remove(&number);
                supply.free.extend(number..number + self.heap.chunks_of(&chunk));
            }
        }
        drop(supply);
        // What waits to be freed is gone with the rest.
        if let OnDrop::HandedOut(freed) = &self.on_drop {
            freed.forget();
        }
        self.classes.iter_mut().for_each(|class| *class = Class::default());
        self.kept.clear();
    }
}

/// The first set bit from `from` on, going round; there is one.
#[inline]
fn next_set(bits: &[u64], from: usize) -> usize {
    let (word, bit) = (from / 64, from % 64);
    if let Some(first) = bits.get(word) {
        let here = first & (!0 << bit);
        if here != 0 {
            return word * 64 + here.trailing_zeros() as usize;
        }
    }
    let after = bits.iter().enumerate().skip(word + 1);
    for (index, word) in after.chain(bits.iter().enumerate()) {
        if *word != 0 {
            return index * 64 + word.trailing_zeros() as usize;
        }
    }
    unreachable!("a class with free slots has a chunk with space")
}
