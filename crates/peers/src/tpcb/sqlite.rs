//! TPC-B on SQLite: one connection, which the workers use in turn.
//!
//! SQLite has one writer at a time. So a lock of ours before it costs the workers nothing that they had
//! otherwise, and lets the database be exclusive as in YCSB: [`crate::SqliteStore`] has the settings.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rusqlite::{Connection, Row, params};
use workloads::tpcb::{Bank, BankConnection, Books, Entry, Pages, Spec};
use workloads::{Observer, StoreError, allocated_bytes};

use crate::shared::{LOAD_BATCH, create_directory};
use crate::sqlite::{Batch, connect, empty_log, execute, number};

const NAME: &str = "sqlite";

const TABLES: &str = "
    CREATE TABLE branch (b_id INTEGER PRIMARY KEY, b_balance INTEGER NOT NULL, b_filler BLOB NOT NULL);
    CREATE TABLE teller (t_id INTEGER PRIMARY KEY, t_b_id INTEGER NOT NULL,
                         t_balance INTEGER NOT NULL, t_filler BLOB NOT NULL);
    CREATE TABLE account (a_id INTEGER PRIMARY KEY, a_b_id INTEGER NOT NULL,
                          a_balance INTEGER NOT NULL, a_filler BLOB NOT NULL);
    CREATE TABLE history (h_id INTEGER PRIMARY KEY, h_t_id INTEGER NOT NULL, h_b_id INTEGER NOT NULL,
                          h_a_id INTEGER NOT NULL, h_delta INTEGER NOT NULL, h_time INTEGER NOT NULL,
                          h_filler BLOB NOT NULL);";
const ACCOUNT: &str = "UPDATE account SET a_balance = a_balance + ?1 WHERE a_id = ?2";
const BALANCE: &str = "SELECT a_balance FROM account WHERE a_id = ?1";
const TELLER: &str = "UPDATE teller SET t_balance = t_balance + ?1 WHERE t_id = ?2";
const BRANCH: &str = "UPDATE branch SET b_balance = b_balance + ?1 WHERE b_id = ?2";
const HISTORY: &str = "INSERT INTO history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// A SQLite database with the tables of TPC-B.
pub struct SqliteBank {
    directory: PathBuf,
    connection: Mutex<Connection>,
}

impl SqliteBank {
    /// Creates it in the directory `sqlite.0` below an existing one.
    ///
    /// # Errors
    /// It exists already or cannot be created, or SQLite does not take a setting.
    pub fn create(directory: &Path) -> Result<Self, StoreError> {
        let directory = create_directory(directory, NAME, 0)?;
        let connection = connect(&directory, true, 1)?;
        connection.execute_batch(TABLES).map_err(StoreError::engine)?;
        connection.set_prepared_statement_cache_capacity(16);
        Ok(Self { directory, connection: Mutex::new(connection) })
    }

    /// Bytes that its files take.
    ///
    /// # Errors
    /// They cannot be examined.
    pub fn footprint_bytes(&self) -> Result<u64, StoreError> {
        allocated_bytes(&self.directory)
    }
}

/// Runs a statement that concerns one row.
fn change(connection: &Connection, sql: &str, delta: i64, key: u64) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::engine)?;
    match statement.execute([delta, number(key)]).map_err(StoreError::engine)? {
        1 => Ok(()),
        _ => Err(StoreError::Missing { key }),
    }
}

fn book(connection: &Connection, entry: &Entry) -> Result<i64, StoreError> {
    let Entry { id, account, teller, branch, delta } = *entry;
    change(connection, ACCOUNT, delta, account)?;
    let mut balance = connection.prepare_cached(BALANCE).map_err(StoreError::engine)?;
    let balance = balance.query_row([number(account)], |row| row.get(0));
    change(connection, TELLER, delta, teller)?;
    change(connection, BRANCH, delta, branch)?;
    let [id_, teller, branch, account] = [id, teller, branch, account].map(number);
    execute(
        connection,
        HISTORY,
        params![id_, teller, branch, account, delta, id_ + 1, entry.filler()],
    )?;
    balance.map_err(StoreError::engine)
}

impl Bank for SqliteBank {
    type Connection<'a> = &'a Self;

    fn name(&self) -> &str {
        NAME
    }

    fn connect(&self) -> Result<&Self, StoreError> {
        Ok(self)
    }

    /// Also takes the log into the database, so that it is not done on the clock.
    fn load<O: Observer>(&self, spec: &Spec, progress: &O) -> Result<(), StoreError> {
        let connection = &*self.connection.lock();
        let mut rows = 0;
        let mut batch = Batch::begin(connection)?;
        for (id, filler) in Pages(spec).branches() {
            let row = params![number(id), filler];
            execute(connection, "INSERT INTO branch VALUES (?1, 0, ?2)", row)?;
            rows += 1;
        }
        for (id, branch, filler) in Pages(spec).tellers() {
            let row = params![number(id), number(branch), filler];
            execute(connection, "INSERT INTO teller VALUES (?1, ?2, 0, ?3)", row)?;
            rows += 1;
        }
        for (id, branch, filler) in Pages(spec).accounts() {
            let row = params![number(id), number(branch), filler];
            execute(connection, "INSERT INTO account VALUES (?1, ?2, 0, ?3)", row)?;
            rows += 1;
            if rows % LOAD_BATCH as u64 == 0 {
                batch.commit()?;
                progress.completed(0, rows);
                batch = Batch::begin(connection)?;
            }
        }
        batch.commit()?;
        progress.completed(0, rows);
        empty_log(connection)
    }

    fn books(&self) -> Result<Books, StoreError> {
        let connection = &*self.connection.lock();
        let each = |sql: &str, take: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<()>| {
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                take(row)?;
            }
            Ok(())
        };
        let mut books = Books::default();
        let read: rusqlite::Result<()> = (|| {
            for (sql, balances) in [
                ("SELECT b_id, b_balance FROM branch", &mut books.branches),
                ("SELECT t_id, t_balance FROM teller", &mut books.tellers),
                ("SELECT a_id, a_balance FROM account", &mut books.accounts),
            ] {
                each(sql, &mut |row| {
                    balances.insert(row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?);
                    Ok(())
                })?;
            }
            each("SELECT h_b_id, h_t_id, h_a_id, h_delta FROM history", &mut |row| {
                let id = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
                books.add(id(0)?, id(1)?, id(2)?, row.get(3)?);
                Ok(())
            })
        })();
        read.map_err(StoreError::engine)?;
        Ok(books)
    }
}

impl BankConnection for &SqliteBank {
    fn book(&mut self, entry: &Entry) -> Result<i64, StoreError> {
        let connection = &*self.connection.lock();
        let mut transaction = Batch::begin(connection)?;
        let balance = book(connection, entry)?;
        transaction.commit()?;
        Ok(balance)
    }
}
