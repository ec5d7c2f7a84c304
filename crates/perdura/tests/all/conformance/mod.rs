//! One suite for every engine: each operation and each error of the contract as the public API
//! shows it, random operations against a model, and what the engines have in common: the same
//! operations leave the same database.
//!
//! Tests go over [`EngineKind::ALL`], so a new engine is taken in without an edit, and over the
//! optimistic engine of the crate of that name, which runs transactions at the same time. What is
//! particular to one engine has its tests elsewhere.

mod claims;
mod commits;
mod defaults;
mod errors;
mod inline;
pub(crate) mod large;
pub(crate) mod long_keys;
mod nulls;
mod operations;
pub(crate) mod partitions;
pub(crate) mod random;
mod readers;
pub(crate) mod scans;
pub(crate) mod situations;
mod snapshots;
mod statements;
mod tables;
mod unique;
mod values;

use crate::support::small_logs;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use optimistic::Optimistic;
use perdura::{
    Commit, Concurrency, Database, Domain, DurableIn, EngineKind, Environment, Error, Options,
    Placement, Scan, Schema, Table, Value,
};

/// An engine that tests run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Under {
    /// One that ships.
    Known(EngineKind),
    /// The form with checksums and fewer fences of one that has it.
    Checksummed(EngineKind),
    /// The column store with all indexes in persistent memory.
    Placed,
    /// The one for tests.
    Optimistic,
}

impl Under {
    fn all() -> impl Iterator<Item = Self> {
        EngineKind::ALL.into_iter().map(Self::Known).chain([Self::Optimistic])
    }

    /// The same, the engines with checksums, and the column store with durable indexes.
    fn in_all_forms() -> impl Iterator<Item = Self> {
        let checksummed = [EngineKind::Fast, EngineKind::Fash].map(Self::Checksummed);
        Self::all().chain(checksummed).chain([Self::Placed])
    }

    fn name(self) -> &'static str {
        match self {
            Self::Known(kind) => kind.name(),
            Self::Checksummed(EngineKind::Fast) => "fast, checksummed",
            Self::Checksummed(_) => "fash, checksummed",
            Self::Placed => "sofort, all indexes durable",
            Self::Optimistic => optimistic::NAME,
        }
    }

    /// Returns whether it runs one transaction at a time, and numbers them one by one.
    fn is_serial(self) -> bool {
        match self {
            Self::Known(kind) | Self::Checksummed(kind) => {
                kind.traits().concurrency == Concurrency::Serial
            }
            Self::Placed => false,
            // Its numbers are those of the engine beneath.
            Self::Optimistic => true,
        }
    }

    /// Returns whether commits are made durable in files alone.
    fn commits_in_files(self) -> bool {
        match self {
            Self::Known(kind) | Self::Checksummed(kind) => {
                kind.traits().durable_in == DurableIn::Files
            }
            Self::Placed | Self::Optimistic => false,
        }
    }
}

impl From<EngineKind> for Under {
    fn from(kind: EngineKind) -> Self {
        Self::Known(kind)
    }
}

impl std::fmt::Display for Under {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Runs a test for every engine, and says for which one it is.
fn each(test: impl Fn(Under)) {
    for engine in Under::all() {
        println!("engine {engine}");
        test(engine);
    }
}

/// The same for those that ship.
fn each_known(test: impl Fn(EngineKind)) {
    for engine in EngineKind::ALL {
        println!("engine {engine}");
        test(engine);
    }
}

/// Options, and whether they are for the engine of the tests.
#[derive(Clone)]
struct Setup {
    test_engine: bool,
    options: Options,
}

impl Setup {
    fn of(engine: Under, options: Options) -> Self {
        match engine {
            Under::Known(kind) => options.engine(kind).into(),
            Under::Checksummed(kind) => options.engine(kind).set("checksummed", 1).into(),
            Under::Placed => {
                options.engine(EngineKind::Sofort).placement(Placement::Percent(100)).into()
            }
            Under::Optimistic => Self { test_engine: true, options },
        }
    }

    fn map(self, change: impl FnOnce(Options) -> Options) -> Self {
        Self { options: change(self.options), ..self }
    }

    fn commit(self, commit: Commit) -> Self {
        self.map(|options| options.commit(commit))
    }

    fn partitions(self, partitions: u32) -> Self {
        self.map(|options| options.partitions(partitions))
    }

    fn memtable_bytes(self, bytes: u64) -> Self {
        self.map(|options| options.tune("memtable_bytes", bytes))
    }

