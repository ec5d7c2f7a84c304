//! Reads an archive: all of it from a place on, or single records.

use pm::{File, Files};

use super::super::record::{self, HEADER_BYTES as RECORD_BYTES};
use super::super::{Kind, Logged, Visit};
use super::layout::{End, HEADER_BYTES, Header};
use super::{Joint, io, look_own, name_of, numbers, wrong};
use crate::ids::Lsn;
use crate::{PagedError, Result};

/// The range of LSNs of a segment, and its number.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: u64,
    id: u64,
    from: Lsn,
    to: Lsn,
}

/// A segment that was read into memory, with the place of each record.
#[derive(Debug)]
struct Loaded {
    number: u64,
    bytes: Vec<u8>,
    /// The place of each record.
    places: Vec<(Lsn, usize)>,
}

/// The LSNs of a partition's archive, and the number of its segments.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The first LSN.
    pub from: Lsn,
    /// The LSN at which it ends.
    pub to: Lsn,
    /// The number of segments.
    pub segments: u64,
}

/// An archive that is read. Its segments are seen when it is opened, later ones are not.
#[derive(Debug)]
pub struct ArchiveReader<F: Files> {
    files: F,
    prefix: String,
    stamp: u64,
    known: Vec<Known>,
    /// The segment that was read last: all that is in memory at once.
    loaded: parking_lot::Mutex<Option<Loaded>>,
}

impl<F: Files> ArchiveReader<F> {
    /// Opens the archive of the log of a partition.
    ///
    /// # Errors
    /// There is none, a segment is missing, damaged, or of another database, or the medium refuses.
    pub fn open(files: F, prefix: &str, stamp: u64) -> Result<Self> {
        let mut known: Vec<Known> = Vec::new();
        for number in numbers(&files, prefix)? {
            let (_, Header { from, id, before: names, .. }, End { to, .. }) =
                look_own(&files, (prefix, number), stamp)?;
            if let Some(before) = known.last().filter(|before| before.to != from) {
                return Err(wrong(format!(
                    "there is a gap between {}, where segment {} ends, and {from}, where the next one begins",
                    before.to,
                    name_of(prefix, before.number)
                )));
            }
            if let Some(before) = known.last().filter(|before| before.id != names) {
                return Err(wrong(format!(
                    "segments {} and {} are of two histories of this database; put all segments of one of them into a directory of their own",
                    name_of(prefix, before.number),
                    name_of(prefix, number)
                )));
            }
            known.push(Known { number, id, from, to });
        }
        if known.is_empty() {
            return Err(wrong(format!("there is no segment {prefix}...; is it the directory?")));
        }
        Ok(Self { files, prefix: prefix.into(), stamp, known, loaded: Default::default() })
    }

    /// Returns the first LSN, the end and the number of segments of the archive, as it was opened.
    pub fn stored(&self) -> Stored {
        let (first, last) = (self.known[0], self.known[self.known.len() - 1]);
        Stored { from: first.from, to: last.to, segments: self.known.len() as u64 }
    }

    /// The number that the partition's pages and segments carry.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Returns whether it has the history that a segment stands for.
    pub(crate) fn has(&self, joint: Joint) -> bool {
        let is_it = |known: &Known| {
            (known.number, known.id, known.to) == (joint.number, joint.id, joint.to)
        };
        joint.number == 0 || self.known.iter().any(is_it)
    }

    /// Reads a segment and compares all checksums.
    fn load(&self, known: &Known) -> Result<Loaded> {
        let name = name_of(&self.prefix, known.number);
        let damaged = |what: &str| {
            wrong(format!("segment {name} is damaged: {what}; put a sound copy in its place"))
        };
        let (file, _, end) = look_own(&self.files, (&self.prefix, known.number), self.stamp)?;
        let mut bytes = vec![0; end.bytes as usize];
        let filled = file
            .read_at(HEADER_BYTES as u64, &mut bytes)
            .map_err(io("reading a segment of the archive"))?;
        if filled < bytes.len() || crc32c::crc32c(&bytes) != end.checksum {
            return Err(damaged("its records have a wrong checksum"));
        }
        let (mut places, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let read = record_at(&bytes, at).ok_or_else(|| damaged("a record is not sound"))?;
            let last =
                places.last().map_or(Lsn(known.from.0.saturating_sub(1)), |last: &(Lsn, _)| last.0);
            if read.lsn <= last || read.lsn >= known.to {
                return Err(damaged("its records are not in their order"));
            }
            places.push((read.lsn, at));
            at += record::record_bytes(read.payload.len());
        }
        if places.len() as u64 != end.records {
            return Err(damaged("it has not as many records as it says"));
        }
        Ok(Loaded { number: known.number, bytes, places })
    }

