//! The trees of directories, for reading: the current ones, and those of snapshots.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use index::cow::{Root, TreeShape, Visit};
use index::pages::PageSource;
use index::{Direction, IndexError};
use pm::Bytes;

use super::directory::Directory;
use super::versions::{Pin, Versions};

/// A tree of a directory: its shape, and which store its pages are in.
#[derive(Clone, Copy, Debug)]
pub struct TreePlace {
    /// The shape.
    pub shape: TreeShape,
    /// The store's number.
    pub store: usize,
    /// The table's number.
    pub table: u16,
}

/// The trees of one directory, to be read.
#[derive(Debug)]
pub struct Trees<'a, S> {
    pub(super) sources: &'a [S],
    pub(super) places: &'a [TreePlace],
    pub(super) roots: &'a [Root],
}

impl<S> Clone for Trees<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Trees<'_, S> {}

impl<S: PageSource> Trees<'_, S> {
    /// Calls `read` with the value of a key, if it is there.
    ///
    /// # Errors
    /// Damage.
    #[inline]
    pub fn get<R>(
        &self,
        tree: usize,
        key: &[u8],
        read: impl FnOnce(Bytes<'_>) -> R,
    ) -> Result<Option<R>, IndexError> {
        let TreePlace { shape, store, .. } = &self.places[tree];
        shape.get(&self.sources[*store], self.roots[tree], key, read)
    }

    /// Calls `visit` with the keys and values of a range, in order, until it breaks.
    ///
    /// # Errors
    /// Damage.
    pub fn scan<B>(
        &self,
        tree: usize,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        visit: &mut Visit<'_, B>,
    ) -> Result<ControlFlow<B>, IndexError> {
        let TreePlace { shape, store, .. } = &self.places[tree];
        shape.scan(&self.sources[*store], self.roots[tree], range, direction, visit)
    }
}

/// The trees of a directory as a snapshot sees them.
#[derive(Debug)]
pub struct SnapshotTrees<S> {
    pub(super) sources: Arc<[S]>,
    pub(super) places: Arc<[TreePlace]>,
    pub(super) pin: Pin,
}

impl<S: PageSource> SnapshotTrees<S> {
    /// The trees.
    #[inline]
    pub fn trees(&self) -> Trees<'_, S> {
        let Self { sources, places, pin } = self;
        Trees { sources, places, roots: &pin.directory().roots }
    }

    /// Returns why the writer has stopped, if it has: nothing may be read any more then.
    #[inline]
    pub fn stopped(&self) -> Option<&str> {
        self.pin.versions().stopped()
    }
}

/// A source of snapshots that does not ask the writer. Clones stay valid for as long as they are
/// kept.
#[derive(Debug)]
pub struct Snapshots<S> {
    pub(super) sources: Arc<[S]>,
    pub(super) places: Arc<[TreePlace]>,
    pub(super) versions: Arc<Versions>,
}

impl<S> Clone for Snapshots<S> {
    fn clone(&self) -> Self {
        let Self { sources, places, versions } = self;
        Self { sources: sources.clone(), places: places.clone(), versions: versions.clone() }
    }
}

impl<S: PageSource> Snapshots<S> {
    /// Returns the trees of a directory that [`Versions::lend`] has given out and that has not been
    /// given back.
    #[inline]
    pub fn trees<'a>(&'a self, directory: &'a Directory) -> Trees<'a, S> {
        let Self { sources, places, .. } = self;
        Trees { sources, places, roots: &directory.roots }
    }
}

impl<S> Snapshots<S> {
    /// Returns why the writer has stopped, if it has.
    pub fn stopped(&self) -> Option<&str> {
        self.versions.stopped()
    }

    /// Takes a snapshot of the last committed state; of the last durable one, where a transaction
    /// is a batch of its own.
    pub fn take(&self) -> SnapshotTrees<S> {
        let Self { sources, places, versions } = self;
        SnapshotTrees { sources: sources.clone(), places: places.clone(), pin: versions.pin() }
    }

    /// Returns all versions, for reads without a snapshot of their own: [`Versions::lend`].
    pub fn versions(&self) -> &Versions {
        &self.versions
    }
}
