//! The B+tree against a `BTreeMap`: both leaf layouts, narrow and wide keys, nodes from one line to
//! 16 KiB, over volatile and recording memory.
//!
//! Protected is: every operation agrees with the model, scans give exactly their range in order
//! with every kind of bound, [`index::BTree::check`] finds the tree sound, and taking everything
//! out gives all nodes but one back. Crashes are in `crash.rs`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::{Bound, ControlFlow, RangeBounds};

use heap::{Heap, HeapOptions, Lane, Purpose};
use index::{
    Append, BTree, Direction, IndexError, Key, LeafLayout, LongKey, NodeShape, Sorted, WideKey,
};
use pm::{Dram, Flushed, LineSet, Memory, Off, fence_for};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::Recording;

/// Keys that a test can draw.
trait Drawn: Key {
    const WIDTH: u32;
    fn draw(number: u64) -> Self;
}

impl Drawn for u64 {
    const WIDTH: u32 = 8;
    fn draw(number: u64) -> Self {
        // Both ends of the range are keys, too.
        if number.is_multiple_of(2) { number } else { u64::MAX - number + 1 }
    }
}

impl Drawn for LongKey {
    const WIDTH: u32 = 504;
    fn draw(number: u64) -> Self {
        let mut bytes = [b'k'; 500];
        bytes[8..16].copy_from_slice(&(number % 7).to_be_bytes());
        bytes[450..458].copy_from_slice(&number.to_be_bytes());
        Self::new(&bytes, 504)
    }
}

impl Drawn for WideKey {
    const WIDTH: u32 = 24;
    fn draw(number: u64) -> Self {
        let mut bytes = [b'k'; 24];
        bytes[8..16].copy_from_slice(&(number % 7).to_be_bytes());
        bytes[16..].copy_from_slice(&number.to_be_bytes());
        Self::new(&bytes, 24)
    }
}

struct Subject<K, L, M: Memory> {
    tree: BTree<K, L>,
    lane: Lane<M>,
    memory: M,
    model: BTreeMap<K, u64>,
    random: SmallRng,
    keys: u64,
    nodes_before: usize,
}

impl<K: Drawn, L: LeafLayout, M: Memory> Subject<K, L, M> {
    fn new(memory: &M, node_bytes: u32, seed: u64, keys: u64) -> Self {
        let heap =
            Heap::format(memory.clone(), HeapOptions { chunk_bytes: 256 << 10, lanes: 1 }).unwrap();
        let mut lane = heap.lane(0);
        let cell = Off::new(lane.allocate(64, Purpose::Log).unwrap());
        let shape = NodeShape::new(node_bytes, K::WIDTH).unwrap();
        let tree = BTree::create(&mut lane, cell, shape).unwrap();
        let mut subject = Self {
            tree,
            lane,
            memory: memory.clone(),
            model: BTreeMap::new(),
            random: SmallRng::seed_from_u64(seed),
            keys,
            nodes_before: 0,
        };
        subject.nodes_before = subject.persisted();
        subject
    }

    fn persisted(&self) -> usize {
        let mut count = 0;
        self.lane.heap().for_each_persisted(|_, _| count += 1).unwrap();
        count
    }

    fn key(&mut self) -> K {
        K::draw(self.random.random_range(0..self.keys))
    }

    fn insert(&mut self, key: K, value: u64) {
        let mut lines = LineSet::new();
        let prepared = self.tree.prepare(&mut self.lane, key.clone(), value, &mut lines);
        match (prepared, self.model.get(&key)) {
            (Ok(prepared), None) => {
                assert_eq!(self.tree.get(&self.memory, &key).unwrap(), None, "not before");
                let flushed = Flushed::lines(&self.memory, &mut lines, prepared);
                let durable = fence_for(&self.memory, flushed);
                self.tree.publish(&self.memory, durable, &mut lines).unwrap();
                self.model.insert(key, value);
            }
            (Err(IndexError::Duplicate { value }), Some(known)) => assert_eq!(value, *known),
            (found, known) => panic!("{found:?}, but {known:?}"),
        }
        lines.flush(&self.memory);
        self.memory.fence();
    }

