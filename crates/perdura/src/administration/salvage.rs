//! Taking over what can be read of a damaged database into a new one.

use std::path::Path;
use std::sync::Arc;

use engines::below::wal::WalError;
use engines::below::{
    Access, Catalog, Domain, File, Files, FilesOf, HostFiles, Native, NewPool, Pairing, Pool,
    PoolOptions, Row, TableLayout, stamp_of,
};
use engines::{Engine, EngineError, EngineOptions, Resources, Setup};

use crate::administration::examine::{Finding, Findings, gap_text};
use crate::administration::tuple_code::{Tally, encode};
use crate::administration::walk::{Gap, Sink, Walk};
use crate::administration::whole::{
    Tallies, check_free, check_free_for_files, create_whole, no_tuples,
};
use crate::any_engine::{AnyEngine, EngineSource, Engines};
use crate::database::{Database, agreed_engine, describe, resources};
use crate::declared;
use crate::error::Error;
use crate::host::{COPIES, EndsOf, look_at_files_of, pair, place_of};
use crate::key::{Key, Owned, compare, key_text, values};
use crate::media::Media;
use crate::options::Options;
use crate::table::Table;

/// Tuples that are taken over in one transaction.
const BATCH: usize = 256;
/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;
/// The reason why a tuple is not taken over.
const IMPOSSIBLE: &str = "a tuple with impossible values";
/// The loss where the files are not those of the pool, as far as anything says so.
const THEIRS: &str = "what the files that belong to it have; what is taken over is theirs";
/// The words for what is lost where a log ends too early.
const CUT: &str = "the transactions from there on";
/// The loss where the log leads to damage.
const UNDONE: &str =
    "what stood there before the last transaction; what that one has changed may be among the rest";
/// The loss where a place cannot be read that may have anything.
const PLACE: &str = "the tuples that it has, if it has any: they are listed below";
/// The loss where nothing helps.
const PARTITION: &str = "the whole partition";

/// The result of [`salvage`]: what was taken over, and what is missing.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new());
/// # db.close()?;
/// # let path = directory.path().join("accounts");
/// let saved: Salvage = salvage(&path, directory.path().join("saved"))?;
/// assert_eq!((saved.tuples(), saved.findings.total()), (2, 0));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct Salvage {
    /// Each table of each partition.
    pub tables: Vec<Salvaged>,
    /// The places that could not be read or did not verify.
    pub findings: Findings,
}

impl Salvage {
    /// Tuples that were taken over, all tables together.
    pub fn tuples(&self) -> u64 {
        self.tables.iter().map(|table| table.tuples).sum()
    }
}

/// The tuples of one table of one partition that were taken over.
///
/// ```
/// # use perdura::*;
/// # let accounts = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/accounts.rs"));
/// # let (directory, db, _) = accounts(&Options::new());
/// # db.close()?;
/// # let path = directory.path().join("accounts");
/// for table in salvage(&path, directory.path().join("saved"))?.tables {
///     let Salvaged { table, tuples, .. } = table;
///     assert_eq!((table.as_str(), tuples), ("account", 2));
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// The partition.
    pub partition: u32,
    /// The table.
    pub table: String,
    /// Tuples taken over.
    pub tuples: u64,
    /// The number of those that only secondary indexes led to.
    pub by_secondary: u64,
}

