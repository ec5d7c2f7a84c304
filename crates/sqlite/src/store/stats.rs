//! Counts of what a connection has done, as `PRAGMA perdura_stats` shows them.

/// Counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Transactions that changed something.
    pub commits: u64,
    /// Lines that were flushed.
    pub lines: u64,
    /// Fences.
    pub fences: u64,
    /// Changes of frames, or runs of bytes, that were logged.
    pub frames: u64,
    /// Bytes that were logged.
    pub bytes: u64,
    /// Times that the logs were replayed.
    pub recoveries: u64,
    /// Bytes that were stored before the commit, and not logged.
    pub direct: u64,
    /// Pages of B-trees that were laid out for their frames.
    pub placed: u64,
    /// Pages that were logged as SQLite wrote them: those that are none of a B-tree, and all in mode `full`.
    pub exact: u64,
    /// Commits that went by bytes and not by pages.
    pub bytewise: u64,
    /// Pages that took another frame.
    pub moved: u64,
    /// Pages that were taken home.
    pub restored: u64,
    /// Commits that recoveries stored again.
    pub replayed: u64,
    /// Commits that stored a page's header in place.
    pub in_place: u64,
    /// Times that the log of frames was put in place.
    pub checkpoints: u64,
    /// Lines of those that were flushed for that.
    pub checkpoint_lines: u64,
    /// Times that SQLite was given a copy of bytes of the database.
    pub copied: u64,
    /// Times that SQLite was lent a page where it is.
    pub fetched: u64,
}

impl Stats {
    /// The counts as a line of JSON.
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
        ];
        let all: Vec<String> =
            counts.iter().map(|(name, count)| format!("\"{name}\":{count}")).collect();
        format!("{{{}}}", all.join(","))
    }
}
