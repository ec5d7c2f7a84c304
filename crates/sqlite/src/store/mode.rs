//! How a connection commits: what of a changed page is logged, and in which order that becomes durable.

/// The way in which a connection commits. All leave the same files, and read and recover what any other one has
/// committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// The runs of bytes that differ, with one fence a commit.
    #[default]
    Fash1,
    /// The same runs, in the order of P3 3.3: logged, marked, put in place, each with a fence.
    Fash,
    /// As `fash`; but where one word of a page's header says all, or one line does and the processor stores it whole,
    /// that is stored in place, with two fences (P3 3.2).
    Fast,
    /// As NVWAL (P3 2.2): the runs that differ from the page as SQLite had it go to a log, two fences, and are put in place
    /// after 1,000 of them.
    Nvwal,
    /// All of it, with one fence.
    Full,
}

impl Mode {
    /// All.
    pub const ALL: [Self; 5] = [Self::Fash1, Self::Fash, Self::Fast, Self::Nvwal, Self::Full];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fash1 => "fash1",
            Self::Fash => "fash",
            Self::Fast => "fast",
            Self::Nvwal => "nvwal",
            Self::Full => "full",
        }
    }

    /// Returns whether what it logs becomes durable in the order of P3 3.3.
    pub const fn is_ordered(self) -> bool {
        matches!(self, Self::Fash | Self::Fast)
    }

    /// The mode of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
