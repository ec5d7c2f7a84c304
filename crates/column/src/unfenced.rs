//! The work that a commit leaves to the next fence: the lines of its stamps, and its slot, which names rows until
//! they are durable.
//!
//! A session fences soon if it is used. Nobody waits for one that is not: whoever needs the slot, or its
//! rows, fences in its place.

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
    /// The rows of the transaction are its own until then.
    pub(crate) guard: EpochGuard,
}

/// A session's place for it.
pub(crate) type SessionCommit = Arc<Latch<Option<UnfencedCommit>>>;

/// The places of all sessions.
#[derive(Debug)]
pub(crate) struct UnfencedCommits(Latch<Vec<Weak<Latch<Option<UnfencedCommit>>>>>, Waiting);

impl UnfencedCommits {
    pub(crate) fn new(waiting: &Waiting) -> Self {
        Self(Latch::new(Vec::new(), waiting), waiting.clone())
    }

    /// A place for a new session.
    pub(crate) fn of_session(&self) -> SessionCommit {
        let place = Arc::new(Latch::new(None, &self.1));
        let mut all = self.0.write();
        all.retain(|place| place.strong_count() > 0);
        all.push(Arc::downgrade(&place));
        place
    }
}

impl<M: Memory> Shared<M> {
    /// Makes durable what sessions have left over, and gives back their slots.
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
