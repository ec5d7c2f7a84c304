//! The schemes by their names.

use std::fmt;
use std::str::FromStr;

use pm::{Escaped, Memory};
use slotted::Scheme;

/// A thing that can be done with any scheme.
pub(super) trait Job<M: Memory> {
    /// The result.
    type Result;

    /// Does it.
    fn run<S: Scheme<M>>(self) -> Self::Result;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal,)*) => {
        /// A scheme of slotted pages.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum SchemeKind { $($(#[$doc])* $kind,)* }

        impl SchemeKind {
            /// All that work on every processor.
            pub const ALL: [Self; 8] = [
                Self::Fast, Self::Fash, Self::Nvwal, Self::Journal, Self::Wal, Self::Fash1,
                Self::Fast1, Self::Word,
            ];

            /// The name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }

        impl FromStr for SchemeKind {
            type Err = ParseKindError;

            fn from_str(text: &str) -> Result<Self, ParseKindError> {
                match text {
                    $($name => Ok(Self::$kind),)*
                    _ => Err(ParseKindError { given: text.to_owned() }),
                }
            }
        }

        /// The names, by comma.
        const NAMES: &[&str] = &[$($name,)*];

        /// Runs a job with the scheme of a kind.
        pub(super) fn with_scheme<M: Memory, J: Job<M>>(kind: SchemeKind, job: J) -> J::Result {
            match kind { $(SchemeKind::$kind => job.run::<slotted::$kind<M>>(),)* }
        }
    };
}

kinds! {
    /// Failure-atomic slotted pages with in-place commit (P3 4.2).
    Fast "fast",
    /// The same with slot-header logging alone (P3 4.1).
    Fash "fash",
    /// A log of what differs, over pages in ordinary memory (P3 2.2).
    Nvwal "nvwal",
    /// A rollback journal (P3 2.1).
    Journal "journal",
    /// A log of whole pages (P3 2.1).
    Wal "wal",
    /// FASH with one fence, by checksums.
    Fash1 "fash1",
    /// FAST with one fence, by checksums.
    Fast1 "fast1",
    /// FASH with commits in place by one word.
    Word "word",
    /// FAST with headers that the processor stores as whole lines.
    Line "line",
}

/// A name of no scheme.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{given}` is no scheme of slotted pages; choose one of {names}, or all", given = Escaped(.given), names = NAMES.join(", "))]
pub struct ParseKindError {
    given: String,
}

impl fmt::Display for SchemeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back() {
        for kind in SchemeKind::ALL.into_iter().chain([SchemeKind::Line]) {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let unknown = "slow".parse::<SchemeKind>().expect_err("no scheme").to_string();
        assert!(unknown.contains("slow") && unknown.contains("nvwal"), "{unknown}");
        assert_eq!(NAMES.len(), SchemeKind::ALL.len() + 1);
    }
}
