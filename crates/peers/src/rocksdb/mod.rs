//! RocksDB, the system's library: one database for each partition, each in its own directory.
//!
//! Keys are big-endian, a tuple is one value of 1000 bytes. RocksDB knows no columns, so an update
//! reads the value, changes it and puts it back; a partition has one writer, so that needs no
//! transaction of RocksDB's. Every write syncs the write-ahead log (`WriteOptions::sync`); with
//! grouped commits the log is synced after each group (`FlushWAL`).

mod library;

use std::path::{Path, PathBuf};

use workloads::ycsb::{COLUMNS, Column};
use workloads::{Commit, RowBuffer, Session, Store, StoreError, allocated_bytes};

use self::library::{Library, Opening, WriteOptions};
use crate::shared::{
    cache_bytes, changed, create_directory, existing_directory, partition_of, whole,
};

const NAME: &str = "rocksdb";
/// A file that every database of RocksDB's has in its directory.
const MARKER: &str = "CURRENT";
/// RocksDB's guides recommend Bloom filters of this size.
const FILTER_BITS_PER_KEY: f64 = 10.0;

struct Partition {
    library: Library,
    directory: PathBuf,
}

/// RocksDB databases in the directories `rocksdb.0`, `rocksdb.1`, and so on.
pub struct RocksDbStore {
    partitions: Vec<Partition>,
    commit: Commit,
}

impl RocksDbStore {
    /// Creates databases below an existing directory.
    ///
    /// # Errors
    /// If one exists already or cannot be created.
    pub fn create(directory: &Path, partitions: usize, commit: Commit) -> Result<Self, StoreError> {
        Self::all(partitions, commit, true, |number| create_directory(directory, NAME, number))
    }

    /// Opens what [`RocksDbStore::create`] left, also after a kill.
    ///
    /// # Errors
    /// If a database is missing or RocksDB refuses it.
    pub fn open_existing(
        directory: &Path,
        partitions: usize,
        commit: Commit,
    ) -> Result<Self, StoreError> {
        Self::all(partitions, commit, false, |number| {
            existing_directory(directory, NAME, number, MARKER)
        })
    }

    fn all(
        partitions: usize,
        commit: Commit,
        create: bool,
        directory: impl Fn(usize) -> Result<PathBuf, StoreError>,
    ) -> Result<Self, StoreError> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let opening = Opening {
            create,
            cache_bytes: cache_bytes(partitions),
            threads: i32::try_from(cores).unwrap_or(i32::MAX),
            filter_bits_per_key: FILTER_BITS_PER_KEY,
        };
        let open = |number| {
            let directory = directory(number)?;
            let library = Library::open(&directory, &opening)?;
            Ok(Partition { library, directory })
        };
        let partitions = (0..partitions).map(open).collect::<Result<_, StoreError>>()?;
        Ok(Self { partitions, commit })
    }
}

impl Store for RocksDbStore {
    type Session<'a> = RocksDbSession<'a>;

    fn name(&self) -> &str {
        NAME
    }

    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn session(&self, partition: usize) -> Result<RocksDbSession<'_>, StoreError> {
        let library = &partition_of(&self.partitions, partition)?.library;
        let write = WriteOptions::new(self.commit == Commit::Durable);
        Ok(RocksDbSession { library, write, load: WriteOptions::new(false) })
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        self.partitions.iter().map(|partition| allocated_bytes(&partition.directory)).sum()
    }
}

/// One RocksDB database in use.
pub struct RocksDbSession<'a> {
    library: &'a Library,
    write: WriteOptions,
    load: WriteOptions,
}

impl Session for RocksDbSession<'_> {
    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
        self.library.put(&self.load, &key.to_be_bytes(), columns.as_flattened())
    }

    /// Also writes the MemTable out, so that it is not done on the clock.
    fn finish_load(&mut self) -> Result<(), StoreError> {
        self.library.sync_log()?;
        self.library.flush()
    }

    #[inline]
    fn read(&mut self, key: u64, row: &mut RowBuffer) -> Result<bool, StoreError> {
        let found = self.library.get(&key.to_be_bytes(), |value| {
            whole(key, value).map(|tuple| row.bytes_mut().copy_from_slice(tuple))
        })?;
        found.transpose().map(|found| found.is_some())
    }

    #[inline]
    fn update(
        &mut self,
        key: u64,
        first_column: usize,
        values: &[Column],
    ) -> Result<(), StoreError> {
        let found = self
            .library
            .get(&key.to_be_bytes(), |value| changed(key, value, first_column, values))?;
        let tuple = found.ok_or(StoreError::Missing { key })??;
        self.library.put(&self.write, &key.to_be_bytes(), &tuple)
    }

    #[inline]
    fn sync(&mut self) -> Result<(), StoreError> {
        if self.write.syncs() { Ok(()) } else { self.library.sync_log() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_update_syncs_the_log() {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, commit, syncs) in
            [("one", Commit::Durable, true), ("group", Commit::Grouped(9), false)]
        {
            let directory = directory.path().join(name);
            std::fs::create_dir(&directory).expect("creates");
            let store = RocksDbStore::create(&directory, 1, commit).expect("creates");
            assert_eq!(store.session(0).expect("free").write.syncs(), syncs);
        }
    }

    #[test]
    fn errors_carry_the_words_of_the_library() {
        let directory = tempfile::tempdir().expect("a directory");
        let partition = directory.path().join("rocksdb.0");
        std::fs::create_dir(&partition).expect("creates");
        std::fs::write(partition.join(MARKER), "no such manifest\n").expect("writes");
        let error = RocksDbStore::open_existing(directory.path(), 1, Commit::Durable).err();
        assert!(error.expect("refused").to_string().contains("CURRENT"));
    }
}
