//! Bytes that SQLite has written and not committed.

use std::collections::BTreeMap;

use crate::store::layout::GRANULE;

/// The unit of staging.
pub(crate) type Granule = Box<[u8; GRANULE as usize]>;
/// The most buffers that are kept for the next transaction.
const MOST_SPARE: usize = 64;

/// Written granules by number, and the database's size if it has changed.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) granules: BTreeMap<u64, Granule>,
    pub(crate) size: Option<u64>,
    /// Committed bytes from this offset on have been truncated.
    pub(crate) floor: u64,
    /// SQLite wrote a page 1 in WAL mode, which is staged in rollback mode.
    pub(crate) refuses_wal: bool,
    spare: Vec<Granule>,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            granules: BTreeMap::new(),
            size: None,
            floor: u64::MAX,
            refuses_wal: false,
            spare: Vec::new(),
        }
    }
}

impl Stage {
    /// Returns whether nothing is staged.
    pub(crate) fn is_empty(&self) -> bool {
        self.granules.is_empty() && self.size.is_none()
    }

    /// Returns whether a database of `size` bytes stays as it is.
    pub(crate) fn changes_nothing(&self, size: u64) -> bool {
        self.granules.is_empty() && self.size.unwrap_or(size) == size && self.floor >= size
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        while let Some((_, granule)) = self.granules.pop_first() {
            if self.spare.len() < MOST_SPARE {
                self.spare.push(granule);
            }
        }
        (self.size, self.floor, self.refuses_wal) = (None, u64::MAX, false);
    }

    /// A zeroed buffer; `None` if there is no memory.
    pub(crate) fn buffer(&mut self) -> Option<Granule> {
        if let Some(mut spare) = self.spare.pop() {
            spare.fill(0);
            return Some(spare);
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(GRANULE as usize).ok()?;
        bytes.resize(GRANULE as usize, 0);
        bytes.into_boxed_slice().try_into().ok()
    }

    /// Truncates the staged bytes at `to`.
    pub(crate) fn cut(&mut self, to: u64) {
        drop(self.granules.split_off(&to.div_ceil(GRANULE)));
        let within = (to % GRANULE) as usize;
        if let Some(last) = self.granules.get_mut(&(to / GRANULE)) {
            last[within..].fill(0);
        }
        (self.size, self.floor) = (Some(to), self.floor.min(to));
    }
}
