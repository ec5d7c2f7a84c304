//! Indexes: maps from a key to the newest version that has it and may count. An index lies in ordinary memory, and
//! is rebuilt after opening, from the newest row down; or it lies in persistent memory, and needs no rebuilding
//! (P4 4.3).
//!
//! An entry in the index of the primary key is the newest version of its key. In a secondary index, a version that
//! was replaced by one with another key keeps its entry: a reader that comes to it looks for the version that it
//! sees, which may have that key or not.
//!
//! A row is used again when no snapshot sees its version any more, so its id does not show when it was made. While
//! an index is built, the newer one of two versions that were there when the store was opened counts; a search
//! that finds nothing, or a version that has ended, goes through the rows that are not indexed yet (P4 4.4).
//!
//! In persistent memory, in the steps of `statement`:
//! - Room for a new key is taken, and written, before the fence: nothing after it can fail for want of room. After
//!   a crash the room is free.
//! - After the fence the room becomes part of the index, durably: one mini-transaction for all indexes. For an
//!   existing key the row is stored, and its line is flushed before the next fence.
//! - Recovery repeats both for the last two statements of each slot, where the index leads to older versions.
//! - A key is taken out, or led to another row, durably, before its row is used again.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use heap::Lane;
use pm::{LineSet, Memory};
use smallvec::SmallVec;

use crate::Result;
use crate::latch::Latch;
use crate::placement::Uses;
use crate::skip_list::SkipList;
use crate::unbuilt::IndexBacklog;

#[derive(Debug)]
enum Rows<M> {
    Ordinary(BTreeMap<OrdinaryKey, u64>),
    Durable(SkipList<M>),
}

/// A key in ordinary memory. Most keys have at most eight bytes: these are one number, which is compared without
/// loading the key's bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct OrdinaryKey {
    /// The first eight bytes, padded with zeros.
    head: u64,
    /// The number of them that are the key's. Of two keys with one head, the shorter one is a prefix of the other.
    of_head: u8,
    /// The bytes after the head, inline if they are few.
    rest: SmallVec<[u8; 16]>,
}

impl OrdinaryKey {
    #[inline]
    fn new(key: &[u8]) -> Self {
        let (head, rest) = key.split_at(key.len().min(8));
        let mut word = [0; 8];
        word[..head.len()].copy_from_slice(head);
        Self { head: u64::from_be_bytes(word), of_head: head.len() as u8, rest: rest.into() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(usize::from(self.of_head) + self.rest.len());
        bytes.extend_from_slice(&self.head.to_be_bytes()[..usize::from(self.of_head)]);
        bytes.extend_from_slice(&self.rest);
        bytes
    }
}

/// The room of a key in an index, while the key's stripe is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    /// Ordinary memory needs no preparation.
    Ordinary,
    /// The node that has the key.
    There(u64),
    /// A node that nothing leads to yet.
    New(u64),
}

#[derive(Debug)]
pub(crate) struct KeyIndex<M> {
    rows: Rows<M>,
    /// The rows from 1 to below this one are not in it.
    pub(crate) unbuilt: u64,
    pub(crate) uses: Uses,
    /// The backlog of searches among the rows that are not in it.
    pub(crate) backlog: IndexBacklog,
}

impl<M: Memory> KeyIndex<M> {
    /// An empty index in ordinary memory, of a table that had `opened` rows.
    pub(crate) fn ordinary(opened: u64, uses: Uses) -> Self {
        let backlog = IndexBacklog::default();
        Self { rows: Rows::Ordinary(BTreeMap::new()), unbuilt: opened.max(1), uses, backlog }
    }

    /// An index in persistent memory, which has all rows.
    pub(crate) fn durable(list: SkipList<M>, uses: Uses) -> Self {
        Self { rows: Rows::Durable(list), unbuilt: 1, uses, backlog: IndexBacklog::default() }
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.list().is_some()
    }

    /// The list, if the index lies in persistent memory.
    pub(crate) fn list(&self) -> Option<&SkipList<M>> {
        match &self.rows {
            Rows::Ordinary(_) => None,
            Rows::Durable(list) => Some(list),
        }
    }

