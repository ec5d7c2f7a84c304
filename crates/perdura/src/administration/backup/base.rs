//! Base backups: the pages of a database of a paged engine, copied while transactions go on, and
//! with the archive of its log a database as it was at any later moment.
//!
//! 1. [`Database::base_backup`] writes pages in the form of a backup: the same blocks and
//!    checksums.
//! 2. [`Backup::restore_until`] reads the whole backup and the archive up to the moment that is
//!    asked for, and compares every checksum, before it creates anything. Then the engine makes the
//!    pages of that moment, and the database is checked and gets its name as any other that is
//!    restored.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use engines::below::text::parse_timestamp;
use engines::below::{AroundPath, Environment, Escaped, NewFile};
use engines::{BasePart, BaseSource, LogUntil, Restoring, find_until};
use zerocopy::IntoBytes;

use super::layout::{BLOCK_BYTES, MAGIC, PAGES, PARTITION_END, PartitionEnd};
use super::reader::{Block, Reader};
use super::restore::Backup;
use super::writer::{Writer, describe};
use crate::administration::progress::{CopyProgress, CopyStep, CopySummary, WATCH_EVERY, Watch};
use crate::administration::whole::{check_free, create_whole, tally};
use crate::choice::EngineChoice;
use crate::database::Database;
use crate::error::{BackupError, Error};
use crate::options::Options;

/// Bytes of a page's number, before its bytes.
const NUMBER_BYTES: usize = 8;

/// The moment to which a database is restored.
///
/// ```
/// # use perdura::Until;
/// assert_eq!("end".parse(), Ok(Until::End));
/// assert_eq!("4294968808".parse(), Ok(Until::Commit(4_294_968_808)));
/// let time: Until = "2026-01-31T12:00:00Z".parse().unwrap();
/// assert!(matches!(time, Until::Time(_)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Until {
    /// The end of the archive.
    #[default]
    End,
    /// All transactions that were acknowledged by then, and none that was committed more than ten
    /// milliseconds later. Between the two it may be either.
    Time(SystemTime),
    /// The transaction whose ticket has this number ([`crate::Ticket::number`]), and all that were
    /// committed before it; of a database with one partition.
    Commit(u64),
}

impl FromStr for Until {
    type Err = String;

    /// Reads `end`, the number of a ticket, or a time as in RFC 3339.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "end" {
            return Ok(Self::End);
        }
        if let Ok(number) = text.parse() {
            return Ok(Self::Commit(number));
        }
        let micros = parse_timestamp(text).and_then(|micros| u64::try_from(micros).ok());
        let wrong = || {
            format!(
                "`{}` is neither `end`, nor the number of a ticket, nor a time such as 2026-01-31T12:00:00Z",
                Escaped(text)
            )
        };
        let since = std::time::Duration::from_micros(micros.ok_or_else(wrong)?);
        Ok(Self::Time(UNIX_EPOCH + since))
    }
}

