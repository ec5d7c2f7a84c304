//! Looking at what others have committed: whoever locks does, and SQLite at the header before it locks.

use pm::Memory;

use crate::store::connection::Store;
use crate::store::error::{Result, StoreError};
use crate::store::page1;

impl<M: Memory> Store<M> {
    /// Looks at what others have committed. `file_bytes` says how long the file is: it grows before a commit says so, so
    /// it is asked behind what may be committed meanwhile. Returns false if somebody died at a commit: then
    /// [`Self::recover`] is to be called.
    ///
    /// # Errors
    /// The medium fails.
    pub fn refresh<E: From<StoreError>>(
        &mut self,
        mut file_bytes: impl FnMut() -> std::result::Result<u64, E>,
    ) -> std::result::Result<bool, E> {
        let mut before = None;
        loop {
            let (whole, found) = self.refresh_once(&mut file_bytes)?;
            if !whole || !self.marked || self.size <= found {
                return Ok(whole);
            }
            // Who has no lock may have seen the size before a commit, and the file behind it, cut to a smaller one.
            let seen = (self.cleared, self.side.progress().map_err(E::from)?, self.size, found);
            if before.replace(seen) == Some(seen) {
                return Err(StoreError::Cut { found, wanted: self.size }.into());
            }
            self.cleared = None;
        }
    }

    /// Returns whether a commit was begun and is not in its place. The caller has a lock, and commits nothing: it was given
    /// up in the middle.
    ///
    /// # Errors
    /// The medium fails.
    pub fn is_half_way(&self) -> Result<bool> {
        if !self.marked {
            return Ok(false);
        }
        let (begun, applied) = self.side.progress()?;
        Ok(begun != applied)
    }

    /// The same without a lock: what it finds while somebody clears the marker does not count for who locks next.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub fn refresh_unlocked<E: From<StoreError>>(
        &mut self,
        file_bytes: impl FnMut() -> std::result::Result<u64, E>,
    ) -> std::result::Result<bool, E> {
        let cleared = self.cleared;
        let whole = self.refresh(file_bytes);
        if self.cleared != cleared {
            self.cleared = None;
        }
        whole
    }

    /// Looks once. Also returns how long the file is.
    fn refresh_once<E: From<StoreError>>(
        &mut self,
        file_bytes: &mut impl FnMut() -> std::result::Result<u64, E>,
    ) -> std::result::Result<(bool, u64), E> {
        self.healthy()?;
        let cleared = Some(self.side.cleared()?);
        if cleared != self.cleared {
            // Stock SQLite may have changed all of it since.
            (self.cleared, self.marked, self.marker_is_durable) = (cleared, false, false);
            self.cache.clear(self.side.log_state()?.1);
            self.side.read_table_size()?;
        }
        if !self.marked {
            let found = file_bytes()?;
            self.marked = page1::is_marked(&page1::header(&self.data, found)?);
            self.size = page1::plain_size(&self.data, found)?;
            if !self.marked {
                return Ok((true, found));
            }
        }
        let (begun, applied) = self.side.progress().map_err(E::from)?;
        self.side.read_table_size()?;
        self.size = self.side.size()?;
        Ok((begun == applied, file_bytes()?))
    }
}
