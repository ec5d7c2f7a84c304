//! Log frames: runs of bytes of the database.
//!
//! A frame is a word, which holds the place and the length, and the bytes.

use crate::store::error::{Result, StoreError};
use crate::store::layout::GRANULE;
use slotted::diff::{Run, merge};

const LENGTH_BITS: u32 = 13;
const _: () = assert!(GRANULE < 1 << LENGTH_BITS);

/// The word of a frame.
pub(crate) fn word_of(at: u64, len: usize) -> u64 {
    at << LENGTH_BITS | len as u64
}

/// The place and the length in a word.
pub(crate) fn place_and_len(word: u64) -> (u64, usize) {
    (word >> LENGTH_BITS, (word & ((1 << LENGTH_BITS) - 1)) as usize)
}

/// Frames in sequence.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Frames {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u64,
}

impl Frames {
    /// Adds the bytes from `at` on.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn add(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        assert!(at < 1 << (64 - LENGTH_BITS) && bytes.len() as u64 <= GRANULE);
        let room = self.bytes.try_reserve(size_of::<u64>() + bytes.len());
        room.map_err(|_| StoreError::Memory)?;
        self.bytes.extend_from_slice(&word_of(at, bytes.len()).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
        self.count += 1;
        Ok(())
    }

    /// Calls `take` with the place and the bytes of each frame, in order. Returns false if the last one is
    /// incomplete, which no frames made here are.
    pub(crate) fn each<'f>(bytes: &'f [u8], mut take: impl FnMut(u64, &'f [u8])) -> bool {
        let mut rest = bytes;
        while let Some((word, after)) = rest.split_first_chunk::<8>() {
            let (at, len) = place_and_len(u64::from_le_bytes(*word));
            let Some((bytes, after)) = after.split_at_checked(len) else { return false };
            take(at, bytes);
            rest = after;
        }
        rest.is_empty()
    }
}

/// Bytes compared at a time.
const CHUNK: usize = 64;

/// The runs in which `new` differs from `old`. A few equal bytes between two runs join them.
pub(crate) fn changed(old: &[u8], new: &[u8]) -> Vec<Run> {
    let mut runs = Vec::new();
    let chunks = old.chunks(CHUNK).zip(new.chunks(CHUNK)).enumerate();
    // Slices are compared by vector instructions.
    for (index, (before, after)) in chunks.filter(|(_, (before, after))| before != after) {
        let differs = |(old, new): (&u8, &u8)| old != new;
        let mut at = 0;
        while let Some(first) = before[at..].iter().zip(&after[at..]).position(differs) {
            let start = at + first;
            let same = |(old, new): (&u8, &u8)| old == new;
            let len = before[start..].iter().zip(&after[start..]).position(same);
            let end = len.map_or(before.len(), |len| start + len);
            runs.push((index * CHUNK + start, end - start));
            at = end;
        }
    }
    merge(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_and_torn_end_is_noticed() {
        let mut frames = Frames::default();
        let of = |at: u64, len: usize| (at, vec![at as u8; len]);
        let all = [of(0, 1), of(1 << 40, 4096), of(4097, 0)];
        all.iter().for_each(|(at, bytes)| frames.add(*at, bytes).unwrap());
        let mut found = Vec::new();
        assert!(Frames::each(&frames.bytes, |at, bytes| found.push((at, bytes.to_vec()))));
        assert_eq!(found, all);
        for cut in 1..frames.bytes.len() {
            let whole = Frames::each(&frames.bytes[..cut], |_, _| {});
            assert_eq!(whole, [9, 9 + 8 + 4096].contains(&cut), "{cut}");
        }
    }

    #[test]
    fn runs_cover_all_differences_and_little_else() {
        let mut old = vec![0; 300];
        let mut new = old.clone();
        (new[3], new[9], new[63], new[64], new[200], new[299]) = (1, 1, 1, 1, 1, 1);
        assert_eq!(changed(&old, &new), [(3, 7), (63, 2), (200, 1), (299, 1)]);
        old.clone_from(&new);
        assert_eq!(changed(&old, &new), []);
    }
}
