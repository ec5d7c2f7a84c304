//! The contents of a memory after a crash, and a number by which they differ from others: images that
//! follow each other differ in few words, so the number is kept up to date and not computed anew.
//!
//! Invariant: `sum` is the sum of the numbers of all words; a word of zeros has the number 0, so
//! growth changes nothing. The length is mixed in when the number is asked for.

use crate::split_mix::next_random;

const WORD: usize = 8;

/// An image.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    bytes: Vec<u8>,
    sum: u64,
}

impl Image {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let sum = sum_of(0, &bytes);
        Self { bytes, sum }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A number that two images have in common only if they are alike, or by a chance of 2^-64.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut length = self.bytes.len() as u64;
        self.sum ^ next_random(&mut length)
    }

    /// Replaces the bytes from `at` on.
    pub(crate) fn put(&mut self, at: u64, new: &[u8]) {
        let (at, end) = (at as usize, at as usize + new.len());
        let first = at / WORD;
        let words = first * WORD..self.bytes.len().min(end.next_multiple_of(WORD));
        let before = sum_of(first, &self.bytes[words.clone()]);
        self.bytes[at..end].copy_from_slice(new);
        let after = sum_of(first, &self.bytes[words]);
        self.sum = self.sum.wrapping_sub(before).wrapping_add(after);
    }

    /// Appends zeros until there are so many bytes.
    pub(crate) fn grow(&mut self, to: u64) {
        // What is appended to the rest of a word is zero, too.
        self.bytes.resize(self.bytes.len().max(to as usize), 0);
    }
}

/// The sum of the numbers of words that begin with the one of number `first`; what is missing of the
/// last one is zero.
fn sum_of(first: usize, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let numbers = (first..).zip(words).map(|(at, word)| number_of(at, *word));
    let mut last = [0; WORD];
    last[..rest.len()].copy_from_slice(rest);
    numbers.fold(number_of(first + words.len(), last), u64::wrapping_add)
}

fn number_of(at: usize, word: [u8; WORD]) -> u64 {
    match u64::from_le_bytes(word) {
        0 => 0,
        word => next_random(&mut (word ^ (at as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_that_of_the_bytes_however_they_came_about() {
        let mut random = 5;
        let mut image = Image::new(vec![0; 300]);
        for round in 0..200 {
            if round % 50 == 49 {
                image.grow(image.bytes().len() as u64 + 37);
            }
            let from = next_random(&mut random) % image.bytes().len() as u64;
            let most = (image.bytes().len() as u64 - from).min(150);
            let length = next_random(&mut random) % (most + 1);
            let bytes: Vec<u8> = (0..length).map(|_| next_random(&mut random) as u8 & 3).collect();
            image.put(from, &bytes);
            assert_eq!(image.fingerprint(), Image::new(image.bytes().to_vec()).fingerprint());
        }
    }

    #[test]
    fn images_that_differ_have_different_numbers() {
        let mut seen = std::collections::HashSet::new();
        // Every bit alone, wherever it is, and other lengths.
        for length in [64, 65, 128, 256] {
            assert!(seen.insert(Image::new(vec![0; length]).fingerprint()));
            for bit in 0..length * 8 {
                let mut bytes = vec![0; length];
                bytes[bit / 8] |= 1 << (bit % 8);
                assert!(seen.insert(Image::new(bytes).fingerprint()), "{length}, {bit}");
            }
        }
        // The same in two words: their numbers do not cancel each other out.
        for (first, second) in [(1, 2), (2, 1), (1, 1), (3, 3)] {
            let mut bytes = vec![0; 128];
            (bytes[0], bytes[64]) = (first, second);
            assert!(seen.insert(Image::new(bytes).fingerprint()), "{first}, {second}");
        }
    }
}
