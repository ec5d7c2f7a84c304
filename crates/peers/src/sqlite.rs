//! SQLite through `rusqlite`: one database for each partition, each in its own directory, with one
//! connection that all sessions of the partition use in turn.
//!
//! A tuple is a row of a table with an integer as its primary key and ten columns of bytes. An
//! update is `UPDATE .. SET c3 = ? WHERE key = ?`, every statement is prepared once, and each is a
//! transaction of its own; grouped commits put the statements of a group into one transaction.
//!
//! Settings: `journal_mode = WAL`, `synchronous = FULL` (a commit returns when the log has been
//! synced), `locking_mode = EXCLUSIVE` (no other process is there, so no shared memory for the
//! log's index and no file locks). A setting that SQLite does not take is an error.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

use rusqlite::{Connection, OpenFlags, Statement};
use workloads::ycsb::{COLUMN_BYTES, COLUMNS, Column};
use workloads::{Commit, RowBuffer, Session, Store, StoreError, allocated_bytes};

use crate::maps::hold;
use crate::shared::{LOAD_BATCH, cache_bytes, create_directory, existing_directory};

const NAME: &str = "sqlite";
/// The database in a partition's directory.
const FILE: &str = "tuples.db";

/// SQLite databases in the directories `sqlite.0`, `sqlite.1`, and so on.
pub struct SqliteStore {
    directories: Vec<PathBuf>,
    partitions: Vec<Mutex<Partition>>,
    commit: Commit,
}

impl SqliteStore {
    /// Creates databases below an existing directory.
    ///
    /// # Errors
    /// If one exists already or cannot be created, or SQLite does not take a setting.
    pub fn create(directory: &Path, partitions: usize, commit: Commit) -> Result<Self, StoreError> {
        let columns: String = (0..COLUMNS).map(|n| format!(", c{n} BLOB NOT NULL")).collect();
        let table = format!("CREATE TABLE tuples (key INTEGER PRIMARY KEY{columns})");
        Self::all(partitions, commit, |number| {
            let directory = create_directory(directory, NAME, number)?;
            let connection = connect(&directory, true, partitions)?;
            connection.execute_batch(&table).map_err(StoreError::engine)?;
            Ok((directory, connection))
        })
    }

    /// Opens what [`SqliteStore::create`] left, also after a kill.
    ///
    /// # Errors
    /// If a database is missing or SQLite refuses it or a setting.
    pub fn open_existing(
        directory: &Path,
        partitions: usize,
        commit: Commit,
    ) -> Result<Self, StoreError> {
        Self::all(partitions, commit, |number| {
            let directory = existing_directory(directory, NAME, number, FILE)?;
            let connection = connect(&directory, false, partitions)?;
            Ok((directory, connection))
        })
    }

    fn all(
        partitions: usize,
        commit: Commit,
        make: impl Fn(usize) -> Result<(PathBuf, Connection), StoreError>,
    ) -> Result<Self, StoreError> {
        let mut store = Self { directories: Vec::new(), partitions: Vec::new(), commit };
        for number in 0..partitions {
            let (directory, connection) = make(number)?;
            store.directories.push(directory);
            store.partitions.push(Mutex::new(Partition::new(connection)?));
        }
        Ok(store)
    }
}

/// Opens a database with all settings, each of which is read back.
pub(crate) fn connect(
    directory: &Path,
    create: bool,
    partitions: usize,
) -> Result<Connection, StoreError> {
    let path = directory.join(FILE);
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, create);
    let connection = Connection::open_with_flags(&path, flags).map_err(StoreError::engine)?;
    // Before the log is touched for the first time, or it is shared all the same.
    set(&connection, "locking_mode", "EXCLUSIVE", "exclusive")?;
    set(&connection, "journal_mode", "WAL", "wal")?;
    set(&connection, "synchronous", "FULL", "2")?;
    // Negative: KiB rather than pages.
    let cache = format!("-{}", cache_bytes(partitions) >> 10);
    set(&connection, "cache_size", &cache, &cache)?;
    Ok(connection)
}

