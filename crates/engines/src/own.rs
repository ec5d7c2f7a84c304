//! The counters of one engine that others do not have.

use crate::counts::{BufferStats, Count, EngineCounts, PageStats, RunStats};
use crate::kind::EngineKind;
use crate::list::with_engines;

macro_rules! own_stats {
    ($(#[doc = $doc:literal] $kind:ident, $name:literal, $options:ident, $stats:ident;)+) => {
        $(use crate::$stats;)+

        /// The counters of one engine that others do not have. Comes from an [`EngineKind`], with
        /// nothing done yet, and from the counts of each engine.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum OwnStats {
            $(#[doc = $doc] $kind($stats),)+
        }

        impl From<EngineKind> for OwnStats {
            fn from(kind: EngineKind) -> Self {
                match kind {
                    $(EngineKind::$kind => Self::$kind($stats::default()),)+
                }
            }
        }

        $(impl From<$stats> for OwnStats {
            fn from(stats: $stats) -> Self {
                Self::$kind(stats)
            }
        })+

        impl OwnStats {
            /// Returns the kind of engine that they belong to.
            pub const fn kind(&self) -> EngineKind {
                match self {
                    $(Self::$kind(_) => EngineKind::$kind,)+
                }
            }

            /// The counters of a log-structured engine's runs.
            pub fn runs(&self) -> Option<&RunStats> {
                match self {
                    $(Self::$kind(stats) => stats.runs(),)+
                }
            }

            /// The counters of a copy-on-write engine's pages.
            pub fn pages(&self) -> Option<&PageStats> {
                match self {
                    $(Self::$kind(stats) => stats.pages(),)+
                }
            }

            /// The counters of a paged engine's buffer pool and locks.
            pub fn buffer(&self) -> Option<&BufferStats> {
                match self {
                    $(Self::$kind(stats) => stats.buffer(),)+
                }
            }

            /// Bytes flushed, merged and written in pages.
            pub(crate) fn written_bytes(&self) -> u64 {
                match self {
                    $(Self::$kind(stats) => stats.written_bytes(),)+
                }
            }
        }

        /// # Panics
        /// They are of different engines.
        impl Count for OwnStats {
            fn add(&mut self, other: &Self) {
                match (self, other) {
                    $((Self::$kind(stats), Self::$kind(other)) => stats.add(other),)+
                    (stats, other) => {
                        panic!("counts of {} and of {} added up", stats.kind(), other.kind())
                    }
                }
            }
        }
    };
}

with_engines!(own_stats);
