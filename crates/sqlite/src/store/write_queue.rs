//! The order in which connections get SQLite's lock for writing to its log. In rollback modes the lock is the database,
//! and those that want to read wait in the queue, too.
//!
//! A connection that commits again and again takes the lock back before one that sleeps has woken up. So the connection
//! that has waited longest *claims* the lock, and the others let it pass.
//!
//! - *A ticket* is in the line of a connection that sleeps until the lock is free: the time since when it wants the lock,
//!   and the time after which the ticket is void. A connection that stops waiting, or dies, holds up others no longer
//!   than that.
//! - *A claim* is a shared word with the claimant. While there is one, other connections do not take the lock for as long
//!   as `YIELD_US`, even if it is free.
//! - *A turn*: the lock is not claimed within `TURN_US` after a claimant got it. Handing over costs as much as many
//!   commits, so a connection makes many of them in its turn, and few commits wait for one.
//!
//! 1. *Busy*: the connection sleeps, with a ticket. If no older one is there and the turn is over, it claims the lock, and
//!    then looks whether the lock is free. Claim and look are in one total order with the owner's release and its look at
//!    the claim: one of the two sees the other.
//! 2. *Release*: if there is a claim, the owner wakes the claimant. Otherwise it makes no system call.
//! 3. *Taken*: the connection that has waited deletes claim and ticket, notes the time, and wakes the one with the oldest
//!    ticket, which claims next.
//!
//! A sleep ends early only where the next attempt succeeds, but for a race: SQLite counts the time that it asked for.
//!
//! Nothing here decides who has the lock: a lost or wrong claim costs time only. Times are of one clock for all
//! processes. In another time namespace they are wrong, and connections then sleep as long as SQLite asks.

use crate::store::lock_words::{LockWords, Word};
use crate::store::locks::Liveness;

/// SQLite's lock for writing.
pub(crate) const WRITE_LOCK: usize = 0;
/// The length of a turn.
const TURN_US: u64 = 2_000;
/// The time for which a connection leaves a free lock to a claimant.
const YIELD_US: u64 = 2_000;
/// The time between two checks that those in the way are alive.
const LOOK_US: u64 = 5_000;
/// A ticket counts so much longer than its connection sleeps.
const SLACK_US: u64 = 10_000;
/// A connection that asks again after a longer time has stopped waiting meanwhile.
const FORGET_US: u64 = 1_000_000;

/// A connection's wish for the lock, from the first attempt that found it busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    since_us: u64,
    last_us: u64,
}

impl Wish {
    /// The wish of a connection that has just found the lock busy, after an earlier one or none.
    pub(crate) fn renewed(before: Option<Self>, now_us: u64) -> Self {
        let since = |before: Self| {
            (now_us.wrapping_sub(before.last_us) < FORGET_US).then_some(before.since_us)
        };
        Self { since_us: before.and_then(since).unwrap_or(now_us.max(1)), last_us: now_us }
    }

    /// Returns whether the last attempt was less than so long before now.
    pub(crate) fn is_newer_than(self, age_us: u64, now_us: u64) -> bool {
        now_us.wrapping_sub(self.last_us) < age_us
    }
}

/// The end of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The connection has the lock, and with it a turn.
    Turn,
    /// The connection can read, which keeps no other reader waiting.
    Reads,
    /// The lock is still busy, or the connection waits no longer.
    Busy,
}

/// The words of the queue, as one connection uses them.
#[derive(Debug)]
pub struct WriteQueue<'a, W> {
    pub(crate) words: &'a W,
    /// The number of lines.
    pub(crate) lines: usize,
    pub(crate) place: Place,
}

/// A connection's place: its line, and its word as an owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub(crate) line: usize,
    pub(crate) owner: u64,
}

/// The line that an owner's word names.
pub(crate) fn line_of(owner: u64) -> Option<usize> {
    (owner & 0xffff).checked_sub(1).map(|line| line as usize)
}

impl<'a, W: LockWords> WriteQueue<'a, W> {
    /// The queue of so many lines, for the connection at a place.
    pub fn new(words: &'a W, lines: usize, place: Place) -> Self {
        Self { words, lines, place }
    }

    /// Counts this connection's line among those in use, and forgets what the last connection in it wanted.
    pub(crate) fn join(&self) {
        loop {
            let lines = self.words.load(Word::Lines);
            let used = self.place.line as u64 + 1;
            if lines >= used || self.words.swap(Word::Lines, lines, used) {
                break;
            }
        }
        self.clear();
    }

    /// Forgets what the last connection in this line wanted.
    pub(crate) fn clear(&self) {
        self.void_ticket(self.place.line);
        let claim = self.words.load(Word::Claim);
        if line_of(claim) == Some(self.place.line) {
            self.words.swap(Word::Claim, claim, 0);
        }
    }

    fn void_ticket(&self, line: usize) {
        self.words.store(Word::Until(line), 0);
        self.words.store(Word::Since(line), 0);
    }

    /// Leaves a free lock to a claimant, which gets it meanwhile or loses its claim. Returns whether the claim is this
    /// connection's own.
    #[inline]
    pub(crate) fn let_pass(&self) -> bool {
        let claim = self.words.load(Word::Claim);
        let is_own = claim == self.place.owner;
        if claim != 0 && !is_own {
            self.let_claimant_pass(claim);
        }
        is_own
    }

