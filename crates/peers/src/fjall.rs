//! fjall: one database for each partition, each in its own directory, with one keyspace.
//!
//! Keys are big-endian, a tuple is one value of 1000 bytes. fjall knows no columns, so an update
//! reads the value, changes it and puts it back; a partition has one writer, so that needs no
//! transaction of fjall's. After each update its journal is persisted with `PersistMode::SyncAll`;
//! with grouped commits after each group.

use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use workloads::ycsb::{COLUMNS, Column};
use workloads::{Commit, RowBuffer, Session, Store, StoreError, allocated_bytes};

use crate::shared::{
    cache_bytes, changed, create_directory, existing_directory, partition_of, whole,
};

const NAME: &str = "fjall";
const KEYSPACE: &str = "tuples";
/// A file that every database of fjall's has in its directory.
const MARKER: &str = "version";

struct Partition {
    database: Database,
    tuples: Keyspace,
    directory: PathBuf,
}

/// fjall databases in the directories `fjall.0`, `fjall.1`, and so on.
pub struct FjallStore {
    partitions: Vec<Partition>,
    commit: Commit,
}

impl FjallStore {
    /// Creates databases below an existing directory.
    ///
    /// # Errors
    /// If one exists already or cannot be created.
    pub fn create(directory: &Path, partitions: usize, commit: Commit) -> Result<Self, StoreError> {
        Self::all(partitions, commit, |number| create_directory(directory, NAME, number))
    }

    /// Opens what [`FjallStore::create`] left, also after a kill.
    ///
    /// # Errors
    /// If a database is missing or fjall refuses it.
    pub fn open_existing(
        directory: &Path,
        partitions: usize,
        commit: Commit,
    ) -> Result<Self, StoreError> {
        Self::all(partitions, commit, |number| existing_directory(directory, NAME, number, MARKER))
    }

    fn all(
        partitions: usize,
        commit: Commit,
        directory: impl Fn(usize) -> Result<PathBuf, StoreError>,
    ) -> Result<Self, StoreError> {
        let open = |number| {
            let directory = directory(number)?;
            let database = Database::builder(&directory)
                .cache_size(cache_bytes(partitions))
                .manual_journal_persist(true)
                .open()
                .map_err(StoreError::engine)?;
            let options = || KeyspaceCreateOptions::default().manual_journal_persist(true);
            let tuples = database.keyspace(KEYSPACE, options).map_err(StoreError::engine)?;
            Ok(Partition { database, tuples, directory })
        };
        let partitions = (0..partitions).map(open).collect::<Result<_, StoreError>>()?;
        Ok(Self { partitions, commit })
    }
}

impl Store for FjallStore {
    type Session<'a> = FjallSession<'a>;

    fn name(&self) -> &str {
        NAME
    }

    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn session(&self, partition: usize) -> Result<FjallSession<'_>, StoreError> {
        let partition = partition_of(&self.partitions, partition)?;
        Ok(FjallSession { partition, durable: self.commit == Commit::Durable })
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        self.partitions.iter().map(|partition| allocated_bytes(&partition.directory)).sum()
    }
}

/// One fjall database in use.
pub struct FjallSession<'a> {
    partition: &'a Partition,
    /// Every update is durable when it returns.
    durable: bool,
}

impl FjallSession<'_> {
    #[inline]
    fn persist(&self) -> Result<(), StoreError> {
        self.partition.database.persist(PersistMode::SyncAll).map_err(StoreError::engine)
    }
}

impl Session for FjallSession<'_> {
    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
        let tuples = &self.partition.tuples;
        tuples.insert(key.to_be_bytes(), columns.as_flattened()).map_err(StoreError::engine)
    }

    fn finish_load(&mut self) -> Result<(), StoreError> {
        self.persist()
    }

    #[inline]
    fn read(&mut self, key: u64, row: &mut RowBuffer) -> Result<bool, StoreError> {
        let found = self.partition.tuples.get(key.to_be_bytes()).map_err(StoreError::engine)?;
        let Some(found) = found else { return Ok(false) };
        row.bytes_mut().copy_from_slice(whole(key, &found)?);
        Ok(true)
    }

    #[inline]
    fn update(
        &mut self,
        key: u64,
        first_column: usize,
        values: &[Column],
    ) -> Result<(), StoreError> {
        let tuples = &self.partition.tuples;
        let found = tuples.get(key.to_be_bytes()).map_err(StoreError::engine)?;
        let found = found.ok_or(StoreError::Missing { key })?;
        let tuple = changed(key, &found, first_column, values)?;
        tuples.insert(key.to_be_bytes(), tuple).map_err(StoreError::engine)?;
        if self.durable { self.persist() } else { Ok(()) }
    }

    #[inline]
    fn sync(&mut self) -> Result<(), StoreError> {
        if self.durable { Ok(()) } else { self.persist() }
    }
}

#[cfg(test)]
mod tests {
    use workloads::ycsb::COLUMN_BYTES;

    use super::*;

    /// Returns true if the journal's files hold these bytes.
    fn journal_holds(directory: &Path, contents: &[u8]) -> bool {
        let entries = std::fs::read_dir(directory).expect("a directory");
        entries.map(|entry| entry.expect("readable").path()).any(|path| {
            if path.is_dir() {
                return journal_holds(&path, contents);
            }
            let journal = path.extension().is_some_and(|extension| extension == "jnl");
            journal && {
                let bytes = std::fs::read(&path).expect("readable");
                bytes.windows(contents.len()).any(|window| window == contents)
            }
        })
    }

    /// Returns whether an update is in the journal when it returns, and after the `sync` that
    /// follows. The journal is written only when it is persisted.
    fn persisted(commit: Commit) -> [bool; 2] {
        let directory = tempfile::tempdir().expect("a directory");
        let store = FjallStore::create(directory.path(), 1, commit).expect("creates");
        let mut session = store.session(0).expect("free");
        session.load(7, &[[b'x'; COLUMN_BYTES]; COLUMNS]).expect("loads");
        session.finish_load().expect("persists");
        session.update(7, 2, &[[b'y'; COLUMN_BYTES]]).expect("updates");
        let updated = journal_holds(directory.path(), &[b'y'; COLUMN_BYTES]);
        session.sync().expect("persists");
        [updated, journal_holds(directory.path(), &[b'y'; COLUMN_BYTES])]
    }

    #[test]
    fn durable_updates_persist_on_return_and_groups_on_sync() {
        assert_eq!(persisted(Commit::Durable), [true, true]);
        assert_eq!(persisted(Commit::Grouped(9)), [false, true]);
    }
}
