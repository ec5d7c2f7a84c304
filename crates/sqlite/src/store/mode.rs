//! Commit modes: what of a changed page is logged, and in which order it becomes durable.

use pm::Domain;

/// The way in which a connection commits. All modes share the file formats, and each reads and recovers the commits
/// of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Logs the runs of bytes that differ, with one fence a commit.
    #[default]
    Fash1,
    /// Logs the same runs in the order of P3 3.3: log, mark, apply, each with a fence.
    Fash,
    /// As `fash`, but if only one word of a page's header changes, or one line that the processor can store whole,
    /// that is stored in place, with two fences (P3 3.2).
    Fast,
    /// As NVWAL (P3 2.2): logs the runs that differ from SQLite's previous page, with two fences; a checkpoint
    /// applies them after 1,000.
    Nvwal,
    /// Logs whole pages, with one fence.
    Full,
    /// Logs the words that differ, with one fence. No page is looked into.
    Lean,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 6] =
        [Self::Lean, Self::Fash1, Self::Fash, Self::Fast, Self::Nvwal, Self::Full];

    /// The mode for a domain: where stores are durable without a flush, the least work wins; elsewhere the fewest
    /// lines.
    pub const fn for_domain(domain: Domain) -> Self {
        match domain {
            Domain::Process | Domain::Eadr => Self::Lean,
            _ => Self::Fash1,
        }
    }

    /// The mode's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fash1 => "fash1",
            Self::Fash => "fash",
            Self::Fast => "fast",
            Self::Nvwal => "nvwal",
            Self::Full => "full",
            Self::Lean => "lean",
        }
    }

    /// Returns whether commits place cells: they lay pages out for their frames. NVWAL's do where its log does not hold
    /// the commit.
    pub const fn places_cells(self) -> bool {
        !matches!(self, Self::Full | Self::Lean)
    }

    /// Returns whether the log becomes durable in the order of P3 3.3.
    pub const fn is_ordered(self) -> bool {
        matches!(self, Self::Fash | Self::Fast)
    }

    /// The mode of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
