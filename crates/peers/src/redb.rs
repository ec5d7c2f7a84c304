//! redb: one database for each partition, each in its own directory.
//!
//! A table from integers to values of 1000 bytes. redb knows no columns, so an update takes the
//! value, changes it and puts it back, in one write transaction; a read is a read transaction of
//! its own. Commits are `Durability::Immediate`. Grouped commits are, as redb's documentation
//! advises, transactions with `Durability::None` and then one that is `Immediate`, which makes all
//! before it durable.
//!
//! `quick_repair` is off, as by default: with it every commit also saves the allocator's state and
//! is made in two phases, so that opening after a crash need not walk the whole database.

use std::path::{Path, PathBuf};

use redb::{Builder, Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};
use workloads::ycsb::{COLUMNS, Column, ROW_BYTES};
use workloads::{Commit, RowBuffer, Session, Store, StoreError, allocated_bytes};

use crate::shared::{
    LOAD_BATCH, cache_bytes, changed, create_directory, existing_directory, partition_of, whole,
};

const NAME: &str = "redb";
/// The database in a partition's directory.
const FILE: &str = "tuples.redb";
const TABLE: TableDefinition<'_, u64, &[u8; ROW_BYTES]> = TableDefinition::new("tuples");

struct Partition {
    database: Database,
    directory: PathBuf,
}

/// redb databases in the directories `redb.0`, `redb.1`, and so on.
pub struct RedbStore {
    partitions: Vec<Partition>,
    commit: Commit,
}

impl RedbStore {
    /// Creates databases below an existing directory.
    ///
    /// # Errors
    /// If one exists already or cannot be created.
    pub fn create(directory: &Path, partitions: usize, commit: Commit) -> Result<Self, StoreError> {
        let create = |number| {
            let directory = create_directory(directory, NAME, number)?;
            let path = directory.join(FILE);
            let database = builder(partitions).create(path).map_err(StoreError::engine)?;
            Ok(Partition { database, directory })
        };
        let partitions = (0..partitions).map(create).collect::<Result<_, StoreError>>()?;
        Ok(Self { partitions, commit })
    }

    /// Opens what [`RedbStore::create`] left; after a kill redb first walks the whole database.
    ///
    /// # Errors
    /// If a database is missing or redb refuses it.
    pub fn open_existing(
        directory: &Path,
        partitions: usize,
        commit: Commit,
    ) -> Result<Self, StoreError> {
        let open = |number| {
            let directory = existing_directory(directory, NAME, number, FILE)?;
            let path = directory.join(FILE);
            let database = builder(partitions).open(path).map_err(StoreError::engine)?;
            Ok(Partition { database, directory })
        };
        let partitions = (0..partitions).map(open).collect::<Result<_, StoreError>>()?;
        Ok(Self { partitions, commit })
    }
}

fn builder(partitions: usize) -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(usize::try_from(cache_bytes(partitions)).expect("a size of memory"));
    builder
}

impl Store for RedbStore {
    type Session<'a> = RedbSession<'a>;

    fn name(&self) -> &str {
        NAME
    }

    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn session(&self, partition: usize) -> Result<RedbSession<'_>, StoreError> {
        let database = &partition_of(&self.partitions, partition)?.database;
        Ok(RedbSession::new(database, self.commit))
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        self.partitions.iter().map(|partition| allocated_bytes(&partition.directory)).sum()
    }
}

/// One redb database in use.
pub struct RedbSession<'a> {
    database: &'a Database,
    /// The durability of every update.
    durability: Durability,
    /// True if updates were committed that are not durable yet.
    open: bool,
    /// The rows that the next transaction loads: a table borrows its transaction, so it cannot be
    /// kept open.
    loading: Vec<(u64, [u8; ROW_BYTES])>,
}

impl<'a> RedbSession<'a> {
    fn new(database: &'a Database, commit: Commit) -> Self {
        let durability = match commit {
            Commit::Durable => Durability::Immediate,
            Commit::Grouped(_) => Durability::None,
        };
        Self { database, durability, open: false, loading: Vec::new() }
    }

