//! Private pages that stand for a pool: durable to the layers above, and gone with the process.

use std::io;

use pm::{Dram, GrowError, Memory, Range, grown, page_bytes};

use crate::delegate::{reads_of, stores_of};

/// A plain memory that says it is durable, and grows as a pool does, so that whatever lies in it
/// lies at the same offsets as in a pool. Flush and fence do nothing. Clones share it.
#[derive(Clone, Debug)]
pub struct Arena {
    inner: Dram,
}

impl Arena {
    /// A memory of `bytes` bytes that can grow to `limit`.
    ///
    /// # Errors
    /// The kernel has no room for the reservation.
    pub fn new(bytes: u64, limit: u64) -> io::Result<Self> {
        let limit = limit.next_multiple_of(page_bytes());
        let inner = Dram::new(limit)?;
        let first = bytes.next_multiple_of(page_bytes()).min(limit);
        inner.grow(first).map_err(io::Error::other)?;
        Ok(Self { inner })
    }

    pub(super) fn addresses(&self) -> std::ops::Range<usize> {
        self.inner.addresses()
    }
}

impl Memory for Arena {
    const DURABLE: bool = true;
    type View<'a> = <Dram as Memory>::View<'a>;

    reads_of!(self => self.inner);
    stores_of!(self => self.inner);

    fn grow(&self, to: u64) -> Result<(), GrowError> {
        let (from, limit) = (self.len(), self.len() + self.headroom());
        if to <= from {
            return Ok(());
        }
        if to > limit {
            return Err(GrowError::Limit { limit });
        }
        self.inner.grow(grown(from, to, limit, page_bytes()))
    }

    fn headroom(&self) -> u64 {
        self.inner.headroom()
    }

    #[inline]
    fn flush(&self, _: Range) {}

    #[inline]
    fn fence(&self) {}
}
