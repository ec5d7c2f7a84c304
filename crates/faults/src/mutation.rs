//! Faults that a program could have, put into what it has recorded: the program that is tested is
//! the one that ships.

use pm::Site;
use sim::{CombinedTrace, DiskEvent, DiskTrace, Event, Trace};

/// The way in which a flush or a fence is done wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// The flush is left out.
    NoFlush,
    /// The first of the lines that are flushed one after the other is left out: the start is not
    /// rounded down to its line.
    NoFirstLine,
    /// The last of them is left out: the end is not rounded up.
    NoLastLine,
    /// The flush comes after the next fence.
    FlushAfterFence,
    /// The fence is left out.
    NoFence,
    /// Another thread makes the fence.
    FenceOfAnotherThread,
    /// The store comes before the fence that it has to follow: a forged receipt.
    StoreBeforeFence,
    /// The store is left out.
    NoStore,
    /// The store is made of two: the lowest byte, and the others.
    TornStore,
    /// The bulk copy is left out.
    NoCopy,
    /// The transaction is acknowledged before the last fence, or the last sync.
    EarlyAcknowledgement,
    /// The sync is left out, of a file or of the directory.
    NoSync,
    /// The write comes after the next sync.
    WriteAfterSync,
    /// The write is left out.
    NoWrite,
    /// The file keeps its length where it has to be cut.
    NoCut,
    /// The file is renamed before it is synced.
    EarlyRename,
    /// The file is removed before what supersedes it has been synced, or renamed.
    EarlyRemove,
    /// A transaction that has changed nothing is acknowledged at once, and all before it with it.
    /// The scenario is recorded so: see [`crate::plot::Plot::acknowledges_unchanged`].
    UnchangedAcknowledges,
}

/// The place of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// Everywhere.
    Anywhere,
    /// All places where a line of the source has this text.
    Code(Code),
    /// One place.
    Site(Site),
}

/// A piece of the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// The end of the file's path.
    pub file: &'static str,
    /// The function.
    pub function: &'static str,
    /// Text that the line has in it; empty for every line of the function.
    pub text: &'static str,
}

impl Code {
    /// Returns true if a place in the source is meant. Places are compared with the source as it
    /// was when this was compiled.
    fn has(self, site: Site) -> bool {
        if !site.file().ends_with(self.file) {
            return false;
        }
        let Some((_, source)) = SOURCES.iter().find(|(file, _)| self.file == *file) else {
            return false;
        };
        let lines: Vec<&str> = source.lines().take(site.line() as usize).collect();
        lines.last().is_some_and(|line| line.contains(self.text))
            && lines.iter().rev().find_map(|line| function(line)) == Some(self.function)
    }
}

/// The name of the function that begins in this line.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        None => line,
        Some(rest) => rest.trim_start_matches("(crate)").trim_start_matches("(super)").trim_start(),
    };
    let name = line.strip_prefix("const ").unwrap_or(line).strip_prefix("fn ")?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

macro_rules! sources {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../", $file)))),*]
    };
}

/// The files that the catalogue speaks of.
const SOURCES: &[(&str, &str)] = sources![
    "column/src/collect.rs",
    "column/src/ids.rs",
    "column/src/recover.rs",
    "column/src/session.rs",
    "column/src/slots.rs",
    "column/src/statement.rs",
    "engines/src/cow.rs",
    "engines/src/nvm_cow.rs",
    "engines/src/nvm_inp.rs",
    "engines/src/nvm_log.rs",
    "engines/src/nvm_log/room.rs",
    "engines/src/undo/engine.rs",
    "heap/src/lane.rs",
    "index/src/pages/file.rs",
    "index/src/pages/pool.rs",
    "index/src/cow/store.rs",
    "index/src/split.rs",
    "paged/src/file.rs",
    "paged/src/log/central/end.rs",
    "paged/src/log/central/flush.rs",
    "paged/src/log/central/mod.rs",
    "paged/src/log/central/open.rs",
    "paged/src/log/nv/commit.rs",
    "paged/src/log/nv/form.rs",
    "paged/src/log/nv/insert.rs",
    "paged/src/log/nv/mod.rs",
    "paged/src/log/nv/restart.rs",
    "paged/src/log/nv/ring.rs",
    "paged/src/pool/cleaner.rs",
    "paged/src/pool/staging.rs",
    "pm/src/header.rs",
    "slotted/src/blocks.rs",
    "slotted/src/scheme/fast.rs",
    "slotted/src/scheme/journal.rs",
    "slotted/src/scheme/mod.rs",
    "storage/src/logs/checkpoint.rs",
    "storage/src/lsm/manifest.rs",
    "storage/src/lsm/sstable/writer.rs",
    "storage/src/lsm/work.rs",
    "storage/src/runs/filter.rs",
    "storage/src/runs/freeze.rs",
    "storage/src/runs/merge.rs",
    "storage/src/runs/mod.rs",
    "storage/src/shadow/batch.rs",
    "storage/src/shadow/pool_master.rs",
    "storage/src/logs/superseded.rs",
    "storage/src/table/change.rs",
    "storage/src/table/image.rs",
    "storage/src/logs/wal.rs",
];