/// Sets what has to be so; what is there then is read back.
pub(crate) fn set(
    connection: &Connection,
    pragma: &str,
    value: &str,
    is: &str,
) -> Result<(), StoreError> {
    let set = format!("PRAGMA {pragma} = {value}");
    connection.execute_batch(&set).map_err(StoreError::engine)?;
    let found = setting(connection, pragma)?;
    if found == is {
        return Ok(());
    }
    let what = format!("SQLite does not take {pragma} = {value} here: it is {found}");
    Err(StoreError::Unsupported(what))
}

/// Returns a setting as text.
fn setting(connection: &Connection, pragma: &str) -> Result<String, StoreError> {
    let text = |row: &rusqlite::Row<'_>| {
        Ok(match row.get_ref(0)? {
            rusqlite::types::ValueRef::Integer(number) => number.to_string(),
            other => other.as_str()?.to_owned(),
        })
    };
    connection.pragma_query_value(None, pragma, text).map_err(StoreError::engine)
}

/// A connection at an address that does not change.
struct Fixed(NonNull<Connection>);

impl Fixed {
    fn new(connection: Connection) -> Self {
        Self(NonNull::from(Box::leak(Box::new(connection))))
    }
}

impl Deref for Fixed {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        // SAFETY: it comes from a box that only `drop` takes back, and is only ever shared.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Fixed {
    fn drop(&mut self) {
        // SAFETY: it was leaked by `new`, and the statements that borrow it are gone: they are
        // fields before it in the one struct that has both.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A connection and its prepared statements.
struct Partition {
    // In this order: the statements borrow the connection, and fields are dropped in theirs.
    begin: Statement<'static>,
    commit: Statement<'static>,
    insert: Statement<'static>,
    read: Statement<'static>,
    /// The statements by first column, then by columns less one; each is prepared when first asked
    /// for.
    updates: [[Option<Statement<'static>>; COLUMNS]; COLUMNS],
    connection: Fixed,
}

// SAFETY: a statement is kept from other threads only because it shares its connection with others
// that may be in use at the same time. All of one connection are in here, together with it, and
// move together; a connection may be used by one thread after the other.
unsafe impl Send for Partition {}

impl Partition {
    fn new(connection: Connection) -> Result<Self, StoreError> {
        let connection = Fixed::new(connection);
        let names: String = (0..COLUMNS).map(|n| format!(", c{n}")).collect();
        let values = ", ?".repeat(COLUMNS);
        let prepare = |sql: &str| prepare(&connection, sql);
        Ok(Self {
            begin: prepare("BEGIN IMMEDIATE")?,
            commit: prepare("COMMIT")?,
            insert: prepare(&format!("INSERT INTO tuples (key{names}) VALUES (?{values})"))?,
            read: prepare(&format!("SELECT {} FROM tuples WHERE key = ?", &names[2..]))?,
            updates: Default::default(),
            connection,
        })
    }

    fn update(
        &mut self,
        first: usize,
        columns: usize,
    ) -> Result<&mut Statement<'static>, StoreError> {
        let slot = &mut self.updates[first][columns - 1];
        if slot.is_none() {
            let set: Vec<String> = (first..first + columns).map(|n| format!("c{n} = ?")).collect();
            let sql = format!("UPDATE tuples SET {} WHERE key = ?", set.join(", "));
            *slot = Some(prepare(&self.connection, &sql)?);
        }
        Ok(slot.as_mut().expect("prepared above"))
    }
}

fn prepare(connection: &Fixed, sql: &str) -> Result<Statement<'static>, StoreError> {
    // SAFETY: the connection stays where it is until it is dropped, after the statement: see the
    // fields of `Partition`, the only place where statements go.
    let connection: &'static Connection = unsafe { connection.0.as_ref() };
    connection.prepare(sql).map_err(StoreError::engine)
}

impl Store for SqliteStore {
    type Session<'a> = SqliteSession<'a>;

    fn name(&self) -> &str {
        NAME
    }

    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn session(&self, partition: usize) -> Result<SqliteSession<'_>, StoreError> {
        let partition = hold(&self.partitions, partition)?;
        Ok(SqliteSession { partition, commit: self.commit, loaded: 0, open: false })
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        self.directories.iter().map(|directory| allocated_bytes(directory)).sum()
    }
}

/// One SQLite database in use.
pub struct SqliteSession<'a> {
    partition: MutexGuard<'a, Partition>,
    commit: Commit,
    /// Tuples loaded by the open transaction.
    loaded: usize,
    /// True if a transaction of several statements is open.
    open: bool,
}