    /// Returns whether the claim is this connection's own.
    pub(crate) fn has_claim(&self) -> bool {
        self.words.load(Word::Claim) == self.place.owner
    }

    #[cold]
    fn let_claimant_pass(&self, mut claim: u64) {
        let begun = self.words.microseconds();
        while self.words.load(Word::Owner(WRITE_LOCK)) == 0 {
            if self.words.microseconds().wrapping_sub(begun) >= YIELD_US {
                if self.words.swap(Word::Claim, claim, 0) {
                    // It may be the claimant itself.
                    self.wake_oldest();
                }
                return;
            }
            self.words.yields();
            claim = self.words.load(Word::Claim);
            if claim == 0 || claim == self.place.owner {
                return;
            }
        }
    }

    /// Ends the connection's wait.
    #[cold]
    pub(crate) fn leave(&self, outcome: Outcome) {
        self.void_ticket(self.place.line);
        let had_claim = self.words.swap(Word::Claim, self.place.owner, 0);
        if outcome == Outcome::Turn && had_claim {
            self.words.store(Word::Handed, self.words.microseconds());
        }
        if outcome != Outcome::Busy || had_claim {
            self.wake_oldest();
        }
    }

    /// Wakes the connection with the oldest ticket: it may have slept because of a ticket or a claim that is gone.
    fn wake_oldest(&self) {
        if let Some(line) = self.oldest(self.words.microseconds(), None) {
            self.wake(line);
        }
    }

    /// Wakes the claimant: the lock is free.
    #[inline]
    pub(crate) fn released(&self) {
        let claim = self.words.load(Word::Claim);
        if claim != 0 && claim != self.place.owner {
            self.wake_claimant(claim);
        }
    }

    #[cold]
    fn wake_claimant(&self, claim: u64) {
        if let Some(line) = line_of(claim).filter(|line| *line < self.lines) {
            self.wake(line);
        }
    }

    fn wake(&self, line: usize) {
        let word = Word::Wake(line);
        loop {
            let before = self.words.load(word);
            if self.words.swap(word, before, before.wrapping_add(1)) {
                break;
            }
        }
        self.words.wake(word);
    }

    /// The line of the oldest ticket of another connection; with `before`, of one that is older than this one's.
    fn oldest(&self, now: u64, before: Option<u64>) -> Option<usize> {
        let lines = self.words.load(Word::Lines).min(self.lines as u64) as usize;
        let limit = before.map(|since| (since, self.place.line));
        let ticket = |line: usize| (self.words.load(Word::Since(line)), line);
        (0..lines)
            .filter(|line| *line != self.place.line)
            .map(ticket)
            .filter(|(since, line)| *since != 0 && self.words.load(Word::Until(*line)) >= now)
            .filter(|ticket| limit.is_none_or(|limit| *ticket < limit))
            .min()
            .map(|(_, line)| line)
    }

    /// Sleeps for at most so long, until the lock is free for this connection, or its owner is dead. Returns the
    /// microseconds that have passed.
    pub fn sleep(&self, wish: Wish, asked_us: u64, liveness: &impl Liveness) -> u64 {
        let begun = self.words.microseconds();
        self.sleep_until(wish, begun.saturating_add(asked_us), liveness);
        let now = self.words.microseconds();
        // A connection that does not try again holds up others no longer.
        self.words.store(Word::Until(self.place.line), now.saturating_add(SLACK_US));
        now.wrapping_sub(begun)
    }

    fn sleep_until(&self, wish: Wish, end: u64, liveness: &impl Liveness) {
        self.words.store(Word::Until(self.place.line), end.saturating_add(SLACK_US));
        self.words.store_first(Word::Since(self.place.line), wish.since_us);
        let word = Word::Wake(self.place.line);
        loop {
            let seen = self.words.load(word);
            let now = self.words.microseconds();
            let mut left_us = end.saturating_sub(now);
            let turn_us = now.wrapping_sub(self.words.load(Word::Handed));
            let mut has_claim = self.has_claim();
            if !has_claim && self.oldest(now, Some(wish.since_us)).is_none() {
                if turn_us < TURN_US {
                    left_us = left_us.min(TURN_US - turn_us);
                } else {
                    has_claim = self.words.swap(Word::Claim, 0, self.place.owner);
                }
            }
            let is_free = || self.words.load(Word::Owner(WRITE_LOCK)) == 0;
            if now >= end || has_claim && is_free() {
                return;
            }
            let is_woken = self.words.wait(word, seen, left_us.min(LOOK_US));
            if !is_woken && left_us > LOOK_US && self.bury(wish.since_us, liveness) {
                return;
            }
        }
    }

    /// Deletes older tickets of the dead, and a claim of the dead. Returns whether to try the lock, as its owner is dead,
    /// or it is free and this connection is the first one.
    fn bury(&self, since_us: u64, liveness: &impl Liveness) -> bool {
        // An owner may have no line here.
        let is_dead = |line: usize| line != self.place.line && !liveness.is_alive(line);
        let claim = self.words.load(Word::Claim);
        if line_of(claim).is_some_and(is_dead) {
            self.words.swap(Word::Claim, claim, 0);
        }
        while let Some(line) = self.oldest(self.words.microseconds(), Some(since_us)) {
            if !is_dead(line) {
                return false;
            }
            self.void_ticket(line);
        }
        line_of(self.words.load(Word::Owner(WRITE_LOCK))).is_none_or(is_dead)
    }
}