/// A fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mutation {
    /// The way in which it is done wrong.
    pub defect: Defect,
    /// The place.
    pub at: Where,
}

impl Where {
    /// The places that are meant, among those that do the thing.
    fn among(self, sites: impl Iterator<Item = Site>) -> Vec<Site> {
        let mut places: Vec<Site> = Vec::new();
        for site in sites {
            let meant = match self {
                Self::Anywhere => true,
                Self::Code(code) => code.has(site),
                Self::Site(wanted) => site == wanted,
            };
            if meant && !places.contains(&site) {
                places.push(site);
            }
        }
        places.sort_by_key(|site| (site.file(), site.line(), site.column()));
        places
    }
}

impl Mutation {
    /// The places of a trace of memory that do what a mutation of this kind changes.
    pub fn sites_in_memory(defect: Defect, trace: &Trace) -> Vec<Site> {
        Where::Anywhere.among(
            trace.events.iter().filter(|one| defect.concerns(&one.event)).map(|one| one.site),
        )
    }

    /// The places of a trace of files that do what a mutation of this kind changes.
    pub fn sites_in_files(defect: Defect, trace: &DiskTrace) -> Vec<Site> {
        Where::Anywhere.among(
            trace.events.iter().filter(|one| defect.concerns_file(&one.event)).map(|one| one.site),
        )
    }

    /// The traces of a program with this fault that uses a memory and files.
    pub(crate) fn of_combined(&self, trace: &CombinedTrace) -> (CombinedTrace, u64) {
        let (memory, in_memory) = self.of_memory(&trace.memory);
        let (files, in_files) = self.of_files(&trace.files);
        (CombinedTrace { memory, files }, in_memory + in_files)
    }

    /// The trace of a program with this fault, and how many events it has changed.
    pub(crate) fn of_memory(&self, trace: &Trace) -> (Trace, u64) {
        let concerned = trace.events.iter().filter(|one| self.defect.concerns(&one.event));
        let sites = self.at.among(concerned.map(|one| one.site));
        let hit = |index: usize| {
            let one = &trace.events[index];
            self.defect.concerns(&one.event) && sites.contains(&one.site)
        };
        let mut events = Vec::with_capacity(trace.events.len());
        let mut changed = 0;
        // Events to be put after the next fence of their thread.
        let mut late = Vec::new();
        for (index, one) in trace.events.iter().enumerate() {
            let is_hit = hit(index);
            let neighbour = |other: Option<usize>| {
                other.is_some_and(|other| {
                    trace.events.get(other).is_some_and(|next| next.site == one.site) && hit(other)
                })
            };
            let mut keep = true;
            if is_hit {
                match self.defect {
                    Defect::NoFlush | Defect::NoFence | Defect::NoStore | Defect::NoCopy => {
                        keep = false;
                    }
                    Defect::NoFirstLine => keep = neighbour(index.checked_sub(1)),
                    Defect::NoLastLine => keep = neighbour(Some(index + 1)),
                    Defect::FlushAfterFence => {
                        late.push(one.clone());
                        keep = false;
                    }
                    Defect::FenceOfAnotherThread => {
                        let mut other = one.clone();
                        other.thread = u32::MAX;
                        events.push(other);
                        keep = false;
                    }
                    Defect::StoreBeforeFence | Defect::EarlyAcknowledgement => {
                        let fence = events.iter().rposition(|before: &sim::RecordedEvent| {
                            // The thread that acknowledges need not be the one that made the fence.
                            let whose = self.defect == Defect::EarlyAcknowledgement
                                || before.thread == one.thread;
                            matches!(before.event, Event::Fence) && whose
                        });
                        if let Some(fence) = fence {
                            let number = events[fence].number;
                            events.insert(fence, sim::RecordedEvent { number, ..one.clone() });
                            keep = false;
                        }
                    }
                    Defect::TornStore => {
                        if let Event::Store { at, value } = one.event {
                            let bytes = value.to_le_bytes();
                            for (from, to) in [(0usize, 1usize), (1, 8)] {
                                let mut part = one.clone();
                                part.event = Event::Copy {
                                    at: at + from as u64,
                                    bytes: bytes[from..to].into(),
                                };
                                events.push(part);
                            }
                            keep = false;
                        }
                    }
                    _ => {}
                }
                changed += u64::from(!keep);
            }
            if keep {
                events.push(one.clone());
            }
            if matches!(one.event, Event::Fence) {
                let (mine, others): (Vec<_>, Vec<_>) = late
                    .drain(..)
                    .partition(|flush: &sim::RecordedEvent| flush.thread == one.thread);
                events.extend(mine);
                late = others;
            }
        }
        events.extend(late);
        (Trace { image: trace.image.clone(), events }, changed)
    }

