//! Locks of a database, in words that all its connections share.
//!
//! Each connection has a slot, and with it a word of its own: whether it reads. One word more says
//! who writes, and how far it has come. The levels are those of SQLite's rollback mode.
//!
//! Invariants:
//! - A connection that is `Exclusive` is alone: no living one reads.
//! - Behind a writer that dies while it is `Exclusive`, nobody reads before somebody has replayed.
//! - From `Pending` on nobody begins to read, so that a writer's turn comes.
//! - Whoever is alone for a while and writes nothing ([`Connection::exclude_if_alone`]) makes nobody busy: it looks before it
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
pub const SLOTS_MAX: usize = NOBODY as usize;
/// The slot of a writer that has given its turn up in the middle: nobody has it, so it counts as dead.
const NOBODY: u64 = 0xfff;
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
    /// [`Connection::replayed`], and asks again.
    Replay,
}

/// How far a writer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nobody writes.
    None,
    Reserved,
    Pending,
    Exclusive,
    /// It replays what a dead writer has left.
    Replaying,
    /// As `Pending`, straight from the level `Shared`: it is not going to write unless it is alone.
    Straight,
    /// It looks whether it is alone, and waits for nobody.
    Looking,
    /// It is alone for a while, which ends by itself.
    Alone,
}

/// The writer's word: the number of the turn, a slot, and how far its connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Writer {
    number: u64,
    slot: u64,
    turn: Turn,
}

impl Writer {
    fn of(word: u64) -> Self {
        let turn = match word & 0xf {
            0 => Turn::None,
            1 => Turn::Reserved,
            2 => Turn::Pending,
            3 => Turn::Exclusive,
            5 => Turn::Straight,
            6 => Turn::Looking,
            7 => Turn::Alone,
            // Any other value was written by nobody: replaying is right after anything.
            _ => Turn::Replaying,
        };
        Self { number: word >> 16, slot: word >> 4 & 0xfff, turn }
    }

    fn word(self) -> u64 {
        self.number << 16 | self.slot << 4 | self.turn as u64
    }

    /// The next turn.
    fn next(self, slot: u64, turn: Turn) -> Self {
        Self { number: (self.number + 1) & (u64::MAX >> 16), slot, turn }
    }

    /// Returns whether nobody may begin to read.
    fn keeps_readers_out(self) -> bool {
        !matches!(self.turn, Turn::None | Turn::Reserved)
    }

    /// Returns whether a death may have left pages half written.
    fn may_be_half_way(self) -> bool {
        matches!(self.turn, Turn::Exclusive | Turn::Replaying | Turn::Alone)
    }

    /// Returns whether it is going to write.
    fn is_for_writing(self) -> bool {
        !matches!(self.turn, Turn::None | Turn::Straight | Turn::Looking | Turn::Alone)
    }

