//! LMDB through `heed`: one environment for each partition, each in its own directory.
//!
//! At its fastest durable setting: synchronous commits into a writable map (`MDB_WRITEMAP`), no
//! read-ahead, integer keys (`MDB_INTEGERKEY`), loaded by appending. A tuple is one value of 1000
//! bytes. LMDB knows no columns, so an update reads the value, changes it and puts it back, in one
//! write transaction; a read is a read transaction of its own. With grouped commits a group is one
//! write transaction: LMDB has no commit that is made durable later and keeps the map consistent
//! until then.

use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator, PutFlags, RoTxn, RwTxn};
use workloads::ycsb::{COLUMNS, Column};
use workloads::{Commit, RowBuffer, Session, Store, StoreError, allocated_bytes};

use crate::shared::{
    LOAD_BATCH, changed, create_directory, existing_directory, partition_of, whole,
};

const NAME: &str = "lmdb";
/// LMDB's file in a partition's directory.
const FILE: &str = "data.mdb";
/// Room for a tuple: loaded pages hold three or four, updates copy pages.
const MAP_BYTES_PER_TUPLE: usize = 2048;
/// Room besides that for tuples.
const MAP_BYTES_MORE: usize = 1 << 30;

type Table = Database<Bytes, Bytes, IntegerComparator>;

struct Partition {
    env: Env,
    table: Table,
    directory: PathBuf,
}

/// LMDB environments in the directories `lmdb.0`, `lmdb.1`, and so on.
pub struct LmdbStore {
    partitions: Vec<Partition>,
    commit: Commit,
}

impl LmdbStore {
    /// Creates environments below an existing directory, for `tuples` tuples in all partitions
    /// together.
    ///
    /// # Errors
    /// If one exists already or cannot be created.
    pub fn create(
        directory: &Path,
        partitions: usize,
        tuples: u64,
        commit: Commit,
    ) -> Result<Self, StoreError> {
        let tuples = (tuples as usize).div_ceil(partitions.max(1));
        let map_bytes = tuples * MAP_BYTES_PER_TUPLE + MAP_BYTES_MORE;
        let create = |number| {
            let directory = create_directory(directory, NAME, number)?;
            let env = open_env(&directory, Some(map_bytes), 0)?;
            let mut tx = env.write_txn().map_err(StoreError::engine)?;
            let table = env
                .database_options()
                .types::<Bytes, Bytes>()
                .key_comparator::<IntegerComparator>()
                .create(&mut tx)
                .map_err(StoreError::engine)?;
            tx.commit().map_err(StoreError::engine)?;
            Ok(Partition { env, table, directory })
        };
        let partitions = (0..partitions).map(create).collect::<Result<_, StoreError>>()?;
        Ok(Self { partitions, commit })
    }

    /// Opens what [`LmdbStore::create`] left, also after a kill.
    ///
    /// # Errors
    /// If an environment is missing or LMDB refuses it.
    pub fn open_existing(
        directory: &Path,
        partitions: usize,
        commit: Commit,
    ) -> Result<Self, StoreError> {
        let open = |number| {
            let directory = existing_directory(directory, NAME, number, FILE)?;
            let env = open_env(&directory, None, 0)?;
            let tx = env.read_txn().map_err(StoreError::engine)?;
            let table = env
                .database_options()
                .types::<Bytes, Bytes>()
                .key_comparator::<IntegerComparator>()
                .open(&tx)
                .map_err(StoreError::engine)?;
            // Committed rather than dropped, or LMDB closes the table's handle with it.
            tx.commit().map_err(StoreError::engine)?;
            let table = table.ok_or_else(|| {
                let what = "it has no table".to_owned();
                StoreError::Damaged { path: directory.join(FILE), what }
            })?;
            Ok(Partition { env, table, directory })
        };
        let partitions = (0..partitions).map(open).collect::<Result<_, StoreError>>()?;
        Ok(Self { partitions, commit })
    }
}

