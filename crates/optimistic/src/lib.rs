//! A small engine with optimistic concurrency control, which shows that the contract of concurrent
//! engines and its tests hold. For tests alone.
//!
//! The committed state lies in an engine of P1, [`NvmInp`], which a lock guards. A transaction
//! keeps in memory what it has read and what it will write:
//!
//! 1. A read takes the lock, and notes the version of each key, of absent ones too, and of each
//!    scan which keys it showed in which versions and how far it went.
//! 2. A write is done in the inner engine, which says whether it can be done, and is kept as an
//!    operation. What has been done there is undone when another transaction takes the lock, and
//!    done again when this one does.
//! 3. What a transaction has read is validated at each read, so that it never sees two states, and
//!    when it commits. What has another version, or a scan that would show something else, is a
//!    conflict.
//! 4. A commit does its writes in the inner engine and commits there, under the lock. Durability
//!    and recovery are the inner engine's.
//!
//! Under snapshot isolation the commit validates only what the transaction writes: all that it read
//! was there at the time of its last read, and of two that write one key the first one wins.
//!
//! A [`Flaw`] leaves out a step, so that tests show that they notice.

#![forbid(unsafe_code)]

mod core;
mod flaw;
mod open;
mod session;
mod value;

use std::fmt;
use std::sync::Arc;

use engines::below::{Catalog, Environment};
use engines::{
    Concurrency, DurableIn, Engine, EngineError, EngineTraits, Isolation, Maker, Method, NvmInp,
    NvmInpOptions, RecoveryReport, Resources, Setup, Unfinished,
};

use crate::core::Shared;
use crate::flaw::Hook;
use crate::session::Session;

pub use crate::flaw::{At, Flaw};

/// The engine's name in the description of a database.
pub const NAME: &str = "optimistic";

/// Makes partitions under the optimistic engine.
#[derive(Clone)]
pub struct Optimistic {
    isolation: Isolation,
    flaw: Option<Flaw>,
    hook: Option<Hook>,
}

impl Default for Optimistic {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Optimistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { isolation, flaw, .. } = self;
        f.debug_struct("Optimistic").field("isolation", isolation).field("flaw", flaw).finish()
    }
}

impl Optimistic {
    /// The engine without a flaw: transactions are serializable, unless they ask for less.
    pub fn new() -> Self {
        Self { isolation: Isolation::Serializable, flaw: None, hook: None }
    }

    /// Makes it give no more than snapshot isolation.
    #[must_use]
    pub fn on_snapshots(mut self) -> Self {
        self.isolation = Isolation::Snapshot;
        self
    }

    /// Makes it leave out a step.
    #[must_use]
    pub fn with(mut self, flaw: Flaw) -> Self {
        self.flaw = Some(flaw);
        self
    }

    /// Calls `hook` before a thread takes the engine's lock, and again and again while another one
    /// has it. Without this a thread waits for it asleep.
    #[must_use]
    pub fn at_lock(mut self, hook: impl Fn(At) + Send + Sync + 'static) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    fn root(&self, inner: Box<dyn Engine>, catalog: &Arc<Catalog>) -> Box<dyn Engine> {
        let Self { isolation, flaw, hook } = self.clone();
        let shared = Shared::new(inner, catalog.clone(), isolation, flaw, hook);
        Box::new(Session::root(shared))
    }
}

impl<E: Environment> Maker<E> for Optimistic {
    fn name(&self) -> &str {
        NAME
    }

    fn traits(&self) -> EngineTraits {
        EngineTraits {
            durable_in: DurableIn::Pool,
            concurrency: Concurrency::Shared,
            isolation: self.isolation,
            usual_isolation: self.isolation,
            snapshots: false,
            unfinished: Unfinished::Undone,
            larger_than_memory: true,
        }
    }

    fn create(
        &self,
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
    ) -> Result<Box<dyn Engine>, EngineError> {
        let inner = NvmInp::create(resources, catalog, setup, &below(setup))?;
        Ok(self.root(Box::new(inner), catalog))
    }

    fn open(
        &self,
        resources: Resources<E>,
        catalog: &Arc<Catalog>,
        setup: &Setup,
    ) -> Result<(Box<dyn Engine>, RecoveryReport), EngineError> {
        let (inner, report) = NvmInp::open(resources, catalog, setup, &below(setup))?;
        Ok((self.root(Box::new(inner), catalog), report))
    }
}

/// The options of the engine that keeps what is committed.
fn below(setup: &Setup) -> NvmInpOptions {
    NvmInpOptions { node_bytes: setup.node_bytes }
}
