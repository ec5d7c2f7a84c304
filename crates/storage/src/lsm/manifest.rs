//! The manifest: which runs a partition has, and where its part of the log starts.
//!
//! Invariants:
//! - Only files that the manifest names count. Every file that it names is complete and durable.
//! - An edit is one frame with the whole state after it. The last valid frame counts; bytes after
//!   it are the trace of a crash in the middle of an edit that was never acknowledged.
//! - A file that an edit makes superfluous is removed only when the edit is durable.
//!
//! The state is a few dozen bytes a run, so a frame holds all of it. When the file has become long,
//! it is written anew under another name and then replaces the old one, unless the medium is full and
//! the old one has space. That is set aside by [`Manifest::reserve`] and reads as zero. The bytes are
//! drawn in `docs/format/manifest.md`.

use pm::{File, Files};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::error::LsmError;
use super::sstable::SsInfo;
use crate::MAX_COUNTER;
use crate::logs::segments::is_full;
use crate::logs::wal::LogStart;

const MAGIC: [u8; 8] = *b"PERDMAN\0";
const VERSION: u32 = 1;
const HEADER_BYTES: u64 = 32;
const FRAME_BYTES: u64 = 48;
const RUN_BYTES: u64 = 40;
/// A file that is longer is written anew.
const LONG_BYTES: u64 = 16 << 10;
/// Bytes that are set aside for edits on a full medium, besides two.
const ASIDE_BYTES: u64 = 4 << 10;
/// The most runs in a frame: a tree has a few runs at each of a few levels.
const MAX_RUNS: u32 = 1 << 16;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: U32,
    checksum: U32,
    partition: U32,
    /// The stamp of the database whose file it is.
    stamp: U32,
    reserved: [U32; 2],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct Frame {
    /// The number of bytes of the whole frame.
    bytes: U32,
    checksum: U32,
    /// Counts the edits.
    edit: U64,
    log_sequence: U64,
    log_txn: U64,
    next_file: U64,
    runs: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RunEntry {
    file: U64,
    bytes: U64,
    entries: U64,
    tombstones: U64,
    level: U32,
    checksum: U32,
}

const _: () = assert!(size_of::<Header>() as u64 == HEADER_BYTES);
const _: () = assert!(size_of::<Frame>() as u64 == FRAME_BYTES);
const _: () = assert!(size_of::<RunEntry>() as u64 == RUN_BYTES);
const _: () = assert!(std::mem::offset_of!(Header, partition) == 16);
const _: () = assert!(std::mem::offset_of!(Frame, log_sequence) == 16);
const _: () = assert!(std::mem::offset_of!(Frame, runs) == 40);
const _: () = assert!(std::mem::offset_of!(RunEntry, level) == 32);

/// The contents of the manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// The runs with their levels, newest first.
    pub runs: Vec<(u32, SsInfo)>,
    /// The log from here on is not in the runs.
    pub log: LogStart,
    /// The number of the next file.
    pub next_file: u64,
}

impl Version {
    /// Returns whether an edit of this number that says so can be read again.
    fn is_in_range(&self, edit: u64) -> bool {
        let counters = [edit, self.log.sequence, self.log.txn, self.next_file];
        counters.into_iter().all(|counter| counter <= MAX_COUNTER)
            && self.runs.len() as u64 <= u64::from(MAX_RUNS)
    }

