//! The engines of P3, on slotted pages in persistent memory: failure-atomic slotted paging in its two
//! forms, and NVWAL, with which P3 compares them.
//!
//! Operations and recovery are the same in all three: see [`crate::slotted`]. They differ in how a
//! transaction commits:
//!
//! | engine | COMMIT | fences |
//! |---|---|---|
//! | FAST (P3 4.2) | in place, by the header, if the records of one leaf are all that changes; else as FASH | 2, or 3 |
//! | FASH (P3 4.1) | by the log of slot headers, which has no records | 3 |
//! | NVWAL (P3 2.2) | by a log of the bytes that differ from pages in volatile memory; after a thousand frames a checkpoint stores them in the pages | 2 |
//!
//! Invariants: those of [`slotted`] and of each scheme.

mod options;
mod stats;

use pm::Environment;
use slotted::Commits;

use crate::kind::EngineKind;
use crate::own::OwnStats;
use crate::slotted::{Slotted, SlottedScheme};

pub use options::{FashOptions, FastOptions, NvwalOptions};
pub use stats::{FashStats, FastStats, NvwalStats};

/// A partition of FAST; see the module's comment.
pub type Fast<E> = Slotted<E, slotted::Fast<<E as Environment>::Durable>>;

impl<E: Environment> SlottedScheme<E> for slotted::Fast<E::Durable> {
    const KIND: EngineKind = EngineKind::Fast;
    const CACHES_PAGES: bool = false;
    type Options = FastOptions;

    fn page_bytes(options: &FastOptions) -> u32 {
        options.page_bytes
    }

    fn own_stats(commits: &Commits) -> OwnStats {
        FastStats { in_place: commits.in_place, logged: commits.logged }.into()
    }
}

/// A partition of FASH; see the module's comment.
pub type Fash<E> = Slotted<E, slotted::Fash<<E as Environment>::Durable>>;

impl<E: Environment> SlottedScheme<E> for slotted::Fash<E::Durable> {
    const KIND: EngineKind = EngineKind::Fash;
    const CACHES_PAGES: bool = false;
    type Options = FashOptions;

    fn page_bytes(options: &FashOptions) -> u32 {
        options.page_bytes
    }

    fn own_stats(commits: &Commits) -> OwnStats {
        FashStats { logged: commits.logged }.into()
    }
}

/// A partition of NVWAL; see the module's comment.
pub type Nvwal<E> = Slotted<E, slotted::Nvwal<<E as Environment>::Durable>>;

impl<E: Environment> SlottedScheme<E> for slotted::Nvwal<E::Durable> {
    const KIND: EngineKind = EngineKind::Nvwal;
    const CACHES_PAGES: bool = true;
    type Options = NvwalOptions;

    fn page_bytes(options: &NvwalOptions) -> u32 {
        options.page_bytes
    }

    fn own_stats(commits: &Commits) -> OwnStats {
        let Commits { logged, checkpoints, checkpoint_bytes, .. } = *commits;
        NvwalStats { logged, checkpoints, checkpoint_bytes }.into()
    }
}
