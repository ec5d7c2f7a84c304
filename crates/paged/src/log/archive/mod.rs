//! The archive of a log: copies of its records, in files of another directory, from which a
//! database is restored to any moment since a base backup.
//!
//! Invariants:
//! - A segment has its name only when all of it is there and durable, and is never changed then.
//! - Segments are numbered without a gap, and each begins at the LSN at which the one before ends,
//!   and names that one. So where the archive ends is seen by its last segment alone, whatever a
//!   crash has left, and no segment passes for one of another history of the same database.
//! - It has durable records only: the log never ends before it.
//! - A log goes on with an archive only if that has the log's own history: see [`Archive::join`].
//!
//! 1. `copy` reads the log from where the archive ends and writes records into a new file; after
//!    [`SEGMENT_BYTES`] another one begins.
//! 2. Each file is ended with what it must hold, synced, renamed, and its directory synced. Only
//!    then is it counted as copied.

mod join;
mod layout;
mod note;
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

pub use note::Note;
pub use read::{ArchiveReader, Stored};

/// A place in the history that an archive has: the end of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Joint {
    /// The number of the segment; 0 before the first one.
    pub number: u64,
    /// A number that no other segment has, of whatever history; 0 before the first one.
    pub id: u64,
    /// The LSN at which it ends.
    pub to: Lsn,
}

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

/// Removes what a crash has left of the segment of this number, if it is that: see
/// [`is_unfinished`]. Only a process that has the database open makes such a file.
fn remove_unfinished<F: Files>(files: &F, (prefix, number): (&str, u64), stamp: u64) -> Result<()> {
    let failed = io("removing an unfinished segment of the archive");
    let name = files.unfinished_name(&name_of(prefix, number));
    if !files.is_taken(&name).map_err(&failed)? {
        return Ok(());
    }
    let mut begins = [0; HEADER_BYTES];
    let filled = files.open(&name).and_then(|file| file.read_at(0, &mut begins));
    let mark = files.mark(&name).map_err(&failed)?;
    if !is_unfinished(&begins[..filled.map_err(&failed)?], &mark, stamp) {
        return Err(wrong(format!(
            "{name} is no unfinished segment of this database; it is in the way: remove it, or name another directory"
        )));
    }
    files.remove(&name).map_err(&failed)
}

/// Returns whether a file begins as a segment does that was not finished: with the mark of such files, or
/// as a segment of this partition. Either may be there in part. Before its mark a segment has nothing, or
/// after a power cut no more zeros than a mark has bytes.
fn is_unfinished(begins: &[u8], mark: &[u8], stamp: u64) -> bool {
    if let Ok(header) = Header::decode(begins) {
        return header.stamp == stamp;
    }
    let is_begun = || begins.len() <= mark.len() && begins.iter().all(|byte| *byte == 0);
    begins.starts_with(&mark[..mark.len() / 2])
        || begins.starts_with(layout::HEADER_MAGIC)
        || is_begun()
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

/// The end of a segment of this partition and number.
fn joint_of<F: Files>(files: &F, (prefix, number): (&str, u64), stamp: u64) -> Result<Joint> {
    let (_, Header { id, .. }, End { to, .. }) = look_own(files, (prefix, number), stamp)?;
    Ok(Joint { number, id, to })
}

/// A number that nothing else has.
fn new_id() -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = pm::random_uuid();
    u64::from_le_bytes([a, b, c, d, e, f, g, h]).max(1)
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
    /// The last segment.
    last: Mutex<Joint>,
    /// The LSN at which it ends.
    reached: AtomicU64,
}

/// A segment that is being written.
struct Segment<F: Files> {
    file: NewFile<F>,
    buffer: Vec<u8>,
    number: u64,
    id: u64,
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
        let last = match numbers(&files, prefix)?.last() {
            Some(number) => {
                // Its name may be in the caches alone, if a crash came before the directory was
                // synced.
                files.sync_directory().map_err(io("syncing the archive of the log"))?;
                joint_of(&files, (prefix, *number), stamp)?
            }
            None => Joint::default(),
        };
        remove_unfinished(&files, (prefix, last.number + 1), stamp)?;
        Ok(Self {
            files,
            name: prefix.into(),
            prefix: prefix.into(),
            stamp,
            segment_bytes: SEGMENT_BYTES,
            last: Mutex::new(last),
            reached: AtomicU64::new(last.to.0),
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

    /// The number that the partition's pages and segments carry.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The end of its last segment.
    pub fn last(&self) -> Joint {
        *self.last.lock()
    }

    /// Every record before this LSN is there, from where the archive begins.
    pub fn reached(&self) -> Lsn {
        Lsn(self.reached.load(Ordering::Acquire))
    }

    /// Copies the log's records up to an LSN, before which all are durable. What this returns after
    /// is durable in the archive.
    ///
    /// # Errors
    /// The log cannot be read, or the archive takes no more. The next attempt goes on after the
    /// segments that were finished.
    pub fn copy(&self, log: &dyn LogManager, to: Lsn) -> Result<()> {
        let mut last = self.last.lock();
        let from = last.to;
        if to <= from {
            return Ok(());
        }
        let mut segment = Some(self.begin(&last)?);
        log.scan_to(from, to, &mut |record| {
            if segment.as_ref().is_some_and(|open| open.end.bytes >= self.segment_bytes) {
                // One is being written at a time: a crash leaves no other one unfinished.
                self.finish(segment.take().expect("it is open"), record.lsn, &mut last)?;
            }
            let open = match &mut segment {
                Some(open) => open,
                None => segment.insert(self.begin(&last)?),
            };
            open.add(&record)
        })?;
        let segment = segment.expect("one is open after each record, and where there is none");
        self.finish(segment, to, &mut last)
    }

    /// Begins the segment after another one.
    fn begin(&self, before: &Joint) -> Result<Segment<F>> {
        let number = before.number + 1;
        let name = name_of(&self.prefix, number);
        let file = NewFile::create(&self.files, &name, layout::HEADER_MAGIC)
            .map_err(io("making a segment of the archive"))?;
        let id = new_id();
        let header = Header { stamp: self.stamp, number, from: before.to, id, before: before.id };
        let end = End { to: before.to, records: 0, bytes: 0, checksum: 0 };
        Ok(Segment { file, buffer: header.encode().to_vec(), number, id, end })
    }

    fn finish(&self, segment: Segment<F>, to: Lsn, last: &mut Joint) -> Result<()> {
        let (number, id) = (segment.number, segment.id);
        segment.finish(to)?;
        *last = Joint { number, id, to };
        self.reached.store(to.0, Ordering::Release);
        Ok(())
    }
}
