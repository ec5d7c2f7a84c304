//! NV-Logging (P2 4 and 5): a database on a disk whose log lies in persistent memory. Operations:
//! see [`crate::paged`], and below what differs.
//!
//! Pages and their staging area lie in files, the log in the pool: one object of the heap, which a
//! root of the partition leads to. A crash while the partition is created leaves an unused object
//! or root: the pool has no description of a database yet.
//!
//! | step | flush-on-insert | flush-on-commit |
//! |---|---|---|
//! | INSERT, UPDATE, DELETE (4.3) | make the log object in DRAM; copy it to its place and flush it; store its entry and flush that; **fence**; then change the page | make the log object in DRAM, then change the page. The persister comes by: copy, flush, entry, flush of all objects that are made; **fence** |
//! | COMMIT | its own object as above | its own object in DRAM; then objects that are not durable yet, older ones of others too, as the persister does; **fence** |
//! | ABORT (4.4) | compensations, as any change, from the newest object to the oldest; an object that says so | the same; an object is made durable before it is read to be undone |
//! | TRUNCATE (4.5) | when 80,000 entries are used: write the pages that were dirty before; move the head in one line, **fence**; clear the bits of entries passed by the head, **fence**; then these and their segments are used again | the same |
//! | RECOVER (4.6) | follow the ring from the head; entries of an earlier round, and those whose object is not sound, are holes, which no reader has seen; analysis, redo, undo | the same, up to the first hole |
//!
//! Invariants: those of [`paged::store`] and of [`paged::log::nv`].

mod options;
mod stats;

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use heap::Purpose;
use paged::log::LogManager;
use paged::log::nv::{NvCounts, NvForm, NvLog, NvOptions, Persist, Persister};
use paged::store::{Store, StoreOptions};
use paged::threads::Host;
use pm::{Environment, Files, LineSet, Memory};

use crate::contract::Resources;
use crate::counts::BufferStats;
use crate::error::EngineError;
use crate::kind::EngineKind;
use crate::options::OwnOptions;
use crate::own::OwnStats;
use crate::paged::{Paged, PagedCounts, PagedLog, base_options, prefix, root_name};
use crate::traits::DurableIn;

use options::Sizes;

pub use options::{NvLoggingFocOptions, NvLoggingFoiOptions};
pub use stats::{NvLoggingFocStats, NvLoggingFoiStats};

/// A partition of NV-Logging with flush-on-insert; see the module's comment.
pub type NvLoggingFoi<E> = Paged<E, InPool<E, FlushOnInsert>>;

/// A partition of NV-Logging with flush-on-commit; see the module's comment.
pub type NvLoggingFoc<E> = Paged<E, InPool<E, FlushOnCommit>>;

/// The time between two passes of the persister.
const PERSISTER_PAUSE: Duration = Duration::from_micros(50);

/// The part of the pool that logs take at most.
const SHARE: u64 = 4;

/// A policy by which log objects become durable (P2 4.3).
pub trait Policy: Debug + Send + Sync + 'static {
    /// The kind of the engine.
    const KIND: EngineKind;
    /// The moment at which they do.
    const PERSIST: Persist;
    /// Commits can be grouped.
    const GROUPS_COMMITS: bool;
    /// The engine's options.
    type Options: OwnOptions;

    /// The sizes among the options.
    fn sizes(options: &Self::Options) -> Sizes;

    /// Returns whether a background thread makes the log objects of transactions durable.
    fn has_persister(options: &Self::Options) -> bool;

    /// The counters of the engine.
    fn stats(buffer: BufferStats, log: NvCounts) -> OwnStats;
}

/// The policy flush-on-insert.
#[derive(Debug)]
pub struct FlushOnInsert;

impl Policy for FlushOnInsert {
    const KIND: EngineKind = EngineKind::NvLoggingFoi;
    const PERSIST: Persist = Persist::OnInsert;
    const GROUPS_COMMITS: bool = false;
    type Options = NvLoggingFoiOptions;

    fn sizes(options: &NvLoggingFoiOptions) -> Sizes {
        options.into()
    }

    fn has_persister(_: &NvLoggingFoiOptions) -> bool {
        false
    }

    fn stats(buffer: BufferStats, log: NvCounts) -> OwnStats {
        NvLoggingFoiStats { buffer, objects: log.objects }.into()
    }
}

/// The policy flush-on-commit.
#[derive(Debug)]
pub struct FlushOnCommit;

impl Policy for FlushOnCommit {
    const KIND: EngineKind = EngineKind::NvLoggingFoc;
    const PERSIST: Persist = Persist::OnCommit;
    const GROUPS_COMMITS: bool = true;
    type Options = NvLoggingFocOptions;

    fn sizes(options: &NvLoggingFocOptions) -> Sizes {
        options.into()
    }

    fn has_persister(options: &NvLoggingFocOptions) -> bool {
        options.persister > 0
    }

    fn stats(buffer: BufferStats, log: NvCounts) -> OwnStats {
        let NvCounts { objects, by_persister, by_commits } = log;
        NvLoggingFocStats { buffer, objects, by_persister, by_commits }.into()
    }
}

/// The log.
type Log<E> = NvLog<<E as Environment>::Durable, Host>;