    /// Returns whether it is worth waiting for.
    fn ends_by_itself(self) -> bool {
        matches!(self.turn, Turn::Looking | Turn::Alone)
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
    quiet: u64,
    level: Level,
    /// The own turn, while there is one.
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
        let quiet = (words.load(slot + 1) | 1).wrapping_add(1);
        let mut claimed =
            Self { words, liveness, slots, slot, quiet, level: Level::None, writer: None };
        claimed.words.store(slot + 1, quiet);
        let answer = loop {
            let found = Writer::of(claimed.words.load(WRITER));
            if found.turn == Turn::None || found.slot != slot as u64 {
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
        let replays = self.writer.is_some_and(|writer| writer.turn == Turn::Replaying);
        assert!(!replays, "a lock is asked for before the replay is done");
        if self.level == Level::None && wanted > Level::None {
            let answer = self.share();
            if answer != Answer::Got {
                return answer;
            }
        }
        if wanted > self.level && wanted == Level::Reserved {
            return self.begin(Turn::Reserved, Level::Reserved);
        }
        if wanted == Level::Reserved
            && let Some(writer) = self.writer
            && writer.turn == Turn::Straight
        {
            self.go_on(writer, Turn::Pending);
        }
        if wanted > self.level {
            return self.exclude();
        }
        Answer::Got
    }

    /// Goes from `Shared` to `Exclusive` if nobody else reads, or is going to write; returns whether it did. Whoever comes
    /// until [`Self::unlock`] waits, and is busy only if that takes long: the caller waits for no lock of theirs meanwhile.
    pub fn exclude_if_alone(&mut self) -> bool {
        if self.level != Level::Shared || self.is_beside_readers() {
            return false;
        }
        let found = Writer::of(self.words.load(WRITER));
        if found.turn != Turn::None && self.lives(found.slot) {
            return false;
        }
        let next = found.next(self.slot as u64, Turn::Looking);
        if !self.words.swap(WRITER, found.word(), next.word()) {
            return false;
        }
        self.writer = Some(next);
        // Whoever has begun to read before it saw that does not wait, and may be waited for.
        if self.is_beside_readers() {
            self.unlock(Level::Shared);
            return false;
        }
        self.go_on(next, Turn::Alone);
        self.level = Level::Exclusive;
        true
    }

    /// Goes back to `Shared` or `None`, as SQLite's xUnlock does.
    pub fn unlock(&mut self, level: Level) {
        if let Some(writer) = self.writer.take() {
            self.words.store(WRITER, writer.next(0, Turn::None).word());
        }
        if level == Level::None {
            self.words.store(self.slot + 1, self.quiet);
        }
        self.level = self.level.min(level);
    }

    /// Ends a replay: others may come in. The connection has no lock then.
    pub fn replayed(&mut self) {
        debug_assert!(self.writer.is_some_and(|writer| writer.turn == Turn::Replaying));
        self.unlock(Level::None);
    }

    /// Gives a turn up in the middle, as one who dies: who comes next replays. The connection has no
    /// lock then.
    pub fn leave_half_way(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.words.store(WRITER, writer.next(NOBODY, Turn::Replaying).word());
        }
        self.unlock(Level::None);
    }

    /// Returns whether a living connection, this one too, is `Reserved`, or has come farther from there.
    pub fn is_reserved(&self) -> bool {
        let writer = Writer::of(self.words.load(WRITER));
        // Beside an `Exclusive` one nobody asks who reads.
        writer.is_for_writing() && self.lives(writer.slot)
    }

    fn lives(&self, slot: u64) -> bool {
        slot == self.slot as u64
            || (slot < self.slots as u64 && self.liveness.is_alive(slot as usize))
    }

    /// Takes the word of a dead writer, if it still is what was found. Returns `Replay` if the caller
    /// has it now and has to replay, `None` if the caller is to look again.
    fn take_over(&mut self, dead: Writer) -> Option<Answer> {
        let replay = dead.may_be_half_way();
        let next = match replay {
            true => dead.next(self.slot as u64, Turn::Replaying),
            false => dead.next(0, Turn::None),
        };
        if self.words.swap(WRITER, dead.word(), next.word()) && replay {
            self.writer = Some(next);
            return Some(Answer::Replay);
        }
        None
    }

    /// Waits until a living one has gone on, if it goes on by itself. `pauses` are those before; returns false if the caller
    /// is busy.
    fn outlasts(&self, other: Writer, pauses: &mut u32) -> bool {
        let waits = other.ends_by_itself() && *pauses < PAUSES_MAX;
        if waits {
            self.words.pause(*pauses);
            *pauses += 1;
        }
        waits
    }

    /// Begins to read.
    fn share(&mut self) -> Answer {
        let mut pauses = 0;
        loop {
            self.words.store(self.slot + 1, self.quiet + 1);
            let writer = Writer::of(self.words.load(WRITER));
            if !writer.keeps_readers_out() {
                self.level = Level::Shared;
                return Answer::Got;
            }
            self.words.store(self.slot + 1, self.quiet);
            if self.lives(writer.slot) {
                if self.outlasts(writer, &mut pauses) {
                    continue;
                }
                return Answer::Busy;
            }
            if let Some(answer) = self.take_over(writer) {
                return answer;
            }
        }
    }

    /// Begins a turn as a writer.
    fn begin(&mut self, turn: Turn, level: Level) -> Answer {
        let mut pauses = 0;
        loop {
            let found = Writer::of(self.words.load(WRITER));
            if found.turn != Turn::None && self.lives(found.slot) {
                // It looks, and finds this one.
                if self.outlasts(found, &mut pauses) {
                    continue;
                }
                return Answer::Busy;
            }
            // One who died while this one reads had not begun to write: only then nobody reads.
            let next = found.next(self.slot as u64, turn);
            if self.words.swap(WRITER, found.word(), next.word()) {
                self.writer = Some(next);
                self.level = level;
                return Answer::Got;
            }
        }
    }

    /// Waits for no reader: it is alone, or busy.
    fn exclude(&mut self) -> Answer {
        match self.writer {
            None => {
                if self.begin(Turn::Straight, Level::Pending) == Answer::Busy {
                    return Answer::Busy;
                }
            }
            Some(writer) if writer.turn == Turn::Straight => {}
            Some(writer) => self.go_on(writer, Turn::Pending),
        }
        self.level = Level::Pending;
        if self.is_beside_readers() {
            return Answer::Busy;
        }
        if let Some(writer) = self.writer {
            self.go_on(writer, Turn::Exclusive);
        }
        self.level = Level::Exclusive;
        Answer::Got
    }

    /// Returns whether another living one reads. The words of dead ones are wiped away.
    fn is_beside_readers(&self) -> bool {
        for slot in (0..self.slots).filter(|slot| *slot != self.slot) {
            loop {
                let word = self.words.load(slot + 1);
                if word & 1 == 0 {
                    break;
                }
                if self.lives(slot as u64) {
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
    fn go_on(&mut self, writer: Writer, turn: Turn) {
        if writer.turn != turn {
            let next = Writer { turn, ..writer };
            self.words.store(WRITER, next.word());
            self.writer = Some(next);
        }
    }
}
