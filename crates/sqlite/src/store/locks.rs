//! Locks of a database, in words that all its connections share.
//!
//! Each connection owns a slot, and with it a word that says whether it reads. One more word says which connection
//! writes and its phase. The levels are those of SQLite's rollback mode.
//!
//! Invariants:
//! - No living connection reads while another is `Exclusive`.
//! - After a writer dies while it is `Exclusive`, no connection reads before one has replayed.
//! - From `Pending` on no new reader comes in, so that the writer gets its turn.
//! - A brief exclusive lock without a write ([`Connection::lock_exclusive_if_idle`]) causes no `Busy` unless it takes
//!   long: its owner probes before it excludes others and gives up if one reads; newcomers wait.
//! - A connection on the way from `Shared` straight to `Exclusive` does not count as `Reserved`: SQLite takes this
//!   way for a hot journal, which others would otherwise take for a living writer's.
//! - A dead connection blocks others only until they check that it is alive.
//!
//! 1. To read, store the own word, then load the writer's. A writer stores its word, then loads the readers'. All of
//!    these are in one total order, so one of the two sees the other.
//! 2. Before returning `Busy`, check that the blocking owner is alive. A dead reader's word is cleared. A dead writer's
//!    word is taken over, by one connection only, which replays if the writer was `Exclusive`.
//! 3. Another connection's word is changed only by compare-and-swap. Each turn of a writer has a number, and so has
//!    each owner of a slot, so that no word is taken for an older one.
//!
//! [`Liveness`] says whether an owner is alive: process numbers are reused and have no meaning in another namespace.

/// The shared words. All calls have one total order.
pub trait Words {
    /// Returns a word's value.
    fn load(&self, word: usize) -> u64;
    /// Stores a value.
    fn store(&self, word: usize, value: u64);
    /// Stores `new` if the value is `old`; returns whether it was.
    fn swap(&self, word: usize, old: u64, new: u64) -> bool;
    /// Yields between two loads of a word that will change soon. `before` counts the earlier calls for that word.
    fn pause(&self, before: u32);
    /// A clock, in microseconds from any start.
    fn microseconds(&self) -> u64;
}

/// Liveness of slot owners.
pub trait Liveness {
    /// Returns whether a living connection owns the slot.
    fn is_alive(&self, slot: usize) -> bool;
}

/// The writer's word. Slot n has word n + 1.
const WRITER: usize = 0;
/// The most slots.
pub const SLOTS_MAX: usize = NO_OWNER as usize;
/// The slot in the word of an abandoned turn: it has no owner, so it counts as dead.
const NO_OWNER: u64 = 0xfff;
/// The most pauses while another connection holds a brief lock, before `Busy`.
pub const PAUSES_MAX: u32 = 5_000;

/// The most pauses while another connection reads or writes, before `Busy`: most transactions end meanwhile.
pub const MOMENT: u32 = 32;
/// The time after which no such pause begins. Where others run, a pause is long.
const MOMENT_US: u64 = 500;

/// The number of words for so many slots.
pub const fn words(slots: usize) -> usize {
    slots + 1
}

/// A lock level of SQLite's, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None.
    None,
    /// Reads, along with others.
    Shared,
    /// Will write; others read, and begin to.
    Reserved,
    /// Waits for the last readers; no new reader comes in.
    Pending,
    /// Writes, alone.
    Exclusive,
}

impl Level {
    /// The level with SQLite's number.
    pub fn of(number: i32) -> Self {
        match number {
            ..=0 => Self::None,
            1 => Self::Shared,
            2 => Self::Reserved,
            3 => Self::Pending,
            4.. => Self::Exclusive,
        }
    }

    /// SQLite's number.
    pub fn number(self) -> i32 {
        self as i32
    }
}

/// The answer to a lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// The connection has the lock.
    Got,
    /// A living connection holds a conflicting lock.
    Busy,
    /// A writer died halfway. The caller has exclusive access: it replays the log, calls
    /// [`Connection::end_replay`], and asks again.
    Replay,
}

/// The phase of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No connection writes.
    Idle,
    Reserved,
    Pending,
    Exclusive,
    /// Replays what a dead writer left.
    Replaying,
    /// `Pending` straight from `Shared`: it does not count as writing until it is `Exclusive`.
    PendingDirect,
    /// Checks for readers, and waits for none.
    Probing,
    /// Holds the exclusive lock for a moment, without writing.
    ExclusiveBrief,
}

