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
use pm::{Bad, LineSet, Memory};

use super::pool_master::ListEntry;

/// An object that is on its way out.
#[derive(Clone, Copy, Debug)]
struct Old {
    object: u64,
    /// The transaction that superseded it.
    at: u64,
}

impl Old {
    fn is_pinned(&self, pins: &[u64]) -> bool {
        pins.iter().any(|pin| *pin < self.at)
    }
}

/// What is to be done with the objects of a batch; see the module's comment.
#[derive(Default, Debug)]
pub struct ObjectBatch {
    /// Objects made since the last move, with the transaction that made them.
    new: MixMap<u64, u64>,
    /// Made by the open transaction.
    made: Vec<u64>,
    /// Superseded by the open transaction.
    replaced: Vec<u64>,
    superseded: Vec<Old>,
    cleared: Vec<Old>,
    held: Vec<Old>,
    /// Lines of bits that have changed, to be flushed with the next batch.
    pub lines: LineSet,
}

impl ObjectBatch {
    /// Does once more what the list of the last batch says.
    ///
    /// # Errors
    /// The list names something that is no object of the lane.
    #[track_caller]
    pub fn redo<M: Memory>(&mut self, lane: &mut Lane<M>, list: &[ListEntry]) -> Result<u64, Bad> {
        // All first: clearing looks at chunks, which must find every slot taken then. Those of
        // superseded objects stay so until the master record has moved.
        for entry in list {
            let (ListEntry::New(object) | ListEntry::Superseded(object)) = entry;
            lane.restore(*object, &mut self.lines)?;
        }
        for entry in list {
            if let ListEntry::Superseded(object) = entry {
                lane.clear_persisted(*object, &mut self.lines)?;
                self.cleared.push(Old { object: *object, at: 0 });
            }
        }
        Ok(self.cleared.len() as u64)
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

    /// How many entries the list of the batch would have, at most.
    pub fn entries(&self) -> u64 {
        (self.new.len() + self.replaced.len() + self.superseded.len()) as u64
    }

    /// The entries of the batch's list. `open` is the transaction that is open, or comes next: it
    /// is not part of the batch.
    pub fn list(&self, open: u64) -> impl Iterator<Item = ListEntry> {
        let new = self.new.iter().filter(move |(_, made)| **made != open);
        new.map(|(object, _)| ListEntry::New(*object))
            .chain(self.superseded.iter().map(|old| ListEntry::Superseded(old.object)))
    }

    /// Commits the open transaction, `number`.
    pub fn commit<M: Memory>(&mut self, lane: &mut Lane<M>, number: u64, pins: &[u64]) {
        self.made.clear();
        for object in self.replaced.drain(..) {
            let old = Old { object, at: number };
            if self.new.remove(&object).is_none() {
                self.superseded.push(old);
            } else if old.is_pinned(pins) {
                self.held.push(old);
            } else {
                lane.release(object);
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
    }

    /// The master record has moved, durably: bits change. They are durable with the next batch.
    /// Returns how many objects have become persisted, and how many are so no more.
    ///
    /// # Errors
    /// Damage.
    #[track_caller]
    pub fn settle<M: Memory>(
        &mut self,
        lane: &mut Lane<M>,
        open: u64,
        pins: &[u64],
    ) -> Result<(usize, usize), Bad> {
        let count = self.new.len();
        for old in self.cleared.drain(..) {
            if old.is_pinned(pins) {
                self.held.push(old);
            } else {
                lane.release(old.object);
            }
        }
        let lines = &mut self.lines;
        self.new.retain(|object, made| {
            if *made != open {
                lane.mark_persisted(*object, lines);
            }
            *made == open
        });
        for old in self.superseded.drain(..) {
            lane.clear_persisted(old.object, lines)?;
            self.cleared.push(old);
        }
        Ok((count - self.new.len(), self.cleared.len()))
    }

    /// Snapshots have gone: what only they kept is released.
    pub fn unpin<M: Memory>(&mut self, lane: &mut Lane<M>, pins: &[u64]) {
        self.held.retain(|old| {
            let pinned = old.is_pinned(pins);
            if !pinned {
                lane.release(old.object);
            }
            pinned
        });
    }

    /// Whether an object is not persisted yet, though committed transactions lead to it.
    pub fn is_new(&self, object: u64) -> bool {
        self.new.contains_key(&object)
    }

    /// Calls `visit` with every object that is persisted still, though no committed transaction
    /// leads to it any more.
    pub fn superseded(&self, visit: impl FnMut(u64)) {
        self.superseded.iter().map(|old| old.object).for_each(visit);
    }
}
