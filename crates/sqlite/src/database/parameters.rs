//! Values of URI parameters and pragmas.

use pm::{Domain, Escaped};

use crate::database::contract::{Failure, OpenOptions};
use crate::store::mode::Mode;

/// The value of `perdura_share`: who may use the database.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Share {
    /// Connections of this VFS.
    #[default]
    Perdura,
    /// Stock SQLite as well.
    Stock,
}

impl Share {
    /// All values.
    const ALL: [Self; 2] = [Self::Perdura, Self::Stock];

    /// The value's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Perdura => "perdura",
            Self::Stock => "stock",
        }
    }

    /// The value of a name, or the error for an unknown one.
    pub(super) fn of(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|share| share.name() == name);
        found.ok_or_else(|| format!("`{}` is unknown; there are perdura, stock", Escaped(name)))
    }
}

/// The domain in the options.
pub(super) fn chosen_domain(options: &OpenOptions) -> Result<Option<Domain>, Failure> {
    let parse = |word: &String| {
        word.parse().map_err(|error| Failure::CannotOpen(format!("perdura_domain: {error}")))
    };
    options.domain.as_ref().map(parse).transpose()
}

/// The value of `perdura_share` in the options.
pub(super) fn chosen_share(options: &OpenOptions) -> Result<Share, Failure> {
    let unknown = |why| Failure::CannotOpen(format!("perdura_share: {why}"));
    options.share.as_deref().map_or(Ok(Share::default()), Share::of).map_err(unknown)
}

/// The mode in the options.
pub(super) fn chosen_mode(options: &OpenOptions) -> Result<Option<Mode>, Failure> {
    let unknown = |word: &String| Failure::CannotOpen(format!("perdura_mode: {}", no_mode(word)));
    let parse = |word: &String| Mode::of(word).ok_or_else(|| unknown(word));
    options.mode.as_ref().map(parse).transpose()
}

/// The value of `perdura_wal`: what a database in SQLite's WAL mode is logged in.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Wal {
    /// It is left to SQLite's own VFS.
    Off,
    /// SQLite's log.
    #[default]
    On,
    /// The same as an image, and a differential log.
    Diff,
}

impl Wal {
    /// All values.
    const ALL: [Self; 3] = [Self::Off, Self::On, Self::Diff];

    /// The value's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Diff => "diff",
        }
    }
}

/// The value of `perdura_wal` in the options.
pub(super) fn chosen_wal(options: &OpenOptions) -> Result<Wal, Failure> {
    let Some(word) = options.wal.as_deref() else { return Ok(Wal::default()) };
    Wal::ALL.into_iter().find(|wal| wal.name() == word).ok_or_else(|| {
        let word = Escaped(word);
        Failure::CannotOpen(format!("perdura_wal: `{word}` is unknown; there are off, on, diff"))
    })
}

/// Returns whether SQLite takes a word for false.
pub(super) fn is_no(word: &str) -> bool {
    ["0", "off", "no", "false"].iter().any(|no| word.eq_ignore_ascii_case(no))
}

/// The error for an unknown mode.
pub(super) fn no_mode(word: &str) -> String {
    let all = Mode::ALL.map(Mode::name).join(", ");
    format!("`{}` is no mode; there are {all}, and stock in a URI", Escaped(word))
}
