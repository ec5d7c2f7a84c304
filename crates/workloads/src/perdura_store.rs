//! Perdura itself, as one of the stores.
//!
//! Column 0 of its table is the key; column `i + 1` is column `i` of the workload. Loading puts
//! [`LOAD_BATCH`] tuples in a transaction; everything measured is one transaction an operation.
//!
//! A session keeps the ticket of its last commit, so that a sync waits for its own partition only
//! and workers on other partitions go on.

use std::path::{Path, PathBuf};

use perdura::{
    ColumnType, Database, Error, Partition, ReadTx, Row, Schema, Table, TableSchema, Ticket, Value,
};

use crate::store::{RowBuffer, Session, Store, StoreError};
use crate::ycsb::{COLUMN_BYTES, COLUMNS, Column};

/// Name of the table.
const TABLE: &str = "usertable";
/// Tuples inserted by one transaction while loading.
const LOAD_BATCH: usize = 64;

/// A Perdura database that holds the YCSB table.
pub struct PerduraStore {
    database: Database,
    table: Table,
    name: String,
    path: PathBuf,
    partitions: usize,
}

impl PerduraStore {
    /// The schema with which the database must have been created.
    #[must_use]
    pub fn schema() -> Schema {
        let columns = (0..COLUMNS).fold(
            TableSchema::new(TABLE).column("key", ColumnType::U64),
            |table, column| {
                let bytes = ColumnType::Bytes { max: COLUMN_BYTES as _ };
                table.column(format!("field{column}"), bytes)
            },
        );
        Schema::new().table(columns.key(&["key"]))
    }

    /// Wraps an open database: `name` is printed, `path` is what errors name, and `partitions` is
    /// how many it was created with.
    ///
    /// # Errors
    /// If it has no YCSB table.
    pub fn new(
        database: Database,
        name: impl Into<String>,
        path: &Path,
        partitions: usize,
    ) -> Result<Self, StoreError> {
        let table = database.table(TABLE).map_err(StoreError::engine)?;
        Ok(Self { database, table, name: name.into(), path: path.to_owned(), partitions })
    }

    /// The database, for its counters.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Gives the database back, to close it.
    #[must_use]
    pub fn into_database(self) -> Database {
        self.database
    }
}

impl Store for PerduraStore {
    type Session<'a> = PerduraSession<'a>;

    fn name(&self) -> &str {
        &self.name
    }

    fn partitions(&self) -> usize {
        self.partitions
    }

    fn session(&self, partition: usize) -> Result<PerduraSession<'_>, StoreError> {
        if partition >= self.partitions {
            return Err(StoreError::NoPartition { partition, partitions: self.partitions });
        }
        Ok(PerduraSession {
            database: &self.database,
            partition: self.database.partition(partition),
            table: self.table.clone(),
            path: &self.path,
            row: Row::new(),
            batch: Vec::new(),
            last: None,
        })
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        self.database.stored_bytes().map_err(|error| store_error(&self.path, 0, error))
    }
}

/// What a driver can act on keeps its meaning; all else is Perdura's own.
#[cold]
fn store_error(path: &Path, key: u64, error: Error) -> StoreError {
    match error {
        Error::MissingKey { .. } => StoreError::Missing { key },
        Error::Damaged(bad) => StoreError::Damaged { path: path.to_owned(), what: bad.to_string() },
        Error::Io { path, source } => StoreError::Io { path: path.into(), source },
        other => StoreError::engine(other),
    }
}

/// One partition of a Perdura database.
pub struct PerduraSession<'a> {
    database: &'a Database,
    partition: Partition<'a>,
    table: Table,
    path: &'a Path,
    row: Row,
    /// Tuples that are waiting to be inserted together.
    batch: Vec<(u64, [Column; COLUMNS])>,
    /// The last commit; when it is durable, all of this session are.
    last: Option<Ticket>,
}

impl PerduraSession<'_> {
    fn insert_batch(&mut self) -> Result<(), StoreError> {
        let path = self.path;
        let mut tx = self.partition.begin();
        for (key, columns) in &self.batch {
            let tuple: [Value<'_>; COLUMNS + 1] = std::array::from_fn(|at| match at {
                0 => Value::U64(*key),
                _ => Value::Bytes(&columns[at - 1]),
            });
            tx.insert(&self.table, &tuple).map_err(|error| store_error(path, *key, error))?;
        }
        self.last = Some(tx.commit().map_err(|error| store_error(path, 0, error))?);
        self.batch.clear();
        Ok(())
    }
}

impl Session for PerduraSession<'_> {
    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
        self.batch.push((key, *columns));
        if self.batch.len() < LOAD_BATCH {
            return Ok(());
        }
        self.insert_batch()
    }

    fn finish_load(&mut self) -> Result<(), StoreError> {
        self.insert_batch()?;
        self.batch = Vec::new();
        self.sync()
    }

    #[inline]
    fn read(&mut self, key: u64, row: &mut RowBuffer) -> Result<bool, StoreError> {
        let (table, found) = (&self.table, &mut self.row);
        let exists = self
            .partition
            .read(|tx: &ReadTx<'_>| tx.get(table, &[Value::U64(key)], found))
            .map_err(|error| store_error(self.path, key, error))?;
        if exists {
            for (at, column) in row.columns_mut().iter_mut().enumerate() {
                let bytes: &[u8] = self.row.bytes(at + 1);
                *column = *bytes.first_chunk().ok_or_else(|| {
                    let length = bytes.len();
                    StoreError::engine(format!("key {key}: column {at} has only {length} bytes"))
                })?;
            }
        }
        Ok(exists)
    }

    #[inline]
    fn update(
        &mut self,
        key: u64,
        first_column: usize,
        values: &[Column],
    ) -> Result<(), StoreError> {
        let table = &self.table;
        let mut changes = [(0_u16, Value::U64(0)); COLUMNS];
        for ((at, change), value) in changes.iter_mut().enumerate().zip(values) {
            *change = ((first_column + at + 1) as u16, Value::Bytes(value));
        }
        let changes = &changes[..values.len()];
        let failed = |error| store_error(self.path, key, error);
        // Dropped on an error, which aborts it.
        let mut tx = self.partition.begin();
        tx.update(table, &[Value::U64(key)], changes).map_err(failed)?;
        self.last = Some(tx.commit().map_err(failed)?);
        Ok(())
    }

    #[inline]
    fn sync(&mut self) -> Result<(), StoreError> {
        let Some(ticket) = self.last.take() else { return Ok(()) };
        self.database.wait(ticket).map_err(|error| store_error(self.path, 0, error))
    }
}
