//! The engines of P3, on slotted pages in persistent memory: failure-atomic slotted paging in its
//! two forms, NVWAL, with which P3 compares them, and the rollback journal and the write-ahead log
//! of pages that it begins with.
//!
//! Operations and recovery are the same in all of them: see [`crate::slotted`]. They differ in how
//! a transaction commits:
//!
//! | engine | COMMIT | fences |
//! |---|---|---|
//! | FAST (P3 4.2) | in place, by the header, if the records of one leaf are all that changes; else as FASH | 2, or 3 |
//! | FASH (P3 4.1) | by the log of slot headers, which has no records | 3 |
//! | NVWAL (P3 2.2) | by a log of the bytes that differ from pages in volatile memory; after a thousand frames a checkpoint stores them in the pages | 2 |
//! | journal (P3 2.1) | by saving each page that changes, then overwriting it | 3 |
//! | wal (P3 2.1) | as NVWAL, by a log of whole pages | 2 |
//!
//! With the option `checksummed`, FAST and FASH commit with one fence: checksums say after a crash
//! whether all of a commit is durable. P3 has no such forms.
//!
//! Invariants: those of [`slotted`] and of each scheme.

mod options;
mod stats;

use pm::Environment;
use slotted::Commits;

use crate::kind::EngineKind;
use crate::own::OwnStats;
use crate::slotted::{Slotted, SlottedScheme};

pub use options::{FashOptions, FastOptions, JournalOptions, NvwalOptions, WalOptions};
pub use stats::{FashStats, FastStats, JournalStats, NvwalStats, WalStats};

/// A partition of FAST; see the module's comment.
pub type Fast<E> = Slotted<E, slotted::Fast<<E as Environment>::Durable>>;

/// A partition of FASH; see the module's comment.
pub type Fash<E> = Slotted<E, slotted::Fash<<E as Environment>::Durable>>;

/// A partition of NVWAL; see the module's comment.
pub type Nvwal<E> = Slotted<E, slotted::Nvwal<<E as Environment>::Durable>>;

/// A partition of the rollback journal; see the module's comment.
pub type Journal<E> = Slotted<E, slotted::Journal<<E as Environment>::Durable>>;

/// A partition of the write-ahead log of pages; see the module's comment.
pub type Wal<E> = Slotted<E, slotted::Wal<<E as Environment>::Durable>>;

/// Makes a scheme that of an engine: whether pages are cached, its options and its counters; then,
/// where it has them, the form with checksums and the frames of its log.
macro_rules! scheme {
    (
        $scheme:ident as $kind:ident, $cached:literal, $options:ident, $stats:expr
        $(, checksummed: $checksummed:ident if $chosen:expr)?
        $(, frames: $frames:ident)?
    ) => {
        impl<E: Environment> SlottedScheme<E> for slotted::$scheme<E::Durable> {
            const KIND: EngineKind = EngineKind::$kind;
            const CACHES_PAGES: bool = $cached;
            type Options = $options;
            type Checksummed = scheme!(@checksummed $scheme $($checksummed)?);

            fn page_bytes(options: &$options) -> u32 {
                options.page_bytes
            }

            fn own_stats(commits: &Commits) -> OwnStats {
                let stats: fn(Commits) -> OwnStats = $stats;
                stats(*commits)
            }

            $(fn is_checksummed(options: &$options) -> bool {
                let chosen: fn(&$options) -> bool = $chosen;
                chosen(options)
            })?

            $(fn checkpoint_frames(options: &$options) -> Option<u32> {
                Some(options.$frames)
            })?
        }
    };
    (@checksummed $scheme:ident) => { Self };
    (@checksummed $scheme:ident $checksummed:ident) => { slotted::$checksummed<E::Durable> };
}

scheme!(Fast as Fast, false, FastOptions, fast, checksummed: Fast1 if |chosen| chosen.checksummed == 1);
scheme!(Fast1 as Fast, false, FastOptions, fast);
scheme!(Fash as Fash, false, FashOptions, fash, checksummed: Fash1 if |chosen| chosen.checksummed == 1);
scheme!(Fash1 as Fash, false, FashOptions, fash);
scheme!(Nvwal as Nvwal, true, NvwalOptions, nvwal, frames: checkpoint_frames);
scheme!(Journal as Journal, true, JournalOptions, journal);
scheme!(Wal as Wal, true, WalOptions, wal, frames: checkpoint_frames);

fn fast(commits: Commits) -> OwnStats {
    FastStats { in_place: commits.in_place, logged: commits.logged }.into()
}

fn fash(commits: Commits) -> OwnStats {
    FashStats { logged: commits.logged }.into()
}

fn nvwal(Commits { logged, checkpoints, checkpoint_bytes, .. }: Commits) -> OwnStats {
    NvwalStats { logged, checkpoints, checkpoint_bytes }.into()
}

fn journal(commits: Commits) -> OwnStats {
    JournalStats { logged: commits.logged, page_bytes: commits.checkpoint_bytes }.into()
}

fn wal(Commits { logged, checkpoints, checkpoint_bytes, .. }: Commits) -> OwnStats {
    WalStats { logged, checkpoints, checkpoint_bytes }.into()
}
