//! A hash table in persistent memory (P4 5: one of the forms of its secondary structures): a map from keys to a
//! word each, for lookups of equal keys.
//!
//! ```text
//! head     buckets u64 | nodes u64 | zeros, to a line | array of buckets: the first node of each
//! node     row | key's length u32, its hash u32 | next node of its bucket | key
//! ```
//!
//! It grows by a bucket at a time (linear hashing). Of `n` buckets, and `m` the largest power of two that is at
//! most `n`, the next one takes from bucket `n - m` the nodes that belong to bucket `n` of `2m`. So no change is
//! longer than a chain, and only the nodes of one chain move.
//!
//! Invariants, after every crash:
//! - Every node is in the bucket that its hash says, once, and their number is that of the head: all words of a
//!   change are in one mini-transaction of the heap, which takes the node as well.
//! - A node's key is durable before anything leads to it.
//! - The row is a separate word, which the table's owner stores and makes durable.
//! - Buckets after the last one, in an existing segment, are empty.
//!
//! The owner has a latch: no thread reads while another one links.

use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use pm::{Bad, LineSet, Memory, Off, Range, View};

use crate::Result;
use crate::array::{Array, Shape, zeroed};
use crate::layout::{HASH_ARRAY_AT, NODE_NEXT_AT, NODE_SIZE_AT};
use crate::seed::Seed;

/// After the one word that leads on.
const KEY_AT: u64 = NODE_NEXT_AT + 8;
/// A longer chain is not split: one mini-transaction has room for 316 words. With a secret seed there is none.
const MOST_PARTED: usize = 100;

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct HashTable<M> {
    memory: M,
    head: u64,
    seed: Seed,
    buckets: Array<u64>,
}

impl<M: Memory> HashTable<M> {
    /// The table whose head is at `head`, of a store with this seed; zeros are an empty one.
    pub(crate) fn new(memory: &M, head: u64, shape: Shape, seed: Seed) -> Self {
        let buckets = Array::new(head + HASH_ARRAY_AT, shape);
        Self { memory: memory.clone(), head, seed, buckets }
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    fn many_at(&self) -> Off<u64> {
        Off::new(self.head)
    }

    fn nodes_at(&self) -> Off<u64> {
        Off::new(self.head + 8)
    }

    fn load(&self, at: Off<u64>) -> Result<u64> {
        Ok(self.memory.load(at, Acquire)?)
    }

    /// A hash is never zero: zeros are no node.
    fn hash(&self, key: &[u8]) -> u32 {
        (self.seed.of_key(key) as u32).max(1)
    }

    /// The bucket of a hash, of so many.
    fn bucket_of(hash: u32, many: u64) -> u64 {
        let most = many.next_power_of_two();
        let bucket = u64::from(hash) & (most - 1);
        if bucket < many { bucket } else { bucket - most / 2 }
    }

    /// The word that leads to the first node of a bucket.
    fn first_at(&self, bucket: u64) -> Result<Off<u64>> {
        let shape = self.buckets.shape;
        let segment = shape.segment(bucket);
        let place = *self.buckets.segment(&self.memory, segment, Ok)?;
        Ok(Off::new(place + (bucket - shape.start(segment)) * 8))
    }

    fn next_at(node: u64) -> Off<u64> {
        Off::new(node.saturating_add(NODE_NEXT_AT))
    }

    /// The length of a node's key, and its hash.
    fn size(&self, node: u64) -> Result<(u32, u32)> {
        let word = self.load(Off::new(node.saturating_add(NODE_SIZE_AT)))?;
        Ok((word as u32, (word >> 32) as u32))
    }

    fn has_key(&self, node: u64, length: u32, key: &[u8]) -> Result<bool> {
        if length as usize != key.len() {
            return Ok(false);
        }
        let view = self.memory.view(Range::new(node + KEY_AT, length.into()))?;
        Ok(view.bytes(0, key.len()).equal(key))
    }

    /// The nodes of a bucket, in their order.
    fn chain(&self, bucket: u64) -> Result<Vec<u64>> {
        let most = self.load(self.nodes_at())?;
        let (mut chain, mut node) = (Vec::new(), self.load(self.first_at(bucket)?)?);
        while node != 0 {
            if chain.len() as u64 >= most || !node.is_multiple_of(8) {
                return Err(Bad::Damaged { what: "bucket of an index", at: self.head }.into());
            }
            chain.push(node);
            node = self.load(Self::next_at(node))?;
        }
        Ok(chain)
    }

    /// The node of a key.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<u64>> {
        let many = self.load(self.many_at())?;
        if many == 0 {
            return Ok(None);
        }
        let hash = self.hash(key);
        let mut node = self.load(self.first_at(Self::bucket_of(hash, many))?)?;
        let mut left = None;
        while node != 0 {
            let (length, there) = self.size(node)?;
            if there == hash && self.has_key(node, length, key)? {
                return Ok(Some(node));
            }
            let next = self.load(Self::next_at(node))?;
            // More nodes than there are lead to each other.
            let most = left.map_or_else(|| self.load(self.nodes_at()), Ok)?;
            let damaged = Bad::Damaged { what: "bucket of an index", at: self.head };
            left = Some(most.checked_sub(1).ok_or(damaged)?);
            if !next.is_multiple_of(8) {
                return Err(damaged.into());
            }
            node = next;
        }
        Ok(None)
    }