    fn chunk_bytes(self, bytes: u64) -> Self {
        self.map(|options| options.chunk_bytes(bytes))
    }

    fn page_bytes(self, bytes: u32) -> Self {
        self.map(|options| options.tune("page_bytes", bytes.into()))
    }

    fn create(&self, path: &Path, schema: &Schema) -> Result<Database, Error> {
        if self.test_engine {
            return Database::create_at_with(path, schema, &self.options, &Optimistic::new());
        }
        Database::create(path, schema, &self.options)
    }

    fn open(&self, path: &Path) -> Result<Database, Error> {
        if self.test_engine {
            return Database::open_at_with(path, &self.options, &Optimistic::new());
        }
        Database::open(path, &self.options)
    }
}

/// The setup of an engine that ships, which the options name.
impl From<Options> for Setup {
    fn from(options: Options) -> Self {
        Self { test_engine: false, options }
    }
}

impl std::ops::Deref for Setup {
    type Target = Options;

    fn deref(&self) -> &Options {
        &self.options
    }
}

/// So small in every way that a few transactions split nodes, miss caches, freeze MemTables, merge
/// runs, take checkpoints and begin new segments.
fn small(engine: impl Into<Under>) -> Setup {
    let options = small_logs()
        .domain(Domain::Process)
        .chunk_bytes(16 << 10)
        .tune("node_bytes", 128)
        .tune("tree_node_bytes", 128)
        .tune("page_bytes", 512)
        .tune("cache_bytes", 16 << 10)
        .tune("memtable_bytes", 4 << 10)
        .tune("growth", 2)
        .tune("level0_runs", 2)
        .tune("block_bytes", 256)
        .tune("checkpoint_bytes", 64 << 10)
        .tune("wal_reserve_bytes", 16 << 10)
        .tune("buffer_bytes", 256 << 10)
        .tune("checkpoint_frames", 300)
        // Nothing becomes durable in the background.
        .tune("persister", 0)
        .pool_limit(1 << 30)
        .volatile_limit(1 << 30);
    Setup::of(engine.into(), options)
}

/// A database in a directory of its own.
struct Store {
    db: Option<Database>,
    setup: Setup,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Store {
    fn new(schema: &Schema, setup: impl Into<Setup>) -> Self {
        let setup = setup.into();
        let directory = crate::support::in_memory();
        let path = directory.path().join("db");
        let db = setup.create(&path, schema).unwrap();
        Self { db: Some(db), setup, path, _directory: directory }
    }

    fn db(&self) -> &Database {
        self.db.as_ref().unwrap()
    }

    /// Closes the database and opens it again; what the allocator holds is then what is reachable.
    fn reopen(&mut self) {
        self.db.take().unwrap().close().unwrap();
        self.db = Some(self.setup.open(&self.path).unwrap());
        let report = self.db().check().unwrap();
        assert_eq!((report.leaked, report.dangling), (0, 0), "{report:?}");
    }

    /// As a kill of the process between two transactions.
    fn crash(&mut self) {
        self.db.take().unwrap().abandon();
        self.db = Some(self.setup.open(&self.path).unwrap());
        let report = self.db().check().unwrap();
        assert_eq!((report.leaked, report.dangling), (0, 0), "{report:?}");
    }

    /// Calls `look` with the database as it is, opened again, and after a kill.
    fn thrice(&mut self, look: impl Fn(&Database)) {
        look(self.db());
        self.reopen();
        look(self.db());
        self.crash();
        look(self.db());
    }
}

/// A value that is kept.
#[derive(Clone, Debug)]
enum Own {
    U64(u64),
    I64(i64),
    F64(f64),
    Text(String),
    Bytes(Vec<u8>),
    Bool(bool),
    Null,
}

impl Own {
    fn value(&self) -> Value<'_> {
        match self {
            Self::U64(number) => Value::U64(*number),
            Self::I64(number) => Value::I64(*number),
            Self::F64(number) => Value::F64(*number),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Null => Value::Null,
        }
    }