/// The writer's word: the number of the turn, a slot, and the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Writer {
    number: u64,
    slot: u64,
    phase: Phase,
}

impl Writer {
    fn of(word: u64) -> Self {
        let phase = match word & 0xf {
            0 => Phase::Idle,
            1 => Phase::Reserved,
            2 => Phase::Pending,
            3 => Phase::Exclusive,
            5 => Phase::PendingDirect,
            6 => Phase::Probing,
            7 => Phase::ExclusiveBrief,
            // No connection writes any other value; replaying is always correct.
            _ => Phase::Replaying,
        };
        Self { number: word >> 16, slot: word >> 4 & 0xfff, phase }
    }

    fn word(self) -> u64 {
        self.number << 16 | self.slot << 4 | self.phase as u64
    }

    /// The word of the next turn.
    fn next(self, slot: u64, phase: Phase) -> Self {
        Self { number: (self.number + 1) & (u64::MAX >> 16), slot, phase }
    }

    /// Returns whether new readers are kept out.
    fn keeps_readers_out(self) -> bool {
        !matches!(self.phase, Phase::Idle | Phase::Reserved)
    }

    /// Returns whether its death may leave pages half written.
    fn may_leave_half_written(self) -> bool {
        matches!(self.phase, Phase::Exclusive | Phase::Replaying | Phase::ExclusiveBrief)
    }

    /// Returns whether it counts as a writer.
    fn is_for_writing(self) -> bool {
        !matches!(
            self.phase,
            Phase::Idle | Phase::PendingDirect | Phase::Probing | Phase::ExclusiveBrief
        )
    }

    /// Returns whether it ends soon by itself.
    fn is_brief(self) -> bool {
        matches!(self.phase, Phase::Probing | Phase::ExclusiveBrief)
    }
}

/// The connection that keeps others waiting, by the writer's word: its slot and one more in the lower 16 bits, the number
/// of its turn above them. 0 if no connection writes; for readers also if the one that does lets them in.
pub fn owner_of(word: u64, for_readers: bool) -> u64 {
    let writer = Writer::of(word);
    let keeps_out =
        if for_readers { writer.keeps_readers_out() } else { writer.phase != Phase::Idle };
    if keeps_out { writer.number << 16 | (writer.slot + 1) } else { 0 }
}

/// The pauses of one attempt to take a lock.
#[derive(Default)]
struct Pauses {
    count: u32,
    begun_us: Option<u64>,
}

/// One connection's view of the locks.
#[derive(Debug)]
pub struct Connection<W, L> {
    words: W,
    liveness: L,
    slots: usize,
    slot: usize,
    /// The slot's word while it does not read. It is one larger while it does.
    idle_word: u64,
    level: Level,
    /// This connection's turn as a writer, while it has one.
    writer: Option<Writer>,
}

impl<W: Words, L: Liveness> Connection<W, L> {
    /// Claims a slot that the caller owns according to [`Liveness`]. The answer is `Got`, or `Replay` if the slot's
    /// last owner died as a writer.
    ///
    /// # Panics
    /// If there are too many slots, or the slot is out of range.
    pub fn claim(words: W, liveness: L, slots: usize, slot: usize) -> (Self, Answer) {
        assert!(slot < slots && slots <= SLOTS_MAX, "a slot that there is not");
        let idle_word = (words.load(slot + 1) | 1).wrapping_add(1);
        let mut claimed =
            Self { words, liveness, slots, slot, idle_word, level: Level::None, writer: None };
        claimed.words.store(slot + 1, idle_word);
        let answer = loop {
            let found = Writer::of(claimed.words.load(WRITER));
            if found.phase == Phase::Idle || found.slot != slot as u64 {
                break Answer::Got;
            }
            // Others take this connection for the living writer, so only it can take over.
            if claimed.take_over(found) == Some(Answer::Replay) {
                break Answer::Replay;
            }
        };
        (claimed, answer)
    }

    /// The connection's lock level.
    pub const fn level(&self) -> Level {
        self.level
    }

    /// The connection's slot.
    pub const fn slot(&self) -> usize {
        self.slot
    }

    /// A word that names this connection, and no other one that had the slot before or gets it later.
    pub const fn owner_word(&self) -> u64 {
        self.idle_word >> 1 << 16 | (self.slot as u64 + 1)
    }

    /// Returns whether this connection has its turn as a writer.
    pub const fn is_writer(&self) -> bool {
        self.writer.is_some()
    }

