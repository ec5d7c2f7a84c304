//! The contract of an engine: what it is made from, what a transaction can do, what it reports.
//!
//! Longer than 600 lines: it is one contract, most of it comments.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use heap::Heap;
use pm::Environment;
use storage::{Catalog, Row, Value};

use crate::base::{BasePart, VisitPage};
use crate::error::{ConflictReason, EngineError};
use crate::kind::EngineKind;
use crate::options::{OwnOptions, Setup};
use crate::stats::{EngineStats, StructureStats};
use crate::traits::EngineTraits;
use crate::transaction::{Begin, InFlight, TxId};
use crate::version::Version;

pub use crate::scan::{Scan, ScanLocks};

/// The resources that one partition is made from.
#[derive(Debug)]
pub struct Resources<E: Environment> {
    /// The number of the partition; also the lane of the heap that it allocates from.
    pub partition: u32,
    /// Volatile memory of its own.
    pub volatile: E::Volatile,
    /// The database's durable heap.
    pub durable: Heap<E::Durable>,
    /// The database's files, for engines that keep some.
    pub files: Option<E::Files>,
}

impl<E: Environment> Resources<E> {
    /// The database's files, which the engine cannot do without.
    pub(crate) fn own_files(&self) -> Result<E::Files, EngineError> {
        let missing = || EngineError::Missing { what: "directory of files".into() };
        self.files.clone().ok_or_else(missing)
    }
}

/// Reports what recovery had to do.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Operations of unfinished transactions that were undone; of the journal on slotted pages, the
    /// transaction.
    pub undone: u64,
    /// Committed transactions that were done again; of NVM-CoW, ends of batches; 0 of NVWAL and of the log
    /// of whole pages, which do not tell transactions apart.
    pub redone: u64,
    /// Slots that were freed on behalf of committed transactions.
    pub reclaimed: u64,
    /// Master records whose first copy was torn or damaged, so that the second one was taken. A
    /// crash in the middle of a commit tears it; if there was none, the last commit is lost.
    pub second_copies: u64,
    /// The log of engines on slotted pages.
    pub log: RecoveredLog,
}

/// Frames of a log that an opening has stored where they belong, by number, bytes and the time of each step.
/// All zero where there was none, and in engines whose logs have no frames.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RecoveredLog {
    /// The number of frames.
    pub frames: u64,
    /// Their bytes, with their headers.
    pub frame_bytes: u64,
    /// Nanoseconds in which the log was read and checked.
    pub read_ns: u64,
    /// Nanoseconds in which the frames were stored, durably.
    pub applied_ns: u64,
}

impl std::ops::AddAssign for RecoveredLog {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.frame_bytes += other.frame_bytes;
        self.read_ns += other.read_ns;
        self.applied_ns += other.applied_ns;
    }
}

impl std::ops::AddAssign for RecoveryReport {
    fn add_assign(&mut self, other: Self) {
        self.undone += other.undone;
        self.redone += other.redone;
        self.reclaimed += other.reclaimed;
        self.second_copies += other.second_copies;
        self.log += other.log;
    }
}

/// Bytes of storage by component, as P1 5.6 divides them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// Tuples and fields.
    pub table: u64,
    /// Indexes.
    pub index: u64,
    /// Logs.
    pub log: u64,
    /// Checkpoints.
    pub checkpoint: u64,
    /// All else.
    pub other: u64,
}

impl Footprint {
    /// The sum of all components.
    pub fn total(&self) -> u64 {
        self.table + self.index + self.log + self.checkpoint + self.other
    }
}

impl std::ops::AddAssign for Footprint {
    fn add_assign(&mut self, other: Self) {
        self.table += other.table;
        self.index += other.index;
        self.log += other.log;
        self.checkpoint += other.checkpoint;
        self.other += other.other;
    }
}

/// Reports what a check of a whole database found; it found no damage.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CheckReport {
    /// Tuples in all tables.
    pub tuples: u64,
    /// Objects that the allocator holds as persisted.
    pub objects: u64,
    /// Persisted objects that nothing leads to.
    pub leaked: u64,
    /// Objects that something leads to although they are not persisted.
    pub dangling: u64,
}

