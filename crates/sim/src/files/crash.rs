//! The states that a power cut could leave of files, built from their trace: `disk` mode of the
//! crash model.
//!
//! - A sync is a flush and a fence: what was written to the file before it, and the length, is
//!   durable.
//! - Of what was written since, each 512-byte sector may hold any of the contents it had, whole:
//!   pages reach the disk at any time, in any order.
//! - After a sync that failed, the kernel takes the sectors that it could not write for written:
//!   later syncs do not make them durable, unless they are written once more.
//! - The length is the synced one or any that the file had since. Bytes of an extension that did
//!   not persist read as zero; bytes that a persisted truncation cut off are gone.
//! - Creating, renaming and removing happen in order: of those since the last sync of the
//!   directory any first few have persisted, whatever has become of the files' contents.
//!
//! Checking before every sync, at every note and at the end covers all points in between: until
//! the next sync the set of possible states only grows.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::recording::{DiskEvent, DiskRecord, DiskTrace};
use crate::picks::{CrashStates, for_each_pick};

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// A directory with its files, as recovery will find it.
type Image = BTreeMap<String, Vec<u8>>;

#[derive(Clone, Debug)]
struct Version {
    /// Number of the operation that made it.
    operation: usize,
    bytes: Vec<u8>,
}

/// A file: what is durable of it, and what was done since.
#[derive(Clone, Default, Debug)]
struct Inode {
    durable: Vec<u8>,
    current: Vec<u8>,
    operations: usize,
    /// `(operation, new length)`, where it changed.
    lengths: Vec<(usize, usize)>,
    /// `(operation, new length)`, where it became less.
    cuts: Vec<(usize, usize)>,
    /// The contents that sectors had since the last sync, oldest first.
    sectors: BTreeMap<usize, Vec<Version>>,
    /// The sectors that a sync has failed to write, and that were not written since.
    taken_for_written: BTreeSet<usize>,
}

impl Inode {
    fn with(contents: &[u8]) -> Self {
        Self { durable: contents.into(), current: contents.into(), ..Self::default() }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.set_len(self.current.len().max(at + bytes.len()));
        self.operations += 1;
        self.current[at..at + bytes.len()].copy_from_slice(bytes);
        for sector in at / SECTOR..=(at + bytes.len() - 1) / SECTOR {
            self.note_sector(sector);
        }
    }

    fn set_len(&mut self, bytes: usize) {
        let before = self.current.len();
        if bytes == before {
            return;
        }
        self.operations += 1;
        self.current.resize(bytes, 0);
        self.lengths.push((self.operations, bytes));
        if bytes < before {
            self.cuts.push((self.operations, bytes));
            if !bytes.is_multiple_of(SECTOR) {
                // The rest of the last sector is zeroed in place, before or after the length.
                self.note_sector(bytes / SECTOR);
            }
        }
    }

    fn note_sector(&mut self, sector: usize) {
        let bytes = sector_of(&self.current, sector);
        self.taken_for_written.remove(&sector);
        let versions = self.sectors.entry(sector).or_default();
        if versions.is_empty() && self.cuts.is_empty() && sector_of(&self.durable, sector) == bytes
        {
            self.sectors.remove(&sector);
            return;
        }
        versions.push(Version { operation: self.operations, bytes });
    }

    fn sync(&mut self) {
        let before = std::mem::replace(self, Self::with(&self.current));
        for sector in before.taken_for_written {
            // What the disk has of it is as open as before.
            let start = sector * SECTOR;
            let end = self.durable.len().min(start + SECTOR);
            if start < end {
                let old = sector_of(&before.durable, sector);
                self.durable[start..end].copy_from_slice(&old[..end - start]);
                let versions = before.sectors.get(&sector).into_iter().flatten();
                let versions = versions.map(|version| Version { operation: 0, ..version.clone() });
                self.sectors.insert(sector, versions.collect());
                self.taken_for_written.insert(sector);
            }
        }
    }

    fn fail_sync(&mut self) {
        self.taken_for_written = self.sectors.keys().copied().collect();
    }