    /// The trace of a program with this fault, and how many events it has changed.
    pub(crate) fn of_files(&self, trace: &DiskTrace) -> (DiskTrace, u64) {
        let concerned = trace.events.iter().filter(|one| self.defect.concerns_file(&one.event));
        let sites = self.at.among(concerned.map(|one| one.site));
        let mut events: Vec<sim::DiskRecord> = Vec::with_capacity(trace.events.len());
        let mut changed = 0;
        let mut late: Vec<(u64, sim::DiskRecord)> = Vec::new();
        for one in &trace.events {
            let is_hit = self.defect.concerns_file(&one.event) && sites.contains(&one.site);
            let before_last = |events: &[sim::DiskRecord], wanted: fn(&DiskEvent) -> bool| {
                events.iter().rposition(|before| wanted(&before.event))
            };
            let mut keep = true;
            if is_hit {
                let place = match self.defect {
                    Defect::NoSync | Defect::NoWrite | Defect::NoCut => {
                        keep = false;
                        None
                    }
                    Defect::WriteAfterSync => {
                        if let DiskEvent::Write { file, .. } = one.event {
                            late.push((file, one.clone()));
                            keep = false;
                        }
                        None
                    }
                    Defect::EarlyAcknowledgement => before_last(&events, |event| {
                        matches!(event, DiskEvent::Sync { .. } | DiskEvent::SyncDirectory)
                    }),
                    Defect::EarlyRename => {
                        before_last(&events, |event| matches!(event, DiskEvent::Sync { .. }))
                    }
                    Defect::EarlyRemove => before_last(&events, |event| {
                        matches!(event, DiskEvent::Sync { .. } | DiskEvent::Rename { .. })
                    }),
                    _ => None,
                };
                if let Some(place) = place {
                    let number = events[place].number;
                    events.insert(place, sim::DiskRecord { number, ..one.clone() });
                    keep = false;
                }
                changed += u64::from(!keep);
            }
            if keep {
                events.push(one.clone());
            }
            if let DiskEvent::Sync { file } = one.event {
                let (mine, others): (Vec<_>, Vec<_>) =
                    late.drain(..).partition(|(other, _)| *other == file);
                events.extend(mine.into_iter().map(|(_, write)| write));
                late = others;
            }
        }
        events.extend(late.into_iter().map(|(_, write)| write));
        let trace =
            DiskTrace { image: trace.image.clone(), numbers: trace.numbers.clone(), events };
        (trace, changed)
    }
}

impl Defect {
    fn concerns(self, event: &Event) -> bool {
        match self {
            Self::NoFlush | Self::NoFirstLine | Self::NoLastLine | Self::FlushAfterFence => {
                matches!(event, Event::Flush { .. })
            }
            Self::NoFence | Self::FenceOfAnotherThread => matches!(event, Event::Fence),
            Self::StoreBeforeFence | Self::NoStore | Self::TornStore => {
                matches!(event, Event::Store { .. })
            }
            Self::NoCopy => matches!(event, Event::Copy { .. }),
            Self::EarlyAcknowledgement => matches!(event, Event::Note(_)),
            _ => false,
        }
    }

    fn concerns_file(self, event: &DiskEvent) -> bool {
        match self {
            Self::NoSync => matches!(event, DiskEvent::Sync { .. } | DiskEvent::SyncDirectory),
            Self::WriteAfterSync | Self::NoWrite => matches!(event, DiskEvent::Write { .. }),
            Self::NoCut => matches!(event, DiskEvent::SetLen { .. }),
            Self::EarlyRename => matches!(event, DiskEvent::Rename { .. }),
            Self::EarlyRemove => matches!(event, DiskEvent::Remove { .. }),
            Self::EarlyAcknowledgement => matches!(event, DiskEvent::Note(_)),
            _ => false,
        }
    }
}
