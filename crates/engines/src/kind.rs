//! The kind of an engine, and its name.

use pm::Escaped;
use std::fmt;
use std::str::FromStr;

use crate::list::with_engines;

macro_rules! kinds {
    ($(#[doc = $doc:literal] $kind:ident, $name:literal, $options:ident, $stats:ident;)+) => {
        /// The kind of an engine.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum EngineKind {
            $(#[doc = $doc] $kind,)+
        }

        impl EngineKind {
            /// All engines, in the order of the papers.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind),+];

            /// The engine's name, as the command writes it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

with_engines!(kinds);

impl EngineKind {
    /// The engines of P1, in its order.
    pub const P1: [Self; 6] =
        [Self::Inp, Self::Cow, Self::Log, Self::NvmInp, Self::NvmCow, Self::NvmLog];

    /// The engines of P2, on pages in a buffer pool. They differ only in the log.
    pub const P2: [Self; 3] = [Self::NvDisk, Self::NvLoggingFoi, Self::NvLoggingFoc];

    /// The engines of P3, on slotted pages: the same but for how transactions commit.
    pub const P3: [Self; 5] = [Self::Fast, Self::Fash, Self::Nvwal, Self::Journal, Self::Wal];
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no engine.
#[derive(Debug, thiserror::Error)]
#[error("there is no engine `{word}`; there are {names}", word = Escaped(.0), names = EngineKind::ALL.map(EngineKind::name).join(", "))]
pub struct ParseEngineError(String);

impl FromStr for EngineKind {
    type Err = ParseEngineError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == word)
            .ok_or_else(|| ParseEngineError(word.into()))
    }
}
