//! Volatile memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Bad, GrowError};
use crate::mapping::{Mapping, NativeView};
use crate::memory::{Memory, Pod};
use crate::offset::{LINE_BYTES, Line, Off, Range};

/// The size of the part with small pages, at the front: whoever needs no more should not have to
/// wait until a huge one is zeroed.
const SMALL_BYTES: u64 = 16 << 20;

/// Anonymous pages that are gone when the process is. Flush and fence do nothing.
#[derive(Clone, Debug)]
pub struct Dram(Arc<Mapping>);

impl Dram {
    /// A memory that can grow to `limit` bytes. Only pages that are touched cost anything.
    ///
    /// # Errors
    /// The kernel has no room for the reservation.
    pub fn new(limit: u64) -> io::Result<Self> {
        let mapping = Mapping::reserve(limit)?;
        mapping.prefer_huge_pages(SMALL_BYTES);
        Ok(Self(Arc::new(mapping)))
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.0
    }
}

impl Memory for Dram {
    const DURABLE: bool = false;
    type View<'a> = NativeView<'a>;

    #[inline]
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn grow(&self, to: u64) -> Result<(), GrowError> {
        if to > self.0.reserved() {
            return Err(GrowError::Limit { limit: self.0.reserved() });
        }
        if to > self.0.len() {
            self.0.extend(to).map_err(|source| GrowError::Medium { wanted: to, source })?;
        }
        Ok(())
    }

    fn headroom(&self) -> u64 {
        self.0.reserved().saturating_sub(self.0.len())
    }

    #[inline]
    fn healthy(&self) -> Result<(), Bad> {
        Ok(())
    }

    #[inline]
    fn read<T: Pod>(&self, at: Off<T>) -> Result<T, Bad> {
        self.0.read(at)
    }

    #[inline]
    fn read_into(&self, at: Off<u8>, out: &mut [u8]) -> Result<(), Bad> {
        self.0.read_into(at, out)
    }

    #[inline]
    fn view(&self, at: Range) -> Result<NativeView<'_>, Bad> {
        self.0.view(at)
    }

    #[inline]
    fn gather(&self, parts: &[Range], out: &mut [u8]) -> Result<(), Bad> {
        self.0.gather(parts, out)
    }

    #[inline]
    fn load(&self, at: Off<u64>, order: Ordering) -> Result<u64, Bad> {
        self.0.load(at, order)
    }

    #[inline]
    fn store(&self, at: Off<u64>, value: u64) {
        self.0.store(at, value);
    }

    #[inline]
    fn cas(&self, at: Off<u64>, old: u64, new: u64) -> Result<u64, u64> {
        self.0.cas(at, old, new)
    }

    #[inline]
    fn copy(&self, at: Off<u8>, src: &[u8]) {
        self.0.copy(at, src);
    }

    #[inline]
    fn flush(&self, _: Range) {}

    #[inline]
    fn fence(&self) {}

    #[inline]
    fn prefetch(&self, at: Range) {
        self.0.prefetch(at);
    }

    fn has_store_line(&self) -> bool {
        true
    }

    fn store_line(&self, line: Line, bytes: &[u8; LINE_BYTES as usize]) {
        self.0.copy_line(line, bytes);
    }
}