    /// The word of a node; the owner defines its meaning.
    pub(crate) fn row(&self, node: u64) -> Result<u64> {
        self.load(Off::new(node))
    }

    /// Stores the word of a node.
    #[track_caller]
    pub(crate) fn store_row(&self, node: u64, row: u64, lines: &mut LineSet) {
        let at = Off::<u64>::new(node);
        self.memory.store(at, row);
        lines.add(at.range());
    }

    /// Makes a node that nothing leads to yet, for a key that is not in the table: after a crash it is free. Its
    /// row is stored by [`Self::store_row`]. All of it has to be durable before [`Self::link`]. Makes room in the
    /// table first.
    #[track_caller]
    pub(crate) fn prepare(
        &self,
        key: &[u8],
        lane: &mut Lane<M>,
        lines: &mut LineSet,
    ) -> Result<u64> {
        self.grow(lane)?;
        let length = u32::try_from(key.len()).expect("a key is far shorter than 4 GiB");
        let bytes = KEY_AT + u64::from(length);
        let node = lane.allocate(bytes, Purpose::Index)?;
        let word = u64::from(length) | u64::from(self.hash(key)) << 32;
        self.memory.store(Off::new(node + NODE_SIZE_AT), word);
        self.memory.copy(Off::new(node + KEY_AT), key);
        lines.add(Range::new(node, bytes));
        Ok(node)
    }

    /// Adds to the lane's mini-transaction the words that lead to a node, whose key is not in the table.
    pub(crate) fn link(&self, node: u64, lane: &mut Lane<M>) -> Result<()> {
        let many = self.load(self.many_at())?;
        let first = self.first_at(Self::bucket_of(self.size(node)?.1, many))?;
        lane.mini_persist(node)?;
        lane.mini_store(Self::next_at(node), self.load(first)?);
        lane.mini_store(first, node);
        lane.mini_store(self.nodes_at(), self.load(self.nodes_at())? + 1);
        Ok(())
    }

    /// Adds a bucket if there are as many nodes, durably; the first ones together.
    fn grow(&self, lane: &mut Lane<M>) -> Result<()> {
        let many = self.load(self.many_at())?;
        if self.load(self.nodes_at())? < many {
            return Ok(());
        }
        let shape = self.buckets.shape;
        let segment = shape.segment(many);
        if self.buckets.place(&self.memory, segment)?.is_none() {
            let place = zeroed(lane, shape.elements(segment) * 8)?;
            self.memory.fence();
            self.buckets.add(lane, segment, place, &[place])?;
        }
        if many == 0 {
            // The shape's first segment is a power of two.
            lane.mini_store(self.many_at(), shape.elements(0));
        } else if let Err(error) = self.part(many, lane) {
            lane.mini_cancel();
            return Err(error);
        }
        lane.mini_commit(&mut LineSet::new());
        lane.fence_flushed();
        Ok(())
    }

    /// Adds to the lane's mini-transaction the words that make bucket `many`.
    fn part(&self, many: u64, lane: &mut Lane<M>) -> Result<()> {
        let half = 1 << many.ilog2();
        let chain = self.chain(many - half)?;
        if chain.len() > MOST_PARTED {
            return Ok(());
        }
        let mut last = [self.first_at(many - half)?, self.first_at(many)?];
        for node in chain {
            let belongs = usize::from(Self::bucket_of(self.size(node)?.1, many + 1) == many);
            lane.mini_store(last[belongs], node);
            last[belongs] = Self::next_at(node);
        }
        last.into_iter().for_each(|end| lane.mini_store(end, 0));
        lane.mini_store(self.many_at(), many + 1);
        Ok(())
    }