    /// Requests a lock, as SQLite's xLock does: `Shared` without one, `Reserved` with `Shared`, `Exclusive` with
    /// any. A connection that gets `Busy` keeps its lock; one that requested `Exclusive` may be `Pending` then.
    ///
    /// # Panics
    /// If the connection has to replay first.
    pub fn lock(&mut self, wanted: Level) -> Answer {
        let replays = self.writer.is_some_and(|writer| writer.phase == Phase::Replaying);
        assert!(!replays, "a lock is asked for before the replay is done");
        if self.level == Level::None && wanted > Level::None {
            let answer = self.lock_shared();
            if answer != Answer::Got {
                return answer;
            }
        }
        if wanted > self.level && wanted == Level::Reserved {
            return self.take_writer_word(Phase::Reserved, Level::Reserved);
        }
        if wanted == Level::Reserved
            && let Some(writer) = self.writer
            && writer.phase == Phase::PendingDirect
        {
            self.set_phase(writer, Phase::Pending);
        }
        if wanted > self.level {
            return self.lock_exclusive(true);
        }
        Answer::Got
    }

    /// Goes from `Shared` to `Exclusive` if no other connection reads or writes; returns whether it did. Newcomers
    /// wait until [`Self::unlock`], and get `Busy` only after a long wait. The caller must not wait for their locks
    /// meanwhile.
    pub fn lock_exclusive_if_idle(&mut self) -> bool {
        if self.level != Level::Shared || self.has_other_readers() {
            return false;
        }
        let found = Writer::of(self.words.load(WRITER));
        if found.phase != Phase::Idle && self.is_alive(found.slot) {
            return false;
        }
        let next = found.next(self.slot as u64, Phase::Probing);
        if !self.words.swap(WRITER, found.word(), next.word()) {
            return false;
        }
        self.writer = Some(next);
        // A reader that began before it saw the probe does not wait; it would have to be waited for.
        if self.has_other_readers() {
            self.unlock(Level::Shared);
            return false;
        }
        self.set_phase(next, Phase::ExclusiveBrief);
        self.level = Level::Exclusive;
        true
    }

    /// Goes from `Shared` to `Exclusive`. One that is refused keeps no newcomer out, as [`Self::lock`] would.
    pub fn lock_exclusive_or_stay(&mut self) -> Answer {
        debug_assert_eq!(self.level, Level::Shared);
        // A reader that is there is no reason to keep others out for a moment.
        if self.has_other_readers() {
            return Answer::Busy;
        }
        let answer = self.lock_exclusive(false);
        if answer == Answer::Busy {
            self.unlock(Level::Shared);
        }
        answer
    }

    /// Lowers the lock to `Shared` or `None`, as SQLite's xUnlock does.
    pub fn unlock(&mut self, level: Level) {
        if let Some(writer) = self.writer.take() {
            self.words.store(WRITER, writer.next(0, Phase::Idle).word());
        }
        if level == Level::None {
            self.words.store(self.slot + 1, self.idle_word);
        }
        self.level = self.level.min(level);
    }

    /// Ends a replay. The connection holds no lock afterwards.
    pub fn end_replay(&mut self) {
        debug_assert!(self.writer.is_some_and(|writer| writer.phase == Phase::Replaying));
        self.unlock(Level::None);
    }

