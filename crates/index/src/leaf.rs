//! The ways in which a leaf keeps its entries.
//!
//! - [`Sorted`], for volatile memory: in key order, found by binary search; an insert moves the
//!   entries after it.
//! - [`Append`], for non-volatile memory: in the order of arrival, with a bit for each that says
//!   whether it counts (P1 4.1: entries are appended, since an entry that is inserted in order
//!   moves others across lines, which do not persist together). An entry is written while its bit
//!   is clear; one 8-byte store of the occupancy word adds or removes it.

use std::cmp::Ordering;
use std::sync::atomic::Ordering::Acquire;

use pm::{Bad, LineSet, Memory, Off, Range, View};

use crate::key::Key;
use crate::layout::{NodeShape, OCCUPANCY_AT, PER_WORD};

/// The longest entry that is put together on the stack, in bytes.
const STACK_ENTRY: usize = crate::key::WIDE_KEY_BYTES + 8;

/// A policy: how a leaf keeps its entries. `slot` numbers an entry's place in the leaf.
pub trait LeafLayout: std::fmt::Debug + Send + Sync + 'static {
    /// True if slots are in key order.
    const SORTED: bool;

    /// The slot that holds `key`.
    fn find<K: Key, V: View>(leaf: &V, shape: &NodeShape, key: &K) -> Option<usize>;
    /// Returns how many entries there are.
    fn count<V: View>(leaf: &V, shape: &NodeShape) -> usize;
    /// Calls `visit` with every slot in use.
    fn slots<V: View>(leaf: &V, shape: &NodeShape, visit: impl FnMut(usize));
    /// Writes an entry that does not count yet; `None` if the leaf is full.
    #[track_caller]
    fn write<K: Key, M: Memory>(
        memory: &M,
        leaf: u64,
        shape: &NodeShape,
        key: &K,
        value: u64,
        lines: &mut LineSet,
    ) -> Result<Option<usize>, Bad>;
    /// Makes the entry that [`Self::write`] wrote count.
    #[track_caller]
    fn publish<K: Key, M: Memory>(
        memory: &M,
        leaf: u64,
        shape: &NodeShape,
        slot: usize,
        lines: &mut LineSet,
    ) -> Result<(), Bad>;
    /// Removes the entry in `slot`.
    #[track_caller]
    fn remove<M: Memory>(
        memory: &M,
        leaf: u64,
        shape: &NodeShape,
        slot: usize,
        lines: &mut LineSet,
    ) -> Result<(), Bad>;
    /// The occupancy words of a leaf in which just `slots` count; for `Sorted` these are the first
    /// ones.
    fn occupancy(slots: impl Iterator<Item = usize>, words: &mut [u64]);
}

/// Writes `key` and `value` into slot `slot` of a leaf.
#[track_caller]
pub(crate) fn put_entry<K: Key, M: Memory>(
    memory: &M,
    leaf: u64,
    shape: &NodeShape,
    slot: usize,
    (key, value): (&K, u64),
    lines: &mut LineSet,
) {
    let mut bytes = [0u8; STACK_ENTRY];
    if shape.entry_bytes() > STACK_ENTRY {
        return put_long_entry(memory, leaf, shape, slot, (key, value), lines);
    }
    let entry = &mut bytes[..shape.entry_bytes()];
    key.write(&mut entry[..shape.width]);
    entry[shape.width..].copy_from_slice(&value.to_le_bytes());
    let at = leaf + shape.entry_at(slot) as u64;
    memory.copy(Off::new(at), entry);
    lines.add(Range::new(at, entry.len() as u64));
}

/// As [`put_entry`], of any length.
#[cold]
#[inline(never)]
#[track_caller]
fn put_long_entry<K: Key, M: Memory>(
    memory: &M,
    leaf: u64,
    shape: &NodeShape,
    slot: usize,
    (key, value): (&K, u64),
    lines: &mut LineSet,
) {
    let mut entry = vec![0; shape.entry_bytes()];
    key.write(&mut entry[..shape.width]);
    entry[shape.width..].copy_from_slice(&value.to_le_bytes());
    let at = leaf + shape.entry_at(slot) as u64;
    memory.copy(Off::new(at), &entry);
    lines.add(Range::new(at, entry.len() as u64));
}