    /// The newest version of a key, for a transaction: a use of the index.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<u64>> {
        self.uses.count();
        self.peek(key)
    }

    /// The newest version of a key, for the store's own work, which is no use of the index.
    pub(crate) fn peek(&self, key: &[u8]) -> Result<Option<u64>> {
        match &self.rows {
            Rows::Ordinary(rows) => Ok(rows.get(&OrdinaryKey::new(key)).copied()),
            Rows::Durable(list) => list.find(key)?.map(|node| list.row(node)).transpose(),
        }
    }

    /// Room for a key. The lines of a new node, which have to be durable before it is linked, are added to `lines`.
    #[track_caller]
    pub(crate) fn prepare(
        &self,
        key: &[u8],
        lane: &Latch<Lane<M>>,
        lines: &mut LineSet,
    ) -> Result<Room> {
        let Rows::Durable(list) = &self.rows else { return Ok(Room::Ordinary) };
        match list.find(key)? {
            Some(node) => Ok(Room::There(node)),
            None => list.prepare(key, &mut lane.write(), lines).map(Room::New),
        }
    }

    /// Stores the row of a new node: as [`Self::prepare`].
    #[track_caller]
    pub(crate) fn fill(&self, room: Room, row: u64, lines: &mut LineSet) {
        if let (Rows::Durable(list), Room::New(node)) = (&self.rows, room) {
            list.store_row(node, row, lines);
        }
    }

    /// Makes this row the newest of its key, unless that has a new node. The line that changes is added to `lines`.
    #[track_caller]
    pub(crate) fn set(&mut self, key: &[u8], room: Room, row: u64, lines: &mut LineSet) {
        match (&mut self.rows, room) {
            (Rows::Ordinary(rows), _) => drop(rows.insert(OrdinaryKey::new(key), row)),
            (Rows::Durable(list), Room::There(node)) => list.store_row(node, row, lines),
            (Rows::Durable(_), _) => unreachable!("a key that is not there"),
        }
    }

    /// Leads a key that is there to another row.
    #[track_caller]
    pub(crate) fn replace(&mut self, key: &[u8], row: u64, lines: &mut LineSet) -> Result<()> {
        let room = match &self.rows {
            Rows::Ordinary(_) => Room::Ordinary,
            Rows::Durable(list) => match list.find(key)? {
                Some(node) => Room::There(node),
                None => return Ok(()),
            },
        };
        self.set(key, room, row, lines);
        Ok(())
    }

    /// Adds the line of a key's row, if the key is in an index in persistent memory.
    pub(crate) fn add_line(&self, key: &[u8], lines: &mut LineSet) -> Result<()> {
        let Rows::Durable(list) = &self.rows else { return Ok(()) };
        if let Some(node) = list.find(key)? {
            list.add_row(node, lines);
        }
        Ok(())
    }

    /// Takes a key out, durably.
    #[track_caller]
    pub(crate) fn remove(&mut self, key: &[u8], lane: &Latch<Lane<M>>) -> Result<()> {
        match &mut self.rows {
            Rows::Ordinary(rows) => drop(rows.remove(&OrdinaryKey::new(key))),
            Rows::Durable(list) => list.remove(key, &mut lane.write())?,
        }
        Ok(())
    }

    /// The number of keys in it, if it lies in ordinary memory.
    pub(crate) fn len(&self) -> usize {
        match &self.rows {
            Rows::Ordinary(rows) => rows.len(),
            Rows::Durable(_) => 0,
        }
    }

    /// Up to `many` keys of a range, with their newest versions, from its start or from its end.
    pub(crate) fn some(&self, range: &KeyRange, many: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        self.uses.count();
        self.peek_some(range, many)
    }

    /// Works as [`Self::some`], for the store's own work.
    pub(crate) fn peek_some(&self, range: &KeyRange, many: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let rows = match &self.rows {
            Rows::Ordinary(rows) => rows,
            Rows::Durable(list) => return list.some(range, many),
        };
        let owned = |(key, row): (&OrdinaryKey, &u64)| (key.bytes(), *row);
        let bound = |bound: &Bound<Vec<u8>>| bound.as_ref().map(|key| OrdinaryKey::new(key));
        let found = rows.range((bound(&range.low), bound(&range.high)));
        Ok(if range.backward {
            found.rev().take(many).map(owned).collect()
        } else {
            found.take(many).map(owned).collect()
        })
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// A range of keys of an index, and the direction in which it is scanned.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KeyRange {
    /// The lower bound.
    pub low: Bound<Vec<u8>>,
    /// The upper bound.
    pub high: Bound<Vec<u8>>,
    /// True to scan from the highest key down.
    pub backward: bool,
}

impl KeyRange {
    /// All keys, from the lowest one on.
    pub const ALL: Self = Self { low: Bound::Unbounded, high: Bound::Unbounded, backward: false };

    /// The keys that begin with these bytes.
    pub(crate) fn starting_with(start: &[u8]) -> Self {
        let mut end = start.to_vec();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        let high = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        Self { low: Bound::Included(start.to_vec()), high, backward: false }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        (as_slice(&self.low), as_slice(&self.high)).contains(key)
    }

    fn is_empty(&self) -> bool {
        let (Bound::Included(low) | Bound::Excluded(low)) = &self.low else { return false };
        match &self.high {
            Bound::Unbounded => false,
            Bound::Included(high) if matches!(self.low, Bound::Included(_)) => low > high,
            Bound::Included(high) | Bound::Excluded(high) => low >= high,
        }
    }

    /// Restricts the range to the keys after `last`.
    pub(crate) fn go_on_after(&mut self, last: Vec<u8>) {
        *(if self.backward { &mut self.high } else { &mut self.low }) = Bound::Excluded(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_ordinary_memory_are_in_the_order_of_their_bytes() {
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for len in [1, 2, 7, 8, 9, 12, 24, 25, 40] {
            for last in [0, 1, 0x7f, 0xff] {
                for fill in [0, 1, 0xff] {
                    let mut key = vec![fill; len];
                    key[len - 1] = last;
                    keys.push(key);
                }
            }
        }
        for one in &keys {
            let ordinary = OrdinaryKey::new(one);
            assert_eq!(ordinary.bytes(), *one);
            for other in &keys {
                assert_eq!(
                    ordinary.cmp(&OrdinaryKey::new(other)),
                    one.cmp(other),
                    "{one:?} {other:?}"
                );
            }
        }
    }
}