    /// As `get_bytes` copies it.
    fn raw(&self) -> Vec<u8> {
        match self {
            Self::U64(number) => number.to_le_bytes().into(),
            Self::I64(number) => number.to_le_bytes().into(),
            Self::F64(number) => number.to_le_bytes().into(),
            Self::Text(text) => text.as_bytes().into(),
            Self::Bytes(bytes) => bytes.clone(),
            Self::Bool(truth) => u64::from(*truth).to_le_bytes().into(),
            // Only for a digest: it reads as zero or as empty there.
            Self::Null => b"NULL".into(),
        }
    }
}

impl From<Value<'_>> for Own {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::U64(number) => Self::U64(number),
            Value::I64(number) => Self::I64(number),
            Value::F64(number) => Self::F64(number),
            Value::Text(text) => Self::Text(text.into()),
            Value::Bytes(bytes) => Self::Bytes(bytes.into()),
            Value::Bool(truth) => Self::Bool(truth),
            Value::Null => Self::Null,
        }
    }
}

/// The order of keys: NULL first, numbers as numbers, of floating-point numbers both zeros the same
/// and every NaN the same and last, the rest byte by byte.
impl Ord for Own {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::U64(a), Self::U64(b)) => a.cmp(b),
            (Self::I64(a), Self::I64(b)) => a.cmp(b),
            (Self::F64(a), Self::F64(b)) => {
                a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Null, Self::Null) => Ordering::Equal,
            (Self::Null, _) => Ordering::Less,
            (_, Self::Null) => Ordering::Greater,
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            other => panic!("{other:?} in one column"),
        }
    }
}

impl PartialOrd for Own {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Bit by bit: what comes back has to be what went in.
impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq() && self.raw() == other.raw()
    }
}

impl Eq for Own {}

type Tuple = Vec<Own>;

fn values(tuple: &[Own]) -> Vec<Value<'_>> {
    tuple.iter().map(Own::value).collect()
}

fn try_scan<E: Environment>(
    db: &Database<E>,
    table: &Table,
    scan: &Scan<'_>,
) -> Result<Vec<Tuple>, Error> {
    let mut rows = Vec::new();
    db.read(|tx| {
        // The closure runs again where the paged engines have to lock.
        rows.clear();
        tx.scan(table, scan, |row| {
            rows.push(row.values().map(Own::from).collect());
            ControlFlow::Continue(())
        })
    })?;
    Ok(rows)
}

/// The tuples that a scan shows.
fn scan<E: Environment>(db: &Database<E>, table: &Table, scan: &Scan<'_>) -> Vec<Tuple> {
    try_scan(db, table, scan).unwrap()
}

/// The columns of an index of the table, followed by those of the primary key; the primary key's if
/// it is `None`.
fn key_columns(table: &Table, index: Option<&str>) -> Vec<usize> {
    let schema = table.schema();
    let number = |name: &String| usize::from(table.column(name).unwrap());
    let primary = schema.key_columns().iter().map(number);
    let Some(index) = index else { return primary.collect() };
    let index = schema.indexes().iter().find(|other| other.name == index).unwrap();
    index.columns.iter().map(number).chain(primary).collect()
}

/// The tuples in the order of an index.
fn sorted(mut tuples: Vec<Tuple>, columns: &[usize]) -> Vec<Tuple> {
    let key = |tuple: &Tuple| columns.iter().map(|at| tuple[*at].clone()).collect::<Vec<_>>();
    tuples.sort_by_cached_key(key);
    tuples
}

/// Every table of the database holds exactly what it is expected to, in the order of every index,
/// in both directions; the check finds nothing. Returns a digest of all of it.
fn holds<E: Environment>(db: &Database<E>, expected: &[(&Table, Vec<Tuple>)]) -> u64 {
    let mut digest = mix(0, b"");
    for (table, tuples) in expected {
        let indexes = table.schema().indexes().iter().map(|index| Some(index.name.as_str()));
        for index in std::iter::once(None).chain(indexes) {
            let wanted = sorted(tuples.clone(), &key_columns(table, index));
            let all = index.map_or(Scan::all(), |index| Scan::all().by(index));
            assert_eq!(scan(db, table, &all), wanted, "table {}, index {index:?}", table.name());
            let mut backward = scan(db, table, &all.backward());
            backward.reverse();
            assert_eq!(backward, wanted, "table {}, index {index:?}, backward", table.name());
            for value in wanted.iter().flatten() {
                digest = mix(digest, &value.raw());
            }
        }
    }
    let report = db.check().unwrap();
    assert_eq!((report.leaked, report.dangling), (0, 0), "{report:?}");
    assert_eq!(report.tuples, expected.iter().map(|(_, tuples)| tuples.len() as u64).sum::<u64>());
    digest
}

/// FNV-1a with the length in front.
fn mix(start: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let length = (bytes.len() as u64).to_le_bytes();
    length.iter().chain(bytes).fold(start ^ 0xcbf2_9ce4_8422_2325, step)
}
