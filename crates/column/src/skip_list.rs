//! A skip list in persistent memory (P4 5: the index structure of its experiments): a map from keys, in the order
//! of their bytes, to a word each.
//!
//! ```text
//! head     16 words: the first node of each level
//! node     row | key's length u32, its hash u32 | next on level 0 | .. on each of its levels | key
//! ```
//!
//! Invariants, after every crash:
//! - Every node on a level is on all levels below it, and keys ascend on each: all words of a change are in one
//!   mini-transaction of the heap, which takes or frees the node as well.
//! - A node's key is durable before anything leads to it.
//! - The row is a separate word, which the list's owner stores and makes durable.
//!
//! The number of a node's levels follows from its key's hash, so a key that is inserted again needs as much room
//! as before. The hash has the store's secret seed: otherwise keys could be chosen that are all on one level,
//! where a search is linear. The owner has a latch: no thread reads while another one links or unlinks.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::atomic::Ordering::Acquire;

use heap::{Lane, Purpose};
use pm::{Bad, LineSet, Memory, Off, Range, View};

use crate::Result;
use crate::layout::{NODE_NEXT_AT, NODE_SIZE_AT, SKIP_LEVELS};
use crate::secondary::KeyRange;
use crate::seed::Seed;

/// See the module's comment.
#[derive(Clone, Debug)]
pub(crate) struct SkipList<M> {
    memory: M,
    head: u64,
    seed: Seed,
}

/// The second word of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Size {
    length: u32,
    check: u32,
}

impl Size {
    fn of(key: &[u8], seed: Seed) -> Self {
        let length = u32::try_from(key.len()).expect("a key is far shorter than 4 GiB");
        // A word of zeros is no node, not even that of the empty key.
        Self { length, check: (seed.of_key(key) as u32).max(1) }
    }

    fn word(self) -> u64 {
        u64::from(self.length) | u64::from(self.check) << 32
    }

    /// The levels of the node: each has a quarter of the nodes of the one below.
    fn height(self) -> usize {
        (1 + self.check.leading_zeros() as usize / 2).min(SKIP_LEVELS)
    }

    fn key_at(self) -> u64 {
        NODE_NEXT_AT + self.height() as u64 * 8
    }

    fn bytes(self) -> u64 {
        self.key_at() + u64::from(self.length)
    }
}

impl<M: Memory> SkipList<M> {
    /// The list whose head is at `head`, of a store with this seed; a head of zeros is an empty list.
    pub(crate) fn new(memory: &M, head: u64, seed: Seed) -> Self {
        Self { memory: memory.clone(), head, seed }
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }

    /// The word that leads from a node, or from the head (zero), to the next one of a level.
    fn next_at(&self, node: u64, level: usize) -> Off<u64> {
        let first = if node == 0 { self.head } else { node + NODE_NEXT_AT };
        Off::new(first + level as u64 * 8)
    }

    fn next(&self, node: u64, level: usize) -> Result<u64> {
        let at = self.next_at(node, level);
        let next = self.memory.load(at, Acquire)?;
        if next != 0 && next == node || !next.is_multiple_of(8) {
            return Err(Bad::Damaged { what: "node of an index", at: at.get() }.into());
        }
        Ok(next)
    }

    fn size(&self, node: u64) -> Result<Size> {
        let at = Off::new(node.saturating_add(NODE_SIZE_AT));
        let word = self.memory.load(at, Acquire)?;
        Ok(Size { length: word as u32, check: (word >> 32) as u32 })
    }

