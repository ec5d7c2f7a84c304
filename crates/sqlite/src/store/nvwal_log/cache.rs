//! NVWAL's pages in ordinary memory: the log's contents on top of the database in persistent memory.

use std::collections::BTreeMap;

use slotted::diff::{Run, merge};

use crate::store::layout::GRANULE;
use crate::store::stage::Granule;

/// The log frames after which a checkpoint is made, as in SQLite.
const FRAMES_PER_CHECKPOINT: usize = 1000;

/// The log as far as a connection has read it.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Bytes of the log that have been read.
    bytes: u64,
    /// How often the log had been emptied.
    emptied: u64,
    /// The size of the database, if the log has one.
    size: Option<u64>,
    /// Log frames read.
    frames: usize,
    /// The log frames after which a checkpoint is made.
    frames_per_checkpoint: usize,
    pages: BTreeMap<u64, Granule>,
    /// Runs of each granule that are in the log.
    index: BTreeMap<u64, Vec<Run>>,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            bytes: 0,
            emptied: 0,
            size: None,
            frames: 0,
            frames_per_checkpoint: FRAMES_PER_CHECKPOINT,
            pages: BTreeMap::new(),
            index: BTreeMap::new(),
        }
    }
}

impl Cache {
    /// Sets the number of log frames after which a checkpoint is made.
    pub(crate) fn set_frames_per_checkpoint(&mut self, frames: usize) {
        self.frames_per_checkpoint = frames;
    }

    /// Forgets everything; `emptied` is how often the log has been emptied.
    pub(crate) fn clear(&mut self, emptied: u64) {
        let frames_per_checkpoint = self.frames_per_checkpoint;
        *self = Self { emptied, frames_per_checkpoint, ..Self::default() };
    }

    /// Forgets everything, as the log is about to be emptied once more. Returns how often it has been then.
    pub(crate) fn empty(&mut self) -> u64 {
        self.clear(self.emptied + 1);
        self.emptied
    }

    /// Forgets everything if the log, which has so many bytes now, has been emptied since. Returns how many of them have
    /// been read.
    pub(crate) fn follow(&mut self, bytes: u64, emptied: u64) -> u64 {
        if emptied != self.emptied || bytes < self.bytes {
            self.clear(emptied);
        }
        self.bytes
    }

    /// Notes that so many bytes of the log have been read.
    pub(crate) fn note_read(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Returns whether the log is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes of the log that have been read, and how often it had been emptied.
    #[inline]
    pub(crate) fn state(&self) -> (u64, u64) {
        (self.bytes, self.emptied)
    }

    /// The number of log frames.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Returns whether a checkpoint is to be made.
    pub(crate) fn is_full(&self) -> bool {
        self.frames >= self.frames_per_checkpoint
    }

    /// Notes the database's size in a log frame.
    pub(crate) fn set_size(&mut self, size: u64) {
        self.size = Some(size);
    }

    /// The size that the log gives a database of so many bytes.
    #[inline]
    pub(crate) fn size_of(&self, in_place: u64) -> u64 {
        self.size.unwrap_or(in_place)
    }

    /// The granule of a number, if the log has bytes of it.
    pub(crate) fn get(&self, number: u64) -> Option<&Granule> {
        self.pages.get(&number)
    }

    /// Adds a new granule.
    pub(crate) fn add(&mut self, number: u64, granule: Granule) {
        self.pages.insert(number, granule);
    }

    /// Adds a run to a granule.
    pub(crate) fn put(&mut self, number: u64, at: usize, bytes: &[u8]) {
        let granule = self.pages.get_mut(&number).expect("it was added");
        granule[at..at + bytes.len()].copy_from_slice(bytes);
        self.index.entry(number).or_default().push((at, bytes.len()));
        self.frames += 1;
    }

    /// The runs in the log, each byte once, with their places in the database.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.index.iter().flat_map(|(number, runs)| {
            let granule = &self.pages[number];
            merge(runs.clone())
                .into_iter()
                .map(move |(at, len)| (number * GRANULE + at as u64, &granule[at..at + len]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_runs_are_listed_once_with_last_bytes() {
        let mut cache = Cache::default();
        cache.add(3, Box::new([1; GRANULE as usize]));
        cache.put(3, 10, &[2; 20]);
        cache.put(3, 25, &[3; 10]);
        cache.put(3, 4000, &[4; 8]);
        let runs: Vec<(u64, Vec<u8>)> = cache.runs().map(|(at, run)| (at, run.to_vec())).collect();
        let first = [vec![2; 15], vec![3; 10]].concat();
        assert_eq!(runs, [(3 * GRANULE + 10, first), (3 * GRANULE + 4000, vec![4; 8])]);
        assert_eq!((cache.frames, cache.get(3).map(|page| page[9])), (3, Some(1)));
        cache.clear(7);
        assert!(cache.get(3).is_none() && cache.is_empty() && cache.emptied == 7);
    }
}
