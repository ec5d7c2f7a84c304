//! Savepoints: places in the open transaction to which it can be taken back.
//!
//! Nothing is copied when one is made. The first change of a page's draft behind it puts the draft as
//! it was aside; from then on the records of that draft, too, are bytes that do not change, and a page
//! that the transaction had allocated before is not used for anything else.

use std::collections::BTreeMap;

use pm::{LineSet, Memory};

use crate::Result;
use crate::draft::Draft;
use crate::error::SlottedError;
use crate::scheme::Scheme;
use crate::store::{Master, Store, Work};

/// The name of a place in the open transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Savepoint(u64);

/// The transaction as it was at a savepoint, as far as it has changed since.
#[derive(Debug)]
pub(crate) struct Mark {
    name: Savepoint,
    master: Master,
    spare: Vec<u64>,
    /// Freed pages, lines and runs of bytes that were written: only ever more are added.
    freed: usize,
    lines: usize,
    written: usize,
    /// Drafts, and first words of overflow pages, before their first change behind the savepoint.
    drafts: BTreeMap<u64, Option<Draft>>,
    overflow: BTreeMap<u64, Option<u64>>,
}

impl Work {
    fn mark(&self, name: Savepoint) -> Mark {
        Mark {
            name,
            master: self.master.clone(),
            spare: self.spare.clone(),
            freed: self.freed.len(),
            lines: self.lines.len(),
            written: self.written.len(),
            drafts: BTreeMap::new(),
            overflow: BTreeMap::new(),
        }
    }

    /// Puts the draft of a page aside, if there is a savepoint that does not have it. Called before the
    /// draft changes, comes or goes.
    pub(crate) fn remember(&mut self, page: u64) {
        let Some(mark) = self.marks.last_mut() else { return };
        if mark.drafts.contains_key(&page) {
            return;
        }
        let mut draft = self.drafts.get_mut(&page);
        mark.drafts.insert(page, draft.as_deref().cloned());
        if let Some(draft) = &mut draft {
            draft.keep();
        }
    }

    /// The same, of the first word of an overflow page.
    pub(crate) fn remember_overflow(&mut self, page: u64) {
        if let Some(mark) = self.marks.last_mut() {
            mark.overflow.entry(page).or_insert(self.overflow.get(&page).copied());
        }
    }

    /// Returns whether a savepoint leads to a page that this transaction has allocated, which was
    /// [remembered](Self::remember).
    pub(crate) fn is_kept(&self, page: u64) -> bool {
        // A page that only an earlier savepoint leads to is not allocated a second time.
        self.marks.last().is_some_and(|mark| {
            matches!(mark.drafts.get(&page), Some(Some(_)))
                || matches!(mark.overflow.get(&page), Some(Some(_)))
        })
    }

    /// Takes the drafts and overflow pages back to the newest savepoint, which goes.
    fn undo(&mut self) -> Option<Mark> {
        let mut mark = self.marks.pop()?;
        restore(&mut self.drafts, &mut mark.drafts);
        restore(&mut self.overflow, &mut mark.overflow);
        Some(mark)
    }
}

fn restore<T>(now: &mut BTreeMap<u64, T>, before: &mut BTreeMap<u64, Option<T>>) {
    for (page, one) in std::mem::take(before) {
        match one {
            Some(one) => now.insert(page, one),
            None => now.remove(&page),
        };
    }
}

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

    /// Undoes what the transaction has done since it was at this place, which stays good; later ones are
    /// void. An operation that failed halfway behind it is undone, too.
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
            let mut lines = LineSet::new();
            work.lines.lines()[..mark.lines].iter().for_each(|line| lines.add(line.range()));
            work.lines = lines;
            work.master.clone_from(&mark.master);
            work.spare.clone_from(&mark.spare);
            work.failed = false;
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
