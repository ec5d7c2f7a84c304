//! SQLite's eight locks of a write-ahead log, as words that all connections share.
//!
//! Each lock has a word with its owner, who has it exclusively. Each connection has a line with a word that says which
//! locks it holds shared (*held*) and which it is about to take (*trying*).
//!
//! Invariants:
//! - A lock that a living connection owns is held by no other one.
//! - A dead connection blocks others only until they check that it is alive. Nothing is repaired: SQLite expects the
//!   locks of the dead to vanish, and finds by itself what they left.
//! - A line and an owner's word carry the generation of the connection. Another connection changes either of them only
//!   by compare-and-swap from a dead one's value, so a new connection in the same line is never mistaken for it.
//!
//! 1. *Shared*: store trying, then load the owner. If there is one, clear trying: busy. Otherwise store held.
//! 2. *Exclusive*: swap the owner from none to this connection, then load all lines. A held lock: undo, busy. One that
//!    is tried is about to become one or the other: look again, a few times. All of these are in one total order, so
//!    one of the two sees the other.
//! 3. *Before busy*, check that the one in the way is alive. A reader is in the way often, and for a moment: its life
//!    is checked when a connection first meets a reader in that line, and later only if the reader has not moved for a
//!    millisecond. All that are in the way are noted at each attempt: many may have died together, or a living one may
//!    be in the way as well.
//!
//! The lock for writing has a queue (`store::write_queue`), so that no connection that waits for it is always passed by.

pub use crate::store::lock_words::{LockWords, Word};
use crate::store::locks::Liveness;
use crate::store::write_queue::{Outcome, Place, WRITE_LOCK, Wish, WriteQueue, line_of};

/// The number of locks.
pub const LOCKS: usize = 8;
/// The locks before this one are held for a moment, by one connection; those from it on are marks of readers.
const FIRST_MARK: usize = 3;
/// The most lines: a line's number plus one has 16 bits.
pub const LINES_MAX: usize = u16::MAX as usize - 1;
/// Looks at a lock that another connection is about to take, before it counts as held.
const LOOKS_MAX: u32 = 64;
/// A reader that has not moved for so long is asked whether it is alive.
const SUSPECT_AFTER_US: u64 = 1_000;
/// The number of generations.
const GENERATIONS: u64 = 1 << 48;

/// A line's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line {
    generation: u64,
    trying: u8,
    held: u8,
}

impl Line {
    fn of(word: u64) -> Self {
        Self { generation: word >> 16, trying: (word >> 8) as u8, held: word as u8 }
    }

    fn word(self) -> u64 {
        self.generation << 16 | u64::from(self.trying) << 8 | u64::from(self.held)
    }
}

/// A reader that was in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Suspect {
    word: u64,
    takes: u64,
    since_us: u64,
}

/// One connection's view of the locks.
#[derive(Debug)]
pub struct IndexLocks<W, L> {
    words: W,
    liveness: L,
    lines: usize,
    line: usize,
    generation: u64,
    held: u8,
    owned: u8,
    takes: u64,
    /// The readers that were last in the way, by their lines.
    suspects: Vec<Option<Suspect>>,
    /// The lock for writing was busy when this connection last asked for it.
    wish: Option<Wish>,
}

/// The bits of `count` locks from `first` on.
fn bits(first: usize, count: usize) -> u8 {
    (((1u32 << count) - 1) << first) as u8
}

/// Deletes all locks in so many lines, while no connection has any. A dead connection's line may be that of one that
/// lives and has not claimed it, so that its locks would count.
pub fn forget_locks(words: &impl LockWords, lines: usize) {
    for lock in 0..LOCKS {
        words.store(Word::Owner(lock), 0);
    }
    words.store(Word::Claim, 0);
    for line in 0..lines {
        // A connection that lives goes on with its generation.
        let idle = Line { trying: 0, held: 0, ..Line::of(words.load(Word::Line(line))) };
        words.store(Word::Line(line), idle.word());
        words.store(Word::Since(line), 0);
    }
}