    fn encode(&self, edit: u64, out: &mut Vec<u8>) {
        let start = out.len();
        let frame = Frame {
            bytes: ((FRAME_BYTES + RUN_BYTES * self.runs.len() as u64) as u32).into(),
            checksum: 0.into(),
            edit: edit.into(),
            log_sequence: self.log.sequence.into(),
            log_txn: self.log.txn.into(),
            next_file: self.next_file.into(),
            runs: (self.runs.len() as u32).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(frame.as_bytes());
        for (level, info) in &self.runs {
            let run = RunEntry {
                file: info.file.into(),
                bytes: info.bytes.into(),
                entries: info.entries.into(),
                tombstones: info.tombstones.into(),
                level: (*level).into(),
                checksum: info.checksum.into(),
            };
            out.extend_from_slice(run.as_bytes());
        }
        let sum = crc32c::crc32c(&out[start + 8..]);
        out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
    }

    /// The frame at the start of `bytes`, if it is valid: its edit, its state, its bytes.
    fn decode(bytes: &[u8]) -> Option<(u64, Self, usize)> {
        let (frame, rest) = Frame::read_from_prefix(bytes).ok()?;
        let runs = frame.runs.get();
        let len = frame.bytes.get() as usize;
        if runs > MAX_RUNS
            || len as u64 != FRAME_BYTES + RUN_BYTES * u64::from(runs)
            || len > bytes.len()
            || crc32c::crc32c(&bytes[8..len]) != frame.checksum.get()
        {
            return None;
        }
        let runs = rest[..len - FRAME_BYTES as usize]
            .chunks_exact(RUN_BYTES as usize)
            .filter_map(|bytes| RunEntry::read_from_bytes(bytes).ok())
            .map(|run| {
                let info = SsInfo {
                    file: run.file.get(),
                    bytes: run.bytes.get(),
                    entries: run.entries.get(),
                    tombstones: run.tombstones.get(),
                    checksum: run.checksum.get(),
                };
                (run.level.get(), info)
            })
            .collect();
        let log = LogStart { sequence: frame.log_sequence.get(), txn: frame.log_txn.get() };
        let version = Self { runs, log, next_file: frame.next_file.get() };
        version.is_in_range(frame.edit.get()).then(|| (frame.edit.get(), version, len))
    }
}

fn name(partition: u32) -> String {
    format!("manifest-{partition}")
}

fn temporary(partition: u32) -> String {
    format!("manifest-{partition}.tmp")
}

/// A manifest that edits are appended to.
#[derive(Debug)]
pub struct Manifest<F: Files> {
    files: F,
    partition: u32,
    file: F::File,
    /// The last edit.
    edit: u64,
    /// The place where the next frame goes.
    end: u64,
    /// Bytes for which the file has space.
    reserved: u64,
    /// True if a crash has torn an edit there.
    torn: bool,
    poisoned: bool,
    frame: Vec<u8>,
}

impl<F: Files> Manifest<F> {
    /// Creates the manifest of an empty partition, durably.
    ///
    /// # Errors
    /// [`LsmError::Io`].
    pub fn create(files: F, partition: u32, version: &Version) -> Result<Self, LsmError> {
        let (file, end) = prepare(&files, partition, 1, version)?;
        publish(&files, partition)?;
        Ok(Self {
            files,
            partition,
            file,
            edit: 1,
            end,
            reserved: end,
            torn: false,
            poisoned: false,
            frame: Vec::new(),
        })
    }

    /// Opens the manifest and says which state counts. Its bytes are durable when this returns; its
    /// name is after the next sync of the directory, before which nothing may be removed.
    /// An edit that a crash has torn stays until the next one, which writes the manifest anew.
    ///
    /// # Errors
    /// It is missing, damaged or of another version; [`LsmError::Io`]. Nothing has changed then.
    pub fn open(files: F, partition: u32) -> Result<(Self, Version), LsmError> {
        let name = name(partition);
        let file = match files.open(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(LsmError::NoManifest { name });
            }
            opened => opened.map_err(LsmError::io("open", &name))?,
        };
        let len = file.len().map_err(LsmError::io("read", &name))?;
        if len > LONG_BYTES + FRAME_BYTES + RUN_BYTES * u64::from(MAX_RUNS) {
            return Err(LsmError::damaged(&name, 0, "it is far too long"));
        }
        let mut bytes = vec![0; len as usize];
        let filled = file.read_at(0, &mut bytes).map_err(LsmError::io("read", &name))?;
        bytes.truncate(filled);
        check_header(&bytes, &name, partition, files.stamp())?;
        let mut end = HEADER_BYTES as usize;
        let mut last: Option<(u64, Version)> = None;
        while let Some((edit, version, len)) = Version::decode(&bytes[end..]) {
            if last.as_ref().is_some_and(|(before, _)| edit != before + 1) {
                break;
            }
            last = Some((edit, version));
            end += len;
        }
        let Some((edit, version)) = last else {
            return Err(LsmError::damaged(&name, end as u64, "there is no valid edit"));
        };
        // A crash tears the last frame only: the one before it was durable when it was begun.
        let later = (end..bytes.len())
            .find_map(|at| Version::decode(&bytes[at..]).filter(|(later, _, _)| *later > edit));
        if later.is_some() {
            let what = "an edit is damaged, and there are later ones";
            return Err(LsmError::damaged(&name, end as u64, what));
        }
        // The bytes read may be in the kernel's pages only, if the process was killed or a sync
        // has failed; the files that it supersedes must not go before it is durable.
        file.sync_anew(end as u64).map_err(LsmError::io("sync", &name))?;
        let manifest = Self {
            files,
            partition,
            file,
            edit,
            end: end as u64,
            reserved: len,
            torn: bytes[end..].iter().any(|byte| *byte != 0),
            poisoned: false,
            frame: Vec::new(),
        };
        Ok((manifest, version))
    }

