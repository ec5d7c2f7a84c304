//! The errors that an application can meet. One of loading lines has the error that a line met, so both
//! are in one file.

mod backup;

use std::fmt;

use engines::below::{Bad, Escaped, GrowError, HeapError, PoolError, RowError, StorageError};
use engines::{ConflictReason, EngineError};

use crate::group::Failed;
use crate::holder::Holder;
use crate::partition_lock::Taken;

pub(crate) use self::backup::BACKUP_VERSION;
pub use self::backup::BackupError;

/// An operation failed. Unless the text says otherwise, nothing has changed, and the transaction
/// can go on or abort.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, account) = accounts(&Options::new());
/// let again = db.insert(&account, &[Value::from(1), Value::from("Bob"), Value::from(0)]);
/// match again {
///     Err(Error::DuplicateKey { table, index: None, .. }) => assert_eq!(table, "account"),
///     other => panic!("{other:?}"),
/// }
/// let typo = db.table("acount").unwrap_err();
/// assert!(typo.to_string().contains("did you mean `account`"));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The table has a tuple with this primary key, or these values in a unique index, already.
    #[error(
        "table `{table}` has a tuple with {what} {key} already; update it, or delete it first",
        what = key_of(.index), table = Escaped(.table), key = Escaped(.key))]
    DuplicateKey {
        /// The table.
        table: String,
        /// The unique index; `None` is the primary key.
        index: Option<String>,
        /// The key's columns and values, as people read them; long ones in part.
        key: String,
    },
    /// The table has no tuple with this primary key.
    #[error("table `{table}` has no tuple with primary key {key}", table = Escaped(.table), key = Escaped(.key))]
    MissingKey {
        /// The table.
        table: String,
        /// The key, as in [`Error::DuplicateKey`].
        key: String,
    },
    /// The pool cannot grow: its limit is reached or its medium is full. Deleting still works and
    /// makes room, in `nvm-log` within a few transactions or attempts. (There, delete tuple by
    /// tuple: part of a transaction that deletes much may be refused.) A full disk under files
    /// (`inp`, `cow`, `log`) is an error of the engine.
    #[error("{error}; {what}", error = .0, what = room(.0))]
    Full(GrowError),
    /// A value, a key or the schema is not what it must be.
    #[error(transparent)]
    Invalid(StorageError),
    /// The pool file could not be created or opened.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Bytes on the medium are not what they must be, or the medium failed.
    #[error("{0}; run `perdura pool check`, and restore a backup if it finds damage")]
    Damaged(Bad),
    /// A transaction that was cut off and is run again from its start
    /// ([`Database::write_named`](crate::Database::write_named)) does something else than the first
    /// time. It still waits to be continued.
    #[error("the transaction did something else before it was cut off; it waits to be continued")]
    Diverged,
    /// The engine failed in another way.
    #[error(transparent)]
    Engine(EngineError),
    /// The database has no table of this name.
    #[error("there is no table `{name}`; the database has {known}", name = Escaped(.name), known = Escaped(.known))]
    NoTable {
        /// The name.
        name: String,
        /// The tables that it has.
        known: String,
    },
    /// The table has no such index.
    #[error("table `{table}` has no index `{name}`; it has {known}", table = Escaped(.table), name = Escaped(.name), known = Escaped(.known))]
    NoIndex {
        /// The table.
        table: String,
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The table has no column of this name.
    #[error("table `{table}` has no column `{name}`; it has {known}", table = Escaped(.table), name = Escaped(.name), known = Escaped(.known))]
    NoColumn {
        /// The table.
        table: String,
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A column of a row cannot be read as it was asked for.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A table handle was used with another database than its own.
    #[error("table `{table}` belongs to another database; ask this one with `Database::table`", table = Escaped(.table))]
    ForeignTable {
        /// The table.
        table: String,
    },
    /// The database was created with another engine.
    #[error(
        "{path}: was created with engine `{found}`, not `{wanted}`; open it without naming an engine", path = Escaped(.path), found = Escaped(.found), wanted = Escaped(.wanted))]
    WrongEngine {
        /// The pool file.
        path: String,
        /// The engine in the pool.
        found: String,
        /// The engine that was asked for.
        wanted: String,
    },
    /// The database was created with another number of partitions.
    #[error("the database has {found} partitions, not {wanted}; open it without naming a number")]
    WrongPartitions {
        /// Partitions in the pool.
        found: u32,
        /// Partitions that were asked for.
        wanted: u32,
    },
    /// The database was created with another schema.
    #[error(
        "the database has another schema than the one given: {differs}; open it without one to see it", differs = Escaped(.differs))]
    WrongSchema {
        /// The first few differences.
        differs: String,
    },
    /// The database declares a table differently from the type of its rows; see
    /// [`crate::Database::typed`].
    #[error(
        "values of type `{rows}` are no rows of the database: {differs}; declare the type like the table, or carry the data over into a new database", rows = Escaped(.rows), differs = Escaped(.differs))]
    WrongRows {
        /// The type.
        rows: String,
        /// The first few differences between the table and what the type declares.
        differs: String,
    },
    /// The directory with the engine's files is not there, and so the data are not.
    #[error(
        "{path}: its files are missing: the data of engine `{engine}` lie in a directory next to the pool, and there is no {files}. Move it there (pool and directory belong together), or restore a backup", path = Escaped(.path), engine = Escaped(.engine), files = Escaped(.files))]
    NoFiles {
        /// The pool file.
        path: String,
        /// The engine.
        engine: String,
        /// The place where they were looked for.
        files: String,
    },
    /// The files next to the pool do not belong to it.
    #[error(
        "{path}: the files in {files} do not belong to this pool: {whose}. Put pool and files of one copy together, or restore a backup; `perdura pool check FILE --repair-into NEW` takes over what the files have", path = Escaped(.path), files = Escaped(.files))]
    OtherFiles {
        /// The pool file.
        path: String,
        /// The directory.
        files: String,
        /// The database that the files belong to.
        whose: engines::below::FilesOf,
    },
    /// A pool without a database in it: creating it was cut off.
    #[error(
        "{path}: holds no database; creating it was cut off. Remove the file and create it again", path = Escaped(.path))]
    Unfinished {
        /// The pool file.
        path: String,
    },
    /// The database has several partitions, and the call does not say which.
    #[error("the database has {partitions} partitions: use `Database::partition`")]
    PartitionNeeded {
        /// The number of partitions.
        partitions: usize,
    },
    /// The database has no such partition.
    #[error("there is no partition {number}; the database has {partitions}")]
    NoPartition {
        /// The number.
        number: usize,
        /// The number of partitions.
        partitions: usize,
    },
    /// The engine has only one version of the data.
    #[error("engine `{engine}` has no snapshots; choose cow or nvm-cow, or read in a transaction", engine = Escaped(.engine))]
    NoSnapshots {
        /// The engine.
        engine: String,
    },
    /// A step of the thread in the background failed; see [`crate::Background::Thread`].
    #[error(
        "a step in the background of partition {partition} failed: {source}; what is committed is safe, and the step will be tried again unless the partition has stopped"
    )]
    Background {
        /// The partition.
        partition: usize,
        /// The engine's reason.
        source: EngineError,
    },
    /// The transaction conflicts with another one, and is undone or can only be aborted. This is
    /// the one error for which a rerun can help: [`crate::Database::write`] runs it again until
    /// [`crate::Options::retry_for`] has passed, and then returns the error.
    #[error(
        "the transaction was in conflict with another one in each of {tries} tries ({reason}); run it again, or make it shorter"
    )]
    Conflict {
        /// The kind of conflict.
        reason: ConflictReason,
        /// The number of times that the transaction was run.
        tries: u32,
    },
    /// The call would wait for what this thread itself holds: a transaction, a read, a copy or a
    /// partition that it owns. The call has done nothing.
    #[error(
        "this thread has partition {partition} already: end the transaction or the read that is open in it first, or do this within it"
    )]
    Nested {
        /// The partition.
        partition: usize,
    },
    /// The partition was not free within the time that the call was allowed to wait.
    #[error("partition {partition} is taken by {by}; try again, or wait longer")]
    Busy {
        /// The partition.
        partition: usize,
        /// The holder.
        by: Holder,
    },
    /// The engine cannot do what was asked for.
    #[error("the engine has no {what}", what = Escaped(.what))]
    Unsupported {
        /// The thing that was asked for.
        what: String,
    },
    /// A scan for update ([`Scan::for_update`](crate::Scan::for_update)) was tried in a transaction
    /// or snapshot that only reads.
    #[error(
        "a scan for update needs a transaction that can change something, of `write` or `begin`"
    )]
    ReadsOnly,
    /// A savepoint of another transaction, or one set after a savepoint that was rolled back to.
    #[error("the savepoint is none of this transaction, or set after one that was rolled back to")]
    NoSavepoint,
    /// A backup cannot be restored.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// JSON lines cannot be loaded.
    #[error(transparent)]
    Lines(#[from] LinesError),
    /// A file or directory is in the place of a new database.
    #[error("{path}: {what}", path = Escaped(.path), what = Escaped(.what))]
    InTheWay {
        /// Its path.
        path: String,
        /// A guess at its origin, and advice.
        what: String,
    },
    /// A new database does not hold what was put into it. It was removed.
    #[error(
        "{path}: read back, the new database is not what was put into it ({what}); nothing was created. Try another medium or engine", path = Escaped(.path), what = Escaped(.what))]
    Differs {
        /// The database.
        path: String,
        /// The difference.
        what: String,
    },
    /// The options contradict each other or make no sense.
    #[error("{text}", text = Escaped(.0))]
    Options(String),
    /// The operating system refused.
    #[error("{path}: {source}", path = Escaped(.path), source = Escaped(.source))]
    Io {
        /// The file or directory.
        path: String,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The application's own error, which aborts the transaction that returns it.
    #[error(transparent)]
    User(Box<dyn std::error::Error + Send + Sync>),
}

