//! A database that an operation is repeated in.

use std::ops::ControlFlow;
use std::time::Duration;

use perdura::{
    ColumnType, Database, Domain, EngineKind, Error, Options, Placement, Row, Scan, Schema, Table,
    TableSchema, Tx, Value,
};

use super::medium::Medium;
use crate::allocator::allocations;

/// Rows that are there all the time.
pub(crate) const ROWS: u64 = 40;
/// Jobs that wait in the queue all the time.
pub(crate) const JOBS: u64 = 8;
pub(crate) const WAITING: u64 = 0;
pub(crate) const TAKEN: u64 = 1;
/// The most bytes of a payload.
pub(crate) const MOST: usize = 2_000;
/// Bytes of the payload of a row that is as it was in the beginning.
pub(crate) const USUAL: usize = 60;

/// Repetitions after which keys and values come again in engines that keep them all.
const VALUES: u64 = 32;

/// A column of the table of these tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Engine {
    Known(EngineKind),
    /// The column store with all indexes in persistent memory.
    Placed,
}

impl Engine {
    pub(crate) fn kind(self) -> EngineKind {
        match self {
            Self::Known(kind) => kind,
            Self::Placed => EngineKind::Sofort,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Known(kind) => kind.name(),
            Self::Placed => "sofort, all indexes durable",
        }
    }

    /// The number of a repetition, from which keys and values come. `sofort` keeps each value that a
    /// column ever had (`docs/guarantees.md`), so there they come again.
    pub(crate) fn number(self, repetition: u64) -> u64 {
        if self.kind() == EngineKind::Sofort { repetition % VALUES } else { repetition }
    }

    /// So small in every way that what comes back only now and then (log, MemTables, runs, pages)
    /// does so several times within a few dozen operations.
    fn options(self) -> Options {
        let options = Options::new()
            .engine(self.kind())
            .domain(Domain::Process)
            .huge_pages(false)
            // No operation waits for another one: a conflict ends it.
            .retry_for(Duration::ZERO)
            .chunk_bytes(16 << 10)
            .tune("node_bytes", 128)
            .tune("tree_node_bytes", 128)
            .tune("page_bytes", 512)
            .tune("cache_bytes", 16 << 10)
            .tune("memtable_bytes", 2 << 10)
            .tune("growth", 2)
            .tune("level0_runs", 2)
            .tune("block_bytes", 256)
            .tune("checkpoint_bytes", 4 << 10)
            .tune("wal_reserve_bytes", 4 << 10)
            .tune("wal_buffer_bytes", 4 << 10)
            .tune("buffer_bytes", 128 << 10)
            .tune("log_bytes", 1 << 20)
            .tune("log_buffer_bytes", 256 << 10)
            .tune("log_entries", 1 << 10)
            .tune("checkpoint_entries", 32)
            .tune("checkpoint_frames", 16)
            .tune("group_wait_us", 0)
            .tune("reserve", 16)
            // Hashes and heights are the same in each run.
            .tune("seed", 1)
            // Nothing is allocated, freed or made durable by another thread.
            .tune("persister", 0)
            .pool_limit(1 << 30)
            .volatile_limit(1 << 30);
        match self {
            Self::Known(_) => options,
            Self::Placed => options.placement(Placement::Percent(100)),
        }
    }
}

fn schema() -> Schema {
    let row = TableSchema::new("t")
        .column("id", ColumnType::U64)
        .column("name", ColumnType::Text { max: 20 })
        .column("payload", ColumnType::Bytes { max: MOST as u32 })
        .column("count", ColumnType::U64)
        .key(&["id"])
        .index("by_name", &["name"]);
    let job = TableSchema::new("job")
        .column("id", ColumnType::U64)
        .column("state", ColumnType::U64)
        .key(&["id"])
        .index("by_state", &["state"]);
    Schema::new().table(row).table(job)
}

pub(crate) fn key(number: u64) -> [Value<'static>; 1] {
    [Value::U64(number)]
}

