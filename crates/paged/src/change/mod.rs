//! The changes of pages, as the log has them: physiological, "this entry of this page".
//!
//! 1. A page is changed by [`Change::apply`] alone, while the system runs and when it is redone. So
//!    redo leaves the same bytes.
//! 2. A record is redone on each of its pages whose LSN is less than the record's. None needs what
//!    another page had: a split has the entries that move.
//! 3. Space of the file is taken and given back by the record that begins or ends its use: no crash
//!    loses a page.
//! 4. Undo is logical: a key of a tree, wherever it is by then. It never asks for space: a record
//!    keeps its room, and a deleted row stays as a ghost.
//!
//! | change | undone by |
//! |---|---|
//! | `Insert` | `Erase` |
//! | `InsertMany` | `EraseMany`, once for each leaf that has some of the rows |
//! | `Update`, `Patch`, `OverflowBytes` | the same, turned round |
//! | `Ghost` | `Unghost` with the row |
//! | `Unghost` | `Ghost` |
//! | `NewOverflow`, `NewTree` | `FreePage` |
//! | all others | never: they are compensations, or of system transactions and change no row |

mod apply;
mod code;

pub use apply::Place;
pub use code::Payload;
pub(crate) use code::{entries_of, push_entry};

use crate::ids::{PageNo, TreeNo};
use crate::maps;

/// A change of one page, or of few at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change<'a> {
    /// A row comes, over a ghost with its key if there is one.
    Insert {
        /// Its key.
        key: &'a [u8],
        /// Its row, or stub.
        row: &'a [u8],
        /// True if it is a stub.
        long: bool,
    },
    /// Many rows come, which no entry has the keys of.
    InsertMany {
        /// The entries, encoded.
        entries: &'a [u8],
    },
    /// A row is replaced.
    Update {
        /// Its key.
        key: &'a [u8],
        /// The row or stub before.
        before: &'a [u8],
        /// True if that was a stub.
        was_long: bool,
        /// The row or stub afterwards.
        after: &'a [u8],
        /// True if that is a stub.
        long: bool,
    },
    /// A part of a row is replaced.
    Patch {
        /// Its key.
        key: &'a [u8],
        /// The first byte of the part.
        at: u16,
        /// The bytes before.
        before: &'a [u8],
        /// As many bytes afterwards.
        after: &'a [u8],
    },
    /// A row is deleted: it becomes a ghost.
    Ghost {
        /// Its key.
        key: &'a [u8],
        /// Its row, for undo.
        row: &'a [u8],
        /// True if that is a stub.
        long: bool,
    },
    /// A ghost is a row again.
    Unghost {
        /// Its key.
        key: &'a [u8],
        /// Its row.
        row: &'a [u8],
        /// True if that is a stub.
        long: bool,
    },
    /// A row becomes a ghost without contents.
    Erase {
        /// Its key.
        key: &'a [u8],
    },
    /// Rows become ghosts without contents.
    EraseMany {
        /// Entries with their keys, encoded.
        entries: &'a [u8],
    },
    /// A ghost goes.
    Reclaim {
        /// Its key.
        key: &'a [u8],
    },
    /// A row gives up the room that it does not need.
    Trim {
        /// Its key.
        key: &'a [u8],
    },
    /// An inner page gets a child.
    Post {
        /// The first key of the child.
        key: &'a [u8],
        /// The child.
        child: PageNo,
    },
    /// An inner page loses a child.
    Unpost {
        /// The first key of the child.
        key: &'a [u8],
    },
    /// The entries from a key on go to a new page on the right.
    Split {
        /// The new page.
        right: PageNo,
        /// Its level.
        level: u8,
        /// Its first key.
        key: &'a [u8],
        /// The end of its range.
        high: Option<&'a [u8]>,
        /// The page to its right.
        next: Option<PageNo>,
        /// Its entries, encoded.
        entries: &'a [u8],
    },
    /// A page takes the entries of the one to its right, which becomes free.
    Merge {
        /// The page to its right.
        right: PageNo,
        /// The end of its range.
        high: Option<&'a [u8]>,
        /// The page to its right from now on.
        next: Option<PageNo>,
        /// The entries, encoded.
        entries: &'a [u8],
    },
    /// All that the root has goes to a new page, its only child.
    Root {
        /// The new page.
        child: PageNo,
        /// Its level.
        level: u8,
        /// Its entries, encoded.
        entries: &'a [u8],
    },
    /// A page becomes the root of a new tree, an empty leaf.
    NewTree,
    /// A page becomes a map in which it is itself in use.
    NewMap,
    /// A page becomes the last one of a long row.
    NewOverflow {
        /// The key of the row.
        key: &'a [u8],
        /// The page before it.
        prev: Option<PageNo>,
        /// The part of the row.
        bytes: &'a [u8],
    },
    /// A part of a long row is replaced.
    OverflowBytes {
        /// The key of the row.
        key: &'a [u8],
        /// The first byte that changes.
        at: u16,
        /// The bytes from there on, before.
        before: &'a [u8],
        /// The bytes from there on, afterwards. If they are more or fewer, both reach to the end of
        /// the part.
        after: &'a [u8],
    },
    /// The first page of a ghost's long row becomes free.
    PopOverflow {
        /// The key of the row.
        key: &'a [u8],
        /// The page.
        page: PageNo,
        /// The next one of the row.
        next: Option<PageNo>,
    },
    /// A page becomes free, as undo of what it was taken for.
    FreePage {
        /// The page before it in its chain.
        prev: Option<PageNo>,
    },
}

