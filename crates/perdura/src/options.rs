//! Options for creating and opening a database, and for running a transaction.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engines::below::{Domain, Environment, PoolOptions};
use engines::{
    EngineKind, EngineOptions, EngineTraits, Isolation, NODE_BYTES, OptionError, Restoring, Setup,
};

use crate::any_engine::EngineSource;
use crate::choice::EngineChoice;
use crate::error::Error;

/// The moment at which a commit returns.
///
/// ```
/// # use perdura::*;
/// # use std::time::Duration;
/// // One sync for up to 100 transactions, and none waits for it longer than 5 ms.
/// let within = Some(Duration::from_millis(5));
/// let options = Options::new().commit(Commit::Grouped { transactions: 100, within });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commit {
    /// A commit returns when its transaction is durable.
    Durable,
    /// A commit returns at once; the transaction becomes durable with a group of others. The
    /// [`crate::Ticket`] can be waited for or asked ([`crate::Database::wait`],
    /// [`crate::Database::durable`]). Engines that are durable at every commit anyway ignore this.
    Grouped {
        /// The transactions of a group: the last of them syncs for all.
        transactions: u32,
        /// A group that is not full is synced after this time, by a thread that the database starts
        /// and owns; without a limit, only on request ([`crate::Database::wait`],
        /// [`crate::Database::sync`], closing). The thread waits for the transaction that is open
        /// then. An owner of the partition ([`crate::Partition::exclusive`]) lets it in between two
        /// transactions.
        within: Option<Duration>,
    },
}

impl Commit {
    /// Returns groups of so many transactions, without a time limit.
    pub const fn grouped(transactions: u32) -> Self {
        Self::Grouped { transactions, within: None }
    }
}

/// The place of an engine's secondary structures, its indexes (P4 4.3). It is fixed when a database
/// is created.
///
/// ```
/// # use perdura::{EngineKind, Options, Placement};
/// // No index is built after a crash.
/// let options = Options::new().engine(EngineKind::Sofort).placement(Placement::Percent(100));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placement {
    /// So many per cent of the indexes, by their number, lie in persistent memory, and are there
    /// when the database is opened; each change of a key costs more. The others lie in ordinary
    /// memory, and are rebuilt while transactions run. The indexes of the first tables come first,
    /// of each table its keys and then its dictionaries. More than 100 is refused.
    Percent(u32),
    /// The structures with these names ([`crate::StructureStats::name`]), and no others, lie in
    /// persistent memory. If table names have dots, two structures may have the same name: both are
    /// meant then. An unknown name is refused, with a list of those that exist.
    Named(Vec<String>),
}

impl Placement {
    /// Returns [`Placement::Named`] of these names.
    ///
    /// ```
    /// # use perdura::*;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("accounts");
    /// let accounts = TableSchema::new("accounts")
    ///     .column("id", ColumnType::U64)
    ///     .column("owner", ColumnType::Text { max: 40 })
    ///     .key(&["id"]);
    /// let options = Options::new()
    ///     .engine(EngineKind::Sofort)
    ///     .placement(Placement::named(["accounts.key", "accounts.dictionary.owner"]));
    /// let db = Database::create(&path, &Schema::new().table(accounts), &options)?;
    /// let structures = db.structures()?;
    /// let durable = structures.iter().filter(|structure| structure.durable);
    /// assert_eq!((structures.len(), durable.count()), (3, 2));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn named<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self::Named(names.into_iter().map(Into::into).collect())
    }
}

