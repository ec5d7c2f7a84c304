//! Reading JSON lines into a database.

use std::borrow::Cow;
use std::io::{BufRead, Read};
use std::path::Path;

use engines::below::{
    Environment, Native, OwnedValue, Schema, TableSchema, Value, did_you_mean, json_error,
    without_mark,
};
use serde::Deserialize;
use serde::de::DeserializeSeed;
use serde_json::value::RawValue;

use super::text::TupleSeed;
use super::{End, FORMAT, HEAD_BEGINS, Head};
use crate::administration::loader::Loader;
use crate::administration::progress::{CopyProgress, CopyStep, CopySummary, Watch};
use crate::administration::tuple_code::encode;
use crate::administration::whole::{Tallies, create_whole, no_tuples};
use crate::database::Database;
use crate::error::{Error, Kept, LinesError};
use crate::options::Options;
use crate::table::Table;

/// Bytes that the first line may have: a thousand wide tables fit.
const HEAD_LIMIT: u64 = 64 << 20;
/// Bytes that any other line may have at least.
const LINE_LIMIT: u64 = 1 << 20;
/// Lines between two calls of a [`Watch`].
const WATCH_LINES: u64 = 256;

/// The treatment of a tuple whose primary key is there already.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let lines = br#"{"table":"account","tuple":{"id":1,"owner":"Ada","balance":70}}"#;
/// let options = LoadOptions::new("the mail").existing(Existing::Replace);
/// db.load(&mut &lines[..], &options, &mut |_| {})?;
/// assert_eq!(db.get(&account, &[Value::from(1)])?.unwrap().i64(2), 70);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Existing {
    /// The tuple is an error.
    #[default]
    Refuse,
    /// The one that is there stays.
    Skip,
    /// The tuple takes the place of the one that is there.
    Replace,
}

/// Options of loading.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, _) = accounts(&Options::new());
/// let lines = br#"{"table":"account","tuple":{"id":3,"owner":"Ada","balance":70}}"#;
/// let options = LoadOptions::new("the mail").batch(100);
/// let done = db.load(&mut &lines[..], &options, &mut |_| {})?;
/// assert_eq!(done.tuples(), 1);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LoadOptions {
    name: String,
    batch: u64,
    existing: Existing,
    total_bytes: Option<u64>,
}

impl LoadOptions {
    /// The defaults: batches of 1000 lines, no tuple may be there already. `name` is what errors
    /// call the input.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), batch: 1000, existing: Existing::Refuse, total_bytes: None }
    }

    /// Lines that are loaded in one transaction, all or nothing; at least one. A batch ends early
    /// when it has a mebibyte, and where the next line belongs into another partition.
    #[must_use]
    pub fn batch(mut self, lines: u64) -> Self {
        self.batch = lines.max(1);
        self
    }

    /// Sets the treatment of tuples whose primary key is there already.
    #[must_use]
    pub fn existing(mut self, existing: Existing) -> Self {
        self.existing = existing;
        self
    }

    /// Sets the length of the input, for reports of progress.
    #[must_use]
    pub fn total_bytes(mut self, bytes: u64) -> Self {
        self.total_bytes = Some(bytes);
        self
    }
}

impl<E: Environment> Database<E> {
    /// Loads JSON lines, as [`Database::dump_to`] writes them, in batches, each of which is a
    /// transaction. The tables of a dump must be those of this database. Lines without a
    /// description before them and an end after them are accepted, too.
    ///
    /// # Errors
    /// [`LinesError`], with the line and what was loaded: all batches before that line's, and
    /// nothing of its own.
    pub fn load(
        &self,
        input: &mut dyn BufRead,
        options: &LoadOptions,
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        let mut input = Input::new(input, &options.name);
        let head = input.head()?;
        let summary = Loading::new(self, options)?.run(&mut input, head.as_ref(), watch)?;
        self.sync()?;
        Ok(summary)
    }
}