    /// Abandons a turn halfway, as by dying: the next connection replays. This one holds no lock afterwards.
    pub fn abandon(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.words.store(WRITER, writer.next(NO_OWNER, Phase::Replaying).word());
        }
        self.unlock(Level::None);
    }

    /// Returns whether a living connection, this one included, counts as a writer.
    pub fn is_reserved(&self) -> bool {
        let writer = Writer::of(self.words.load(WRITER));
        // No reader asks next to an `Exclusive` writer.
        writer.is_for_writing() && self.is_alive(writer.slot)
    }

    fn is_alive(&self, slot: u64) -> bool {
        slot == self.slot as u64
            || (slot < self.slots as u64 && self.liveness.is_alive(slot as usize))
    }

    /// Takes over a dead writer's word, if it is unchanged. Returns `Replay` if the caller has it now and has to
    /// replay, `None` if the caller has to look again.
    fn take_over(&mut self, dead: Writer) -> Option<Answer> {
        let replay = dead.may_leave_half_written();
        let next = match replay {
            true => dead.next(self.slot as u64, Phase::Replaying),
            false => dead.next(0, Phase::Idle),
        };
        if self.words.swap(WRITER, dead.word(), next.word()) && replay {
            self.writer = Some(next);
            return Some(Answer::Replay);
        }
        None
    }

    /// Pauses if no moment has passed since the first pause; returns whether it did.
    fn pauses_for_a_moment(&self, pauses: &mut Pauses) -> bool {
        let now = self.words.microseconds();
        let begun = *pauses.begun_us.get_or_insert(now);
        let waits = pauses.count < MOMENT && now.saturating_sub(begun) < MOMENT_US;
        if waits {
            self.words.pause(pauses.count);
            pauses.count += 1;
        }
        waits
    }

    /// Pauses if the other connection's lock is brief; returns whether it did. After many pauses it does not.
    fn pauses_for_brief(&self, other: Writer, pauses: &mut Pauses) -> bool {
        let waits = other.is_brief() && pauses.count < PAUSES_MAX;
        if waits {
            self.words.pause(pauses.count);
            pauses.count += 1;
        }
        waits
    }

    /// Takes the shared lock.
    fn lock_shared(&mut self) -> Answer {
        let mut pauses = Pauses::default();
        loop {
            self.words.store(self.slot + 1, self.idle_word + 1);
            let mut writer = Writer::of(self.words.load(WRITER));
            if !writer.keeps_readers_out() {
                self.level = Level::Shared;
                return Answer::Got;
            }
            self.words.store(self.slot + 1, self.idle_word);
            // Without a store: the writer would wait for it as for a reader.
            while writer.keeps_readers_out() && self.pauses_for_a_moment(&mut pauses) {
                writer = Writer::of(self.words.load(WRITER));
            }
            if !writer.keeps_readers_out() {
                continue;
            }
            if self.is_alive(writer.slot) {
                if self.pauses_for_brief(writer, &mut pauses) {
                    continue;
                }
                return Answer::Busy;
            }
            if let Some(answer) = self.take_over(writer) {
                return answer;
            }
        }
    }

    /// Takes the writer's word for a phase.
    fn take_writer_word(&mut self, phase: Phase, level: Level) -> Answer {
        let mut pauses = Pauses::default();
        loop {
            let found = Writer::of(self.words.load(WRITER));
            if found.phase != Phase::Idle && self.is_alive(found.slot) {
                // A brief one will find this reader, and give up. Another one may wait for this reader: then the two
                // would wait for each other.
                if self.pauses_for_brief(found, &mut pauses) {
                    continue;
                }
                return Answer::Busy;
            }
            // A writer that died next to this reader had not begun to write.
            let next = found.next(self.slot as u64, phase);
            if self.words.swap(WRITER, found.word(), next.word()) {
                self.writer = Some(next);
                self.level = level;
                return Answer::Got;
            }
        }
    }

    /// Takes the exclusive lock. If `waits`, it waits for readers, but not longer than a moment.
    fn lock_exclusive(&mut self, waits: bool) -> Answer {
        match self.writer {
            None => {
                if self.take_writer_word(Phase::PendingDirect, Level::Pending) == Answer::Busy {
                    return Answer::Busy;
                }
            }
            Some(writer) if writer.phase == Phase::PendingDirect => {}
            Some(writer) => self.set_phase(writer, Phase::Pending),
        }
        self.level = Level::Pending;
        let mut pauses = Pauses::default();
        while self.has_other_readers() {
            if !waits || !self.pauses_for_a_moment(&mut pauses) {
                return Answer::Busy;
            }
        }
        if let Some(writer) = self.writer {
            self.set_phase(writer, Phase::Exclusive);
        }
        self.level = Level::Exclusive;
        Answer::Got
    }

    /// Returns whether another living connection reads. Clears the words of dead ones.
    fn has_other_readers(&self) -> bool {
        for slot in (0..self.slots).filter(|slot| *slot != self.slot) {
            loop {
                let word = self.words.load(slot + 1);
                if word & 1 == 0 {
                    break;
                }
                if self.is_alive(slot as u64) {
                    return true;
                }
                if self.words.swap(slot + 1, word, word - 1) {
                    break;
                }
            }
        }
        false
    }

    /// Stores the phase of the own turn.
    fn set_phase(&mut self, writer: Writer, phase: Phase) {
        if writer.phase != phase {
            let next = Writer { phase, ..writer };
            self.words.store(WRITER, next.word());
            self.writer = Some(next);
        }
    }
}