    /// Makes `version` the one that counts, durably.
    ///
    /// # Errors
    /// [`LsmError::Io`]: the version before counts still. [`LsmError::Poisoned`]: which of the two
    /// counts is unknown until the partition is opened again. [`LsmError::Damaged`]: a number is so
    /// large that no edit could be read again; it cannot come from our own counting.
    pub fn edit(&mut self, version: &Version) -> Result<(), LsmError> {
        if self.poisoned {
            return Err(LsmError::Poisoned);
        }
        if !version.is_in_range(self.edit + 1) {
            let what = "a number is at the end of its range";
            return Err(LsmError::damaged(&name(self.partition), self.end, what));
        }
        self.frame.clear();
        version.encode(self.edit + 1, &mut self.frame);
        if self.torn || self.end >= LONG_BYTES {
            let has_space = self.end + self.frame.len() as u64 <= self.reserved;
            match self.rewrite(version) {
                Err(error) if error.is_full() && has_space && !self.poisoned => {
                    self.clear_torn()?
                }
                done => return done,
            }
        }
        let name = name(self.partition);
        if let Err(source) = self.file.write_at(self.end, &self.frame) {
            // A part of it must not stay: the next frame may be shorter.
            self.reserved = self.end;
            if self.file.set_len(self.end).is_err() {
                self.poisoned = true;
            }
            return Err(LsmError::io("write to", &name)(source));
        }
        if self.file.sync().is_err() {
            self.poisoned = true;
            return Err(LsmError::Poisoned);
        }
        self.edit += 1;
        self.end += self.frame.len() as u64;
        self.reserved = self.reserved.max(self.end);
        Ok(())
    }

    /// Lets what a crash has left of an edit read as zero, durably: the next one may be shorter.
    fn clear_torn(&mut self) -> Result<(), LsmError> {
        if self.torn {
            let zeros = vec![0; (self.reserved - self.end) as usize];
            let cleared = self.file.write_at(self.end, &zeros);
            cleared.map_err(LsmError::io("write to", &name(self.partition)))?;
            if self.file.sync().is_err() {
                self.poisoned = true;
                return Err(LsmError::Poisoned);
            }
            self.torn = false;
        }
        Ok(())
    }

    /// Sets space aside for edits of a few runs more than so many, so that a full medium takes them.
    ///
    /// # Errors
    /// [`LsmError::Io`]: the medium has no room. Edits may find some.
    pub fn reserve(&mut self, runs: usize) -> Result<(), LsmError> {
        let needed = self.end + 2 * (FRAME_BYTES + RUN_BYTES * (runs as u64 + 4));
        if needed <= self.reserved || self.torn || self.poisoned {
            return Ok(());
        }
        let mut to = needed + ASIDE_BYTES;
        let mut done = self.file.reserve(to);
        if done.as_ref().is_err_and(is_full) {
            to = needed;
            done = self.file.reserve(to);
        }
        done.map_err(LsmError::io("reserve space for", &name(self.partition)))?;
        self.reserved = to;
        Ok(())
    }

    fn rewrite(&mut self, version: &Version) -> Result<(), LsmError> {
        let made =
            prepare(&self.files, self.partition, self.edit + 1, version).inspect_err(|_| {
                // Where this fails too, it goes when it is tried again.
                let _ = remove_leftovers(&self.files, self.partition);
            })?;
        // From here on either of the two files may count.
        publish(&self.files, self.partition).inspect_err(|_| self.poisoned = true)?;
        (self.file, self.end) = made;
        self.reserved = self.end;
        self.torn = false;
        self.edit += 1;
        Ok(())
    }

    /// Returns whether a sync failed, so that the version that counts is unknown.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Bytes of the file that say something.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Bytes of the file, with those that are set aside.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }
}

