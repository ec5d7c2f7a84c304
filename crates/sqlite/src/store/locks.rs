//! Locks of a database, in words that all its connections share.
//!
//! Each connection has a slot, and with it a word of its own: whether it reads. One word more says
//! who writes, and how far it has come. The levels are those of SQLite's rollback mode.
//!
//! Invariants:
//! - A connection that is `Exclusive` is alone: no living one reads.
//! - Behind a writer that dies while it is `Exclusive`, nobody reads before somebody has replayed.
//! - From `Pending` on nobody begins to read, so that a writer's turn comes.
//! - Whoever is alone for a while and writes nothing ([`Connection::lock_exclusive_if_idle`]) makes nobody busy: it looks before it
//!   keeps others out, gives up if somebody reads, and those who come meanwhile wait.
//! - Nobody counts as `Reserved` on the way from `Shared` to `Exclusive`: SQLite goes it for a hot journal, which another
//!   one would take for a living writer's.
//! - A dead connection stops nobody for longer than it takes to look.
//!
//! 1. To read: store the own word, then look at the writer's. A writer stores its word and then looks
//!    at the readers'. All of these are in one order, so that one of the two sees the other.
//! 2. Before a connection is told that it is busy, whoever is in its way is asked for: dead ones
//!    leave nothing but words behind. What a dead reader has left is wiped away. The word of a dead
//!    writer is taken over, by one only; if the writer was `Exclusive`, it is told to replay.
//! 3. A word that is changed on behalf of another connection is changed only if it still is what was
//!    looked at. Each turn of a writer has a number, and each owner of a slot another one, so that it
//!    is not taken for an older one that looked the same.
//!
//! Whether one lives is asked through [`Liveness`], since process numbers are used again and mean nothing in
//! another namespace.

/// The words that all connections see. All calls have one order, the same for all.
pub trait Words {
    /// Returns a word's value.
    fn load(&self, word: usize) -> u64;
    /// Stores a value.
    fn store(&self, word: usize, value: u64);
    /// Stores `new` if the value is `old`; returns whether it was.
    fn swap(&self, word: usize, old: u64, new: u64) -> bool;
    /// Lets others go on, between two looks at a word that will not stay for long. `before` says how often it was called for
    /// that word.
    fn pause(&self, before: u32);
}

/// Knowledge of who is alive.
pub trait Liveness {
    /// Returns whether a connection has the slot, and lives.
    fn is_alive(&self, slot: usize) -> bool;
}

/// The word that says who writes. The word of slot n is word n + 1.
const WRITER: usize = 0;
/// The most slots there can be.
pub const SLOTS_MAX: usize = NO_OWNER as usize;
/// The slot of a writer that has given its turn up in the middle: nobody has it, so it counts as dead.
const NO_OWNER: u64 = 0xfff;
/// The most pauses of one who waits for another one that is alone for a while: behind them it is busy.
pub const PAUSES_MAX: u32 = 5_000;

/// The number of words that so many slots need.
pub const fn words(slots: usize) -> usize {
    slots + 1
}

/// The lock that a connection has: the levels of SQLite's locks on a database file, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// None.
    None,
    /// It reads, as others do.
    Shared,
    /// It will write; others read, and begin to.
    Reserved,
    /// It waits for the last readers; nobody begins to read.
    Pending,
    /// It writes, alone.
    Exclusive,
}

impl Level {
    /// The level of SQLite's number.
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

/// An answer to a connection that wants a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// The connection has it.
    Got,
    /// A living connection is in the way.
    Busy,
    /// A writer has died in the middle. The caller is alone now: it replays the log, says so with
    /// [`Connection::end_replay`], and asks again.
    Replay,
}

/// How far a writer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody writes.
    Idle,
    Reserved,
    Pending,
    Exclusive,
    /// It replays what a dead writer has left.
    Replaying,
    /// As `Pending`, straight from the level `Shared`: it is not going to write unless it is alone.
    PendingDirect,
    /// It looks whether it is alone, and waits for nobody.
    Probing,
    /// It is alone for a while, which ends by itself.
    ExclusiveBrief,
}

/// The writer's word: the number of the phase, a slot, and how far its connection has come.
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
            // Any other value was written by nobody: replaying is right after anything.
            _ => Phase::Replaying,
        };
        Self { number: word >> 16, slot: word >> 4 & 0xfff, phase }
    }

    fn word(self) -> u64 {
        self.number << 16 | self.slot << 4 | self.phase as u64
    }

    /// The next phase.
    fn next(self, slot: u64, phase: Phase) -> Self {
        Self { number: (self.number + 1) & (u64::MAX >> 16), slot, phase }
    }

    /// Returns whether nobody may begin to read.
    fn keeps_readers_out(self) -> bool {
        !matches!(self.phase, Phase::Idle | Phase::Reserved)
    }

    /// Returns whether a death may have left pages half written.
    fn may_leave_half_written(self) -> bool {
        matches!(self.phase, Phase::Exclusive | Phase::Replaying | Phase::ExclusiveBrief)
    }

    /// Returns whether it is going to write.
    fn is_for_writing(self) -> bool {
        !matches!(
            self.phase,
            Phase::Idle | Phase::PendingDirect | Phase::Probing | Phase::ExclusiveBrief
        )
    }

    /// Returns whether it is worth waiting for.
    fn is_brief(self) -> bool {
        matches!(self.phase, Phase::Probing | Phase::ExclusiveBrief)
    }
}

/// A connection's view of the locks.
#[derive(Debug)]
pub struct Connection<W, L> {
    words: W,
    liveness: L,
    slots: usize,
    slot: usize,
    /// The word of the slot while it does not read; one more while it does.
    idle_word: u64,
    level: Level,
    /// The own phase, while there is one.
    writer: Option<Writer>,
}

