//! The persisted bits of a lane's objects: set and cleared one by one, or several together in a
//! mini-transaction.

use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, LineSet, Memory, Off};

use crate::lane::Lane;
use crate::layout::{MINI_LOG_AT, MiniEntry};
use crate::mini;
use crate::shared::bitmap_word;

impl<M: Memory> Lane<M> {
    /// Sets the persisted bit of an allocated object, whose contents are durable. Adds the
    /// bitmap's line to `lines`; the change is durable when they are flushed and fenced.
    ///
    /// # Panics
    /// The offset is not that of an object of this lane.
    #[inline]
    #[track_caller]
    pub fn mark_persisted(&mut self, offset: u64, lines: &mut LineSet) {
        if !M::DURABLE {
            return;
        }
        let (number, slot) = match self.slot(offset) {
            Ok(place) => place,
            Err(bad) => not_ours(bad),
        };
        let word = bitmap_word(self.heap.chunk_at(number), slot);
        let bits = own_word(self.memory(), word);
        self.memory().store(word, bits | 1 << (slot % 64));
        lines.add(word.range());
    }

    /// Clears the persisted bit of an object; the slot stays taken until [`Self::release`].
    /// Clearing a bit that is clear changes nothing, so that recovery can repeat it.
    ///
    /// # Errors
    /// The offset, which may come from a damaged medium, is not that of a slot of this lane.
    #[inline]
    #[track_caller]
    pub fn clear_persisted(&mut self, offset: u64, lines: &mut LineSet) -> Result<(), Bad> {
        if !M::DURABLE {
            return Ok(());
        }
        let (number, slot) = self.slot(offset)?;
        let word = bitmap_word(self.heap.chunk_at(number), slot);
        let bits = self.memory().load(word, Acquire)?;
        self.memory().store(word, bits & !(1 << (slot % 64)));
        lines.add(word.range());
        Ok(())
    }

    /// Sets the persisted bit of an object that a durable list says is persisted, whatever its bit
    /// says; returns whether it was set. For opening, before anything is allocated: the lane has not
    /// looked at the object's chunk, or has found the object there.
    ///
    /// # Errors
    /// The offset, which comes from the medium, is not that of a slot of this lane.
    #[track_caller]
    pub fn restore(&mut self, offset: u64, lines: &mut LineSet) -> Result<bool, Bad> {
        let wild = Bad::Damaged { what: "object offset", at: offset };
        let number = self.heap.chunk_of(offset).ok_or(wild)?;
        if u64::from(number) >= self.heap.supply().high_water {
            return Err(wild);
        }
        let tag = self.heap.tag(number)?.filter(|tag| u32::from(tag.lane) == self.number);
        let (shape, _) = self.heap.shape_of(number, tag.ok_or(wild)?)?;
        let start = self.heap.chunk_at(number);
        let slot = shape.slot_of(offset - start).ok_or(wild)?;
        if let Some(Some(chunk)) = self.chunks.get(number as usize)
            && !chunk.is_taken(slot)
        {
            return Err(wild);
        }
        let word = bitmap_word(start, slot);
        let bits = self.memory().load(word, Acquire)?;
        self.memory().store(word, bits | 1 << (slot % 64));
        lines.add(word.range());
        Ok(bits & 1 << (slot % 64) != 0)
    }

    /// Adds a word to the mini-transaction that [`Self::mini_commit`] runs.
    pub fn mini_store(&mut self, at: Off<u64>, value: u64) {
        match self.mini.iter_mut().find(|entry| entry.at == at.get()) {
            Some(entry) => entry.value = value,
            None => self.mini.push(MiniEntry { at: at.get(), value }),
        }
    }

    /// Marks an object persisted as part of the mini-transaction.
    ///
    /// # Errors
    /// The offset is not that of a slot of this lane.
    pub fn mini_persist(&mut self, offset: u64) -> Result<(), Bad> {
        self.mini_bit(offset, true)
    }

    /// Frees a persisted object as part of the mini-transaction.
    ///
    /// # Errors
    /// The offset is not that of a slot of this lane.
    pub fn mini_free(&mut self, offset: u64) -> Result<(), Bad> {
        self.mini_bit(offset, false)?;
        self.mini_freed.push(offset);
        Ok(())
    }

    fn mini_bit(&mut self, offset: u64, set: bool) -> Result<(), Bad> {
        if !M::DURABLE {
            return Ok(());
        }
        let (number, slot) = self.slot(offset)?;
        let word = bitmap_word(self.heap.chunk_at(number), slot);
        let bits = match self.mini.iter().find(|entry| entry.at == word.get()) {
            Some(entry) => entry.value,
            None => self.memory().load(word, Acquire)?,
        };
        let bit = 1 << (slot % 64);
        self.mini_store(word, if set { bits | bit } else { bits & !bit });
        Ok(())
    }

    /// Makes all words of the mini-transaction change together, durably, with two fences. `lines`
    /// have been written and become durable before. The caller must fence once more, such as by
    /// [`Self::fence_flushed`], before one of these words changes in another way, and before another
    /// thread gets the lane: that one's fences do not cover what this one has flushed.
    #[track_caller]
    pub fn mini_commit(&mut self, lines: &mut LineSet) {
        mini::run(&self.heap.0.memory, self.area, &mut self.mini, lines);
        self.unfenced = M::DURABLE;
        self.mini.clear();
        while let Some(offset) = self.mini_freed.pop() {
            self.release(offset);
        }
    }

    /// Fences, if a mini-transaction or [`Self::flushed`] has left something to the next fence.
    #[inline]
    #[track_caller]
    pub fn fence_flushed(&mut self) {
        if std::mem::take(&mut self.unfenced) {
            self.memory().fence();
        }
    }

    /// Acts as [`Self::fence_flushed`], where another thread may have committed the last mini-transaction
    /// and flushed its end: this one's fence does not cover that.
    pub(crate) fn end_mini(&mut self) {
        if self.unfenced {
            self.memory().flush_word(Off::<u64>::new(self.area.start + MINI_LOG_AT));
            self.fence_flushed();
        }
    }

    /// Says that something has been flushed which [`Self::fence_flushed`] is to fence.
    pub fn flushed(&mut self) {
        self.unfenced = M::DURABLE;
    }

    /// Says that the caller has fenced, so that nothing is left to [`Self::fence_flushed`].
    #[inline]
    pub fn fenced(&mut self) {
        self.unfenced = false;
    }

    /// Forgets a mini-transaction that was not committed.
    pub fn mini_cancel(&mut self) {
        self.mini.clear();
        self.mini_freed.clear();
    }
}

#[inline]
fn own_word<M: Memory>(memory: &M, at: Off<u64>) -> u64 {
    match memory.load(at, Acquire) {
        Ok(word) => word,
        Err(bad) => not_ours(bad),
    }
}

#[cold]
#[inline(never)]
fn not_ours(bad: Bad) -> ! {
    panic!("an object that this lane did not allocate: {bad}");
}
