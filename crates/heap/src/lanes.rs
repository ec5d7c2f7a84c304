//! Lanes that are handed out and taken back: one for each thread or session, while it needs one.
//!
//! The lanes with which a heap was formatted have numbers and owners for good. Those of [`Lanes`] lie
//! in blocks ([`crate::block`]) that are made when all of them have owners. Who takes one gets, in
//! this order, one that another owner of this process has dropped, with all that is known of its
//! chunks; one that was not taken since the heap was opened; one of a new block.
//!
//! Invariants:
//! - A lane has one owner, or none. What is known of its chunks goes with it, so the next owner does
//!   not look for them again, and finds a slot that is neither free nor persisted as it is: taken.
//! - Only who has a lane stores to the bits of its chunks: they are changed without atomics. Another
//!   thread puts what it frees into the lane's queue. The lane frees it when it is taken, and before
//!   it takes a chunk.
//! - Nothing that a lane's last owner did is left to a fence of the next one.
//!
//! Locks: what is handed out before the supply, and before a queue.

use std::sync::atomic::Ordering::Relaxed;

use pm::{Bad, LineSet, Memory};

use crate::error::HeapError;
use crate::known::{Freed, HandedOut, Known, OnDrop, no_classes};
use crate::lane::{DISCOVER_STEP, Lane};
use crate::shared::{Block, Heap};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

impl HandedOut {
    fn add(&mut self, block: Block) {
        self.unused.extend(block.numbers());
        let queues = self.freed.len() + block.lanes as usize;
        self.freed.resize_with(queues, || Arc::new(Freed(Mutex::new(Vec::new()))));
    }
}

impl<M: Memory> Heap<M> {
    fn handed_out(&self) -> MutexGuard<'_, HandedOut> {
        self.0.handed_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of the blocks that were found when the heap was opened.
    pub(crate) fn hand_out_later(&self, blocks: Vec<Block>) {
        let mut handed_out = self.handed_out();
        blocks.iter().for_each(|block| handed_out.add(*block));
        handed_out.made_from = self.lanes() + handed_out.freed.len() as u32;
        self.0.all_lanes.store(handed_out.made_from, Relaxed);
        self.supply().blocks = blocks;
    }

    fn more_lanes(&self, handed_out: &mut HandedOut) -> Result<(), HeapError> {
        let block = match self.make_block() {
            Err(HeapError::Full(_)) => {
                self.find_free_chunks()?;
                self.make_block()?
            }
            block => block?,
        };
        handed_out.add(block);
        Ok(())
    }

    /// A lane of which nothing is known.
    fn unknown(&self, handed_out: &HandedOut, number: u32) -> Known {
        let supply = self.supply();
        let after = supply.blocks.partition_point(|block| block.first <= number);
        let new = number >= handed_out.made_from;
        Known {
            number,
            area: self.area_in(supply.blocks[after - 1], number),
            freed: Arc::clone(&handed_out.freed[(number - self.lanes()) as usize]),
            classes: no_classes(),
            chunks: Vec::new(),
            undiscovered: 0..if new { 0 } else { supply.high_water as u32 },
            recovered: new,
            kept: Vec::new(),
            emptied: false,
            damaged: false,
        }
    }

    /// Does something with each lane that has no owner and that `wanted` picks.
    fn with_idle(
        &self,
        handed_out: &mut HandedOut,
        wanted: impl Fn(&Known) -> bool,
        mut work: impl FnMut(&mut Lane<M>, &Freed) -> Result<(), Bad>,
    ) -> Result<(), Bad> {
        let waits = |number: &u32| {
            let freed = &handed_out.freed[(*number - self.lanes()) as usize];
            !freed.queue().is_empty()
        };
        let waiting: Vec<u32> = handed_out.unused.iter().copied().filter(waits).collect();
        for number in waiting {
            handed_out.unused.remove(&number);
            let known = self.unknown(handed_out, number);
            handed_out.idle.insert(0, known);
        }
        for index in 0..handed_out.idle.len() {
            if !wanted(&handed_out.idle[index]) {
                continue;
            }
            let known = handed_out.idle.remove(index);
            let freed = Arc::clone(&known.freed);
            let mut lane = Lane::known(self.clone(), known, OnDrop::Away);
            if handed_out.recovered {
                lane.recovered();
            }
            let done = work(&mut lane, &freed);
            let (emptied, damaged) = (done.is_ok(), done.is_err());
            let known = Known { emptied, damaged, ..lane.put_away(freed) };
            handed_out.idle.insert(index, known);
            done?;
        }
        Ok(())
    }

