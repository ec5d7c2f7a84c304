//! Rows that commits change while a serializable transaction is validated.
//!
//! A validation looks at all that its transaction has read, which takes long, and others commit meanwhile. So
//! they leave a list of the rows that they change, which is short, and the end of the validation looks at that alone.
//!
//! - One who watches says so before it looks at the last number that was taken. Whoever takes a number behind that
//!   one sees that somebody watches.
//! - The rows of a commit are in the list before its number is published.
//! - Nobody copies or drops the rows with the latch, or reads those of a commit while it has its number: others wait
//!   for both. Of one that has taken its number just when somebody began to watch a few are read then; if there are
//!   more, it is in the list without them.
//! - Nobody looks at more than a few commits of the list with the latch: it is copied and dropped in pieces.
//! - What a round of a validation has looked at is dropped behind it. One that has its number stops to watch, and drops
//!   nothing before that is published: others may have left it much.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::clock::Clock;
use crate::latch::{Latch, Waiting};
use crate::slots::Statement;
use crate::sync::{AtomicU64, PIECE};

/// The statements of a commit; none: they could not be read.
pub(crate) type CommitStatements = Option<Arc<[Statement]>>;

/// The rows that commits change, while anybody wants to know; see the module's comment.
#[derive(Debug)]
pub(crate) struct WatchedCommits {
    watchers: AtomicU64,
    pub(crate) state: Latch<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Counts those who watch, by the number behind which they do.
    pub(crate) from: BTreeMap<u64, u64>,
    pub(crate) commits: BTreeMap<u64, CommitStatements>,
}

impl State {
    /// Counts one less of those who watch behind a number.
    fn leave(&mut self, from: u64) {
        match self.from.get_mut(&from) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.from.remove(&from)),
        }
    }

    /// Takes a piece of the commits that nobody wants to know any more; none, if there are none.
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

/// Returns whether commits have more than so many statements; they have, if those of one could not be read. It looks at
/// one commit more than that: each has a statement.
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

    /// Watches the commits behind the last number that was taken.
    pub(crate) fn watch(&self, clock: &Clock) -> CommitWatch<'_> {
        self.watchers.fetch_add(1, AcqRel);
        // With the latch: whoever stops to watch drops nothing that is behind it.
        let mut state = self.state.write();
        let from = clock.last_taken();
        *state.from.entry(from).or_default() += 1;
        CommitWatch { watched: self, from, is_stopped: false }
    }

    /// Drops the commits that nobody wants to know any more, in pieces.
    fn drop_unwanted(&self) {
        loop {
            let unwanted = self.state.write().take_unwanted();
            if unwanted.is_empty() {
                break;
            }
        }
    }

    /// The statements of a transaction that is about to commit, if somebody watches now.
    pub(crate) fn for_watchers(
        &self,
        statements: impl FnOnce() -> CommitStatements,
    ) -> Option<CommitStatements> {
        (self.watchers.load(Acquire) > 0).then(statements)
    }

    /// Adds a commit that is about to be published, if somebody watches it, with what was told before it took its
    /// number. Others wait for `statements`.
    pub(crate) fn add(
        &self,
        number: u64,
        for_watchers: Option<CommitStatements>,
        statements: impl FnOnce() -> CommitStatements,
    ) {
        // One that is about to watch does so from a later number.
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

/// Somebody who watches, until he stops or this is dropped, with which goes what nobody wants to know any more.
#[derive(Debug)]
pub(crate) struct CommitWatch<'a> {
    watched: &'a WatchedCommits,
    /// Commits behind this number are watched.
    pub(crate) from: u64,
    is_stopped: bool,
}

impl CommitWatch<'_> {
    /// Watches the commits behind a later number, which is published, from now on. Those before it are looked at.
    pub(crate) fn go_on_from(&mut self, number: u64) {
        let mut state = self.watched.state.write();
        // Together: a commit behind the later number finds one of them.
        *state.from.entry(number).or_default() += 1;
        state.leave(self.from);
        drop(state);
        self.from = number;
        self.watched.drop_unwanted();
    }

    /// Stops to watch, and drops nothing yet: others may wait.
    pub(crate) fn stop(&mut self) {
        if !self.is_stopped {
            self.is_stopped = true;
            self.watched.state.write().leave(self.from);
            self.watched.watchers.fetch_sub(1, AcqRel);
        }
    }

    /// As [`WatchedCommits::for_watchers`], if somebody else watches.
    pub(crate) fn for_watchers(
        &self,
        statements: impl FnOnce() -> CommitStatements,
    ) -> Option<CommitStatements> {
        (self.watched.watchers.load(Acquire) > 1).then(statements)
    }

    /// The statements of the commits behind `from`, up to `to`, which are published; none, if they could not be read.
    pub(crate) fn between(&self, mut from: u64, to: u64) -> Option<Vec<Arc<[Statement]>>> {
        let mut all = Vec::new();
        loop {
            // What is published stays as it is while somebody watches it.
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

    /// The first ones of those commits, with their numbers.
    pub(crate) fn piece(&self, from: u64, to: u64) -> Vec<(u64, CommitStatements)> {
        let state = self.watched.state.read();
        // One more: a range has no end before its start.
        let commits = state.commits.range(from + 1..to + 1).take(PIECE);
        commits.map(|(number, for_watchers)| (*number, for_watchers.clone())).collect()
    }

    /// Returns whether those are more than so many statements, or could not be read.
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