    /// The file with the first `lengths` changes of its length and the picked sectors.
    fn contents(&self, lengths: usize, picks: &[(usize, usize)]) -> Vec<u8> {
        let (operation, len) = match lengths {
            0 => (0, self.durable.len()),
            some => self.lengths[some - 1],
        };
        let mut bytes = self.durable.clone();
        for (_, cut) in self.cuts.iter().filter(|(at, _)| *at <= operation) {
            bytes.truncate(*cut);
        }
        bytes.resize(len, 0);
        for (sector, pick) in picks {
            let Some(older) = pick.checked_sub(1) else { continue };
            let version = &self.sectors[sector][older];
            let start = sector * SECTOR;
            let mut end = len.min(start + SECTOR);
            for (at, cut) in &self.cuts {
                if *at > version.operation && *at <= operation {
                    end = end.min(*cut);
                }
            }
            if start < len {
                bytes[start..len.min(start + SECTOR)].fill(0);
            }
            if start < end {
                bytes[start..end].copy_from_slice(&version.bytes[..end - start]);
            }
        }
        bytes
    }
}

fn sector_of(contents: &[u8], sector: usize) -> Vec<u8> {
    let start = contents.len().min(sector * SECTOR);
    let end = contents.len().min(start + SECTOR);
    let mut bytes = contents[start..end].to_vec();
    bytes.resize(SECTOR, 0);
    bytes
}

/// Walks along a trace of files and stops at each crash point.
#[derive(Debug)]
pub struct DiskReplay<'a> {
    trace: &'a DiskTrace,
    next: usize,
    inodes: BTreeMap<u64, Inode>,
    /// The directory as it is durable.
    names: BTreeMap<String, u64>,
    /// The changes to the directory since, in order.
    pending: Vec<&'a DiskEvent>,
    changed: bool,
    last_note: Option<u64>,
    syncs: u64,
}

impl<'a> DiskReplay<'a> {
    /// Starts before the first event.
    pub fn new(trace: &'a DiskTrace) -> Self {
        let inode = |(name, number): (&String, &u64)| (*number, Inode::with(&trace.image[name]));
        Self {
            trace,
            next: 0,
            inodes: trace.numbers.iter().map(inode).collect(),
            names: trace.numbers.clone(),
            pending: Vec::new(),
            changed: true,
            last_note: None,
            syncs: 0,
        }
    }

    /// Returns the number of syncs before it.
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Goes on to the next crash point: before a sync, before a note and after it, or at the end.
    /// Points between which nothing was done or promised are one point.
    pub fn next_point(&mut self) -> Option<DiskPoint<'_>> {
        self.pass_point().then(|| self.point())
    }

    /// The same, without looking at it. Returns whether there was one.
    pub fn pass_point(&mut self) -> bool {
        let is_stop = |event: &DiskEvent| {
            matches!(event, DiskEvent::Sync { .. } | DiskEvent::SyncDirectory | DiskEvent::Note(_))
        };
        let mut stops = false;
        loop {
            let next = self.trace.events.get(self.next);
            stops |= next.is_none_or(|record| is_stop(&record.event));
            if stops && std::mem::take(&mut self.changed) {
                return true;
            }
            let Some(record) = next else { return false };
            self.next += 1;
            self.apply(&record.event);
            stops = matches!(record.event, DiskEvent::Note(_));
        }
    }

    fn apply(&mut self, event: &'a DiskEvent) {
        let inodes = &mut self.inodes;
        self.changed = !matches!(event, DiskEvent::Sync { .. } | DiskEvent::SyncDirectory);
        match event {
            DiskEvent::Create { .. } | DiskEvent::Rename { .. } | DiskEvent::Remove { .. } => {
                self.pending.push(event);
            }
            DiskEvent::SyncDirectory => {
                self.syncs += 1;
                for event in self.pending.drain(..) {
                    change_names(&mut self.names, event);
                }
            }
            DiskEvent::Write { file, at, bytes } => {
                inodes.entry(*file).or_default().write(*at as usize, bytes);
            }
            DiskEvent::SetLen { file, bytes } => {
                inodes.entry(*file).or_default().set_len(*bytes as usize);
            }
            DiskEvent::Reserve { file, bytes } => {
                let inode = inodes.entry(*file).or_default();
                inode.set_len(inode.current.len().max(*bytes as usize));
            }
            DiskEvent::Sync { file } => {
                self.syncs += 1;
                inodes.entry(*file).or_default().sync();
            }
            DiskEvent::FailedSync { file } => inodes.entry(*file).or_default().fail_sync(),
            // What was promised has changed although no byte has.
            DiskEvent::Note(note) => self.last_note = Some(*note),
        }
    }

    /// The event that comes next.
    pub(crate) fn peek(&self) -> Option<&'a DiskRecord> {
        self.trace.events.get(self.next)
    }

    /// Does what was recorded next. Returns whether anything was done, or promised.
    pub(crate) fn advance(&mut self) -> bool {
        if let Some(record) = self.peek() {
            self.next += 1;
            self.apply(&record.event);
        }
        self.changed
    }

    /// The place where it is, as a crash point.
    pub(crate) fn point(&self) -> DiskPoint<'_> {
        let mut choices = Vec::new();
        if !self.pending.is_empty() {
            choices.push(Choice { part: Part::Names, options: self.pending.len() + 1 });
        }
        for (file, inode) in &self.inodes {
            if !inode.lengths.is_empty() {
                let options = inode.lengths.len() + 1;
                choices.push(Choice { part: Part::Length { file: *file }, options });
            }
            for (sector, versions) in &inode.sectors {
                let part = Part::Sector { file: *file, sector: *sector };
                choices.push(Choice { part, options: versions.len() + 1 });
            }
        }
        DiskPoint {
            inodes: &self.inodes,
            names: &self.names,
            pending: &self.pending,
            choices,
            last_note: self.last_note,
            position: self.next,
        }
    }
}

