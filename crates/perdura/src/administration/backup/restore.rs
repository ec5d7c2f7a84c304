//! Making a database of a backup.

use std::path::Path;

use engines::EngineKind;
use engines::below::{Schema, Source, StorageError, Value};

use super::layout::Description;
use super::reader::{Block, Reader};
use crate::administration::loader::Loader;
use crate::administration::progress::{CopyProgress, CopyStep, CopySummary, Watch};
use crate::administration::tuple_code::{Tally, decode};
use crate::administration::whole::{check_free, create_whole, no_tuples};
use crate::error::{BackupError, Error};
use crate::options::Options;
use crate::table::Table;

/// Tuples of a transaction in which a backup is loaded.
const BATCH: u64 = 1000;

/// A backup that can be verified and restored; [`crate::Database::backup`] writes one.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new());
/// let (from, to) = (directory.path().join("backup"), directory.path().join("restored"));
/// db.backup(&from)?;
/// let mut backup = Backup::open(&from)?;
/// assert_eq!(backup.schema(), db.schema());
/// // Into another engine, if the options say so.
/// backup.restore(&to, &Options::new().engine(EngineKind::NvmInp), &mut |_| {})?;
/// assert_eq!(Database::open(&to, &Options::new())?.check()?.tuples, 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Backup {
    pub(super) reader: Reader,
    pub(super) description: Description,
}

/// A tuple, where it was and where it stands.
struct Found<'a> {
    partition: u32,
    table: u32,
    values: &'a [Value<'a>],
    encoded: &'a [u8],
    /// Its place in the file.
    at: u64,
}

