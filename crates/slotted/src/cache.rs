//! Pages in ordinary memory: copies of those in persistent memory, made when they are first used,
//! and kept. A page that was changed is newer here; the log has what differs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use heap::HeapError;
use pm::{Bad, Dram, GrowError, Memory, Off, Range, View};

use crate::Result;

/// The part of the addresses that are left which a cache takes at most, as a number of such parts:
/// a database may have several partitions.
const SHARES: u64 = 2;

/// A page cache over a memory.
#[derive(Debug)]
pub struct Cache<M> {
    memory: M,
    pages: Dram,
    page_bytes: u64,
    /// The place of each page's copy.
    places: Mutex<HashMap<u64, u64>>,
}

impl<M: Memory> Cache<M> {
    /// An empty cache, which can hold as many pages as the memory can.
    ///
    /// # Errors
    /// The process can have no more addresses.
    pub fn new(memory: M, page_bytes: u32) -> Result<Self> {
        // If the addresses of the process are limited, the copies take a share of them.
        let limit = pm::share_of_addresses(memory.len() + memory.headroom(), SHARES);
        let full = |source| HeapError::Full(GrowError::Medium { wanted: limit, source });
        let pages = Dram::new(limit).map_err(full)?;
        let page_bytes = u64::from(page_bytes);
        Ok(Self { memory, pages, page_bytes, places: Mutex::default() })
    }

    /// The memory of the copies.
    pub fn pages(&self) -> &Dram {
        &self.pages
    }

    /// Returns where the copy of a page lies, which is made if there is none.
    ///
    /// # Errors
    /// There is no room for it, or the page does not lie in the memory.
    pub fn place(&self, page: u64) -> Result<u64> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(&page) {
            return Ok(*place);
        }
        let bytes = self.page_bytes as usize;
        let view = self.memory.view(Range::new(page, self.page_bytes))?;
        let place = places.len() as u64 * self.page_bytes;
        if place + self.page_bytes > self.pages.len() {
            let wanted = (2 * place).max(64 * self.page_bytes);
            let most = self.pages.len() + self.pages.headroom();
            // With all addresses that it wants, the cache has room for all pages of the memory.
            let full = |error| match error {
                GrowError::Limit { .. } => GrowError::Addresses { wanted: self.memory.len() },
                other => other,
            };
            self.pages
                .grow(wanted.min(most).max(place + self.page_bytes))
                .map_err(|error| HeapError::Full(full(error)))?;
        }
        self.pages.copy(Off::new(place), &view.bytes(0, bytes).to_vec());
        places.insert(page, place);
        Ok(place)
    }

    /// Puts bytes into a page's copy.
    ///
    /// # Errors
    /// As [`Self::place`].
    pub fn put(&self, page: u64, at: usize, bytes: &[u8]) -> Result<()> {
        self.pages.copy(Off::new(self.place(page)? + at as u64), bytes);
        Ok(())
    }

    /// The bytes of a page's copy.
    ///
    /// # Errors
    /// As [`Self::place`].
    pub fn read(&self, page: u64, at: usize, len: usize) -> Result<Vec<u8>> {
        if at + len > self.page_bytes as usize {
            return Err(Bad::Damaged { what: "run of a page", at: page }.into());
        }
        let mut bytes = vec![0; len];
        self.pages.read_into(Off::new(self.place(page)? + at as u64), &mut bytes)?;
        Ok(bytes)
    }
}