/// The threads that do the work that engines put off: steps of checkpoints, collecting the pages
/// that a crash has left, flushes and merges of runs.
///
/// ```
/// # use perdura::*;
/// // A thread of the database writes checkpoints and merges runs; transactions need not.
/// let options = Options::new().engine(EngineKind::Log).background(Background::Thread);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Background {
    /// Transactions, a part each, and calls of [`crate::Database::background`].
    #[default]
    Inline,
    /// A thread that the database starts and owns, one for all partitions. It takes a partition for
    /// small steps of about 64 KiB, so that a writer waits for one step at most, and sleeps until a
    /// commit leaves something to do. Transactions do only the work that the thread is too slow
    /// for. It ends when the database is closed, dropped or abandoned. `nvm-inp` puts nothing off,
    /// and has no such thread.
    ///
    /// [`crate::EngineStats`] counts the work of the thread. A step that fails counts as a
    /// failure there and is tried again. Until it succeeds, the next call of
    /// [`crate::Database::sync`], [`crate::Database::checkpoint`], [`crate::Database::background`]
    /// or [`crate::Database::close`] returns the error, once.
    Thread,
}

/// Options of [`crate::Database::write_with`].
///
/// ```
/// # use std::time::Duration;
/// # use perdura::{Isolation, WriteOptions};
/// WriteOptions::new().wait(Duration::from_millis(5)).isolation(Isolation::Snapshot);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteOptions {
    pub(crate) wait: Option<Duration>,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) retry_for: Option<Duration>,
}

impl WriteOptions {
    /// Returns the options with which [`crate::Database::write`] runs a transaction.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long the transaction waits for a partition that is taken ([`Error::Busy`] after
    /// that), and how long each of its calls waits for locks, however many there are
    /// ([`Error::Conflict`]).
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = Some(time);
        self
    }

    /// Sets the isolation that the transaction needs. An engine may give more; one that cannot give
    /// so much refuses with [`Error::Unsupported`]. By default the transaction gets the engine's
    /// usual isolation ([`crate::EngineTraits::usual_isolation`]).
    #[must_use]
    pub fn isolation(mut self, level: Isolation) -> Self {
        self.isolation = Some(level);
        self
    }

    /// Sets for how long the transaction is run again after a conflict; by default, as long as
    /// [`Options::retry_for`] says.
    #[must_use]
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = Some(time);
        self
    }
}

/// An option of an engine that was given by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Named {
    name: String,
    value: u64,
    /// Set if engines that do not have the option ignore it.
    only_where_known: bool,
}

