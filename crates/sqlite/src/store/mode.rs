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
    /// All of it, with one fence.
    Full,
}

impl Mode {
    /// All.
    pub const ALL: [Self; 3] = [Self::Fash1, Self::Fash, Self::Full];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fash1 => "fash1",
            Self::Fash => "fash",
            Self::Full => "full",
        }
    }

    /// The mode of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