/// Reads: what a transaction, a transaction that only reads and a snapshot have in common. Each
/// engine implements it once for the ones and once for the others.
pub trait Read {
    /// Copies columns of the tuple with this primary key into `row`, all of them if none are
    /// named; returns whether there is one. Sees what the open transaction has done.
    ///
    /// # Errors
    /// Wrong values, damage.
    fn get(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError>;

    /// Copies columns of the tuple with this primary key into `out` in sequence, numbers as eight
    /// little-endian bytes. Returns how many bytes they have, and copies nothing if `out` is
    /// shorter; `None` if there is no such tuple.
    ///
    /// # Errors
    /// Wrong values, damage.
    fn get_bytes(
        &self,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError>;

    /// Calls `visit` with the tuples of a range, in order, until it breaks. In a
    /// transaction: sees what that has done. A snapshot takes no locks, whatever the scan says.
    ///
    /// # Errors
    /// Wrong values, damage; [`EngineError::Unsupported`] for [`ScanLocks::UpdateOrSkip`] where an engine
    /// cannot pass over what others have.
    fn scan(
        &self,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError>;
}

/// Changes. An operation that fails has changed nothing, and the transaction can go on or abort,
/// unless the error is [`EngineError::Stopped`], [`EngineError::MustAbort`] or
/// [`EngineError::Conflict`].
pub trait Write: Read {
    /// Inserts a tuple with a value for each column.
    ///
    /// # Errors
    /// A duplicate primary key, wrong values, no room.
    fn insert(&mut self, table: u16, values: &[Value<'_>]) -> Result<(), EngineError>;

    /// Updates columns of the tuple with this primary key.
    ///
    /// # Errors
    /// A missing tuple, wrong values, no room.
    fn update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(), EngineError>;

    /// Deletes the tuple with this primary key.
    ///
    /// # Errors
    /// A missing tuple, wrong values.
    fn delete(&mut self, table: u16, key: &[Value<'_>]) -> Result<(), EngineError>;

    /// Acts as [`Read::get`], for a tuple that the transaction is going to change: an engine with
    /// locks takes the lock that a change needs, so that two such transactions do not conflict
    /// later.
    ///
    /// # Errors
    /// As [`Read::get`].
    fn get_for_update(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError> {
        self.get(table, key, columns, row)
    }
}

/// Reads a version of a partition that does not change; see [`Engine::snapshot_source`].
pub trait Reader: Read + Send + Sync + fmt::Debug {}

impl<T: Read + Send + Sync + fmt::Debug> Reader for T {}

/// Reads of a committed state of a partition from any thread, without asking its engine.
pub trait VersionSource: Send + Sync + fmt::Debug {
    /// A state that has all acknowledged transactions, or refuses what it has not; for one read: it is to be given to [`VersionSource::take_back`]:
    /// [`crate::VersionReader`] does. Allocates nothing once there has been a read.
    ///
    /// # Errors
    /// The engine has stopped, or the medium has failed.
    fn lend(&self) -> Result<Version, EngineError>;

    /// The end of a read.
    fn take_back(&self, version: Version);

    /// Acts as [`Read::get`], in a version that was not taken back.
    ///
    /// # Errors
    /// Wrong values, damage; [`EngineError::Conflict`]: see [`Engine::unlocked_source`].
    fn get_in(
        &self,
        version: &Version,
        table: u16,
        key: &[Value<'_>],
        columns: Option<&[u16]>,
        row: &mut Row,
    ) -> Result<bool, EngineError>;

    /// Acts as [`Read::get_bytes`], in a version that was not taken back.
    ///
    /// # Errors
    /// As [`Self::get_in`].
    fn get_bytes_in(
        &self,
        version: &Version,
        table: u16,
        key: &[Value<'_>],
        columns: &[u16],
        out: &mut [u8],
    ) -> Result<Option<usize>, EngineError>;

    /// Acts as [`Read::scan`], in a version that was not taken back.
    ///
    /// # Errors
    /// As [`Self::get_in`].
    fn scan_in(
        &self,
        version: &Version,
        table: u16,
        scan: &Scan<'_>,
        row: &mut Row,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<(), EngineError>;
}

/// Takes snapshots of a partition from any thread, without asking its engine.
pub trait SnapshotSource: VersionSource {
    /// A snapshot of the last committed state.
    ///
    /// # Errors
    /// The engine has stopped, or the medium has failed.
    fn snapshot(&self) -> Result<Box<dyn Reader>, EngineError>;
}

/// A transaction that was committed before it is durable: see [`Engine::commit_early`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Early {
    /// Its number, or that of the last one before it if it has changed nothing.
    pub number: u64,
    /// True if it is durable already.
    pub durable: bool,
    /// True if the transaction is the last one of its group: the thread that committed it waits
    /// until it is durable.
    pub due: bool,
}

/// Makes a partition durable from any thread, while another thread has its engine. One sync is
/// under way at a time; calls that come meanwhile wait.
pub trait Syncer: Send + Sync + fmt::Debug {
    /// Makes durable what was committed early before this was called. Returns the number of the last
    /// transaction that is durable.
    ///
    /// # Errors
    /// The medium failed: nothing more is acknowledged, and the engine stops when it notices.
    fn sync(&self) -> Result<u64, EngineError>;
}

/// A method of storage and recovery: what it is, what can be chosen about it, and how a partition
/// under it comes to be.
pub trait Method<E: Environment>: Engine + Sized {
    /// The kind of the engine.
    const KIND: EngineKind;
    /// The engine's traits.
    const TRAITS: EngineTraits;
    /// True if commits can be grouped, so that several transactions become durable at once; others
    /// are durable at each commit anyway.
    const GROUPS_COMMITS: bool;
    /// Its options.
    type Options: OwnOptions;

    /// Creates an empty partition. It counts once the database's description is written.
    ///
    /// # Errors
    /// No room.
    fn create(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &Self::Options,
    ) -> Result<Self, EngineError>;

    /// Opens a partition and recovers it.
    ///
    /// # Errors
    /// Damage, or no room.
    fn open(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &Self::Options,
    ) -> Result<(Self, RecoveryReport), EngineError>;

    /// Acts as [`Self::create`], in the form of the engine that its options choose, where it has
    /// several.
    ///
    /// # Errors
    /// As [`Self::create`].
    fn create_form(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &Self::Options,
    ) -> Result<Box<dyn Engine>, EngineError>
    where
        Self: 'static,
    {
        Ok(Box::new(Self::create(resources, catalog, setup, options)?))
    }

    /// Acts as [`Self::open`], in the form in which it was created.
    ///
    /// # Errors
    /// As [`Self::open`].
    fn open_form(
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
        options: &Self::Options,
    ) -> Result<(Box<dyn Engine>, RecoveryReport), EngineError>
    where
        Self: 'static,
    {
        let (engine, report) = Self::open(resources, catalog, setup, options)?;
        Ok((Box::new(engine), report))
    }
}

/// Gives the sessions of a partition; `sessions.rs` says what is asked of such an engine.
pub trait Sessions: Send + Sync + fmt::Debug {
    /// Makes a session, with no transaction open. The caller keeps it and uses it again, so that
    /// this is called about as often as there are transactions at the same time.
    ///
    /// # Errors
    /// No room.
    fn session(&self) -> Result<Box<dyn Engine>, EngineError>;

    /// Returns the transactions that a crash cut off, or that were detached, and that have not been
    /// resumed, in engines that continue them.
    fn in_flight(&self) -> Vec<InFlight> {
        Vec::new()
    }

    /// The numbers of those transactions.
    fn numbers(&self) -> Vec<TxId> {
        self.in_flight().into_iter().map(|open| open.id).collect()
    }

    /// A session with this transaction open, as it was after its last statement that was done.
    ///
    /// # Errors
    /// There is none of this number, or the engine does not continue transactions.
    fn resume(&self, id: TxId) -> Result<Box<dyn Engine>, EngineError> {
        Err(EngineError::NotInFlight { id })
    }

    /// A session with this transaction open, as it was when it began: statements are compared with those
    /// that were done, and skipped, and reads see what they saw; [`EngineError::Diverged`] if they differ.
    ///
    /// # Errors
    /// As [`Self::resume`].
    fn replay(&self, id: TxId) -> Result<Box<dyn Engine>, EngineError> {
        Err(EngineError::NotInFlight { id })
    }
}

/// A partition of a database under one method of storage and recovery.
///
/// There is at most one transaction at a time: it begins with the first operation after the end
/// of the last one. An engine that runs many gives a session for each: see [`Sessions`].
pub trait Engine: Write + Send + Sync {
    /// Begins a transaction. Called only of a session ([`Sessions`]), before the first operation of
    /// each transaction.
    ///
    /// # Errors
    /// The partition has stopped.
    fn begin(&mut self, _how: &Begin) -> Result<(), EngineError> {
        Ok(())
    }

    /// Begins a transaction that goes on after a crash, and is found by its name then; no other open one
    /// of the partition has it. Called as [`Engine::begin`].
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]; the name is taken or too long; the partition has stopped.
    fn begin_named(&mut self, _how: &Begin, _name: &[u8]) -> Result<(), EngineError> {
        Err(EngineError::Unsupported { what: "transactions that go on after a crash" })
    }

    /// Leaves the open transaction to [`Sessions::resume`], in any thread, or after a crash.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]; it has no statement: it is open still.
    fn detach(&mut self) -> Result<TxId, EngineError> {
        Err(EngineError::Unsupported { what: "transactions that go on elsewhere" })
    }

    /// [`Write::update`] and [`Engine::commit`] at once, with no transaction open. An engine that
    /// knows that nothing follows may need fewer fences for it.
    ///
    /// # Errors
    /// As both. If the partition has not stopped, what was done is to be undone by
    /// [`Engine::abort`].
    fn update_and_commit(
        &mut self,
        table: u16,
        key: &[Value<'_>],
        changes: &[(u16, Value<'_>)],
    ) -> Result<(u64, bool), EngineError> {
        self.update(table, key, changes)?;
        self.commit()
    }

    /// Commits the open transaction. Returns its number, and whether it is durable already; if
    /// not, [`Engine::sync`] makes it so, or a later commit does.
    ///
    /// # Errors
    /// It is not committed, and the partition has stopped.
    fn commit(&mut self) -> Result<(u64, bool), EngineError>;

    /// Acts as [`Engine::commit`], while other transactions wait for the partition: where the
    /// commit would sync, an engine that can share syncs leaves it to its [`Engine::syncer`], or
    /// without one to [`Engine::sync`] or a later commit. No snapshot sees the transaction before
    /// it is durable.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    fn commit_early(&mut self) -> Result<Early, EngineError> {
        let (number, durable) = self.commit()?;
        Ok(Early { number, durable, due: false })
    }

    /// Makes durable, without the engine, what it has committed early; in engines that can.
    fn syncer(&self) -> Option<Arc<dyn Syncer>> {
        None
    }

    /// Undoes the open transaction.
    ///
    /// # Errors
    /// The partition has stopped; recovery will undo the transaction.
    fn abort(&mut self) -> Result<(), EngineError>;

    /// Makes all committed transactions durable.
    ///
    /// # Errors
    /// The partition has stopped.
    fn sync(&mut self) -> Result<(), EngineError>;

    /// The number of the last committed transaction that is durable.
    fn durable(&self) -> u64;

    /// Returns whether the committed transaction that has this number is durable.
    fn is_durable(&self, number: u64) -> bool {
        self.durable() >= number
    }

    /// Marks this place in the open transaction, for [`Engine::rollback_to`]; in engines with an
    /// undo log, where it costs nothing.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`].
    fn savepoint(&mut self) -> Result<u64, EngineError> {
        Err(EngineError::Unsupported { what: "savepoints" })
    }

    /// Undoes what the open transaction has done since it was at `savepoint`, which stays good;
    /// later ones are void.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]; [`EngineError::NoSavepoint`] for one that is void or of another
    /// transaction, and nothing is undone; or the partition has stopped.
    fn rollback_to(&mut self, _savepoint: u64) -> Result<(), EngineError> {
        Err(EngineError::Unsupported { what: "savepoints" })
    }

    /// The conflict that the open transaction of a session was in: it can only be aborted.
    fn conflict(&self) -> Option<ConflictReason> {
        None
    }

    /// The open transaction and how many of its statements are done, in engines that number
    /// transactions as they begin.
    fn transaction(&self) -> Option<(TxId, u64)> {
        None
    }

    /// Gives sessions, in engines that run many transactions at the same time. Asked once.
    fn sessions(&self) -> Option<Arc<dyn Sessions>> {
        None
    }

    /// Takes a checkpoint, in engines that have such a thing.
    ///
    /// # Errors
    /// No room; the log stays as it is.
    fn checkpoint(&mut self) -> Result<(), EngineError>;

    /// Copies the pages of the partition while sessions go on, for a base backup; in engines whose
    /// log has an archive. When it returns, the archive has all that the copy needs.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]; `visit` failed; a page is damaged, or the medium, or the
    /// archive refuses.
    fn copy_base(&self, _visit: VisitPage<'_>) -> Result<BasePart, EngineError> {
        Err(EngineError::Unsupported { what: "base backups" })
    }

    /// Reports that the archive of the log takes nothing, and why. The log keeps what is not there.
    ///
    /// # Errors
    /// That.
    fn check_archive(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Lets the log have no archive any more, durably.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`], or the medium refuses.
    fn end_archive(&self) -> Result<(), EngineError> {
        Err(EngineError::Unsupported { what: "archive of its log" })
    }

    /// Looks for all that can be read of a damaged partition, in engines that can: from then on
    /// damage hides only what it has hit. The partition must not be changed any more. Returns the
    /// errors of places that cannot be read.
    fn find_rest(&mut self) -> Vec<EngineError> {
        Vec::new()
    }

    /// Reads the first readable tuple of a table after a primary key, or of all, and skips what
    /// cannot be read; returns whether there is one. `None` in engines that do not know, or before
    /// [`Engine::find_rest`].
    fn next_readable(
        &self,
        _table: u16,
        _after: Option<&[Value<'_>]>,
        _row: &mut Row,
    ) -> Option<bool> {
        None
    }

    /// Returns whether the engine ever puts work off.
    fn puts_off_work(&self) -> bool {
        true
    }

    /// Does about `budget` bytes of work that was put off, such as merging runs, between
    /// transactions. Returns about how many bytes still wait. An engine stays bounded without this
    /// call, too: commits do their part.
    ///
    /// # Errors
    /// A step failed; it can be tried again unless the partition has stopped.
    fn background(&mut self, _budget: u64) -> Result<u64, EngineError> {
        Ok(0)
    }

    /// Returns whether [`Engine::background`] has something to do; asked after each commit.
    #[inline]
    fn has_backlog(&self) -> bool {
        false
    }

    /// Returns whether the partition has stopped: nothing works any more until it is opened again.
    fn is_stopped(&self) -> bool;

    /// Keeps logs bounded even if one process after the other is killed before it comes to that
    /// work. Called once after an opening that has succeeded, before the first transaction. Returns
    /// whether anything was changed.
    ///
    /// # Errors
    /// The partition has stopped.
    fn catch_up(&mut self) -> Result<bool, EngineError> {
        Ok(false)
    }

    /// Finishes what the last transactions left to do, so that nothing is left at the next open.
    ///
    /// # Errors
    /// The partition has stopped.
    fn close(&mut self) -> Result<(), EngineError>;

    /// Returns a source of owned snapshots of the last committed state, which can be taken while
    /// another thread has the engine; in engines that have such a thing. A snapshot keeps what it
    /// sees for as long as it lives, and never waits for the writer.
    fn snapshot_source(&self) -> Option<Arc<dyn SnapshotSource>> {
        None
    }

    /// Returns a source of reads without locks of what is committed and durable, in engines with
    /// locks that have such a thing. A read there may end in [`EngineError::Conflict`] where others
    /// have changed what it was to see; it is then to be run anew in a session.
    fn unlocked_source(&self) -> Option<Arc<dyn VersionSource>> {
        None
    }

    /// Bytes of storage of this partition outside the durable heap, by component.
    ///
    /// # Errors
    /// The files cannot be reached.
    fn footprint(&self) -> Result<Footprint, EngineError>;

    /// Returns the counts of work that the engine has done and deferred.
    fn stats(&self) -> EngineStats;

    /// Returns the structures that follow from the rows and are placed one by one, of engines that have such.
    fn structures(&self) -> Vec<StructureStats> {
        Vec::new()
    }

    /// Checks everything of this partition. Calls `reachable` with the offset of every object of
    /// the durable heap that it leads to. Returns the number of tuples.
    ///
    /// # Errors
    /// The first thing that is wrong.
    fn check(&self, reachable: &mut dyn FnMut(u64)) -> Result<u64, EngineError>;
}
