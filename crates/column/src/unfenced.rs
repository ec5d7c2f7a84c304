//! The work that a commit leaves to its session's next fence: the lines of its stamps, and its slot, which names
//! rows until the stamps are durable.
//!
//! A session that is used fences soon. An idle one may not: a thread that needs the slot, or its rows, fences in
//! its place.

use std::sync::{Arc, Weak};

use pm::{LineSet, Memory};

use crate::epoch::EpochGuard;
use crate::latch::{Latch, Waiting};
use crate::store::Shared;

/// The work that the last commit of a session has left.
#[derive(Debug)]
pub(crate) struct UnfencedCommit {
    pub(crate) slot: u16,
    pub(crate) lines: LineSet,
    /// Keeps the rows of the transaction until then.
    pub(crate) guard: EpochGuard,
}

/// The last commit of a session, which other threads may fence.
pub(crate) type SessionCommit = Arc<Latch<Option<UnfencedCommit>>>;

/// The last commits of all sessions.
#[derive(Debug)]
pub(crate) struct UnfencedCommits(Latch<Vec<Weak<Latch<Option<UnfencedCommit>>>>>, Waiting);

impl UnfencedCommits {
    pub(crate) fn new(waiting: &Waiting) -> Self {
        Self(Latch::new(Vec::new(), waiting), waiting.clone())
    }

    /// Returns the place for the commits of a new session.
    pub(crate) fn of_session(&self) -> SessionCommit {
        let place = Arc::new(Latch::new(None, &self.1));
        let mut all = self.0.write();
        all.retain(|place| place.strong_count() > 0);
        all.push(Arc::downgrade(&place));
        place
    }
}

impl<M: Memory> Shared<M> {
    /// Makes the stamps of all sessions' last commits durable, and releases their slots.
    #[track_caller]
    pub(crate) fn fence_commits(&self) {
        let places: Vec<_> = self.unfenced.0.read().iter().filter_map(Weak::upgrade).collect();
        let mut left: Vec<UnfencedCommit> =
            places.iter().filter_map(|place| place.write().take()).collect();
        if left.is_empty() {
            return;
        }
        left.iter_mut().for_each(|unfenced| unfenced.lines.flush(&self.memory));
        self.memory.fence();
        for unfenced in left {
            self.slots.release(unfenced.slot, true);
            drop(unfenced.guard);
        }
    }
}