/// The part of the input that is in the database when loading has failed.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, _) = accounts(&Options::new());
/// let lines = br#"{"table":"account","tuple":{"id":"one","owner":"Ada","balance":70}}"#;
/// let options = LoadOptions::new("the mail");
/// let refused = db.load(&mut &lines[..], &options, &mut |_| {}).unwrap_err();
/// let Error::Lines(LinesError::Line { kept, .. }) = refused else { panic!("{refused}") };
/// assert_eq!(kept, Kept::Nothing);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// Nothing; a database that was to be created is not there.
    Nothing,
    /// The tuples of the lines before this one.
    Before(u64),
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing was loaded"),
            Self::Before(line) => {
                write!(f, "the tuples before line {line} are loaded, none from there on")
            }
        }
    }
}

/// Lines could not be loaded.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, _) = accounts(&Options::new());
/// let lines = br#"{"table":"account","tuple":{"id":1,"owner":"Ada","balance":70}}"#;
/// let options = LoadOptions::new("the mail");
/// let refused = db.load(&mut &lines[..], &options, &mut |_| {}).unwrap_err();
/// let Error::Lines(LinesError::Refused { line, source, .. }) = refused else { panic!("{refused}") };
/// assert_eq!(line, 1);
/// assert!(matches!(*source, Error::DuplicateKey { .. }));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinesError {
    /// A line is not what it must be.
    #[error("{input}: line {line}: {why}; {kept}", input = Escaped(.input), why = Escaped(.why))]
    Line {
        /// The input's name.
        input: String,
        /// The line; the first one is 1.
        line: u64,
        /// The error, in words.
        why: String,
        /// The part that was loaded.
        kept: Kept,
    },
    /// The database did not take a line.
    #[error("{input}: line {line}: {source}; {kept}", input = Escaped(.input))]
    Refused {
        /// The input's name.
        input: String,
        /// The line; the first one is 1.
        line: u64,
        /// The reason.
        source: Box<Error>,
        /// The part that was loaded.
        kept: Kept,
    },
    /// The lines do not begin with a description, and no schema was given for a new database.
    #[error(
        "{input}: has no description in its first line, as a dump has; give a schema, or load it into a database that exists", input = Escaped(.input))]
    NoSchema {
        /// The input's name.
        input: String,
    },
}

