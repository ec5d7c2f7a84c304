//! The choice of an engine: one by its name, or `paged`, which leaves to the medium where its log
//! lies.

use std::fmt;
use std::str::FromStr;

use engines::below::Domain;
use engines::{EngineKind, EngineOptions, ParseEngineError};

/// The name of the engine for data larger than memory and many transactions at once.
const PAGED: &str = "paged";

/// An engine as it is named for a new database: one of them, with what was chosen about it, or
/// `paged`.
///
/// ```
/// # use perdura::*;
/// // On a disk this is `nv-disk`, on persistent memory and tmpfs `nv-logging-foc`.
/// Options::new().engine(EngineChoice::Paged);
/// assert!(matches!("paged".parse(), Ok(EngineChoice::Paged)));
/// assert_eq!("cow".parse::<EngineChoice>()?, EngineKind::Cow.into());
/// # Ok::<(), ParseChoiceError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EngineChoice {
    /// This engine.
    Known(EngineOptions),
    /// The engine for data larger than memory and many transactions at once (P2): `nv-logging-foc`
    /// where the pool lies on persistent memory or tmpfs, `nv-disk` where it lies on a disk. Which
    /// one it was is fixed when the database is created, and the database says so.
    Paged,
}

impl<T: Into<EngineOptions>> From<T> for EngineChoice {
    fn from(engine: T) -> Self {
        Self::Known(engine.into())
    }
}

impl EngineChoice {
    /// The engine, whatever the medium; `None` if that depends on it.
    pub fn kind(&self) -> Option<EngineKind> {
        match self {
            Self::Known(options) => Some(options.kind()),
            Self::Paged => None,
        }
    }

    /// The engine of a new database on a medium that keeps so much by itself.
    pub(crate) fn kind_on(&self, natural: Domain) -> EngineKind {
        match (self, natural) {
            (Self::Known(options), _) => options.kind(),
            (Self::Paged, Domain::Disk) => EngineKind::NvDisk,
            (Self::Paged, Domain::Process | Domain::Adr | Domain::Eadr) => EngineKind::NvLoggingFoc,
        }
    }

    /// Returns whether a database of this engine may have come of it.
    pub(crate) fn allows(&self, kind: EngineKind) -> bool {
        match self {
            Self::Known(options) => options.kind() == kind,
            Self::Paged => matches!(kind, EngineKind::NvDisk | EngineKind::NvLoggingFoc),
        }
    }
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(options) => options.kind().fmt(f),
            Self::Paged => f.write_str(PAGED),
        }
    }
}

/// The error of a word that names no engine, and is not `paged`.
///
/// ```
/// # use perdura::*;
/// let wrong: ParseChoiceError = "lsm".parse::<EngineChoice>().unwrap_err();
/// assert!(wrong.to_string().ends_with(", paged"));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{0}, {PAGED}")]
pub struct ParseChoiceError(#[from] ParseEngineError);

impl FromStr for EngineChoice {
    type Err = ParseChoiceError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            PAGED => Ok(Self::Paged),
            word => Ok(word.parse::<EngineKind>()?.into()),
        }
    }
}