impl Database<Native> {
    /// Creates a database at `path` from JSON lines, as [`Database::dump_to`] writes them. It is
    /// created with all of them in it, checked and compared, or not at all. It can then be opened.
    ///
    /// The schema, the size of index nodes and the number of partitions are those of the dump,
    /// unless a schema or the options say otherwise. The options decide the engine and everything
    /// else.
    ///
    /// # Errors
    /// [`LinesError`]; something exists at `path`, there is no room, or the options make no sense.
    /// Then nothing is left at `path`.
    pub fn create_from_lines(
        path: impl AsRef<Path>,
        schema: Option<&Schema>,
        options: &Options,
        input: &mut dyn BufRead,
        load: &LoadOptions,
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        let mut input = Input::new(input, &load.name);
        let head = input.head()?;
        let Some(schema) = schema.or(head.as_ref().map(|head| &head.schema)) else {
            return Err(LinesError::NoSchema { input: load.name.clone() }.into());
        };
        let mut options = options.clone();
        if let Some(head) = &head {
            options = options.tune("node_bytes", head.node_bytes.into());
            options.partitions = options.partitions.or(Some(head.partitions));
        }
        create_whole(path.as_ref(), schema, &options, watch, |database, _, watch| {
            let mut loading = Loading::new(database, load)?;
            let mut tallies = no_tuples(database.partition_count(), schema);
            loading.tallies = Some(&mut tallies);
            let summary = loading.run(&mut input, head.as_ref(), watch)?;
            Ok((tallies, summary))
        })
    }
}

/// The lines of an input.
struct Input<'a> {
    from: &'a mut dyn BufRead,
    name: &'a str,
    buffer: Vec<u8>,
    /// The line in the buffer, and bytes read so far.
    line: u64,
    bytes: u64,
    /// The line in the buffer is still to be used.
    again: bool,
}

impl<'a> Input<'a> {
    fn new(from: &'a mut dyn BufRead, name: &'a str) -> Self {
        Self { from, name, buffer: Vec::new(), line: 0, bytes: 0, again: false }
    }

    fn wrong(&self, why: impl Into<String>, kept: Kept) -> Error {
        LinesError::Line { input: self.name.into(), line: self.line, why: why.into(), kept }.into()
    }

    /// Reads the next line that is not blank into the buffer; returns whether there is one.
    fn read(&mut self, limit: u64, kept: Kept) -> Result<bool, Error> {
        if std::mem::take(&mut self.again) {
            return Ok(true);
        }
        loop {
            self.buffer.clear();
            self.line += 1;
            // One byte more shows that a line is longer.
            let read = (&mut *self.from).take(limit + 1).read_until(b'\n', &mut self.buffer);
            let read =
                read.map_err(|error| self.wrong(format!("cannot be read: {error}"), kept))?;
            self.bytes += read as u64;
            if read == 0 {
                return Ok(false);
            }
            if read as u64 > limit {
                return Err(self.wrong("it is longer than any tuple of these tables", kept));
            }
            if self.line == 1 {
                self.pass_over_mark(kept)?;
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    /// Passes over what editors put before a text; refuses what is no text at all.
    fn pass_over_mark(&mut self, kept: Kept) -> Result<(), Error> {
        if let Some(what) = no_lines(&self.buffer) {
            return Err(self.wrong(what, kept));
        }
        let rest = without_mark(&self.buffer).map(<[u8]>::len);
        let rest = rest.map_err(|why| self.wrong(why, kept))?;
        self.buffer.drain(..self.buffer.len() - rest);
        Ok(())
    }

    /// Reads the description, if the input begins with one.
    fn head(&mut self) -> Result<Option<Head>, Error> {
        #[derive(Deserialize)]
        struct Peek {
            perdura_dump: Option<serde_json::Value>,
        }
        if !self.read(HEAD_LIMIT, Kept::Nothing)? {
            return Ok(None);
        }
        let version = match serde_json::from_slice::<Peek>(&self.buffer) {
            Ok(peek) => peek.perdura_dump,
            Err(error) if self.buffer.trim_ascii_start().starts_with(HEAD_BEGINS) => {
                return Err(self.wrong(explain(&error, 0), Kept::Nothing));
            }
            Err(_) => None,
        };
        let Some(version) = version else {
            self.again = true;
            return Ok(None);
        };
        if version.as_u64() != Some(FORMAT.into()) {
            let why = format!("dump format {version}; this build reads {FORMAT}");
            return Err(self.wrong(why, Kept::Nothing));
        }
        let head = serde_json::from_slice(&self.buffer);
        head.map(Some).map_err(|error| self.wrong(explain(&error, 0), Kept::Nothing))
    }
}

/// Returns what a file is instead of JSON lines, by how it begins, and what to do.
fn no_lines(begin: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 4] = [
        (b"PERDURA\0", "this is a database, not JSON lines; dump it with `perdura pool dump`"),
        (b"PERDBAK\0", "this is a backup, not JSON lines; restore it with `perdura pool restore`"),
        (b"\x1f\x8b", "this is compressed; unpack it first, as with `gunzip`"),
        (b"\x28\xb5\x2f\xfd", "this is compressed; unpack it first, as with `unzstd`"),
    ];
    known.iter().find(|(magic, _)| begin.starts_with(magic)).map(|(_, what)| *what)
}

/// Returns the error in words, with the column of the line.
fn explain(error: &serde_json::Error, offset: usize) -> String {
    format!("{} (column {})", json_error(error), offset + error.column())
}

/// Any line but the first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    table: Option<Cow<'a, str>>,
    partition: Option<u64>,
    #[serde(borrow)]
    tuple: Option<&'a RawValue>,
    end: Option<End>,
}

/// A database that is being loaded.
struct Loading<'a, E: Environment> {
    options: &'a LoadOptions,
    loader: Loader<'a, E>,
    tables: Vec<Table>,
    partitions: usize,
    /// Bytes that a line may have.
    limit: u64,
    kept: Kept,
    /// The contents of a new database, which is not there before all of them are.
    tallies: Option<&'a mut Tallies>,
    summary: CopySummary,
    encoded: Vec<u8>,
}