    /// Gives the empty chunks of lanes without an owner to all lanes. Returns whether it has looked
    /// at any.
    #[cold]
    pub(crate) fn empty_idle_lanes(&self) -> Result<bool, Bad> {
        let mut looked = false;
        let wanted = |known: &Known| !known.emptied || !known.freed.queue().is_empty();
        self.with_idle(&mut self.handed_out(), wanted, |lane, freed| {
            looked = true;
            lane.free_all(freed)?;
            while lane.discover(DISCOVER_STEP)? {}
            lane.give_back_empty();
            Ok(())
        })?;
        Ok(looked)
    }
}

/// The lanes of a heap that are handed out and taken back. Clones hand out the same ones.
///
/// ```
/// # fn main() -> Result<(), heap::HeapError> {
/// use heap::{Heap, HeapOptions, Lanes, Purpose};
/// let heap = Heap::format(pm::Dram::new(1 << 22).unwrap(), HeapOptions::default())?;
/// let lanes = Lanes::of(&heap);
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             let mut lane = lanes.take().unwrap();
///             lane.allocate(100, Purpose::Table).unwrap();
///         });
///     }
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Lanes<M: Memory>(Heap<M>);

impl<M: Memory> Lanes<M> {
    /// The lanes of this heap.
    pub fn of(heap: &Heap<M>) -> Self {
        Self(heap.clone())
    }

    /// Takes a lane without an owner; dropping it takes it back. The next owner finds its slots as
    /// this one leaves them: what is allocated, and neither persisted nor released, stays so until
    /// it is released ([`Self::give_back`]), or for as long as the heap is open. A lane whose
    /// owner has lost track of them is to be [abandoned](Lane::abandon).
    ///
    /// A mini-transaction that was not committed is forgotten when the lane is dropped, and one that
    /// was is over. What else its owner has flushed and not fenced is fenced by the thread that
    /// drops it; a fence covers only what its own thread has flushed, so who moves a lane to
    /// another thread fences first.
    ///
    /// # Errors
    /// There can be no more lanes; there is no room for them; damage.
    pub fn take(&self) -> Result<Lane<M>, HeapError> {
        let mut handed_out = self.0.handed_out();
        if handed_out.idle.is_empty() && handed_out.unused.is_empty() {
            self.0.more_lanes(&mut handed_out)?;
        }
        let sound = handed_out.idle.iter().rposition(|known| !known.damaged);
        let known = match sound {
            Some(index) => handed_out.idle.remove(index),
            None if !handed_out.unused.is_empty() => self.unused(&mut handed_out, None),
            None => handed_out.idle.pop().expect("one of them has a lane"),
        };
        self.hand_out(handed_out, known)
    }

    /// Takes the lane of the object at `offset`, if it has no owner: recovery marks, restores and
    /// releases what a log names there.
    ///
    /// # Errors
    /// There is no slot at this offset in any lane that is handed out; damage.
    pub fn take_owner(&self, offset: u64) -> Result<Option<Lane<M>>, HeapError> {
        let number = self.owner(offset)?;
        let mut handed_out = self.0.handed_out();
        let idle = handed_out.idle.iter().position(|known| known.number == number);
        let known = match idle {
            Some(index) => handed_out.idle.remove(index),
            None if handed_out.unused.contains(&number) => {
                self.unused(&mut handed_out, Some(number))
            }
            None => return Ok(None),
        };
        self.hand_out(handed_out, known).map(Some)
    }