fn change_names(names: &mut BTreeMap<String, u64>, event: &DiskEvent) {
    match event {
        DiskEvent::Create { name, file } => {
            names.insert(name.clone(), *file);
        }
        DiskEvent::Rename { from, to } => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        DiskEvent::Remove { name } => {
            names.remove(name);
        }
        _ => {}
    }
}

/// A part of the disk that may have persisted in part: option 0 is nothing, the last everything.
#[derive(Clone, Copy, Debug)]
struct Choice {
    part: Part,
    options: usize,
}

/// A part of the disk that persists by itself.
#[derive(Clone, Copy, Debug)]
enum Part {
    Names,
    Length { file: u64 },
    Sector { file: u64, sector: usize },
}

/// A place in a trace where a crash is looked at.
#[derive(Debug)]
pub struct DiskPoint<'a> {
    inodes: &'a BTreeMap<u64, Inode>,
    names: &'a BTreeMap<String, u64>,
    pending: &'a [&'a DiskEvent],
    choices: Vec<Choice>,
    /// The notes up to here end with this one.
    pub last_note: Option<u64>,
    /// The number of events before it.
    pub position: usize,
}

impl DiskPoint<'_> {
    /// Returns how many sectors, lengths and directories may differ from what is durable.
    pub fn pending(&self) -> usize {
        self.choices.len()
    }

    /// Calls `visit` with the directory's contents in each state, no state twice: all of them if
    /// there are at most `bound` combinations, else "all lost", "all persisted", a set in which
    /// every two sectors are seen in all four combinations of lost and persisted, up to `bound` states
    /// in which every sector, length and directory has another of its newest contents, each one alone
    /// persisted and alone lost, and samples up to `bound` states. The same seed gives the same
    /// states.
    pub fn for_each_state(
        &self,
        bound: u64,
        seed: u64,
        mut visit: impl FnMut(&BTreeMap<String, Vec<u8>>),
    ) -> CrashStates {
        let mut seen = HashSet::new();
        for_each_pick(&self.options(), bound, seed, self.position, |picks| {
            let image = self.image(picks);
            let mut hasher = DefaultHasher::new();
            image.hash(&mut hasher);
            let is_new = seen.insert(hasher.finish());
            if is_new {
                visit(&image);
            }
            is_new
        })
    }

    /// The number of options of each sector, length and directory that may differ.
    pub(crate) fn options(&self) -> Vec<usize> {
        self.choices.iter().map(|choice| choice.options).collect()
    }

    /// The directory's contents with these options picked.
    pub(crate) fn image(&self, picks: &[usize]) -> Image {
        let mut names = self.names.clone();
        let mut lengths: BTreeMap<u64, usize> = BTreeMap::new();
        let mut sectors: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
        for (choice, pick) in self.choices.iter().zip(picks) {
            match choice.part {
                Part::Names => {
                    for event in &self.pending[..*pick] {
                        change_names(&mut names, event);
                    }
                }
                Part::Length { file } => {
                    lengths.insert(file, *pick);
                }
                Part::Sector { file, sector } => {
                    sectors.entry(file).or_default().push((sector, *pick));
                }
            }
        }
        let contents = |file: &u64| {
            let Some(inode) = self.inodes.get(file) else { return Vec::new() };
            let picks = sectors.get(file).map_or(&[][..], |picks| picks);
            inode.contents(lengths.get(file).copied().unwrap_or(0), picks)
        };
        names.iter().map(|(name, file)| (name.clone(), contents(file))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use pm::{File, Files};

    use crate::{RecordedFile, RecordingFiles};

    /// All states that the trace of `act` can leave at its last crash point. Before it,
    /// there is a file `a` with 1,024 bytes of 1.
    fn states(act: impl FnOnce(&RecordingFiles, &RecordedFile)) -> HashSet<Image> {
        let files = RecordingFiles::from_image([("a".into(), vec![1; 1024])].into());
        files.start();
        act(&files, &files.open("a").unwrap());
        let trace = files.stop();
        let mut replay = DiskReplay::new(&trace);
        let mut found = HashSet::new();
        while let Some(point) = replay.next_point() {
            found.clear();
            let states = point.for_each_state(10_000, 1, |image| {
                assert!(found.insert(image.clone()), "no state twice");
            });
            assert_eq!(states.visited, found.len() as u64);
        }
        found
    }

    #[test]
    fn sectors_persist_whole_and_in_any_subset_until_synced() {
        let found = states(|_, file| file.write_at(500, &[2; 100]).unwrap());
        let seen: HashSet<_> = found
            .iter()
            .map(|image| (image["a"][499], image["a"][511], image["a"][512], image["a"][600]))
            .collect();
        assert_eq!(seen, HashSet::from([(1, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 1), (1, 2, 2, 1)]));
        let synced = states(|_, file| {
            file.write_at(500, &[2; 100]).unwrap();
            file.sync().unwrap();
            file.write_at(0, &[3]).unwrap();
        });
        assert!(synced.iter().all(|image| image["a"][500..600] == [2; 100]));
        assert_eq!(synced.len(), 2);
    }

    #[test]
    fn a_sector_may_hold_any_content_it_had_since_the_sync() {
        let found = states(|_, file| {
            file.write_at(0, &[2]).unwrap();
            file.write_at(0, &[3]).unwrap();
        });
        let seen: HashSet<_> = found.iter().map(|image| image["a"][0]).collect();
        assert_eq!(seen, HashSet::from([1, 2, 3]));
    }

    #[test]
    fn an_unsynced_length_is_lost_and_reads_as_zero() {
        let found = states(|_, file| file.write_at(1024, &[2; 512]).unwrap());
        let seen: HashSet<_> =
            found.iter().map(|image| (image["a"].len(), image["a"].get(1024).copied())).collect();
        assert_eq!(seen, HashSet::from([(1024, None), (1536, Some(0)), (1536, Some(2))]));
    }

    #[test]
    fn a_truncation_that_was_not_synced_may_not_have_happened() {
        let found = states(|_, file| {
            file.set_len(512).unwrap();
            file.reserve(1024).unwrap();
        });
        let seen: HashSet<_> =
            found.iter().map(|image| (image["a"].len(), image["a"].get(512).copied())).collect();
        assert_eq!(seen, HashSet::from([(1024, Some(1)), (512, None), (1024, Some(0))]));
        let synced = states(|_, file| {
            file.set_len(512).unwrap();
            file.sync().unwrap();
            file.reserve(1024).unwrap();
        });
        assert!(synced.iter().all(|image| image["a"][512..].iter().all(|byte| *byte == 0)));
        assert_eq!(synced.len(), 2);
    }

    #[test]
    fn directory_operations_persist_in_order() {
        let found = states(|files, _| {
            let new = files.create("new").unwrap();
            new.write_at(0, &[2; 10]).unwrap();
            files.rename("new", "a").unwrap();
        });
        let seen: HashSet<_> = found
            .iter()
            .map(|image| {
                (image["a"].first().copied(), image.get("new").map(|new| new.first().copied()))
            })
            .collect();
        assert_eq!(
            seen,
            HashSet::from([
                (Some(1), None),
                (Some(1), Some(None)),
                (Some(1), Some(Some(0))),
                (Some(1), Some(Some(2))),
                (None, None),
                (Some(0), None),
                (Some(2), None),
            ])
        );
        let synced = states(|files, _| {
            let new = files.create("new").unwrap();
            new.write_at(0, &[2; 10]).unwrap();
            new.sync().unwrap();
            files.rename("new", "a").unwrap();
            files.sync_directory().unwrap();
            files.note(1);
        });
        assert_eq!(synced, HashSet::from([[("a".to_string(), vec![2; 10])].into()]));
    }

    #[test]
    fn beyond_the_bound_sectors_are_seen_in_all_pairs() {
        const SECTORS: usize = if cfg!(miri) { 10 } else { 60 };
        const BOUND: u64 = if cfg!(miri) { 30 } else { 200 };
        let files = RecordingFiles::from_image([("a".into(), vec![0; 512 * SECTORS])].into());
        files.start();
        files.open("a").unwrap().write_at(0, &[1; 512 * SECTORS]).unwrap();
        let trace = files.stop();
        let mut images = Vec::new();
        let mut replay = DiskReplay::new(&trace);
        let point = replay.next_point().unwrap();
        let states = point.for_each_state(BOUND, 3, |image| images.push(image["a"].clone()));
        assert!(!states.exhaustive && states.visited <= BOUND);
        for a in 0..SECTORS {
            for b in 0..a {
                let combination = |image: &Vec<u8>| image[a * 512] * 2 + image[b * 512];
                let seen = images.iter().fold(0, |seen, image| seen | 1 << combination(image));
                assert_eq!(seen, 0b1111, "sectors {a} and {b}");
            }
        }
    }

    #[test]
    fn a_dropped_sync_loses_what_it_kept() {
        let files = RecordingFiles::new();
        files.start();
        let file = files.create("a").unwrap();
        files.sync_directory().unwrap();
        file.write_at(0, &[7]).unwrap();
        file.sync().unwrap();
        files.note(1);
        let trace = files.stop();
        let lost = |trace: &DiskTrace| {
            let mut replay = DiskReplay::new(trace);
            let mut lost = 0;
            while let Some(point) = replay.next_point() {
                let noted = point.last_note.is_some();
                point.for_each_state(100, 1, |image| {
                    let kept = image.get("a").is_some_and(|bytes| bytes == &[7]);
                    lost += u64::from(noted && !kept);
                });
            }
            lost
        };
        assert_eq!(lost(&trace), 0);
        let sites = trace.sync_sites();
        assert_eq!(sites.len(), 2);
        for site in sites {
            assert!(lost(&trace.without_syncs_of(site)) > 0, "{site}");
        }
    }

    #[test]
    fn a_full_medium_fails_every_later_call_and_poisons_the_handle() {
        let files = RecordingFiles::new();
        let file = files.create("a").unwrap();
        files.fail_after(Some(1));
        file.write_at(0, &[1; 4]).unwrap();
        let full = |result: std::io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        };
        full(file.write_at(4, &[2; 4]));
        full(file.reserve(100));
        full(files.remove("a"));
        full(file.sync());
        assert_eq!(files.image()["a"], [1, 1, 1, 1, 2, 2], "half of the failed write");
        files.fail_after(None);
        assert!(file.sync().is_err(), "a failed sync is never made good");
        assert!(file.write_at(0, &[1]).is_err());
        files.open("a").unwrap().sync().unwrap();
    }
}
