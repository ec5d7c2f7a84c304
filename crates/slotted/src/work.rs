//! The open transaction: the drafts of the pages that it changes, what it has allocated and freed,
//! and what its savepoints keep of it.

use std::collections::{BTreeMap, BTreeSet};

use pm::LineSet;

use crate::draft::Draft;
use crate::part::Room;

/// The words of the master that transactions change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Master {
    /// The top of the free stack; zero: it is empty.
    pub(crate) free: u64,
    /// The first page that was never used, and the segment that it lies in or ends.
    pub(crate) high: u64,
    pub(crate) segment: u64,
    pub(crate) roots: Vec<u64>,
}

/// A transaction.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) master: Master,
    pub(crate) drafts: BTreeMap<u64, Draft>,
    /// Overflow pages that it has filled, and their first words.
    pub(crate) overflow: BTreeMap<u64, u64>,
    /// Pages that are free when it commits.
    pub(crate) freed: Vec<u64>,
    /// Pages that it has allocated and does not use any more.
    pub(crate) spare: Vec<u64>,
    /// Pages that it was the first to allocate, though it may have given them up again.
    pub(crate) unused: BTreeSet<u64>,
    /// Lines of records and fresh pages.
    pub(crate) lines: LineSet,
    /// The bytes that were written, where the scheme logs them: page, where in it, and how many.
    pub(crate) written: Vec<(u64, usize, usize)>,
    /// The bound of what its commit logs.
    pub(crate) room: Room,
    /// An operation failed halfway.
    pub(crate) failed: bool,
    /// The savepoints, oldest first.
    pub(crate) marks: Vec<Mark>,
}

impl Work {
    pub(crate) fn new(master: Master) -> Self {
        Self {
            master,
            drafts: BTreeMap::new(),
            overflow: BTreeMap::new(),
            freed: Vec::new(),
            spare: Vec::new(),
            unused: BTreeSet::new(),
            lines: LineSet::new(),
            written: Vec::new(),
            room: Room::default(),
            failed: false,
            marks: Vec::new(),
        }
    }
}

/// The name of a place in the open transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Savepoint(pub(crate) u64);

/// The transaction as it was at a savepoint, as far as it has changed since.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) name: Savepoint,
    pub(crate) master: Master,
    pub(crate) spare: Vec<u64>,
    /// Freed pages, lines and runs of bytes that were written: only ever more are added.
    pub(crate) freed: usize,
    pub(crate) lines: usize,
    pub(crate) written: usize,
    /// Drafts, and first words of overflow pages, before their first change after the savepoint.
    pub(crate) drafts: BTreeMap<u64, Option<Draft>>,
    pub(crate) overflow: BTreeMap<u64, Option<u64>>,
}

impl Work {
    pub(crate) fn mark(&self, name: Savepoint) -> Mark {
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

    /// Puts the draft of a page aside, if there is a savepoint that does not have it. Called before
    /// the draft changes, comes or goes.
    pub(crate) fn remember(&mut self, page: u64) {
        self.room.touch(page);
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
        self.room.touch(page);
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

    /// Begins the bound anew, when the transaction was taken back to a savepoint.
    pub(crate) fn recount_room(&mut self) {
        self.room = Room::default();
        let pages = self.drafts.keys().chain(self.overflow.keys()).chain(&self.freed);
        self.room.touched.extend(pages.chain(&self.spare));
        for (page, _, bytes) in &self.written {
            self.room.wrote(*page, *bytes);
        }
    }

    /// Forgets the lines after the first `kept`.
    pub(crate) fn forget_lines(&mut self, kept: usize) {
        let mut lines = LineSet::new();
        self.lines.lines()[..kept].iter().for_each(|line| lines.add(line.range()));
        self.lines = lines;
    }

    /// Takes the drafts and overflow pages back to the newest savepoint, which goes.
    pub(crate) fn undo(&mut self) -> Option<Mark> {
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
