//! Savepoints: places in the open transaction to which it can be taken back.
//!
//! Making one copies nothing. The first later change of a page's draft sets the draft aside as it
//! was. From then on the records of that draft, too, are bytes that do not change, and a page that
//! the transaction had allocated before is not used for anything else.

use pm::Memory;

use crate::Result;
use crate::error::SlottedError;
use crate::scheme::Scheme;
use crate::store::Store;
use crate::work::{Mark, Savepoint};

impl<M: Memory, S: Scheme<M>> Store<M, S> {
    /// Marks this place in the open transaction. It is good until the transaction ends.
    ///
    /// # Errors
    /// An operation has failed halfway.
    pub fn savepoint(&mut self) -> Result<Savepoint> {
        self.usable()?;
        let name = Savepoint(self.next_savepoint);
        self.next_savepoint += 1;
        let mark = self.work.mark(name);
        self.work.marks.push(mark);
        Ok(name)
    }

    /// Undoes what the transaction has done since this savepoint, which stays valid; later ones are
    /// void. An operation after it that failed halfway is undone, too.
    ///
    /// # Errors
    /// [`SlottedError::NoSavepoint`]: it is void, or of another transaction; nothing is undone.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.position(savepoint)?;
        while let Some(mark) = self.work.undo() {
            if mark.name != savepoint {
                continue;
            }
            let work = &mut self.work;
            work.freed.truncate(mark.freed);
            work.written.truncate(mark.written);
            work.forget_lines(mark.lines);
            work.master.clone_from(&mark.master);
            work.spare.clone_from(&mark.spare);
            work.failed = false;
            work.recount_room();
            // Lines that were twice in the set may now be there once.
            work.marks.push(Mark { lines: work.lines.len(), ..mark });
            break;
        }
        Ok(())
    }

    /// Gives a savepoint and all later ones up: what was done since stays. Without savepoints a
    /// transaction uses the space of records that it has itself put and deleted once more.
    ///
    /// # Errors
    /// [`SlottedError::NoSavepoint`]: it is void, or of another transaction.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        let at = self.position(savepoint)?;
        let work = &mut self.work;
        let released = work.marks.split_off(at);
        let Some(older) = work.marks.last_mut() else {
            for page in released.iter().flat_map(|mark| mark.drafts.keys()) {
                if let Some(draft) = work.drafts.get_mut(page) {
                    draft.keep_nothing();
                }
            }
            return Ok(());
        };
        for mark in released {
            for (page, draft) in mark.drafts {
                older.drafts.entry(page).or_insert(draft);
            }
            for (page, word) in mark.overflow {
                older.overflow.entry(page).or_insert(word);
            }
        }
        Ok(())
    }

    fn position(&self, savepoint: Savepoint) -> Result<usize> {
        let marks = &self.work.marks;
        marks
            .binary_search_by_key(&savepoint, |mark| mark.name)
            .map_err(|_| SlottedError::NoSavepoint)
    }
}