/// The value in slot `slot`.
#[inline]
pub(crate) fn value_at<V: View>(leaf: &V, shape: &NodeShape, slot: usize) -> u64 {
    leaf.word(shape.entry_at(slot) + shape.width)
}

fn occupancy_word(leaf: u64, index: usize) -> Off<u64> {
    Off::new(leaf + (OCCUPANCY_AT + index * 8) as u64)
}

/// Entries in the order of arrival; see the module's comment.
#[derive(Debug)]
pub enum Append {}

impl LeafLayout for Append {
    const SORTED: bool = false;

    #[inline]
    fn find<K: Key, V: View>(leaf: &V, shape: &NodeShape, key: &K) -> Option<usize> {
        let mut first = 0;
        for word in 0..shape.occupancy_words {
            let many = (shape.leaf_capacity - first).min(PER_WORD);
            let found = key.matches(leaf, shape.entry_at(first), many, shape.width)
                & leaf.word(OCCUPANCY_AT + word * 8);
            if found != 0 {
                return Some(first + found.trailing_zeros() as usize);
            }
            first += many;
        }
        None
    }

    fn count<V: View>(leaf: &V, shape: &NodeShape) -> usize {
        (0..shape.occupancy_words)
            .map(|word| leaf.word(OCCUPANCY_AT + word * 8).count_ones() as usize)
            .sum()
    }

    fn slots<V: View>(leaf: &V, shape: &NodeShape, mut visit: impl FnMut(usize)) {
        for word in 0..shape.occupancy_words {
            let mut bits = leaf.word(OCCUPANCY_AT + word * 8);
            while bits != 0 {
                let slot = word * PER_WORD + bits.trailing_zeros() as usize;
                if slot < shape.leaf_capacity {
                    visit(slot);
                }
                bits &= bits - 1;
            }
        }
    }

