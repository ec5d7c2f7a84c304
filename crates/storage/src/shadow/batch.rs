//! The objects of a heap that a batch of transactions has made and superseded: tuples and fields
//! that are never changed in place (P1 4.2).
//!
//! | object | its bit | its slot |
//! |---|---|---|
//! | made by the open transaction | clear | released when that aborts |
//! | made in the batch, superseded in it | clear | released when the second transaction commits |
//! | made in the batch | set when the master record has moved | - |
//! | superseded in the batch | cleared when the master record has moved | released when it has moved once more: until then opening would clear the bit again |
//!
//! A slot that a snapshot may read is released when the snapshot has gone. Its bit is clear by
//! then, so that a crash frees it.

use heap::Lane;
use index::clock::MixMap;
use index::cow::{Held, Old};
use pm::{Bad, LineSet, Memory};

use super::pool_master::ListEntry;

/// Objects with the transactions that made them.
type Births = MixMap<u64, u64>;

/// Objects for which there is room after a large batch: a commit looks at all of the room.
const ROOM: usize = 4096;

/// The objects of a batch and what is to be done with them; see the module's comment.
#[derive(Default, Debug)]
pub struct ObjectBatch {
    /// Objects made since the last move, with the transaction that made them.
    new: Births,
    /// Objects made in earlier batches while there was a snapshot, with the same: no snapshot from
    /// before sees them.
    young: Births,
    /// Made by the open transaction.
    made: Vec<u64>,
    /// Superseded by the open transaction.
    replaced: Vec<u64>,
    superseded: Vec<Old>,
    cleared: Vec<Old>,
    held: Held,
    /// Lines of bits that have changed, to be flushed with the next batch.
    pub lines: LineSet,
}