    fn with<R>(&self, known: &Known, act: impl FnOnce(&Loaded) -> Result<R>) -> Result<R> {
        let mut loaded = self.loaded.lock();
        if loaded.as_ref().is_none_or(|loaded| loaded.number != known.number) {
            // Before the next one is read: one is in memory at a time.
            *loaded = None;
            *loaded = Some(self.load(known)?);
        }
        act(loaded.as_ref().expect("it was read"))
    }

    /// Calls `visit` with every record from one LSN on, before another one.
    ///
    /// # Errors
    /// There is not all of it, a segment is damaged, or `visit` failed.
    pub fn scan(&self, from: Lsn, to: Lsn, visit: Visit<'_>) -> Result<()> {
        let stored = self.stored();
        if from < stored.from || to > stored.to {
            return Err(wrong(format!(
                "it has the log from {} to {}, and is needed from {from} to {to}",
                stored.from, stored.to
            )));
        }
        for known in self.known.iter().filter(|known| known.to > from && known.from < to) {
            let records = self.with(known, |loaded| {
                let begin = loaded.places.partition_point(|(lsn, _)| *lsn < from);
                let end = loaded.places.partition_point(|(lsn, _)| *lsn < to);
                Ok(loaded.places[begin..end.max(begin)].to_vec())
            })?;
            for (_, at) in records {
                // The visitor may read a record of another segment.
                let record = self.with(known, |loaded| {
                    record_at(&loaded.bytes, at).ok_or_else(|| wrong("a record has gone"))
                })?;
                visit(record)?;
            }
        }
        Ok(())
    }

    /// Reads one record.
    ///
    /// # Errors
    /// There is none of this LSN, or its segment is damaged.
    pub fn read(&self, lsn: Lsn) -> Result<Logged> {
        let missing =
            || PagedError::DamagedLog { at: lsn, what: "it is not in the archive".into() };
        let known = self.known.iter().find(|known| (known.from..known.to).contains(&lsn));
        self.with(known.ok_or_else(missing)?, |loaded| {
            let found = loaded.places.binary_search_by_key(&lsn, |(lsn, _)| *lsn);
            let at = loaded.places[found.map_err(|_| missing())?].1;
            record_at(&loaded.bytes, at).ok_or_else(missing)
        })
    }

    /// The end of what was logged until a time of day, in microseconds since 1970: every
    /// transaction that was acknowledged by then lies before it, and none that was committed
    /// [`TIME_RESOLUTION`](crate::log::TIME_RESOLUTION) later. Or the last time that the archive
    /// knows of, if that is not later: what was acknowledged by then may not be there.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub fn end_at(&self, from: Lsn, time: u64) -> Result<std::result::Result<Lsn, u64>> {
        let (mut end, mut latest) = (None, 0);
        self.scan(from, self.stored().to, &mut |record| {
            let Some(marked) = time_of(&record) else { return Ok(()) };
            latest = marked;
            if marked > time && end.is_none() {
                end = Some(record.lsn);
            }
            Ok(())
        })?;
        Ok(end.ok_or(latest))
    }
}

/// The time that a record states.
pub(crate) fn time_of(record: &Logged) -> Option<u64> {
    let bytes = (record.kind == Kind::Time).then(|| record.payload.as_slice().try_into());
    Some(u64::from_le_bytes(bytes?.ok()?))
}

/// The record at a place of a segment's records.
fn record_at(bytes: &[u8], at: usize) -> Option<Logged> {
    let header = bytes.get(at..at + RECORD_BYTES)?;
    let whole = bytes.get(at..at.checked_add(record::bytes_of(header))?)?;
    record::decode(whole)?.logged(&whole[RECORD_BYTES..])
}