    #[inline]
    #[track_caller]
    fn write<K: Key, M: Memory>(
        memory: &M,
        leaf: u64,
        shape: &NodeShape,
        key: &K,
        value: u64,
        lines: &mut LineSet,
    ) -> Result<Option<usize>, Bad> {
        for word in 0..shape.occupancy_words {
            let bits = memory.load(occupancy_word(leaf, word), Acquire)?;
            let slot = word * PER_WORD + (!bits).trailing_zeros() as usize;
            if bits != !0 && slot < shape.leaf_capacity {
                put_entry(memory, leaf, shape, slot, (key, value), lines);
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    #[inline]
    #[track_caller]
    fn publish<K: Key, M: Memory>(
        memory: &M,
        leaf: u64,
        _: &NodeShape,
        slot: usize,
        lines: &mut LineSet,
    ) -> Result<(), Bad> {
        let at = occupancy_word(leaf, slot / PER_WORD);
        let bits = memory.load(at, Acquire)?;
        memory.store(at, bits | 1 << (slot % PER_WORD));
        lines.add(at.range());
        Ok(())
    }

    #[inline]
    #[track_caller]
    fn remove<M: Memory>(
        memory: &M,
        leaf: u64,
        _: &NodeShape,
        slot: usize,
        lines: &mut LineSet,
    ) -> Result<(), Bad> {
        let at = occupancy_word(leaf, slot / PER_WORD);
        let bits = memory.load(at, Acquire)?;
        memory.store(at, bits & !(1 << (slot % PER_WORD)));
        lines.add(at.range());
        Ok(())
    }

    fn occupancy(slots: impl Iterator<Item = usize>, words: &mut [u64]) {
        words.fill(0);
        for slot in slots {
            words[slot / PER_WORD] |= 1 << (slot % PER_WORD);
        }
    }
}

/// Entries in key order; see the module's comment.
#[derive(Debug)]
pub enum Sorted {}

impl Sorted {
    fn search<K: Key, V: View>(leaf: &V, shape: &NodeShape, key: &K) -> Result<usize, usize> {
        let (mut low, mut size) = (0, Self::count(leaf, shape));
        while size > 0 {
            let middle = low + size / 2;
            match key.stored_cmp(leaf, shape.entry_at(middle), shape.width) {
                Ordering::Equal => return Ok(middle),
                Ordering::Less => {
                    size -= middle + 1 - low;
                    low = middle + 1;
                }
                Ordering::Greater => size = middle - low,
            }
        }
        Err(low)
    }

    /// Moves the entries `from..count` of a leaf so that the first of them stands in slot `to`.
    fn shift<M: Memory>(
        memory: &M,
        leaf: u64,
        shape: &NodeShape,
        (from, count): (usize, usize),
        to: usize,
    ) -> Result<(), Bad> {
        // In pieces of what fits on the stack, in the direction that overwrites nothing unread.
        let (mut piece, mut long) = ([0u8; 1024], Vec::new());
        let piece = if shape.entry_bytes() <= piece.len() {
            &mut piece[..]
        } else {
            long.resize(shape.entry_bytes(), 0);
            &mut long[..]
        };
        let per_piece = piece.len() / shape.entry_bytes();
        let mut left = count - from;
        while left > 0 {
            let many = left.min(per_piece);
            let start = if to > from { from + left - many } else { from + (count - from - left) };
            let bytes = &mut piece[..many * shape.entry_bytes()];
            memory.read_into(Off::new(leaf + shape.entry_at(start) as u64), bytes)?;
            memory.copy(Off::new(leaf + shape.entry_at(start + to - from) as u64), bytes);
            left -= many;
        }
        Ok(())
    }
}

impl LeafLayout for Sorted {
    const SORTED: bool = true;

    #[inline]
    fn find<K: Key, V: View>(leaf: &V, shape: &NodeShape, key: &K) -> Option<usize> {
        Self::search(leaf, shape, key).ok()
    }

    #[inline]
    fn count<V: View>(leaf: &V, shape: &NodeShape) -> usize {
        (leaf.word(OCCUPANCY_AT) as usize).min(shape.leaf_capacity)
    }

    fn slots<V: View>(leaf: &V, shape: &NodeShape, visit: impl FnMut(usize)) {
        (0..Self::count(leaf, shape)).for_each(visit);
    }

    #[track_caller]
    fn write<K: Key, M: Memory>(
        memory: &M,
        leaf: u64,
        shape: &NodeShape,
        key: &K,
        value: u64,
        lines: &mut LineSet,
    ) -> Result<Option<usize>, Bad> {
        let count = memory.load(occupancy_word(leaf, 0), Acquire)? as usize;
        if count >= shape.leaf_capacity {
            return Ok(None);
        }
        // After the others for now; publishing moves it to its place.
        put_entry(memory, leaf, shape, count, (key, value), lines);
        Ok(Some(count))
    }

    #[track_caller]
    fn publish<K: Key, M: Memory>(
        memory: &M,
        leaf: u64,
        shape: &NodeShape,
        written: usize,
        lines: &mut LineSet,
    ) -> Result<(), Bad> {
        let (key, value, slot) = {
            let node = memory.view(shape.range(leaf))?;
            let key = K::read(&node, shape.entry_at(written), shape.width);
            let value = value_at(&node, shape, written);
            let slot = Self::search(&node, shape, &key).unwrap_or_else(|slot| slot);
            (key, value, slot)
        };
        Self::shift(memory, leaf, shape, (slot, written), slot + 1)?;
        put_entry(memory, leaf, shape, slot, (&key, value), lines);
        memory.store(occupancy_word(leaf, 0), written as u64 + 1);
        lines.add(shape.range(leaf));
        Ok(())
    }

    #[track_caller]
    fn remove<M: Memory>(
        memory: &M,
        leaf: u64,
        shape: &NodeShape,
        slot: usize,
        lines: &mut LineSet,
    ) -> Result<(), Bad> {
        let count = Self::count(&memory.view(shape.range(leaf))?, shape);
        Self::shift(memory, leaf, shape, (slot + 1, count), slot)?;
        memory.store(occupancy_word(leaf, 0), count as u64 - 1);
        lines.add(shape.range(leaf));
        Ok(())
    }

    fn occupancy(slots: impl Iterator<Item = usize>, words: &mut [u64]) {
        words.fill(0);
        words[0] = slots.count() as u64;
    }
}