/// Options for [`crate::Database::create`] and [`crate::Database::open`], with defaults that are
/// safe: the medium's own durability domain, NVM-InP on persistent memory and tmpfs, NV-Disk on a
/// disk, durable at every commit.
///
/// An engine's own options belong to it: [`Options::engine`] takes a value of the engine's option
/// type, [`Options::set`] takes a name. `perdura pool options` shows all names, as
/// [`EngineKind::options`] has them.
///
/// ```
/// # use perdura::{InpOptions, Options};
/// let often = InpOptions { checkpoint_bytes: 16 << 20, ..InpOptions::default() };
/// Options::new().engine(often);
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) engine: Option<EngineChoice>,
    /// Options of engines by their names, in the order in which they were given.
    named: Vec<Named>,
    pub(crate) partitions: Option<u32>,
    pub(crate) pool: PoolOptions,
    pub(crate) initial_bytes: Option<u64>,
    pub(crate) chunk_bytes: Option<u64>,
    pub(crate) commit: Commit,
    pub(crate) background: Background,
    helped: bool,
    group: u32,
    pub(crate) volatile_bytes: Option<u64>,
    pub(crate) retry_for: Duration,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) resume_within: Option<Duration>,
    pub(crate) archive: Option<Arc<Path>>,
    placed: Option<Arc<[String]>>,
    pub(crate) restoring: Option<Restoring>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            engine: None,
            named: Vec::new(),
            partitions: None,
            pool: PoolOptions::default(),
            initial_bytes: None,
            chunk_bytes: None,
            commit: Commit::Durable,
            background: Background::Inline,
            helped: false,
            group: 1,
            volatile_bytes: None,
            retry_for: Duration::from_secs(10),
            isolation: None,
            resume_within: None,
            archive: None,
            placed: None,
            restoring: None,
        }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the method of storage and recovery: an [`EngineKind`], the options of one, such as
    /// [`crate::InpOptions`], or [`EngineChoice::Paged`]. If none is named a new database has
    /// NVM-InP on persistent memory and tmpfs, and the paged engine NV-Disk on a disk. An existing
    /// database has one; naming another, or giving the options of another, is an error.
    ///
    /// ```
    /// # use perdura::*;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("accounts");
    /// # let schema = Schema::new().table(TableSchema::new("t").column("id", ColumnType::U64).key(&["id"]));
    /// let db = Database::create(&path, &schema, &Options::new())?;
    /// let on_a_disk = db.pool_info().medium.natural == Domain::Disk;
    /// let default = if on_a_disk { EngineKind::NvDisk } else { EngineKind::NvmInp };
    /// assert_eq!(db.engine(), default);
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn engine(mut self, engine: impl Into<EngineChoice>) -> Self {
        self.engine = Some(engine.into());
        self
    }

    /// Sets an option of the engine by its name; this overrides what [`Options::engine`] says of
    /// it. An engine that does not have the option refuses it, with the names of those that do.
    ///
    /// ```
    /// # use perdura::{EngineKind, Options};
    /// Options::new().engine(EngineKind::Inp).set("checkpoint_bytes", 16 << 20);
    /// ```
    #[must_use]
    pub fn set(self, name: &str, value: u64) -> Self {
        self.name(name, value, false)
    }

    /// Sets an option as [`Options::set`] does, for a program that runs several engines: those that
    /// do not have the option ignore it. A name that no engine has is refused.
    #[must_use]
    pub fn tune(self, name: &str, value: u64) -> Self {
        self.name(name, value, true)
    }

    fn name(mut self, name: &str, value: u64, only_where_known: bool) -> Self {
        if name == "placement" {
            // The last call counts: a share replaces names.
            self.placed = None;
        }
        self.named.push(Named { name: name.into(), value, only_where_known });
        self
    }

    /// Sets the durability domain. One that is stronger than the medium's needs [`Options::model`].
    #[must_use]
    pub fn domain(mut self, domain: Domain) -> Self {
        self.pool.domain = Some(domain);
        self
    }

    /// Allows a domain to be modelled, for measurements; false by default. Its instructions are
    /// executed, but the medium does not keep its promise.
    #[must_use]
    pub fn model(mut self, model: bool) -> Self {
        self.pool.model = model;
        self
    }

    /// Sets the number of partitions of a new database; transactions of different partitions run at
    /// the same time. One by default.
    #[must_use]
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Sets the moment at which a commit returns.
    #[must_use]
    pub fn commit(mut self, commit: Commit) -> Self {
        self.commit = commit;
        self.group = match commit {
            Commit::Durable => 1,
            Commit::Grouped { transactions, .. } => transactions.max(1),
        };
        self
    }

    /// Sets which threads do the work that engines put off; the transactions themselves by default.
    #[must_use]
    pub fn background(mut self, background: Background) -> Self {
        self.background = background;
        self.helped = background == Background::Thread;
        self
    }

    /// Sets the bytes up to which a new pool may ever grow; 64 GiB by default. Only addresses are
    /// reserved. It is fixed when the database is created: to raise it, back the database up and
    /// restore it with a larger one.
    #[must_use]
    pub fn pool_limit(mut self, bytes: u64) -> Self {
        self.pool.limit_bytes = bytes;
        self
    }

    /// Sets the bytes that a new pool starts with.
    #[must_use]
    pub fn pool_initial(mut self, bytes: u64) -> Self {
        self.initial_bytes = Some(bytes);
        self
    }

    /// Sets the bytes of the allocator's chunks, a power of two from 8 KiB to 4 MiB. A value that
    /// does not fit into one chunk takes several, so that half a chunk is lost with each such value
    /// on average. Small pools waste less with small chunks.
    #[must_use]
    pub fn chunk_bytes(mut self, bytes: u64) -> Self {
        self.chunk_bytes = Some(bytes);
        self
    }

    /// Sets the bytes of volatile memory that a partition of InP or Log may take; 256 GiB of
    /// addresses by default, so that the greatest possible number of partitions fits. In a process
    /// whose addresses are limited (`ulimit -v`) the partitions share half of what is left.
    #[must_use]
    pub fn volatile_limit(mut self, bytes: u64) -> Self {
        self.volatile_bytes = Some(bytes);
        self
    }

    /// Sets for how long [`crate::Database::write`] and [`crate::Database::read`] run a transaction
    /// again that ends in [`Error::Conflict`]; 10 seconds by default, from the first conflict on. A
    /// rerun waits for locks no longer than what is left of that time.
    ///
    /// This is also the longest that a call waits for locks, in all, and for a partition while its
    /// thread holds another one, so that two threads that want each other's do not wait for ever.
    #[must_use]
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// Sets the isolation of transactions that ask for none ([`WriteOptions::isolation`]); by
    /// default it is [`EngineTraits::usual_isolation`]. An engine that cannot give so much refuses
    /// with [`Error::Unsupported`]; one that always gives more does so. It is not stored in the
    /// database: each opening sets it anew.
    #[must_use]
    pub fn isolation(mut self, level: Isolation) -> Self {
        self.isolation = Some(level);
        self
    }

    /// Sets where `sofort` keeps its indexes in a new database; all in ordinary memory by default.
    /// Engines that have no such choice refuse it, as [`Options::set`] does with the option
    /// `placement`, which this is.
    #[must_use]
    pub fn placement(self, placement: Placement) -> Self {
        match placement {
            Placement::Percent(percent) => self.set("placement", percent.into()),
            Placement::Named(names) => {
                Self { placed: Some(names.into()), ..self.set("placement", 0) }
            }
        }
    }

    /// Sets how long a transaction waits to be continued ([`crate::Database::in_flight`]), counted
    /// from the opening that found it, or from [`crate::Tx::detach`]. Once the time is over the
    /// transaction is rolled back, by the next call that begins a transaction that may change
    /// something, or that asks for transactions to continue. Zero rolls back, when the database is
    /// opened, what a crash cut off. Without this a transaction waits until sixteen openings have
    /// found it.
    #[must_use]
    pub fn resume_within(mut self, time: Duration) -> Self {
        self.resume_within = Some(time);
        self
    }

    /// Allows opening a pool of domain `process`, or a modelled one, after a reboot, whatever the
    /// pool lost in it. Once it is closed it opens without this.
    #[must_use]
    pub fn accept_loss(mut self, accept: bool) -> Self {
        self.pool.accept_loss = accept;
        self
    }

    /// Turns media errors (SIGBUS) into errors instead of letting them end the process; true by
    /// default.
    #[must_use]
    pub fn catch_media_errors(mut self, catch: bool) -> Self {
        self.pool.catch_media_errors = catch;
        self
    }

    /// Lets a pool on tmpfs ask the kernel for huge pages as it grows; true by default. Reads of
    /// much data wait less for addresses then; what is stored, and how much of it, is the same.
    /// Elsewhere this changes nothing.
    #[must_use]
    pub fn huge_pages(mut self, huge: bool) -> Self {
        self.pool.huge_pages = huge;
        self
    }

    /// Sets the boot of the machine instead of asking the kernel, for tests of what a reboot does.
    #[must_use]
    pub fn boot_id(mut self, id: [u8; 16]) -> Self {
        self.pool.boot_id = Some(id);
        self
    }

    /// Sets the existing directory in which the logs of the paged engines are archived: no part of
    /// a log is reused before it is copied there, durably. With a base backup
    /// ([`crate::Database::base_backup`]) the database can be restored to any later moment
    /// ([`crate::Backup::restore_until`]).
    ///
    /// The database records that it has an archive, and how far the archive reaches. If it is
    /// opened without the archive, or while the archive accepts nothing, the log keeps what the
    /// archive lacks: nothing is lost, and writers wait when the log is full.
    /// [`crate::Database::end_archive`] ends archiving. An archive is refused if it belongs to
    /// another database, or to a copy of this one that has gone on by itself.
    ///
    /// The archive lacks what was logged since the last checkpoint. [`crate::Database::checkpoint`]
    /// and [`crate::Database::close`] bring it up to date, and return an error if it accepts
    /// nothing.
    ///
    /// ```
    /// # use perdura::*;
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let archive = directory.path();
    /// Options::new().engine(EngineKind::NvDisk).archive(archive);
    /// ```
    #[must_use]
    pub fn archive(mut self, directory: impl AsRef<Path>) -> Self {
        self.archive = Some(directory.as_ref().into());
        self
    }

    /// Refuses an isolation that is more than the engine has.
    pub(crate) fn check_isolation(&self, traits: EngineTraits) -> Result<(), Error> {
        refuse_more(self.isolation, traits.isolation)
    }

    /// Refuses an archive for an engine that has no such thing.
    pub(crate) fn check_archive(&self, traits: EngineTraits) -> Result<(), Error> {
        if self.archive.is_none() || traits.larger_than_memory {
            return Ok(());
        }
        Err(Error::Unsupported { what: "archive of its log; the paged engines have one".into() })
    }

    /// Returns the engine of a new database on a medium of this natural durability domain.
    pub(crate) fn kind_on(&self, natural: Domain) -> EngineKind {
        match (&self.engine, natural) {
            (Some(choice), natural) => choice.kind_on(natural),
            (None, Domain::Disk) => EngineChoice::Paged.kind_on(natural),
            (None, Domain::Process | Domain::Adr | Domain::Eadr) => EngineKind::NvmInp,
        }
    }

    /// Returns the options that were chosen for the engine `kind`, which is the one that was named
    /// if any was.
    pub(crate) fn engine_options(&self, kind: EngineKind) -> Result<EngineOptions, Error> {
        let mut own = match &self.engine {
            Some(EngineChoice::Known(own)) if own.kind() == kind => own.clone(),
            _ => kind.into(),
        };
        for Named { name, value, only_where_known } in &self.named {
            if !only_where_known || own.get(name).is_some() {
                own.set(name, *value).map_err(|error| refused(&error))?;
            }
        }
        own.check().map_err(|error| refused(&error))?;
        Ok(own)
    }

    /// Bytes of a node of a B+tree in a new database.
    pub(crate) fn node_bytes<E: Environment>(&self, source: EngineSource<'_, E>) -> u32 {
        let chosen = match source {
            EngineSource::Known(options, _) => options.get("node_bytes"),
            EngineSource::OfTest(_) => {
                let named = self.named.iter().rev().find(|named| named.name == "node_bytes");
                named.map(|named| named.value)
            }
        };
        chosen.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(NODE_BYTES)
    }

    /// Returns how each of so many partitions is created or opened.
    pub(crate) fn setup(&self, partitions: u32, node_bytes: u32) -> Setup {
        let (group, helped) = (self.group, self.helped);
        let (archive, restoring) = (self.archive.clone(), self.restoring.clone());
        let placed = self.placed.clone();
        let new = Setup { archive, placed, restoring, ..Setup::default() };
        Setup { partitions, node_bytes, group, helped, ..new }
    }

    /// Refuses invalid options, as far as they can be recognized before anything is created or
    /// opened. Others are refused where they are used.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for named in &self.named {
            EngineKind::check_option_name(&named.name).map_err(|error| refused(&error))?;
        }
        let kind = self.engine.as_ref().and_then(EngineChoice::kind);
        kind.map_or(Ok(()), |kind| self.engine_options(kind).map(drop))
    }
}

fn refused(error: &OptionError) -> Error {
    Error::Options(error.to_string())
}

/// Refuses an isolation that is more than an engine has.
pub(crate) fn refuse_more(wanted: Option<Isolation>, most: Isolation) -> Result<(), Error> {
    match wanted {
        Some(wanted) if wanted > most => {
            Err(Error::Unsupported { what: format!("isolation `{wanted}`, only `{most}`") })
        }
        _ => Ok(()),
    }
}
