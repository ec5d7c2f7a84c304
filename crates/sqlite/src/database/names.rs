//! The names of an open database and its side file, without which no kill is survived.
//!
//! - A commit makes sure that both files still have their names: one call of the kernel each few milliseconds, while
//!   the folder is unchanged.
//! - *The side file has lost its name*: commits are refused, and the file is made plain, since what was committed would
//!   be lost with the process. A connection that opens the database then makes a side file anew.
//! - A name that is removed is noticed by a commit of the next [`Tick`].

use std::cell::Cell;
use std::path::Path;

use pm::{Folder, FolderTime, Plain, Tick};

/// The files of a database that have lost their names.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Lost {
    pub(super) data: bool,
    pub(super) side: bool,
}

/// The state of a database's names.
#[derive(Debug)]
pub(super) struct Names {
    folder: Option<Folder>,
    /// The folder's time when both files had their names.
    right_at: Cell<Option<FolderTime>>,
    /// The tick in which that was so at the last look.
    looked: Cell<Option<Tick>>,
    /// The outcome of the last look.
    last: Cell<Lost>,
}

impl Names {
    /// The names of the database at a path, nothing known yet.
    pub(super) fn of(path: &Path) -> Self {
        let folder = path.parent().and_then(Folder::open);
        Self { folder, right_at: Cell::new(None), looked: Cell::new(None), last: Cell::default() }
    }

    fn time(&self) -> Option<FolderTime> {
        self.folder.as_ref().and_then(Folder::time)
    }

    /// Returns whether the folder is as it was when both files had their names, or both were found right in this tick.
    pub(super) fn are_right(&self) -> bool {
        let now = Tick::now();
        if self.looked.get() == Some(now) {
            return true;
        }
        let right_at = self.right_at.get();
        let are_right = right_at.is_some() && self.time() == right_at;
        self.looked.set(are_right.then_some(now));
        are_right
    }

    /// Looks which files have lost their names.
    pub(super) fn look(&self, data: (&Plain, &Path), side: (&Plain, &Path)) -> Lost {
        if self.are_right() {
            return Lost::default();
        }
        let (now, time) = (Tick::now(), self.time());
        let [data, side] = [data, side].map(|(file, path)| !file.is_at(path));
        let lost = Lost { data, side };
        self.last.set(lost);
        self.looked.set((lost == Lost::default()).then_some(now));
        let settled = |_: &FolderTime| self.folder.as_ref().is_some_and(Folder::is_settled);
        // The time before the looks: a later change has another one.
        self.right_at.set(time.filter(|_| lost == Lost::default()).filter(settled));
        lost
    }

    /// The files that had lost their names at the last look.
    pub(super) fn last(&self) -> Lost {
        self.last.get()
    }
}