impl<W: LockWords, L: Liveness> IndexLocks<W, L> {
    /// Claims a line that the caller owns according to [`Liveness`], and frees the locks that its last owner died with.
    ///
    /// # Panics
    /// If there are too many lines, or the line is out of range.
    pub fn claim(words: W, liveness: L, lines: usize, line: usize) -> Self {
        assert!(line < lines && lines <= LINES_MAX, "a line that there is not");
        // An exclusive lock looks at the lines below this number only.
        loop {
            let lines = words.load(Word::Lines);
            if lines > line as u64 || words.swap(Word::Lines, lines, line as u64 + 1) {
                break;
            }
        }
        let before = Line::of(words.load(Word::Line(line)));
        let generation = (before.generation + 1) % GENERATIONS;
        let idle = Line { generation, trying: 0, held: 0 };
        words.store_first(Word::Line(line), idle.word());
        for lock in 0..LOCKS {
            let owner = words.load(Word::Owner(lock));
            if owner & 0xffff == line as u64 + 1 {
                words.swap(Word::Owner(lock), owner, 0);
            }
        }
        let takes = words.load(Word::Takes(line));
        // Here, so that no lock allocates.
        let suspects = vec![None; lines];
        let (held, owned, wish) = (0, 0, None);
        let locks =
            Self { words, liveness, lines, line, generation, held, owned, takes, suspects, wish };
        locks.queue().clear();
        locks
    }