impl SqliteSession<'_> {
    fn begin(&mut self) -> Result<(), StoreError> {
        if !self.open {
            self.partition.begin.raw_execute().map_err(StoreError::engine)?;
            self.open = true;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), StoreError> {
        self.loaded = 0;
        if self.open {
            self.partition.commit.raw_execute().map_err(StoreError::engine)?;
            self.open = false;
        }
        Ok(())
    }
}

impl Drop for SqliteSession<'_> {
    /// Ends the open transaction: what was not synced is rolled back.
    fn drop(&mut self) {
        if self.open {
            // A rollback that fails has happened already: SQLite rolls back by itself on errors.
            let _ = self.partition.connection.execute_batch("ROLLBACK");
        }
    }
}

impl Session for SqliteSession<'_> {
    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
        self.begin()?;
        let insert = &mut self.partition.insert;
        insert.raw_bind_parameter(1, number(key)).map_err(StoreError::engine)?;
        for (column, contents) in columns.iter().enumerate() {
            insert.raw_bind_parameter(column + 2, &contents[..]).map_err(StoreError::engine)?;
        }
        insert.raw_execute().map_err(StoreError::engine)?;
        self.loaded += 1;
        if self.loaded == LOAD_BATCH { self.end() } else { Ok(()) }
    }

    /// Also takes the log into the database, so that it is not done on the clock.
    fn finish_load(&mut self) -> Result<(), StoreError> {
        self.end()?;
        let connection = &self.partition.connection;
        let checkpoint = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        checkpoint.map_err(StoreError::engine)
    }

    #[inline]
    fn read(&mut self, key: u64, row: &mut RowBuffer) -> Result<bool, StoreError> {
        let mut rows = self.partition.read.query([number(key)]).map_err(StoreError::engine)?;
        let Some(found) = rows.next().map_err(StoreError::engine)? else { return Ok(false) };
        for (column, out) in row.columns_mut().iter_mut().enumerate() {
            let contents = found.get_ref(column).map_err(StoreError::engine)?;
            let contents = contents.as_blob().map_err(StoreError::engine)?;
            *out = contents.try_into().map_err(|_| {
                let bytes = contents.len();
                let what =
                    format!("column {column} of key {key}: {bytes} bytes, not {COLUMN_BYTES}");
                StoreError::engine(what)
            })?;
        }
        Ok(true)
    }

    #[inline]
    fn update(
        &mut self,
        key: u64,
        first_column: usize,
        values: &[Column],
    ) -> Result<(), StoreError> {
        if matches!(self.commit, Commit::Grouped(_)) {
            self.begin()?;
        }
        let update = self.partition.update(first_column, values.len())?;
        for (at, contents) in values.iter().enumerate() {
            update.raw_bind_parameter(at + 1, &contents[..]).map_err(StoreError::engine)?;
        }
        update.raw_bind_parameter(values.len() + 1, number(key)).map_err(StoreError::engine)?;
        match update.raw_execute().map_err(StoreError::engine)? {
            0 => Err(StoreError::Missing { key }),
            _ => Ok(()),
        }
    }

    #[inline]
    fn sync(&mut self) -> Result<(), StoreError> {
        self.end()
    }
}

