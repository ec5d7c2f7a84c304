//! The least that durability on NVM costs, for three ways of getting it.
//!
//! A floor is a hash index in DRAM and one flat file for each partition, mapped shared. It is no
//! database: fixed capacity, one table, an index that is rebuilt by a scan when it is reopened.
//!
//! ```text
//! 0          4096                slots
//! | header | area of the method | tuples, 1024 bytes each |
//!
//! header:  0 magic | 8 tuples | 16 capacity       64 a word of the method's, on a line of its own
//! tuple:   0 key   | 8 zero   | 16 ten columns    1016 unused
//! ```
//!
//! Invariants:
//! - `tuples` is stored after everything loaded is durable; tuples beyond it do not exist.
//! - All stores of a step come first, then all flushes, then one fence: a line is never flushed
//!   while it is still on its way from memory.
//! - Words are little-endian.

mod copy;
mod redo;
mod undo;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use workloads::ycsb::{COLUMN_BYTES, COLUMNS, Column, ROW_BYTES};
use workloads::{RowBuffer, Session, Store, StoreError, allocated_bytes};

use crate::hash::KeyMap;
use crate::mapping::MappedFile;
use crate::maps::hold;

/// Undo log in NVM, updates in place: 3 fences an update.
pub type UndoFloor = Floor<undo::Undo>;
/// Redo log in NVM, updates in place that are written back later: 1 fence an update.
pub type RedoFloor = Floor<redo::Redo>;
/// A new copy of the tuple and a pointer to it: 2 fences an update.
pub type CopyFloor = Floor<copy::Copy>;

const HEADER_BYTES: usize = 4096;
const MAGIC_AT: usize = 0;
const TUPLES_AT: usize = 8;
const CAPACITY_AT: usize = 16;
/// A word of the method's.
const METHOD_AT: usize = 64;
const SLOT_BYTES: usize = 1024;
/// First column in a slot.
const COLUMNS_AT: usize = 16;

/// The place of a tuple: its number in loading order, and the slot that holds it now.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    tuple: u32,
    slot: u32,
}

/// The file of a partition, and what is where in it.
pub struct Ground {
    file: MappedFile,
    capacity: u32,
    slots_at: usize,
}

impl Ground {
    fn slot_at(&self, slot: u32) -> usize {
        self.slots_at + slot as usize * SLOT_BYTES
    }

    fn column_at(&self, slot: u32, column: usize) -> usize {
        self.slot_at(slot) + COLUMNS_AT + column * COLUMN_BYTES
    }

    fn damaged(&self, what: impl Into<String>) -> StoreError {
        StoreError::Damaged { path: self.file.path().to_owned(), what: what.into() }
    }
}

/// One way of making an update durable.
pub trait Method: Send + Sized {
    /// The name under which figures are printed.
    const NAME: &'static str;
    /// First word of the file.
    const MAGIC: u64;
    /// Slots beyond one for each tuple.
    const SPARE_SLOTS: u32;

    /// Bytes between header and slots, whole pages.
    fn area_bytes(capacity: u32) -> usize;

    /// Starts on a new file.
    fn fresh(ground: &mut Ground) -> Self;

    /// Brings a file to its last durable state, in which `tuples` tuples exist.
    ///
    /// # Errors
    /// If the file is damaged.
    fn recover(ground: &mut Ground, tuples: u32) -> Result<Self, StoreError>;

    /// The slot of a tuple; used while reopening.
    fn slot_of(&self, ground: &Ground, tuple: u32) -> u32;

    /// A tuple was loaded into its slot; durable after [`Method::flush_loaded`].
    fn loaded(&mut self, ground: &mut Ground, place: Place);

    /// Flushes what [`Method::loaded`] stored.
    fn flush_loaded(&mut self, ground: &Ground);

    /// Replaces columns; durable when it returns.
    fn update(
        &mut self,
        ground: &mut Ground,
        place: &mut Place,
        first_column: usize,
        values: &[u8],
    );
}

/// One partition: its file, its index and its method.
struct Partition<M> {
    ground: Ground,
    index: KeyMap<Place>,
    method: M,
    tuples: u32,
}

fn capacity(tuples: u64) -> Result<u32, StoreError> {
    u32::try_from(tuples).ok().filter(|tuples| *tuples < u32::MAX >> 1).ok_or_else(|| {
        StoreError::Unsupported(format!("{tuples} tuples in a partition are too many for a floor"))
    })
}

impl<M: Method> Partition<M> {
    fn create(path: &Path, tuples: u64) -> Result<Self, StoreError> {
        let capacity = capacity(tuples)?;
        let slots_at = HEADER_BYTES + M::area_bytes(capacity);
        let slots = capacity as usize + M::SPARE_SLOTS as usize;
        let mut file = MappedFile::create(path, slots_at + slots * SLOT_BYTES)?;
        file.store_word(TUPLES_AT, 0);
        file.store_word(CAPACITY_AT, u64::from(capacity));
        let mut ground = Ground { file, capacity, slots_at };
        let method = M::fresh(&mut ground);
        ground.file.flush(0, HEADER_BYTES);
        ground.file.fence();
        // Last: a file with a magic number is a whole one.
        ground.file.store_word(MAGIC_AT, M::MAGIC);
        ground.file.flush(MAGIC_AT, 8);
        ground.file.fence();
        let mut index = KeyMap::default();
        index.reserve(capacity as usize);
        Ok(Self { ground, index, method, tuples: 0 })
    }