/// The part that a page has in a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The page of the record.
    Main,
    /// The other page.
    Second,
    /// The map that says whether a page is in use.
    Map,
}

/// The pages of a change, at most three.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    pages: [Option<(Role, PageNo)>; 3],
}

impl Iterator for Pages {
    type Item = (Role, PageNo);

    fn next(&mut self) -> Option<Self::Item> {
        self.pages.iter_mut().find_map(Option::take)
    }
}

/// A change, and the tree that it is of: what the payload of a record says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body<'a> {
    /// The tree.
    pub tree: TreeNo,
    /// The change.
    pub change: Change<'a>,
}

impl Change<'_> {
    fn second(&self) -> Option<PageNo> {
        match self {
            Self::Split { right, .. } | Self::Merge { right, .. } => Some(*right),
            Self::Root { child, .. } => Some(*child),
            Self::PopOverflow { page, .. } => Some(*page),
            Self::NewOverflow { prev, .. } | Self::FreePage { prev } => *prev,
            _ => None,
        }
    }

    /// The page that comes into use or becomes free.
    pub(crate) fn mapped(&self, main: PageNo) -> Option<PageNo> {
        match self {
            Self::Split { right, .. } | Self::Merge { right, .. } => Some(*right),
            Self::Root { child, .. } => Some(*child),
            Self::PopOverflow { page, .. } => Some(*page),
            Self::NewTree | Self::NewOverflow { .. } | Self::FreePage { .. } => Some(main),
            _ => None,
        }
    }

    /// Returns whether a page of this change needs nothing of what it had before.
    #[must_use]
    pub fn formats(&self, role: Role) -> bool {
        match role {
            Role::Main => matches!(self, Self::NewTree | Self::NewMap | Self::NewOverflow { .. }),
            Role::Second => matches!(self, Self::Split { .. } | Self::Root { .. }),
            Role::Map => false,
        }
    }

    /// The pages that it changes, when its record names `main`.
    #[must_use]
    pub fn pages(&self, main: PageNo, page_bytes: usize) -> Pages {
        Pages {
            pages: [
                Some((Role::Main, main)),
                self.second().map(|page| (Role::Second, page)),
                self.mapped(main).map(|page| (Role::Map, maps::map_of(page, page_bytes))),
            ],
        }
    }

    /// Calls `visit` with the keys of the rows that it changes, if it is undone with its
    /// transaction.
    pub(crate) fn keys(&self, visit: &mut dyn FnMut(&[u8])) {
        match self {
            Self::Insert { key, .. }
            | Self::Update { key, .. }
            | Self::Patch { key, .. }
            | Self::Ghost { key, .. }
            | Self::Unghost { key, .. }
            | Self::NewOverflow { key, .. }
            | Self::OverflowBytes { key, .. } => visit(key),
            Self::InsertMany { entries } => {
                entries_of(entries).filter_map(|entry| Some(entry.ok()?.key)).for_each(visit);
            }
            _ => {}
        }
    }

    /// Returns whether it is undone if its transaction is.
    #[must_use]
    pub fn is_undone(&self) -> bool {
        matches!(
            self,
            Self::Insert { .. }
                | Self::InsertMany { .. }
                | Self::Update { .. }
                | Self::Patch { .. }
                | Self::Ghost { .. }
                | Self::Unghost { .. }
                | Self::NewTree
                | Self::NewOverflow { .. }
                | Self::OverflowBytes { .. }
        )
    }
}
