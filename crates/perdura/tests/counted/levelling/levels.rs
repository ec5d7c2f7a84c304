//! The measures of a database between two operations, and whether it levels off.

use std::collections::BTreeMap;

use perdura::{EngineKind, Error};

use super::medium::Medium;
use super::operations::Operation;
use super::subject::{Engine, Subject};
use crate::allocator::{live, uncounted};

/// Operations between two measurements of a window.
const EVERY: u64 = 5;

/// By how much a value may grow and still be level.
#[derive(Clone, Copy)]
struct Slack {
    /// In percent of the value.
    percent: u64,
    /// In addition.
    more: u64,
}

impl Slack {
    const fn new(percent: u64, more: u64) -> Self {
        Self { percent, more }
    }

    /// The usual slack of a value.
    fn of(name: &str) -> Self {
        match name {
            "descriptors" | "mappings" => Self::new(0, 0),
            "allocated bytes" => Self::new(5, 4 << 10),
            "allocated blocks" | "objects" => Self::new(5, 8),
            "waiting bytes" => Self::new(25, 4 << 10),
            "accesses of a read" => Self::new(10, 64),
            "allocations of a read" => Self::new(10, 2),
            "pages of a read" | "versions of a read" => Self::new(10, 8),
            _ if name.ends_with(", number") => Self::new(0, 2),
            // The log of `nv-disk` grows by 32 KiB.
            "log" => Self::new(5, 40 << 10),
            _ if name.starts_with("file paged") => Self::new(5, 40 << 10),
            // The pool and its parts grow in chunks.
            _ => Self::new(5, 16 << 10),
        }
    }

    fn allows(self, before: u64, after: u64) -> bool {
        after <= before + before * self.percent / 100 + self.more
    }
}

/// A field of the table, or a column, in which values may grow by more than the usual.
struct Allowance {
    kind: EngineKind,
    /// `None` stands for all operations.
    operation: Option<&'static str>,
    /// `None` stands for all values.
    name: Option<&'static str>,
    slack: Slack,
    /// In addition, for each repetition between the two values.
    each: u64,
}

impl Allowance {
    const fn of(kind: EngineKind, operation: Option<&'static str>, slack: Slack) -> Self {
        Self { kind, operation, name: None, slack, each: 0 }
    }
}

/// The fields with another slack, and why.
const ALLOWANCES: [Allowance; 6] = [
    // At rest no merge is due, with a MemTable and runs that hold more or less which is superseded.
    Allowance::of(EngineKind::Log, None, Slack::new(200, 0)),
    Allowance::of(EngineKind::NvmLog, None, Slack::new(200, 0)),
    // The first of several merges after a rest is a small one.
    Allowance {
        name: Some("waiting bytes"),
        ..Allowance::of(EngineKind::NvmLog, None, Slack::new(0, 16 << 10))
    },
    // A kill loses the ids that were reserved: at least 16 of each array (`docs/guarantees.md`).
    Allowance {
        each: 2 << 10,
        ..Allowance::of(EngineKind::Sofort, Some("kill and open"), Slack::new(0, 0))
    },
    // The pages that aborts have made and forgotten are listed, up to 1,024 of them.
    Allowance {
        name: Some("allocated bytes"),
        ..Allowance::of(EngineKind::NvmCow, Some("abort"), Slack::new(0, 32 << 10))
    },
    Allowance {
        name: Some("allocated bytes"),
        ..Allowance::of(EngineKind::NvmCow, Some("large abort"), Slack::new(0, 32 << 10))
    },
];

/// Returns whether a value is level, after so many more repetitions.
fn is_level(
    (kind, operation): (EngineKind, &str),
    name: &str,
    (before, after): (u64, u64),
    repetitions: u64,
) -> bool {
    let mut slack = Slack::of(name);
    // `log` has a descriptor for each of its runs.
    if name == "mappings" || (name == "descriptors" && kind != EngineKind::Log) {
        return slack.allows(before, after);
    }
    for more in ALLOWANCES {
        let is_meant = more.kind == kind
            && more.operation.is_none_or(|meant| meant == operation)
            && more.name.is_none_or(|meant| meant == name);
        if is_meant {
            slack.percent += more.slack.percent;
            slack.more += more.slack.more + more.each * repetitions;
        }
    }
    slack.allows(before, after)
}

/// A value in the two windows, the largest in each, and at rest before and after them.
#[derive(Clone, Copy, Default, Debug)]
struct Series {
    windows: [u64; 2],
    at_rest: [u64; 2],
}

/// When a value is measured.
#[derive(Clone, Copy)]
enum Moment {
    Window(usize),
    AtRest(usize),
}

/// All values of a run by their names.
#[derive(Default)]
pub(crate) struct Levels(BTreeMap<String, Series>);

