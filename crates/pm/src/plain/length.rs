//! The length of the file of a [`Plain`], which others may change, and the addresses that are mapped for it.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::{Plain, other};
use crate::error::Bad;
use crate::limits::page_bytes;
use crate::offset::Range;
use crate::space::reserve_space;

/// Bytes that are mapped ahead of a file that grows by writing to it, at least and at most.
const AHEAD: (u64, u64) = (1 << 20, 64 << 20);

impl Plain {
    /// Looks at how long others have made the file, and makes all of it usable.
    ///
    /// # Errors
    /// The kernel cannot map it, or there are no addresses left.
    pub fn see(&self) -> io::Result<()> {
        let shared = &*self.0;
        let _one = shared.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = shared.file.get().metadata()?.len();
        self.map_up_to(bytes)?;
        shared.bytes.store(bytes, Ordering::Release);
        Ok(())
    }

    /// The same for a file that others make longer and longer: addresses after its end are mapped ahead, so that not every
    /// look maps again. They may not be touched.
    ///
    /// # Errors
    /// As [`Self::see`].
    pub fn see_growing(&self) -> io::Result<()> {
        let shared = &*self.0;
        let _one = shared.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = shared.file.get().metadata()?.len();
        self.map_ahead_of(bytes)?;
        shared.bytes.store(bytes, Ordering::Release);
        Ok(())
    }

    /// Maps up to `end`, and some addresses more if there are some.
    fn map_ahead_of(&self, end: u64) -> io::Result<()> {
        let (reserved, mapped) = (self.0.mapping.reserved(), self.0.mapping.len());
        if end <= mapped {
            return Ok(());
        }
        let most = reserved / page_bytes() * page_bytes();
        let ahead = mapped.saturating_add((mapped / 4).clamp(AHEAD.0, AHEAD.1)).min(most);
        if ahead > end && self.map_up_to(ahead).is_ok() {
            return Ok(());
        }
        self.map_up_to(end)
    }

    /// Maps all whole pages up to `end`. The file's length stays as it was last seen.
    pub(super) fn map_up_to(&self, end: u64) -> io::Result<()> {
        let shared = &*self.0;
        let (from, to) = (shared.mapping.len(), end.next_multiple_of(page_bytes()));
        if to <= from {
            return Ok(());
        }
        if to > shared.mapping.reserved() {
            return Err(other("no addresses are left for the file; open it again".into()));
        }
        shared.mapping.map_file(shared.file.get(), Range::new(from, to - from), shared.sharing)?;
        if !shared.health.has_grown(to) {
            return Err(io::Error::other(Bad::Poisoned));
        }
        shared.mapping.set_len(to);
        Ok(())
    }

    /// Writes bytes by a call of the kernel. A shorter file ends with them afterwards, by the byte: the way to grow where
    /// the length has a meaning. Space is reserved for what lies between the old end and `at`. If the medium has no
    /// room, that is an error here. The length is not made durable.
    ///
    /// Addresses after the end are mapped ahead, so that not every such call maps again. They may not be touched.
    ///
    /// # Errors
    /// The kernel cannot write or map, or there are no addresses left.
    pub fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let shared = &*self.0;
        let _one = shared.growing.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.health.is_poisoned() {
            return Err(io::Error::other(Bad::Poisoned));
        }
        let end = at + bytes.len() as u64;
        self.map_ahead_of(end)?;
        let file = shared.file.get();
        if at > shared.bytes.load(Ordering::Relaxed) {
            // Stores through the mapping may follow there, and a full medium must not fail under them.
            let length = file.metadata()?.len();
            reserve_space(file, length, at.saturating_sub(length))?;
        }
        file.write_all_at(bytes, at)?;
        shared.bytes.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }

    /// Cuts the file, or lets it end with zeros. The mapping stays; what is after the end may not be
    /// touched.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cut(&self, to: u64) -> io::Result<()> {
        self.0.file.get().set_len(to)?;
        self.see()
    }
}