    fn begin(&self, durability: Durability) -> Result<WriteTransaction, StoreError> {
        let mut tx = self.database.begin_write().map_err(StoreError::engine)?;
        tx.set_durability(durability).map_err(StoreError::engine)?;
        Ok(tx)
    }

    fn load_batch(&mut self) -> Result<(), StoreError> {
        let tx = self.begin(Durability::Immediate)?;
        {
            let mut table = tx.open_table(TABLE).map_err(StoreError::engine)?;
            for (key, tuple) in self.loading.drain(..) {
                table.insert(key, &tuple).map_err(StoreError::engine)?;
            }
        }
        tx.commit().map_err(StoreError::engine)
    }
}

impl Session for RedbSession<'_> {
    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
        self.loading.push((key, *whole(key, columns.as_flattened())?));
        if self.loading.len() == LOAD_BATCH { self.load_batch() } else { Ok(()) }
    }

    fn finish_load(&mut self) -> Result<(), StoreError> {
        self.load_batch()
    }

    #[inline]
    fn read(&mut self, key: u64, row: &mut RowBuffer) -> Result<bool, StoreError> {
        let tx = self.database.begin_read().map_err(StoreError::engine)?;
        let table = tx.open_table(TABLE).map_err(StoreError::engine)?;
        let Some(found) = table.get(key).map_err(StoreError::engine)? else { return Ok(false) };
        row.bytes_mut().copy_from_slice(found.value());
        Ok(true)
    }

    #[inline]
    fn update(
        &mut self,
        key: u64,
        first_column: usize,
        values: &[Column],
    ) -> Result<(), StoreError> {
        let tx = self.begin(self.durability)?;
        {
            let mut table = tx.open_table(TABLE).map_err(StoreError::engine)?;
            let found = table.get_mut(key).map_err(StoreError::engine)?;
            let mut found = found.ok_or(StoreError::Missing { key })?;
            let tuple = changed(key, found.value(), first_column, values)?;
            found.insert(&tuple).map_err(StoreError::engine)?;
        }
        self.open = true;
        tx.commit().map_err(StoreError::engine)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        if self.open && matches!(self.durability, Durability::None) {
            self.begin(Durability::Immediate)?.commit().map_err(StoreError::engine)?;
        }
        self.open = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use redb::StorageBackend;
    use redb::backends::FileBackend;
    use workloads::ycsb::COLUMN_BYTES;

    use super::*;

    /// A file that counts how often it is synced.
    #[derive(Debug)]
    struct Counting(FileBackend, Arc<AtomicU64>);

    impl StorageBackend for Counting {
        fn len(&self) -> Result<u64, io::Error> {
            self.0.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
            self.0.read(offset, out)
        }

        fn set_len(&self, len: u64) -> Result<(), io::Error> {
            self.0.set_len(len)
        }

        fn sync_data(&self) -> Result<(), io::Error> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
            self.0.write(offset, data)
        }
    }

    /// Syncs of twenty updates, and of the `sync` after them.
    fn syncs(commit: Commit) -> (u64, u64) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true);
        let file = file.open(directory.path().join(FILE)).expect("creates");
        let count = Arc::new(AtomicU64::new(0));
        let backend = Counting(FileBackend::new(file).expect("locks"), count.clone());
        let database = builder(1).create_with_backend(backend).expect("creates");
        let mut session = RedbSession::new(&database, commit);
        session.load(7, &[[b'x'; COLUMN_BYTES]; COLUMNS]).expect("loads");
        session.finish_load().expect("commits");
        let before = count.load(Ordering::Relaxed);
        for _ in 0..20 {
            session.update(7, 2, &[[b'y'; COLUMN_BYTES]]).expect("updates");
        }
        let updated = count.load(Ordering::Relaxed);
        session.sync().expect("syncs");
        (updated - before, count.load(Ordering::Relaxed) - updated)
    }

    #[test]
    fn every_durable_commit_syncs_and_a_group_syncs_once() {
        assert_eq!(syncs(Commit::Durable), (20, 0));
        assert_eq!(syncs(Commit::Grouped(20)), (0, 1));
    }
}
