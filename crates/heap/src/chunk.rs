//! The volatile side of a chunk: which of its slots are taken.
//!
//! A slot is taken while it is allocated or persisted. When a chunk is first needed after opening
//! it is filled in from the persisted bits.

use crate::classes::Shape;

#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) shape: Shape,
    /// Index into the lane's classes.
    pub(crate) class: u16,
    /// Position in the class's list of chunks.
    pub(crate) position: u32,
    pub(crate) free: u32,
    /// A bit for each slot, set while it is taken. Bits beyond the last slot are set.
    taken: Vec<u64>,
    /// A bit for each group of words, set while a slot in the group is free.
    groups: u64,
    words_per_group: usize,
}

impl Chunk {
    /// A chunk whose persisted slots are the set bits of `persisted`.
    pub(crate) fn new(shape: Shape, class: u16, mut persisted: Vec<u64>) -> Self {
        assert!(persisted.len() == shape.words());
        let beyond = shape.slots % 64;
        if beyond != 0
            && let Some(last) = persisted.last_mut()
        {
            *last |= !0 << beyond;
        }
        let mut chunk = Self {
            shape,
            class,
            position: 0,
            free: persisted.iter().map(|word| word.count_zeros()).sum(),
            words_per_group: persisted.len().div_ceil(64).max(1),
            taken: persisted,
            groups: 0,
        };
        for word in 0..chunk.taken.len() {
            if chunk.taken[word] != !0 {
                chunk.groups |= 1 << (word / chunk.words_per_group);
            }
        }
        chunk
    }

    /// The first free slot from `cursor` on.
    #[inline]
    pub(crate) fn free_from(&self, cursor: u32) -> Option<u32> {
        let mut word = (cursor / 64) as usize;
        let free_here = !*self.taken.get(word)? & (!0 << (cursor % 64));
        let bits = if free_here != 0 {
            free_here
        } else {
            word = self.next_word_with_space(word + 1)?;
            !self.taken[word]
        };
        Some(word as u32 * 64 + bits.trailing_zeros())
    }

    /// Takes the first free slot from `cursor` on.
    #[inline]
    pub(crate) fn take_from(&mut self, cursor: u32) -> Option<u32> {
        let slot = self.free_from(cursor)?;
        let (word, bit) = ((slot / 64) as usize, slot % 64);
        self.taken[word] |= 1 << bit;
        self.free -= 1;
        if self.taken[word] == !0 {
            self.update_group(word / self.words_per_group);
        }
        Some(slot)
    }

    fn next_word_with_space(&self, from: usize) -> Option<usize> {
        let mut word = from;
        while !word.is_multiple_of(self.words_per_group) {
            if *self.taken.get(word)? != !0 {
                return Some(word);
            }
            word += 1;
        }
        let group = word / self.words_per_group;
        if group >= 64 {
            return None;
        }
        let groups = self.groups & (!0 << group);
        if groups == 0 {
            return None;
        }
        let first = groups.trailing_zeros() as usize * self.words_per_group;
        (first..self.taken.len()).find(|word| self.taken[*word] != !0)
    }

    fn update_group(&mut self, group: usize) {
        let first = group * self.words_per_group;
        let end = (first + self.words_per_group).min(self.taken.len());
        if self.taken[first..end].iter().all(|word| *word == !0) {
            self.groups &= !(1 << group);
        }
    }

    /// Makes a taken slot free.
    #[inline]
    pub(crate) fn give_back(&mut self, slot: u32) {
        let (word, bit) = ((slot / 64) as usize, slot % 64);
        assert!(self.taken[word] & (1 << bit) != 0, "a slot is freed once");
        self.taken[word] &= !(1 << bit);
        self.groups |= 1 << (word / self.words_per_group);
        self.free += 1;
    }

    pub(crate) fn is_taken(&self, slot: u32) -> bool {
        self.taken[(slot / 64) as usize] & (1 << (slot % 64)) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free == self.shape.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_in_order_from_the_cursor_until_none_is_left() {
        for class in [0, 1, 12, 31, 40, 60] {
            let shape = Shape::new(class, 16 << 10, 0);
            let mut chunk = Chunk::new(shape, class as u16, vec![0; shape.words()]);
            for slot in 0..shape.slots {
                assert_eq!(chunk.take_from(slot), Some(slot), "class {class}");
            }
            assert_eq!((chunk.take_from(0), chunk.free), (None, 0));
            for slot in (0..shape.slots).step_by(3) {
                chunk.give_back(slot);
            }
            for slot in (0..shape.slots).step_by(3) {
                assert_eq!(chunk.take_from(slot), Some(slot), "class {class}");
            }
            assert_eq!(chunk.take_from(0), None);
            assert_eq!(chunk.take_from(shape.slots), None);
        }
    }
}
