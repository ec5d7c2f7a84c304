//! The archive of a log: copies of its records, in files of another directory, from which a database
//! is restored to any moment since a base backup.
//!
//! Invariants:
//! - A segment has its name only when all of it is there and durable, and is never changed then.
//! - Segments are numbered without a gap, and each begins at the LSN at which the one before ends. So
//!   where the archive ends is seen by its last segment alone, whatever a crash has left.
//! - It has durable records only: the log never ends before it.
//!
//! 1. `copy` reads the log from where the archive ends and writes records into a new file; after
//!    [`SEGMENT_BYTES`] another one begins.
//! 2. Each file is ended with what it must hold, synced, renamed, and its directory synced. Only then
//!    is it counted as copied.

mod layout;
mod read;

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use pm::{File, Files, NewFile};

use self::layout::{END_BYTES, End, HEADER_BYTES, Header};
use super::record::{self, Placed};
use super::{LogManager, Logged, Record};
use crate::ids::Lsn;
use crate::{PagedError, Result};

pub use read::{ArchiveReader, Stored};

/// Bytes of records after which a segment ends.
pub const SEGMENT_BYTES: u64 = 16 << 20;

fn io(doing: &'static str) -> impl Fn(io::Error) -> PagedError {
    move |source| PagedError::Io { doing, source }
}

fn wrong(what: impl Into<String>) -> PagedError {
    PagedError::Archive { what: what.into() }
}

/// The name of a segment.
fn name_of(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:012}")
}

/// The numbers of all segments, which rise without a gap.
fn numbers<F: Files>(files: &F, prefix: &str) -> Result<Vec<u64>> {
    let names = files.list().map_err(io("reading the archive of the log"))?;
    let number = |name: &String| {
        let digits = name.strip_prefix(prefix).filter(|digits| digits.len() == 12)?;
        digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    for pair in numbers.windows(2) {
        if pair[1] != pair[0] + 1 {
            let missing = name_of(prefix, pair[0] + 1);
            return Err(wrong(format!(
                "segment {missing} is missing, and later ones are there; put it back, or restore from a base backup that is younger"
            )));
        }
    }
    Ok(numbers)
}

/// Removes a segment that a crash has left unfinished: only who has the database open makes some.
fn remove_unfinished<F: Files>(files: &F, prefix: &str) -> Result<()> {
    let names = files.list().map_err(io("reading the archive of the log"))?;
    let is_unfinished = |name: &&String| {
        let number = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".tmp"));
        number.is_some_and(|digits| digits.len() == 12)
    };
    for name in names.iter().filter(is_unfinished) {
        files.remove(name).map_err(io("removing an unfinished segment of the archive"))?;
    }
    Ok(())
}

/// The begin and the end of a segment, without a look at its records.
fn look<F: Files>(files: &F, name: &str) -> Result<(F::File, Header, End)> {
    let file = files.open(name).map_err(io("opening a segment of the archive"))?;
    let damaged = |what: String| wrong(format!("segment {name}: {what}"));
    let bytes = file.len().map_err(io("reading a segment of the archive"))?;
    let read = |at: u64, into: &mut [u8]| {
        file.read_at(at, into).map_err(io("reading a segment of the archive"))
    };
    let (mut begins, mut ends) = ([0; HEADER_BYTES], [0; END_BYTES]);
    let filled = read(0, &mut begins)?;
    let header = Header::decode(&begins[..filled]).map_err(damaged)?;
    let last = bytes.saturating_sub(END_BYTES as u64).max(HEADER_BYTES as u64);
    let filled = read(last, &mut ends)?;
    let end = End::decode(&ends[..filled]).map_err(damaged)?;
    if end.bytes != last - HEADER_BYTES as u64 || end.to < header.from {
        return Err(damaged("it is cut off".into()));
    }
    Ok((file, header, end))
}

/// As [`look`], of a segment of this partition and number.
fn look_own<F: Files>(
    files: &F,
    (prefix, number): (&str, u64),
    stamp: u64,
) -> Result<(F::File, Header, End)> {
    let name = name_of(prefix, number);
    let (file, header, end) = look(files, &name)?;
    if header.stamp != stamp {
        return Err(wrong(format!(
            "segment {name} is of another database; name the directory that this one has had, or an empty one"
        )));
    }
    if header.number != number {
        return Err(wrong(format!("segment {name} is in fact number {}", header.number)));
    }
    Ok((file, header, end))
}

/// An archive that a log is copied to.
#[derive(Debug)]
pub struct Archive<F: Files> {
    files: F,
    /// Its name in errors.
    name: String,
    prefix: String,
    stamp: u64,
    segment_bytes: u64,
    /// The number of the next segment.
    next: Mutex<u64>,
    /// The LSN up to which records are there.
    reached: AtomicU64,
}