    /// Takes a lane that was not used, this one or the first.
    fn unused(&self, handed_out: &mut HandedOut, number: Option<u32>) -> Known {
        let number = number.or_else(|| handed_out.unused.first().copied());
        let number = number.expect("the caller has seen one");
        handed_out.unused.remove(&number);
        self.0.unknown(handed_out, number)
    }

    /// Gives a lane an owner. Slots that others have given back to it are freed first.
    fn hand_out(
        &self,
        handed_out: MutexGuard<'_, HandedOut>,
        known: Known,
    ) -> Result<Lane<M>, HeapError> {
        let recovered = handed_out.recovered && !known.recovered;
        // A lane that is dropped asks for it.
        drop(handed_out);
        let freed = Arc::clone(&known.freed);
        let on_drop = OnDrop::HandedOut(Arc::clone(&freed));
        let mut lane = Lane::known(self.0.clone(), known, on_drop);
        if recovered {
            lane.recovered();
        }
        if let Err(bad) = lane.free_given_back() {
            lane.on_drop = OnDrop::Away;
            let known = Known { damaged: true, ..lane.put_away(freed) };
            self.0.handed_out().idle.insert(0, known);
            return Err(bad.into());
        }
        Ok(lane)
    }

    /// Sees to it that there are so many lanes without an owner, so that taking them needs no room.
    ///
    /// # Errors
    /// There can be no more lanes; there is no room for them.
    pub fn reserve(&self, many: u32) -> Result<(), HeapError> {
        let mut handed_out = self.0.handed_out();
        while handed_out.idle.len() + handed_out.unused.len() < many as usize {
            self.0.more_lanes(&mut handed_out)?;
        }
        Ok(())
    }

    /// Returns how many lanes are in blocks, those with an owner among them.
    pub fn count(&self) -> u32 {
        self.0.0.all_lanes.load(Relaxed) - self.0.lanes()
    }

    /// Says of all lanes what [`Lane::recovered`] says of one.
    pub fn recovered(&self) {
        self.0.handed_out().recovered = true;
    }

    /// Frees an object of whichever lane, from any thread: its lane clears the persisted bit, fences
    /// and releases the slot, when it next takes a chunk, when it is taken, or with [`Self::collect`].
    /// Nothing durable leads to the object any more, and no thread reads it.
    ///
    /// Until its lane has done so the object is persisted: the queue is volatile, so after a crash, and
    /// when the heap is closed, it is not known that it was to be freed. The caller has something durable
    /// by which its recovery frees the object once more, as after a crash between
    /// [`Lane::clear_persisted`] and its fence, until [`Self::collect`] has returned 0.
    ///
    /// # Errors
    /// There is no slot at this offset in any lane that is handed out.
    pub fn give_back(&self, offset: u64) -> Result<(), Bad> {
        let number = self.owner(offset)?;
        let freed = Arc::clone(&self.0.handed_out().freed[(number - self.0.lanes()) as usize]);
        freed.queue().push(offset);
        Ok(())
    }

    /// The lane that is handed out and has the slot at `offset`.
    fn owner(&self, offset: u64) -> Result<u32, Bad> {
        let heap = &self.0;
        let wild = Bad::Damaged { what: "object offset", at: offset };
        let chunk = heap.chunk_of(offset).ok_or(wild)?;
        let tag = heap.tag(chunk)?.ok_or(wild)?;
        let (shape, _) = heap.shape_of(chunk, tag)?;
        shape.slot_of(offset - heap.chunk_at(chunk)).ok_or(wild)?;
        Some(u32::from(tag.lane)).filter(|lane| *lane >= heap.lanes()).ok_or(wild)
    }