    fn open(path: &Path) -> Result<Self, StoreError> {
        let file = MappedFile::open(path)?;
        let damaged = |what: &str| StoreError::Damaged { path: path.to_owned(), what: what.into() };
        if file.len() < HEADER_BYTES || file.word(MAGIC_AT) != M::MAGIC {
            return Err(damaged(&format!("not a file of {}", M::NAME)));
        }
        let capacity = capacity(file.word(CAPACITY_AT)).map_err(|_| damaged("bad capacity"))?;
        let slots_at = HEADER_BYTES + M::area_bytes(capacity);
        let slots = capacity as usize + M::SPARE_SLOTS as usize;
        if file.len() != slots_at + slots * SLOT_BYTES {
            return Err(damaged("its length does not fit its capacity"));
        }
        let tuples = u32::try_from(file.word(TUPLES_AT)).ok().filter(|&t| t <= capacity);
        let tuples = tuples.ok_or_else(|| damaged("more tuples than its capacity"))?;
        let mut ground = Ground { file, capacity, slots_at };
        let method = M::recover(&mut ground, tuples)?;
        let mut index = KeyMap::default();
        index.reserve(capacity as usize);
        for tuple in 0..tuples {
            let place = Place { tuple, slot: method.slot_of(&ground, tuple) };
            index.insert(ground.file.word(ground.slot_at(place.slot)), place);
        }
        Ok(Self { ground, index, method, tuples })
    }

    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
        if self.tuples == self.ground.capacity {
            let path = self.ground.file.path().to_owned();
            return Err(StoreError::Full { path, tuples: u64::from(self.ground.capacity) });
        }
        let place = Place { tuple: self.tuples, slot: self.tuples };
        let at = self.ground.slot_at(place.slot);
        self.ground.file.store_word(at, key);
        self.ground.file.store(at + COLUMNS_AT, columns.as_flattened());
        self.method.loaded(&mut self.ground, place);
        self.index.insert(key, place);
        self.tuples += 1;
        Ok(())
    }

    fn finish_load(&mut self) {
        let slots_at = self.ground.slots_at;
        self.ground.file.flush(slots_at, self.tuples as usize * SLOT_BYTES);
        self.method.flush_loaded(&self.ground);
        self.ground.file.fence();
        self.ground.file.store_word(TUPLES_AT, u64::from(self.tuples));
        self.ground.file.flush(TUPLES_AT, 8);
        self.ground.file.fence();
    }
}

/// A floor: a directory with one file for each partition.
pub struct Floor<M> {
    partitions: Vec<Mutex<Partition<M>>>,
    directory: PathBuf,
}

impl<M: Method> Floor<M> {
    /// Creates the files in an existing directory, for `tuples` tuples in all partitions together.
    ///
    /// # Errors
    /// If a file exists or cannot be created.
    pub fn create(directory: &Path, partitions: usize, tuples: u64) -> Result<Self, StoreError> {
        let each = tuples.div_ceil(partitions.max(1) as u64);
        Self::with(directory, partitions, |path| Partition::create(path, each))
    }

    /// Opens the files of a directory, undoes or redoes, and rebuilds the indexes.
    ///
    /// # Errors
    /// If a file is missing or damaged.
    pub fn open_existing(directory: &Path, partitions: usize) -> Result<Self, StoreError> {
        Self::with(directory, partitions, Partition::open)
    }

    fn with(
        directory: &Path,
        partitions: usize,
        make: impl Fn(&Path) -> Result<Partition<M>, StoreError>,
    ) -> Result<Self, StoreError> {
        let partitions = (0..partitions)
            .map(|number| make(&directory.join(format!("{}.{number}", M::NAME))).map(Mutex::new))
            .collect::<Result<_, _>>()?;
        Ok(Self { partitions, directory: directory.to_owned() })
    }
}

impl<M: Method> Store for Floor<M> {
    type Session<'a>
        = FloorSession<'a, M>
    where
        M: 'a;

    fn name(&self) -> &str {
        M::NAME
    }

    fn partitions(&self) -> usize {
        self.partitions.len()
    }

    fn session(&self, partition: usize) -> Result<FloorSession<'_, M>, StoreError> {
        Ok(FloorSession { partition: hold(&self.partitions, partition)? })
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        (0..self.partitions.len())
            .map(|number| allocated_bytes(&self.directory.join(format!("{}.{number}", M::NAME))))
            .sum()
    }
}

/// One partition of a [`Floor`].
pub struct FloorSession<'a, M> {
    partition: MutexGuard<'a, Partition<M>>,
}

impl<M: Method> Session for FloorSession<'_, M> {
    fn load(&mut self, key: u64, columns: &[Column; COLUMNS]) -> Result<(), StoreError> {
        self.partition.load(key, columns)
    }

    fn finish_load(&mut self) -> Result<(), StoreError> {
        self.partition.finish_load();
        Ok(())
    }

    #[inline]
    fn read(&mut self, key: u64, row: &mut RowBuffer) -> Result<bool, StoreError> {
        let Partition { ground, index, .. } = &*self.partition;
        let Some(place) = index.get(&key) else { return Ok(false) };
        let columns = ground.file.slice(ground.column_at(place.slot, 0), ROW_BYTES);
        row.bytes_mut().copy_from_slice(columns);
        Ok(true)
    }

    #[inline]
    fn update(
        &mut self,
        key: u64,
        first_column: usize,
        values: &[Column],
    ) -> Result<(), StoreError> {
        assert!(first_column + values.len() <= COLUMNS, "columns outside the tuple");
        let Partition { ground, index, method, .. } = &mut *self.partition;
        let place = index.get_mut(&key).ok_or(StoreError::Missing { key })?;
        method.update(ground, place, first_column, values.as_flattened());
        Ok(())
    }

    /// Every update was durable when it returned.
    #[inline]
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