impl<'a, E: Environment> Loading<'a, E> {
    fn new(database: &'a Database<E>, options: &'a LoadOptions) -> Result<Self, Error> {
        let schemas = database.catalog.schema.tables();
        let tables = schemas.iter().map(|table| database.table(table.name()));
        let mut summary = CopySummary::default();
        summary.tables.extend(schemas.iter().map(|table| (table.name().to_owned(), 0)));
        Ok(Self {
            options,
            loader: Loader::new(database, options.batch),
            tables: tables.collect::<Result<_, _>>()?,
            partitions: database.partition_count(),
            limit: schemas.iter().map(line_limit).max().unwrap_or(LINE_LIMIT),
            kept: Kept::Nothing,
            tallies: None,
            summary,
            encoded: Vec::new(),
        })
    }

    fn run(
        mut self,
        input: &mut Input<'_>,
        head: Option<&Head>,
        watch: Watch<'_>,
    ) -> Result<CopySummary, Error> {
        if let Some(head) = head {
            self.same_tables(input, head)?;
        }
        let (mut tuples, mut ended) = (0, false);
        while input.read(self.limit, self.kept)? {
            if ended {
                return Err(input.wrong("there is more after the end of the dump", self.kept));
            }
            let line: Line<'_> = serde_json::from_slice(&input.buffer)
                .map_err(|error| input.wrong(explain(&error, 0), self.kept))?;
            match line {
                Line { end: Some(end), table: None, partition: None, tuple: None } => {
                    if head.is_none() {
                        return Err(
                            input.wrong("the end of a dump whose first line is missing", self.kept)
                        );
                    }
                    if end.tuples != tuples {
                        let why = format!(
                            "the dump had {} tuples, and {tuples} came before this line",
                            end.tuples
                        );
                        return Err(input.wrong(why, self.kept));
                    }
                    ended = true;
                }
                Line { end: None, table: Some(table), partition, tuple: Some(tuple) } => {
                    self.tuple(input, &table, partition, tuple)?;
                    tuples += 1;
                }
                _ => {
                    let why =
                        "a line has `table` and `tuple`, and with several partitions `partition`";
                    return Err(input.wrong(why, self.kept));
                }
            }
            if input.line.is_multiple_of(WATCH_LINES) {
                let (done, total) = (input.bytes, self.options.total_bytes);
                watch(CopyProgress { step: CopyStep::Load, done, total });
            }
        }
        if head.is_some() && !ended {
            let why = "the dump ends here without saying so: it was cut off";
            return Err(input.wrong(why, self.kept));
        }
        self.loader.commit().map_err(|error| self.refused(input, error))?;
        self.summary.bytes = input.bytes;
        Ok(self.summary)
    }