    /// Reads a node's key.
    fn with_key<R>(&self, node: u64, read: impl FnOnce(pm::Bytes<'_>) -> R) -> Result<R> {
        let size = self.size(node)?;
        let range = Range::new(node + size.key_at(), u64::from(size.length));
        let view = self.memory.view(range)?;
        Ok(read(view.bytes(0, size.length as usize)))
    }

    fn key(&self, node: u64) -> Result<Vec<u8>> {
        self.with_key(node, |key| key.to_vec())
    }

    /// The word of a node; the owner defines its meaning.
    pub(crate) fn row(&self, node: u64) -> Result<u64> {
        Ok(self.memory.load(Off::new(node), Acquire)?)
    }

    /// Stores the word of a node.
    #[track_caller]
    pub(crate) fn store_row(&self, node: u64, row: u64, lines: &mut LineSet) {
        self.memory.store(Off::<u64>::new(node), row);
        self.add_row(node, lines);
    }

    /// Adds the line of the word of a node.
    pub(crate) fn add_row(&self, node: u64, lines: &mut LineSet) {
        lines.add(Off::<u64>::new(node).range());
    }

    /// The last node of each level, from the lowest one up, that is `before` the wanted key; zero if there is
    /// none.
    fn descend(&self, before: impl Fn(&pm::Bytes<'_>) -> bool) -> Result<[u64; SKIP_LEVELS]> {
        let (mut path, mut node) = ([0; SKIP_LEVELS], 0);
        // More nodes than the memory can hold: they form a cycle.
        let mut left = self.memory.len() / NODE_NEXT_AT;
        for level in (0..SKIP_LEVELS).rev() {
            loop {
                let next = self.next(node, level)?;
                if next == 0 || !self.with_key(next, |key| before(&key))? {
                    break;
                }
                node = next;
                left = left
                    .checked_sub(1)
                    .ok_or(Bad::Damaged { what: "circle of nodes of an index", at: self.head })?;
            }
            path[level] = node;
        }
        Ok(path)
    }

    /// The path to the place of a key, and its node, or zero.
    fn path(&self, key: &[u8]) -> Result<([u64; SKIP_LEVELS], u64)> {
        let path = self.descend(|there| there.compare(key) == Ordering::Less)?;
        let next = self.next(path[0], 0)?;
        let is_it = next != 0 && self.with_key(next, |there| there.equal(key))?;
        Ok((path, if is_it { next } else { 0 }))
    }

    /// The node of a key.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<u64>> {
        Ok(Some(self.path(key)?.1).filter(|node| *node != 0))
    }

    /// Makes a node that nothing leads to yet: after a crash it is free. Its row is stored by [`Self::store_row`].
    /// All of it has to be durable before [`Self::link`].
    #[track_caller]
    pub(crate) fn prepare(
        &self,
        key: &[u8],
        lane: &mut Lane<M>,
        lines: &mut LineSet,
    ) -> Result<u64> {
        let size = Size::of(key, self.seed);
        let node = lane.allocate(size.bytes(), Purpose::Index)?;
        self.memory.store(Off::new(node + NODE_SIZE_AT), size.word());
        self.memory.copy(Off::new(node + size.key_at()), key);
        lines.add(Range::new(node, size.bytes()));
        Ok(node)
    }

    /// Adds to the lane's mini-transaction the words that lead to a node, whose key is not in the list.
    pub(crate) fn link(&self, node: u64, lane: &mut Lane<M>) -> Result<()> {
        let key = self.key(node)?;
        let (path, there) = self.path(&key)?;
        if there != 0 {
            return Err(Bad::Damaged { what: "second node of a key", at: node }.into());
        }
        lane.mini_persist(node)?;
        for (level, before) in path.into_iter().enumerate().take(Size::of(&key, self.seed).height())
        {
            lane.mini_store(self.next_at(node, level), self.next(before, level)?);
            lane.mini_store(self.next_at(before, level), node);
        }
        Ok(())
    }

    /// Removes a key, if it is there, durably.
    #[track_caller]
    pub(crate) fn remove(&self, key: &[u8], lane: &mut Lane<M>) -> Result<()> {
        let (path, node) = self.path(key)?;
        if node == 0 {
            return Ok(());
        }
        let mut words = Vec::new();
        for (level, before) in path.into_iter().enumerate().take(self.size(node)?.height()) {
            if self.next(before, level)? != node {
                return Err(Bad::Damaged { what: "level of an index", at: node }.into());
            }
            words.push((self.next_at(before, level), self.next(node, level)?));
        }
        lane.mini_free(node)?;
        words.into_iter().for_each(|(at, next)| lane.mini_store(at, next));
        lane.mini_commit(&mut LineSet::new());
        lane.fence_flushed();
        Ok(())
    }

    /// Up to `many` keys of a range, with their rows, from its start or from its end.
    pub(crate) fn some(&self, range: &KeyRange, many: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        let mut found = Vec::new();
        let mut node = if range.backward {
            self.last_before(&range.high)?
        } else {
            let before = self.descend(|key| match &range.low {
                Bound::Unbounded => false,
                Bound::Included(low) => key.compare(low) == Ordering::Less,
                Bound::Excluded(low) => key.compare(low) != Ordering::Greater,
            })?;
            self.next(before[0], 0)?
        };
        while node != 0 && found.len() < many {
            let key = self.key(node)?;
            if !range.contains(&key) {
                break;
            }
            let last = found.last().map(|(key, _): &(Vec<u8>, u64)| key);
            if last.is_some_and(|last| (*last < key) == range.backward) {
                return Err(Bad::Damaged { what: "order of an index", at: node }.into());
            }
            let row = self.row(node)?;
            node = if range.backward {
                self.descend(|there| there.compare(&key) == Ordering::Less)?[0]
            } else {
                self.next(node, 0)?
            };
            found.push((key, row));
        }
        Ok(found)
    }

    /// The last node that is not above a bound.
    fn last_before(&self, high: &Bound<Vec<u8>>) -> Result<u64> {
        let path = self.descend(|key| match high {
            Bound::Unbounded => true,
            Bound::Included(high) => key.compare(high) != Ordering::Greater,
            Bound::Excluded(high) => key.compare(high) == Ordering::Less,
        })?;
        Ok(path[0])
    }

    /// Checks every node; calls `visit` with each.
    ///
    /// # Errors
    /// A node is damaged, keys do not ascend, or levels do not agree.
    pub(crate) fn check(&self, mut visit: impl FnMut(u64)) -> Result<()> {
        let mut on_level = [0u64; SKIP_LEVELS];
        for level in 0..SKIP_LEVELS {
            let (mut node, mut last, mut passed) = (self.next(0, level)?, None, 0);
            while node != 0 {
                let (size, key) = (self.size(node)?, self.key(node)?);
                let is_sound = size == Size::of(&key, self.seed) && size.height() > level;
                if !is_sound || last.is_some_and(|last| last >= key) {
                    return Err(Bad::Damaged { what: "node of an index", at: node }.into());
                }
                if level == 0 {
                    visit(node);
                    on_level.iter_mut().take(size.height()).for_each(|many| *many += 1);
                }
                passed += 1;
                last = Some(key);
                node = self.next(node, level)?;
            }
            if passed != on_level[level] {
                return Err(Bad::Damaged { what: "level of an index", at: self.head }.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use heap::{Heap, HeapOptions};
    use sim::{Recording, Replay};

    use super::*;

    const LIMIT: u64 = 4 << 20;
    const SEED: Seed = Seed(0x5eed);
    const OPTIONS: HeapOptions = HeapOptions { chunk_bytes: 16 << 10, lanes: 1 };

    type Model = BTreeMap<Vec<u8>, u64>;

    struct Fixture {
        memory: Recording,
        list: SkipList<Recording>,
        lane: Lane<Recording>,
        head: u64,
    }

    /// An empty list.
    fn fixture() -> Fixture {
        let memory = Recording::pool(16 << 10, LIMIT).unwrap();
        let heap = Heap::format(memory.clone(), OPTIONS).unwrap();
        let mut lane = heap.lane(0);
        let head = crate::array::zeroed(&mut lane, SKIP_LEVELS as u64 * 8).unwrap();
        memory.fence();
        lane.mini_persist(head).unwrap();
        lane.mini_commit(&mut LineSet::new());
        lane.fence_flushed();
        let list = SkipList::new(&memory, head, SEED);
        Fixture { memory, list, lane, head }
    }

    impl Fixture {
        /// Gives a key a row, durably.
        fn set(&mut self, key: &[u8], row: u64) {
            let mut lines = LineSet::new();
            let there = self.list.find(key).unwrap();
            let node = there
                .unwrap_or_else(|| self.list.prepare(key, &mut self.lane, &mut lines).unwrap());
            self.list.store_row(node, row, &mut lines);
            lines.flush(&self.memory);
            self.memory.fence();
            if there.is_none() {
                self.list.link(node, &mut self.lane).unwrap();
                self.lane.mini_commit(&mut LineSet::new());
                self.lane.fence_flushed();
            }
        }
    }

    fn contents(list: &SkipList<Recording>) -> Result<Model> {
        let mut nodes = 0;
        list.check(|_| nodes += 1)?;
        let all = list.some(&KeyRange::ALL, usize::MAX)?;
        assert_eq!(all.len(), nodes);
        Ok(all.into_iter().collect())
    }

    /// A number that looks as if it were random.
    fn mixed(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    }

    fn key(number: u64) -> Vec<u8> {
        match number % 3 {
            0 => number.to_be_bytes().to_vec(),
            1 => vec![number as u8; (number % 90) as usize],
            _ => format!("key {number}").into_bytes(),
        }
    }

    #[test]
    fn keys_are_found_in_order_from_both_ends_and_in_ranges() {
        let (mut fixture, mut model) = (fixture(), Model::new());
        for step in 0..3000 {
            let key = key(mixed(step) % 200);
            if mixed(step * 7).is_multiple_of(3) {
                fixture.list.remove(&key, &mut fixture.lane).unwrap();
                model.remove(&key);
            } else {
                fixture.set(&key, step);
                model.insert(key.clone(), step);
            }
            let found = fixture.list.find(&key).unwrap();
            let row = found.map(|node| fixture.list.row(node).unwrap());
            assert_eq!(row, model.get(&key).copied());
        }
        assert_eq!(contents(&fixture.list).unwrap(), model);
        for step in 0..300 {
            let [low, high] = [step, step * 3].map(|step| key(mixed(step + 1) % 210));
            let bound = |key: Vec<u8>, kind| match kind % 3 {
                0 => Bound::Unbounded,
                1 => Bound::Included(key),
                _ => Bound::Excluded(key),
            };
            let (low, high) = (low.clone().min(high.clone()), low.max(high));
            let equal = low == high;
            let (low, high) = (bound(low, step), bound(high, step / 3));
            if equal && matches!(&low, Bound::Excluded(_)) && matches!(&high, Bound::Excluded(_)) {
                continue;
            }
            let range = KeyRange { low, high, backward: step % 2 == 0 };
            let inside = model.range((range.low.clone(), range.high.clone()));
            let mut expected: Vec<_> = inside.map(|(key, row)| (key.clone(), *row)).collect();
            if range.backward {
                expected.reverse();
            }
            expected.truncate(40);
            assert_eq!(fixture.list.some(&range, 40).unwrap(), expected, "{range:?}");
        }
    }

    #[test]
    fn a_key_is_found_by_a_few_steps_a_level() {
        let (mut fixture, mut steps) = (fixture(), Vec::new());
        for key in 0..4096u64 {
            fixture.set(&key.to_be_bytes(), key);
            if [255, 4095].contains(&key) {
                let compared = std::cell::Cell::new(0);
                for sought in 0..256u64 {
                    let sought = (sought * (key + 1) / 256).to_be_bytes();
                    let count = |there: &pm::Bytes<'_>| {
                        compared.set(compared.get() + 1);
                        there.compare(&sought) == Ordering::Less
                    };
                    fixture.list.descend(count).unwrap();
                }
                steps.push(compared.get());
            }
        }
        // Sixteen times the keys are two levels more.
        assert!(steps[0] > 256 && steps[1] < 2 * steps[0], "{steps:?}");
    }

    /// Keys that are on one level in one store are on many in a store with another seed.
    #[test]
    fn keys_cannot_be_chosen_to_be_on_one_level() {
        let (mut fixture, mut steps) = (fixture(), 0);
        let one_level = |key: &u64| Size::of(&key.to_be_bytes(), Seed(1)).height() == 1;
        let chosen: Vec<u64> = (0..).filter(one_level).take(1024).collect();
        for key in &chosen {
            fixture.set(&key.to_be_bytes(), *key);
        }
        for sought in chosen.iter().step_by(16) {
            let compared = std::cell::Cell::new(0);
            let count = |there: &pm::Bytes<'_>| {
                compared.set(compared.get() + 1);
                there.compare(&sought.to_be_bytes()) == Ordering::Less
            };
            fixture.list.descend(count).unwrap();
            steps += compared.get();
        }
        // On one level it would be half of them.
        assert!(steps / 64 < 40, "{steps} steps of 64 searches");
    }

    #[test]
    fn zeros_are_no_node_and_damage_is_reported() {
        assert_ne!(Size::of(b"", SEED).check, 0);
        let mut fixture = fixture();
        for number in 0..40 {
            fixture.set(&key(number), number);
        }
        let mut nodes = Vec::new();
        fixture.list.check(|node| nodes.push(node)).unwrap();
        for node in nodes {
            let size = fixture.list.size(node).unwrap();
            for word in (0..size.bytes()).step_by(8).filter(|word| *word != 0) {
                let at = Off::<u64>::new(node + word);
                let old = fixture.memory.load(at, Acquire).unwrap();
                for wrong in [old ^ 1, !old, 0, node, fixture.head] {
                    // Bytes after a key have no owner. The rows show that the end of a list is missing.
                    let within = (size.bytes() - word).min(8) * 8;
                    let mask = if within == 64 { u64::MAX } else { (1 << within) - 1 };
                    if wrong & mask == old & mask || word == NODE_NEXT_AT && wrong == 0 {
                        continue;
                    }
                    fixture.memory.store(at, wrong);
                    assert!(fixture.list.check(|_| ()).is_err(), "{word} of {node}: {wrong}");
                    let _ = fixture.list.find(&key(39));
                    let _ = fixture.list.some(&KeyRange::ALL, usize::MAX);
                }
                fixture.memory.store(at, old);
            }
        }
        fixture.list.check(|_| ()).unwrap();
    }

    /// Inserts and removes keys; returns the trace, and the contents after each note.
    fn story() -> (sim::Trace, Vec<Model>, u64) {
        let (mut fixture, mut model) = (fixture(), Model::new());
        for number in 0..12 {
            fixture.set(&key(number), number);
            model.insert(key(number), number);
        }
        fixture.memory.start();
        fixture.memory.note(0);
        let mut states = vec![model.clone()];
        for step in 0..48 {
            let key = key(mixed(step) % 20);
            if step % 3 == 2 {
                let key = model.keys().nth(mixed(step) as usize % model.len()).unwrap().clone();
                fixture.list.remove(&key, &mut fixture.lane).unwrap();
                model.remove(&key);
            } else {
                fixture.set(&key, 100 + step);
                model.insert(key, 100 + step);
            }
            states.push(model.clone());
            fixture.memory.note(states.len() as u64 - 1);
        }
        (fixture.memory.stop(), states, fixture.head)
    }

    /// Returns what a crash has broken, if anything.
    fn broken(trace: &sim::Trace, states: &[Model], head: u64) -> (u64, Option<String>) {
        let (mut replay, mut visited, mut failed) = (Replay::new(trace), 0, None);
        while let Some(point) = replay.next_point() {
            let noted = point.last_note.unwrap_or(0) as usize;
            let seen = point.for_each_state(64, 5, |image| {
                if failed.is_some() {
                    return;
                }
                let memory = Recording::pool_from_image(image, LIMIT).unwrap();
                memory.mark_open().unwrap();
                let look = || -> Result<Option<String>> {
                    let heap = Heap::open(memory.clone())?;
                    let list = SkipList::new(&memory, head, SEED);
                    let found = contents(&list)?;
                    let possible = states[noted..].iter().take(2).any(|state| *state == found);
                    let mut persisted = 0;
                    heap.for_each_persisted(|_, _| persisted += 1)?;
                    let fits = possible && persisted == found.len() as u64 + 1;
                    Ok((!fits).then(|| format!("{persisted} objects, {found:?}")))
                };
                failed = look().unwrap_or_else(|error| Some(error.to_string()));
            });
            visited += seen.visited;
        }
        (visited, failed)
    }

    #[test]
    fn a_power_cut_leaves_a_key_there_or_not_there() {
        let (trace, states, head) = story();
        let (visited, failed) = broken(&trace, &states, head);
        assert_eq!(failed, None);
        assert!(visited > 1000, "{visited}");
    }
}
