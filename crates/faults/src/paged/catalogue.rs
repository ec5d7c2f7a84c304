//! Faults that could be built into the paged store or one of its logs. Each must be noticed, or
//! there is a reason why it makes no difference.
//!
//! Faults of flushes, fences and syncs are put into the record, as for the other engines
//! ([`crate::catalogue`]). Others are [policies](Flaw) of the store that a test makes wrong, or
//! [lies](Lie) of the log.

use paged::flaw::Flaw;

use super::lies::Lie;
use super::run::{Plan, Workload};
use super::stage::LogKind;
use crate::explorer::{Again, Effort};
use crate::medium::Part;
use crate::mutation::{Code, Defect, Mutation, Where};

/// The place where a fault is put.
#[derive(Clone, Copy, Debug)]
pub enum Put {
    /// Into the record.
    Record(Mutation),
    /// Into the store.
    Store(Flaw),
    /// Between the store and its log.
    Log(Lie),
}

/// A fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Its name.
    pub name: &'static str,
    /// The log managers over which it must be noticed.
    pub logs: &'static [LogKind],
    /// The place.
    pub put: Put,
    /// The transactions that show it.
    pub workload: Workload,
}

const ALL: &[LogKind] = &LogKind::ALL;
const CENTRAL: &[LogKind] = &[LogKind::Central];
const ON_INSERT: &[LogKind] = &[LogKind::OnInsert];
const ON_COMMIT: &[LogKind] = &[LogKind::OnCommit];
const NV: &[LogKind] = &[LogKind::OnInsert, LogKind::OnCommit];
/// Those over which the durable log may end before the newest record.
const LATE: &[LogKind] = &[LogKind::Central, LogKind::OnCommit];

const fn record(
    name: &'static str,
    logs: &'static [LogKind],
    defect: Defect,
    (file, function, text): (&'static str, &'static str, &'static str),
) -> Fault {
    let at = Where::Code(Code { file, function, text });
    Fault { name, logs, put: Put::Record(Mutation { defect, at }), workload: Workload::Everything }
}

const fn store(name: &'static str, logs: &'static [LogKind], flaw: Flaw) -> Fault {
    of_workload(name, logs, flaw, Workload::Everything)
}

const fn of_workload(
    name: &'static str,
    logs: &'static [LogKind],
    flaw: Flaw,
    workload: Workload,
) -> Fault {
    Fault { name, logs, put: Put::Store(flaw), workload }
}

const fn log(name: &'static str, logs: &'static [LogKind], lie: Lie) -> Fault {
    Fault { name, logs, put: Put::Log(lie), workload: Workload::Everything }
}

const INSERT: &str = "paged/src/log/nv/insert.rs";
const COMMIT: &str = "paged/src/log/nv/commit.rs";
const FORM: &str = "paged/src/log/nv/form.rs";
const RING: &str = "paged/src/log/nv/ring.rs";
const GROUP: &str = "paged/src/log/central/flush.rs";
const HEAD: &str = "paged/src/log/central/open.rs";
const CLEANER: &str = "paged/src/pool/cleaner.rs";
const STAGING: &str = "paged/src/pool/staging.rs";

const ACKNOWLEDGED: Mutation =
    Mutation { defect: Defect::EarlyAcknowledgement, at: Where::Anywhere };

/// All of them.
pub static FAULTS: &[Fault] = &[
    record("object-unflushed", ON_INSERT, Defect::NoFlush, (INSERT, "insert", "memory.flush")),
    record("object-unflushed", ON_COMMIT, Defect::NoFlush, (COMMIT, "pass", "memory.flush")),
    record("entry-unflushed", ON_INSERT, Defect::NoFlush, (INSERT, "insert", "ring.set")),
    record("entry-unflushed", ON_COMMIT, Defect::NoFlush, (COMMIT, "pass", "ring.set")),
    record("insert-without-fence", ON_INSERT, Defect::NoFence, (INSERT, "insert", "memory.fence")),
    record("commit-without-fence", ON_COMMIT, Defect::NoFence, (COMMIT, "pass", "memory.fence")),
    record(
        "bits-before-head",
        ON_COMMIT,
        Defect::StoreBeforeFence,
        (RING, "clear", "memory.store"),
    ),
    record("staging-unsynced", ALL, Defect::NoSync, (STAGING, "write", "file.sync")),
    record("staging-freed-early", ALL, Defect::NoSync, (CLEANER, "write_batch", "file.sync")),
    record("group-unsynced", CENTRAL, Defect::NoSync, (GROUP, "write_out", "file.sync")),
    record("partition-reused-early", CENTRAL, Defect::NoSync, (HEAD, "write_head", "file.sync")),
    record("head-unflushed", NV, Defect::NoFlush, (FORM, "move_to", "memory.flush_word")),
    record("head-without-fence", NV, Defect::NoFence, (FORM, "move_to", "memory.fence")),
    Fault {
        name: "group-acknowledged-early",
        logs: ALL,
        put: Put::Record(ACKNOWLEDGED),
        workload: Workload::Everything,
    },
    store("checksum-ignored", NV, Flaw::ChecksumIgnored),
    of_workload("segments-freed-early", NV, Flaw::SegmentsFreedEarly, Workload::SmallSegments),
    store("own-record-alone", ON_COMMIT, Flaw::OwnRecordAlone),
    store("prefix-jumps-a-hole", ON_COMMIT, Flaw::PrefixJumps),
    store("compensation-unflushed", ON_INSERT, Flaw::CompensationUnflushed),
    store("entries-behind-the-hole-kept", NV, Flaw::OlderRestartCounts),
    store("page-before-log", LATE, Flaw::PageBeforeLog),
    store("checkpoint-before-pages", ALL, Flaw::DirtyPagesForgotten),
    store("redo-without-lsn", ALL, Flaw::RedoneTwice),
    store("page-served-unredone", ALL, Flaw::ServedUnredone),
    store("acknowledged-early", LATE, Flaw::AcknowledgedEarly),
    of_workload("reader-not-dependent", LATE, Flaw::ReaderIndependent, Workload::Readers),
    of_workload("gap-not-locked", ALL, Flaw::GapNotLocked, Workload::Gaps),
    of_workload("gap-lost-by-insert", ALL, Flaw::SplitGapNotLocked, Workload::Gaps),
    store("ghost-reclaimed-early", ALL, Flaw::GhostReclaimedEarly),
    store("doomed-commits", ALL, Flaw::DoomedCommits),
    store("savepoint-keeps-later-changes", ALL, Flaw::SavepointIgnored),
    store("undone-by-page", ALL, Flaw::UndoneByPage),
    store("separator-posted-twice", ALL, Flaw::PostedTwice),
    store("pinned-page-evicted", ALL, Flaw::PinnedEvicted),
    log("head-before-pages", ALL, Lie::HeadBeforePages),
    log("end-before-compensations", ALL, Lie::EndBeforeCompensations),
    log("root-unlogged", ALL, Lie::RootUnlogged),
    log("split-unlogged", ALL, Lie::SplitUnlogged),
    log("compensation-undone", ALL, Lie::CompensationUndone),
    log("oldest-undone-first", ALL, Lie::OldestUndoneFirst),
];

/// The observation that has noticed a fault.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The seed of the scenario.
    pub seed: u64,
    /// The states that were looked at until then.
    pub states: u64,
    /// The fault, as it showed.
    pub what: String,
}