impl Levels {
    fn note(&mut self, moment: Moment, name: &str, value: u64) {
        uncounted(|| {
            let series = match self.0.get_mut(name) {
                Some(series) => series,
                None => self.0.entry(name.into()).or_default(),
            };
            match moment {
                Moment::Window(window) => {
                    series.windows[window] = series.windows[window].max(value);
                }
                Moment::AtRest(end) => series.at_rest[end] += value,
            }
        });
    }
}

/// The name of a file without its number, which grows: files of one kind count together.
fn kind_of_file(name: &str) -> String {
    let is_number = |part: &str| {
        part.contains(|letter: char| letter.is_ascii_digit())
            && part.chars().all(|letter| letter.is_ascii_hexdigit())
    };
    let parts = name.split('-').map(|part| if is_number(part) { "#" } else { part });
    format!("file {}", parts.collect::<Vec<_>>().join("-"))
}

/// Measures the database as it is.
fn measure<M: Medium>(
    subject: &mut Subject<M>,
    levels: &mut Levels,
    moment: Moment,
) -> Result<(), Error> {
    if M::ON_HOST {
        let own = live();
        levels.note(moment, "allocated bytes", own.bytes.max(0) as u64);
        levels.note(moment, "allocated blocks", own.blocks.max(0) as u64);
    }
    let mut files: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let found = subject.medium.files(&mut |name, bytes| {
        let kind = files.entry(kind_of_file(name)).or_default();
        *kind = (kind.0 + 1, kind.1 + bytes);
    });
    found.map_err(Error::user)?;
    for (kind, (count, bytes)) in &files {
        levels.note(moment, kind, *bytes);
        levels.note(moment, &format!("{kind}, number"), *count);
    }
    let db = subject.db();
    let footprint = db.footprint()?;
    levels.note(moment, "tables", footprint.table);
    levels.note(moment, "indexes", footprint.index);
    levels.note(moment, "log", footprint.log);
    levels.note(moment, "checkpoints", footprint.checkpoint);
    levels.note(moment, "other space", footprint.other);
    levels.note(moment, "waiting bytes", db.stats()?.waiting_bytes);
    if let Moment::AtRest(_) = moment {
        subject.medium.other(db, &mut |name, value| levels.note(moment, name, value))?;
        levels.note(moment, "objects", subject.objects()?);
    }
    if !M::ON_HOST || matches!(moment, Moment::AtRest(_)) {
        let cost = subject.read()?;
        levels.note(moment, "accesses of a read", cost.accesses);
        levels.note(moment, "allocations of a read", cost.allocations);
        levels.note(moment, "pages of a read", cost.pages);
        levels.note(moment, "versions of a read", cost.versions);
    }
    Ok(())
}

/// Measures the database with no work put off, after all that is measured was done once.
fn at_rest<M: Medium>(
    subject: &mut Subject<M>,
    levels: &mut Levels,
    end: usize,
) -> Result<(), Error> {
    subject.rest()?;
    subject.read()?;
    subject.objects()?;
    measure(subject, levels, Moment::AtRest(end))
}

/// Repeats an operation, in two windows of so many times, and twice as often before them.
pub(crate) fn levels<M: Medium>(
    engine: Engine,
    operation: &Operation<M>,
    times: u64,
) -> Result<Levels, Error> {
    let mut subject = Subject::<M>::new(engine, operation.options)?;
    let mut levels = Levels::default();
    let mut number = 0;
    let mut repeat = |subject: &mut Subject<M>, times: u64| {
        let first = number;
        number += times;
        (first..number).try_for_each(|number| (operation.act)(subject, engine.number(number)))
    };
    repeat(&mut subject, times)?;
    at_rest(&mut subject, &mut levels, 0)?;
    repeat(&mut subject, times)?;
    for window in 0..2 {
        for _ in 0..times / EVERY {
            repeat(&mut subject, EVERY)?;
            measure(&mut subject, &mut levels, Moment::Window(window))?;
        }
    }
    at_rest(&mut subject, &mut levels, 1)?;
    Ok(levels)
}

impl Levels {
    /// Calls `report` with whatever has not levelled off in a field of the table, with windows of so
    /// many repetitions.
    pub(crate) fn growing(
        &self,
        field: (EngineKind, &str),
        times: u64,
        report: &mut dyn FnMut(String),
    ) {
        for (name, series) in &self.0 {
            let Series { windows: [first, second], at_rest: [begin, end] } = *series;
            if !is_level(field, name, (first, second), times) {
                report(format!("{name}: {first} at most, then {second}"));
            }
            if !is_level(field, name, (begin, end), 3 * times) {
                report(format!("{name}, at rest: {begin}, then {end}"));
            }
        }
    }
}
