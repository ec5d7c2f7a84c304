//! The changes of recent commits, kept while serializable transactions are validated.
//!
//! A validation checks everything that its transaction has read, which takes long, and other transactions commit
//! meanwhile. These leave a list of the rows that they change, and the end of the validation checks that list
//! alone.
//!
//! - A watcher registers before it reads the last number that was taken. A commit that takes a later number sees
//!   the watcher.
//! - The rows of a commit are in the list before its number is published.
//! - The rows of a commit are not copied, dropped or read while its number is taken and unpublished, since other
//!   commits wait. The exception is a commit that took its number just as a watcher registered: its rows are read
//!   then if they are few, and otherwise it enters the list without them.
//! - No thread walks over more than a few commits with the latch held: the list is copied and dropped in pieces.
//! - Commits that a round of a validation has checked are dropped after it. A validation that has its number stops
//!   watching, and drops commits only after the number is published, since they may be many.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::clock::Clock;
use crate::latch::{Latch, Waiting};
use crate::slots::Statement;
use crate::sync::{AtomicU64, PIECE};

/// The statements of a commit; `None` if they could not be read.
pub(crate) type CommitStatements = Option<Arc<[Statement]>>;

/// The changes of recent commits that are watched; see the module's comment.
#[derive(Debug)]
pub(crate) struct WatchedCommits {
    watchers: AtomicU64,
    pub(crate) state: Latch<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Counts watchers, by the number after which they watch.
    pub(crate) from: BTreeMap<u64, u64>,
    pub(crate) commits: BTreeMap<u64, CommitStatements>,
}

impl State {
    /// Removes a watcher from the count of a number.
    fn leave(&mut self, from: u64) {
        match self.from.get_mut(&from) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.from.remove(&from)),
        }
    }

    /// Takes a piece of the commits that no watcher needs any more; it is empty if there are none.
    pub(crate) fn take_unwanted(&mut self) -> Vec<CommitStatements> {
        let oldest = self.from.first_key_value().map_or(u64::MAX, |(from, _)| *from);
        let mut taken = Vec::with_capacity(PIECE);
        while taken.len() < PIECE
            && let Some(first) = self.commits.first_entry()
            && *first.key() <= oldest
        {
            taken.push(first.remove());
        }
        taken
    }
}

/// Returns whether commits have more statements than `few`; a commit whose statements could not be read counts as
/// more. Stops after `few` commits and one more, since each has a statement.
pub(crate) fn are_more_than<'a>(
    few: u64,
    mut commits: impl Iterator<Item = &'a CommitStatements>,
) -> bool {
    let mut left = few;
    commits.any(|for_watchers| {
        let count = for_watchers.as_ref().map_or(u64::MAX, |statements| statements.len() as u64);
        let is_more = count > left;
        left = left.saturating_sub(count);
        is_more
    })
}

impl WatchedCommits {
    pub(crate) fn new(waiting: &Waiting) -> Self {
        Self { watchers: AtomicU64::new(0), state: Latch::new(State::default(), waiting) }
    }

    /// Begins to watch the commits after the last number that was taken.
    pub(crate) fn watch(&self, clock: &Clock) -> CommitWatch<'_> {
        self.watchers.fetch_add(1, AcqRel);
        // With the latch held: a watcher that stops drops no commit after this number.
        let mut state = self.state.write();
        let from = clock.last_taken();
        *state.from.entry(from).or_default() += 1;
        CommitWatch { watched: self, from, is_stopped: false }
    }

    /// Drops the commits that no watcher needs any more, in pieces.
    fn drop_unwanted(&self) {
        loop {
            let unwanted = self.state.write().take_unwanted();
            if unwanted.is_empty() {
                break;
            }
        }
    }

    /// Reads the statements of a transaction that is about to commit, if it is watched.
    pub(crate) fn for_watchers(
        &self,
        statements: impl FnOnce() -> CommitStatements,
    ) -> Option<CommitStatements> {
        (self.watchers.load(Acquire) > 0).then(statements)
    }

    /// Adds a commit that is about to be published, if it is watched. `for_watchers` was read before it took its
    /// number; other commits wait for `statements`.
    pub(crate) fn add(
        &self,
        number: u64,
        for_watchers: Option<CommitStatements>,
        statements: impl FnOnce() -> CommitStatements,
    ) {
        // A watcher that registers from now on begins at a later number.
        let is_watched = |state: &State| {
            state.from.first_key_value().is_some_and(|(oldest, _)| *oldest < number)
        };
        if self.watchers.load(Acquire) == 0 || !is_watched(&self.state.read()) {
            return;
        }
        let for_watchers = for_watchers.unwrap_or_else(statements);
        let mut state = self.state.write();
        if is_watched(&state) {
            state.commits.insert(number, for_watchers);
        }
    }
}

/// A watcher, until it stops or is dropped. Dropping it drops the commits that no watcher needs any more.
#[derive(Debug)]
pub(crate) struct CommitWatch<'a> {
    watched: &'a WatchedCommits,
    /// Commits after this number are watched.
    pub(crate) from: u64,
    is_stopped: bool,
}

impl CommitWatch<'_> {
    /// Moves the start to a later number, which is published. The commits up to it have been checked.
    pub(crate) fn go_on_from(&mut self, number: u64) {
        let mut state = self.watched.state.write();
        // In one step: a commit after the later number finds one of the two entries.
        *state.from.entry(number).or_default() += 1;
        state.leave(self.from);
        drop(state);
        self.from = number;
        self.watched.drop_unwanted();
    }

    /// Stops watching, and drops no commit yet: other commits may wait.
    pub(crate) fn stop(&mut self) {
        if !self.is_stopped {
            self.is_stopped = true;
            self.watched.state.write().leave(self.from);
            self.watched.watchers.fetch_sub(1, AcqRel);
        }
    }

    /// As [`WatchedCommits::for_watchers`], if there is another watcher.
    pub(crate) fn for_watchers(
        &self,
        statements: impl FnOnce() -> CommitStatements,
    ) -> Option<CommitStatements> {
        (self.watched.watchers.load(Acquire) > 1).then(statements)
    }

    /// The statements of the published commits after `from`, up to `to`; `None` if some could not be read.
    pub(crate) fn between(&self, mut from: u64, to: u64) -> Option<Vec<Arc<[Statement]>>> {
        let mut all = Vec::new();
        loop {
            // Published commits stay as they are while they are watched.
            let piece = self.piece(from, to);
            let last = piece.last().map(|(number, _)| *number).filter(|_| piece.len() == PIECE);
            for (_, for_watchers) in piece {
                all.push(for_watchers?);
            }
            match last {
                Some(last) => from = last,
                None => return Some(all),
            }
        }
    }

    /// The first of those commits, with their numbers.
    pub(crate) fn piece(&self, from: u64, to: u64) -> Vec<(u64, CommitStatements)> {
        let state = self.watched.state.read();
        // One more on both sides: a range must not end before its start.
        let commits = state.commits.range(from + 1..to + 1).take(PIECE);
        commits.map(|(number, for_watchers)| (*number, for_watchers.clone())).collect()
    }

    /// Returns whether those commits have more statements than `few`, or could not be read.
    pub(crate) fn has_more_than(&self, few: u64, (from, to): (u64, u64)) -> bool {
        let state = self.watched.state.read();
        are_more_than(
            few,
            state.commits.range(from + 1..to + 1).map(|(_, for_watchers)| for_watchers),
        )
    }
}

impl Drop for CommitWatch<'_> {
    fn drop(&mut self) {
        self.stop();
        self.watched.drop_unwanted();
    }
}