/// A key as SQLite takes it: keys are below 2^44.
pub(crate) fn number(key: u64) -> i64 {
    key.cast_signed()
}

/// Runs a statement that returns no rows; returns how many rows it has changed.
pub(crate) fn execute<P: rusqlite::Params>(
    connection: &Connection,
    sql: &str,
    values: P,
) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::engine)?;
    statement.execute(values).map_err(StoreError::engine)
}

/// Takes the log into the database, so that it is not done on the clock.
pub(crate) fn empty_log(connection: &Connection) -> Result<(), StoreError> {
    let checkpoint = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    checkpoint.map_err(StoreError::engine)
}

/// A transaction that is rolled back unless it commits.
pub(crate) struct Batch<'a> {
    connection: &'a Connection,
    open: bool,
}

impl<'a> Batch<'a> {
    pub(crate) fn begin(connection: &'a Connection) -> Result<Self, StoreError> {
        execute(connection, "BEGIN IMMEDIATE", [])?;
        Ok(Self { connection, open: true })
    }

    pub(crate) fn commit(&mut self) -> Result<(), StoreError> {
        execute(self.connection, "COMMIT", [])?;
        self.open = false;
        Ok(())
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if self.open {
            // A rollback that fails has happened already: SQLite rolls back by itself on errors.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_are_those_that_make_a_commit_durable() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::create(directory.path(), 2, Commit::Durable).expect("creates");
        let read_back = |store: &SqliteStore| {
            for partition in &store.partitions {
                let connection = &partition.lock().expect("no thread panicked").connection;
                let cache = format!("-{}", crate::shared::CACHE_BYTES / 2 / 1024);
                for (pragma, is) in [
                    ("journal_mode", "wal"),
                    ("synchronous", "2"),
                    ("locking_mode", "exclusive"),
                    ("cache_size", &cache),
                ] {
                    assert_eq!(setting(connection, pragma).expect("asked"), is, "{pragma}");
                }
            }
        };
        read_back(&store);
        drop(store);
        read_back(
            &SqliteStore::open_existing(directory.path(), 2, Commit::Durable).expect("opens"),
        );
    }

    #[test]
    fn a_setting_that_is_not_taken_is_an_error() {
        // A database in memory has no log.
        let connection = Connection::open_in_memory().expect("opens");
        let refused = set(&connection, "journal_mode", "WAL", "wal").expect_err("in memory");
        let text = refused.to_string();
        assert!(text.contains("journal_mode = WAL") && text.contains("memory"), "{text}");
    }

    #[test]
    fn the_database_is_exclusive_and_shares_no_memory() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::create(directory.path(), 1, Commit::Durable).expect("creates");
        let mut session = store.session(0).expect("free");
        session.load(1, &[[b'x'; COLUMN_BYTES]; COLUMNS]).expect("loads");
        session.finish_load().expect("commits");
        let path = directory.path().join("sqlite.0").join(FILE);
        let other = Connection::open(&path).expect("opens lazily");
        other.busy_timeout(std::time::Duration::ZERO).expect("sets it");
        let read = other.query_row("SELECT count(*) FROM tuples", [], |_| Ok(()));
        assert!(read.is_err(), "the lock is exclusive");
        assert!(!directory.path().join("sqlite.0/tuples.db-shm").exists());
    }

    #[test]
    fn a_group_that_was_not_synced_is_rolled_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::create(directory.path(), 1, Commit::Grouped(9)).expect("creates");
        let mut session = store.session(0).expect("free");
        session.load(0, &[[b'x'; COLUMN_BYTES]; COLUMNS]).expect("loads");
        session.finish_load().expect("commits");
        session.update(0, 3, &[[b'y'; COLUMN_BYTES]]).expect("updates");
        drop(session);
        let mut row = RowBuffer::new();
        assert!(store.session(0).expect("free").read(0, &mut row).expect("reads"));
        assert_eq!(row.columns()[3], [b'x'; COLUMN_BYTES]);
    }
}