/// Calls `with` with the values of a row of the table `t`.
pub(crate) fn with_row<T>(id: u64, bytes: usize, with: impl FnOnce(&[Value<'_>]) -> T) -> T {
    let (name, payload) = (format!("name {:08}", id % 100_000_000), vec![id as u8; bytes]);
    with(&[id.into(), Value::Text(&name), Value::Bytes(&payload), Value::U64(0)])
}

pub(crate) fn job(id: u64) -> [Value<'static>; 2] {
    [id.into(), WAITING.into()]
}

/// The cost of a read.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    /// Accesses to memory, where the medium counts them.
    pub(crate) accesses: u64,
    pub(crate) allocations: u64,
    /// Pages of a buffer pool.
    pub(crate) pages: u64,
    /// Entries of indexes, and versions of rows.
    pub(crate) versions: u64,
}

/// A database, with its rows and its jobs.
pub(crate) struct Subject<M: Medium> {
    pub(crate) medium: M,
    pub(crate) kind: EngineKind,
    db: Option<Database<M::Memories>>,
    pub(crate) rows: Table,
    pub(crate) jobs: Table,
    options: Options,
    row: Row,
}

impl<M: Medium> Subject<M> {
    pub(crate) fn new(engine: Engine, change: fn(Options) -> Options) -> Result<Self, Error> {
        let (medium, options) = (M::new(), change(engine.options()));
        let db = medium.create(&schema(), &options)?;
        let (rows, jobs) = (db.table("t")?, db.table("job")?);
        for id in 0..ROWS {
            db.write(|tx| with_row(id, USUAL, |values| tx.insert(&rows, values)))?;
        }
        // Where numbers come again, no job that waits has one of those.
        let first = if engine.number(VALUES) == 0 { JOBS + VALUES } else { 0 };
        db.write(|tx| (first..first + JOBS).try_for_each(|id| tx.insert(&jobs, &job(id))))?;
        let kind = engine.kind();
        Ok(Self { medium, kind, db: Some(db), rows, jobs, options, row: Row::new() })
    }

    pub(crate) fn db(&self) -> &Database<M::Memories> {
        self.db.as_ref().expect("it is open between operations")
    }

    /// Opens the database again after `end` has ended it.
    pub(crate) fn reopen(
        &mut self,
        end: impl FnOnce(Database<M::Memories>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        end(self.db.take().expect("it is open between operations"))?;
        let db = self.medium.open(&self.options)?;
        (self.rows, self.jobs) = (db.table("t")?, db.table("job")?);
        self.db = Some(db);
        Ok(())
    }

    /// Opens the database once more.
    pub(crate) fn open_again(&self) -> Result<Database<M::Memories>, Error> {
        self.medium.open(&self.options)
    }

    /// Creates another one in its place.
    pub(crate) fn create_again(&self) -> Result<Database<M::Memories>, Error> {
        self.medium.create(&schema(), &self.options)
    }

    /// Updates the number in a row, in a transaction of its own.
    pub(crate) fn touch(&self, number: u64) -> Result<(), Error> {
        self.db().update(&self.rows, &key(number % ROWS), &[("count", Value::U64(number))])
    }

    /// The pages and the versions that were looked at so far, in engines that count them.
    fn looked_at(&self) -> Result<(u64, u64), Error> {
        let own = self.db().stats()?.own;
        let pages = own.buffer().map_or(0, |buffer| buffer.hits + buffer.reads);
        let versions = match own {
            perdura::OwnStats::Sofort(own) => own.scanned + own.versions,
            _ => 0,
        };
        Ok((pages, versions))
    }

    /// Reads rows by key, all rows in both orders of both indexes, and the first jobs. It is the
    /// same whatever the operation: what they leave are these rows, and as many jobs.
    pub(crate) fn read(&mut self) -> Result<Cost, Error> {
        let (before, accesses) = (self.looked_at()?, self.medium.accesses());
        let mut row = std::mem::take(&mut self.row);
        let (mut found, mut seen) = (Ok(true), 0);
        let allocations = allocations(|| {
            found = self.db().read(|tx| {
                let mut all = true;
                for id in (0..ROWS).step_by(7) {
                    all &= tx.get_into(&self.rows, &key(id), &mut row)?;
                }
                let mut count = |_: &Row| {
                    seen += 1;
                    ControlFlow::Continue(())
                };
                tx.scan(&self.rows, &Scan::all(), &mut count)?;
                tx.scan(&self.rows, &Scan::all().by("by_name").backward(), &mut count)?;
                let waiting = || Scan::prefix([Value::from(WAITING)]).by("by_state").limit(1);
                tx.scan(&self.jobs, &waiting(), &mut count)?;
                tx.scan(&self.jobs, &waiting().backward(), &mut count)?;
                tx.scan(&self.jobs, &Scan::all().limit(1), &mut count)?;
                Ok(all)
            });
        });
        self.row = row;
        assert!(found?, "the rows are there");
        assert!(seen >= 2 * ROWS + 3, "{seen} rows");
        let (accesses, after) = (self.medium.accesses() - accesses, self.looked_at()?);
        let (pages, versions) = (after.0 - before.0, after.1 - before.1);
        Ok(Cost { accesses, allocations, pages, versions })
    }

    /// Does all the work that is put off.
    pub(crate) fn rest(&self) -> Result<(), Error> {
        while self.db().background(1 << 20)? > 0 {}
        self.db().checkpoint()?;
        self.db().sync()
    }

    /// Returns the number of objects in the pool, after a check of the whole database, which has as
    /// many tuples as in the beginning.
    pub(crate) fn objects(&self) -> Result<u64, Error> {
        let report = self.db().check()?;
        assert_eq!((report.leaked, report.dangling), (0, 0), "{report:?}");
        assert_eq!(report.tuples, ROWS + JOBS, "{report:?}");
        Ok(report.objects)
    }
}

pub(crate) type Transaction<'a, M> = Tx<'a, <M as Medium>::Memories>;
