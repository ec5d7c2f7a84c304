//! Refreshing the view of other connections' commits: when a connection locks, and without a lock for SQLite's
//! first look at the header.

use std::sync::atomic::{Ordering, fence};

use pm::Memory;

use crate::store::connection::Store;
use crate::store::error::{Result, StoreError};
use crate::store::page1;

/// Tries of reading a marker with a matching tag.
const MARKER_TRIES: usize = 16;

impl<M: Memory> Store<M> {
    /// Refreshes the view. `file_bytes` returns the file's length. The file grows before a commit says so, so it is
    /// asked after the commit's size was read. Returns false if a commit was interrupted: then call
    /// [`Self::recover`].
    ///
    /// # Errors
    /// The medium fails.
    pub fn refresh<E: From<StoreError>>(
        &mut self,
        file_bytes: impl FnMut() -> std::result::Result<u64, E>,
    ) -> std::result::Result<bool, E> {
        self.refresh_with(file_bytes, false)
    }

    /// The same under a lock, without asking for the file's length if nothing has been committed since it was known. This
    /// does not notice that something else has truncated the file.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub fn refresh_words<E: From<StoreError>>(
        &mut self,
        file_bytes: impl FnMut() -> std::result::Result<u64, E>,
    ) -> std::result::Result<bool, E> {
        self.refresh_with(file_bytes, true)
    }

    fn refresh_with<E: From<StoreError>>(
        &mut self,
        mut file_bytes: impl FnMut() -> std::result::Result<u64, E>,
        trusts_length: bool,
    ) -> std::result::Result<bool, E> {
        let mut before = None;
        loop {
            let (whole, found) = self.refresh_once(&mut file_bytes, trusts_length)?;
            if !whole || !self.view.is_marked() || self.view.size() <= found {
                return Ok(whole);
            }
            // Without a lock, the size may be from before a commit, and the file already cut to a smaller one.
            let (cleared, wanted) = (self.view.cleared(), self.view.size());
            let seen = (cleared, self.side.progress().map_err(E::from)?, wanted, found);
            if before.replace(seen) == Some(seen) {
                return Err(StoreError::Cut { found, wanted }.into());
            }
            self.view.distrust();
        }
    }

    /// Returns whether a commit has begun and is not applied. The caller holds a lock and does not commit, so that
    /// commit was abandoned.
    ///
    /// # Errors
    /// The medium fails.
    pub fn is_half_way(&self) -> Result<bool> {
        if !self.view.is_marked() {
            return Ok(false);
        }
        let (begun, applied) = self.side.progress()?;
        Ok(begun != applied)
    }

    /// The same without a lock: a refresh while the marker is being cleared does not count for the next lock.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub fn refresh_unlocked<E: From<StoreError>>(
        &mut self,
        file_bytes: impl FnMut() -> std::result::Result<u64, E>,
    ) -> std::result::Result<bool, E> {
        let cleared = self.view.cleared();
        let whole = self.refresh_with(file_bytes, false);
        if self.view.cleared() != cleared {
            self.view.distrust();
        }
        // The next lock asks again: a file that a failed commit has made longer may be cut without a notice.
        self.view.forget_length();
        whole
    }

    /// Returns whether the file has the marker.
    ///
    /// # Errors
    /// The medium fails, or the marker is another side file's: the name of this one was removed.
    pub(super) fn finds_marker(&self, bytes: u64) -> Result<bool> {
        for _ in 0..MARKER_TRIES {
            if !page1::is_marked(&page1::header(&self.data, bytes)?) {
                return Ok(false);
            }
            // The tag is stored before the marker, and has to be read after it.
            fence(Ordering::Acquire);
            if page1::tag(&self.data)? == self.side.tag() {
                return Ok(true);
            }
            // A connection that shares with stock SQLite may have cleared both, and set them again.
        }
        Err(StoreError::SideMismatch)
    }

    /// Refreshes once. Also returns the file's length.
    fn refresh_once<E: From<StoreError>>(
        &mut self,
        file_bytes: &mut impl FnMut() -> std::result::Result<u64, E>,
        trusts_length: bool,
    ) -> std::result::Result<(bool, u64), E> {
        self.healthy()?;
        let cleared = self.side.cleared()?;
        if self.view.cleared() != Some(cleared) {
            // Stock SQLite may have changed anything since.
            self.view.forget(cleared);
            self.cache.clear(self.side.log_state()?.1);
            self.side.read_table_size()?;
        }
        if !self.view.is_marked() {
            let found = file_bytes()?;
            let marked = self.finds_marker(found)?;
            self.view.set_marked(marked);
            self.view.set_size(page1::plain_size(&self.data, found)?);
            if !marked {
                return Ok((true, found));
            }
        }
        let (begun, applied) = self.side.progress().map_err(E::from)?;
        self.side.read_table_size()?;
        self.view.set_size(self.side.size()?);
        // Nothing has been committed since the length was known. A connection that cuts the file says so before, by the
        // number of times that the marker was cleared.
        let known = self.data.len();
        let is_same = begun == applied
            && self.view.knows_length_at(applied)
            && self.side.log_state()? == self.cache.state();
        if trusts_length && is_same && self.view.size() <= known {
            return Ok((true, known));
        }
        let found = file_bytes()?;
        self.view.note_length_at(applied);
        Ok((begun == applied, found))
    }
}
