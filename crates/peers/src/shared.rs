//! Code that the databases among the peers share.

use std::path::{Path, PathBuf};

use workloads::StoreError;
use workloads::ycsb::{COLUMN_BYTES, Column, ROW_BYTES};

/// Tuples put by one transaction while loading.
pub(crate) const LOAD_BATCH: usize = 1000;

/// The bytes that a database may cache in memory of its own, in all partitions together: the same
/// for all that have such a cache.
pub(crate) const CACHE_BYTES: u64 = 1 << 30;

/// The cache of one of so many partitions.
pub(crate) fn cache_bytes(partitions: usize) -> u64 {
    CACHE_BYTES / partitions.max(1) as u64
}

/// The directory of a partition.
pub(crate) fn directory_of(parent: &Path, peer: &str, number: usize) -> PathBuf {
    parent.join(format!("{peer}.{number}"))
}

/// Makes the directory of a partition, which must not exist.
pub(crate) fn create_directory(
    parent: &Path,
    peer: &str,
    number: usize,
) -> Result<PathBuf, StoreError> {
    let directory = directory_of(parent, peer, number);
    std::fs::create_dir(&directory).map_err(|error| StoreError::io(&directory, error))?;
    Ok(directory)
}

/// The directory of a partition in which a file must be: databases create what they do not find.
pub(crate) fn existing_directory(
    parent: &Path,
    peer: &str,
    number: usize,
    file: &str,
) -> Result<PathBuf, StoreError> {
    let directory = directory_of(parent, peer, number);
    let path = directory.join(file);
    std::fs::metadata(&path).map_err(|error| StoreError::io(&path, error))?;
    Ok(directory)
}

/// A partition by its index.
pub(crate) fn partition_of<T>(all: &[T], partition: usize) -> Result<&T, StoreError> {
    let partitions = all.len();
    all.get(partition).ok_or(StoreError::NoPartition { partition, partitions })
}

/// A tuple as a database without columns holds it.
pub(crate) fn whole(key: u64, value: &[u8]) -> Result<&[u8; ROW_BYTES], StoreError> {
    value.try_into().map_err(|_| {
        StoreError::engine(format!("key {key} has {} bytes, not {ROW_BYTES}", value.len()))
    })
}

/// The tuple that `value` becomes when some of its columns are replaced.
#[inline]
pub(crate) fn changed(
    key: u64,
    value: &[u8],
    first_column: usize,
    values: &[Column],
) -> Result<[u8; ROW_BYTES], StoreError> {
    let mut tuple = *whole(key, value)?;
    let (at, values) = (first_column * COLUMN_BYTES, values.as_flattened());
    tuple[at..at + values.len()].copy_from_slice(values);
    Ok(tuple)
}
