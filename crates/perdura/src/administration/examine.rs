//! Looking for damage everywhere, not only for the first: [`Database::examine`].

use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use engines::below::{Access, Catalog, Description, Environment, Escaped, Pool, Row, TableLayout};
use engines::{CheckReport, Engine, Setup};

use crate::administration::walk::{Gap, Sink, Walk};
use crate::any_engine::{AnyEngine, EngineSource};
use crate::database::{Database, agreed_engine, describe, resources};
use crate::declared;
use crate::error::Error;
use crate::host::{Paired, files_of, mark_open, take_mark_back};
use crate::key::{Owned, key_text};
use crate::media::Media;
use crate::options::Options;
use crate::reachable::Reachable;

/// The most findings that are listed one by one; the others are counted.
const MOST_FINDINGS: usize = 200;

/// A damaged place.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, _) = accounts(&Options::new());
/// for finding in &db.examine()?.findings.listed {
///     let Finding { table, lost, .. } = finding;
///     println!("{table:?}: {lost}; {finding}");
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The partition; `None` if it concerns all of them.
    pub partition: Option<u32>,
    /// The table, where it is known.
    pub table: Option<String>,
    /// The secondary index of the table; `None` also for the primary key.
    pub index: Option<String>,
    /// The damage and its place: an offset of the pool, or a file and a byte.
    pub what: String,
    /// The data that cannot be read because of it.
    pub lost: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(partition) = self.partition {
            write!(f, "partition {partition}: ")?;
        }
        if let Some(table) = &self.table {
            write!(f, "table `{}`: ", Escaped(table))?;
        }
        if let Some(index) = &self.index {
            write!(f, "index `{}`: ", Escaped(index))?;
        }
        write!(f, "{}; lost: {}", Escaped(&self.what), Escaped(&self.lost))
    }
}

/// The damaged places: the first ones are listed, the others counted.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, _) = accounts(&Options::new());
/// let findings: Findings = db.examine()?.findings;
/// assert!(findings.is_empty() && findings.total() == 0, "nothing is damaged");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct Findings {
    /// The first ones.
    pub listed: Vec<Finding>,
    /// The number of those that are not listed.
    pub unlisted: u64,
}

impl Findings {
    pub(crate) fn add(&mut self, finding: Finding) {
        if self.listed.len() < MOST_FINDINGS {
            self.listed.push(finding);
        } else {
            self.unlisted += 1;
        }
    }

    pub(crate) fn of_all(&mut self, what: impl fmt::Display, lost: &str) {
        let (partition, table, index) = (None, None, None);
        self.add(Finding { partition, table, index, what: what.to_string(), lost: lost.into() });
    }

    pub(crate) fn of_partition(&mut self, number: u32, what: impl fmt::Display, lost: &str) {
        let (partition, table, index) = (Some(number), None, None);
        self.add(Finding { partition, table, index, what: what.to_string(), lost: lost.into() });
    }

    /// Returns the number of damaged places.
    pub fn total(&self) -> u64 {
        self.listed.len() as u64 + self.unlisted
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }
}

/// The result of [`Database::examine`].
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (_directory, db, _) = accounts(&Options::new());
/// let Examination { report, findings } = db.examine()?;
/// assert_eq!((report.tuples, findings.total()), (2, 0));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct Examination {
    /// Tuples that can be read by their primary key, and what the allocator has. Its objects are
    /// compared with the data only where nothing is damaged.
    pub report: CheckReport,
    /// The damaged places.
    pub findings: Findings,
}

impl<E: Environment> Database<E> {
    /// Checks as [`Database::check`] does, but continues after damage: it looks at every partition,
    /// table and index, and reports for each damaged place what is lost. It takes longer where
    /// there is damage, and no damage makes it fail.
    ///
    /// # Errors
    /// [`Error::Nested`].
    pub fn examine(&self) -> Result<Examination, Error> {
        let mut found = Examination::default();
        let guards = self.copy_all()?;
        let mut owned = Vec::new();
        let mut reach = |offset| owned.push(offset);
        match Description::read(self.heap()) {
            Ok(Some((_, at))) => reach(at),
            Ok(None) => found.findings.of_all("the description of the database is gone", NOTHING),
            Err(error) => found.findings.of_all(error, NOTHING),
        }
        for (number, engine) in (0..).zip(&guards) {
            examine_engine(&***engine, self.catalog(), number, &mut found, &mut reach);
        }
        let reachable = Reachable::new(owned);
        for at in reachable.owned_twice().take(MOST_FINDINGS) {
            let what = format!("damaged object with two owners at offset {at:#x}");
            found.findings.of_all(what, "one of the two has the other's contents, or will have");
        }
        let mut persisted = 0;
        let report = &mut found.report;
        let counted = self.heap().for_each_persisted(|offset, _| {
            report.objects += 1;
            if reachable.contains(offset) {
                persisted += 1;
            } else {
                report.leaked += 1;
            }
        });
        if let Err(bad) = counted {
            found.findings.of_all(format!("the allocator: {bad}"), "room in the pool");
        }
        if found.findings.is_empty() {
            found.report.dangling = reachable.count() - persisted;
        } else {
            // The structure that leads to an object may be damaged itself.
            (found.report.leaked, found.report.dangling) = (0, 0);
        }
        Ok(found)
    }
}

