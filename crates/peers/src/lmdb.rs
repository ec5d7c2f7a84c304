//! LMDB through `heed`: one environment for each partition, each in its own directory.
//!
//! At its fastest durable setting: synchronous commits into a writable map (`MDB_WRITEMAP`), no
//! read-ahead, integer keys (`MDB_INTEGERKEY`), loaded by appending. A tuple is one value of 1000
//! bytes. LMDB knows no columns, so an update reads the value, changes it and puts it back, in one
//! write transaction; a read is a read transaction of its own.

use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator, PutFlags, RwTxn};
use workloads::ycsb::{COLUMN_BYTES, COLUMNS, Column, ROW_BYTES};
use workloads::{RowBuffer, Session, Store, StoreError, allocated_bytes};

/// Tuples put by one transaction while loading.
const LOAD_BATCH: u32 = 1000;
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
}

impl LmdbStore {
    /// Creates environments below an existing directory, for `tuples` tuples in all partitions
    /// together.
    ///
    /// # Errors
    /// If one exists already or cannot be created.
    pub fn create(directory: &Path, partitions: usize, tuples: u64) -> Result<Self, StoreError> {
        let tuples = (tuples as usize).div_ceil(partitions.max(1));
        let map_bytes = tuples * MAP_BYTES_PER_TUPLE + MAP_BYTES_MORE;
        let create = |number| {
            let directory = directory.join(format!("lmdb.{number}"));
            std::fs::create_dir(&directory).map_err(|error| StoreError::io(&directory, error))?;
            let env = open_env(&directory, Some(map_bytes))?;
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
        Ok(Self { partitions: (0..partitions).map(create).collect::<Result<_, StoreError>>()? })
    }

    /// Opens what [`LmdbStore::create`] left, also after a kill.
    ///
    /// # Errors
    /// If an environment is missing or LMDB refuses it.
    pub fn open_existing(directory: &Path, partitions: usize) -> Result<Self, StoreError> {
        let open = |number| {
            let directory = directory.join(format!("lmdb.{number}"));
            let data = directory.join("data.mdb");
            std::fs::metadata(&data).map_err(|error| StoreError::io(&data, error))?;
            let env = open_env(&directory, None)?;
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
                StoreError::Damaged { path: data, what }
            })?;
            Ok(Partition { env, table, directory })
        };
        Ok(Self { partitions: (0..partitions).map(open).collect::<Result<_, StoreError>>()? })
    }
}

/// Opens an environment; without `map_bytes`, at the size with which it was created.
fn open_env(directory: &Path, map_bytes: Option<usize>) -> Result<Env, StoreError> {
    let mut options = EnvOpenOptions::new();
    if let Some(bytes) = map_bytes {
        options.map_size(bytes.next_multiple_of(1 << 20));
    }
    // SAFETY: these flags weaken no guarantee that memory safety rests on, provided that nothing
    // else writes through the map: all of this module's access goes through LMDB.
    unsafe { options.flags(EnvFlags::WRITE_MAP | EnvFlags::NO_READ_AHEAD) };
    // SAFETY: the directory is this store's own, nobody else changes its files, and `heed` refuses
    // to open an environment twice in a process.
    unsafe { options.open(directory) }.map_err(StoreError::engine)
}

impl Store for LmdbStore {
    type Session<'a> = LmdbSession<'a>;

    fn name(&self) -> &str {
        "lmdb"
    }

    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn session(&self, partition: usize) -> Result<LmdbSession<'_>, StoreError> {
        let partitions = self.partitions.len();
        let found = self.partitions.get(partition);
        let found = found.ok_or(StoreError::NoPartition { partition, partitions })?;
        Ok(LmdbSession { partition: found, loading: None, loaded: 0 })
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        self.partitions.iter().map(|partition| allocated_bytes(&partition.directory)).sum()
    }
}

/// One LMDB environment in use.
pub struct LmdbSession<'a> {
    partition: &'a Partition,
    /// The transaction that loads.
    loading: Option<RwTxn<'a>>,
    /// Tuples in it.
    loaded: u32,
}

impl LmdbSession<'_> {
    fn commit_loaded(&mut self) -> Result<(), StoreError> {
        self.loaded = 0;
        self.loading.take().map_or(Ok(()), RwTxn::commit).map_err(StoreError::engine)
    }
}

impl Session for LmdbSession<'_> {
    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
        let Partition { env, table, .. } = self.partition;
        let tx = match &mut self.loading {
            Some(tx) => tx,
            none => none.insert(env.write_txn().map_err(StoreError::engine)?),
        };
        table
            .put_with_flags(tx, PutFlags::APPEND, &key.to_ne_bytes(), columns.as_flattened())
            .map_err(StoreError::engine)?;
        self.loaded += 1;
        if self.loaded == LOAD_BATCH { self.commit_loaded() } else { Ok(()) }
    }

    fn finish_load(&mut self) -> Result<(), StoreError> {
        self.commit_loaded()
    }

    #[inline]
    fn read(&mut self, key: u64, row: &mut RowBuffer) -> Result<bool, StoreError> {
        let Partition { env, table, .. } = self.partition;
        let tx = env.read_txn().map_err(StoreError::engine)?;
        let Some(value) = table.get(&tx, &key.to_ne_bytes()).map_err(StoreError::engine)? else {
            return Ok(false);
        };
        let value = whole(key, value)?;
        row.bytes_mut().copy_from_slice(value);
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
        let mut tx = env.write_txn().map_err(StoreError::engine)?;
        let value = table.get(&tx, &key.to_ne_bytes()).map_err(StoreError::engine)?;
        let mut tuple = *whole(key, value.ok_or(StoreError::Missing { key })?)?;
        let (at, values) = (first_column * COLUMN_BYTES, values.as_flattened());
        tuple[at..at + values.len()].copy_from_slice(values);
        table.put(&mut tx, &key.to_ne_bytes(), &tuple).map_err(StoreError::engine)?;
        tx.commit().map_err(StoreError::engine)
    }

    /// Every update was durable when it returned.
    #[inline]
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn whole(key: u64, value: &[u8]) -> Result<&[u8; ROW_BYTES], StoreError> {
    value.try_into().map_err(|_| {
        StoreError::engine(format!("key {key} has {} bytes, not {ROW_BYTES}", value.len()))
    })
}
