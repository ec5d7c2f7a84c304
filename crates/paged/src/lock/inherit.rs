//! Speculative lock inheritance (P2 2.2): a session keeps the lock of a table that all sessions
//! use, so that its next transaction has it without a visit to the lock table.
//!
//! A kept lock is a grant with a [`Share`], a word that its session and others change by
//! compare-and-swap:
//!
//! ```text
//!            transaction uses it              another wants it in another mode
//!   kept ------------------------> used ------------------------------------------> awaited
//!     ^ \                           |                                                  |
//!     |  \ another wants it         | transaction ends                                 | transaction
//!     |   `--------> taken          |                                                  | ends: let go,
//!     `-----------------------------'                                                  v as any lock
//! ```
//!
//! A session that gives up a kept lock turns it to `taken`, too, before it takes the grant away.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::mode::{LockMode, Mode};
use super::name::Name;
use crate::ids::Lsn;

const KEPT: u8 = 0;
const USED: u8 = 1;
const AWAITED: u8 = 2;
const TAKEN: u8 = 3;

/// A lock that outlives its transaction.
#[derive(Debug)]
pub(super) struct Share {
    state: AtomicU8,
    /// The newest commit of its session that may have written under it.
    released: AtomicU64,
}

/// The answer to a request for a kept lock in another mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// It is taken from its session, whose last commit had this LSN.
    Yielded(Lsn),
    /// A transaction uses it, and will let it go when it ends.
    InUse,
}

impl Share {
    /// A lock that is kept from now on.
    pub(super) fn kept(released: Lsn) -> Self {
        Self { state: AtomicU8::new(KEPT), released: AtomicU64::new(released.0) }
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Lets a transaction of the session use it; false if it was taken.
    pub(super) fn take_up(&self) -> bool {
        self.turn(KEPT, USED)
    }

    /// Keeps it at the end of a transaction that has used it; false if a transaction waits for it.
    pub(super) fn keep(&self, released: Lsn) -> bool {
        self.released.fetch_max(released.0, Ordering::AcqRel);
        self.turn(USED, KEPT)
    }

    /// Gives it up, if no transaction of the session uses it; false if it was taken already.
    pub(super) fn give_up(&self) -> bool {
        self.turn(KEPT, TAKEN)
    }

    /// Asks for it. Called under the mutex of the name's shard, as long as it is a grant.
    pub(super) fn ask(&self) -> Asked {
        loop {
            // Its session may just be giving it up, and wait for the mutex to take the grant away.
            if self.turn(KEPT, TAKEN) || self.state.load(Ordering::Acquire) == TAKEN {
                return Asked::Yielded(self.released());
            }
            if self.turn(USED, AWAITED) || self.state.load(Ordering::Acquire) == AWAITED {
                return Asked::InUse;
            }
        }
    }

    pub(super) fn is_kept(&self) -> bool {
        self.state.load(Ordering::Acquire) == KEPT
    }

    pub(super) fn released(&self) -> Lsn {
        Lsn(self.released.load(Ordering::Acquire))
    }
}

/// Returns whether a lock can be kept: others seldom want it in a mode that is not compatible.
pub(super) fn can_be_kept(name: Name, mode: LockMode) -> bool {
    matches!(name, Name::Table(_))
        && matches!(mode.mode, Mode::IntentShared | Mode::IntentExclusive | Mode::Shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_kept_until_another_session_asks() {
        let share = Share::kept(Lsn(5));
        assert!(share.take_up() && !share.take_up() && !share.give_up());
        assert!(share.keep(Lsn(9)) && share.is_kept());
        assert_eq!(share.ask(), Asked::Yielded(Lsn(9)));
        assert!(!share.take_up() && !share.give_up());

        let share = Share::kept(Lsn(7));
        assert!(share.give_up());
        let (asked, answer) = std::sync::mpsc::channel();
        std::thread::spawn(move || asked.send(share.ask()));
        let answer = answer.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(answer, Ok(Asked::Yielded(Lsn(7))), "its session has not let it go yet");

        let share = Share::kept(Lsn::NONE);
        assert!(share.take_up());
        assert_eq!((share.ask(), share.ask()), (Asked::InUse, Asked::InUse));
        assert!(!share.keep(Lsn(3)), "another transaction waits");
        assert_eq!(share.released(), Lsn(3));
    }
}
