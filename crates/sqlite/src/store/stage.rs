//! Bytes that SQLite has written and not committed.
//!
//! The first megabyte is in memory. The rest of a larger transaction is in a scratch file in the database's folder, as
//! SQLite's own VFS has it in files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pm::ScratchFile;

use crate::store::error::{Result, StoreError};
use crate::store::layout::GRANULE;
use crate::store::room;

/// The unit of staging.
pub(crate) type Granule = Box<[u8; GRANULE as usize]>;
/// The most buffers that are kept for the next transaction.
const MOST_SPARE: usize = 64;
/// The most granules in memory, if there is a folder for the others.
const MOST_IN_MEMORY: usize = 256;
/// The granules from which on a transaction is streamed ([`crate::store::stream`]).
const STREAMED_FROM: usize = MOST_IN_MEMORY;
/// What a node of a map may take.
const NODE_BYTES: usize = 4096;

/// The place of a granule.
#[derive(Debug)]
enum Place {
    Memory(Granule),
    /// Its number in the scratch file.
    Scratch(u64),
}

/// Written granules by number, and the database's size if it has changed.
#[derive(Debug)]
pub(crate) struct Stage {
    granules: BTreeMap<u64, Place>,
    size: Option<u64>,
    /// Committed bytes from this offset on have been truncated.
    floor: u64,
    /// SQLite wrote a page 1 in WAL mode, which is staged in rollback mode.
    refuses_wal: bool,
    spare: Vec<Granule>,
    in_memory: usize,
    scratch: Scratch,
    streamed_from: usize,
}

/// The granules that are not in memory.
#[derive(Debug, Default)]
struct Scratch {
    folder: Option<PathBuf>,
    file: Option<ScratchFile>,
    granules: u64,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            granules: BTreeMap::new(),
            size: None,
            floor: u64::MAX,
            refuses_wal: false,
            spare: Vec::new(),
            in_memory: 0,
            scratch: Scratch::default(),
            streamed_from: STREAMED_FROM,
        }
    }
}

impl Stage {
    /// Sets the folder for what is not kept in memory. Without one, everything is.
    pub(crate) fn set_scratch_folder(&mut self, folder: &Path) {
        self.scratch.folder = Some(folder.to_owned());
    }

    /// Sets the granules from which on a transaction is streamed.
    pub(crate) fn set_streamed_from(&mut self, granules: usize) {
        self.streamed_from = granules;
    }

    /// Returns whether the transaction is committed page by page.
    pub(crate) fn is_streamed(&self) -> bool {
        self.granules.len() > self.streamed_from
    }

    /// The database's size, if it has changed.
    #[inline]
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Stages another size, which truncates nothing.
    pub(crate) fn extend(&mut self, to: u64) {
        self.size = Some(to);
    }

    /// The offset from which on committed bytes have been truncated.
    #[inline]
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Notes that SQLite wrote a page 1 in WAL mode, which is staged in rollback mode.
    pub(crate) fn refuse_wal(&mut self) {
        self.refuses_wal = true;
    }

    /// Returns whether SQLite wrote such a page 1.
    pub(crate) fn refuses_wal(&self) -> bool {
        self.refuses_wal
    }

    /// Returns whether nothing is staged.
    pub(crate) fn is_empty(&self) -> bool {
        self.granules.is_empty() && self.size.is_none()
    }

    /// Returns whether a database of `size` bytes stays as it is.
    pub(crate) fn changes_nothing(&self, size: u64) -> bool {
        self.granules.is_empty() && self.size.unwrap_or(size) == size && self.floor >= size
    }

    /// The number of granules.
    pub(crate) fn granules(&self) -> usize {
        self.granules.len()
    }

