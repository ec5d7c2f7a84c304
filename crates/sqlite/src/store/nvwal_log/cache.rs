//! NVWAL's pages in ordinary memory: the log's contents on top of the database in persistent memory.

use std::collections::BTreeMap;

use slotted::diff::{Run, merge};

use crate::store::layout::GRANULE;
use crate::store::stage::Granule;

/// The log frames after which a checkpoint is made, as in SQLite.
pub(crate) const FRAMES_PER_CHECKPOINT: usize = 1000;

/// The log as far as a connection has read it.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Bytes of the log that have been read.
    pub(crate) bytes: u64,
    /// How often the log had been emptied.
    pub(crate) emptied: u64,
    /// The size of the database, if the log has one.
    pub(crate) size: Option<u64>,
    /// Log frames read.
    pub(crate) frames: usize,
    pages: BTreeMap<u64, Granule>,
    /// Runs of each granule that are in the log.
    index: BTreeMap<u64, Vec<Run>>,
}

impl Cache {
    /// Forgets everything; `emptied` is how often the log has been emptied.
    pub(crate) fn clear(&mut self, emptied: u64) {
        *self = Self { emptied, ..Self::default() };
    }

    /// Returns whether the log is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
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