    /// Frees what was given back to lanes without an owner. Returns how many objects still wait, for
    /// lanes with one.
    ///
    /// # Errors
    /// Damage.
    pub fn collect(&self) -> Result<u64, Bad> {
        let mut handed_out = self.0.handed_out();
        let wanted = |known: &Known| !known.freed.queue().is_empty();
        self.0.with_idle(&mut handed_out, wanted, Lane::free_all)?;
        Ok(handed_out.freed.iter().map(|freed| freed.queue().len() as u64).sum())
    }
}

impl<M: Memory> Lane<M> {
    fn known(heap: Heap<M>, known: Known, on_drop: OnDrop) -> Self {
        let mut lane = Self::bare(heap, known.number, known.area, on_drop);
        lane.classes = known.classes;
        lane.chunks = known.chunks;
        lane.undiscovered = known.undiscovered;
        lane.recovered = known.recovered;
        lane.kept = known.kept;
        lane
    }

    fn put_away(&mut self, freed: Arc<Freed>) -> Known {
        Known {
            number: self.number,
            area: self.area,
            freed,
            classes: std::mem::take(&mut self.classes),
            chunks: std::mem::take(&mut self.chunks),
            undiscovered: self.undiscovered.clone(),
            recovered: self.recovered,
            kept: std::mem::take(&mut self.kept),
            emptied: false,
            damaged: false,
        }
    }

    /// Frees what other threads have given back to this lane.
    pub(crate) fn free_given_back(&mut self) -> Result<(), Bad> {
        match &self.on_drop {
            OnDrop::HandedOut(freed) => {
                let freed = Arc::clone(freed);
                self.free_all(&freed)
            }
            OnDrop::Fixed | OnDrop::Away => Ok(()),
        }
    }

    fn free_all(&mut self, freed: &Freed) -> Result<(), Bad> {
        // A mini-transaction that has begun has words with bits as they are now.
        if !self.mini.is_empty() {
            return Ok(());
        }
        let offsets = std::mem::take(&mut *freed.queue());
        if offsets.is_empty() {
            return Ok(());
        }
        // Nor may one of its words change before the end of the last one is durable.
        self.end_mini();
        let mut lines = LineSet::new();
        let cleared = offsets.iter().try_for_each(|at| self.clear_persisted(*at, &mut lines));
        lines.flush(self.memory());
        self.memory().fence();
        if cleared.is_err() {
            freed.queue().extend(offsets);
            return cleared;
        }
        offsets.into_iter().for_each(|at| self.release(at));
        Ok(())
    }

    /// Gives a lane that was handed out back, and forgets what was known of it: every slot that is
    /// not persisted is free for the next owner, which looks for the lane's chunks again. In volatile
    /// memory that is all slots. For an owner that has lost track of what it had allocated; from then
    /// on no thread uses, releases or gives back an object that was not persisted.
    ///
    /// # Errors
    /// Damage. The lane is given back all the same.
    pub fn abandon(mut self) -> Result<(), Bad> {
        if matches!(self.on_drop, OnDrop::Fixed) {
            // Its next owner looks for its chunks anyhow.
            return Ok(());
        }
        self.mini_cancel();
        if !M::DURABLE {
            self.clear();
            return Ok(());
        }
        // What waits may be a slot that was never persisted.
        let freed = self.free_given_back();
        self.classes = no_classes();
        self.chunks.clear();
        self.kept.clear();
        self.undiscovered = 0..self.heap.supply().high_water as u32;
        freed
    }
}

impl<M: Memory> Drop for Lane<M> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.on_drop, OnDrop::Away) {
            OnDrop::Fixed => self.heap.return_lane(self.number),
            OnDrop::HandedOut(freed) => {
                self.mini_cancel();
                self.end_mini();
                let known = self.put_away(freed);
                self.heap.handed_out().idle.push(known);
            }
            OnDrop::Away => {}
        }
    }
}
