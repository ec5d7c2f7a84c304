//! What an engine reports of its work.

use storage::WorkDone;

/// Levels of runs that [`EngineStats`] tells apart.
pub const STATS_LEVELS: usize = storage::lsm::tree::LEVELS;

/// What an engine has done since it was opened, and what it has put off. Counts only: how long
/// anything took is for whoever measures. What an engine does not do is zero.
///
/// | engine | writes, beside its log | puts off |
/// |---|---|---|
/// | `inp` | checkpoints | steps of a checkpoint |
/// | `cow` | pages | the collection of a dead directory |
/// | `log` | flushed and merged runs | flushes, merges |
/// | `nvm-inp` | nothing that is not a tuple or an index | nothing |
/// | `nvm-cow` | nodes | the collection of a dead directory |
/// | `nvm-log` | merged runs | filters, merges, taking merged runs apart |
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct EngineStats {
    /// Bytes of values in inserts and updates, those of aborted transactions included.
    pub user_bytes: u64,
    /// Bytes of records appended to the log: redo records of `inp` and `log`, undo entries of
    /// `nvm-inp` and `nvm-log`, entries of the batches' lists of `nvm-cow`.
    pub logged_bytes: u64,
    /// Copy-on-write: groups of transactions that a move of the master record made durable.
    pub batches: u64,
    /// Copy-on-write: pages that changes of trees have made, copies of older ones for the most
    /// part.
    pub made_pages: u64,
    /// Copy-on-write: bytes of pages written back.
    pub page_bytes: u64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Bytes of their files.
    pub checkpoint_bytes: u64,
    /// Bytes written by flushing MemTables. `nvm-log` freezes them where they are, which writes
    /// nothing.
    pub flushed_bytes: u64,
    /// Bytes written by merges into each level.
    pub merged_bytes: [u64; STATS_LEVELS],
    /// Runs at each level now.
    pub runs: [u32; STATS_LEVELS],
    /// Their bytes.
    pub run_bytes: [u64; STATS_LEVELS],
    /// MemTables that were flushed, or frozen.
    pub flushes: u64,
    /// Merges that were done.
    pub merges: u64,
    /// How often a writer had to wait for a flush or a merge to end.
    pub stalls: u64,
    /// Steps that failed, for want of room for the most part; they are tried again.
    pub failures: u64,
    /// Bytes of the work that waits, about.
    pub waiting_bytes: u64,
    /// Work that was put off and that transactions, or [`crate::Engine::checkpoint`], did then.
    pub inline: WorkDone,
    /// Work that [`crate::Engine::background`] did.
    pub background: WorkDone,
}

impl EngineStats {
    /// Bytes flushed, merged and written in pages for each byte of the user's; 0 if there was
    /// none. Log and checkpoints come on top of it.
    pub fn write_amplification(&self) -> f64 {
        let merged = self.merged_bytes.iter().sum::<u64>();
        let written = self.flushed_bytes + merged + self.page_bytes;
        if self.user_bytes == 0 { 0.0 } else { written as f64 / self.user_bytes as f64 }
    }
}

impl std::ops::AddAssign for EngineStats {
    fn add_assign(&mut self, other: Self) {
        self.user_bytes += other.user_bytes;
        self.logged_bytes += other.logged_bytes;
        self.batches += other.batches;
        self.made_pages += other.made_pages;
        self.page_bytes += other.page_bytes;
        self.checkpoints += other.checkpoints;
        self.checkpoint_bytes += other.checkpoint_bytes;
        self.flushed_bytes += other.flushed_bytes;
        for level in 0..STATS_LEVELS {
            self.merged_bytes[level] += other.merged_bytes[level];
            self.runs[level] += other.runs[level];
            self.run_bytes[level] += other.run_bytes[level];
        }
        self.flushes += other.flushes;
        self.merges += other.merges;
        self.stalls += other.stalls;
        self.failures += other.failures;
        self.waiting_bytes += other.waiting_bytes;
        self.inline += other.inline;
        self.background += other.background;
    }
}