fn check_header(bytes: &[u8], name: &str, partition: u32, stamp: u32) -> Result<(), LsmError> {
    let damaged = |what| LsmError::damaged(name, 0, what);
    let Ok((header, _)) = Header::read_from_prefix(bytes) else {
        return Err(damaged("the file is shorter than its header"));
    };
    if header.magic != MAGIC {
        return Err(damaged("this is no manifest"));
    }
    if header.version.get() != VERSION {
        let found = header.version.get();
        return Err(LsmError::Version { name: name.into(), found, supported: VERSION });
    }
    if header.checksum.get() != header_sum(header) {
        return Err(damaged("the header's checksum is wrong"));
    }
    if header.partition.get() != partition {
        return Err(LsmError::Foreign {
            name: name.into(),
            what: "it belongs to another partition",
        });
    }
    if header.stamp.get() != stamp {
        return Err(LsmError::Foreign {
            name: name.into(),
            what: "it belongs to another database",
        });
    }
    Ok(())
}

fn header_sum(mut header: Header) -> u32 {
    header.checksum = 0.into();
    crc32c::crc32c(header.as_bytes())
}

/// Writes a manifest with one edit to a file next to the old one. The file is durable, its name is
/// not yet.
fn prepare<F: Files>(
    files: &F,
    partition: u32,
    edit: u64,
    version: &Version,
) -> Result<(F::File, u64), LsmError> {
    let temporary = temporary(partition);
    let mut header = Header {
        magic: MAGIC,
        version: VERSION.into(),
        checksum: 0.into(),
        partition: partition.into(),
        stamp: files.stamp().into(),
        reserved: [0.into(); 2],
    };
    header.checksum = header_sum(header).into();
    let mut bytes = header.as_bytes().to_vec();
    version.encode(edit, &mut bytes);
    remove_leftovers(files, partition)?;
    let file = files.create(&temporary).map_err(LsmError::io("create", &temporary))?;
    file.write_at(0, &bytes).map_err(LsmError::io("write to", &temporary))?;
    file.sync().map_err(LsmError::io("sync", &temporary))?;
    Ok((file, bytes.len() as u64))
}

/// Puts it in the place of the old one, durably.
fn publish<F: Files>(files: &F, partition: u32) -> Result<(), LsmError> {
    let (name, temporary) = (name(partition), temporary(partition));
    files.rename(&temporary, &name).map_err(LsmError::io("rename", &temporary))?;
    files.sync_directory().map_err(LsmError::io("sync the directory of", &name))
}

/// Removes what a crash left of a manifest that was being written anew.
///
/// # Errors
/// [`LsmError::Io`].
pub fn remove_leftovers<F: Files>(files: &F, partition: u32) -> Result<(), LsmError> {
    let temporary = temporary(partition);
    match files.remove(&temporary) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LsmError::io("remove", &temporary)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_format_description() {
        assert_eq!((HEADER_BYTES, FRAME_BYTES, RUN_BYTES, LONG_BYTES), (32, 48, 40, 16 << 10));
        let info = SsInfo { file: 6, bytes: 7, entries: 8, tombstones: 9, checksum: 11 };
        let log = LogStart { sequence: 2, txn: 3 };
        let version = Version { runs: vec![(10, info)], log, next_file: 4 };
        let mut bytes = Vec::new();
        version.encode(1, &mut bytes);
        assert_eq!((bytes.len(), bytes[0]), (88, 88));
        assert_eq!([8, 16, 24, 32, 40].map(|at| bytes[at]), [1, 2, 3, 4, 1]);
        assert_eq!([48, 56, 64, 72, 80, 84].map(|at| bytes[at]), [6, 7, 8, 9, 10, 11]);
        assert_eq!(Version::decode(&bytes), Some((1, version, 88)));
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let start = |sequence, txn, next_file| Version {
            runs: Vec::new(),
            log: LogStart { sequence, txn },
            next_file,
        };
        let files = sim::RecordingFiles::new();
        let mut manifest = Manifest::create(files.clone(), 0, &start(1, 1, 1)).expect("created");
        let (most, far) = (MAX_COUNTER, MAX_COUNTER + 1);
        for version in [start(far, 1, 1), start(1, far, 1), start(1, 1, far)] {
            let refused = manifest.edit(&version);
            assert!(matches!(refused, Err(LsmError::Damaged { .. })), "{refused:?}");
        }
        let last = start(most, most, most);
        manifest.edit(&last).expect("written");
        manifest.edit = most;
        let refused = manifest.edit(&last);
        assert!(matches!(refused, Err(LsmError::Damaged { .. })), "{refused:?}");
        assert_eq!(Manifest::open(files, 0).expect("as it was").1, last);
    }
}