/// Opens an environment for so many tables with names; without `map_bytes`, at the size with which
/// it was created.
pub(crate) fn open_env(
    directory: &Path,
    map_bytes: Option<usize>,
    tables: u32,
) -> Result<Env, StoreError> {
    let mut options = EnvOpenOptions::new();
    if tables > 0 {
        options.max_dbs(tables);
    }
    if let Some(bytes) = map_bytes {
        options.map_size(bytes.next_multiple_of(1 << 20));
    }
    // SAFETY: these flags weaken no guarantee that memory safety rests on, provided that nothing
    // else writes through the map: all of this module's access goes through LMDB.
    unsafe { options.flags(EnvFlags::WRITE_MAP | EnvFlags::NO_READ_AHEAD) };
    // SAFETY: the directory is this store's own, its files are changed by no one else, and `heed`
    // refuses to open an environment twice in a process.
    unsafe { options.open(directory) }.map_err(StoreError::engine)
}

impl Store for LmdbStore {
    type Session<'a> = LmdbSession<'a>;

    fn name(&self) -> &str {
        NAME
    }

    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn session(&self, partition: usize) -> Result<LmdbSession<'_>, StoreError> {
        let partition = partition_of(&self.partitions, partition)?;
        Ok(LmdbSession { partition, commit: self.commit, open: None, loaded: 0 })
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        self.partitions.iter().map(|partition| allocated_bytes(&partition.directory)).sum()
    }
}

/// One LMDB environment in use.
pub struct LmdbSession<'a> {
    partition: &'a Partition,
    commit: Commit,
    /// The transaction that loads, or that a group of updates is in.
    open: Option<RwTxn<'a>>,
    /// Tuples loaded by it.
    loaded: usize,
}

impl<'a> LmdbSession<'a> {
    /// The open transaction, or a new one.
    fn open(&mut self) -> Result<&mut RwTxn<'a>, StoreError> {
        Ok(match &mut self.open {
            Some(tx) => tx,
            none => none.insert(self.partition.env.write_txn().map_err(StoreError::engine)?),
        })
    }

    fn commit_open(&mut self) -> Result<(), StoreError> {
        self.loaded = 0;
        self.open.take().map_or(Ok(()), RwTxn::commit).map_err(StoreError::engine)
    }
}

impl Session for LmdbSession<'_> {
    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
        let table = self.partition.table;
        let tx = self.open()?;
        table
            .put_with_flags(tx, PutFlags::APPEND, &key.to_ne_bytes(), columns.as_flattened())
            .map_err(StoreError::engine)?;
        self.loaded += 1;
        if self.loaded == LOAD_BATCH { self.commit_open() } else { Ok(()) }
    }

    fn finish_load(&mut self) -> Result<(), StoreError> {
        self.commit_open()
    }

    #[inline]
    fn read(&mut self, key: u64, row: &mut RowBuffer) -> Result<bool, StoreError> {
        let Partition { env, table, .. } = self.partition;
        let own;
        let tx: &RoTxn<'_> = match &self.open {
            // It has updates that no other transaction sees yet.
            Some(tx) => tx,
            None => {
                own = env.read_txn().map_err(StoreError::engine)?;
                &own
            }
        };
        let Some(value) = table.get(tx, &key.to_ne_bytes()).map_err(StoreError::engine)? else {
            return Ok(false);
        };
        row.bytes_mut().copy_from_slice(whole(key, value)?);
        Ok(true)
    }

    #[inline]
    fn update(
        &mut self,
        key: u64,
        first_column: usize,
        values: &[Column],
    ) -> Result<(), StoreError> {
        let Partition { env, table, .. } = self.partition;
        if matches!(self.commit, Commit::Grouped(_)) {
            return replace(table, self.open()?, key, first_column, values);
        }
        let mut tx = env.write_txn().map_err(StoreError::engine)?;
        replace(table, &mut tx, key, first_column, values)?;
        tx.commit().map_err(StoreError::engine)
    }

    #[inline]
    fn sync(&mut self) -> Result<(), StoreError> {
        self.commit_open()
    }
}

#[inline]
fn replace(
    table: &Table,
    tx: &mut RwTxn<'_>,
    key: u64,
    first_column: usize,
    values: &[Column],
) -> Result<(), StoreError> {
    let value = table.get(tx, &key.to_ne_bytes()).map_err(StoreError::engine)?;
    let value = value.ok_or(StoreError::Missing { key })?;
    let tuple = changed(key, value, first_column, values)?;
    table.put(tx, &key.to_ne_bytes(), &tuple).map_err(StoreError::engine)
}
