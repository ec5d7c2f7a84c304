//! Restoring the layout: all pages return to their own frames, so that the file is plain.
//!
//! The pages that are in other frames return first (`store::adr::return_pages`).

use pm::Memory;

use crate::store::connection::Store;
use crate::store::error::{Result, StoreError};
use crate::store::frame_map::Table;
use crate::store::last_commit::Lines;
use crate::store::layout::HEADER_BYTES;
use crate::store::page1;

impl<M: Memory> Store<M> {
    /// Returns all pages to their own frames, and checkpoints that. No page is displaced then, not even one past
    /// the database's end, so the file may be cut. The caller has exclusive access.
    ///
    /// # Errors
    /// The medium fails: the next connection continues.
    pub fn restore_layout(&mut self) -> Result<()> {
        if self.is_prepared() {
            return Err(StoreError::Prepared);
        }
        if !self.can_restore_layout() {
            return Err(StoreError::PagesInUse);
        }
        self.load_last_commit()?;
        self.side.set_begun(self.last.next());
        self.change_page_size(self.side.table().page_bytes)?;
        self.side.set_begun(self.last.number());
        Ok(())
    }

    /// Returns whether no fetched page can be displaced.
    pub fn can_restore_layout(&self) -> bool {
        !self.view.is_fetched() || self.side.table().entries == 0
    }

    /// Announces that the file will be truncated: other connections ask for its length again. The caller has exclusive
    /// access.
    ///
    /// # Errors
    /// The medium fails.
    pub fn announce_cut(&mut self) -> Result<()> {
        let cleared = self.side.cleared()?.wrapping_add(1);
        self.side.set_cleared(cleared);
        self.view.note_cut(cleared);
        Ok(())
    }

    /// Clears the marker of a checkpointed database whose file has its size: the file is plain. The caller has
    /// exclusive access, and no connection opens the database meanwhile.
    ///
    /// # Errors
    /// The medium fails.
    pub fn make_plain(&mut self) -> Result<()> {
        // Stored first: a connection that finds it does not trust a marker that it saw.
        self.announce_cut()?;
        if self.view.size() >= HEADER_BYTES {
            let mut lines = Lines::default();
            page1::clear_marker(&self.data, &mut lines.data)?;
            self.fence(&mut lines);
            page1::clear_tag(&self.data, &mut lines.data);
            self.fence(&mut lines);
        }
        self.view.note_plain();
        self.healthy()
    }

    /// Puts all pages into their own frames, of so many bytes from now on.
    pub(super) fn change_page_size(&mut self, page_bytes: u32) -> Result<()> {
        self.checkpoint_frames()?;
        self.move_pages_back()?;
        self.checkpoint_slots()?;
        let mut lines = Lines::default();
        self.side.set_table(Table { entries: 0, page_bytes }, &mut lines.side);
        self.fence(&mut lines);
        self.healthy()
    }
}