impl Backup {
    /// Opens the backup in the file `path` and reads its header and description.
    ///
    /// # Errors
    /// There is no such file, it is no backup or one of another version, or its beginning is
    /// damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let error = |source| Error::Io { path: shown.clone(), source };
        let source = Source::open(path).map_err(error)?;
        let (reader, description) = Reader::open(source, shown.clone())?;
        Ok(Self { reader, description })
    }

    /// The name of the engine that the database had.
    pub fn engine(&self) -> &str {
        &self.description.engine
    }

    /// Returns the number of partitions that the database had.
    pub fn partitions(&self) -> u32 {
        self.description.partitions
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.description.schema
    }

    /// Returns whether it is a base backup, which is restored with an archive of the log
    /// ([`Backup::restore_until`]).
    pub fn is_base(&self) -> bool {
        self.description.base
    }

    /// Reads the whole backup and compares every checksum and count.
    ///
    /// # Errors
    /// [`BackupError::Damaged`], or the file cannot be read.
    pub fn verify(&mut self, watch: Watch<'_>) -> Result<CopySummary, Error> {
        if self.description.base {
            self.read_parts(watch)?;
            let bytes = self.reader.progress().0;
            return Ok(CopySummary { bytes, ..CopySummary::default() });
        }
        self.walk(CopyStep::Verify, watch, &mut |_| Ok(()))
    }

    /// Restores a database at `path`: the backup is verified before anything is created, and the
    /// database is checked and compared with it before it gets its name. It can then be opened.
    ///
    /// The schema and the size of index nodes are those of the backup; so are the engine and the
    /// number of partitions, unless the options name others. The options decide everything else.
    ///
    /// Partitions can be put together: if the new number divides that of the backup, partition `p`
    /// goes into partition `p` modulo the new number. Tuples that are the same in several of them,
    /// as those of a replicated table are, become one.
    ///
    /// # Errors
    /// The backup is damaged, something exists at `path`, there is no room, or the options make no
    /// sense. Then nothing is left at `path`.
    pub fn restore(
        mut self,
        path: impl AsRef<Path>,
        options: &Options,
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        // Report what is seen at once before the time is spent.
        check_free(path.as_ref())?;
        if self.description.base {
            let path = self.reader.path().to_owned();
            return Err(BackupError::NeedsArchive { path }.into());
        }
        let (options, partitions) = self.options(options)?;
        let verified = self.verify(watch)?;
        let schema = self.description.schema.clone();
        create_whole(path.as_ref(), &schema, &options, watch, |database, _, watch| {
            let tables: Vec<Table> = schema
                .tables()
                .iter()
                .map(|table| database.table(table.name()))
                .collect::<Result<_, _>>()?;
            let mut tallies = no_tuples(partitions as usize, &schema);
            let mut loader = Loader::new(database, BATCH);
            let mut skipped = 0;
            let file = self.reader.path().to_owned();
            self.walk(CopyStep::Load, watch, &mut |found| {
                let (table, partition) =
                    (&tables[found.table as usize], found.partition % partitions);
                let bytes = found.encoded.len() as u64;
                let done = loader.insert(partition as usize, table, found.values, bytes);
                match done {
                    Ok(()) => tallies[partition as usize][found.table as usize].add(found.encoded),
                    Err(error @ Error::DuplicateKey { index: Some(_), .. })
                        if partition != found.partition =>
                    {
                        return Err(error);
                    }
                    Err(Error::DuplicateKey { .. }) if partition != found.partition => {
                        if loader.stored(partition as usize, table, found.values)? != found.encoded
                        {
                            return Err(Error::Backup(BackupError::Collision {
                                path: file.clone(),
                                partition: found.partition,
                                table: table.name().into(),
                            }));
                        }
                        skipped += 1;
                    }
                    Err(error) if cannot_be(&error) => {
                        return Err(Error::Backup(BackupError::Damaged {
                            path: file.clone(),
                            at: found.at,
                            what: format!("a tuple that cannot be: {error}"),
                        }));
                    }
                    Err(other) => return Err(other),
                }
                Ok(())
            })?;
            loader.commit()?;
            Ok((tallies, CopySummary { skipped, ..verified }))
        })
    }

    /// The options of the new database, and how many partitions it has.
    pub(super) fn options(&self, options: &Options) -> Result<(Options, u32), Error> {
        let described = &self.description;
        let path = || self.reader.path().to_owned();
        let wanted = options.partitions.unwrap_or(described.partitions);
        let found = described.partitions;
        if wanted == 0 || !found.is_multiple_of(wanted) {
            return Err(BackupError::Partitions { path: path(), found, wanted }.into());
        }
        let old: Option<EngineKind> = described.engine.parse().ok();
        let unknown =
            || BackupError::UnknownEngine { path: path(), engine: described.engine.clone() };
        let mut options = options.clone().partitions(wanted);
        let choice = match options.engine.take() {
            Some(choice) => choice,
            None => old.ok_or_else(unknown)?.into(),
        };
        // `paged` has files, whichever engine it is.
        let kind = choice.kind();
        options = options.engine(choice);
        options = options.tune("node_bytes", described.node_bytes.into());
        let in_pool = |kind: EngineKind| !kind.traits().needs_files();
        if options.chunk_bytes.is_none() && kind.is_some_and(in_pool) && old.is_some_and(in_pool) {
            options = options.chunk_bytes(described.chunk_bytes);
        }
        Ok((options, wanted))
    }

    /// Reads the backup from its front, and hands out every tuple.
    fn walk(
        &mut self,
        step: CopyStep,
        watch: Watch<'_>,
        visit: &mut dyn FnMut(&Found<'_>) -> Result<(), Error>,
    ) -> Result<CopySummary, Error> {
        let again = self.reader.restart()?;
        if again != self.description {
            return Err(self.reader.damaged(0, "it was changed while it was read"));
        }
        let schema = &self.description.schema;
        let places = (0..self.description.partitions).flat_map(|partition| {
            (0..schema.tables().len() as u32).map(move |table| (partition, table))
        });
        let mut summary = CopySummary::default();
        summary.tables.extend(schema.tables().iter().map(|table| (table.name().to_owned(), 0)));
        let mut contents = Vec::new();
        for expected in places {
            let mut tally = Tally::default();
            loop {
                let start = self.reader.progress().0;
                let misplaced =
                    |reader: &Reader| Err(reader.damaged(start, "a block of another table"));
                match self.reader.next(&mut contents)? {
                    Block::Tuples { partition, table, tuples, bytes, at } => {
                        if (partition, table) != expected {
                            return misplaced(&self.reader);
                        }
                        let of = &schema.tables()[table as usize];
                        let (mut rest, mut values) = (bytes, Vec::new());
                        for _ in 0..tuples {
                            let from = bytes.len() - rest.len();
                            let at = at + from as u64;
                            decode(of, &mut rest, &mut values)
                                .map_err(|what| self.reader.damaged(at, what))?;
                            let encoded = &bytes[from..bytes.len() - rest.len()];
                            tally.add(encoded);
                            visit(&Found { partition, table, values: &values, encoded, at })?;
                        }
                        if !rest.is_empty() {
                            return Err(self
                                .reader
                                .damaged(at, "a block has more than its tuples"));
                        }
                        let (done, total) = self.reader.progress();
                        watch(CopyProgress { step, done, total: Some(total) });
                    }
                    Block::TableEnd { partition, table, tally: wanted } => {
                        if (partition, table) != expected {
                            return misplaced(&self.reader);
                        }
                        if tally != wanted {
                            return Err(self
                                .reader
                                .damaged(start, "a table has other tuples than its end says"));
                        }
                        break;
                    }
                    Block::Trailer { .. } => {
                        return Err(self
                            .reader
                            .damaged(start, "the last block comes before the last table"));
                    }
                    Block::Pages { .. } | Block::PartitionEnd { .. } => {
                        return misplaced(&self.reader);
                    }
                }
            }
            summary.tables[expected.1 as usize].1 += tally.tuples;
        }
        let start = self.reader.progress().0;
        match self.reader.next(&mut contents)? {
            Block::Trailer { tuples } if tuples == summary.tuples() => {}
            Block::Trailer { .. } => {
                return Err(self
                    .reader
                    .damaged(start, "there are other tuples than the last block says"));
            }
            _ => return Err(self.reader.damaged(start, "there is more than the last table")),
        }
        summary.bytes = self.reader.progress().0;
        Ok(summary)
    }
}

/// Returns true if no database can have had the tuple that was refused so.
fn cannot_be(error: &Error) -> bool {
    matches!(
        error,
        Error::DuplicateKey { .. }
            | Error::Invalid(StorageError::TooLarge { .. } | StorageError::OutOfRange { .. })
    )
}
