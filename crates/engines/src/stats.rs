//! The figures that an engine reports of its work.
//!
//! [`EngineStats`] has what every engine counts, and in [`EngineStats::own`] what one engine
//! counts.

use storage::WorkDone;

use crate::counts::Count;
use crate::kind::EngineKind;
use crate::own::OwnStats;

/// Reports what an engine has done since it was opened, and what it has put off. Counts only: times
/// are left to the caller's measurement.
///
/// | engine | writes, besides its log | puts off |
/// |---|---|---|
/// | `inp` | checkpoints | steps of a checkpoint |
/// | `cow` | pages | the collection of a dead directory |
/// | `log` | flushed and merged runs | flushes, merges |
/// | `nvm-inp` | nothing that is not a tuple or an index | nothing |
/// | `nvm-cow` | nodes | the collection of a dead directory |
/// | `nvm-log` | merged runs | filters, merges, taking merged runs apart |
/// | `nv-disk` | pages | nothing |
/// | `fast`, `fash` | nothing that is not a row or an index | nothing |
/// | `nvwal` | checkpoints | nothing |
/// | `sofort` | nothing that is not a version | building indexes, freeing versions |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineStats {
    /// Bytes of values in inserts and updates, those of aborted transactions included.
    pub user_bytes: u64,
    /// Bytes of records appended to the log: redo records of `inp` and `log`, all records of
    /// `nv-disk`, the lines of all records of `nv-logging-foi` and `nv-logging-foc`, undo entries
    /// of `nvm-inp` and `nvm-log`, entries of the batches' lists of `nvm-cow`, frames of `fast`,
    /// `fash` and `nvwal`, entries of statements of `sofort`. `cow` has no log.
    pub logged_bytes: u64,
    /// Steps that failed, for want of room for the most part; they are tried again.
    pub failures: u64,
    /// Bytes of the work that waits, about.
    pub waiting_bytes: u64,
    /// Work that was put off and that transactions, or [`crate::Engine::checkpoint`], did then.
    pub inline: WorkDone,
    /// Work that [`crate::Engine::background`] did.
    pub background: WorkDone,
    /// The counters of this engine that others do not have.
    pub own: OwnStats,
}

/// A structure of an engine that follows from its rows, such as an index, and that is built again
/// after an opening unless it lies in persistent memory (P4 4.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StructureStats {
    /// Its name, by which it can be placed: `TABLE.key`, the index of the primary key;
    /// `TABLE.index.NAME`, a secondary index; `TABLE.dictionary.COLUMN`, the index of a column's
    /// dictionary.
    pub name: String,
    /// The structure lies in persistent memory.
    pub durable: bool,
    /// Rows or values that were there at opening and are not in it yet.
    pub waiting: u64,
    /// Keys or values in it, if it lies in ordinary memory.
    pub built: u64,
    /// Searches, about; those before an opening count half. What was used most is built first.
    pub uses: u64,
}

impl EngineStats {
    /// Bytes flushed, merged and written in pages for each byte of the user's; 0 if there was
    /// none. Log and checkpoints come on top of it.
    pub fn write_amplification(&self) -> f64 {
        let written = self.own.written_bytes();
        if self.user_bytes == 0 { 0.0 } else { written as f64 / self.user_bytes as f64 }
    }
}

/// The statistics of an engine that has done nothing.
impl From<EngineKind> for EngineStats {
    fn from(kind: EngineKind) -> Self {
        Self {
            user_bytes: 0,
            logged_bytes: 0,
            failures: 0,
            waiting_bytes: 0,
            inline: WorkDone::default(),
            background: WorkDone::default(),
            own: kind.into(),
        }
    }
}

/// Adds up partitions.
///
/// # Panics
/// They are of different engines.
impl std::ops::AddAssign for EngineStats {
    fn add_assign(&mut self, other: Self) {
        let Self { user_bytes, logged_bytes, failures, waiting_bytes, inline, background, own } =
            other;
        self.user_bytes += user_bytes;
        self.logged_bytes += logged_bytes;
        self.failures += failures;
        self.waiting_bytes += waiting_bytes;
        self.inline += inline;
        self.background += background;
        self.own.add(&own);
    }
}

#[cfg(test)]
mod tests {
    use super::{EngineStats, WorkDone};
    use crate::counts::RunStats;
    use crate::{CowStats, EngineKind, InpStats, LogStats, OwnStats, PageStats};

    #[test]
    fn partitions_add_up_field_by_field() {
        let work = WorkDone { steps: 5, bytes: 6 };
        let levels = RunStats {
            merges: 1,
            merged_bytes: std::array::from_fn(|level| level as u64),
            runs: std::array::from_fn(|level| 10 + level as u32),
            run_bytes: std::array::from_fn(|level| 100 + level as u64),
        };
        let own = LogStats { flushes: 7, flushed_bytes: 8, stalls: 9, levels };
        let mut stats = EngineStats {
            user_bytes: 1,
            logged_bytes: 2,
            failures: 3,
            waiting_bytes: 4,
            inline: work,
            background: WorkDone { steps: 50, bytes: 60 },
            own: own.into(),
        };
        stats += stats;
        let levels = RunStats {
            merges: 2,
            merged_bytes: std::array::from_fn(|level| 2 * level as u64),
            runs: std::array::from_fn(|level| 2 * (10 + level as u32)),
            run_bytes: std::array::from_fn(|level| 2 * (100 + level as u64)),
        };
        let own = LogStats { flushes: 14, flushed_bytes: 16, stalls: 18, levels };
        let twice = EngineStats {
            user_bytes: 2,
            logged_bytes: 4,
            failures: 6,
            waiting_bytes: 8,
            inline: WorkDone { steps: 10, bytes: 12 },
            background: WorkDone { steps: 100, bytes: 120 },
            own: own.into(),
        };
        assert_eq!(stats, twice);
        assert_eq!(
            stats.write_amplification(),
            f64::from(16 + 2 * (1 + 2 + 3 + 4 + 5 + 6 + 7)) / 2.0
        );
    }

    #[test]
    fn the_counts_of_an_engine_are_its_own() {
        for kind in EngineKind::ALL {
            let stats = EngineStats::from(kind);
            assert_eq!((stats.own.kind(), stats.write_amplification()), (kind, 0.0));
            let runs = matches!(kind, EngineKind::Log | EngineKind::NvmLog);
            let pages = matches!(kind, EngineKind::Cow | EngineKind::NvmCow);
            let own = stats.own;
            assert_eq!((own.runs().is_some(), own.pages().is_some()), (runs, pages), "{kind}");
            let paged = EngineKind::P2.contains(&kind);
            assert_eq!(own.buffer().is_some(), paged, "{kind}");
        }
        let pages = PageStats { batches: 1, made_pages: 2, page_bytes: 3 };
        let own: OwnStats = CowStats { pages }.into();
        assert_eq!((own.pages(), own.kind()), (Some(&pages), EngineKind::Cow));
    }

    #[test]
    #[should_panic(expected = "counts of inp and of cow")]
    fn different_engines_do_not_add_up() {
        let own = InpStats { checkpoints: 1, checkpoint_bytes: 2 }.into();
        let mut stats = EngineStats { own, ..EngineKind::Inp.into() };
        stats += EngineKind::Cow.into();
    }
}
