//! Perdura itself, as one of the stores.
//!
//! Column 0 of its table is the key; column `i + 1` is column `i` of the workload. Loading puts
//! [`LOAD_BATCH`] tuples in a transaction; everything measured is one transaction an operation.
//!
//! A session owns its partition while it lives, as a worker of P1's testbed does (P1 3): it pays
//! for no lock, and a sync concerns its own partition only.

use std::path::{Path, PathBuf};

use perdura::{
    ColumnType, Database, Environment, Error, Exclusive, Native, Options, PoolError, ReadTx,
    Schema, Table, TableSchema, Ticket, Value,
};

use crate::store::{RowBuffer, Session, Store, StoreError};
use crate::ycsb::{COLUMN_BYTES, COLUMNS, Column};

/// Name of the table.
const TABLE: &str = "usertable";
/// The columns after the key.
const ALL_FIELDS: [u16; COLUMNS] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
/// Tuples inserted by one transaction while loading.
const LOAD_BATCH: usize = 64;

/// Creates a database to be measured: a domain that is stronger than the medium's is modelled.
///
/// # Errors
/// As [`Database::create`].
pub fn create_modelled(path: &Path, schema: &Schema, options: &Options) -> Result<Database, Error> {
    match Database::create(path, schema, options) {
        Err(Error::Pool(PoolError::DomainTooStrong { .. })) => {
            Database::create(path, schema, &options.clone().model(true))
        }
        other => other,
    }
}

/// A Perdura database that holds the YCSB table.
pub struct PerduraStore<E: Environment = Native> {
    database: Database<E>,
    table: Table,
    name: String,
    path: PathBuf,
    partitions: usize,
    statements: bool,
    stored_bytes: fn(&Database<E>) -> Result<u64, Error>,
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

    /// The same with the columns within the tuple, in engines that can do so
    /// ([`TableSchema::inline_columns`]).
    #[must_use]
    pub fn inlined_schema() -> Schema {
        let tables = Self::schema().tables().to_vec().into_iter();
        tables.map(TableSchema::inline_columns).fold(Schema::new(), Schema::table)
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
        Self::wrap(database, name.into(), path, partitions, Database::stored_bytes)
    }
}

impl<E: Environment> PerduraStore<E> {
    /// Wraps a database that lies in no file system, such as an emulated one: `name` is printed and
    /// is what errors name, and `partitions` is how many it was created with.
    ///
    /// # Errors
    /// If it has no YCSB table.
    pub fn in_memory(
        database: Database<E>,
        name: impl Into<String>,
        partitions: usize,
    ) -> Result<Self, StoreError> {
        let name = name.into();
        let path = PathBuf::from(&name);
        Self::wrap(database, name, &path, partitions, |_| Ok(0))
    }

    fn wrap(
        database: Database<E>,
        name: String,
        path: &Path,
        partitions: usize,
        stored_bytes: fn(&Database<E>) -> Result<u64, Error>,
    ) -> Result<Self, StoreError> {
        let table = database.table(TABLE).map_err(StoreError::engine)?;
        let path = path.to_owned();
        Ok(Self { database, table, name, path, partitions, statements: false, stored_bytes })
    }

    /// Sets whether the engine may take an update as all that its transaction does: see
    /// [`Exclusive::update`].
    #[must_use]
    pub fn with_statements(self, statements: bool) -> Self {
        Self { statements, ..self }
    }

    /// The database, for its counters.
    #[must_use]
    pub fn database(&self) -> &Database<E> {
        &self.database
    }

    /// Gives the database back, to close it.
    #[must_use]
    pub fn into_database(self) -> Database<E> {
        self.database
    }
}

impl<E: Environment> Store for PerduraStore<E> {
    type Session<'a> = PerduraSession<'a, E>;

    fn name(&self) -> &str {
        &self.name
    }

    fn partitions(&self) -> usize {
        self.partitions
    }

    fn session(&self, partition: usize) -> Result<PerduraSession<'_, E>, StoreError> {
        if partition >= self.partitions {
            return Err(StoreError::NoPartition { partition, partitions: self.partitions });
        }
        let exclusive = self.database.partition(partition).exclusive();
        Ok(PerduraSession {
            partition: exclusive.map_err(|error| store_error(&self.path, 0, error))?,
            table: self.table.clone(),
            path: &self.path,
            statements: self.statements,
            batch: Vec::new(),
        })
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        (self.stored_bytes)(&self.database).map_err(|error| store_error(&self.path, 0, error))
    }
}

/// Translates an error: one that a driver can act on keeps its meaning; all else is Perdura's own.
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
pub struct PerduraSession<'a, E: Environment = Native> {
    /// Taken for as long as the session lives, as a worker of P1's testbed owns its partitions.
    partition: Exclusive<'a, E>,
    table: Table,
    path: &'a Path,
    statements: bool,
    /// Tuples that are waiting to be inserted together.
    batch: Vec<(u64, [Column; COLUMNS])>,
}

impl<E: Environment> PerduraSession<'_, E> {
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
        let _ticket: Ticket = tx.commit().map_err(|error| store_error(path, 0, error))?;
        self.batch.clear();
        Ok(())
    }
}

impl<E: Environment> Session for PerduraSession<'_, E> {
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
        let (table, out) = (&self.table, row.bytes_mut());
        let wanted = out.len();
        let found = self
            .partition
            .read(|tx: &ReadTx<'_, E>| tx.get_bytes(table, &[Value::U64(key)], &ALL_FIELDS, out))
            .map_err(|error| store_error(self.path, key, error))?;
        match found {
            None => Ok(false),
            Some(bytes) if bytes == wanted => Ok(true),
            Some(bytes) => Err(StoreError::engine(format!("key {key}: a row of {bytes} bytes"))),
        }
    }

    #[inline]
    fn update(
        &mut self,
        key: u64,
        first_column: usize,
        values: &[Column],
    ) -> Result<(), StoreError> {
        let (table, path) = (&self.table, self.path);
        let failed = |error| store_error(path, key, error);
        let key = [Value::U64(key)];
        let column = |at: usize| ((first_column + at + 1) as u16, Value::Bytes(&values[at]));
        if values.len() == 1 {
            let changes = [column(0)];
            let done = match self.statements {
                true => self.partition.update(table, &key, &changes),
                false => self.partition.write(|tx| tx.update(table, &key, &changes)),
            };
            return done.map_err(failed);
        }
        let mut changes = [(0_u16, Value::U64(0)); COLUMNS];
        for (at, change) in changes.iter_mut().enumerate().take(values.len()) {
            *change = column(at);
        }
        let changes = &changes[..values.len()];
        let done = match self.statements {
            true => self.partition.update(table, &key, changes),
            false => self.partition.write(|tx| tx.update(table, &key, changes)),
        };
        done.map_err(failed)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.partition.sync().map_err(|error| store_error(self.path, 0, error))
    }
}
