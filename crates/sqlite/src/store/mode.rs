//! The part of a changed page that is logged.

/// The part of a changed page that is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// The runs of bytes that differ, with one fence a commit.
    #[default]
    Fash1,
    /// All of it.
    Full,
}

impl Mode {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fash1 => "fash1",
            Self::Full => "full",
        }
    }

    /// The mode of a name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Fash1, Self::Full].into_iter().find(|mode| mode.name() == name)
    }
}