    /// Checks every node; calls `visit` with each, and with each object of the array of buckets.
    ///
    /// # Errors
    /// A node is damaged, or in another bucket than its own, or is not counted.
    pub(crate) fn check(&self, mut visit: impl FnMut(u64)) -> Result<()> {
        let damaged = |at| Bad::Damaged { what: "node of an index", at };
        self.buckets.pages(&self.memory)?.into_iter().for_each(&mut visit);
        self.buckets.segments(&self.memory)?.into_iter().for_each(&mut visit);
        let (many, mut nodes) = (self.load(self.many_at())?, 0);
        for bucket in 0..many {
            for node in self.chain(bucket)? {
                let (length, hash) = self.size(node)?;
                let view = self.memory.view(Range::new(node + KEY_AT, length.into()))?;
                let key = view.bytes(0, length as usize).to_vec();
                if hash != self.hash(&key) || Self::bucket_of(hash, many) != bucket {
                    return Err(damaged(node).into());
                }
                visit(node);
                nodes += 1;
            }
        }
        let counted = self.load(self.nodes_at())?;
        if nodes == counted { Ok(()) } else { Err(damaged(self.head).into()) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use heap::{Heap, HeapOptions};
    use sim::Recording;

    use super::*;
    use crate::layout::{HASH_HEAD_BYTES, Options};

    const LIMIT: u64 = 16 << 20;

    struct Fixture {
        memory: Recording,
        table: HashTable<Recording>,
        lane: Lane<Recording>,
    }

    /// An empty table.
    fn fixture() -> Fixture {
        let memory = Recording::pool(16 << 10, LIMIT).unwrap();
        let options = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };
        let heap = Heap::format(memory.clone(), options).unwrap();
        let mut lane = heap.lane(0);
        let head = zeroed(&mut lane, HASH_HEAD_BYTES).unwrap();
        memory.fence();
        lane.mini_persist(head).unwrap();
        lane.mini_commit(&mut LineSet::new());
        lane.fence_flushed();
        let options = Options { first_rows: 64, most_rows: 256, ..Options::default() };
        let table = HashTable::new(&memory, head, Shape::of(&options), Seed(0x5eed));
        Fixture { memory, table, lane }
    }

    impl Fixture {
        fn set(&mut self, key: u64, row: u64) {
            let (key, mut lines) = (key.to_be_bytes(), LineSet::new());
            let there = self.table.find(&key).unwrap();
            let node = there
                .unwrap_or_else(|| self.table.prepare(&key, &mut self.lane, &mut lines).unwrap());
            self.table.store_row(node, row, &mut lines);
            lines.flush(&self.memory);
            self.memory.fence();
            if there.is_none() {
                self.table.link(node, &mut self.lane).unwrap();
                self.lane.mini_commit(&mut LineSet::new());
                self.lane.fence_flushed();
            }
        }
    }

    #[test]
    fn keys_are_found_while_the_table_grows() {
        let (mut fixture, mut model) = (fixture(), BTreeMap::new());
        assert_eq!(fixture.table.find(b"nothing").unwrap(), None);
        for step in 0..3000u64 {
            let key = step * step % 2503;
            fixture.set(key, step);
            model.insert(key, step);
            let sought = step % 2600;
            let found = fixture.table.find(&sought.to_be_bytes()).unwrap();
            let row = found.map(|node| fixture.table.row(node).unwrap());
            assert_eq!(row, model.get(&sought).copied());
        }
        let mut objects = 0;
        fixture.table.check(|_| objects += 1).unwrap();
        let many = fixture.table.load(fixture.table.many_at()).unwrap();
        assert_eq!(many, model.len() as u64, "it grows with each node");
        assert!(objects > model.len());
        // A node a bucket on average: chains are short.
        let longest = (0..many).map(|bucket| fixture.table.chain(bucket).unwrap().len()).max();
        assert!(longest < Some(12), "{longest:?}");
        let mut persisted = 0;
        fixture.lane.heap().for_each_persisted(|_, _| persisted += 1).unwrap();
        assert_eq!(persisted, objects + 1);
    }

    #[test]
    fn damage_is_reported() {
        let mut fixture = fixture();
        (0..100).for_each(|key| fixture.set(key, key + 1));
        let mut nodes = Vec::new();
        for bucket in 0..100 {
            nodes.extend(fixture.table.chain(bucket).unwrap());
        }
        assert_eq!(nodes.len(), 100);
        for node in nodes {
            for word in [NODE_SIZE_AT, NODE_NEXT_AT, KEY_AT] {
                let at = Off::<u64>::new(node + word);
                let old = fixture.table.load(at).unwrap();
                for wrong in [old ^ 1, !old, node, fixture.table.head] {
                    fixture.memory.store(at, wrong);
                    assert!(fixture.table.check(|_| ()).is_err(), "{word} of {node}: {wrong}");
                    for key in 0..100u64 {
                        let _ = fixture.table.find(&key.to_be_bytes());
                    }
                }
                fixture.memory.store(at, old);
            }
        }
        fixture.table.check(|_| ()).unwrap();
    }
}
