//! Maps of the standard library: tuples inline, updated in place, no durability.
//!
//! They show what remains of the time when nothing is done for durability, and what an index costs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, TryLockError};

use workloads::ycsb::{COLUMNS, Column};
use workloads::{RowBuffer, Session, Store, StoreError};

use crate::hash::KeyMap;

/// A tuple as a map holds it.
type Tuple = [Column; COLUMNS];

/// The common interface of the two maps.
pub trait Map: Send {
    /// The name under which figures are printed.
    const NAME: &'static str;

    /// An empty map with room for `tuples` tuples.
    fn with_room(tuples: usize) -> Self;

    /// Inserts a tuple.
    fn put(&mut self, key: u64, tuple: Tuple);

    /// The tuple of a key.
    fn find(&self, key: u64) -> Option<&Tuple>;

    /// The tuple of a key, to be changed.
    fn find_mut(&mut self, key: u64) -> Option<&mut Tuple>;
}

impl Map for KeyMap<Tuple> {
    const NAME: &'static str = "hashmap";

    fn with_room(tuples: usize) -> Self {
        Self::with_capacity_and_hasher(tuples, Default::default())
    }

    fn put(&mut self, key: u64, tuple: Tuple) {
        self.insert(key, tuple);
    }

    #[inline]
    fn find(&self, key: u64) -> Option<&Tuple> {
        self.get(&key)
    }

    #[inline]
    fn find_mut(&mut self, key: u64) -> Option<&mut Tuple> {
        self.get_mut(&key)
    }
}

impl Map for BTreeMap<u64, Tuple> {
    const NAME: &'static str = "btreemap";

    fn with_room(_: usize) -> Self {
        Self::new()
    }

    fn put(&mut self, key: u64, tuple: Tuple) {
        self.insert(key, tuple);
    }

    #[inline]
    fn find(&self, key: u64) -> Option<&Tuple> {
        self.get(&key)
    }

    #[inline]
    fn find_mut(&mut self, key: u64) -> Option<&mut Tuple> {
        self.get_mut(&key)
    }
}

/// One map for each partition.
pub struct MapStore<M> {
    partitions: Vec<Mutex<M>>,
}

/// A `std` hash map (with a hash for integers) for each partition.
#[expect(private_interfaces, reason = "the hasher is internal")]
pub type HashMapStore = MapStore<KeyMap<Tuple>>;
/// A `std` B-tree map for each partition.
pub type BTreeMapStore = MapStore<BTreeMap<u64, Tuple>>;

impl<M: Map> MapStore<M> {
    /// Empty maps for `tuples` tuples in all partitions together.
    #[must_use]
    pub fn new(partitions: usize, tuples: u64) -> Self {
        let each = (tuples as usize).div_ceil(partitions.max(1));
        Self { partitions: (0..partitions).map(|_| Mutex::new(M::with_room(each))).collect() }
    }
}

/// The lock of a partition, held by its session.
pub(crate) fn hold<T>(
    partitions: &[Mutex<T>],
    partition: usize,
) -> Result<MutexGuard<'_, T>, StoreError> {
    let partitions_number = partitions.len();
    let lock = partitions
        .get(partition)
        .ok_or(StoreError::NoPartition { partition, partitions: partitions_number })?;
    match lock.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::WouldBlock) => Err(StoreError::Busy { partition }),
        Err(TryLockError::Poisoned(_)) => Err(StoreError::engine(format!(
            "a thread panicked while it used partition {partition}"
        ))),
    }
}

impl<M: Map> Store for MapStore<M> {
    type Session<'a>
        = MapSession<'a, M>
    where
        M: 'a;

    fn name(&self) -> &str {
        M::NAME
    }

    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn session(&self, partition: usize) -> Result<MapSession<'_, M>, StoreError> {
        Ok(MapSession { map: hold(&self.partitions, partition)? })
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}

/// One partition of a [`MapStore`].
pub struct MapSession<'a, M> {
    map: MutexGuard<'a, M>,
}

impl<M: Map> Session for MapSession<'_, M> {
    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
        self.map.put(key, *columns);
        Ok(())
    }

    fn finish_load(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    #[inline]
    fn read(&mut self, key: u64, row: &mut RowBuffer) -> Result<bool, StoreError> {
        let Some(tuple) = self.map.find(key) else { return Ok(false) };
        *row.columns_mut() = *tuple;
        Ok(true)
    }

    #[inline]
    fn update(
        &mut self,
        key: u64,
        first_column: usize,
        values: &[Column],
    ) -> Result<(), StoreError> {
        let tuple = self.map.find_mut(key).ok_or(StoreError::Missing { key })?;
        tuple[first_column..first_column + values.len()].copy_from_slice(values);
        Ok(())
    }

    #[inline]
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