/// Copies every tuple that can be read and verified from the damaged database at `from` into a new
/// database at `to`, with the same tables, engine, partitions and domain.
///
/// The database at `from` is not changed, not even recovered: a pool is mapped privately, and files
/// are copied to a directory `<to>.salvage`, which is removed again. So the database must be
/// closed, and `to` needs room for both. A database that a reboot hit is accepted as it is.
///
/// Tuples are found by the primary key and, where that is broken, by the secondary indexes. A tuple
/// verifies if its values are possible for their columns and its own key leads to it. In pools of
/// the NVM engines no checksum covers values, so damage within a value is copied as it is.
///
/// The new database is at `to` only when all of that is in it, durable, checked and compared; until
/// then it is at `<to>.perdura-new`, where a kill may leave it; the next attempt removes it.
///
/// The header or the description of `from` is damaged, so that nothing can be read; something
/// exists at `to`, or there is no room. Then nothing is left at `to`.
pub fn salvage(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Salvage, Error> {
    let (from, to) = (from.as_ref(), to.as_ref());
    // Report what is seen at once before the time is spent.
    check_free(to)?;
    check_free_for_files(&place_of(to)?.with_suffix(COPIES))?;
    let pool = Pool::open(from, &PoolOptions::default(), Access::Inspect)?;
    let header = pool.info().header;
    let mut media = Media::native(pool.clone());
    let (heap, description) = describe(&media)?;
    let engine = agreed_engine(&description, &Options::new(), &media.name)?;
    let kind = engine.kind();
    let (mut source, mut other, mut ends) = (None, None, None);
    if kind.traits().needs_files() {
        let found = look_at_files_of(&pool, kind.name())?;
        match pair(&pool, &found) {
            Ok(pairing) => match EndsOf::of(&pool, &found, &pairing) {
                Ok(found) => ends = Some(found),
                Err(error) => other = Some(error),
            },
            Err(error) => {
                if let Error::OtherFiles { whose: FilesOf::Another(uuid), .. } = error {
                    found.set_stamp(stamp_of(uuid));
                }
                other = Some(error);
            }
        }
        found.lock()?;
        source = Some(found);
    }
    let catalog = Arc::new(Catalog::new(&description.schema)?);
    let options = Options::new()
        .engine(kind)
        .partitions(description.partitions)
        .tune("node_bytes", description.node_bytes.into())
        .chunk_bytes(heap.chunk_bytes())
        .pool_limit(header.limit)
        .domain(header.domain)
        .model(header.modelled);
    let setup = options.setup(description.partitions, description.node_bytes);
    let setup = Setup { closed: header.clean, ..setup };
    create_whole(to, &description.schema, &options, &mut |_| {}, |target, new, _| {
        let copies = source.map(|source| copy_files(&source, (new, target))).transpose()?;
        if let Some(copies) = &copies {
            media.attach(copies.clone(), Options::new().volatile_bytes);
        }
        let mut done = Salvage::default();
        match other {
            Some(Error::OtherFiles { files, whose, .. }) => {
                let what = format!("the files in {files} do not belong to this pool: {whose}");
                done.findings.of_all(what, THEIRS);
            }
            Some(error) => done.findings.of_all(error, THEIRS),
            None => {}
        }
        let mut tallies = no_tuples(description.partitions as usize, &description.schema);
        for partition in 0..description.partitions {
            let before = done.findings.total();
            let opened = open_partition(
                &engine,
                || resources(&media, &heap, partition),
                (&catalog, copies.as_ref()),
                setup.clone(),
                |error, lost| done.findings.of_partition(partition, error, lost),
            )?;
            if let Some(mut engine) = opened {
                for error in engine.find_rest() {
                    done.findings.of_partition(partition, error, PLACE);
                }
                // Damage that was passed over ends a partition elsewhere, too.
                let whole = ends.as_ref().filter(|_| done.findings.total() == before);
                let ended = whole.map(|ends| ends.check(partition, engine.durable()));
                if let Some(Err(Error::OtherFiles { files, whose, .. })) = ended {
                    let what = format!("of the files in {files} one does not belong here: {whose}");
                    done.findings.of_partition(partition, what, THEIRS);
                }
                let place = (&*engine, partition);
                take_partition(place, &catalog, target, &mut tallies, &mut done)?;
            }
        }
        if let Some(copies) = copies {
            let path = copies.path().display().to_string();
            copies.discard().map_err(|source| Error::Io { path, source })?;
        }
        Ok((tallies, done))
    })
}

/// Opens a partition past its damage, which is reported; `None` if that does not help.
fn open_partition(
    engine: &EngineOptions,
    resources: impl Fn() -> Result<Resources<Native>, Error>,
    (catalog, files): (&Arc<Catalog>, Option<&HostFiles>),
    mut setup: Setup,
    mut tell: impl FnMut(EngineError, &str),
) -> Result<Option<AnyEngine<Native>>, Error> {
    let mut passed_over = None;
    loop {
        match AnyEngine::open(
            EngineSource::Known(engine, Engines::native()),
            resources()?,
            catalog,
            &setup,
        ) {
            Ok((engine, _)) => {
                if let Some(error) = passed_over {
                    tell(error, UNDONE);
                }
                return Ok(Some(engine));
            }
            Err(error) if cut_log(&error, files)? => tell(error, CUT),
            Err(error @ EngineError::Wal(WalError::Short { .. })) if !setup.accept_short_log => {
                setup.accept_short_log = true;
                tell(error, CUT);
            }
            Err(error) if !setup.salvage => {
                setup.salvage = true;
                passed_over = Some(error);
            }
            Err(error) => {
                tell(passed_over.unwrap_or(error), PARTITION);
                return Ok(None);
            }
        }
    }
}

/// Truncates a log at damage that comes after its first records, and returns true if it did. What
/// is left holds the transactions up to there. Combined with a checkpoint that was written
/// meanwhile, it may yield tuples of different moments.
fn cut_log(error: &EngineError, files: Option<&HostFiles>) -> Result<bool, Error> {
    let (EngineError::Wal(WalError::Damaged { name, at, .. }), Some(files)) = (error, files) else {
        return Ok(false);
    };
    let Some((prefix, _)) = name.rsplit_once('-').filter(|_| *at > 0) else { return Ok(false) };
    let io = |source| Error::Io { path: name.clone(), source };
    for later in files.list().map_err(io)? {
        let same = later.rsplit_once('-').is_some_and(|(found, _)| found == prefix);
        if same && later > *name {
            files.remove(&later).map_err(io)?;
        }
    }
    let file = files.open(name).map_err(io)?;
    // If nothing is cut off, the same damage would be found again for ever.
    let shorter = file.len().map_err(io)? > *at;
    file.set_len(*at).map_err(io)?;
    Ok(shorter)
}

fn take_partition(
    (engine, partition): (&dyn Engine, u32),
    catalog: &Catalog,
    target: &Database,
    tallies: &mut Tallies,
    done: &mut Salvage,
) -> Result<(), Error> {
    for (number, layout) in (0u16..).zip(&catalog.tables) {
        let table = target.table(layout.schema.name())?;
        let mut taker = Taker {
            engine,
            place: (number, layout),
            target: (target, partition, &table),
            pending: Vec::new(),
            taken: &mut tallies[partition as usize][number as usize],
            gaps: 0,
            tell: true,
            findings: &mut done.findings,
            failed: None,
        };
        Walk::new(engine, (number, layout), None).run(&mut taker);
        taker.flush();
        let by_primary = taker.taken.tuples;
        if taker.gaps > 0 {
            // Missing rows have been reported; entries that other indexes lack do not matter.
            taker.tell = false;
            for index in 0..layout.schema.indexes().len() {
                Walk::new(engine, (number, layout), Some(index)).run(&mut taker);
            }
            taker.flush();
        }
        let (tuples, failed) = (taker.taken.tuples, taker.failed);
        done.tables.push(Salvaged {
            partition,
            table: layout.schema.name().into(),
            tuples,
            by_secondary: tuples - by_primary,
        });
        failed.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Takes the tuples of a table over.
struct Taker<'a> {
    engine: &'a dyn Engine,
    place: (u16, &'a TableLayout),
    target: (&'a Database, u32, &'a Table),
    pending: Vec<Key>,
    /// The contents of the table that the new database must have.
    taken: &'a mut Tally,
    gaps: u64,
    /// Set if gaps are reported.
    tell: bool,
    findings: &'a mut Findings,
    /// The new database takes no more.
    failed: Option<Error>,
}

impl Taker<'_> {
    fn find(&mut self, what: &str, lost: String) {
        let (partition, table) = (Some(self.target.1), Some(self.place.1.schema.name().into()));
        self.findings.add(Finding { partition, table, index: None, what: what.into(), lost });
    }

    fn key_of(&self, tuple: &[Owned]) -> Key {
        self.place.1.key_columns().map(|column| tuple[column].clone()).collect()
    }

    /// Returns true if the tuple's own key leads to it.
    fn verifies(&self, tuple: &[Owned]) -> bool {
        let key = self.key_of(tuple);
        let mut row = Row::new();
        let found = declared::get(self.engine, self.place, &values(&key), None, &mut row);
        let same = |row: &Row| {
            let found: Key = row.values().map(|value| Owned::of(&value)).collect();
            compare(&found, tuple).is_eq()
        };
        found.is_ok_and(|found| found && same(&row))
    }

    fn flush(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if self.failed.is_some() || pending.is_empty() {
            return;
        }
        let (target, partition, table) = self.target;
        let (mut refused, mut encoded) = (Vec::new(), Vec::new());
        let before = *self.taken;
        let mut taken = before;
        let done = target.partition(partition as usize).write(|tx| {
            refused.clear();
            taken = before;
            for tuple in &pending {
                let tuple_values = values(tuple);
                match tx.insert(table, &tuple_values) {
                    Ok(()) => {
                        encoded.clear();
                        encode(table.schema(), tuple_values.into_iter(), &mut encoded);
                        taken.add(&encoded);
                    }
                    // Another way has led to it before.
                    Err(Error::DuplicateKey { index: None, .. }) => {}
                    Err(error @ Error::DuplicateKey { .. }) => {
                        refused.push((self.key_of(tuple), error.to_string()));
                    }
                    Err(Error::Invalid(why)) => refused.push((self.key_of(tuple), why.to_string())),
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        *self.taken = taken;
        self.failed = done.err();
        for (key, why) in refused {
            self.gap(Gap::Tuple(key), &format!("{IMPOSSIBLE}: {why}"));
        }
    }
}

impl Sink for Taker<'_> {
    fn tuple(&mut self, row: &Row, sound: bool) {
        let tuple: Key = row.values().map(|value| Owned::of(&value)).collect();
        if !sound {
            return self.gap(Gap::Tuple(self.key_of(&tuple)), IMPOSSIBLE);
        }
        // By a secondary index it may come a second time, and need not be found by its own key:
        // that is what is broken.
        if self.tell && !self.verifies(&tuple) {
            let lost = format!("the tuple that says {} of its key", key_text(&self.key_of(&tuple)));
            self.gaps += 1;
            return self.find("a tuple's own key does not lead to it", lost);
        }
        self.pending.push(tuple);
        if self.pending.len() >= BATCH {
            self.flush();
        }
    }

    fn gap(&mut self, gap: Gap, why: &str) {
        self.gaps += 1;
        if self.tell {
            self.find(why, gap_text(&gap, false));
        }
    }
}

/// Copies a database's files to a directory that belongs to the new database, and goes with it.
fn copy_files(
    source: &HostFiles,
    (new, database): (&NewPool, &Database<Native>),
) -> Result<HostFiles, Error> {
    let pool = database.pool();
    let place = pool.place().with_suffix(COPIES);
    let error = |path: &Path| {
        let path = path.display().to_string();
        move |source| Error::Io { path, source }
    };
    let path = place.path().to_owned();
    // Nothing of it has to survive anything.
    let files = new.add_directory(pool, place, (Domain::Process, false)).map_err(error(&path))?;
    Pairing::claim(&files, pool.info().header.uuid).map_err(error(&path))?;
    files.set_stamp(source.stamp());
    for name in source.list().map_err(error(source.path()))? {
        copy(source, &files, &name).map_err(error(&source.path().join(&name)))?;
    }
    Ok(files)
}

fn copy(from: &HostFiles, to: &HostFiles, name: &str) -> std::io::Result<()> {
    let (from, to) = (from.open(name)?, to.create(name)?);
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    loop {
        let filled = from.read_at(at, &mut buffer)?;
        if filled == 0 {
            return Ok(());
        }
        to.write_at(at, &buffer[..filled])?;
        at += filled as u64;
    }
}