    fn refused(&self, input: &Input<'_>, source: Error) -> Error {
        let (input, line, source) = (input.name.into(), input.line, Box::new(source));
        LinesError::Refused { input, line, source, kept: self.kept }.into()
    }

    /// Returns the words for a table that the database does not have.
    fn no_table(&self, name: &str) -> String {
        let meant = did_you_mean(name, self.tables.iter().map(Table::name));
        format!("the database has no table `{name}`{meant}")
    }

    /// The tables of a dump are the database's.
    fn same_tables(&self, input: &Input<'_>, head: &Head) -> Result<(), Error> {
        for table in head.schema.normalized().tables() {
            let own = self.tables.iter().find(|own| own.name() == table.name());
            let why = match own {
                None => self.no_table(table.name()),
                Some(own) => match own.schema().difference(table) {
                    None => continue,
                    Some(differs) => format!(
                        "table `{}` is not that of the database: there {differs}",
                        table.name()
                    ),
                },
            };
            return Err(input.wrong(why, self.kept));
        }
        Ok(())
    }

    fn tuple(
        &mut self,
        input: &Input<'_>,
        table: &str,
        partition: Option<u64>,
        tuple: &RawValue,
    ) -> Result<(), Error> {
        let Some(number) = self.tables.iter().position(|own| own.name() == table) else {
            return Err(input.wrong(self.no_table(table), self.kept));
        };
        let partition = match partition {
            None if self.partitions == 1 => 0,
            Some(partition) if partition < self.partitions as u64 => partition as usize,
            other => {
                let last = self.partitions - 1;
                let found = other.map_or("none".to_owned(), |number| number.to_string());
                let why =
                    format!("`partition` is one of 0 to {last} here, and the line has {found}");
                return Err(input.wrong(why, self.kept));
            }
        };
        let text = tuple.get();
        let held = TupleSeed(&self.tables[number].layout)
            .deserialize(&mut serde_json::Deserializer::from_str(text))
            .map_err(|error| {
                let offset = (text.as_ptr() as usize).wrapping_sub(input.buffer.as_ptr() as usize);
                input.wrong(explain(&error, offset), self.kept)
            })?;
        let values: Vec<Value<'_>> = held.iter().map(OwnedValue::value).collect();
        let before = self.loader.commits();
        let done = self.insert(partition, number, &values);
        if self.loader.commits() != before && self.tallies.is_none() {
            self.kept = Kept::Before(input.line);
        }
        done.map_err(|error| self.refused(input, error))
    }

    fn insert(
        &mut self,
        partition: usize,
        number: usize,
        values: &[Value<'_>],
    ) -> Result<(), Error> {
        self.encoded.clear();
        let table = &self.tables[number];
        encode(table.schema(), values.iter().copied(), &mut self.encoded);
        let (table, bytes) = (&self.tables[number], self.encoded.len() as u64);
        match self.loader.insert(partition, table, values, bytes) {
            Err(Error::DuplicateKey { index: None, .. })
                if self.options.existing == Existing::Skip =>
            {
                self.summary.skipped += 1;
                return Ok(());
            }
            Err(Error::DuplicateKey { index: None, .. })
                if self.options.existing == Existing::Replace =>
            {
                let old = self.loader.stored(partition, table, values)?;
                if let Some(tallies) = &mut self.tallies {
                    tallies[partition][number].take(old);
                    self.summary.tables[number].1 -= 1;
                }
                self.loader.replace(partition, table, values, bytes)?;
            }
            done => done?,
        }
        if let Some(tallies) = &mut self.tallies {
            tallies[partition][number].add(&self.encoded);
        }
        self.summary.tables[number].1 += 1;
        Ok(())
    }
}

/// Bytes that a line with a tuple of this table may have: every byte of a text escaped, and room
/// for spaces.
fn line_limit(table: &TableSchema) -> u64 {
    let column = |column: &engines::below::Column| {
        let value = column.kind.max_bytes().map_or(64, |max| 6 * u64::from(max));
        value + 6 * column.name.len() as u64 + 64
    };
    LINE_LIMIT + table.columns().iter().map(column).sum::<u64>()
}