    fn queue(&self) -> WriteQueue<'_, W> {
        WriteQueue::new(&self.words, self.lines, self.place())
    }

    /// The connection's place among those that wait for the lock for writing.
    pub fn place(&self) -> Place {
        Place { line: self.line, owner: self.owner_word() }
    }

    /// The connection's wish for the lock for writing, if it has found that busy and not got it since.
    pub fn wish(&self) -> Option<Wish> {
        self.wish
    }

    /// Takes a lock shared; returns whether it did.
    ///
    /// # Panics
    /// There is no such lock.
    pub fn lock_shared(&mut self, lock: usize) -> bool {
        assert!(lock < LOCKS, "a lock that there is not");
        let bit = bits(lock, 1);
        if self.held & bit != 0 {
            return true;
        }
        loop {
            self.words.store_first(Word::Line(self.line), self.line_word(bit));
            let owner = self.words.load(Word::Owner(lock));
            if owner == 0 {
                break;
            }
            self.words.store(Word::Line(self.line), self.line_word(0));
            if !self.bury_owner(lock, owner) {
                return false;
            }
        }
        self.held |= bit;
        self.takes = self.takes.wrapping_add(1);
        self.words.store(Word::Takes(self.line), self.takes);
        self.words.store(Word::Line(self.line), self.line_word(0));
        true
    }

    /// Gives up a shared lock.
    pub fn unlock_shared(&mut self, lock: usize) {
        self.held &= !bits(lock, 1);
        self.words.store(Word::Line(self.line), self.line_word(0));
    }

    /// Takes `count` locks from `first` on exclusively, all or none; returns whether it did.
    ///
    /// # Panics
    /// There are no such locks.
    pub fn lock_exclusive(&mut self, first: usize, count: usize) -> bool {
        assert!(count > 0 && first + count <= LOCKS, "locks that there are not");
        if first != WRITE_LOCK {
            return self.take_exclusive(first, count);
        }
        // A thread that slept for this connection may have claimed the lock, and another one uses the connection now.
        let has_claim = self.queue().let_pass();
        let taken = self.take_exclusive(first, count);
        if !taken || has_claim || self.wish.is_some() {
            self.note_attempt(taken);
        }
        taken
    }

    /// Notes the outcome of an attempt to take the lock for writing, if it was or is busy.
    #[cold]
    fn note_attempt(&mut self, taken: bool) {
        if !taken {
            // It may have been taken for a moment, with others that were not free.
            self.queue().released();
        }
        self.queue().leave(if taken { Outcome::Turn } else { Outcome::Busy });
        self.wish = (!taken).then(|| Wish::renewed(self.wish, self.words.microseconds()));
    }

    fn take_exclusive(&mut self, first: usize, count: usize) -> bool {
        for lock in first..first + count {
            while !self.words.swap(Word::Owner(lock), 0, self.owner_word()) {
                let owner = self.words.load(Word::Owner(lock));
                if owner != 0 && !self.bury_owner(lock, owner) {
                    self.free(first, lock - first);
                    return false;
                }
            }
        }
        let mask = bits(first, count);
        let lines = self.words.load(Word::Lines).min(self.lines as u64) as usize;
        let mut is_alone = true;
        for line in 0..lines {
            is_alone &= line == self.line || self.leaves_alone(line, first, mask);
        }
        if !is_alone {
            self.free(first, count);
            return false;
        }
        self.owned |= mask;
        true
    }

    /// Gives up exclusive locks.
    pub fn unlock_exclusive(&mut self, first: usize, count: usize) {
        self.owned &= !bits(first, count);
        self.free(first, count);
        if first == WRITE_LOCK {
            self.queue().released();
        }
    }

    /// Returns whether this connection has the lock exclusively.
    pub fn owns(&self, lock: usize) -> bool {
        self.owned & bits(lock, 1) != 0
    }

    /// Gives up all locks.
    pub fn unlock_all(&mut self) {
        for lock in (0..LOCKS).filter(|lock| self.owned & bits(*lock, 1) != 0) {
            self.free(lock, 1);
        }
        if self.owns(WRITE_LOCK) {
            self.queue().released();
        }
        if self.wish.take().is_some() {
            self.queue().leave(Outcome::Busy);
        }
        (self.owned, self.held) = (0, 0);
        self.words.store(Word::Line(self.line), self.line_word(0));
    }

    fn owner_word(&self) -> u64 {
        self.generation << 16 | (self.line as u64 + 1)
    }

    fn line_word(&self, trying: u8) -> u64 {
        Line { generation: self.generation, trying, held: self.held }.word()
    }

    fn free(&self, first: usize, count: usize) {
        for lock in first..first + count {
            match lock {
                // Before the look at the claim.
                WRITE_LOCK => self.words.store_first(Word::Owner(lock), 0),
                _ => self.words.store(Word::Owner(lock), 0),
            }
        }
    }

    fn is_alive(&self, line: usize) -> bool {
        line == self.line || line < self.lines && self.liveness.is_alive(line)
    }

    /// Frees a lock whose owner is dead. Returns whether to look again.
    fn bury_owner(&self, lock: usize, owner: u64) -> bool {
        if self.is_alive(line_of(owner).unwrap_or(usize::MAX)) {
            return false;
        }
        self.words.swap(Word::Owner(lock), owner, 0);
        true
    }

    /// Returns whether the connection of a line holds none of the locks.
    fn leaves_alone(&mut self, line: usize, first: usize, mask: u8) -> bool {
        let mut looks = 0;
        loop {
            let word = self.words.load(Word::Line(line));
            let found = Line::of(word);
            if (found.held | found.trying) & mask == 0 {
                return true;
            }
            if found.held & mask == 0 && looks < LOOKS_MAX {
                self.words.pause();
                looks += 1;
                continue;
            }
            if first >= FIRST_MARK && !self.is_suspect(line, word) || self.is_alive(line) {
                return false;
            }
            let idle = Line { trying: 0, held: 0, ..found };
            self.words.swap(Word::Line(line), word, idle.word());
        }
    }

    /// Returns whether to ask if the reader of a line is alive: it is the first one in the way there, or has been in the
    /// way, and has not moved, for a millisecond.
    fn is_suspect(&mut self, line: usize, word: u64) -> bool {
        let takes = self.words.load(Word::Takes(line));
        let since_us = self.words.microseconds();
        let found = Suspect { word, takes, since_us };
        let known = self.suspects[line];
        let same = known.filter(|known| Suspect { since_us, ..*known } == found);
        let is_old =
            same.is_some_and(|same| since_us.saturating_sub(same.since_us) >= SUSPECT_AFTER_US);
        // A connection that lives for one attempt meets the dead, too.
        let is_suspect = known.is_none() || is_old;
        // One that is alive is asked again a millisecond later.
        if same.is_none() || is_old {
            self.suspects[line] = Some(found);
        }
        is_suspect
    }
}
