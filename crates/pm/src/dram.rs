//! Volatile memory.

use std::io;
use std::sync::Arc;

use crate::delegate::as_mapping;
use crate::error::{Bad, GrowError};
use crate::mapping::{Mapping, NativeView};
use crate::memory::{Memory, View as _};
use crate::offset::{LINE_BYTES, Line, Off, Range};

/// The size of the part with small pages, at the front: a use that needs no more should not have to
/// wait until a huge one is zeroed.
const SMALL_BYTES: u64 = 16 << 20;
/// A page that has not been written to.
static ZEROS: [u8; 4096] = [0; 4096];

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

    /// Takes all but the first `to` bytes away; they are zero if the memory grows again.
    ///
    /// # Panics
    /// It has fewer.
    pub fn shrink(&self, to: u64) {
        let from = self.len();
        assert!(to <= from, "a memory shrinks to a part of it");
        for at in (to..from).step_by(ZEROS.len()) {
            let part = &ZEROS[..ZEROS.len().min((from - at) as usize)];
            self.copy_changed(at, part);
        }
        self.0.set_len(to);
    }

    /// Makes the bytes from `at` on these, and writes to a page only where they differ: a page that has
    /// never been written to is zero, and costs nothing until then.
    ///
    /// # Panics
    /// They do not lie within the memory.
    pub fn copy_changed(&self, at: u64, bytes: &[u8]) {
        for (at, part) in (at..).step_by(ZEROS.len()).zip(bytes.chunks(ZEROS.len())) {
            let view = self.0.view(Range::new(at, part.len() as u64)).expect("within the memory");
            if !view.bytes(0, part.len()).equal(part) {
                self.0.copy(Off::new(at), part);
            }
        }
    }

    /// The addresses that are reserved for the memory in this process.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        self.0.addresses()
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

    as_mapping!(self => self.0);

    #[inline]
    fn flush(&self, _: Range) {}

    #[inline]
    fn fence(&self) {}

    fn has_store_line(&self) -> bool {
        true
    }

    fn store_line(&self, line: Line, bytes: &[u8; LINE_BYTES as usize]) {
        self.0.copy_line(line, bytes);
    }
}
