//! A database as it was at one moment, all partitions together, for copies of it.
//!
//! Invariant: what the parts show is what was committed when [`Database::point_in_time`] had all of
//! them, and nothing else.
//!
//! 1. All partitions are taken for reading, lowest number first, and those already taken are held
//!    while the call waits for the next. So no commit can happen in any of them when the last one
//!    is taken.
//! 2. Where the engine has snapshots, one of each partition is taken, and the partitions are given
//!    back: no transaction waits for the copy. Elsewhere each is kept until it has been copied:
//!    writers wait, readers do not.
//!    do not.
//!
//! A single partition with snapshots is not taken at all: its snapshot is a moment.

use engines::Reader;
use engines::below::{Environment, Row, TableLayout};
use std::ops::ControlFlow;

use crate::database::{Copying, Database};
use crate::declared;
use crate::error::Error;

/// One partition as it was at the moment.
#[derive(Debug)]
pub(crate) enum Part<'a, E: Environment> {
    Snapshot(Box<dyn Reader>),
    Locked(Copying<'a, E>),
}

impl<E: Environment> Part<'_, E> {
    /// Calls `visit` with all tuples of a table in the order of the primary key, until it fails.
    pub(crate) fn each(
        &self,
        table: (u16, &TableLayout),
        row: &mut Row,
        mut visit: impl FnMut(&Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut done = Ok(());
        let mut step = |row: &Row| match visit(row) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                done = Err(error);
                ControlFlow::Break(())
            }
        };
        let all = engines::Scan::ALL;
        match self {
            Self::Snapshot(reader) => declared::scan(&**reader, table, &all, row, &mut step)?,
            Self::Locked(engine) => declared::scan(&***engine, table, &all, row, &mut step)?,
        }
        done
    }
}

impl<E: Environment> Database<E> {
    /// All partitions, in order, as they are at one moment.
    pub(crate) fn point_in_time(&self) -> Result<Vec<Part<'_, E>>, Error> {
        let snapshots = || {
            let sources = self.snapshots.iter().flatten();
            let take = |source: &std::sync::Arc<dyn engines::SnapshotSource>| {
                Ok(Part::Snapshot(source.snapshot()?))
            };
            sources.map(take).collect::<Result<Vec<_>, Error>>()
        };
        let has_snapshots = self.snapshots.iter().all(Option::is_some);
        if has_snapshots && self.partitions.len() == 1 {
            return snapshots();
        }
        let guards = self.copy_all()?;
        if has_snapshots {
            return snapshots();
        }
        // Commits that have ended and are being synced: a crash must not take what a copy has.
        for partition in &*self.partitions {
            partition.wait_durable(partition.group.newest())?;
        }
        Ok(guards.into_iter().map(Part::Locked).collect())
    }
}
