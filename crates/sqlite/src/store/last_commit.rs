//! The last commit of a database, as one connection knows it: its number, the kind of its slot, and its lines that may
//! not be durable. The next commit flushes them, or logs their bytes again.

use std::collections::TryReserveError;

use pm::LineSet;

use crate::store::deferred_flush::Unflushed;

/// Lines of both memories.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) data: LineSet,
    pub(super) side: LineSet,
}

/// The last commit.
#[derive(Debug, Default)]
pub(super) struct LastCommit {
    number: u64,
    /// The last commit that this connection has durably checkpointed.
    checkpointed: u64,
    /// Whether its slot is page-wise, if it counts.
    by_pages: Option<bool>,
    stored: Lines,
    /// Unflushed lines of frames, page 1 excluded.
    unflushed: Unflushed,
}

impl LastCommit {
    /// Its number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The number of the commit after it.
    pub(super) fn next(&self) -> u64 {
        self.number + 1
    }

    /// Returns whether this connection has to checkpoint it, or make another one's checkpoint durable.
    pub(super) fn is_open(&self) -> bool {
        self.checkpointed < self.number
    }

    /// Returns whether its slot counts and is of the other kind.
    pub(super) fn is_other_kind(&self, by_pages: bool) -> bool {
        self.by_pages.is_some_and(|last| last != by_pages)
    }

    /// Notes a commit of this connection, with its lines that may not be durable.
    pub(super) fn note_applied(&mut self, number: u64, by_pages: bool, lines: Lines) {
        (self.number, self.by_pages, self.stored) = (number, Some(by_pages), lines);
    }

    /// Notes a commit of this connection that is durable in place. That no slot counts may not be durable yet.
    pub(super) fn note_settled(&mut self, number: u64) {
        (self.number, self.by_pages) = (number, None);
    }

    /// Notes another connection's commit, whose lines are not known yet. `by_pages` is the kind of its slot, if that
    /// counts.
    pub(super) fn note_found(&mut self, number: u64, by_pages: Option<bool>) {
        *self = Self { number, checkpointed: self.checkpointed, by_pages, ..Self::default() };
    }

    /// Notes that no slot counts any more.
    pub(super) fn note_checkpoint(&mut self) {
        self.by_pages = None;
        self.note_durable_checkpoint();
    }

    /// Notes that the last checkpoint, perhaps another connection's, is durable.
    pub(super) fn note_durable_checkpoint(&mut self) {
        self.checkpointed = self.number;
    }

    /// Notes that all commits up to a number are durable in place, or count no more.
    pub(super) fn note_emptied(&mut self, number: u64) {
        *self = Self { number, checkpointed: number, ..Self::default() };
    }

    /// Makes room for so many more lines.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn reserve_lines(
        &mut self,
        side: usize,
        data: usize,
    ) -> Result<(), TryReserveError> {
        self.stored.side.try_reserve(side)?;
        self.stored.data.try_reserve(data)
    }

    /// Its lines, apart from those of frames whose flush is deferred.
    pub(super) fn stored(&mut self) -> &mut Lines {
        &mut self.stored
    }

    /// Takes these lines, to flush them.
    pub(super) fn take_stored(&mut self) -> Lines {
        std::mem::take(&mut self.stored)
    }

    /// The lines of frames whose flush is deferred.
    pub(super) fn unflushed(&mut self) -> &mut Unflushed {
        &mut self.unflushed
    }

    /// The number of these lines.
    pub(super) fn unflushed_lines(&self) -> usize {
        self.unflushed.len()
    }
}