/// A log in the pool, and its persister.
#[derive(Debug)]
pub struct InPool<E: Environment, P> {
    log: Arc<Log<E>>,
    /// The place of the log, which is an object of the heap.
    at: u64,
    persister: Mutex<Option<Persister>>,
    /// The counts of what opening did.
    before: OnceLock<NvCounts>,
    policy: PhantomData<fn() -> P>,
}

impl<E: Environment, P: Policy> InPool<E, P> {
    /// Returns a number that distinguishes the logs of this database's partitions from each other
    /// and from those of other databases.
    fn stamp(resources: &Resources<E>) -> Result<u32, EngineError> {
        Ok(resources.own_files()?.stamp().wrapping_add(resources.partition))
    }

    /// Bytes that the log of a partition may take.
    fn share(resources: &Resources<E>) -> u64 {
        let (memory, partitions) = (resources.durable.memory(), resources.durable.lanes() - 1);
        (memory.len() + memory.headroom()) / SHARE / u64::from(partitions.max(1))
    }

    fn open_by(
        resources: &Resources<E>,
        options: &P::Options,
        open: impl FnOnce(E::Durable, u64, u32, NvOptions, Arc<Host>) -> paged::Result<Log<E>>,
    ) -> Result<Self, EngineError> {
        let name = root_name(P::KIND, resources.partition);
        let at = resources.durable.root(&name)?.ok_or(EngineError::Missing { what: name })?;
        // It comes from the medium: nothing is reckoned from it before.
        resources.durable.has_room(at, NvForm::HEAD_BYTES)?;
        let (stamp, of) = (Self::stamp(resources)?, P::sizes(options).log_options(P::PERSIST));
        let memory = resources.durable.memory().clone();
        let log = open(memory, at, stamp, of, Arc::default())?;
        Self::over(resources, log, at, options)
    }

    fn over(
        resources: &Resources<E>,
        log: Log<E>,
        at: u64,
        options: &P::Options,
    ) -> Result<Self, EngineError> {
        let (files, stamp) = (resources.own_files()?, Self::stamp(resources)?);
        log.keep_cold_in(&files, format!("{}cold", prefix(resources.partition)), stamp)?;
        let log = Arc::new(log);
        let wanted = E::STARTS_THREADS && P::has_persister(options);
        let start = || Persister::start(Arc::clone(&log), PERSISTER_PAUSE);
        let persister = wanted.then(start).transpose().map_err(EngineError::Thread)?;
        Ok(Self {
            log,
            at,
            persister: Mutex::new(persister),
            before: OnceLock::new(),
            policy: PhantomData,
        })
    }
}

impl<E: Environment, P: Policy> PagedLog<E> for InPool<E, P> {
    const KIND: EngineKind = P::KIND;
    const DURABLE_IN: DurableIn = DurableIn::Both;
    const GROUPS_COMMITS: bool = P::GROUPS_COMMITS;
    type Options = P::Options;

    fn store_options(options: &P::Options, least_page_bytes: usize) -> StoreOptions {
        let sizes @ Sizes { page_bytes, buffer_bytes, .. } = P::sizes(options);
        let restart = sizes.restart();
        StoreOptions { restart, ..base_options(page_bytes, buffer_bytes, least_page_bytes) }
    }

    fn create(
        resources: &Resources<E>,
        options: &P::Options,
        page_bytes: usize,
    ) -> Result<Self, EngineError> {
        let (sizes, memory) = (P::sizes(options), resources.durable.memory());
        let form = sizes.form(Self::share(resources), page_bytes);
        let mut lane = resources.durable.lane(resources.partition);
        lane.recovered();
        let at = lane.allocate(form.bytes(), Purpose::Log)?;
        let (stamp, of) = (Self::stamp(resources)?, sizes.log_options(P::PERSIST));
        let log = NvLog::create(memory.clone(), at, form, stamp, of, Arc::default());
        let mut lines = LineSet::default();
        lane.mark_persisted(at, &mut lines);
        lines.flush(memory);
        memory.fence();
        resources.durable.set_root(&root_name(P::KIND, resources.partition), at)?;
        Self::over(resources, log, at, options)
    }

    fn open(resources: &Resources<E>, options: &P::Options, _: usize) -> Result<Self, EngineError> {
        let files = resources.own_files()?;
        let written = Store::<E::Files>::written(&files, &prefix(resources.partition))?;
        Self::open_by(resources, options, |memory, at, stamp, of, host| {
            NvLog::open_under(memory, at, stamp, of, host, written)
        })
    }

    fn replace(
        resources: &Resources<E>,
        options: &P::Options,
        _: usize,
    ) -> Result<Self, EngineError> {
        Self::open_by(resources, options, NvLog::open_past_damage)
    }

    fn manager(&self) -> Arc<dyn LogManager> {
        Arc::clone(&self.log) as Arc<dyn LogManager>
    }

    fn opened(&self) {
        let _ = self.before.set(self.log.counts());
    }

    fn close(&self) -> Result<(), EngineError> {
        // The thread ends as it is dropped.
        drop(self.persister.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(())
    }

    fn check(&self, reachable: &mut dyn FnMut(u64)) {
        reachable(self.at);
    }

    fn stats(&self, counts: &PagedCounts) -> OwnStats {
        let (now, before) = (self.log.counts(), self.before.get().copied().unwrap_or_default());
        let log = NvCounts {
            objects: now.objects - before.objects,
            by_persister: now.by_persister - before.by_persister,
            by_commits: now.by_commits - before.by_commits,
        };
        P::stats(counts.into(), log)
    }
}
