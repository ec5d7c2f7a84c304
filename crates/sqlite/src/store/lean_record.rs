//! The record of a lean commit ([`crate::store::lean`]): runs of words in which pages differ.

use pm::Bytes;

use crate::store::error::{Result, StoreError};
use crate::store::layout::GRANULE;
use crate::store::record::{PART_BYTES, RUN_BYTES, RUN_MAX, RUNS_MAX, encode_logged};
use crate::store::room;
use crate::store::span::{LINE_BYTES, Span};

/// Bytes that are compared together first. Each page has a multiple of them.
const BLOCK_BYTES: usize = 512;
/// The unit of the runs.
const WORD_BYTES: usize = 8;
/// The most bytes of a record that a granule takes: each second word is a run of its own.
const RECORD_BYTES: usize =
    GRANULE as usize + GRANULE as usize / (2 * WORD_BYTES) * RUN_BYTES + 16 * PART_BYTES;

/// The record of a commit, and the buffers for making it.
#[derive(Debug, Default)]
pub(super) struct LeanRecord {
    bytes: Vec<u8>,
    /// The runs of the part that is being made.
    runs: Vec<Span>,
    /// Parts of the record.
    parts: u64,
    /// A copy of a granule that is not in memory, or is changed.
    copy: Vec<u8>,
}

impl LeanRecord {
    /// The length of the record in bytes.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The record.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of its parts.
    pub(super) fn parts(&self) -> u64 {
        self.parts
    }

    /// A buffer of a granule for the caller, which gives it back.
    pub(super) fn take_copy(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.copy)
    }

    /// Takes the buffer back.
    pub(super) fn put_copy(&mut self, copy: Vec<u8>) {
        self.copy = copy;
    }

    /// Empties the record, and makes room for one of so many granules.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn begin(&mut self, granules: usize) -> Result<()> {
        self.bytes.clear();
        self.runs.clear();
        self.parts = 0;
        if self.copy.is_empty() {
            self.copy = room::zeros(GRANULE as usize)?;
        }
        self.bytes.try_reserve(granules * RECORD_BYTES).map_err(|_| StoreError::Memory)?;
        self.runs.try_reserve(RUNS_MAX).map_err(|_| StoreError::Memory)
    }

    /// Appends the words in which `new` differs from `old`. In the frame both begin at `within`.
    pub(super) fn add(&mut self, frame: u32, within: usize, old: Bytes<'_>, new: &[u8]) {
        let Self { bytes, runs, parts, .. } = self;
        let mut part = |runs: &mut Vec<Span>| {
            if !runs.is_empty() {
                encode_logged(bytes, frame, within, runs, new);
                *parts += 1;
                runs.clear();
            }
        };
        each_difference(old, new, |run| {
            if runs.len() == RUNS_MAX {
                part(runs);
            }
            runs.push(run);
        });
        part(runs);
    }
}

/// Calls `take` with each run of words in which two pages differ, at most [`RUN_MAX`] bytes long. Most of a page is as
/// before, so that the function of the C library that compares long ranges does most of the work.
fn each_difference(old: Bytes<'_>, new: &[u8], mut take: impl FnMut(Span)) {
    let mut last: Option<Span> = None;
    let mut at = 0;
    while at < new.len() {
        let len = if at.is_multiple_of(BLOCK_BYTES) { BLOCK_BYTES } else { LINE_BYTES };
        let block = &new[at..at + len];
        if old.get(at, len).is_some_and(|old| old.equal(block)) {
            at += len;
            continue;
        }
        // A line of a block that differs.
        for word in (at..at + LINE_BYTES).step_by(WORD_BYTES) {
            let bytes: [u8; WORD_BYTES] = old.array(word);
            if bytes == new[word..word + WORD_BYTES] {
                continue;
            }
            last = match last {
                Some(run) if run.end() == word && run.bytes + WORD_BYTES <= RUN_MAX => {
                    Some(Span::new(run.at, run.bytes + WORD_BYTES))
                }
                before => {
                    before.into_iter().for_each(&mut take);
                    Some(Span::new(word, WORD_BYTES))
                }
            };
        }
        at += LINE_BYTES;
    }
    last.into_iter().for_each(take);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::decode;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn record_of(old: &[u8], new: &[u8]) -> LeanRecord {
        let mut record = LeanRecord::default();
        record.begin(1).unwrap();
        record.add(7, 512, old.into(), new);
        record
    }

    /// The record turns the one page into the other, and its runs are words that differ.
    #[test]
    fn record_has_the_words_that_differ_and_no_others() {
        let mut random = SmallRng::seed_from_u64(3);
        for round in 0..300 {
            let len = [512, 1024, 4096][round % 3];
            let mut old = vec![0; len];
            random.fill(&mut old[..]);
            let mut new = old.clone();
            let most = 1 << random.random_range(0..11);
            for _ in 0..random.random_range(0..most) {
                let at = random.random_range(0..len);
                new[at] ^= 1 << random.random_range(0..8);
            }
            let record = record_of(&old, &new);
            assert!(record.bytes.len() <= RECORD_BYTES);
            let mut words = 0;
            let mut made = old.clone();
            for part in decode(&record.bytes, 8192).expect("a record") {
                assert_eq!((part.frame, part.moved), (7, None));
                assert!(part.direct.is_empty() && part.erased.is_empty());
                let mut bytes = &part.bytes[..];
                for run in part.logged {
                    let (these, rest) = bytes.split_at(run.bytes);
                    made[run.at - 512..run.end() - 512].copy_from_slice(these);
                    words += run.bytes / WORD_BYTES;
                    bytes = rest;
                }
            }
            assert_eq!(made, new);
            let differ = old.chunks(8).zip(new.chunks(8)).filter(|(old, new)| old != new).count();
            assert_eq!(words, differ, "round {round}");
        }
    }

    #[test]
    fn most_runs_of_a_page_are_two_parts() {
        let old = vec![0; 4096];
        let new: Vec<u8> = (0..4096).map(|at| u8::from(at % 16 == 0)).collect();
        let record = record_of(&old, &new);
        assert_eq!((record.parts, record.bytes.len()), (2, 2 * PART_BYTES + 256 * (RUN_BYTES + 8)));
    }
}