/// Scenarios that are run without a crash, for each one that is examined: they take little time.
const WITHOUT_CRASH: u64 = 10;

/// The efforts with which a fault is looked for, one after the other.
pub(super) fn efforts() -> [Effort; 3] {
    let few = Part { from: 3, to: u64::MAX, stride: 7 };
    [
        Effort { part: few, ..Effort::once(6) },
        Effort { part: few, ..Effort::once(4).then(Again::every(6, 1)) },
        Effort::once(6),
    ]
}

impl Fault {
    fn plan(&self, log: LogKind, seed: u64) -> Plan {
        let mut plan = Plan::new(log, seed).with_workload(self.workload);
        match self.put {
            Put::Record(_) => {}
            Put::Store(flaw) => plan.stage.flaw = Some(flaw),
            Put::Log(lie) => plan.stage.lie = Some(lie),
        }
        plan
    }

    /// Looks for the fault in the scenarios with the first few seeds, and, where it is in the
    /// store, in what ten times as many show without a crash.
    ///
    /// # Errors
    /// It is not noticed: with the events that it has changed.
    ///
    /// # Panics
    /// A scenario without the fault goes wrong.
    pub fn notice(&self, log: LogKind, seeds: u64) -> Result<Notice, u64> {
        let mutation = match self.put {
            Put::Record(mutation) => Some(mutation),
            _ => None,
        };
        let (mut states, mut injected, mut scenarios) = (0, 0, Vec::new());
        let run = if mutation.is_some() { seeds } else { WITHOUT_CRASH * seeds };
        for seed in 1..=run {
            match self.plan(log, seed).run() {
                Ok(scenario) if seed <= seeds => scenarios.push(scenario),
                Ok(_) => {}
                Err(what) if mutation.is_none() => {
                    return Ok(Notice { seed, states, what: format!("without a crash: {what}") });
                }
                Err(what) => panic!("seed {seed} of {}: {what}", log.name()),
            }
        }
        for effort in efforts() {
            for (seed, scenario) in (1..).zip(&scenarios) {
                let explored = match &mutation {
                    Some(mutation) => {
                        scenario.explore_beyond(&scenario.known(effort), mutation, effort)
                    }
                    None => scenario.explore(effort),
                };
                states += explored.states + explored.nested;
                injected += explored.injected;
                if let Some(violation) = explored.violation {
                    return Ok(Notice { seed, states, what: violation.what });
                }
            }
        }
        Err(injected)
    }
}