    #[expect(clippy::needless_pass_by_value, reason = "as `insert`")]
    fn remove(&mut self, key: K) {
        let mut lines = LineSet::new();
        let known = self.model.get(&key).copied();
        let other = known.map_or(3, |value| value + 1);
        assert!(!self.tree.remove(&self.memory, &key, other, &mut lines).unwrap(), "another value");
        let removed = self.tree.remove(&self.memory, &key, known.unwrap_or(3), &mut lines).unwrap();
        assert_eq!(removed, known.is_some());
        lines.flush(&self.memory);
        self.memory.fence();
        self.model.remove(&key);
        if removed && self.random.random_bool(0.8) {
            self.tree.tidy(&mut self.lane, &key).unwrap();
        }
    }

    fn bound(&mut self) -> Bound<K> {
        let key = self.key();
        match self.random.random_range(0..5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }

    fn scan(&mut self) {
        let range = (self.bound(), self.bound());
        let limit = [usize::MAX, 0, 1, 7][self.random.random_range(0..4)];
        let within = |key: &K| range.contains(key);
        for direction in [Direction::Forward, Direction::Backward] {
            let mut found = Vec::new();
            let end = self
                .tree
                .scan(&self.memory, range.clone(), direction, |key, value| {
                    found.push((key.clone(), value));
                    if found.len() > limit {
                        ControlFlow::Break("stop")
                    } else {
                        ControlFlow::Continue(())
                    }
                })
                .unwrap();
            let mut expected: Vec<_> = self
                .model
                .iter()
                .filter(|(key, _)| within(key))
                .map(|(k, v)| (k.clone(), *v))
                .collect();
            if direction == Direction::Backward {
                expected.reverse();
            }
            assert_eq!(end.is_break(), expected.len() > limit, "what the visitor breaks with");
            expected.truncate(limit.saturating_add(1));
            assert_eq!(found, expected, "{range:?} {direction:?}");
        }
    }

    fn check(&self) -> usize {
        let mut found = BTreeMap::new();
        let used = self
            .tree
            .check(&self.memory, |key, value| {
                found.insert(key.clone(), value);
            })
            .unwrap();
        assert_eq!(found, self.model);
        assert_eq!(used.entries, self.model.len() as u64);
        if M::DURABLE {
            assert_eq!(
                used.nodes.len(),
                self.persisted() - self.nodes_before + 1,
                "no node is lost"
            );
        }
        used.levels
    }

    /// Grows, stays, shrinks; returns how many levels there were at most.
    fn live(&mut self, operations: u64) -> usize {
        let mut levels = 0;
        for operation in 0..operations {
            let inserts = [9, 5, 2][(operation * 3 / operations) as usize];
            let key = self.key();
            match self.random.random_range(0..12) {
                0 => assert_eq!(
                    self.tree.get(&self.memory, &key).unwrap(),
                    self.model.get(&key).copied()
                ),
                choice if choice <= inserts => self.insert(key, operation * 8),
                _ => self.remove(key),
            }
            if operation % 64 == 0 {
                self.scan();
            }
            if operation % 512 == 0 {
                levels = levels.max(self.check());
            }
        }
        levels.max(self.check())
    }

    fn empty(&mut self) {
        let mut keys: Vec<K> = self.model.keys().cloned().collect();
        // From both ends and from the middle.
        while !keys.is_empty() {
            let at = match keys.len() % 3 {
                0 => 0,
                1 => keys.len() - 1,
                _ => self.random.random_range(0..keys.len()),
            };
            let key = keys.remove(at);
            let mut lines = LineSet::new();
            let value = self.model.remove(&key).unwrap();
            assert!(self.tree.remove(&self.memory, &key, value, &mut lines).unwrap());
            lines.flush(&self.memory);
            self.memory.fence();
            self.tree.tidy(&mut self.lane, &key).unwrap();
        }
        self.check();
    }
}

fn run<K: Drawn + Debug, L: LeafLayout, M: Memory>(memory: &M, node_bytes: u32, seed: u64) {
    let keys = [300, 3_000, 30_000][seed as usize % 3];
    let mut subject = Subject::<K, L, M>::new(memory, node_bytes, seed, keys);
    let levels = subject.live(8_000);
    println!(
        "seed {seed}: {} byte keys, {node_bytes} byte nodes: {levels} levels, {} entries left",
        K::WIDTH,
        subject.model.len()
    );
    if node_bytes <= 256 && keys > 300 {
        assert!(levels >= 3, "{levels} levels");
    }
    // Merges that were skipped leave nodes; a tidy at each removal takes all away.
    let left: Vec<K> = subject.model.keys().cloned().collect();
    subject.empty();
    let before = subject.tree.check(&subject.memory, |_, _| {}).unwrap();
    println!("{} nodes left of {} entries", before.nodes.len(), left.len());
}

fn all_shapes<K: Drawn + Debug, L: LeafLayout, M: Memory>(memory: impl Fn() -> M, smallest: u32) {
    let mut seed = 0;
    let mut node_bytes = smallest;
    while node_bytes <= 16 << 10 {
        run::<K, L, M>(&memory(), node_bytes, seed);
        seed += 1;
        node_bytes *= 2;
    }
}

fn dram() -> Dram {
    Dram::new(64 << 20).unwrap()
}

fn recording() -> Recording {
    Recording::pool(64 << 10, 64 << 20).unwrap()
}

#[test]
fn sorted_leaves_in_volatile_memory_agree_with_a_model() {
    all_shapes::<u64, Sorted, _>(dram, 64);
    all_shapes::<WideKey, Sorted, _>(dram, 128);
    all_shapes::<LongKey, Sorted, _>(dram, 2048);
}

#[test]
fn append_leaves_in_volatile_memory_agree_with_a_model() {
    all_shapes::<u64, Append, _>(dram, 64);
    all_shapes::<WideKey, Append, _>(dram, 128);
    all_shapes::<LongKey, Append, _>(dram, 2048);
}

#[test]
fn append_leaves_in_recording_memory_agree_with_a_model() {
    all_shapes::<u64, Append, _>(recording, 64);
    all_shapes::<WideKey, Append, _>(recording, 128);
    all_shapes::<LongKey, Append, _>(recording, 4096);
}

/// A tree that is tidied after each removal is one empty leaf in the end.
fn taking_everything_out<K: Drawn + Debug, L: LeafLayout, M: Memory>(memory: &M, node_bytes: u32) {
    let mut subject = Subject::<K, L, M>::new(memory, node_bytes, 1, 1 << 40);
    for number in 0..3_000 {
        let key = subject.key();
        subject.insert(key, number);
    }
    let levels = subject.check();
    subject.empty();
    let used = subject.tree.check(&subject.memory, |_, _| {}).unwrap();
    assert_eq!((used.nodes.len(), used.levels), (1, 1), "{node_bytes} byte nodes, {levels} levels");
    if M::DURABLE {
        assert_eq!(subject.persisted(), subject.nodes_before);
    }
    // And it grows again.
    subject.keys = 1_000;
    subject.live(1_000);
}

#[test]
fn taking_everything_out_gives_all_nodes_back() {
    for node_bytes in [128, 256, 512, 4096] {
        taking_everything_out::<u64, Append, _>(&recording(), node_bytes);
        taking_everything_out::<u64, Sorted, _>(&dram(), node_bytes);
    }
    for node_bytes in [256, 512, 4096] {
        taking_everything_out::<WideKey, Append, _>(&recording(), node_bytes);
        taking_everything_out::<WideKey, Sorted, _>(&dram(), node_bytes);
    }
}

#[test]
fn removing_all_keys_frees_all_nodes_of_the_smallest_size() {
    taking_everything_out::<u64, Append, _>(&recording(), 64);
    taking_everything_out::<WideKey, Append, _>(&recording(), 128);
}

#[test]
fn ascending_keys_leave_full_leaves() {
    let memory = recording();
    let mut subject = Subject::<u64, Append, _>::new(&memory, 512, 1, 1);
    for key in 0..3_100u64 {
        subject.insert(key, key);
    }
    let used = subject.tree.check(&memory, |_, _| {}).unwrap();
    // 31 entries a leaf: 100 full leaves, the open one, and the inner nodes.
    assert!(used.nodes.len() <= 101 + 8, "{} nodes", used.nodes.len());
    // Descending keys are the worst case: half full.
    let mut subject = Subject::<u64, Append, _>::new(&recording(), 512, 1, 1);
    for key in (0..3_100u64).rev() {
        subject.insert(key, key);
    }
    let used = subject.tree.check(&subject.memory, |_, _| {}).unwrap();
    assert!(used.nodes.len() <= 207 + 20, "{} nodes", used.nodes.len());
}

/// The allocator's bits of all nodes have been lost: new nodes are written over those that are in
/// use, on the way from the root that is being changed as well. Errors, or a tree that is not
/// sound; never a panic.
fn over_nodes_that_count_as_free<K: Drawn>(seed: u64, node_bytes: u32) -> u32 {
    const CHUNK: u64 = 8 << 10;
    let heap_options = HeapOptions { chunk_bytes: CHUNK, lanes: 1 };
    let memory = Recording::new(1 << 22).unwrap();
    let mut lane = Heap::format(memory.clone(), heap_options).unwrap().lane(0);
    let cell = Off::new(lane.allocate(64, Purpose::Log).unwrap());
    let shape = NodeShape::new(node_bytes, K::WIDTH).unwrap();
    let mut tree: BTree<K, Append> = BTree::create(&mut lane, cell, shape).unwrap();
    let insert = |tree: &mut BTree<K, Append>, lane: &mut Lane<Recording>, number| {
        let (memory, mut lines) = (lane.memory().clone(), LineSet::new());
        let prepared = tree.prepare(lane, K::draw(number), number, &mut lines)?;
        let prepared = fence_for(&memory, Flushed::lines(&memory, &mut lines, prepared));
        Ok::<(), IndexError>(tree.publish(&memory, prepared, &mut lines)?)
    };
    let mut random = SmallRng::seed_from_u64(seed);
    for number in 0..400 {
        insert(&mut tree, &mut lane, number * 37 % 400).unwrap();
    }
    // The bitmaps lie after the headers of the chunks, these after superblock and lane.
    for chunk in (8192 + 4096 + 8192..memory.len()).step_by(CHUNK as usize) {
        for word in 0..2 {
            memory.store(
                Off::new(chunk + 64 + word * 8),
                random.random::<u64>() & random.random::<u64>(),
            );
        }
    }
    drop(lane);
    let mut lane = Heap::open(memory.clone()).unwrap().lane(0);
    let mut failed = 0;
    for number in 0..600 {
        let key = random.random_range(0..2000);
        let done = match number % 3 {
            2 => {
                let mut lines = LineSet::new();
                let removed = tree.remove(&memory, &K::draw(key), key, &mut lines);
                removed.map_err(IndexError::from).and_then(|_| tree.tidy(&mut lane, &K::draw(key)))
            }
            _ => insert(&mut tree, &mut lane, key),
        };
        let duplicate = matches!(done, Err(IndexError::Duplicate { .. }));
        failed += u32::from(done.is_err() && !duplicate);
    }
    failed
}

#[test]
fn a_tree_whose_nodes_are_overwritten_gives_errors() {
    let (mut narrow, mut wide) = (0, 0);
    for seed in 0..60 {
        narrow += over_nodes_that_count_as_free::<u64>(seed, 128);
        wide += over_nodes_that_count_as_free::<WideKey>(seed, 256);
    }
    println!("{narrow} and {wide} errors");
    assert!(narrow > 100 && wide > 100, "the damage hits something: {narrow} {wide}");
}