/// Returns advice on how to make room.
fn room(error: &GrowError) -> &'static str {
    match error {
        GrowError::Limit { .. } => {
            "delete something, or restore a backup of it into a database with a larger limit"
        }
        GrowError::Addresses { .. } => {
            "delete something, or open it in a process that may have more"
        }
        GrowError::Medium { .. } => "delete something, or make room on the medium, and try again",
    }
}

/// Names the key of a table that a duplicate has.
fn key_of(index: &Option<String>) -> String {
    match index {
        None => "primary key".into(),
        Some(index) => format!("the key of unique index `{}`,", Escaped(index)),
    }
}

/// A key in an error that does not say which.
const GIVEN: &str = "(as given)";

impl Error {
    /// Wraps an error of the application, to abort a transaction with it.
    pub fn user(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::User(error.into())
    }
}

impl Error {
    /// The error of a partition that cannot be had.
    #[cold]
    pub(crate) fn taken(partition: usize, taken: Taken) -> Self {
        match taken {
            Taken::Nested => Self::Nested { partition },
            Taken::Busy(by) => Self::Busy { partition, by },
        }
    }
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::DuplicateKey { table } => {
                Self::DuplicateKey { table, index: None, key: GIVEN.into() }
            }
            StorageError::NotUnique { table, index, key } => {
                Self::DuplicateKey { table, index: Some(index), key }
            }
            StorageError::MissingKey { table } => Self::MissingKey { table, key: GIVEN.into() },
            StorageError::Heap(HeapError::Full(error)) => Self::Full(error),
            StorageError::Bad(bad) | StorageError::Heap(HeapError::Bad(bad)) => Self::Damaged(bad),
            other => Self::Invalid(other),
        }
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Storage(error) => error.into(),
            EngineError::Unsupported { what } => Self::Unsupported { what: what.into() },
            EngineError::NoSavepoint => Self::NoSavepoint,
            error @ EngineError::NoStructure { .. } => Self::Options(error.to_string()),
            EngineError::Conflict { reason } => Self::Conflict { reason, tries: 1 },
            EngineError::Diverged => Self::Diverged,
            other => Self::Engine(other),
        }
    }
}

impl From<HeapError> for Error {
    fn from(error: HeapError) -> Self {
        StorageError::from(error).into()
    }
}

impl From<Bad> for Error {
    fn from(bad: Bad) -> Self {
        Self::Damaged(bad)
    }
}

impl From<Failed<EngineError>> for Error {
    fn from(failed: Failed<EngineError>) -> Self {
        match failed {
            Failed::Here(error) => error.into(),
            Failed::Elsewhere(why) => EngineError::Stopped { why }.into(),
        }
    }
}