    /// The numbers of all granules, ascending, in a vector.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn numbers(&self) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        numbers.try_reserve_exact(self.granules.len()).map_err(|_| StoreError::Memory)?;
        numbers.extend(self.granules.keys());
        Ok(numbers)
    }

    /// The numbers of all granules, ascending.
    pub(crate) fn each_number(&self) -> impl Iterator<Item = u64> {
        self.granules.keys().copied()
    }

    /// Returns whether a granule is staged.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.granules.contains_key(&number)
    }

    /// Returns whether any granule of a range is staged.
    pub(crate) fn has_any(&self, numbers: std::ops::Range<u64>) -> bool {
        self.granules.range(numbers).next().is_some()
    }

    /// A staged granule that is in memory.
    pub(crate) fn in_memory(&self, number: u64) -> Option<&Granule> {
        match self.granules.get(&number) {
            Some(Place::Memory(granule)) => Some(granule),
            _ => None,
        }
    }

    /// Copies bytes of a granule, from `within` on, if it is staged; returns whether it is.
    ///
    /// # Errors
    /// The scratch file cannot be read.
    pub(crate) fn read(&self, number: u64, within: usize, out: &mut [u8]) -> Result<bool> {
        match self.granules.get(&number) {
            None => return Ok(false),
            Some(Place::Memory(granule)) => {
                out.copy_from_slice(&granule[within..within + out.len()]);
            }
            Some(Place::Scratch(place)) => self.scratch.read(*place, within, out)?,
        }
        Ok(true)
    }

    /// Stages a new granule.
    ///
    /// # Errors
    /// There is no memory, or no room, for it.
    pub(crate) fn put(&mut self, number: u64, granule: Granule) -> Result<()> {
        room::ensure(NODE_BYTES)?;
        let place = if self.in_memory < MOST_IN_MEMORY || self.scratch.folder.is_none() {
            self.in_memory += 1;
            Place::Memory(granule)
        } else {
            let place = self.scratch.add(&granule)?;
            self.keep(granule);
            Place::Scratch(place)
        };
        self.granules.insert(number, place);
        Ok(())
    }

    /// Changes a granule that is staged.
    ///
    /// # Errors
    /// The scratch file fails.
    pub(crate) fn change(&mut self, number: u64, change: impl FnOnce(&mut Granule)) -> Result<()> {
        match self.granules.get_mut(&number).expect("it is staged") {
            Place::Memory(granule) => change(granule),
            Place::Scratch(place) => {
                let place = *place;
                let mut granule = self.buffer()?;
                self.scratch.read(place, 0, &mut granule[..])?;
                change(&mut granule);
                self.scratch.write(place, &granule)?;
                self.keep(granule);
            }
        }
        Ok(())
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        while let Some((_, place)) = self.granules.pop_first() {
            if let Place::Memory(granule) = place {
                self.keep(granule);
            }
        }
        self.in_memory = 0;
        (self.scratch.file, self.scratch.granules) = (None, 0);
        (self.size, self.floor, self.refuses_wal) = (None, u64::MAX, false);
    }

    /// Keeps a buffer for later.
    fn keep(&mut self, granule: Granule) {
        if self.spare.len() < self.spare.capacity().min(MOST_SPARE) {
            self.spare.push(granule);
        }
    }

    /// A buffer with any bytes, perhaps a kept one.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn buffer(&mut self) -> Result<Granule> {
        if let Some(spare) = self.spare.pop() {
            return Ok(spare);
        }
        self.spare.try_reserve_exact(MOST_SPARE).map_err(|_| StoreError::Memory)?;
        zeroed()
    }

    /// Truncates the staged bytes at `to`.
    ///
    /// # Errors
    /// The scratch file fails.
    pub(crate) fn cut(&mut self, to: u64) -> Result<()> {
        let within = (to % GRANULE) as usize;
        if within > 0 && self.has(to / GRANULE) {
            self.change(to / GRANULE, |granule| granule[within..].fill(0))?;
        }
        room::ensure(NODE_BYTES)?;
        let gone = self.granules.split_off(&to.div_ceil(GRANULE));
        self.in_memory -= gone.values().filter(|place| matches!(place, Place::Memory(_))).count();
        (self.size, self.floor) = (Some(to), self.floor.min(to));
        Ok(())
    }
}

/// A zeroed granule. There is room for a node that it may need in a map.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn zeroed() -> Result<Granule> {
    room::ensure(GRANULE as usize + NODE_BYTES)?;
    Ok(Box::new([0; GRANULE as usize]))
}

impl Scratch {
    /// Appends a granule; returns its place.
    fn add(&mut self, granule: &Granule) -> Result<u64> {
        if let (None, Some(folder)) = (&self.file, &self.folder) {
            self.file = Some(ScratchFile::create(folder)?);
        }
        let place = self.granules;
        self.write(place, granule)?;
        self.granules += 1;
        Ok(place)
    }

    fn file(&self) -> &ScratchFile {
        self.file.as_ref().expect("it has granules")
    }

    fn write(&self, place: u64, granule: &Granule) -> Result<()> {
        Ok(self.file().write(place * GRANULE, &granule[..])?)
    }

    fn read(&self, place: u64, within: usize, out: &mut [u8]) -> Result<()> {
        Ok(self.file().read(place * GRANULE + within as u64, out)?)
    }
}