impl ObjectBatch {
    /// Does once more what the list of the last batch says. Returns how many objects it ends, and
    /// whether anything of it had not been done.
    ///
    /// # Errors
    /// The list names something that is no object of the lane.
    #[track_caller]
    pub fn redo<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        list: &[ListEntry],
    ) -> Result<(u64, bool), Bad> {
        // All first: clearing looks at chunks, which must find every slot taken then. Those of
        // superseded objects stay so until the master record has moved.
        let mut unfinished = false;
        for entry in list {
            let (ListEntry::New(object) | ListEntry::Superseded(object)) = entry;
            let was_set = lane.restore(*object, &mut self.lines)?;
            unfinished |= was_set != matches!(entry, ListEntry::New(_));
        }
        for entry in list {
            if let ListEntry::Superseded(object) = entry {
                lane.clear_persisted(*object, &mut self.lines)?;
                self.cleared.push(Old { what: *object, birth: 0, at: 0 });
            }
        }
        Ok((self.cleared.len() as u64, unfinished))
    }

    /// The open transaction, `number`, has made objects.
    pub fn made(&mut self, objects: &[u64], number: u64) {
        for object in objects {
            self.new.insert(*object, number);
        }
        self.made.extend_from_slice(objects);
    }

    /// The open transaction has superseded an object.
    pub fn replaced(&mut self, object: u64) {
        self.replaced.push(object);
    }

    /// Returns how many entries the list of the batch would have, at most.
    pub fn entries(&self) -> u64 {
        (self.new.len() + self.replaced.len() + self.superseded.len()) as u64
    }

    /// The entries of the batch's list. `open` is the transaction that is open, or comes next: it
    /// is not part of the batch.
    pub fn list(&self, open: u64) -> impl Iterator<Item = ListEntry> {
        let new = self.new.iter().filter(move |(_, made)| **made != open);
        new.map(|(object, _)| ListEntry::New(*object))
            .chain(self.superseded.iter().map(|old| ListEntry::Superseded(old.what)))
    }

    /// Commits the open transaction, `number`.
    pub fn commit<M: Memory>(&mut self, lane: &mut Lane<M>, number: u64, pins: &[u64]) {
        self.made.clear();
        for what in self.replaced.drain(..) {
            let new = self.new.remove(&what);
            let birth = new.or_else(|| self.young.remove(&what)).unwrap_or(0);
            let old = Old { what, birth, at: number };
            if new.is_none() {
                self.superseded.push(old);
            } else if !self.held.keep(old, pins) {
                lane.release(what);
            }
        }
    }

    /// Undoes the open transaction.
    pub fn abort<M: Memory>(&mut self, lane: &mut Lane<M>) {
        self.replaced.clear();
        for object in self.made.drain(..) {
            self.new.remove(&object);
            lane.release(object);
        }
        self.shrink();
    }

    /// Gives the room of a large batch back.
    fn shrink(&mut self) {
        for births in [&mut self.new, &mut self.young] {
            if births.capacity() > 4 * births.len().max(ROOM) {
                births.shrink_to(ROOM);
            }
        }
    }

    /// The master record has moved, durably: bits change. They are durable with the next batch.
    /// Returns how many objects have become persisted, and how many are so no more.
    ///
    /// # Errors
    /// Damage.
    #[track_caller]
    pub fn change_bits<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        open: u64,
        pins: &[u64],
    ) -> Result<(usize, usize), Bad> {
        let count = self.new.len();
        for old in self.cleared.drain(..) {
            if !self.held.keep(old, pins) {
                lane.release(old.what);
            }
        }
        if pins.is_empty() {
            self.young.clear();
        }
        let Self { lines, young, .. } = self;
        self.new.retain(|object, made| {
            if *made != open {
                lane.mark_persisted(*object, lines);
                if !pins.is_empty() {
                    young.insert(*object, *made);
                }
            }
            *made == open
        });
        for old in self.superseded.drain(..) {
            lane.clear_persisted(old.what, lines)?;
            self.cleared.push(old);
        }
        let done = (count - self.new.len(), self.cleared.len());
        self.shrink();
        Ok(done)
    }

    /// Snapshots have gone: what only they kept is released.
    pub fn unpin<M: Memory>(&mut self, lane: &mut Lane<M>, pins: &[u64]) {
        self.held.unpin(pins, |old| lane.release(old.what));
    }

    /// Returns whether an object is not persisted yet, though committed transactions lead to it.
    pub fn is_new(&self, object: u64) -> bool {
        self.new.contains_key(&object)
    }

    /// Calls `visit` with every object that is persisted still, though no committed transaction
    /// leads to it any more.
    pub fn superseded(&self, visit: impl FnMut(u64)) {
        self.superseded.iter().map(|old| old.what).for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use heap::{Heap, HeapOptions, Purpose};
    use sim::Recording;

    use super::*;

    fn lane() -> Lane<Recording> {
        let memory = Recording::pool(1 << 20, 16 << 20).unwrap();
        Heap::format(memory, HeapOptions::default()).unwrap().lane(0)
    }

    /// A transaction that is a batch of its own and makes so many objects.
    fn make(batch: &mut ObjectBatch, lane: &mut Lane<Recording>, objects: u64, number: u64) -> u64 {
        let mut last = 0;
        for _ in 0..objects {
            last = lane.allocate(8, Purpose::Table).unwrap();
            batch.made(&[last], number);
        }
        last
    }

    #[test]
    fn after_a_large_batch_commits_are_cheap_again() {
        let mut lane = lane();
        for commit in [true, false] {
            let mut batch = ObjectBatch::default();
            make(&mut batch, &mut lane, 40_000, 1);
            assert!(batch.new.capacity() >= 40_000);
            if commit {
                batch.commit(&mut lane, 1, &[]);
                batch.change_bits(&mut lane, 2, &[]).unwrap();
            } else {
                batch.abort(&mut lane);
            }
            // Each list and each settling looks at all of it.
            assert!(batch.new.capacity() <= 2 * ROOM, "{}", batch.new.capacity());
        }
    }

    /// Opening clears once more what the last batch has superseded. Its slot is free when the next
    /// one is durable: until then another opening would clear it yet again.
    #[test]
    fn what_opening_has_cleared_is_free_after_the_next_batch() {
        let mut lines = LineSet::new();
        let mut lane = lane();
        let old = lane.allocate(8, Purpose::Table).unwrap();
        lane.mark_persisted(old, &mut lines);
        let image = lane.memory().contents();
        let memory = Recording::from_image(&image, 16 << 20).unwrap();
        let mut lane = Heap::open(memory).unwrap().lane(0);
        let mut batch = ObjectBatch::default();
        let done = batch.redo(&mut lane, &[ListEntry::Superseded(old)]).unwrap();
        lane.recovered();
        // More than a chunk has: its free slots go before another chunk is taken.
        let is_given_out = |lane: &mut Lane<Recording>| {
            (0..40_000).any(|_| lane.allocate(8, Purpose::Table).unwrap() == old)
        };
        assert!(!is_given_out(&mut lane), "before the next batch");
        batch.change_bits(&mut lane, 1, &[]).unwrap();
        assert!(is_given_out(&mut lane), "after it");
        assert_eq!(done, (1, true));
    }

    #[test]
    fn a_snapshot_keeps_only_what_it_sees() {
        let (mut lane, mut batch) = (lane(), ObjectBatch::default());
        let pins = [1];
        let mut current = make(&mut batch, &mut lane, 1, 1);
        batch.commit(&mut lane, 1, &pins);
        batch.change_bits(&mut lane, 2, &pins).unwrap();
        let first = current;
        for number in 2..200 {
            let next = make(&mut batch, &mut lane, 1, number);
            batch.replaced(current);
            batch.commit(&mut lane, number, &pins);
            batch.change_bits(&mut lane, number + 1, &pins).unwrap();
            current = next;
            assert!(batch.held.len() <= 1, "{} copies of one object", batch.held.len());
        }
        assert_eq!(batch.held.iter().map(|old| old.what).collect::<Vec<_>>(), [first]);
        batch.unpin(&mut lane, &[]);
        assert!(batch.held.is_empty());
    }
}