impl<W: Words, L: Liveness> Connection<W, L> {
    /// Takes a slot that the caller alone has, as [`Liveness`] says already. The answer is `Got`, or
    /// `Replay` if its last owner died as a writer.
    ///
    /// # Panics
    /// If there are more slots than there can be, or the slot is none of them.
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
            // Others take this one for living now, so nobody else can do it.
            if claimed.take_over(found) == Some(Answer::Replay) {
                break Answer::Replay;
            }
        };
        (claimed, answer)
    }

    /// The lock that the connection has.
    pub const fn level(&self) -> Level {
        self.level
    }

    /// The connection's slot.
    pub const fn slot(&self) -> usize {
        self.slot
    }

    /// Asks for a lock, as SQLite's xLock does: `Shared` without one, `Reserved` with `Shared`,
    /// `Exclusive` with any. A busy connection keeps what it has; one that wanted `Exclusive` may be
    /// `Pending` then.
    ///
    /// # Panics
    /// If the connection is to replay first.
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
            return self.lock_exclusive();
        }
        Answer::Got
    }

    /// Goes from `Shared` to `Exclusive` if nobody else reads, or is going to write; returns whether it did. Whoever comes
    /// until [`Self::unlock`] waits, and is busy only if that takes long: the caller waits for no lock of theirs meanwhile.
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
        // Whoever has begun to read before it saw that does not wait, and may be waited for.
        if self.has_other_readers() {
            self.unlock(Level::Shared);
            return false;
        }
        self.set_phase(next, Phase::ExclusiveBrief);
        self.level = Level::Exclusive;
        true
    }

    /// Goes back to `Shared` or `None`, as SQLite's xUnlock does.
    pub fn unlock(&mut self, level: Level) {
        if let Some(writer) = self.writer.take() {
            self.words.store(WRITER, writer.next(0, Phase::Idle).word());
        }
        if level == Level::None {
            self.words.store(self.slot + 1, self.idle_word);
        }
        self.level = self.level.min(level);
    }

    /// Ends a replay: others may come in. The connection has no lock then.
    pub fn end_replay(&mut self) {
        debug_assert!(self.writer.is_some_and(|writer| writer.phase == Phase::Replaying));
        self.unlock(Level::None);
    }

    /// Gives a turn up in the middle, as one who dies: who comes next replays. The connection has no
    /// lock then.
    pub fn abandon(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.words.store(WRITER, writer.next(NO_OWNER, Phase::Replaying).word());
        }
        self.unlock(Level::None);
    }

    /// Returns whether a living connection, this one too, is `Reserved`, or has come farther from there.
    pub fn is_reserved(&self) -> bool {
        let writer = Writer::of(self.words.load(WRITER));
        // Beside an `Exclusive` one nobody asks who reads.
        writer.is_for_writing() && self.is_alive(writer.slot)
    }

    fn is_alive(&self, slot: u64) -> bool {
        slot == self.slot as u64
            || (slot < self.slots as u64 && self.liveness.is_alive(slot as usize))
    }

    /// Takes the word of a dead writer, if it still is what was found. Returns `Replay` if the caller
    /// has it now and has to replay, `None` if the caller is to look again.
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

    /// Waits until a living one has gone on, if it goes on by itself. `pauses` are those before; returns false if the caller
    /// is busy.
    fn waits_for(&self, other: Writer, pauses: &mut u32) -> bool {
        let waits = other.is_brief() && *pauses < PAUSES_MAX;
        if waits {
            self.words.pause(*pauses);
            *pauses += 1;
        }
        waits
    }

    /// Begins to read.
    fn lock_shared(&mut self) -> Answer {
        let mut pauses = 0;
        loop {
            self.words.store(self.slot + 1, self.idle_word + 1);
            let writer = Writer::of(self.words.load(WRITER));
            if !writer.keeps_readers_out() {
                self.level = Level::Shared;
                return Answer::Got;
            }
            self.words.store(self.slot + 1, self.idle_word);
            if self.is_alive(writer.slot) {
                if self.waits_for(writer, &mut pauses) {
                    continue;
                }
                return Answer::Busy;
            }
            if let Some(answer) = self.take_over(writer) {
                return answer;
            }
        }
    }

    /// Begins a phase as a writer.
    fn take_writer_word(&mut self, phase: Phase, level: Level) -> Answer {
        let mut pauses = 0;
        loop {
            let found = Writer::of(self.words.load(WRITER));
            if found.phase != Phase::Idle && self.is_alive(found.slot) {
                // It looks, and finds this one.
                if self.waits_for(found, &mut pauses) {
                    continue;
                }
                return Answer::Busy;
            }
            // One who died while this one reads had not begun to write: only then nobody reads.
            let next = found.next(self.slot as u64, phase);
            if self.words.swap(WRITER, found.word(), next.word()) {
                self.writer = Some(next);
                self.level = level;
                return Answer::Got;
            }
        }
    }

    /// Waits for no reader: it is alone, or busy.
    fn lock_exclusive(&mut self) -> Answer {
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
        if self.has_other_readers() {
            return Answer::Busy;
        }
        if let Some(writer) = self.writer {
            self.set_phase(writer, Phase::Exclusive);
        }
        self.level = Level::Exclusive;
        Answer::Got
    }

    /// Returns whether another living one reads. The words of dead ones are wiped away.
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

    /// Says how far the own turn has come.
    fn set_phase(&mut self, writer: Writer, phase: Phase) {
        if writer.phase != phase {
            let next = Writer { phase, ..writer };
            self.words.store(WRITER, next.word());
            self.writer = Some(next);
        }
    }
}
