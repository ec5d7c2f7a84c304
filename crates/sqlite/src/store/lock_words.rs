//! The words that connections share for SQLite's locks of its write-ahead log, and for the queue of those that wait for
//! the one for writing. The queue of the rollback modes has words of the same names; the lock is the database there.

/// The shared words.
pub trait LockWords {
    /// Returns a word's value.
    fn load(&self, word: Word) -> u64;
    /// Stores a value. This thread's earlier accesses come before it.
    fn store(&self, word: Word, value: u64);
    /// Stores a value before any later load of this thread.
    fn store_first(&self, word: Word, value: u64);
    /// Stores `new` if the value is `old`, before any later load of this thread; returns whether it was.
    fn swap(&self, word: Word, old: u64, new: u64) -> bool;
    /// Lets a moment pass between two loads of a word that will change soon.
    fn pause(&self);
    /// Lets other threads run.
    fn yields(&self);
    /// Waits until [`Self::wake`] is called for the word, for at most so many microseconds, unless the word has another
    /// value than `seen`. May end early. Returns false if the time has passed.
    fn wait(&self, word: Word, seen: u64, limit_us: u64) -> bool;
    /// Wakes the connection that waits for the word, which was changed before.
    fn wake(&self, word: Word);
    /// A clock, in microseconds from any start, the same for all connections.
    fn microseconds(&self) -> u64;
}

/// A shared word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// The owner of a lock; 0 if there is none.
    Owner(usize),
    /// The number of lines that are or were in use.
    Lines,
    /// A connection's generation, and the locks that it tries and holds.
    Line(usize),
    /// The number of shared locks that the connection of a line has taken.
    Takes(usize),
    /// The connection that gets the lock for writing next, as an owner; 0 if there is none.
    Claim,
    /// The time when a claimant last got the lock for writing.
    Handed,
    /// The time since when the connection of a line has wanted the lock for writing; 0 if it does not wait.
    Since(usize),
    /// The time until which it is taken to wait.
    Until(usize),
    /// A number that changes when the connection of a line is woken.
    Wake(usize),
}
