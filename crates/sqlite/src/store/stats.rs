//! Counters of a connection, as `PRAGMA perdura_stats` shows them.

/// The counters.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Transactions that changed something.
    pub commits: u64,
    /// Flushed lines.
    pub lines: u64,
    /// Fences.
    pub fences: u64,
    /// Logged changes of frames, or logged runs of bytes.
    pub frames: u64,
    /// Logged bytes.
    pub bytes: u64,
    /// Recoveries.
    pub recoveries: u64,
    /// Bytes stored directly, before the commit, and not logged.
    pub direct: u64,
    /// Pages of B-trees laid out for their frames.
    pub placed: u64,
    /// Pages logged as SQLite wrote them: those that are not of a B-tree, and all in mode `full`.
    pub exact: u64,
    /// Byte-wise commits.
    pub bytewise: u64,
    /// Pages that moved to another frame.
    pub moved: u64,
    /// Pages that returned to their own frames.
    pub restored: u64,
    /// Commits that recoveries replayed.
    pub replayed: u64,
    /// Commits that stored a page's header in place.
    pub in_place: u64,
    /// Checkpoints of NVWAL's log.
    pub checkpoints: u64,
    /// Lines flushed for those checkpoints.
    pub checkpoint_lines: u64,
    /// Reads that SQLite got as copies.
    pub copied: u64,
    /// Pages that SQLite fetched in place.
    pub fetched: u64,
    /// Frames stored in SQLite's write-ahead log.
    pub wal_frames: u64,
}

impl Stats {
    /// The counters as a line of JSON.
    pub fn json(&self) -> String {
        let counts = [
            ("commits", self.commits),
            ("lines", self.lines),
            ("fences", self.fences),
            ("frames", self.frames),
            ("bytes", self.bytes),
            ("recoveries", self.recoveries),
            ("direct", self.direct),
            ("placed", self.placed),
            ("exact", self.exact),
            ("bytewise", self.bytewise),
            ("moved", self.moved),
            ("home", self.restored),
            ("replayed", self.replayed),
            ("in_place", self.in_place),
            ("checkpoints", self.checkpoints),
            ("checkpoint_lines", self.checkpoint_lines),
            ("copied", self.copied),
            ("lent", self.fetched),
            ("wal_frames", self.wal_frames),
        ];
        let all: Vec<String> =
            counts.iter().map(|(name, count)| format!("\"{name}\":{count}")).collect();
        format!("{{{}}}", all.join(","))
    }
}