/// Examines a database that [`Database::open`] refuses: each partition that opens by itself is
/// examined as [`Database::examine`] does. What opening recovers is kept, as usual.
///
/// # Errors
/// As [`Database::open`], except for the errors of a single partition.
pub fn examine_parts(path: impl AsRef<Path>, options: &Options) -> Result<Examination, Error> {
    let path = path.as_ref();
    let pool = Pool::open(path, &options.pool, Access::ReadWrite)?;
    let header = pool.info().header;
    let mut media = Media::native(pool.clone());
    let (heap, description) = describe(&media)?;
    let engine = agreed_engine(&description, options, &media.name)?;
    let kind = engine.kind();
    let catalog = Arc::new(Catalog::new(&description.schema)?);
    let mut paired = None;
    if kind.traits().needs_files() {
        let own = paired.insert(Paired::of(&pool, files_of(&pool, kind.name())?)?);
        media.attach(own.files.clone(), options.volatile_bytes);
    }
    mark_open(&pool, paired.as_mut(), &options.pool, &Cell::new(false))?;
    let setup = options.setup(description.partitions, description.node_bytes);
    let ends = paired.as_ref().map(|paired| paired.ends.of_logs()).unwrap_or_default();
    let setup = Setup { closed: header.clean, ends, ..setup };
    let mut found = Examination::default();
    for partition in 0..description.partitions {
        let resources = resources(&media, &heap, partition)?;
        match AnyEngine::open(
            EngineSource::Known(&engine, media.engines),
            resources,
            &catalog,
            &setup,
        ) {
            Ok((engine, _)) => {
                if let Some(paired) = &paired
                    && let Err(error) = paired.ends.check(partition, engine.durable())
                {
                    found.findings.of_partition(partition, error, CLOSED);
                }
                examine_engine(&*engine, &catalog, partition, &mut found, &mut |_| {});
            }
            Err(error) => found.findings.of_partition(partition, error, CLOSED),
        }
    }
    // As for an opening that is refused: what was closed stays closed.
    if header.clean {
        take_mark_back(&pool, paired.as_mut())?;
    }
    Ok(found)
}

/// A partition does not open.
const CLOSED: &str = "the whole partition, but for what a repair into a new database may save";
/// All data can still be read.
const NOTHING: &str = "nothing that can be read";

/// Checks a partition, and where that fails, looks at everything in it.
fn examine_engine(
    engine: &dyn Engine,
    catalog: &Catalog,
    number: u32,
    found: &mut Examination,
    reach: &mut dyn FnMut(u64),
) {
    let checked = engine.check(reach);
    match checked.and_then(|tuples| declared::check_unique(engine, catalog).map(|()| tuples)) {
        Ok(tuples) => found.report.tuples += tuples,
        Err(error) => {
            let before = found.findings.total();
            found.report.tuples += examine_tables(engine, catalog, number, &mut found.findings);
            let lost = if found.findings.total() == before { NOTHING } else { "see above" };
            found.findings.of_partition(number, error, lost);
        }
    }
}

/// Looks at every index of every table of a partition; returns how many tuples can be read by the
/// primary key.
fn examine_tables(
    engine: &dyn Engine,
    catalog: &Catalog,
    partition: u32,
    findings: &mut Findings,
) -> u64 {
    let mut all = 0;
    for (number, table) in (0u16..).zip(&catalog.tables) {
        let name = table.schema.name();
        let mut primary = None;
        for index in std::iter::once(None).chain((0..table.schema.indexes().len()).map(Some)) {
            let index_name = index.map(|index| table.schema.indexes()[index].name.clone());
            let place = (partition, Some(name.to_owned()), index_name.clone());
            let layout = index.is_none().then_some(&**table);
            let mut counter = Counter { tuples: 0, gaps: 0, layout, place, findings };
            Walk::new(engine, (number, table), index).run(&mut counter);
            let Counter { tuples, gaps, .. } = counter;
            match (index, primary) {
                (None, _) => {
                    all += tuples;
                    primary = (gaps == 0).then_some(tuples);
                }
                (Some(_), Some(there)) if gaps == 0 && there != tuples => findings.add(Finding {
                    partition: Some(partition),
                    table: Some(name.into()),
                    index: index_name,
                    what: format!("it has {tuples} entries for {there} tuples"),
                    lost: "what is read by this index may be missing, or come twice".into(),
                }),
                _ => {}
            }
        }
    }
    all
}

/// Counts tuples, and makes findings of gaps.
struct Counter<'f> {
    tuples: u64,
    gaps: u64,
    /// The layout in a walk by the primary key, which looks at values, too.
    layout: Option<&'f TableLayout>,
    place: (u32, Option<String>, Option<String>),
    findings: &'f mut Findings,
}

impl Sink for Counter<'_> {
    fn tuple(&mut self, row: &Row, sound: bool) {
        self.tuples += 1;
        if let Some(layout) = self.layout
            && !sound
        {
            let key = layout.key_columns().map(|column| Owned::of(&row.get(column))).collect();
            self.gap(Gap::Tuple(key), "a value that its column cannot have");
        }
    }

    fn gap(&mut self, gap: Gap, why: &str) {
        self.gaps += 1;
        let (partition, table, index) = self.place.clone();
        let lost = gap_text(&gap, index.is_some());
        self.findings.add(Finding {
            partition: Some(partition),
            table,
            index,
            what: why.into(),
            lost,
        });
    }
}

/// Returns the words for what a gap has lost.
pub(crate) fn gap_text(gap: &Gap, secondary: bool) -> String {
    let what = if secondary { "entries" } else { "tuples" };
    match gap {
        Gap::Tuple(key) if secondary => format!("the entry with the key {}", key_text(key)),
        Gap::Tuple(key) => format!("the tuple with the key {}", key_text(key)),
        Gap::Between(None, None) => format!("all {what}"),
        Gap::Between(Some(low), None) => format!("all {what} after the key {}", key_text(low)),
        Gap::Between(None, Some(high)) => format!("all {what} before the key {}", key_text(high)),
        Gap::Between(Some(low), Some(high)) => {
            format!("the {what} between the keys {} and {}", key_text(low), key_text(high))
        }
    }
}
