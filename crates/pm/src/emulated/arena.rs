//! Private pages that stand for a pool: durable to whoever is above, and gone with the process.

use std::io;
use std::sync::Arc;

use crate::delegate::as_mapping;
use crate::error::{Bad, GrowError};
use crate::limits::page_bytes;
use crate::mapping::{Mapping, NativeView};
use crate::memory::Memory;
use crate::offset::{LINE_BYTES, Line, Range};
use crate::pool::grown;

/// A plain memory that says it is durable, and grows as a pool does, so that whatever lies in it
/// lies at the same offsets as in a pool. Flush and fence do nothing. Clones share it.
#[derive(Clone, Debug)]
pub struct Arena(Arc<Mapping>);

impl Arena {
    /// A memory of `bytes` bytes that can grow to `limit`.
    ///
    /// # Errors
    /// The kernel has no room for the reservation.
    pub fn new(bytes: u64, limit: u64) -> io::Result<Self> {
        let mapping = Mapping::reserve(limit.next_multiple_of(page_bytes()))?;
        mapping.extend(bytes.next_multiple_of(page_bytes()).min(mapping.reserved()))?;
        Ok(Self(Arc::new(mapping)))
    }

    pub(super) fn mapping(&self) -> &Mapping {
        &self.0
    }
}

impl Memory for Arena {
    const DURABLE: bool = true;
    type View<'a> = NativeView<'a>;

    #[inline]
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn grow(&self, to: u64) -> Result<(), GrowError> {
        let (from, limit) = (self.0.len(), self.0.reserved());
        if to <= from {
            return Ok(());
        }
        if to > limit {
            return Err(GrowError::Limit { limit });
        }
        let to = grown(from, to, limit, page_bytes());
        self.0.extend(to).map_err(|source| GrowError::Medium { wanted: to, source })
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