/// A segment that is being written.
struct Segment<F: Files> {
    file: NewFile<F>,
    buffer: Vec<u8>,
    end: End,
}

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 256 << 10;

impl<F: Files> Segment<F> {
    fn add(&mut self, record: &Logged) -> Result<()> {
        let from = self.buffer.len();
        let Logged { lsn, tx, prev, kind, page, page_before, undo_next, payload } = record;
        let placed = Placed { lsn: *lsn, tx: *tx, prev: *prev, mark: 0, sure: 0 };
        let record = Record {
            kind: *kind,
            page: *page,
            page_before: *page_before,
            undo_next: *undo_next,
            payload,
        };
        record::encode(&mut self.buffer, &placed, &record, None);
        let bytes = &self.buffer[from..];
        self.end.checksum = crc32c::crc32c_append(self.end.checksum, bytes);
        self.end.bytes += bytes.len() as u64;
        self.end.records += 1;
        if self.buffer.len() >= BUFFER_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(io("writing the archive of the log"))
    }

    fn finish(mut self, to: Lsn) -> Result<()> {
        self.end.to = to;
        self.buffer.extend(self.end.encode());
        self.write()?;
        self.file.finish().map(drop).map_err(io("writing the archive of the log"))
    }
}

impl<F: Files> Archive<F> {
    /// Opens the archive of a log, whose segments have names that begin with `prefix`. The first
    /// segment makes it.
    ///
    /// # Errors
    /// A segment is missing, damaged, or of another database, or the medium refuses.
    pub fn open(files: F, prefix: &str, stamp: u64) -> Result<Self> {
        remove_unfinished(&files, prefix)?;
        let last = numbers(&files, prefix)?.last().copied();
        let reached = match last {
            Some(number) => look_own(&files, (prefix, number), stamp)?.2.to,
            None => Lsn::NONE,
        };
        Ok(Self {
            files,
            name: prefix.into(),
            prefix: prefix.into(),
            stamp,
            segment_bytes: SEGMENT_BYTES,
            next: Mutex::new(last.unwrap_or(0) + 1),
            reached: AtomicU64::new(reached.0),
        })
    }

    /// The same with segments of so many bytes.
    #[must_use]
    pub fn with_segments_of(self, segment_bytes: u64) -> Self {
        Self { segment_bytes, ..self }
    }

    /// The same with a name for errors.
    #[must_use]
    pub fn called(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// Its name in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Every record before this LSN is there, from where the archive begins.
    pub fn reached(&self) -> Lsn {
        Lsn(self.reached.load(Ordering::Acquire))
    }

    /// Begins, or goes on, with a log that has its records from `kept` to `end`.
    ///
    /// # Errors
    /// It lacks records behind what is there, or ends before that.
    pub fn join(&self, kept: Lsn, end: Lsn) -> Result<()> {
        let reached = self.reached();
        if reached == Lsn::NONE {
            self.reached.store(kept.0, Ordering::Release);
            return Ok(());
        }
        let advice = "give it an empty directory, and take a new base backup";
        if reached < kept {
            return Err(wrong(format!(
                "it ends at {reached}, and the log has its records from {kept} on: the database was used without it; {advice}"
            )));
        }
        if reached > end {
            return Err(wrong(format!(
                "it goes on to {reached}, and the log ends at {end}: the database is of an earlier moment than its archive, as a copy is; {advice}"
            )));
        }
        Ok(())
    }

    /// Copies the log's records up to an LSN, before which all are durable. What this returns after is
    /// durable in the archive.
    ///
    /// # Errors
    /// The log cannot be read, or the archive takes no more. The next attempt goes on behind the
    /// segments that were finished.
    pub fn copy(&self, log: &dyn LogManager, to: Lsn) -> Result<()> {
        let mut next = self.next.lock();
        let from = self.reached();
        if to <= from {
            return Ok(());
        }
        let mut segment = self.begin(*next, from)?;
        log.scan_to(from, to, &mut |record| {
            if segment.end.bytes >= self.segment_bytes {
                let lsn = record.lsn;
                let begun = self.begin(*next + 1, lsn)?;
                self.finish(std::mem::replace(&mut segment, begun), lsn, &mut next)?;
            }
            segment.add(&record)
        })?;
        self.finish(segment, to, &mut next)
    }

    fn begin(&self, number: u64, from: Lsn) -> Result<Segment<F>> {
        let file = NewFile::create(&self.files, &name_of(&self.prefix, number))
            .map_err(io("making a segment of the archive"))?;
        let header = Header { stamp: self.stamp, number, from };
        let end = End { to: from, records: 0, bytes: 0, checksum: 0 };
        Ok(Segment { file, buffer: header.encode().to_vec(), end })
    }

    fn finish(&self, segment: Segment<F>, to: Lsn, next: &mut u64) -> Result<()> {
        segment.finish(to)?;
        *next += 1;
        self.reached.store(to.0, Ordering::Release);
        Ok(())
    }
}