/// Microseconds since 1970.
fn micros_of(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

impl<E: Environment> Database<E> {
    /// Writes a base backup to the file `path`, while transactions go on and wait for nothing. From
    /// it and the archive of the log ([`Options::archive`]) the database can be restored to any
    /// later moment ([`Backup::restore_until`]). When this returns the file is durable.
    ///
    /// ```
    /// # use perdura::*;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (archive, base) = (directory.path().join("archive"), directory.path().join("base"));
    /// # std::fs::create_dir(&archive).unwrap();
    /// # let table = TableSchema::new("t").column("k", ColumnType::U64).key(&["k"]);
    /// # let schema = Schema::new().table(table);
    /// let options = Options::new().engine(EngineKind::NvDisk).archive(&archive);
    /// let db = Database::create(directory.path().join("db"), &schema, &options)?;
    /// # let t = db.table("t")?;
    /// db.base_backup(&base)?;
    /// let mut tx = db.begin()?;
    /// tx.insert(&t, &[Value::U64(1)])?;
    /// let good = tx.commit()?;
    /// // A row is deleted by mistake.
    /// db.write(|tx| tx.delete(&t, &[Value::U64(1)]))?;
    /// db.checkpoint()?;
    /// let (restored, until) = (directory.path().join("restored"), Until::Commit(good.number()));
    /// Backup::open(&base)?.restore_until(&restored, &archive, until, &Options::new(), &mut |_| ())?;
    /// let db = Database::open(&restored, &Options::new())?;
    /// # let t = db.table("t")?;
    /// assert!(db.read(|tx| tx.get_into(&t, &[Value::U64(1)], &mut Row::new()))?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The engine has no archive, the database was opened without one, something exists at `path`,
    /// or there is no room for the backup or in the archive. Then nothing is left at `path`.
    pub fn base_backup(&self, path: impl AsRef<Path>) -> Result<CopySummary, Error> {
        self.base_backup_watched(path, &mut |_| ())
    }

    /// Works as [`Database::base_backup`], and reports its progress in pages to `watch`.
    ///
    /// # Errors
    /// As [`Database::base_backup`].
    pub fn base_backup_watched(
        &self,
        path: impl AsRef<Path>,
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let error = |source| Error::Io { path: shown.clone(), source };
        let mut description = describe(self)?;
        description.base = true;
        let (files, name) = AroundPath::of(path).map_err(error)?;
        let mut file = NewFile::create(&files, &name, &MAGIC).map_err(error)?;
        let mut out = BufWriter::with_capacity(64 << 10, &mut file);
        let mut writer = Writer::new(&mut out, &shown);
        writer.begin(&description)?;
        let mut pages = 0;
        for partition in 0..description.partitions {
            pages += self.write_part(&mut writer, partition, pages, watch)?;
        }
        let bytes = writer.end(pages)?;
        // Flushed by now; a buffer that is dropped would write.
        drop(out);
        file.finish().map_err(error)?;
        watch(CopyProgress { step: CopyStep::Write, done: pages, total: Some(pages) });
        Ok(CopySummary { bytes, ..CopySummary::default() })
    }

    /// Writes a partition and returns its number of pages; `before` pages of others are written
    /// already.
    fn write_part(
        &self,
        writer: &mut Writer<'_>,
        partition: u32,
        before: u64,
        watch: Watch<'_>,
    ) -> Result<u64, Error> {
        let (mut block, mut in_block, mut done) = (Vec::new(), 0, before);
        let mut failed = None;
        let mut keep = |result: Result<(), Error>| {
            result.map_err(|error| {
                failed = Some(error);
                io::ErrorKind::Other.into()
            })
        };
        let engine = self.partition(partition as usize).read_lock()?;
        let copied = engine.copy_base(&mut |number, bytes| {
            block.extend(number.to_le_bytes());
            block.extend_from_slice(bytes);
            (in_block, done) = (in_block + 1, done + 1);
            if done.is_multiple_of(WATCH_EVERY) {
                watch(CopyProgress { step: CopyStep::Write, done, total: None });
            }
            if block.len() < BLOCK_BYTES {
                return Ok(());
            }
            let written = keep(writer.block(PAGES, (partition, 0), in_block, &block));
            (block, in_block) = (Vec::new(), 0);
            written
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let part = copied?;
        if in_block > 0 {
            writer.block(PAGES, (partition, 0), in_block, &block)?;
        }
        let end = end_of(&part, micros_of(SystemTime::now()));
        writer.block(PARTITION_END, (partition, 0), 0, end.as_bytes())?;
        Ok(part.pages)
    }

    /// Ends archiving: from now on the log is reused without regard to the archive. What the
    /// archive holds stays, and can be restored from, up to now at most. To begin another archive,
    /// open the database with an empty directory and take a base backup.
    ///
    /// The database need not be open with its archive, which may be lost.
    ///
    /// # Errors
    /// The engine has no archive, or the medium failed.
    pub fn end_archive(&self) -> Result<(), Error> {
        (0..self.partitions.len())
            .try_for_each(|number| Ok(self.partition(number).read_lock()?.end_archive()?))
    }

    /// The error of an archive that takes nothing.
    pub(crate) fn check_archive(&self) -> Result<(), Error> {
        (0..self.partitions.len())
            .try_for_each(|number| Ok(self.partition(number).read_lock()?.check_archive()?))
    }
}

/// The end of a partition that was copied by then.
fn end_of(part: &BasePart, micros: u64) -> PartitionEnd {
    PartitionEnd {
        stamp: part.stamp.into(),
        keep: part.keep.into(),
        start: part.start.into(),
        end: part.end.into(),
        micros: micros.into(),
        pages: part.pages.into(),
        count: part.count.into(),
        segment: part.segment.0.into(),
        segment_id: part.segment.1.into(),
        archived: part.archived.into(),
        page_bytes: part.page_bytes.into(),
        zero: 0.into(),
    }
}

/// The part of a base backup that ends so.
fn part_of(end: &PartitionEnd) -> BasePart {
    BasePart {
        page_bytes: end.page_bytes.get(),
        stamp: end.stamp.get(),
        keep: end.keep.get(),
        start: end.start.get(),
        end: end.end.get(),
        pages: end.pages.get(),
        count: end.count.get(),
        segment: (end.segment.get(), end.segment_id.get()),
        archived: end.archived.get(),
    }
}

/// The pages of a base backup that a database is made of.
#[derive(Debug)]
struct Source {
    state: Mutex<State>,
    parts: Vec<BasePart>,
    until: Vec<u64>,
    archive: PathBuf,
}

#[derive(Debug)]
struct State {
    reader: Reader,
    contents: Vec<u8>,
    /// The place of the next page in the contents of the block.
    at: usize,
}

impl BaseSource for Source {
    fn part(&self, partition: u32) -> BasePart {
        self.parts[partition as usize]
    }

    fn until(&self, partition: u32) -> u64 {
        self.until[partition as usize]
    }

    fn archive(&self) -> &Path {
        &self.archive
    }

    fn next_page(&self, partition: u32) -> io::Result<Option<(u64, Vec<u8>)>> {
        let bytes = self.part(partition).page_bytes as usize;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { reader, contents, at } = &mut *state;
        if *at >= contents.len() {
            *at = 0;
            match reader.next(contents).map_err(io::Error::other)? {
                Block::Pages { partition: of, .. } if of == partition => {}
                Block::PartitionEnd { partition: of, .. } if of == partition => {
                    contents.clear();
                    return Ok(None);
                }
                _ => return Err(io::Error::other("it was changed while it was read")),
            }
        }
        let cut = || io::Error::other("it was changed while it was read");
        let page = contents.get(*at..*at + NUMBER_BYTES + bytes).ok_or_else(cut)?;
        let (number, page) = page.split_at(NUMBER_BYTES);
        *at += NUMBER_BYTES + bytes;
        let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
        Ok(Some((number, page.to_vec())))
    }
}

impl Backup {
    /// Reads all of a base backup and compares every checksum and count. Returns its partitions.
    pub(super) fn read_parts(&mut self, watch: Watch<'_>) -> Result<Vec<PartitionEnd>, Error> {
        if self.reader.restart()? != self.description {
            return Err(self.reader.damaged(0, "it was changed while it was read"));
        }
        let (mut parts, mut contents, mut pages, mut all) = (Vec::new(), Vec::new(), 0, 0);
        let mut bytes_of_pages = 0;
        loop {
            let at = self.reader.progress().0;
            let wanted = parts.len() as u32;
            match self.reader.next(&mut contents)? {
                Block::Pages { partition, pages: more, bytes } if partition == wanted => {
                    pages += u64::from(more);
                    bytes_of_pages += bytes.len() as u64;
                }
                Block::PartitionEnd { partition, end } if partition == wanted => {
                    let each = u64::from(end.page_bytes.get()) + NUMBER_BYTES as u64;
                    if end.pages.get() != pages || bytes_of_pages != pages * each {
                        let what = "a partition has other pages than its end says";
                        return Err(self.reader.damaged(at, what));
                    }
                    all += pages;
                    (pages, bytes_of_pages) = (0, 0);
                    parts.push(end);
                }
                Block::Trailer { tuples } if wanted == self.description.partitions => {
                    if tuples != all {
                        let what = "there are other pages than the last block says";
                        return Err(self.reader.damaged(at, what));
                    }
                    return Ok(parts);
                }
                _ => return Err(self.reader.damaged(at, "a block is not in its place")),
            }
            let (done, total) = self.reader.progress();
            watch(CopyProgress { step: CopyStep::Verify, done, total: Some(total) });
        }
    }

    /// The moment in the log of a partition.
    fn log_until(&self, until: Until, part: &PartitionEnd) -> Result<LogUntil, Error> {
        let refused = |what: &str| {
            let path = self.reader.path().to_owned();
            Err(BackupError::Moment { path, what: what.into() }.into())
        };
        match until {
            Until::End => Ok(LogUntil::End),
            Until::Time(time) if micros_of(time) < part.micros.get() => refused(
                "the base backup was finished after the time that is asked for; take an older backup",
            ),
            Until::Time(time) => Ok(LogUntil::Micros(micros_of(time))),
            Until::Commit(_) if self.description.partitions > 1 => {
                refused("the number of a commit says nothing of other partitions; ask for a time")
            }
            Until::Commit(number) => Ok(LogUntil::Commit(number)),
        }
    }

    /// Restores a database at `path` as it was at a moment, from this base backup and the log in
    /// the archive `directory`. Everything is verified before anything is created, and the database
    /// is checked before it gets its name. It is independent of the original; its own archive
    /// ([`Options::archive`]), if it is to have one, needs another directory.
    ///
    /// The schema, the number of partitions, the engine and the page size are those of the backup;
    /// the options decide everything else.
    ///
    /// # Errors
    /// This is not a base backup. The archive belongs to another database, has a gap or damage, or
    /// ends before the moment. The backup is later than the moment. Something exists at `path`,
    /// there is no room, or the options make no sense. Then nothing is left at `path`.
    pub fn restore_until(
        mut self,
        path: impl AsRef<Path>,
        directory: impl AsRef<Path>,
        until: Until,
        options: &Options,
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        check_free(path.as_ref())?;
        if !self.description.base {
            return Err(BackupError::NoBase { path: self.reader.path().to_owned() }.into());
        }
        let (options, partitions) = self.options(options)?;
        let found = self.description.partitions;
        let kind = options.engine.as_ref().and_then(EngineChoice::kind);
        let named = kind.map(|kind| kind.name().to_owned());
        if partitions != found || named.as_deref() != Some(&self.description.engine) {
            let what = format!(
                "a base backup is restored as it was: engine {}, partitions: {found}",
                self.description.engine
            );
            let path = self.reader.path().to_owned();
            return Err(BackupError::Moment { path, what }.into());
        }
        let ends = self.read_parts(watch)?;
        let (mut parts, mut untils) = (Vec::new(), Vec::new());
        for (partition, end) in (0..).zip(&ends) {
            let part = part_of(end);
            let until = self.log_until(until, end)?;
            untils.push(find_until(directory.as_ref(), partition, &part, until)?);
            parts.push(part);
        }
        let bytes = self.reader.progress().0;
        let schema = self.description.schema.clone();
        let mut options = options.set("page_bytes", parts[0].page_bytes.into());
        self.reader.restart()?;
        let state = State { reader: self.reader, contents: Vec::new(), at: 0 };
        let (archive, until) = (directory.as_ref().to_owned(), untils);
        let source = Source { state: Mutex::new(state), parts, until, archive };
        options.restoring = Some(Restoring(Arc::new(source)));
        create_whole(path.as_ref(), &schema, &options, watch, |database, _, watch| {
            let tallies = tally(database, None, watch)?;
            let mut summary = CopySummary { bytes, ..CopySummary::default() };
            for (number, table) in schema.tables().iter().enumerate() {
                let tuples = tallies.iter().map(|tables| tables[number].tuples).sum();
                summary.tables.push((table.name().to_owned(), tuples));
            }
            Ok((tallies, summary))
        })
    }
}
